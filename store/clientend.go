package store

import (
	"context"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
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
	err = s.changeFacts(func(tx *Tx) error {
		at := tx.memory.Clients[id]
		if at == nil || at.Deleted {
			return fmt.Errorf("client: %w", ErrNotFound)
		}
		if at.Disabled && !on { // taken out of the configuration perhaps: now it stays so when it is back
			_, err := tx.exec(`UPDATE client SET disabled = $1 WHERE id = $2 AND disabled = $3`, disabledByOperator, id, notConfigured)
			return err
		}
		if at.Disabled == !on {
			return nil
		}
		c.Approved = at.Approved
		return tx.switchClient(c, on, disabledByOperator, act)
	})
	if err == nil && !on {
		s.writeEndsSoon(ctx)
	}
	return err
}

func (tx *Tx) switchClient(c client.Client, on bool, how int64, act Act) error {
	epoch, kind := tx.memory.Clients[c.ID].Epoch, journal.ClientEnabled
	if on {
		how = enabled
	} else {
		epoch, kind = epoch+1, journal.ClientDisabled
	}
	if _, err := tx.exec(`UPDATE client SET disabled = $1, epoch = $2 WHERE id = $3`, how, epoch, c.ID); err != nil {
		return err
	}
	if err := tx.journal(Event{Kind: kind, Client: c.ID}.by(act)); err != nil {
		return err
	}
	c.Disabled = !on
	tx.Put(facts.ClientChange{Client: c, Epoch: epoch})
	return nil
}

// DeleteClient ends a client and its approvals for good: from then on it is
// unknown. One that is deleted already stays so. ErrNotAllowed: the configuration has
// it, and would bring it back at the next start.
func (s *Store) DeleteClient(ctx context.Context, id string, act Act) error {
	err := s.changeFacts(func(tx *Tx) error {
		at := tx.memory.Clients[id]
		if at != nil && at.Deleted {
			return nil
		}
		if at == nil || !at.Known(tx.env.Now()) {
			return fmt.Errorf("client: %w", ErrNotFound)
		}
		n, err := tx.exec(`
			UPDATE client SET disabled = `+sqlDeleted+`, approved = `+sqlTrue+`, epoch = $1
			 WHERE id = $2 AND (preregistered <> `+sqlTrue+` OR disabled = `+sqlNotConfigured+`)`, at.Epoch+1, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("client %s is in the configuration: %w", id, ErrNotAllowed)
		}
		tx.Put(facts.ClientDeleted{ID: id, Epoch: at.Epoch + 1})
		return tx.journal(Event{Kind: journal.ClientDisabled, Client: id, Detail: "deleted"}.by(act))
	})
	if err == nil {
		s.writeEndsSoon(ctx)
	}
	return err
}

// sweepDeleted forgets tombstones of clients that no approval lies under.
func (tx *Tx) sweepDeleted(time.Time) (int, error) {
	ids, err := column[string](tx.query(`
		SELECT id FROM client
		 WHERE disabled = ` + sqlDeleted + ` AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.client = client.id)
		 ORDER BY id LIMIT 500`))
	if err != nil {
		return 0, err
	}
	return tx.forgetClients(ids)
}

// sweepClients deletes clients that nobody has approved for 14 days (spec 3).
func (tx *Tx) sweepClients(now time.Time) (int, error) {
	ids, err := column[string](tx.query(`
		SELECT id FROM client
		 WHERE approved = `+sqlFalse+` AND preregistered = `+sqlFalse+` AND issued_at <= $1
		 ORDER BY issued_at LIMIT 500`, now.Add(-client.UnapprovedRetention).Unix()))
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := tx.journal(Event{Kind: journal.ClientExpired, Client: id, Actor: "system"}); err != nil {
			return 0, err
		}
	}
	return tx.forgetClients(ids)
}

func (tx *Tx) forgetClients(ids []string) (int, error) {
	for _, id := range ids {
		if _, err := tx.exec(`DELETE FROM client WHERE id = $1`, id); err != nil {
			return 0, err
		}
		tx.Put(facts.ClientGone(id))
	}
	return len(ids), nil
}
