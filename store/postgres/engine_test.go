package postgres

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// What a change did to the facts is done to memory where that stands at the version before
// it; where others have loaded newer ones, they are not undone.
func TestApply(t *testing.T) {
	for _, tt := range []struct {
		name         string
		at, from, to int64 // versions: memory's, and those of the change
		puts         bool
		version      int64
		made         bool
	}{
		{"a change of facts", 5, 5, 7, true, 7, true},
		{"facts that others have loaded", 7, 5, 7, true, 7, false},
		{"facts that others have loaded and changed", 9, 5, 7, true, 9, false},
		{"what is no fact", 5, 4, 0, true, 5, true},
		{"nothing", 5, 5, 0, false, 5, false},
		{"facts of others alone", 5, 5, 7, false, 7, false},
	} {
		p := &Engine{Env: engine.NewEnv(engine.Options{})}
		p.Memory.Version = tt.at
		tx := engine.NewTx(t.Context(), p.Env, nil, statements{})
		if tt.puts {
			tx.Put(facts.PersonChange{Person: org.Person{ID: "ada"}})
		}
		p.apply(tt.from, tt.to, tx)
		changes := map[bool]int64{true: 1}[tt.made]
		if made := p.Memory.People.Get("ada") != nil; made != tt.made || p.Version() != tt.version || p.Memory.Changes != changes {
			t.Errorf("%s: made %v, version %d, %d changes", tt.name, made, p.Version(), p.Memory.Changes)
		}
		p.Memory.Lock() // it is free again
	}
}

// Of clients that were added together each is told what became of it, of two with one ID the
// first is there, and memory has them where it has seen all that was before.
func TestRegistered(t *testing.T) {
	for _, seen := range []bool{true, false} {
		var told []string
		p := &Engine{Env: engine.NewEnv(engine.Options{Journaled: func(e engine.Event) { told = append(told, string(e.Kind)+" "+e.Client+" "+e.Actor) }})}
		p.Memory.Version = 5
		if !seen {
			p.Memory.Version = 4
		}
		all := []*registration{}
		for _, id := range []string{"quill", "brass", "quill", "other"} {
			at, _, _ := p.Memory.Reserve(facts.Weight{Bytes: 10}, func(_, _ facts.Held) string { return "" })
			all = append(all, &registration{client: client.Client{ID: id}, at: at, act: engine.Act{Actor: "anna"}})
		}
		if next := p.registered(all, 5, 8, map[string]bool{"quill": true, "other": true}); next != seen {
			t.Errorf("seen all before: %v, want %v", next, seen)
		}
		for i, want := range []bool{true, false, false, true} {
			if r := all[i]; (r.err == nil) != want || !want && !errors.Is(r.err, engine.ErrConflict) {
				t.Errorf("%d: %v", i, r.err)
			}
		}
		want := []string{string(journal.ClientRegistered) + " quill anna", string(journal.ClientRegistered) + " other anna"}
		if fmt.Sprint(told) != fmt.Sprint(want) {
			t.Errorf("told of %q", told)
		}
		m := p.Memory
		version, changes, there, arriving := int64(4), int64(0), 0, 4
		if seen {
			version, changes, there, arriving = 8, 1, 2, 2
		}
		if m.Version != version || m.Changes != changes || len(m.Clients) != there || m.Waiting.Clients != there || m.Arriving.Clients != arriving {
			t.Errorf("memory at %d, %d changes, %d clients, %d wait, %d arrive", m.Version, m.Changes, len(m.Clients), m.Waiting.Clients, m.Arriving.Clients)
		}
		m.Lock() // it is free again
	}
}

// A failure is told once, as one for which nothing has happened, with what the database said.
func TestUnavailable(t *testing.T) {
	p := &Engine{Env: engine.NewEnv(engine.Options{})}
	if err := p.unavailable("move", nil); err != nil {
		t.Error(err)
	}
	waiting := fmt.Errorf("waiting: %w", engine.ErrUnavailable)
	if err := p.unavailable("move", waiting); err != waiting || p.Refused().Cause != "" {
		t.Errorf("%v, %+v", err, p.Refused())
	}
	full := &pgconn.PgError{Code: "53100"}
	if err := p.unavailable("move", full); !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, full) || p.Refused().Cause != engine.FullDisk {
		t.Errorf("%v, %+v", err, p.Refused())
	}
	if p.tell(nil); p.Refused().Over {
		t.Error("nothing was written, and the disk counts as free")
	}
	if p.tell([]engine.Event{{}}); !p.Refused().Over {
		t.Error("something was written, and the disk counts as full")
	}
}

// A token from the future is noted for whoever asks whether the database went back.
func TestTellOfATokenFromTheFuture(t *testing.T) {
	p := away(t, "postgres://guest@db.example/keeper")
	for n, e := range []engine.Event{{Kind: journal.ApprovalEnded, Reason: "unused"}, {Kind: journal.ApprovalEnded, Reason: "state_lost"}} {
		if p.tell([]engine.Event{e}); len(p.notes.Items) != n {
			t.Errorf("%s: %d notes", e.Reason, len(p.notes.Items))
		}
	}
}

// Who waits for the changes before gives up when its own time is over, and has changed nothing.
func TestChangesWaitForTheirOwnTime(t *testing.T) {
	p := away(t, "postgres://guest@db.example/keeper")
	p.changeSlot <- struct{}{}
	err := p.change(time.Nanosecond, func(*engine.Tx) error { t.Error("changed"); return nil })
	if !errors.Is(err, engine.ErrUnavailable) || len(p.changeSlot) != 1 {
		t.Errorf("%v, the slot of the one before is taken: %d", err, len(p.changeSlot))
	}
}
