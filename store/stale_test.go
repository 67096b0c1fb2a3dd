package store

import (
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// lax opens the database once more, with a bound on staleness that no test outlives.
func (h house) lax(t testing.TB) house {
	t.Helper()
	if embedded() {
		return h
	}
	s, err := Open(ctx, at(t, h.path, Options{Ring: h.ring, Now: h.clock.Now, MaxStaleness: time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h.Store = s
	return h
}

// A bound on staleness is for what is still accepted: what one node has
// acknowledged, another that could answer from what was before finds at once
// (decision B8).
func TestStalenessRefusesNothing(t *testing.T) {
	wide := grantset.Set{Kind: grantset.Everything}
	const newKey = "new-key-of-tor-for-tests"
	var made approval.ID
	is := func(err error) bool { return err == nil }
	enabled := func(id string) func(house) bool {
		return func(h house) bool {
			state, err := h.ClientState(ctx, id)
			return is(err) && state == ClientEnabled
		}
	}
	giveRole := func(h house) error { return h.SetFiller(ctx, "treasurer", "tor", true, Act{}) }
	for _, c := range []struct {
		name   string
		before func(house) error // nil is nothing
		change func(house) error
		finds  func(house) bool
	}{
		{"client registered", nil, func(h house) error {
			return h.AddClient(ctx, client.Client{ID: "new", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}, Origin{}, Act{})
		}, enabled("new")},
		{"client enabled again", func(h house) error { h.register(t, "other"); return h.SetClientEnabled(ctx, "other", false, Act{}) },
			func(h house) error { return h.SetClientEnabled(ctx, "other", true, Act{}) }, enabled("other")},
		{"API key made", nil, func(h house) error {
			return h.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{{Key: newKey, Person: "tor", Organization: "nordlys", Name: "script"}}}, Act{})
		}, func(h house) bool { _, err := h.CheckAPIKey(ctx, IdentifyAPIKey(newKey)); return is(err) }},
		{"role given to an API key's person", func(h house) error {
			return h.AddDirectory(ctx, directory.Directory{APIKeys: []directory.APIKey{{Key: newKey, Person: "tor", Organization: "nordlys", Name: "script"}}}, Act{})
		}, giveRole, func(h house) bool {
			a, err := h.CheckAPIKey(ctx, IdentifyAPIKey(newKey))
			if is(err) && a.Remembered {
				a, err = h.CheckAPIKeyNow(ctx, IdentifyAPIKey(newKey))
			}
			return is(err) && !a.Remembered && a.Member().Fills("treasurer")
		}},
		{"person added", nil, func(h house) error {
			_, err := h.AddPerson(ctx, org.Person{ID: "new", Email: "new@nordlys.example", Name: "New", Active: true}, "$argon2id$y", Act{})
			return err
		}, func(h house) bool {
			_, hash, err := h.Password(ctx, "new@nordlys.example")
			return is(err) && hash == "$argon2id$y"
		}},
		{"person active again", func(h house) error { return h.SetActive(ctx, "tor", false, Act{}) },
			func(h house) error { return h.SetActive(ctx, "tor", true, Act{}) },
			func(h house) bool { p, err := h.Person(ctx, "tor"); return is(err) && p.Active }},
		{"signed in", func(h house) error { return h.SetActive(ctx, "tor", false, Act{}) }, func(h house) error {
			return errors.Join(h.SetActive(ctx, "tor", true, Act{}), h.Enter(ctx, Entry{Value: "s", Person: "tor"}, Act{}))
		}, func(h house) bool { _, err := h.Session(ctx, "s"); return is(err) }},
		{"reset link made", func(h house) error { return h.SetActive(ctx, "tor", false, Act{}) }, func(h house) error {
			on := h.SetActive(ctx, "tor", true, Act{})
			_, err := h.AddReset(ctx, "r", "tor", ResetLifetime, Act{})
			return errors.Join(on, err)
		}, func(h house) bool { _, err := h.ResetOf(ctx, "r"); return is(err) }},
		{"member added", nil, func(h house) error { return h.SetMember(ctx, "fjell", "tor", false, Act{}) },
			func(h house) bool { _, err := h.Member(ctx, "tor", "fjell"); return is(err) }},
		{"role given", nil, giveRole,
			func(h house) bool { m, err := h.Member(ctx, "tor", "nordlys"); return is(err) && m.Fills("treasurer") }},
		{"role to choose", nil, giveRole, func(h house) bool {
			all, err := h.Offers(ctx, "tor")
			return is(err) && len(all) == 1 && len(all[0].Groups) == 1
		}},
		{"circle of a role", nil, func(h house) error {
			return h.AddDirectory(ctx, directory.Directory{Circles: []org.Circle{{ID: "money", Organization: "nordlys", Parent: "anchor", Name: "Money"}},
				Roles: []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "money", Name: "Treasurer"}}}, Act{})
		}, func(h house) bool {
			r, err := h.Role(ctx, "nordlys", "treasurer")
			return is(err) && r.Circle == "money"
		}},
		{"AI integration turned on", func(h house) error { return h.SetIntegration(ctx, "fjell", false, Act{}) },
			func(h house) error { return h.SetIntegration(ctx, "fjell", true, Act{}) },
			func(h house) bool { o, err := h.Organization(ctx, "fjell"); return is(err) && o.AIIntegration }},
		{"approved", nil, func(h house) error { made = h.live(t, h.unique(7)); return nil },
			func(h house) bool { return h.accepts(t, made) }},
		{"grant set widened", func(h house) error { made = h.live(t, h.answer(7)); return nil }, func(h house) error {
			return h.EditGrant(ctx, made, "ada", h.answer(7).Grant, wide, Act{})
		}, func(h house) bool {
			a, err := h.Check(ctx, made)
			if is(err) && a.Remembered {
				a, err = h.CheckNow(ctx, made)
			}
			return is(err) && !a.Remembered && a.Approval.Grant.Equal(wide)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := furnished(t)
			if c.before != nil {
				if err := c.before(first); err != nil {
					t.Fatal(err)
				}
			}
			lax := first.lax(t)
			lax.primed(t, first.live(t, first.unique(1)))
			if c.finds(lax) {
				t.Fatal("it is there before the change")
			}
			lax.primed(t, first.live(t, first.unique(2)))
			if err := c.change(first); err != nil {
				t.Fatal(err)
			}
			if !lax.couldAnswer() {
				t.Fatal("it could not have answered from before")
			}
			if !c.finds(lax) {
				t.Error("refused what another node has acknowledged")
			}
		})
	}
}

