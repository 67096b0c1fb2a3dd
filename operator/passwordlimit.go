package operator

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// wrongPasswords is how many wrong passwords one address may send. After that the
// right password is refused as well, so that guessing on shows nothing (decision
// L4).
var wrongPasswords = limit.Limit{N: 20, Window: 10 * time.Minute}

// wrongInNetwork is how many a whole /24 or /48 may send: a /48 has 65,536 networks
// of the size that counts as one address.
var wrongInNetwork = limit.Limit{N: 100, Window: 10 * time.Minute}

// passwordLimits count the wrong passwords of each address, network and email, and bound
// the journal's entries about them.
type passwordLimits struct {
	mu              sync.Mutex // held from asking to counting, so that no two requests are both the last allowed
	addresses       *limit.Addresses
	networks        *limit.Addresses
	named           *limit.Names   // by the email of a named operator
	trying          map[string]int // passwords that are compared now, by what they count under
	failedEvents    *limit.Addresses
	throttledEvents *limit.Addresses
}

func (g *passwordLimits) start(s *limit.Valkey) {
	g.addresses = s.Addresses("operator-password", wrongPasswords, nil)
	g.networks = s.Blocks("operator-password-network", wrongInNetwork, nil)
	g.named = s.Names("operator-name", wrongPasswords)
	g.trying = map[string]int{}
	g.failedEvents = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	g.throttledEvents = limit.NewAddresses(limit.Limit{N: 1, Window: wrongPasswords.Window}, nil)
}

// checkPassword reports whether name and password are right, compared in constant
// time whatever their lengths. wait is how long the address has to wait before it
// may try; 0 is not at all.
func (s *Server) checkPassword(c Call) (ok bool, wait time.Duration) {
	name, password, sent := c.BasicAuth()
	known := s.Password()
	if !sent || known == "" {
		return false, 0
	}
	got, want := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(known))
	right := subtle.ConstantTimeCompare(got[:], want[:]) & subtle.ConstantTimeCompare([]byte(name), []byte(User))

	s.passwords.mu.Lock()
	defer s.passwords.mu.Unlock()
	now := s.Store.Now()
	wait = max(s.passwords.addresses.Wait(c.Address, now), s.passwords.networks.Wait(c.Address, now))
	if right != 1 { // asks and counts in one step, because other nodes may count too
		wait = s.passwords.count(c.Address, now)
	}
	switch {
	case wait > 0:
		s.recordWrong(s.passwords.throttledEvents, journal.SignInThrottled, c, "", now)
	case right != 1:
		s.recordWrong(s.passwords.failedEvents, journal.SignInFailed, c, "", now)
	}
	return right == 1 && wait == 0, wait
}

// count counts a wrong password, or returns how long to wait. It does not count one
// of an address that has reached its limit.
func (g *passwordLimits) count(from netip.Addr, now time.Time) (wait time.Duration) {
	if _, wait = g.addresses.Allow(from, now); wait == 0 {
		_, wait = g.networks.Allow(from, now)
	}
	return wait
}

// begin takes a place for a password that is about to be compared, if so many more
// may be wrong from the address, its network and for the email. end gives the place
// back and counts a wrong one; it returns how long to wait where others were wrong
// meanwhile.
func (g *passwordLimits) begin(from netip.Addr, email string, now time.Time) (end func(wrong bool, now time.Time) time.Duration, wait time.Duration) {
	keys := []string{"address " + limit.Key(from).String(), "network " + limit.Block(from).String(), "email " + email}
	g.mu.Lock()
	defer g.mu.Unlock()
	waits := []time.Duration{g.addresses.Wait(from, now), g.networks.Wait(from, now), g.named.Wait(email, now)}
	if wait = slices.Max(waits); wait > 0 {
		return nil, wait
	}
	for i, left := range []int{g.addresses.Remaining(from, now), g.networks.Remaining(from, now), g.named.Remaining(email, wrongPasswords.N, now)} {
		if left <= g.trying[keys[i]] {
			return nil, time.Second
		}
	}
	for _, k := range keys {
		g.trying[k]++
	}
	return func(wrong bool, now time.Time) (wait time.Duration) {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, k := range keys {
			if g.trying[k]--; g.trying[k] == 0 {
				delete(g.trying, k)
			}
		}
		if !wrong {
			return max(g.addresses.Wait(from, now), g.networks.Wait(from, now), g.named.Wait(email, now))
		}
		if wait = g.count(from, now); wait == 0 {
			_, wait = g.named.Allow(email, now)
		}
		return wait
	}, 0
}

// recordWrong adds an entry to the journal, at most as often as of allows. name is
// the operator's whose email was sent, "" of the shared password and of nobody.
func (s *Server) recordWrong(of *limit.Addresses, kind journal.Kind, c Call, name string, now time.Time) {
	if first, _ := of.Allow(c.Address, now); first {
		s.Store.Record(store.Event{Kind: kind, Actor: User, Detail: name, Address: c.Address.String(), Reference: c.Reference})
	}
}
