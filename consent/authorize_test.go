package consent

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// Decision A1: client first, then redirect URI, whatever else is wrong; always
// a page with 400, never a redirect, and the address is never a link.
func TestClientAndRedirectURIComeFirst(t *testing.T) {
	s := newSite(t)
	s.Register(client.Client{ID: "gone", RedirectURIs: []string{pagetest.Callback}})
	s.Do(s.Store.SetClientEnabled(context.Background(), "gone", false, store.Act{Actor: "operator"}))
	old := client.Client{ID: "old", RedirectURIs: []string{pagetest.Callback}, IssuedAt: s.Store.Now().Add(-client.UnapprovedRetention).Unix()}
	s.Do(s.Store.AddClient(context.Background(), old, store.Origin{}, store.Act{Actor: "system"}))
	const bad = "&response_type=token&scope=admin&state=%00"
	tests := []struct{ name, query, says string }{
		{"no client", "redirect_uri=" + url.QueryEscape(pagetest.Callback), "does not know this app"},
		{"empty client", "client_id=&redirect_uri=" + url.QueryEscape(pagetest.Callback), "does not know this app"},
		{"unknown client", pagetest.Request("client_id", "nobody").Encode(), "does not know this app"},
		{"client that nobody approved in 14 days", pagetest.Request("client_id", "old").Encode(), "does not know this app"},
		{"disabled client", pagetest.Request("client_id", "gone").Encode(), "does not know this app"},
		{"client sent twice", pagetest.Request().Encode() + "&client_id=quill", "does not know this app"},
		{"client with NUL", pagetest.Request("client_id", "quill\x00").Encode(), "does not know this app"},
		{"client in another case", pagetest.Request("client_id", "QUILL").Encode(), "does not know this app"},
		{"client with a broken escape", "client_id=quill%zz&redirect_uri=" + url.QueryEscape(pagetest.Callback), "does not know this app"},
		{"client of 64 KiB", pagetest.Request("client_id", strings.Repeat("q", 65536)).Encode(), "does not know this app"},
		{"no redirect URI", pagetest.Request("redirect_uri", "").Encode(), "not one that it has registered"},
		{"redirect URI sent twice", pagetest.Request().Encode() + "&redirect_uri=" + url.QueryEscape(pagetest.Callback), "not one that it has registered"},
		{"other path", pagetest.Request("redirect_uri", pagetest.Callback+"/").Encode(), "not one that it has registered"},
		{"other case", pagetest.Request("redirect_uri", "https://Connect.quill.example/callback").Encode(), "not one that it has registered"},
		{"added query", pagetest.Request("redirect_uri", pagetest.Callback+"?a").Encode(), "not one that it has registered"},
		{"default port", pagetest.Request("redirect_uri", "https://connect.quill.example:443/callback").Encode(), "not one that it has registered"},
		{"another client's", pagetest.Request("redirect_uri", "https://assistant.example/cb").Encode(), "not one that it has registered"},
		{"script", pagetest.Request("redirect_uri", "javascript:alert(1)").Encode(), "not one that it has registered"},
		{"broken escape", "client_id=quill&redirect_uri=" + url.QueryEscape(pagetest.Callback) + "%zz", "not one that it has registered"},
	}
	for _, who := range []*pagetest.Browser{s.Browser(), s.SignedIn("ada")} {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
				for _, query := range []string{tt.query, tt.query + bad} {
					p := who.Get("/oauth/authorize?"+query).Want(http.StatusBadRequest).
						Says("This app cannot be connected.", tt.says, "01JD7Q2M8Y")
					if p.Header.Get("Location") != "" {
						t.Errorf("Location %q", p.Header.Get("Location"))
					}
					for _, a := range p.All(atom.A) {
						if href := pagetest.Attr(a, "href"); !strings.HasPrefix(href, "/") && href != "#main" {
							t.Errorf("a link to %q", href)
						}
					}
				}
			})
		}
	}
	who := s.Browser()
	who.Get(pagetest.Authorize("redirect_uri", `https://evil.example/"><script>`)).Says(`Received: https://evil.example/"><script>`)
	if strings.Contains(s.Logged.String(), "evil.example") {
		t.Error("the log has the redirect URI that was sent")
	}
}

// Decisions A2 to A8: each fault, and what the client is told.
var faults = []struct {
	name    string
	query   string
	code    string
	stateOK bool
}{
	{"response_type missing", pagetest.Request("response_type", "").Encode(), "invalid_request", true},
	{"response_type token", pagetest.Request("response_type", "token").Encode(), "unsupported_response_type", true},
	{"response_type code token", pagetest.Request("response_type", "code token").Encode(), "unsupported_response_type", true},
	{"response_type in another case", pagetest.Request("response_type", "Code").Encode(), "unsupported_response_type", true},
	{"response_type twice", pagetest.Request().Encode() + "&response_type=code", "invalid_request", true},
	{"challenge missing", pagetest.Request("code_challenge", "").Encode(), "invalid_request", true},
	{"challenge of 42", pagetest.Request("code_challenge", pagetest.Challenge()[1:]).Encode(), "invalid_request", true},
	{"challenge of 44", pagetest.Request("code_challenge", pagetest.Challenge()+"A").Encode(), "invalid_request", true},
	{"challenge with padding", pagetest.Request("code_challenge", pagetest.Challenge()[1:]+"=").Encode(), "invalid_request", true},
	{"challenge in base64", pagetest.Request("code_challenge", strings.Repeat("+", 43)).Encode(), "invalid_request", true},
	{"challenge twice", pagetest.Request().Encode() + "&code_challenge=" + pagetest.Challenge(), "invalid_request", true},
	{"method missing", pagetest.Request("code_challenge_method", "").Encode(), "invalid_request", true},
	{"method plain", pagetest.Request("code_challenge_method", "plain").Encode(), "invalid_request", true},
	{"method in another case", pagetest.Request("code_challenge_method", "s256").Encode(), "invalid_request", true},
	{"method twice", pagetest.Request().Encode() + "&code_challenge_method=S256", "invalid_request", true},
	{"dpop_jkt of 42", pagetest.Request("dpop_jkt", pagetest.Challenge()[1:]).Encode(), "invalid_request", true},
	{"dpop_jkt of 44", pagetest.Request("dpop_jkt", pagetest.Challenge()+"A").Encode(), "invalid_request", true},
	{"dpop_jkt in base64", pagetest.Request("dpop_jkt", strings.Repeat("+", 43)).Encode(), "invalid_request", true},
	{"dpop_jkt in another spelling", pagetest.Request("dpop_jkt", strings.Repeat("A", 42)+"B").Encode(), "invalid_request", true},
	{"dpop_jkt twice", pagetest.Request("dpop_jkt", pagetest.Challenge()).Encode() + "&dpop_jkt=" + pagetest.Challenge(), "invalid_request", true},
	{"other scope", pagetest.Request("scope", "admin").Encode(), "invalid_scope", true},
	{"more scopes", pagetest.Request("scope", "api admin").Encode(), "invalid_scope", true},
	{"scope twice", pagetest.Request("scope", "api").Encode() + "&scope=api", "invalid_request", true},
	{"scope with a broken escape", pagetest.Request().Encode() + "&scope=%g", "invalid_request", true},
	{"other resource", pagetest.Request("resource", "https://other.example/api/v5").Encode(), "invalid_target", true},
	{"second resource other", pagetest.Request("resource", pagetest.Base).Encode() + "&resource=https://other.example", "invalid_target", true},
	{"state twice", pagetest.Request().Encode() + "&state=st", "invalid_request", false},
	{"state of 4097 bytes", pagetest.Request("state", strings.Repeat("s", 4097)).Encode(), "invalid_request", false},
	{"state with NUL", pagetest.Request("state", "a\x00b").Encode(), "invalid_request", false},
	{"state not UTF-8", pagetest.Request("state", "\xff").Encode(), "invalid_request", false},
	{"state with a broken escape", pagetest.Request("state", "").Encode() + "&state=%4", "invalid_request", false},
}

