package signin_test

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// Every way to a session, what it has proved at that moment, and what it may do
// then (decision S5). None proves anything by having begun.
func TestWhatEachWayProves(t *testing.T) { pagetest.OnBothEngines(t, whatEachWayProves) }

func whatEachWayProves(t *testing.T, place func(*testing.T) store.Options) {
	const old = time.Hour
	type way struct {
		name   string
		enter  func(t *testing.T, s *site, f *signin.Far) *pagetest.Browser
		proved time.Duration // ago; negative: never
		factor time.Duration
		may    string // of: password, factors, fresh, factor; what asks for nothing more
		barred bool   // there is no session, or one that changes and approves nothing
	}
	never := time.Duration(-1)
	second := func(t *testing.T, s *site, with func(app signin.CodeApp, recovery []string) string) *pagetest.Browser {
		app, recovery := signin.WithApp(t, s.SignedIn("ada"))
		s.Pass(time.Minute)
		b := s.Browser()
		pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Press("/signin/second", "code", with(app, recovery)).Want(303)
		return b
	}
	changed := func(b *pagetest.Browser) *pagetest.Browser {
		b.Get("/account").Press("/account/password", passwords(pagetest.Password, pagetest.NewWord, pagetest.NewWord)...).Want(303)
		return b
	}
	at := func(claims map[string]any) func(*testing.T, *site, *signin.Far) *pagetest.Browser {
		return func(_ *testing.T, s *site, f *signin.Far) *pagetest.Browser {
			for name, value := range claims {
				if ago, ok := value.(time.Duration); ok {
					value = s.Store.Now().Add(-ago).Unix()
				}
				f.Claims[name] = value
			}
			b := s.Browser()
			page := b.Get(pagetest.Authorize()).Follow()
			b.Get(f.Answers(f.Asks(b.Get(page.Link("Continue with Corporate login"))))).Want(303)
			return b
		}
	}
	for _, w := range []way{
		{"a password", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.Browser()
			pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
			return b
		}, 0, never, "password factors fresh", false},
		{"a password, a while ago", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("ada")
			s.Pass(old)
			return b
		}, old, never, "password", false}, // the form of a new password has the old one
		{"a password and a code", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			return second(t, s, func(app signin.CodeApp, _ []string) string { return app.Code() })
		}, 0, 0, "password factors fresh factor", false},
		{"a password and a recovery code", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			return second(t, s, func(_ signin.CodeApp, recovery []string) string { return recovery[0] })
		}, 0, 0, "password factors fresh factor", false},
		{"both, a while ago", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := second(t, s, func(app signin.CodeApp, _ []string) string { return app.Code() })
			s.Pass(old)
			return b
		}, old, old, "", false},
		{"a password and a passkey", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			device, b := withPasskey(t, s, "ada"), s.Browser()
			p := pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow()
			p.Press("/signin/second", "passkey", device.answer(p)).Want(303)
			return b
		}, 0, 0, "password factors fresh factor", false},
		{"a password, before a factor was added elsewhere", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("ada")
			signin.WithApp(t, s.SignedIn("ada"))
			return b
		}, never, never, "", false},
		{"a change of the password", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("ada")
			s.Pass(old)
			return changed(b)
		}, old, never, "password", false},
		{"a change of the password, with a factor", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := second(t, s, func(app signin.CodeApp, _ []string) string { return app.Code() })
			s.Pass(time.Minute)
			return changed(b)
		}, time.Minute, time.Minute, "password factors fresh factor", false},
		{"signing in again", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("ada")
			s.Pass(old)
			b.Get("/signin/again").Press("/signin/again", "password", pagetest.Password).Want(303)
			return b
		}, 0, never, "password factors fresh", false},
		{"signing in again, with a factor", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("ada")
			app, _ := signin.WithApp(t, b)
			s.Pass(old)
			b.Get("/signin/again").Press("/signin/again", "password", pagetest.Password, "code", app.Code()).Want(303)
			return b
		}, 0, 0, "password factors fresh factor", false},
		{"signing in again, with a passkey", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b, device := s.SignedIn("ada"), withPasskey(t, s, "ada")
			s.Pass(old)
			p := b.Get("/signin/again")
			p.Press("/signin/again", "password", pagetest.Password, "passkey", device.answer(p)).Want(303)
			return b
		}, 0, 0, "password factors fresh factor", false},
		{"a reset link", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("ada")
			at := s.ResetLink("ada")
			b.Get(at).Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200)
			return b
		}, never, never, "", true},
		{"a reset link, and the new password", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b, at := s.Browser(), s.ResetLink("ada")
			b.Get(at).Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200)
			pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.NewWord).Want(303)
			return b
		}, 0, never, "password factors fresh", false},
		{"a reset link, with a factor, and the new password", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			signin.WithApp(t, s.SignedIn("ada"))
			b, at := s.Browser(), s.ResetLink("ada")
			b.Get(at).Press(at, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200)
			pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", pagetest.NewWord).Follow().Want(200).Says("Second step")
			return b
		}, never, never, "", true},
		{"an impersonation", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("siri")
			b.Get(pagetest.AsAda).Press(pagetest.AsAda, "reason", "ticket 17").Want(303)
			return b
		}, 0, never, "", true},
		{"an impersonation that was stopped", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("siri")
			s.Pass(old / 2)
			b.Get(pagetest.AsAda).Press(pagetest.AsAda, "reason", "ticket 17").Want(303)
			s.Pass(old / 2)
			b.Get("/").Press("/support/stop").Want(303)
			return b
		}, old, never, "password", false},
		{"a session of before a restore", func(t *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.SignedIn("ada")
			_, err := s.Store.SettleRestored(t.Context(), store.Act{Actor: "operator"})
			s.Do(err)
			return b
		}, never, never, "", true},
		{"a session of a release that wrote no proof", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b, value := s.Browser(), page.NewCookie()
			s.Do(s.Store.Enter(t.Context(), store.Entry{Value: value, Person: "ada"}, store.Act{}))
			b.Cookies["__Host-session"] = value
			return b
		}, never, never, "password", false},
		{"a provider, just now", at(nil), time.Minute, never, "password factors fresh", false},
		{"a provider, a while ago", at(map[string]any{"auth_time": old}), old, never, "password", false},
		{"a provider that does not say when", at(map[string]any{"auth_time": nil}), never, never, "password", false},
		{"a provider with a second factor", at(map[string]any{"amr": []string{"pwd", "mfa"}}), time.Minute, time.Minute, "password factors fresh factor", false},
		{"the hand-off, a while ago", func(_ *testing.T, s *site, _ *signin.Far) *pagetest.Browser {
			b := s.Browser()
			page := b.Get(pagetest.Authorize()).Follow()
			q := b.Get(page.Link("Continue with Svalinn")).Sent(pagetest.HandOffURL)
			b.Get(s.Asserts(q, "ada", nil)).Want(303)
			return b
		}, old, never, "password", false},
	} {
		t.Run(w.name, func(t *testing.T) {
			all := []string{"password", "factors", "fresh", "factor", "edit to everything", "edit to organization"}
			if place(t).URL != "" { // what follows from a proof is asked of neither engine
				all = []string{"password", "factor"}
			}
			for _, does := range all {
				s := openSite(t, place(t), nil)
				s.Furnish()
				s.WithSupport()
				s.Do(s.Store.AddDirectory(t.Context(), store.Directory{Fillers: []store.Filler{{Role: "treasurer", Person: "siri"}}}, store.Act{Actor: "system"}))
				s.Do(s.Store.SetAdmin(t.Context(), "nordlys", "siri", true, store.Act{Actor: "system"}))
				s.Do(s.Store.SetPassword(t.Context(), "siri", pagetest.PasswordHash, store.Act{Actor: "operator"}))
				f := signin.NewFar(t, s.Store.Now)
				s.SignIn.Providers, s.SignIn.HandOff = []*provider.Provider{f.Provider("corp")}, &signin.HandOff{URL: pagetest.HandOffURL, Keys: []identity.AssertionKey{{Secret: []byte(pagetest.HandOffSecret)}}}
				b := w.enter(t, s, f)
				if does == "password" { // once is enough
					p, err := s.Store.Proof(t.Context(), b.Cookies["__Host-session"])
					ago := func(unix int64) time.Duration {
						if unix <= 1 {
							return never
						}
						return s.Store.Now().Sub(time.Unix(unix, 0)).Truncate(time.Second)
					}
					if gone := w.barred && w.proved == never; errors.Is(err, store.ErrNotFound) != gone || err != nil && !gone || ago(p.ProvedAt) != w.proved || ago(p.FactorAt) != w.factor {
						t.Errorf("proof %+v %v: %v and %v ago", p, err, ago(p.ProvedAt), ago(p.FactorAt))
					}
				}
				if w.barred {
					s.barred(b)
					break
				}
				if may := strings.Contains(" "+w.may+" ", " "+needs(does)+" "); may != s.does(b, does) {
					t.Errorf("%s: want it to be allowed: %v", does, may)
				}
			}
		})
	}
}

