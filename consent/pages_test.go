package consent

import (
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// everyPage visits each page of the door once.
func (s *site) everyPage(visit func(name string, flow bool, p *shown)) {
	s.t.Helper()
	ada, nobody := s.signedIn("ada"), s.browser()
	consent := ada.get(authorize())
	visit("consent", true, consent)
	visit("consent of a known client", true, ada.get(authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")))
	visit("consent with a fault", true, consent.approve("grant", "roles").want(422))
	visit("preview", true, consent.press("/oauth/authorize", "organization", "nordlys", "action", "preview").want(200))
	visit("consent with choices", true, consent.press("/oauth/authorize", "organization", "nordlys", "role:treasurer", "change",
		"role:facilitator", "read", "action", "review").want(200))
	s.ruled("")
	visit("consent under rules", true, consent.press("/oauth/authorize", "organization", "nordlys", "role:treasurer", "change", "action", "review").want(200))
	s.Rules = nil
	visit("consent of another person", true, func() *shown {
		page := s.signedIn("tor").get(authorize())
		page.b.cookies = ada.cookies
		return page.approve().want(409)
	}())
	visit("no organization", true, s.signedIn("ola").get(authorize()).want(403))
	visit("E1", true, nobody.get("/oauth/authorize").want(400))
	visit("E2", true, nobody.get(authorize("redirect_uri", "https://evil.example/")).want(400))
	visit("fault", true, nobody.get(authorize("scope", "x")).want(400))
	visit("sign-in redirect", true, nobody.get(authorize()).want(303))
	visit("sign-in", true, nobody.get(authorize()).follow().want(200))
	visit("sign-in refused", true, signin(nobody.get("/signin"), "ada@nordlys.example", "x").want(422))
	code := consent.approve().want(303)
	visit("approved", true, code)
	s.exchange(code.sent(callback).Get("code"))
	visit("E6", true, consent.approve().want(409))
	visit("method", true, nobody.send("PUT", "/signin", nil).want(405))
	visit("missing", true, nobody.get("/nowhere").want(404))
	visit("missing asset", true, nobody.get("/assets/app.css").want(404))
	for _, path := range []string{"//signin", "/./signin", "/organizations/../signin", "//oauth/authorize", "/oauth//authorize", "/.."} {
		visit("GET "+path, true, nobody.get(path).want(404))
		visit("POST "+path, true, nobody.post(path, url.Values{"password": {"x"}}).want(404))
	}
	visit("foreign form", true, func() *shown {
		b := s.browser()
		b.header.Set("Sec-Fetch-Site", "cross-site")
		return b.post("/oauth/authorize", url.Values{}).want(403)
	}())
	visit("bad form", true, ada.post("/oauth/authorize", url.Values{}).want(400))
	visit("large form", true, ada.post("/signout", url.Values{"x": {strings.Repeat("x", 256<<10)}}).want(413))
	visit("home", false, ada.get("/").want(200))
	visit("connected apps", false, ada.get("/organizations/nordlys/profile/api").want(200))
	visit("where apps are connected", false, ada.get("/connected-apps").want(200))
	visit("no connected apps", false, ada.get("/organizations/fjell/profile/api").want(200))
	path := editPath("nordlys", approval.ID(s.claim(code.sent(callback).Get("code")).Handle.ID()))
	edit := ada.get(path).want(200)
	visit("edit", false, edit)
	visit("edit with a fault", false, edit.press(path, "grant", "", "decision", "save").want(422))
	visit("edited", false, edit.press(path, "grant", "organization", "decision", "save").follow().want(200))
	visit("edit overtaken", false, edit.press(path, "grant", "roles", "personal", "1", "decision", "save").want(409))
	visit("revoke", false, ada.get("/organizations/nordlys/profile/api/clients/quill/revoke").want(200))
	s.do(s.Store.EndApproval(context.Background(), s.approvals("ada")[0].ID, approval.RevokedByPerson, store.Act{Actor: "person:ada"}))
	visit("edit of what has ended", false, edit.press(path, "decision", "save").want(409))
	visit("leave", false, ada.get("/organizations/fjell/leave").want(200))
	id := ada.connect("grant", "roles", "role:treasurer", "read")
	visit("AI integration", false, ada.get(nordlysSettings).want(200))
	visit("AI integration, nothing found", false, ada.get(nordlysSettings+"?find=x").want(200))
	visit("AI integration off", false, s.signedIn("ola").get("/organizations/havn/settings/ai-integration").want(200))
	visit("connection", false, ada.get(connectionPath("nordlys", id)).want(200))
	visit("revoke as admin", false, ada.get(connectionPath("nordlys", id)+"/revoke").want(200))
	visit("turn off", false, ada.get(nordlysSettings+"/off").want(200))
	s.withSupport()
	nils := s.signedIn("nils")
	visit("account", false, ada.get("/account").want(200))
	for range 2 {
		_, err := s.Store.TryFactor(context.Background(), "ada")
		s.do(err)
	}
	s.Store.Record(store.Event{Kind: "signin_failed", Person: "ada", Reason: "second_factor"})
	s.do(s.Store.Ready(context.Background())) // behind what was recorded
	visit("account after wrong codes", false, ada.get("/account").want(200))
	visit("account with a fault", false, ada.get("/account").press("/account/password", "new", "short").want(422))
	link := s.link("tor")
	visit("reset", true, nobody.get(link).want(200))
	visit("reset with a fault", true, nobody.get(link).press(link, "new", "short").want(422))
	visit("reset done", true, nobody.get(link).press(link, "new", newWord, "again", newWord).want(200))
	visit("no reset link", true, nobody.get(link).want(404))
	visit("support", false, nils.get("/support?find=a").want(200))
	actAs := nils.get(asAda).want(200)
	visit("view as", false, actAs)
	visit("view as with a fault", false, actAs.press(asAda, "reason", "").want(422))
	visit("acting", false, actAs.press(asAda, "reason", "ticket 17").follow().want(200))
	visit("E3", true, nils.get(authorize()).want(403))
	visit("E3 elsewhere", true, nils.get("/organizations/nordlys/leave").want(403))
	s.signInPages(visit)
	s.endings(visit)
}

// endings visits the pages that show how things end, and after them what only
// a broken server shows.
func (s *site) endings(visit func(name string, flow bool, p *shown)) {
	s.t.Helper()
	tor, open := s.signedIn("tor"), s.signedIn("ada").get(authorize())
	for _, why := range []approval.Reason{approval.RefreshReused, approval.RevokedByAdmin, approval.RevokedByClient, approval.ClientDisabled,
		approval.Replaced, approval.NeverConnected, approval.RevokedByOperator} {
		id := tor.connect("grant", "roles", "personal", "1")
		s.do(s.Store.EndApproval(context.Background(), id, why, store.Act{Actor: "operator"}))
	}
	visit("connected again", true, tor.get(authorize()).want(200))
	tor.connect()
	visit("ended", false, tor.get(nordlysApps).want(200))
	visit("no organization at all", true, s.signedIn("eve").get(authorize()).want(403))
	visit("home without organizations", false, s.signedIn("eve").get("/").want(200))
	s.pass(31 * time.Minute)
	visit("old consent", true, open.approve().want(200))
	s.pass(100 * 24 * time.Hour)
	visit("unused", false, s.signedIn("tor").get(nordlysApps).want(200))
	page, wrong := s.browser().get("/signin"), http.StatusUnprocessableEntity
	for wrong == http.StatusUnprocessableEntity {
		p := signin(page, "ada@nordlys.example", "x")
		if wrong = p.status; wrong != http.StatusUnprocessableEntity {
			visit("sign-in throttled", true, p.want(429))
		}
	}
	nobody := s.browser()
	for range 151 {
		if p := nobody.get("/oauth/authorize"); p.status == 429 {
			visit("E5", true, p)
		}
	}
	gone := s.signedIn("ada")
	s.do(s.Store.Close())
	visit("E7", true, gone.get("/").want(503))
}

// UX-16: the headers of ux 2.1, exactly, on every page and redirect.
func TestHeaders(t *testing.T) {
	s := newSite(t)
	const csp = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
	s.everyPage(func(name string, flow bool, p *shown) {
		want := map[string]string{
			"Content-Security-Policy": csp, "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "", "X-Robots-Tag": "noindex", "Vary": "Cookie, Accept-Language",
			"Access-Control-Allow-Origin": "",
		}
		if strings.Contains(p.body, `src="/assets/consent.`) { // which asks what is chosen
			want["Content-Security-Policy"] += "; connect-src 'self'"
		}
		if !flow {
			want["Content-Security-Policy"] += "; form-action 'self'"
			want["Cross-Origin-Opener-Policy"] = "same-origin"
		}
		if p.status != 303 {
			want["Content-Type"] = "text/html; charset=utf-8"
		}
		for header, value := range want {
			if got := strings.Join(p.header.Values(header), " | "); got != value {
				t.Errorf("%s: %s is %q, want %q", name, header, got, value)
			}
		}
	})
}

// UX-20, ux 2.3 and 10: what every page has, and what none has.
func TestEveryPage(t *testing.T) {
	s := newSite(t)
	headed := map[string]string{}
	for _, kinds := range []string{"Not accepted", "You are not signed in", "Not possible while impersonating", "No organization can be chosen", "Revoke access"} {
		headed[kinds+" – Svalinn"] = "" // those are of several kinds
	}
	s.everyPage(func(name string, flow bool, p *shown) {
		if p.status == 303 {
			return
		}
		root := p.all(atom.Html)[0]
		if attr(root, "lang") != "en" || attr(root, "dir") != "ltr" {
			t.Errorf("%s: <html> has %v", name, root.Attr)
		}
		for element, want := range map[atom.Atom]int{atom.H1: 1, atom.Title: 1, atom.Main: 1, atom.Header: 1} {
			if got := len(p.all(element)); got != want {
				t.Errorf("%s: %d of <%s>, want %d", name, got, element, want)
			}
		}
		title, heading := p.all(atom.Title)[0].FirstChild.Data, renderText(p.all(atom.H1)[0])
		if other, ok := headed[title]; ok && other != heading && other != "" {
			t.Errorf("%s: %q is the title of %q too", name, title, other)
		} else if !ok {
			headed[title] = heading
		}
		if !strings.HasSuffix(title, " – Svalinn") {
			t.Errorf("%s: title %q", name, title)
		} else if alerts := slices.ContainsFunc(slices.Collect(p.doc.Descendants()), func(n *html.Node) bool {
			return attr(n, "role") == "alert" && !has(n, "hidden")
		}); alerts != strings.HasPrefix(title, "Error: ") { // ux 10
			t.Errorf("%s: title %q, with a fault: %v", name, title, alerts)
		}
		if !slices.ContainsFunc(p.all(atom.Meta), func(n *html.Node) bool {
			return attr(n, "name") == "viewport" && attr(n, "content") == "width=device-width, initial-scale=1"
		}) {
			t.Errorf("%s: no viewport, or one that cannot be enlarged", name)
		}
		for _, n := range p.all(atom.Input) {
			fills := map[string][]string{"email": {"username"}, "password": {"current-password", "new-password"}}[attr(n, "type")]
			if fills != nil && !slices.Contains(fills, attr(n, "autocomplete")) {
				t.Errorf("%s: %s has autocomplete=%q", name, attr(n, "name"), attr(n, "autocomplete"))
			}
		}
		for _, n := range p.all(atom.Svg) { // else it fills a page without styles
			if attr(n, "width") == "" || attr(n, "height") == "" {
				t.Errorf("%s: a drawing has no size of its own", name)
			}
		}
		ids := map[string]bool{}
		for n := range p.doc.Descendants() {
			if id := attr(n, "id"); id != "" && ids[id] {
				t.Errorf("%s: id %q twice", name, id)
			} else {
				ids[id] = true
			}
			if has(n, "style") || n.DataAtom == atom.Style || n.DataAtom == atom.Script && n.FirstChild != nil {
				t.Errorf("%s: inline style or script in <%s>", name, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: attribute %s", name, a.Key)
				}
			}
			if (n.DataAtom == atom.Link || n.DataAtom == atom.Script || n.DataAtom == atom.Img) && !strings.HasPrefix(attr(n, "href")+attr(n, "src"), "/assets/") {
				t.Errorf("%s: fetches %v", name, n.Attr)
			}
		}
		for n := range p.doc.Descendants() {
			for _, points := range []string{"for", "aria-describedby", "aria-labelledby", "form"} {
				for to := range strings.FieldsSeq(attr(n, points)) {
					if !ids[to] {
						t.Errorf("%s: %s points at %q, which is not there", name, points, to)
					}
				}
			}
		}
		for _, f := range p.all(atom.Form) {
			if attr(f, "method") == "post" && attr(f, "action") != "/language" && !strings.Contains(renderText(f), `name="csrf"`) {
				t.Errorf("%s: a form without a form token", name)
			}
		}
		if flow && !strings.HasPrefix(name, "E3") { // which names whose decision it is
			for _, theirs := range []string{"Quill Assistant", "Ada", "Nordlys"} {
				for _, n := range append(p.all(atom.Title), append(p.all(atom.H1), p.all(atom.A)...)...) {
					if strings.Contains(renderText(n), theirs) {
						t.Errorf("%s: %q in <%s>", name, theirs, n.Data)
					}
				}
			}
		}
	})
}

// ux 2.3: what others named stands in a <bdi> of its own wherever it is shown,
// in a left-to-right language and in Arabic, so that it turns nothing around it.
func TestNamesAreIsolated(t *testing.T) {
	theirs := []string{"Quill Assistant", "Assistant Connector", "Ada Lindqvist", "Tor Haugen", "@nordlys.example", "Nordlys Cooperative",
		"Havn Studio", "Fjell Foundation", "Treasurer", "People & Onboarding", "quill.example"}
	for _, tag := range []string{"en", "ar"} {
		s, seen := newSite(t), map[string]bool{}
		s.accept = tag
		s.everyPage(func(name string, _ bool, p *shown) {
			for n := range p.doc.Descendants() {
				if n.Type != html.TextNode || n.Parent.DataAtom == atom.Title || strings.Contains(name, "E2") {
					continue
				}
				for _, text := range theirs {
					if !strings.Contains(n.Data, text) {
						continue
					}
					seen[text] = true
					isolated := false
					for up := n.Parent; up != nil; up = up.Parent {
						isolated = isolated || up.DataAtom == atom.Bdi
					}
					if !isolated {
						t.Errorf("%s in %s: %q stands in the text %q", name, tag, text, n.Data)
					}
				}
			}
		})
		if len(seen) != len(theirs) {
			t.Errorf("in %s, only %d of %d names were shown", tag, len(seen), len(theirs))
		}
	}
}

func renderText(n *html.Node) string {
	var b strings.Builder
	html.Render(&b, n)
	return b.String()
}

// Case F-12: every field that is shown, filled with a polyglot: the page has
// no new element and no new attribute.
func TestEscaping(t *testing.T) {
	polyglots := []string{
		`"'><script>alert(1)</script>`, `</title></textarea></style></script><svg/onload=alert(1)>`, "javascript:alert(1)//", "{{.}}${1}`<!--",
		`" autofocus onfocus=alert(1) x="`, "&lt;b&gt;&#60;b>", "\u202e\u2066 evil \u200f", "]]><b>", `\u003cscript\u003e`, "<bdi></bdi></bdi></p></main><h1>",
	}
	// How many elements with which attributes: names sort circles and roles, so
	// their order may differ.
	shape := func(p *shown) map[string]int {
		found := map[string]int{}
		for n := range p.doc.Descendants() {
			if n.Type == html.ElementNode {
				element := n.Data
				for _, a := range n.Attr {
					element += " " + a.Key
				}
				found[element]++
			}
		}
		return found
	}
	pages := func(text string) (shapes []map[string]int) {
		s := newSite(t)
		o := []org.Organization{{ID: "nordlys", Name: text, AIIntegration: true}, {ID: "havn", Name: text}}
		d := store.Directory{Organizations: o, People: []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: text, Name: text, Active: true}}},
			Circles: []org.Circle{{ID: "n:anchor", Organization: "nordlys", Name: text}},
			Roles:   []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "n:anchor", Name: text}}}
		s.do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "operator"}))
		s.register(client.Client{ID: "bad", Name: text, RedirectURIs: []string{"https://bad.example/cb"}})
		ada := s.signedIn("ada")
		ask := authorize("client_id", "bad", "redirect_uri", "https://bad.example/cb")
		consent := ada.get(ask)
		c := s.claim(consent.approve("grant", "roles", "role:treasurer", "read").sent("https://bad.example/cb").Get("code"))
		_, v, err := s.Store.Apply(context.Background(), approval.ID(c.Handle.ID()),
			approval.Exchange("bad", s.base, "https://bad.example/cb", verifier, c.Time, 1, s.Store.Now()), store.Act{Actor: "client:bad"})
		if s.do(err); v != approval.OK {
			t.Fatalf("exchange: %v", v)
		}
		path := editPath("nordlys", approval.ID(c.Handle.ID()))
		ada.get(ask).approve("organization", "havn").want(422)
		list := []*shown{
			consent, ada.get(ask).approve("organization", "havn"), ada.get("/"), ada.get("/organizations/nordlys/profile/api"),
			ada.get("/organizations/nordlys/profile/api/clients/bad/revoke"), ada.get("/organizations/nordlys/leave"),
			s.browser().get(ask).follow(), signin(s.browser().get("/signin"), text, text), s.signedIn("ola").get(ask),
			ada.get(authorize("client_id", "bad", "redirect_uri", "https://bad.example/cb", "scope", text)),
			s.browser().get(authorize("redirect_uri", text)), s.browser().get(authorize("client_id", text)),
			ada.get(authorize("state", text)), s.browser().get("/signin?return=" + url.QueryEscape(text)), s.browser().get("/" + url.PathEscape(text)),
			consent.press("/oauth/authorize", "organization", text, "grant", text, "role:treasurer", text, "role:"+text, "read", "bulk", text),
		}
		list = append(list, ada.get(path), ada.get(path).press(path, "grant", text, "role:"+text, text, "personal", text, "decision", "save"))
		s.do(s.Store.SetFiller(context.Background(), "treasurer", "ada", false, store.Act{Actor: "operator"}))
		list = append(list, ada.get(path), ada.get(path).press(path, "personal", "1", "decision", "save").follow())
		ada.get("/organizations/nordlys/profile/api/clients/bad/revoke").press("/organizations/nordlys/profile/api/clients/bad/revoke", "x", "y")
		list = append(list, ada.get(path), ada.get("/organizations/nordlys/profile/api?revoked=bad"), ada.get("/organizations/nordlys/profile/api?revoked="+url.QueryEscape(text)))
		for _, p := range list {
			shapes = append(shapes, shape(p))
			if strings.ContainsRune(text, '<') && strings.Contains(p.body, text) {
				t.Errorf("%q stands as it is in %s", text, p.body)
			}
		}
		return shapes
	}
	plain := pages("plain")
	for _, polyglot := range polyglots {
		for i, got := range pages(polyglot) {
			if !maps.Equal(got, plain[i]) {
				t.Errorf("%q changes page %d: %v, want %v", polyglot, i, got, plain[i])
			}
		}
	}
}

