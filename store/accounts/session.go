package accounts

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// Session is somebody signed in at a browser.
type Session struct {
	Person            string // ID of the person whose pages are shown
	CreatedAt, SeenAt int64  // Unix seconds

	// Actor is the ID of the support staff who acts as Person, in one
	// organization (decision P9). Empty when people act as themselves.
	Actor, ActingIn string

	// ActedBy is who acts as Person, as a provider or the service says it:
	// nobody whom this directory has to know.
	ActedBy string
}

// seenGrain is how true a session's last sight is.
const seenGrain = 60 // seconds

// stillPassword gives ErrNotFound when a password is not what it was.
func stillPassword(tx *engine.Tx, personID, checked string) error {
	var hash string
	err := tx.QueryRow(`SELECT password FROM person WHERE id = $1`, personID).Scan(&hash)
	if errors.Is(err, sql.ErrNoRows) || err == nil && hash != checked {
		return fmt.Errorf("password: %w", engine.ErrNotFound)
	}
	return err
}

// insertSession is the one way to a session, with what it has proved.
func insertSession(tx *engine.Tx, e Entry, act engine.Act) error {
	at := tx.Memory.People.Get(e.Person)
	if at == nil || !at.Active {
		return fmt.Errorf("person: %w", engine.ErrNotFound)
	}
	hash, now, p := sha256.Sum256([]byte(e.Value)), tx.Env.Now().Unix(), e.Proof
	_, err := tx.Exec(`
		INSERT INTO session (hash, person, person_epoch, created_at, seen_at, address,
		       acting_as, acting_epoch, acting_in, acting_since,
		       proved_at, factor_at, issuer, subject, sid, acted_by, browser, system)
		VALUES ($1, $2, $3, $4, $5, $6, '', 0, '', 0, $7, $8, $9, $10, $11, $12, $13, $14)`,
		hash[:], e.Person, at.Epoch, now, now, act.Address,
		p.ProvedAt, p.FactorAt, p.Issuer, p.Subject, p.SID, e.By, e.Browser, e.System)
	return err
}

// renameSession gives a person's session a new value; all else of it stays, and
// with it what it has proved. ErrNotAllowed: it has ended.
func renameSession(tx *engine.Tx, value, next, personID string) error {
	old, hash := sha256.Sum256([]byte(value)), sha256.Sum256([]byte(next))
	n, err := tx.Exec(`UPDATE session SET hash = $1 WHERE hash = $2 AND person = $3`, hash[:], old[:], personID)
	if err == nil && n == 0 {
		err = fmt.Errorf("session that has ended: %w", engine.ErrNotAllowed)
	}
	return err
}

// sessionRow is a session as it is stored.
type sessionRow struct {
	person                   string
	epoch, createdAt, seenAt int64
	actingAs, actingIn       string
	actingEpoch, actingSince int64
	actedBy, address         string
	browser, system          string
}

const selectSession = `
	SELECT person, person_epoch, created_at, seen_at, acting_as, acting_epoch, acting_in, acting_since, acted_by
	  FROM session WHERE hash = $1`

func scanSession(row engine.Scanner) (r sessionRow, err error) {
	err = row.Scan(&r.person, &r.epoch, &r.createdAt, &r.seenAt, &r.actingAs, &r.actingEpoch, &r.actingIn, &r.actingSince, &r.actedBy)
	if errors.Is(err, sql.ErrNoRows) {
		return r, fmt.Errorf("session: %w", engine.ErrNotFound)
	}
	return r, err
}

// Session gives a session that stands. ErrNotFound: there is none, it was idle
// or lasted too long, the person was deactivated since (decision S2), or it
// acted as somebody and may not any more (decision P9).
func (s *Accounts) Session(ctx context.Context, value string) (Session, error) {
	defer s.db.Timed("session", time.Now())
	hash := sha256.Sum256([]byte(value))
	r, err := scanSession(s.db.Reader.QueryRowContext(ctx, selectSession, hash[:]))
	if errors.Is(err, engine.ErrNotFound) {
		return Session{}, err
	} else if err != nil {
		return Session{}, engine.Unavailable("session", err)
	}
	if err := s.db.Fresh(ctx); err != nil { // after the row, so that the facts are no older
		return Session{}, err
	}
	now := s.db.Now().Unix()
	if !s.stands(r, now) {
		return Session{}, fmt.Errorf("session: %w", engine.ErrNotFound)
	}
	if now-r.seenAt >= seenGrain {
		s.db.Later(func(tx *engine.Tx) error {
			_, err := tx.Exec(`UPDATE session SET seen_at = $1 WHERE hash = $2`, now, hash[:])
			return err
		}, nil)
	}
	out := Session{Person: r.person, CreatedAt: r.createdAt, SeenAt: r.seenAt, ActedBy: r.actedBy}
	if r.actingAs != "" {
		out.Person, out.Actor, out.ActingIn = r.actingAs, r.person, r.actingIn
	}
	return out, nil
}

func (s *Accounts) stands(r sessionRow, now int64) bool {
	m := s.db.Memory
	m.RLock()
	defer m.RUnlock()
	at := m.People.Get(r.person)
	if at == nil || !at.Active || at.Epoch != r.epoch || !s.lasts(r, now) {
		return false
	}
	if r.actingAs == "" {
		return r.actedBy == "" || !at.Support && now-r.createdAt < int64(ActingLifetime.Seconds())
	}
	as := m.People.Get(r.actingAs)
	return at.Support && as != nil && as.Epoch == r.actingEpoch && !as.Support &&
		m.Members.Get(facts.MemberKey{Person: r.actingAs, Organization: r.actingIn}).AsMember().Exists() &&
		now-r.actingSince < int64(ActingLifetime.Seconds())
}

