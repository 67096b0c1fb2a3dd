package consent

import (
	"maps"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// twoNodes gives two nodes on one PostgreSQL database; of common, they have the
// counters of failures in common, as with limiter.url.
func twoNodes(t *testing.T, common bool) (a, b *site, url string) {
	t.Helper()
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	if url, err = pg.Schema(); err != nil {
		t.Fatal(err)
	}
	a = openSite(t, store.Options{URL: url}, nil)
	a.furnish()
	b = openSite(t, store.Options{URL: url}, a.clock)
	if common {
		for of, other := range map[*failures]*failures{b.failures: a.failures, b.wrongFactors: a.wrongFactors} {
			of.pair, of.account, of.address = other.pair, other.account, other.address
		}
	}
	return a, b, url
}

// asks has hundreds ask two nodes at once, and counts the answers.
func asks(nodes []*site, cookies map[string]string, ask func(b *browser) *shown) map[int]int {
	got := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 300 {
		b := nodes[i%len(nodes)].browser()
		maps.Copy(b.cookies, cookies)
		all.Go(func() {
			status := ask(b).status
			mu.Lock()
			defer mu.Unlock()
			got[status]++
		})
	}
	all.Wait()
	return got
}

// Of hundreds of wrong codes at once at two nodes no more are told to be wrong than
// docs/limits.md says: as many as one node has where they count together, and as
// many for each where they do not (decision S5).
func TestSecondFactorsAtOnceAtTwoNodes(t *testing.T) {
	for _, common := range []bool{false, true} {
		a, b, _ := twoNodes(t, common)
		withApp(t, a.signedIn("ada"))
		a.pass(time.Minute)
		p := signin(a.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200)
		form := p.fill("/signin/second")
		form.Set("code", "000000")
		got := asks([]*site{a, b}, p.b.cookies, func(b *browser) *shown { return b.post("/signin/second", form) })
		most := 2 * signInPair.N
		if common {
			most = signInPair.N
		}
		if got[422] != most || got[422]+got[429] != 300 {
			t.Errorf("counted together %v: %v, want %d that were wrong", common, got, most)
		}
		inARow, err := a.Store.TryFactor(t.Context(), "ada")
		if err != nil || inARow <= got[422] || inARow > 2*signInPair.N+1 {
			t.Errorf("counted together %v: %d in a row, %v", common, inARow, err)
		}
	}
}

// A factor that is right, and of which is known only when other nodes have used up
// what was left, is told to wait as a wrong one is.
func TestSecondFactorThatOthersOvertake(t *testing.T) {
	a, b, url := twoNodes(t, true)
	app, _ := withApp(t, a.signedIn("ada"))
	a.pass(time.Minute)
	p := signin(a.browser().get("/signin"), "ada@nordlys.example", password).follow().want(200)
	p.press("/signin/second", "code", "000000").want(422)
	conn, err := pgx.Connect(t.Context(), url)
	a.do(err)
	defer conn.Close(t.Context())
	held, err := conn.Begin(t.Context())
	a.do(err)
	_, err = held.Exec(t.Context(), `UPDATE wrong_factor SET number = number`)
	a.do(err)
	form, answered := p.fill("/signin/second"), make(chan *shown)
	form.Set("code", app.code())
	go func() { answered <- p.b.post("/signin/second", form) }()
	for began := false; !began; time.Sleep(time.Millisecond) {
		a.wrongFactors.mu.Lock()
		began = len(a.wrongFactors.tried) > 0
		a.wrongFactors.mu.Unlock()
	}
	for range signInPair.N - 1 {
		if wait := b.wrongFactors.add("ada", b.Address(nil), b.Store.Now()); wait > 0 {
			t.Error("no room at the other node")
		}
	}
	a.do(held.Rollback(t.Context()))
	(<-answered).want(429)
	if n := a.failed("ada"); n != 2 {
		t.Errorf("%d events, want one for each attempt", n)
	}
}

// Passwords too: each is told to be wrong only while the nodes together have room,
// and so is the right one.
func TestPasswordsThatOthersOvertake(t *testing.T) {
	a := newSite(t)
	for name, typed := range map[string]string{"wrong": "a wrong one", "right": password} {
		other := newFailures(nil, "signin", signInAccount)
		other.pair, other.account, other.address = a.failures.pair, a.failures.account, a.failures.address
		hash := a.hasher.derive
		a.hasher.derive = func(password, salt []byte, passes, memory uint32, lanes uint8, length uint32) []byte {
			for range signInPair.N {
				other.add("ada@nordlys.example", a.Address(nil), a.Store.Now())
			}
			return hash(password, salt, passes, memory, lanes, length)
		}
		b := a.browser()
		signin(b.get("/signin"), "ada@nordlys.example", typed).want(429)
		if b.cookies["__Host-session"] != "" {
			t.Errorf("%s: there is a session", name)
		}
		a.hasher.derive = hash
		a.pass(time.Hour)
	}
	signin(a.browser().get("/signin"), "ada@nordlys.example", password).want(303)
}

// A limit of one account holds in the sum of addresses that come at once.
func TestFailuresOfAnAccountAtOnce(t *testing.T) {
	a, b := newFailures(nil, "second", secondAccount), newFailures(nil, "second", secondAccount)
	b.pair, b.account, b.address = a.pair, a.account, a.address
	told := 0
	for i := range 60 {
		f := []*failures{a, b}[i%2]
		if f.add("ada", netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), time.Unix(1e9, 0)) == 0 {
			told++
		}
	}
	if told != secondAccount.N {
		t.Errorf("%d told, want %d", told, secondAccount.N)
	}
}

// Nor do more sign-ins elsewhere fail at once, or wrong words of a logout, and a
// provider is not asked more often.
func TestElsewhereAtOnce(t *testing.T) {
	s, f := newOutside(t)
	b := s.browser()
	asked := f.out(b)
	got := asks([]*site{s}, b.cookies, func(b *browser) *shown { return b.get(f.answers(asked, "code", "x")) })
	if n := f.asked["/token"]; got[400] != signInAddress.N || got[400]+got[429] != 300 || n != signInAddress.N {
		t.Errorf("%v; the provider was asked %d times", got, n)
	}
	got = asks([]*site{s}, nil, func(b *browser) *shown {
		return b.post("/signin/logout/corp", url.Values{"logout_token": {"x"}})
	})
	if got[400] != signInAddress.N || got[400]+got[429] != 300 {
		t.Errorf("logouts: %v", got)
	}
	other := wrongs{Addresses: s.elsewhere.Addresses} // of another node
	s.pass(time.Hour)
	told := other.try(s.Address(nil), s.Store.Now(), func() bool {
		for range signInAddress.N {
			s.elsewhere.Allow(s.Address(nil), s.Store.Now())
		}
		return true
	})
	if told == 0 {
		t.Error("what others have used up is told")
	}
}
