package signin_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// Whoever acts for somebody on the other side sees that person's pages, for an
// hour, and approves nothing (spec 2.4, decisions P9 and S3).
func TestActingElsewhere(t *testing.T) {
	for name, tt := range map[string]struct {
		by   string
		with func(t *testing.T) (*site, *pagetest.Browser)
	}{
		"act": {"support-7", func(t *testing.T) (*site, *pagetest.Browser) {
			return actingAt(t, map[string]any{"act": map[string]any{"sub": "support-7"}})
		}},
		"act that names nobody": {"somebody", func(t *testing.T) (*site, *pagetest.Browser) {
			return actingAt(t, map[string]any{"act": map[string]any{}})
		}},
		"act with markup": {"somebody", func(t *testing.T) (*site, *pagetest.Browser) {
			return actingAt(t, map[string]any{"act": map[string]any{"sub": "<b>support</b>"}})
		}},
		"a configured claim": {"support-8", func(t *testing.T) (*site, *pagetest.Browser) {
			return actingAt(t, map[string]any{"acting": "support-8"})
		}},
		"a configured flag": {"somebody", func(t *testing.T) (*site, *pagetest.Browser) { return actingAt(t, map[string]any{"acting": true}) }},
		"UserInfo alone says so": {"support-7", func(t *testing.T) (*site, *pagetest.Browser) {
			return actingAt(t, map[string]any{"email": "ada@nordlys.example", "email_verified": true}, "act", map[string]any{"sub": "support-7"})
		}},
		"UserInfo says so, and the ID token that nobody does": {"support-8", func(t *testing.T) (*site, *pagetest.Browser) {
			return actingAt(t, map[string]any{"email": "ada@nordlys.example", "email_verified": true, "act": nil, "acting": false}, "acting", "support-8")
		}},
		"the service says so": {"support-9", func(t *testing.T) (*site, *pagetest.Browser) {
			s := newHandOff(t)
			b := s.Browser()
			b.Get(s.Asserts(challenged(b), "ada", func(a *identity.Assertion) { a.ImpersonatedBy = "support-9" })).Want(303)
			return s, b
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := tt.with(t)
			for _, p := range s.SignIn.Providers {
				if _, err := s.Store.Subject(t.Context(), p.Issuer, "sub-of-ada"); !errors.Is(err, store.ErrNotFound) {
					t.Errorf("who acts for somebody connects their account: %v", err)
				}
			}
			page := b.Get(pagetest.Authorize("state", "mine")).Want(403).Says("Only Ada Lindqvist can approve apps for this account.", "You are signed in as "+tt.by)
			form := page.Fill("/oauth/authorize")
			for name, value := range map[string]string{"organization": "nordlys", "grant": "everything", "decision": "approve"} {
				form.Set(name, value)
			}
			b.Post("/oauth/authorize", form).Want(403).Says("Only Ada Lindqvist can approve")
			s.Nothing("ada")
			if e := s.Event("impersonation_started"); e.Person != "ada" || e.Actor != "elsewhere:"+tt.by {
				t.Errorf("event %+v", e)
			}
			if e := s.Event("approval_refused"); e.Reason != "impersonating" || e.Actor != "elsewhere:"+tt.by {
				t.Errorf("event %+v", e)
			}
			b.Get("/").Want(200).Says("Nordlys Cooperative")
			b.Get("/organizations/nordlys/profile/api").Want(200)
			b.Post("/organizations/nordlys/leave", form).Want(403)

			session := b.Cookies["__Host-session"]
			form.Del("decision")
			form.Set("action", "stop_impersonating")
			to := b.Post("/oauth/authorize", form).Want(303).Header.Get("Location")
			if !strings.HasPrefix(to, "/signin?return=") || !strings.Contains(to, "stay=1") {
				t.Errorf("leads to %q", to)
			}
			b.Get(to).Want(200).Says("To decide about an app")
			if _, err := s.Store.Session(t.Context(), session); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("the session goes on: %v", err)
			}
			if e := s.Event("impersonation_stopped"); e.Person != "ada" || e.Actor != "elsewhere:"+tt.by {
				t.Errorf("event %+v", e)
			}
		})
	}
	for _, nobody := range []any{nil, false, ""} { // nobody acts
		_, b := actingAt(t, map[string]any{"act": nobody})
		b.Get(pagetest.Authorize()).Want(200).Says("An app wants", "Signed in as Ada Lindqvist")
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
		f.Claims = map[string]any{"email": "ada@nordlys.example", "email_verified": true}
		f.Broken["/me"] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			broken(w, r)
		}
		b := s.Browser()
		status, says := 400, "cannot be accepted"
		if name == "down" {
			status, says = 503, "does not answer"
		}
		if p := b.Get(f.Answers(f.Out(b))); p.Status != status || !strings.Contains(p.Body, says) {
			t.Errorf("%s: %d", name, p.Status)
		}
		s.nobody(b)
		delete(f.Broken, "/me")
		b.Get(f.Answers(f.Out(b))).Follow().Want(200).Says("Signed in as Ada Lindqvist")
	}
}

