package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/postgres"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
	"github.com/grantkeeper/grantkeeper/token"
)

// LostOptions say for which database keys are replaced that are lost.
type LostOptions struct {
	At   Place
	Keys []*token.Key // that there are
	// Make gives a new key of that number; nil makes none, and leaves the count. It is
	// asked where there are no Keys, once nothing else is in the way.
	Make   func(number int) (*token.Key, error)
	DryRun bool // counts, and changes nothing
	Now    time.Time
	Act    Act
}

// Replaced says what becomes of a database whose keys are lost.
type Replaced struct {
	Lost []int // numbers of the keys
	New  []int // that seal and open from now on

	Approvals        Fate // that have not ended
	Sessions         Fate
	OperatorSessions Fate
	Resets           Fate // links for a new password
	OneTime          int  // authenticator apps whose codes count no more, and stay all the same: a password alone lets nobody in
}

// Fate is how many of something there are before, and after.
type Fate struct {
	Before int `json:"before"`
	After  int `json:"after"`
}

// Errors of ReplaceLost.
var (
	ErrNothingLost = errors.New("the key file has every key of the database: nothing is lost")
	ErrOtherKey    = errors.New("the key file has another key of a number that the database knows")
	ErrRetired     = errors.New("the key file has retired keys alone, which seal and open nothing any more")
)

// ReplaceLost lets a database go on without keys that are nowhere any more: what they have
// sealed ends, and whoever is signed in; all else stays. It is one transaction, which
// nobody works beside: ErrInUse. ErrNothingLost, ErrOtherKey and ErrRetired change nothing either.
func ReplaceLost(ctx context.Context, o LostOptions) (Replaced, error) {
	side, err := alone(ctx, o.At)
	if err != nil {
		return Replaced{}, err
	}
	defer side.Close()
	r, err := o.replace(ctx, side)
	if own := new(ours); errors.As(err, &own) {
		return Replaced{}, own.error
	} else if err != nil {
		return Replaced{}, side.Explain(err)
	}
	if o.DryRun {
		return r, nil
	}
	if err := side.Finish(ctx); err != nil {
		return Replaced{}, side.Explain(err)
	}
	return r, nil
}

// ours is an error that the database has no part in.
type ours struct{ error }

func alone(ctx context.Context, at Place) (engine.CopySide, error) {
	if at.URL != "" {
		return postgres.OpenAlone(ctx, at.URL)
	}
	return sqlite.OpenAlone(ctx, at.Path)
}

// compare finds which of the database's keys are lost, and the highest number that any has had.
func (o LostOptions) compare(ctx context.Context, conn *sql.Conn) (lost []int, newest int, err error) {
	known, retired := map[int]string{}, map[int]string{}
	rows, err := conn.QueryContext(ctx, `SELECT name, value FROM meta WHERE name LIKE 'key.%' OR name LIKE 'retired.%'`)
	if err := engine.EachRow(rows, err, func(r engine.Scanner) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		kind, text, _ := strings.Cut(name, ".")
		number, err := strconv.Atoi(text)
		newest = max(newest, number)
		if kind+"." == engine.MetaRetired {
			retired[number] = value
		} else {
			known[number] = value
		}
		return err
	}); err != nil {
		return nil, 0, fmt.Errorf("keys: %w", err)
	}
	for _, k := range o.Keys {
		newest = max(newest, k.Number)
		has, was := known[k.Number], retired[k.Number]
		if has != "" && has != k.Fingerprint() || was != "" && was != k.Fingerprint() {
			return nil, 0, &ours{fmt.Errorf("key %d: %w", k.Number, ErrOtherKey)}
		}
		delete(known, k.Number)
	}
	for number := range known {
		lost = append(lost, number)
	}
	slices.Sort(lost)
	if len(lost) == 0 {
		return nil, 0, &ours{ErrNothingLost}
	}
	return lost, newest, nil
}

