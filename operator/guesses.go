package operator

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/netip"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// wrongPasswords is how often one address may be wrong. Then the right password
// does not open either, else it could be guessed on (decision L4).
var wrongPasswords = limit.Limit{N: 20, Window: 10 * time.Minute}

// wrongInNetwork is how often a whole /24 or /48 may be: one /48 has 65,536 of
// what counts as one address.
var wrongInNetwork = limit.Limit{N: 100, Window: 10 * time.Minute}

// guesses counts wrong passwords of each address, and bounds what the journal
// has of them.
type guesses struct {
	mu        sync.Mutex // one at a time: no two guesses are both the last one
	wrong     *limit.Addresses
	network   *limit.Addresses
	failed    *limit.Addresses
	throttled *limit.Addresses
}

func (g *guesses) begin(s *limit.Valkey) {
	g.wrong = s.Addresses("operator-password", wrongPasswords, nil)
	g.network = s.Blocks("operator-password-network", wrongInNetwork, nil)
	g.failed = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	g.throttled = limit.NewAddresses(limit.Limit{N: 1, Window: wrongPasswords.Window}, nil)
}

// knows compares name and password in constant time, whatever their lengths, or
// says how long this address has to wait until it may try.
func (s *Server) knows(c call) (ok bool, wait time.Duration) {
	name, password, sent := c.BasicAuth()
	known := s.Password()
	if !sent || known == "" {
		return false, 0
	}
	got, want := sha256.Sum256([]byte(password)), sha256.Sum256([]byte(known))
	right := subtle.ConstantTimeCompare(got[:], want[:]) & subtle.ConstantTimeCompare([]byte(name), []byte(User))

	s.guesses.mu.Lock()
	defer s.guesses.mu.Unlock()
	now := s.Store.Now()
	wait = max(s.guesses.wrong.Wait(c.address, now), s.guesses.network.Wait(c.address, now))
	if right != 1 { // counted in the same step, as other nodes may count too
		wait = s.guesses.add(c.address, now)
	}
	switch {
	case wait > 0:
		s.noteGuess(s.guesses.throttled, journal.SignInThrottled, c, now)
	case right != 1:
		s.noteGuess(s.guesses.failed, journal.SignInFailed, c, now)
	}
	return right == 1 && wait == 0, wait
}

// add counts a wrong password, or says how long to wait, and counts nothing
// of an address that has used up its own.
func (g *guesses) add(from netip.Addr, now time.Time) (wait time.Duration) {
	if _, wait = g.wrong.Allow(from, now); wait == 0 {
		_, wait = g.network.Allow(from, now)
	}
	return wait
}

// noteGuess writes to the journal, but not more often than of lets it.
func (s *Server) noteGuess(of *limit.Addresses, kind journal.Kind, c call, now time.Time) {
	if first, _ := of.Allow(c.address, now); first {
		s.Store.Record(store.Event{Kind: kind, Actor: User, Address: c.address.String(), Reference: c.reference})
	}
}
