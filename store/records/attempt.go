package records

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// Bounds of attempts.
const (
	attemptBatch = 32 // that a commit takes
	attemptNear  = 8  // that one is compared with, of each key
	attemptsFrom = 64 // of one address, where nothing else says whose it is: see attempt.Join

	strangersShare = 5 // of which they have one: attempts of which no person is known
	// MaxFoundLen bounds what attempts are looked for by, in bytes.
	MaxFoundLen = 200
)

const attemptColumns = `id, client, name, host, approval, walk, person, organization, address, observations`

const selectAttempt = `SELECT ` + attemptColumns + ` FROM attempt`

func scanAttempt(row engine.Scanner, r *attempt.Record) error {
	var text string
	if err := row.Scan(&r.ID, &r.Client, &r.Name, &r.Host, &r.Approval, &r.Walk, &r.Person, &r.Organization, &r.Address, &text); err != nil {
		return err
	}
	r.Seen, _ = attempt.ParseText(text) // what a later release wrote shows nothing
	return nil
}

// KeepsAttempts reports whether any are kept.
func (s *Records) KeepsAttempts() bool { return s.db.Options.AttemptsMax > 0 }

// SweepAttempts deletes what was kept for long enough, or is beyond the bound.
func SweepAttempts(tx *engine.Tx, now time.Time) (int, error) {
	before := now.Add(-tx.Env.Options.AttemptsKeep).UnixMilli()
	n, err := tx.Exec(`
		DELETE FROM attempt WHERE id IN (
			SELECT id FROM attempt WHERE id < $1 ORDER BY id LIMIT 500)`,
		query.IDAt(before/1000))
	if err != nil {
		return int(n), err
	}
	if _, err := tx.Exec(`DELETE FROM attempt_count WHERE day < $1`, before/(24*3600*1000)); err != nil {
		return int(n), err
	}
	held, err := attemptsHeldNow(tx)
	if err != nil {
		return int(n), err
	}
	were := held.all
	err = held.cap(tx)
	return int(n) + were - held.all, err
}

// AttemptFilter narrows Attempts; empty fields match all. Times are Unix seconds.
type AttemptFilter struct {
	Find                           string // a part of a name, a host, or a whole client ID, approval's ID or address
	App                            string // a part of a name, or a host, and nothing else: for those who are not to know the rest
	Client, Host, Person, Approval string
	Organization                   string // that the person chose, or the client is blocked in
	Result                         attempt.Result
	Reason                         attempt.Reason
	Since                          int64
	After                          string
	Limit                          int
}

