package operator

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestWrongPasswordsAreLimited(t *testing.T) {
	o := newOffice(t)
	wrong := func(r *http.Request) { r.SetBasicAuth(User, "guess") }
	from := func(address string) func(*http.Request) {
		return func(r *http.Request) { r.RemoteAddr = address + ":40000" }
	}
	guess := func(r *http.Request) { from("203.0.113.9")(r); wrong(r) }
	o.want(401, "GET", "/v1/people", "", from("203.0.113.9"), func(r *http.Request) { r.Header.Del("Authorization") })
	for range 19 {
		o.want(401, "GET", "/v1/people", "", guess)
	}
	o.want(200, "GET", "/v1/people", "", from("203.0.113.9"))
	o.want(401, "GET", "/v1/nothing", "", guess)
	for _, tell := range []func(*http.Request){guess, from("203.0.113.9")} { // the right one too
		w := o.do("GET", "/v1/people", "", tell)
		if w.Code != 429 || w.Header().Get("Retry-After") != "600" || w.Header().Get("WWW-Authenticate") != "" {
			t.Errorf("got %d, Retry-After %q: %s", w.Code, w.Header().Get("Retry-After"), w.Body)
		}
	}
	o.want(200, "GET", "/v1/people", "") // another address
	o.want(401, "GET", "/v1/people", "", from("203.0.113.9"), func(r *http.Request) { r.Header.Del("Authorization") })
	if w := o.do("GET", "/readyz", "", guess); w.Code != 200 {
		t.Errorf("/readyz: %d", w.Code)
	}
	o.later.Store(int64(10*time.Minute - time.Second))
	o.want(429, "GET", "/v1/people", "", from("203.0.113.9"))
	o.later.Store(int64(11 * time.Minute))
	o.want(200, "GET", "/v1/people", "", from("203.0.113.9"))
	if err := o.Store.Ready(t.Context()); err != nil { // a write after those that were not waited for
		t.Fatal(err)
	}
	for kind, n := range map[string]int{"signin_failed": 1, "signin_throttled": 1} {
		if got := len(o.want(200, "GET", "/v1/events?kind="+kind, "")["items"].([]any)); got != n {
			t.Errorf("%d events %s, want %d", got, kind, n)
		}
	}
}

// Guesses at once get no further than guesses in turn.
func TestWrongPasswordsAtOnce(t *testing.T) {
	o := newOffice(t)
	guess := httptest.NewRequest("GET", "/v1/people", nil)
	guess.SetBasicAuth(User, "guess")
	for round := range 200 {
		var tried atomic.Int64
		var group sync.WaitGroup
		begin := make(chan struct{})
		c := Call{Request: guess, Address: netip.AddrFrom4([4]byte{10, 0, byte(round), 0})}
		for range 32 {
			group.Go(func() {
				<-begin
				if _, wait := o.checkPassword(c); wait == 0 {
					tried.Add(1)
				}
			})
		}
		close(begin)
		group.Wait()
		if tried.Load() != 20 {
			t.Fatalf("round %d: %d were tried, want 20", round, tried.Load())
		}
	}
}

// Nor do guesses at two nodes that count together: what another has used up in
// between is told to nobody.
func TestWrongPasswordsAtTwoNodes(t *testing.T) {
	nodes := []*office{newOffice(t), newOffice(t)}
	nodes[1].passwords.addresses, nodes[1].passwords.networks = nodes[0].passwords.addresses, nodes[0].passwords.networks
	guess := httptest.NewRequest("GET", "/v1/people", nil)
	guess.SetBasicAuth(User, "guess")
	for round := range 100 {
		var told atomic.Int64
		var group sync.WaitGroup
		begin := make(chan struct{})
		c := Call{Request: guess, Address: netip.AddrFrom4([4]byte{10, 1, byte(round), byte(round >> 8)})}
		for i := range 32 {
			group.Go(func() {
				<-begin
				if _, wait := nodes[i%2].checkPassword(c); wait == 0 {
					told.Add(1)
				}
			})
		}
		close(begin)
		group.Wait()
		if told.Load() != 20 {
			t.Fatalf("round %d: %d were told, want 20", round, told.Load())
		}
	}
}

// One /48 has many /64s, and no more guesses than a few addresses.
func TestWrongPasswordsOfOneNetwork(t *testing.T) {
	o := newOffice(t)
	guess := httptest.NewRequest("GET", "/v1/people", nil)
	guess.SetBasicAuth(User, "guess")
	tried := func(format string) (n int) {
		for i := range 300 {
			if _, wait := o.checkPassword(Call{Request: guess, Address: netip.MustParseAddr(fmt.Sprintf(format, i%250))}); wait == 0 {
				n++
			}
		}
		return n
	}
	for format, want := range map[string]int{"2001:db8:2:%x::1": 100, "2001:db8:3::%x": 20, "192.0.2.%d": 100, "10.1.%d.1": 300} {
		if got := tried(format); got != want {
			t.Errorf("%s: %d were tried, want %d", format, got, want)
		}
	}
}

// Guesses of a named operator's password at once, from many networks, get no further
// than guesses in turn.
func TestWrongSignInsAtOnce(t *testing.T) {
	o := newOffice(t)
	o.Operators = func() []Named { return []Named{{Name: "rita", Email: "rita@ops.example", Hash: "right", Rights: Read}} }
	var compared atomic.Int64
	o.MatchPassword = func(_ context.Context, hash string, _ []string, password string) (bool, error) {
		compared.Add(1)
		return hash == password, nil
	}
	var group sync.WaitGroup
	begin := make(chan struct{})
	for i := range 64 {
		group.Go(func() {
			<-begin
			c := Call{Request: httptest.NewRequest("POST", "/signin", nil), Address: netip.AddrFrom4([4]byte{10, byte(i), 0, 1})}
			if _, err := o.SignIn(c, "RITA@ops.example", "guess"); err == nil {
				t.Error("a guess is right")
			}
		})
	}
	close(begin)
	group.Wait()
	if n := compared.Load(); n > int64(wrongPasswords.N) {
		t.Errorf("%d guesses were compared, and %d may be", n, wrongPasswords.N)
	}
	if len(o.passwords.trying) != 0 {
		t.Errorf("places that nobody gave back: %v", o.passwords.trying)
	}
}

// The route of a request stays known to whoever counts it.
func TestRoutesAreKnownOutside(t *testing.T) {
	o := newOffice(t)
	r := httptest.NewRequest("GET", "http://127.0.0.1:8081/v1/people", nil)
	r.SetBasicAuth(User, o.Password())
	o.Handler().ServeHTTP(httptest.NewRecorder(), r)
	if r.Pattern != "GET /v1/people" {
		t.Errorf("the route is %q", r.Pattern)
	}
}
