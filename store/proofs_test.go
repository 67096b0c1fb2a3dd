package store

import (
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// proof is one by a key, of those of a test.
func (h house) proof(key, n byte) Proof {
	return Proof{Key: approval.Thumbprint{key}, ID: [32]byte{key, n}, Until: h.Now().Unix() + 300}
}

// boundTo gives an approval whose exchange has bound it to a key.
func (h house) boundTo(t *testing.T, a Answer, by Proof) approval.ID {
	t.Helper()
	handle, issued, err := h.Approve(ctx, a, Act{})
	if err != nil {
		t.Fatal(err)
	}
	id := approval.ID(handle.ID())
	if _, v, err := h.Apply(ctx, id, approval.Exchange("quill", issuer, redirect, verifier, issued, 1, h.Now()), Act{Proof: by}); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	return id
}

// A refresh of an approval that is bound to a key is saved without reading the row, as
// any is, where the key is the one, and the proof is new.
func TestARefreshWithAKeyWaitsForNoRow(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	neverLate(h.postgres()) // else a machine that is busy leaves refreshes to the moves
	h.postgres().Pace.Slow.Store(false)
	id, plain := h.boundTo(t, h.unique(1), h.proof(1, 1)), h.live(t, h.unique(2))
	expecting := func(id approval.ID, generation int64, bound approval.Thumbprint, by Proof) bool {
		t.Helper()
		expected := approval.Expected(id, "quill", generation)
		expected.Bound = bound
		after, err := h.postgres().MoveExpected(expected, approval.Refresh("quill", generation, 1, h.Now()), Act{Proof: by})
		if err != nil {
			t.Fatal(err)
		}
		return after != approval.State{}
	}
	one, none := approval.Thumbprint{1}, approval.Thumbprint{}
	for name, saved := range map[string]bool{
		"without a key":               expecting(id, 1, none, Proof{}),
		"another key":                 expecting(id, 1, approval.Thumbprint{2}, h.proof(2, 2)),
		"no proof of the key":         expecting(id, 1, one, Proof{}),
		"a proof that was used":       expecting(id, 1, one, h.proof(1, 1)),
		"a key, of one without":       expecting(plain, 1, one, h.proof(1, 3)),
		"a used token":                expecting(id, 0, one, h.proof(1, 4)),
		"a token ahead":               expecting(id, 2, one, h.proof(1, 5)),
		"of an approval that is none": expecting(approval.ID{1}, 1, one, h.proof(1, 6)),
	} {
		if saved {
			t.Errorf("%s: saved", name)
		}
	}
	if !expecting(id, 1, one, h.proof(1, 4)) { // which was refused before: it is not used up
		t.Error("the right one was not saved")
	}
	// The queue of moves, which read rows, is held meanwhile.
	h.postgres().Moves.Mu.Lock()
	defer h.postgres().Moves.Mu.Unlock()
	done := make(chan approval.Verdict, 1)
	go func() {
		_, v, _ := h.Refresh(ctx, id, "quill", 2, 1, Act{Proof: h.proof(1, 7)})
		done <- v
	}()
	select {
	case v := <-done:
		if v != approval.OK {
			t.Error(v)
		}
	case <-time.After(time.Minute):
		t.Error("the refresh waits for a move")
	}
}

// Of those that one proof was sent for at once, a statement saves one, whatever else they
// are.
func TestOneProofTwiceInAGroup(t *testing.T) {
	if embedded() {
		return
	}
	h := nodes(t, 1)[0]
	a, b := h.boundTo(t, h.unique(1), h.proof(1, 1)), h.boundTo(t, h.unique(2), h.proof(1, 2))
	refresh := func(id approval.ID, by Proof) *postgres.Refresh {
		r := &postgres.Refresh{ID: id, Client: "quill", Generation: 1, Bound: by.Key, Proof: by, Since: time.Now()}
		r.Move = Act{Proof: by}.On(approval.Refresh("quill", 1, 1, h.Now()))
		expected := approval.Expected(id, "quill", 1)
		expected.Bound = by.Key
		r.After, _ = r.Move(expected, approval.Standing{})
		return r
	}
	both := []*postgres.Refresh{refresh(a, h.proof(1, 3)), refresh(b, h.proof(1, 3))}
	h.postgres().SaveTogether(both, map[approval.ID]*postgres.Refresh{})
	if both[0].Saved == both[1].Saved || both[0].Err != nil || both[1].Err != nil {
		t.Errorf("refreshes: %s", became(both))
	}
	if h.generation(t, a)+h.generation(t, b) != 3 {
		t.Errorf("generations %d and %d", h.generation(t, a), h.generation(t, b))
	}

	exchange := func(n int, by byte) *postgres.MoveRequest {
		handle, issued, err := h.Approve(ctx, h.unique(n), Act{})
		if err != nil {
			t.Fatal(err)
		}
		act := Act{Proof: h.proof(1, by)}
		return &postgres.MoveRequest{ID: approval.ID(handle.ID()), Act: act, Done: make(chan struct{}, 1), Since: time.Now(),
			Move: act.On(approval.Exchange("quill", issuer, redirect, verifier, issued, 1, h.Now()))}
	}
	codes := []*postgres.MoveRequest{exchange(3, 4), exchange(4, 4), exchange(5, 5)} // the last has one of its own
	h.postgres().MakeTogether(codes)
	told := map[approval.Verdict]int{}
	for _, o := range codes {
		<-o.Done
		if told[o.Verdict]++; o.Err != nil {
			t.Error(o.Err)
		}
		if o.Verdict == approval.OK && o.Tries != 0 {
			t.Errorf("the one that was saved was tried %d times before", o.Tries)
		}
	}
	if told[approval.OK] != 2 || codes[1].Verdict != approval.Replayed {
		t.Errorf("exchanges: %v", told)
	}
}
