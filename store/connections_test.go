package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

// connected is a house with connections of two people and two apps, of every grant set.
func connected(t testing.TB, n int) (h house, ids []approval.ID) {
	t.Helper()
	h = furnished(t)
	if err := h.AddClient(ctx, client.Client{ID: "scribe", Name: "Møte-Scribe", RedirectURIs: []string{redirect, "https://scribe.example/"}, IssuedAt: h.Now().Unix()}, Origin{}, Act{}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		a := h.unique(i)
		switch i % 4 {
		case 0:
			a.Grant = grantset.Set{Kind: grantset.Organization}
		case 1:
			a.Grant = h.answer(0).Grant
		case 2:
			a.Person = "tor"
		case 3:
			a.Client = "scribe"
		}
		handle, issued, err := h.Approve(ctx, a, Act{})
		if err != nil {
			t.Fatal(err)
		}
		id := approval.ID(handle.ID())
		if _, v, err := h.Apply(ctx, id, approval.Exchange(a.Client, issuer, redirect, verifier, issued, 1, h.Now()), Act{}); err != nil || v != approval.OK {
			t.Fatal(v, err)
		}
		if ids = append(ids, id); i%2 == 0 {
			h.clock.add(time.Second)
		}
	}
	return h, ids
}

// wider reports whether an option gives more than another.
func wider(a, b grantset.Kind) bool {
	return slices.Index(grantset.Kinds, a) > slices.Index(grantset.Kinds, b)
}

// all goes through the pages of a list of connections.
func (h house) all(t testing.TB, f ConnectionFilter) (all []Connection) {
	t.Helper()
	f.Organization = "nordlys"
	for pages := 0; ; pages++ {
		page, next, err := h.Connections(ctx, f)
		if err != nil || pages > 1000 {
			t.Fatalf("%+v: %d pages, %v", f, pages, err)
		}
		all = append(all, page...)
		if f.After = next; next == "" {
			return all
		}
	}
}

