package sample_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/sample"
	"github.com/grantkeeper/grantkeeper/store"
)

// choice is what one person gives in nordlys.
type choice struct {
	name   string
	person string
	grant  grantset.Set
	admin  bool // at the time of the calls
	under  grantset.Ceiling
}

func pick(role string) grantset.Pick   { return grantset.Pick{Role: role} }
func picked(role string) grantset.Pick { return grantset.Pick{Role: role, Change: true} }

var free grantset.Ceiling // which limits nothing

// choices are the three grant sets, by people with and without the admin
// right, "Only selected roles" in its forms, and what ceilings leave.
var choices = []choice{
	{"everything of an admin", "ada", everything, true, free},
	{"everything of a member", "tor", everything, false, free},
	{"everything, no longer admin", "ada", everything, false, free},
	{"whole organization", "ada", whole, true, free},
	{"whole organization, no longer admin", "ada", whole, false, free},
	{"a role to read", "ada", roles(false, pick("treasurer")), true, free},
	{"a role to change", "ada", roles(false, picked("treasurer")), true, free},
	{"one to read, one to change", "ada", roles(false, pick("secretary"), picked("treasurer")), false, free},
	{"a role and personal items", "tor", roles(true, picked("host")), false, free},
	{"personal items alone", "ada", roles(true), true, free},
	{"a role that is not filled", "tor", roles(false, picked("treasurer")), false, free},
	{"everything of an admin, to read", "ada", everything, true, grantset.Ceiling{ReadOnly: true}},
	{"everything of an admin, but for a role", "ada", everything, true, grantset.Ceiling{Never: []string{"planner", "treasurer"}}},
	{"everything of an admin, as a member", "ada", everything, true, grantset.Ceiling{Widest: grantset.Everything}},
	{"everything, where apps get roles", "ada", everything, true, grantset.Ceiling{Widest: grantset.Roles}},
	{"everything without personal items", "ada", everything, true, grantset.Ceiling{NoPersonal: true}},
	{"whole organization, to read, but for a role", "ada", whole, true, grantset.Ceiling{ReadOnly: true, Never: []string{"auditor"}}},
	{"roles under all ceilings", "ada", roles(true, pick("secretary"), picked("treasurer")), true,
		grantset.Ceiling{Widest: grantset.Roles, ReadOnly: true, NoPersonal: true, Never: []string{"treasurer"}}},
}

// chosen gives a house in which the choice was approved, and its token.
func chosen(t testing.TB, c choice) (*house, string) {
	t.Helper()
	h := newHouse(t)
	for _, role := range []string{"auditor", "planner"} { // nobody fills these
		circle := map[string]string{"auditor": "money", "planner": "plans"}[role]
		err := h.store.AddDirectory(t.Context(), store.Directory{
			Circles: []org.Circle{{ID: circle, Organization: "nordlys", Name: strings.ToUpper(circle[:1]) + circle[1:]}},
			Roles:   []org.Role{{ID: role, Organization: "nordlys", Circle: circle, Name: "The " + role}},
		}, store.Act{Actor: "system"})
		if err != nil {
			t.Fatal(err)
		}
	}
	access := h.live(c.person, "nordlys", c.grant).access
	if err := h.store.SetAdmin(t.Context(), "nordlys", "tor", true, store.Act{}); err != nil { // so that none is the last
		t.Fatal(err)
	}
	for person, admin := range map[string]bool{"tor": c.person != "tor", c.person: c.admin} {
		if err := h.store.SetAdmin(t.Context(), "nordlys", person, admin, store.Act{}); err != nil {
			t.Fatal(err)
		}
	}
	if !c.under.Zero() {
		if _, _, err := h.store.SetPolicy(t.Context(), store.Rules{Organization: "nordlys", Policy: policy.Policy{Ceiling: c.under}}, store.Act{}); err != nil {
			t.Fatal(err)
		}
	}
	return h, access
}

// authority is what the pure rules say of the choice, from the facts alone.
func (h *house) authority(c choice) grantset.Authority {
	h.t.Helper()
	m, err := h.store.Member(h.t.Context(), c.person, "nordlys")
	if err != nil {
		h.t.Fatal(err)
	}
	if m.Admin != c.admin {
		h.t.Fatalf("admin %t, want %t", m.Admin, c.admin)
	}
	if c.under.Zero() {
		return c.grant.Narrow(m, nil)
	}
	return c.grant.Narrow(m, &c.under)
}

var allRoles = []string{"auditor", "host", "planner", "secretary", "treasurer"}

// sorts is one item of each sort there is in nordlys.
func sorts() (all []item) {
	for _, role := range allRoles {
		all = append(all, ofRole(role, false), ofRole(role, true))
	}
	return append(all, ofPerson("ada"), ofPerson("tor"))
}

