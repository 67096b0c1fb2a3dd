package store

import (
	"context"
	"fmt"
)

// SetMember adds a person to an organization, or sets the admin right of one
// who is there.
func (s *Store) SetMember(ctx context.Context, organizationID, personID string, admin bool, act Act) error {
	return s.setMember(ctx, organizationID, personID, func(at *member) (memberState, error) {
		return memberState{admin: admin, present: true, detail: "member added"}, nil
	}, act)
}

// SetAdmin gives or takes the admin right of a member. Approvals stay: what
// they give narrows by itself (decision P6).
func (s *Store) SetAdmin(ctx context.Context, organizationID, personID string, on bool, act Act) error {
	return s.setMember(ctx, organizationID, personID, func(at *member) (memberState, error) {
		if at == nil || !at.present {
			return memberState{}, fmt.Errorf("membership: %w", ErrNotFound)
		}
		detail := "admin right taken"
		if on {
			detail = "admin right given"
		}
		return memberState{admin: on, present: true, detail: detail}, nil
	}, act)
}

// RemoveMember ends a membership, whether the person left or was removed: the
// person's approvals there end, and their roles there are empty again. One who
// is no member is left as they are.
func (s *Store) RemoveMember(ctx context.Context, organizationID, personID string, act Act) error {
	err := s.setMember(ctx, organizationID, personID, func(at *member) (memberState, error) {
		return memberState{detail: "member removed"}, nil
	}, act)
	if err == nil {
		s.markSoon(ctx)
	}
	return err
}

type memberState struct {
	admin, present bool
	detail         string
}

func (s *Store) setMember(_ context.Context, organizationID, personID string, next func(*member) (memberState, error), act Act) error {
	return s.writer.changeFacts(func(tx *Tx) error {
		m, key := tx.memory, memberKey{personID, organizationID}
		if m.people.get(personID) == nil || m.orgs[organizationID] == nil {
			return fmt.Errorf("person or organization: %w", ErrNotFound)
		}
		at := m.members.get(key)
		to, err := next(at)
		if err != nil {
			return err
		}
		if at == nil && !to.present || at != nil && at.present == to.present && at.admin == to.admin {
			return nil
		}
		if err := tx.putMember(key, to.admin, to.present); err != nil {
			return err
		}
		return tx.changed(personID, organizationID, to.detail, act)
	})
}

// putMember adds or updates a membership; its end raises the epoch and
// empties the roles that the person filled there.
func (tx *Tx) putMember(key memberKey, admin, present bool) error {
	epoch := int64(0)
	if at := tx.memory.members.get(key); at != nil {
		epoch = at.epoch
		if at.present && !present {
			epoch++
		}
	}
	_, err := tx.exec(`
		INSERT INTO membership (person, organization, admin, present, epoch) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (person, organization) DO UPDATE
		   SET admin = excluded.admin, present = excluded.present, epoch = excluded.epoch`,
		key.person, key.organization, flag(admin), flag(present), epoch)
	if err != nil {
		return err
	}
	if !present {
		if err := tx.leftAll(key); err != nil {
			return err
		}
		_, err = tx.exec(`
			DELETE FROM filler WHERE person = $1
			   AND role IN (SELECT id FROM role WHERE organization = $2)`, key.person, key.organization)
	}
	tx.Put(memberChange{key, admin, present, epoch})
	return err
}

// SetFiller puts a member into a role, or takes them out.
func (s *Store) SetFiller(_ context.Context, roleID, personID string, on bool, act Act) error {
	return s.writer.changeFacts(func(tx *Tx) error {
		m := tx.memory
		r := m.roles.get(roleID)
		if r == nil || m.people.get(personID) == nil {
			return fmt.Errorf("role or person: %w", ErrNotFound)
		}
		at := m.members.get(memberKey{personID, r.Organization})
		if on && (at == nil || !at.present) {
			return fmt.Errorf("the person is not a member of the role's organization: %w", ErrNotFound)
		}
		if err := tx.putFiller(roleID, personID, on); err != nil {
			return err
		}
		detail := "role " + roleID + " taken"
		if on {
			detail = "role " + roleID + " given"
		}
		return tx.changed(personID, r.Organization, detail, act)
	})
}

func (tx *Tx) putFiller(roleID, personID string, on bool) error {
	text := `DELETE FROM filler WHERE role = $1 AND person = $2`
	if on {
		text = `INSERT INTO filler (role, person) VALUES ($1, $2) ON CONFLICT (role, person) DO NOTHING`
	} else if err := tx.left(roleID, personID); err != nil {
		return err
	}
	_, err := tx.exec(text, roleID, personID)
	tx.Put(fillerChange{roleID, personID, on})
	return err
}

// left remembers when somebody left a role.
func (tx *Tx) left(roleID, personID string) error {
	_, err := tx.exec(`
		INSERT INTO filler_left (role, person, left_at)
		SELECT role, person, CAST($1 AS BIGINT) FROM filler WHERE role = $2 AND person = $3
		ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
		tx.store.Now().Unix(), roleID, personID)
	return err
}

// leftAll is left for all roles of a member.
func (tx *Tx) leftAll(key memberKey) error {
	_, err := tx.exec(`
		INSERT INTO filler_left (role, person, left_at)
		SELECT role, person, CAST($1 AS BIGINT) FROM filler
		 WHERE person = $2 AND role IN (SELECT id FROM role WHERE organization = $3)
		ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
		tx.store.Now().Unix(), key.person, key.organization)
	return err
}

// LeftRoles gives when a person last left each role of an organization, in
// Unix seconds by the role's ID.
func (s *Store) LeftRoles(ctx context.Context, personID, organizationID string) (map[string]int64, error) {
	rows, err := s.reader.QueryContext(ctx, `
		SELECT l.role, l.left_at FROM filler_left l
		  JOIN role r ON r.id = l.role
		 WHERE l.person = $1 AND r.organization = $2`, personID, organizationID)
	out := map[string]int64{}
	err = eachRow(rows, err, func(r scanner) error {
		var role string
		var at int64
		err := r.Scan(&role, &at)
		out[role] = at
		return err
	})
	return out, unavailable("left roles", err)
}
