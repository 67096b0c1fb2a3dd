package enginetest

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

var proofs = []behaviour{
	{"an approval that is bound to a key: without it no code or token of it moves anything, anywhere", "", showBound},
	{"one proof of a key, sent many times at once for one approval and for many: it counts once", "", showProofsOnce},
	{"one proof of a key, after a restart: it has counted, and is forgotten when nothing would take it", "", showProofsKept},
	{"one proof of a key, when the machine stops meanwhile: what was answered counted once", Crash, showProofsCrash},
}

// proofID numbers proofs: no two of a run are alike.
var proofID atomic.Uint64

// proofBy gives a new proof of a key, which would be taken for some minutes.
func (d *database) proofBy(key byte) store.Proof {
	p := store.Proof{Key: approval.Thumbprint{key}, Until: d.Now().Unix() + 300}
	n := proofID.Add(1)
	for i := range 8 {
		p.ID[i] = byte(n >> (8 * i))
	}
	return p
}

// exchangeBy and refreshBy ask a store with a proof.
func (d *database) exchangeBy(at *store.Store, s *subject, p store.Proof) (approval.Verdict, error) {
	_, v, err := at.Apply(ctx, s.ID, d.exchanging(s), store.Act{Proof: p})
	return v, err
}

func (d *database) refreshBy(at *store.Store, s *subject, generation int64, p store.Proof) (approval.Verdict, error) {
	_, v, err := at.Refresh(ctx, s.ID, s.Client, generation, 1, store.Act{Proof: p})
	return v, err
}

// ok wants a move to be made.
func (d *database) ok(v approval.Verdict, err error) {
	d.t.Helper()
	if v != approval.OK || err != nil {
		d.t.Errorf("%v, %v; want ok", v, err)
	}
}

// bound gives an approval whose exchange has bound it to key 1.
func (d *database) bound() *subject {
	d.t.Helper()
	s := d.approve(d.page())
	d.ok(d.exchangeBy(d.Store, s, d.proofBy(1)))
	return s
}

// stands wants the state of an approval to be this one, at all stores.
func (d *database) stands(when string, s *subject, phase approval.Phase, generation int64, key byte) {
	d.t.Helper()
	for _, at := range d.all() {
		r, err := at.Approval(ctx, s.ID)
		if err != nil || r.Phase != phase || r.Generation != generation || r.Bound[0] != key {
			d.t.Errorf("%s: %+v, %v; want phase %d, generation %d, key %d", when, r.State, err, phase, generation, key)
		}
	}
}

func showBound(t *testing.T, h Harness) {
	d := furnished(t, h)
	none := store.Proof{}
	for i := range d.all() {
		at := d.all()[i]
		// A code for a key, and one for any.
		page := d.page()
		page.Bound = approval.Thumbprint{1}
		code, s := d.approve(page), d.approve(d.page())
		for name, p := range map[string]store.Proof{"none": none, "another": d.proofBy(2)} {
			if v, err := d.exchangeBy(at, code, p); v != approval.WrongKey || err != nil {
				t.Errorf("a code for a key, with %s: %v, %v", name, v, err)
			}
			d.stands("a code for a key", code, approval.CodeIssued, 0, 1)
		}
		for _, one := range []*subject{code, s} {
			d.ok(d.exchangeBy(at, one, d.proofBy(1)))
			d.stands("exchanged", one, approval.Live, 1, 1)
		}
		d.ok(d.refreshBy(at, s, 1, d.proofBy(1)))
		d.ok(d.refreshBy(d.all()[(i+1)%len(d.all())], s, 2, d.proofBy(1)))
		for generation := int64(1); generation <= 4; generation++ { // used, current and ahead
			for name, p := range map[string]store.Proof{"none": none, "another": d.proofBy(2)} {
				if v, err := d.refreshBy(at, s, generation, p); v != approval.WrongKey || err != nil {
					t.Errorf("refresh token %d with the key %s: %v, %v", generation, name, v, err)
				}
			}
		}
		d.stands("stolen tokens", s, approval.Live, 3, 1)
		if i == 0 {
			d.reopen()
			at = d.Store
		}
		if v, err := d.refreshBy(at, s, 3, none); v != approval.WrongKey || err != nil {
			t.Errorf("after a restart, without the key: %v, %v", v, err)
		}
		d.ok(d.refreshBy(at, s, 3, d.proofBy(1)))
		if v, err := d.refreshBy(at, s, 3, d.proofBy(1)); v != approval.Reused || err != nil {
			t.Errorf("a used token with its key: %v, %v", v, err)
		}
		d.stands("used twice with its key", s, approval.Ended, 4, 1)

		// One that is bound to none takes a proof, and is bound by none.
		plain := d.live(d.page())
		d.ok(d.refreshBy(at, plain, 1, d.proofBy(2)))
		d.ok(d.refresh(at, plain, 2))
		d.stands("bound to none", plain, approval.Live, 3, 0)
	}
	d.agree("bound")
}

