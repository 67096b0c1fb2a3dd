package store

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// S-11: a cursor that no list gave is refused. Lists by ID take any ID.
func TestMadeUpCursors(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.live(t, h.answer(1))
	events, _, err := h.Events(ctx, EventFilter{})
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	good := events[0].ID
	lists := map[string]func(after string) error{
		"people":        func(a string) error { _, _, err := h.People(ctx, PeopleFilter{After: a}); return err },
		"organizations": func(a string) error { _, _, err := h.Organizations(ctx, a, 0); return err },
		"clients":       func(a string) error { _, _, err := h.Clients(ctx, ClientFilter{After: a}); return err },
		"approvals":     func(a string) error { _, _, err := h.Approvals(ctx, ApprovalFilter{After: a}); return err },
		"events":        func(a string) error { _, _, err := h.Events(ctx, EventFilter{After: a}); return err },
	}
	for name, list := range lists {
		for _, after := range []string{"'", "a b", "\x00", "1.\x00", "a\x00", "é", "\xff", "1.é", "1. ", strings.Repeat("9", 300), "1." + strings.Repeat("a", 300), "x' OR 1=1"} {
			if err := list(after); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s after %q: got %v, want not found", name, after, err)
			}
		}
	}
	for _, after := range []string{"", "1.", "x.a", "1e3.a", "0x1.a", ".a", "9223372036854775808.a"} {
		if err := lists["clients"](after); (err == nil) != (after == "") {
			t.Errorf("clients after %q: got %v", after, err)
		}
	}
	for _, after := range []string{good[1:], good + "0", strings.ToUpper(good[:16]) + "ABCDEFAB", strings.Repeat("g", len(good)), hex.EncodeToString([]byte("x"))} {
		if err := lists["events"](after); !errors.Is(err, ErrNotFound) {
			t.Errorf("events after %q: got %v, want not found", after, err)
		}
	}
	if err := lists["events"](good); err != nil {
		t.Error("its own cursor:", err)
	}
}

