package records

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// EventFilter narrows Events; empty fields match all. Since and Until are Unix
// seconds, Until not included; Limit is at most 1000, 0 is 50.
type EventFilter struct {
	Kind                                   journal.Kind
	Client, Person, Organization, Approval string
	Reference                              string
	Kinds                                  []journal.Kind // any of them
	Since, Until                           int64
	OldestFirst                            bool
	NoDrills                               bool // leaves out what is of a client.Drill
	After                                  string
	Limit                                  int
}

// maxEventWalk bounds how many entries a page looks at, a quarter where they
// lie apart. A test has a lower one.
var maxEventWalk = 8192

// Events lists the journal, newest first unless the filter says otherwise, and
// gives the cursor of the next page or "". Where entries that match are rare, a
// page can have fewer than its limit, or none, and a next one all the same.
func (s *Records) Events(ctx context.Context, f EventFilter) ([]engine.Event, string, error) {
	defer s.db.Timed("events", time.Now())
	way, err := f.way()
	if err != nil {
		return nil, "", err
	}
	edge := ""
	if f.narrow(new(query.Builder)) {
		if edge, err = s.edge(ctx, f, way); err != nil {
			return nil, "", err
		}
	}
	return s.eventsTo(ctx, f, way, edge)
}

// eventsTo gives the page that looks as far as an edge: how many entries these
// are may have changed since it was found. "" is to the end.
func (s *Records) eventsTo(ctx context.Context, f EventFilter, way query.Builder, edge string) ([]engine.Event, string, error) {
	limit, order := query.PageSize(f.Limit), "id DESC"
	if f.OldestFirst {
		order = "id"
	}
	switch {
	case edge == "":
	case f.OldestFirst:
		way.Where("id <= ", edge)
	default:
		way.Where("id >= ", edge)
	}
	q := way.WithText(selectEvent)
	if f.Since > 0 {
		q.Where("at >= ", f.Since)
	}
	if f.Until > 0 {
		q.Where("at < ", f.Until)
	}
	if f.narrow(&q) {
		q.Among(`SELECT id FROM journal`, way, order)
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.Page(order, limit), q.Args...)
	out, err := engine.ListOf(rows, err, scanEvent)
	if err != nil {
		return nil, "", engine.Unavailable("events", err)
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, edge, nil
}

// way has those conditions of the filter that an index leads along: the time,
// the cursor, and either the approval or the person.
func (f EventFilter) way() (q query.Builder, err error) {
	switch {
	case f.Approval != "":
		q.EqualsIndexed("approval", f.Approval)
	case f.Person != "":
		q.EqualsIndexed("person", f.Person)
	}
	if f.Since > 0 { // the ID begins with the time
		q.Where("id >= ", query.IDAt(f.Since-1))
	}
	if f.Until > 0 {
		q.Where("id < ", query.IDAt(f.Until+1))
	}
	if f.After == "" {
		return q, nil
	}
	if id, err := hex.DecodeString(f.After); err != nil || len(id) != engine.EventIDLen || hex.EncodeToString(id) != f.After {
		return q, query.ErrCursor
	}
	if f.OldestFirst {
		q.Where("id > ", f.After)
	} else {
		q.Where("id < ", f.After)
	}
	return q, nil
}

// narrow adds the conditions that no index leads along, and reports whether
// there are any.
func (f EventFilter) narrow(q *query.Builder) bool {
	before := len(q.Conditions)
	q.Equals("kind", string(f.Kind))
	if len(f.Kinds) > 0 {
		q.OneOf("kind", query.IDs(f.Kinds, kindArg))
	}
	q.Equals("client", f.Client)
	if f.Approval != "" { // else it is the way
		q.Equals("person", f.Person)
	}
	q.Equals("organization", f.Organization)
	q.Equals("reference", f.Reference)
	if f.NoDrills {
		q.NoDrills()
	}
	return len(q.Conditions) > before
}

// walk is how many entries a page looks at.
func (f EventFilter) walk() int {
	if f.Approval != "" || f.Person != "" {
		return maxEventWalk / 4
	}
	return maxEventWalk
}

// edge is the last entry of the way that a page looks at; "" is the end.
func (s *Records) edge(ctx context.Context, f EventFilter, way query.Builder) (id string, err error) {
	order := "id DESC"
	if f.OldestFirst {
		order = "id"
	}
	q := way.WithText(`SELECT id FROM journal`)
	err = s.db.Reader.QueryRowContext(ctx, q.Nth(order, f.walk()), q.Args...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	} else if err != nil {
		return "", engine.Unavailable("events", err)
	}
	return id, nil
}

// Event gives one entry, or ErrNotFound.
func (s *Records) Event(ctx context.Context, id string) (e engine.Event, err error) {
	defer s.db.Timed("events", time.Now())
	err = scanEvent(s.db.Reader.QueryRowContext(ctx, selectEvent+` WHERE id = $1`, id), &e)
	return e, engine.Lookup("event", err)
}

const selectEvent = `SELECT ` + engine.JournalColumns + ` FROM journal`

func scanEvent(row engine.Scanner, e *engine.Event) error {
	return row.Scan(&e.ID, &e.At, &e.Kind, &e.Client, &e.Person, &e.Organization, &e.Approval,
		&e.Actor, &e.Address, &e.Reason, &e.Detail, &e.Reference)
}

func kindArg(k journal.Kind) any { return string(k) }

// CountEvents counts the entries of some kinds in each of n spans from since
// on, oldest first, those of drills left out; since and span are seconds.
func (s *Records) CountEvents(ctx context.Context, kinds []journal.Kind, since, span int64, n int) (map[journal.Kind][]uint64, error) {
	defer s.db.Timed("event_counts", time.Now())
	q := query.Builder{Text: `SELECT kind, (at - $1) / $2, COUNT(*) FROM journal`, Args: []any{since, span}, End: ` GROUP BY 1, 2`}
	q.Where("id >= ", query.IDAt(since))
	q.OneOf("kind", query.IDs(kinds, kindArg))
	q.NoDrills()
	rows, err := s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
	out := map[journal.Kind][]uint64{}
	for _, k := range kinds {
		out[k] = make([]uint64, n)
	}
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var kind journal.Kind
		var at int64
		var count uint64
		if err := r.Scan(&kind, &at, &count); err != nil {
			return err
		}
		if at >= 0 && at < int64(n) {
			out[kind][at] += count
		}
		return nil
	})
	return out, engine.Unavailable("events", err)
}

// LimitedAddresses counts the addresses that went over a rate limit since a
// time, in Unix seconds, and names one of them.
func (s *Records) LimitedAddresses(ctx context.Context, since int64) (n int, one string, err error) {
	err = s.db.Reader.QueryRowContext(ctx, `
		SELECT COUNT(DISTINCT address), COALESCE(MIN(address), '') FROM journal
		 WHERE id >= $1 AND kind = `+engine.SQLRateLimited, query.IDAt(since)).Scan(&n, &one)
	if err != nil {
		return 0, "", engine.Unavailable("events", err)
	}
	return n, one, nil
}
