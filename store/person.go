package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/accounts"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// AddPerson adds a person, with the PHC string of a password or "". An empty ID
// becomes a random one. Somebody who has email and name already, and the ID where
// one is said, is given as they are; ErrConflict: ID or email are another's.
func (s *Store) AddPerson(_ context.Context, p org.Person, hash string, act Act) (org.Person, error) {
	err := s.changeFacts(func(tx *Tx) error {
		m := tx.Memory
		if at := m.ByEmail.Get(facts.EmailKey(p)); at != nil && at.Name == p.Name && (at.ID == p.ID || p.ID == "") {
			p = at.Person
			return nil
		} else if at != nil || m.People.Get(p.ID) != nil {
			return fmt.Errorf("person: %w", ErrConflict)
		}
		if p.ID == "" {
			p.ID = strings.ToLower(rand.Text())
		}
		if err := tx.putPeople(directory.Person{Person: p, PasswordHash: hash}); err != nil {
			return err
		}
		return tx.Changed(p.ID, "", "person added", act)
	})
	return p, err
}

// Provision adds a person whom a provider knows and this directory does not.
// ErrConflict: the ID or the email is somebody's.
func (s *Store) Provision(_ context.Context, p org.Person, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		d := directory.Directory{People: []directory.Person{{Person: p}}}
		if tx.Memory.People.Get(p.ID) != nil {
			return fmt.Errorf("person: %w", ErrConflict)
		}
		if _, err := tx.plan(directory.Import{Directory: d}); err != nil {
			return err
		}
		if err := tx.putPeople(directory.Person{Person: p}); err != nil {
			return err
		}
		return tx.Changed(p.ID, "", "person provisioned", act)
	})
}

// SetActive deactivates a person, which ends their sessions and all their
// approvals, or reactivates them, which revives none (decision P10).
func (s *Store) SetActive(ctx context.Context, personID string, on bool, act Act) error {
	err := s.changeFacts(func(tx *Tx) error {
		at := tx.Memory.People.Get(personID)
		if at == nil {
			return fmt.Errorf("person: %w", ErrNotFound)
		}
		if at.Active == on {
			return nil
		}
		p, detail := at.Person, "person reactivated"
		if p.Active = on; !on {
			detail = "person deactivated"
		}
		if err := tx.putPeople(directory.Person{Person: p}); err != nil {
			return err
		}
		return tx.Changed(p.ID, "", detail, act)
	})
	if err == nil && !on {
		s.ends.WriteSoon(ctx)
	}
	return err
}

// putPeople adds or updates people; a deactivation raises the epoch. A password hash that is
// empty leaves the password as it is. An email may pass from one of them to another.
func (tx *Tx) putPeople(all ...directory.Person) error {
	if err := tx.freeEmails(all); err != nil {
		return err
	}
	if err := tx.endResets(all); err != nil {
		return err
	}
	changed, err := tx.changedPasswords(all)
	if err != nil {
		return err
	}
	err = put(tx, query.Builder{
		Text: `INSERT INTO person (id, email, email_key, name, active, support, epoch, password)`,
		End: ` ON CONFLICT (id) DO UPDATE
		   SET email = excluded.email, email_key = excluded.email_key, name = excluded.name,
		       active = excluded.active, support = excluded.support, epoch = excluded.epoch,
		       password = CASE excluded.password WHEN '' THEN person.password ELSE excluded.password END`,
	}, all, func(p directory.Person) (facts.Change, []any) {
		epoch := int64(0)
		if at := tx.Memory.People.Get(p.ID); at != nil {
			epoch = at.Epoch
			if at.Active && !p.Active {
				epoch++
			}
		}
		return facts.PersonChange{Person: p.Person, Epoch: epoch},
			[]any{p.ID, p.Email, facts.EmailKey(p.Person), p.Name, engine.Flag(p.Active), engine.Flag(p.Support), epoch, p.PasswordHash}
	})
	if err != nil {
		return err
	}
	hashes := make([]string, len(all))
	for i, p := range all {
		hashes[i] = p.PasswordHash
	}
	if err := accounts.KnowCosts(tx.Tx, hashes...); err != nil {
		return err
	}
	return accounts.EndByPasswords(tx.Tx, changed, "")
}

// freeEmails takes their emails from those of all whose email comes to another of them: an
// index is unique after each row that is written, and not after all. The key that they have
// until they get their own is nobody else's.
func (tx *Tx) freeEmails(all []directory.Person) error {
	if len(all) < 2 {
		return nil
	}
	put, owners := map[string]bool{}, []any{}
	for _, p := range all {
		put[p.ID] = true
	}
	for _, p := range all {
		if at := tx.Memory.ByEmail.Get(facts.EmailKey(p.Person)); at != nil && at.ID != p.ID && put[at.ID] {
			owners = append(owners, at.ID)
		}
	}
	return query.ExecEach(tx.Tx, query.Builder{Text: `UPDATE person SET email_key = 'removed:' || id`}, "id", owners)
}

// endResets deletes the links to set a password that were mailed to an address which is another
// one now: they are no proof of this one.
func (tx *Tx) endResets(all []directory.Person) error {
	var people []any
	for _, p := range all {
		if at := tx.Memory.People.Get(p.ID); at != nil && at.Email != p.Email {
			people = append(people, p.ID)
		}
	}
	return query.ExecEach(tx.Tx, query.Builder{Text: `DELETE FROM reset`}, "person", people)
}

// changedPasswords gives those who are there, and have other passwords than they come with.
func (tx *Tx) changedPasswords(all []directory.Person) ([]string, error) {
	come := map[string]string{}
	for _, p := range all {
		if p.PasswordHash != "" && tx.Memory.People.Get(p.ID) != nil {
			come[p.ID] = p.PasswordHash
		}
	}
	people := slices.Sorted(maps.Keys(come))
	stored, err := tx.Passwords(people)
	return slices.DeleteFunc(people, func(id string) bool { return stored[id] == come[id] }), err
}