// One entry of the journal is found by its ID.
func TestEvent(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.live(t, h.answer(1))
	all, _, err := h.Events(ctx, EventFilter{})
	if err != nil || len(all) < 3 {
		t.Fatal(len(all), err)
	}
	for _, want := range all {
		if got, err := h.Event(ctx, want.ID); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	for _, id := range []string{"", "0", "x", all[0].ID[1:], all[0].ID + "\x00", " " + all[0].ID} {
		if _, err := h.Event(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: got %v, want not found", id, err)
		}
	}
}

// walk reads a whole list, a page of each size at a time, and checks that each
// way gives the same, with full pages.
func walk(t *testing.T, what string, page func(after string, limit int) (ids []string, next string, err error)) []string {
	t.Helper()
	whole, next, err := page("", 1000)
	if err != nil || next != "" {
		t.Fatalf("%s: next %q, %v", what, next, err)
	}
	walkAs(t, what, whole, true, page)
	return whole
}

// walkAs sees that pages of each size give the whole list. Only where they need
// not be full can one that has a next be short.
func walkAs(t *testing.T, what string, whole []string, full bool, page func(after string, limit int) (ids []string, next string, err error)) {
	t.Helper()
	for limit := 1; limit <= len(whole)+1; limit++ {
		walkBy(t, what, whole, full, limit, page)
	}
}

// walkBy walks a list with pages of one length.
func walkBy(t *testing.T, what string, whole []string, full bool, limit int, page func(after string, limit int) (ids []string, next string, err error)) {
	t.Helper()
	var got []string
	for after := ""; ; {
		ids, next, err := page(after, limit)
		if err != nil || len(ids) > limit || next != "" && (full && len(ids) != limit || next == after) {
			t.Fatalf("%s, %d at a time: %d, next %q, %v", what, limit, len(ids), next, err)
		}
		got = append(got, ids...)
		if after = next; next == "" {
			break
		}
	}
	if !slices.Equal(got, whole) {
		t.Errorf("%s, %d at a time: got %v, want %v", what, limit, got, whole)
	}
}

// EndApprovals ends what its filter says, and counts what it has ended.
func TestEndApprovals(t *testing.T) {
	ctx := context.Background()
	for _, tt := range []struct {
		name string
		f    ApprovalFilter
		want [4]bool // which end
	}{
		{"of a person", ApprovalFilter{Person: "tor"}, [4]bool{3: true}},
		{"of an organization", ApprovalFilter{Organization: "fjell"}, [4]bool{2: true}},
		{"of a client", ApprovalFilter{Client: "bridge"}, [4]bool{1: true}},
		{"of a grant set", ApprovalFilter{Grant: grantset.Roles}, [4]bool{true, true, false, false}},
		{"all", ApprovalFilter{}, [4]bool{true, true, true, true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			h.register(t, "bridge")
			answers := [4]Answer{h.answer(1), h.answer(2), h.answer(3), h.answer(4)}
			answers[1].Client = "bridge"
			answers[2].Organization, answers[2].Grant = "fjell", grantset.Set{Kind: grantset.Everything}
			answers[3].Person, answers[3].Grant = "tor", grantset.Set{Kind: grantset.Everything}
			var ids []approval.ID
			want := 0
			for i, a := range answers {
				ids = append(ids, h.live(t, a))
				if tt.want[i] {
					want++
				}
			}
			for range 2 {
				if n, err := h.EndApprovals(ctx, tt.f, approval.RevokedByAdmin, Act{Actor: "person:ada", Reason: "why"}); n != want || err != nil {
					t.Errorf("%d ended, %v; want %d", n, err, want)
				}
				want = 0
			}
			for i, id := range ids {
				if h.accepts(t, id) == tt.want[i] {
					t.Errorf("approval %d lives: %v", i, h.accepts(t, id))
				}
			}
			events, _, err := h.Events(ctx, EventFilter{Kind: "approval_ended"})
			if err != nil || len(events) == 0 || events[0].Reason != string(approval.RevokedByAdmin) || events[0].Detail != "why" || events[0].Actor != "person:ada" {
				t.Errorf("journal: %+v, %v", events, err)
			}
		})
	}
}

// Who has approved a client, and who uses it.
func TestHasApprovedAndUsedBy(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.register(t, "bridge")
	first := h.live(t, h.answer(1))
	h.live(t, h.answer(2))
	h.live(t, h.answer(5)) // one person counts once
	other := h.answer(3)
	other.Person, other.Grant = "tor", grantset.Set{Kind: grantset.Everything}
	tors := h.live(t, other)
	waiting := h.answer(4)
	waiting.Organization, waiting.Grant = "fjell", grantset.Set{Kind: grantset.Everything}
	if _, _, err := h.Approve(ctx, waiting, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.EndApproval(ctx, first, approval.RevokedByPerson, Act{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		person, client string
		want           bool
	}{{"ada", "quill", true}, {"tor", "quill", true}, {"ada", "bridge", false}, {"eva", "quill", false}} {
		if got, err := h.HasApproved(ctx, tt.person, tt.client); got != tt.want || err != nil {
			t.Errorf("%s, %s: %v, %v", tt.person, tt.client, got, err)
		}
	}
	used := func(want map[string]int) {
		t.Helper()
		if got, err := h.UsedBy(ctx, "quill", []string{"nordlys", "fjell"}); err != nil || !maps.Equal(got, want) {
			t.Errorf("used by %v, %v; want %v", got, err, want)
		}
	}
	used(map[string]int{"nordlys": 2})
	if err := h.EndApproval(ctx, tors, approval.RevokedByPerson, Act{}); err != nil {
		t.Fatal(err)
	}
	used(map[string]int{"nordlys": 1})
}

// A theft is told of until the client is approved after it: whatever else of
// the client lives, was approved before it, or ended since.
func TestLastReuse(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	want := func(what string, at int64) {
		t.Helper()
		if got, err := h.LastReuse(ctx, "ada", "quill"); got != at || err != nil {
			t.Errorf("%s: got %d, %v; want %d", what, got, err, at)
		}
	}
	end := func(id approval.ID, why approval.Reason) int64 {
		t.Helper()
		h.clock.add(time.Second)
		if err := h.EndApproval(ctx, id, why, Act{}); err != nil {
			t.Fatal(err)
		}
		return h.Now().Unix()
	}
	approve := func(nonce byte) approval.ID {
		t.Helper()
		h.clock.add(time.Second)
		return h.live(t, h.answer(nonce))
	}
	want("nothing approved", 0)
	first, second, third := approve(1), approve(2), approve(3)
	want("nothing ended", 0)
	end(third, approval.RevokedByPerson)
	want("the newest was revoked", 0)
	at := end(first, approval.RefreshReused)
	want("a newer one lives", at)
	want("a later one, of a code", end(second, approval.CodeReused))
	fourth := approve(4)
	want("approved again", 0)
	end(fourth, approval.RevokedByPerson)
	want("approved again, and that was revoked", 0)
	for _, other := range [][2]string{{"tor", "quill"}, {"ada", "bridge"}} {
		if got, err := h.LastReuse(ctx, other[0], other[1]); got != 0 || err != nil {
			t.Errorf("%v: got %d, %v", other, got, err)
		}
	}
}

func TestClientLists(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	add := func(id, name string, preregistered bool) {
		t.Helper()
		c := client.Client{ID: id, Name: name, RedirectURIs: []string{redirect + "/" + id}, IssuedAt: h.Now().Unix(), Preregistered: preregistered}
		if err := h.AddClient(ctx, c, Origin{}, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	add("old", "Too old", false)
	h.clock.add(client.UnapprovedRetention)
	for _, id := range []string{"a", "b", "c"} {
		add(id, "Name_of 100% "+id, false)
	}
	h.clock.add(time.Second)
	add("fixed", `Back\slash`, true)
	h.register(t, "used")
	a := h.answer(1)
	a.Client = "used"
	h.live(t, a)
	if err := h.SetClientEnabled(ctx, "c", false, Act{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		f    ClientFilter
		want []string
	}{
		{ClientFilter{}, []string{"used", "fixed", "c", "b", "a"}},
		{ClientFilter{State: "registered"}, []string{"b", "a"}},
		{ClientFilter{State: "approved"}, []string{"used"}},
		{ClientFilter{State: "disabled"}, []string{"c"}},
		{ClientFilter{State: "preregistered"}, []string{"fixed"}},
		{ClientFilter{Query: "NAME_"}, []string{"c", "b", "a"}},
		{ClientFilter{Query: "name of"}, nil},
		{ClientFilter{Query: "100%"}, []string{"c", "b", "a"}},
		{ClientFilter{Query: "1%0"}, nil},
		{ClientFilter{Query: `k\s`}, []string{"fixed"}},
		{ClientFilter{Query: "callback/b"}, []string{"b"}},
		{ClientFilter{Query: "use"}, []string{"used"}},
		{ClientFilter{Query: "old"}, nil},
		{ClientFilter{Query: "name", State: "disabled"}, []string{"c"}},
	} {
		got := walk(t, fmt.Sprintf("%+v", tt.f), func(after string, limit int) (out []string, next string, err error) {
			f := tt.f
			f.After, f.Limit = after, limit
			rows, next, err := h.Clients(ctx, f)
			for _, r := range rows {
				out = append(out, r.ID)
			}
			return out, next, err
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %v, want %v", tt.f, got, tt.want)
		}
	}
	if _, _, err := h.Clients(ctx, ClientFilter{State: "gone"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("an unknown state: %v", err)
	}
	h.db.Memory.Lock()
	h.db.Memory.Waiting.Clients = MaxUnapproved
	h.db.Memory.Unlock()
	if err := h.AddClient(ctx, client.Client{ID: "more", IssuedAt: h.Now().Unix()}, Origin{}, Act{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("one more than may be: %v", err)
	}
}

func TestPeopleAndOrganizationLists(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	d := directory.Directory{}
	for _, id := range []string{"p1", "p2", "p_3", "p-4"} {
		d.People = append(d.People, directory.Person{Person: org.Person{ID: id, Email: id + "@Havn.example", Name: "Person " + id, Active: true}})
		d.Organizations = append(d.Organizations, org.Organization{ID: "o" + id, Name: id})
		d.Members = append(d.Members, directory.Member{Person: id, Organization: "fjell", Admin: false})
	}
	if err := h.AddDirectory(ctx, d, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.RemoveMember(ctx, "fjell", "p2", Act{}); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		f    PeopleFilter
		want []string
	}{
		{PeopleFilter{}, []string{"ada", "p-4", "p1", "p2", "p_3", "tor"}},
		{PeopleFilter{Organization: "fjell"}, []string{"ada", "p-4", "p1", "p_3"}},
		{PeopleFilter{Organization: "fjell", Query: "person"}, []string{"p-4", "p1", "p_3"}},
		{PeopleFilter{Query: "P_3"}, []string{"p_3"}},
		{PeopleFilter{Query: "@havn"}, []string{"p-4", "p1", "p2", "p_3"}},
		{PeopleFilter{Query: "%"}, nil},
		{PeopleFilter{Organization: "none"}, nil},
	} {
		got := walk(t, fmt.Sprintf("%+v", tt.f), func(after string, limit int) (out []string, next string, err error) {
			f := tt.f
			f.After, f.Limit = after, limit
			rows, next, err := h.People(ctx, f)
			for _, r := range rows {
				out = append(out, r.ID)
			}
			return out, next, err
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %v, want %v", tt.f, got, tt.want)
		}
	}
	got := walk(t, "organizations", func(after string, limit int) (out []string, next string, err error) {
		rows, next, err := h.Organizations(ctx, after, limit)
		for _, r := range rows {
			out = append(out, r.ID)
		}
		return out, next, err
	})
	if want := []string{"fjell", "nordlys", "op-4", "op1", "op2", "op_3"}; !slices.Equal(got, want) {
		t.Errorf("organizations: got %v, want %v", got, want)
	}
}

func TestEventLists(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	start := h.Now().Unix()
	for n := range 6 {
		h.clock.add(time.Second)
		h.Record(Event{Kind: "signin_failed", Person: []string{"ada", "tor"}[n%2], Detail: fmt.Sprint(n)})
		if err := h.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		h.Record(Event{Kind: "rate_limited"})
	}
	for range 1 + 1000/engine.MaxBatch { // as many batches
		if err := h.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		f    EventFilter
		want []string
	}{
		{EventFilter{}, []string{"5", "4", "3", "2", "1", "0"}},
		{EventFilter{Person: "tor"}, []string{"5", "3", "1"}},
		{EventFilter{Since: start + 3}, []string{"5", "4", "3", "2"}},
		{EventFilter{Until: start + 3}, []string{"1", "0"}},
		{EventFilter{Since: start + 2, Until: start + 4}, []string{"2", "1"}},
	} {
		got := walk(t, fmt.Sprintf("%+v", tt.f), func(after string, limit int) (out []string, next string, err error) {
			f := tt.f
			f.Kind, f.After, f.Limit = "signin_failed", after, limit
			rows, next, err := h.Events(ctx, f)
			for _, r := range rows {
				out = append(out, r.Detail)
			}
			return out, next, err
		})
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: got %v, want %v", tt.f, got, tt.want)
		}
	}
	for limit, want := range map[int]int{-1: 50, 0: 50, 5000: 1000} {
		if rows, next, err := h.Events(ctx, EventFilter{Limit: limit}); err != nil || len(rows) != want || next == "" {
			t.Errorf("limit %d: %d, next %q, %v", limit, len(rows), next, err)
		}
	}
}

// Clients of the configuration come, change, go and come back; what an
// operator has disabled stays so, and nothing is revived (decisions R6, P10).
func TestSyncPreregistered(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	fixed := client.Client{ID: "fixed", Name: "Fixed", RedirectURIs: []string{redirect}, Preregistered: true}
	other := client.Client{ID: "other", Name: "Other", RedirectURIs: []string{redirect}, Preregistered: true}
	sync := func(cs ...client.Client) {
		t.Helper()
		if err := h.SyncPreregistered(ctx, cs, Act{Actor: "system"}); err != nil {
			t.Fatal(err)
		}
		h.same(t, "after the configuration")
	}
	state := func(when, id string, want ClientState) {
		t.Helper()
		c, err := h.Client(ctx, id)
		if got, _ := h.ClientState(ctx, id); got != want || err != nil || c.Disabled != (want == ClientDisabled) || !c.Preregistered {
			t.Errorf("%s: %v, %+v, %v; want %v", when, got, c, err, want)
		}
	}
	sync(fixed, other)
	a := h.answer(1)
	a.Client = "fixed"
	id := h.live(t, a)
	fixed.Name, fixed.RedirectURIs = "Renamed", []string{redirect + "/2", redirect}
	sync(fixed, other)
	if c, err := h.Client(ctx, "fixed"); err != nil || c.Name != "Renamed" || len(c.RedirectURIs) != 2 || !c.Approved {
		t.Errorf("changed: %+v, %v", c, err)
	}
	if !h.accepts(t, id) {
		t.Error("a change of the configuration has ended an approval")
	}
	sync(other)
	state("taken out", "fixed", ClientDisabled)
	state("kept", "other", ClientEnabled)
	var reason string
	if err := h.db.Reader.QueryRow(`SELECT reason FROM approval WHERE id = $1`, id[:]).Scan(&reason); err != nil || reason != string(approval.ClientDisabled) {
		t.Errorf("the row says %q, %v", reason, err)
	}
	h = h.reopen(t)
	state("taken out, after a restart", "fixed", ClientDisabled)
	sync(other)
	sync(fixed, other)
	state("back", "fixed", ClientEnabled)
	if h.accepts(t, id) {
		t.Error("an approval came back")
	}
	if err := h.SetClientEnabled(ctx, "fixed", false, Act{}); err != nil {
		t.Fatal(err)
	}
	sync(fixed, other)
	state("disabled by an operator", "fixed", ClientDisabled)
	sync(other)
	sync(fixed, other)
	state("disabled by an operator, out and back", "fixed", ClientDisabled)
	if err := h.SyncPreregistered(ctx, []client.Client{{ID: "quill", Preregistered: true}}, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("the ID of one that registered itself: %v", err)
	}
	h.clock.add(100 * 24 * time.Hour)
	if swept, err := h.Sweep(ctx); err != nil || swept.Clients != 1 { // quill
		t.Errorf("swept %+v, %v", swept, err)
	}
	state("old, and approved by nobody", "other", ClientEnabled)
}

// A sweep takes all that is over, however much, and leaves the rest.
func TestSweepTakesAll(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for n := range 2*query.Batch + 1 {
		h.register(t, fmt.Sprint("c", n))
	}
	used := h.live(t, h.answer(1))
	h.Used(used)
	for value, person := range map[string]string{"idle": "ada", "kept": "tor"} {
		if err := h.AddSession(ctx, value, person, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 {
		h.clock.add(2 * time.Hour)
		if _, err := h.Session(ctx, "kept"); err != nil {
			t.Fatal(err)
		}
		h.Ready(ctx)
	}
	if swept, err := h.Sweep(ctx); err != nil || swept.Sessions != 1 {
		t.Errorf("swept %+v, %v; want the idle session", swept, err)
	}
	for range 90 {
		h.clock.add(8 * time.Hour)
		h.Session(ctx, "kept")
		h.Ready(ctx)
	}
	due, err := h.Due(ctx)
	if swept, sweepErr := h.Sweep(ctx); err != nil || sweepErr != nil || swept.Sessions != 1 || swept.Clients != 2*query.Batch+1 || swept != due {
		t.Errorf("swept %+v, due %+v, %v %v; want the session of 30 days and all clients", swept, due, err, sweepErr)
	}
	if err := h.EndApproval(ctx, used, approval.RevokedByPerson, Act{}); err != nil {
		t.Fatal(err)
	}
	h.clock.add(EndedRetention)
	if swept, err := h.Sweep(ctx); err != nil || swept.Approvals != 1 {
		t.Errorf("swept %+v, %v; want the approval", swept, err)
	}
	h.same(t, "swept")
}

// The place of an approval that has ended is used again: memory does not grow
// with what is over.
func TestEndedApprovalsLeaveTheirPlace(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	for n := range byte(20) {
		if err := h.EndApproval(ctx, h.live(t, h.answer(n)), approval.RevokedByPerson, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	if n := h.db.Memory.Approvals.Next; n != 1 {
		t.Errorf("%d places for one approval at a time", n)
	}
	h.same(t, "all ended")
}
