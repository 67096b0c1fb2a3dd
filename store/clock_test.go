package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// The server has such a clock, also for a time that an earlier one has seen.
func TestTimeGoesOnAfterARestart(t *testing.T) {
	if !embedded() {
		return // the time is the database's
	}
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	ahead := open(t, path, &machine{now: time.Now().Add(24 * time.Hour)})
	if err := ahead.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	seen := ahead.Now()
	if err := ahead.Close(); err != nil {
		t.Fatal(err)
	}
	s, err := Open(context.Background(), Options{Path: path, Ring: ring(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	first := s.Now()
	if first.Unix() < seen.Unix() {
		t.Errorf("the time went back, from %v to %v", seen, first)
	}
	time.Sleep(time.Millisecond)
	if !s.Now().After(first) {
		t.Error("time stands still")
	}
}

// A clock that jumps ahead ends what has an end, and when it is back nothing comes
// back; what has none goes on, and what is new lasts as long as ever (the last
// column of docs/operations.md, What else can happen to each table).
func TestWhatAClockThatWasAheadEnds(t *testing.T) {
	ctx, h := t.Context(), furnished(t)
	live := h.live(t, h.answer(1))
	handle, issued, err := h.Approve(ctx, h.answer(2), Act{})
	done(t, err)
	done(t, h.AddSession(ctx, "session", "ada", Act{}))
	_, err = h.AddReset(ctx, "link", "ada", ResetLifetime, Act{})
	done(t, err)
	once := Entry{Value: "other", Person: "ada", Once: "an assertion", OnceUntil: h.Now().Add(time.Minute)}
	done(t, h.Enter(ctx, once, Act{}))
	if _, err := h.Session(ctx, "session"); err != nil {
		t.Fatal(err)
	}
	stands := func(when, session, link string, want bool) {
		t.Helper()
		_, inside := h.Session(ctx, session)
		_, opens := h.ResetOf(ctx, link)
		if (inside == nil) != want || (opens == nil) != want {
			t.Errorf("%s: session %v, link %v; want %v", when, inside, opens, want)
		}
	}
	generation := int64(1)
	over := func(when string) {
		t.Helper()
		stands(when, "session", "link", false)
		if v, err := h.exchange(approval.ID(handle.ID()), issued); v == approval.OK || err != nil {
			t.Errorf("%s: the code: %v %v", when, v, err)
		}
		if v, err := h.refresh(live, generation); v != approval.OK || err != nil {
			t.Errorf("%s: the approval: %v %v", when, v, err)
		}
		generation++
		if _, err := h.APIKey(ctx, "key-of-ada-in-nordlys"); err != nil {
			t.Errorf("%s: the API key: %v", when, err)
		}
		if _, err := h.Sweep(ctx); err != nil {
			t.Error(when, err)
		}
		for _, table := range []string{"session", "reset", "spent"} {
			if n := h.rows(t, `SELECT COUNT(*) FROM `+table); n != 0 {
				t.Errorf("%s: %d rows of %s", when, n, table)
			}
		}
	}
	h.clock.add(24 * time.Hour)
	seen := h.Now()
	over("ahead")
	h.clock.add(-24 * time.Hour)
	if now := h.Now(); now.Before(seen) {
		t.Errorf("the time went back, from %v to %v", seen, now)
	}
	over("back")
	done(t, h.AddSession(ctx, "new", "ada", Act{}))
	ends, err := h.AddReset(ctx, "new link", "ada", ResetLifetime, Act{})
	if err != nil || ends != h.Now().Add(ResetLifetime).Unix() {
		t.Errorf("a link ends %d, %v", ends, err)
	}
	stands("new", "new", "new link", true)
	h.clock.add(24 * time.Hour) // the clock is there: the time is that of the jump
	stands("there", "new", "new link", true)
	h.clock.add(ResetLifetime)
	if _, err := h.ResetOf(ctx, "new link"); err == nil {
		t.Error("a new link outlives its hour")
	}
	h.live(t, h.answer(3))
}