// Attempts lists attempts, newest first, and gives the cursor of the next page or "".
func (s *Records) Attempts(ctx context.Context, f AttemptFilter) ([]attempt.Record, string, error) {
	defer s.db.Timed("attempts", time.Now())
	q := query.Builder{Text: selectAttempt}
	if f.After != "" {
		if id, err := hex.DecodeString(f.After); err != nil || len(id) != engine.EventIDLen || hex.EncodeToString(id) != f.After {
			return nil, "", query.ErrCursor
		}
		q.Where("id < ", f.After)
	}
	f.narrow(&q, s.db.Now().UnixMilli())
	limit := query.PageSize(f.Limit)
	rows, err := s.db.Reader.QueryContext(ctx, q.Page("id DESC", limit), q.Args...)
	out, err := engine.ListOf(rows, err, scanAttempt)
	if err != nil {
		return nil, "", engine.Unavailable("attempts", err)
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, "", nil
}

// narrow adds the conditions of a filter. now, Unix milliseconds, is a parameter in
// any case.
func (f AttemptFilter) narrow(q *query.Builder, now int64) {
	if f.Since > 0 {
		q.Where("id >= ", query.IDAt(f.Since-1))
	}
	q.Equals("client", f.Client)
	q.EqualsIndexed("host", f.Host)
	q.EqualsIndexed("person", f.Person)
	q.EqualsIndexed("approval", f.Approval)
	q.EqualsIndexed("organization", f.Organization)
	if f.Result != "" {
		q.Args = append(q.Args, now, string(f.Result))
		q.Conditions = append(q.Conditions, fmt.Sprintf(`CASE WHEN due > 0 AND due <= $%d THEN later_result ELSE result END = $%d`, len(q.Args)-1, len(q.Args)))
	}
	if f.Reason != "" {
		q.Args = append(q.Args, now, string(f.Reason))
		q.Conditions = append(q.Conditions, fmt.Sprintf(`CASE WHEN due > 0 AND due <= $%d THEN later_reason ELSE reason END = $%d`, len(q.Args)-1, len(q.Args)))
	}
	q.Named(f.Find, `(CAST($%d AS TEXT) IN (id, client, approval, address, host, name) OR name_key LIKE $%d)`)
	q.Named(f.App, `(CAST($%d AS TEXT) IN (host, name) OR name_key LIKE $%d)`)
}

// attemptsNow are those from an ID on ($2) with what has become of them by a time ($1), in
// Unix milliseconds.
const attemptsNow = `
	WITH tried AS (
		SELECT began, name, name_key, host,
		       CASE WHEN due > 0 AND due <= $1 THEN later_result ELSE result END AS result,
		       CASE WHEN due > 0 AND due <= $1 THEN later_reason ELSE reason END AS reason
		  FROM attempt WHERE id >= $2)`

// AppTrouble is an app whose attempts failed: whatever client IDs it has, it has one name,
// folded, and one host.
type AppTrouble struct {
	Name, Host  string
	Failed, All int
	Reason      attempt.Reason // the most of those that failed
	Worked      int64          // when the last that worked began, of all that are kept, Unix seconds; 0 is none
}

// FailingApps gives the apps with the most attempts that failed since a time, Unix
// seconds, no more than most. Attempts that no app is known of are left out.
func (s *Records) FailingApps(ctx context.Context, since int64, most int) ([]AppTrouble, error) {
	defer s.db.Timed("attempts", time.Now())
	now := s.db.Now().UnixMilli()
	type app struct {
		AppTrouble
		key string
	}
	rows, err := s.db.Reader.QueryContext(ctx, attemptsNow+`
		SELECT name_key, host, MAX(name), SUM(CASE WHEN result = $3 THEN 1 ELSE 0 END) AS failed, COUNT(*)
		  FROM tried
		 WHERE host <> '' GROUP BY name_key, host HAVING SUM(CASE WHEN result = $3 THEN 1 ELSE 0 END) > 0
		 ORDER BY failed DESC, host, name_key LIMIT $4`, now, query.IDAt(since-1), string(attempt.Broken), most)
	apps, err := engine.ListOf(rows, err, func(r engine.Scanner, a *app) error {
		return r.Scan(&a.key, &a.Host, &a.Name, &a.Failed, &a.All)
	})
	if err != nil {
		return nil, engine.Unavailable("attempts", err)
	}
	var out []AppTrouble
	for _, a := range apps {
		err := s.db.Reader.QueryRowContext(ctx, attemptsNow+`
			SELECT reason FROM tried WHERE host = $3 AND name_key = $4 AND result = $5
			 GROUP BY reason ORDER BY COUNT(*) DESC, reason LIMIT 1`, now, query.IDAt(since-1), a.Host, a.key, string(attempt.Broken)).Scan(&a.Reason)
		if errors.Is(err, sql.ErrNoRows) {
			continue // swept since
		}
		if err == nil {
			err = s.db.Reader.QueryRowContext(ctx, attemptsNow+`
				SELECT COALESCE(MAX(began), 0) FROM tried WHERE host = $3 AND name_key = $4 AND result = $5`,
				now, "", a.Host, a.key, string(attempt.Worked)).Scan(&a.Worked)
		}
		if err != nil {
			return nil, engine.Unavailable("attempts", err)
		}
		a.Worked /= 1000
		out = append(out, a.AppTrouble)
	}
	return out, nil
}

// A ReasonCount is how many attempts have a reason.
type ReasonCount struct {
	Reason  attempt.Reason
	Result  attempt.Result
	Kept    int // attempts
	Counted int // observations, beside them, that there was no room for
}

// AttemptReasons counts attempts by what has become of them since a time, Unix seconds:
// the most first. Those that nothing was wrong with have no reason.
func (s *Records) AttemptReasons(ctx context.Context, since int64) (out []ReasonCount, err error) {
	defer s.db.Timed("attempts", time.Now())
	now := s.db.Now().UnixMilli()
	rows, err := s.db.Reader.QueryContext(ctx, attemptsNow+` SELECT result, reason, COUNT(*) FROM tried GROUP BY result, reason`, now, query.IDAt(since-1))
	out, err = engine.ListOf(rows, err, func(r engine.Scanner, c *ReasonCount) error {
		return r.Scan(&c.Result, &c.Reason, &c.Kept)
	})
	if err != nil {
		return nil, engine.Unavailable("attempts", err)
	}
	rows, err = s.db.Reader.QueryContext(ctx, `SELECT reason, SUM(counted) FROM attempt_count WHERE day >= $1 GROUP BY reason`, since/(24*3600))
	counts, err := engine.ListOf(rows, err, func(r engine.Scanner, c *ReasonCount) error { return r.Scan(&c.Reason, &c.Counted) })
	if err != nil {
		return nil, engine.Unavailable("attempts", err)
	}
	for _, c := range counts {
		switch at := slices.IndexFunc(out, func(o ReasonCount) bool {
			return o.Reason == c.Reason && o.Result != attempt.Open && o.Result != attempt.Worked
		}); {
		case at >= 0:
			out[at].Counted = c.Counted
		case c.Counted > 0 && c.Reason != "":
			out = append(out, ReasonCount{Reason: c.Reason, Result: attempt.CauseOf(c.Reason).Result, Counted: c.Counted})
		case c.Counted > 0:
			out = append(out, ReasonCount{Result: attempt.Open, Counted: c.Counted})
		}
	}
	slices.SortFunc(out, func(a, b ReasonCount) int {
		return cmp.Or(cmp.Compare(b.Kept, a.Kept), cmp.Compare(b.Counted, a.Counted), cmp.Compare(a.Reason, b.Reason))
	})
	return out, nil
}

// Attempt gives one attempt, or ErrNotFound.
func (s *Records) Attempt(ctx context.Context, id string) (r attempt.Record, err error) {
	defer s.db.Timed("attempts", time.Now())
	err = scanAttempt(s.db.Reader.QueryRowContext(ctx, selectAttempt+` WHERE id = $1`, id), &r)
	return r, engine.Lookup("attempt", err)
}

// AttemptsLike gives the newest attempts of the same app, or of the same machine where
// no app is known, the one itself among them.
func (s *Records) AttemptsLike(ctx context.Context, r attempt.Record) ([]attempt.Record, error) {
	f := AttemptFilter{Host: r.Host, Limit: likeAttempts}
	if r.Host == "" {
		if f.Find = r.Address; f.Find == "" {
			return []attempt.Record{r}, nil
		}
	}
	all, _, err := s.Attempts(ctx, f)
	return all, err
}

// likeAttempts is how many others one is compared with.
const likeAttempts = 200
