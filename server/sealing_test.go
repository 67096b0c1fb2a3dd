package server

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// The anchor of a new block is told, no more often than is asked for; that the journal
// went back is told at once.
func TestAnchorsAreTold(t *testing.T) {
	t.Parallel()
	now, out := time.Unix(1_800_000_000, 0), &safeBuffer{}
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "a.db"), Ring: ring, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	s := &Server{store: st, log: slog.New(slog.NewTextHandler(out, nil))}
	a := anchors{every: time.Hour}
	turn := func(after time.Duration) {
		st.Record(store.Event{Kind: journal.RateLimited})
		if err := st.Ready(t.Context()); err != nil { // written behind it
			t.Fatal(err)
		}
		now = now.Add(after)
		s.seal(t.Context(), &a, now)
	}
	told := func() (all []chain.Anchor) {
		all, err := chain.FindAnchors(out.String())
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	turn(0)
	if len(told()) != 0 || s.anchored.Load() != nil {
		t.Errorf("of nothing: %s", out)
	}
	turn(time.Minute)
	first := told()
	if len(first) != 1 || first[0] != a.newest || *s.anchored.Load() != first[0] {
		t.Errorf("the first: %s", out)
	}
	turn(30 * time.Minute)
	if len(told()) != 1 {
		t.Errorf("too soon: %s", out)
	}
	turn(30 * time.Minute)
	if got := told(); len(got) != 2 || got[1] != a.newest || got[1].Number <= got[0].Number {
		t.Errorf("after an hour: %s", out)
	}
	s.seal(t.Context(), &a, now.Add(2*time.Hour))
	if len(told()) != 2 {
		t.Errorf("nothing new: %s", out)
	}
	quiet := anchors{every: time.Hour, quiet: true}
	s.seal(t.Context(), &quiet, now)
	off := anchors{}
	s.seal(t.Context(), &off, now)
	if len(told()) != 2 || quiet.told != a.newest || off.told != (chain.Anchor{}) {
		t.Errorf("quiet, and off: %s", out)
	}
	a.newest.Number++
	s.seal(t.Context(), &a, now)
	a.newest.Sum[0]++
	s.seal(t.Context(), &a, now)
	if n := strings.Count(out.String(), "level=ERROR"); n != 2 || len(told()) != 6 {
		t.Errorf("%d times told that it went back: %s", n, out)
	}
}
