package consent

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

	mu    sync.Mutex
	tried map[string]int // attempts under way, which may fail yet, by what they count under
}

// newFailures counts under a name of its own, such as "signin".
func newFailures(s *limit.Shared, name string, account limit.Limit) *failures {
	return &failures{
		most: account.N,
		pair: s.Names(name+"-pair", signInPair), account: s.Names(name+"-account", account),
		address:   s.Addresses(name+"-address", signInAddress, nil),
		journaled: limit.NewAddresses(limit.Limit{N: 1, Window: signInAddress.Window}, nil),
		tried:     map[string]int{},
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
	account, pair := attemptKeys(email, from)
	f.mu.Lock()
	defer f.mu.Unlock()
	if wait := f.wait(email, from, now); wait > 0 {
		return nil, wait
	}
	keys := []string{"a " + account, "p " + pair, "f " + limit.Key(from).String()}
	if f.account.Remaining(account, f.most, now) <= f.tried[keys[0]] ||
		f.pair.Remaining(pair, signInPair.N, now) <= f.tried[keys[1]] || f.address.Remaining(from, now) <= f.tried[keys[2]] {
		return nil, time.Second // by then, it is known how the others went
	}
	for _, k := range keys {
		f.tried[k]++
	}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, k := range keys {
			if f.tried[k]--; f.tried[k] == 0 {
				delete(f.tried, k)
			}
		}
	}, 0
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