func (h *house) roleName(id string) string {
	r, _ := h.store.Role(h.t.Context(), "nordlys", id)
	return r.Name
}

// G-03, G-04, G-05, G-06, G-07, G-08, G-09, G-10, A-19: every action on every
// sort of item, under every grant set, is what the pure rules say; and what may
// not be read is answered exactly as what never was.
func TestActionsAreTheRules(t *testing.T) {
	for n, c := range choices {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h, access := chosen(t, c)
			a := h.authority(c)
			kind := sample.Kinds[n%len(sample.Kinds)]
			path := "/api/v5/" + kind + "s"
			var items []item
			for _, i := range sorts() {
				i.Kind = kind
				i.Title = "Sealed " + i.Role + i.Person
				items = append(items, h.item(i))
			}
			h.wantLists(c, a, path, access, items)
			for _, i := range items {
				h.wantActions(a, path, access, i)
			}
		})
	}
}

// wantActions tries all actions on one item.
func (h *house) wantActions(a grantset.Authority, path, access string, i item) {
	h.t.Helper()
	role := h.roleName(i.Role)
	unknown := h.get(path+"/nobody", access).Body.String()
	want := func(what string, w *httptest.ResponseRecorder, ok int, allowed bool, why string) {
		h.t.Helper()
		status, body := w.Code, w.Body.String()
		switch {
		case !a.MayRead(i.Item) && !strings.HasPrefix(what, "POST"):
			if status != 404 || body != unknown {
				h.t.Errorf("%s %+v: got %d %s, want what is said of nothing", what, i.Item, status, body)
			}
		case !allowed:
			var f struct{ Error, Reason string }
			if err := json.Unmarshal([]byte(body), &f); err != nil || status != 403 || f.Error != "forbidden" || !h.says(f.Reason, why) {
				h.t.Errorf("%s %+v: got %d %s, want 403 with %q", what, i.Item, status, body, why)
			}
		case status != ok:
			h.t.Errorf("%s %+v: got %d %s, want %d", what, i.Item, status, body, ok)
		}
	}
	call := func(method, target, body string) *httptest.ResponseRecorder {
		return h.send(method, target, access, body)
	}
	at := path + "/" + i.ID
	why := a.ExplainChange(i.Item, role)
	want("GET", call("GET", at, ""), 200, true, "")
	if a.ReadOnly() { // nothing that changes comes here
		return
	}
	want("PATCH", call("PATCH", at, `{"body":"seen"}`), 200, a.MayChange(i.Item), why)
	for _, to := range allRoles {
		r, _ := h.store.Role(h.t.Context(), "nordlys", to)
		moved := org.Item{Organization: "nordlys", Role: to, Circle: r.Circle, Private: i.Private}
		reason := why
		if reason == "" {
			reason = a.ExplainPut(moved, r.Name)
		}
		again := h.item(i)
		want("PATCH role "+to, call("PATCH", path+"/"+again.ID, `{"role":"`+to+`"}`), 200, a.MayChange(i.Item) && a.MayChange(moved), reason)
	}
	own := org.Item{Organization: "nordlys", Person: a.Member().Person}
	reason := why
	if reason == "" {
		reason = a.ExplainChange(own, "")
	}
	again := h.item(i)
	want("PATCH personal", call("PATCH", path+"/"+again.ID, `{"personal":true}`), 200, a.MayChange(i.Item) && a.MayChange(own), reason)
	if i.Role != "" {
		body := fmt.Sprintf(`{"title":"New","role":%q,"private":%t}`, i.Role, i.Private)
		want("POST", call("POST", path, body), 201, a.MayChange(i.Item), a.ExplainPut(i.Item, role))
	} else if i.Person == a.Member().Person {
		want("POST", call("POST", path, `{"title":"New","personal":true}`), 201, a.MayChange(i.Item), why)
	}
	want("DELETE", call("DELETE", at, ""), 204, a.MayChange(i.Item), why)
	_, err := h.stored(i)
	if gone := err != nil; gone != a.MayChange(i.Item) {
		h.t.Errorf("%+v: gone %t", i.Item, gone)
	}
}

// says reports whether the service gave the reason. What a ceiling has made of the choice
// before, no header tells, and the reason is of what is left.
func (h *house) says(reason, want string) bool {
	p, err := h.store.Policy(h.t.Context(), "nordlys")
	left := strings.Contains(reason, "approval") || strings.Contains(reason, `part of "Everything in this organization"`)
	return err == nil && want != "" && (reason == want || p.Limit() != nil && left)
}

