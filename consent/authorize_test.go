package consent

import (
	"context"
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
	"github.com/grantkeeper/grantkeeper/store"
)

// Decision A1: client first, then redirect URI, whatever else is wrong; always
// a page with 400, never a redirect, and the address is never a link.
func TestClientAndRedirectURIComeFirst(t *testing.T) {
	s := newSite(t)
	s.register(client.Client{ID: "gone", RedirectURIs: []string{callback}})
	s.do(s.Store.SetClientEnabled(context.Background(), "gone", false, store.Act{Actor: "operator"}))
	old := client.Client{ID: "old", RedirectURIs: []string{callback}, IssuedAt: s.Store.Now().Add(-client.UnapprovedRetention).Unix()}
	s.do(s.Store.AddClient(context.Background(), old, store.Origin{}, store.Act{Actor: "system"}))
	const bad = "&response_type=token&scope=admin&state=%00"
	tests := []struct{ name, query, says string }{
		{"no client", "redirect_uri=" + url.QueryEscape(callback), "does not know this app"},
		{"empty client", "client_id=&redirect_uri=" + url.QueryEscape(callback), "does not know this app"},
		{"unknown client", request("client_id", "nobody").Encode(), "does not know this app"},
		{"client that nobody approved in 14 days", request("client_id", "old").Encode(), "does not know this app"},
		{"disabled client", request("client_id", "gone").Encode(), "does not know this app"},
		{"client sent twice", request().Encode() + "&client_id=quill", "does not know this app"},
		{"client with NUL", request("client_id", "quill\x00").Encode(), "does not know this app"},
		{"client in another case", request("client_id", "QUILL").Encode(), "does not know this app"},
		{"client with a broken escape", "client_id=quill%zz&redirect_uri=" + url.QueryEscape(callback), "does not know this app"},
		{"client of 64 KiB", request("client_id", strings.Repeat("q", 65536)).Encode(), "does not know this app"},
		{"no redirect URI", request("redirect_uri", "").Encode(), "not one that it has registered"},
		{"redirect URI sent twice", request().Encode() + "&redirect_uri=" + url.QueryEscape(callback), "not one that it has registered"},
		{"other path", request("redirect_uri", callback+"/").Encode(), "not one that it has registered"},
		{"other case", request("redirect_uri", "https://Connect.quill.example/callback").Encode(), "not one that it has registered"},
		{"added query", request("redirect_uri", callback+"?a").Encode(), "not one that it has registered"},
		{"default port", request("redirect_uri", "https://connect.quill.example:443/callback").Encode(), "not one that it has registered"},
		{"another client's", request("redirect_uri", "https://assistant.example/cb").Encode(), "not one that it has registered"},
		{"script", request("redirect_uri", "javascript:alert(1)").Encode(), "not one that it has registered"},
		{"broken escape", "client_id=quill&redirect_uri=" + url.QueryEscape(callback) + "%zz", "not one that it has registered"},
	}
	for _, who := range []*browser{s.browser(), s.signedIn("ada")} {
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
				for _, query := range []string{tt.query, tt.query + bad} {
					p := who.get("/oauth/authorize?"+query).want(http.StatusBadRequest).
						says("This app cannot be connected.", tt.says, "01JD7Q2M8Y")
					if p.header.Get("Location") != "" {
						t.Errorf("Location %q", p.header.Get("Location"))
					}
					for _, a := range p.all(atom.A) {
						if href := attr(a, "href"); !strings.HasPrefix(href, "/") && href != "#main" {
							t.Errorf("a link to %q", href)
						}
					}
				}
			})
		}
	}
	who := s.browser()
	who.get(authorize("redirect_uri", `https://evil.example/"><script>`)).says(`Received: https://evil.example/"><script>`)
	if strings.Contains(s.log.String(), "evil.example") {
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
	{"response_type missing", request("response_type", "").Encode(), "invalid_request", true},
	{"response_type token", request("response_type", "token").Encode(), "unsupported_response_type", true},
	{"response_type code token", request("response_type", "code token").Encode(), "unsupported_response_type", true},
	{"response_type in another case", request("response_type", "Code").Encode(), "unsupported_response_type", true},
	{"response_type twice", request().Encode() + "&response_type=code", "invalid_request", true},
	{"challenge missing", request("code_challenge", "").Encode(), "invalid_request", true},
	{"challenge of 42", request("code_challenge", challenge()[1:]).Encode(), "invalid_request", true},
	{"challenge of 44", request("code_challenge", challenge()+"A").Encode(), "invalid_request", true},
	{"challenge with padding", request("code_challenge", challenge()[1:]+"=").Encode(), "invalid_request", true},
	{"challenge in base64", request("code_challenge", strings.Repeat("+", 43)).Encode(), "invalid_request", true},
	{"challenge twice", request().Encode() + "&code_challenge=" + challenge(), "invalid_request", true},
	{"method missing", request("code_challenge_method", "").Encode(), "invalid_request", true},
	{"method plain", request("code_challenge_method", "plain").Encode(), "invalid_request", true},
	{"method in another case", request("code_challenge_method", "s256").Encode(), "invalid_request", true},
	{"method twice", request().Encode() + "&code_challenge_method=S256", "invalid_request", true},
	{"other scope", request("scope", "admin").Encode(), "invalid_scope", true},
	{"more scopes", request("scope", "api admin").Encode(), "invalid_scope", true},
	{"scope twice", request("scope", "api").Encode() + "&scope=api", "invalid_request", true},
	{"scope with a broken escape", request().Encode() + "&scope=%g", "invalid_request", true},
	{"other resource", request("resource", "https://other.example/api/v5").Encode(), "invalid_target", true},
	{"second resource other", request("resource", base).Encode() + "&resource=https://other.example", "invalid_target", true},
	{"state twice", request().Encode() + "&state=st", "invalid_request", false},
	{"state of 4097 bytes", request("state", strings.Repeat("s", 4097)).Encode(), "invalid_request", false},
	{"state with NUL", request("state", "a\x00b").Encode(), "invalid_request", false},
	{"state not UTF-8", request("state", "\xff").Encode(), "invalid_request", false},
	{"state with a broken escape", request("state", "").Encode() + "&state=%4", "invalid_request", false},
}

