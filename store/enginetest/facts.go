package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

var factsThatEnd = []behaviour{
	{"a fact that ends: nothing on it is accepted at the next request, anywhere, for good, and the rest is", "", showEnds},
	{"a fact that ends, where no row can say so yet: the same", Refuse, showUnwrittenEnds},
	{"a fact that ends while moves are made: nothing is accepted after its answer", "", showEndsBesideMoves},
	{"a fact that ends while a move is computed on it: the same, and the move's end is told to the next", Overlap, showEndsMidMove},
	{"an approval at the moment of a removal: it is made before, and ended, or not at all", "", showApprovalBesideRemoval},
	{"a change of facts: every store has all of it at the next request", "", showChangesOfFacts},
}

// ending is a fact that ends and comes back.
type ending struct {
	name       string
	end, again func(s *store.Store) error
	reason     approval.Reason
	keeps      string // the organization whose approvals of the same person live on
	keyEnds    bool   // the person's API key ends with it
}

var endings = []ending{
	{"membership",
		func(s *store.Store) error { return s.RemoveMember(ctx, "nordlys", "ada", operator) },
		func(s *store.Store) error {
			return errors.Join(s.SetMember(ctx, "nordlys", "ada", true, operator), s.SetFiller(ctx, "treasurer", "ada", true, operator))
		}, approval.LeftOrganization, "fjell", true},
	{"person",
		func(s *store.Store) error { return s.SetActive(ctx, "ada", false, operator) },
		func(s *store.Store) error { return s.SetActive(ctx, "ada", true, operator) },
		approval.PersonDeactivated, "", true},
	{"organization",
		func(s *store.Store) error { return s.SetIntegration(ctx, "nordlys", false, operator) },
		func(s *store.Store) error { return s.SetIntegration(ctx, "nordlys", true, operator) },
		approval.IntegrationOff, "fjell", false},
	{"client",
		func(s *store.Store) error { return s.SetClientEnabled(ctx, "quill", false, operator) },
		func(s *store.Store) error { return s.SetClientEnabled(ctx, "quill", true, operator) },
		approval.ClientDisabled, "", false},
}

// on are approvals that a fact is about to end, and others.
type on struct {
	*database
	ending
	live, idle, waiting, elsewhere *subject
}

func (d *database) on(e ending) *on {
	d.t.Helper()
	return &on{d, e, d.live(d.page()), d.live(d.page()), d.approve(d.page()), d.live(d.pageIn("fjell"))}
}

// over wants all that stood on the fact to be over, for every store.
func (o *on) over(when string) {
	o.t.Helper()
	for i, s := range o.all() {
		at := fmt.Sprintf("%s, %s, store %d", o.name, when, i)
		for _, one := range []*subject{o.live, o.idle, o.waiting} {
			if o.accepts(s, one) {
				o.t.Errorf("%s: accepted", at)
			}
			if r, err := s.Approval(ctx, one.ID); err != nil || r.Phase != approval.Ended || r.Reason != o.reason {
				o.t.Errorf("%s: the row is %v %q, %v; want ended by %q", at, r.Phase, r.Reason, err, o.reason)
			}
		}
		if v, err := o.refresh(s, o.live, o.live.Generation); v != approval.Over || err != nil {
			o.t.Errorf("%s: refresh: %v, %v; want over", at, v, err)
		}
		if v, err := o.exchange(s, o.waiting); v != approval.Over || err != nil {
			o.t.Errorf("%s: exchange: %v, %v; want over", at, v, err)
		}
		if err := s.EditGrant(ctx, o.idle.ID, "ada", o.idle.Grant, grantset.Set{Kind: grantset.Everything}, operator); !errors.Is(err, store.ErrNotFound) {
			o.t.Errorf("%s: edited: %v", at, err)
		}
		if _, err := s.APIKey(ctx, apiKey); (err != nil) != o.keyEnds {
			o.t.Errorf("%s: the API key: %v", at, err)
		}
		if got := o.accepts(s, o.elsewhere); got != (o.keeps != "") {
			o.t.Errorf("%s: the one in fjell is accepted: %t", at, got)
		}
	}
}