// wantLists holds every filtered list to the rules: what may not be read is
// neither there nor counted.
func (h *house) wantLists(c choice, a grantset.Authority, path, access string, items []item) {
	h.t.Helper()
	filters := map[string]func(item) bool{
		"":               func(item) bool { return true },
		"status=open":    func(item) bool { return true },
		"status=done":    func(item) bool { return false },
		"personal=true":  func(i item) bool { return i.Personal() },
		"personal=false": func(i item) bool { return !i.Personal() },
		"mine=true":      func(i item) bool { return i.Personal() || a.Member().Fills(i.Role) },
		"mine=false":     func(i item) bool { return !i.Personal() && !a.Member().Fills(i.Role) },
	}
	for _, role := range allRoles {
		filters["role="+role] = func(i item) bool { return i.Role == role }
	}
	for _, circle := range []string{"general", "money", "plans"} {
		filters["circle="+circle] = func(i item) bool { return i.Circle == circle }
		filters["mine=true&circle="+circle] = func(i item) bool { return i.Circle == circle && a.Member().Fills(i.Role) }
	}
	for filter, match := range filters {
		var want []string
		for _, i := range items {
			if match(i) && a.MayRead(i.Item) {
				want = append(want, i.ID)
			}
		}
		for _, limit := range []int{1, 3, 200} {
			var got []string
			after := ""
			for {
				w := h.get(fmt.Sprintf("%s?limit=%d&%s&after=%s", path, limit, filter, after), access)
				wantStatus(h.t, w, 200, "")
				p := parse[sample.Items](h.t, w)
				for _, i := range p.Items {
					got = append(got, i.ID)
				}
				if n := len(p.Items); n > limit || n == 0 && p.Next != "" || n < limit && p.Next != "" {
					h.t.Errorf("%s: a page of %d with next %q", filter, n, p.Next)
				}
				if after = p.Next; after == "" {
					break
				}
			}
			if !slices.Equal(got, want) {
				h.t.Errorf("%s, %s by %d: got %q, want %q", c.name, filter, limit, got, want)
			}
		}
	}
}

// G-03, G-10: what admins do is 403 without the right, with the reason, and
// changes nothing; with it, it is done.
func TestAdministration(t *testing.T) {
	actions := []struct{ method, path, body string }{
		{"PATCH", "organization", `{"name":"Nord"}`},
		{"POST", "circles", `{"name":"Sea","parent":"plans"}`},
		{"PATCH", "circles/plans", `{"name":"Ideas"}`},
		{"POST", "roles", `{"name":"Cook","circle":"plans"}`},
		{"PATCH", "roles/planner", `{"circle":"general"}`},
		{"PUT", "roles/planner/fillers/tor", ""},
		{"PUT", "roles/planner/fillers/tor", ""},
		{"DELETE", "roles/planner/fillers/tor", ""},
		{"DELETE", "roles/planner", ""},
		{"PATCH", "people/tor", `{"admin":true}`},
		{"PATCH", "people/tor", `{"admin":false}`},
		{"DELETE", "people/tor", ""},
	}
	for _, c := range choices {
		if c.person != "ada" || c.under.ReadOnly { // then nothing that changes comes here
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			h, access := chosen(t, c)
			a := h.authority(c)
			before := h.everythingThere()
			for _, x := range actions {
				w := h.send(x.method, "/api/v5/"+x.path, access, x.body)
				if a.MayAdminister() {
					if w.Code/100 != 2 {
						t.Errorf("%s %s: got %d %s", x.method, x.path, w.Code, w.Body)
					}
					continue
				}
				wantStatus(t, w, 403, "")
				if f := parse[map[string]string](t, w); !h.says(f["reason"], a.ExplainAdminister()) {
					t.Errorf("%s %s: got %s, want %q", x.method, x.path, w.Body, a.ExplainAdminister())
				}
			}
			if changed := h.everythingThere() != before; changed != a.MayAdminister() {
				t.Errorf("changed: %t", changed)
			}
		})
	}
}

// everythingThere is what every member sees, as text.
func (h *house) everythingThere() string {
	h.t.Helper()
	o, err := h.store.Organization(h.t.Context(), "nordlys")
	circles, err2 := h.store.Circles(h.t.Context(), "nordlys")
	roles, err3 := h.store.Roles(h.t.Context(), "nordlys")
	admins, err4 := h.store.Admins(h.t.Context(), "nordlys", 9)
	people, _, err5 := h.store.People(h.t.Context(), store.PeopleFilter{Organization: "nordlys"})
	for _, err := range []error{err, err2, err3, err4, err5} {
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return fmt.Sprint(o, circles, roles, admins, people)
}
