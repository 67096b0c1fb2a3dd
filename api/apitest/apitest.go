// Package apitest is a store with demo people, a clock that tests move and what clients
// of those people hold, for tests of the guard and of the doors behind it.
package apitest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// The server, and the one client.
const (
	Base     = "https://app.example"
	Client   = "client-1"
	Callback = "https://client.example/callback"

	verifier = "a-verifier-of-forty-three-characters-or-more"
)

// What people choose.
var (
	Everything = grantset.Set{Kind: grantset.Everything}
	Whole      = grantset.Set{Kind: grantset.Organization}
)

// Roles are selected roles, and with personal also what is the person's own.
func Roles(personal bool, picks ...grantset.Pick) grantset.Set {
	return grantset.Set{Kind: grantset.Roles, Picks: picks, Personal: personal}
}

// People are a store, its keys and its clock.
type People struct {
	Store   *store.Store
	Ring    *token.Ring
	Seconds atomic.Int64 // Unix: what Now says
	Close   func()       // the store, once

	t      testing.TB
	nonces byte
}

// New opens a file with a directory in it, at nine in the morning of 2 March 2026.
func New(t testing.TB, d store.Directory) *People {
	t.Helper()
	p := &People{}
	p.Seconds.Store(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Unix())
	p.Open(t, store.Options{Path: filepath.Join(t.TempDir(), "grantkeeper.db"), Now: p.Now})
	p.Fill(d)
	return p
}

// Open opens a store with the same keys as ever.
func (p *People) Open(t testing.TB, o store.Options) {
	t.Helper()
	p.t = t
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	o.Ring, p.Ring = ring, ring
	if p.Store, err = store.Open(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	p.Close = sync.OnceFunc(func() { p.Store.Close() })
	t.Cleanup(p.Close)
}

// Now is the clock of the store.
func (p *People) Now() time.Time { return time.Unix(p.Seconds.Load(), 0) }

// Pass lets time pass, whole seconds of it.
func (p *People) Pass(d time.Duration) { p.Seconds.Add(int64(d / time.Second)) }

// Fill puts a directory and the client there.
func (p *People) Fill(d store.Directory) {
	p.t.Helper()
	if err := p.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}); err != nil {
		p.t.Fatal(err)
	}
	err := p.Store.AddClient(context.Background(), client.Client{
		ID: Client, Name: "Helper", RedirectURIs: []string{Callback}, IssuedAt: p.Store.Now().Unix(),
	}, store.Origin{}, store.Act{Actor: "client:" + Client})
	if err != nil {
		p.t.Fatal(err)
	}
}

// Demo has Ada, who is an admin of nordlys and a member of fjell, Tor, a member of
// nordlys, and Siv, an admin of fjell.
func Demo() store.Directory {
	person := func(id, email, name string) store.DirectoryPerson {
		return store.DirectoryPerson{Person: org.Person{ID: id, Email: email, Name: name, Active: true}}
	}
	return store.Directory{
		People: []store.DirectoryPerson{
			person("ada", "ada@nordlys.example", "Ada \"Countess\" Nord"), person("tor", "tor@nordlys.example", "Tor"), person("siv", "siv@fjell.example", "Siv"),
		},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}, {ID: "fjell", Name: "Fjell", AIIntegration: true}},
		Members: []store.DirectoryMember{
			{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "tor", Organization: "nordlys"},
			{Person: "ada", Organization: "fjell"}, {Person: "siv", Organization: "fjell", Admin: true},
		},
		Circles: []org.Circle{
			{ID: "general", Organization: "nordlys", Name: "General"},
			{ID: "money", Organization: "nordlys", Parent: "general", Name: "Money"},
			{ID: "peak", Organization: "fjell", Name: "Peak"},
		},
		Roles: []org.Role{
			{ID: "treasurer", Organization: "nordlys", Circle: "money", Name: "Treasurer"},
			{ID: "secretary", Organization: "nordlys", Circle: "general", Name: "Secretary"},
			{ID: "host", Organization: "nordlys", Circle: "general", Name: "Host"},
			{ID: "guide", Organization: "fjell", Circle: "peak", Name: "Guide"},
		},
		Fillers: []store.Filler{
			{Role: "treasurer", Person: "ada"}, {Role: "secretary", Person: "ada"}, {Role: "host", Person: "tor"}, {Role: "guide", Person: "ada"},
		},
		APIKeys: []store.DirectoryAPIKey{
			{Key: "key-of-ada-for-tests", Person: "ada", Organization: "nordlys", Name: "script"},
			{Key: "key-of-tor-for-tests", Person: "tor", Organization: "nordlys", Name: "script"},
			{Key: "key-of-siv-for-tests", Person: "siv", Organization: "fjell", Name: "script"},
		},
	}
}

