package store

import (
	"context"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// A used refresh token that comes back says in the journal how old it was,
// whether its successor was used, and whether it came from one network with
// the current one: so whether it looks like copies or like theft. What is
// compared outlives a restart.
func TestReuseIsExplained(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name      string
		refreshed []string // from where, in turn; the first exchanges
		from      string
		presented int64
		reason    string
		detail    string
	}{
		{"the one before, from the same /24", []string{"192.0.2.1", "192.0.2.1"}, "192.0.2.200", 1, LooksLikeCopies,
			"refresh token 1 of 2, 1 old; its successor was not used; from the network that the current one was given to"},
		{"an older one, from the same /48", []string{"2001:db8:1::1", "2001:db8:1::1", "2001:db8:1:2::1"}, "2001:db8:1:ffff::9", 1, LooksLikeCopies,
			"refresh token 1 of 3, 2 old; its successor was used too; from the network that the current one was given to"},
		{"from elsewhere", []string{"192.0.2.1", "192.0.2.1"}, "198.51.100.7", 1, LooksLikeTheft,
			"refresh token 1 of 2, 1 old; its successor was not used; from another network than the current one was given to"},
		{"from where the older ones were given to", []string{"192.0.2.1", "198.51.100.7", "198.51.100.7"}, "192.0.2.1", 2, LooksLikeTheft,
			"refresh token 2 of 3, 1 old; its successor was not used; from another network than the current one was given to"},
		{"in another spelling", []string{"192.0.2.1", "::ffff:192.0.2.1"}, "192.0.2.9", 1, LooksLikeCopies, ""},
		{"from nowhere", []string{"192.0.2.1", "192.0.2.1"}, "", 1, LooksUnknown, ""},
		{"given to nowhere", []string{"", ""}, "192.0.2.1", 1, LooksUnknown,
			"refresh token 1 of 2, 1 old; its successor was not used; its network cannot be compared"},
	} {
		for _, restarted := range []bool{false, true} {
			h := furnished(t)
			handle, issued, err := h.Approve(ctx, h.answer(1), Act{})
			if err != nil {
				t.Fatal(err)
			}
			id := approval.ID(handle.ID())
			for i, from := range tt.refreshed {
				act := Act{Address: from, Generation: int64(i)}
				move := approval.Refresh("quill", int64(i), 1, h.Now())
				if i == 0 {
					move = approval.Exchange("quill", issuer, redirect, verifier, issued, 1, h.Now())
				}
				if _, v, err := h.ApplyLive(ctx, id, move, act); v != approval.OK || err != nil {
					t.Fatal(tt.name, i, v, err)
				}
			}
			h.same(t, tt.name)
			if restarted {
				h = h.reopen(t)
			}
			act := Act{Actor: "client:quill", Address: tt.from, Generation: tt.presented}
			if _, v, err := h.Refresh(ctx, id, "quill", tt.presented, 1, act); v != approval.Reused || err != nil {
				t.Fatal(tt.name, v, err)
			}
			events, _, err := h.Events(ctx, EventFilter{Kind: "refresh_reused"})
			if err != nil || len(events) != 1 || events[0].Reason != tt.reason || events[0].Approval != id.String() || events[0].Address != tt.from ||
				tt.detail != "" && events[0].Detail != tt.detail {
				t.Errorf("%s, restarted %v: %+v, %v", tt.name, restarted, events, err)
			}
			ended, _, err := h.Events(ctx, EventFilter{Kind: "approval_ended"})
			if err != nil || len(ended) != 1 || ended[0].Reason != "refresh_reused" {
				t.Errorf("%s: %+v, %v", tt.name, ended, err)
			}
			if how, err := h.Reuse(ctx, id); err != nil || how != tt.reason {
				t.Errorf("%s: told as %q, %v", tt.name, how, err)
			}
		}
	}
}
