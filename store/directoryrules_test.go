package store

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/oversight"
)

var byService = Act{Actor: "gateway:hr"}

// saying is an import that says the rules of Nordlys, and nothing else.
func (h house) saying(p policy.Policy) directory.Import {
	h.db.Memory.RLock()
	defer h.db.Memory.RUnlock()
	return directory.Import{Directory: directory.Directory{
		Organizations: []org.Organization{h.db.Memory.Orgs["nordlys"].Organization}, Rules: map[string]policy.Policy{"nordlys": p},
	}}
}

// Rules that come with a directory do what an admin's do: a ceiling narrows the next
// check, a bound in days sets end dates, a block ends approvals at once, and the journal
// names who sent them. A dry run counts the ends and makes none, and what a directory
// does not say stays (decision P22).
func TestDirectoryHasRules(t *testing.T) {
	h := furnished(t)
	a := h.answer(1)
	a.Grant = grantset.Set{Kind: grantset.Everything}
	id := h.live(t, a)
	h.rules(t, policy.Policy{Unknown: policy.Ask, Apps: []policy.App{{Host: "x.example", Name: "X", Rule: policy.Allow}}})
	take := func(i directory.Import) directory.Imported {
		t.Helper()
		out, err := h.ImportDirectory(ctx, i, byService)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if out := take(directory.Import{Directory: h.exported(t)}); len(out.Changes) != 0 {
		t.Errorf("what was exported: %+v", out)
	}
	silent := h.saying(policy.Policy{})
	silent.Rules = nil
	if out := take(silent); len(out.Changes) != 0 {
		t.Errorf("no rules were said: %+v", out)
	}

	take(h.saying(policy.Policy{MaxDays: 10, Ceiling: grantset.Ceiling{ReadOnly: true, Never: []string{"treasurer"}}, Apps: []policy.App{{Host: "x.example", Name: "X", Rule: policy.Allow}}}))
	if got := h.may(t, id); got != "change false, own true, administer false" {
		t.Errorf("the ceiling: %s", got)
	}
	row, err := h.Approval(ctx, id)
	if p, _ := h.Policy(ctx, "nordlys"); err != nil || row.EndsAt != oversight.EndOf(h.Now(), 10) || p.Version != 2 || p.ChangedBy != "gateway:hr" || p.Unknown != "" || p.Apps[0].By != "person:ada" {
		t.Errorf("ends at %d, rules %+v, %v", row.EndsAt, p, err)
	}

	i := h.saying(blocked("quill.example"))
	i.Dry = true
	if out := take(i); out.Ended != 1 || !h.accepts(t, id) {
		t.Errorf("a dry run: %+v", out)
	}
	i.Dry = false
	if out := take(i); out.Ended != 1 || out.String() != "rules: 1 changed" || h.accepts(t, id) {
		t.Errorf("a block: %+v", out)
	}
	if row, err := h.Approval(ctx, id); err != nil || row.Reason != approval.AppBlocked {
		t.Errorf("it ended: %v, %v", row.Reason, err)
	}
	if all := h.events(t, journal.PolicyChanged); len(all) != 3 || all[0].Actor != "gateway:hr" || all[0].Detail != "version 3, approvals ended: 1" || all[0].Organization != "nordlys" {
		t.Errorf("journal: %+v", all)
	}
	h.same(t, "with a directory's rules")
	if out := take(i); len(out.Changes) != 0 {
		t.Errorf("the same again: %+v", out)
	}
	if out := take(h.saying(policy.Policy{})); out.String() != "rules: 1 removed" {
		t.Errorf("no rules: %+v", out)
	}
	h = h.reopen(t)
	if p, err := h.Policy(ctx, "nordlys"); err != nil || !policy.Same(p, nil) || p.Version != 4 {
		t.Errorf("after a restart: %+v, %v", p, err)
	}
}

// An import can bring an organization, its roles and its rules in one; one whose rules
// cannot be brings nothing.
func TestDirectoryBringsAnOrganizationWithRules(t *testing.T) {
	h := furnished(t)
	i := directory.Import{Directory: directory.Directory{
		Organizations: []org.Organization{{ID: "sund", Name: "Sund", AIIntegration: true}},
		Roles:         []org.Role{{ID: "pilot", Organization: "sund", Name: "Pilot"}},
		Rules:         map[string]policy.Policy{"sund": {Ceiling: grantset.Ceiling{Never: []string{"pilot"}}, Unknown: policy.Block}},
	}}
	wrong := i
	wrong.Rules = map[string]policy.Policy{"sund": {Ceiling: grantset.Ceiling{Never: []string{"treasurer"}}}}
	before := h.remembered(t)
	var at *directory.Misplaced
	if _, err := h.ImportDirectory(ctx, wrong, byService); !errors.As(err, &at) || at.List != directory.ListOrganizations || at.Index != 0 || !strings.Contains(err.Error(), `no role "treasurer"`) {
		t.Errorf("another's role: %v", err)
	}
	difference(t, "it was refused", h.remembered(t), before)
	if _, err := h.ImportDirectory(ctx, i, byService); err != nil {
		t.Fatal(err)
	}
	h.same(t, "with another organization")
	if p, err := h.Policy(ctx, "sund"); err != nil || p.Unknown != policy.Block || !p.Names("pilot") || p.Version != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if d := h.exported(t); !policy.Same(new(d.Rules["sund"]), new(i.Rules["sund"])) || !policy.Same(new(d.Rules["fjell"]), nil) {
		t.Errorf("exported %+v", d.Rules)
	}
}

// Of an import and an admin's save at the same moment each is whole: the admin who saw
// other rules is told, the import counts whatever is there, and whoever was last stands.
func TestDirectoryBesideAnAdmin(t *testing.T) {
	h := furnished(t)
	other := h
	if !embedded() {
		other = h.second(t)
	}
	for round := range rounds(20) {
		was, err := h.Policy(ctx, "nordlys")
		if err != nil {
			t.Fatal(err)
		}
		var saved error
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _, saved = other.SetPolicy(ctx, Rules{Organization: "nordlys", Admin: "ada", Seen: oversight.Version(was), Policy: policy.Policy{MaxDays: 1000 + round}}, byAda)
		})
		wg.Go(func() {
			if _, err := h.ImportDirectory(ctx, h.saying(policy.Policy{MaxDays: 1 + round, Unknown: policy.Ask}), byService); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		now, err := h.Policy(ctx, "nordlys")
		if err != nil {
			t.Fatal(err)
		}
		switch grown := now.Version - oversight.Version(was); {
		case saved == nil && grown == 2, errors.Is(saved, ErrChanged) && grown == 1:
		default:
			t.Fatalf("round %d: %v, and %d versions more", round, saved, grown)
		}
		if got := fmt.Sprint(now.MaxDays, now.Unknown, now.ChangedBy); got != fmt.Sprint(1+round, policy.Ask, "gateway:hr") {
			t.Fatalf("round %d: %s stands", round, got)
		}
	}
	h.same(t, "after it")
}
