package limit

import (
	"fmt"
	"net/netip"
	"strings"
)

// A Network is an address block whose addresses have a multiple of every limit per
// address, for hosted assistants that share an egress range (decision L3).
type Network struct {
	CIDR     netip.Prefix
	Multiple int // from 1 to 1000
}

// Networks are the blocks that an operator named. Without any, every address has
// the contract's limits.
type Networks []Network

// ParseNetwork reads one entry of the setting limiter.networks. An address alone
// stands for itself; a block with bits below its mask is refused, because it may
// not be the block that was meant.
func ParseNetwork(cidr string, multiple int) (Network, error) {
	p, err := parseBlock(cidr)
	if err != nil {
		return Network{}, fmt.Errorf("network %q: %w", cidr, err)
	}
	if multiple < 1 || multiple > 1000 {
		return Network{}, fmt.Errorf("network %q: the multiple %d is not from 1 to 1000", cidr, multiple)
	}
	return Network{CIDR: p, Multiple: multiple}, nil
}

// multiple is that of the narrowest block which a lies in, or 1.
func (n Networks) multiple(a netip.Addr) int {
	multiple, bits := 1, -1
	for _, one := range n {
		if one.CIDR.Contains(a) && one.CIDR.Bits() > bits {
			multiple, bits = one.Multiple, one.CIDR.Bits()
		}
	}
	return multiple
}

func parseBlock(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, fmt.Errorf("not an address block such as 192.0.2.0/24")
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("not an address block such as 192.0.2.0/24")
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	if p != p.Masked() {
		return netip.Prefix{}, fmt.Errorf("an address within a block; the block is %s", p.Masked())
	}
	return p, nil
}