// Pages of every size list each connection once, the widest first and then the newest,
// and no more than a filter lets through.
func TestConnections(t *testing.T) {
	h, ids := connected(t, 40)
	if _, _, err := h.Approve(ctx, h.unique(900), Act{}); err != nil { // nobody has exchanged its code
		t.Fatal(err)
	}
	fjell := h.unique(901)
	fjell.Organization = "fjell"
	h.live(t, fjell)
	defer func(n int) { approvals.WalkStep = n }(approvals.WalkStep)
	for _, approvals.WalkStep = range []int{3, 512} {
		for _, limit := range []int{1, 3, 7, 1000} {
			all := h.all(t, ConnectionFilter{Limit: limit})
			if len(all) != len(ids) {
				t.Fatalf("%d at a time: %d listed", limit, len(all))
			}
			for i, c := range all[1:] {
				before := all[i]
				if wider(c.Grant.Kind, before.Grant.Kind) || c.Grant.Kind == before.Grant.Kind && before.Place().Compare(c.Place()) >= 0 {
					t.Errorf("%d at a time: %s %d before %s %d", limit, before.Grant.Kind, before.CreatedAt, c.Grant.Kind, c.CreatedAt)
				}
			}
		}
		for _, tt := range []struct {
			f    ConnectionFilter
			want int
		}{
			{ConnectionFilter{Access: grantset.Organization}, 10},
			{ConnectionFilter{Access: grantset.Everything}, 20},
			{ConnectionFilter{Access: grantset.Roles, Find: "ada"}, 10},
			{ConnectionFilter{Find: "TOR@"}, 10},
			{ConnectionFilter{Find: "lindq"}, 30},
			{ConnectionFilter{Find: "MØTE"}, 10},
			{ConnectionFilter{Find: "-scribe"}, 10},
			{ConnectionFilter{Find: "connect.quill"}, 40},
			{ConnectionFilter{Find: "callback"}, 0}, // of the path, not of the host
			{ConnectionFilter{Find: "%"}, 0},
			{ConnectionFilter{Find: "nobody"}, 0},
			{ConnectionFilter{Show: ShowUnreviewed}, 0},
			{ConnectionFilter{Show: ShowUnused}, 0},
			{ConnectionFilter{Show: ShowEnding}, 0},
			{ConnectionFilter{Show: ShowBeyond}, 0},
		} {
			if got := h.all(t, tt.f); len(got) != tt.want {
				t.Errorf("%+v: %d, want %d", tt.f, len(got), tt.want)
			}
		}
	}
	if c := h.all(t, ConnectionFilter{Find: "tor@"})[0]; c.PersonName != "Tor" || c.PersonEmail != "tor@nordlys.example" || c.Hosts.App != "connect.quill.example" || c.ClientName != "Quill Assistant" || c.Preregistered {
		t.Errorf("%+v", c)
	}
	for _, after := range []string{"x", "roles", "roles.1", "other.1." + ids[0].String(), "roles.1.' OR 1"} {
		if _, _, err := h.Connections(ctx, ConnectionFilter{Organization: "nordlys", After: after}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", after, err)
		}
	}
	if _, _, err := h.Connections(ctx, ConnectionFilter{Organization: "nowhere"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no organization: %v", err)
	}
	if n, err := h.ConnectionCounts(ctx, "nordlys"); err != nil || n != (ConnectionCounts{Connections: 40, People: 2}) {
		t.Errorf("%+v, %v", n, err)
	}
}

// What admins may want to look at is listed, and counted, as time passes.
func TestConnectionsToLookAt(t *testing.T) {
	h, ids := connected(t, 8)
	show := func(s Show) string {
		var out []string
		for _, c := range h.all(t, ConnectionFilter{Show: s}) {
			out = append(out, fmt.Sprint(slices.Index(ids, c.ID)))
		}
		slices.Sort(out)
		return strings.Join(out, " ")
	}
	h.clock.add(oversight.ReviewAfter - 10*time.Second)
	if got := show(ShowUnreviewed) + show(ShowUnused); got != "" {
		t.Errorf("too soon: %s", got)
	}
	h.clock.add(10 * time.Second)
	if v, err := h.refresh(ids[0], 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	if n, err := h.MarkReviewed(ctx, "nordlys", "ada", []approval.ID{ids[1], ids[2], {9}}, byAda); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	if got := show(ShowUnreviewed); got != "0 3 4 5 6 7" {
		t.Errorf("unreviewed: %s", got)
	}
	if got := show(ShowUnused); got != "1 2 3 4 5 6 7" {
		t.Errorf("unused: %s", got)
	}
	c, err := h.Connection(ctx, "nordlys", ids[1])
	if err != nil || c.ReviewedBy != "person:ada" || c.ReviewedAt != h.Now().Unix() {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := h.Connection(ctx, "fjell", ids[1]); !errors.Is(err, ErrNotFound) {
		t.Errorf("another organization's: %v", err)
	}
	if e := h.events(t, journal.ConnectionsReviewed); len(e) != 1 || e[0].Detail != "2 connections" || e[0].Actor != "person:ada" {
		t.Errorf("%+v", e)
	}
	from := h.answer(0).Grant
	if err := h.EditApproval(ctx, ids[5], "ada", Edit{from, from, h.Now().Add(oversight.EndingWithin).Unix()}, Act{}); err != nil {
		t.Fatal(err)
	}
	if got := show(ShowEnding); got != "5" {
		t.Errorf("ending: %s", got)
	}
	if n, err := h.ConnectionCounts(ctx, "nordlys"); err != nil || n != (ConnectionCounts{Connections: 8, People: 2, Unreviewed: 6, Ending: 1}) {
		t.Errorf("%+v, %v", n, err)
	}
	h.rules(t, policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Everything, Never: []string{"treasurer"}}})
	if got := show(ShowBeyond); got != "0 1 4 5" {
		t.Errorf("beyond a ceiling: %s", got)
	}
	h.rules(t, policy.Policy{Apps: []policy.App{{Host: "connect.quill.example", Name: "Møte-Scribe", Rule: policy.Ask}}})
	if got := show(ShowBeyond); got != "3 7" {
		t.Errorf("beyond a rule: %s", got)
	}
}

// Whether somebody added their personal items to roles is told to no admin, in no number
// and no list.
func TestPersonalItemsAreNotTold(t *testing.T) {
	limits := []policy.Policy{{Ceiling: grantset.Ceiling{NoPersonal: true}}, {Ceiling: grantset.Ceiling{ReadOnly: true}}, {Ceiling: grantset.Ceiling{ReadOnly: true, NoPersonal: true}}}
	var told [2][]string
	for i, personal := range []bool{false, true} {
		h := furnished(t)
		for n, change := range []bool{false, true} {
			a := h.unique(n)
			a.Grant = grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: change}}, Personal: personal}
			handle, issued, err := h.Approve(ctx, a, Act{})
			ok(t, err)
			if _, v, err := h.Apply(ctx, approval.ID(handle.ID()), approval.Exchange(a.Client, issuer, redirect, verifier, issued, 1, h.Now()), Act{}); err != nil || v != approval.OK {
				t.Fatal(v, err)
			}
		}
		for _, p := range limits {
			was, err := h.Policy(ctx, "nordlys")
			ok(t, err)
			before, err := h.PolicyEffects(ctx, Rules{Organization: "nordlys", Admin: "ada", Seen: oversight.Version(was), Policy: p})
			ok(t, err)
			_, effects := h.rules(t, p)
			told[i] = append(told[i], fmt.Sprint(before, effects, len(h.all(t, ConnectionFilter{Show: ShowBeyond}))))
		}
	}
	if want := []string{"[] [] 0", "[{ read_only 0 1}] [{ read_only 0 1}] 1", "[] [] 1"}; !slices.Equal(told[0], want) || !slices.Equal(told[1], want) {
		t.Errorf("without %q, with %q, want %q", told[0], told[1], want)
	}
}