func showProofsOnce(t *testing.T, h Harness) {
	const most = 12
	d := furnished(t, h)
	count := func(what string, told []approval.Verdict, ok int) {
		t.Helper()
		n := map[approval.Verdict]int{}
		for _, v := range told {
			n[v]++
		}
		if n[approval.OK] != ok || n[approval.OK]+n[approval.Replayed] != len(told) {
			t.Errorf("%s: told %v, want ok %d times, else replayed", what, n, ok)
		}
	}
	for range 3 {
		var all []*subject
		for range most {
			all = append(all, d.approve(d.page()))
		}
		each := func(ask func(at *store.Store, s *subject) (approval.Verdict, error)) []approval.Verdict {
			var next atomic.Int64
			return d.atOnce(most, func(at *store.Store) (approval.Verdict, error) { return ask(at, all[next.Add(1)-1]) })
		}
		// One proof for many codes, then each with one of its own.
		p := d.proofBy(1)
		count("codes", each(func(at *store.Store, s *subject) (approval.Verdict, error) { return d.exchangeBy(at, s, p) }), 1)
		waiting := 0
		for _, s := range all {
			r, err := d.Approval(ctx, s.ID)
			d.must(err)
			if r.Phase == approval.CodeIssued {
				waiting++
				d.ok(d.exchangeBy(d.Store, s, d.proofBy(1)))
			}
		}
		if waiting != most-1 {
			t.Errorf("%d codes wait, want %d", waiting, most-1)
		}
		// The same for refresh tokens, at the stores and past them.
		p = d.proofBy(1)
		count("refresh tokens", each(func(at *store.Store, s *subject) (approval.Verdict, error) { return d.refreshBy(at, s, 1, p) }), 1)
		for _, s := range all {
			r, err := d.Approval(ctx, s.ID)
			d.must(err)
			if r.Phase != approval.Live || r.Generation > 2 {
				t.Errorf("after a proof that was used before: %+v", r.State)
			}
			d.ok(d.refreshBy(d.Store, s, r.Generation, d.proofBy(1)))
		}
		count("right refreshes beside each other", each(func(at *store.Store, s *subject) (approval.Verdict, error) {
			r, err := at.Approval(ctx, s.ID)
			if err != nil {
				return 0, err
			}
			return d.refreshBy(at, s, r.Generation, d.proofBy(1))
		}), most)
		// The very same request many times ends nothing: nobody has proved anything by it.
		s := d.bound()
		p = d.proofBy(1)
		count("one request", d.atOnce(most, func(at *store.Store) (approval.Verdict, error) { return d.refreshBy(at, s, 1, p) }), 1)
		d.stands("one request many times", s, approval.Live, 2, 1)
		// Of one token with a proof for each, one wins, and the approval ends (decision T6).
		s = d.bound()
		told := d.atOnce(most, func(at *store.Store) (approval.Verdict, error) { return d.refreshBy(at, s, 1, d.proofBy(1)) })
		wins := 0
		for _, v := range told {
			if v == approval.OK {
				wins++
			} else if v != approval.Reused && v != approval.Over {
				t.Errorf("one token with many proofs: %v", v)
			}
		}
		if wins > 1 {
			t.Errorf("one token won %d times", wins)
		}
		d.stands("one token with many proofs", s, approval.Ended, int64(1+wins), 1)
	}
	d.agree("proofs at once")
}