// Decision A2: a stranger's link throws nobody to a stranger's address. The
// page names the fault and offers the way back.
func TestFaultToSomebodyWhoDoesNotKnowTheClient(t *testing.T) {
	s := newSite(t)
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
			for _, who := range []*browser{s.browser(), s.signedIn("ada")} {
				p := who.get("/oauth/authorize?" + tt.query).want(http.StatusBadRequest)
				p.says("This app cannot be connected.", tt.code, "connect.quill.example", "Not checked")
				var back string
				for _, a := range p.all(atom.A) {
					if strings.HasPrefix(attr(a, "href"), "https:") {
						back = attr(a, "href")
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
	ada := s.signedIn("ada")
	ada.get(authorize()).approve().sent(callback)
	known := "&client_id=assistant&redirect_uri=" + url.QueryEscape("https://assistant.example/cb")
	for _, tt := range faults {
		t.Run(tt.name, func(t *testing.T) {
			s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
			p := ada.get("/oauth/authorize?" + tt.query).want(http.StatusSeeOther)
			checkFault(t, p.header.Get("Location"), tt.code, tt.stateOK)

			q, err := url.ParseQuery(strings.ReplaceAll(strings.ReplaceAll(tt.query, "%4", ""), "%g", ""))
			if err != nil || strings.Contains(tt.name, "broken") {
				return
			}
			q.Del("client_id")
			q.Del("redirect_uri")
			p = ada.get("/oauth/authorize?" + q.Encode() + known).want(http.StatusSeeOther)
			if got := p.sent("https://assistant.example/cb").Get("error"); got != tt.code {
				t.Errorf("preregistered client: error %q, want %q", got, tt.code)
			}
			s.browser().get("/oauth/authorize?" + q.Encode() + known).want(http.StatusBadRequest)
		})
	}
}

func checkFault(t *testing.T, location, code string, stateOK bool) {
	t.Helper()
	query, ok := strings.CutPrefix(location, callback+"?")
	if !ok {
		t.Fatalf("leads to %q", location)
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	want := url.Values{"error": {code}, "error_description": {q.Get("error_description")}, "iss": {base}}
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
	ada := s.signedIn("ada")
	for name, query := range map[string]string{
		"as it stands":              request().Encode(),
		"without state":             request("state", "").Encode(),
		"scope api":                 request("scope", "api").Encode(),
		"empty parameters":          request().Encode() + "&scope=&state=&response_type=&client_id=",
		"unknown parameters":        request().Encode() + "&foo=1&foo=2&%zz=%zz&;=",
		"state of 4096 bytes":       request("state", strings.Repeat("s", 4096)).Encode(),
		"resource base":             request("resource", base).Encode(),
		"resource with a slash":     request("resource", base+"/").Encode(),
		"resource api":              request("resource", base+"/api/v5").Encode(),
		"resource mcp":              request("resource", base+"/api/v5/mcp").Encode(),
		"resource below":            request("resource", base+"/api/v5/circles/7").Encode(),
		"resource in capitals":      request("resource", "HTTPS://APP.svalinn.example:443/api/v5/").Encode(),
		"two resources":             request("resource", base).Encode() + "&resource=" + base + "/api/v5",
		"prompt and its like":       request().Encode() + "&prompt=none&max_age=0&response_mode=fragment&request=x&request_uri=y&claims={}&prompt=login",
		"the other redirect URI":    request("redirect_uri", "https://quill.example/x?a=b").Encode(),
		"organization from afar":    request("organization", "nordlys").Encode(),
		"choices that are not ours": request("choices", "1.abc").Encode(),
	} {
		t.Run(name, func(t *testing.T) {
			s.AuthorizeLimit = limit.NewAddresses(limit.Authorize, nil)
			p := ada.get("/oauth/authorize?" + query).want(http.StatusOK).says("An app wants to use your Svalinn account")
			if form := p.fill("/oauth/authorize"); form.Get("organization") != "" || form.Get("grant") != "roles" || form.Get("decision") != "" {
				t.Errorf("chosen at first: %v", form)
			}
		})
	}
}

// Decisions A4, A5 and A10: 303 with code, state byte for byte, and iss, added
// to the registered URI without touching it.
func TestApprove(t *testing.T) {
	states := []string{"st", "a b", "a+b", "%41", "&code=x", "é\u202e", "'\"<>", "#", strings.Repeat("é", 2048)}
	s := newSite(t)
	ada := s.signedIn("ada")
	for i, uri := range []string{callback, "https://quill.example/x?a=b"} {
		for _, state := range states {
			p := ada.get(authorize("redirect_uri", uri, "state", state)).approve()
			q := p.sent(uri)
			if q.Get("state") != state || q.Get("iss") != base || len(q) != 3 {
				t.Errorf("sent %v", q)
			}
			if c := s.claim(q.Get("code")); c.Time != s.Store.Now().Unix() {
				t.Errorf("code issued at %d, want %d", c.Time, s.Store.Now().Unix())
			}
			if p.body != "" {
				t.Errorf("a redirect has a body: %q", p.body)
			}
			if strings.Contains(p.header.Get("Location"), "+") {
				t.Errorf("a plus sign for a space: %s", p.header.Get("Location"))
			}
		}
		if rows := s.approvals("ada"); len(rows) != (i+1)*len(states) {
			t.Errorf("%d approvals, want %d: each act of approving makes one (decision P1)", len(rows), (i+1)*len(states))
		}
	}
	q := ada.get(authorize("state", "")).approve().sent(callback)
	if q.Has("state") || q.Get("iss") != base {
		t.Errorf("without state, sent %v", q)
	}
	s.pass(time.Second) // rows are listed by the second
	ada.get(authorize()).approve().sent(callback)
	row := s.approvals("ada")[0]
	if row.Client != "quill" || row.Person != "ada" || row.Organization != "nordlys" || row.Issuer != base || row.Challenge != challenge() ||
		row.RedirectURI != callback || row.Phase != approval.CodeIssued || row.Grant.Kind != grantset.Everything {
		t.Errorf("approved %+v", row)
	}
	if e := s.event("approval_granted"); e.Client != "quill" || e.Person != "ada" || e.Actor != "person:ada" || e.Address != s.address || e.Reference != "01JD7Q2M8Y" {
		t.Errorf("event %+v", e)
	}
	s.do(s.Store.Ready(context.Background()))
	if log := s.log.String(); log != "" {
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
		s.register(client.Client{ID: id, RedirectURIs: []string{uri}})
		start := uri
		if !strings.Contains(uri, "?") {
			start += "?"
		} else if !strings.HasSuffix(uri, "?") && !strings.HasSuffix(uri, "&") {
			start += "&"
		}
		ada := s.signedIn("ada")
		p := ada.get(authorize("client_id", id, "redirect_uri", uri, "scope", "x")).want(http.StatusBadRequest)
		found := false
		for _, a := range p.all(atom.A) {
			found = found || strings.HasPrefix(attr(a, "href"), start+"error=invalid_scope&error_description=")
		}
		if !found {
			t.Errorf("no link back that starts with %q", start)
		}
		got := ada.get(authorize("client_id", id, "redirect_uri", uri)).cancel().want(http.StatusSeeOther).header.Get("Location")
		if !strings.HasPrefix(got, start+"error=access_denied&") {
			t.Errorf("leads to %q, want %q...", got, start)
		}
	}
}

func TestCancel(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	want := url.Values{"error": {"access_denied"}, "error_description": {"The person did not approve."}, "state": {"st"}, "iss": {base}}
	p := ada.get(authorize())
	if q := p.cancel().sent(callback); q.Encode() != want.Encode() {
		t.Errorf("sent %v, want %v", q, want)
	}
	// It needs no other field and works even when the rest is invalid.
	form := p.fill("/oauth/authorize")
	p.b.post("/oauth/authorize", url.Values{"request": form["request"], "csrf": form["csrf"], "decision": {"cancel"}}).sent(callback)
	p.press("/oauth/authorize", "decision", "cancel", "organization", "nowhere", "grant", "all", "role:x", "own").sent(callback)
	s.nothing("ada")
	if e := s.event("approval_cancelled"); e.Client != "quill" || e.Person != "ada" {
		t.Errorf("event %+v", e)
	}
	c, err := s.Store.Client(context.Background(), "quill")
	s.do(err)
	if c.Approved {
		t.Error("cancelling counts as approving (case T-13)")
	}
}

// Decision A12: one page, one approval, one code.
func TestSamePageAnsweredTwice(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")

	page := ada.get(authorize())
	first := page.approve().sent(callback).Get("code")
	second := page.approve().sent(callback).Get("code")
	if first != second {
		t.Error("a double click gives another code")
	}
	// Back, and other choices.
	third := page.approve("grant", "roles", "role:treasurer", "read").sent(callback).Get("code")
	rows := s.approvals("ada")
	if third != first || len(rows) != 1 || rows[0].Grant.Access("treasurer") != "read" {
		t.Errorf("after Back: same code %v, approvals %+v", third == first, rows)
	}
	s.pass(approval.CodeLifetime)
	later := page.approve().sent(callback).Get("code")
	if later == first || s.claim(later).Handle != s.claim(first).Handle || len(s.approvals("ada")) != 1 && s.approvals("ada")[0].Phase != approval.CodeIssued {
		t.Error("after the code's lifetime the page does not give a new one of the same approval")
	}
	if v := s.exchange(later); v != approval.OK {
		t.Fatalf("exchange: %v", v)
	}
	for _, again := range []*shown{page.approve(), page.cancel()} {
		again.want(http.StatusConflict).says("You have already decided.", "connect it again from the app")
	}
	if v, _, _ := s.Store.Approvals(context.Background(), store.ApprovalFilter{Person: "ada", State: "live"}); len(v) != 1 {
		t.Errorf("%d live approvals, want 1", len(v))
	}
}

func TestCancelAfterApproveAndApproveAfterCancel(t *testing.T) {
	s := newSite(t)
	page := s.signedIn("ada").get(authorize())
	code := page.approve().sent(callback).Get("code")
	page.cancel().sent(callback)
	if v := s.exchange(code); v != approval.Over {
		t.Errorf("a code that was cancelled: %v", v)
	}
	again := page.approve().sent(callback).Get("code")
	if v := s.exchange(again); v != approval.OK {
		t.Errorf("a code after Cancel: %v", v)
	}
}

// Two tabs of one person and client: each works by itself (decision P1).
func TestTwoTabs(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	one, two := ada.get(authorize("state", "one")), ada.get(authorize("state", "two"))
	second, first := two.approve().sent(callback), one.approve().sent(callback)
	if first.Get("state") != "one" || second.Get("state") != "two" || first.Get("code") == second.Get("code") {
		t.Errorf("sent %v and %v", first, second)
	}
	if n := len(s.approvals("ada")); n != 2 {
		t.Errorf("%d approvals, want 2", n)
	}
}

// Decision P1: earlier connections stay, unless the person says otherwise.
func TestEarlierConnection(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	if p := ada.get(authorize()); strings.Contains(p.text(), "You connected this app") {
		t.Error("an earlier connection out of nothing")
	}
	s.exchange(ada.get(authorize()).approve().sent(callback).Get("code"))
	p := ada.get(authorize()).says("You connected this app on 21 November 2026 in Nordlys Cooperative; that connection stays.")
	if p.fill("/oauth/authorize").Has("replace") {
		t.Error("replacing is chosen at first")
	}
	if !strings.Contains(p.body, `<label class="check only org-2"><input type="checkbox" name="replace"`) {
		t.Error("replacing is offered where there is nothing to replace")
	}
	if kept := p.press("/oauth/authorize", "replace", "1", "action", "review"); kept.fill("/oauth/authorize").Get("replace") != "1" {
		t.Error("replace is not kept")
	}
	s.pass(time.Second) // rows are listed by the second
	s.exchange(p.approve("replace", "1").sent(callback).Get("code"))
	rows := s.approvals("ada")
	if len(rows) != 2 || rows[0].Phase != approval.Live || rows[1].Reason != approval.Replaced {
		t.Errorf("approvals %+v", rows)
	}
	s.do(s.Store.EndApproval(context.Background(), rows[0].ID, approval.RefreshReused, store.Act{Actor: "system"}))
	if p := ada.get(authorize()).says("Its connection was ended on 21 November 2026 because an old key was presented a second time."); strings.Contains(p.text(), "that connection stays") {
		t.Error("a connection that has ended is said to stay")
	}
	s.pass(time.Second)
	ada.get(authorize()).approve().sent(callback)
	if p := ada.get(authorize()); strings.Contains(p.text(), "Its connection was ended") {
		t.Error("approved again, and still warned")
	}
}

// An earlier connection is told of, and can be ended, however many came after
// it: those that ended, and those of another organization that live.
func TestEarlierConnectionBehindMany(t *testing.T) {
	s := newSite(t)
	s.AuthorizeLimit = limit.NewAddresses(limit.Limit{N: 1 << 20, Window: limit.Authorize.Window}, nil)
	ada := s.signedIn("ada")
	connect := func(organization string) approval.ID {
		t.Helper()
		s.pass(time.Second)
		code := ada.get(authorize()).approve("organization", organization).sent(callback).Get("code")
		if v := s.exchange(code); v != approval.OK {
			t.Fatalf("exchange: %v", v)
		}
		return approval.ID(s.claim(code).Handle.ID())
	}
	offered := func(after string) {
		t.Helper()
		p := ada.get(authorize()).says("You connected this app on 21 November 2026 in Nordlys Cooperative; that connection stays.")
		if !regexp.MustCompile(`<label class="check [^"]*org-2[^"]*"><input type="checkbox" name="replace"`).MatchString(p.body) {
			t.Errorf("after %s, the earlier connection cannot be ended", after)
		}
	}
	connect("nordlys")
	for range manyLive + 1 {
		s.do(s.Store.EndApproval(context.Background(), connect("nordlys"), approval.RevokedByClient, store.Act{Actor: "system"}))
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
	ada := s.signedIn("ada")
	warned := func() bool {
		return strings.Contains(ada.get(authorize()).text(), "Its connection was ended on 21 November 2026 because an old key was presented a second time.")
	}
	connect := func() approval.ID {
		t.Helper()
		s.pass(time.Second)
		code := ada.get(authorize()).approve().sent(callback).Get("code")
		if v := s.exchange(code); v != approval.OK {
			t.Fatalf("exchange: %v", v)
		}
		return approval.ID(s.claim(code).Handle.ID())
	}
	end := func(id approval.ID, why approval.Reason) {
		t.Helper()
		s.pass(time.Second)
		s.do(s.Store.EndApproval(context.Background(), id, why, store.Act{Actor: "system"}))
	}
	first := connect()
	connect()
	end(first, approval.RefreshReused)
	if !warned() {
		t.Error("a theft is hidden behind a newer connection that lives")
	}
	ada.get(authorize()).says("You connected this app on 21 November 2026 in Nordlys Cooperative; that connection stays.")
	end(connect(), approval.RevokedByPerson)
	if warned() {
		t.Error("approved again, and still warned when that was revoked")
	}
}

// ux 5.4: 422, the page again with everything kept, nothing approved.
func TestFaultsOfAChoice(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
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
			p := ada.get(authorize()).approve(append([]string{"role:reviewer", "change"}, tt.changes...)...).want(422)
			if got := p.fill("/oauth/authorize").Get("role:reviewer"); got != "change" {
				t.Errorf("role chosen: %q, want change", got)
			}
			p.says("Error: Connect an app – Svalinn", tt.says)
			if n := strings.Count(p.text(), tt.says); n < 2 {
				t.Error("the fault does not stand on top and next to its group")
			}
			if tt.event != "" {
				if e := s.event("approval_refused"); e.Reason != tt.event || e.Client != "quill" || e.Person != "ada" {
					t.Errorf("event %+v", e)
				}
			}
			// The page that came back works.
			p.press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", "cancel").sent(callback)
		})
	}
	s.nothing("ada")
	// G-15
	form := ada.get(authorize()).fill("/oauth/authorize")
	form.Set("organization", "nordlys")
	form.Set("decision", "approve")
	form["role:treasurer"] = []string{"read", "change"}
	ada.post("/oauth/authorize", form).want(422)
	form["role:treasurer"] = []string{"read"}
	form["organization"] = []string{"nordlys", "fjell"}
	ada.post("/oauth/authorize", form).want(422)
	form["organization"] = []string{"nordlys"}
	form["replace"] = []string{"1", "1"}
	ada.post("/oauth/authorize", form).want(422)
	s.nothing("ada")
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
		{"A-17 AI integration", func(s *site) { s.do(s.Store.SetIntegration(ctx, "nordlys", false, operator)) }, nil,
			422, "AI integration is off in Nordlys Cooperative. Choose another organization."},
		{"A-18 admin right", func(s *site) { s.do(s.Store.SetAdmin(ctx, "nordlys", "ada", false, operator)) }, []string{"grant", "organization"},
			422, "That choice is no longer possible. Please choose again."},
		{"role", func(s *site) { s.do(s.Store.SetFiller(ctx, "treasurer", "ada", false, operator)) }, []string{"grant", "roles", "role:treasurer", "read"},
			422, "That choice is no longer possible. Please choose again."},
		{"membership", func(s *site) { s.do(s.Store.RemoveMember(ctx, "nordlys", "ada", operator)) }, nil,
			422, "That choice is no longer possible. Please choose again."},
		{"client disabled", func(s *site) { s.do(s.Store.SetClientEnabled(ctx, "quill", false, operator)) }, nil,
			400, "does not know this app"},
		{"T-11 client deleted", func(s *site) { s.pass(client.UnapprovedRetention); _, err := s.Store.Sweep(ctx); s.do(err) }, nil,
			400, "does not know this app"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			ada := s.signedIn("ada")
			page := ada.get(authorize())
			tt.lose(s)
			if tt.name == "T-11 client deleted" {
				ada.cookies = s.signedIn("ada").cookies // the session did not live so long
			}
			page.approve(tt.press...).want(tt.status).says(tt.says)
			s.nothing("ada")
		})
	}
}

