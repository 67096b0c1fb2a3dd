package store

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
)

// A backup from before a ceiling and a block brings the rules of its time back, and no
// approval: what the block had ended stays ended, and so does all else. Where approvals
// are kept, those live that lived then, under the rules of then.
func TestRestoreFromBeforeTheRules(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	a := h.answer(1)
	a.Grant = grantset.Set{Kind: grantset.Everything}
	id := h.live(t, a)
	h.rules(t, policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Everything}})
	backup := h.backup(t)
	h.rules(t, policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: true}})
	h.rules(t, blocked("quill.example"))
	if h.accepts(t, id) {
		t.Fatal("a block ends nothing")
	}
	for _, keep := range []bool{false, true} {
		after, out := restored(t, h, backup, keep)
		if after.accepts(t, id) != keep || (out.Ended == 0) != keep {
			t.Errorf("kept %v: ended %d", keep, out.Ended)
		}
		if p, err := after.Policy(ctx, "nordlys"); err != nil || p.Ceiling.Widest != grantset.Everything || p.Ceiling.ReadOnly || len(p.Apps) != 0 || p.Version != 1 {
			t.Errorf("kept %v: %+v, %v", keep, p, err)
		}
		if keep && after.may(t, id) != "change true, own true, administer false" {
			t.Errorf("the ceiling of then: %s", after.may(t, id))
		}
	}
}
