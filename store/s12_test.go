package store

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
)

// S-12: registration, approval, cancel, exchange, reuse and revocation are in
// the journal with client, person, organization, address and time, and what is
// in it stays as it is.
func TestS12Journal(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	byPerson := Act{Actor: "person:ada", Address: "192.0.2.1", Reference: "r1"}
	byClient := Act{Actor: "client:quill", Address: "192.0.2.2", Reference: "r2"}
	before, _, err := h.Events(ctx, EventFilter{Limit: 1000, OldestFirst: true})
	if err != nil {
		t.Fatal(err)
	}
	step := func(kind journal.Kind, want Event, do func() error) {
		t.Helper()
		h.clock.add(time.Minute)
		if err := do(); err != nil {
			t.Fatal(kind, err)
		}
		after, _, err := h.Events(ctx, EventFilter{Limit: 1000, OldestFirst: true})
		if err != nil || len(after) <= len(before) || !slices.Equal(after[:len(before)], before) {
			t.Fatalf("%s: the journal was\n%+v\nand is\n%+v, %v", kind, before, after, err)
		}
		i := slices.IndexFunc(after[len(before):], func(e Event) bool { return e.Kind == kind })
		if i < 0 {
			t.Fatalf("no %s in %+v", kind, after[len(before):])
		}
		got := after[len(before)+i]
		if got.At != h.Now().Unix() || got.ID == "" {
			t.Errorf("%s at %d, it is %d", kind, got.At, h.Now().Unix())
		}
		want.ID, want.At, want.Kind, want.Detail = got.ID, got.At, kind, got.Detail
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		before = after
	}
	about := Event{Client: "quill", Person: "ada", Organization: "nordlys"}
	as := func(e Event, id approval.ID, act Act, reason approval.Reason) Event {
		e.Approval, e.Actor, e.Address, e.Reference, e.Reason = id.String(), act.Actor, act.Address, act.Reference, string(reason)
		return e
	}
	step("client_registered", Event{Client: "other", Actor: byClient.Actor, Address: byClient.Address, Reference: byClient.Reference}, func() error {
		return h.AddClient(ctx, client.Client{ID: "other", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}, Origin{}, byClient)
	})
	cancelled := Event{Client: "quill", Person: "ada", Actor: byPerson.Actor, Address: byPerson.Address, Reference: byPerson.Reference}
	step("approval_cancelled", cancelled, func() error {
		return h.Cancel(ctx, Cancelled{Handle: h.page(9), Client: "quill", Person: "ada"}, byPerson)
	})
	id := approval.ID(h.page(1)(0).ID())
	var issued int64
	step("approval_granted", as(about, id, byPerson, ""), func() (err error) {
		_, issued, err = h.Approve(ctx, h.answer(1), byPerson)
		return err
	})
	move := func(m approval.Move, want approval.Verdict, generation int64) func() error {
		return func() error {
			act := byClient
			act.Generation = generation
			_, v, err := h.ApplyLive(ctx, id, m, act)
			if v != want {
				t.Fatalf("%v, want %v", v, want)
			}
			return err
		}
	}
	step("code_exchanged", as(about, id, byClient, ""), func() error {
		return move(approval.Exchange("quill", issuer, redirect, verifier, issued, 1, h.Now()), approval.OK, 0)()
	})
	if err := move(approval.Refresh("quill", 1, 1, h.Now()), approval.OK, 1)(); err != nil { // not journaled (decision J3)
		t.Fatal(err)
	}
	step("refresh_reused", as(about, id, byClient, LooksLikeCopies), move(approval.Refresh("quill", 1, 1, h.Now()), approval.Reused, 1))
	revoked := h.live(t, h.answer(2))
	before, _, _ = h.Events(ctx, EventFilter{Limit: 1000, OldestFirst: true})
	step("approval_ended", as(about, revoked, byPerson, approval.RevokedByPerson), func() error {
		return h.EndApproval(ctx, revoked, approval.RevokedByPerson, byPerson)
	})
	step("directory_changed", Event{Person: "ada", Organization: "nordlys", Actor: "operator:anna", Address: "127.0.0.1", Reference: "r3", Reason: "left"}, func() error {
		return h.RemoveMember(ctx, "nordlys", "ada", Act{Actor: "operator:anna", Address: "127.0.0.1", Reference: "r3", Reason: "left"})
	})
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if after, _, err := h.Events(ctx, EventFilter{Limit: 1000, OldestFirst: true}); err != nil || !slices.Equal(after[:len(before)], before) {
		t.Errorf("a sweep changed the journal: %v", err)
	}
}

// S-12: nothing changes an entry, and retention alone deletes any.
func TestS12JournalIsAppendOnly(t *testing.T) {
	changes := regexp.MustCompile(`(?i)(UPDATE|DELETE\s+FROM|REPLACE\s+INTO|TRUNCATE|DROP\s+TABLE|ALTER\s+TABLE)\s+journal\b`)
	found := 0
	for _, name := range sources(t) {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range changes.FindAllIndex(source, -1) {
			found++
			in := string(source[:at[0]])
			in = in[strings.LastIndex(in, "\nfunc "):]
			if !strings.HasPrefix(in, "\nfunc SweepJournal(") {
				t.Errorf("%s: %s in %s", name, source[at[0]:at[1]], strings.SplitN(in, "{", 2)[0])
			}
		}
	}
	if found != 1 {
		t.Errorf("%d statements change the journal, want retention's alone", found)
	}
}
