package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// A node knows as of its last look how many live, and forgets those that have left.
func TestNodesKnowOfEachOther(t *testing.T) {
	all := nodes(t, 2)
	if embedded() {
		if n := all[0].LiveNodes(); n != 1 {
			t.Errorf("%d live, want one", n)
		}
		return
	}
	here, other := all[0], all[1]
	beat := func(h house, want int) {
		t.Helper()
		if err := h.postgres().Beat(ctx); err != nil {
			t.Fatal(err)
		}
		if n := h.LiveNodes(); n != want {
			t.Errorf("%d live, want %d", n, want)
		}
	}
	if n := here.LiveNodes(); n != 1 {
		t.Errorf("%d live when it looked last, want one", n)
	}
	beat(here, 2)
	here.sql(t, `UPDATE node SET seen_at = 0`) // both are paused for long
	beat(here, 1)
	beat(other, 2)
	beat(here, 2)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	beat(here, 1)
}

// That the schema takes newer releases alone is said when a node finds it, and not again; when
// it is as before, the node goes on and says nothing.
func TestOutgrownIsSaidOnce(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	var log bytes.Buffer
	s, err := Open(ctx, at(t, h.path, Options{Ring: h.ring, Now: h.clock.Now, Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelError}))}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for n, step := range []struct {
		oldest int
		said   int // times in all
	}{{SchemaVersion, 0}, {SchemaVersion + 1, 1}, {SchemaVersion + 1, 1}, {SchemaVersion, 1}, {SchemaVersion + 7, 2}} {
		h.sql(t, fmt.Sprintf(`UPDATE meta SET value = '%d' WHERE name = 'schema_oldest'`, step.oldest))
		if err := s.postgres().Beat(ctx); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(log.String(), "cannot work beside"); got != step.said {
			t.Errorf("step %d: said %d times, want %d", n, got, step.said)
		}
		if _, err := s.Person(ctx, "ada"); errors.Is(err, ErrUnavailable) != (step.oldest > SchemaVersion) {
			t.Errorf("step %d: %v", n, err)
		}
	}
}

// Where one connection says that its server is none any more, all others that lead there are
// given up, and where a request alone was refused none is.
func TestConnectionsAreGivenUpTogether(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h := all[0]
	idle := func() (n int) {
		var taken []*pgxpool.Conn
		for range 3 {
			c, err := h.postgres().Pool.Acquire(ctx)
			if err != nil {
				t.Fatal(err)
			}
			taken = append(taken, c)
		}
		for _, c := range taken {
			c.Release()
		}
		return int(h.postgres().Pool.Stat().NewConnsCount())
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	before := idle()
	if err := h.postgres().Beat(over); err == nil {
		t.Error("a beat with no time left")
	}
	if err := h.postgres().Beat(ctx); err != nil {
		t.Error(err)
	}
	if made := idle() - before; made != 0 {
		t.Errorf("%d connections were made anew, and all were good", made)
	}
	all[1].cutOthers(t)
	if err := h.postgres().Beat(ctx); err == nil {
		t.Error("a beat over a connection that is cut")
	}
	if err := h.postgres().Beat(ctx); err != nil {
		t.Errorf("the next: %v", err)
	}
}

// Where nothing but notes is written, and the database refuses them, it is known what is the
// matter; and that it is over once they are written, none lost.
func TestRefusedNotesAreTold(t *testing.T) {
	if embedded() {
		return
	}
	h := furnished(t)
	h.sql(t, `CREATE FUNCTION planted_full() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'planted' USING ERRCODE = '53100'; END $$`)
	h.sql(t, `CREATE TRIGGER planted BEFORE INSERT ON journal FOR EACH ROW EXECUTE FUNCTION planted_full()`)
	h.Record(Event{Kind: "signin_failed", Detail: "while it is full"})
	until(t, "it is said that the disk is full", func() bool {
		r := h.postgres().Refused()
		return r.Cause == engine.FullDisk && !r.Over
	})
	h.dropTrigger(t, "planted", "journal")
	until(t, "the note is written", func() bool {
		list, _, err := h.Events(ctx, EventFilter{Kind: "signin_failed"})
		return err == nil && len(list) == 1
	})
	until(t, "and that it is over", func() bool { return h.postgres().Refused().Over })
}