func (o LostOptions) replace(ctx context.Context, side engine.CopySide) (r Replaced, err error) {
	conn := side.Conn()
	exec := func(text string, args ...any) error {
		_, err := conn.ExecContext(ctx, text, args...)
		return err
	}
	newest := 0
	if r.Lost, newest, err = o.compare(ctx, conn); err != nil {
		return r, err
	}
	if err := r.count(ctx, conn, func(f *Fate) *int { return &f.Before }); err != nil {
		return r, err
	}
	now, err := o.now(ctx, side)
	if err != nil {
		return r, err
	}
	for _, number := range r.Lost {
		if err := r.end(ctx, conn, number, now); err != nil {
			return r, err
		}
	}
	for _, text := range []string{`DELETE FROM session`, `DELETE FROM operator_session`, `DELETE FROM reset`} {
		if err := exec(text); err != nil {
			return r, err
		}
	}
	if err := r.count(ctx, conn, func(f *Fate) *int { return &f.After }); err != nil {
		return r, err
	}
	keys, err := o.usable(ctx, conn, newest)
	if err != nil {
		return r, err
	}
	for _, k := range keys {
		r.New = append(r.New, k.Number)
		if err := exec(engine.PutMeta, engine.MetaKey+strconv.Itoa(k.Number), k.Fingerprint()); err != nil {
			return r, err
		}
	}
	e := Event{Kind: journal.KeyChanged, Detail: fmt.Sprintf("lost: key %s; in use: key %s; approvals ended: %d, sessions: %d", numbers(r.Lost), numbers(r.New),
		r.Approvals.Before-r.Approvals.After, r.Sessions.Before-r.Sessions.After)}.By(o.Act)
	var ids engine.EventIDs
	e.ID, e.At = ids.Next(now), now.Unix()
	return r, exec(engine.InsertEvent, e.Values()...)
}

func numbers(all []int) string {
	var out []string
	for _, n := range all {
		out = append(out, strconv.Itoa(n))
	}
	return strings.Join(out, ", ")
}

// usable are the keys that the database has from now on: those of the file that have not
// retired, or one that is made.
func (o LostOptions) usable(ctx context.Context, conn *sql.Conn, newest int) (keys []*token.Key, err error) {
	for _, k := range o.Keys {
		var retired int
		if err := conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM meta WHERE name = $1`, engine.MetaRetired+strconv.Itoa(k.Number)).Scan(&retired); err != nil {
			return nil, err
		}
		if retired == 0 {
			keys = append(keys, k)
		}
	}
	switch {
	case len(keys) == 0 && len(o.Keys) > 0:
		return nil, &ours{ErrRetired}
	case len(keys) > 0 || o.Make == nil:
		return keys, nil
	}
	k, err := o.Make(newest + 1)
	if err != nil {
		return nil, &ours{err}
	}
	return []*token.Key{k}, nil
}

// now is never before a time that the database has seen (decision T12).
func (o LostOptions) now(ctx context.Context, side engine.CopySide) (time.Time, error) {
	seen, err := side.Seen(ctx)
	if err == nil && seen == 0 {
		seen, err = seenBy(ctx, side)
		seen = max(seen, o.Now.Unix())
	}
	return time.Unix(seen, 0), err
}

// end ends what one key has sealed, and any code that waits: its row does not say with which.
// The number is never given again.
func (r *Replaced) end(ctx context.Context, conn *sql.Conn, number int, now time.Time) error {
	if _, err := conn.ExecContext(ctx, `
		UPDATE approval SET phase = $1, reason = $2, ended_at = $3 WHERE phase = $4 OR phase = $5 AND key_number = $6`,
		int(approval.Ended), string(approval.KeyRetired), now.Unix(), int(approval.CodeIssued), int(approval.Live), number); err != nil {
		return err
	}
	n := strconv.Itoa(number)
	var codes int
	if err := conn.QueryRowContext(ctx, `SELECT COUNT(*) FROM factor WHERE kind = $1 AND secret LIKE $2`, FactorOneTime, n+".%").Scan(&codes); err != nil {
		return err
	}
	r.OneTime += codes
	if _, err := conn.ExecContext(ctx, `UPDATE meta SET name = $1 WHERE name = $2`, engine.MetaRetired+n, engine.MetaKey+n); err != nil {
		return err
	}
	_, err := conn.ExecContext(ctx, `DELETE FROM meta WHERE name = $1 AND value = $2`, engine.MetaSealing, n)
	return err
}

func (r *Replaced) count(ctx context.Context, conn *sql.Conn, into func(*Fate) *int) error {
	return conn.QueryRowContext(ctx, `
		SELECT (SELECT COUNT(*) FROM approval WHERE phase <> $1), (SELECT COUNT(*) FROM session),
		       (SELECT COUNT(*) FROM operator_session), (SELECT COUNT(*) FROM reset)`, int(approval.Ended)).
		Scan(into(&r.Approvals), into(&r.Sessions), into(&r.OperatorSessions), into(&r.Resets))
}
