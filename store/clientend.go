package store

import (
	"context"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// SetClientEnabled disables a client, which ends its approvals, or enables it
// again, which revives none (decision P10).
func (s *Store) SetClientEnabled(ctx context.Context, id string, on bool, act Act) error {
	c, err := s.Client(ctx, id)
	if err != nil {
		return err
	}
	err = s.changeFacts(func(tx *Tx) error {
		at := tx.Memory.Clients[id]
		if at == nil || at.Deleted {
			return fmt.Errorf("client: %w", ErrNotFound)
		}
		if at.Disabled && !on { // taken out of the configuration perhaps: now it stays so when it is back
			_, err := tx.Exec(`UPDATE client SET disabled = $1 WHERE id = $2 AND disabled = $3`, engine.DisabledByOperator, id, engine.NotConfigured)
			return err
		}
		if at.Disabled == !on {
			return nil
		}
		c.Approved = at.Approved
		return tx.switchClient(c, on, engine.DisabledByOperator, act)
	})
	if err == nil && !on {
		s.ends.WriteSoon(ctx)
	}
	return err
}

func (tx *Tx) switchClient(c client.Client, on bool, how int64, act Act) error {
	epoch, kind := tx.Memory.Clients[c.ID].Epoch, journal.ClientEnabled
	if on {
		how = engine.Enabled
	} else {
		epoch, kind = epoch+1, journal.ClientDisabled
	}
	if !on && c.Documented() { // its ID comes back with its document: what is disabled stays, whether or not somebody approved it
		c.Approved = true
	}
	if _, err := tx.Exec(`UPDATE client SET disabled = $1, epoch = $2, approved = $3 WHERE id = $4`, how, epoch, engine.Flag(c.Approved), c.ID); err != nil {
		return err
	}
	if err := tx.Journal(Event{Kind: kind, Client: c.ID}.By(act)); err != nil {
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
		at := tx.Memory.Clients[id]
		if at != nil && at.Deleted {
			return nil
		}
		if at == nil || !at.Known(tx.Env.Now()) {
			return fmt.Errorf("client: %w", ErrNotFound)
		}
		n, err := tx.Exec(`
			UPDATE client SET disabled = `+engine.SQLDeleted+`, approved = `+engine.SQLTrue+`, epoch = $1
			 WHERE id = $2 AND (preregistered <> `+engine.SQLTrue+` OR disabled = `+engine.SQLNotConfigured+`)`, at.Epoch+1, id)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("client %s is in the configuration: %w", id, ErrNotAllowed)
		}
		tx.Put(facts.ClientDeleted{ID: id, Epoch: at.Epoch + 1})
		return tx.Journal(Event{Kind: journal.ClientDisabled, Client: id, Detail: "deleted"}.By(act))
	})
	if err == nil {
		s.ends.WriteSoon(ctx)
	}
	return err
}

// sweepDeleted forgets tombstones of clients that no approval lies under.
func (tx *Tx) sweepDeleted(time.Time) (int, error) {
	ids, err := engine.Column[string](tx.Query(`
		SELECT id FROM client
		 WHERE disabled = ` + engine.SQLDeleted + ` AND NOT EXISTS (SELECT 1 FROM approval WHERE approval.client = client.id)
		 ORDER BY id LIMIT 500`))
	if err != nil {
		return 0, err
	}
	return tx.forgetClients(ids)
}

// sweepClients deletes clients that nobody has approved for 14 days (spec 3).
func (tx *Tx) sweepClients(now time.Time) (int, error) {
	ids, err := engine.Column[string](tx.Query(`
		SELECT id FROM client
		 WHERE approved = `+engine.SQLFalse+` AND preregistered = `+engine.SQLFalse+` AND issued_at <= $1
		 ORDER BY issued_at LIMIT 500`, now.Add(-client.UnapprovedRetention).Unix()))
	if err != nil {
		return 0, err
	}
	for _, id := range ids {
		if err := tx.Journal(Event{Kind: journal.ClientExpired, Client: id, Actor: "system"}); err != nil {
			return 0, err
		}
	}
	return tx.forgetClients(ids)
}

func (tx *Tx) forgetClients(ids []string) (int, error) {
	for _, id := range ids {
		if _, err := tx.Exec(`DELETE FROM client WHERE id = $1`, id); err != nil {
			return 0, err
		}
		tx.Put(facts.ClientGone(id))
	}
	return len(ids), nil
}
