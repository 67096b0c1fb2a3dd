package accounts

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// How long a link to set a new password may be used, once: one that an operator
// made, and one that somebody asked for.
const (
	ResetLifetime = 24 * time.Hour
	AskedLifetime = time.Hour
)

// AddReset records a link by which a person sets a new password. value is its
// secret, of which only the hash is stored. An earlier link of the person is
// worth nothing from then on. It gives when the link ends, in Unix seconds.
// ErrNotAllowed: the person is deactivated.
func (s *Accounts) AddReset(_ context.Context, value, personID string, lifetime time.Duration, act engine.Act) (ends int64, err error) {
	hash := sha256.Sum256([]byte(value))
	err = s.db.Change(func(tx *engine.Tx) error {
		at := tx.Memory.People.Get(personID)
		switch {
		case at == nil:
			return fmt.Errorf("person: %w", engine.ErrNotFound)
		case !at.Active:
			return fmt.Errorf("deactivated person: %w", engine.ErrNotAllowed)
		}
		ends = tx.Env.Now().Add(lifetime).Unix()
		if _, err := tx.Exec(`DELETE FROM reset WHERE person = $1`, personID); err != nil {
			return err
		}
		if _, err := tx.Exec(`
			INSERT INTO reset (hash, person, person_epoch, ends_at) VALUES ($1, $2, $3, $4)`,
			hash[:], personID, at.Epoch, ends); err != nil {
			return err
		}
		return tx.Changed(personID, "", "password reset link made", act)
	})
	return ends, err
}

const selectReset = `SELECT person, person_epoch, ends_at FROM reset WHERE hash = $1`

// ResetOf gives whose password a link sets. ErrNotFound: it is unknown, used,
// or over, or the person was deactivated since.
func (s *Accounts) ResetOf(ctx context.Context, value string) (org.Person, error) {
	hash := sha256.Sum256([]byte(value))
	var id string
	var epoch, ends int64
	err := s.db.Reader.QueryRowContext(ctx, selectReset, hash[:]).Scan(&id, &epoch, &ends)
	if err != nil {
		return org.Person{}, engine.Lookup("reset link", err)
	}
	if err := s.db.Fresh(ctx); err != nil { // after the row, so that the facts are no older
		return org.Person{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.People.Get(id)
	if at == nil || !at.Active || at.Epoch != epoch || s.db.Now().Unix() >= ends {
		return org.Person{}, fmt.Errorf("reset link: %w", engine.ErrNotFound)
	}
	return at.Person, nil
}

// Reset sets a password by a link, which is used up, and ends the person's
// sessions; approvals stay. Errors are those of ResetOf.
func (s *Accounts) Reset(_ context.Context, value, passwordHash string, act engine.Act) error {
	hash := sha256.Sum256([]byte(value))
	return s.db.Change(func(tx *engine.Tx) error {
		var id string
		var epoch, ends int64
		err := tx.QueryRow(selectReset, hash[:]).Scan(&id, &epoch, &ends)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("reset link: %w", engine.ErrNotFound)
		} else if err != nil {
			return err
		}
		at := tx.Memory.People.Get(id)
		if at == nil || !at.Active || at.Epoch != epoch || tx.Env.Now().Unix() >= ends {
			return fmt.Errorf("reset link: %w", engine.ErrNotFound)
		}
		if _, err := tx.Exec(`DELETE FROM reset WHERE person = $1`, id); err != nil {
			return err
		}
		if err := PutPassword(tx, id, passwordHash, ""); err != nil {
			return err
		}
		return tx.Changed(id, "", "password set by a reset link", act)
	})
}

// A PasswordChange is what a person's own change of their password needs.
type PasswordChange struct {
	Person        string // ID
	Checked, Hash string // PHC strings: of the password that was checked, and of the new one
	Session, Next string // values of the cookie: of the session that asks, and what it shall be
}

// ChangePassword sets a person's password, and ends all their sessions but the
// one that asks, which goes on under a new value with what it has proved;
// approvals stay. ErrNotFound: the password is another one by now, or the
// person was deactivated; ErrNotAllowed: the session has ended, or the person has
// a second factor by now, and the session has proved nothing since (decision S5).
func (s *Accounts) ChangePassword(_ context.Context, c PasswordChange, act engine.Act) error {
	return s.db.Change(func(tx *engine.Tx) error {
		if err := stillPassword(tx, c.Person, c.Checked); err != nil {
			return err
		}
		if at := tx.Memory.People.Get(c.Person); at == nil || !at.Active {
			return fmt.Errorf("person: %w", engine.ErrNotFound)
		}
		err := hasNoFactor(tx, c.Person)
		if errors.Is(err, engine.ErrNotAllowed) {
			err = mayChange(tx, c.Person, c.Session)
		}
		if err != nil {
			return err
		}
		if err := renameSession(tx, c.Session, c.Next, c.Person); err != nil {
			return err
		}
		if err := PutPassword(tx, c.Person, c.Hash, c.Next); err != nil {
			return err
		}
		return tx.Changed(c.Person, "", "password changed", act)
	})
}

// SweepResets deletes the links whose time is over.
func SweepResets(tx *engine.Tx, now time.Time) (int, error) {
	n, err := tx.Exec(`DELETE FROM reset WHERE ends_at <= $1`, now.Unix())
	return int(n), err
}
