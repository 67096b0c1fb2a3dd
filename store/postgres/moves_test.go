package postgres

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Of one approval one move is under way: the others come after it in their order, each when
// the one before is answered, and one that is made again keeps its turn.
func TestMovesOfOneApproval(t *testing.T) {
	var q moveQueue
	q.init()
	move := func(id byte) *MoveRequest {
		o := newMoveRequest().(*MoveRequest)
		o.ID = approval.ID{id}
		q.Join(o)
		return o
	}
	a, b, c, other := move(1), move(1), move(1), move(2)
	last := (*MoveRequest)(nil)
	for n, step := range []struct {
		do   func()
		want []*MoveRequest
	}{
		{func() {}, []*MoveRequest{a, other}},
		{func() { q.again(a) }, []*MoveRequest{a}},
		{func() { q.finish(other) }, nil},
		{func() { q.finish(a) }, []*MoveRequest{b}},
		{func() { q.finish(b) }, []*MoveRequest{c}},
		{func() { q.finish(c) }, nil},
		{func() { last = move(1) }, nil},
	} {
		step.do()
		if last != nil {
			step.want = []*MoveRequest{last}
		}
		q.Mu.Lock()
		got := append([]*MoveRequest{}, q.Items...)
		q.Items = nil
		q.Mu.Unlock()
		if len(got) != len(step.want) {
			t.Fatalf("step %d: %d are to be made, want %d", n, len(got), len(step.want))
		}
		for i, o := range step.want {
			if got[i] != o {
				t.Errorf("step %d: another one is to be made", n)
			}
		}
	}
	for _, o := range []*MoveRequest{a, b, c, other} {
		select {
		case <-o.Done:
		default:
			t.Error("one that was finished is not answered")
		}
		if o.Since.IsZero() {
			t.Error("nobody knows when it came")
		}
	}
	if q.finish(last); len(q.underWay) != 0 {
		t.Errorf("%d approvals are under way, and nothing is", len(q.underWay))
	}
}
