package limit

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"
)

// Remembered is how many addresses, or names, are counted on their own at one
// time. Beyond it, new ones are counted with their neighbours (decision L1).
const Remembered = 1_000_000

// Addresses counts requests for each client address.
//
// An IPv6 address counts with its /64, an IPv4-mapped one as IPv4 (decision L2),
// and an invalid one with all other invalid ones: nobody is unlimited.
//
// Memory, with [Remembered] addresses: at most 100 bytes each, and 5 bytes for
// each further request in the window. Beyond, a new address counts with its /24 or
// /48, of which at most a quarter of that number is remembered, and beyond that
// with its /16 or /20: as much as registries give to one provider, and so few that
// there is room for all of them. None of this touches the budget of an address
// that is remembered already.
//
// It is safe for use by many goroutines.
type Addresses struct {
	c        *counter[network]
	networks atomic.Pointer[Networks]
	wide     bool    // each address counts with its /24 or /48 from the first on
	remote   *remote // nil counts in memory alone
}

// NewAddresses panics if l has no requests or less than a second.
func NewAddresses(l Limit, networks Networks) *Addresses {
	return newAddresses(l, networks, Remembered)
}

// NewBlocks counts as NewAddresses does, but each address with its /24 or /48.
// The number is that of the address which asks, where an operator gave it more.
func NewBlocks(l Limit, networks Networks) *Addresses {
	w := NewAddresses(l, networks)
	w.wide = true
	return w
}

func newAddresses(l Limit, networks Networks, room int) *Addresses {
	keep := func(k network) network { return k }
	w := &Addresses{c: newCounter(l, room, keep, network.wider)}
	w.SetNetworks(networks)
	return w
}

// SetNetworks gives other networks a multiple from the next request on. What
// was counted stays counted.
func (w *Addresses) SetNetworks(networks Networks) { w.networks.Store(&networks) }

// Allow says whether a request that came from a at now is let through, and if not,
// after how many whole seconds (at least one) the next one is. A refused request is
// not counted, so that refused requests do not make the wait longer.
//
// Time never goes back: an earlier now than the highest one seen counts as that one.
// A now with a monotonic reading, as time.Now gives it, is safe from a clock that
// is set.
func (w *Addresses) Allow(a netip.Addr, now time.Time) (ok bool, retryAfter time.Duration) {
	_, wait := w.ask(plain(a), now, 1)
	return wait == 0, wait
}

// Remaining says how many more requests Allow would let through at now. It takes none.
func (w *Addresses) Remaining(a netip.Addr, now time.Time) int {
	left, _ := w.ask(plain(a), now, 0)
	return left
}

// Wait is how long until Allow would let a request through, 0 when it would now. It
// takes none.
func (w *Addresses) Wait(a netip.Addr, now time.Time) time.Duration {
	_, wait := w.ask(plain(a), now, 0)
	return wait
}

func (w *Addresses) ask(a netip.Addr, now time.Time, take int) (left int, wait time.Duration) {
	k := networkOf(a)
	if w.wide {
		k = k.wider(wide)
	}
	if w.remote == nil {
		return w.c.ask(k, w.n(a), now, take)
	}
	return askRemote(w.remote, w.c, k.keys, k, w.n(a), now, take)
}

func (w *Addresses) n(a netip.Addr) int {
	networks := *w.networks.Load()
	if len(networks) == 0 {
		return w.c.limit.N
	}
	return w.c.limit.N * networks.multiple(a)
}

// Key is what an address is counted under: itself for IPv4, its /64 for IPv6
// (decision L2). It is the zero Prefix for an invalid address.
func Key(a netip.Addr) netip.Prefix {
	a = plain(a)
	bits := 64
	if a.Is4() {
		bits = 32
	}
	p, _ := a.Prefix(bits) // the zero Prefix with the error
	return p
}

// Block is the /24 or /48 of an address, with which it counts under pressure
// (decision L1). It is the zero Prefix for an invalid address.
func Block(a netip.Addr) netip.Prefix {
	a = plain(a)
	bits := 48
	if a.Is4() {
		bits = 24
	}
	p, _ := a.Prefix(bits) // the zero Prefix with the error
	return p
}

// Multiple is how many times the limits an address has, 1 or more.
func (w *Addresses) Multiple(a netip.Addr) int { return w.networks.Load().multiple(plain(a)) }

// plain is the one form of an address: IPv4-mapped is IPv4, and no zone.
func plain(a netip.Addr) netip.Addr {
	return a.Unmap().WithZone("")
}

// A network is an address block in 12 bytes without pointers: for IPv6 the first
// 64 bits, for IPv4 the address in hi; and how many of the bits count.
type network struct {
	hi, lo uint32
	bits   uint32 // plus v4 for IPv4; 0 for no address
}

const v4 = 1 << 8

func networkOf(a netip.Addr) network {
	switch {
	case a.Is4():
		b := a.As4()
		return network{hi: binary.BigEndian.Uint32(b[:]), bits: v4 + 32}
	case a.Is6():
		b := a.As16()
		return network{binary.BigEndian.Uint32(b[:4]), binary.BigEndian.Uint32(b[4:8]), 64}
	}
	return network{}
}

func (k network) wider(l level) network {
	switch {
	case k.bits == 0:
		return k
	case k.bits > v4 && l == wide:
		return network{hi: k.hi &^ 0xff, bits: v4 + 24}
	case k.bits > v4:
		return network{hi: k.hi &^ 0xffff, bits: v4 + 16}
	case l == wide:
		return network{k.hi, k.lo &^ 0xffff, 48}
	}
	return network{hi: k.hi &^ 0xfff, bits: 20}
}

// keys are what k is counted under in a shared counter, from the narrowest.
func (k network) keys(prefix string) []string {
	if k.bits == 0 {
		return []string{prefix + "none"}
	}
	return []string{prefix + k.String(), prefix + k.wider(wide).String(), prefix + k.wider(widest).String()}
}

func (k network) String() string {
	if k.bits > v4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], k.hi)
		return netip.PrefixFrom(netip.AddrFrom4(b), int(k.bits-v4)).String()
	}
	var b [16]byte
	binary.BigEndian.PutUint32(b[:4], k.hi)
	binary.BigEndian.PutUint32(b[4:], k.lo)
	return netip.PrefixFrom(netip.AddrFrom16(b), int(k.bits)).String()
}
