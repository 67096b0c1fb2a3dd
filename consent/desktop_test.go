package consent

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// desktop lets programs on people's computers connect, and gives what one asks for.
func (s *site) desktop() (program func(changes ...string) *pagetest.Shown) {
	s.T.Helper()
	s.Do(s.Store.SyncPreregistered(context.Background(), []client.Client{client.Desktop([]string{s.At})}, store.Act{Actor: "system"}))
	return func(changes ...string) *pagetest.Shown {
		s.T.Helper()
		form := url.Values{"port": {"49152"}, "path": {strings.Repeat("p", 43)}, "code_challenge": {pagetest.Challenge()}, "program": {"Quill Desktop"}}
		for i := 0; i < len(changes); i += 2 {
			form.Set(changes[i], changes[i+1])
		}
		return s.Browser().Post("/oauth/desktop", form)
	}
}

func stateOf(p *pagetest.Shown) string {
	p.T.Helper()
	var answer struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal([]byte(p.Want(200).Body), &answer); err != nil || answer.State == "" {
		p.T.Fatalf("%v: %s", err, p.Body)
	}
	return answer.State
}

// asksFor is the address of the request of a program, by its state.
func (s *site) asksFor(state string, changes ...string) string {
	return pagetest.Authorize(append([]string{"client_id", client.DesktopID, "redirect_uri", s.At + "/oauth/desktop", "state", state}, changes...)...)
}

// handedOn is the address that the page's button leads to; "" where it has none.
func handedOn(p *pagetest.Shown) string {
	p.T.Helper()
	for _, f := range p.All(atom.Form) {
		if pagetest.Attr(f, "action") == atPress {
			return p.Press(atPress).Want(303).Header.Get("Location")
		}
	}
	return ""
}

// path is where a 303 to a page of the service leads.
func (s *site) path(p *pagetest.Shown) string {
	s.T.Helper()
	to, ours := strings.CutPrefix(p.Want(303).Header.Get("Location"), s.At)
	if !ours {
		s.T.Fatalf("it leads to %s", p.Header.Get("Location"))
	}
	return to
}

// Decision A15: the page says where a code goes, and a press hands it on.
func TestHandOn(t *testing.T) {
	s := newSite(t)
	state := stateOf(s.desktop()())
	ada := s.SignedIn("ada")
	asks := ada.Get(s.asksFor(state)).Want(200).Says("a program on this computer, 127.0.0.1:49152", "It says that it works for Quill Desktop.",
		"cannot tell which program it is", "Did you start a program yourself", "Both buttons lead back to a program on this computer, 127.0.0.1:49152", "Not checked by")
	if strings.Contains(asks.Text(), "set up this app") {
		t.Error("it is said to be known")
	}
	approved := asks.Approve()
	code := approved.Sent(s.At + "/oauth/desktop").Get("code")
	page := ada.Get(s.path(approved)).Want(200).Says("One more step: hand the access on.", "a program on this computer, 127.0.0.1:49152", "Quill Desktop")
	to, err := url.Parse(handedOn(page))
	if err != nil || to.Scheme != "http" || to.Host != "127.0.0.1:49152" || to.Path != "/"+strings.Repeat("p", 43) || to.User != nil {
		t.Fatalf("it leads to %q: %v", handedOn(page), err)
	}
	if q := to.Query(); q.Get("code") != code || q.Get("state") != state || q.Get("iss") != s.At || len(q) != 3 {
		t.Errorf("it brings %v", q)
	}
	for name, want := range map[string]string{"Referrer-Policy": "same-origin", "Cache-Control": "no-store", "X-Frame-Options": "DENY"} {
		if page.Header.Get(name) != want {
			t.Errorf("%s: %q", name, page.Header.Get(name))
		}
	}
	if strings.Contains(page.Body, code) || strings.Contains(page.Body, "http://") {
		t.Error("the page holds the code, or where it leads")
	}
	// Nobody presses for another: neither a form of another site, nor one of another session.
	foreign := ada.Get(s.path(approved))
	foreign.B.Header.Set("Sec-Fetch-Site", "cross-site")
	foreign.Press(atPress).Want(403)
	foreign.B.Header.Del("Sec-Fetch-Site")
	page.Press(atPress, "csrf", "x").Want(403)
	page.Press(atPress, "answer", s.Seal(sealedHandover, brought{State: state, Code: code})).Want(400)
	other := s.SignedIn("tor")
	other.Post(atPress, url.Values{"csrf": {s.Ring.FormToken(other.Cookies[other.CookieName("session")])}, "answer": page.Fill(atPress)["answer"]}).Want(400)

	// Who was signed out meanwhile comes back to it.
	p := s.Browser().Post(atPress, page.Fill(atPress)).Follow().Want(200)
	back := pagetest.SignIn(p, "ada@nordlys.example", pagetest.Password).Follow().Want(200).Says("One more step: hand the access on.")
	if got := handedOn(back); got != to.String() {
		t.Errorf("it leads to %q", got)
	}

	// Once it was exchanged there is nothing to hand on.
	claim := s.Claim(code)
	_, v, err := s.Store.Apply(context.Background(), approval.ID(claim.Handle.ID()),
		approval.Exchange(client.DesktopID, s.At, s.At+"/oauth/desktop", pagetest.Verifier, claim.Time, 1, s.Store.Now()), store.Act{Actor: "client:" + client.DesktopID})
	if err != nil || v != approval.OK {
		t.Fatal(v, err)
	}
	if done := ada.Get(s.path(approved)).Want(200).Says("The access has been handed on."); handedOn(done) != "" {
		t.Error("it can be handed on twice")
	}
	page.Press(atPress).Want(400).Says("No program is waiting for this.")
	ada.Get(pagetest.NordlysApps).Says("grantkeeper connect", "a program on a person's own computer, through app.svalinn.example")
}

