package store

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/engine"
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

// network is the text of a row.
func (o Origin) network() string {
	if !o.Network.IsValid() {
		return ""
	}
	return o.Network.String()
}

func weigh(c client.Client, o Origin) facts.Weight {
	w := facts.Weight{Bytes: int32(4*utf8.RuneCountInString(c.Name) + len(strings.Join(c.RedirectURIs, "\n")))}
	if o.Network.IsValid() {
		w.Network = facts.BlockOfPrefix(o.Network)
	}
	return w
}

// pressed reports whether each network has its share alone.
func pressed(h facts.Held) bool {
	return h.Clients >= UnapprovedPressure || h.Bytes >= UnapprovedPressureBytes
}

// room says which bound refuses one more client: "" for none. there is what all
// hold, of is what its network holds.
func room(there, of facts.Held, w facts.Weight, shares int) (bound string) {
	switch {
	case there.Clients >= MaxUnapproved:
		return "clients"
	case there.Bytes+int64(w.Bytes) > MaxUnapprovedBytes:
		return "bytes"
	case w.Network == 0 || !pressed(there):
		return ""
	case of.Clients >= networkClients*shares:
		return "network's clients"
	case of.Bytes+int64(w.Bytes) > int64(networkBytes)*int64(shares):
		return "network's bytes"
	}
	return ""
}

// Pressed reports whether so many clients wait for their first approval that
// registrations count with their network too (decision L1).
func (s *Store) Pressed() bool {
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	return pressed(s.db.Memory.Waiting.Held)
}

// timeToSay reports, once in so many seconds, that something is to be logged.
func (s *Store) timeToSay(said *atomic.Int64, every int64) bool {
	now, before := s.Now().Unix(), said.Load()
	return now-before >= every && said.CompareAndSwap(before, now)
}

// reserve takes room for a client. That there is none is not said before the facts
// are asked again: another node may have made some.
func (s *Store) reserve(ctx context.Context, w facts.Weight, shares int) (*engine.Reserved, error) {
	refuses := func(there, of facts.Held) string { return room(there, of, w, max(shares, 1)) }
	at, there, bound := s.db.Memory.Reserve(w, refuses)
	if bound != "" {
		if err := s.fresh(ctx); err != nil {
			return nil, err
		}
		at, there, bound = s.db.Memory.Reserve(w, refuses)
	}
	if (bound == "clients" || bound == "bytes") && s.timeToSay(&s.fullSaid, 60) {
		s.db.Log.Error("nobody can register: as many clients as there may be wait for their first approval", "clients", there.Clients, "bytes", there.Bytes)
	}
	if pressed(there) && s.timeToSay(&s.pressedSaid, 3600) {
		s.db.Log.Warn("many clients wait for their first approval: registrations count with their network; see: grantkeeper client delete-unapproved --dry-run",
			"clients", there.Clients, "bytes", there.Bytes)
	}
	if bound != "" {
		return nil, fmt.Errorf("%d clients wait for their first approval, too many by the bound of %s: %w", there.Clients, bound, ErrUnavailable)
	}
	return at, nil
}
