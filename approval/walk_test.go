package approval

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// A walk is any bytes, each step taking a few of them: a move with right and
// wrong arguments, a fact that ends, or time that passes.
type walk struct {
	t     *testing.T
	bytes []byte
	a     Approval
	facts Standing
	now   time.Time
	// What happened so far.
	exchanged bool
	refreshed map[int64]bool // generations that got new tokens
	lost      bool
	told      map[Verdict]int
}

func (w *walk) byte() byte {
	if len(w.bytes) == 0 {
		return 0
	}
	b := w.bytes[0]
	w.bytes = w.bytes[1:]
	return b
}

// mostly gives the right value three times in four, otherwise the wrong one.
func mostly[T any](w *walk, right, wrong T) T {
	if w.byte()%4 == 3 {
		return wrong
	}
	return right
}

func (w *walk) run() {
	whole := issued()
	for len(w.bytes) > 0 {
		w.step()
		// A move returns State and nothing else, but could reach into a slice.
		whole.State, whole.IssuedAt, whole.EndsAt = w.a.State, w.a.IssuedAt, w.a.EndsAt
		if !reflect.DeepEqual(w.a, whole) {
			w.t.Fatalf("more than the state has changed: %+v", w.a)
		}
	}
}

func (w *walk) step() {
	switch w.byte() % 8 {
	case 0, 1:
		issued := w.a.IssuedAt + int64(mostly(w, 0, int8(w.byte())))
		client, verifier := mostly(w, "c1", "c2"), mostly(w, verifier, "wrong")
		on, to := mostly(w, issuer, "https://other.example"), mostly(w, redirect, "https://other.example/")
		before := w.a
		v := w.take(Exchange(client, on, to, verifier, issued, int(w.byte()), w.now))
		w.exchangeTold(before, client == "c1" && on == issuer && to == redirect && verifier != "wrong", issued, v)
	case 2, 3, 4:
		generation := w.a.Generation + int64(mostly(w, 0, int8(w.byte())))
		client := mostly(w, "c1", "c2")
		before := w.a
		v := w.take(Refresh(client, generation, int(w.byte()), w.now))
		w.refreshTold(before, client == "c1", generation, v)
	case 5:
		client := mostly(w, "c2", "c1")
		before := w.a
		if v := w.take(Revoke(client, w.now)); client == "c2" && (v != WrongClient || w.a.State != before.State) {
			w.t.Fatalf("another client revokes: %s, %+v", v, w.a.State)
		} else if client == "c1" && w.a.Phase != Ended {
			w.t.Fatalf("revoked and not ended: %s, %+v", v, w.a.State)
		}
	case 6:
		if b := w.byte(); b%8 == 7 {
			w.take(End(Reasons[int(w.byte())%len(Reasons)], w.now))
			if w.a.Phase != Ended {
				w.t.Fatal("ended, and yet not")
			}
		} else if b%8 == 6 {
			w.lose()
		}
	case 7:
		w.now = w.now.Add(time.Duration(w.byte()) * 3 * time.Second)
		b := w.byte()
		if date := w.now.Unix() + int64(b); b%8 == 5 && w.a.MayEndAt(date, w.now) { // the end date is brought nearer (decision P17)
			w.a.EndsAt = date
		}
		if w.a.Phase == CodeIssued && b%4 == 0 { // the page is answered again (decision A12)
			w.a.IssuedAt = max(w.a.IssuedAt, w.now.Unix())
		}
	}
	w.holds()
}

func (w *walk) lose() {
	w.lost = true
	for _, fact := range []*int64{&w.facts.Person, &w.facts.Membership, &w.facts.Organization, &w.facts.Client}[w.byte()%4:] {
		*fact++
		if w.byte()%2 == 0 {
			return
		}
	}
}

// past reports whether the end date has come.
func (w *walk) past() bool { return w.a.EndsAt != 0 && w.a.EndsAt <= w.now.Unix() }

// take makes the move and checks what holds of every move.
func (w *walk) take(move Move) Verdict {
	before := w.a
	state, v := move(w.a, w.facts)
	if again, v2 := move(w.a, w.facts); again != state || v2 != v {
		w.t.Fatalf("the same move twice: %+v, %s and %+v, %s", state, v, again, v2)
	}
	changed := state != before.State
	switch {
	case before.Phase == Ended && changed:
		w.t.Fatalf("an ended approval moves: %+v to %+v", before.State, state)
	case before.Phase == Ended && v == OK:
		w.t.Fatal("an ended approval gives something")
	case state.Phase < before.Phase:
		w.t.Fatalf("the phase goes back: %+v to %+v", before.State, state)
	case state.Generation < before.Generation:
		w.t.Fatalf("the generation goes back: %+v to %+v", before.State, state)
	case changed && state.Phase == before.Phase && state.Generation == before.Generation:
		w.t.Fatalf("changed under the same version: %+v to %+v", before.State, state)
	case v == OK && !changed:
		w.t.Fatal("ok, and nothing moved")
	case w.past() && v == OK:
		w.t.Fatal("something is given after the end date")
	case w.lost && v == OK:
		w.t.Fatal("something is given although a fact was lost")
	case (v == Reused || v == Lost) && (state.Phase != Ended || !changed):
		w.t.Fatalf("%s, and not ended: %+v", v, state)
	case changed && v != OK && state.Phase != Ended:
		w.t.Fatalf("%s, and yet moved to %+v", v, state)
	case v < OK || v > Lost:
		w.t.Fatalf("verdict %d", v)
	case state.Phase == Ended && (!slices.Contains(Reasons, state.Reason) || state.EndedAt == 0):
		w.t.Fatalf("ended without reason or time: %+v", state)
	case state.Phase != Ended && (state.Reason != "" || state.EndedAt != 0):
		w.t.Fatalf("not ended, with reason or time: %+v", state)
	case (state.Phase == Live) != (state.Generation > 0) && state.Phase != Ended:
		w.t.Fatalf("phase and generation disagree: %+v", state)
	}
	w.a.State = state
	w.told[v]++
	return v
}