// comesBack goes from the end of a fact to when it is back.
func (o *on) comesBack(without func(*database) (lift func()), unwritten bool) {
	o.t.Helper()
	lift := without(o.database)
	o.must(o.end(o.Store))
	lift()
	due, err := o.Due(ctx)
	if err != nil || (due.Ended > 0) != unwritten { // the rows say so, before anybody asks
		o.t.Errorf("%s ended: %d rows do not say so, %v", o.name, due.Ended, err)
	}
	o.over("ended")
	o.must(o.end(o.Store)) // again changes nothing
	o.agree(o.name + " ended")
	o.must(o.again(o.Store))
	o.over("back")
	o.reopen()
	o.over("back, after a restart")
	want := append(kinds(journal.ApprovalGranted, journal.CodeExchanged), ended(o.reason))
	if got := o.journalOf(o.live); !slices.Equal(got, want) {
		o.t.Errorf("%s: the journal has %q", o.name, got)
	}
	if next := o.database.live(o.page()); !o.accepts(o.Store, next) {
		o.t.Errorf("%s: what is approved now is not accepted", o.name)
	}
}

// firsts are what a store may be asked first after the end of a fact, and whether it
// is answered as if the fact stood.
var firsts = map[string]func(d *database, s *store.Store, live, waiting *subject, e ending) (accepted bool, err error){
	"Refresh": func(d *database, s *store.Store, live, _ *subject, _ ending) (bool, error) {
		v, err := d.refresh(s, live, 1)
		return v != approval.Over, err
	},
	"ApplyLive": func(d *database, s *store.Store, live, _ *subject, _ ending) (bool, error) {
		_, v, err := s.ApplyLive(ctx, live.ID, approval.Refresh("quill", 1, 1, d.Now()), store.Act{})
		return v != approval.Over, err
	},
	"Apply": func(d *database, s *store.Store, _, waiting *subject, _ ending) (bool, error) {
		v, err := d.exchange(s, waiting)
		return v != approval.Over, err
	},
	"Check": func(d *database, s *store.Store, live, _ *subject, _ ending) (bool, error) {
		return d.accepts(s, live), nil
	},
	"CheckAllNow": func(d *database, s *store.Store, live, _ *subject, _ ending) (bool, error) {
		all := []store.Asked{{Approval: live.ID}}
		s.CheckAllNow(ctx, all)
		a := all[0].Access
		return all[0].Err == nil && a.Approval.Lost(a.Standing) == "", nil
	},
	"Approval": func(d *database, s *store.Store, live, _ *subject, e ending) (bool, error) {
		r, err := s.Approval(ctx, live.ID)
		return r.Reason != e.reason, err
	},
	"Approvals": func(d *database, s *store.Store, live, _ *subject, _ ending) (bool, error) {
		list, _, err := s.Approvals(ctx, store.ApprovalFilter{State: "live", Limit: 1000})
		return slices.ContainsFunc(list, func(r store.ApprovalRow) bool { return r.ID == live.ID }), err
	},
	"EditGrant": func(d *database, s *store.Store, live, _ *subject, _ ending) (bool, error) {
		err := s.EditGrant(ctx, live.ID, "ada", live.Grant, grantset.Set{Kind: grantset.Everything}, operator)
		return !errors.Is(err, store.ErrNotFound), nil
	},
	"Approve": func(d *database, s *store.Store, _, _ *subject, _ ending) (bool, error) {
		_, _, err := s.Approve(ctx, d.page(), operator)
		return !errors.Is(err, store.ErrNotAllowed) && !errors.Is(err, store.ErrNotFound), nil
	},
	"APIKey": func(d *database, s *store.Store, _, _ *subject, e ending) (bool, error) {
		_, err := s.APIKey(ctx, apiKey)
		return (err != nil) != e.keyEnds, nil
	},
}

// everyEnd lets each fact end, and asks the last store one thing first, each in turn
// (spec 3; decisions P10, P12).
func everyEnd(t *testing.T, h Harness, unwritten bool) {
	without := func(d *database) (lift func()) {
		if unwritten {
			return d.Refuse(t, "UPDATE", "approval", "NEW.phase = 3")
		}
		return func() {}
	}
	for _, e := range endings {
		furnished(t, h).on(e).comesBack(without, unwritten)
		d := furnished(t, h)
		for name, first := range firsts {
			all, live, waiting := d.all(), d.live(d.page()), d.approve(d.page())
			if d.keyed() != nil { // it has ended for good: one more
				d.must(d.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{{Key: apiKey, Person: "ada", Organization: "nordlys", Name: "script"}}}, operator))
			}
			lift := without(d)
			d.must(e.end(all[0]))
			lift()
			if accepted, err := first(d, all[len(all)-1], live, waiting, e); accepted || err != nil {
				t.Errorf("%s has ended, and %s is answered as before: %t, %v", e.name, name, accepted, err)
			}
			d.must(e.again(all[0]))
		}
	}
}

// keyed says why the API key is not taken.
func (d *database) keyed() error {
	_, err := d.APIKey(ctx, apiKey)
	return err
}

