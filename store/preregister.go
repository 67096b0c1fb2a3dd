package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// How a client's row says by whom it is preregistered.
const (
	byConfiguration = 1
	byOperator      = 2
)

// Preregister adds a client that an operator vouches for. The 14-day rule
// never touches it, and the configuration does not have to name it. One that
// exists exactly so is left as it is; ErrConflict: the ID is another client's.
func (s *Store) Preregister(ctx context.Context, c client.Client, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		if !taken(tx.Memory.Clients[c.ID], tx.Env.Now()) {
			return tx.preregister(c, byOperator, act)
		}
		var there client.Client
		if err := scanClient(tx.QueryRow(selectClient+` WHERE id = $1`, c.ID), &there); err != nil {
			return err
		}
		if !there.Preregistered || there.Name != c.Name || !slices.Equal(there.RedirectURIs, c.RedirectURIs) {
			return fmt.Errorf("client %s: %w", c.ID, ErrConflict)
		}
		return nil
	})
}

// taken reports whether a client's ID is in use: not where it was deleted, nor where nobody
// has approved it in its 14 days.
func taken(at *facts.Client, now time.Time) bool {
	return at != nil && !at.Deleted && at.Known(now)
}

// preregister adds a client, or puts one in the place of one that is over, whose
// epoch it goes on with.
func (tx *Tx) preregister(c client.Client, by int64, act Act) error {
	if c.IssuedAt == 0 {
		c.IssuedAt = tx.Env.Now().Unix()
	}
	epoch := int64(0)
	if at := tx.Memory.Clients[c.ID]; at != nil {
		epoch = at.Epoch
	}
	_, err := tx.Exec(`
		INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch)
		VALUES ($1, $2, $3, $4, $5, 0, 0, $6)
		ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, redirect_uris = excluded.redirect_uris, issued_at = excluded.issued_at,
		       preregistered = excluded.preregistered, approved = `+engine.SQLFalse+`, disabled = `+engine.SQLEnabled+`,
		       good_until = 0, leaving = ''`,
		c.ID, c.Name, strings.Join(c.RedirectURIs, "\n"), c.IssuedAt, by, epoch)
	if err != nil {
		return err
	}
	tx.Put(facts.ClientChange{Client: c, Epoch: epoch})
	return tx.Journal(Event{Kind: journal.ClientRegistered, Client: c.ID, Detail: "preregistered"}.By(act))
}

// configured lists the enabled clients that came with a configuration.
func (s *Store) configured(ctx context.Context) ([]client.Client, error) {
	rows, err := s.db.Reader.QueryContext(ctx, selectClient+` WHERE preregistered = `+engine.SQLTrue+` AND disabled = `+engine.SQLEnabled+` ORDER BY id`)
	out, err := engine.ListOf(rows, err, scanClient)
	return out, engine.Unavailable("clients", err)
}

// SyncPreregistered makes the preregistered clients those of the
// configuration: new ones are added, changed ones changed, and those taken out
// disabled. What an operator has added or disabled stays so (decision R6). One that was
// known by its metadata document is what the configuration says from then on, and what
// was approved for redirect URIs that this does not name ends (decision R8). ErrConflict:
// an ID is that of a client that registered itself.
func (s *Store) SyncPreregistered(ctx context.Context, configured []client.Client, act Act) error {
	if err := s.PreregisteredConflict(configured); err != nil { // before anything has changed: to take a client over cannot be undone
		return err
	}
	for _, c := range configured {
		if err := s.putPreregistered(ctx, c, act); err != nil {
			return fmt.Errorf("client %s: %w", c.ID, err)
		}
	}
	there, err := s.configured(ctx)
	if err != nil {
		return err
	}
	for _, c := range there {
		if has(configured, c.ID) {
			continue
		}
		if err := s.changeFacts(func(tx *Tx) error {
			return tx.switchClient(c, false, engine.NotConfigured, act)
		}); err != nil {
			return err
		}
	}
	s.ends.WriteSoon(ctx)
	return nil
}

// PreregisteredConflict says which ID is that of a client that registered itself, as far as
// this node knows.
func (s *Store) PreregisteredConflict(configured []client.Client) error {
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	for _, c := range configured {
		if at := s.db.Memory.Clients[c.ID]; registeredItself(at, c.ID, s.Now()) {
			return fmt.Errorf("client %s: %w", c.ID, errItself)
		}
	}
	return nil
}

var errItself = fmt.Errorf("the ID belongs to a client that registered itself: %w", ErrConflict)

// registeredItself reports whether no configuration can have the client.
func registeredItself(at *facts.Client, id string, now time.Time) bool {
	return taken(at, now) && !at.Preregistered && !client.IsURL(id)
}

func has(cs []client.Client, id string) bool {
	for _, c := range cs {
		if c.ID == id {
			return true
		}
	}
	return false
}

func (s *Store) putPreregistered(ctx context.Context, c client.Client, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		at := tx.Memory.Clients[c.ID]
		switch {
		case !taken(at, tx.Env.Now()):
			return tx.preregister(c, byConfiguration, act)
		case registeredItself(at, c.ID, tx.Env.Now()):
			return errItself
		}
		var disabled int64
		if err := tx.QueryRow(`SELECT disabled FROM client WHERE id = $1`, c.ID).Scan(&disabled); err != nil {
			return err
		}
		if !at.Preregistered {
			if err := tx.takeOver(c, act); err != nil {
				return err
			}
		}
		if disabled == engine.NotConfigured {
			disabled = engine.Enabled
		}
		if _, err := tx.Exec(`UPDATE client SET name = $1, redirect_uris = $2, disabled = $3, preregistered = `+engine.SQLTrue+`, good_until = 0, leaving = '' WHERE id = $4`,
			c.Name, strings.Join(c.RedirectURIs, "\n"), disabled, c.ID); err != nil {
			return err
		}
		c.IssuedAt, c.Approved, c.Disabled = at.IssuedAt, at.Approved, disabled != engine.Enabled
		tx.Put(facts.ClientChange{Client: c, Epoch: at.Epoch})
		return nil
	})
}

// takeOver has the operator say from now on what the document of a client said. It ends
// what was approved for redirect URIs that the operator does not name.
func (tx *Tx) takeOver(c client.Client, act Act) error {
	was, leaving, err := tx.documentOf(c.ID)
	if err != nil {
		return err
	}
	ended := 0
	for _, uri := range slices.Concat(was.RedirectURIs, slices.Collect(maps.Keys(leaving))) {
		if c.HasRedirectURI(uri) {
			continue
		}
		n, err := tx.endAt(c.ID, uri, act)
		if ended += n; err != nil {
			return err
		}
	}
	return tx.Journal(Event{Kind: journal.ClientRegistered, Client: c.ID, Detail: fmt.Sprintf("preregistered; approvals ended: %d", ended)}.By(act))
}
