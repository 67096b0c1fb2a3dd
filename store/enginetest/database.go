package enginetest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

var ctx = context.Background()

// operator is who makes changes.
var operator = store.Act{Actor: "operator"}

const (
	redirect = "https://connect.quill.example/callback"
	issuer   = "https://app.svalinn.example"
	verifier = "a-verifier-of-43-characters-or-more-0123456789"
	apiKey   = "key-of-ada-in-nordlys"
)

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// clock is one that tests set.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// database is a store on a place of the engine, and another one beside it where the
// engine serves several processes.
type database struct {
	*store.Store
	Place
	t       testing.TB
	harness Harness
	clock   *clock
	ring    *token.Ring
	others  []*store.Store // on the same rows
	pages   uint64

	mu     sync.Mutex
	log    strings.Builder
	events []store.Event // that were told of
	onTold func(store.Event)
}

// furnished opens a new database with two organizations and some people in them.
func furnished(t testing.TB, h Harness) *database {
	t.Helper()
	return furnishedAt(t, h, h.Place(t))
}

func furnishedAt(t testing.TB, h Harness, at Place) *database {
	t.Helper()
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	d := &database{Place: at, t: t, harness: h, clock: &clock{now: time.Unix(1_800_000_000, 0)}, ring: ring}
	d.Store = d.open()
	d.furnish()
	if h.Cannot[Beside] == "" {
		d.others = []*store.Store{d.open()}
	}
	return d
}

// open opens a store on the place.
func (d *database) open() *store.Store {
	d.t.Helper()
	return d.openAt(d.Options)
}

func (d *database) openAt(place func(store.Options) store.Options) *store.Store {
	d.t.Helper()
	o := place(store.Options{Ring: d.ring, Now: d.clock.Now, Log: slog.New(slog.NewTextHandler(d, nil)), Journaled: d.told, AttemptsMax: mostAttempts})
	s, err := store.Open(ctx, o)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { s.Close() })
	return s
}

// reopen closes all stores and opens them again.
func (d *database) reopen() {
	d.t.Helper()
	for _, s := range d.all() {
		d.must(s.Close())
	}
	d.Store = d.open()
	for i := range d.others {
		d.others[i] = d.open()
	}
}

// all are the stores on the rows.
func (d *database) all() []*store.Store { return append([]*store.Store{d.Store}, d.others...) }

// Write takes a line of the log.
func (d *database) Write(line []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log.Write(line)
}

// said counts the lines of the log that hold a text.
func (d *database) said(text string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return strings.Count(d.log.String(), text)
}

func (d *database) told(e store.Event) {
	d.mu.Lock()
	d.events = append(d.events, e)
	on := d.onTold
	d.mu.Unlock()
	if on != nil {
		on(e)
	}
}

// must ends the test where a step of its own fails.
func (d *database) must(errs ...error) {
	d.t.Helper()
	if err := errors.Join(errs...); err != nil {
		d.t.Fatal(err)
	}
}

// settle waits until what was noted is written.
func (d *database) settle() {
	d.t.Helper()
	for _, s := range d.all() {
		d.must(s.Ready(ctx))
	}
}