// Decision A2: a stranger's link throws nobody to a stranger's address. The
// page names the fault and offers the way back.
func TestFaultToSomebodyWhoDoesNotKnowTheClient(t *testing.T) {
	s := newSite(t)
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
			for _, who := range []*pagetest.Browser{s.Browser(), s.SignedIn("ada")} {
				p := who.Get("/oauth/authorize?" + tt.query).Want(http.StatusBadRequest)
				p.Says("This app cannot be connected.", tt.code, "connect.quill.example", "Not checked")
				var back string
				for _, a := range p.All(atom.A) {
					if strings.HasPrefix(pagetest.Attr(a, "href"), "https:") {
						back = pagetest.Attr(a, "href")
					}
				}
				checkFault(t, back, tt.code, tt.stateOK)
			}
		})
	}
}

// Decision A2: who knows the client goes back with the fault, as do P-02's.
func TestFaultToSomebodyWhoKnowsTheClient(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	ada.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback)
	known := "&client_id=assistant&redirect_uri=" + url.QueryEscape("https://assistant.example/cb")
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
			p := ada.Get("/oauth/authorize?" + tt.query).Want(http.StatusSeeOther)
			checkFault(t, p.Header.Get("Location"), tt.code, tt.stateOK)

			q, err := url.ParseQuery(strings.ReplaceAll(strings.ReplaceAll(tt.query, "%4", ""), "%g", ""))
			if err != nil || strings.Contains(tt.name, "broken") {
				return
			}
			q.Del("client_id")
			q.Del("redirect_uri")
			p = ada.Get("/oauth/authorize?" + q.Encode() + known).Want(http.StatusSeeOther)
			if got := p.Sent("https://assistant.example/cb").Get("error"); got != tt.code {
				t.Errorf("preregistered client: error %q, want %q", got, tt.code)
			}
			s.Browser().Get("/oauth/authorize?" + q.Encode() + known).Want(http.StatusBadRequest)
		})
	}
}

