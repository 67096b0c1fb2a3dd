package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// furnished is memory with Ada in nordlys, whom a client acts for.
func furnished(impersonal bool) *Memory {
	m := newMemory(impersonal)
	for _, c := range []facts.Change{
		facts.PersonChange{Person: org.Person{ID: "ada", Name: "Ada", Active: true}, Epoch: 2},
		facts.OrganizationChange{Organization: org.Organization{ID: "nordlys", Name: "Nordlys", AIIntegration: true}, Epoch: 3},
		facts.MemberChange{MemberKey: facts.MemberKey{Person: "ada", Organization: "nordlys"}, Present: true, Epoch: 1},
		facts.ClientChange{Client: client.Client{ID: "quill", Approved: true}, Epoch: 4},
	} {
		c.Apply(&m.Facts)
	}
	return m
}

func numbered(n int) (id approval.ID) {
	copy(id[:], fmt.Sprintf("%016d", n))
	return id
}

// made is an approval of Ada's that lives.
func made(n int) approval.Approval {
	return approval.Approval{
		ID: numbered(n), Client: "quill", Person: "ada", Organization: "nordlys", Grant: grantset.Set{Kind: grantset.Everything},
		IssuedAt: 1000, CreatedAt: 1000, Born: approval.Epochs{Membership: 1, Person: 2, Organization: 3, Client: 4},
		State: approval.State{Phase: approval.Live, Generation: 1},
	}
}

// What memory keeps of an approval is what was put there.
func TestMemoryGivesWhatWasPut(t *testing.T) {
	m := furnished(false)
	many := make([]grantset.Pick, 300) // more roles than one byte numbers
	for i := range many {
		many[i] = grantset.Pick{Role: fmt.Sprintf("role-%03d", i), Change: i%3 == 0}
	}
	for name, change := range map[string]func(a *approval.Approval){
		"everything":       func(a *approval.Approval) {},
		"the organization": func(a *approval.Approval) { a.Grant = grantset.Set{Kind: grantset.Organization} },
		"roles":            func(a *approval.Approval) { a.Grant = grantset.Set{Kind: grantset.Roles, Picks: many} },
		"roles and personal": func(a *approval.Approval) {
			a.Grant = grantset.Set{Kind: grantset.Roles, Picks: many[:1], Personal: true}
		},
		"personal alone":         func(a *approval.Approval) { a.Grant = grantset.Set{Kind: grantset.Roles, Personal: true} },
		"a code that waits":      func(a *approval.Approval) { a.State = approval.State{Phase: approval.CodeIssued} },
		"a key that it is of":    func(a *approval.Approval) { a.Bound = approval.Thumbprint{7} },
		"a date":                 func(a *approval.Approval) { a.EndsAt = 2000 },
		"all of its state":       func(a *approval.Approval) { a.Generation, a.Key, a.Network = 1<<40, 9, 65535 },
		"facts that ended since": func(a *approval.Approval) { a.Born = approval.Epochs{} },
	} {
		a := made(1)
		change(&a)
		approvalMade{a}.apply(m)
		h := m.Approvals.At(a.ID)
		got := m.Uncached(a.ID, h)
		got.Grant, got.CreatedAt = m.GrantSet(h), a.CreatedAt
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", a) {
			t.Errorf("%s: got %+v, want %+v", name, got, a)
		}
		if h.Lost() != (a.Born == approval.Epochs{}) {
			t.Errorf("%s: lost %v", name, h.Lost())
		}
		if living, there := m.Living(a.ID); there != (a.Phase == approval.Live) || there && living.ID != a.ID {
			t.Errorf("%s: lives %v", name, there)
		}
	}
	for _, a := range []approval.Approval{{Client: "quill", Person: "tor", Organization: "nordlys"}, {Client: "other", Person: "ada", Organization: "nordlys"}} {
		if _, err := m.cached(a); err == nil {
			t.Errorf("%+v stands on nothing", a)
		}
	}
}