func showEnds(t *testing.T, h Harness) { everyEnd(t, h, false) }

func showUnwrittenEnds(t *testing.T, h Harness) { everyEnd(t, h, true) }

func showEndsBesideMoves(t *testing.T, h Harness) {
	d := furnished(t, h)
	revoked := ending{"approvals",
		func(s *store.Store) error {
			_, err := s.EndApprovals(ctx, store.ApprovalFilter{Client: "quill", Person: "ada", Organization: "nordlys"}, approval.RevokedByPerson, operator)
			return err
		},
		func(*store.Store) error { return nil }, approval.RevokedByPerson, "fjell", false}
	several := append([]ending{revoked}, endings...)
	for round := range 100 {
		e, all := several[round%len(several)], d.all()
		each := make([]*subject, len(all))
		for i := range all {
			each[i] = d.live(d.page())
		}
		var wg sync.WaitGroup
		var answered atomic.Bool
		begun := make(chan struct{}, len(all))
		for i, s := range all {
			wg.Go(func() { d.refreshOn(s, each[i], &answered, begun) })
		}
		for range all {
			<-begun
		}
		d.must(e.end(all[round%len(all)]))
		answered.Store(true)
		wg.Wait()
		for i, s := range all {
			if d.accepts(s, each[0]) || d.accepts(s, each[len(all)-1]) {
				t.Errorf("round %d, %s: store %d accepts after the answer", round, e.name, i)
			}
		}
		d.must(e.again(d.Store))
	}
	d.agree("in the end")
}

// refreshOn refreshes an approval until it is over, which it has to be once the end of
// its fact is answered.
func (d *database) refreshOn(s *store.Store, one *subject, answered *atomic.Bool, begun chan<- struct{}) {
	for n := int64(1); ; n++ {
		after := answered.Load()
		v, err := d.refresh(s, one, n)
		if err != nil || v != approval.OK && v != approval.Over || v == approval.OK && after {
			d.t.Errorf("refresh %d, after the answer: %t: %v, %v", n, after, v, err)
		}
		if n == 1 {
			begun <- struct{}{}
		}
		if v != approval.OK || after {
			return
		}
	}
}

// A fact ends while the move that stands on it is computed.
func showEndsMidMove(t *testing.T, h Harness) {
	for _, e := range endings {
		d := furnished(t, h)
		for _, at := range d.all() {
			one, waiting := d.live(d.page()), d.approve(d.page())
			for _, s := range []*subject{one, waiting} {
				inside := sync.OnceFunc(func() { // by whoever computes moves
					if err := e.end(d.Store); err != nil {
						t.Error(err)
					}
				})
				move := approval.Refresh("quill", 1, 1, d.Now())
				if s == waiting {
					move = d.exchanging(s)
				}
				_, v, err := at.Apply(ctx, s.ID, func(a approval.Approval, on approval.Standing) (approval.State, approval.Verdict) {
					next, v := move(a, on)
					inside()
					return next, v
				}, store.Act{})
				if err != nil {
					t.Errorf("%s: %v, %v", e.name, v, err)
				}
				for _, s2 := range d.all() {
					if d.accepts(s2, s) {
						t.Errorf("%s: accepted, after %v", e.name, v)
					}
				}
				d.must(e.again(d.Store))
				for _, s2 := range d.all() {
					if d.accepts(s2, s) {
						t.Errorf("%s is back: accepted, after %v", e.name, v)
					}
				}
				if v, err := d.refresh(at, s, 2); v != approval.Over || err != nil {
					t.Errorf("%s is back: a refresh is told %v, %v", e.name, v, err)
				}
			}
		}
		d.agree(e.name)
	}
}

// It stands on the membership as it was (decision P12).
func showApprovalBesideRemoval(t *testing.T, h Harness) {
	d := furnished(t, h)
	const rounds = 200
	made := 0
	for round := range rounds {
		all, a := d.all(), d.page()
		first, last := all[round%len(all)], all[(round+1)%len(all)]
		var approved, removed error
		var wg sync.WaitGroup
		both := []func(){
			func() { _, _, approved = first.Approve(ctx, a, operator) },
			func() { removed = last.RemoveMember(ctx, "nordlys", "ada", operator) },
		}
		wg.Go(both[round/2%2]) // the last to begin is often the first to run
		wg.Go(both[1-round/2%2])
		wg.Wait()
		s := &subject{Approval: approval.Approval{ID: approval.ID(a.Handle(0).ID()), Client: "quill", RedirectURI: a.RedirectURI, IssuedAt: d.Now().Unix()}}
		d.must(removed, d.SetMember(ctx, "nordlys", "ada", true, operator), d.SetFiller(ctx, "treasurer", "ada", true, operator))
		v, err := d.exchange(first, s)
		switch {
		case approved == nil && v == approval.Over && err == nil:
			made++
		case errors.Is(approved, store.ErrNotAllowed) && errors.Is(err, store.ErrNotFound):
		default:
			t.Errorf("round %d: approved %v, exchanged %v, %v", round, approved, v, err)
		}
	}
	if made == 0 || made == rounds {
		t.Errorf("%d of %d approvals came first: nothing was raced", made, rounds)
	}
	d.agree("in the end")
}