func checkFault(t *testing.T, location, code string, stateOK bool) {
	t.Helper()
	query, ok := strings.CutPrefix(location, pagetest.Callback+"?")
	if !ok {
		t.Fatalf("leads to %q", location)
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{"error": {code}, "error_description": {q.Get("error_description")}, "iss": {pagetest.Base}}
	if stateOK {
		want.Set("state", "st")
	}
	if q.Encode() != want.Encode() {
		t.Errorf("sent %v, want %v", q, want)
	}
	if d := q.Get("error_description"); d == "" || strings.ContainsAny(d, `"\`) || len(d) > 200 {
		t.Errorf("error_description %q is not of RFC 6749 section 4.1.2.1", d)
	}
}

// Decisions A6, A7 and A9: what is in order.
func TestRequestsInOrder(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	for name, query := range map[string]string{
		"as it stands":              pagetest.Request().Encode(),
		"without state":             pagetest.Request("state", "").Encode(),
		"scope api":                 pagetest.Request("scope", "api").Encode(),
		"empty parameters":          pagetest.Request().Encode() + "&scope=&state=&response_type=&client_id=",
		"unknown parameters":        pagetest.Request().Encode() + "&foo=1&foo=2&%zz=%zz&;=",
		"state of 4096 bytes":       pagetest.Request("state", strings.Repeat("s", 4096)).Encode(),
		"resource base":             pagetest.Request("resource", pagetest.Base).Encode(),
		"resource with a slash":     pagetest.Request("resource", pagetest.Base+"/").Encode(),
		"resource api":              pagetest.Request("resource", pagetest.Base+"/api/v5").Encode(),
		"resource mcp":              pagetest.Request("resource", pagetest.Base+"/api/v5/mcp").Encode(),
		"resource below":            pagetest.Request("resource", pagetest.Base+"/api/v5/circles/7").Encode(),
		"resource in capitals":      pagetest.Request("resource", "HTTPS://APP.svalinn.example:443/api/v5/").Encode(),
		"two resources":             pagetest.Request("resource", pagetest.Base).Encode() + "&resource=" + pagetest.Base + "/api/v5",
		"prompt and its like":       pagetest.Request().Encode() + "&prompt=none&max_age=0&response_mode=fragment&request=x&request_uri=y&claims={}&prompt=login",
		"the other redirect URI":    pagetest.Request("redirect_uri", "https://quill.example/x?a=b").Encode(),
		"organization from afar":    pagetest.Request("organization", "nordlys").Encode(),
		"choices that are not ours": pagetest.Request("choices", "1.abc").Encode(),
	} {
		t.Run(name, func(t *testing.T) {
			s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
			p := ada.Get("/oauth/authorize?" + query).Want(http.StatusOK).Says("An app wants to use your Svalinn account")
			if form := p.Fill("/oauth/authorize"); form.Get("organization") != "" || form.Get("grant") != "roles" || form.Get("decision") != "" {
				t.Errorf("chosen at first: %v", form)
			}
		})
	}
}

// Decision T15: the key that a code is for goes from the request into the approval, through
// signing in too.
func TestApproveForAKey(t *testing.T) {
	s := newSite(t)
	jkt := pagetest.Challenge() // any hash is one
	want, err := base64.RawURLEncoding.DecodeString(jkt)
	if err != nil {
		t.Fatal(err)
	}
	in := s.Browser().Get(pagetest.Authorize("dpop_jkt", jkt)).Follow().Want(http.StatusOK)
	back := pagetest.SignIn(in, "ada@nordlys.example", pagetest.Password).Follow().Want(http.StatusOK)
	code := back.Approve().Sent(pagetest.Callback).Get("code")
	if row := s.Approvals("ada")[0]; string(row.Bound[:]) != string(want) {
		t.Errorf("bound to %x, want %x", row.Bound, want)
	}
	if v := s.Exchange(code); v != approval.WrongKey {
		t.Errorf("an exchange without the key: %v", v)
	}
	s.Pass(time.Second) // rows are listed by the second
	s.SignedIn("ada").Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback)
	if row := s.Approvals("ada")[0]; row.Bound != (approval.Thumbprint{}) {
		t.Errorf("without dpop_jkt bound to %x", row.Bound)
	}
}

// Decisions A4, A5 and A10: 303 with code, state byte for byte, and iss, added
// to the registered URI without touching it.
func TestApprove(t *testing.T) {
	states := []string{"st", "a b", "a+b", "%41", "&code=x", "é\u202e", "'\"<>", "#", strings.Repeat("é", 2048)}
	s := newSite(t)
	ada := s.SignedIn("ada")
	for i, uri := range []string{pagetest.Callback, "https://quill.example/x?a=b"} {
		for _, state := range states {
			p := ada.Get(pagetest.Authorize("redirect_uri", uri, "state", state)).Approve()
			q := p.Sent(uri)
			if q.Get("state") != state || q.Get("iss") != pagetest.Base || len(q) != 3 {
				t.Errorf("sent %v", q)
			}
			if c := s.Claim(q.Get("code")); c.Time != s.Store.Now().Unix() {
				t.Errorf("code issued at %d, want %d", c.Time, s.Store.Now().Unix())
			}
			if p.Body != "" {
				t.Errorf("a redirect has a body: %q", p.Body)
			}
			if strings.Contains(p.Header.Get("Location"), "+") {
				t.Errorf("a plus sign for a space: %s", p.Header.Get("Location"))
			}
		}
		if rows := s.Approvals("ada"); len(rows) != (i+1)*len(states) {
			t.Errorf("%d approvals, want %d: each act of approving makes one (decision P1)", len(rows), (i+1)*len(states))
		}
	}
	q := ada.Get(pagetest.Authorize("state", "")).Approve().Sent(pagetest.Callback)
	if q.Has("state") || q.Get("iss") != pagetest.Base {
		t.Errorf("without state, sent %v", q)
	}
	s.Pass(time.Second) // rows are listed by the second
	ada.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback)
	row := s.Approvals("ada")[0]
	if row.Client != "quill" || row.Person != "ada" || row.Organization != "nordlys" || row.Issuer != pagetest.Base || row.Challenge != pagetest.Challenge() ||
		row.RedirectURI != pagetest.Callback || row.Phase != approval.CodeIssued || row.Grant.Kind != grantset.Everything {
		t.Errorf("approved %+v", row)
	}
	if e := s.Event("approval_granted"); e.Client != "quill" || e.Person != "ada" || e.Actor != "person:ada" || e.Address != s.From || e.Reference != "01JD7Q2M8Y" {
		t.Errorf("event %+v", e)
	}
	s.Do(s.Store.Ready(context.Background()))
	if log := s.Logged.String(); log != "" {
		t.Errorf("logged: %s", log)
	}
}

// Registered bytes are never touched, in the redirect as in the way back.
func TestRegisteredURIStaysAsItIs(t *testing.T) {
	s := newSite(t)
	for i, uri := range []string{
		"https://odd.example/!$&'()*+,;=:@/%7e%41", "https://odd.example", "https://odd.example?", "https://odd.example/?a=%26&",
		"https://ODD.example:443/A//b", "https://odd.example/x?y=(z)'",
	} {
		id := "odd" + strconv.Itoa(i)
		s.Register(client.Client{ID: id, RedirectURIs: []string{uri}})
		start := uri
		if !strings.Contains(uri, "?") {
			start += "?"
		} else if !strings.HasSuffix(uri, "?") && !strings.HasSuffix(uri, "&") {
			start += "&"
		}
		ada := s.SignedIn("ada")
		p := ada.Get(pagetest.Authorize("client_id", id, "redirect_uri", uri, "scope", "x")).Want(http.StatusBadRequest)
		found := false
		for _, a := range p.All(atom.A) {
			found = found || strings.HasPrefix(pagetest.Attr(a, "href"), start+"error=invalid_scope&error_description=")
		}
		if !found {
			t.Errorf("no link back that starts with %q", start)
		}
		got := ada.Get(pagetest.Authorize("client_id", id, "redirect_uri", uri)).Cancel().Want(http.StatusSeeOther).Header.Get("Location")
		if !strings.HasPrefix(got, start+"error=access_denied&") {
			t.Errorf("leads to %q, want %q...", got, start)
		}
	}
}

func TestCancel(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	want := url.Values{"error": {"access_denied"}, "error_description": {"The person did not approve."}, "state": {"st"}, "iss": {pagetest.Base}}
	p := ada.Get(pagetest.Authorize())
	if q := p.Cancel().Sent(pagetest.Callback); q.Encode() != want.Encode() {
		t.Errorf("sent %v, want %v", q, want)
	}
	// It needs no other field and works even when the rest is invalid.
	form := p.Fill("/oauth/authorize")
	p.B.Post("/oauth/authorize", url.Values{"request": form["request"], "csrf": form["csrf"], "decision": {"cancel"}}).Sent(pagetest.Callback)
	p.Press("/oauth/authorize", "decision", "cancel", "organization", "nowhere", "grant", "all", "role:x", "own").Sent(pagetest.Callback)
	s.Nothing("ada")
	if e := s.Event("approval_cancelled"); e.Client != "quill" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	c, err := s.Store.Client(context.Background(), "quill")
	s.Do(err)
	if c.Approved {
		t.Error("cancelling counts as approving (case T-13)")
	}
}

// Decision A12: one page, one approval, one code.
func TestSamePageAnsweredTwice(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")

	page := ada.Get(pagetest.Authorize())
	first := page.Approve().Sent(pagetest.Callback).Get("code")
	second := page.Approve().Sent(pagetest.Callback).Get("code")
	if first != second {
		t.Error("a double click gives another code")
	}
	// Back, and other choices.
	third := page.Approve("grant", "roles", "role:treasurer", "read").Sent(pagetest.Callback).Get("code")
	rows := s.Approvals("ada")
	if third != first || len(rows) != 1 || rows[0].Grant.Access("treasurer") != "read" {
		t.Errorf("after Back: same code %v, approvals %+v", third == first, rows)
	}
	s.Pass(approval.CodeLifetime)
	later := page.Approve().Sent(pagetest.Callback).Get("code")
	if later == first || s.Claim(later).Handle != s.Claim(first).Handle || len(s.Approvals("ada")) != 1 && s.Approvals("ada")[0].Phase != approval.CodeIssued {
		t.Error("after the code's lifetime the page does not give a new one of the same approval")
	}
	if v := s.Exchange(later); v != approval.OK {
		t.Fatalf("exchange: %v", v)
	}
	for _, again := range []*pagetest.Shown{page.Approve(), page.Cancel()} {
		again.Want(http.StatusConflict).Says("You have already decided.", "connect it again from the app")
	}
	if v, _, _ := s.Store.Approvals(context.Background(), store.ApprovalFilter{Person: "ada", State: "live"}); len(v) != 1 {
		t.Errorf("%d live approvals, want 1", len(v))
	}
}

func TestCancelAfterApproveAndApproveAfterCancel(t *testing.T) {
	s := newSite(t)
	page := s.SignedIn("ada").Get(pagetest.Authorize())
	code := page.Approve().Sent(pagetest.Callback).Get("code")
	page.Cancel().Sent(pagetest.Callback)
	if v := s.Exchange(code); v != approval.Over {
		t.Errorf("a code that was cancelled: %v", v)
	}
	again := page.Approve().Sent(pagetest.Callback).Get("code")
	if v := s.Exchange(again); v != approval.OK {
		t.Errorf("a code after Cancel: %v", v)
	}
}

// Two tabs of one person and client: each works by itself (decision P1).
func TestTwoTabs(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	one, two := ada.Get(pagetest.Authorize("state", "one")), ada.Get(pagetest.Authorize("state", "two"))
	second, first := two.Approve().Sent(pagetest.Callback), one.Approve().Sent(pagetest.Callback)
	if first.Get("state") != "one" || second.Get("state") != "two" || first.Get("code") == second.Get("code") {
		t.Errorf("sent %v and %v", first, second)
	}
	if n := len(s.Approvals("ada")); n != 2 {
		t.Errorf("%d approvals, want 2", n)
	}
}

// Decision P1: earlier connections stay, unless the person says otherwise.
func TestEarlierConnection(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	if p := ada.Get(pagetest.Authorize()); strings.Contains(p.Text(), "You connected this app") {
		t.Error("an earlier connection out of nothing")
	}
	s.Exchange(ada.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback).Get("code"))
	p := ada.Get(pagetest.Authorize()).Says("You connected this app on 21 November 2026 in Nordlys Cooperative; that connection stays.")
	if p.Fill("/oauth/authorize").Has("replace") {
		t.Error("replacing is chosen at first")
	}
	if !strings.Contains(p.Body, `<label class="check only org-2"><input type="checkbox" name="replace"`) {
		t.Error("replacing is offered where there is nothing to replace")
	}
	if kept := p.Press("/oauth/authorize", "replace", "1", "action", "review"); kept.Fill("/oauth/authorize").Get("replace") != "1" {
		t.Error("replace is not kept")
	}
	s.Pass(time.Second) // rows are listed by the second
	s.Exchange(p.Approve("replace", "1").Sent(pagetest.Callback).Get("code"))
	rows := s.Approvals("ada")
	if len(rows) != 2 || rows[0].Phase != approval.Live || rows[1].Reason != approval.Replaced {
		t.Errorf("approvals %+v", rows)
	}
	s.Do(s.Store.EndApproval(context.Background(), rows[0].ID, approval.RefreshReused, store.Act{Actor: "system"}))
	if p := ada.Get(pagetest.Authorize()).Says("Its connection was ended on 21 November 2026 because an old key was presented a second time."); strings.Contains(p.Text(), "that connection stays") {
		t.Error("a connection that has ended is said to stay")
	}
	s.Pass(time.Second)
	ada.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback)
	if p := ada.Get(pagetest.Authorize()); strings.Contains(p.Text(), "Its connection was ended") {
		t.Error("approved again, and still warned")
	}
}

// An earlier connection is told of, and can be ended, however many came after
// it: those that ended, and those of another organization that live.
func TestEarlierConnectionBehindMany(t *testing.T) {
	s := newSite(t)
	s.AuthorizeLimit = limit.NewAddresses(limit.Limit{N: 1 << 20, Window: limit.Authorize.Window}, nil)
	ada := s.SignedIn("ada")
	connect := func(organization string) approval.ID {
		t.Helper()
		s.Pass(time.Second)
		code := ada.Get(pagetest.Authorize()).Approve("organization", organization).Sent(pagetest.Callback).Get("code")
		if v := s.Exchange(code); v != approval.OK {
			t.Fatalf("exchange: %v", v)
		}
		return approval.ID(s.Claim(code).Handle.ID())
	}
	offered := func(after string) {
		t.Helper()
		p := ada.Get(pagetest.Authorize()).Says("You connected this app on 21 November 2026 in Nordlys Cooperative; that connection stays.")
		if !regexp.MustCompile(`<label class="check [^"]*org-2[^"]*"><input type="checkbox" name="replace"`).MatchString(p.Body) {
			t.Errorf("after %s, the earlier connection cannot be ended", after)
		}
	}
	connect("nordlys")
	for range manyLive + 1 {
		s.Do(s.Store.EndApproval(context.Background(), connect("nordlys"), approval.RevokedByClient, store.Act{Actor: "system"}))
	}
	offered("many that ended")
	for range manyLive + 1 {
		connect("fjell")
	}
	offered("many in another organization")
}

// A theft is told of although a connection lives that was approved before it,
// until the app is approved again, also where that was revoked since (ux 5.1).
func TestTheftBesideAnotherConnection(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	warned := func() bool {
		return strings.Contains(ada.Get(pagetest.Authorize()).Text(), "Its connection was ended on 21 November 2026 because an old key was presented a second time.")
	}
	connect := func() approval.ID {
		t.Helper()
		s.Pass(time.Second)
		code := ada.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback).Get("code")
		if v := s.Exchange(code); v != approval.OK {
			t.Fatalf("exchange: %v", v)
		}
		return approval.ID(s.Claim(code).Handle.ID())
	}
	end := func(id approval.ID, why approval.Reason) {
		t.Helper()
		s.Pass(time.Second)
		s.Do(s.Store.EndApproval(context.Background(), id, why, store.Act{Actor: "system"}))
	}
	first := connect()
	connect()
	end(first, approval.RefreshReused)
	if !warned() {
		t.Error("a theft is hidden behind a newer connection that lives")
	}
	ada.Get(pagetest.Authorize()).Says("You connected this app on 21 November 2026 in Nordlys Cooperative; that connection stays.")
	end(connect(), approval.RevokedByPerson)
	if warned() {
		t.Error("approved again, and still warned when that was revoked")
	}
}

// ux 5.4: 422, the page again with everything kept, nothing approved.
func TestFaultsOfAChoice(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	tests := []struct {
		name    string
		changes []string
		says    string
		event   string
	}{
		{"no organization", []string{"organization", ""}, "Choose an organization.", ""},
		{"no grant", []string{"grant", ""}, "Choose what the app may do.", ""},
		{"roles without any (decision P4)", []string{"grant", "roles"}, "Choose at least one role, or your personal entries.", ""},
		{"unknown organization", []string{"organization", "nowhere"}, "That choice is no longer possible. Please choose again.", "not_allowed"},
		{"unknown grant", []string{"grant", "all"}, "That choice is no longer possible.", "not_allowed"},
		{"another person's role (decision P5)", []string{"grant", "roles", "role:secretary", "read"}, "That choice is no longer possible.", "not_allowed"},
		{"unknown access", []string{"grant", "roles", "role:treasurer", "own"}, "That choice is no longer possible.", "not_allowed"},
		{"unknown end of the earlier connection", []string{"replace", "on"}, "That choice is no longer possible.", "not_allowed"},
		{"A-16 organization without AI integration", []string{"organization", "havn"}, "AI integration is off in Havn Studio. Choose another organization.", "not_eligible"},
		{"UX-15 whole organization of somebody who is no admin", []string{"organization", "fjell", "grant", "organization"}, "That choice is no longer possible.", "not_allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := ada.Get(pagetest.Authorize()).Approve(append([]string{"role:reviewer", "change"}, tt.changes...)...).Want(422)
			if got := p.Fill("/oauth/authorize").Get("role:reviewer"); got != "change" {
				t.Errorf("role chosen: %q, want change", got)
			}
			p.Says("Error: Connect an app – Svalinn", tt.says)
			if n := strings.Count(p.Text(), tt.says); n < 2 {
				t.Error("the fault does not stand on top and next to its group")
			}
			if tt.event != "" {
				if e := s.Event("approval_refused"); e.Reason != tt.event || e.Client != "quill" || e.Person != "ada" {
					t.Errorf("event %+v", e)
				}
			}
			// The page that came back works.
			p.Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "cancel").Sent(pagetest.Callback)
		})
	}
	s.Nothing("ada")
	// G-15
	form := ada.Get(pagetest.Authorize()).Fill("/oauth/authorize")
	form.Set("organization", "nordlys")
	form.Set("decision", "approve")
	form["role:treasurer"] = []string{"read", "change"}
	ada.Post("/oauth/authorize", form).Want(422)
	form["role:treasurer"] = []string{"read"}
	form["organization"] = []string{"nordlys", "fjell"}
	ada.Post("/oauth/authorize", form).Want(422)
	form["organization"] = []string{"nordlys"}
	form["replace"] = []string{"1", "1"}
	ada.Post("/oauth/authorize", form).Want(422)
	s.Nothing("ada")
}

// P5 and the client: what ends between showing and pressing.
func TestFactsLostWhileThePageIsOpen(t *testing.T) {
	ctx, operator := context.Background(), store.Act{Actor: "operator"}
	tests := []struct {
		name   string
		lose   func(*site)
		press  []string
		status int
		says   string
	}{
		{"A-17 AI integration", func(s *site) { s.Do(s.Store.SetIntegration(ctx, "nordlys", false, operator)) }, nil,
			422, "AI integration is off in Nordlys Cooperative. Choose another organization."},
		{"A-18 admin right", func(s *site) { s.Do(s.Store.SetAdmin(ctx, "nordlys", "ada", false, operator)) }, []string{"grant", "organization"},
			422, "That choice is no longer possible. Please choose again."},
		{"role", func(s *site) { s.Do(s.Store.SetFiller(ctx, "treasurer", "ada", false, operator)) }, []string{"grant", "roles", "role:treasurer", "read"},
			422, "That choice is no longer possible. Please choose again."},
		{"membership", func(s *site) { s.Do(s.Store.RemoveMember(ctx, "nordlys", "ada", operator)) }, nil,
			422, "That choice is no longer possible. Please choose again."},
		{"client disabled", func(s *site) { s.Do(s.Store.SetClientEnabled(ctx, "quill", false, operator)) }, nil,
			400, "does not know this app"},
		{"T-11 client deleted", func(s *site) { s.Pass(client.UnapprovedRetention); _, err := s.Store.Sweep(ctx); s.Do(err) }, nil,
			400, "does not know this app"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			ada := s.SignedIn("ada")
			page := ada.Get(pagetest.Authorize())
			tt.lose(s)
			if tt.name == "T-11 client deleted" {
				ada.Cookies = s.SignedIn("ada").Cookies // the session did not live so long
			}
			page.Approve(tt.press...).Want(tt.status).Says(tt.says)
			s.Nothing("ada")
		})
	}
}

// A-17 for somebody whose only organization it was.
func TestLastOrganizationLostWhileThePageIsOpen(t *testing.T) {
	s := newSite(t)
	page := s.SignedIn("tor").Get(pagetest.Authorize())
	if got := page.Fill("/oauth/authorize").Get("organization"); got != "nordlys" {
		t.Errorf("the only organization is not chosen: %q", got)
	}
	s.Do(s.Store.SetIntegration(context.Background(), "nordlys", false, store.Act{Actor: "operator"}))
	page.Approve().Want(422).Says("None of your organizations allows this yet.", "Ask an admin: Ada Lindqvist.")
	s.Nothing("tor")
}

// A-15 and ux 6, E4.
func TestNoEligibleOrganization(t *testing.T) {
	s := newSite(t)
	p := s.SignedIn("ola").Get(pagetest.Authorize()).Want(http.StatusForbidden).
		Says("None of your organizations allows this yet.", `“Quill Assistant” can be connected only`, "You are an admin: open its AI integration setting")
	if q := p.Cancel().Sent(pagetest.Callback); q.Get("error") != "access_denied" || q.Get("state") != "st" {
		t.Errorf("sent %v", q)
	}
	p = s.SignedIn("eve").Get(pagetest.Authorize()).Want(http.StatusForbidden).Says("You are not a member of any organization.")
	p.Approve().Want(422)
	p.Cancel().Sent(pagetest.Callback)
	s.Nothing("eve")
	s.Nothing("ola")
}

// ux 5.2 and 5.5: no decision, no answer. Enter presses the first button of
// the form, which says action=review.
func TestNoDecision(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	chosen := []string{"organization", "nordlys", "grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1"}
	for _, press := range [][]string{
		{}, {"action", "review"}, {"decision", ""}, {"decision", "yes"}, {"decision", "Approve"}, {"bulk", "n:product:none"},
		{"action", "review", "decision", "approve"}, {"bulk", "n:product:none", "decision", "approve"}, {"bulk", "nothing"}, {"bulk", ":read"},
	} {
		p := ada.Get(pagetest.Authorize()).Press("/oauth/authorize", append(press, chosen...)...).Want(http.StatusOK)
		form := p.Fill("/oauth/authorize")
		for i := 0; i < len(chosen); i += 2 {
			if form.Get(chosen[i]) != chosen[i+1] {
				t.Errorf("%v: %s is %q, want %q", press, chosen[i], form.Get(chosen[i]), chosen[i+1])
			}
		}
		if strings.Contains(p.Text(), "Error:") {
			t.Errorf("%v: counts as a fault", press)
		}
	}
	form := ada.Get(pagetest.Authorize()).Fill("/oauth/authorize")
	form["decision"] = []string{"approve", "approve"}
	ada.Post("/oauth/authorize", form).Want(http.StatusOK)
	s.Nothing("ada")
	b := ada.Get(pagetest.Authorize()).Form("/oauth/authorize").FirstChild.NextSibling
	if pagetest.Attr(b, "name") != "action" || pagetest.Attr(b, "value") != "review" || !pagetest.Has(b, "formnovalidate") || pagetest.Attr(b, "tabindex") != "-1" {
		t.Errorf("the first button of the form is %v", b.Attr)
	}
}

// ux 5.3: bulk buttons set a circle's roles without script.
func TestBulk(t *testing.T) {
	s := newSite(t)
	p := s.SignedIn("ada").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "role:treasurer", "read", "bulk", "n:product:change").Want(200)
	if at := `<summary autofocus><bdi class="flows">Product</bdi>`; strings.Count(p.Body, "<summary autofocus>") != 1 || !strings.Contains(p.Body, at) {
		t.Error("the focus is not on the circle")
	}
	form := p.Fill("/oauth/authorize")
	for role, want := range map[string]string{"roadmap-steward": "change", "api-documentation": "change", "release-captain": "change",
		"customer-interviews": "change", "treasurer": "read", "buddy": "none", "reviewer": "none"} {
		if got := form.Get("role:" + role); got != want {
			t.Errorf("%s is %q, want %q", role, got, want)
		}
	}
	p.Says("4 chosen · 4 roles", "1 chosen · 3 roles", "Set all in this circle: None Read Change")
	q := p.Press("/oauth/authorize", "decision", "approve").Sent(pagetest.Callback)
	if g := s.Approvals("ada")[0].Grant; q.Get("code") == "" || len(g.Picks) != 5 {
		t.Errorf("approved %+v", g)
	}
}

// Fields of other organizations and under other options count for nothing.
func TestIgnoredFields(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	ada.Get(pagetest.Authorize()).Approve("grant", "roles", "role:treasurer", "change", "role:reviewer", "change").Sent(pagetest.Callback)
	if g := s.Approvals("ada")[0].Grant; g.EncodePicks() != "treasurer=change" {
		t.Errorf("approved %q", g.EncodePicks())
	}
	s.Pass(time.Second) // rows are listed by the second
	ada.Get(pagetest.Authorize()).Approve("role:treasurer", "change", "personal", "1").Sent(pagetest.Callback)
	if g := s.Approvals("ada")[0].Grant; g.Kind != grantset.Everything || g.EncodePicks() != "" || g.Personal {
		t.Errorf("approved %+v", g)
	}
}

// ux 5.7: an old page asks again with all choices kept.
func TestStalePage(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	page := ada.Get(pagetest.Authorize())
	s.Pass(30 * time.Minute)
	page.Approve().Sent(pagetest.Callback) // to the second
	page = ada.Get(pagetest.Authorize())
	s.Pass(30*time.Minute + time.Second)
	again := page.Approve("grant", "roles", "role:treasurer", "change", "personal", "1").Want(http.StatusOK).
		Says("This page was open for a long time. Check your choices and approve again.")
	if len(s.Approvals("ada")) != 1 {
		t.Error("an old page approved")
	}
	form := again.Fill("/oauth/authorize")
	if form.Get("role:treasurer") != "change" || form.Get("personal") != "1" || form.Get("organization") != "nordlys" {
		t.Errorf("kept %v", form)
	}
	again.Press("/oauth/authorize", "decision", "approve").Sent(pagetest.Callback)
	if len(s.Approvals("ada")) != 2 {
		t.Error("the page that came back does not approve")
	}
	if q := page.Cancel().Sent(pagetest.Callback); q.Get("error") != "access_denied" {
		t.Errorf("Cancel on an old page sent %v", q)
	}
}

// A-14 and ux 5.7: never for a person who did not see the page.
func TestOtherPerson(t *testing.T) {
	s := newSite(t)
	page := s.SignedIn("ada").Get(pagetest.Authorize())
	page.B.Cookies = s.SignedIn("tor").Cookies
	for _, decision := range []string{"approve", "cancel"} {
		p := page.Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", decision).Want(http.StatusConflict).
			Says("You are now signed in as Tor Haugen. The page was opened by another account's session. Choose again.", "Signed in as Tor Haugen")
		if strings.Contains(p.Body, "Ada Lindqvist") || strings.Contains(p.Body, "ada@") || p.Fill("/oauth/authorize").Get("grant") == "everything" {
			t.Error("the page tells of the other person")
		}
		s.Nothing("tor")
		s.Nothing("ada")
	}
	if e := s.Event("approval_refused"); e.Reason != "other_person" || e.Person != "tor" {
		t.Errorf("event %+v", e)
	}
	page.Approve().Approve().Sent(pagetest.Callback)
	if len(s.Approvals("tor")) != 1 {
		t.Error("the page that came back does not work for its person")
	}
}

// A-11 and ux 5.7: signed out meanwhile. Sign-in, then the page again with the
// choices where they are that person's.
func TestSignedOutMeanwhile(t *testing.T) {
	s := newSite(t)
	for person, kept := range map[string]bool{"ada@nordlys.example": true, "tor@nordlys.example": false} {
		page := s.SignedIn("ada").Get(pagetest.Authorize("state", "mine"))
		page.B.Cookies = map[string]string{}
		signin := page.Approve("grant", "roles", "role:treasurer", "change", "personal", "1").Follow().Want(200).Says("Sign in", `an app that calls itself “Quill Assistant” (connect.quill.example)`)
		again := signin.Press("/signin", "email", person, "password", pagetest.Password).Follow().Want(200)
		form := again.Fill("/oauth/authorize")
		if treasurer, personal := form.Get("role:treasurer") == "change", form.Get("personal") == "1"; treasurer != kept || personal != kept {
			t.Errorf("%s: choices kept %v and %v, want %v", person, treasurer, personal, kept)
		}
		if q := again.Cancel().Sent(pagetest.Callback); q.Get("state") != "mine" {
			t.Errorf("state %q after signing in", q.Get("state"))
		}
	}
	s.Nothing("ada")
	s.Nothing("tor")
}

// The longest request and as many choices as are kept at all: the choices stay
// behind rather than make an address that no server reads (decision L5).
func TestSignedOutWithALongRequest(t *testing.T) {
	s := newSite(t)
	long := pagetest.Callback + "?" + strings.Repeat("'", 2000-len(pagetest.Callback)-1)
	s.Register(client.Client{ID: "long", RedirectURIs: []string{long}})
	state := strings.Repeat("é", maxState/2)
	page := s.SignedIn("ada").Get(pagetest.Authorize("client_id", "long", "redirect_uri", long, "state", state))
	changes := []string{"grant", "roles", "role:treasurer", "change"}
	for i := range 180 {
		changes = append(changes, fmt.Sprintf("role:nosuchrole%d", i), "change")
	}
	page.B.Cookies = map[string]string{}
	asked := page.Approve(changes...)
	if n := len(asked.Header.Get("Location")); n > 28<<10 {
		t.Fatalf("sign-in is at an address of %d bytes", n)
	}
	again := asked.Follow().Want(200).Press("/signin", "email", "ada@nordlys.example", "password", pagetest.Password).Follow().Want(200)
	if q := again.Cancel().Sent(long); q.Get("state") != state {
		t.Errorf("another state after signing in: %.20q, %d bytes", q.Get("state"), len(q.Get("state")))
	}
}

// A session of the same person that began later: the form of the old session
// is refused, and comes back to be answered again.
func TestFormOfAnEarlierSession(t *testing.T) {
	s := newSite(t)
	page := s.SignedIn("ada").Get(pagetest.Authorize())
	page.B.Cookies = s.SignedIn("ada").Cookies
	p := page.Approve("grant", "roles", "role:buddy", "read").Want(http.StatusForbidden).Says("Check your choices and approve again.")
	s.Nothing("ada")
	if e := s.Event("approval_refused"); e.Reason != "form_token" {
		t.Errorf("event %+v", e)
	}
	p.Press("/oauth/authorize", "decision", "approve").Sent(pagetest.Callback)
	if g := s.Approvals("ada")[0].Grant; g.EncodePicks() != "buddy=read" {
		t.Errorf("approved %+v", g)
	}
}

// UX-11, decision A11: nothing is approved without session and form token, or
// with a sign of another origin.
func TestForms(t *testing.T) {
	s := newSite(t)
	page := s.SignedIn("ada").Get(pagetest.Authorize())
	good := page.Fill("/oauth/authorize")
	good.Set("organization", "nordlys")
	good.Set("grant", "everything")
	good.Set("decision", "approve")
	with := func(name, value string) url.Values {
		form := url.Values{}
		maps.Copy(form, good)
		if form.Set(name, value); value == "" {
			form.Del(name)
		}
		return form
	}
	tors := s.SignedIn("tor").Get(pagetest.Authorize()).Fill("/oauth/authorize")
	for name, tt := range map[string]struct {
		form   url.Values
		header []string
		status int
	}{
		"no form token":               {with("csrf", ""), nil, 403},
		"another person's form token": {with("csrf", tors.Get("csrf")), nil, 403},
		"form token made up":          {with("csrf", "1.AAAAAAAAAAAAAAAAAAAAAAAA"), nil, 403},
		"cross-site":                  {good, []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"same site, other host":       {good, []string{"Sec-Fetch-Site", "same-site"}, 403},
		"other origin":                {good, []string{"Origin", "https://evil.example"}, 403},
		"origin null":                 {good, []string{"Origin", "null"}, 403},
		"origin of other scheme":      {good, []string{"Origin", "http://app.svalinn.example"}, 403},
		"two sites":                   {good, []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Site", "cross-site"}, 403},
		"no site":                     {good, []string{"Sec-Fetch-Site", "", "Origin", pagetest.Base}, 403},
		"two origins":                 {good, []string{"Origin", pagetest.Base, "Origin", "https://evil.example"}, 403},
		"no origin":                   {good, []string{"Origin", ""}, 403},
		"no request":                  {with("request", ""), nil, 400},
		"another person's request":    {with("request", tors.Get("request")), nil, 409},
		"request made up":             {with("request", "1.AAAA"), nil, 400},
		"request sealed for a return": {with("request", s.SealPath("{}")), nil, 400},
		"request without a nonce":     {with("request", s.Ring.SealPage(sealedPage, []byte("{}"))), nil, 400},
		"request of another host":     {with("request", s.sealQuestion(sampleQuestion(s, "https://eu.svalinn.example"))), nil, 400},
		"not a form":                  {good, []string{"Content-Type", "text/plain"}, 400},
		"no media type":               {good, []string{"Content-Type", "application/json"}, 400},
		"too many fields":             {pagetest.Many(good, 5000), nil, 413},
		"too many bytes":              {with("x", strings.Repeat("x", 256<<10)), nil, 413},
	} {
		t.Run(name, func(t *testing.T) {
			page.B.Header = http.Header{}
			for i := 0; i < len(tt.header); i += 2 {
				page.B.Header.Add(tt.header[i], tt.header[i+1])
			}
			p := page.B.Post("/oauth/authorize", tt.form).Want(tt.status)
			if p.Header.Get("Location") != "" {
				t.Errorf("leads to %q", p.Header.Get("Location"))
			}
			s.Nothing("ada")
		})
	}
	// The same-origin form of a browser, one typed in by hand, and a program's.
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "same-origin", "Origin", pagetest.Base}, {"Sec-Fetch-Site", "same-origin", "Origin", "null"},
		{"Sec-Fetch-Site", "none"}, {"Origin", pagetest.Base}, {},
	} {
		page.B.Header = http.Header{}
		for i := 0; i < len(header); i += 2 {
			page.B.Header.Set(header[i], header[i+1])
		}
		page.B.Post("/oauth/authorize", good).Sent(pagetest.Callback)
	}
	page.B.Header = http.Header{"Content-Type": {"Application/X-WWW-Form-URLencoded; charset=UTF-8"}}
	page.B.Post("/oauth/authorize", pagetest.Many(good, 4900)).Sent(pagetest.Callback)
	// The query of the address is not read.
	page.B.Header = http.Header{}
	page.B.Post("/oauth/authorize?decision=cancel&"+pagetest.Request("client_id", "assistant").Encode(), good).Sent(pagetest.Callback)
}

func sampleQuestion(s *site, issuer string) question {
	return question{authorization: authorization{Client: "quill", RedirectURI: pagetest.Callback, Challenge: pagetest.Challenge(), Issuer: issuer},
		Person: "ada", Nonce: make([]byte, 16), Made: s.Store.Now().Unix(), Key: 1}
}

// I-14 and decision L1: every method and outcome counts, first of all; beyond
// the limit comes page E5, and Retry-After is true.
func TestLimit(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	page := ada.Get(pagetest.Authorize()) // 1
	for i := 2; i <= 150; i++ {
		switch i % 5 {
		case 0:
			ada.Get("/oauth/authorize").Want(400)
		case 1:
			ada.Get(pagetest.Authorize()).Want(200)
		case 2:
			page.Press("/oauth/authorize").Want(200)
		case 3:
			ada.Send("DELETE", "/oauth/authorize", nil).Want(405)
		case 4:
			s.Browser().Get(pagetest.Authorize()).Want(303)
		}
	}
	for _, p := range []*pagetest.Shown{ada.Get(pagetest.Authorize()), page.Approve(), page.Cancel(), ada.Send("OPTIONS", "/oauth/authorize", nil), s.Browser().Get(pagetest.Authorize())} {
		p.Want(http.StatusTooManyRequests).Says("Too many requests.", "Wait 10 minutes and try again. If you share an internet connection, others may have used it up.")
		if got := p.Header.Get("Retry-After"); got != "600" {
			t.Errorf("Retry-After %q, want 600", got)
		}
	}
	s.Nothing("ada")
	if e := s.Event("rate_limited"); e.Address != s.From {
		t.Errorf("event %+v", e)
	}
	events, _, err := s.Store.Events(context.Background(), store.EventFilter{Kind: "rate_limited"})
	s.Do(err)
	if len(events) != 1 {
		t.Errorf("%d events, want one per address and window", len(events))
	}
	ada.Get("/").Want(200) // other pages go on
	s.From = "203.0.113.10"
	ada.Get(pagetest.Authorize()).Want(200)
	s.From = "203.0.113.9"
	s.Pass(599 * time.Second)
	if got := ada.Get(pagetest.Authorize()).Want(429).Header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q, want 1", got)
	}
	s.Pass(time.Second)
	page.Approve().Sent(pagetest.Callback)
}

func TestMethods(t *testing.T) {
	s := newSite(t)
	for target, allow := range map[string]string{
		"/oauth/authorize": "GET, HEAD, POST", "/signin": "GET, HEAD, POST", "/signout": "POST", "/": "GET, HEAD",
		"/organizations/nordlys/profile/api": "GET, HEAD", "/organizations/nordlys/leave": "GET, HEAD, POST",
	} {
		p := s.Browser().Send("PUT", target, nil).Want(405).Says("This address cannot be used that way.")
		if got := p.Header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", target, got, allow)
		}
	}
	p := s.Browser().Send("OPTIONS", "/oauth/authorize", nil).Want(405)
	for name := range p.Header {
		if strings.HasPrefix(name, "Access-Control") {
			t.Errorf("%s on the authorization endpoint (decision M5)", name)
		}
	}
	s.Browser().Send("HEAD", pagetest.Authorize(), nil).Want(303)
	ada := s.SignedIn("ada")
	for _, target := range []string{"/", "/nope", "/organizations/nordlys/profile/api", pagetest.Authorize()} {
		want := ada.Get(target).Header.Get("Content-Length")
		if got := ada.Send("HEAD", target, nil).Header.Get("Content-Length"); got != want || got == "" {
			t.Errorf("%s: HEAD has Content-Length %q, GET %q (RFC 9110 section 8.6)", target, got, want)
		}
	}
}

// T-23: nothing happens while the database cannot answer.
func TestDatabaseGone(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	page := ada.Get(pagetest.Authorize())
	s.Do(s.Store.Close())
	for _, p := range []*pagetest.Shown{page.Approve(), page.Cancel(), ada.Get(pagetest.Authorize())} {
		p.Want(503).Says("Something went wrong here.", "Nothing was approved. Try again from the app. Reference 01JD7Q2M8Y.")
		if p.Header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
}

// ux 5.6: a double click sends the form twice at once.
func TestSamePageAnsweredAtOnce(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	form := ada.Get(pagetest.Authorize()).Fill("/oauth/authorize")
	form.Set("organization", "nordlys")
	form.Set("grant", "everything")
	form.Set("decision", "approve")
	var mu sync.Mutex
	codes := map[string]int{}
	var all sync.WaitGroup
	for range 8 {
		b := s.Browser()
		b.Cookies = maps.Clone(ada.Cookies)
		all.Go(func() {
			q := b.Post("/oauth/authorize", form).Sent(pagetest.Callback)
			mu.Lock()
			defer mu.Unlock()
			codes[q.Get("code")]++
		})
	}
	all.Wait()
	if len(codes) != 1 || len(s.Approvals("ada")) != 1 {
		t.Errorf("codes %d, approvals %d, want one of each", len(codes), len(s.Approvals("ada")))
	}
}
