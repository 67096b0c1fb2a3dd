package store

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// What has ended because nobody used it is in the list of what has ended from
// that moment on, and in no other, before a sweep has marked it as well as after.
func TestUnusedAreListedAsEnded(t *testing.T) {
	ctx := context.Background()
	h := furnished(t).ending(t, 90*day)
	lists := map[string][]string{}
	add := func(state string, nonce byte) {
		t.Helper()
		lists[state] = append(lists[state], h.live(t, h.answer(nonce)).String())
		h.clock.add(time.Second)
	}
	for i := range byte(6) {
		add("ended", i)
	}
	h.clock.add(91 * day)
	handle, _, err := h.Approve(ctx, h.answer(20), Act{})
	if err != nil {
		t.Fatal(err)
	}
	lists["ended"] = append(lists["ended"], approval.ID(handle.ID()).String()) // its code expires
	h.clock.add(time.Hour)
	for i := range byte(3) {
		add("live", 10+i)
	}
	for _, swept := range []bool{false, true} {
		if swept {
			if _, err := h.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []ApprovalFilter{{}, {Person: "ada"}, {Client: "quill", Organization: "nordlys"}} {
			for state, want := range lists {
				want = slices.Clone(want)
				slices.Reverse(want)
				f.State = state
				walkAs(t, state, want, false, h.pagesOf(f))
			}
		}
	}
}
