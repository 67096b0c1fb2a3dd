package console

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/metrics"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const password = "a password of tests"

// An office is the operators' listener over a real store.
type office struct {
	*testing.T
	*pagetest.Site
	api     *operator.Server
	handler http.Handler
}

// withConsole is an office whose console has all that it can have, a client
// with a living approval of each of two people, and one that nobody approved.
func withConsole(t *testing.T) (o *office, live string) {
	t.Helper()
	o = &office{T: t, Site: pagetest.Open(t, pagetest.NewPlace(t), nil)}
	o.Do(o.Store.AddDirectory(t.Context(), store.Directory{
		People: []store.DirectoryPerson{
			{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}},
			{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
		},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "tor", Organization: "nordlys"}},
		Circles:       []org.Circle{{ID: "circle", Organization: "nordlys", Name: "Circle"}},
		Roles:         []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "circle", Name: "Treasurer"}},
	}, store.Act{Actor: "system"}))
	o.api = &operator.Server{
		Store: o.Store, OwnHosts: func() []string { return nil }, Password: func() string { return password }, Version: operator.Version{Version: "9.9.9"},
		Metrics: metrics.New(metrics.Build{}, o.Store.Now),
	}
	o.console(&Server{})
	for _, id := range []string{"quill", "idle"} {
		c := client.Client{ID: id, Name: "Name of quill", RedirectURIs: []string{"https://a.example/cb"}, IssuedAt: o.Store.Now().Unix()}
		if id == "idle" {
			c.Name, c.RedirectURIs = "", []string{"https://one.example/cb", "https://two.example:8443/cb"}
		}
		o.Do(o.Store.AddClient(t.Context(), c, store.Origin{}, store.Act{Address: "192.0.2.44"}))
	}
	live = o.live("quill", "ada", grantset.Set{Kind: grantset.Organization})
	o.live("quill", "tor", grantset.Set{Kind: grantset.Everything})
	return o, live
}

// console puts a console into the office.
func (o *office) console(s *Server) {
	s.API, s.Service = o.api, "Svalinn"
	s.Hosts = func() []string { return []string{"https://app.svalinn.example", "https://eu.svalinn.example"} }
	o.api.Console = s.Router()
	o.handler = o.api.Handler()
}

// live gives an exchanged approval of a person, and its ID.
func (o *office) live(clientID, person string, set grantset.Set) string {
	o.Helper()
	var seed token.Handle
	copy(seed[:], clientID+person+string(set.Kind))
	h, issued, err := o.Store.Approve(o.Context(), store.Answer{
		Handle: func(uint32) token.Handle { return seed },
		Client: clientID, Person: person, Organization: "nordlys", Grant: set,
		RedirectURI: "https://a.example/cb", Issuer: "https://svalinn.example", Challenge: pagetest.Challenge(),
	}, store.Act{Actor: "person:" + person})
	o.Do(err)
	move := approval.Exchange(clientID, "https://svalinn.example", "https://a.example/cb", pagetest.Verifier, issued, 1, o.Store.Now())
	_, verdict, err := o.Store.Apply(o.Context(), h.ID(), move, store.Act{})
	if o.Do(err); verdict != approval.OK {
		o.Fatalf("exchange: %v", verdict)
	}
	return approval.ID(h.ID()).String()
}

// asked gives what the API answers.
func (o *office) asked(method, path, body string) (members map[string]any) {
	o.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, strings.NewReader(body))
	r.SetBasicAuth(operator.User, password)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	o.handler.ServeHTTP(w, r)
	if err := json.Unmarshal(w.Body.Bytes(), &members); err != nil || w.Code != 200 {
		o.Fatalf("%s: %d %v: %s", path, w.Code, err, w.Body)
	}
	return members
}

// A seen is a page that came.
type seen struct {
	*testing.T
	o    *office
	code int
	head http.Header
	body string
	root *html.Node
}

func (o *office) page(path string, change ...func(*http.Request)) *seen {
	o.Helper()
	return o.visit("GET", path, nil, change...)
}

