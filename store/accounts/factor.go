package accounts

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Kinds of factors.
const (
	FactorOneTime  = "one-time" // an app that shows codes
	FactorPasskey  = "passkey"
	FactorRecovery = engine.FactorRecovery // a code that is good once
)

// A Factor is what a person proves who they are with, beside a password.
type Factor struct {
	ID, Person, Kind string
	Name             string // as the person calls it
	Secret           string // sealed; of a passkey its public part; of a recovery code a hash
	Counter          int64  // of a one-time code the last step that counted
	CreatedAt        int64  // Unix seconds
	UsedAt           int64  // Unix seconds; 0 is never
}

// MaxFactors is how many a person may have, recovery codes left out.
const MaxFactors = 20

// Factors lists a person's, the oldest first.
func (s *Accounts) Factors(ctx context.Context, person string) ([]Factor, error) {
	rows, err := s.db.Reader.QueryContext(ctx, `
		SELECT id, person, kind, name, secret, counter, created_at, used_at FROM factor
		 WHERE person = $1 ORDER BY created_at, id`, person)
	out, err := engine.ListOf(rows, err, func(r engine.Scanner, f *Factor) error {
		return r.Scan(&f.ID, &f.Person, &f.Kind, &f.Name, &f.Secret, &f.Counter, &f.CreatedAt, &f.UsedAt)
	})
	return out, engine.Unavailable("factors", err)
}

// AddFactors adds factors of one person. Recovery codes take the place of all
// earlier ones. session is the value of the session that adds them: others of
// the person that a password began have proved nothing from then on, because
// they have not shown the new factor. ErrAnswered: one is there already;
// ErrConflict: there are too many; ErrNotAllowed: the session has ended, or has
// proved nothing since another one added a factor.
func (s *Accounts) AddFactors(_ context.Context, person, session string, factors []Factor, act engine.Act) error {
	return s.db.Change(func(tx *engine.Tx) error {
		at := tx.Memory.People.Get(person)
		if at == nil || !at.Active {
			return fmt.Errorf("person: %w", engine.ErrNotFound)
		}
		if err := mayChange(tx, person, session); err != nil {
			return err
		}
		for i, f := range factors {
			if f.Kind == FactorRecovery && (i == 0 || factors[i-1].Kind != FactorRecovery) {
				if _, err := tx.Exec(`DELETE FROM factor WHERE person = $1 AND kind = $2`, person, FactorRecovery); err != nil {
					return err
				}
			}
			n, err := tx.Exec(`
				INSERT INTO factor (id, person, kind, name, secret, counter, created_at, used_at)
				VALUES ($1, $2, $3, $4, $5, $6, $7, 0) ON CONFLICT (id) DO NOTHING`,
				f.ID, person, f.Kind, f.Name, f.Secret, f.Counter, tx.Env.Now().Unix())
			if err == nil && n == 0 {
				err = fmt.Errorf("factor: %w", engine.ErrAnswered)
			}
			if err != nil {
				return err
			}
		}
		var count int
		if err := tx.QueryRow(`SELECT COUNT(*) FROM factor WHERE person = $1 AND kind <> $2`,
			person, FactorRecovery).Scan(&count); err != nil {
			return err
		}
		if count > MaxFactors {
			return fmt.Errorf("too many factors: %w", engine.ErrConflict)
		}
		hash := sha256.Sum256([]byte(session))
		if _, err := tx.Exec(`UPDATE session SET proved_at = 0 WHERE person = $1 AND hash <> $2 AND issuer = ''`, person, hash[:]); err != nil {
			return err
		}
		return tx.Changed(person, "", "second factor added: "+factors[0].Kind, act)
	})
}

// mayChange gives ErrNotAllowed for the value of a session that has ended, or has proved
// nothing since another one added a factor: what a page asked of it before the transaction
// says too little. "" is no session, and may.
func mayChange(tx *engine.Tx, person, session string) error {
	if session == "" {
		return nil
	}
	hash := sha256.Sum256([]byte(session))
	var n int
	err := tx.QueryRow(`SELECT COUNT(*) FROM session WHERE hash = $1 AND person = $2 AND proved_at > 0`, hash[:], person).Scan(&n)
	if err == nil && n == 0 {
		return fmt.Errorf("session that proves nothing: %w", engine.ErrNotAllowed)
	}
	return err
}

// hasNoFactor gives ErrNotAllowed for somebody who has a factor beside recovery codes.
func hasNoFactor(tx *engine.Tx, person string) error {
	var n int
	err := tx.QueryRow(`SELECT COUNT(*) FROM factor WHERE person = $1 AND kind <> $2`, person, FactorRecovery).Scan(&n)
	if err == nil && n > 0 {
		return fmt.Errorf("without the second factor: %w", engine.ErrNotAllowed)
	}
	return err
}

