package accounts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// An Entry is a session that begins.
type Entry struct {
	Value  string // of the cookie
	Person string // ID
	Proof  identity.Proof
	Method string // for the journal
	By     string // who acts as the person, as the other side says it; empty when it is the person

	Browser, System string // what they are called, as the person is shown it; empty where not known

	Password string    // PHC string that was checked; empty where none was
	Bind     bool      // the subject becomes this person's, unless it is
	Factor   FactorUse // with which the person proved it; zero for none
	Ends     string    // value of the session that this one takes the place of

	// What may be used once only, and until when that has to be remembered.
	Once      string
	OnceUntil time.Time
}

// Enter begins a session. ErrNotFound: the person is not active, or the
// password is another one by now; ErrConflict: the subject is somebody else's,
// or the person is another subject of the same issuer; ErrAnswered: Once, or
// the factor, was used; ErrNotAllowed: a password alone, and the person has a
// second factor by now (decision S5).
func (s *Accounts) Enter(_ context.Context, e Entry, act engine.Act) error {
	return s.db.Change(func(tx *engine.Tx) error {
		for _, step := range []func() error{
			func() error { return spend(tx, e.Once, e.OnceUntil) },
			func() error {
				if e.Password == "" {
					return nil
				}
				if err := stillPassword(tx, e.Person, e.Password); err != nil || e.Factor.ID != "" {
					return err
				}
				return hasNoFactor(tx, e.Person)
			},
			func() error { return use(tx, e.Factor) },
			func() error { return insertSession(tx, e, act) },
			func() error { return bind(tx, e) },
			func() error { return replaceSession(tx, e) },
		} {
			if err := step(); err != nil {
				return err
			}
		}
		kind := journal.SignInSucceeded
		if e.By != "" {
			kind = journal.ImpersonationStarted
		}
		return tx.Journal(engine.Event{Kind: kind, Person: e.Person, Detail: e.Method}.By(act))
	})
}

// replaceSession ends the session that an entry takes the place of.
func replaceSession(tx *engine.Tx, e Entry) error {
	if e.Ends == "" {
		return nil
	}
	old := sha256.Sum256([]byte(e.Ends))
	_, err := tx.Exec(`DELETE FROM session WHERE hash = $1 AND person = $2`, old[:], e.Person)
	return err
}

// bind makes the subject the person's. Neither is ever another's at the same
// issuer: an email that changed hands leads nobody into an account.
func bind(tx *engine.Tx, e Entry) error {
	if !e.Bind && (e.By == "" || e.Proof.Issuer == "") {
		return nil
	}
	if !e.Bind { // who acts for somebody connects nothing, and is held to what is connected
		var other int
		if err := tx.QueryRow(`
			SELECT COUNT(*) FROM subject WHERE issuer = $1 AND (person = $2 AND subject <> $3 OR person <> $2 AND subject = $3)`,
			e.Proof.Issuer, e.Person, e.Proof.Subject).Scan(&other); err != nil || other == 0 {
			return err
		}
		return fmt.Errorf("subject: %w", engine.ErrConflict)
	}
	n, err := tx.Exec(`
		INSERT INTO subject (issuer, subject, person, created_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (issuer, subject) DO NOTHING`, e.Proof.Issuer, e.Proof.Subject, e.Person, tx.Env.Now().Unix())
	if err != nil || n == 1 {
		return err
	}
	var person string
	if err := tx.QueryRow(`SELECT person FROM subject WHERE issuer = $1 AND subject = $2`,
		e.Proof.Issuer, e.Proof.Subject).Scan(&person); err != nil {
		return err
	}
	if person != e.Person {
		return fmt.Errorf("subject: %w", engine.ErrConflict)
	}
	return nil
}

// spend gives ErrAnswered for what was spent before.
func spend(tx *engine.Tx, what string, until time.Time) error {
	if what == "" {
		return nil
	}
	first, err := tx.Spend(sha256.Sum256([]byte(what)), until.Unix())
	if err == nil && !first {
		return fmt.Errorf("used before: %w", engine.ErrAnswered)
	}
	return err
}

// SweepSpent forgets what need not be remembered any more.
func SweepSpent(tx *engine.Tx, now time.Time) (int, error) {
	n, err := tx.Exec(`
		DELETE FROM spent WHERE hash IN (SELECT hash FROM spent WHERE ends_at < $1 LIMIT 500)`, now.Unix())
	return int(n), err
}

// Proof gives what a session that stands has proved.
func (s *Accounts) Proof(ctx context.Context, value string) (p identity.Proof, err error) {
	hash := sha256.Sum256([]byte(value))
	err = s.db.Reader.QueryRowContext(ctx,
		`SELECT proved_at, factor_at, issuer, subject, sid FROM session WHERE hash = $1`, hash[:]).
		Scan(&p.ProvedAt, &p.FactorAt, &p.Issuer, &p.Subject, &p.SID)
	if err != nil {
		return identity.Proof{}, engine.Lookup("session", err)
	}
	return p, nil
}

// Subject finds who a subject of an issuer is here, active or not.
func (s *Accounts) Subject(ctx context.Context, issuer, subject string) (org.Person, error) {
	var id string
	err := s.db.Reader.QueryRowContext(ctx, `SELECT person FROM subject WHERE issuer = $1 AND subject = $2`, issuer, subject).Scan(&id)
	if err != nil {
		return org.Person{}, engine.Lookup("subject", err)
	}
	return s.db.Person(ctx, id)
}

// Vouched finds somebody by the email that another server vouches for, as
// org.VouchedEmail compares it. What an ID is, no email is.
func (s *Accounts) Vouched(ctx context.Context, email string) (org.Person, error) {
	p, err := s.db.Person(ctx, email)
	if err == nil && (!strings.Contains(email, "@") || !org.VouchedEmail(p.Email, email)) {
		return org.Person{}, fmt.Errorf("person: %w", engine.ErrNotFound)
	}
	return p, err
}

// A Farewell is a provider's word that somebody signed out there.
type Farewell struct {
	Issuer, Subject, SID string // one of Subject and SID may be empty
	Once                 string
	OnceUntil            time.Time
}

// EndSessionsAt ends the sessions that began with a provider's word, and counts
// them. ErrAnswered: it was said before.
func (s *Accounts) EndSessionsAt(_ context.Context, f Farewell, act engine.Act) (ended int, err error) {
	err = s.db.Change(func(tx *engine.Tx) error {
		if err := spend(tx, f.Once, f.OnceUntil); err != nil {
			return err
		}
		found, err := sessionList(tx, `
			SELECT hash, person, acting_as, acting_in FROM session
			 WHERE issuer = $1 AND issuer <> '' AND (subject = $2 OR $2 = '') AND (sid = $3 OR $3 = '')
			   AND ($2 <> '' OR $3 <> '')`, f.Issuer, f.Subject, f.SID)
		if ended = len(found); err != nil || ended == 0 {
			return err
		}
		if err := endSessions(tx, found, "signed out where they signed in"); err != nil {
			return err
		}
		return tx.Journal(engine.Event{Kind: journal.SignedOut, Detail: fmt.Sprintf("%d sessions", ended), Person: found[0].person}.By(act))
	})
	return ended, err
}
