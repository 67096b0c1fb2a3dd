package console

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// goesThrough opens a change as a browser does, and sends its form.
func (b *browser) goesThrough(path string, values ...string) *seen {
	b.o.Helper()
	p := b.asks("GET", path, nil).want(200)
	form := url.Values{"csrf": {p.lastField("csrf")}}
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return b.asks("POST", path, form)
}

func (o *office) withPeople() {
	o.Helper()
	o.Do(o.Store.Enter(o.Context(), store.Entry{Value: "of ada", Person: "ada", Browser: "Firefox", System: "Linux"}, store.Act{Actor: "person:ada", Address: "203.0.113.9"}))
	o.Do(o.Store.AddFactors(o.Context(), "ada", "", []store.Factor{{ID: "one", Kind: store.FactorOneTime, Name: "phone"}, {ID: "two", Kind: store.FactorOneTime}, {ID: "code", Kind: store.FactorRecovery, Secret: "h"}}, store.Act{}))
}

// A person's page says how they sign in, where they belong, and what apps they have;
// each change is asked for a reason, is journaled under the operator's name, and may
// be repeated.
func TestPeopleInTheConsole(t *testing.T) {
	o, _, _ := withNamed(t)
	o.withPeople()
	b := o.signedIn("ingrid")
	b.asks("GET", "/people?q=ADA", nil).want(200).says("Ada", "ada@nordlys.example", "Nordlys (admin)", "Active").saysNot("tor@nordlys.example")
	b.asks("GET", "/people?q=tor", nil).want(200).says("tor@nordlys.example") // by ID too
	b.asks("GET", "/people?state=deactivated", nil).want(200).says("No person matches.")
	b.asks("GET", "/people?state=x", nil).want(400)
	b.asks("GET", "/people/ada", nil).want(200).says("Firefox on Linux", "203.0.113.9", "Authenticator app phone , added", "Authenticator app, added", "1 recovery code left", "Nordlys", "Admin", "Name of quill", "Deactivate…", "Reset second factor…", "Make a reset link…")
	b.asks("GET", "/people/ada@nordlys.example", nil).want(404) // by ID alone
	for _, path := range []string{"/people/ada/sign-out", "/people/ada/reset-factor", "/people/ada/deactivate", "/people/ada/reactivate", "/people/ada/link"} {
		b.goesThrough(path).want(422).says("Say why.")
		b.goesThrough(path, "reason", strings.Repeat("x", 1001)).want(422)
	}
	b.goesThrough("/people/ada/sign-out", "reason", "lost laptop").want(303)
	b.goesThrough("/people/ada/sign-out", "reason", "lost laptop").want(303)
	b.asks("GET", "/people/ada?done=out", nil).want(200).says("All sessions are ended.", "Signed in nowhere.", "lost laptop", "by operator ingrid")
	b.goesThrough("/people/ada/reset-factor", "reason", "lost the phone").want(303)
	b.asks("GET", "/people/ada", nil).says("Second factor None").saysNot("recovery")
	p := b.goesThrough("/people/ada/link", "reason", "forgot it").want(200).says("https://app.svalinn.example/reset/", "It is shown this once.")
	if p.head.Get("Cache-Control") != "no-store" {
		t.Error("the link may be kept")
	}
	b.goesThrough("/people/ada/deactivate", "reason", "left").want(303)
	b.goesThrough("/people/ada/deactivate", "reason", "left").want(303)
	b.asks("GET", "/people/ada?done=deactivated", nil).says("The person is deactivated.", "Deactivated", "Reactivate…", "None that lives.")
	b.asks("GET", "/people/ada?done=reactivated", nil).saysNot("active again")
	b.goesThrough("/people/ada/reactivate", "reason", "came back").want(303)
	b.asks("GET", "/people/ada?done=reactivated", nil).says("The person is active again.", "None that lives.")
}

// Somebody new has the email and the name that were sent; what cannot be is said in
// the form, which keeps what was sent.
func TestAddAPerson(t *testing.T) {
	o, _, _ := withNamed(t)
	b := o.signedIn("ingrid")
	to := b.goesThrough("/add-person", "name", "Ida Iversen", "email", "ida@nordlys.example", "id", "ida", "reason", "new here").want(303).head.Get("Location")
	if to != "/people/ida?done=added" {
		t.Errorf("leads to %q", to)
	}
	b.asks("GET", to, nil).want(200).says("The person is added.", "Ida Iversen", "Member of none.", "Nothing yet")
	b.goesThrough("/add-person", "name", "Ida Iversen", "email", "ida@nordlys.example", "id", "ida", "reason", "again").want(303)
	for what, values := range map[string][]string{
		"another's email": {"name", "Other", "email", "TOR@nordlys.example"}, "no email": {"name", "Other", "email", "nothing"}, "no name": {"name", "", "email", "x@nordlys.example"},
		"a name that turns": {"name", "a\u202eb", "email", "x@nordlys.example"}, "a bad ID": {"name", "Other", "email", "x@nordlys.example", "id", "a b"},
	} {
		p := b.goesThrough("/add-person", append(values, "reason", "why not")...)
		if p.code < 400 || p.code >= 500 || len(p.all("textarea")) != 1 || p.all("textarea")[0].FirstChild.Data != "why not" {
			t.Errorf("%s: %d %s", what, p.code, p.text())
		}
	}
}

// Names that others wrote stay text, and each stands apart.
func TestHostilePeople(t *testing.T) {
	o, _, _ := withNamed(t)
	const polyglot = `"'><img src=x onerror=alert(1)>{{.}}</textarea></script>`
	name := strings.Repeat("W", 60) + "<b>"
	o.Do(o.Store.AddDirectory(t.Context(), store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "x", Email: "x@nordlys.example", Name: polyglot, Active: true}}, {Person: org.Person{ID: "y", Email: "y@nordlys.example", Name: name, Active: true}}},
		Organizations: []org.Organization{{ID: "odd", Name: polyglot, AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "x", Organization: "odd", Admin: true}},
	}, store.Act{Actor: "system"}))
	b := o.signedIn("ingrid")
	for _, path := range []string{"/people", "/people/x", "/people/y", "/people/x/deactivate", "/people/x/reset-factor", "/people?q=" + url.QueryEscape(polyglot)} {
		p := b.asks("GET", path, nil).want(200)
		if len(p.all("img")) > 0 || p.strange() || strings.Contains(p.body, "<img") {
			t.Errorf("%s: %s", path, p.body)
		}
	}
}

// Times are in the reader's zone, as the cookie says it, and the foot says which.
func TestTimesAreInTheReadersZone(t *testing.T) {
	o, _ := withConsole(t)
	at := func(zone string) func(*http.Request) {
		return func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "zone", Value: zone}) }
	}
	o.page("/clients", at("Asia/Tokyo")).want(200).says("today 19:00", "Times are in Asia/Tokyo.")
	for _, bad := range []string{"Local", "../../etc/passwd", "", "<b>"} {
		o.page("/clients", at(bad)).want(200).says("today 10:00", "Times are in UTC.")
	}
}
