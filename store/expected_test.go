package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Moves that were made up: what each makes of a refresh.
var invented = map[string]func(generation int64, now time.Time) approval.Move{
	"as it is": func(g int64, now time.Time) approval.Move { return approval.Refresh("quill", g, 7, now) },
	"refuses, and moves nothing": func(g int64, now time.Time) approval.Move {
		return func(a approval.Approval, _ approval.Standing) (approval.State, approval.Verdict) {
			return a.State, approval.Expired
		}
	},
	"refuses every other one": func(g int64, now time.Time) approval.Move {
		return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
			if a.Generation%2 == 1 {
				return a.State, approval.Expired
			}
			return approval.Refresh("quill", g, 7, now)(a, s)
		}
	},
	"ends": func(g int64, now time.Time) approval.Move { return approval.End(approval.RevokedByClient, now) },
	"goes on, and refuses": func(g int64, now time.Time) approval.Move {
		return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
			next, v := approval.Refresh("quill", g, 7, now)(a, s)
			if v == approval.OK {
				v = approval.Expired
			}
			return next, v
		}
	},
	"goes two on": func(g int64, now time.Time) approval.Move {
		return func(a approval.Approval, s approval.Standing) (approval.State, approval.Verdict) {
			next, v := approval.Refresh("quill", g, 7, now)(a, s)
			if v == approval.OK {
				next.Generation++
			}
			return next, v
		}
	},
}

// A move that is asked about an expected row gives the same verdict, and leaves
// the same row, as one that reads it: what refuses moves nothing, and is no
// theft. It holds on both engines, for moves that do not exist.
func TestExpectedMovesAreMoves(t *testing.T) {
	t.Parallel()
	page := 0
	for name, invent := range invented {
		h := furnished(t)
		var got, want []string
		for _, expected := range []bool{true, false} {
			page++
			id := h.live(t, h.answer(byte(page)))
			var told []string
			for _, g := range []int64{1, 1, 2, 3, 2, 5} {
				m := invent(g, h.Now())
				var after int64
				var v approval.Verdict
				var err error
				if expected {
					after, v, err = h.ApplyExpected(ctx, approval.Expected(id, "quill", g), m, Act{Address: "192.0.2.1", Generation: g})
				} else {
					var a approval.Approval
					a, v, err = h.ApplyLive(ctx, id, m, Act{Address: "192.0.2.1", Generation: g})
					after = a.Generation
				}
				if err != nil {
					t.Fatal(err)
				}
				a, err := h.Approval(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				a.EndedAt = 0
				told = append(told, fmt.Sprintf("%d: %s, %d, %+v", g, v, after, a.State))
			}
			if expected {
				got = told
			} else {
				want = told
			}
		}
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("%s: %s, want %s", name, got[i], want[i])
			}
		}
	}
}