// barred sends what changes a sign-in or approves, with the form token that the
// browser's session has, and requires that none of it is done.
func (s *site) barred(b *pagetest.Browser) {
	s.T.Helper()
	_, before, err := s.Store.Password(s.T.Context(), "ada@nordlys.example")
	s.Do(err)
	form := url.Values{"csrf": {s.Ring.FormToken(b.Cookies["__Host-session"])}}
	for pair := range slices.Chunk(passwords(pagetest.Password, "yet another long one", "yet another long one"), 2) {
		form.Set(pair[0], pair[1])
	}
	for _, path := range []string{"/account/password", "/account/sign-in/app", "/account/sign-in/passkey", "/account/sign-in/recovery"} {
		if p := b.Post(path, form); p.Status != http.StatusForbidden && !strings.HasPrefix(p.Header.Get("Location"), "/signin?") {
			s.T.Errorf("%s: %d %s", path, p.Status, p.Header.Get("Location"))
		}
	}
	if p := b.Get(pagetest.Authorize()); p.Status != http.StatusForbidden && !strings.HasPrefix(p.Header.Get("Location"), "/signin?") {
		s.T.Errorf("consent: %d", p.Status)
	}
	if _, after, err := s.Store.Password(s.T.Context(), "ada@nordlys.example"); err != nil || after != before {
		s.T.Error("the password was changed", err)
	}
	s.Nothing("ada")
}

