package consent

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	base     = "https://app.svalinn.example"
	callback = "https://connect.quill.example/callback"
	password = "demo-demo-demo"
	verifier = "a-verifier-of-43-characters-or-more-0123456789"
)

// passwordHash is made once: it costs 19 MiB.
var passwordHash = sync.OnceValue(func() string { return Hash(password) })

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// clock is the machine's, set by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// site is the door over a real store, with people in it.
type site struct {
	*Server
	t       testing.TB
	clock   *clock
	handler http.Handler
	place   store.Options
	base    string
	address string
	accept  string   // Accept-Language of browsers
	kept    []titled // by the service behind
	log     bytes.Buffer
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := openSite(t, store.Options{Path: filepath.Join(t.TempDir(), "grantkeeper.db")}, nil)
	s.furnish()
	return s
}

// onBothEngines runs a test with the places of new databases, SQLite's and
// PostgreSQL's.
func onBothEngines(t *testing.T, f func(t *testing.T, place func(*testing.T) store.Options)) {
	t.Run("SQLite", func(t *testing.T) {
		f(t, func(t *testing.T) store.Options {
			return store.Options{Path: filepath.Join(t.TempDir(), "grantkeeper.db")}
		})
	})
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	t.Run("PostgreSQL", func(t *testing.T) {
		f(t, func(t *testing.T) store.Options {
			t.Helper()
			at, err := pg.Schema()
			if err != nil {
				t.Fatal(err)
			}
			return store.Options{URL: at}
		})
	})
}

// openSite opens a node over the database of the options, with the clock of
// another one or its own, and puts nobody in.
func openSite(t testing.TB, at store.Options, other *clock) *site {
	t.Helper()
	s := &site{t: t, place: at, base: base, address: "203.0.113.9",
		clock: cmp.Or(other, &clock{now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)})}
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&s.log, nil))
	at.Ring, at.Now, at.Log = ring, s.clock.Now, log
	st, err := store.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	s.log.Reset() // of what it says of a new database
	s.Server = &Server{Store: st, Ring: ring, Log: log, Service: "Svalinn",
		Base:           func(*http.Request) string { return s.base },
		Address:        func(*http.Request) netip.Addr { return netip.MustParseAddr(s.address) },
		AuthorizeLimit: limit.NewAddresses(limit.Authorize, nil)}
	handler := s.Handler()
	s.handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "01JD7Q2M8Y") // as the outer handler does
		handler.ServeHTTP(w, r)
	})
	return s
}

func (s *site) furnish() {
	s.t.Helper()
	person := func(id, email, name string) store.DirectoryPerson {
		return store.DirectoryPerson{Person: org.Person{ID: id, Email: email, Name: name, Active: true}, PasswordHash: passwordHash()}
	}
	d := store.Directory{
		People: []store.DirectoryPerson{
			person("ada", "ada@nordlys.example", "Ada Lindqvist"),
			person("tor", "tor@nordlys.example", "Tor Haugen"),
			person("ola", "ola@havn.example", "Ola Berg"),
			person("eve", "eve@nowhere.example", "Eve Moen"),
		},
		Organizations: []org.Organization{
			{ID: "nordlys", Name: "Nordlys Cooperative", AIIntegration: true},
			{ID: "fjell", Name: "Fjell Foundation", AIIntegration: true},
			{ID: "havn", Name: "Havn Studio"},
		},
		Members: []store.DirectoryMember{
			{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "ada", Organization: "fjell"},
			{Person: "ada", Organization: "havn"}, {Person: "tor", Organization: "nordlys"},
			{Person: "ola", Organization: "havn", Admin: true},
		},
	}
	circle := func(o, id, parent, name string, roles ...string) {
		d.Circles = append(d.Circles, org.Circle{ID: id, Organization: o, Parent: parent, Name: name})
		for _, r := range roles {
			role := strings.ToLower(strings.NewReplacer(" ", "-", ":", "").Replace(r))
			d.Roles = append(d.Roles, org.Role{ID: role, Organization: o, Circle: id, Name: r})
			d.Fillers = append(d.Fillers, store.Filler{Role: role, Person: "ada"})
		}
	}
	circle("nordlys", "n:anchor", "", "Nordlys (anchor circle)", "Facilitator", "Circle Rep: Product", "Treasurer")
	circle("nordlys", "n:product", "n:anchor", "Product", "Roadmap Steward", "API Documentation", "Release Captain", "Customer Interviews")
	circle("nordlys", "n:people", "n:anchor", "People & Onboarding", "Buddy", "Workspace Host")
	circle("fjell", "f:grants", "", "Grants", "Reviewer", "Archive Keeper")
	d.Roles = append(d.Roles, org.Role{ID: "secretary", Organization: "nordlys", Circle: "n:anchor", Name: "Secretary"})
	d.Fillers = append(d.Fillers, store.Filler{Role: "secretary", Person: "tor"})
	s.do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}))
	s.register(client.Client{ID: "quill", Name: "Quill Assistant", RedirectURIs: []string{callback, "https://quill.example/x?a=b"}})
	s.register(client.Client{ID: "assistant", Name: "Assistant Connector", RedirectURIs: []string{"https://assistant.example/cb"}, Preregistered: true})
}

