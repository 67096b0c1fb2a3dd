package store

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// UnapprovedFilter says which clients, of those that nobody has approved. Zero
// fields match all.
type UnapprovedFilter struct {
	Network      netip.Prefix // a /24 or /48, or wider: more is not stored
	Since, Until int64        // registered from the one on, before the other; Unix seconds
}

// NetworkClients is how many of them one network registered. Network is "" for
// clients of a release that did not store it.
type NetworkClients struct {
	Network string
	Clients int
}

// DeleteUnapproved deletes the clients that match, have registered themselves,
// are not disabled, and that nobody has approved, and counts them; a dry run
// counts alone. It also gives the networks that registered most of those that
// matched, ten at most. It goes by batches: what it has deleted stays so, and is
// journaled, when it fails or nobody waits for it any more.
func (s *Store) DeleteUnapproved(ctx context.Context, f UnapprovedFilter, dry bool, act Act) (deleted int, most []NetworkClients, err error) {
	ids, most, err := s.unapproved(ctx, f)
	if err != nil || dry {
		return len(ids), most, err
	}
	for batch := range slices.Chunk(ids, query.Batch) {
		var n int
		n, err = s.forgetUnapproved(batch)
		deleted += n
		if err = cmp.Or(err, ctx.Err()); err != nil {
			break
		}
	}
	return deleted, most, s.db.JournalMany(deleted, err,
		Event{Detail: fmt.Sprintf("%d clients deleted that nobody had approved: %s", deleted, f)}.By(act))
}

// forgetUnapproved deletes those that are still as they were found.
func (s *Store) forgetUnapproved(ids []string) (deleted int, err error) {
	err = s.changeFacts(func(tx *Tx) (err error) {
		still := slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
			at := tx.Memory.Clients[id]
			return at == nil || !at.Waits() || at.Disabled
		})
		deleted, err = tx.forgetClients(still)
		return err
	})
	return deleted, err
}

func (s *Store) unapproved(ctx context.Context, f UnapprovedFilter) (ids []string, most []NetworkClients, err error) {
	q := query.Builder{
		Text:       `SELECT id, network FROM client`,
		Conditions: []string{"approved = " + engine.SQLFalse, "preregistered = " + engine.SQLFalse, "disabled = " + engine.SQLEnabled},
	}
	q.Where("issued_at >= ", f.Since)
	if f.Until > 0 {
		q.Where("issued_at < ", f.Until)
	}
	of := map[string]int{}
	rows, err := s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var id, network string
		if err := r.Scan(&id, &network); err != nil {
			return err
		}
		if f.within(network) {
			ids, of[network] = append(ids, id), of[network]+1
		}
		return nil
	})
	if err != nil {
		return nil, nil, engine.Unavailable("clients", err)
	}
	for network, n := range of {
		most = append(most, NetworkClients{network, n})
	}
	slices.SortFunc(most, func(a, b NetworkClients) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), cmp.Compare(a.Network, b.Network))
	})
	return ids, most[:min(len(most), 10)], nil
}

// within reports whether a row's network lies in the filter's.
func (f UnapprovedFilter) within(network string) bool {
	if !f.Network.IsValid() {
		return true
	}
	p, err := netip.ParsePrefix(network)
	return err == nil && f.Network.Bits() <= p.Bits() && f.Network.Contains(p.Addr())
}

// String is for the journal.
func (f UnapprovedFilter) String() string {
	text := "of every network"
	if f.Network.IsValid() {
		text = "of " + f.Network.String()
	}
	for _, bound := range []struct {
		word string
		at   int64
	}{{", since ", f.Since}, {", until ", f.Until}} {
		if bound.at > 0 {
			text += bound.word + time.Unix(bound.at, 0).UTC().Format(time.RFC3339)
		}
	}
	return text
}
