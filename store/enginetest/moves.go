package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

var moves = []behaviour{
	{"moves of many approvals at once: verdict, row and journal are what the pure function says", Refuse, showMoves},
	{"one code or refresh token presented many times at once: one wins, and the approval ends", "", showOneWins},
	{"moves of one approval at once: each is made of what the one before has left", "", showNoneIsLost},
	{"a move whose approval is not there", "", showNoApproval},
}

// subject is an approval as the pure function has it.
type subject struct {
	approval.Approval
	lost    approval.Standing // what has ended under it
	journal []string
}

// make makes a move, and notes what the journal has to say of it.
func (s *subject) make(m approval.Move) approval.Verdict {
	before := s.State
	var v approval.Verdict
	s.State, v = m(s.Approval, s.lost)
	switch {
	case before.Phase == approval.CodeIssued && s.Phase == approval.Live:
		s.journal = append(s.journal, kinds(journal.CodeExchanged)...)
	case before.Phase != approval.Ended && s.Phase == approval.Ended:
		switch s.Reason {
		case approval.RefreshReused:
			s.journal = append(s.journal, kinds(journal.RefreshReused)...)
		case approval.CodeReused:
			s.journal = append(s.journal, kinds(journal.CodeReused)...)
		}
		s.journal = append(s.journal, ended(s.Reason))
	}
	return v
}

// A move of the table; of those that ask nothing of the code, live is true.
type move struct {
	name string
	live bool
	of   func(s *subject, now time.Time) approval.Move
}

// changed is a made-up move: it changes the state as it says, whatever that is.
func changed(v approval.Verdict, change func(*approval.State)) func(*subject, time.Time) approval.Move {
	return func(*subject, time.Time) approval.Move {
		return func(a approval.Approval, _ approval.Standing) (approval.State, approval.Verdict) {
			change(&a.State)
			return a.State, v
		}
	}
}

func onward(by int64) func(*approval.State) {
	return func(s *approval.State) {
		if s.Phase == approval.Live {
			s.Generation += by
			s.Key = 9
		}
	}
}

func ends(s *approval.State) {
	if s.Phase != approval.Ended {
		s.Phase, s.Reason, s.EndedAt = approval.Ended, approval.RevokedByAdmin, 7
	}
}

func exchangeBy(client, base, to, proof string, later int64) func(*subject, time.Time) approval.Move {
	return func(s *subject, now time.Time) approval.Move {
		return approval.Exchange(client, base, to, proof, s.IssuedAt+later, 1, now)
	}
}

func refreshBy(client string, later int64) func(*subject, time.Time) approval.Move {
	return func(s *subject, now time.Time) approval.Move {
		return approval.Refresh(client, s.Generation+later, 1, now)
	}
}

// tried are moves of the protocol, and others that no protocol has.
var tried = []move{
	{"exchange", false, exchangeBy("quill", issuer, redirect, verifier, 0)},
	{"exchange by another client", false, exchangeBy("other", issuer, redirect, verifier, 0)},
	{"exchange elsewhere", false, exchangeBy("quill", issuer+".not", redirect, verifier, 0)},
	{"exchange for another URI", false, exchangeBy("quill", issuer, redirect+"/2", verifier, 0)},
	{"exchange without proof", false, exchangeBy("quill", issuer, redirect, "x", 0)},
	{"exchange of an older code", false, exchangeBy("quill", issuer, redirect, verifier, -1)},
	{"exchange of a code from the future", false, exchangeBy("quill", issuer, redirect, verifier, 1)},
	{"refresh", true, refreshBy("quill", 0)},
	{"refresh by another client", true, refreshBy("other", 0)},
	{"refresh with a used token", true, refreshBy("quill", -1)},
	{"refresh with a token from the future", true, refreshBy("quill", 1)},
	{"revoke", true, func(_ *subject, now time.Time) approval.Move { return approval.Revoke("quill", now) }},
	{"revoke by another client", true, func(_ *subject, now time.Time) approval.Move { return approval.Revoke("other", now) }},
	{"end", true, func(_ *subject, now time.Time) approval.Move { return approval.End(approval.RevokedByOperator, now) }},

	{"made up: refuses, and changes nothing", true, changed(approval.WrongRedirect, func(*approval.State) {})},
	{"made up: says ok, and changes nothing", true, changed(approval.OK, func(*approval.State) {})},
	{"made up: changes, and refuses", true, changed(approval.WrongClient, onward(1))},
	{"made up: goes two on", true, changed(approval.OK, onward(2))},
	{"made up: ends, and says ok", true, changed(approval.OK, ends)},
	{"made up: ends, and refuses", true, changed(approval.WrongIssuer, ends)},
	{"made up: a verdict that nobody knows", true, changed(200, onward(1))},
}

