package store

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

var byAda = Act{Actor: "person:ada"}

// rules saves rules of Nordlys on top of those that are there.
func (h house) rules(t testing.TB, p policy.Policy) (*policy.Policy, []policy.Effect) {
	t.Helper()
	was, err := h.Policy(ctx, "nordlys")
	if err != nil {
		t.Fatal(err)
	}
	now, effects, err := h.SetPolicy(ctx, Rules{Organization: "nordlys", Admin: "ada", Seen: oversight.Version(was), Policy: p}, byAda)
	if err != nil {
		t.Fatal(err)
	}
	return now, effects
}

func blocked(host string) policy.Policy {
	return policy.Policy{Apps: []policy.App{{Host: host, Name: "Quill Assistant", Rule: policy.Block, Reason: "It keeps copies."}}}
}

// may says what a check of an approval in Nordlys lets through.
func (h house) may(t testing.TB, id approval.ID) string {
	t.Helper()
	a, err := h.Check(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	item := org.Item{Organization: "nordlys", Role: "treasurer", Circle: "anchor"}
	own := org.Item{Organization: "nordlys", Person: "ada"}
	return fmt.Sprintf("change %v, own %v, administer %v", a.MayChange(item), a.MayRead(own), a.MayAdminister())
}

// A ceiling narrows from the next check, with the same tokens, on every node, and
// lifted it widens again; so it is after a restart.
func TestCeilingAtTheNextCheck(t *testing.T) {
	h := furnished(t)
	a := h.answer(1)
	a.Grant = grantset.Set{Kind: grantset.Everything}
	id := h.live(t, a)
	all := []house{h}
	if !embedded() {
		all = append(all, h.second(t))
	}
	const free = "change true, own true, administer true"
	for _, step := range []struct {
		to   grantset.Ceiling
		want string
	}{
		{grantset.Ceiling{}, free},
		{grantset.Ceiling{Widest: grantset.Everything}, "change true, own true, administer false"},
		{grantset.Ceiling{NoPersonal: true}, "change true, own false, administer true"},
		{grantset.Ceiling{ReadOnly: true}, "change false, own true, administer false"},
		{grantset.Ceiling{Never: []string{"treasurer"}}, "change false, own true, administer true"},
		{grantset.Ceiling{Widest: grantset.Roles}, "change false, own false, administer false"},
		{grantset.Ceiling{}, free},
	} {
		h.rules(t, policy.Policy{Ceiling: step.to})
		for i, node := range all {
			if got := node.may(t, id); got != step.want {
				t.Errorf("%+v, node %d: %s, want %s", step.to, i, got, step.want)
			}
			if now, err := node.CheckNow(ctx, id); err != nil || !now.Approval.Grant.Equal(a.Grant) {
				t.Errorf("what was chosen: %+v, %v", now.Approval.Grant, err)
			}
		}
	}
	h.rules(t, policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: true, Never: []string{"treasurer"}}, Apps: []policy.App{{Host: "b.example", Name: "B", Rule: policy.Ask}, {Host: "a.example", Name: "A", Person: "tor", Rule: policy.Allow}}})
	h.same(t, "with rules")
	h = h.reopen(t)
	if got := h.may(t, id); got != "change false, own true, administer false" {
		t.Errorf("after a restart: %s", got)
	}
	if p, err := h.Policy(ctx, "nordlys"); err != nil || p.Version != 8 || len(p.Apps) != 2 || p.Apps[0].Host != "a.example" || p.ChangedBy != "person:ada" {
		t.Errorf("after a restart: %+v, %v", p, err)
	}
	if p, err := h.Policy(ctx, "fjell"); p != nil || err != nil {
		t.Errorf("another organization: %+v, %v", p, err)
	}
	if all, err := h.Policies(ctx, "ada"); len(all) != 1 || all["nordlys"] == nil || err != nil {
		t.Errorf("those of a person: %v, %v", all, err)
	}
}