func (d *database) furnish() {
	d.t.Helper()
	d.must(d.AddDirectory(ctx, directory.Directory{
		People: []directory.Person{
			{Person: org.Person{ID: "ada", Email: "Ada@nordlys.example", Name: "Ada Lindqvist", Active: true}, PasswordHash: "$argon2id$x"},
			{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
		},
		Organizations: []org.Organization{
			{ID: "nordlys", Name: "Nordlys", AIIntegration: true}, {ID: "fjell", Name: "Fjell", AIIntegration: true},
		},
		Members: []directory.Member{{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "ada", Organization: "fjell"}, {Person: "tor", Organization: "nordlys"}},
		Circles: []org.Circle{{ID: "anchor", Organization: "nordlys", Name: "Nordlys"}, {ID: "grants", Organization: "fjell", Name: "Grants"}},
		Roles: []org.Role{
			{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Treasurer"},
			{ID: "reviewer", Organization: "fjell", Circle: "grants", Name: "Reviewer"},
		},
		Fillers: []directory.Filler{{Role: "treasurer", Person: "ada"}, {Role: "reviewer", Person: "ada"}},
		APIKeys: []directory.APIKey{{Key: apiKey, Person: "ada", Organization: "nordlys", Name: "script"}},
	}, store.Act{Actor: "system"}))
	d.must(d.AddClient(ctx, d.client("quill"), store.Origin{}, store.Act{}))
}

func (d *database) client(id string) client.Client {
	return client.Client{ID: id, Name: "Client " + id, RedirectURIs: []string{redirect}, IssuedAt: d.Now().Unix()}
}

// page is a consent page that nobody has answered, for Ada's roles in Nordlys.
func (d *database) page() store.Answer {
	d.pages++
	var nonce [16]byte
	binary.BigEndian.PutUint64(nonce[:], d.pages)
	return store.Answer{
		Handle: func(attempt uint32) token.Handle { h, _ := d.ring.Handle(1, nonce, attempt); return h },
		Client: "quill", Person: "ada", Organization: "nordlys",
		Grant:       grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}},
		RedirectURI: redirect, Issuer: issuer, Challenge: challenge(),
	}
}

// pageIn is page for everything in an organization.
func (d *database) pageIn(organization string) store.Answer {
	a := d.page()
	a.Organization, a.Grant = organization, grantset.Set{Kind: grantset.Everything}
	return a
}

// approve answers a page; the code waits for its exchange.
func (d *database) approve(a store.Answer) *subject {
	d.t.Helper()
	handle, issued, err := d.Approve(ctx, a, operator)
	d.must(err)
	return &subject{Approval: approval.Approval{
		ID: approval.ID(handle.ID()), Client: a.Client, Person: a.Person, Organization: a.Organization, Grant: a.Grant,
		RedirectURI: a.RedirectURI, Issuer: a.Issuer, Challenge: a.Challenge, IssuedAt: issued, CreatedAt: issued,
		State: approval.State{Phase: approval.CodeIssued},
	}, journal: kinds(journal.ApprovalGranted)}
}

// live gives an approval whose code was exchanged.
func (d *database) live(a store.Answer) *subject {
	d.t.Helper()
	s := d.approve(a)
	if v, err := d.exchange(d.Store, s); v != approval.OK || err != nil {
		d.t.Fatal(v, err)
	}
	s.make(d.exchanging(s))
	return s
}

func (d *database) exchange(at *store.Store, s *subject) (approval.Verdict, error) {
	_, v, err := at.Apply(ctx, s.ID, d.exchanging(s), store.Act{})
	return v, err
}

func (d *database) exchanging(s *subject) approval.Move {
	return approval.Exchange(s.Client, issuer, s.RedirectURI, verifier, s.IssuedAt, 1, d.Now())
}

func (d *database) refresh(at *store.Store, s *subject, generation int64) (approval.Verdict, error) {
	_, v, err := at.Refresh(ctx, s.ID, s.Client, generation, 1, store.Act{})
	return v, err
}

// accepts asks a store what a bearer check asks.
func (d *database) accepts(at *store.Store, s *subject) bool {
	d.t.Helper()
	a, err := at.Check(ctx, s.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false
	}
	d.must(err)
	now := at.Now()
	return a.Approval.Accepts(a.Standing, 1, now.Unix()+60, now)
}

// held lets do run while whoever writes what is noted is busy; on an engine with one
// writer nothing is written meanwhile.
func (d *database) held(do func()) {
	d.t.Helper()
	started, free := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d.mu.Lock()
	d.onTold = func(e store.Event) {
		if e.Detail == "hold" {
			once.Do(func() { close(started); <-free })
		}
	}
	d.mu.Unlock()
	d.Record(store.Event{Kind: journal.SignInFailed, Detail: "hold"})
	<-started
	do()
	close(free)
}