// stages are how far an approval has come before the move.
var stages = []struct {
	name    string
	reach   func(d *database) *subject
	beneath func(d *database) (restore func()) // what happens to all of them before they move
}{
	{"a code that waits", func(d *database) *subject { return d.approve(d.page()) }, nil},
	{"just exchanged", func(d *database) *subject { return d.live(d.page()) }, nil},
	{"refreshed", func(d *database) *subject {
		s := d.live(d.page())
		for range 2 {
			if v, err := d.refresh(d.Store, s, s.Generation); v != approval.OK || err != nil {
				d.t.Fatal(v, err)
			}
			s.Generation++
		}
		return s
	}, nil},
	{"ended", func(d *database) *subject {
		s := d.live(d.page())
		d.must(d.EndApproval(ctx, s.ID, approval.RevokedByPerson, operator))
		s.make(approval.End(approval.RevokedByPerson, d.Now()))
		return s
	}, nil},
	{"a code that has expired", func(d *database) *subject { return d.approve(d.page()) },
		func(d *database) func() { d.clock.add(approval.CodeLifetime); return func() {} }},
	{"lost, and no row says so", func(d *database) *subject {
		s := d.live(d.page())
		s.lost.Person = 1
		return s
	}, func(d *database) func() {
		lift := d.Refuse(d.t, "UPDATE", "approval", "NEW.phase = 3")
		d.must(d.SetActive(ctx, "ada", false, operator))
		lift()
		return func() { d.must(d.SetActive(ctx, "ada", true, operator)) }
	}},
}

// attempt is a move that is asked of a store beside others.
type attempt struct {
	name string
	*subject
	move func(*subject, time.Time) approval.Move
	ask  func(at *store.Store, s *subject, m approval.Move) (int64, approval.Verdict, error)

	generation int64 // what was answered
	verdict    approval.Verdict
	err        error
}

func apply(at *store.Store, s *subject, m approval.Move) (int64, approval.Verdict, error) {
	a, v, err := at.Apply(ctx, s.ID, m, store.Act{})
	return a.Generation, v, err
}

func applyLive(at *store.Store, s *subject, m approval.Move) (int64, approval.Verdict, error) {
	a, v, err := at.ApplyLive(ctx, s.ID, m, store.Act{})
	return a.Generation, v, err
}

// attempts are all moves, each by all ways, of a subject of its own.
func (d *database) attempts(reach func(*database) *subject) (all []attempt) {
	for _, m := range tried {
		all = append(all, attempt{name: m.name, subject: reach(d), move: m.of, ask: apply})
		if m.live {
			all = append(all, attempt{name: m.name + ", live", subject: reach(d), move: m.of, ask: applyLive})
		}
	}
	for _, client := range []string{"quill", "other"} {
		for later := range int64(3) {
			ask := func(at *store.Store, s *subject, _ approval.Move) (int64, approval.Verdict, error) {
				return at.Refresh(ctx, s.ID, client, s.Generation+later-1, 1, store.Act{})
			}
			all = append(all, attempt{name: fmt.Sprintf("Refresh by %s, %d", client, later-1),
				subject: reach(d), move: refreshBy(client, later-1), ask: ask})
		}
	}
	return all
}

func showMoves(t *testing.T, h Harness) {
	d := furnished(t, h)
	for _, stage := range stages {
		all := d.attempts(stage.reach)
		d.clock.add(time.Second) // entries of several stores are in the order of their time
		restore := func() {}
		if stage.beneath != nil {
			restore = stage.beneath(d)
		}
		now, at := d.Now(), d.all()
		var wg sync.WaitGroup
		for i := range all {
			a := &all[i]
			wg.Go(func() { a.generation, a.verdict, a.err = a.ask(at[i%len(at)], a.subject, a.move(a.subject, now)) })
		}
		wg.Wait()
		for i := range all {
			d.compare(stage.name, &all[i], now)
		}
		restore()
		d.agree(stage.name)
	}
}

// compare makes the move of the attempt and compares what the store has.
func (d *database) compare(stage string, a *attempt, now time.Time) {
	d.t.Helper()
	want := a.make(a.move(a.subject, now))
	if lost := a.lost != (approval.Standing{}); lost && a.verdict == approval.Over && a.generation == a.Generation+1 {
		a.Generation++ // of which nobody has a token
	}
	if a.err != nil || a.verdict != want || a.generation != a.Generation {
		d.t.Errorf("%s, %s: %v, generation %d, %v; want %v, generation %d", stage, a.name, a.verdict, a.generation, a.err, want, a.Generation)
	}
	for _, s := range d.all() {
		if r, err := s.Approval(ctx, a.ID); err != nil || r.State != a.At(a.lost, now) {
			d.t.Errorf("%s, %s: the row is %+v, %v; want %+v", stage, a.name, r.State, err, a.At(a.lost, now))
		}
	}
	if got := d.journalOf(a.subject); !slices.Equal(got, a.journal) {
		d.t.Errorf("%s, %s: the journal has %q, want %q", stage, a.name, got, a.journal)
	}
}