func (o *office) visit(method, path string, form url.Values, change ...func(*http.Request)) *seen {
	o.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, strings.NewReader(form.Encode()))
	r.SetBasicAuth(operator.User, password)
	if method == "POST" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "reference-of-test")
	o.handler.ServeHTTP(w, r)
	p := &seen{T: o.T, o: o, code: w.Code, head: w.Header(), body: w.Body.String()}
	var err error
	if p.root, err = html.Parse(strings.NewReader(p.body)); err != nil {
		o.Fatal(err)
	}
	return p
}

func (p *seen) want(status int) *seen {
	p.Helper()
	if p.code != status {
		p.Fatalf("%d, want %d: %s", p.code, status, p.body)
	}
	return p
}

func (p *seen) says(texts ...string) *seen {
	p.Helper()
	got := p.text()
	for _, text := range texts {
		if !strings.Contains(got, text) {
			p.Errorf("no %q in %q", text, got)
		}
	}
	return p
}

func (p *seen) saysNot(texts ...string) *seen {
	p.Helper()
	for _, text := range texts {
		if strings.Contains(p.text(), text) {
			p.Errorf("%q in %q", text, p.text())
		}
	}
	return p
}

// text is what a person reads, with single spaces and without quotation marks.
func (p *seen) text() string {
	var b strings.Builder
	for n := range p.root.Descendants() {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(strings.NewReplacer("“", "", "”", "").Replace(b.String())), " ")
}

