package postgres

import (
	"encoding/binary"
	"maps"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Of each approval the last use is kept until it is taken, and what could not be written is
// kept once more, behind what came meanwhile.
func TestUsesWait(t *testing.T) {
	var u uses
	one, two := approval.ID{1}, approval.ID{2}
	if !u.none() {
		t.Error("there are some at the beginning")
	}
	u.see(one, 5)
	u.see(two, 7)
	u.see(one, 4)
	if u.none() {
		t.Error("none, after three")
	}
	due := u.take()
	if want := (map[approval.ID]uint32{one: 5, two: 7}); !maps.Equal(due, want) || !u.none() {
		t.Errorf("%v, want %v; none is left: %v", due, want, u.none())
	}
	u.see(one, 9)
	u.giveBack(due)
	if got, want := u.take(), (map[approval.ID]uint32{one: 9, two: 7}); !maps.Equal(got, want) {
		t.Errorf("given back: %v, want %v", got, want)
	}
	if u.giveBack(nil); !u.none() {
		t.Error("nothing was given back")
	}
}

// What there is no room for is forgotten.
func TestUsesAreBounded(t *testing.T) {
	var u uses
	for n := range maxUses + 1 {
		var id approval.ID
		binary.BigEndian.PutUint32(id[:], uint32(n))
		u.see(id, 1)
	}
	if got := len(u.take()); got != 500_000 {
		t.Errorf("%d are kept", got)
	}
}
