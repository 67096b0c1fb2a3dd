package store

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
)

func TestClientUses(t *testing.T) {
	h := furnished(t)
	a := h.answer(1)
	first := h.live(t, a)
	h.live(t, h.answer(2))
	b := h.answer(3)
	b.Grant = grantset.Set{Kind: grantset.Everything}
	if _, _, err := h.Approve(t.Context(), b, Act{}); err != nil { // its code waits
		t.Fatal(err)
	}
	same := func(when string, want map[string]ClientUse) {
		t.Helper()
		if err := h.Ready(t.Context()); err != nil { // after the uses are written
			t.Fatal(err)
		}
		got, err := h.ClientUses(t.Context())
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: %v %v, want %v", when, got, err, want)
		}
	}
	used, err := h.ClientUses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same("two live", map[string]ClientUse{a.Client: {Live: 2, LastUsed: used[a.Client].LastUsed}})
	h.clock.add(2 * time.Hour)
	h.Used(first)
	same("one used", map[string]ClientUse{a.Client: {Live: 2, LastUsed: h.Now().Unix()}})
	r, err := h.ClientReach(t.Context(), a.Client)
	if err != nil || r.Approvals != 3 || r.People != 1 || len(r.Organizations) != 1 || r.Organizations[0].ID != a.Organization ||
		r.Organizations[0].Approvals != 3 || r.Organizations[0].People != 1 || r.Organizations[0].Name == "" {
		t.Errorf("reach %+v %v", r, err)
	}
	if err := h.SetClientEnabled(t.Context(), a.Client, false, Act{}); err != nil {
		t.Fatal(err)
	}
	same("disabled", map[string]ClientUse{})
	if got, err := h.LastUses(t.Context(), []string{a.Client, "nobody's"}); err != nil || !maps.Equal(got, map[string]int64{a.Client: h.Now().Unix()}) {
		t.Errorf("last uses of what has ended: %v %v", got, err)
	}
	if got, err := h.LastUses(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("last uses of none: %v %v", got, err)
	}
	if r, err := h.ClientReach(t.Context(), a.Client); err != nil || r.Approvals != 0 || len(r.Organizations) != 0 {
		t.Errorf("reach of a disabled client: %+v %v", r, err)
	}
}

func TestCountEvents(t *testing.T) {
	h := furnished(t)
	begin := h.Now().Unix()/3600*3600 + 3600
	h.clock.add(time.Duration(begin-h.Now().Unix()) * time.Second)
	note := func(kind journal.Kind, address string) {
		t.Helper()
		h.Record(Event{Kind: kind, Address: address})
		h.Record(Event{Kind: kind, Address: address, Client: "drill.a"}) // which nobody is told of
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	note("rate_limited", "192.0.2.1")
	note("signin_failed", "192.0.2.9")
	h.clock.add(59 * time.Minute)
	note("rate_limited", "192.0.2.2")
	h.clock.add(time.Minute)
	note("rate_limited", "192.0.2.1")
	note("refresh_reused", "")
	got, err := h.CountEvents(t.Context(), []journal.Kind{"rate_limited", "refresh_reused"}, begin, 3600, 3)
	if err != nil || len(got) != 2 || !slices.Equal(got["rate_limited"], []uint64{2, 1, 0}) || !slices.Equal(got["refresh_reused"], []uint64{0, 1, 0}) {
		t.Errorf("by the hour: %v %v", got, err)
	}
	for since, want := range map[int64]int{begin: 2, begin + 3600: 1, begin + 7200: 0} {
		if n, one, err := h.LimitedAddresses(t.Context(), since); n != want || err != nil || (one == "192.0.2.1") != (n > 0) {
			t.Errorf("addresses since %d: %d %q %v", since-begin, n, one, err)
		}
	}
	list := func(f EventFilter) (kinds []string) {
		t.Helper()
		f.NoDrills = true
		events, _, err := h.Events(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			kinds = append(kinds, string(e.Kind))
		}
		return kinds
	}
	if got := list(EventFilter{Kinds: []journal.Kind{"refresh_reused", "signin_failed"}}); !slices.Equal(got, []string{"refresh_reused", "signin_failed"}) {
		t.Errorf("of two kinds: %v", got)
	}
	if got := list(EventFilter{Since: begin + 3600}); !slices.Equal(got, []string{"refresh_reused", "rate_limited"}) {
		t.Errorf("of the second hour: %v", got)
	}
	if got := list(EventFilter{Since: begin + 3599, Until: begin + 3600}); len(got) != 0 {
		t.Errorf("of a second without any: %v", got)
	}
}
