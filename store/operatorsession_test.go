package store

import (
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
)

// A named operator's session (decision O7) is over after an hour unused and after 12
// hours; every node serves it, and one that is ended on one is ended on all.
func TestOperatorSessions(t *testing.T) {
	all := nodes(t, 2)
	h, last := all[0], all[1]
	as := OperatorSession{Operator: "ingrid", Way: "password", Bound: "b"}
	by := Act{Actor: "operator:ingrid", Address: "203.0.113.9"}
	stands := func(value string, want bool) {
		t.Helper()
		for _, s := range all {
			got, err := s.OperatorSession(ctx, value)
			if want && (err != nil || got.Operator != "ingrid" || got.Way != "password" || got.Bound != "b") || !want && !errors.Is(err, ErrNotFound) {
				t.Errorf("%s: %+v, %v; want %v", value, got, err, want)
			}
		}
	}
	for _, value := range []string{"used", "unused", "left"} {
		if err := h.BeginOperatorSession(ctx, value, as, by); err != nil {
			t.Fatal(err)
		}
		stands(value, true)
	}
	if err := errors.Join(last.EndOperatorSession(ctx, "left", by), h.EndOperatorSession(ctx, "left", by)); err != nil {
		t.Fatal(err)
	}
	stands("left", false)
	stands("nothing", false)
	for range 13 {
		h.clock.add(55 * time.Minute)
		stands("used", true)
		if err := errors.Join(h.Ready(ctx), last.Ready(ctx)); err != nil { // its last sight is written
			t.Fatal(err)
		}
	}
	stands("unused", false)
	h.clock.add(4*time.Minute + 58*time.Second)
	stands("used", true)
	h.clock.add(2 * time.Second)
	stands("used", false) // 12 hours
	due, err := h.Expired(ctx, h.Now())
	if err != nil || due.Sessions != 2 {
		t.Errorf("%d sessions are over: %v", due.Sessions, err)
	}
	if out, err := h.Sweep(ctx); err != nil || out.Sessions != 2 {
		t.Errorf("%d sessions were deleted: %v", out.Sessions, err)
	}
	entries, _, err := h.Events(ctx, EventFilter{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	count := map[journal.Kind]int{}
	for _, e := range entries {
		count[e.Kind]++
	}
	if count[journal.OperatorSignedIn] != 3 || count[journal.OperatorSignedOut] != 1 {
		t.Errorf("journal: %v", count)
	}
}
