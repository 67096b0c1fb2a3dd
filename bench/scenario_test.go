package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/oauth"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// doors serves the doors that the scenarios ask, on a database in the folder,
// as the command wires them.
func doors(t *testing.T, s *stock, path string, ruled bool) (address string, end func()) {
	t.Helper()
	db, err := store.Open(context.Background(), store.Options{Path: path, Ring: s.ring})
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := limit.ParseProxies([]string{"127.0.0.1/32"})
	if err != nil {
		t.Fatal(err)
	}
	base := func(r *http.Request) string {
		if r.Host != host {
			t.Errorf("asked for the host %q", r.Host)
		}
		return issuer
	}
	log := slog.New(slog.DiscardHandler)
	clients := (&oauth.Server{Store: db, Ring: s.ring, Log: log, Service: "Svalinn", Base: base,
		Address: proxies.ClientAddr, OwnHosts: func() []string { return []string{host} }}).Handler()
	service := httptest.NewServer(http.HandlerFunc(serviceHandler))
	to, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	key := func() []byte { return bytes.Repeat([]byte("k"), 32) }
	guard := &api.Server{Store: db, Ring: s.ring, Log: log, Service: "Svalinn", Base: base, Limit: limit.NewNames(limit.API)}
	if ruled {
		compiled, err := rules.Compile(toolRules(), "")
		if err != nil {
			t.Fatal(err)
		}
		guard.Rules = func() *rules.Rules { return compiled }
	}
	guard.MCP = map[string]http.Handler{"/api/v5/mcp": (&mcp.Server{URL: to.JoinPath("/api/v5/mcp"), Key: key, API: guard, Base: base, Address: proxies.ClientAddr}).Handler()}
	behind := guard.Guard((&gateway.Upstream{URL: to, Key: key, API: guard, Base: base, Address: proxies.ClientAddr}).Handler())
	calls := guard.Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			bareHandler(w, r)
		case strings.HasPrefix(r.URL.Path, "/api/v5/orders/"):
			behind.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/api/"):
			calls.ServeHTTP(w, r)
		default:
			clients.ServeHTTP(w, r)
		}
	}))
	return server.Listener.Addr().String(), func() {
		server.Close()
		service.Close()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Every scenario gets right answers from the doors, and the database has what
// was answered.
func TestScenarios(t *testing.T) {
	const connections, approvals, each = 8, 640, 80
	s, err := newStock(approvals)
	if err != nil {
		t.Fatal(err)
	}
	s.people = 100
	for _, sc := range scenarios {
		t.Run(sc.name, func(t *testing.T) {
			folder, of := t.TempDir(), *s
			if of.phase = sc.phase; !sc.once {
				of.approvals /= 4 // each has several turns
			}
			if sc.held {
				of.approvals *= 2
				if of.holder, err = newHolder(connections * each); err != nil {
					t.Fatal(err)
				}
			}
			written := of
			if sc.phase == 0 {
				written.approvals = 0
			}
			if err := written.write(t.Context(), folder); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(folder, databaseName)
			address, end := doors(t, &of, path, sc.ruled)
			b := bench{connections: connections}
			r, err := b.players(sc.player, &of, address).run(context.Background(), span{most: connections * each})
			end()
			if err != nil || r.good != connections*each || r.bad != 0 {
				t.Fatalf("%d right and %d wrong answers, %v %v", r.good, r.bad, err, r.faults)
			}
			c := comparison{Faults: map[string]int{}}
			if err := prove(sc, askFile(path), &c, []run{r}); err != nil || c.Errors != 0 {
				t.Fatalf("the database has something else: %v %v", err, c.Faults)
			}
			r.good++
			if err := prove(sc, askFile(path), &c, []run{r}); err != nil || sc.proof != "" && c.Errors != 1 {
				t.Fatalf("an answer that the database has not is not noticed: %v %v", err, c.Faults)
			}
		})
	}
}

// A stream ends when its approval does, and not before; one that does not begin is
// an error.
func TestCut(t *testing.T) {
	folder := t.TempDir()
	s, err := newStock(4)
	if err != nil {
		t.Fatal(err)
	}
	s.people = membersEach
	if err := s.write(t.Context(), folder); err != nil {
		t.Fatal(err)
	}
	address, end := doors(t, s, filepath.Join(folder, databaseName), true)
	defer end()
	if c, err := s.cut(t.Context(), address, address, 1, 3, time.Millisecond); err != nil || c.Streams != 3 || c.Median <= 0 || c.Most < c.Median {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := s.cut(t.Context(), address, address, 1, 1, time.Millisecond); err == nil {
		t.Error("a stream begins for an approval that has ended")
	}
}

// No scenario takes what it did not ask for as right.
func TestWrongAnswersAreNoticed(t *testing.T) {
	s, err := newStock(10)
	if err != nil {
		t.Fatal(err)
	}
	if s.holder, err = newHolder(1000); err != nil {
		t.Fatal(err)
	}
	other := `{"issuer":"https://another.example","id":"person-00001","access_token":"svr_x","client_id":"x","redirect_uris":["https://client.example/callback/1"]}`
	for _, sc := range scenarios {
		h := s.handle(0)
		if sc.held { // the first of a client with a key
			h = s.handle(1)
		}
		same := `{"access_token":"svo_x","refresh_token":"` + s.ring.Refresh(h, 1) + `"}`
		for what, a := range map[string]answer{
			"nothing":              {status: 200},
			"nothing, created":     {status: 201},
			"another object":       {status: 200, body: []byte(other)},
			"another client":       {status: 201, body: []byte(other)},
			"the same token again": {status: 200, body: []byte(same)},
			"a refusal":            {status: 400, body: []byte(`{"error":"invalid_grant"}`)},
			"a limit":              {status: 429, body: []byte(`{}`)},
			"no new refresh token": {status: 200, body: []byte(`{"access_token":"svo_x","refresh_token":"svr_x"}`)},
		} {
			if strings.HasPrefix(sc.name, "exchange") && what == "the same token again" {
				continue // there is none before it
			}
			p := sc.player(s, 0, 1)
			if p.next(nil) == nil {
				t.Fatalf("%s: no request", sc.name)
			}
			if p.check(a) == nil {
				t.Errorf("%s takes %s as right", sc.name, what)
			}
		}
	}
}

func TestNewRefreshToken(t *testing.T) {
	token := "svr_" + strings.Repeat("a", token.Len-4)
	for body, want := range map[string]string{
		`{"refresh_token":"` + token + `"}`:                                     token,
		`{"refresh_token":"` + token + `","x":1}`:                               token,
		`{"refresh_token":"` + token + `a"}`:                                    "",
		`{"refresh_token":"` + token[:20] + `"}`:                                "",
		`{"refresh_token":"` + token:                                            "",
		`{"refresh_token":"svo_` + token[4:] + `"}`:                             "",
		`{"access_token":"` + token + `"}`:                                      "",
		`{"refresh_token":"` + token[:20] + `"}     ` + strings.Repeat(" ", 60): "",
	} {
		if got := string(newRefreshToken([]byte(body))); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}

// No two connections register the same client, and none does it twice.
func TestRegistrationsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for c := range 7 {
		p := registerPlayer(nil, c, 7)
		for range 50 {
			p.next(nil)
			uri := string(p.(*registers).uri)
			if seen[uri] {
				t.Fatalf("connection %d registers %s again", c, uri)
			}
			seen[uri] = true
		}
	}
}

// People give the roles that they fill, all of them, in a grant set that can
// be read.
func TestGrants(t *testing.T) {
	s, err := newStock(1)
	if err != nil {
		t.Fatal(err)
	}
	s.people = 60
	filled := map[string][]string{}
	for _, table := range s.tables() {
		if table.name == "filler" {
			for row := range table.rows {
				filled[row[1].(string)] = append(filled[row[1].(string)], row[0].(string))
			}
		}
	}
	for person := range s.people {
		set, err := grantset.Decode(string(grantset.Roles), picks(person), false)
		if err != nil {
			t.Fatal(err)
		}
		var given []string
		for _, p := range set.Picks {
			given = append(given, p.Role)
		}
		fills := slices.Sorted(slices.Values(filled[personIDs[person]]))
		if len(given) != filledEach || !slices.Equal(given, fills) {
			t.Fatalf("person %d gives %v and fills %v", person, given, fills)
		}
	}
}

// What an error says never holds what came, but its code.
func TestErrorCode(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":"invalid_grant","error_description":"x"}`: "invalid_grant",
		`{"error":"svr_0123"}`:                              "without an error code",
		`{"error":"unfinished`:                              "without an error code",
		`{"access_token":"svo_x"}`:                          "without an error code",
		``:                                                  "without an error code",
		`{"error":"` + strings.Repeat("a", 41) + `"}`: "without an error code",
	} {
		if got := errorCode([]byte(body)); got != want {
			t.Errorf("%q: %q, want %q", body, got, want)
		}
	}
}

// No address is used more often than it may be, and each client keeps its own
// as long as that lasts.
func TestSpread(t *testing.T) {
	for _, s := range []spread{{1, 3}, {10_000, 20}, {addresses, 2}, {addresses + 1, 6}, {3 * addresses, 5}} {
		used := make([]int, addresses)
		for turn := range 2 * s.uses {
			for client := range s.clients {
				a, ok := s.of(client, turn)
				if !ok {
					continue
				}
				if own, _ := s.of(client, 0); turn < s.uses/(1+s.clients/(addresses+1)) && a != own {
					t.Fatalf("%+v: client %d has %x at turn %d, and had %x", s, client, a, turn, own)
				}
				if used[a-firstAddress]++; used[a-firstAddress] > s.uses {
					t.Fatalf("%+v: address %x is used %d times", s, a, used[a-firstAddress])
				}
			}
		}
		if _, ok := s.of(0, s.uses*addresses); ok {
			t.Errorf("%+v: there is no end of addresses", s)
		}
	}
	if got := string(appendAddress(nil, firstAddress+addresses-1)); got != "198.19.255.255" {
		t.Errorf("the last address is %s", got)
	}
}

// All connections together have every approval once.
func TestShares(t *testing.T) {
	for _, n := range []struct{ approvals, connections int }{{10, 3}, {64, 64}, {1, 1}, {10_000, 64}, {5, 8}} {
		seen := map[int]int{}
		for c := range n.connections {
			s := shareOf(&stock{approvals: n.approvals}, c, n.connections)
			for i := range s.count {
				place, number, turn := s.turn()
				if place != i || turn != 0 {
					t.Fatalf("%+v: place %d, turn %d, want %d and 0", n, place, turn, i)
				}
				seen[number]++
			}
			if s.count > 0 {
				if place, number, turn := s.turn(); place != 0 || number != c || turn != 1 {
					t.Fatalf("%+v: again place %d, number %d, turn %d", n, place, number, turn)
				}
			}
		}
		for number := range n.approvals {
			if seen[number] != 1 || len(seen) != n.approvals {
				t.Fatalf("%+v: approval %d has %d, of %d", n, number, seen[number], len(seen))
			}
		}
	}
}

func TestBareAnswer(t *testing.T) {
	if len(bareAnswer) != 300 {
		t.Errorf("%d bytes", len(bareAnswer))
	}
}

// The bare server is asked what a guarded call is asked, however often.
func TestUnguarded(t *testing.T) {
	s, err := newStock(8)
	if err != nil {
		t.Fatal(err)
	}
	guarded := verifyPlayer(s, 0, 1).(*verifies)
	guarded.turns = 1
	open := endless(verifyPlayer, bareAnswer[:20])(s, 0, 1)
	open.(*verifies).tokens = guarded.tokens // those of another second differ
	for i := range 2 * s.approvals {
		want, got := guarded.next(nil), open.next(nil)
		if i < s.approvals && !bytes.Equal(want, got) || i >= s.approvals && (want != nil || got == nil) {
			t.Fatalf("request %d is %q, and of the bare server %q", i, want, got)
		}
	}
	bare, service := httptest.NewServer(http.HandlerFunc(bareHandler)), httptest.NewServer(http.HandlerFunc(serviceHandler))
	defer bare.Close()
	defer service.Close()
	to, err := url.Parse(service.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(reverseProxy(to))
	defer proxy.Close()
	b := bench{connections: 4}
	for _, sc := range scenarios {
		if sc.held { // it is compared with plain requests at the same server
			continue
		}
		of, err := newStock(8)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(sc.bare(of, 0, 1).next(nil), []byte("Authorization: Bearer ")); got != (strings.HasPrefix(sc.name, "verify") || sc.behind) {
			t.Errorf("%s: the bare server gets a token: %v", sc.name, got)
		}
		server := bare
		if sc.behind {
			server = proxy
		}
		r, err := b.players(sc.bare, of, server.Listener.Addr().String()).run(context.Background(), span{most: 40})
		if err != nil || r.good != 40 || r.bad != 0 {
			t.Errorf("%s: %d right and %d wrong answers, %v %v", sc.name, r.good, r.bad, err, r.faults)
		}
	}
	if open.check(answer{status: 200, body: []byte(`{"person":{}}`)}) == nil || open.check(answer{status: 401, body: []byte(bareAnswer)}) == nil {
		t.Error("another answer is taken for the bare server's")
	}
}
