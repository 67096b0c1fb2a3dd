package records

import (
	"fmt"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

const (
	activityColumns = `id, day, at, way, outcome, status, method, path, tool, reason, item, title, kind, did, role, private, personal, detail`
	ofActivity      = `c.id, c.day, c.at, c.way, c.outcome, c.status, c.method, c.path, c.tool, c.reason, c.item, c.title, c.kind, c.did, c.role, c.private, c.personal, c.detail`
	tallyColumns    = `approval, hour, what, kind, session, calls, items, private, personal`
)

// recordsEach is how many records one statement writes: the last is repeated where there
// are fewer.
var recordsEach = []int{1, 16, 64}

// insertActivity and putTallies are statements by the number of rows. A row that is there
// was written by a commit whose outcome nobody knew.
var (
	insertActivity = rowsOf(`INSERT INTO activity (approval, `+activityColumns+`) VALUES `, 19, ` ON CONFLICT (approval, id) DO NOTHING`)
	putTally       = rowsOf(`INSERT INTO activity_tally (`+tallyColumns+`) VALUES `, 9, `
		ON CONFLICT (approval, hour, what, kind, session) DO UPDATE
		SET calls = excluded.calls, items = excluded.items, private = excluded.private, personal = excluded.personal`)
)

// rowsOf gives the texts of a statement that puts rows.
func rowsOf(begin string, columns int, end string) map[int]string {
	out := map[int]string{}
	for _, n := range recordsEach {
		var rows []string
		for r := range n {
			var places []string
			for c := range columns {
				places = append(places, fmt.Sprintf("$%d", r*columns+c+1))
			}
			rows = append(rows, "("+strings.Join(places, ", ")+")")
		}
		out[n] = begin + strings.Join(rows, ", ") + end
	}
	return out
}

// recordValues are in the order of the columns.
func recordValues(r activity.Record) []any {
	i := r.Item
	return []any{r.Approval[:], r.ID, activity.Day(r.At), r.At, string(r.Way), string(r.Outcome), int64(r.Status), r.Method, r.Path, r.Tool, r.Reason,
		i.ID, i.Title, i.Kind, string(i.Did), i.Role, engine.Flag(i.Private), engine.Flag(i.Personal), i.Detail}
}

func scanRecord(row engine.Scanner, r *activity.Record) error {
	var day, private, personal int64
	i := &r.Item
	err := row.Scan(&r.ID, &day, &r.At, &r.Way, &r.Outcome, &r.Status, &r.Method, &r.Path, &r.Tool, &r.Reason,
		&i.ID, &i.Title, &i.Kind, &i.Did, &i.Role, &private, &personal, &i.Detail)
	i.Private, i.Personal = private != 0, personal != 0
	return err
}

// writeActivity writes a batch of a session. Done again it is nothing.
func writeActivity(tx *engine.Tx, b recordBatch, session string) error {
	for left := b.records; len(left) > 0; {
		n := recordsEach[0]
		for _, more := range recordsEach {
			if len(left) > n {
				n = more
			}
		}
		var args []any
		for i := range n {
			args = append(args, recordValues(left[min(i, len(left)-1)])...)
		}
		if _, err := tx.Exec(insertActivity[n], args...); err != nil {
			return err
		}
		left = left[min(n, len(left)):]
	}
	for left := b.tallies; len(left) > 0; {
		n := recordsEach[0] // no row twice, which an update may not have
		for _, more := range recordsEach {
			if len(left) >= more {
				n = more
			}
		}
		var args []any
		for _, t := range left[:n] {
			args = append(args, t.Approval[:], t.Hour, string(t.What), t.Kind, session, t.Calls, t.Items, t.Private, t.Personal)
		}
		if _, err := tx.Exec(putTally[n], args...); err != nil {
			return err
		}
		left = left[n:]
	}
	if b.lost.Why != "" {
		return putGap(tx, b.lost)
	}
	return nil
}

func putGap(tx *engine.Tx, g activity.Gap) error {
	_, err := tx.Exec(`
		INSERT INTO activity_gap (id, from_at, to_at, why) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET from_at = excluded.from_at, to_at = excluded.to_at`, g.ID, g.From, g.To, string(g.Why))
	return err
}

func openRecording(tx *engine.Tx, s activity.Session) error {
	_, err := tx.Exec(`
		INSERT INTO activity_session (id, opened_at, written_to, seen_at) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET written_to = excluded.written_to, seen_at = excluded.seen_at`, s.ID, s.Opened, s.Written, s.Seen)
	return err
}

// keepRecording says how far a session has written. One whose row is not there was taken for
// dead, and has lost nothing; or else the database was set back, and some of it is lost.
func keepRecording(tx *engine.Tx, s activity.Session) error {
	n, err := tx.Exec(`UPDATE activity_session SET written_to = $1, seen_at = $2 WHERE id = $3`, s.Written, s.Seen, s.ID)
	if err != nil || n > 0 {
		return err
	}
	if n, err = tx.Exec(`DELETE FROM activity_gap WHERE id = $1`, s.ID); err != nil {
		return err
	}
	if n == 0 {
		if err := putGap(tx, activity.Gap{ID: tx.Env.Ids.Next(tx.Env.Now()), From: s.Opened, To: s.Seen, Why: activity.SetBack}); err != nil {
			return err
		}
	}
	return openRecording(tx, s)
}

// closeRecording ends one; under says that calls are under way of which nobody will hear.
func closeRecording(tx *engine.Tx, s activity.Session, under bool) error {
	if err := keepRecording(tx, s); err != nil {
		return err
	}
	if under {
		if err := putGap(tx, s.Ended(s.Seen)); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`DELETE FROM activity_session WHERE id = $1`, s.ID)
	return err
}

// endRecordings makes gaps of the sessions of nodes that are gone: where others may be at
// work, those that have not been seen for a while, and else all.
func endRecordings(tx *engine.Tx, now int64, others bool) error {
	before := now + 1
	if others {
		before = now - int64(engine.NodeLife/time.Second)
	}
	rows, err := tx.Query(`SELECT id, opened_at, written_to, seen_at FROM activity_session WHERE seen_at < $1 ORDER BY id`, before)
	all, err := engine.ListOf(rows, err, scanRecording)
	if err != nil {
		return err
	}
	for _, s := range all {
		n, err := tx.Exec(`DELETE FROM activity_session WHERE id = $1 AND seen_at = $2`, s.ID, s.Seen)
		if err != nil {
			return err
		}
		if n == 0 { // it lives after all
			continue
		}
		if err := putGap(tx, s.Ended(now)); err != nil {
			return err
		}
	}
	return nil
}

func scanRecording(row engine.Scanner, s *activity.Session) error {
	return row.Scan(&s.ID, &s.Opened, &s.Written, &s.Seen)
}

// The IDs of gaps that there is one of.
const (
	gapBefore = "before" // of the time before anything was recorded
	gapOff    = "off"    // while nothing is kept
)

// beginRecording notes since when there are records, and ends a time without any.
func beginRecording(tx *engine.Tx, now int64) error {
	if _, err := tx.Exec(`
		INSERT INTO activity_gap (id, from_at, to_at, why) VALUES ($1, 0, $2, $3) ON CONFLICT (id) DO NOTHING`,
		gapBefore, now, string(activity.Before)); err != nil {
		return err
	}
	_, err := tx.Exec(`UPDATE activity_gap SET id = $1, to_at = $2 WHERE id = $3`, tx.Env.Ids.Next(tx.Env.Now()), now, gapOff)
	return err
}

// stopRecording notes that none are made from now on, where there were some.
func stopRecording(tx *engine.Tx, now int64) error {
	_, err := tx.Exec(`
		INSERT INTO activity_gap (id, from_at, to_at, why)
		SELECT $1, CAST($2 AS BIGINT), 0, $3 FROM activity_gap WHERE id = $4 ON CONFLICT (id) DO NOTHING`,
		gapOff, now, string(activity.Off), gapBefore)
	return err
}

// SweepActivity deletes what is kept no longer, and what is of people who were removed, a
// few rows in each commit. What it leaves is left for the next time: nobody reads it.
func (s *Records) SweepActivity(more func() bool) (deleted int, err error) {
	now := s.db.Now()
	first := activity.FirstDay(now, s.db.Options.ActivityKeep)
	steps := []func(*engine.Tx) (int64, error){
		func(tx *engine.Tx) (int64, error) { return 0, endRecordings(tx, now.Unix(), s.db.Options.URL != "") },
		func(tx *engine.Tx) (int64, error) {
			return tx.Exec(`DELETE FROM activity WHERE (approval, id) IN (SELECT approval, id FROM activity WHERE day < $1 LIMIT 500)`, first)
		},
		func(tx *engine.Tx) (int64, error) {
			return tx.Exec(`DELETE FROM activity_tally WHERE (approval, hour) IN (SELECT approval, hour FROM activity_tally WHERE hour < $1 LIMIT 200)`, first*24*3600)
		},
		func(tx *engine.Tx) (int64, error) {
			return tx.Exec(`DELETE FROM activity_gap WHERE to_at > 0 AND to_at < $1 AND id <> $2`, first*24*3600, gapBefore)
		},
		forgetActivity,
	}
	if s.db.Options.URL == "" { // who else records is in this process
		steps = steps[1:]
	}
	for _, step := range steps {
		for range sweptAtOnce {
			var n int64
			if err := s.db.Apart(func(tx *engine.Tx) (err error) { n, err = step(tx); return err }); err != nil {
				return deleted, fmt.Errorf("activity: %w", err)
			}
			if deleted += int(n); n == 0 || !more() {
				break
			}
		}
	}
	return deleted, nil
}

// sweptAtOnce bounds the commits of one sweep for each table.
const sweptAtOnce = 200

// forgetActivity deletes records of one person who was removed. They are of approvals that
// ended with that.
func forgetActivity(tx *engine.Tx) (int64, error) {
	rows, err := tx.Query(`SELECT person, at FROM activity_forget ORDER BY person LIMIT 1`)
	gone, err := engine.ListOf(rows, err, func(r engine.Scanner, g *struct {
		person string
		at     int64
	}) error {
		return r.Scan(&g.person, &g.at)
	})
	if err != nil || len(gone) == 0 {
		return 0, err
	}
	n, err := tx.Exec(`
		DELETE FROM activity WHERE (approval, id) IN (
			SELECT c.approval, c.id FROM activity c JOIN approval a ON a.id = c.approval
			 WHERE a.person = $1 AND a.created_at <= $2 LIMIT 500)`, gone[0].person, gone[0].at)
	if err != nil || n > 0 {
		return n, err
	}
	if _, err = tx.Exec(`
		DELETE FROM activity_tally WHERE approval IN (SELECT id FROM approval WHERE person = $1 AND created_at <= $2)`, gone[0].person, gone[0].at); err != nil {
		return 0, err
	}
	return tx.Exec(`DELETE FROM activity_forget WHERE person = $1`, gone[0].person)
}

// Removed has the records of people deleted soon.
func Removed(tx *engine.Tx, people []any) error {
	for _, p := range people {
		if _, err := tx.Exec(`
			INSERT INTO activity_forget (person, at) VALUES ($1, $2) ON CONFLICT (person) DO UPDATE SET at = excluded.at`, p, tx.Env.Now().Unix()); err != nil {
			return err
		}
	}
	return nil
}