// When an approval was made is kept as far as 18 hours before its code was issued.
func TestMemoryKnowsWhenItWasMade(t *testing.T) {
	m := furnished(false)
	for since, want := range map[int64]int64{100_000: 100_000, 99_000: 99_000, 100_000 - 65_535: 100_000 - 65_535, 100_000 - 65_536: 100_000 - 65_535, 100_001: 100_000} {
		a := made(1)
		a.IssuedAt, a.CreatedAt = 100_000, since
		h, err := m.cached(a)
		if err != nil || h.CreatedAt() != want {
			t.Errorf("made at %d: %d, %v, want %d", since, h.CreatedAt(), err, want)
		}
	}
}

// A date ends what lives, from its first second on.
func TestMemoryEndsOnADate(t *testing.T) {
	for _, tt := range []struct {
		h    CachedApproval
		want bool
	}{
		{CachedApproval{Phase: approval.Live, endsAt: 50}, true},
		{CachedApproval{Phase: approval.Live, endsAt: 49}, true},
		{CachedApproval{Phase: approval.Live, endsAt: 51}, false},
		{CachedApproval{Phase: approval.Live, endsAt: 1}, true},
		{CachedApproval{Phase: approval.Live}, false},
		{CachedApproval{Phase: approval.CodeIssued, endsAt: 49}, false},
	} {
		if got := tt.h.Over(time.Unix(50, 0)); got != tt.want {
			t.Errorf("%+v: %v", tt.h, got)
		}
	}
}

// The table gives each approval its place, and that of one that has gone to the next.
func TestApprovalsHavePlaces(t *testing.T) {
	m := furnished(false)
	const n = 2*chunkLen + 1
	for i := range n {
		a := made(i)
		a.Generation, a.IssuedAt, a.CreatedAt = int64(i), int64(1000+i), int64(1000+i)
		approvalMade{a}.apply(m)
	}
	table := &m.Approvals
	for i := range n {
		if h := table.At(numbered(i)); h == nil || h.generation != int64(i) {
			t.Fatalf("%d: %+v", i, h)
		}
	}
	if len(table.chunks) != 3 || table.Next != n || table.At(numbered(n)) != nil {
		t.Errorf("%d chunks, next %d", len(table.chunks), table.Next)
	}
	for _, i := range []int{0, chunkLen, n - 1} {
		table.drop(numbered(i))
		table.drop(numbered(i)) // a second time is none
		if table.At(numbered(i)) != nil {
			t.Errorf("%d is there after it was dropped", i)
		}
	}
	shown := 0
	m.EachCached(func(id approval.ID, h *CachedApproval) {
		if shown++; numbered(int(h.generation)) != id {
			t.Errorf("%s is shown as %d", id, h.generation)
		}
	})
	if shown != n-3 {
		t.Errorf("%d are shown, want %d", shown, n-3)
	}
	for i := range 4 { // three places are free
		approvalMade{made(n + i)}.apply(m)
	}
	if table.Next != n+1 || len(table.chunks) != 3 || len(table.Index) != n+1 {
		t.Errorf("next %d in %d chunks, %d in all", table.Next, len(table.chunks), len(table.Index))
	}
	var asked []int64
	var at []int64
	m.NewestChunks(func(newest int64) bool { asked = append(asked, newest); return newest < 1000+2*chunkLen }, func(_ approval.ID, h *CachedApproval) {
		if len(at) == 0 || at[len(at)-1] != int64(h.IssuedAt-1000)/chunkLen {
			at = append(at, int64(h.IssuedAt-1000)/chunkLen)
		}
	}, func() { at = append(at, -1) })
	if want := []int64{1000 + 2*chunkLen, 1000 + 2*chunkLen - 1, 1000 + chunkLen - 1}; !slices.Equal(asked, want) {
		t.Errorf("asked of %d, want %d", asked, want)
	}
	if ends := slices.DeleteFunc(slices.Clone(at), func(c int64) bool { return c >= 0 }); len(ends) != 3 || at[0] != -1 || at[len(at)-1] != -1 || slices.Contains(at, 2) || !slices.Contains(at, 1) || !slices.Contains(at, 0) {
		t.Errorf("chunks are shown as %d", at)
	}
	table.Elsewhere = true
	table.Put(numbered(n+9), CachedApproval{})
	other := made(n + 9)
	other.Grant = grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "host"}}}
	approvalMade{other}.apply(m)
	if m.HasApprovals() || table.At(numbered(n+9)) != nil || len(m.RoleList) > 0 {
		t.Error("one is kept that the rows alone have")
	}
}