// A-17 for somebody whose only organization it was.
func TestLastOrganizationLostWhileThePageIsOpen(t *testing.T) {
	s := newSite(t)
	page := s.signedIn("tor").get(authorize())
	if got := page.fill("/oauth/authorize").Get("organization"); got != "nordlys" {
		t.Errorf("the only organization is not chosen: %q", got)
	}
	s.do(s.Store.SetIntegration(context.Background(), "nordlys", false, store.Act{Actor: "operator"}))
	page.approve().want(422).says("None of your organizations allows this yet.", "Ask an admin: Ada Lindqvist.")
	s.nothing("tor")
}

// A-15 and ux 6, E4.
func TestNoEligibleOrganization(t *testing.T) {
	s := newSite(t)
	p := s.signedIn("ola").get(authorize()).want(http.StatusForbidden).
		says("None of your organizations allows this yet.", `“Quill Assistant” can be connected only`, "You are an admin: open its AI integration setting")
	if q := p.cancel().sent(callback); q.Get("error") != "access_denied" || q.Get("state") != "st" {
		t.Errorf("sent %v", q)
	}
	p = s.signedIn("eve").get(authorize()).want(http.StatusForbidden).says("You are not a member of any organization.")
	p.approve().want(422)
	p.cancel().sent(callback)
	s.nothing("eve")
	s.nothing("ola")
}

