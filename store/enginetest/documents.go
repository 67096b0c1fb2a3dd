package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

var documents = []behaviour{
	{"a client by its metadata document: every store has what it says, and keeps it as a registration", "", showDocument},
	{"a client by its metadata document that the configuration names: it is the configuration's, and what was approved for redirect URIs of both lives", "", showDocumentPreregistered},
	{"redirect URIs that a document gives up: what was approved for them ends at the second look, everywhere, and the rest lives", "", showRedirectGone},
	{"a document that gives redirect URIs up, beside approvals for them: each is made before, and known to be for one that is gone, or not at all", "", showRedirectGoneBesideApprovals},
	{"more documents that gave redirect URIs up than one look takes: each is to be looked at, however many stay out of reach", "", showManyLeaving},
}

const (
	documentID    = "https://assistant.example/client.json"
	otherRedirect = "https://other.example/cb"
)

// document is what one says now, which is good for an hour.
func (d *database) document(name string, uris ...string) client.Client {
	return client.Of(client.Metadata{Name: name, RedirectURIs: uris}, documentID, d.Now().Add(time.Hour), d.Now())
}

// put keeps a document, and wants that it ends so many approvals.
func (d *database) put(c client.Client, ended int) {
	d.t.Helper()
	if n, err := d.PutDocument(ctx, c, store.Origin{}, operator); err != nil || n != ended {
		d.t.Errorf("%s: %d approvals ended, %v; want %d", c.Name, n, err, ended)
	}
}

// says wants that every store has the client so.
func (d *database) says(when string, want client.Client) {
	d.t.Helper()
	for i, s := range d.all() {
		got, err := s.Client(ctx, documentID)
		state, stateErr := s.ClientState(ctx, documentID)
		if err != nil || stateErr != nil || fmt.Sprint(got) != fmt.Sprint(want) || state != store.ClientEnabled || !got.Documented() {
			d.t.Errorf("%s, store %d: %+v, %v, state %d %v; want %+v", when, i, got, err, state, stateErr, want)
		}
	}
}

// documentPage is a page of the client, for a redirect URI.
func (d *database) documentPage(uri string) store.Answer {
	a := d.page()
	a.Client, a.RedirectURI = documentID, uri
	return a
}

func showDocument(t *testing.T, h Harness) {
	d := furnished(t, h)
	was, err := d.Figures(ctx)
	d.must(err)
	first := d.document("Assistant", redirect)
	d.put(first, 0)
	d.says("at first", first)
	if now, err := d.Figures(ctx); err != nil || now.Clients["registered"] != was.Clients["registered"]+1 {
		t.Errorf("registered: %v, before %v, %v", now.Clients, was.Clients, err)
	}
	d.clock.add(2 * time.Hour)
	again := first
	again.GoodUntil = d.Now().Add(time.Hour).Unix()
	d.put(d.document("Assistant", redirect), 0)
	d.says("the same again", again)
	again.Name, again.RedirectURIs = "Assistant 2", []string{redirect, otherRedirect}
	d.put(d.document("Assistant 2", redirect, otherRedirect), 0)
	d.says("with another name", again)

	d.clock.add(client.UnapprovedRetention)
	for _, s := range d.all() {
		if _, err := s.Client(ctx, documentID); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("nobody has approved it in 14 days: %v", err)
		}
	}
	d.put(d.document("Assistant", redirect), 0) // before any sweep
	d.says("anew", d.document("Assistant", redirect))
	d.clock.add(client.UnapprovedRetention)
	swept, err := d.Sweep(ctx)
	if err != nil || swept.Clients != 2 { // with quill
		t.Errorf("swept %+v, %v", swept, err)
	}
	d.put(d.document("Assistant", redirect), 0)
	d.says("after a sweep", d.document("Assistant", redirect))
	live := d.live(d.documentPage(redirect))

	d.must(d.SetClientEnabled(ctx, documentID, false, operator))
	if _, err := d.PutDocument(ctx, d.document("Assistant", redirect), store.Origin{}, operator); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a disabled one: %v", err)
	}
	d.must(d.DeleteClient(ctx, documentID, operator))
	d.put(d.document("Assistant", redirect), 0)
	d.says("after it was deleted", d.document("Assistant", redirect))
	if d.accepts(d.Store, live) {
		t.Error("what was approved before it was deleted is accepted")
	}
	next := d.live(d.documentPage(redirect))
	d.reopen()
	if !d.accepts(d.Store, next) || d.accepts(d.Store, live) {
		t.Error("not as before the restart")
	}

	preset, err := client.Preregistered("https://preset.example/c", "Preset", []string{redirect}, nil)
	d.must(err, d.Preregister(ctx, preset, operator))
	other := d.document("Impostor", redirect)
	other.ID = preset.ID
	if _, err := d.PutDocument(ctx, other, store.Origin{}, operator); !errors.Is(err, store.ErrConflict) {
		t.Errorf("a preregistered one: %v", err)
	}
	d.agree("in the end")
}

