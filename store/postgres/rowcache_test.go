package postgres

import (
	"fmt"
	"testing"
	"time"

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

// What a read does not find to live has ended, and neither an older read nor a move that
// began before brings it back; what was read later stays, and what was not asked for in a
// while is forgotten.
func TestRowCacheOfWhatHasEnded(t *testing.T) {
	live := func(n byte, generation int64, began int64) *row {
		r := &row{}
		r.A.ID, r.A.Phase, r.A.Generation = approval.ID{n}, approval.Live, generation
		r.Read.Store(began)
		return r
	}
	c := rowCache{Most: 100}
	generation := func(n byte) int64 {
		if at := c.Get(approval.ID{n}); at != nil {
			return at.A.Generation
		}
		return 0
	}
	want := func(what string, all ...int64) {
		t.Helper()
		for i, g := range all {
			if got := generation(byte(i + 1)); got != g {
				t.Errorf("%s: approval %d is remembered at generation %d, want %d", what, i+1, got, g)
			}
		}
	}
	put := func(began int64, ids []byte, found ...*row) {
		r := &Reading{Began: began}
		r.Begin(Wholes)
		r.Began = began
		for _, n := range ids {
			r.ids, r.known[approval.ID{n}] = append(r.ids, approval.ID{n}), c.Get(approval.ID{n})
		}
		for _, one := range found {
			r.Rows[one.A.ID] = one
		}
		c.Put(r)
	}
	put(10, []byte{1, 2, 3}, live(1, 1, 10), live(2, 1, 10))
	want("read", 1, 1, 0)
	put(20, []byte{1, 2, 3}, live(2, 1, 20))
	want("one was not found", 0, 1, 0)
	put(15, []byte{1, 2}, live(1, 1, 15), live(2, 1, 15))
	want("an older read", 0, 1, 0)
	c.moved(approval.ID{1}, approval.State{Phase: approval.Live, Generation: 2}, 0, 30)
	c.moved(approval.ID{2}, approval.State{Phase: approval.Live, Generation: 3}, 0, 30)
	want("moves", 0, 3, 0)
	put(40, []byte{2}, live(2, 2, 40))
	want("a read of before a move", 0, 3, 0)
	c.moved(approval.ID{2}, approval.State{Phase: approval.Live, Generation: 2}, 0, 50)
	want("a move of before", 0, 3, 0)
	c.moved(approval.ID{2}, approval.State{Phase: approval.Ended, Generation: 3}, 0, 60)
	want("an end", 0, 0, 0)
	put(55, []byte{2}, live(2, 3, 55))
	want("a read that began before the end", 0, 0, 0)
	c.Drop(approval.ID{2})
	put(70, []byte{2}, live(2, 4, 70))
	want("dropped, and read anew", 0, 4, 0)
	waits := live(3, 0, 80)
	waits.A.Phase = approval.CodeIssued
	put(80, []byte{3}, waits)
	want("a code that waits", 0, 4, 0)
	c.clear()
	want("cleared", 0, 0, 0)
	c.Most = 4
	for n := byte(1); n <= 6; n++ {
		put(90, []byte{n}, live(n, 1, 90))
	}
	want("no room for all", 0, 0, 1, 1, 1, 1)
	put(100, []byte{5}, live(5, 2, 100))
	want("one that is there needs no room", 0, 0, 1, 1, 2, 1)
}

// What only a code asks for is not remembered, and a row without any of it is as it was read.
func TestBareRows(t *testing.T) {
	for _, tt := range []struct {
		challenge, replaces string
		same                bool
	}{{"", "", true}, {"c", "", false}, {"", "other", false}, {"c", "other", false}} {
		r := &row{Picks: "p", Used: 5, replaces: tt.replaces}
		r.A = approval.Approval{ID: approval.ID{1}, Client: "quill", RedirectURI: "u", Issuer: "i", Challenge: tt.challenge}
		r.Read.Store(7)
		got := r.bare()
		if (got == r) != tt.same || got.A.Client != "quill" || got.A.ID != r.A.ID || got.Picks != "p" || got.Used != 5 || got.Read.Load() != 7 {
			t.Errorf("%+v: %+v", tt, got)
		}
		if !tt.same && (got.A.RedirectURI != "" || got.A.Issuer != "" || got.A.Challenge != "" || got.replaces != "") {
			t.Errorf("%+v: still there: %+v", tt, got)
		}
	}
}

// A row was found as it is by the newest read that found it so.
func TestRowsFoundAgain(t *testing.T) {
	var r row
	for n, step := range [][2]int64{{5, 5}, {3, 5}, {5, 5}, {9, 9}} {
		if r.found(step[0]); r.Read.Load() != step[1] {
			t.Errorf("step %d: found at %d, want %d", n, r.Read.Load(), step[1])
		}
	}
	if hour := Moment(time.Now()); hour < int64(time.Hour) || Moment(processStart) != 0 || Moment(processStart.Add(time.Second)) != int64(time.Second) {
		t.Errorf("the process began %v ago", time.Duration(hour))
	}
}
