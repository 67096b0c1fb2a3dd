package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

// asking is a house where admins are asked first.
func asking(t testing.TB) house {
	t.Helper()
	h := furnished(t)
	h.rules(t, policy.Policy{Unknown: policy.Ask})
	return h
}

func byTor() Asking {
	return Asking{Organization: "nordlys", Person: "tor", Client: "quill", RedirectURI: redirect, Message: "For the minutes.\nPlease."}
}

func (h house) asks(t testing.TB, a Asking) Request {
	t.Helper()
	r, made, err := h.Ask(ctx, a, Act{Actor: "person:" + a.Person})
	if err != nil || !made {
		t.Fatalf("%+v, %v, %v", r, made, err)
	}
	return r
}

// Of many requests at once one is open, on any node; asking again gives that one.
func TestAskAtOnce(t *testing.T) {
	all := nodes(t, 2)
	h := all[0]
	h.rules(t, policy.Policy{Unknown: policy.Ask})
	var made atomic.Int64
	var ids sync.Map
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			r, is, err := all[i%2].Ask(ctx, byTor(), Act{Actor: "person:tor"})
			if err != nil {
				t.Error(err)
			}
			if ids.Store(r.ID, true); is {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	n := 0
	for range ids.Range {
		n++
	}
	if made.Load() != 1 || n != 1 || len(h.events(t, journal.RequestMade)) != 1 {
		t.Errorf("%d made, %d IDs", made.Load(), n)
	}
	r, err := h.RequestOf(ctx, "nordlys", "tor", "connect.quill.example")
	if err != nil || r.State != RequestOpen || r.Message != byTor().Message || r.PersonName != "Tor" || r.Name != "Quill Assistant" || r.DecidedAt != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if n, err := h.ConnectionCounts(ctx, "nordlys"); err != nil || n.Requests != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}

// A request is decided once; the second admin is told by whom. Allowed for everybody, all
// who ask for that app are answered, and may approve.
func TestDecideOnce(t *testing.T) {
	h := asking(t)
	if err := h.AddDirectory(ctx, directory.Directory{
		People:  []directory.Person{{Person: org.Person{ID: "eva", Email: "eva@nordlys.example", Name: "Eva", Active: true}}},
		Members: []directory.Member{{Person: "eva", Organization: "nordlys", Admin: true}},
	}, Act{}); err != nil {
		t.Fatal(err)
	}
	tor, eva := h.asks(t, byTor()), Asking{Organization: "nordlys", Person: "eva", Client: "quill", RedirectURI: redirect, Message: ""}
	also := h.asks(t, eva)
	var won atomic.Int64
	var wg sync.WaitGroup
	for _, who := range []string{"ada", "eva"} { // eva decides her own as well: she is an admin
		wg.Go(func() {
			all, err := h.DecideRequest(ctx, Decision{Organization: "nordlys", Request: tor.ID, Admin: who, State: RequestAllowed, Reason: "Fine."}, Act{Actor: "person:" + who})
			switch {
			case err == nil && len(all) == 2 && all[0].ID == tor.ID && all[1].ID == also.ID && all[1].PersonEmail == "eva@nordlys.example":
				won.Add(1)
			case !errors.Is(err, ErrChanged) || len(all) != 1 || all[0].DecidedBy == "person:"+who || all[0].State != RequestAllowed || all[0].DecidedAt == 0:
				t.Errorf("%s: %+v, %v", who, all, err)
			}
		})
	}
	if wg.Wait(); won.Load() != 1 {
		t.Errorf("%d have decided", won.Load())
	}
	if n := len(h.events(t, journal.RequestAllowed)); n != 2 {
		t.Errorf("%d entries", n)
	}
	if open, _, err := h.Requests(ctx, RequestFilter{Organization: "nordlys"}); len(open) != 0 || err != nil {
		t.Errorf("open: %+v, %v", open, err)
	}
	if done, _, err := h.Requests(ctx, RequestFilter{Organization: "nordlys", Decided: true}); len(done) != 2 || err != nil || done[0].ID != also.ID {
		t.Errorf("decided: %+v, %v", done, err)
	}
	if _, _, err := h.Ask(ctx, byTor(), Act{}); !errors.Is(err, ErrChanged) {
		t.Errorf("asked for what is allowed: %v", err)
	}
	a := h.answer(1)
	a.Person, a.Grant = "tor", grantset.Set{Kind: grantset.Everything}
	h.live(t, a)
	h.same(t, "after it")
}

// Allowed for one person, it is so for nobody else; declined, it cannot be asked for
// again for 30 days, by that name at that host.
func TestAllowedToOneAndDeclined(t *testing.T) {
	h := asking(t)
	eva := Asking{Organization: "nordlys", Person: "ada", Client: "quill", RedirectURI: redirect, Message: ""}
	approved := h.answer(9) // or its client would be forgotten after 14 days
	approved.Organization, approved.Grant = "fjell", grantset.Set{Kind: grantset.Everything}
	h.live(t, approved)
	tor, ada := h.asks(t, byTor()), h.asks(t, eva)
	if all, err := h.DecideRequest(ctx, Decision{Organization: "nordlys", Request: tor.ID, Admin: "ada", State: RequestAllowedPerson, Reason: ""}, byAda); err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	if _, _, err := h.Approve(ctx, h.answer(1), Act{}); !errors.Is(err, ErrAppRule) {
		t.Errorf("somebody else: %v", err)
	}
	if all, err := h.DecideRequest(ctx, Decision{Organization: "nordlys", Request: ada.ID, Admin: "ada", State: RequestDeclined, Reason: "We have one."}, byAda); err != nil || len(all) != 1 || all[0].Reason != "We have one." {
		t.Fatalf("%+v, %v", all, err)
	}
	h.clock.add(30*day - 1)
	if r, made, err := h.Ask(ctx, eva, Act{}); !errors.Is(err, ErrDeclined) || made || r.ID != ada.ID || r.DecidedBy != "person:ada" {
		t.Errorf("asked again: %+v, %v", r, err)
	}
	h.clock.add(day)
	again := h.asks(t, eva)
	if _, err := h.Withdraw(ctx, again.ID, "tor", Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("another's: %v", err)
	}
	if r, err := h.Withdraw(ctx, again.ID, "ada", byAda); err != nil || r.State != RequestWithdrawn {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err := h.Withdraw(ctx, again.ID, "ada", byAda); !errors.Is(err, ErrChanged) || r.State != RequestWithdrawn {
		t.Errorf("twice: %+v, %v", r, err)
	}
	if r, err := h.RequestOf(ctx, "nordlys", "ada", "connect.quill.example"); err != nil || r.ID != ada.ID {
		t.Errorf("the newest that was not withdrawn: %+v, %v", r, err)
	}
	h.asks(t, eva)
}

// What no admin of the organization may decide, nobody may ask, or cannot be, is refused.
func TestRequestsThatCannotBe(t *testing.T) {
	h := asking(t)
	r := h.asks(t, byTor())
	if err := h.SetAdmin(ctx, "fjell", "ada", true, Act{}); err != nil {
		t.Fatal(err)
	}
	decide := func(d Decision) error {
		_, err := h.DecideRequest(ctx, d, byAda)
		return err
	}
	with := func(change func(*Asking)) error {
		a := byTor()
		change(&a)
		_, _, err := h.Ask(ctx, a, Act{})
		return err
	}
	if _, err := h.Request(ctx, "fjell", r.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("another organization's: %v", err)
	}
	for name, tt := range map[string]struct{ err, want error }{
		"another organization's": {decide(Decision{Organization: "fjell", Request: r.ID, Admin: "ada", State: RequestAllowed, Reason: ""}), ErrNotFound},
		"none":                   {decide(Decision{Organization: "nordlys", Request: "none", Admin: "ada", State: RequestAllowed, Reason: ""}), ErrNotFound},
		"one's own, no admin":    {decide(Decision{Organization: "nordlys", Request: r.ID, Admin: "tor", State: RequestAllowed, Reason: ""}), ErrNotAllowed},
		"no decision":            {decide(Decision{Organization: "nordlys", Request: r.ID, Admin: "ada", State: RequestOpen, Reason: ""}), ErrNotFound},
		"a long reason":          {decide(Decision{Organization: "nordlys", Request: r.ID, Admin: "ada", State: RequestDeclined, Reason: strings.Repeat("ø", 201)}), ErrNotAllowed},
		"a long message":         {with(func(a *Asking) { a.Message = strings.Repeat("ø", MaxMessage+1) }), ErrNotAllowed},
		"a bell":                 {with(func(a *Asking) { a.Message = "\a" }), ErrNotAllowed},
		"no UTF-8":               {with(func(a *Asking) { a.Message = "\xff" }), ErrNotAllowed},
		"no member":              {with(func(a *Asking) { a.Organization = "fjell" }), ErrNotAllowed},
		"no client":              {with(func(a *Asking) { a.Client = "none" }), ErrNotFound},
		"no host":                {with(func(a *Asking) { a.RedirectURI = "x" }), ErrNotFound},
	} {
		if !errors.Is(tt.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, tt.err, tt.want)
		}
	}
	p := blocked("connect.quill.example")
	p.Unknown = policy.Ask
	h.rules(t, p)
	if err := with(func(a *Asking) { a.Person = "ada" }); !errors.Is(err, ErrAppRule) {
		t.Errorf("blocked: %v", err)
	}
	if err := decide(Decision{Organization: "nordlys", Request: r.ID, Admin: "ada", State: RequestAllowed, Reason: ""}); !errors.Is(err, ErrRules) {
		t.Errorf("allowed beside a block: %v", err)
	}
	if now, err := h.Request(ctx, "nordlys", r.ID); err != nil || now.State != RequestOpen {
		t.Errorf("%+v, %v", now, err)
	}
	if err := h.RemoveMember(ctx, "nordlys", "tor", Act{}); err != nil {
		t.Fatal(err)
	}
	if open, _, err := h.Requests(ctx, RequestFilter{Organization: "nordlys"}); len(open) != 0 || err != nil {
		t.Errorf("of somebody who has left: %+v, %v", open, err)
	}
	if err := decide(Decision{Organization: "nordlys", Request: r.ID, Admin: "ada", State: RequestAllowedPerson, Reason: ""}); !errors.Is(err, ErrChanged) || errors.Is(err, ErrNotAllowed) {
		t.Errorf("allowed to somebody who has left: %v", err)
	}
}

// There are so many open requests of a person, and of an organization, and no more; lists
// go through all; and time takes them away.
func TestRequestsAreBounded(t *testing.T) {
	h := asking(t)
	at := func(person string, n int) Asking {
		id := fmt.Sprint("app", n)
		uri := fmt.Sprintf("https://app%d.example/", n)
		if _, err := h.Client(ctx, id); err != nil {
			if err := h.AddClient(ctx, client.Client{ID: id, Name: id, RedirectURIs: []string{uri}, IssuedAt: h.Now().Unix()}, Origin{}, Act{}); err != nil {
				t.Fatal(err)
			}
		}
		return Asking{Organization: "nordlys", Person: person, Client: id, RedirectURI: uri, Message: ""}
	}
	for n := range oversight.MaxOpenOfOne {
		h.asks(t, at("tor", n))
	}
	if _, _, err := h.Ask(ctx, at("tor", 20), Act{}); !errors.Is(err, ErrFull) {
		t.Errorf("of one: %v", err)
	}
	defer func(n int) { oversight.MaxOpen = n }(oversight.MaxOpen)
	oversight.MaxOpen = oversight.MaxOpenOfOne + 1
	h.asks(t, at("ada", 1))
	if _, _, err := h.Ask(ctx, at("ada", 2), Act{}); !errors.Is(err, ErrFull) {
		t.Errorf("of all: %v", err)
	}
	seen := map[string]bool{}
	f := RequestFilter{Organization: "nordlys", Limit: 4}
	for pages := 0; ; pages++ {
		all, next, err := h.Requests(ctx, f)
		if err != nil || pages > 5 {
			t.Fatal(pages, err)
		}
		for _, r := range all {
			if seen[r.ID] {
				t.Errorf("%s twice", r.ID)
			}
			seen[r.ID] = true
		}
		if f.After = next; next == "" {
			break
		}
	}
	if len(seen) != 21 {
		t.Errorf("%d listed", len(seen))
	}
	if _, _, err := h.Requests(ctx, RequestFilter{Organization: "nordlys", After: "' OR 1"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("a cursor: %v", err)
	}
	h.clock.add(oversight.OpenRetention - 1)
	if _, err := h.Sweep(ctx); err != nil || h.rows(t, `SELECT COUNT(*) FROM app_request`) != 21 {
		t.Errorf("deleted too soon, %v", err)
	}
	h.clock.add(day)
	if _, err := h.Sweep(ctx); err != nil || h.rows(t, `SELECT COUNT(*) FROM app_request`) != 0 {
		t.Errorf("not deleted, %v", err)
	}
}