// An admin ends connections of their organization, and of no other, once each.
func TestEndConnections(t *testing.T) {
	h, ids := connected(t, 4)
	other := h.unique(900)
	other.Organization = "fjell"
	fjell := h.live(t, other)
	for _, want := range []int{2, 0} {
		n, err := h.EndConnections(ctx, "nordlys", "ada", []approval.ID{ids[0], ids[0], ids[2], fjell, {9}}, Act{Actor: "person:ada", Reason: "Not any more."})
		if n != want || err != nil {
			t.Errorf("%d, %v; want %d", n, err, want)
		}
	}
	for id, lives := range map[approval.ID]bool{ids[0]: false, ids[1]: true, ids[2]: false, fjell: true} {
		if h.accepts(t, id) != lives {
			t.Errorf("%s lives: %v", id, !lives)
		}
	}
	if e := h.events(t, journal.ApprovalEnded); len(e) != 2 || e[0].Reason != string(approval.RevokedByAdmin) || e[0].Detail != "Not any more." {
		t.Errorf("%+v", e)
	}
	if _, err := h.EndConnections(ctx, "nordlys", "ada", make([]approval.ID, MaxConnections+1), byAda); !errors.Is(err, ErrFull) {
		t.Errorf("too many: %v", err)
	}
	h.same(t, "ended")
}

// While connections begin, are used and end, a walk through the pages lists none twice,
// and each that was there all the time.
func TestConnectionsWhileTheyChange(t *testing.T) {
	h, ids := connected(t, 60)
	defer func(n int) { approvals.WalkStep = n }(approvals.WalkStep)
	approvals.WalkStep = 5
	random := rand.New(rand.NewPCG(1, 2))
	gone, made := map[approval.ID]bool{}, 1000
	for range rounds(10) {
		before := map[approval.ID]bool{}
		for _, id := range ids {
			before[id] = !gone[id]
		}
		seen := map[approval.ID]bool{}
		f := ConnectionFilter{Organization: "nordlys", Limit: 7}
		for {
			page, next, err := h.Connections(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range page {
				if seen[c.ID] {
					t.Errorf("%s twice", c.ID)
				}
				seen[c.ID] = true
			}
			if f.After = next; next == "" {
				break
			}
			id := ids[random.IntN(len(ids))]
			switch random.IntN(3) {
			case 0:
				if err := h.EndApproval(ctx, id, approval.RevokedByPerson, Act{}); err != nil {
					t.Fatal(err)
				}
				gone[id] = true
			case 1:
				made++
				h.live(t, h.unique(made))
			case 2:
				h.Used(id)
			}
		}
		for id, was := range before {
			if was && !gone[id] && !seen[id] {
				t.Errorf("%s is not listed", id)
			}
		}
	}
}

// An operator, who is nobody's admin, reviews and ends connections too, and is told of an
// organization that there is not.
func TestConnectionsOfAnOperator(t *testing.T) {
	h := asking(t)
	if _, err := h.MarkReviewed(ctx, "none", "", nil, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("reviewed: %v", err)
	}
	if _, err := h.EndConnections(ctx, "none", "", nil, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("ended: %v", err)
	}
	if _, err := h.DecideRequest(ctx, Decision{Organization: "none", Request: "none", State: RequestAllowed}, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("decided: %v", err)
	}
	if _, _, err := h.SetPolicy(ctx, Rules{Organization: "none"}, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("ruled: %v", err)
	}
}
