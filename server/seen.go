package server

import (
	"hash/maphash"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/operator"
)

// seenFor is how long an address that a request came from is remembered.
const seenFor = 10 * time.Minute

// seenAddresses remembers, roughly, from how many addresses requests came: so
// many that one that stands for everybody can be told from several. It is on
// the way of every request, and takes no lock.
type seenAddresses struct {
	seed       maphash.Seed
	slots      [64]seenSlot
	unbelieved seenSlot // a peer that forwards, and is not trusted
}

type seenSlot struct {
	address atomic.Pointer[netip.Addr]
	at      atomic.Int64 // Unix seconds
}

func newSeenAddresses() *seenAddresses { return &seenAddresses{seed: maphash.MakeSeed()} }

// request remembers the address that a request came from.
func (s *seenAddresses) request(r *http.Request, a netip.Addr, at time.Time) {
	now := at.Unix()
	s.note(a, now)
	if len(r.Header["X-Forwarded-For"]) > 0 || len(r.Header["Forwarded"]) > 0 {
		// Who is trusted is never the client of what it forwards.
		if peer := (limit.Proxies{}).ClientAddr(r); peer == a {
			s.unbelieved.keep(a, now)
		}
	}
}

// trustAnew forgets a peer that was not trusted: it may be now, and what it sends believed.
func (s *seenAddresses) trustAnew() { s.unbelieved.at.Store(0) }

// note takes a slot for the address, unless four others have its places.
func (s *seenAddresses) note(a netip.Addr, now int64) {
	h := maphash.Comparable(s.seed, a)
	for i := range uint64(4) {
		slot := &s.slots[(h+i)%uint64(len(s.slots))]
		if has := slot.address.Load(); has != nil && *has == a || slot.at.Load() <= now-int64(seenFor.Seconds()) {
			slot.keep(a, now)
			return
		}
	}
}

func (s *seenSlot) keep(a netip.Addr, now int64) {
	if has := s.address.Load(); has == nil || *has != a {
		kept := a // its own copy, so that no other call pays for one
		s.address.Store(&kept)
	}
	if s.at.Load() != now {
		s.at.Store(now)
	}
}

func (s *seenAddresses) seen() operator.Seen {
	var out operator.Seen
	if s == nil { // nobody listens to the public
		return out
	}
	now := time.Now().Unix()
	for i := range s.slots {
		if a := s.slots[i].address.Load(); a != nil && s.slots[i].at.Load() > now-int64(seenFor.Seconds()) {
			out.Addresses++
			out.Only = a.String()
		}
	}
	if out.Addresses != 1 {
		out.Only = ""
	}
	if a := s.unbelieved.address.Load(); a != nil && s.unbelieved.at.Load() > now-int64(seenFor.Seconds()) {
		out.Unbelieved = a.String()
	}
	return out
}
