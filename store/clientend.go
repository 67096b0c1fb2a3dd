package store

import (
	"context"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
)

// How a client's row says that it is disabled.
const (
	enabled            = 0
	disabledByOperator = 1
	notConfigured      = 2 // was preregistered, and was taken out (decision R6)
	deleted            = 3 // a tombstone, because an epoch never starts again (decision P12)
)

// SetClientEnabled disables a client, which ends its approvals, or enables it
// again, which revives none (decision P10).
func (s *Store) SetClientEnabled(ctx context.Context, id string, on bool, act Act) error {
	c, err := s.Client(ctx, id)
	if err != nil {
		return err
	}
	err = s.writer.changeFacts(func(w *writer) (func(), error) {
		at := w.store.memory.clients[id]
		if at == nil || at.deleted {
			return nil, fmt.Errorf("client: %w", ErrNotFound)
		}
		if at.disabled && !on { // taken out of the configuration perhaps: now it stays so when it is back
			_, err := w.exec(`UPDATE client SET disabled = $1 WHERE id = $2 AND disabled = $3`, disabledByOperator, id, notConfigured)
			w.fact("client", id)
			return nil, err
		}
		if at.disabled == !on {
			return nil, nil
		}
		c.Approved = at.approved
		return w.switchClient(c, on, disabledByOperator, act)
	})
	if err == nil && !on {
		s.markSoon(ctx)
	}
	return err
}

func (w *writer) switchClient(c client.Client, on bool, how int64, act Act) (func(), error) {
	epoch, kind := w.store.memory.clients[c.ID].epoch, "client_enabled"
	if on {
		how = enabled
	} else {
		epoch, kind = epoch+1, "client_disabled"
	}
	if _, err := w.exec(`UPDATE client SET disabled = $1, epoch = $2 WHERE id = $3`, how, epoch, c.ID); err != nil {
		return nil, err
	}
	w.fact("client", c.ID)
	if err := w.journal(Event{Kind: kind, Client: c.ID}.by(act)); err != nil {
		return nil, err
	}
	c.Disabled = !on
	return func() { w.store.memory.putClient(c, epoch) }, nil
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
	m.stopWaiting(at)
	m.ends(at.epoch, epoch)
	at.approved, at.disabled, at.deleted, at.epoch, at.weight = true, true, true, epoch, weight{}
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
	return w.forgetClients(ids)
}

// sweepClients deletes clients that nobody has approved for 14 days (spec 3).
func (w *writer) sweepClients(now time.Time) (int, func(), error) {
	ids, err := column[string](w.query(`
		SELECT id FROM client
		 WHERE approved = 0 AND preregistered = 0 AND issued_at <= $1
		 ORDER BY issued_at LIMIT 500`, now.Add(-client.UnapprovedRetention).Unix()))
	if err != nil {
		return 0, nil, err
	}
	for _, id := range ids {
		if err := w.journal(Event{Kind: "client_expired", Client: id, Actor: "system"}); err != nil {
			return 0, nil, err
		}
	}
	return w.forgetClients(ids)
}

func (w *writer) forgetClients(ids []string) (int, func(), error) {
	for _, id := range ids {
		if _, err := w.exec(`DELETE FROM client WHERE id = $1`, id); err != nil {
			return 0, nil, err
		}
		w.fact("client", id)
	}
	return len(ids), func() {
		for _, id := range ids {
			w.store.memory.dropClient(id)
		}
	}, nil
}
