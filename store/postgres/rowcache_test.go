package postgres

import (
	"fmt"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// What is remembered of a row keeps the last use, as its code is forgotten and moves
// come that are no use.
func TestRowCacheKeepsTheUse(t *testing.T) {
	c := rowCache{Most: 10}
	id := approval.ID{1}
	r := &row{Used: 5}
	r.A.ID, r.A.Phase, r.A.Generation, r.A.Challenge = id, approval.Live, 1, "c"
	c.learn(id, r, 1)
	want := func(what string, used uint32) {
		t.Helper()
		if at := c.Get(id); at == nil || at.Used != used || at.A.Challenge != "" {
			t.Errorf("%s: %+v, want use %d", what, at, used)
		}
	}
	want("read with its code", 5)
	for generation, used := range []uint32{0, 9, 7} {
		c.moved(id, approval.State{Phase: approval.Live, Generation: 2 + int64(generation)}, used, 2)
		want(fmt.Sprintf("after a use at %d", used), []uint32{5, 9, 9}[generation])
	}
}