func (s *site) register(c client.Client) {
	s.t.Helper()
	c.IssuedAt = s.Store.Now().Add(-3 * time.Minute).Unix()
	s.do(s.Store.AddClient(context.Background(), c, store.Origin{}, store.Act{Actor: "system"}))
}

func (s *site) do(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) pass(d time.Duration) {
	s.clock.mu.Lock()
	defer s.clock.mu.Unlock()
	s.clock.now = s.clock.now.Add(d)
}

// request is an authorization request in order, with changes: name, value, ...
// An empty value takes the parameter out.
func request(changes ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {"quill"}, "redirect_uri": {callback}, "state": {"st"},
		"code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			q.Del(changes[i])
		}
	}
	return q
}

func authorize(changes ...string) string { return "/oauth/authorize?" + request(changes...).Encode() }

// browser has cookies, follows nothing by itself, and runs no script.
type browser struct {
	s       *site
	cookies map[string]string
	header  http.Header // sent with everything
}

func (s *site) browser() *browser {
	b := &browser{s: s, cookies: map[string]string{}, header: http.Header{}}
	if s.accept != "" {
		b.header.Set("Accept-Language", s.accept)
	}
	return b
}

// signedIn is the browser of somebody who is signed in.
func (s *site) signedIn(person string) *browser {
	s.t.Helper()
	b, value := s.browser(), newCookie()
	s.do(s.Store.Enter(context.Background(), store.Entry{Value: value, Person: person, Proof: identity.Proof{ProvedAt: s.Store.Now().Unix()}}, store.Act{Actor: "person:" + person}))
	b.cookies[b.cookieName("session")] = value
	return b
}

func (b *browser) cookieName(name string) string {
	if strings.HasPrefix(b.s.base, "https://") {
		return "__Host-" + name
	}
	return name
}

// shown is one answer.
type shown struct {
	t      testing.TB
	b      *browser
	status int
	header http.Header
	body   string
	doc    *html.Node
}

func (b *browser) send(method, target string, body io.Reader) *shown {
	b.s.t.Helper()
	r := httptest.NewRequest(method, b.s.base+target, body)
	for name, values := range b.header {
		r.Header[name] = values
	}
	if body != nil && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.s.handler.ServeHTTP(w, r)
	res := w.Result()
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	text := w.Body.Bytes()
	if res.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(text))
		b.s.do(err)
		text, err = io.ReadAll(z)
		b.s.do(err)
	}
	doc, err := html.Parse(bytes.NewReader(text))
	b.s.do(err)
	return &shown{t: b.s.t, b: b, status: res.StatusCode, header: res.Header, body: string(text), doc: doc}
}

func (b *browser) get(target string) *shown { b.s.t.Helper(); return b.send("GET", target, nil) }

func (b *browser) post(target string, form url.Values) *shown {
	b.s.t.Helper()
	return b.send("POST", target, strings.NewReader(form.Encode()))
}

func (p *shown) want(status int) *shown {
	p.t.Helper()
	if p.status != status {
		p.t.Fatalf("status %d, want %d: %s %s", p.status, status, p.header.Get("Location"), p.text())
	}
	return p
}

// follow goes where a 303 leads on this server.
func (p *shown) follow() *shown {
	p.t.Helper()
	p.want(http.StatusSeeOther)
	to := p.header.Get("Location")
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") {
		p.t.Fatalf("leads to %q, not to a path here", to)
	}
	return p.b.get(to)
}

// sent gives the parameters of a 303 to the client.
func (p *shown) sent(to string) url.Values {
	p.t.Helper()
	p.want(http.StatusSeeOther)
	location := p.header.Get("Location")
	rest, ok := strings.CutPrefix(location, to)
	if !ok || rest == "" || rest[0] != '?' && rest[0] != '&' {
		p.t.Fatalf("leads to %q, want %q and parameters", location, to)
	}
	q, err := url.ParseQuery(rest[1:])
	if err != nil {
		p.t.Fatal(err)
	}
	return q
}

