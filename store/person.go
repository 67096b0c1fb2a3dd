package store

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/accounts"
	"github.com/grantkeeper/grantkeeper/store/engine"
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
		if err := tx.putPerson(p); err != nil {
			return err
		}
		if hash != "" {
			if err := accounts.PutPassword(tx.Tx, p.ID, hash, ""); err != nil {
				return err
			}
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
		if err := tx.putPerson(p); err != nil {
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
		if err := tx.putPerson(p); err != nil {
			return err
		}
		return tx.Changed(p.ID, "", detail, act)
	})
	if err == nil && !on {
		s.ends.WriteSoon(ctx)
	}
	return err
}

// putPerson adds or updates a person; a deactivation raises the epoch.
func (tx *Tx) putPerson(p org.Person) error {
	epoch := int64(0)
	if at := tx.Memory.People.Get(p.ID); at != nil {
		epoch = at.Epoch
		if at.Active && !p.Active {
			epoch++
		}
	}
	if at := tx.Memory.People.Get(p.ID); at != nil && at.Email != p.Email {
		// A link that was mailed to another address is no proof of this one.
		if _, err := tx.Exec(`DELETE FROM reset WHERE person = $1`, p.ID); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`
		INSERT INTO person (id, email, email_key, name, active, support, epoch, password)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '')
		ON CONFLICT (id) DO UPDATE
		   SET email = excluded.email, email_key = excluded.email_key, name = excluded.name,
		       active = excluded.active, support = excluded.support, epoch = excluded.epoch`,
		p.ID, p.Email, facts.EmailKey(p), p.Name, engine.Flag(p.Active), engine.Flag(p.Support), epoch)
	tx.Put(facts.PersonChange{Person: p, Epoch: epoch})
	return err
}

func (tx *Tx) putDirectoryPerson(p directory.Person) error {
	if err := tx.putPerson(p.Person); err != nil || p.PasswordHash == "" {
		return err
	}
	return accounts.PutPassword(tx.Tx, p.ID, p.PasswordHash, "")
}