// An organization without rules, and one whose rules limit nothing, cost a check no
// allocation.
func TestChecksWithoutRulesAllocateNoMore(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	a := h.answer(1)
	a.Grant = grantset.Set{Kind: grantset.Everything}
	id := h.live(t, a)
	count := func() float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := h.Check(ctx, id); err != nil {
				t.Fatal(err)
			}
		})
	}
	none := count()
	if h.rules(t, policy.Policy{Unknown: policy.Ask, MaxDays: 30}); h.db.Memory.Orgs["nordlys"].Limit != nil {
		t.Error("rules without a ceiling limit checks")
	}
	if got := count(); got != none {
		t.Errorf("%v allocations, without rules %v", got, none)
	}
}

// A block ends what lives and what waits for its exchange in that organization, whatever
// the app's name, on hosts below it too, each with its entry; nothing elsewhere, and
// nothing comes back when it is lifted.
func TestBlockEndsAtOnce(t *testing.T) {
	for name, host := range map[string]string{"the host": "connect.quill.example", "a host above": "quill.example"} {
		h := furnished(t)
		ends := []approval.ID{h.live(t, h.answer(1)), h.live(t, h.answer(2))}
		handle, issued, err := h.Approve(ctx, h.answer(3), Act{})
		if err != nil {
			t.Fatal(err)
		}
		waiting := approval.ID(handle.ID())
		other := h.answer(4)
		other.Organization, other.Grant = "fjell", grantset.Set{Kind: grantset.Everything}
		fjell := h.live(t, other)
		if err := h.AddClient(ctx, client.Client{ID: "else", Name: "Quill Assistant", RedirectURIs: []string{"https://myquill.example/"}, IssuedAt: h.Now().Unix()}, Origin{}, Act{}); err != nil {
			t.Fatal(err)
		}
		likeIt := h.answer(5)
		likeIt.Client, likeIt.RedirectURI = "else", "https://myquill.example/"
		elsewhere, _, err := h.Approve(ctx, likeIt, Act{})
		if err != nil {
			t.Fatal(err)
		}

		preview, err := h.PolicyEffects(ctx, Rules{Organization: "nordlys", Admin: "ada", Policy: blocked(host)})
		_, effects := h.rules(t, blocked(host))
		for _, e := range [][]policy.Effect{preview, effects} {
			if err != nil || len(e) != 1 || e[0] != (policy.Effect{Host: host, Connections: 3}) {
				t.Errorf("%s: effects %+v, %v", name, e, err)
			}
		}
		for _, id := range append(ends, waiting) {
			if row, err := h.Approval(ctx, id); err != nil || row.Phase != approval.Ended || row.Reason != approval.AppBlocked || h.accepts(t, id) {
				t.Errorf("%s: %v %v, %v", name, row.Phase, row.Reason, err)
			}
		}
		if v, err := h.refresh(ends[0], 1); v != approval.Over || err != nil {
			t.Errorf("%s: refresh: %v, %v", name, v, err)
		}
		if v, err := h.exchange(waiting, issued); v != approval.Over || err != nil {
			t.Errorf("%s: exchange: %v, %v", name, v, err)
		}
		if row, err := h.Approval(ctx, approval.ID(elsewhere.ID())); !h.accepts(t, fjell) || err != nil || row.Phase != approval.CodeIssued {
			t.Errorf("%s: it ends what is not blocked", name)
		}
		if all := h.events(t, journal.ApprovalEnded); len(all) != 3 || all[0].Reason != string(approval.AppBlocked) || all[0].Actor != "person:ada" {
			t.Errorf("%s: entries %+v", name, all)
		}
		if _, _, err := h.Approve(ctx, h.answer(3), Act{}); !errors.Is(err, ErrAppRule) || !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s: approved again: %v", name, err)
		}
		h.same(t, name)
		h.rules(t, policy.Policy{})
		if h.accepts(t, ends[0]) {
			t.Errorf("%s: lifted, it revives", name)
		}
		if h.live(t, h.answer(6)) == (approval.ID{}) {
			t.Errorf("%s: lifted, nobody can approve", name)
		}
	}
}