// does tries what asks for a proof, and reports whether it was done. All else
// than being asked for more fails.
func (s *site) does(b *pagetest.Browser, what string) bool {
	s.T.Helper()
	var p *pagetest.Shown
	strong := []string{"organization", "nordlys", "grant", "everything", "decision", "approve"}
	switch what {
	case "password":
		current := pagetest.Password
		if s.opens("ada@nordlys.example", pagetest.NewWord) {
			current = pagetest.NewWord
		}
		p = b.Get("/account").Press("/account/password", passwords(current, "yet another long one", "yet another long one")...)
	case "factors":
		if p = b.Get("/account/sign-in").Press("/account/sign-in/app"); p.Status == http.StatusOK {
			return true
		}
	case "edit to everything", "edit to organization":
		id := b.Connect("grant", "roles", "role:treasurer", "read")
		s.SignIn.Strong = signin.StrengthFresh
		path := pagetest.NordlysApps + "/" + id.String() + "/edit"
		p = b.Get(path).Press(path, "grant", strings.TrimPrefix(what, "edit to "), "decision", "save")
	default:
		s.SignIn.Strong = signin.Strength(what)
		p = b.Get(pagetest.Authorize()).Press("/oauth/authorize", strong...)
	}
	to := p.Header.Get("Location")
	switch {
	case p.Status == http.StatusForbidden && what == "factor" && strings.Contains(p.Text(), "your account has none yet"),
		p.Status == http.StatusForbidden && what == "factor" && strings.Contains(p.Text(), "second factor"),
		p.Status == http.StatusSeeOther && strings.HasPrefix(to, "/signin/again"):
		return false
	}
	p.Want(http.StatusSeeOther)
	return true
}

// needs is what an edit needs: the same as an approval.
func needs(does string) string {
	if strings.HasPrefix(does, "edit ") {
		return "fresh"
	}
	return does
}