func (p *seen) all(name string) (nodes []*html.Node) {
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// strange reports whether a page has a style, or a script other than the one that
// tells the zone, which is ours.
func (p *seen) strange() bool {
	scripts := p.all("script")
	return len(p.all("style")) > 0 || len(scripts) != 1 || !strings.HasPrefix(attribute(scripts[0], "src"), "/assets/zone.") || scripts[0].FirstChild != nil
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// press posts the page's form with other values in it.
func (p *seen) press(path string, values ...string) *seen {
	p.Helper()
	form := url.Values{}
	for _, n := range append(p.all("input"), p.all("textarea")...) {
		form.Set(attribute(n, "name"), attribute(n, "value"))
	}
	for i := 0; i < len(values); i += 2 {
		form.Set(values[i], values[i+1])
	}
	return p.o.visit("POST", path, form)
}

// Every page has the headers of ux 2.1, one h1, a title, labels, and nothing
// that its policy forbids.
func TestConsolePages(t *testing.T) {
	o, live := withConsole(t)
	for path, title := range map[string]string{
		"/": "Overview", "/?range=1h": "Overview", "/?range=7d": "Overview", "/?range=30d": "Overview", "/clients": "Clients",
		"/clients/idle": "Client idle", "/clients/idle/disable": "Disable a client?", "/clients/idle/enable": "Enable a client?",
		"/approvals": "Approvals", "/approvals?person=nobody": "Approvals", "/approvals/" + live + "/revoke": "Revoke an approval?",
		"/events": "Events", "/events?kind=client_registered&range=24h": "Events", "/clients/nobody": "Not possible", "/clients?x=1": "Not possible",
	} {
		p := o.page(path)
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
			"X-Frame-Options":         "DENY", "Referrer-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Cross-Origin-Opener-Policy": "same-origin", "X-Robots-Tag": "noindex", "Vary": "Cookie, Accept-Language", "Content-Type": "text/html; charset=utf-8",
		} {
			if got := p.head.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if got := p.all("title")[0].FirstChild.Data; got != title+" – Operator – Svalinn" {
			t.Errorf("%s: title %q", path, got)
		}
		if len(p.all("h1")) != 1 || len(p.all("main")) != 1 || attribute(p.all("html")[0], "lang") != "en" || p.strange() {
			t.Errorf("%s: headings, landmarks, scripts or styles", path)
		}
		ids, labels := map[string]bool{}, map[string]bool{}
		for _, n := range p.all("label") {
			labels[attribute(n, "for")] = true
		}
		for n := range p.root.Descendants() {
			id := attribute(n, "id")
			if id != "" && ids[id] || attribute(n, "style") != "" {
				t.Errorf("%s: %s comes twice, or has a style", path, id)
			}
			ids[id] = true
			if (n.Data == "input" && attribute(n, "type") != "hidden" || n.Data == "select" || n.Data == "textarea") && !labels[id] {
				t.Errorf("%s: %s has no label", path, id)
			}
		}
	}
	links := o.page("/").all("link")
	icon, css := httptest.NewRecorder(), httptest.NewRecorder()
	o.handler.ServeHTTP(icon, httptest.NewRequest("GET", attribute(links[0], "href"), nil))
	if icon.Code != 200 || icon.Header().Get("Content-Type") != "image/svg+xml" || icon.Body.String() != string(page.Icon()) {
		t.Errorf("icon: %d %v", icon.Code, icon.Header())
	}
	o.handler.ServeHTTP(css, httptest.NewRequest("GET", attribute(links[1], "href"), nil))
	if css.Code != 200 || css.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" || !strings.HasPrefix(css.Body.String(), string(page.Stylesheet())) || !strings.Contains(css.Body.String(), ".tile") {
		t.Errorf("style: %d %v", css.Code, css.Header())
	}
	asset := httptest.NewRequest("GET", "/assets/console.css", nil) // whose log line has the pattern alone
	if o.handler.ServeHTTP(httptest.NewRecorder(), asset); asset.Pattern != "/assets/" {
		t.Errorf("pattern %q", asset.Pattern)
	}
	if w := o.page("/assets/console.css"); w.code != 404 {
		t.Errorf("another name: %d", w.code)
	}
}

// Nobody sees the console without the password, or where there is none, or
// posts to it from another site.
func TestConsoleIsClosed(t *testing.T) {
	o, live := withConsole(t)
	wrong := func(r *http.Request) { r.SetBasicAuth(operator.User, "wrong") }
	for _, path := range []string{"/", "/clients", "/clients/quill", "/clients/quill/disable", "/approvals", "/events", "/events.jsonl", "/clients/x/y/z"} {
		p := o.page(path, wrong).want(401).says("Sign in as operator").saysNot("quill", "Ada")
		if !strings.HasPrefix(p.head.Get("WWW-Authenticate"), "Basic ") {
			t.Errorf("%s: no challenge", path)
		}
	}
	confirm := o.page("/clients/quill/disable").want(200)
	token := attribute(slices.DeleteFunc(confirm.all("input"), func(n *html.Node) bool { return attribute(n, "name") != "csrf" })[0], "value")
	if again := o.page("/clients/quill/disable").want(200); strings.Contains(again.body, token) || strings.Contains(again.body, token[22:]) {
		t.Error("two pages repeat one form token")
	}
	good := url.Values{"csrf": {token}, "reason": {"x"}}
	for name, p := range map[string]*seen{
		"no token":          o.visit("POST", "/clients/quill/disable", url.Values{"reason": {"x"}}),
		"token of a path":   o.visit("POST", "/clients/idle/disable", good),
		"token of another":  o.visit("POST", "/approvals/"+live+"/revoke", good),
		"cross-site":        o.visit("POST", "/clients/quill/disable", good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }),
		"same site":         o.visit("POST", "/clients/quill/disable", good, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-site") }),
		"another origin":    o.visit("POST", "/clients/quill/disable", good, func(r *http.Request) { r.Header.Set("Origin", "https://evil.example") }),
		"no password":       o.visit("POST", "/clients/quill/disable", good, wrong),
		"a form of no kind": o.visit("POST", "/clients/quill/disable", good, func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }),
	} {
		if p.code < 400 || p.code > 403 {
			t.Errorf("%s: %d", name, p.code)
		}
	}
	good.Set("reason", strings.Repeat("x", 64<<10))
	o.visit("POST", "/clients/quill/disable", good).want(400)
	good.Set("reason", "x")
	o.visit("POST", "/clients/quill/disable", good, func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	}).want(400)
	for _, path := range []string{"/clients/quill/nothing", "/clients/quill/disable/x", "/clients/quill/"} {
		o.page(path).want(404)
	}
	o.visit("POST", "/clients", good).want(405)
	if got := o.asked("GET", "/v1/clients/quill", "")["state"]; got != "approved" {
		t.Errorf("the client is %v", got)
	}
	o.api.Password = func() string { return "" }
	o.page("/").want(404).says("operator.password_file")
}

