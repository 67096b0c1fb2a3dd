package store

import (
	"context"
	"fmt"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// SetMember adds a person to an organization, or sets the admin right of one
// who is there.
func (s *Store) SetMember(ctx context.Context, organizationID, personID string, admin bool, act Act) error {
	return s.setMember(ctx, organizationID, personID, func(at *facts.Member) (memberState, error) {
		return memberState{admin: admin, present: true, detail: "member added"}, nil
	}, act)
}

// SetAdmin gives or takes the admin right of a member. Approvals stay: what
// they give narrows by itself (decision P6).
func (s *Store) SetAdmin(ctx context.Context, organizationID, personID string, on bool, act Act) error {
	return s.setMember(ctx, organizationID, personID, func(at *facts.Member) (memberState, error) {
		if at == nil || !at.Present {
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
	err := s.setMember(ctx, organizationID, personID, func(at *facts.Member) (memberState, error) {
		return memberState{detail: "member removed"}, nil
	}, act)
	if err == nil {
		s.ends.WriteSoon(ctx)
	}
	return err
}

type memberState struct {
	admin, present bool
	detail         string
}

func (s *Store) setMember(_ context.Context, organizationID, personID string, next func(*facts.Member) (memberState, error), act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		m, key := tx.Memory, facts.MemberKey{Person: personID, Organization: organizationID}
		if m.People.Get(personID) == nil || m.Orgs[organizationID] == nil {
			return fmt.Errorf("person or organization: %w", ErrNotFound)
		}
		at := m.Members.Get(key)
		to, err := next(at)
		if err != nil {
			return err
		}
		if at == nil && !to.present || at != nil && at.Present == to.present && at.Admin == to.admin {
			return nil
		}
		if err := tx.putMember(key, to.admin, to.present); err != nil {
			return err
		}
		return tx.Changed(personID, organizationID, to.detail, act)
	})
}

// putMember adds or updates a membership; its end raises the epoch and
// empties the roles that the person filled there.
func (tx *Tx) putMember(key facts.MemberKey, admin, present bool) error {
	epoch := int64(0)
	if at := tx.Memory.Members.Get(key); at != nil {
		epoch = at.Epoch
		if at.Present && !present {
			epoch++
		}
	}
	_, err := tx.Exec(`
		INSERT INTO membership (person, organization, admin, present, epoch) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (person, organization) DO UPDATE
		   SET admin = excluded.admin, present = excluded.present, epoch = excluded.epoch`,
		key.Person, key.Organization, engine.Flag(admin), engine.Flag(present), epoch)
	if err != nil {
		return err
	}
	if !present {
		if err := tx.leftAll(key); err != nil {
			return err
		}
		_, err = tx.Exec(`
			DELETE FROM filler WHERE person = $1
			   AND role IN (SELECT id FROM role WHERE organization = $2)`, key.Person, key.Organization)
	}
	tx.Put(facts.MemberChange{MemberKey: key, Admin: admin, Present: present, Epoch: epoch})
	return err
}

// SetFiller puts a member into a role, or takes them out.
func (s *Store) SetFiller(_ context.Context, roleID, personID string, on bool, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		m := tx.Memory
		r := m.Roles.Get(roleID)
		if r == nil || m.People.Get(personID) == nil {
			return fmt.Errorf("role or person: %w", ErrNotFound)
		}
		at := m.Members.Get(facts.MemberKey{Person: personID, Organization: r.Organization})
		if on && (at == nil || !at.Present) {
			return fmt.Errorf("the person is not a member of the role's organization: %w", ErrNotFound)
		}
		if err := tx.putFiller(roleID, personID, on); err != nil {
			return err
		}
		detail := "role " + roleID + " taken"
		if on {
			detail = "role " + roleID + " given"
		}
		return tx.Changed(personID, r.Organization, detail, act)
	})
}

func (tx *Tx) putFiller(roleID, personID string, on bool) error {
	text := `DELETE FROM filler WHERE role = $1 AND person = $2`
	if on {
		text = `INSERT INTO filler (role, person) VALUES ($1, $2) ON CONFLICT (role, person) DO NOTHING`
	} else if err := tx.left(roleID, personID); err != nil {
		return err
	}
	_, err := tx.Exec(text, roleID, personID)
	tx.Put(facts.FillerChange{Role: roleID, Person: personID, On: on})
	return err
}

// left remembers when somebody left a role.
func (tx *Tx) left(roleID, personID string) error {
	_, err := tx.Exec(`
		INSERT INTO filler_left (role, person, left_at)
		SELECT role, person, CAST($1 AS BIGINT) FROM filler WHERE role = $2 AND person = $3
		ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
		tx.Env.Now().Unix(), roleID, personID)
	return err
}

// leftAll is left for all roles of a member.
func (tx *Tx) leftAll(key facts.MemberKey) error {
	_, err := tx.Exec(`
		INSERT INTO filler_left (role, person, left_at)
		SELECT role, person, CAST($1 AS BIGINT) FROM filler
		 WHERE person = $2 AND role IN (SELECT id FROM role WHERE organization = $3)
		ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
		tx.Env.Now().Unix(), key.Person, key.Organization)
	return err
}

// LeftRoles gives when a person last left each role of an organization, in
// Unix seconds by the role's ID.
func (s *Store) LeftRoles(ctx context.Context, personID, organizationID string) (map[string]int64, error) {
	rows, err := s.db.Reader.QueryContext(ctx, `
		SELECT l.role, l.left_at FROM filler_left l
		  JOIN role r ON r.id = l.role
		 WHERE l.person = $1 AND r.organization = $2`, personID, organizationID)
	out := map[string]int64{}
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var role string
		var at int64
		err := r.Scan(&role, &at)
		out[role] = at
		return err
	})
	return out, engine.Unavailable("left roles", err)
}