// actingAt signs somebody in at a provider that claims this of them, and adds a
// member to what UserInfo says.
func actingAt(t *testing.T, claims map[string]any, more ...any) (*site, *pagetest.Browser) {
	t.Helper()
	s, f := newOutside(t)
	c := f.Provider("corp").Config
	c.ActorClaim = "acting"
	s.SignIn.Providers[0] = provider.New(c, s.Store.Now)
	f.Claims = claims
	if len(more) == 2 {
		f.UserInfo[more[0].(string)] = more[1]
	}
	b := s.Browser()
	b.Get(f.Answers(f.Out(b))).Want(303)
	return s, b
}

// It ends after an hour, at the button and with the sign-out, and nobody acts
// as support staff.
func TestActingElsewhereEnds(t *testing.T) {
	s := newHandOff(t)
	acting := func(person string) (*pagetest.Browser, *pagetest.Shown) {
		b := s.Browser()
		return b, b.Get(s.Asserts(challenged(b), person, func(a *identity.Assertion) { a.ImpersonatedBy = "support-9" }))
	}
	b, _ := acting("ada")
	s.Pass(store.ActingLifetime)
	b.Get("/").Want(303)

	b, _ = acting("ada")
	home := b.Get("/").Want(200)
	if to := home.Press("/support/stop").Want(303).Header.Get("Location"); to != "/signin?stay=1" {
		t.Errorf("leads to %q", to)
	}
	if to := home.Press("/support/stop").Want(303).Header.Get("Location"); to != "/signin?stay=1" { // pressed twice
		t.Errorf("leads to %q", to)
	}
	b, _ = acting("ada")
	b.Get("/").Press("/signout").Want(303)
	if len(b.Cookies) != 1 || b.Cookies["__Host-before"] == "" {
		t.Errorf("cookies %v, want another to sign in with and no more", b.Cookies)
	}
	d, err := s.Store.Person(t.Context(), "tor")
	s.Do(err)
	d.Support = true
	s.Do(s.Store.AddDirectory(t.Context(), store.Directory{People: []store.DirectoryPerson{{Person: d}}}, store.Act{Actor: "operator"}))
	b, p := acting("tor")
	p.Want(403).Says("You are acting for somebody else.")
	if len(b.Cookies) != 1 {
		t.Errorf("cookies %v", b.Cookies)
	}
	b, _ = acting("ada") // and if the person becomes support staff meanwhile
	d.ID, d.Email = "ada", "ada@nordlys.example"
	s.Do(s.Store.AddDirectory(t.Context(), store.Directory{People: []store.DirectoryPerson{{Person: d}}}, store.Act{Actor: "operator"}))
	b.Get("/").Want(303)
}
