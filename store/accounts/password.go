package accounts

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
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
func (s *Accounts) SignIn(ctx context.Context, email string) (in SignIn, err error) {
	defer s.db.Timed("password", time.Now())
	if err := s.db.Fresh(ctx); err != nil {
		return in, err
	}
	s.db.Memory.RLock()
	if at := s.db.Memory.ByEmail.Get(org.EmailKey(email)); at != nil {
		in.Person = at.Person
	}
	s.db.Memory.RUnlock()
	err = s.db.Reader.QueryRowContext(ctx, `SELECT password FROM person WHERE id = $1`, in.Person.ID).Scan(&in.Hash)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return SignIn{}, engine.Unavailable("password", err)
	}
	if in.Costs, err = engine.Column[string](s.db.Reader.QueryContext(ctx, `SELECT costs FROM password_costs ORDER BY costs`)); err != nil {
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
func (s *Accounts) KnowCosts(hash string) {
	s.db.Later(func(tx *engine.Tx) error { return KnowCosts(tx, hash) }, nil)
}

// KnowCosts notes the costs of passwords that are stored.
func KnowCosts(tx *engine.Tx, hashes ...string) error {
	known := map[string]bool{"": true}
	for _, hash := range hashes {
		costs := costsOf(hash)
		if known[costs] {
			continue
		}
		known[costs] = true
		if _, err := tx.Exec(`INSERT INTO password_costs (costs) VALUES ($1) ON CONFLICT (costs) DO NOTHING`, costs); err != nil {
			return err
		}
	}
	return nil
}

// Rehash stores another hash of the password that a person has, so it ends
// nothing. ErrNotFound: the stored one is not old any more.
func (s *Accounts) Rehash(_ context.Context, personID, old, hash string) error {
	return s.db.Change(func(tx *engine.Tx) error {
		n, err := tx.Exec(`UPDATE person SET password = $1 WHERE id = $2 AND password = $3`, hash, personID, old)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("password: %w", engine.ErrNotFound)
		}
		if err := KnowCosts(tx, hash); err != nil {
			return err
		}
		return forgetCosts(tx, old)
	})
}

// forgetCosts forgets the costs of a hash that was replaced, when it was the
// last of them.
func forgetCosts(tx *engine.Tx, hash string) error {
	costs := costsOf(hash)
	if costs == "" {
		return nil
	}
	_, err := tx.Exec(`
		DELETE FROM password_costs WHERE costs = $1
		   AND NOT EXISTS (SELECT 1 FROM person WHERE password LIKE $2)`, costs, costs+"%")
	return err
}

// SweepCosts forgets the costs that no stored password has any more, after changes
// of passwords and deleted people: until then each sign-in pays for them.
func SweepCosts(tx *engine.Tx, _ time.Time) (int, error) {
	_, err := tx.Exec(`
		DELETE FROM password_costs
		 WHERE NOT EXISTS (SELECT 1 FROM person WHERE password LIKE password_costs.costs || '%')`)
	return 0, err
}

// CheckCosts refuses a directory after which there were too many different
// costs of passwords.
func CheckCosts(tx *engine.Tx, people []directory.Person) error {
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
			return &directory.Misplaced{List: directory.ListPeople, Index: i, Err: fmt.Errorf("person %s: the passwords that are stored have %d different costs already, and each sign-in pays for all: %w", one.ID, len(known)-1, engine.ErrConflict)}
		}
		known[costs] = true
	}
	return nil
}

// Password gives a person with the PHC string of their password, which is
// empty when none is set. The email alone finds them: attempts are counted
// under it, and by an ID an account could be tried twice as often.
func (s *Accounts) Password(ctx context.Context, email string) (org.Person, string, error) {
	defer s.db.Timed("password", time.Now())
	if err := s.db.Fresh(ctx); err != nil {
		return org.Person{}, "", err
	}
	s.db.Memory.RLock()
	at := s.db.Memory.ByEmail.Get(org.EmailKey(email))
	var p org.Person
	if at != nil {
		p = at.Person
	}
	s.db.Memory.RUnlock()
	if at == nil {
		return org.Person{}, "", fmt.Errorf("person: %w", engine.ErrNotFound)
	}
	var hash string
	err := s.db.Reader.QueryRowContext(ctx, `SELECT password FROM person WHERE id = $1`, p.ID).Scan(&hash)
	if err != nil {
		return org.Person{}, "", engine.Unavailable("password", err)
	}
	return p, hash, nil
}

// SetPassword sets the PHC string of a person's password and ends the
// person's other sessions; approvals stay.
func (s *Accounts) SetPassword(_ context.Context, personID, hash string, act engine.Act) error {
	return s.db.Change(func(tx *engine.Tx) error {
		if tx.Memory.People.Get(personID) == nil {
			return fmt.Errorf("person: %w", engine.ErrNotFound)
		}
		if err := PutPassword(tx, personID, hash, ""); err != nil {
			return err
		}
		return tx.Changed(personID, "", "password set", act)
	})
}

// PasswordsOf gives the PHC strings of people's passwords, by their IDs; "" is none.
func PasswordsOf(tx *engine.Tx, people []string) (map[string]string, error) {
	hashes := map[string]string{}
	for batch := range slices.Chunk(people, query.Batch) {
		q := query.Builder{Text: `SELECT id, password FROM person`}
		q.OneOf("id", query.Padded(query.Anys(batch)))
		rows, err := tx.Query(q.Whole(), q.Args...)
		_, err = engine.ListOf(rows, err, func(r engine.Scanner, _ *struct{}) error {
			var id, hash string
			err := r.Scan(&id, &hash)
			hashes[id] = hash
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return hashes, nil
}

// PutPassword sets a password, and ends what EndByPasswords does, but the session of the value
// spared.
func PutPassword(tx *engine.Tx, personID, hash, spared string) error {
	n, err := tx.Exec(`UPDATE person SET password = $1 WHERE id = $2 AND password <> $1`, hash, personID)
	if err != nil || n == 0 {
		return err
	}
	if err := KnowCosts(tx, hash); err != nil {
		return err
	}
	return EndByPasswords(tx, []string{personID}, spared)
}

// EndByPasswords ends the reset links of people who have other passwords now, and their sessions
// but the one of a value; "" spares none.
func EndByPasswords(tx *engine.Tx, people []string, spared string) error {
	if err := query.ExecEach(tx, query.Builder{Text: `DELETE FROM reset`}, "person", query.Anys(people)); err != nil {
		return err
	}
	found, err := sessionsOf(tx, people...)
	if err != nil {
		return err
	}
	own := sha256.Sum256([]byte(spared))
	found = slices.DeleteFunc(found, func(r hashedSession) bool { return spared != "" && string(r.hash) == string(own[:]) })
	return endSessions(tx, found, "the password was changed")
}
