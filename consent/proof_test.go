package consent

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// Every way to a session, what it has proved at that moment, and what it may do
// then (decision S5). None proves anything by having begun.
func TestWhatEachWayProves(t *testing.T) { onBothEngines(t, whatEachWayProves) }

func whatEachWayProves(t *testing.T, place func(*testing.T) store.Options) {
	const old = time.Hour
	type way struct {
		name   string
		enter  func(t *testing.T, s *site, f *far) *browser
		proved time.Duration // ago; negative: never
		factor time.Duration
		may    string // of: password, factors, fresh, factor; what asks for nothing more
		barred bool   // there is no session, or one that changes and approves nothing
	}
	never := time.Duration(-1)
	second := func(t *testing.T, s *site, with func(app codeApp, recovery []string) string) *browser {
		app, recovery := withApp(t, s.signedIn("ada"))
		s.pass(time.Minute)
		b := s.browser()
		signin(b.get("/signin"), "ada@nordlys.example", password).follow().press("/signin/second", "code", with(app, recovery)).want(303)
		return b
	}
	changed := func(b *browser) *browser {
		b.get("/account").press("/account/password", passwords(password, newWord, newWord)...).want(303)
		return b
	}
	at := func(claims map[string]any) func(*testing.T, *site, *far) *browser {
		return func(_ *testing.T, s *site, f *far) *browser {
			for name, value := range claims {
				if ago, ok := value.(time.Duration); ok {
					value = s.Store.Now().Add(-ago).Unix()
				}
				f.claims[name] = value
			}
			b := s.browser()
			page := b.get(authorize()).follow()
			b.get(f.answers(f.asks(b.get(page.link("Continue with Corporate login"))))).want(303)
			return b
		}
	}
	for _, w := range []way{
		{"a password", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.browser()
			signin(b.get("/signin"), "ada@nordlys.example", password).want(303)
			return b
		}, 0, never, "password factors fresh", false},
		{"a password, a while ago", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("ada")
			s.pass(old)
			return b
		}, old, never, "password", false}, // the form of a new password has the old one
		{"a password and a code", func(t *testing.T, s *site, _ *far) *browser {
			return second(t, s, func(app codeApp, _ []string) string { return app.code() })
		}, 0, 0, "password factors fresh factor", false},
		{"a password and a recovery code", func(t *testing.T, s *site, _ *far) *browser {
			return second(t, s, func(_ codeApp, recovery []string) string { return recovery[0] })
		}, 0, 0, "password factors fresh factor", false},
		{"both, a while ago", func(t *testing.T, s *site, _ *far) *browser {
			b := second(t, s, func(app codeApp, _ []string) string { return app.code() })
			s.pass(old)
			return b
		}, old, old, "", false},
		{"a password and a passkey", func(t *testing.T, s *site, _ *far) *browser {
			device, b := withPasskey(t, s, "ada"), s.browser()
			p := signin(b.get("/signin"), "ada@nordlys.example", password).follow()
			p.press("/signin/second", "passkey", device.answer(p)).want(303)
			return b
		}, 0, 0, "password factors fresh factor", false},
		{"a password, before a factor was added elsewhere", func(t *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("ada")
			withApp(t, s.signedIn("ada"))
			return b
		}, never, never, "", false},
		{"a change of the password", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("ada")
			s.pass(old)
			return changed(b)
		}, old, never, "password", false},
		{"a change of the password, with a factor", func(t *testing.T, s *site, _ *far) *browser {
			b := second(t, s, func(app codeApp, _ []string) string { return app.code() })
			s.pass(time.Minute)
			return changed(b)
		}, time.Minute, time.Minute, "password factors fresh factor", false},
		{"signing in again", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("ada")
			s.pass(old)
			b.get("/signin/again").press("/signin/again", "password", password).want(303)
			return b
		}, 0, never, "password factors fresh", false},
		{"signing in again, with a factor", func(t *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("ada")
			app, _ := withApp(t, b)
			s.pass(old)
			b.get("/signin/again").press("/signin/again", "password", password, "code", app.code()).want(303)
			return b
		}, 0, 0, "password factors fresh factor", false},
		{"signing in again, with a passkey", func(t *testing.T, s *site, _ *far) *browser {
			b, device := s.signedIn("ada"), withPasskey(t, s, "ada")
			s.pass(old)
			p := b.get("/signin/again")
			p.press("/signin/again", "password", password, "passkey", device.answer(p)).want(303)
			return b
		}, 0, 0, "password factors fresh factor", false},
		{"a reset link", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("ada")
			at := s.link("ada")
			b.get(at).press(at, "new", newWord, "again", newWord).want(200)
			return b
		}, never, never, "", true},
		{"a reset link, and the new password", func(_ *testing.T, s *site, _ *far) *browser {
			b, at := s.browser(), s.link("ada")
			b.get(at).press(at, "new", newWord, "again", newWord).want(200)
			signin(b.get("/signin"), "ada@nordlys.example", newWord).want(303)
			return b
		}, 0, never, "password factors fresh", false},
		{"a reset link, with a factor, and the new password", func(t *testing.T, s *site, _ *far) *browser {
			withApp(t, s.signedIn("ada"))
			b, at := s.browser(), s.link("ada")
			b.get(at).press(at, "new", newWord, "again", newWord).want(200)
			signin(b.get("/signin"), "ada@nordlys.example", newWord).follow().want(200).says("Second step")
			return b
		}, never, never, "", true},
		{"an impersonation", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("siri")
			b.get(asAda).press(asAda, "reason", "ticket 17").want(303)
			return b
		}, 0, never, "", true},
		{"an impersonation that was stopped", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("siri")
			s.pass(old / 2)
			b.get(asAda).press(asAda, "reason", "ticket 17").want(303)
			s.pass(old / 2)
			b.get("/").press("/support/stop").want(303)
			return b
		}, old, never, "password", false},
		{"a session of before a restore", func(t *testing.T, s *site, _ *far) *browser {
			b := s.signedIn("ada")
			_, err := s.Store.SettleRestored(t.Context(), store.Act{Actor: "operator"})
			s.do(err)
			return b
		}, never, never, "", true},
		{"a session of a release that wrote no proof", func(_ *testing.T, s *site, _ *far) *browser {
			b, value := s.browser(), newCookie()
			s.do(s.Store.Enter(t.Context(), store.Entry{Value: value, Person: "ada"}, store.Act{}))
			b.cookies["__Host-session"] = value
			return b
		}, never, never, "password", false},
		{"a provider, just now", at(nil), time.Minute, never, "password factors fresh", false},
		{"a provider, a while ago", at(map[string]any{"auth_time": old}), old, never, "password", false},
		{"a provider that does not say when", at(map[string]any{"auth_time": nil}), never, never, "password", false},
		{"a provider with a second factor", at(map[string]any{"amr": []string{"pwd", "mfa"}}), time.Minute, time.Minute, "password factors fresh factor", false},
		{"the hand-off, a while ago", func(_ *testing.T, s *site, _ *far) *browser {
			b := s.browser()
			page := b.get(authorize()).follow()
			q := b.get(page.link("Continue with Svalinn")).sent(handOffURL)
			b.get(s.asserts(q, "ada", nil)).want(303)
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
				s.furnish()
				s.withSupport()
				s.do(s.Store.AddDirectory(t.Context(), store.Directory{Fillers: []store.Filler{{Role: "treasurer", Person: "siri"}}}, store.Act{Actor: "system"}))
				s.do(s.Store.SetAdmin(t.Context(), "nordlys", "siri", true, store.Act{Actor: "system"}))
				s.do(s.Store.SetPassword(t.Context(), "siri", passwordHash(), store.Act{Actor: "operator"}))
				f := newFar(t, s.Store.Now)
				s.Ways = Ways{Providers: []*provider.Provider{f.provider("corp")}, HandOff: &HandOff{URL: handOffURL, Keys: []identity.AssertionKey{{Secret: []byte(handOffSecret)}}}}
				b := w.enter(t, s, f)
				if does == "password" { // once is enough
					p, err := s.Store.Proof(t.Context(), b.cookies["__Host-session"])
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
func (s *site) barred(b *browser) {
	s.t.Helper()
	_, before, err := s.Store.Password(s.t.Context(), "ada@nordlys.example")
	s.do(err)
	form := url.Values{"csrf": {s.Ring.FormToken(b.cookies["__Host-session"])}}
	for pair := range slices.Chunk(passwords(password, "yet another long one", "yet another long one"), 2) {
		form.Set(pair[0], pair[1])
	}
	for _, path := range []string{"/account/password", "/account/sign-in/app", "/account/sign-in/passkey", "/account/sign-in/recovery"} {
		if p := b.post(path, form); p.status != http.StatusForbidden && !strings.HasPrefix(p.header.Get("Location"), "/signin?") {
			s.t.Errorf("%s: %d %s", path, p.status, p.header.Get("Location"))
		}
	}
	if p := b.get(authorize()); p.status != http.StatusForbidden && !strings.HasPrefix(p.header.Get("Location"), "/signin?") {
		s.t.Errorf("consent: %d", p.status)
	}
	if _, after, err := s.Store.Password(s.t.Context(), "ada@nordlys.example"); err != nil || after != before {
		s.t.Error("the password was changed", err)
	}
	s.nothing("ada")
}

// does tries what asks for a proof, and reports whether it was done. All else
// than being asked for more fails.
func (s *site) does(b *browser, what string) bool {
	s.t.Helper()
	var p *shown
	strong := []string{"organization", "nordlys", "grant", "everything", "decision", "approve"}
	switch what {
	case "password":
		current := password
		if s.opens("ada@nordlys.example", newWord) {
			current = newWord
		}
		p = b.get("/account").press("/account/password", passwords(current, "yet another long one", "yet another long one")...)
	case "factors":
		if p = b.get("/account/sign-in").press("/account/sign-in/app"); p.status == http.StatusOK {
			return true
		}
	case "edit to everything", "edit to organization":
		id := b.connect("grant", "roles", "role:treasurer", "read")
		s.Ways.Strong = StrengthFresh
		path := editPath("nordlys", id)
		p = b.get(path).press(path, "grant", strings.TrimPrefix(what, "edit to "), "decision", "save")
	default:
		s.Ways.Strong = Strength(what)
		p = b.get(authorize()).press("/oauth/authorize", strong...)
	}
	to := p.header.Get("Location")
	switch {
	case p.status == http.StatusForbidden && what == "factor" && strings.Contains(p.text(), "your account has none yet"),
		p.status == http.StatusForbidden && what == "factor" && strings.Contains(p.text(), "second factor"),
		p.status == http.StatusSeeOther && strings.HasPrefix(to, "/signin/again"):
		return false
	}
	p.want(http.StatusSeeOther)
	return true
}

// needs is what an edit needs: the same as an approval.
func needs(does string) string {
	if strings.HasPrefix(does, "edit ") {
		return "fresh"
	}
	return does
}
