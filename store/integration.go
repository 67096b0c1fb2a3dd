package store

import (
	"context"
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Switched says who switched an organization's AI integration, and when.
type Switched struct {
	Actor string // as in the journal
	At    int64  // Unix seconds
}

// Switched gives the last time that AI integration was switched on or off, or
// ErrNotFound where it never was.
func (s *Store) Switched(ctx context.Context, organizationID string) (out Switched, err error) {
	err = s.db.Reader.QueryRowContext(ctx,
		`SELECT actor, switched_at FROM integration WHERE organization = $1`, organizationID).Scan(&out.Actor, &out.At)
	return out, engine.Lookup("integration", err)
}

// switched records who switches AI integration, if it changes.
func (tx *Tx) switched(o org.Organization, act Act) error {
	at := tx.Memory.Orgs[o.ID]
	if at == nil && !o.AIIntegration || at != nil && at.AIIntegration == o.AIIntegration {
		return nil
	}
	_, err := tx.Exec(`
		INSERT INTO integration (organization, actor, switched_at) VALUES ($1, $2, $3)
		ON CONFLICT (organization) DO UPDATE SET actor = excluded.actor, switched_at = excluded.switched_at`,
		o.ID, act.Actor, tx.Env.Now().Unix())
	return err
}

// SwitchIntegration is SetIntegration by an admin of the organization, who is
// asked for once more in the writer. ErrNotAllowed: the person is none.
func (s *Store) SwitchIntegration(ctx context.Context, organizationID, adminID string, on bool, act Act) error {
	return s.switchIntegration(ctx, organizationID, on,
		func(tx *Tx) error { return tx.IsAdmin(adminID, organizationID) }, act)
}

// SetIntegration switches an organization's AI integration. Off ends every
// approval in it; on again revives none (decision P7).
func (s *Store) SetIntegration(ctx context.Context, organizationID string, on bool, act Act) error {
	return s.switchIntegration(ctx, organizationID, on, func(*Tx) error { return nil }, act)
}

func (s *Store) switchIntegration(ctx context.Context, organizationID string, on bool, may func(*Tx) error, act Act) error {
	err := s.changeFacts(func(tx *Tx) error {
		at := tx.Memory.Orgs[organizationID]
		if at == nil {
			return fmt.Errorf("organization: %w", ErrNotFound)
		}
		if err := may(tx); err != nil {
			return err
		}
		if at.AIIntegration == on {
			return nil
		}
		o, detail := at.Organization, "AI integration on"
		if o.AIIntegration = on; !on {
			detail = "AI integration off"
		}
		if err := tx.switched(o, act); err != nil {
			return err
		}
		if err := tx.putOrganizations(o); err != nil {
			return err
		}
		return tx.Changed("", o.ID, detail, act)
	})
	if err == nil && !on {
		s.ends.WriteSoon(ctx)
	}
	return err
}