// ux 5.2 and 5.5: no decision, no answer. Enter presses the first button of
// the form, which says action=review.
func TestNoDecision(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	chosen := []string{"organization", "nordlys", "grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1"}
	for _, press := range [][]string{
		{}, {"action", "review"}, {"decision", ""}, {"decision", "yes"}, {"decision", "Approve"}, {"bulk", "n:product:none"},
		{"action", "review", "decision", "approve"}, {"bulk", "n:product:none", "decision", "approve"}, {"bulk", "nothing"}, {"bulk", ":read"},
	} {
		p := ada.get(authorize()).press("/oauth/authorize", append(press, chosen...)...).want(http.StatusOK)
		form := p.fill("/oauth/authorize")
		for i := 0; i < len(chosen); i += 2 {
			if form.Get(chosen[i]) != chosen[i+1] {
				t.Errorf("%v: %s is %q, want %q", press, chosen[i], form.Get(chosen[i]), chosen[i+1])
			}
		}
		if strings.Contains(p.text(), "Error:") {
			t.Errorf("%v: counts as a fault", press)
		}
	}
	form := ada.get(authorize()).fill("/oauth/authorize")
	form["decision"] = []string{"approve", "approve"}
	ada.post("/oauth/authorize", form).want(http.StatusOK)
	s.nothing("ada")
	b := ada.get(authorize()).form("/oauth/authorize").FirstChild.NextSibling
	if attr(b, "name") != "action" || attr(b, "value") != "review" || !has(b, "formnovalidate") || attr(b, "tabindex") != "-1" {
		t.Errorf("the first button of the form is %v", b.Attr)
	}
}

