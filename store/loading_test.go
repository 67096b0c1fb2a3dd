package store

import (
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// Facts that cannot be read are none that memory lacks: whoever asks is told that it cannot be
// now, whichever table it is, memory stays at its version, and all is there once it can be read.
func TestFactsThatCannotBeLoaded(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h, other := all[0], all[1]
	id := h.live(t, h.unique(1))
	rename := func(name string) error {
		return other.AddDirectory(ctx, directory.Directory{Roles: []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: name}}}, Act{})
	}
	rules := func(days int) error {
		other.rules(t, policy.Policy{MaxDays: days, Apps: []policy.App{{Host: "quill.example", Name: "Quill", Rule: policy.Allow}}, Ceiling: grantset.Ceiling{Never: []string{"treasurer"}}})
		return nil
	}
	everything := func() error {
		other.sql(t, `WITH next AS (UPDATE facts SET version = version + 1 RETURNING version) INSERT INTO fact_change SELECT version, '*', '' FROM next`)
		return nil
	}
	for _, tt := range []struct {
		table  string
		change func() error
	}{
		{"fact_change", func() error { return other.SetActive(ctx, "tor", false, Act{}) }},
		{"person", func() error { return other.SetActive(ctx, "tor", true, Act{}) }},
		{"organization", func() error { return other.SetIntegration(ctx, "fjell", false, Act{}) }},
		{"membership", func() error { return other.SetAdmin(ctx, "nordlys", "tor", true, Act{}) }},
		{"policy", func() error { return rules(8) }},
		{"policy_app", func() error { return rules(9) }},
		{"policy_never", func() error { return rules(10) }},
		{"circle", func() error {
			return other.AddDirectory(ctx, directory.Directory{Circles: []org.Circle{{ID: "anchor", Organization: "nordlys", Name: "North"}}}, Act{})
		}},
		{"role", func() error { return rename("Cashier") }},
		{"filler", func() error { return rename("Bursar") }},
		{"api_key", func() error {
			return other.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{{Key: "first-key-of-tor", Person: "tor", Organization: "nordlys", Name: "demo"}}}, Act{})
		}},
		{"client", func() error { other.register(t, "brass"); return nil }},
		{"person", everything}, {"organization", everything}, {"membership", everything}, {"policy", everything}, {"circle", everything},
		{"role", everything}, {"filler", everything}, {"api_key", everything}, {"client", everything},
	} {
		if err := tt.change(); err != nil {
			t.Fatal(tt.table, err)
		}
		before := h.postgres().Version()
		h.sql(t, `ALTER TABLE `+tt.table+` RENAME TO elsewhere`)
		if _, err := h.Check(ctx, id); !errors.Is(err, ErrUnavailable) || h.postgres().Version() != before {
			t.Errorf("without %s: %v, memory went on: %v", tt.table, err, h.postgres().Version() != before)
		}
		h.sql(t, `ALTER TABLE elsewhere RENAME TO `+tt.table)
		if !h.accepts(t, id) || h.postgres().Version() == before {
			t.Errorf("with %s again: memory went on: %v", tt.table, h.postgres().Version() != before)
		}
		h.same(t, "with "+tt.table+" again")
	}
}

// What others have loaded meanwhile is newer than what a load has read, and stays.
func TestLoadingBehindOthers(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h, other := all[0], all[1]
	other.addPerson(t, 1)
	conn, err := h.postgres().Pool.Acquire(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	one, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		t.Fatal(err)
	}
	defer one.Rollback(ctx)
	meanwhile := sync.OnceFunc(func() {
		other.addPerson(t, 2)
		if err := h.postgres().FreshNow(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := h.postgres().Load(ctx, conn.Conn(), false, meanwhile); err != nil {
		t.Fatal(err)
	}
	if here, there := h.postgres().Version(), other.postgres().Version(); here != there {
		t.Errorf("memory is at version %d, and others have loaded %d", here, there)
	}
	h.same(t, "afterwards")
}

// A node that loads what another has changed remembers the same, each fact and each mark of it;
// so does one that starts then.
func TestNodesRememberAlike(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	one, other := all[0], all[1]
	other.remembered(t)
	one.rules(t, policy.Policy{MaxDays: 8, Apps: []policy.App{{Host: "quill.example", Name: "Quill", Rule: policy.Allow}}, Ceiling: grantset.Ceiling{ReadOnly: true, Never: []string{"treasurer"}}})
	one.register(t, "brass")
	one.register(t, "tin")
	for _, err := range []error{
		one.AddDirectory(ctx, directory.Directory{
			People:  []directory.Person{{Person: org.Person{ID: "sol", Email: "sol@nordlys.example", Name: "Sol", Active: true, Support: true}}, {Person: org.Person{ID: "liv", Email: "liv@nordlys.example", Name: "Liv"}}},
			Members: []directory.Member{{Person: "tor", Organization: "fjell", Admin: true}},
			Circles: []org.Circle{{ID: "keel", Organization: "nordlys", Parent: "anchor", Name: "Keel"}},
			Roles:   []org.Role{{ID: "keeper", Organization: "nordlys", Circle: "keel", Name: "Keeper"}},
			Fillers: []directory.Filler{{Role: "keeper", Person: "tor"}},
			APIKeys: []directory.APIKey{{Key: "first-key-of-tor", Person: "tor", Organization: "fjell", Name: "demo"}},
		}, Act{}),
		one.SetIntegration(ctx, "fjell", false, Act{}),
		one.RemoveMember(ctx, "fjell", "ada", Act{}),
		one.SetClientEnabled(ctx, "brass", false, Act{}),
		one.SyncPreregistered(ctx, []client.Client{{ID: "fixed", Name: "Fixed", RedirectURIs: []string{redirect}, Preregistered: true}}, Act{}),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	want := one.remembered(t)
	difference(t, "what has changed was loaded", other.remembered(t), want)
	difference(t, "all was loaded", one.second(t).remembered(t), want)
}