// ux 5.2: the form contract, which is tested from outside too.
// What a page repeats of a request is not always text.
func TestPagesAreUTF8(t *testing.T) {
	s := newSite(t)
	for _, p := range []*shown{
		s.browser().get("/signin?return=%ff"),
		s.browser().get(authorize("redirect_uri", "https://quill.example/\xff")),
	} {
		if !utf8.ValidString(p.body) || !strings.Contains(p.body, "\uFFFD") {
			t.Errorf("%d %q", p.status, p.body)
		}
		if got := p.header.Get("Content-Length"); p.header.Get("Content-Encoding") == "" && got != strconv.Itoa(len(p.body)) {
			t.Errorf("Content-Length %s of %d", got, len(p.body))
		}
	}
}

func TestFormContract(t *testing.T) {
	s := newSite(t)
	p := s.signedIn("ada").get(authorize())
	var form *html.Node
	for _, f := range p.all(atom.Form) {
		if attr(f, "id") == "consent" {
			form = f
		}
	}
	for name, want := range map[string]string{"method": "post", "action": "/oauth/authorize", "accept-charset": "utf-8", "autocomplete": "off"} {
		if got := attr(form, name); got != want {
			t.Errorf("form %s=%q, want %q", name, got, want)
		}
	}
	var fields []string
	for n := range form.Descendants() {
		if name := attr(n, "name"); name != "" {
			field := name + " " + attr(n, "type") + " " + attr(n, "value")
			if name == "request" || name == "csrf" {
				field = name + " " + attr(n, "type")
			}
			if has(n, "checked") {
				field += " checked"
			}
			if has(n, "required") {
				field += " required"
			}
			if has(n, "formnovalidate") {
				field += " formnovalidate"
			}
			fields = append(fields, field)
		}
	}
	roles := func(names ...string) (out []string) {
		for _, name := range names {
			out = append(out, "role:"+name+" radio none checked", "role:"+name+" radio read", "role:"+name+" radio change")
		}
		return out
	}
	bulk := func(circle string) (out []string) {
		for _, access := range []string{"none", "read", "change"} {
			out = append(out, "bulk  "+circle+":"+access+" formnovalidate")
		}
		return out
	}
	want := slices.Concat([]string{"action  review formnovalidate", "request hidden", "csrf hidden",
		"organization radio fjell required", "organization radio nordlys required",
		"grant radio roles checked required", "grant radio everything", "grant radio organization"},
		roles("archive-keeper", "reviewer"),
		bulk("n:anchor"), roles("circle-rep-product", "facilitator", "treasurer"), roles("buddy", "workspace-host"),
		bulk("n:product"), roles("api-documentation", "customer-interviews", "release-captain", "roadmap-steward"),
		[]string{"personal checkbox 1", "action  preview formnovalidate", "decision  approve", "decision  cancel formnovalidate"})
	if !slices.Equal(fields, want) {
		t.Errorf("fields\n%s\nwant\n%s", strings.Join(fields, "\n"), strings.Join(want, "\n"))
	}
	// Nobody who is an admin nowhere is offered the whole organization.
	if p := s.signedIn("tor").get(authorize()); strings.Contains(p.body, `value="organization"`) {
		t.Error("offered to somebody who is an admin nowhere")
	}
}