// ux 5.3: bulk buttons set a circle's roles without script.
func TestBulk(t *testing.T) {
	s := newSite(t)
	p := s.signedIn("ada").get(authorize()).press("/oauth/authorize", "organization", "nordlys", "role:treasurer", "read", "bulk", "n:product:change").want(200)
	if at := `<summary autofocus><bdi class="flows">Product</bdi>`; strings.Count(p.body, "<summary autofocus>") != 1 || !strings.Contains(p.body, at) {
		t.Error("the focus is not on the circle")
	}
	form := p.fill("/oauth/authorize")
	for role, want := range map[string]string{"roadmap-steward": "change", "api-documentation": "change", "release-captain": "change",
		"customer-interviews": "change", "treasurer": "read", "buddy": "none", "reviewer": "none"} {
		if got := form.Get("role:" + role); got != want {
			t.Errorf("%s is %q, want %q", role, got, want)
		}
	}
	p.says("4 chosen · 4 roles", "1 chosen · 3 roles", "Set all in this circle: None Read Change")
	q := p.press("/oauth/authorize", "decision", "approve").sent(callback)
	if g := s.approvals("ada")[0].Grant; q.Get("code") == "" || len(g.Picks) != 5 {
		t.Errorf("approved %+v", g)
	}
}

// Fields of other organizations and under other options count for nothing.
func TestIgnoredFields(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	ada.get(authorize()).approve("grant", "roles", "role:treasurer", "change", "role:reviewer", "change").sent(callback)
	if g := s.approvals("ada")[0].Grant; g.EncodePicks() != "treasurer=change" {
		t.Errorf("approved %q", g.EncodePicks())
	}
	s.pass(time.Second) // rows are listed by the second
	ada.get(authorize()).approve("role:treasurer", "change", "personal", "1").sent(callback)
	if g := s.approvals("ada")[0].Grant; g.Kind != grantset.Everything || g.EncodePicks() != "" || g.Personal {
		t.Errorf("approved %+v", g)
	}
}

