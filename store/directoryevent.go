package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/journal"
)

// ToldRetention is how long an event of a service's directory is known by its
// ID. Long before that its signature is too old to come once more.
const ToldRetention = 7 * 24 * time.Hour

// What an event has come to.
const (
	ToldApplied   = "applied"
	ToldUnchanged = "unchanged" // it was so already
	ToldOld       = "old"       // a later one is known of the object: nothing is changed
)

// gonePrefix marks the version at which an object was removed: what is older
// than that and stands on the object is gone too.
const gonePrefix = "gone:"

// TellDirectory takes one event, and says what it came to. One that comes
// twice is one. ErrNotFound: it refers to what is not there; ErrConflict: it
// contradicts what is there, or its ID was another event's; ErrChanged: the
// sender decided by another picture. None is remembered: the event may come
// again.
func (s *Store) TellDirectory(ctx context.Context, e directory.Event, act Act) (result string, err error) {
	err = s.changeFacts(func(tx *Tx) error {
		result, err = tx.earlierResult(e)
		if result != "" || err != nil {
			return err
		}
		if result, err = tx.applyEvent(e, act); err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO directory_event (id, at, digest, result) VALUES ($1, $2, $3, $4)`,
			e.ID, tx.Env.Now().Unix(), e.Digest, result)
		return err
	})
	if err != nil {
		return "", err
	}
	if result == ToldApplied {
		s.ends.WriteSoon(ctx)
	}
	return result, nil
}

// earlierResult gives the result of an event that was taken before, or "".
func (tx *Tx) earlierResult(e directory.Event) (string, error) {
	var digest, result string
	err := tx.QueryRow(`SELECT digest, result FROM directory_event WHERE id = $1`, e.ID).Scan(&digest, &result)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	case digest != e.Digest:
		return "", fmt.Errorf("event %s: another one had this ID: %w", e.ID, ErrConflict)
	}
	return result, nil
}

// applyEvent changes what an event reports, unless something later is known.
func (tx *Tx) applyEvent(e directory.Event, act Act) (string, error) {
	name, on := e.Object()
	last, err := tx.newestVersion(name, on)
	if err != nil {
		return "", err
	}
	if err := tx.unlike(e); err != nil {
		return "", err
	}
	if e.Version == 0 && e.Like != nil {
		e.Version = last + 1
	}
	if e.Version <= last {
		return ToldOld, tx.Journal(Event{Kind: journal.DirectoryRefused, Detail: name + ", version " + fmt.Sprint(e.Version) + " after " + fmt.Sprint(last),
			Reason: journal.OldVersion, Person: e.PersonID(), Organization: e.OrganizationID()}.By(act))
	}
	p, err := directory.PlanEvent(e, &tx.Memory.Facts, tx)
	if err != nil {
		return "", err
	}
	if err := tx.carryOut(p, act); err != nil {
		return "", err
	}
	names := []string{name}
	if e.Gone {
		names = append(names, gonePrefix+name)
	}
	for _, name := range names {
		if _, err := tx.Exec(`
			INSERT INTO directory_version (object, version) VALUES ($1, $2)
			ON CONFLICT (object) DO UPDATE SET version = excluded.version`, name, e.Version); err != nil {
			return "", err
		}
	}
	if len(p.Out.Lists) == 0 {
		return ToldUnchanged, nil
	}
	return ToldApplied, nil
}

// newestVersion is the version that an event about the object has to exceed: that of its last event, of the removal of what it stands on, or of the
// last picture of all.
func (tx *Tx) newestVersion(name string, on []string) (int64, error) {
	last, err := tx.AsOf()
	if err != nil {
		return 0, err
	}
	names := []any{name}
	for _, one := range on {
		names = append(names, gonePrefix+one)
	}
	for _, one := range names {
		var version int64
		err := tx.QueryRow(`SELECT version FROM directory_version WHERE object = $1`, one).Scan(&version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
		last = max(last, version)
	}
	return last, nil
}

// sweepDirectoryEvents forgets the events of a service's directory that cannot come again.
func (tx *Tx) sweepDirectoryEvents(now time.Time) (int, error) {
	n, err := tx.Exec(`
		DELETE FROM directory_event WHERE id IN (
			SELECT id FROM directory_event WHERE at <= $1 ORDER BY at LIMIT 500)`, now.Add(-ToldRetention).Unix())
	return int(n), err
}