func (w *walk) exchangeTold(before Approval, right bool, issued int64, v Verdict) {
	expired := w.now.Unix() >= before.IssuedAt+300
	switch {
	case !right && (v == OK || w.a.State != before.State):
		w.t.Fatalf("a wrong exchange moves: %s, %+v", v, w.a.State)
	case v == OK && (w.exchanged || expired || issued != before.IssuedAt):
		w.t.Fatalf("exchanged again, or too late, or another code: %+v", before.State)
	case right && before.Phase == Live && issued == before.IssuedAt && w.a.Phase != Ended:
		w.t.Fatalf("a used code does not end: %s, %+v", v, w.a.State)
	case right && !w.lost && !w.past() && before.Phase == CodeIssued && issued == before.IssuedAt && !expired && v != OK:
		w.t.Fatalf("a right exchange gets %s", v)
	}
	w.exchanged = w.exchanged || v == OK
}

func (w *walk) refreshTold(before Approval, right bool, generation int64, v Verdict) {
	switch {
	case !right && (v == OK || w.a.State != before.State):
		w.t.Fatalf("another client's refresh moves: %s, %+v", v, w.a.State)
	case v == OK && (w.refreshed[generation] || !w.exchanged):
		w.t.Fatalf("generation %d refreshed twice, or before the exchange", generation)
	case right && before.Phase == Live && generation != before.Generation && w.a.Phase != Ended:
		w.t.Fatalf("generation %d at %d does not end: %s, %+v", generation, before.Generation, v, w.a.State)
	case right && !w.lost && !w.past() && before.Phase == Live && generation == before.Generation && v != OK:
		w.t.Fatalf("a right refresh gets %s", v)
	}
	w.refreshed[generation] = w.refreshed[generation] || v == OK
}

// holds checks what is true between moves.
func (w *walk) holds() {
	shown := w.a.At(w.facts, w.now)
	for _, generation := range []int64{w.a.Generation - 1, w.a.Generation, w.a.Generation + 1} {
		accepted := w.a.Accepts(w.facts, generation, w.now.Unix()+1, w.now)
		switch {
		case accepted && (w.a.Phase == Ended || shown.Phase == Ended):
			w.t.Fatalf("an ended approval accepts: %+v", w.a.State)
		case accepted && w.lost:
			w.t.Fatal("accepted although a fact was lost")
		case accepted && (!w.exchanged || generation < 1 || generation > w.a.Generation):
			w.t.Fatalf("generation %d accepted at %+v", generation, w.a.State)
		case !accepted && shown.Phase == Live && generation == w.a.Generation:
			w.t.Fatalf("a live approval refuses its own token: %+v", w.a.State)
		case w.a.Accepts(w.facts, generation, w.now.Unix(), w.now):
			w.t.Fatal("an expired token is accepted")
		}
	}
	switch {
	case w.a.Phase == Ended && shown != w.a.State:
		w.t.Fatalf("ended as %+v and shown as %+v", w.a.State, shown)
	case w.past() && shown.Phase != Ended:
		w.t.Fatalf("shown as %+v after the end date", shown)
	case w.lost && shown.Phase != Ended:
		w.t.Fatalf("shown as %+v although a fact was lost", shown)
	case w.a.Phase != Ended:
		// What is shown as ended is what any end would write, and only that.
		if written, v := End(RevokedByAdmin, w.now)(w.a, w.facts); shown.Phase == Ended && (written != shown || v != Over) || shown.Phase != Ended && (shown != w.a.State || v != OK) {
			w.t.Fatalf("shown as %+v and ended as %+v, %s", shown, written, v)
		}
	}
}

// walked gives how often each verdict was told.
func walked(t *testing.T, bytes []byte) map[Verdict]int {
	t.Helper()
	w := walk{t: t, bytes: bytes, a: issued(), facts: stand, now: noon, refreshed: map[int64]bool{}, told: map[Verdict]int{}}
	w.run()
	return w.told
}

// Any bytes are a walk through the moves: an ended approval never moves and
// accepts nothing, neither does one that lost a fact, phase and generation
// never go back, reuse always ends, and a move changes nothing but the state.
func FuzzWalk(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 3, 0xff, 0, 0})
	f.Add([]byte{7, 99, 0, 0, 0, 0, 0, 0, 0, 0, 7, 99, 1})
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 6, 6, 0, 0, 2, 0, 0, 0, 5, 3, 6, 7, 7})
	f.Fuzz(func(t *testing.T, bytes []byte) { walked(t, bytes) })
}

// The same on walks of chance, always the same ones; together they hear every
// verdict.
func TestWalks(t *testing.T) {
	chance := rand.NewChaCha8([32]byte{7})
	told := map[Verdict]int{}
	for range 2000 {
		bytes := make([]byte, 200)
		chance.Read(bytes)
		for v, n := range walked(t, bytes) {
			told[v] += n
		}
	}
	for v := OK; v <= Lost; v++ {
		if told[v] < 100 {
			t.Errorf("%s was told %d times: the walks lead past it", v, told[v])
		}
	}
}
