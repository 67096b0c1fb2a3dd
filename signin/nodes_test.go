package signin

import (
	"maps"
	"net/netip"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/provider"
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
	a.Furnish()
	b = openSite(t, store.Options{URL: url}, a.Clock)
	if common {
		for of, other := range map[*failures]*failures{b.SignIn.failures: a.SignIn.failures, b.SignIn.wrongFactors: a.SignIn.wrongFactors} {
			of.pair, of.account, of.address = other.pair, other.account, other.address
		}
	}
	return a, b, url
}

// asks has hundreds ask two nodes at once, and counts the answers.
func asks(nodes []*site, cookies map[string]string, ask func(b *pagetest.Browser) *pagetest.Shown) map[int]int {
	got := map[int]int{}
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 300 {
		b := nodes[i%len(nodes)].Browser()
		maps.Copy(b.Cookies, cookies)
		all.Go(func() {
			status := ask(b).Status
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
		WithApp(t, a.SignedIn("ada"))
		a.Pass(time.Minute)
		p := pagetest.SignIn(a.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
		form := p.Fill("/signin/second")
		form.Set("code", "000000")
		got := asks([]*site{a, b}, p.B.Cookies, func(b *pagetest.Browser) *pagetest.Shown { return b.Post("/signin/second", form) })
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
func TestSecondFactorWhileOthersOvertake(t *testing.T) {
	a, b, url := twoNodes(t, true)
	app, _ := WithApp(t, a.SignedIn("ada"))
	a.Pass(time.Minute)
	p := pagetest.SignIn(a.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	p.Press("/signin/second", "code", "000000").Want(422)
	conn, err := pgx.Connect(t.Context(), url)
	a.Do(err)
	defer conn.Close(t.Context())
	held, err := conn.Begin(t.Context())
	a.Do(err)
	_, err = held.Exec(t.Context(), `UPDATE wrong_factor SET number = number`)
	a.Do(err)
	form, answered := p.Fill("/signin/second"), make(chan *pagetest.Shown)
	form.Set("code", app.Code())
	go func() { answered <- p.B.Post("/signin/second", form) }()
	for began := false; !began; time.Sleep(time.Millisecond) {
		a.SignIn.wrongFactors.mu.Lock()
		began = len(a.SignIn.wrongFactors.tried) > 0
		a.SignIn.wrongFactors.mu.Unlock()
	}
	for range signInPair.N - 1 {
		if wait := b.SignIn.wrongFactors.add("ada", b.SignIn.Address(nil), b.Store.Now()); wait > 0 {
			t.Error("no room at the other node")
		}
	}
	a.Do(held.Rollback(t.Context()))
	(<-answered).Want(429)
	for Failed(a.Site, "ada") < 2 { // one for each attempt, which nobody waits for to be written
		time.Sleep(time.Millisecond)
	}
}

// Passwords too: each is told to be wrong only while the nodes together have room,
// and so is the right one.
func TestPasswordsThatOthersOvertake(t *testing.T) {
	a := newSite(t)
	for name, typed := range map[string]string{"wrong": "a wrong one", "right": pagetest.Password} {
		other := newFailures(nil, "signin", signInAccount)
		other.pair, other.account, other.address = a.SignIn.failures.pair, a.SignIn.failures.account, a.SignIn.failures.address
		hash := a.SignIn.hasher.derive
		a.SignIn.hasher.derive = func(password, salt []byte, passes, memory uint32, lanes uint8, length uint32) []byte {
			for range signInPair.N {
				other.add("ada@nordlys.example", a.SignIn.Address(nil), a.Store.Now())
			}
			return hash(password, salt, passes, memory, lanes, length)
		}
		b := a.Browser()
		pagetest.SignIn(b.Get("/signin"), "ada@nordlys.example", typed).Want(429)
		if b.Cookies["__Host-session"] != "" {
			t.Errorf("%s: there is a session", name)
		}
		a.SignIn.hasher.derive = hash
		a.Pass(time.Hour)
	}
	pagetest.SignIn(a.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Want(303)
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

// failedAtOnce asks 300 times at once for what fails, and then one after the other until
// no more may: as many fail as may in all. At once it can be fewer, since one that is
// counted already holds its place until it has ended.
func (s *site) failedAtOnce(t *testing.T, cookies map[string]string, ask func(b *pagetest.Browser) *pagetest.Shown) map[int]int {
	t.Helper()
	got := asks([]*site{s}, cookies, ask)
	if got[400] == 0 || got[400] > signInAddress.N || got[400]+got[429] != 300 {
		t.Errorf("at once: %v", got)
	}
	for range signInAddress.N + 1 - got[400] {
		b := s.Browser()
		maps.Copy(b.Cookies, cookies)
		got[ask(b).Status]++
	}
	if got[400] != signInAddress.N {
		t.Errorf("in all: %v", got)
	}
	return got
}

// Nor do more sign-ins elsewhere fail at once, or wrong words of a logout, and a
// provider is not asked more often.
func TestElsewhereAtOnce(t *testing.T) {
	s := newSite(t)
	f := NewFar(t, s.Store.Now)
	s.SignIn.Providers = []*provider.Provider{f.Provider("corp")}
	b := s.Browser()
	asked := f.Asks(b.Get(b.Get("/signin").Want(200).Link("Continue with Corporate login")))
	answers := func(b *pagetest.Browser) *pagetest.Shown { return b.Get(f.Answers(asked, "code", "x")) }
	got := s.failedAtOnce(t, b.Cookies, answers)
	if n := f.Asked["/token"]; n != signInAddress.N {
		t.Errorf("%v; the provider was asked %d times", got, n)
	}
	s.failedAtOnce(t, nil, func(b *pagetest.Browser) *pagetest.Shown {
		return b.Post("/signin/logout/corp", url.Values{"logout_token": {"x"}})
	})
	other := wrongs{Addresses: s.SignIn.elsewhere.Addresses} // of another node
	s.Pass(time.Hour)
	told := other.try(s.SignIn.Address(nil), s.Store.Now(), func() bool {
		for range signInAddress.N {
			s.SignIn.elsewhere.Allow(s.SignIn.Address(nil), s.Store.Now())
		}
		return true
	})
	if told == 0 {
		t.Error("what others have used up is told")
	}
}
