package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/approvals"
)

// Under every filter, and whichever way the rows are found, a list has the
// approvals that match as they stand now, each once, newest first, at any size
// of its pages.
func TestApprovalFilters(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.register(t, "scribe")
	var all []approval.ID
	for i := range byte(40) {
		a := h.answer(i)
		switch {
		case i%5 == 1:
			a.Organization, a.Grant = "fjell", grantset.Set{Kind: grantset.Everything}
		case i%5 == 2:
			a.Client, a.Grant = "scribe", grantset.Set{Kind: grantset.Organization}
		case i%5 == 3:
			a.Person, a.Grant = "tor", grantset.Set{Kind: grantset.Everything}
		}
		if i%4 == 3 { // its code waits, or has expired
			handle, _, err := h.Approve(ctx, a, Act{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, approval.ID(handle.ID()))
		} else if id := h.live(t, a); i%3 == 0 {
			if err := h.EndApproval(ctx, id, approval.RevokedByAdmin, Act{}); err != nil {
				t.Fatal(err)
			}
			all = append(all, id)
		} else {
			all = append(all, id)
			if i%2 == 0 {
				h.Used(id)
			}
		}
		if i%3 == 0 {
			h.clock.add(time.Minute)
		}
	}
	// A fact that is lost and of which no row says so yet.
	if err := h.changeFacts(func(tx *Tx) error {
		return tx.endMember(tx.Memory.Members.Get(facts.MemberKey{Person: "tor", Organization: "nordlys"}))
	}); err != nil {
		t.Fatal(err)
	}
	h.clock.add(3 * time.Minute)
	since := h.Now().Add(-10 * time.Minute).Unix()

	var rows []ApprovalRow
	for _, id := range all {
		r, err := h.Approval(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b ApprovalRow) int { return a.Place().Compare(b.Place()) })
	matched, walkSome := map[string]int{}, inTurn()
	for _, f := range filters(since) {
		want := listed(rows, f)
		matched[f.State] += len(want)
		walkSome(t, fmt.Sprintf("%+v", f), want, true, f, h.pagesOf(f))
	}
	for name, walks := range map[string]func(*testing.T){"short": shortWalks, "slow": slowWalks} {
		walks(t)
		walkSome := inTurn()
		for i, f := range filters(since) {
			if i%7 == 0 || f.State == "ended" && f.Grant == "" {
				walkSome(t, fmt.Sprintf("%s walks, %+v", name, f), listed(rows, f), false, f, h.pagesOf(f))
			}
		}
	}
	shortWalks(t)
	for _, state := range []string{"", "code_issued", "live", "ended"} {
		if matched[state] < 10 {
			t.Errorf("only %d matches in state %q", matched[state], state)
		}
	}
}

// inTurn gives a walkAs for many lists that are alike: with pages of one, where each
// row is a page's last, of all and of more than all, and of one other length, which
// the lists of a state that are as long take in turn.
func inTurn() func(t *testing.T, what string, whole []string, full bool, f ApprovalFilter, page func(after string, limit int) (ids []string, next string, err error)) {
	turns := map[string]int{}
	return func(t *testing.T, what string, whole []string, full bool, f ApprovalFilter, page func(after string, limit int) (ids []string, next string, err error)) {
		t.Helper()
		n := len(whole)
		limits := []int{1, n, n + 1}
		if n > 2 {
			turn := fmt.Sprint(n, f.State, f.UnusedSince)
			limits = append(limits, 2+turns[turn]%(n-2))
			turns[turn]++
		}
		slices.Sort(limits)
		for _, limit := range slices.Compact(limits) {
			if limit > 0 {
				walkBy(t, what, whole, full, limit, page)
			}
		}
	}
}

// listed gives those of the rows that a filter asks for.
func listed(rows []ApprovalRow, f ApprovalFilter) (ids []string) {
	for _, r := range rows {
		if r.Matches(f) && (f.State == "" || f.State == r.StateName()) &&
			(f.UnusedSince == 0 || r.Phase == approval.Live && max(r.CreatedAt, r.LastUsed) <= f.UnusedSince) {
			ids = append(ids, r.ID.String())
		}
	}
	return ids
}

func (h house) pagesOf(f ApprovalFilter) func(after string, limit int) (ids []string, next string, err error) {
	return func(after string, limit int) (ids []string, next string, err error) {
		f.After, f.Limit = after, limit
		page, next, err := h.Approvals(context.Background(), f)
		for _, r := range page {
			ids = append(ids, r.ID.String())
		}
		return ids, next, err
	}
}

// shortWalks lets pages look at a few rows, as they do where there are many.
func shortWalks(t *testing.T) { walking(t, 1, 5, 5, 2) }

// slowWalks lets pages give up after their first rows, as they do where each has
// to be read from the disk.
func slowWalks(t *testing.T) { walking(t, 1, 1000, 1, 2) }

func walking(t *testing.T, step, most, least, few int) {
	was, long := []int{approvals.WalkStep, approvals.MaxWalk, approvals.LeastWalk, approvals.FewRows}, approvals.LongWalk
	approvals.WalkStep, approvals.MaxWalk, approvals.LeastWalk, approvals.FewRows, approvals.LongWalk = step, most, least, few, 0
	t.Cleanup(func() {
		approvals.WalkStep, approvals.MaxWalk, approvals.LeastWalk, approvals.FewRows, approvals.LongWalk = was[0], was[1], was[2], was[3], long
	})
}

func filters(since int64) (all []ApprovalFilter) {
	for _, client := range []string{"", "quill", "scribe"} {
		for _, person := range []string{"", "ada", "tor"} {
			for _, organization := range []string{"", "nordlys", "fjell"} {
				for _, grant := range append([]grantset.Kind{""}, grantset.Kinds[:]...) {
					for _, state := range []string{"", "code_issued", "live", "ended"} {
						all = append(all, ApprovalFilter{Client: client, Person: person, Organization: organization, Grant: grant, State: state})
					}
					all = append(all, ApprovalFilter{Client: client, Person: person, Organization: organization, Grant: grant, UnusedSince: since})
				}
			}
		}
	}
	return all
}

// Of many unused ones, too, each page has those that are next.
func TestManyUnused(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	manyApprovals(t, h, approvals.FewRows+100)
	h = h.reopen(t)
	h.clock.add(time.Hour)
	f := ApprovalFilter{UnusedSince: h.Now().Unix() - 60, Limit: 1000}
	seen := 0
	for {
		rows, next, err := h.Approvals(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		if seen += len(rows); next == "" {
			break
		}
		f.After = next
	}
	if seen != approvals.FewRows+100 {
		t.Errorf("%d listed", seen)
	}
	f.After, f.UnusedSince = "", h.Now().Add(-2*time.Hour).Unix()
	if rows, next, err := h.Approvals(ctx, f); err != nil || len(rows) != 0 || next != "" {
		t.Errorf("made since: %d, %q, %v", len(rows), next, err)
	}
}