// ux 5.7: an old page asks again with all choices kept.
func TestStalePage(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	page := ada.get(authorize())
	s.pass(30 * time.Minute)
	page.approve().sent(callback) // to the second
	page = ada.get(authorize())
	s.pass(30*time.Minute + time.Second)
	again := page.approve("grant", "roles", "role:treasurer", "change", "personal", "1").want(http.StatusOK).
		says("This page was open for a long time. Check your choices and approve again.")
	if len(s.approvals("ada")) != 1 {
		t.Error("an old page approved")
	}
	form := again.fill("/oauth/authorize")
	if form.Get("role:treasurer") != "change" || form.Get("personal") != "1" || form.Get("organization") != "nordlys" {
		t.Errorf("kept %v", form)
	}
	again.press("/oauth/authorize", "decision", "approve").sent(callback)
	if len(s.approvals("ada")) != 2 {
		t.Error("the page that came back does not approve")
	}
	if q := page.cancel().sent(callback); q.Get("error") != "access_denied" {
		t.Errorf("Cancel on an old page sent %v", q)
	}
}

// A-14 and ux 5.7: never for a person who did not see the page.
func TestOtherPerson(t *testing.T) {
	s := newSite(t)
	page := s.signedIn("ada").get(authorize())
	page.b.cookies = s.signedIn("tor").cookies
	for _, decision := range []string{"approve", "cancel"} {
		p := page.press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "decision", decision).want(http.StatusConflict).
			says("You are now signed in as Tor Haugen. The page was opened by another account's session. Choose again.", "Signed in as Tor Haugen")
		if strings.Contains(p.body, "Ada Lindqvist") || strings.Contains(p.body, "ada@") || p.fill("/oauth/authorize").Get("grant") == "everything" {
			t.Error("the page tells of the other person")
		}
		s.nothing("tor")
		s.nothing("ada")
	}
	if e := s.event("approval_refused"); e.Reason != "other_person" || e.Person != "tor" {
		t.Errorf("event %+v", e)
	}
	page.approve().approve().sent(callback)
	if len(s.approvals("tor")) != 1 {
		t.Error("the page that came back does not work for its person")
	}
}

// A-11 and ux 5.7: signed out meanwhile. Sign-in, then the page again with the
// choices where they are that person's.
func TestSignedOutMeanwhile(t *testing.T) {
	s := newSite(t)
	for person, kept := range map[string]bool{"ada@nordlys.example": true, "tor@nordlys.example": false} {
		page := s.signedIn("ada").get(authorize("state", "mine"))
		page.b.cookies = map[string]string{}
		signin := page.approve("grant", "roles", "role:treasurer", "change", "personal", "1").follow().want(200).says("Sign in", `an app that calls itself “Quill Assistant” (connect.quill.example)`)
		again := signin.press("/signin", "email", person, "password", password).follow().want(200)
		form := again.fill("/oauth/authorize")
		if treasurer, personal := form.Get("role:treasurer") == "change", form.Get("personal") == "1"; treasurer != kept || personal != kept {
			t.Errorf("%s: choices kept %v and %v, want %v", person, treasurer, personal, kept)
		}
		if q := again.cancel().sent(callback); q.Get("state") != "mine" {
			t.Errorf("state %q after signing in", q.Get("state"))
		}
	}
	s.nothing("ada")
	s.nothing("tor")
}