// One that is disabled before anybody approved it stays so: its ID comes back with its
// document.
func (d *database) staysDisabled() {
	d.t.Helper()
	blocked := d.document("Blocked", redirect)
	blocked.ID = "https://blocked.example/c"
	_, err := d.PutDocument(ctx, blocked, store.Origin{}, operator)
	d.must(err, d.SetClientEnabled(ctx, blocked.ID, false, operator))
	d.clock.add(2 * client.UnapprovedRetention)
	_, err = d.Sweep(ctx)
	d.must(err)
	for _, s := range d.all() {
		if state, err := s.ClientState(ctx, blocked.ID); state != store.ClientDisabled || err != nil {
			d.t.Errorf("disabled, and a month later: %d, %v", state, err)
		}
	}
}

// Whoever asks for access by a document makes a row for it: no configuration fails by that.
func showDocumentPreregistered(t *testing.T, h Harness) {
	d := furnished(t, h)
	preset := func(uris ...string) []client.Client {
		c, err := client.Preregistered(documentID, "Preset", uris, nil)
		d.must(err)
		return []client.Client{c}
	}
	d.put(d.document("Assistant", redirect, otherRedirect), 0)
	d.must(d.SyncPreregistered(ctx, preset(redirect), operator)) // nobody has approved it
	is := func(when string, approved bool, uris ...string) {
		t.Helper()
		for i, s := range d.all() {
			c, err := s.Client(ctx, documentID)
			if state, _ := s.ClientState(ctx, documentID); err != nil || !c.Preregistered || c.Documented() || c.GoodUntil != 0 || c.Approved != approved || c.Name != "Preset" || !slices.Equal(c.RedirectURIs, uris) || state != store.ClientEnabled {
				t.Errorf("%s, store %d: %+v, %v", when, i, c, err)
			}
		}
	}
	is("not approved", false, redirect)
	if _, err := d.PutDocument(ctx, d.document("Assistant", redirect), store.Origin{}, operator); !errors.Is(err, store.ErrConflict) {
		t.Errorf("its document: %v", err)
	}

	d.must(d.SyncPreregistered(ctx, nil, operator), d.DeleteClient(ctx, documentID, operator))
	d.put(d.document("Assistant", redirect, otherRedirect), 0)
	kept, gone := d.live(d.documentPage(redirect)), d.live(d.documentPage(otherRedirect))
	failing := append(preset(redirect), client.Client{ID: "quill", RedirectURIs: []string{redirect}, Preregistered: true})
	if err := d.SyncPreregistered(ctx, failing, operator); !errors.Is(err, store.ErrConflict) || !d.accepts(d.Store, kept) || !d.accepts(d.Store, gone) {
		t.Errorf("with the ID of one that registered itself: %v, and something has ended", err)
	}
	d.must(d.SyncPreregistered(ctx, preset(redirect), operator))
	is("approved", true, redirect)
	for i, s := range d.all() {
		if !d.accepts(s, kept) || d.accepts(s, gone) {
			t.Errorf("store %d: kept %t, gone %t", i, d.accepts(s, kept), d.accepts(s, gone))
		}
	}
	if r, err := d.Approval(ctx, gone.ID); err != nil || r.Phase != approval.Ended || r.Reason != approval.RedirectGone {
		t.Errorf("%v %q, %v", r.Phase, r.Reason, err)
	}
	d.must(d.SyncPreregistered(ctx, preset(redirect), operator)) // the next start
	list, _, err := d.Events(ctx, store.EventFilter{Kind: journal.ClientRegistered, Client: documentID})
	if err != nil || len(list) == 0 || list[0].Detail != "preregistered; approvals ended: 1" {
		t.Errorf("the journal has %+v, %v", list, err)
	}
	d.agree("in the end")
	d.reopen()
	if is("after a restart", true, redirect); !d.accepts(d.Store, kept) {
		t.Error("not as before the restart")
	}

	quill := client.Client{ID: "quill", Name: "Quill", RedirectURIs: []string{redirect}, Preregistered: true}
	d.clock.add(client.UnapprovedRetention) // and no sweep
	d.must(d.SyncPreregistered(ctx, append(preset(redirect), quill), operator))
	if c, err := d.Client(ctx, "quill"); err != nil || !c.Preregistered {
		t.Errorf("the ID of one whose 14 days are over: %+v, %v", c, err)
	}
}

