package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
)

// Switched says who switched an organization's AI integration, and when.
type Switched struct {
	Actor string // as in the journal
	At    int64  // Unix seconds
}

// Switched gives the last time that AI integration was switched on or off, or
// ErrNotFound where it never was.
func (s *Store) Switched(ctx context.Context, organizationID string) (out Switched, err error) {
	err = s.reader.QueryRowContext(ctx,
		`SELECT actor, switched_at FROM integration WHERE organization = $1`, organizationID).Scan(&out.Actor, &out.At)
	if errors.Is(err, sql.ErrNoRows) {
		return Switched{}, fmt.Errorf("integration: %w", ErrNotFound)
	} else if err != nil {
		return Switched{}, unavailable("integration", err)
	}
	return out, nil
}

// switched records who switches AI integration, if it changes.
func (w *writer) switched(o org.Organization, act Act) error {
	at := w.store.memory.orgs[o.ID]
	if at == nil && !o.AIIntegration || at != nil && at.AIIntegration == o.AIIntegration {
		return nil
	}
	_, err := w.exec(`
		INSERT INTO integration (organization, actor, switched_at) VALUES ($1, $2, $3)
		ON CONFLICT (organization) DO UPDATE SET actor = excluded.actor, switched_at = excluded.switched_at`,
		o.ID, act.Actor, w.store.Now().Unix())
	return err
}

// isAdmin gives ErrNotAllowed for everybody who is no admin of the
// organization, now.
func (w *writer) isAdmin(personID, organizationID string) error {
	at := w.store.memory.members[memberKey{personID, organizationID}]
	if !at.asMember().Exists() || !at.admin {
		return fmt.Errorf("admin right: %w", ErrNotAllowed)
	}
	return nil
}

// SwitchIntegration is SetIntegration by an admin of the organization, who is
// asked for once more in the writer. ErrNotAllowed: the person is none.
func (s *Store) SwitchIntegration(ctx context.Context, organizationID, adminID string, on bool, act Act) error {
	return s.switchIntegration(ctx, organizationID, on,
		func(w *writer) error { return w.isAdmin(adminID, organizationID) }, act)
}

// left remembers when somebody left a role.
func (w *writer) left(roleID, personID string) error {
	_, err := w.exec(`
		INSERT INTO filler_left (role, person, left_at)
		SELECT role, person, CAST($1 AS BIGINT) FROM filler WHERE role = $2 AND person = $3
		ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
		w.store.Now().Unix(), roleID, personID)
	return err
}

// leftAll is left for all roles of a member.
func (w *writer) leftAll(key memberKey) error {
	_, err := w.exec(`
		INSERT INTO filler_left (role, person, left_at)
		SELECT role, person, CAST($1 AS BIGINT) FROM filler
		 WHERE person = $2 AND role IN (SELECT id FROM role WHERE organization = $3)
		ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
		w.store.Now().Unix(), key.person, key.organization)
	return err
}

// LeftRoles gives when a person last left each role of an organization, in
// Unix seconds by the role's ID.
func (s *Store) LeftRoles(ctx context.Context, personID, organizationID string) (map[string]int64, error) {
	rows, err := s.reader.QueryContext(ctx, `
		SELECT l.role, l.left_at FROM filler_left l
		  JOIN role r ON r.id = l.role
		 WHERE l.person = $1 AND r.organization = $2`, personID, organizationID)
	if err != nil {
		return nil, unavailable("left roles", err)
	}
	defer rows.Close()
	out := map[string]int64{}
	for rows.Next() {
		var role string
		var at int64
		if err := rows.Scan(&role, &at); err != nil {
			return nil, unavailable("left roles", err)
		}
		out[role] = at
	}
	if err := rows.Err(); err != nil {
		return nil, unavailable("left roles", err)
	}
	return out, nil
}