func TestConsoleDisablesAndEnables(t *testing.T) {
	o, live := withConsole(t)
	ask := o.page("/clients/quill/disable").want(200).
		says("Disable Name of quill ?", "2 approvals of 2 people in 1 organization end at once. They do not come back when you enable it again.", "Kept in the event.", "Keep it")
	ask.press("/clients/quill/disable").want(422).says("Say why. It is kept in the event.")
	ask.press("/clients/quill/disable", "reason", " \n ").want(422)
	ask.press("/clients/quill/disable", "reason", strings.Repeat("x", 1001)).want(422).says("too long")
	done := ask.press("/clients/quill/disable", "reason", "imitates\r\nus").want(303)
	o.page(done.head.Get("Location")).want(200).says("Name of quill is disabled. Its approvals have ended.", "Disabled", "imitates us", "by an operator", "None that lives.")
	if got := o.asked("GET", "/v1/approvals/"+live, "")["reason"]; got != "client_disabled" {
		t.Errorf("the approval ended as %v", got)
	}
	events := o.asked("GET", "/v1/events?kind=client_disabled", "")["items"].([]any)
	if e := events[0].(map[string]any); len(events) != 1 || e["actor"] != operator.User || e["reason"] != "imitates us" || e["reference"] != "reference-of-test" {
		t.Errorf("events %v", events)
	}
	again := o.page("/clients/quill/enable").want(200).says("New approvals become possible. Ended ones stay ended.").press("/clients/quill/enable", "reason", "a mistake").want(303)
	o.page(again.head.Get("Location")).says("is enabled. New approvals are possible. Ended ones stay ended.")
	if p := o.page("/clients/quill?done=disabled").want(200); strings.Contains(p.text(), "is disabled.") {
		t.Error("an address from before says that the client is disabled")
	}
	o.page("/clients/idle/disable").says("Disable the client without a name at one.example ?", "It has no living approval.")
}

func TestConsoleRevokes(t *testing.T) {
	o, live := withConsole(t)
	at := "/approvals/" + live + "/revoke"
	ask := o.page(at).want(200).says(`Name of quill stops working for Ada in Nordlys at once.`)
	ask.press(at).want(422)
	done := ask.press(at, "reason", "lost device").want(303)
	o.page(done.head.Get("Location")).want(200).says("The approval is revoked.", "revoked by operator", "Everything in this organization")
	o.page("/clients?q=quill").says("Name of quill a.example Approved 1")
	tor := o.asked("GET", "/v1/approvals?person=tor", "")["items"].([]any)[0].(map[string]any)["id"].(string)
	id, err := approval.ParseID(tor)
	if err != nil {
		t.Fatal(err)
	}
	o.Store.Used(id)
	if err := o.Store.Ready(t.Context()); err != nil { // written behind that
		t.Fatal(err)
	}
	o.asked("POST", "/v1/approvals/"+tor+"/revoke", `{"reason":"x"}`)
	// What nobody's approval gives any more was used all the same.
	for _, path := range []string{"/", "/clients"} {
		o.page(path).says("Name of quill a.example Approved before 0").says("in this hour")
	}
	o.page("/clients/quill").says("Approved before", "Last used in this hour")
	if got := o.asked("GET", "/v1/approvals/"+live, ""); got["reason"] != "revoked_by_operator" {
		t.Errorf("%v", got)
	}
	ask.press(at, "reason", "twice").want(303) // it has ended: nothing to do
	for _, id := range []string{"x", strings.Repeat("0", 32), strings.ToUpper(live)} {
		o.page("/approvals/" + id + "/revoke").want(404)
	}
	o.Pass(91 * 24 * time.Hour)
	if _, err := o.Store.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	o.page("/clients/quill").says("Approved before", "Last used not in 90 days")
}

