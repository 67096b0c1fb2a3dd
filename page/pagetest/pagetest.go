// Package pagetest serves the pages of a door over a real store with people in
// it, and has browsers without script to visit them. Its helpers fail by themselves.
package pagetest

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/token"
)

const (
	Base     = "https://app.svalinn.example"
	Callback = "https://connect.quill.example/callback"
	Password = "demo-demo-demo"
	Verifier = "a-verifier-of-43-characters-or-more-0123456789"
)

// PasswordHash is of password.
const PasswordHash = "$argon2id$v=19$m=19456,t=2,p=1$PYxEDZe3taakV7Exz7UTGA$DHjbSF+RWGBKIow5K3HJ3H7l8tPUqaol1xffsYxxObY"

// Challenge is that of the verifier.
func Challenge() string {
	sum := sha256.Sum256([]byte(Verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Clock is the machine's, set by tests.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now is what the test has set.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Site is the pages over a real store, with people in it. Whoever tests a door
// serves it there.
type Site struct {
	Store *store.Store
	Ring  *token.Ring
	Pages *page.Site

	T       testing.TB
	Clock   *Clock
	Answers http.Handler
	Place   store.Options
	At      string
	From    string
	Accept  string // Accept-Language of browsers
	Logged  bytes.Buffer
}

// OnBothEngines runs a test with the places of new databases, SQLite's and
// PostgreSQL's.
func OnBothEngines(t *testing.T, f func(t *testing.T, place func(*testing.T) store.Options)) {
	t.Run("SQLite", func(t *testing.T) {
		f(t, func(t *testing.T) store.Options {
			return NewPlace(t)
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
			return store.Options{URL: at, AttemptsKeep: store.AttemptsKeep, AttemptsMax: store.AttemptsMax, ActivityKeep: activity.Keep}
		})
	})
}

// Open opens a node over the database of the options, with the Clock of
// another one or its own, and puts nobody in.
func Open(t testing.TB, at store.Options, other *Clock) *Site {
	t.Helper()
	s := &Site{T: t, Place: at, At: Base, From: "203.0.113.9",
		Clock: cmp.Or(other, &Clock{now: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)})}
	var err error
	if s.Ring, err = token.NewRing("sv", 1, token.NewKey(1, [32]byte{1})); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(&s.Logged, nil))
	at.Ring, at.Now, at.Log = s.Ring, s.Clock.Now, log
	if s.Store, err = store.Open(t.Context(), at); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Store.Close() })
	s.Logged.Reset() // of what it says of a new database
	s.Pages = &page.Site{Store: s.Store, Ring: s.Ring, Log: log, Service: "Svalinn",
		Base:    func(*http.Request) string { return s.At },
		Address: func(*http.Request) netip.Addr { return netip.MustParseAddr(s.From) }}
	return s
}

// Serve answers from now on with a door's pages.
func (s *Site) Serve(handler http.Handler) {
	s.Answers = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "01JD7Q2M8Y") // as the outer handler does
		handler.ServeHTTP(w, r)
	})
}

// NewPlace is a new database of SQLite.
func NewPlace(t testing.TB) store.Options {
	return store.Options{Path: filepath.Join(t.TempDir(), "grantkeeper.db"), AttemptsKeep: store.AttemptsKeep, AttemptsMax: store.AttemptsMax, ActivityKeep: activity.Keep}
}

// Furnish adds people, organizations, roles and clients.
func (s *Site) Furnish() {
	s.T.Helper()
	person := func(id, email, name string) store.DirectoryPerson {
		return store.DirectoryPerson{Person: org.Person{ID: id, Email: email, Name: name, Active: true}, PasswordHash: PasswordHash}
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
	s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}))
	s.Register(client.Client{ID: "quill", Name: "Quill Assistant", RedirectURIs: []string{Callback, "https://quill.example/x?a=b"}})
	s.Register(client.Client{ID: "assistant", Name: "Assistant Connector", RedirectURIs: []string{"https://assistant.example/cb"}, Preregistered: true})
}

// Register adds a client.
func (s *Site) Register(c client.Client) {
	s.T.Helper()
	c.IssuedAt = s.Store.Now().Add(-3 * time.Minute).Unix()
	s.Do(s.Store.AddClient(context.Background(), c, store.Origin{}, store.Act{Actor: "system"}))
}

// Do stops the test at an error.
func (s *Site) Do(err error) {
	s.T.Helper()
	if err != nil {
		s.T.Fatal(err)
	}
}

// Pass lets time pass.
func (s *Site) Pass(d time.Duration) {
	s.Clock.mu.Lock()
	defer s.Clock.mu.Unlock()
	s.Clock.now = s.Clock.now.Add(d)
}