// The longest request and as many choices as are kept at all: the choices stay
// behind rather than make an address that no server reads (decision L5).
func TestSignedOutWithALongRequest(t *testing.T) {
	s := newSite(t)
	long := callback + "?" + strings.Repeat("'", 2000-len(callback)-1)
	s.register(client.Client{ID: "long", RedirectURIs: []string{long}})
	state := strings.Repeat("é", maxState/2)
	page := s.signedIn("ada").get(authorize("client_id", "long", "redirect_uri", long, "state", state))
	changes := []string{"grant", "roles", "role:treasurer", "change"}
	for i := range 180 {
		changes = append(changes, fmt.Sprintf("role:nosuchrole%d", i), "change")
	}
	page.b.cookies = map[string]string{}
	asked := page.approve(changes...)
	if n := len(asked.header.Get("Location")); n > 28<<10 {
		t.Fatalf("sign-in is at an address of %d bytes", n)
	}
	again := asked.follow().want(200).press("/signin", "email", "ada@nordlys.example", "password", password).follow().want(200)
	if q := again.cancel().sent(long); q.Get("state") != state {
		t.Errorf("another state after signing in: %.20q, %d bytes", q.Get("state"), len(q.Get("state")))
	}
}

// A session of the same person that began later: the form of the old session
// is refused, and comes back to be answered again.
func TestFormOfAnEarlierSession(t *testing.T) {
	s := newSite(t)
	page := s.signedIn("ada").get(authorize())
	page.b.cookies = s.signedIn("ada").cookies
	p := page.approve("grant", "roles", "role:buddy", "read").want(http.StatusForbidden).says("Check your choices and approve again.")
	s.nothing("ada")
	if e := s.event("approval_refused"); e.Reason != "form_token" {
		t.Errorf("event %+v", e)
	}
	p.press("/oauth/authorize", "decision", "approve").sent(callback)
	if g := s.approvals("ada")[0].Grant; g.EncodePicks() != "buddy=read" {
		t.Errorf("approved %+v", g)
	}
}

// UX-11, decision A11: nothing is approved without session and form token, or
// with a sign of another origin.
func TestForms(t *testing.T) {
	s := newSite(t)
	page := s.signedIn("ada").get(authorize())
	good := page.fill("/oauth/authorize")
	good.Set("organization", "nordlys")
	good.Set("grant", "everything")
	good.Set("decision", "approve")
	with := func(name, value string) url.Values {
		form := url.Values{}
		for k, v := range good {
			form[k] = v
		}
		if form.Set(name, value); value == "" {
			form.Del(name)
		}
		return form
	}
	tors := s.signedIn("tor").get(authorize()).fill("/oauth/authorize")
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
		"no site":                     {good, []string{"Sec-Fetch-Site", "", "Origin", base}, 403},
		"two origins":                 {good, []string{"Origin", base, "Origin", "https://evil.example"}, 403},
		"no origin":                   {good, []string{"Origin", ""}, 403},
		"no request":                  {with("request", ""), nil, 400},
		"another person's request":    {with("request", tors.Get("request")), nil, 409},
		"request made up":             {with("request", "1.AAAA"), nil, 400},
		"request sealed for a return": {with("request", s.Ring.SealPage(sealedReturn, []byte("{}"))), nil, 400},
		"request without a nonce":     {with("request", s.Ring.SealPage(sealedPage, []byte("{}"))), nil, 400},
		"request of another host":     {with("request", s.sealPage(samplePage(s, "https://eu.svalinn.example"))), nil, 400},
		"not a form":                  {good, []string{"Content-Type", "text/plain"}, 400},
		"no media type":               {good, []string{"Content-Type", "application/json"}, 400},
		"too many fields":             {many(good, 5000), nil, 413},
		"too many bytes":              {with("x", strings.Repeat("x", 256<<10)), nil, 413},
	} {
		t.Run(name, func(t *testing.T) {
			page.b.header = http.Header{}
			for i := 0; i < len(tt.header); i += 2 {
				page.b.header.Add(tt.header[i], tt.header[i+1])
			}
			p := page.b.post("/oauth/authorize", tt.form).want(tt.status)
			if p.header.Get("Location") != "" {
				t.Errorf("leads to %q", p.header.Get("Location"))
			}
			s.nothing("ada")
		})
	}
	// The same-origin form of a browser, one typed in by hand, and a program's.
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "same-origin", "Origin", base}, {"Sec-Fetch-Site", "same-origin", "Origin", "null"},
		{"Sec-Fetch-Site", "none"}, {"Origin", base}, {},
	} {
		page.b.header = http.Header{}
		for i := 0; i < len(header); i += 2 {
			page.b.header.Set(header[i], header[i+1])
		}
		page.b.post("/oauth/authorize", good).sent(callback)
	}
	page.b.header = http.Header{"Content-Type": {"Application/X-WWW-Form-URLencoded; charset=UTF-8"}}
	page.b.post("/oauth/authorize", many(good, 4900)).sent(callback)
	// The query of the address is not read.
	page.b.header = http.Header{}
	page.b.post("/oauth/authorize?decision=cancel&"+request("client_id", "assistant").Encode(), good).sent(callback)
}