func TestConsoleLists(t *testing.T) {
	o, live := withConsole(t)
	o.page("/clients").says("Name of quill", "a.example", "Approved", "(no name)", "one.example", "Registered", "today", "never")
	o.page("/clients?q=two.example").says("(no name)").saysNot("quill")
	o.page("/clients?q=&state=disabled").says("No client matches.")
	o.page("/clients?state=x").want(400)
	o.page("/clients/idle").says("https://two.example:8443/cb", "from 192.0.2.44", "None that lives.")
	o.page("/clients/quill").says("2 approvals of 2 people", "Nordlys", "Connected")
	o.live("quill", "tor", grantset.Set{Kind: grantset.Roles, Personal: true, Picks: []grantset.Pick{{Role: "facilitator"}, {Role: "r2"}, {Role: "secretary"}, {Role: "treasurer", Change: true}}})
	o.page("/approvals?grant=roles").says("Selected roles: Treasurer (change), facilitator (read), r2 (read) and 1 more; personal items included")
	o.page("/approvals").says("Ada", "Tor", "Everything in this organization", "Everything they can access", "Live", "Nordlys")
	o.page("/approvals?person=ada@nordlys.example").says("Ada").saysNot("Tor ")
	o.page("/approvals?grant=everything&state=live").says("Tor").saysNot("Ada ")
	o.page("/approvals?organization=nowhere").want(200).says("No person, or no organization, has this name.")
	o.page("/approvals?state=x").want(400)
	o.page("/events?kind=client_registered").says("Client registered", "192.0.2.44").saysNot("Approved Ada")
	o.Store.Record(store.Event{Kind: "restored", Actor: operator.User, Address: "192.0.2.45", Reason: "yearly"})
	if err := o.Store.Ready(t.Context()); err != nil { // written behind what was recorded
		t.Fatal(err)
	}
	o.page("/").says(", from 192.0.2.45 : yearly")
	o.page("/events?reference=none-such").says("No event matches.")
	o.page("/events?person=nobody").want(200).says("No person has this email or ID.")
	o.page("/events?range=2h").want(400)
	o.page("/events?after=x").want(400)
	o.page("/events?kind=%00").want(400)

	// Pages follow each other without a gap, and keep the filter.
	seen := 0
	for path := "/events?limit=3&organization=nordlys"; path != ""; {
		p := o.page(path).want(200)
		seen += len(p.all("tr")) - 1
		path = ""
		for _, n := range p.all("a") {
			if n.FirstChild != nil && n.FirstChild.Data == "Next" {
				path = attribute(n, "href")
			}
		}
		if path != "" && !strings.Contains(path, "organization=nordlys") {
			t.Fatalf("next is %s", path)
		}
	}
	all := o.asked("GET", "/v1/events?organization=nordlys", "")["items"].([]any)
	if seen != len(all) || seen < 4 {
		t.Errorf("%d events on pages, %d in the list", seen, len(all))
	}
	lines := o.page("/events.jsonl?organization=nordlys").want(200)
	if got := strings.Count(lines.body, "\n"); got != len(all) || lines.head.Get("Content-Type") != "application/jsonl" || !strings.Contains(lines.body, live) {
		t.Errorf("%d lines for %d events: %v", got, len(all), lines.head)
	}
	o.page("/events.jsonl?range=x").want(400)
	o.page("/events.jsonl?person=nobody").want(404)
	o.Do(o.Store.Close())
	o.page("/").want(503)
	o.page("/clients").want(503)
}