// RemoveFactor removes one, for the session of a value. With the last one that is not a recovery
// code go those too. ErrNotFound: the person has none with this ID; ErrNotAllowed as AddFactors.
func (s *Accounts) RemoveFactor(_ context.Context, person, session, id string, act engine.Act) error {
	return s.db.Change(func(tx *engine.Tx) error {
		if err := mayChange(tx, person, session); err != nil {
			return err
		}
		n, err := tx.Exec(`DELETE FROM factor WHERE person = $1 AND id = $2 AND kind <> $3`, person, id, FactorRecovery)
		if err == nil && n == 0 {
			err = fmt.Errorf("factor: %w", engine.ErrNotFound)
		}
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`
			DELETE FROM factor WHERE person = $1 AND kind = $2
			   AND NOT EXISTS (SELECT 1 FROM factor f WHERE f.person = $1 AND f.kind <> $2)`, person, FactorRecovery); err != nil {
			return err
		}
		return tx.Changed(person, "", "second factor removed", act)
	})
}

// ResetSignIn forgets a person's factors and who they are at providers, and
// ends their sessions: for somebody who has lost what they sign in with.
func (s *Accounts) ResetSignIn(_ context.Context, idOrEmail string, act engine.Act) (org.Person, error) {
	p, err := s.db.Person(context.Background(), idOrEmail)
	if err != nil {
		return org.Person{}, err
	}
	return p, s.db.Change(func(tx *engine.Tx) error {
		for _, text := range []string{`DELETE FROM factor WHERE person = $1`, `DELETE FROM wrong_factor WHERE person = $1`, `DELETE FROM subject WHERE person = $1`} {
			if _, err := tx.Exec(text, p.ID); err != nil {
				return err
			}
		}
		found, err := sessionsOf(tx, p.ID)
		if err != nil {
			return err
		}
		if err := endSessions(tx, found, "the sign-in was reset"); err != nil {
			return err
		}
		return tx.Changed(p.ID, "", "sign-in reset", act)
	})
}

// A FactorUse is one use of a factor, part of an Entry.
type FactorUse struct {
	Factor
	Counter int64  // what it becomes
	Secret  string // what it becomes: sealed with the newest key
}

// TryFactor counts an attempt at a second factor of a person before it is made,
// and gives how many, with this one, were not right since the last that was: so
// attempts at once, on any node, count as many as they are.
func (s *Accounts) TryFactor(_ context.Context, person string) (inARow int, err error) {
	err = s.db.Change(func(tx *engine.Tx) error {
		if _, err := tx.Exec(`
			INSERT INTO wrong_factor (person, number) VALUES ($1, 1)
			ON CONFLICT (person) DO UPDATE SET number = wrong_factor.number + 1`, person); err != nil {
			return err
		}
		return tx.QueryRow(`SELECT number FROM wrong_factor WHERE person = $1`, person).Scan(&inARow)
	})
	return inARow, err
}

// WrongFactors gives how many second factors of a person were not right since the
// last that was, and when the latest came, in Unix seconds. There are none where
// the journal no longer knows when: that was long ago.
func (s *Accounts) WrongFactors(ctx context.Context, person string) (n int, last int64, err error) {
	err = s.db.Reader.QueryRowContext(ctx, `
		SELECT w.number, j.at
		  FROM wrong_factor w
		  JOIN journal j ON j.person = w.person
		 WHERE w.person = $1
		   AND j.person = $1 AND j.person <> '' AND j.kind = `+engine.SQLSignInFailed+` AND j.reason IN `+engine.SQLSecondFactors+`
		 ORDER BY j.id DESC LIMIT 1`, person).Scan(&n, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return n, last, engine.Unavailable("factors", err)
}

// UntryFactor takes an attempt back that was never made.
func (s *Accounts) UntryFactor(_ context.Context, person string) error {
	return s.db.Change(func(tx *engine.Tx) error {
		_, err := tx.Exec(`UPDATE wrong_factor SET number = number - 1 WHERE person = $1 AND number > 0`, person)
		return err
	})
}

// use makes a factor count. ErrAnswered: it has, meanwhile.
func use(tx *engine.Tx, f FactorUse) error {
	var n int64
	var err error
	switch {
	case f.ID == "":
		return nil
	case f.Kind == FactorRecovery:
		n, err = tx.Exec(`DELETE FROM factor WHERE id = $1 AND person = $2`, f.ID, f.Person)
	default:
		n, err = tx.Exec(`
			UPDATE factor SET counter = $1, secret = $2, used_at = $3
			 WHERE id = $4 AND person = $5 AND counter = $6`,
			f.Counter, f.Secret, tx.Env.Now().Unix(), f.ID, f.Person, f.Factor.Counter)
	}
	if err == nil && n == 0 {
		return fmt.Errorf("factor: %w", engine.ErrAnswered)
	}
	if err == nil {
		_, err = tx.Exec(`DELETE FROM wrong_factor WHERE person = $1`, f.Person)
	}
	return err
}