// changesOfFacts are of everything that facts are made of.
var changesOfFacts = []struct {
	name string
	do   func(s *store.Store) error
}{
	{"a directory", func(s *store.Store) error { return s.AddDirectory(ctx, newcomers("eva"), operator) }},
	{"a name", func(s *store.Store) error {
		return s.AddDirectory(ctx, directory.Directory{People: []directory.Person{{Person: org.Person{ID: "ada", Email: "ada@havn.example", Name: "A. Lindqvist", Active: true}}},
			Organizations: []org.Organization{{ID: "fjell", Name: "Fjell and Havn", AIIntegration: true}}}, operator)
	}},
	{"emails that pass from one to another", func(s *store.Store) error {
		return s.AddDirectory(ctx, directory.Directory{People: []directory.Person{
			{Person: org.Person{ID: "eva", Email: "tor@nordlys.example", Name: "Eva", Active: true}},
			{Person: org.Person{ID: "ada", Email: "eva@nordlys.example", Name: "A. Lindqvist", Active: true}},
			{Person: org.Person{ID: "tor", Email: "ada@havn.example", Name: "Tor", Active: true}},
		}}, operator)
	}},
	{"a circle and a role", func(s *store.Store) error {
		return s.AddDirectory(ctx, directory.Directory{Circles: []org.Circle{{ID: "anchor", Organization: "nordlys", Name: "All"}},
			Roles: []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Bursar"}}}, operator)
	}},
	{"a role taken", func(s *store.Store) error { return s.SetFiller(ctx, "treasurer", "ada", false, operator) }},
	{"a role given", func(s *store.Store) error { return s.SetFiller(ctx, "treasurer", "tor", true, operator) }},
	{"the admin right taken", func(s *store.Store) error { return s.SetAdmin(ctx, "nordlys", "ada", false, operator) }},
	{"a member", func(s *store.Store) error { return s.SetMember(ctx, "fjell", "tor", true, operator) }},
	{"a member gone", func(s *store.Store) error { return s.RemoveMember(ctx, "fjell", "tor", operator) }},
	{"a person", func(s *store.Store) error { return s.SetActive(ctx, "tor", false, operator) }},
	{"a client", func(s *store.Store) error {
		return s.AddClient(ctx, client.Client{ID: "bridge", RedirectURIs: []string{redirect}, IssuedAt: s.Now().Unix()}, store.Origin{}, operator)
	}},
	{"a client disabled", func(s *store.Store) error { return s.SetClientEnabled(ctx, "bridge", false, operator) }},
	{"API keys", func(s *store.Store) error {
		_, err := s.ReplaceAPIKeys(ctx, []directory.APIKey{{Key: apiKey + "-2", Person: "ada", Organization: "nordlys", Name: "script"}}, operator)
		return err
	}},
	{"AI integration", func(s *store.Store) error { return s.SetIntegration(ctx, "nordlys", false, operator) }},
	{"an import without some", func(s *store.Store) error {
		dir, err := s.ExportDirectory(ctx)
		if err != nil {
			return err
		}
		dir.Fillers = slices.DeleteFunc(dir.Fillers, func(f directory.Filler) bool { return f.Role == "eva" })
		dir.Roles = slices.DeleteFunc(dir.Roles, func(r org.Role) bool { return r.ID == "eva" })
		dir.APIKeys = nil
		_, err = s.ImportDirectory(ctx, directory.Import{Directory: dir, Prune: map[string]bool{directory.ListRoles: true, directory.ListFillers: true, directory.ListAPIKeys: true}}, operator)
		return err
	}},
}

// What is changed at one store is asked of the others.
func showChangesOfFacts(t *testing.T, h Harness) {
	d := furnished(t, h)
	d.live(d.page())
	d.live(d.pageIn("fjell"))
	before := d.agree("at first")
	for i, c := range changesOfFacts {
		all := d.all()
		d.must(c.do(all[i%len(all)]))
		after := d.agree(c.name)
		if after == before {
			t.Errorf("%s changed nothing", c.name)
		}
		before = after
	}
}