// Decision P19: of two admins who save at once the second is told what the first has made of it.
func TestTwoAdminsAtOnce(t *testing.T) {
	h := furnished(t)
	all := []house{h, h}
	if !embedded() {
		all[1] = h.second(t)
	}
	if err := h.SetAdmin(ctx, "nordlys", "tor", true, Act{}); err != nil {
		t.Fatal(err)
	}
	for seen := range int64(rounds(20)) {
		var won atomic.Int64
		var wg sync.WaitGroup
		for i, who := range []string{"ada", "tor"} {
			wg.Go(func() {
				p, _, err := all[i].SetPolicy(ctx, Rules{Organization: "nordlys", Admin: who, Seen: seen, Policy: policy.Policy{MaxDays: 1 + i}}, Act{Actor: "person:" + who})
				switch {
				case err == nil && p.ChangedBy == "person:"+who && p.Version == seen+1:
					won.Add(1)
				case !errors.Is(err, ErrChanged) || p == nil || p.ChangedBy == "person:"+who || p.Version != seen+1:
					t.Errorf("%s: %+v, %v", who, p, err)
				}
			})
		}
		if wg.Wait(); won.Load() != 1 {
			t.Fatalf("%d have won", won.Load())
		}
	}
	h.same(t, "after it")
}

// Somebody who is no admin any more, or of another organization, changes nothing.
func TestWhoIsNoAdminChangesNothing(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	h.rules(t, policy.Policy{Unknown: policy.Ask})
	r, _, err := h.Ask(ctx, Asking{Organization: "nordlys", Person: "tor", Client: "quill", RedirectURI: redirect, Message: ""}, Act{Actor: "person:tor"})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.SetAdmin(ctx, "nordlys", "tor", true, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.SetAdmin(ctx, "nordlys", "ada", false, Act{}); err != nil {
		t.Fatal(err)
	}
	before, kinds := h.remembered(t), h.kinds(t)
	_, _, set := h.SetPolicy(ctx, Rules{Organization: "nordlys", Admin: "ada", Seen: 1}, byAda)
	_, preview := h.PolicyEffects(ctx, Rules{Organization: "nordlys", Admin: "ada", Seen: 1})
	_, decided := h.DecideRequest(ctx, Decision{Organization: "nordlys", Request: r.ID, Admin: "ada", State: RequestAllowed, Reason: ""}, byAda)
	_, reviewed := h.MarkReviewed(ctx, "nordlys", "ada", []approval.ID{id}, byAda)
	_, ended := h.EndConnections(ctx, "nordlys", "ada", []approval.ID{id}, byAda)
	for i, err := range []error{set, preview, decided, reviewed, ended} {
		if !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%d: %v", i, err)
		}
	}
	difference(t, "changed", h.remembered(t), before)
	if got := h.kinds(t); got != kinds {
		t.Errorf("journal: %s", got)
	}
	if r, err := h.Request(ctx, "nordlys", r.ID); err != nil || r.State != RequestOpen {
		t.Errorf("%+v, %v", r, err)
	}
	if n, err := h.EndConnections(ctx, "nordlys", "tor", []approval.ID{id, {7}}, Act{Actor: "person:tor"}); n != 1 || err != nil {
		t.Errorf("by one who is: %d, %v", n, err)
	}
}