// says requires texts of the page, white space as a reader sees it.
func (p *shown) says(texts ...string) *shown {
	p.t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.text(), text) {
			p.t.Errorf("the page does not say %q: %s", text, p.text())
		}
	}
	return p
}

func (p *shown) text() string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data)
		}
		if n.Type == html.ElementNode && slices.Contains([]string{"p", "h1", "h2", "h3", "li", "dd", "dt", "div", "label", "legend", "summary", "title", "td", "th"}, n.Data) {
			b.WriteString(" ")
		}
		if n.Type == html.ElementNode && (n.Data == "br" || n.Data == "script") {
			return
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(p.doc)
	return strings.Join(strings.Fields(b.String()), " ")
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// within gives an attribute of the nearest element around a node, or of itself.
func within(n *html.Node, name string) string {
	for ; n != nil; n = n.Parent {
		if value := attr(n, name); value != "" {
			return value
		}
	}
	return ""
}

func has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

func (p *shown) all(element atom.Atom) []*html.Node {
	var out []*html.Node
	for n := range p.doc.Descendants() {
		if n.Type == html.ElementNode && n.DataAtom == element {
			out = append(out, n)
		}
	}
	return out
}

// fill gives what a browser would send of the form with this action, without
// a button.
func (p *shown) fill(action string) url.Values {
	p.t.Helper()
	form := url.Values{}
	for n := range p.form(action).Descendants() {
		switch kind := attr(n, "type"); {
		case n.DataAtom != atom.Input || attr(n, "name") == "":
		case (kind == "radio" || kind == "checkbox") && !has(n, "checked"):
		default:
			form.Add(attr(n, "name"), attr(n, "value"))
		}
	}
	return form
}

// form gives the first form with this action.
func (p *shown) form(action string) *html.Node {
	p.t.Helper()
	for _, f := range p.all(atom.Form) {
		if attr(f, "action") == action {
			return f
		}
	}
	p.t.Fatalf("no form posts to %q: %s", action, p.text())
	return nil
}

// press sends the form with fields changed: name, value, ...
func (p *shown) press(action string, changes ...string) *shown {
	p.t.Helper()
	form := p.fill(action)
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			form.Del(changes[i])
		}
	}
	return p.b.post(action, form)
}

// approve presses Approve with everything in an organization.
func (p *shown) approve(changes ...string) *shown {
	p.t.Helper()
	return p.press("/oauth/authorize", append([]string{"organization", "nordlys", "grant", "everything", "decision", "approve"}, changes...)...)
}

func (p *shown) cancel() *shown {
	p.t.Helper()
	return p.press("/oauth/authorize", "decision", "cancel")
}

// claim opens a code as the token endpoint does.
func (s *site) claim(code string) token.Claim {
	s.t.Helper()
	c, ok := s.Ring.Read(token.Code, code)
	if !ok {
		s.t.Fatalf("%q is no code", code)
	}
	return c
}

// exchange does what the token endpoint does with a code.
func (s *site) exchange(code string) approval.Verdict {
	s.t.Helper()
	c := s.claim(code)
	_, v, err := s.Store.Apply(context.Background(), approval.ID(c.Handle.ID()),
		approval.Exchange("quill", s.base, callback, verifier, c.Time, 1, s.Store.Now()), store.Act{Actor: "client:quill"})
	s.do(err)
	return v
}

func (s *site) approvals(person string) []store.ApprovalRow {
	s.t.Helper()
	rows, _, err := s.Store.Approvals(context.Background(), store.ApprovalFilter{Person: person, Limit: 1000})
	s.do(err)
	return rows
}

// nothing requires that the person has approved nothing.
func (s *site) nothing(person string) {
	s.t.Helper()
	if rows := s.approvals(person); len(rows) != 0 {
		s.t.Errorf("%d approvals, want none", len(rows))
	}
}

// events waits for an entry of the journal: they are written behind the answer.
func (s *site) event(kind string) store.Event {
	s.t.Helper()
	s.do(s.Store.Ready(context.Background())) // written after what was queued
	events, _, err := s.Store.Events(context.Background(), store.EventFilter{Kind: kind})
	s.do(err)
	if len(events) == 0 {
		s.t.Fatalf("no event %s", kind)
	}
	return events[0]
}

// many gives a person 300 roles in 25 circles of one organization.
func (s *site) many(roles int) {
	s.t.Helper()
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
	s.do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}))
}
