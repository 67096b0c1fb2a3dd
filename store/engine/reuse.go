package engine

import (
	"fmt"
	"hash/fnv"
	"net/netip"

	"github.com/grantkeeper/grantkeeper/approval"
)

// What a used refresh token that comes back looks like: the Reason of the
// journal's entry refresh_reused.
const (
	// LooksLikeCopies: two copies of one installation, or an answer that was
	// lost on its way. It came from the network that the current one was given
	// to.
	LooksLikeCopies = "looks_like_copies"
	// LooksLikeTheft: it came from another network.
	LooksLikeTheft = "looks_like_theft"
	// LooksUnknown: nobody knows from where the current one was asked for.
	LooksUnknown = "unknown"
)

// NetworkOf is a hash of an address's network, its /24 or /48: enough to say
// that two are the same, and next to nothing about which it is. 0 is unknown.
func NetworkOf(address string) uint16 {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return 0
	}
	bits := 48
	if a = a.Unmap(); a.Is4() {
		bits = 24
	}
	b := netip.PrefixFrom(a, bits).Masked().Addr().As16() // without a zone
	h := fnv.New32a()
	h.Write(b[:])
	sum := h.Sum32()
	return max(uint16(sum)^uint16(sum>>16), 1)
}

// looksLike judges a used refresh token by the network that it came from.
func (a Act) looksLike(before approval.State) string {
	switch here := NetworkOf(a.Address); {
	case a.Generation == 0: // nobody says which token it was
		return ""
	case here == 0 || before.Network == 0:
		return LooksUnknown
	case here == before.Network:
		return LooksLikeCopies
	}
	return LooksLikeTheft
}

// reuse says in words what is known of a used refresh token that came back.
func (a Act) reuse(before approval.State) string {
	if a.Generation == 0 {
		return ""
	}
	old := before.Generation - a.Generation
	successor := "its successor was not used"
	if old > 1 {
		successor = "its successor was used too"
	}
	network := map[string]string{
		LooksUnknown:    "its network cannot be compared",
		LooksLikeCopies: "from the network that the current one was given to",
		LooksLikeTheft:  "from another network than the current one was given to",
	}[a.looksLike(before)]
	return fmt.Sprintf("refresh token %d of %d, %d old; %s; %s", a.Generation, before.Generation, old, successor, network)
}
