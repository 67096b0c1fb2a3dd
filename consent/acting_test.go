package consent

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// Whoever acts for somebody on the other side sees that person's pages, for an
// hour, and approves nothing (spec 2.4, decisions P9 and S3).
func TestActingElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		by   string
		with func(t *testing.T) *browser
	}{
		"act": {"support-7", func(t *testing.T) *browser {
			return actingAt(t, map[string]any{"act": map[string]any{"sub": "support-7"}})
		}},
		"act that names nobody": {"somebody", func(t *testing.T) *browser {
			return actingAt(t, map[string]any{"act": map[string]any{}})
		}},
		"act with markup": {"somebody", func(t *testing.T) *browser {
			return actingAt(t, map[string]any{"act": map[string]any{"sub": "<b>support</b>"}})
		}},
		"a configured claim": {"support-8", func(t *testing.T) *browser { return actingAt(t, map[string]any{"acting": "support-8"}) }},
		"a configured flag":  {"somebody", func(t *testing.T) *browser { return actingAt(t, map[string]any{"acting": true}) }},
		"UserInfo alone says so": {"support-7", func(t *testing.T) *browser {
			return actingAt(t, map[string]any{"email": "ada@nordlys.example", "email_verified": true}, "act", map[string]any{"sub": "support-7"})
		}},
		"UserInfo says so, and the ID token that nobody does": {"support-8", func(t *testing.T) *browser {
			return actingAt(t, map[string]any{"email": "ada@nordlys.example", "email_verified": true, "act": nil, "acting": false}, "acting", "support-8")
		}},
		"the service says so": {"support-9", func(t *testing.T) *browser {
			s := newHandOff(t)
			b := s.browser()
			b.get(s.asserts(challenged(b), "ada", func(a *identity.Assertion) { a.ImpersonatedBy = "support-9" })).want(303)
			return b
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := tt.with(t)
			s := b.s
			for _, p := range s.Ways.Providers {
				if _, err := s.Store.Subject(t.Context(), p.Issuer, "sub-of-ada"); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("who acts for somebody connects their account: %v", err)
				}
			}
			page := b.get(authorize("state", "mine")).want(403).says("Only Ada Lindqvist can approve apps for this account.", "You are signed in as "+tt.by)
			form := page.fill("/oauth/authorize")
			for name, value := range map[string]string{"organization": "nordlys", "grant": "everything", "decision": "approve"} {
				form.Set(name, value)
			}
			b.post("/oauth/authorize", form).want(403).says("Only Ada Lindqvist can approve")
			s.nothing("ada")
			if e := s.event("impersonation_started"); e.Person != "ada" || e.Actor != "elsewhere:"+tt.by {
				t.Errorf("event %+v", e)
			}
			if e := s.event("approval_refused"); e.Reason != "impersonating" || e.Actor != "elsewhere:"+tt.by {
				t.Errorf("event %+v", e)
			}
			b.get("/").want(200).says("Nordlys Cooperative")
			b.get("/organizations/nordlys/profile/api").want(200)
			b.post("/organizations/nordlys/leave", form).want(403)

			session := b.cookies["__Host-session"]
			form.Del("decision")
			form.Set("action", "stop_impersonating")
			to := b.post("/oauth/authorize", form).want(303).header.Get("Location")
			if !strings.HasPrefix(to, "/signin?return=") || !strings.Contains(to, "stay=1") {
				t.Errorf("leads to %q", to)
			}
			b.get(to).want(200).says("To decide about an app")
			if _, err := s.Store.Session(t.Context(), session); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the session goes on: %v", err)
			}
			if e := s.event("impersonation_stopped"); e.Person != "ada" || e.Actor != "elsewhere:"+tt.by {
				t.Errorf("event %+v", e)
			}
		})
	}
	for _, nobody := range []any{nil, false, ""} { // nobody acts
		b := actingAt(t, map[string]any{"act": nobody})
		b.get(authorize()).want(200).says("An app wants", "Signed in as Ada Lindqvist")
	}
}

// Where UserInfo cannot be had, nobody knows whether somebody else acts for the
// person: nobody is signed in, and all is kept for another attempt.
func TestUnknownWhoActs(t *testing.T) {
	for name, broken := range map[string]http.HandlerFunc{
		"down":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"about another": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"sub":"sub-of-tor"}`) },
		"in two ways": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"sub":"sub-of-ada","act":"x","Act":""}`)
		},
		"in another case": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"Sub":"sub-of-ada"}`) },
		"says it the second": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"sub":"sub-of-ada","act":{"sub":"x"},"act":null}`)
		},
	} {
		s, f := newOutside(t)
		f.claims = map[string]any{"email": "ada@nordlys.example", "email_verified": true}
		f.broken["/me"] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			broken(w, r)
		}
		b := s.browser()
		status, says := 400, "cannot be accepted"
		if name == "down" {
			status, says = 503, "does not answer"
		}
		if p := b.get(f.answers(f.out(b))); p.status != status || !strings.Contains(p.body, says) {
			t.Errorf("%s: %d", name, p.status)
		}
		s.nobody(b)
		delete(f.broken, "/me")
		b.get(f.answers(f.out(b))).follow().want(200).says("Signed in as Ada Lindqvist")
	}
}

// actingAt signs somebody in at a provider that claims this of them, and adds a
// member to what UserInfo says.
func actingAt(t *testing.T, claims map[string]any, more ...any) *browser {
	t.Helper()
	s, f := newOutside(t)
	c := f.provider("corp").Config
	c.ActorClaim = "acting"
	s.Ways.Providers[0] = provider.New(c, s.Store.Now)
	f.claims = claims
	if len(more) == 2 {
		f.userInfo[more[0].(string)] = more[1]
	}
	b := s.browser()
	b.get(f.answers(f.out(b))).want(303)
	return b
}

// It ends after an hour, at the button and with the sign-out, and nobody acts
// as support staff.
func TestActingElsewhereEnds(t *testing.T) {
	s := newHandOff(t)
	acting := func(person string) (*browser, *shown) {
		b := s.browser()
		return b, b.get(s.asserts(challenged(b), person, func(a *identity.Assertion) { a.ImpersonatedBy = "support-9" }))
	}
	b, _ := acting("ada")
	s.pass(store.ActingLifetime)
	b.get("/").want(303)

	b, _ = acting("ada")
	home := b.get("/").want(200)
	if to := home.press("/support/stop").want(303).header.Get("Location"); to != "/signin?stay=1" {
		t.Errorf("leads to %q", to)
	}
	b, _ = acting("ada")
	b.get("/").press("/signout").want(303)
	if len(b.cookies) != 1 || b.cookies["__Host-before"] == "" {
		t.Errorf("cookies %v, want another to sign in with and no more", b.cookies)
	}
	d, err := s.Store.Person(t.Context(), "tor")
	s.do(err)
	d.Support = true
	s.do(s.Store.AddDirectory(t.Context(), store.Directory{People: []store.DirectoryPerson{{Person: d}}}, store.Act{Actor: "operator"}))
	b, p := acting("tor")
	p.want(403).says("You are acting for somebody else.")
	if len(b.cookies) != 1 {
		t.Errorf("cookies %v", b.cookies)
	}
	b, _ = acting("ada") // and if the person becomes support staff meanwhile
	d.ID, d.Email = "ada", "ada@nordlys.example"
	s.do(s.Store.AddDirectory(t.Context(), store.Directory{People: []store.DirectoryPerson{{Person: d}}}, store.Act{Actor: "operator"}))
	b.get("/").want(303)
}
