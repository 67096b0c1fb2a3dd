package consent

import (
	"context"
	"html/template"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
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
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// everyPage visits each page of the door once.
func (s *site) everyPage(visit func(name string, flow bool, p *pagetest.Shown)) {
	s.T.Helper()
	ada, nobody := s.SignedIn("ada"), s.Browser()
	consent := ada.Get(pagetest.Authorize())
	visit("consent", true, consent)
	visit("consent of a known client", true, ada.Get(pagetest.Authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")))
	visit("consent with a fault", true, consent.Approve("grant", "roles").Want(422))
	visit("preview", true, consent.Press("/oauth/authorize", "organization", "nordlys", "action", "preview").Want(200))
	visit("consent with choices", true, consent.Press("/oauth/authorize", "organization", "nordlys", "role:treasurer", "change",
		"role:facilitator", "read", "action", "review").Want(200))
	s.ruled("")
	visit("consent under rules", true, consent.Press("/oauth/authorize", "organization", "nordlys", "role:treasurer", "change", "action", "review").Want(200))
	s.Rules = nil
	visit("consent of another person", true, func() *pagetest.Shown {
		page := s.SignedIn("tor").Get(pagetest.Authorize())
		page.B.Cookies = ada.Cookies
		return page.Approve().Want(409)
	}())
	visit("no organization", true, s.SignedIn("ola").Get(pagetest.Authorize()).Want(403))
	visit("E1", true, nobody.Get("/oauth/authorize").Want(400))
	visit("E2", true, nobody.Get(pagetest.Authorize("redirect_uri", "https://evil.example/")).Want(400))
	visit("fault", true, nobody.Get(pagetest.Authorize("scope", "x")).Want(400))
	visit("sign-in redirect", true, nobody.Get(pagetest.Authorize()).Want(303))
	visit("sign-in", true, nobody.Get(pagetest.Authorize()).Follow().Want(200))
	visit("sign-in refused", true, pagetest.SignIn(nobody.Get("/signin"), "ada@nordlys.example", "x").Want(422))
	code := consent.Approve().Want(303)
	visit("approved", true, code)
	s.desktopPages(ada, visit)
	s.documentPages(ada, visit)
	s.Exchange(code.Sent(pagetest.Callback).Get("code"))
	visit("E6", true, consent.Approve().Want(409))
	visit("method", true, nobody.Send("PUT", "/signin", nil).Want(405))
	visit("missing", true, nobody.Get("/nowhere").Want(404))
	visit("missing asset", true, nobody.Get("/assets/app.css").Want(404))
	for _, path := range []string{"//signin", "/./signin", "/organizations/../signin", "//oauth/authorize", "/oauth//authorize", "/.."} {
		visit("GET "+path, true, nobody.Get(path).Want(404))
		visit("POST "+path, true, nobody.Post(path, url.Values{"password": {"x"}}).Want(404))
	}
	visit("foreign form", true, func() *pagetest.Shown {
		b := s.Browser()
		b.Header.Set("Sec-Fetch-Site", "cross-site")
		return b.Post("/oauth/authorize", url.Values{}).Want(403)
	}())
	visit("bad form", true, ada.Post("/oauth/authorize", url.Values{}).Want(400))
	visit("large form", true, ada.Post("/signout", url.Values{"x": {strings.Repeat("x", 256<<10)}}).Want(413))
	visit("home", false, ada.Get("/").Want(200))
	visit("connected apps", false, ada.Get("/organizations/nordlys/profile/api").Want(200))
	visit("where apps are connected", false, ada.Get("/connected-apps").Want(200))
	visit("no connected apps", false, ada.Get("/organizations/fjell/profile/api").Want(200))
	edited := approval.ID(s.Claim(code.Sent(pagetest.Callback).Get("code")).Handle.ID())
	path := editPath("nordlys", edited)
	edit := ada.Get(path).Want(200)
	visit("edit", false, edit)
	visit("edit with a fault", false, edit.Press(path, "grant", "", "decision", "save").Want(422))
	visit("edited", false, edit.Press(path, "grant", "organization", "decision", "save").Follow().Want(200))
	visit("edit overtaken", false, edit.Press(path, "grant", "roles", "personal", "1", "decision", "save").Want(409))
	visit("revoke", false, ada.Get("/organizations/nordlys/profile/api/clients/quill/revoke").Want(200))
	s.Do(s.Store.EndApproval(context.Background(), edited, approval.RevokedByPerson, store.Act{Actor: "person:ada"}))
	visit("edit of what has ended", false, edit.Press(path, "decision", "save").Want(409))
	visit("leave", false, ada.Get("/organizations/fjell/leave").Want(200))
	id := ada.Connect("grant", "roles", "role:treasurer", "read")
	s.rulesFor("nordlys", "person:ada", policy.Policy{Unknown: policy.Ask})
	visit("edit under rules", false, ada.Get(editPath("nordlys", id)).Want(200))
	s.rulesFor("nordlys", "person:ada", policy.Policy{})
	visit("AI integration", false, ada.Get(pagetest.NordlysSettings).Want(200))
	visit("AI integration, nothing found", false, ada.Get(pagetest.NordlysSettings+"?find=x").Want(200))
	visit("AI integration off", false, s.SignedIn("ola").Get("/organizations/havn/settings/ai-integration").Want(200))
	visit("connection", false, ada.Get(pagetest.NordlysSettings+"/"+id.String()).Want(200))
	visit("revoke as admin", false, ada.Get(pagetest.NordlysSettings+"/"+id.String()+"/revoke").Want(200))
	visit("turn off", false, ada.Get(pagetest.NordlysSettings+"/off").Want(200))
	s.AdminPages(visit)
	s.WithSupport()
	nils := s.SignedIn("nils")
	visit("account", false, ada.Get("/account").Want(200))
	for range 2 {
		_, err := s.Store.TryFactor(context.Background(), "ada")
		s.Do(err)
	}
	s.Store.Record(store.Event{Kind: "signin_failed", Person: "ada", Reason: "second_factor"})
	s.Do(s.Store.Ready(context.Background())) // behind what was recorded
	visit("account after wrong codes", false, ada.Get("/account").Want(200))
	visit("account with a fault", false, ada.Get("/account").Press("/account/password", "new", "short").Want(422))
	link := s.ResetLink("tor")
	visit("reset", true, nobody.Get(link).Want(200))
	visit("reset with a fault", true, nobody.Get(link).Press(link, "new", "short").Want(422))
	visit("reset done", true, nobody.Get(link).Press(link, "new", pagetest.NewWord, "again", pagetest.NewWord).Want(200))
	visit("no reset link", true, nobody.Get(link).Want(404))
	visit("support", false, nils.Get("/support?find=a").Want(200))
	actAs := nils.Get(pagetest.AsAda).Want(200)
	visit("view as", false, actAs)
	visit("view as with a fault", false, actAs.Press(pagetest.AsAda, "reason", "").Want(422))
	visit("acting", false, actAs.Press(pagetest.AsAda, "reason", "ticket 17").Follow().Want(200))
	visit("E3", true, nils.Get(pagetest.Authorize()).Want(403))
	visit("E3 elsewhere", true, nils.Get("/organizations/nordlys/leave").Want(403))
	s.rulePages(visit)
	s.ActivityPages(visit)
	s.signInPages(visit)
	s.endings(visit)
}

// endings visits the pages that show how things end, and after them what only
// a broken server shows.
func (s *site) endings(visit func(name string, flow bool, p *pagetest.Shown)) {
	s.T.Helper()
	tor, open := s.SignedIn("tor"), s.SignedIn("ada").Get(pagetest.Authorize())
	for _, why := range []approval.Reason{approval.RefreshReused, approval.RevokedByAdmin, approval.RevokedByClient, approval.ClientDisabled,
		approval.Replaced, approval.NeverConnected, approval.RevokedByOperator, approval.RedirectGone} {
		id := tor.Connect("grant", "roles", "personal", "1")
		s.Do(s.Store.EndApproval(context.Background(), id, why, store.Act{Actor: "operator"}))
		s.Pass(time.Second) // one is the latest
		if why == approval.RefreshReused {
			visit("filled in again", true, tor.Get(pagetest.Authorize()).Want(200))
		}
	}
	visit("connected again", true, tor.Get(pagetest.Authorize()).Want(200))
	tor.Connect()
	visit("ended", false, tor.Get(pagetest.NordlysApps).Want(200))
	visit("no organization at all", true, s.SignedIn("eve").Get(pagetest.Authorize()).Want(403))
	visit("home without organizations", false, s.SignedIn("eve").Get("/").Want(200))
	s.Pass(31 * time.Minute)
	visit("old consent", true, open.Approve().Want(200))
	s.Pass(100 * 24 * time.Hour)
	visit("unused", false, s.SignedIn("tor").Get(pagetest.NordlysApps).Want(200))
	page, wrong := s.Browser().Get("/signin"), http.StatusUnprocessableEntity
	for wrong == http.StatusUnprocessableEntity {
		p := pagetest.SignIn(page, "ada@nordlys.example", "x")
		if wrong = p.Status; wrong != http.StatusUnprocessableEntity {
			visit("sign-in throttled", true, p.Want(429))
		}
	}
	nobody := s.Browser()
	for range 151 {
		if p := nobody.Get("/oauth/authorize"); p.Status == 429 {
			visit("E5", true, p)
		}
	}
	gone := s.SignedIn("ada")
	s.Do(s.Store.Close())
	visit("E7", true, gone.Get("/").Want(503))
}

// pagesPolicy is that of a page on the way to an approval.
const pagesPolicy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"

// UX-16: the headers of ux 2.1, exactly, on every page and redirect.
func TestHeaders(t *testing.T) {
	s := newSite(t)
	s.everyPage(func(name string, flow bool, p *pagetest.Shown) {
		want := map[string]string{
			"Content-Security-Policy": pagesPolicy, "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "", "X-Robots-Tag": "noindex", "Vary": "Cookie, Accept-Language",
			"Access-Control-Allow-Origin": "",
		}
		if strings.Contains(p.Body, `src="/assets/consent.`) { // which asks what is chosen
			want["Content-Security-Policy"] += "; connect-src 'self'"
		}
		if !flow {
			want["Content-Security-Policy"] += "; form-action 'self'"
			want["Cross-Origin-Opener-Policy"] = "same-origin"
		}
		if p.Status != 303 {
			want["Content-Type"] = "text/html; charset=utf-8"
		}
		for header, value := range want {
			if got := strings.Join(p.Header.Values(header), " | "); got != value {
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
	s.everyPage(func(name string, flow bool, p *pagetest.Shown) {
		if p.Status == 303 {
			return
		}
		root := p.All(atom.Html)[0]
		if pagetest.Attr(root, "lang") != "en" || pagetest.Attr(root, "dir") != "ltr" {
			t.Errorf("%s: <html> has %v", name, root.Attr)
		}
		for element, want := range map[atom.Atom]int{atom.H1: 1, atom.Title: 1, atom.Main: 1, atom.Header: 1} {
			if got := len(p.All(element)); got != want {
				t.Errorf("%s: %d of <%s>, want %d", name, got, element, want)
			}
		}
		title, heading := p.All(atom.Title)[0].FirstChild.Data, renderText(p.All(atom.H1)[0])
		if other, ok := headed[title]; ok && other != heading && other != "" {
			t.Errorf("%s: %q is the title of %q too", name, title, other)
		} else if !ok {
			headed[title] = heading
		}
		if !strings.HasSuffix(title, " – Svalinn") {
			t.Errorf("%s: title %q", name, title)
		} else if alerts := slices.ContainsFunc(slices.Collect(p.Doc.Descendants()), func(n *html.Node) bool {
			return pagetest.Attr(n, "role") == "alert" && !pagetest.Has(n, "hidden")
		}); alerts != strings.HasPrefix(title, "Error: ") { // ux 10
			t.Errorf("%s: title %q, with a fault: %v", name, title, alerts)
		}
		if !slices.ContainsFunc(p.All(atom.Meta), func(n *html.Node) bool {
			return pagetest.Attr(n, "name") == "viewport" && pagetest.Attr(n, "content") == "width=device-width, initial-scale=1"
		}) {
			t.Errorf("%s: no viewport, or one that cannot be enlarged", name)
		}
		for _, n := range p.All(atom.Input) {
			fills := map[string][]string{"email": {"username"}, "password": {"current-password", "new-password"}}[pagetest.Attr(n, "type")]
			if fills != nil && !slices.Contains(fills, pagetest.Attr(n, "autocomplete")) {
				t.Errorf("%s: %s has autocomplete=%q", name, pagetest.Attr(n, "name"), pagetest.Attr(n, "autocomplete"))
			}
		}
		for _, n := range p.All(atom.Svg) { // else it fills a page without styles
			if pagetest.Attr(n, "width") == "" || pagetest.Attr(n, "height") == "" {
				t.Errorf("%s: a drawing has no size of its own", name)
			}
		}
		for n := range p.Doc.Descendants() { // a text beside an element would stand above or below it in the grid of a button
			class, text, beside := strings.Fields(pagetest.Attr(n, "class")), false, false
			if n.DataAtom != atom.Button && !slices.Contains(class, "button") || slices.Contains(class, "link") {
				continue
			}
			for c := range n.ChildNodes() {
				text = text || c.Type == html.TextNode && strings.TrimSpace(c.Data) != ""
				beside = beside || c.Type == html.ElementNode
			}
			if text && beside {
				t.Errorf("%s: the button %q is broken into pieces", name, textOf(n))
			}
		}
		ids := map[string]bool{}
		for n := range p.Doc.Descendants() {
			if id := pagetest.Attr(n, "id"); id != "" && ids[id] {
				t.Errorf("%s: id %q twice", name, id)
			} else {
				ids[id] = true
			}
			if pagetest.Has(n, "style") || n.DataAtom == atom.Style || n.DataAtom == atom.Script && n.FirstChild != nil {
				t.Errorf("%s: inline style or script in <%s>", name, n.Data)
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") {
					t.Errorf("%s: attribute %s", name, a.Key)
				}
			}
			if (n.DataAtom == atom.Link || n.DataAtom == atom.Script || n.DataAtom == atom.Img) && !strings.HasPrefix(pagetest.Attr(n, "href")+pagetest.Attr(n, "src"), "/assets/") {
				t.Errorf("%s: fetches %v", name, n.Attr)
			}
		}
		for n := range p.Doc.Descendants() {
			for _, points := range []string{"for", "aria-describedby", "aria-labelledby", "form"} {
				for to := range strings.FieldsSeq(pagetest.Attr(n, points)) {
					if !ids[to] {
						t.Errorf("%s: %s points at %q, which is not there", name, points, to)
					}
				}
			}
		}
		for _, f := range p.All(atom.Form) {
			if pagetest.Attr(f, "method") == "post" && pagetest.Attr(f, "action") != "/language" && !strings.Contains(renderText(f), `name="csrf"`) {
				t.Errorf("%s: a form without a form token", name)
			}
		}
		if flow && !strings.HasPrefix(name, "E3") { // which names whose decision it is
			for _, theirs := range []string{"Quill Assistant", "Ada", "Nordlys"} {
				for _, n := range append(p.All(atom.Title), append(p.All(atom.H1), p.All(atom.A)...)...) {
					if said := textOf(n) + pagetest.Attr(n, "title") + pagetest.Attr(n, "aria-label"); strings.Contains(said, theirs) {
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
		s.Accept = tag
		s.everyPage(func(name string, _ bool, p *pagetest.Shown) {
			for n := range p.Doc.Descendants() {
				if n.Type != html.TextNode || n.Parent.DataAtom == atom.Title || strings.Contains(name, "E2") {
					continue
				}
				for _, text := range theirs {
					if !strings.Contains(n.Data, text) {
						continue
					}
					seen[text] = true
					isolated := n.Parent.DataAtom == atom.Option && strings.Contains(n.Data, "\u2068"+text+"\u2069") // no element can stand there
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
	shape := func(p *pagetest.Shown) map[string]int {
		found := map[string]int{}
		for n := range p.Doc.Descendants() {
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
		s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "operator"}))
		s.Register(client.Client{ID: "bad", Name: text, RedirectURIs: []string{"https://bad.example/cb"}})
		ada := s.SignedIn("ada")
		ask := pagetest.Authorize("client_id", "bad", "redirect_uri", "https://bad.example/cb")
		consent := ada.Get(ask)
		c := s.Claim(consent.Approve("grant", "roles", "role:treasurer", "read").Sent("https://bad.example/cb").Get("code"))
		_, v, err := s.Store.Apply(context.Background(), approval.ID(c.Handle.ID()),
			approval.Exchange("bad", s.At, "https://bad.example/cb", pagetest.Verifier, c.Time, 1, s.Store.Now()), store.Act{Actor: "client:bad"})
		if s.Do(err); v != approval.OK {
			t.Fatalf("exchange: %v", v)
		}
		path := editPath("nordlys", approval.ID(c.Handle.ID()))
		ada.Get(ask).Approve("organization", "havn").Want(422)
		list := []*pagetest.Shown{
			consent, ada.Get(ask).Approve("organization", "havn"), ada.Get("/"), ada.Get("/organizations/nordlys/profile/api"),
			ada.Get("/organizations/nordlys/profile/api/clients/bad/revoke"), ada.Get("/organizations/nordlys/leave"),
			s.Browser().Get(ask).Follow(), pagetest.SignIn(s.Browser().Get("/signin"), text, text), s.SignedIn("ola").Get(ask),
			ada.Get(pagetest.Authorize("client_id", "bad", "redirect_uri", "https://bad.example/cb", "scope", text)),
			s.Browser().Get(pagetest.Authorize("redirect_uri", text)), s.Browser().Get(pagetest.Authorize("client_id", text)),
			ada.Get(pagetest.Authorize("state", text)), s.Browser().Get("/signin?return=" + url.QueryEscape(text)), s.Browser().Get("/" + url.PathEscape(text)),
			consent.Press("/oauth/authorize", "organization", text, "grant", text, "role:treasurer", text, "role:"+text, "read", "bulk", text),
		}
		list = append(list, ada.Get(path), ada.Get(path).Press(path, "grant", text, "role:"+text, text, "personal", text, "decision", "save"))
		s.Do(s.Store.SetFiller(context.Background(), "treasurer", "ada", false, store.Act{Actor: "operator"}))
		list = append(list, ada.Get(path), ada.Get(path).Press(path, "personal", "1", "decision", "save").Follow())
		ada.Get("/organizations/nordlys/profile/api/clients/bad/revoke").Press("/organizations/nordlys/profile/api/clients/bad/revoke", "x", "y")
		list = append(list, ada.Get(path), ada.Get("/organizations/nordlys/profile/api?revoked=bad"), ada.Get("/organizations/nordlys/profile/api?revoked="+url.QueryEscape(text)))
		for _, p := range list {
			shapes = append(shapes, shape(p))
			if strings.ContainsRune(text, '<') && strings.Contains(p.Body, text) {
				t.Errorf("%q stands as it is in %s", text, p.Body)
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
	for p, repeats := range map[*pagetest.Shown]bool{
		s.Browser().Get("/signin?return=%ff"):                                             false,
		s.Browser().Get(pagetest.Authorize("redirect_uri", "https://quill.example/\xff")): true,
	} {
		if !utf8.ValidString(p.Body) || strings.Contains(p.Body, "\uFFFD") != repeats {
			t.Errorf("%d %q", p.Status, p.Body)
		}
		if got := p.Header.Get("Content-Length"); p.Header.Get("Content-Encoding") == "" && got != strconv.Itoa(len(p.Body)) {
			t.Errorf("Content-Length %s of %d", got, len(p.Body))
		}
	}
}

func TestFormContract(t *testing.T) {
	s := newSite(t)
	p := s.SignedIn("ada").Get(pagetest.Authorize())
	var form *html.Node
	for _, f := range p.All(atom.Form) {
		if pagetest.Attr(f, "id") == "consent" {
			form = f
		}
	}
	for name, want := range map[string]string{"method": "post", "action": "/oauth/authorize", "accept-charset": "utf-8", "autocomplete": "off"} {
		if got := pagetest.Attr(form, name); got != want {
			t.Errorf("form %s=%q, want %q", name, got, want)
		}
	}
	var fields []string
	for n := range form.Descendants() {
		if name := pagetest.Attr(n, "name"); name != "" {
			field := name + " " + pagetest.Attr(n, "type") + " " + pagetest.Attr(n, "value")
			if name == "request" || name == "csrf" {
				field = name + " " + pagetest.Attr(n, "type")
			}
			if pagetest.Has(n, "checked") {
				field += " checked"
			}
			if pagetest.Has(n, "required") {
				field += " required"
			}
			if pagetest.Has(n, "formnovalidate") {
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
		[]string{"personal checkbox 1", "ends  ", "action  preview formnovalidate", "decision  approve", "decision  cancel formnovalidate"})
	if !slices.Equal(fields, want) {
		t.Errorf("fields\n%s\nwant\n%s", strings.Join(fields, "\n"), strings.Join(want, "\n"))
	}
	// Nobody who is an admin nowhere is offered the whole organization.
	if p := s.SignedIn("tor").Get(pagetest.Authorize()); strings.Contains(p.Body, `value="organization"`) {
		t.Error("offered to somebody who is an admin nowhere")
	}
}

// ux 5.1: what the page says, in its order.
func TestConsentCopy(t *testing.T) {
	s := newSite(t)
	s.Do(s.Store.AddDirectory(context.Background(), store.Directory{Organizations: []org.Organization{{ID: "aard", Name: "Aard"}},
		Members: []store.DirectoryMember{{Person: "ada", Organization: "aard"}}}, store.Act{Actor: "operator"}))
	p := s.SignedIn("ada").Get(pagetest.Authorize())
	rest := p.Text()
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
	p = s.SignedIn("ada").Get(pagetest.Authorize("client_id", "assistant", "redirect_uri", "https://assistant.example/cb")).
		Says("Assistant Connector Known app", "Svalinn set up this app and its address. Nobody in your organizations uses it.")
	if strings.Contains(p.Text(), "Did you start this yourself") || strings.Contains(p.Text(), "Not checked") {
		t.Error("the known app is warned of (case P-06)")
	}
	s.Exchange(s.SignedIn("tor").Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback).Get("code"))
	s.SignedIn("ada").Get(pagetest.Authorize()).Says("1 person in Nordlys Cooperative uses it.")
	s.Register(client.Client{ID: "noname", RedirectURIs: []string{"https://www.quill.example:8443/cb"}})
	s.SignedIn("ada").Get(pagetest.Authorize("client_id", "noname", "redirect_uri", "https://www.quill.example:8443/cb")).
		Says("www.quill.example:8443 No name Not checked by Svalinn www.quill.example:8443 The name is")
}

// UX-2 and UX-18's page: 300 roles.
func TestManyRoles(t *testing.T) {
	s := newSite(t)
	s.many(300)
	mei := s.SignedIn("mei")
	mei.Header.Set("Accept-Encoding", "br;q=1, gzip;q=0.5")
	mei.Header.Set("Sec-Fetch-Site", "same-origin")
	p := mei.Get(pagetest.Authorize()).Want(200)
	if p.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	weight, _ := strconv.Atoi(p.Header.Get("Content-Length"))
	for _, n := range append(p.All(atom.Link), p.All(atom.Script)...) {
		a := mei.Get(pagetest.Attr(n, "href") + pagetest.Attr(n, "src")).Want(200)
		size, _ := strconv.Atoi(a.Header.Get("Content-Length"))
		weight += size
	}
	if weight > 30_000 {
		t.Errorf("the page weighs %d bytes with all that it needs, want at most 30 KB", weight)
	}
	if n := strings.Count(p.Body, `<details class="circle"`); n != 25 || strings.Contains(p.Body, "<details class=\"circle\" open") {
		t.Errorf("%d circles, or one is open", n)
	}
	for _, encoding := range []string{"", "gzip;q=0", "identity", "br", "gzip;q=0.000"} {
		mei.Header.Set("Accept-Encoding", encoding)
		if got := mei.Get(pagetest.Authorize()).Header.Get("Content-Encoding"); got != "" {
			t.Errorf("Accept-Encoding %q is answered with %q", encoding, got)
		}
	}
	form := mei.Get(pagetest.Authorize()).Fill("/oauth/authorize")
	for i := range 300 {
		form.Set("role:r"+strconv.Itoa(i), "change")
	}
	form.Set("organization", "storhavn")
	form.Set("decision", "approve")
	mei.Post("/oauth/authorize", form).Sent(pagetest.Callback)
	if n := len(s.Approvals("mei")[0].Grant.Picks); n != 300 {
		t.Errorf("%d roles approved, want 300", n)
	}
}

// ux 5.3: beyond 1,000 roles only the chosen organization's are in the page.
func TestVeryManyRoles(t *testing.T) {
	s := newSite(t)
	s.many(1200)
	mei := s.SignedIn("mei")
	p := mei.Get(pagetest.Authorize("state", "a b")).Want(200).Says("Show my roles in Storhavn Group")
	if strings.Contains(p.Body, "role:r0") {
		t.Error("roles of an organization that is not chosen")
	}
	var show string
	for _, a := range p.All(atom.A) {
		if strings.Contains(pagetest.Attr(a, "href"), "organization=storhavn") {
			show = pagetest.Attr(a, "href")
		}
	}
	q := mei.Get(show).Want(200)
	// The address only shows them: a link chooses no organization (ux 5.2).
	if form := q.Fill("/oauth/authorize"); form.Has("organization") || form.Get("role:r1199") != "none" {
		t.Errorf("chosen: %q, role: %q; want no organization, and the roles", form["organization"], form["role:r1199"])
	}
	if sent := q.Cancel().Sent(pagetest.Callback); sent.Get("state") != "a b" {
		t.Errorf("sent %v", sent)
	}
	q.Press("/oauth/authorize", "organization", "storhavn", "role:r1199", "read", "decision", "approve").Sent(pagetest.Callback)
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
	s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "operator"}))
	p := s.SignedIn("tor").Get(pagetest.Authorize())
	if n := strings.Count(p.Body, `class="block only org-`); n != 20 {
		t.Errorf("%d organizations follow the choice, want 20", n)
	}
	if n := strings.Count(p.Body, `class="block "`); n != 6 {
		t.Errorf("%d organizations always show, want 6", n)
	}
	if !strings.Contains(p.Body, `class="option hot "`) {
		t.Error("the option of an organization that cannot be told apart is hidden")
	}
	p.Approve("organization", "o124", "grant", "organization").Sent(pagetest.Callback)
}

func TestAssets(t *testing.T) {
	s := newSite(t)
	for name, kind := range map[string]string{"app.css": "text/css; charset=utf-8", "consent.js": "text/javascript; charset=utf-8", "mark.svg": "image/svg+xml"} {
		b := s.Browser()
		path := s.asset(name)
		stem, ext, _ := strings.Cut(name, ".")
		if !strings.HasPrefix(path, "/assets/"+stem+".") || !strings.HasSuffix(path, "."+ext) || strings.Count(path, ".") != 2 {
			t.Errorf("path %q", path)
		}
		p := b.Get(path).Want(200)
		for header, want := range map[string]string{"Content-Type": kind, "Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"} {
			if got := p.Header.Get(header); got != want {
				t.Errorf("%s: %s %q, want %q", name, header, got, want)
			}
		}
		b.Header.Set("Accept-Encoding", "gzip")
		if got := b.Get(path).Want(200); got.Body != p.Body || got.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: compressed, it is another", name)
		}
		b.Get("/assets/" + name).Want(404)
	}
	b := s.Browser()
	js := b.Get(s.asset("consent.js")).Body
	b.Header.Set("Accept-Encoding", "gzip")
	if packed := b.Get(s.asset("consent.js")).Header.Get("Content-Length"); len(js) > 6<<10 || len(packed) > 4 || packed > "2500" {
		t.Errorf("the script has %d bytes, %s compressed, want at most 6 KB and 2,500 bytes", len(js), packed)
	}
	css := b.Get(s.asset("app.css")).Body
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
		s.Do(s.Page(w, httptest.NewRequest("GET", s.At+"/dev/client", nil), http.StatusOK, "Test client", content,
			map[string]string{"Title": "Hello", "Text": "<b>"}))
		for _, want := range []string{"<title>Test client – Svalinn</title>", "<h1>Hello</h1>", "<p>&lt;b&gt;</p>", s.asset("app.css")} {
			if !strings.Contains(w.Body.String(), want) {
				t.Errorf("no %q in %s", want, w.Body)
			}
		}
		if got := w.Header().Get("Content-Security-Policy"); !strings.HasSuffix(got, "form-action 'self'") {
			t.Errorf("policy %q", got)
		}
	}
}

// asset finds the path of a file that the consent page fetches.
func (s *site) asset(name string) string {
	s.T.Helper()
	stem, ext, _ := strings.Cut(name, ".")
	path := regexp.MustCompile(`/assets/` + stem + `\.[0-9a-f]+\.` + ext).FindString(s.SignedIn("ada").Get(pagetest.Authorize()).Body)
	if path == "" {
		s.T.Fatalf("the consent page does not fetch %s", name)
	}
	return path
}

// Pages have the branding, by addresses of their own, and no inline style.
func TestBranding(t *testing.T) {
	s := newSite(t)
	plain := s.asset("app.css")
	const drawing = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 8 8"><rect width="8" height="8"/></svg>`
	s.Branding = page.Branding{Logo: []byte(drawing), Accent: "#7a1fa2", AccentDark: "#d8a8ee",
		Support: "mailto:help@svalinn.example", Links: []page.Link{{Name: "Impressum", URL: "https://svalinn.example/imprint"}}}
	s.Do(s.Branding.Check())
	s.Serve(s.Handler())
	p := s.Browser().Get("/signin").Want(200).Says("Help Impressum")
	logo := pagetest.Attr(p.All(atom.Img)[0], "src")
	if got := s.Browser().Get(logo).Want(200); got.Body != drawing || got.Header.Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(got.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("logo %s: %v", logo, got.Header)
	}
	for _, l := range p.All(atom.Link) {
		if pagetest.Attr(l, "rel") != "stylesheet" {
			continue
		}
		if pagetest.Attr(l, "href") == plain {
			t.Error("the stylesheet has the name of one without the branding")
		}
		css := s.Browser().Get(pagetest.Attr(l, "href")).Want(200).Body
		for _, want := range []string{"--accent:#7a1fa2;", "--accent:#d8a8ee;", ".card"} {
			if !strings.Contains(css, want) {
				t.Errorf("the stylesheet lacks %s", want)
			}
		}
	}
	if strings.Contains(p.Body, "style=") || strings.Contains(p.Body, "#7a1fa2") {
		t.Error("the page has style of its own")
	}
}

// many gives a person 300 roles in 25 circles of one organization.
func (s *site) many(roles int) {
	s.T.Helper()
	d := store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "mei", Email: "mei@storhavn.example", Name: "Mei Sato", Active: true}}},
		Organizations: []org.Organization{{ID: "storhavn", Name: "Storhavn Group", AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "mei", Organization: "storhavn"}, {Person: "mei", Organization: "nordlys"}},
	}
	for i := range roles {
		circle := "c" + strconv.Itoa(i/12)
		if i%12 == 0 {
			d.Circles = append(d.Circles, org.Circle{ID: circle, Organization: "storhavn", Name: "Circle " + strconv.Itoa(i/12)})
		}
		id := "r" + strconv.Itoa(i)
		d.Roles = append(d.Roles, org.Role{ID: id, Organization: "storhavn", Circle: circle, Name: "Role " + strconv.Itoa(i)})
		d.Fillers = append(d.Fillers, store.Filler{Role: id, Person: "mei"})
	}
	s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}))
}