// primed has a node remember an approval, and the facts of now.
func (h house) primed(t testing.TB, id approval.ID) {
	t.Helper()
	if !h.accepts(t, id) || !h.couldAnswer() {
		t.Fatal("nothing is remembered")
	}
}

func (h house) couldAnswer() bool { return embedded() || h.postgres().Recent() }

// What another node has ended is still accepted within the bound, which is said,
// and by nobody who shows it.
func TestStalenessIsSaid(t *testing.T) {
	if embedded() {
		return
	}
	first := furnished(t)
	lax := first.lax(t)
	id := first.live(t, first.unique(1))
	lax.primed(t, id)
	const key = "key-of-ada-in-nordlys"
	if err := first.RemoveMember(ctx, "nordlys", "ada", Act{}); err != nil {
		t.Fatal(err)
	}
	if a, err := lax.CheckAPIKey(ctx, IdentifyAPIKey(key)); err != nil || !a.Remembered || a.Member().Person != "ada" {
		t.Errorf("API key: got %+v, %v", a, err)
	}
	if a, err := lax.Check(ctx, id); err != nil || !a.Remembered {
		t.Errorf("approval: got %+v, %v", a, err)
	}
	if m, err := lax.APIKey(ctx, key); !errors.Is(err, ErrNotFound) {
		t.Errorf("shown: got %+v, %v", m, err)
	}
	if _, err := lax.CheckAPIKey(ctx, IdentifyAPIKey(key)); !errors.Is(err, ErrNotFound) {
		t.Errorf("API key afterwards: %v", err)
	}
}
