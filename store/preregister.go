package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
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
	return s.writer.changeFacts(func(w *writer) (func(), error) {
		at := w.store.memory.clients[c.ID]
		if at == nil || at.deleted {
			return w.preregister(c, byOperator, act)
		}
		there, err := scanClient(w.conn.QueryRowContext(ctx, selectClient+` WHERE id = $1`, c.ID))
		if err != nil {
			return nil, err
		}
		if !there.Preregistered || there.Name != c.Name || !slices.Equal(there.RedirectURIs, c.RedirectURIs) {
			return nil, fmt.Errorf("client %s: %w", c.ID, ErrConflict)
		}
		return nil, nil
	})
}

// preregister adds a client, or puts one in the place of a tombstone, whose
// epoch it goes on with.
func (w *writer) preregister(c client.Client, by int64, act Act) (func(), error) {
	if c.IssuedAt == 0 {
		c.IssuedAt = w.store.Now().Unix()
	}
	epoch := int64(0)
	if at := w.store.memory.clients[c.ID]; at != nil {
		epoch = at.epoch
	}
	_, err := w.exec(`
		INSERT INTO client (id, name, redirect_uris, issued_at, preregistered, approved, disabled, epoch)
		VALUES ($1, $2, $3, $4, $5, 0, 0, $6)
		ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, redirect_uris = excluded.redirect_uris, issued_at = excluded.issued_at,
		       preregistered = excluded.preregistered, approved = 0, disabled = 0`,
		c.ID, c.Name, strings.Join(c.RedirectURIs, "\n"), c.IssuedAt, by, epoch)
	w.fact("client", c.ID)
	if err != nil {
		return nil, err
	}
	return func() { w.store.memory.putClient(c, epoch) },
		w.journal(Event{Kind: "client_registered", Client: c.ID, Detail: "preregistered"}.by(act))
}

// configured lists the enabled clients that came with a configuration.
func (s *Store) configured(ctx context.Context) ([]client.Client, error) {
	rows, err := s.reader.QueryContext(ctx, selectClient+` WHERE preregistered = 1 AND disabled = 0 ORDER BY id`)
	if err != nil {
		return nil, unavailable("clients", err)
	}
	defer rows.Close()
	var out []client.Client
	for rows.Next() {
		c, err := scanClient(rows)
		if err != nil {
			return nil, unavailable("clients", err)
		}
		out = append(out, c)
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable("clients", err)
	}
	return out, nil
}

// DeleteClient ends a client and its approvals for good: from then on it is
// unknown. One that is deleted already stays so. ErrNotAllowed: the configuration has
// it, and would bring it back at the next start.
func (s *Store) DeleteClient(ctx context.Context, id string, act Act) error {
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		at := w.store.memory.clients[id]
		if at != nil && at.deleted {
			return nil, nil
		}
		if at == nil || !at.known(w.store.Now()) {
			return nil, fmt.Errorf("client: %w", ErrNotFound)
		}
		n, err := w.exec(`
			UPDATE client SET disabled = 3, approved = 1, epoch = $1
			 WHERE id = $2 AND (preregistered <> 1 OR disabled = 2)`, at.epoch+1, id)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return nil, fmt.Errorf("client %s is in the configuration: %w", id, ErrNotAllowed)
		}
		w.fact("client", id)
		epoch := at.epoch + 1
		return func() { w.store.memory.deleteClient(id, epoch) },
			w.journal(Event{Kind: "client_disabled", Client: id, Detail: "deleted"}.by(act))
	})
	if err == nil {
		s.markSoon(ctx)
	}
	return err
}

// deleteClient makes a client a tombstone, on which its approvals lie.
func (m *memory) deleteClient(id string, epoch int64) {
	at := m.clients[id]
	if !at.approved && !at.preregistered {
		m.unapproved--
	}
	m.ends(at.epoch, epoch)
	at.approved, at.disabled, at.deleted, at.epoch = true, true, true, epoch
}

// sweepDeleted forgets tombstones of clients that no approval lies under.
func (w *writer) sweepDeleted(time.Time) (int, func(), error) {
	ids, err := column[string](w.query(`
		SELECT id FROM client
		 WHERE disabled = 3 AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.client = client.id)
		 ORDER BY id LIMIT 500`))
	if err != nil {
		return 0, nil, err
	}
	for _, id := range ids {
		if _, err := w.exec(`DELETE FROM client WHERE id = $1`, id); err != nil {
			return 0, nil, err
		}
		w.fact("client", id)
	}
	return len(ids), func() {
		for _, id := range ids {
			delete(w.store.memory.clients, id)
		}
	}, nil
}