func TestConsoleOverview(t *testing.T) {
	o, live := withConsole(t)
	m := o.api.Metrics
	p := o.page("/").want(200).says("app.svalinn.example and 1 more", "v9.9.9", "Healthy", "Approvals 2 24 h · 0 cancelled", "Refreshes 0 24 h · 2 active approvals",
		"Refusals 0 24 h", "Rate-limit hits 0 24 h", "Counted since today", "Clients Most used, of 2", "Name of quill", "None in the last 24 hours.", "Times are in UTC.")
	p.saysNot("because an old refresh token came back")
	for range 3 {
		m.OAuth("token", "ok", "refresh_token")
	}
	m.OAuth("token", "invalid_grant", "reused")
	m.OAuth("token", "invalid_request", "")
	m.OAuth("token", "invalid_grant", "over")
	m.Limited("register")
	for _, e := range []store.Event{
		{Kind: "rate_limited", Address: "203.0.113.7", Detail: "/oauth/register"},
		{Kind: "refresh_reused", Client: "quill", Person: "tor", Organization: "nordlys", Approval: live},
		{Kind: "refresh_reused", Client: "drill.a", Person: "ada"},
		{Kind: "approval_cancelled", Client: "drill.a", Person: "ada"},
		{Kind: "approval_cancelled", Client: "quill", Person: "tor"},
	} {
		o.Store.Record(e)
	}
	if err := o.Store.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	p = o.page("/").says("1 approval ended in the last 24 hours because an old refresh token came back. Look at the event",
		"Approvals 2 24 h · 1 cancelled", "Refreshes 3 24 h", "peak 3/h", "Refusals 3 24 h · mostly invalid_grant (2)", "Rate-limit hits 1 24 h · 1 address: 203.0.113.7",
		"Refresh token used again", "Name of quill , Tor in Nordlys . All its tokens ended.", "Rate limit")
	p.saysNot("drill")
	o.page("/events?kind=refresh_reused&drills=no").says("Events without those of drills").saysNot("drill.a")
	all := o.page("/events?kind=refresh_reused").says("Refresh token used again in a drill", "drill.a")
	if strings.Count(all.body, `class="kind bad"`) != 1 || !strings.Contains(all.body, `href="/events?client=drill.a"`) {
		t.Errorf("a drill in red, or a client that is gone linked to its page: %s", all.body)
	}
	o.page("/events?drills=x").want(400)
	for path, want := range map[string]int{"/v1/events?kind=refresh_reused": 2, "/v1/events?kind=refresh_reused&drills=no": 1} {
		if got := o.asked("GET", path, "")["items"].([]any); len(got) != want {
			t.Errorf("%s: %v", path, got)
		}
	}
	charts := 0
	for _, n := range p.all("svg") {
		if attribute(n, "role") == "img" {
			charts++
			if label := attribute(n, "aria-label"); !strings.Contains(label, " in 24 hours: ") {
				t.Errorf("a chart says %q", label)
			}
		}
	}
	if charts != 4 || len(p.all("details")) != 4 || len(p.all("rect")) != 4 {
		t.Errorf("%d charts, %d tables, %d bars", charts, len(p.all("details")), len(p.all("rect")))
	}
	o.page("/?range=7d").says("in the last 7 days", "Approvals 2 7 d")
	o.page("/?range=1y").want(400)
	// A day later it is not of today any more, and what is counted since the
	// start is counted for the whole range.
	o.Pass(49 * time.Hour)
	o.page("/").says("Approvals 0 24 h", "None in the last 24 hours.").saysNot("came back", "Counted since")
	o.page("/?range=7d").says("Approvals 2 7 d", "Counted since")
	o.api.Draining = func() bool { return true }
	o.page("/").want(200).says("Degraded: the server is draining").saysNot("Healthy")
	o.api.Draining = nil
	// Without metrics there is one number fewer than four.
	o.api.Metrics = nil
	o.handler = o.api.Handler()
	o.page("/").want(200).saysNot("Refreshes")
}

// What others wrote is text, whatever it is (case F-12).
func TestConsoleEscapes(t *testing.T) {
	o, _ := withConsole(t)
	const polyglot = `"'><img src=x onerror=alert(1)>{{.}}</textarea></script>`
	hostile := client.Client{ID: "hostile", Name: polyglot, RedirectURIs: []string{"https://a.example/?" + url.QueryEscape(polyglot)}, IssuedAt: o.Store.Now().Unix()}
	if err := o.Store.AddClient(t.Context(), hostile, store.Origin{}, store.Act{Address: polyglot, Reference: polyglot}); err != nil {
		t.Fatal(err)
	}
	o.live("hostile", "tor", grantset.Set{Kind: grantset.Everything})
	o.Store.Record(store.Event{Kind: polyglot, Client: "hostile", Person: polyglot, Organization: polyglot, Actor: "person:" + polyglot, Address: polyglot, Reason: polyglot, Detail: polyglot, Reference: polyglot})
	if err := o.Store.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	query := url.QueryEscape(polyglot)
	for _, path := range []string{
		"/", "/clients", "/clients/hostile", "/clients/hostile/disable", "/approvals", "/events", "/clients?q=" + query,
		"/approvals?person=" + query, "/events?kind=" + query, "/events?client=" + query, "/clients/" + query,
	} {
		p := o.page(path)
		if len(p.all("img")) > 0 || p.strange() || strings.Contains(p.body, "<img") || p.code >= 500 {
			t.Errorf("%s: %d %s", path, p.code, p.body)
		}
	}
	p := o.page("/clients/hostile/disable")
	if p := p.press("/clients/hostile/disable", "reason", polyglot+"\x00"); p.code != 422 || len(p.all("img")) > 0 || p.all("textarea")[0].FirstChild.Data != polyglot+"\ufffd" {
		t.Errorf("%d %s", p.code, p.body)
	}
}

