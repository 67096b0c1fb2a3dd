package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/directory"
)

// ToldRetention is how long an event of a service's directory is known by its
// ID. Long before that its signature is too old to come once more.
const ToldRetention = 7 * 24 * time.Hour

// What an event has come to.
const (
	ToldApplied   = "applied"
	ToldUnchanged = "unchanged" // it was so already
	ToldOld       = "old"       // a later one has told of the object: nothing is changed
)

// gonePrefix marks the version at which an object was removed: what is older
// than that and stands on the object is gone too.
const gonePrefix = "gone:"

// TellDirectory takes one event, and says what it came to. One that comes
// twice is one. ErrNotFound: it refers to what is not there; ErrConflict: it
// contradicts what is there, or its ID was another event's; ErrChanged: the
// sender decided by another picture. None is remembered: the event may come
// again.
func (s *Store) TellDirectory(ctx context.Context, t directory.Telling, act Act) (result string, err error) {
	err = s.writer.changeFacts(func(tx *Tx) error {
		result, err = tx.toldBefore(t)
		if result != "" || err != nil {
			return err
		}
		if result, err = tx.tell(t, act); err != nil {
			return err
		}
		_, err = tx.exec(`INSERT INTO directory_event (id, at, digest, result) VALUES ($1, $2, $3, $4)`,
			t.ID, tx.store.Now().Unix(), t.Digest, result)
		return err
	})
	if err != nil {
		return "", err
	}
	if result == ToldApplied {
		s.markSoon(ctx)
	}
	return result, nil
}

// toldBefore gives what an event came to that was told already, or "".
func (tx *Tx) toldBefore(t directory.Telling) (string, error) {
	var digest, result string
	err := tx.queryRow(`SELECT digest, result FROM directory_event WHERE id = $1`, t.ID).Scan(&digest, &result)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return "", nil
	case err != nil:
		return "", err
	case digest != t.Digest:
		return "", fmt.Errorf("event %s: another one had this ID: %w", t.ID, ErrConflict)
	}
	return result, nil
}

func (tx *Tx) tell(t directory.Telling, act Act) (string, error) {
	name, on := t.Object()
	last, err := tx.toldVersion(name, on)
	if err != nil {
		return "", err
	}
	if err := tx.unlike(t); err != nil {
		return "", err
	}
	if t.Version == 0 && t.Like != nil {
		t.Version = last + 1
	}
	if t.Version <= last {
		return ToldOld, tx.journal(Event{Kind: "directory_refused", Detail: name + ", version " + fmt.Sprint(t.Version) + " after " + fmt.Sprint(last),
			Reason: "old_version", Person: t.PersonID(), Organization: t.OrganizationID()}.by(act))
	}
	p, err := directory.PlanEvent(t, &tx.memory.Facts, tx)
	if err != nil {
		return "", err
	}
	if err := tx.carryOut(p, act); err != nil {
		return "", err
	}
	names := []string{name}
	if t.Gone {
		names = append(names, gonePrefix+name)
	}
	for _, name := range names {
		if _, err := tx.exec(`
			INSERT INTO directory_version (object, version) VALUES ($1, $2)
			ON CONFLICT (object) DO UPDATE SET version = excluded.version`, name, t.Version); err != nil {
			return "", err
		}
	}
	if len(p.Out.Lists) == 0 {
		return ToldUnchanged, nil
	}
	return ToldApplied, nil
}

// toldVersion is the version from which on an event about the object is not
// old: that of its last event, of the removal of what it stands on, or of the
// last picture of all.
func (tx *Tx) toldVersion(name string, on []string) (int64, error) {
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
		err := tx.queryRow(`SELECT version FROM directory_version WHERE object = $1`, one).Scan(&version)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return 0, err
		}
		last = max(last, version)
	}
	return last, nil
}

// sweepTold forgets the events of a service's directory that cannot come again.
func (tx *Tx) sweepTold(now time.Time) (int, error) {
	n, err := tx.exec(`
		DELETE FROM directory_event WHERE id IN (
			SELECT id FROM directory_event WHERE at <= $1 ORDER BY at LIMIT 500)`, now.Add(-ToldRetention).Unix())
	return int(n), err
}
