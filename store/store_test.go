package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/token"
)

const day = 24 * time.Hour

const (
	redirect = "https://connect.quill.example/callback"
	issuer   = "https://app.svalinn.example"
	verifier = "a-verifier-of-43-characters-or-more-0123456789"
)

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// machine is a clock that tests set.
type machine struct {
	mu  sync.Mutex
	now time.Time
}

func (m *machine) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

func (m *machine) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = m.now.Add(d)
}

func ring(t testing.TB) *token.Ring {
	t.Helper()
	r, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// house is a store with two organizations and some people in them.
type house struct {
	*Store
	clock *machine
	path  string
	ring  *token.Ring

	others []house // on the same database, for those who ask several
}

func open(t testing.TB, path string, clock *machine) house {
	t.Helper()
	h := house{clock: clock, path: path, ring: ring(t)}
	s, err := Open(context.Background(), at(t, path, Options{Ring: h.ring, Now: clock.Now}))
	if err != nil {
		t.Fatal(err)
	}
	h.Store = s
	t.Cleanup(func() { s.Close() })
	return h
}

func furnished(t testing.TB) house {
	t.Helper()
	h := open(t, filepath.Join(t.TempDir(), "grantkeeper.db"), &machine{now: time.Unix(1_800_000_000, 0)})
	h.furnish(t)
	return h
}

func (h house) furnish(t testing.TB) {
	t.Helper()
	err := h.AddDirectory(context.Background(), directory.Directory{
		People: []directory.Person{
			{Person: org.Person{ID: "ada", Email: "Ada@nordlys.example", Name: "Ada Lindqvist", Active: true}, PasswordHash: "$argon2id$x"},
			{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
		},
		Organizations: []org.Organization{
			{ID: "nordlys", Name: "Nordlys", AIIntegration: true}, {ID: "fjell", Name: "Fjell", AIIntegration: true},
		},
		Members: []directory.Member{{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "ada", Organization: "fjell", Admin: false}, {Person: "tor", Organization: "nordlys", Admin: false}},
		Circles: []org.Circle{{ID: "anchor", Organization: "nordlys", Name: "Nordlys"}, {ID: "grants", Organization: "fjell", Name: "Grants"}},
		Roles: []org.Role{
			{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Treasurer"},
			{ID: "reviewer", Organization: "fjell", Circle: "grants", Name: "Reviewer"},
		},
		Fillers: []directory.Filler{{Role: "treasurer", Person: "ada"}, {Role: "reviewer", Person: "ada"}},
		APIKeys: []directory.APIKey{{Key: "key-of-ada-in-nordlys", Person: "ada", Organization: "nordlys", Name: "script"}},
	}, Act{Actor: "system"})
	if err != nil {
		t.Fatal(err)
	}
	h.register(t, "quill")
}

func (h house) register(t testing.TB, id string) {
	t.Helper()
	c := client.Client{ID: id, Name: "Quill Assistant", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}
	if err := h.AddClient(context.Background(), c, Origin{}, Act{}); err != nil {
		t.Fatal(err)
	}
}

// page derives handles as a consent page with this nonce does.
func (h house) page(nonce byte) func(uint32) token.Handle {
	return func(attempt uint32) token.Handle {
		handle, _ := h.ring.Handle(1, [16]byte{nonce}, attempt)
		return handle
	}
}

func (h house) answer(nonce byte) Answer {
	return Answer{
		Handle: h.page(nonce), Client: "quill", Person: "ada", Organization: "nordlys",
		Grant:       grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}},
		RedirectURI: redirect, Issuer: issuer, Challenge: challenge(),
	}
}

func (h house) exchange(id approval.ID, issued int64) (approval.Verdict, error) {
	_, v, err := h.Apply(context.Background(), id, approval.Exchange("quill", issuer, redirect, verifier, issued, 1, h.Now()), Act{})
	return v, err
}

func (h house) refresh(id approval.ID, generation int64) (approval.Verdict, error) {
	_, v, err := h.Refresh(context.Background(), id, "quill", generation, 1, Act{})
	return v, err
}

// live gives an approval whose code was exchanged.
func (h house) live(t testing.TB, a Answer) approval.ID {
	t.Helper()
	handle, issued, err := h.Approve(context.Background(), a, Act{Actor: "person:ada"})
	if err != nil {
		t.Fatal(err)
	}
	id := approval.ID(handle.ID())
	_, v, err := h.Apply(context.Background(), id, approval.Exchange(a.Client, issuer, redirect, verifier, issued, 1, h.Now()), Act{})
	if err != nil || v != approval.OK {
		t.Fatalf("exchange: %v, %v", v, err)
	}
	return id
}

// accepts asks what the bearer check asks.
func (h house) accepts(t testing.TB, id approval.ID) bool {
	t.Helper()
	a, err := h.Check(context.Background(), id)
	if errors.Is(err, ErrNotFound) {
		return false
	} else if err != nil {
		t.Fatal(err)
	}
	return a.Approval.Accepts(a.Standing, a.Approval.Generation, h.Now().Unix()+60, h.Now())
}

func (h house) kinds(t testing.TB) string {
	t.Helper()
	events, _, err := h.Events(context.Background(), EventFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := len(events) - 1; i >= 0; i-- {
		out = append(out, strings.TrimSuffix(string(events[i].Kind)+" "+events[i].Reason, " "))
	}
	return strings.Join(out, ", ")
}

func TestOneApprovalFromPageToReuse(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if !h.accepts(t, id) {
		t.Fatal("a live approval is not accepted")
	}
	for generation := int64(1); generation < 4; generation++ {
		if v, err := h.refresh(id, generation); v != approval.OK || err != nil {
			t.Fatalf("refresh %d: %v, %v", generation, v, err)
		}
	}
	if v, err := h.refresh(id, 2); v != approval.Reused || err != nil {
		t.Fatalf("reuse: got %v, %v; want reused", v, err)
	}
	if h.accepts(t, id) {
		t.Error("accepted after reuse")
	}
	if v, _ := h.refresh(id, 4); v != approval.Over {
		t.Errorf("the current refresh token after reuse: got %v, want over", v)
	}
	const want = "directory_changed, client_registered, approval_granted, code_exchanged, refresh_reused unknown, approval_ended refresh_reused"
	if got := h.kinds(t); got != want {
		t.Errorf("journal:\n got %s\nwant %s", got, want)
	}
}

// A path is taken as it is written, whatever stands in it.
func TestOpenAnyPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b+c%20?d#e&f")
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it is there
		s, err := Open(t.Context(), Options{Path: filepath.Join(path, "x y.db"), Ring: ring(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	all, err := os.ReadDir(path)
	if err != nil || !slices.ContainsFunc(all, func(e os.DirEntry) bool { return e.Name() == "x y.db" }) {
		t.Errorf("%v, %v", all, err)
	}
}