// Tokens are what a client holds of one approval.
type Tokens struct {
	ID                    approval.ID
	Handle                token.Handle
	Access, Refresh, Code string

	issued int64 // the code, in Unix seconds
}

// Issued gives an approval whose code waits.
func (p *People) Issued(person, organization string, g grantset.Set) Tokens {
	p.t.Helper()
	p.nonces++
	nonce := [16]byte{p.nonces}
	sum := sha256.Sum256([]byte(verifier))
	handle, at, err := p.Store.Approve(context.Background(), store.Answer{
		Handle: func(attempt uint32) token.Handle {
			handle, _ := p.Ring.Handle(1, nonce, attempt)
			return handle
		},
		Client: Client, Person: person, Organization: organization, Grant: g,
		RedirectURI: Callback, Issuer: Base, Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
	}, store.Act{Actor: "person:" + person})
	if err != nil {
		p.t.Fatal(err)
	}
	return Tokens{ID: handle.ID(), Handle: handle, Code: p.Ring.Code(handle, at), issued: at}
}

// Live gives an approval whose code was exchanged now.
func (p *People) Live(person, organization string, g grantset.Set) Tokens {
	p.t.Helper()
	x := p.Issued(person, organization, g)
	now := p.Store.Now()
	p.Move(x.ID, approval.Exchange(Client, Base, Callback, verifier, x.issued, 1, now))
	x.Access = p.Ring.Access(x.Handle, 1, now.Add(approval.AccessLifetime).Unix())
	x.Refresh = p.Ring.Refresh(x.Handle, 1)
	return x
}

// Move makes a move, which has to be taken.
func (p *People) Move(id approval.ID, m approval.Move) {
	p.t.Helper()
	_, v, err := p.Store.Apply(context.Background(), id, m, store.Act{Actor: "client:" + Client})
	if err != nil || v != approval.OK {
		p.t.Fatalf("move: %s, %v", v, err)
	}
}

// Request is one with the headers that are given as names and values in turn.
func Request(method, target, body string, headers ...string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// Answer is what a handler answers, with a reference as the server sets one.
func Answer(handler http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "request-1")
	handler.ServeHTTP(w, r)
	return w
}

// WantStatus checks status, challenge ("" is none) and what every answer of the API
// has.
func WantStatus(t testing.TB, w *httptest.ResponseRecorder, status int, challenge string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("got %d, want %d: %s", w.Code, status, w.Body)
	}
	if got := strings.Join(w.Header()["Www-Authenticate"], "|"); got != challenge {
		t.Errorf("challenge\ngot  %q\nwant %q", got, challenge)
	}
	h := w.Header()
	if h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Credentials") != "" || (h.Get("Location") != "") != (status == 201) {
		t.Errorf("headers %v", h)
	}
	if status < 400 {
		return
	}
	e := Parse[map[string]string](t, w)
	if e["error"] == "" || e["error_description"]+e["reason"] == "" || e["reference"] != "request-1" {
		t.Errorf("error body %s", w.Body)
	}
}

// Parse reads an answer in JSON.
func Parse[T any](t testing.TB, w *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if ct := w.Header().Get("Content-Type"); ct != "application/json" {
		t.Errorf("Content-Type %q", ct)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatalf("%v in %s", err, w.Body)
	}
	return v
}

// Lines is a log that goroutines may write to.
type Lines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *Lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *Lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