func showProofsKept(t *testing.T, h Harness) {
	d := furnished(t, h)
	s, used := d.bound(), d.proofBy(1)
	d.ok(d.refreshBy(d.Store, s, 1, used))
	replayed := func(when string) {
		t.Helper()
		for _, at := range d.all() {
			a, v, err := at.ApplyLive(ctx, s.ID, approval.Refresh(s.Client, 2, 1, d.Now()), store.Act{Proof: used})
			if v != approval.Replayed || err != nil || a.Generation != 2 {
				t.Errorf("%s: %v, %v, generation %d", when, v, err, a.Generation)
			}
		}
		d.stands(when, s, approval.Live, 2, 1)
	}
	replayed("at once")
	d.reopen()
	replayed("after a restart")
	d.clock.add(4 * time.Minute)
	_, err := d.Sweep(ctx)
	d.must(err)
	replayed("after a sweep, as long as it would be taken")
	// What is refused is not used up, nor where the refusal ends an approval that was over.
	page := d.page()
	page.EndsAt = d.Now().Unix() + 60
	dated, late := d.approve(page), d.proofBy(1)
	d.ok(d.exchangeBy(d.Store, dated, d.proofBy(1)))
	d.clock.add(time.Minute)
	if v, err := d.refreshBy(d.Store, dated, 1, late); v != approval.Over || err != nil {
		t.Errorf("after its end date: %v, %v", v, err)
	}
	d.ok(d.refreshBy(d.Store, d.bound(), 1, late))
	p := d.proofBy(1)
	if v, err := d.refreshBy(d.Store, &subject{Approval: approval.Approval{ID: s.ID, Client: "other"}}, 2, p); v != approval.WrongClient || err != nil {
		t.Errorf("another client: %v, %v", v, err)
	}
	if v, err := d.refreshBy(d.Store, d.live(d.page()), 1, p); v != approval.OK || err != nil {
		t.Errorf("a proof that was refused elsewhere: %v, %v", v, err)
	}
	if v, err := d.refreshBy(d.Store, s, 2, p); v != approval.Replayed || err != nil {
		t.Errorf("a proof that was used for an approval without a key: %v, %v", v, err)
	}
	d.clock.add(10 * time.Minute)
	_, err = d.Sweep(ctx)
	d.must(err)
	if v, err := d.refreshBy(d.Store, s, 2, used); v != approval.OK || err != nil { // the door refuses it by its nonce
		t.Errorf("when nothing would take it: %v, %v", v, err)
	}
	d.agree("kept")
}

func showProofsCrash(t *testing.T, h Harness) {
	d := furnished(t, h)
	s := d.bound()
	begun, done := make(chan struct{}), make(chan struct{})
	sent := []store.Proof{{}, d.proofBy(1)} // by generation
	var answered atomic.Int64
	answered.Store(1)
	for range 30 {
		sent = append(sent, d.proofBy(1))
	}
	go func() {
		defer close(done)
		for n := int64(1); n <= 30; n++ {
			if v, err := d.refreshBy(d.Store, s, n, sent[n]); err != nil || v != approval.OK {
				return
			}
			if answered.Store(n + 1); n == 6 {
				close(begun)
			}
		}
	}()
	<-begun
	least := answered.Load()
	left := &database{Place: d.Crash(t), t: t, harness: h, clock: d.clock, ring: d.ring}
	<-done
	left.Store = left.open()
	r, err := left.Approval(ctx, s.ID)
	left.must(err)
	if r.Phase != approval.Live || r.Generation < least {
		t.Fatalf("%+v, and %d was answered", r.State, least)
	}
	for n := int64(1); n < r.Generation; n++ { // state and proof are one commit
		if v, err := left.refreshBy(left.Store, s, r.Generation, sent[n]); v != approval.Replayed || err != nil {
			t.Errorf("the proof of refresh %d of %d: %v, %v", n, r.Generation-1, v, err)
		}
	}
	left.ok(left.refreshBy(left.Store, s, r.Generation, sent[r.Generation]))
}