// Rules that cannot be are refused with a sentence, and change nothing. Who decided what
// stays is kept.
func TestRulesThatCannotBe(t *testing.T) {
	h := furnished(t)
	first, _ := h.rules(t, policy.Policy{Apps: []policy.App{{Host: "a.example", Name: "A", Rule: policy.Ask}}})
	h.clock.add(time.Hour)
	for name, p := range map[string]policy.Policy{
		"days":   {MaxDays: 3651},
		"a role": {Ceiling: grantset.Ceiling{Never: []string{"reviewer"}}}, // of another organization
		"twice":  {Apps: []policy.App{{Host: "a.example", Name: "A", Rule: policy.Ask}, {Host: "a.example", Name: "a", Rule: policy.Allow}}},
	} {
		_, _, err := h.SetPolicy(ctx, Rules{Organization: "nordlys", Admin: "ada", Seen: 1, Policy: p}, byAda)
		var says PolicyError
		if !errors.Is(err, ErrRules) || !errors.As(err, &says) || says.Error() == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if p, err := h.Policy(ctx, "nordlys"); p != first || err != nil {
		t.Errorf("%+v, %v", p, err)
	}
	_, _, err := h.SetPolicy(ctx, Rules{Organization: "nordlys", Seen: 1, Policy: policy.Policy{Apps: []policy.App{
		{Host: "a.example", Name: "A", Rule: policy.Ask}, {Host: "b.example", Name: "B", Rule: policy.Ask},
	}}}, Act{Actor: "operator"})
	p, _ := h.Policy(ctx, "nordlys")
	if err != nil || p.Apps[0].By != "person:ada" || p.Apps[0].At != first.ChangedAt || p.Apps[1].By != "operator" || p.Apps[1].At != h.Now().Unix() {
		t.Errorf("%+v, %v", p, err)
	}
	if _, _, err := h.SetPolicy(ctx, Rules{Organization: "nowhere"}, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("no organization: %v", err)
	}
}

// Approving asks the rules once more, inside its transaction.
func TestApproveAsksTheRules(t *testing.T) {
	h := furnished(t)
	roles := func(change, personal bool) grantset.Set {
		return grantset.Set{Kind: grantset.Roles, Personal: personal, Picks: []grantset.Pick{{Role: "treasurer", Change: change}}}
	}
	days := func(n int) int64 { return oversight.EndOf(h.Now(), n) }
	everything, whole := grantset.Set{Kind: grantset.Everything}, grantset.Set{Kind: grantset.Organization}
	quill := func(person string, r policy.Rule) []policy.App {
		return []policy.App{{Host: "connect.quill.example", Name: "QUILL assistant", Person: person, Rule: r}}
	}
	for name, tt := range map[string]struct {
		p    policy.Policy
		set  grantset.Set
		ends int64
		want error
	}{
		"no rules":                       {policy.Policy{}, whole, 0, nil},
		"unlisted: ask":                  {policy.Policy{Unknown: policy.Ask}, everything, 0, ErrAppRule},
		"unlisted: block":                {policy.Policy{Unknown: policy.Block}, everything, 0, ErrAppRule},
		"known: ask":                     {policy.Policy{Known: policy.Ask}, everything, 0, nil},
		"asked, and allowed":             {policy.Policy{Unknown: policy.Ask, Apps: quill("", policy.Allow)}, everything, 0, nil},
		"asked, and allowed to her":      {policy.Policy{Unknown: policy.Ask, Apps: quill("ada", policy.Allow)}, everything, 0, nil},
		"asked, and allowed to him":      {policy.Policy{Unknown: policy.Ask, Apps: quill("tor", policy.Allow)}, everything, 0, ErrAppRule},
		"this app: ask":                  {policy.Policy{Apps: quill("", policy.Ask)}, everything, 0, ErrAppRule},
		"roles at most: everything":      {policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles}}, everything, 0, ErrCeiling},
		"roles at most: roles":           {policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Roles}}, roles(true, true), 0, nil},
		"everything at most: all of it":  {policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Everything}}, whole, 0, ErrCeiling},
		"everything at most: everything": {policy.Policy{Ceiling: grantset.Ceiling{Widest: grantset.Everything}}, everything, 0, nil},
		"read only: change":              {policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, roles(true, false), 0, ErrCeiling},
		"read only: read":                {policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, roles(false, false), 0, nil},
		"no personal: personal":          {policy.Policy{Ceiling: grantset.Ceiling{NoPersonal: true}}, roles(false, true), 0, ErrCeiling},
		"never: that role":               {policy.Policy{Ceiling: grantset.Ceiling{Never: []string{"treasurer"}}}, roles(false, false), 0, ErrCeiling},
		"days: none":                     {policy.Policy{MaxDays: 7}, everything, 0, ErrEndDate},
		"days: later":                    {policy.Policy{MaxDays: 7}, everything, days(7) + 1, ErrEndDate},
		"days: to the last second":       {policy.Policy{MaxDays: 7}, everything, days(7), nil},
		"no days: now":                   {policy.Policy{}, everything, days(0), ErrEndDate},
		"no days: in a second":           {policy.Policy{}, everything, days(0) + 1, nil},
		"no days: in eleven years":       {policy.Policy{}, everything, days(4000), ErrEndDate},
	} {
		h.rules(t, tt.p)
		a := h.unique(len(name))
		a.Handle, a.Grant, a.EndsAt = h.page(byte(len(name))), tt.set, tt.ends
		handle, _, err := h.Approve(ctx, a, Act{})
		if !errors.Is(err, tt.want) || (err == nil) != (tt.want == nil) || err != nil && !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
		if err == nil {
			if row, err := h.Approval(ctx, approval.ID(handle.ID())); err != nil || row.EndsAt != tt.ends {
				t.Errorf("%s: ends at %d, %v; want %d", name, row.EndsAt, err, tt.ends)
			}
		}
	}
	h.rules(t, policy.Policy{MaxDays: 30})
	h.Store.db.Options.MaxDays = 10
	a := h.answer(99)
	for ends, want := range map[int64]error{days(11): ErrEndDate, 0: ErrEndDate, days(10): nil} {
		if a.EndsAt = ends; ends == days(10) {
			a.Handle = h.page(98)
		}
		if _, _, err := h.Approve(ctx, a, Act{}); !errors.Is(err, want) {
			t.Errorf("the operator's bound, %d: %v, want %v", ends, err, want)
		}
	}
}