// A move's state takes the place of the one before; an end takes the approval away.
func TestMovesOfMemory(t *testing.T) {
	m := furnished(false)
	a := made(1)
	approvalMade{a}.apply(m)
	h := m.Approvals.At(a.ID)
	move := func(to approval.State, used uint32) { approvalMoved{a.ID, to, used}.apply(m) }
	move(approval.State{Phase: approval.Live, Generation: 1, Key: 3}, 5000)
	if h.Used != 0 || h.key != 3 || m.LastUse(a.ID) != 1000 {
		t.Errorf("no refresh: used at %d, key %d, last %d", h.Used, h.key, m.LastUse(a.ID))
	}
	move(approval.State{Phase: approval.Live, Generation: 2, Network: 8, Bound: approval.Thumbprint{1}}, 6000)
	if h.Used != 6000 || h.generation != 2 || h.network != 8 || h.bound == nil || m.LastUse(a.ID) != 6000 {
		t.Errorf("a refresh: %+v", h)
	}
	grantEdited{approval.Approval{ID: a.ID, Client: "quill", Person: "ada", Organization: "nordlys", EndsAt: 9000,
		Grant: grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "host"}}}}}.apply(m)
	if g := m.GrantSet(h); h.generation != 2 || h.endsAt != 9000 || g.Kind != grantset.Roles || len(g.Picks) != 1 || g.Picks[0].Role != "host" {
		t.Errorf("an edit: %+v of %+v", g, h)
	}
	for _, c := range []struct {
		organization string
		at           int64
		want         uint32
	}{{"nordlys", 9001, 9000}, {"fjell", 100, 9000}, {"nordlys", 8000, 8000}} {
		endsBy{c.organization, c.at}.apply(m)
		if h.endsAt != c.want {
			t.Errorf("an organization's end of %d: it ends at %d", c.at, h.endsAt)
		}
	}
	h.endsAt = 0
	if (endsBy{"nordlys", 7000}).apply(m); h.endsAt != 7000 {
		t.Errorf("without an end, it ends at %d", h.endsAt)
	}
	move(approval.State{Phase: approval.Live, Generation: 2, Bound: approval.Thumbprint{2}}, 0)
	if *h.bound != (approval.Thumbprint{2}) {
		t.Error("it is bound to the key of before")
	}
	move(approval.State{Phase: approval.Live, Generation: 2}, 0)
	if h.bound != nil {
		t.Error("it is bound to a key that it was freed of")
	}
	move(approval.State{Phase: approval.Ended, Generation: 2}, 0)
	if m.Approvals.At(a.ID) != nil || m.LastUse(a.ID) != 0 {
		t.Error("what has ended is there")
	}
	move(approval.State{Phase: approval.Live, Generation: 3}, 0)
	grantEdited{a}.apply(m)
	if m.Approvals.At(a.ID) != nil {
		t.Error("a move of what is not there has put it there")
	}
	approvalMade{approval.Approval{ID: a.ID, Client: "quill", Person: "ada", Organization: "nordlys", IssuedAt: 50, State: approval.State{Phase: approval.CodeIssued}}}.apply(m)
	if m.LastUse(a.ID) != 0 {
		t.Error("what waits for its exchange was used")
	}
}