func TestHandOnARefusal(t *testing.T) {
	s := newSite(t)
	state := stateOf(s.desktop()())
	ada := s.SignedIn("ada")
	page := ada.Get(s.path(ada.Get(s.asksFor(state)).Cancel())).Want(200).Says("Nothing was approved.", "Tell the program")
	to, err := url.Parse(handedOn(page))
	if q := to.Query(); err != nil || to.Host != "127.0.0.1:49152" || q.Get("error") != "access_denied" || q.Get("state") != state || q.Get("iss") != s.At || q.Has("code") {
		t.Errorf("%q: %v", handedOn(page), err)
	}
	s.Nothing("ada")
	s.Pass(client.HandoverLifetime)
	if old := ada.Get("/oauth/desktop?error=access_denied&state=" + url.QueryEscape(state)).Want(200); handedOn(old) != "" {
		t.Error("nobody waits any more")
	}
	ada.Get("/oauth/desktop?error=%3Cb%3E&state=" + url.QueryEscape(state)).Want(400)
}

// What leads nobody's browser to a port of their computer: states of others, of other
// requests, old ones, and codes of others.
func TestHandOnRefuses(t *testing.T) {
	s := newSite(t)
	program := s.desktop()
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	state := stateOf(program())
	over := "No program is waiting for this."
	for name, at := range map[string]string{
		"no state":                s.asksFor(""),
		"a state of one's own":    s.asksFor("port=49152"),
		"another challenge":       s.asksFor(state, "code_challenge", strings.Repeat("x", 43)),
		"a sealed text of ours":   s.asksFor(s.SealPath("/")),
		"a state that is changed": s.asksFor(state[:40] + string(state[40]^1) + state[41:]),
	} {
		if p := ada.Get(at).Want(400).Says(over); handedOn(p) != "" {
			t.Errorf("%s: leads on", name)
		}
	}
	asks := ada.Get(s.asksFor(state))
	approved := asks.Approve()
	at := s.path(approved)
	code := approved.Sent(s.At + "/oauth/desktop").Get("code")
	other := stateOf(program("code_challenge", strings.Repeat("x", 43), "port", "50000"))
	for name, p := range map[string]*pagetest.Shown{
		"another person":         tor.Get(at),
		"nobody signed in":       s.Browser().Get(at),
		"the code of another":    ada.Get("/oauth/desktop?code=" + code + "&state=" + url.QueryEscape(other)),
		"no code":                ada.Get("/oauth/desktop?state=" + url.QueryEscape(state)),
		"a code that is none":    ada.Get("/oauth/desktop?code=svc_x&state=" + url.QueryEscape(state)),
		"two codes":              ada.Get("/oauth/desktop?code=" + code + "&code=" + code + "&state=" + url.QueryEscape(state)),
		"no state":               ada.Get("/oauth/desktop?code=" + code),
		"a code of another app":  ada.Get("/oauth/desktop?code=" + ada.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback).Get("code") + "&state=" + url.QueryEscape(state)),
		"an approval that ended": func() *pagetest.Shown { p := asks.Cancel().Want(303); return p.B.Get(at) }(),
	} {
		if p.Want(400).Says(over); handedOn(p) != "" {
			t.Errorf("%s: leads on", name)
		}
	}
	late := stateOf(program())
	page := ada.Get(s.asksFor(late)).Want(200)
	s.Pass(client.HandoverLifetime + time.Second)
	page.Approve().Want(400).Says(over)
	ada.Get(s.asksFor(late)).Want(400).Says(over)
	if rows := s.Approvals("ada"); len(rows) != 2 {
		t.Errorf("%d approvals: one was made that nobody waits for", len(rows))
	}
}

