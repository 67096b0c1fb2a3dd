package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
)

// AddPerson adds a person, with the PHC string of a password or "". An empty ID
// becomes a random one. Somebody who has email and name already, and the ID where
// one is said, is given as they are; ErrConflict: ID or email are another's.
func (s *Store) AddPerson(_ context.Context, p org.Person, hash string, act Act) (org.Person, error) {
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		m := w.store.memory
		if at := m.byEmail.get(emailKey(p)); at != nil && at.Name == p.Name && (at.ID == p.ID || p.ID == "") {
			p = at.Person
			return nil, nil
		} else if at != nil || m.people.get(p.ID) != nil {
			return nil, fmt.Errorf("person: %w", ErrConflict)
		}
		if p.ID == "" {
			p.ID = strings.ToLower(rand.Text())
		}
		after, err := w.putPerson(p)
		if err != nil {
			return nil, err
		}
		if hash != "" {
			if err := w.putPassword(p.ID, hash, ""); err != nil {
				return nil, err
			}
		}
		return after, w.changed(p.ID, "", "person added", act)
	})
	return p, err
}

// Provision adds a person whom a provider knows and this directory does not.
// ErrConflict: the ID or the email is somebody's.
func (s *Store) Provision(_ context.Context, p org.Person, act Act) error {
	return s.writer.changeFacts(func(w *writer) (func(), error) {
		d := Directory{People: []DirectoryPerson{{Person: p}}}
		if w.store.memory.people.get(p.ID) != nil {
			return nil, fmt.Errorf("person: %w", ErrConflict)
		}
		if _, err := w.plan(Import{Directory: d}); err != nil {
			return nil, err
		}
		after, err := w.putPerson(p)
		if err != nil {
			return nil, err
		}
		return after, w.changed(p.ID, "", "person provisioned", act)
	})
}

// SetActive deactivates a person, which ends their sessions and all their
// approvals, or reactivates them, which revives none (decision P10).
func (s *Store) SetActive(ctx context.Context, personID string, on bool, act Act) error {
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		at := w.store.memory.people.get(personID)
		if at == nil {
			return nil, fmt.Errorf("person: %w", ErrNotFound)
		}
		if at.Active == on {
			return nil, nil
		}
		p, detail := at.Person, "person reactivated"
		if p.Active = on; !on {
			detail = "person deactivated"
		}
		after, err := w.putPerson(p)
		if err != nil {
			return nil, err
		}
		return after, w.changed(p.ID, "", detail, act)
	})
	if err == nil && !on {
		s.markSoon(ctx)
	}
	return err
}

// putPerson adds or updates a person; a deactivation raises the epoch.
func (w *writer) putPerson(p org.Person) (func(), error) {
	epoch := int64(0)
	if at := w.store.memory.people.get(p.ID); at != nil {
		epoch = at.epoch
		if at.Active && !p.Active {
			epoch++
		}
	}
	if at := w.store.memory.people.get(p.ID); at != nil && at.Email != p.Email {
		// A link that was mailed to another address is no proof of this one.
		if _, err := w.exec(`DELETE FROM reset WHERE person = $1`, p.ID); err != nil {
			return nil, err
		}
	}
	_, err := w.exec(`
		INSERT INTO person (id, email, email_key, name, active, support, epoch, password)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '')
		ON CONFLICT (id) DO UPDATE
		   SET email = excluded.email, email_key = excluded.email_key, name = excluded.name,
		       active = excluded.active, support = excluded.support, epoch = excluded.epoch`,
		p.ID, p.Email, emailKey(p), p.Name, flag(p.Active), flag(p.Support), epoch)
	w.fact("person", p.ID)
	return func() { w.store.memory.putPerson(p, epoch) }, err
}

// SetPassword sets the PHC string of a person's password and ends the
// person's other sessions; approvals stay.
func (s *Store) SetPassword(_ context.Context, personID, hash string, act Act) error {
	return s.writer.change(func(w *writer) (func(), error) {
		if w.store.memory.people.get(personID) == nil {
			return nil, fmt.Errorf("person: %w", ErrNotFound)
		}
		if err := w.putPassword(personID, hash, ""); err != nil {
			return nil, err
		}
		return nil, w.changed(personID, "", "password set", act)
	})
}

func (w *writer) putDirectoryPerson(p DirectoryPerson) (func(), error) {
	after, err := w.putPerson(p.Person)
	if err != nil || p.PasswordHash == "" {
		return after, err
	}
	return after, w.putPassword(p.ID, p.PasswordHash, "")
}

// putPassword sets a password. Reset links end, and so do sessions that began
// with another password, but the one of this value; "" spares none.
func (w *writer) putPassword(personID, hash, spared string) error {
	n, err := w.exec(`UPDATE person SET password = $1 WHERE id = $2 AND password <> $1`, hash, personID)
	if err != nil || n == 0 {
		return err
	}
	w.fact("person") // a password is no fact of memory
	if err := w.knowCosts(hash); err != nil {
		return err
	}
	if _, err := w.exec(`DELETE FROM reset WHERE person = $1`, personID); err != nil {
		return err
	}
	found, err := w.sessionsOf(personID)
	if err != nil {
		return err
	}
	own := sha256.Sum256([]byte(spared))
	found = slices.DeleteFunc(found, func(r hashedSession) bool { return spared != "" && string(r.hash) == string(own[:]) })
	return w.endSessions(found, "the password was changed")
}
