package api_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
)

// reader is a service: it knows which roles there are and who fills them, and asks the
// words of the headers for the rest, as docs/integrating.md says.
type reader struct {
	identity.Identity
	filled []org.Role
}

func (s reader) acts(role string) string {
	if !slices.ContainsFunc(s.filled, func(r org.Role) bool { return r.ID == role }) {
		return "none"
	}
	return s.Acts(role)
}

// admin reports whether an admin's rights reach the items of a role.
func (s reader) admin(role string) bool {
	return s.Admin || s.AdminWithin && !slices.Contains(s.Never, role)
}

func (s reader) mayRead(i org.Item) bool {
	switch {
	case i.Organization != s.Organization:
		return false
	case i.Personal():
		return i.Person == s.Person && (s.Personal || s.PersonalReads)
	case !i.Private || s.admin(i.Role):
		return true
	}
	return slices.ContainsFunc(s.filled, func(r org.Role) bool { return r.Circle == i.Circle && s.acts(r.ID) != "none" })
}

func (s reader) mayChange(i org.Item) bool {
	switch {
	case i.Organization != s.Organization:
		return false
	case i.Personal():
		return i.Person == s.Person && s.Personal
	}
	return s.acts(i.Role) == "change" || s.admin(i.Role) && !s.ReadOnly
}

func (s reader) mayAdminister() bool { return s.Admin || s.AdminWithin && !s.ReadOnly }

var shelf = []org.Role{{ID: "a", Organization: "o", Circle: "x"}, {ID: "b", Organization: "o", Circle: "x"}, {ID: "c", Organization: "o", Circle: "y"}, {ID: "d", Organization: "o", Circle: "z"}}

func someOf(r *rand.Rand) (out []org.Role) {
	for _, one := range shelf {
		if r.IntN(2) == 0 {
			out = append(out, one)
		}
	}
	return out
}

func randomAuthority(r *rand.Rand, limited bool) (grantset.Authority, *grantset.Ceiling) {
	m := org.NewMember("p", "o", r.IntN(2) == 0, someOf(r))
	m.Impersonal = r.IntN(5) == 0
	s := grantset.Set{Kind: grantset.Kinds[r.IntN(3)]}
	if s.Kind == grantset.Roles {
		for _, one := range someOf(r) {
			s.Picks = append(s.Picks, grantset.Pick{Role: one.ID, Change: r.IntN(2) == 0})
		}
		s.Personal = r.IntN(2) == 0
	}
	if !limited {
		return s.Narrow(m, nil), nil
	}
	c := &grantset.Ceiling{Widest: []grantset.Kind{"", grantset.Everything, grantset.Roles}[r.IntN(3)], ReadOnly: r.IntN(2) == 0, NoPersonal: r.IntN(2) == 0}
	for _, one := range someOf(r) {
		c.Never = append(c.Never, one.ID)
	}
	return s.Narrow(m, c), c
}

// A service that goes by the headers alone decides each item as the authority does,
// under ceilings too; and the words of ceilings are said only where no older ones say
// the same (decision V64).
func TestHeadersSayTheAuthority(t *testing.T) {
	var items []org.Item
	for _, private := range []bool{false, true} {
		for _, one := range shelf {
			items = append(items, org.Item{Organization: "o", Role: one.ID, Circle: one.Circle, Private: private})
		}
		items = append(items, org.Item{Organization: "o", Private: private}, org.Item{Organization: "o", Circle: "x", Private: private},
			org.Item{Organization: "o", Person: "p"}, org.Item{Organization: "o", Person: "q"}, org.Item{Organization: "n", Role: "a", Circle: "x", Private: private})
	}
	r := rand.New(rand.NewPCG(64, 1))
	key, now := []byte(strings.Repeat("k", 32)), time.Unix(1_800_000_000, 0)
	for n := range 100_000 {
		a, c := randomAuthority(r, n%4 != 0)
		headers, err := api.IdentityOf(a).Sign(key, now)
		if err != nil {
			t.Fatal(err)
		}
		sent := http.Header{}
		for name, value := range headers {
			sent.Set(name, value)
		}
		who, err := identity.Verify(sent, now, key)
		if err != nil {
			t.Fatal(err)
		}
		s := reader{who, a.Member().Roles()}
		for _, i := range items {
			if s.mayRead(i) != a.MayRead(i) || s.mayChange(i) != a.MayChange(i) {
				t.Fatalf("%d: %v under %+v: %+v: read %v, change %v", n, headers, c, i, s.mayRead(i), s.mayChange(i))
			}
		}
		for _, one := range shelf {
			if s.acts(one.ID) != a.Acts(one.ID) {
				t.Fatalf("%d: %v under %+v: through %s: %s, want %s", n, headers, c, one.ID, s.acts(one.ID), a.Acts(one.ID))
			}
		}
		if s.mayAdminister() != a.MayAdminister() {
			t.Fatalf("%d: %v under %+v: administers %v", n, headers, c, s.mayAdminister())
		}
		words := strings.Split(headers[identity.HeaderAuthority], ",")
		limits := slices.Contains(words, "readonly") || slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(w, "=none") })
		if wide := who.Grant != "roles" && a.Member().Admin; limits && (c.Zero() || !wide && !who.PersonalReads) {
			t.Fatalf("%d: %v under %+v: older words say it", n, headers, c)
		}
		if c == nil && who.Grant != string(a.Kind()) {
			t.Fatalf("%d: %v", n, headers)
		}
	}
}

// Where no rules are configured, what the organization lets no app change is refused
// all the same, and nothing else (decision V65).
func TestReadOnlyWithoutRules(t *testing.T) {
	h := newHouse(t)
	x := h.live("tor", "nordlys", everything)
	now, err := h.server.Now(t.Context(), h.actor("Authorization", "Bearer "+x.access))
	if err != nil {
		t.Fatal(err)
	}
	if h.server.RulesFor(now) != nil {
		t.Error("rules without a ceiling")
	}
	limited := now
	limited.Authority = everything.Narrow(now.Member(), &grantset.Ceiling{ReadOnly: true})
	if h.server.RulesFor(limited) != rules.ServiceDecides {
		t.Error("no rules under read only")
	}
	for method, allowed := range map[string]bool{"GET": true, "HEAD": true, "OPTIONS": true, "POST": false, "PUT": false, "PATCH": false, "DELETE": false, "QUERY": false, "": false} {
		for _, r := range []api.Rights{now, limited} {
			d, err := h.server.Ruled(t.Context(), r, rules.Call{Method: method, Path: "/api/v5/orders", Unread: true})
			if want := allowed || !r.ReadOnly(); err != nil || d.Allowed != want {
				t.Errorf("%s, read only %v: %+v, %v", method, r.ReadOnly(), d, err)
			}
			if told := api.Denied(r, d, "https://x.example"); !d.Allowed && (told.Reason != rules.ReadsOnly || told.Edit != "" || told.Rule != nil || told.Description != "Nordlys lets apps read only. The person cannot allow more.") {
				t.Errorf("%s: %+v", method, told)
			}
		}
	}
}
