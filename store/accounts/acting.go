package accounts

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// ActingLifetime is how long support staff may act as somebody (decision P9).
const ActingLifetime = time.Hour

// Acting is support staff who begin to act as somebody (decision P9).
type Acting struct {
	Session, Next        string // values of the cookie: the session's, and what it shall be
	Person, Organization string // IDs: as whom, and where
}

// StartActing lets the support staff of a session act as a member of an
// organization, under a new value. ErrNotFound: there is no such session, or
// no such member; ErrNotAllowed: it is nobody of the support staff, acts as
// somebody already, or would act as support staff.
func (s *Accounts) StartActing(_ context.Context, a Acting, act engine.Act) error {
	old, next := sha256.Sum256([]byte(a.Session)), sha256.Sum256([]byte(a.Next))
	return s.db.Change(func(tx *engine.Tx) error {
		r, err := scanSession(tx.QueryRow(selectSession, old[:]))
		if err != nil {
			return err
		}
		m, now := tx.Memory, tx.Env.Now().Unix()
		actor, as := m.People.Get(r.person), m.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization})
		switch {
		case actor == nil || !actor.Active || actor.Epoch != r.epoch:
			return fmt.Errorf("session: %w", engine.ErrNotFound)
		case !actor.Support || r.actingAs != "":
			return fmt.Errorf("support staff: %w", engine.ErrNotAllowed)
		case !as.AsMember().Exists():
			return fmt.Errorf("member: %w", engine.ErrNotFound)
		case as.Person.Support:
			return fmt.Errorf("acting as support staff: %w", engine.ErrNotAllowed)
		}
		if _, err := tx.Exec(`
			UPDATE session
			   SET hash = $1, acting_as = $2, acting_epoch = $3, acting_in = $4, acting_since = $5
			 WHERE hash = $6`, next[:], a.Person, as.Person.Epoch, a.Organization, now, old[:]); err != nil {
			return err
		}
		return tx.Journal(engine.Event{Kind: journal.ImpersonationStarted, Person: a.Person, Organization: a.Organization}.By(act))
	})
}

// StopActing returns support staff to themselves, under a new value.
// ErrNotFound: the session acts as nobody.
func (s *Accounts) StopActing(_ context.Context, value, next string, act engine.Act) error {
	old, hash := sha256.Sum256([]byte(value)), sha256.Sum256([]byte(next))
	return s.db.Change(func(tx *engine.Tx) error {
		r, err := scanSession(tx.QueryRow(selectSession, old[:]))
		if err != nil {
			return err
		}
		if r.actingAs == "" {
			return fmt.Errorf("acting: %w", engine.ErrNotFound)
		}
		if _, err := tx.Exec(`
			UPDATE session
			   SET hash = $1, acting_as = '', acting_epoch = 0, acting_in = '', acting_since = 0
			 WHERE hash = $2`, hash[:], old[:]); err != nil {
			return err
		}
		return tx.Journal(r.stopped("").By(act))
	})
}

// stopped is the end of an impersonation. Its actor is who acted, unless an
// act says so itself.
func (r sessionRow) stopped(why string) engine.Event {
	return engine.Event{Kind: journal.ImpersonationStopped, Person: r.actingAs, Organization: r.actingIn,
		Actor: "person:" + r.person, Detail: why}
}

// SweepActing ends the impersonations whose hour is over, or whose session is.
func SweepActing(tx *engine.Tx, now time.Time) (int, error) {
	found, err := sessionList(tx, `
		SELECT hash, person, acting_as, acting_in FROM session
		 WHERE acting_as <> '' AND (acting_since <= $1 OR seen_at <= $2 OR created_at <= $3) LIMIT 500`,
		now.Add(-ActingLifetime).Unix(), now.Add(-tx.Env.Options.SessionIdle).Unix(), now.Add(-tx.Env.Options.SessionMax).Unix())
	if err != nil {
		return 0, err
	}
	return len(found), endSessions(tx, found, "its time was over")
}