// lasts reports whether a session was neither idle nor is too old.
func (s *Accounts) lasts(r sessionRow, now int64) bool {
	return now-r.seenAt < int64(s.db.Options.SessionIdle.Seconds()) && now-r.createdAt < int64(s.db.Options.SessionMax.Seconds())
}

// EndSession ends a session; one that is not there is fine.
func (s *Accounts) EndSession(_ context.Context, value string) error {
	hash := sha256.Sum256([]byte(value))
	return s.db.Change(func(tx *engine.Tx) error {
		_, err := tx.Exec(`DELETE FROM session WHERE hash = $1`, hash[:])
		return err
	})
}

// SessionInfo is a session as its person may see it.
type SessionInfo struct {
	ID                string // tells it apart; of no use to anybody else
	Address           string // where it began
	Browser, System   string // what they are called; empty where not known
	CreatedAt, SeenAt int64  // Unix seconds
	Current           bool
}

// Sessions lists the sessions of a person that stand, the newest first.
// current is the value of the one that asks.
func (s *Accounts) Sessions(ctx context.Context, personID, current string) ([]SessionInfo, error) {
	defer s.db.Timed("session", time.Now())
	rows, err := s.db.Reader.QueryContext(ctx, `
		SELECT hash, address, browser, system, created_at, seen_at, person_epoch FROM session
		 WHERE person = $1 ORDER BY created_at DESC, hash LIMIT 1000`, personID)
	there, err := engine.ListOf(rows, err, func(rows engine.Scanner, r *hashedSession) error {
		r.person = personID
		return rows.Scan(&r.hash, &r.address, &r.browser, &r.system, &r.createdAt, &r.seenAt, &r.epoch)
	})
	if err != nil {
		return nil, engine.Unavailable("sessions", err)
	}
	if err := s.db.Fresh(ctx); err != nil { // after the rows, so that the facts are no older
		return nil, err
	}
	var out []SessionInfo
	now, own := s.db.Now().Unix(), sha256.Sum256([]byte(current))
	for _, r := range there {
		if s.stands(r.sessionRow, now) {
			out = append(out, SessionInfo{sessionID(r.hash), r.address, r.browser, r.system, r.createdAt, r.seenAt, string(r.hash) == string(own[:])})
		}
	}
	return out, nil
}

// sessionID names a session without telling its stored hash.
func sessionID(hash []byte) string {
	sum := sha256.Sum256(hash)
	return hex.EncodeToString(sum[:12])
}

// EndSessions ends the sessions of a person that end chooses, and counts them.
func (s *Accounts) EndSessions(_ context.Context, personID string, end func(SessionInfo) bool, current string, act engine.Act) (ended int, err error) {
	own := sha256.Sum256([]byte(current))
	err = s.db.Change(func(tx *engine.Tx) error {
		found, err := sessionsOf(tx, personID)
		if err != nil {
			return err
		}
		found = slices.DeleteFunc(found, func(r hashedSession) bool {
			return !end(SessionInfo{ID: sessionID(r.hash), Current: string(r.hash) == string(own[:])})
		})
		if ended = len(found); ended == 0 {
			return nil
		}
		if err := endSessions(tx, found, "its session was ended"); err != nil {
			return err
		}
		return tx.Changed(personID, "", fmt.Sprintf("%d sessions ended", ended), act)
	})
	return ended, err
}

type hashedSession struct {
	hash []byte
	sessionRow
}

func sessionsOf(tx *engine.Tx, people ...string) (all []hashedSession, err error) {
	for batch := range slices.Chunk(people, query.Batch) {
		q := query.Builder{Text: `SELECT hash, person, acting_as, acting_in FROM session`}
		q.OneOf("person", query.Padded(query.Anys(batch)))
		found, err := sessionList(tx, q.Whole(), q.Args...)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func sessionList(tx *engine.Tx, text string, args ...any) ([]hashedSession, error) {
	rows, err := tx.Query(text, args...)
	return engine.ListOf(rows, err, func(rows engine.Scanner, r *hashedSession) error {
		return rows.Scan(&r.hash, &r.person, &r.actingAs, &r.actingIn)
	})
}

// endSessions deletes sessions; impersonations that end with them are
// journaled.
func endSessions(tx *engine.Tx, found []hashedSession, why string) error {
	for _, r := range found {
		if _, err := tx.Exec(`DELETE FROM session WHERE hash = $1`, r.hash); err != nil {
			return err
		}
		if r.actingAs != "" {
			if err := tx.Journal(r.stopped(why)); err != nil {
				return err
			}
		}
	}
	return nil
}

// SweepSessions deletes those that were idle or lasted too long.
func SweepSessions(tx *engine.Tx, now time.Time) (int, error) {
	n, err := tx.Exec(`
		DELETE FROM session WHERE hash IN (
			SELECT hash FROM session WHERE seen_at <= $1 OR created_at <= $2 LIMIT 500)`,
		now.Add(-tx.Env.Options.SessionIdle).Unix(), now.Add(-tx.Env.Options.SessionMax).Unix())
	return int(n), err
}