// Request is an authorization request in order, with changes: name, value, ...
// An empty value takes the parameter out.
func Request(changes ...string) url.Values {
	q := url.Values{
		"response_type": {"code"}, "client_id": {"quill"}, "redirect_uri": {Callback}, "state": {"st"},
		"code_challenge": {Challenge()}, "code_challenge_method": {"S256"},
	}
	for i := 0; i < len(changes); i += 2 {
		q.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			q.Del(changes[i])
		}
	}
	return q
}

// Authorize is the address of Request.
func Authorize(changes ...string) string { return "/oauth/authorize?" + Request(changes...).Encode() }

// Browser has cookies, follows nothing by itself, and runs no script.
type Browser struct {
	Site    *Site
	Cookies map[string]string
	Header  http.Header // sent with everything
}

// Browser is one where nobody is signed in.
func (s *Site) Browser() *Browser {
	b := &Browser{Site: s, Cookies: map[string]string{}, Header: http.Header{}}
	if s.Accept != "" {
		b.Header.Set("Accept-Language", s.Accept)
	}
	return b
}

// SignedIn is the browser of somebody who is signed in.
func (s *Site) SignedIn(person string) *Browser {
	s.T.Helper()
	b, value := s.Browser(), page.NewCookie()
	s.Do(s.Store.Enter(context.Background(), store.Entry{Value: value, Person: person, Proof: identity.Proof{ProvedAt: s.Store.Now().Unix()}}, store.Act{Actor: "person:" + person}))
	b.Cookies[b.CookieName("session")] = value
	return b
}

// CookieName is what a cookie is called on this host.
func (b *Browser) CookieName(name string) string {
	if strings.HasPrefix(b.Site.At, "https://") {
		return "__Host-" + name
	}
	return name
}

// Shown is one answer.
type Shown struct {
	T      testing.TB
	B      *Browser
	Status int
	Header http.Header
	Body   string
	Doc    *html.Node
}

// Send asks, and keeps the cookies.
func (b *Browser) Send(method, target string, body io.Reader) *Shown {
	b.Site.T.Helper()
	r := httptest.NewRequest(method, b.Site.At+target, body)
	maps.Copy(r.Header, b.Header)
	if body != nil && r.Header.Get("Content-Type") == "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range b.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.Site.Answers.ServeHTTP(w, r)
	res := w.Result()
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 {
			delete(b.Cookies, c.Name)
		} else {
			b.Cookies[c.Name] = c.Value
		}
	}
	text := w.Body.Bytes()
	if res.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(bytes.NewReader(text))
		b.Site.Do(err)
		text, err = io.ReadAll(z)
		b.Site.Do(err)
	}
	doc, err := html.Parse(bytes.NewReader(text))
	b.Site.Do(err)
	return &Shown{T: b.Site.T, B: b, Status: res.StatusCode, Header: res.Header, Body: string(text), Doc: doc}
}

// Get sends a GET.
func (b *Browser) Get(target string) *Shown { b.Site.T.Helper(); return b.Send("GET", target, nil) }

// Post sends a form.
func (b *Browser) Post(target string, form url.Values) *Shown {
	b.Site.T.Helper()
	return b.Send("POST", target, strings.NewReader(form.Encode()))
}

// Want requires a status.
func (p *Shown) Want(status int) *Shown {
	p.T.Helper()
	if p.Status != status {
		p.T.Fatalf("status %d, want %d: %s %s", p.Status, status, p.Header.Get("Location"), p.Text())
	}
	return p
}

// Follow goes where a 303 leads on this server.
func (p *Shown) Follow() *Shown {
	p.T.Helper()
	p.Want(http.StatusSeeOther)
	to := p.Header.Get("Location")
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") {
		p.T.Fatalf("leads to %q, not to a path here", to)
	}
	return p.B.Get(to)
}

// Sent gives the parameters of a 303 to the client.
func (p *Shown) Sent(to string) url.Values {
	p.T.Helper()
	p.Want(http.StatusSeeOther)
	location := p.Header.Get("Location")
	rest, ok := strings.CutPrefix(location, to)
	if !ok || rest == "" || rest[0] != '?' && rest[0] != '&' {
		p.T.Fatalf("leads to %q, want %q and parameters", location, to)
	}
	q, err := url.ParseQuery(rest[1:])
	if err != nil {
		p.T.Fatal(err)
	}
	return q
}