func samplePage(s *site, issuer string) page {
	return page{authorization: authorization{Client: "quill", RedirectURI: callback, Challenge: challenge(), Issuer: issuer},
		Person: "ada", Nonce: make([]byte, 16), Made: s.Store.Now().Unix(), Key: 1}
}

func many(form url.Values, n int) url.Values {
	out := url.Values{}
	for k, v := range form {
		out[k] = v
	}
	for i := range n {
		out.Set("x"+strconv.Itoa(i), "1")
	}
	return out
}

// I-14 and decision L1: every method and outcome counts, first of all; beyond
// the limit comes page E5, and Retry-After is true.
func TestLimit(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	page := ada.get(authorize()) // 1
	for i := 2; i <= 150; i++ {
		switch i % 5 {
		case 0:
			ada.get("/oauth/authorize").want(400)
		case 1:
			ada.get(authorize()).want(200)
		case 2:
			page.press("/oauth/authorize").want(200)
		case 3:
			ada.send("DELETE", "/oauth/authorize", nil).want(405)
		case 4:
			s.browser().get(authorize()).want(303)
		}
	}
	for _, p := range []*shown{ada.get(authorize()), page.approve(), page.cancel(), ada.send("OPTIONS", "/oauth/authorize", nil), s.browser().get(authorize())} {
		p.want(http.StatusTooManyRequests).says("Too many requests.", "Wait 10 minutes and try again. If you share an internet connection, others may have used it up.")
		if got := p.header.Get("Retry-After"); got != "600" {
			t.Errorf("Retry-After %q, want 600", got)
		}
	}
	s.nothing("ada")
	if e := s.event("rate_limited"); e.Address != s.address {
		t.Errorf("event %+v", e)
	}
	events, _, err := s.Store.Events(context.Background(), store.EventFilter{Kind: "rate_limited"})
	s.do(err)
	if len(events) != 1 {
		t.Errorf("%d events, want one per address and window", len(events))
	}
	ada.get("/").want(200) // other pages go on
	s.address = "203.0.113.10"
	ada.get(authorize()).want(200)
	s.address = "203.0.113.9"
	s.pass(599 * time.Second)
	if got := ada.get(authorize()).want(429).header.Get("Retry-After"); got != "1" {
		t.Errorf("Retry-After %q, want 1", got)
	}
	s.pass(time.Second)
	page.approve().sent(callback)
}

func TestMethods(t *testing.T) {
	s := newSite(t)
	for target, allow := range map[string]string{
		"/oauth/authorize": "GET, HEAD, POST", "/signin": "GET, HEAD, POST", "/signout": "POST", "/": "GET, HEAD",
		"/organizations/nordlys/profile/api": "GET, HEAD", "/organizations/nordlys/leave": "GET, HEAD, POST",
	} {
		p := s.browser().send("PUT", target, nil).want(405).says("This address cannot be used that way.")
		if got := p.header.Get("Allow"); got != allow {
			t.Errorf("%s: Allow %q, want %q", target, got, allow)
		}
	}
	p := s.browser().send("OPTIONS", "/oauth/authorize", nil).want(405)
	for name := range p.header {
		if strings.HasPrefix(name, "Access-Control") {
			t.Errorf("%s on the authorization endpoint (decision M5)", name)
		}
	}
	s.browser().send("HEAD", authorize(), nil).want(303)
	ada := s.signedIn("ada")
	for _, target := range []string{"/", "/nope", "/organizations/nordlys/profile/api", authorize()} {
		want := ada.get(target).header.Get("Content-Length")
		if got := ada.send("HEAD", target, nil).header.Get("Content-Length"); got != want || got == "" {
			t.Errorf("%s: HEAD has Content-Length %q, GET %q (RFC 9110 section 8.6)", target, got, want)
		}
	}
}

// T-23: nothing happens while the database cannot answer.
func TestDatabaseGone(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	page := ada.get(authorize())
	s.do(s.Store.Close())
	for _, p := range []*shown{page.approve(), page.cancel(), ada.get(authorize())} {
		p.want(503).says("Something went wrong here.", "Nothing was approved. Try again from the app. Reference 01JD7Q2M8Y.")
		if p.header.Get("Retry-After") == "" {
			t.Error("503 without Retry-After")
		}
	}
}

// ux 5.6: a double click sends the form twice at once.
func TestSamePageAnsweredAtOnce(t *testing.T) {
	s := newSite(t)
	ada := s.signedIn("ada")
	form := ada.get(authorize()).fill("/oauth/authorize")
	form.Set("organization", "nordlys")
	form.Set("grant", "everything")
	form.Set("decision", "approve")
	var mu sync.Mutex
	codes := map[string]int{}
	var all sync.WaitGroup
	for range 8 {
		b := s.browser()
		b.cookies = maps.Clone(ada.cookies)
		all.Go(func() {
			q := b.post("/oauth/authorize", form).sent(callback)
			mu.Lock()
			defer mu.Unlock()
			codes[q.Get("code")]++
		})
	}
	all.Wait()
	if len(codes) != 1 || len(s.approvals("ada")) != 1 {
		t.Errorf("codes %d, approvals %d, want one of each", len(codes), len(s.approvals("ada")))
	}
}
