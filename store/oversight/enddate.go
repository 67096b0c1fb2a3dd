package oversight

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

const day = 24 * time.Hour

// EndsSoon is how long before an approval ends by its date the journal says so.
const EndsSoon = 3 * day

// MostDays is for how many days an approval in an organization lasts at most, by its
// rules and by the operator's; 0 is no bound.
func MostDays(operators int, p *policy.Policy) int {
	most := operators
	if p != nil && p.MaxDays > 0 && (most == 0 || p.MaxDays < most) {
		most = p.MaxDays
	}
	return most
}

// MayEnd asks whether an approval that begins now may end at a time, Unix seconds; 0
// is without a date. most is mostDays.
func MayEnd(at int64, now time.Time, most int) error {
	switch {
	case at == 0 && most > 0:
		return fmt.Errorf("none: %w", ErrEndDate)
	case at != 0 && (at <= now.Unix() || at > EndOf(now, policy.MaxDays) || most > 0 && at > EndOf(now, most)):
		return fmt.Errorf("not within the bounds: %w", ErrEndDate)
	}
	return nil
}

// EndOf is so many days from a time, in Unix seconds.
func EndOf(from time.Time, days int) int64 { return from.Add(time.Duration(days) * day).Unix() }

// MayShorten asks whether an approval may end at a time instead: sooner, for who
// wants it later approves again.
func MayShorten(a approval.Approval, at int64, now time.Time) error {
	if !a.MayEndAt(at, now) || at > EndOf(now, policy.MaxDays) {
		return fmt.Errorf("not sooner than it was: %w", ErrEndDate)
	}
	return nil
}

// endBy has all approvals in an organization end by a time, those that end later or
// never, and counts them. Where others write too it locks the rows first, in the order
// in which groups of refreshes do.
func endBy(tx *engine.Tx, organization string, at int64) (int, error) {
	later := ` FROM approval WHERE organization = $1 AND ended_at = 0 AND (ends_at = 0 OR ends_at > $2)`
	n, err := tx.Exec(`WITH locked AS (SELECT id`+later+` ORDER BY id`+tx.Lock()+`)
		UPDATE approval SET ends_at = $2
		 WHERE (SELECT COUNT(*) FROM locked) > 0
		   AND organization = $1 AND ended_at = 0 AND (ends_at = 0 OR ends_at > $2)`, organization, at)
	if n > 0 {
		tx.PutEndsBy(organization, at)
	}
	return int(n), err
}

// TellEnds writes into the journal which approvals end soon, each once, so that people can
// be told. One that was given for no longer than that is left out.
func TellEnds(tx *engine.Tx, now time.Time) (int, error) {
	rows, err := tx.Query(`
		SELECT id, client, person, organization, ends_at FROM approval
		 WHERE ends_at > $1 AND ends_at <= $2 AND ended_at = 0 AND phase = `+engine.SQLLive+` AND ends_told = 0 AND created_at < ends_at - $3
		 ORDER BY ends_at, id LIMIT 500`+tx.Lock(), now.Unix(), now.Add(EndsSoon).Unix(), int64(EndsSoon/time.Second))
	var ids []any
	var entries []engine.Event
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var id []byte
		var at int64
		e := engine.Event{Kind: journal.EndsSoon}
		err := r.Scan(&id, &e.Client, &e.Person, &e.Organization, &at)
		e.Approval, e.Detail = hex.EncodeToString(id), time.Unix(at, 0).UTC().Format(time.RFC3339)
		ids, entries = append(ids, id), append(entries, e)
		return err
	})
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := query.ExecIn(tx, query.Builder{Text: `UPDATE approval SET ends_told = 1`}, "id", ids); err != nil {
		return 0, err
	}
	return len(ids), tx.Journal(entries...)
}

// IsOffered asks whether an organization lets a person choose a grant set: no more
// than its ceiling leaves of it.
func IsOffered(c *grantset.Ceiling, s grantset.Set) error {
	if why := c.Withholds(s); why != "" {
		return fmt.Errorf("%s: %w", why, ErrCeiling)
	}
	return nil
}

// Allowed asks whether rules let a person connect an app.
func Allowed(tx *engine.Tx, clientID, redirectURI, person string, p *policy.Policy) error {
	if p == nil {
		return nil
	}
	app, err := appOf(tx, clientID, redirectURI)
	if err != nil {
		return err
	}
	if rule, _ := p.Decide(app.hosts, app.name, person, app.preregistered); rule != policy.Allow {
		return fmt.Errorf("%s: %w", rule, ErrAppRule)
	}
	return nil
}