func TestSpansAndBars(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 31, 0, 0, time.UTC)
	for _, s := range spans {
		if s.length() < time.Hour || len(s.chart(tile{}, s.begin(now), make([]uint64, s.bars), time.UTC).Rows) != s.bars {
			t.Errorf("%+v", s)
		}
	}
	day, _ := spanNamed("")
	counts := make([]uint64, 24)
	counts[0], counts[23], counts[10] = 1, 250, 1000
	got := day.chart(tile{Title: "Things"}, day.begin(now), counts, time.UTC)
	if got.Total != "1,251" || got.Peak != "peak 1,000/h" || got.First != "15:00" || got.Last != "14:00" || got.Rows[10] != (tileRow{"01:00", "1,000"}) ||
		got.Summary != "Things in 24 hours: 1,251, at most 1,000 per h, at 01:00." ||
		!slices.Equal(got.Bars, []bar{{1, 59, 8, 1}, {101, 0, 8, 60}, {231, 45, 8, 15}}) {
		t.Errorf("%+v", got)
	}
	week, _ := spanNamed("7d")
	if got := week.chart(tile{Title: "Things"}, week.begin(now), make([]uint64, 28), time.UTC); got.Summary != "Things in 7 days: none." || got.Peak != "" || got.First != "14 Nov 18:00" || got.Last != "21 Nov 12:00" || len(got.Bars) != 0 {
		t.Errorf("%+v", got)
	}
	units := map[string]string{"1h": "3 min", "24h": "h", "7d": "6 h", "30d": "day"}
	for _, s := range spans {
		if s.unit() != units[s.Name] {
			t.Errorf("%s per %s", s.Name, s.unit())
		}
	}
	for ago, want := range map[time.Duration]string{0: "in this hour", 90 * time.Minute: "1 hour ago", 47 * time.Hour: "47 hours ago", 96 * 24 * time.Hour: "96 days ago"} {
		if got := lastUsed(now.Add(-ago).Unix(), now).Text; got != want {
			t.Errorf("used %s ago: %s", ago, got)
		}
	}
	for ago, want := range map[time.Duration]string{0: "today 14:31", 15 * time.Hour: "yesterday 23:31", 72 * time.Hour: "18 Nov 2026"} {
		if got := onDay(now.Add(-ago).Unix(), now).Text; got != want {
			t.Errorf("%s ago: %s", ago, got)
		}
	}
}

// Links to more of a list keep its filter, and nothing that was left empty.
func TestLinks(t *testing.T) {
	v := &visit{Call: operator.Call{Request: httptest.NewRequest("GET", "/events?kind=&limit=3&after=old&organization=nordlys", nil)}}
	if got := v.link("/events", "next"); got != "/events?after=next&limit=3&organization=nordlys" {
		t.Errorf("next page: %s", got)
	}
	if got := v.link("/events", ""); got != "" {
		t.Errorf("at the end: %s", got)
	}
	if got := v.query("after", "limit").Encode(); got != "organization=nordlys" {
		t.Errorf("all of it: %s", got)
	}
}

// Paths that are not the console's are left to the API, which answers in JSON.
func TestRouter(t *testing.T) {
	o, _ := withConsole(t)
	for path, want := range map[string]bool{
		"/": true, "/clients": true, "/clients/x/y": true, "/approvals": true, "/events": true, "/events.jsonl": true, "/assets/": true, "/assets/x.css": true,
		"/assets": false, "//": false, "/client": false, "/metrics": false, "/readyz": false, "/favicon.ico": false,
	} {
		if got := o.api.Console(path) != nil; got != want {
			t.Errorf("%s: %t", path, got)
		}
	}
	if p := o.page("/favicon.ico").want(404); p.head.Get("Content-Type") != "application/json" {
		t.Errorf("%v", p.head)
	}
}