// ux 5.1: what the page says, in its order.
func TestConsentCopy(t *testing.T) {
	s := newSite(t)
	s.do(s.Store.AddDirectory(context.Background(), store.Directory{Organizations: []org.Organization{{ID: "aard", Name: "Aard"}},
		Members: []store.DirectoryMember{{Person: "ada", Organization: "aard"}}}, store.Act{Actor: "operator"}))
	p := s.signedIn("ada").get(authorize())
	rest := p.text()
	for _, want := range []string{
		"Connect an app – Svalinn", "Svalinn app.svalinn.example", "Signed in as Ada Lindqvist (ada@nordlys.example)",
		"An app wants to use your Svalinn account", "Quill Assistant Not checked by Svalinn", "connect.quill.example",
		"The name is the app's own claim; you, and the access, are sent to the address.",
		"First registered: ", "oday, 3 minutes ago", "Nobody in your organizations uses it.",
		"Did you start this yourself, just now, at quill.example? If a message or another person sent you here, choose Cancel.",
		"In which organization?", "One only. The app cannot act in any other.", "Fjell Foundation", "Member · 2 roles", "Nordlys Cooperative", "You are an admin · 9 roles",
		"Not listed: Aard, Havn Studio. Their admins have not turned on AI integration.",
		"What may it do there?", "Only selected roles", "It acts only through roles that you pick.",
		"Everything I can access", "It sees and changes all that you can.",
		"Everything in this organization", "Only for Nordlys Cooperative.", "As an admin: all circles, members and settings.",
		"Which roles?", "Nordlys (anchor circle)", "3 roles", "Product", "4 roles",
		"Also my personal entries", "Assigned to you personally: to read and change.",
		"What you approve", "Nothing yet. Choose at least one role, or your personal entries.",
		"End it any time under Connected apps; what it has done or read stays. Both buttons lead back to connect.quill.example.",
		"Choose an organization first.", "No role chosen yet", "All that you can access in Fjell Foundation", "Everything in Nordlys Cooperative, as an admin",
		"until you end it", "Approve", "Approve as admin", "Cancel",
	} {
		i := strings.Index(rest, want)
		if i < 0 {
			t.Fatalf("after what stands before it, the page does not say %q:\n%s", want, rest)
		}
		rest = rest[i+len(want):]
	}
	p = s.signedIn("ada").get(authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")).
		says("Assistant Connector Known app", "Svalinn set up this app and its address. Nobody in your organizations uses it.")
	if strings.Contains(p.text(), "Did you start this yourself") || strings.Contains(p.text(), "Not checked") {
		t.Error("the known app is warned of (case P-06)")
	}
	s.exchange(s.signedIn("tor").get(authorize()).approve().sent(callback).Get("code"))
	s.signedIn("ada").get(authorize()).says("1 person in Nordlys Cooperative uses it.")
	s.register(client.Client{ID: "noname", RedirectURIs: []string{"https://www.quill.example:8443/cb"}})
	s.signedIn("ada").get(authorize("client_id", "noname", "redirect_uri", "https://www.quill.example:8443/cb")).
		says("www.quill.example:8443 No name Not checked by Svalinn www.quill.example:8443 The name is")
}

// UX-2 and UX-18's page: 300 roles.
func TestManyRoles(t *testing.T) {
	s := newSite(t)
	s.many(300)
	mei := s.signedIn("mei")
	mei.header.Set("Accept-Encoding", "br;q=1, gzip;q=0.5")
	mei.header.Set("Sec-Fetch-Site", "same-origin")
	p := mei.get(authorize()).want(200)
	if p.header.Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	weight, _ := strconv.Atoi(p.header.Get("Content-Length"))
	for _, n := range append(p.all(atom.Link), p.all(atom.Script)...) {
		a := mei.get(attr(n, "href") + attr(n, "src")).want(200)
		size, _ := strconv.Atoi(a.header.Get("Content-Length"))
		weight += size
	}
	if weight > 30_000 {
		t.Errorf("the page weighs %d bytes with all that it needs, want at most 30 KB", weight)
	}
	if n := strings.Count(p.body, `<details class="circle"`); n != 25 || strings.Contains(p.body, "<details class=\"circle\" open") {
		t.Errorf("%d circles, or one is open", n)
	}
	for _, encoding := range []string{"", "gzip;q=0", "identity", "br", "gzip;q=0.000"} {
		mei.header.Set("Accept-Encoding", encoding)
		if got := mei.get(authorize()).header.Get("Content-Encoding"); got != "" {
			t.Errorf("Accept-Encoding %q is answered with %q", encoding, got)
		}
	}
	form := mei.get(authorize()).fill("/oauth/authorize")
	for i := range 300 {
		form.Set("role:r"+strconv.Itoa(i), "change")
	}
	form.Set("organization", "storhavn")
	form.Set("decision", "approve")
	mei.post("/oauth/authorize", form).sent(callback)
	if n := len(s.approvals("mei")[0].Grant.Picks); n != 300 {
		t.Errorf("%d roles approved, want 300", n)
	}
}

// ux 5.3: beyond 1,000 roles only the chosen organization's are in the page.
func TestVeryManyRoles(t *testing.T) {
	s := newSite(t)
	s.many(1200)
	mei := s.signedIn("mei")
	p := mei.get(authorize("state", "a b")).want(200).says("Show my roles in Storhavn Group")
	if strings.Contains(p.body, "role:r0") {
		t.Error("roles of an organization that is not chosen")
	}
	var show string
	for _, a := range p.all(atom.A) {
		if strings.Contains(attr(a, "href"), "organization=storhavn") {
			show = attr(a, "href")
		}
	}
	q := mei.get(show).want(200)
	// The address only shows them: a link chooses no organization (ux 5.2).
	if form := q.fill("/oauth/authorize"); form.Has("organization") || form.Get("role:r1199") != "none" {
		t.Errorf("chosen: %q, role: %q; want no organization, and the roles", form["organization"], form["role:r1199"])
	}
	if sent := q.cancel().sent(callback); sent.Get("state") != "a b" {
		t.Errorf("sent %v", sent)
	}
	q.press("/oauth/authorize", "organization", "storhavn", "role:r1199", "read", "decision", "approve").sent(callback)
}

// More organizations than the stylesheet can tell apart: the rest always show.
func TestManyOrganizations(t *testing.T) {
	s := newSite(t)
	var d store.Directory
	for i := range 25 {
		id := "o" + strconv.Itoa(100+i)
		d.Organizations = append(d.Organizations, org.Organization{ID: id, Name: "Org " + id, AIIntegration: true})
		d.Members = append(d.Members, store.DirectoryMember{Person: "tor", Organization: id, Admin: i == 0 || i == 24})
	}
	s.do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "operator"}))
	p := s.signedIn("tor").get(authorize())
	if n := strings.Count(p.body, `class="block only org-`); n != 20 {
		t.Errorf("%d organizations follow the choice, want 20", n)
	}
	if n := strings.Count(p.body, `class="block "`); n != 6 {
		t.Errorf("%d organizations always show, want 6", n)
	}
	if !strings.Contains(p.body, `class="option hot "`) {
		t.Error("the option of an organization that cannot be told apart is hidden")
	}
	p.approve("organization", "o124", "grant", "organization").sent(callback)
}