// Where programs may not connect, a request of one is of no client that is known.
func TestDesktopIsOff(t *testing.T) {
	s := newSite(t)
	state := stateOf(s.desktop()())
	s.Do(s.Store.SyncPreregistered(context.Background(), nil, store.Act{Actor: "system"}))
	s.SignedIn("ada").Get(s.asksFor(state)).Want(400).Says("does not know this app")
}

func TestAskHandover(t *testing.T) {
	s := newSite(t)
	program := s.desktop()
	if p := program("port", "80").Want(400); !strings.Contains(p.Body, `"error":"invalid_request"`) || p.Header.Get("Content-Type") != "application/json" {
		t.Error(p.Body)
	}
	foreign := s.Browser()
	foreign.Header.Set("Origin", "https://evil.example")
	foreign.Post("/oauth/desktop", url.Values{}).Want(403)
	for range 3 { // a state is another text each time: nobody knows one of another
		if a, b := stateOf(program()), stateOf(program()); a == b {
			t.Error("two states are alike")
		}
	}
	seen := 0
	for range 400 {
		if program().Status == http.StatusTooManyRequests {
			seen++
		}
	}
	if seen == 0 {
		t.Error("asking is not limited")
	}
}

// An organization's rules meet it as one that the service set up, at the service's own
// host: a block there holds.
func TestRulesForTheDesktop(t *testing.T) {
	s := newSite(t)
	program := s.desktop()
	tor := s.SignedIn("tor")
	s.WithRules(policy.Policy{Known: policy.Block})
	tor.Get(s.asksFor(stateOf(program()))).Want(403).Says("does not let anybody connect this app")
	s.WithRules(policy.Policy{Unknown: policy.Block})
	tor.Get(s.asksFor(stateOf(program()))).Want(200)
	s.WithRules(policy.Policy{Apps: []policy.App{{Host: client.HostOf(s.At), Rule: policy.Block}}})
	tor.Get(s.asksFor(stateOf(program()))).Want(403).Says("does not let anybody connect this app")
	s.WithRules(policy.Policy{Apps: []policy.App{{Host: client.HostOf(s.At), Name: client.DesktopName, Rule: policy.Ask}}})
	tor.Get(s.asksFor(stateOf(program()))).Want(200).Says("a program on this computer", "Did you start a program yourself")
}

// desktopPages are those of everyPage that belong to programs on people's computers.
func (s *site) desktopPages(ada *pagetest.Browser, visit func(name string, flow bool, p *pagetest.Shown)) {
	s.T.Helper()
	program := s.desktop()
	state := stateOf(program())
	asks := ada.Get(s.asksFor(state)).Want(200)
	visit("consent of a program on this computer", true, asks)
	visit("sign-in for a program", true, s.Browser().Get(s.asksFor(state)).Follow().Want(200))
	visit("hand on", true, ada.Get(s.path(asks.Approve("grant", string(grantset.Everything)))).Want(200))
	visit("hand on a refusal", true, ada.Get(s.path(ada.Get(s.asksFor(stateOf(program()))).Cancel())).Want(200))
	visit("no program waits", true, ada.Get("/oauth/desktop").Want(400))
	visit("connected apps with a program", false, ada.Get(pagetest.NordlysApps).Want(200))
}
