package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// The two base URLs of the door's tests.
const (
	base      = "https://auth.example"
	otherBase = "https://eu.auth.example"
)

const (
	redirect    = "https://client.example/callback?a=b"
	rightProof  = "a-right.code_verifier~0123456789012345678901"
	wrongProof  = "a-wrong.code_verifier~0123456789012345678901"
	testAddress = "192.0.2.1"
)

// door is a Server over a real store, with a clock that the test moves.
type door struct {
	*Server
	t       testing.TB
	handler http.Handler
	ring    *token.Ring
	clock   *clock
	log     *strings.Builder
	path    string // of the database

	mu     sync.Mutex
	counts []string
}

type clock struct{ nanos atomic.Int64 }

func (c *clock) Now() time.Time        { return time.Unix(0, c.nanos.Load()) }
func (c *clock) sleep(d time.Duration) { c.nanos.Add(int64(d)) }

// open gives a door that is limited to so many requests that no test but those
// of the limits gets there.
func open(t testing.TB) *door {
	t.Helper()
	d := &door{t: t, clock: new(clock), ring: newRing(t), log: new(strings.Builder)}
	d.clock.nanos.Store(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixNano())
	d.path = filepath.Join(t.TempDir(), "rows.db")
	rows, err := store.Open(context.Background(), store.Options{
		Path: d.path, Ring: d.ring, Now: d.clock.Now,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rows.Close() })
	plenty := limit.Limit{N: 1_000_000, Window: time.Second}
	d.Server = &Server{
		Store: rows, Ring: d.ring, Service: "Svalinn",
		Log:           slog.New(slog.NewTextHandler(d.log, nil)),
		Base:          func(r *http.Request) string { return "https://" + r.Host },
		Address:       limit.Proxies{}.ClientAddr,
		OwnHosts:      func() []string { return []string{"auth.example"} },
		TokenLimit:    limit.NewAddresses(plenty, nil),
		RegisterLimit: limit.NewAddresses(plenty, nil),
		Count: func(endpoint, result, reason string) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.counts = append(d.counts, strings.TrimSpace(endpoint+" "+result+" "+reason))
		},
	}
	d.handler = d.Handler()
	err = rows.AddDirectory(context.Background(), store.Directory{
		People:        []store.DirectoryPerson{{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}}},
		Organizations: []org.Organization{{ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "ada", Organization: "nordlys"}},
	}, store.Act{Actor: "system"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// newRing has two keys, of which the second seals.
func newRing(t testing.TB) *token.Ring {
	t.Helper()
	var first, second [32]byte
	rand.Read(first[:])
	rand.Read(second[:])
	ring, err := token.NewRing("sv", 2, token.NewKey(1, first), token.NewKey(2, second))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// registered gives the ID of a new client.
func (d *door) registered() string {
	d.t.Helper()
	id := newClientID()
	err := d.Store.AddClient(context.Background(),
		client.Client{ID: id, RedirectURIs: []string{redirect}, IssuedAt: d.Store.Now().Unix()}, store.Origin{}, store.Act{Actor: "client:" + id})
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

// disabledClient gives the ID of a client that the service has disabled.
func (d *door) disabledClient() string {
	d.t.Helper()
	id := d.registered()
	d.disable(id)
	return id
}

func (d *door) disable(id string) {
	d.t.Helper()
	if err := d.Store.SetClientEnabled(context.Background(), id, false, store.Act{Actor: "operator"}); err != nil {
		d.t.Fatal(err)
	}
}

// approved gives the handle and the code of a new approval by ada.
func (d *door) approved(clientID string) (token.Handle, string) {
	d.t.Helper()
	var handle token.Handle
	rand.Read(handle[:])
	sum := sha256.Sum256([]byte(rightProof))
	h, issued, err := d.Store.Approve(context.Background(), store.Answer{
		Handle: func(uint32) token.Handle { return handle },
		Client: clientID, Person: "ada", Organization: "nordlys", Grant: grantset.Set{Kind: grantset.Everything},
		RedirectURI: redirect, Issuer: base, Challenge: base64.RawURLEncoding.EncodeToString(sum[:]),
	}, store.Act{Actor: "person:ada"})
	if err != nil {
		d.t.Fatal(err)
	}
	return h, d.ring.Code(h, issued)
}

// live gives a client with a fresh approval: its handle, access token and
// refresh token.
func (d *door) live() (id string, h token.Handle, access, refresh string) {
	d.t.Helper()
	id = d.registered()
	h, code := d.approved(id)
	got := d.post("/oauth/token", exchangeForm(id, code))
	if got.Code != http.StatusOK {
		d.t.Fatalf("exchange: %d %s", got.Code, got.Body)
	}
	a := readTokens(d.t, got)
	return id, h, a.Access, a.Refresh
}

func exchangeForm(id, code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "client_id": {id}, "code": {code},
		"redirect_uri": {redirect}, "code_verifier": {rightProof},
	}
}

func refreshForm(id, refresh string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "client_id": {id}, "refresh_token": {refresh}}
}

func revokeForm(id, token string) url.Values {
	return url.Values{"client_id": {id}, "token": {token}}
}

// with gives a copy of a form in which a parameter has other values; none
// takes it out.
func with(form url.Values, name string, values ...string) url.Values {
	form = maps.Clone(form)
	form[name] = values
	return form
}

// request makes one with the body's usual media type.
func request(method, target, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = strings.TrimPrefix(base, "https://")
	r.RemoteAddr = testAddress + ":40000"
	switch {
	case body == "":
	case strings.HasPrefix(target, "/oauth/register"):
		r.Header.Set("Content-Type", "application/json")
	default:
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return r
}

func (d *door) send(r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "request-1")
	d.handler.ServeHTTP(w, r)
	return w
}

func (d *door) post(path string, form url.Values) *httptest.ResponseRecorder {
	return d.send(request("POST", path, form.Encode()))
}

// state is an approval as it must be shown now.
func (d *door) state(h token.Handle) approval.State {
	d.t.Helper()
	row, err := d.Store.Approval(context.Background(), approval.ID(h.ID()))
	if err != nil {
		d.t.Fatal(err)
	}
	return row.State
}

// wantState checks, once there is a refresh token, also that the row knows the
// key that sealed it (decision T11).
func (d *door) wantState(h token.Handle, phase approval.Phase, generation int64, reason approval.Reason) {
	d.t.Helper()
	got := d.state(h)
	if got.Phase != phase || got.Generation != generation || got.Reason != reason {
		d.t.Errorf("approval in phase %d, generation %d, %q, want phase %d, generation %d, %q",
			got.Phase, got.Generation, got.Reason, phase, generation, reason)
	}
	if generation > 0 && got.Key != d.ring.Sealing() {
		d.t.Errorf("approval with key %d, want %d", got.Key, d.ring.Sealing())
	}
}

// events gives the kinds in the journal that came since the mark, oldest first.
func (d *door) events(kind journal.Kind) []store.Event {
	d.t.Helper()
	if err := d.Store.Ready(context.Background()); err != nil { // what was queued before is written
		d.t.Fatal(err)
	}
	all, _, err := d.Store.Events(context.Background(), store.EventFilter{Kind: kind, Limit: 100})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

func (d *door) counted(what string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, c := range d.counts {
		if c == what {
			n++
		}
	}
	return n
}