func showRedirectGone(t *testing.T, h Harness) {
	d := furnished(t, h)
	d.staysDisabled()
	d.must(d.AddClient(ctx, d.client("quill2"), store.Origin{}, store.Act{}))
	d.put(d.document("Assistant", redirect, otherRedirect), 0)
	gone, kept := d.live(d.documentPage(otherRedirect)), d.live(d.documentPage(redirect))
	ofAnother := d.documentPage(redirect)
	ofAnother.Client = "quill2"
	another := d.live(ofAnother)
	over := d.live(d.documentPage(otherRedirect))
	d.must(d.EndApproval(ctx, over.ID, approval.RevokedByPerson, operator))
	page := d.documentPage(otherRedirect)

	issued := d.Now().Unix()
	next := func() client.Client { return d.document("Assistant", redirect, "https://new.example/cb") }
	lives := func(when string, want ...string) {
		t.Helper()
		for i, s := range d.all() {
			for _, one := range []*subject{gone, kept} {
				if r, err := s.Approval(ctx, one.ID); err != nil || r.Phase == approval.Ended {
					t.Errorf("%s, store %d: %v %q, %v", when, i, r.Phase, r.Reason, err)
				}
			}
		}
		if ids, err := d.LeavingClients(ctx); err != nil || !slices.Equal(ids, want) {
			t.Errorf("%s: %q are leaving, %v", when, ids, err)
		}
		if _, _, err := d.Approve(ctx, page, operator); (want == nil) != (err == nil) || want != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: a page that was open: %v", when, err)
		}
	}
	lives("before")
	d.put(next(), 0)
	lives("one old answer", documentID)
	d.clock.add(store.LeavingFor / 2)
	d.put(d.document("Assistant", redirect, otherRedirect), 0)
	lives("it was old")
	d.clock.add(store.LeavingFor / 2)
	d.put(next(), 0)
	d.put(d.document("Assistant", redirect), 0)
	lives("gone", documentID)
	d.clock.add(store.LeavingFor - time.Second)
	d.put(next(), 0)
	lives("gone for nearly an hour", documentID)
	d.reopen()
	d.clock.add(time.Second)
	changed := next()
	changed.Approved, changed.IssuedAt = true, issued
	d.put(next(), 2) // with what the page made
	d.says("changed", changed)
	for i, s := range d.all() {
		if d.accepts(s, gone) || !d.accepts(s, kept) || !d.accepts(s, another) {
			t.Errorf("store %d: one that is gone %t, kept %t, another client's %t", i, d.accepts(s, gone), d.accepts(s, kept), d.accepts(s, another))
		}
		if r, err := s.Approval(ctx, gone.ID); err != nil || r.Phase != approval.Ended || r.Reason != approval.RedirectGone {
			t.Errorf("store %d: %v %q, %v", i, r.Phase, r.Reason, err)
		}
		if v, err := d.refresh(s, gone, 1); v != approval.Over || err != nil {
			t.Errorf("store %d: refreshed: %v, %v", i, v, err)
		}
	}
	if r, err := d.Approval(ctx, over.ID); err != nil || r.Reason != approval.RevokedByPerson {
		t.Errorf("what had ended: %q, %v", r.Reason, err)
	}
	if _, _, err := d.Approve(ctx, page, operator); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a page that was open: %v", err)
	}
	if got, want := d.journalOf(gone), append(kinds(journal.ApprovalGranted, journal.CodeExchanged), ended(approval.RedirectGone)); !slices.Equal(got, want) {
		t.Errorf("the journal has %q", got)
	}
	list, _, err := d.Events(ctx, store.EventFilter{Kind: journal.ClientChanged})
	if err != nil || len(list) != 6 || list[0].Client != documentID || list[0].Detail != "approvals ended: 2" || list[1].Detail != "approvals ended: 0; redirect URIs that are given up, unless they come back: 1" {
		t.Errorf("the journal has %+v, %v", list, err)
	}
	d.put(d.document("Assistant", redirect, otherRedirect), 0)
	if d.accepts(d.Store, gone) {
		t.Error("the redirect URI came back, and with it what had ended")
	}
	d.agree("in the end")
}

func showRedirectGoneBesideApprovals(t *testing.T, h Harness) {
	d := furnished(t, h)
	for round := range 10 {
		d.put(d.document("Assistant", redirect, otherRedirect), 0)
		stores := d.all()
		var made []approval.ID
		var mu sync.Mutex
		var all sync.WaitGroup
		for n := range 20 {
			a, s := d.documentPage(otherRedirect), stores[n%len(stores)]
			all.Go(func() {
				h, _, err := s.Approve(ctx, a, operator)
				if err != nil && !errors.Is(err, store.ErrNotFound) {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					made = append(made, approval.ID(h.ID()))
					mu.Unlock()
				}
			})
		}
		_, err := d.PutDocument(ctx, d.document("Assistant", redirect), store.Origin{}, operator)
		d.must(err)
		all.Wait()
		if ids, err := d.LeavingClients(ctx); err != nil || len(ids) != min(len(made), 1) {
			t.Errorf("round %d: %d made, and leaving are %q, %v", round, len(made), ids, err)
		}
		for _, id := range made {
			d.must(d.EndApproval(ctx, id, approval.RevokedByPerson, operator))
		}
	}
	d.agree("in the end")
}

func showManyLeaving(t *testing.T, h Harness) {
	d := furnished(t, h)
	const all = 120
	for n := range all {
		page := d.documentPage(otherRedirect)
		page.Client = fmt.Sprintf("https://host%d.example/client.json", n)
		says := func(uris ...string) {
			c := d.document("Assistant", uris...)
			c.ID = page.Client
			d.put(c, 0)
		}
		says(redirect, otherRedirect)
		d.approve(page)
		says(redirect)
	}
	ids, err := d.LeavingClients(ctx)
	if err != nil || len(ids) != all || len(slices.Compact(ids)) != all {
		t.Errorf("%d of %d are to be looked at, %v", len(ids), all, err)
	}
}