func TestAssets(t *testing.T) {
	s := newSite(t)
	for name, kind := range map[string]string{"app.css": "text/css; charset=utf-8", "consent.js": "text/javascript; charset=utf-8", "mark.svg": "image/svg+xml"} {
		b := s.browser()
		path := assetPath(name)
		stem, ext, _ := strings.Cut(name, ".")
		if !strings.HasPrefix(path, "/assets/"+stem+".") || !strings.HasSuffix(path, "."+ext) || strings.Count(path, ".") != 2 {
			t.Errorf("path %q", path)
		}
		p := b.get(path).want(200)
		for header, want := range map[string]string{"Content-Type": kind, "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"} {
			if got := p.header.Get(header); got != want {
				t.Errorf("%s: %s %q, want %q", name, header, got, want)
			}
		}
		b.header.Set("Accept-Encoding", "gzip")
		if got := b.get(path).want(200); got.body != p.body || got.header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: compressed, it is another", name)
		}
		b.get("/assets/" + name).want(404)
	}
	if js := assets.files[strings.TrimPrefix(assetPath("consent.js"), "/assets/")].content; len(js) > 6<<10 || len(packed(js)) > 2500 {
		t.Errorf("the script has %d bytes, %d compressed, want at most 6 KB and 2,500 bytes", len(js), len(packed(js)))
	}
	css := string(assets.files[strings.TrimPrefix(assetPath("app.css"), "/assets/")].content)
	for _, physical := range []string{"margin-left", "margin-right", "padding-left", "padding-right", "text-align: left", "text-align: right", "url(", "@import"} {
		if strings.Contains(css, physical) {
			t.Errorf("the stylesheet has %q", physical)
		}
	}
}

// Page lends the look to pages of others.
func TestPage(t *testing.T) {
	s := newSite(t)
	content := template.Must(template.New("x").Parse(`<div class="card"><h1>{{.Title}}</h1>{{template "part" .}}</div>{{define "part"}}<p>{{.Text}}</p>{{end}}`))
	for range 2 {
		w := httptest.NewRecorder()
		s.do(s.Page(w, httptest.NewRequest("GET", s.base+"/dev/client", nil), http.StatusOK, "Test client", content,
			map[string]string{"Title": "Hello", "Text": "<b>"}))
		for _, want := range []string{"<title>Test client – Svalinn</title>", "<h1>Hello</h1>", "<p>&lt;b&gt;</p>", assetPath("app.css")} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %q in %s", want, w.Body)
			}
		}
		if got := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(got, "form-action 'self'") {
			t.Errorf("policy %q", got)
		}
	}
}

func assetPath(name string) string { return assets.paths[name] }
