package records_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/token"
)

var (
	ctx    = context.Background()
	server *pgtest.Server // nil while the tests run on the embedded engine
)

// TestMain runs all tests on the embedded engine, and once more on PostgreSQL.
func TestMain(m *testing.M) {
	status := m.Run()
	var err error
	switch server, err = pgtest.Start(); {
	case errors.Is(err, pgtest.ErrAbsent):
		fmt.Println("PostgreSQL left out:", err)
		os.Exit(status)
	case err != nil:
		fmt.Println(err)
		os.Exit(1)
	}
	status = max(status, m.Run())
	if err := server.Stop(); err != nil {
		fmt.Println(err)
		status = 1
	}
	os.Exit(status)
}

func embedded() bool { return server == nil }

// rounds is how often a test repeats something; less often where each takes longer.
func rounds(n int) int {
	if embedded() {
		return n
	}
	return n / 5
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

// house is a store with an organization, two people and a client.
type house struct {
	*store.Store
	clock *machine
	ring  *token.Ring
	at    store.Options
}

const (
	redirect = "https://connect.quill.example/callback"
	issuer   = "https://app.svalinn.example"
	verifier = "a-verifier-of-43-characters-or-more-0123456789"
)

func furnished(t testing.TB) house {
	t.Helper()
	h := house{clock: &machine{now: time.Unix(1_800_000_000, 0)}}
	var err error
	if h.ring, err = token.NewRing("sv", 1, token.NewKey(1, [32]byte{1})); err != nil {
		t.Fatal(err)
	}
	h.at.Path = filepath.Join(t.TempDir(), "grantkeeper.db")
	if !embedded() {
		h.at = store.Options{DatabaseTime: h.clock.Now}
		if h.at.URL, err = server.Schema(); err != nil {
			t.Fatal(err)
		}
	}
	h.at.Ring, h.at.Now, h.at.AttemptsMax = h.ring, h.clock.Now, 20_000
	h = h.open(t)
	err = h.AddDirectory(ctx, directory.Directory{
		People: []directory.Person{
			{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada Lindqvist", Active: true}},
			{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
		},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []directory.Member{{Person: "ada", Organization: "nordlys"}, {Person: "tor", Organization: "nordlys"}},
	}, store.Act{Actor: "system"})
	if err != nil {
		t.Fatal(err)
	}
	c := client.Client{ID: "quill", Name: "Quill Assistant", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}
	if err := h.AddClient(ctx, c, store.Origin{}, store.Act{}); err != nil {
		t.Fatal(err)
	}
	return h
}

// open opens one more store on the database.
func (h house) open(t testing.TB) house {
	t.Helper()
	s, err := store.Open(ctx, h.at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h.Store = s
	return h
}

// nodes gives n stores on one database; on the embedded engine, which has one writer, all
// are the same.
func nodes(t testing.TB, n int) []house {
	t.Helper()
	all := []house{furnished(t)}
	for len(all) < n {
		if embedded() {
			all = append(all, all[0])
			continue
		}
		all = append(all, all[0].open(t))
	}
	return all
}

// unique gives pages that nobody has answered.
func (h house) unique(n int) store.Answer {
	nonce, challenge := [16]byte{byte(n), byte(n >> 8), 7}, sha256.Sum256([]byte(verifier))
	return store.Answer{
		Handle: func(attempt uint32) token.Handle { hd, _ := h.ring.Handle(1, nonce, attempt); return hd },
		Client: "quill", Person: "ada", Organization: "nordlys", Grant: grantset.Set{Kind: grantset.Everything},
		RedirectURI: redirect, Issuer: issuer, Challenge: base64.RawURLEncoding.EncodeToString(challenge[:]),
	}
}

// live gives an approval whose code was exchanged.
func (h house) live(t testing.TB, a store.Answer) approval.ID {
	t.Helper()
	handle, issued, err := h.Approve(ctx, a, store.Act{Actor: "person:ada"})
	if err != nil {
		t.Fatal(err)
	}
	id := approval.ID(handle.ID())
	_, v, err := h.Apply(ctx, id, approval.Exchange(a.Client, issuer, redirect, verifier, issued, 1, h.Now()), store.Act{})
	if err != nil || v != approval.OK {
		t.Fatalf("exchange: %v, %v", v, err)
	}
	return id
}

func (h house) change(run func(*engine.Tx) error) error { return h.Handle().Change(run) }

func (h house) ran(t testing.TB, text string, args ...any) {
	t.Helper()
	if err := h.change(func(tx *engine.Tx) error { _, err := tx.Exec(text, args...); return err }); err != nil {
		t.Fatal(err)
	}
}

// rows gives the number that a statement gives.
func (h house) rows(t testing.TB, text string) (n int) {
	t.Helper()
	if err := h.Handle().Reader.QueryRowContext(ctx, text).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// walkAs walks a list with pages of each length: full says that only the last may be shorter.
func walkAs(t *testing.T, what string, whole []string, full bool, page func(after string, limit int) (ids []string, next string, err error)) {
	t.Helper()
	for limit := 1; limit <= len(whole)+1; limit++ {
		var got []string
		for after := ""; ; {
			ids, next, err := page(after, limit)
			if err != nil || len(ids) > limit || next != "" && (full && len(ids) != limit || next == after) {
				t.Fatalf("%s, %d at a time: %d, next %q, %v", what, limit, len(ids), next, err)
			}
			got = append(got, ids...)
			if after = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, whole) {
			t.Errorf("%s, %d at a time: got %v, want %v", what, limit, got, whole)
		}
	}
}