// Says requires texts of the page, white space as a reader sees it.
func (p *Shown) Says(texts ...string) *Shown {
	p.T.Helper()
	for _, text := range texts {
		if !strings.Contains(p.Text(), text) {
			p.T.Errorf("the page does not say %q: %s", text, p.Text())
		}
	}
	return p
}

// Text is what a reader sees.
func (p *Shown) Text() string {
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
	walk(p.Doc)
	return strings.Join(strings.Fields(b.String()), " ")
}

// Attr gives an attribute of a node, "" for none.
func Attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

// Has reports whether a node has an attribute.
func Has(n *html.Node, name string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
}

// All gives the elements of a kind.
func (p *Shown) All(element atom.Atom) []*html.Node {
	var out []*html.Node
	for n := range p.Doc.Descendants() {
		if n.Type == html.ElementNode && n.DataAtom == element {
			out = append(out, n)
		}
	}
	return out
}

// Fill gives what a browser would send of the form with this action, without
// a button.
func (p *Shown) Fill(action string) url.Values {
	p.T.Helper()
	form := url.Values{}
	for n := range p.Form(action).Descendants() {
		switch kind := Attr(n, "type"); {
		case n.DataAtom == atom.Select:
			form.Add(Attr(n, "name"), chosen(n))
		case n.DataAtom == atom.Textarea && n.FirstChild != nil:
			form.Add(Attr(n, "name"), n.FirstChild.Data)
		case n.DataAtom != atom.Input || Attr(n, "name") == "":
		case (kind == "radio" || kind == "checkbox") && !Has(n, "checked"):
		default:
			form.Add(Attr(n, "name"), Attr(n, "value"))
		}
	}
	return form
}

// chosen gives the value of a list: of the option that is selected, else of the first.
func chosen(list *html.Node) (value string) {
	first := true
	for n := range list.Descendants() {
		if n.DataAtom == atom.Option && (first || Has(n, "selected")) {
			value, first = Attr(n, "value"), false
		}
	}
	return value
}

// Form gives the first form with this action.
func (p *Shown) Form(action string) *html.Node {
	p.T.Helper()
	for _, f := range p.All(atom.Form) {
		if Attr(f, "action") == action {
			return f
		}
	}
	p.T.Fatalf("no form posts to %q: %s", action, p.Text())
	return nil
}

// Press sends the form with fields changed: name, value, ...
func (p *Shown) Press(action string, changes ...string) *Shown {
	p.T.Helper()
	form := p.Fill(action)
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
		if changes[i+1] == "" {
			form.Del(changes[i])
		}
	}
	return p.B.Post(action, form)
}

// Approve presses Approve with everything in an organization.
func (p *Shown) Approve(changes ...string) *Shown {
	p.T.Helper()
	return p.Press("/oauth/authorize", append([]string{"organization", "nordlys", "grant", "everything", "decision", "approve"}, changes...)...)
}

// Cancel presses Cancel.
func (p *Shown) Cancel() *Shown {
	p.T.Helper()
	return p.Press("/oauth/authorize", "decision", "cancel")
}

// Claim opens a code as the token endpoint does.
func (s *Site) Claim(code string) token.Claim {
	s.T.Helper()
	c, ok := s.Ring.Read(token.Code, code)
	if !ok {
		s.T.Fatalf("%q is no code", code)
	}
	return c
}

// Exchange does what the token endpoint does with a code.
func (s *Site) Exchange(code string) approval.Verdict {
	s.T.Helper()
	c := s.Claim(code)
	_, v, err := s.Store.Apply(context.Background(), approval.ID(c.Handle.ID()),
		approval.Exchange("quill", s.At, Callback, Verifier, c.Time, 1, s.Store.Now()), store.Act{Actor: "client:quill"})
	s.Do(err)
	return v
}

// Approvals gives those of a person.
func (s *Site) Approvals(person string) []store.ApprovalRow {
	s.T.Helper()
	rows, _, err := s.Store.Approvals(context.Background(), store.ApprovalFilter{Person: person, Limit: 1000})
	s.Do(err)
	return rows
}

// Nothing requires that the person has approved nothing.
func (s *Site) Nothing(person string) {
	s.T.Helper()
	if rows := s.Approvals(person); len(rows) != 0 {
		s.T.Errorf("%d approvals, want none", len(rows))
	}
}

// Event waits for an entry of the journal: they are written behind the answer.
func (s *Site) Event(kind journal.Kind) store.Event {
	s.T.Helper()
	s.Do(s.Store.Ready(context.Background())) // written after what was queued
	events, _, err := s.Store.Events(context.Background(), store.EventFilter{Kind: kind})
	s.Do(err)
	if len(events) == 0 {
		s.T.Fatalf("no event %s", kind)
	}
	return events[0]
}
