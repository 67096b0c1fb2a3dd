package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// MaxPasswordCosts is how many different costs the stored passwords may have:
// each sign-in pays for all of them.
const MaxPasswordCosts = 4

// A SignIn is what a sign-in is checked against.
type SignIn struct {
	Person org.Person // zero when nobody has the email
	Hash   string     // PHC string of the password; empty when there is none
	Costs  []string   // of all passwords that are stored: how PHC strings begin, up to the salt
}

// SignIn gives what a sign-in by an email is checked against. What is asked of
// the database is the same whether or not somebody has the email. Otherwise it
// is as Password.
func (s *Store) SignIn(ctx context.Context, email string) (in SignIn, err error) {
	defer s.timed("password", time.Now())
	if err := s.fresh(ctx); err != nil {
		return in, err
	}
	s.memory.RLock()
	if at := s.memory.ByEmail.Get(org.EmailKey(email)); at != nil {
		in.Person = at.Person
	}
	s.memory.RUnlock()
	err = s.reader.QueryRowContext(ctx, `SELECT password FROM person WHERE id = $1`, in.Person.ID).Scan(&in.Hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return SignIn{}, engine.Unavailable("password", err)
	}
	if in.Costs, err = engine.Column[string](s.reader.QueryContext(ctx, `SELECT costs FROM password_costs ORDER BY costs`)); err != nil {
		return SignIn{}, engine.Unavailable("password", err)
	}
	return in, nil
}

// costsOf is how a PHC string begins, up to its salt; "" of what is none.
func costsOf(hash string) string {
	if !strings.HasPrefix(hash, "$argon2id$") || strings.Count(hash, "$") != 5 {
		return ""
	}
	end := strings.LastIndexByte(hash, '$')
	return hash[:strings.LastIndexByte(hash[:end], '$')+1]
}

// KnowCosts notes the costs of a password that the previous release wrote.
// Nobody waits for it.
func (s *Store) KnowCosts(hash string) {
	s.later(func(tx *Tx) error { return tx.knowCosts(hash) }, nil)
}

func (tx *Tx) knowCosts(hash string) error {
	costs := costsOf(hash)
	if costs == "" {
		return nil
	}
	_, err := tx.Exec(`INSERT INTO password_costs (costs) VALUES ($1) ON CONFLICT (costs) DO NOTHING`, costs)
	return err
}

// Rehash stores another hash of the password that a person has, so it ends
// nothing. ErrNotFound: the stored one is not old any more.
func (s *Store) Rehash(_ context.Context, personID, old, hash string) error {
	return s.change(func(tx *Tx) error {
		n, err := tx.Exec(`UPDATE person SET password = $1 WHERE id = $2 AND password = $3`, hash, personID, old)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("password: %w", ErrNotFound)
		}
		if err := tx.knowCosts(hash); err != nil {
			return err
		}
		return tx.forgetCosts(old)
	})
}

// forgetCosts forgets the costs of a hash that was replaced, when it was the
// last of them.
func (tx *Tx) forgetCosts(hash string) error {
	costs := costsOf(hash)
	if costs == "" {
		return nil
	}
	_, err := tx.Exec(`
		DELETE FROM password_costs WHERE costs = $1
		   AND NOT EXISTS (SELECT 1 FROM person WHERE password LIKE $2)`, costs, costs+"%")
	return err
}

// sweepCosts forgets the costs that no stored password has any more, after changes
// of passwords and deleted people: until then each sign-in pays for them.
func (tx *Tx) sweepCosts(time.Time) (int, error) {
	_, err := tx.Exec(`
		DELETE FROM password_costs
		 WHERE NOT EXISTS (SELECT 1 FROM person WHERE password LIKE password_costs.costs || '%')`)
	return 0, err
}

// checkCosts refuses a directory after which there were too many different
// costs of passwords.
func (tx *Tx) checkCosts(people []directory.Person) error {
	known := map[string]bool{"": true}
	for i, one := range people {
		costs := costsOf(one.PasswordHash)
		if known[costs] {
			continue
		}
		if len(known) == 1 {
			stored, err := engine.Column[string](tx.Query(`SELECT costs FROM password_costs`))
			if err != nil {
				return err
			}
			for _, c := range stored {
				known[c] = true
			}
		}
		if !known[costs] && len(known) > MaxPasswordCosts { // "" is one of them
			return &directory.Misplaced{List: directory.ListPeople, Index: i, Err: fmt.Errorf("person %s: the passwords that are stored have %d different costs already, and each sign-in pays for all: %w", one.ID, len(known)-1, ErrConflict)}
		}
		known[costs] = true
	}
	return nil
}
