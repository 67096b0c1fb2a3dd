package store

import (
	"context"
	"fmt"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
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
		present := at != nil && at.Present
		if present == to.present && (!present || at.Admin == to.admin) {
			return nil
		}
		if to.present {
			err = tx.putMembers(directory.Member{Person: personID, Organization: organizationID, Admin: to.admin})
		} else {
			err = tx.endMember(at)
		}
		if err != nil {
			return err
		}
		return tx.Changed(personID, organizationID, to.detail, act)
	})
}

// putMembers adds memberships, or sets the admin right of those who are there.
func (tx *Tx) putMembers(all ...directory.Member) error {
	return put(tx, query.Builder{
		Text: `INSERT INTO membership (person, organization, admin, present, epoch)`,
		End: ` ON CONFLICT (person, organization) DO UPDATE
		   SET admin = excluded.admin, present = excluded.present, epoch = excluded.epoch`,
	}, all, func(m directory.Member) (facts.Change, []any) {
		to := facts.MemberChange{MemberKey: facts.MemberKey{Person: m.Person, Organization: m.Organization}, Admin: m.Admin, Present: true}
		if at := tx.Memory.Members.Get(to.MemberKey); at != nil {
			to.Epoch = at.Epoch
		}
		return to, []any{to.Person, to.Organization, engine.Flag(to.Admin), engine.Flag(to.Present), to.Epoch}
	})
}

// endMember ends the membership of somebody who is present, which raises its epoch.
func (tx *Tx) endMember(at *facts.Member) error {
	tx.Put(facts.MemberChange{MemberKey: at.Key(), Epoch: at.Epoch + 1})
	return tx.removeMembers([]facts.MemberKey{at.Key()})
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
		f, change, detail := directory.Filler{Role: roleID, Person: personID}, tx.removeFillers, "role "+roleID+" taken"
		if on {
			change, detail = tx.putFillers, "role "+roleID+" given"
		}
		if err := change(f); err != nil {
			return err
		}
		return tx.Changed(personID, r.Organization, detail, act)
	})
}

func (tx *Tx) putFillers(all ...directory.Filler) error {
	return put(tx, query.Builder{
		Text: `INSERT INTO filler (role, person)`,
		End:  ` ON CONFLICT (role, person) DO NOTHING`,
	}, all, func(f directory.Filler) (facts.Change, []any) {
		return facts.FillerChange{Role: f.Role, Person: f.Person, On: true}, []any{f.Role, f.Person}
	})
}

func (tx *Tx) removeFillers(all ...directory.Filler) error {
	for _, f := range all {
		tx.Put(facts.FillerChange{Role: f.Role, Person: f.Person})
	}
	return tx.deleteFillers(all)
}

// deleteFillers deletes rows, and remembers when these people left these roles.
func (tx *Tx) deleteFillers(all []directory.Filler) error {
	var pairs []any
	for _, f := range all {
		pairs = append(pairs, f.Role, f.Person)
	}
	left := query.Builder{
		Text: `
		INSERT INTO filler_left (role, person, left_at)
		SELECT role, person, CAST($1 AS BIGINT) FROM filler`, Args: []any{tx.Env.Now().Unix()},
		End: ` ON CONFLICT (role, person) DO UPDATE SET left_at = excluded.left_at`,
	}
	if err := query.ExecPairs(tx.Tx, left, "(role, person)", pairs); err != nil {
		return err
	}
	return query.ExecPairs(tx.Tx, query.Builder{Text: `DELETE FROM filler`}, "(role, person)", pairs)
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
