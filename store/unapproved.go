package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
)

// What strangers can store in clients that nobody has approved. Bytes are those
// of redirect URIs, and four for each character of a name.
const (
	// MaxUnapproved and MaxUnapprovedBytes bound all of them. Beyond either
	// nobody can register until some are approved or their 14 days are over.
	MaxUnapproved      = 1_000_000
	MaxUnapprovedBytes = 1 << 30

	// UnapprovedPressure and UnapprovedPressureBytes are a fiftieth of that.
	// Beyond either each network has a thousandth of it, its share, and the log
	// warns, once an hour.
	UnapprovedPressure      = MaxUnapproved / 50
	UnapprovedPressureBytes = MaxUnapprovedBytes / 50
	networkClients          = MaxUnapproved / 1000
	networkBytes            = MaxUnapprovedBytes / 1000
)

// Origin is where a client registered from.
type Origin struct {
	// Network is the /24 or /48 of the address, as limit.Block gives it. The
	// zero Prefix is none, which has no share of its own.
	Network netip.Prefix
	// Multiple is how many shares the network has; 0 is one (decision L3).
	Multiple int
}

// block is a /24 or /48 in eight bytes; 0 is none.
type block uint64

const (
	fourBlock block = 1 << 62
	sixBlock  block = 1 << 63
)

// blockOf reads the text of a network, "" and what is none included.
func blockOf(network string) block {
	p, err := netip.ParsePrefix(network)
	if err != nil {
		return 0
	}
	return blockOfPrefix(p)
}

func blockOfPrefix(p netip.Prefix) block {
	switch {
	case p.Addr().Is4() && p.Bits() >= 24:
		b := p.Addr().As4()
		return fourBlock | block(binary.BigEndian.Uint32(b[:])>>8)
	case p.Addr().Is6() && p.Bits() >= 48:
		b := p.Addr().As16()
		return sixBlock | block(binary.BigEndian.Uint64(b[:8])>>16)
	}
	return 0
}

// network is the text of a row.
func (o Origin) network() string {
	if !o.Network.IsValid() {
		return ""
	}
	return o.Network.String()
}

// A weight is what a client that nobody has approved counts for.
type weight struct {
	network block
	bytes   int32
}

func weigh(c client.Client, o Origin) weight {
	w := weight{bytes: int32(4*utf8.RuneCountInString(c.Name) + len(strings.Join(c.RedirectURIs, "\n")))}
	if o.Network.IsValid() {
		w.network = blockOfPrefix(o.Network)
	}
	return w
}

// A crowd is how many such clients there are, and what they hold.
type crowd struct {
	held
	networks map[block]held
}

type held struct {
	clients int
	bytes   int64
}

func (h held) plus(n int, bytes int64) held { return held{h.clients + n, h.bytes + bytes} }

// add counts a client, or one less with n of -1.
func (c *crowd) add(w weight, n int) {
	bytes := int64(n) * int64(w.bytes)
	c.held = c.held.plus(n, bytes)
	if w.network == 0 {
		return
	}
	if c.networks == nil {
		c.networks = map[block]held{}
	}
	if c.networks[w.network] = c.networks[w.network].plus(n, bytes); c.networks[w.network].clients <= 0 {
		delete(c.networks, w.network)
	}
}

// pressed reports whether each network has its share alone.
func (h held) pressed() bool {
	return h.clients >= UnapprovedPressure || h.bytes >= UnapprovedPressureBytes
}

// room says which bound refuses one more client: "" for none. there is what all
// hold, of is what its network holds.
func room(there, of held, w weight, shares int) (bound string) {
	switch {
	case there.clients >= MaxUnapproved:
		return "clients"
	case there.bytes+int64(w.bytes) > MaxUnapprovedBytes:
		return "bytes"
	case w.network == 0 || !there.pressed():
		return ""
	case of.clients >= networkClients*shares:
		return "network's clients"
	case of.bytes+int64(w.bytes) > int64(networkBytes)*int64(shares):
		return "network's bytes"
	}
	return ""
}

// Pressed reports whether so many clients wait for their first approval that
// registrations count with their network too (decision L1).
func (s *Store) Pressed() bool {
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	return s.memory.waiting.pressed()
}

// timeToSay reports, once in so many seconds, that something is to be logged.
func (s *Store) timeToSay(said *atomic.Int64, every int64) bool {
	now, before := s.Now().Unix(), said.Load()
	return now-before >= every && said.CompareAndSwap(before, now)
}

// A reserved is room for one client that is being registered, so that those that
// register at once cannot each find the same last one. The memory's lock guards it.
type reserved struct {
	weight
	left bool
}

// leave gives the place back, once: the client counts now, or was refused.
func (m *memory) leave(p *reserved) {
	if !p.left {
		m.arriving.add(p.weight, -1)
		p.left = true
	}
}

// reserve takes room for a client. That there is none is not said before the facts
// are asked again: another node may have made some.
func (s *Store) reserve(ctx context.Context, w weight, shares int) (*reserved, error) {
	there, bound := s.memory.reserve(w, max(shares, 1))
	if bound != "" {
		if err := s.fresh(ctx); err != nil {
			return nil, err
		}
		there, bound = s.memory.reserve(w, max(shares, 1))
	}
	if (bound == "clients" || bound == "bytes") && s.timeToSay(&s.fullSaid, 60) {
		s.log.Error("nobody can register: as many clients as there may be wait for their first approval", "clients", there.clients, "bytes", there.bytes)
	}
	if there.pressed() && s.timeToSay(&s.pressedSaid, 3600) {
		s.log.Warn("many clients wait for their first approval: registrations count with their network; see: grantkeeper client delete-unapproved --dry-run",
			"clients", there.clients, "bytes", there.bytes)
	}
	if bound != "" {
		return nil, fmt.Errorf("%d clients wait for their first approval, too many by the bound of %s: %w", there.clients, bound, ErrUnavailable)
	}
	return &reserved{weight: w}, nil
}

// reserve takes room, unless a bound refuses, and says what all hold.
func (m *memory) reserve(w weight, shares int) (there held, bound string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	there = m.waiting.plus(m.arriving.clients, m.arriving.bytes)
	of, arriving := m.waiting.networks[w.network], m.arriving.networks[w.network]
	if bound = room(there, of.plus(arriving.clients, arriving.bytes), w, shares); bound == "" {
		m.arriving.add(w, 1)
	}
	return there, bound
}
