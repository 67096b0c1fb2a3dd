package signin

import (
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/org"
)

// Sign-in counts failures alone (decision L4): nobody who knows the password
// is ever kept waiting by having used it. One account from one address is
// guessed at most signInPair often; an address at all, or an account from
// everywhere together, somewhat more often, because many people may share an
// address and a stranger must not lock somebody out with a few requests.
var (
	signInPair    = limit.Limit{N: 10, Window: 15 * time.Minute}
	signInAddress = limit.Limit{N: 60, Window: 10 * time.Minute}
	signInAccount = limit.Limit{N: 100, Window: time.Hour}

	// Behind a right password there is one person: fewer are enough (decision S5).
	secondAccount = limit.Limit{N: 20, Window: time.Hour}
)

// A second factor that is wrong so often in a row is told to its person; and
// codes of an app, six digits, count no more (NIST SP 800-63B-4 section 3.2.2).
const (
	wrongFactorsTold = 10
	wrongFactorsMost = 100
)

// failures counts sign-ins that failed, for one account from one address, for
// the address, and for the account.
type failures struct {
	most          int // of an account
	pair, account *limit.Names
	address       *limit.Addresses
	journaled     *limit.Addresses // one signin_throttled event per address and window

	places
}

// places are those of attempts under way, which may fail yet, by what they count
// under.
type places struct {
	mu    sync.Mutex
	tried map[string]int
}

// take gives an attempt a place under each key, if all have one left beside those
// that are taken. left says how many more may fail under each.
func (p *places) take(keys []string, left func() []int) (end func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, n := range left() {
		if n <= p.tried[keys[i]] {
			return nil, false
		}
	}
	if p.tried == nil {
		p.tried = map[string]int{}
	}
	for _, k := range keys {
		p.tried[k]++
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, k := range keys {
			if p.tried[k]--; p.tried[k] == 0 {
				delete(p.tried, k)
			}
		}
	}, true
}

// A wrongs counts what came from an address and failed.
type wrongs struct {
	*limit.Addresses
	places
}

// try does what may fail, and counts it where it did. With a wait it was not done,
// or must not be told: no more fails at once than one after the other.
func (w *wrongs) try(from netip.Addr, now time.Time, do func() (failed bool)) (wait time.Duration) {
	if wait := w.Wait(from, now); wait > 0 {
		return wait
	}
	end, ok := w.take([]string{limit.Key(from).String()}, func() []int { return []int{w.Remaining(from, now)} })
	if !ok {
		return time.Second // by then, it is known how the others went
	}
	defer end()
	if do() {
		_, wait = w.Allow(from, now)
	}
	return wait
}

// newFailures counts under a name of its own, such as "signin".
func newFailures(s *limit.Valkey, name string, account limit.Limit) *failures {
	return &failures{
		most: account.N,
		pair: s.Names(name+"-pair", signInPair), account: s.Names(name+"-account", account),
		address:   s.Addresses(name+"-address", signInAddress, nil),
		journaled: limit.NewAddresses(limit.Limit{N: 1, Window: signInAddress.Window}, nil),
	}
}

// wait is how long until the next attempt, 0 when it may be now. It counts
// nothing.
func (f *failures) wait(email string, from netip.Addr, now time.Time) time.Duration {
	account, pair := attemptKeys(email, from)
	return max(f.pair.Wait(pair, now), f.account.Wait(account, now), f.address.Wait(from, now))
}

// begin lets an attempt begin that fails at most within the limits, though
// others under way may fail as well, or says how long to wait. Call end when it
// is known, and counted, how it went.
func (f *failures) begin(email string, from netip.Addr, now time.Time) (end func(), wait time.Duration) {
	if wait := f.wait(email, from, now); wait > 0 {
		return nil, wait
	}
	account, pair := attemptKeys(email, from)
	end, ok := f.take([]string{"a " + account, "p " + pair, "f " + limit.Key(from).String()}, func() []int {
		return []int{f.account.Remaining(account, f.most, now), f.pair.Remaining(pair, signInPair.N, now), f.address.Remaining(from, now)}
	})
	if !ok {
		return nil, time.Second // by then, it is known how the others went
	}
	return end, 0
}

// add counts an attempt that failed. With a wait others, at other nodes, have
// used up meanwhile what was left: it must not be told how it went, as an attempt
// must not that was right and has a wait by then. So of attempts at once the nodes
// together tell of no more than of attempts in turn.
func (f *failures) add(email string, from netip.Addr, now time.Time) (wait time.Duration) {
	account, pair := attemptKeys(email, from)
	if _, wait = f.pair.Allow(pair, now); wait > 0 {
		return wait
	}
	_, ofAccount := f.account.Allow(account, now)
	_, ofAddress := f.address.Allow(from, now)
	return max(ofAccount, ofAddress)
}

// attemptKeys are what an attempt is counted under: the key that finds the person,
// so that no spelling of one email is a try more. Accounts that do not exist count
// like those that do.
func attemptKeys(email string, from netip.Addr) (account, pair string) {
	account = org.EmailKey(strings.TrimSpace(email)) // with spaces it is nobody's, and a try all the same
	return account, limit.Key(from).String() + " " + account
}