// journalOf is what the journal says of an approval, oldest first.
func (d *database) journalOf(s *subject) (out []string) {
	d.t.Helper()
	list, _, err := d.Events(ctx, store.EventFilter{Approval: s.ID.String(), OldestFirst: true, Limit: 1000})
	d.must(err)
	for _, e := range list {
		if e.Kind == journal.ApprovalEnded {
			out = append(out, ended(approval.Reason(e.Reason)))
		} else {
			out = append(out, string(e.Kind))
		}
	}
	return out
}

// kinds are entries as journalOf gives them.
func kinds(all ...journal.Kind) (out []string) {
	for _, k := range all {
		out = append(out, string(k))
	}
	return out
}

// ended is the entry of an end.
func ended(why approval.Reason) string { return string(journal.ApprovalEnded) + " " + string(why) }

// Used twice is theft (decisions T5, T6).
func showOneWins(t *testing.T, h Harness) {
	d := furnished(t, h)
	for round := range 10 {
		waiting, live := d.approve(d.page()), d.live(d.page())
		d.clock.add(time.Second)
		for name, ask := range map[string]func(*store.Store) (approval.Verdict, error){
			"exchange": func(s *store.Store) (approval.Verdict, error) { return d.exchange(s, waiting) },
			"refresh":  func(s *store.Store) (approval.Verdict, error) { return d.refresh(s, live, 1) },
		} {
			told := map[approval.Verdict]int{}
			for _, v := range d.atOnce(50, ask) {
				told[v]++
			}
			if told[approval.OK] != 1 || told[approval.Reused] != 1 || told[approval.Over] != 48 {
				t.Errorf("round %d, %s: %v", round, name, told)
			}
		}
		for _, s := range d.all() {
			if d.accepts(s, waiting) || d.accepts(s, live) {
				t.Errorf("round %d: used twice, and accepted", round)
			}
		}
		want := append(kinds(journal.ApprovalGranted, journal.CodeExchanged, journal.RefreshReused), ended(approval.RefreshReused))
		if got := d.journalOf(live); !slices.Equal(got, want) {
			t.Errorf("round %d: the journal has %q", round, got)
		}
	}
	d.agree("used twice")
}

// atOnce asks many times, of all stores, and gives what each was told.
func (d *database) atOnce(n int, ask func(*store.Store) (approval.Verdict, error)) []approval.Verdict {
	d.t.Helper()
	told, all := make([]approval.Verdict, n), d.all()
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			v, err := ask(all[i%len(all)])
			if told[i] = v; err != nil {
				d.t.Error(err)
			}
		})
	}
	wg.Wait()
	return told
}

// A move that counts: none may be lost, and none made of an old row.
func showNoneIsLost(t *testing.T, h Harness) {
	d := furnished(t, h)
	count := changed(approval.OK, onward(1))(nil, time.Time{})
	for name, ask := range map[string]func(*store.Store, *subject, approval.Move) (int64, approval.Verdict, error){
		"Apply": apply, "ApplyLive": applyLive,
	} {
		s, other := d.live(d.page()), d.live(d.page())
		var mu sync.Mutex
		seen := map[int64]int{}
		d.atOnce(64, func(at *store.Store) (approval.Verdict, error) {
			if _, _, err := ask(at, other, count); err != nil {
				t.Error(err)
			}
			n, v, err := ask(at, s, count)
			mu.Lock()
			seen[n]++
			mu.Unlock()
			return v, err
		})
		for n := range int64(64) {
			if seen[n+2] != 1 {
				t.Errorf("%s: generation %d was given %d times", name, n+2, seen[n+2])
			}
		}
		for _, one := range []*subject{s, other} {
			if r, err := d.Approval(ctx, one.ID); err != nil || r.Generation != 65 {
				t.Errorf("%s: generation %d after 64 moves, %v", name, r.Generation, err)
			}
		}
	}
	d.agree("counted")
}

func showNoApproval(t *testing.T, h Harness) {
	d := furnished(t, h)
	before, s := d.agree("before"), &subject{Approval: approval.Approval{ID: approval.ID{7}, Client: "quill"}}
	for name, ask := range map[string]func(*store.Store, *subject, approval.Move) (int64, approval.Verdict, error){
		"Apply": apply, "ApplyLive": applyLive,
		"Refresh": func(at *store.Store, s *subject, _ approval.Move) (int64, approval.Verdict, error) {
			return at.Refresh(ctx, s.ID, "quill", 1, 1, store.Act{})
		},
	} {
		if _, v, err := ask(d.Store, s, approval.Revoke("quill", d.Now())); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v, %v; want not found", name, v, err)
		}
	}
	d.same("a move of nothing", d.agree("after"), before)
}
