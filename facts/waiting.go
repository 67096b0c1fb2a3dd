package facts

import (
	"encoding/binary"
	"net/netip"
)

// Block is a /24 or /48 in eight bytes; 0 is none.
type Block uint64

const (
	fourBlock Block = 1 << 62
	sixBlock  Block = 1 << 63
)

// BlockOf reads the text of a network, "" and what is none included.
func BlockOf(network string) Block {
	p, _ := netip.ParsePrefix(network) // one that is none is neither IPv4 nor IPv6
	return BlockOfPrefix(p)
}

func BlockOfPrefix(p netip.Prefix) Block {
	switch {
	case p.Addr().Is4() && p.Bits() >= 24:
		b := p.Addr().As4()
		return fourBlock | Block(binary.BigEndian.Uint32(b[:])>>8)
	case p.Addr().Is6() && p.Bits() >= 48:
		b := p.Addr().As16()
		return sixBlock | Block(binary.BigEndian.Uint64(b[:8])>>16)
	}
	return 0
}

// A Weight is what a client that nobody has approved counts for.
type Weight struct {
	Network Block
	Bytes   int32
}

// A Crowd is how many such clients there are, and what they hold.
type Crowd struct {
	Held
	Networks map[Block]Held
}

type Held struct {
	Clients int
	Bytes   int64
}

func (h Held) Plus(n int, bytes int64) Held { return Held{h.Clients + n, h.Bytes + bytes} }

// Add counts a client, or one less with n of -1.
func (c *Crowd) Add(w Weight, n int) {
	bytes := int64(n) * int64(w.Bytes)
	c.Held = c.Held.Plus(n, bytes)
	if w.Network == 0 {
		return
	}
	if c.Networks == nil {
		c.Networks = map[Block]Held{}
	}
	if c.Networks[w.Network] = c.Networks[w.Network].Plus(n, bytes); c.Networks[w.Network].Clients <= 0 {
		delete(c.Networks, w.Network)
	}
}