// A block comes while people approve, exchange and refresh: what begins after it has come
// back is refused, and what it has ended stays so.
func TestBlockBesideApprovingAndRefreshing(t *testing.T) {
	h := furnished(t)
	var all []approval.ID
	for i := range 24 {
		a := h.unique(i)
		all = append(all, h.live(t, a))
	}
	var gone, stop atomic.Bool
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			generation := map[approval.ID]int64{}
			for n := c; !stop.Load(); n += 4 {
				was := gone.Load()
				id := all[n%len(all)]
				if generation[id] == 0 {
					generation[id] = 1
				}
				v, err := h.refresh(id, generation[id])
				if generation[id]++; v == approval.OK && was {
					t.Errorf("refreshed after the block: %v", err)
				}
				if v != approval.OK && !was && !gone.Load() && v != approval.Over {
					t.Errorf("refresh: %v, %v", v, err)
				}
				a, err := h.Check(ctx, id)
				if was && err == nil && a.Approval.Phase == approval.Live {
					t.Error("accepted after the block")
				}
				handle, issued, err := h.Approve(ctx, h.unique(1000+n), Act{})
				if was && !errors.Is(err, ErrAppRule) || err != nil && !errors.Is(err, ErrAppRule) {
					t.Errorf("approve: %v", err)
				}
				if err == nil {
					if v, err := h.exchange(approval.ID(handle.ID()), issued); err != nil || v != approval.OK && v != approval.Over {
						t.Errorf("exchange: %v, %v", v, err)
					}
				}
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	h.rules(t, blocked("connect.quill.example"))
	gone.Store(true)
	time.Sleep(50 * time.Millisecond)
	stop.Store(true)
	wg.Wait()
	rows, _, err := h.Approvals(ctx, ApprovalFilter{Organization: "nordlys", Unended: true})
	if err != nil || len(rows) != 0 {
		t.Errorf("%d have not ended, %v", len(rows), err)
	}
	h.same(t, "after it")
}

// More than was approved is as if it were approved anew: what an app that has to be asked
// about has by then can be narrowed, and widened once an admin has allowed it (decision P18).
func TestWideningAsksTheRules(t *testing.T) {
	h := furnished(t)
	a := h.answer(1)
	read := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer"}}}
	change := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}}
	a.Grant = change
	id := h.live(t, a)
	edit := func(from, to grantset.Set) error {
		return h.EditApproval(ctx, id, "ada", Edit{From: from, To: to}, Act{})
	}
	h.rules(t, policy.Policy{Unknown: policy.Ask})
	if err := edit(change, read); err != nil {
		t.Fatalf("narrowed: %v", err)
	}
	for _, to := range []grantset.Set{change, {Kind: grantset.Everything}, {Kind: grantset.Roles, Picks: read.Picks, Personal: true}} {
		if err := edit(read, to); !errors.Is(err, ErrAppRule) || !errors.Is(err, ErrNotAllowed) {
			t.Errorf("widened to %+v: %v", to, err)
		}
	}
	h.rules(t, policy.Policy{Unknown: policy.Allow})
	if err := edit(read, change); err != nil {
		t.Errorf("allowed: %v", err)
	}
}
