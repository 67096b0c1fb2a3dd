package enginetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

var requests = []behaviour{
	{"a request that two admins decide differently at once: one decision stands, whole, and the other admin is told whose", "", showDecidedOnce},
	{"a request at the moment its admin loses the right: it is decided before, whole, or not at all", "", showDecidedBesideLoss},
}

// by is what a person does.
func by(person string) store.Act { return store.Act{Actor: "person:" + person} }

// asking has admins of Nordlys asked, of whom Tor is one.
func asking(t *testing.T, h Harness) *database {
	d := furnished(t, h)
	_, _, err := d.SetPolicy(ctx, store.Rules{Organization: "nordlys", Policy: policy.Policy{Unknown: policy.Ask}}, operator)
	d.must(err, d.SetAdmin(ctx, "nordlys", "tor", true, operator))
	return d
}

// asked has Ada and Tor ask for an app of its own, and gives Tor's request.
func (d *database) asked(name string) (r store.Request) {
	d.t.Helper()
	uri := "https://" + name + ".example/"
	d.must(d.AddClient(ctx, client.Client{ID: name, Name: name, RedirectURIs: []string{uri}, IssuedAt: d.Now().Unix()}, store.Origin{}, operator))
	for _, person := range []string{"ada", "tor"} {
		var err error
		r, _, err = d.Ask(ctx, store.Asking{Organization: "nordlys", Person: person, Client: name, RedirectURI: uri}, by(person))
		d.must(err)
	}
	return r
}

// became wants that a request is as a decision has left it, at every store, in the rules
// and in the journal. The zero Decision has left it open.
func (d *database) became(when string, r store.Request, made store.Decision) {
	d.t.Helper()
	actor, state, rule, entries := "", store.RequestOpen, policy.Ask, ""
	if made.Admin != "" {
		actor, state = by(made.Admin).Actor, made.State
		switch state {
		case store.RequestDeclined:
			entries = strings.Repeat(" request_declined", 2)
		case store.RequestAllowed:
			rule, entries = policy.Allow, " policy_changed"+strings.Repeat(" request_allowed", 2)
		case store.RequestAllowedPerson:
			rule, entries = policy.Allow, " policy_changed request_allowed"
		}
	}
	for _, s := range d.all() {
		now, err := s.Request(ctx, "nordlys", r.ID)
		p, ruled := s.Policy(ctx, "nordlys")
		d.must(err, ruled)
		got, app := p.Decide(client.Hosts{App: r.Host}, r.Name, r.Person, false)
		if now.State != state || now.DecidedBy != actor || got != rule || (app != nil) != (rule == policy.Allow) || app != nil && app.By != actor {
			d.t.Errorf("%s: %s by %q, the rule is %s, %+v; want %s by %q", when, now.State, now.DecidedBy, got, app, state, actor)
		}
	}
	all, _, err := d.Events(ctx, store.EventFilter{Kinds: []journal.Kind{journal.PolicyChanged, journal.RequestAllowed, journal.RequestDeclined}, OldestFirst: true, Limit: 1000})
	d.must(err)
	var told string
	for _, e := range all {
		if e.Detail != r.Host && !strings.Contains(e.Detail, ", "+r.Host+" allowed") {
			continue
		}
		if told += " " + string(e.Kind); e.Actor != actor {
			d.t.Errorf("%s: %s by %s, want %s", when, e.Kind, e.Actor, actor)
		}
	}
	if told != entries {
		d.t.Errorf("%s: the journal has%s, want%s", when, told, entries)
	}
}

func showDecidedOnce(t *testing.T, h Harness) {
	d := asking(t, h)
	allow, won := []store.RequestState{store.RequestAllowed, store.RequestAllowedPerson}, map[store.RequestState]int{}
	for round := range 40 {
		r, all := d.asked(fmt.Sprintf("app%d", round)), d.all()
		both := [2]store.Decision{
			{Organization: "nordlys", Request: r.ID, Admin: "ada", State: allow[round/2%2], Reason: "Yes."},
			{Organization: "nordlys", Request: r.ID, Admin: "tor", State: store.RequestDeclined, Reason: "No."},
		}
		var told [2][]store.Request
		var errs [2]error
		var wg sync.WaitGroup
		for i := range both {
			i = (i + round) % 2 // the last to begin is often the first to run
			wg.Go(func() { told[i], errs[i] = all[i%len(all)].DecideRequest(ctx, both[i], by(both[i].Admin)) })
		}
		wg.Wait()
		first := 0
		if errs[0] != nil {
			first = 1
		}
		made, second := both[first], told[1-first]
		if won[made.State]++; errs[first] != nil || !errors.Is(errs[1-first], store.ErrChanged) {
			t.Fatalf("round %d: %v", round, errs)
		}
		if len(second) != 1 || second[0].State != made.State || second[0].DecidedBy != by(made.Admin).Actor || second[0].Reason != made.Reason {
			t.Errorf("round %d: the second is told %+v, and it is %+v", round, second, made)
		}
		d.became(fmt.Sprintf("round %d", round), r, made)
	}
	if won[store.RequestDeclined] == 0 || won[store.RequestDeclined] == 40 {
		t.Errorf("%v: nothing was raced", won)
	}
	d.agree("decided")
}

func showDecidedBesideLoss(t *testing.T, h Harness) {
	d, made := asking(t, h), 0
	for round := range 40 {
		r, all := d.asked(fmt.Sprintf("app%d", round)), d.all()
		decision := store.Decision{Organization: "nordlys", Request: r.ID, Admin: "tor", State: store.RequestAllowed}
		var decided, lost error
		both := []func(){
			func() { _, decided = d.DecideRequest(ctx, decision, by("tor")) },
			func() { lost = all[len(all)-1].SetAdmin(ctx, "nordlys", "tor", false, operator) },
		}
		var wg sync.WaitGroup
		wg.Go(both[round%2]) // the last to begin is often the first to run
		wg.Go(both[1-round%2])
		wg.Wait()
		switch {
		case decided == nil:
			made++
		case errors.Is(decided, store.ErrNotAllowed):
			decision = store.Decision{}
		default:
			t.Errorf("round %d: %v", round, decided)
		}
		d.became(fmt.Sprintf("round %d", round), r, decision)
		if decision.Admin == "" { // or too many are open
			_, err := d.DecideRequest(ctx, store.Decision{Organization: "nordlys", Request: r.ID, State: store.RequestDeclined}, operator)
			d.must(err)
		}
		d.must(lost, d.SetAdmin(ctx, "nordlys", "tor", true, operator))
	}
	if made == 0 || made == 40 {
		t.Errorf("%d of 40 decisions came first: nothing was raced", made)
	}
	d.agree("in the end")
}
