package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
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
func (s *Store) Events(ctx context.Context, f EventFilter) ([]Event, string, error) {
	defer s.timed("events", time.Now())
	way, err := f.way()
	if err != nil {
		return nil, "", err
	}
	edge := ""
	if f.narrow(new(query)) {
		if edge, err = s.edge(ctx, f, way); err != nil {
			return nil, "", err
		}
	}
	return s.eventsTo(ctx, f, way, edge)
}

// eventsTo gives the page that looks as far as an edge: how many entries these
// are may have changed since it was found. "" is to the end.
func (s *Store) eventsTo(ctx context.Context, f EventFilter, way query, edge string) ([]Event, string, error) {
	limit, order := pageSize(f.Limit), "id DESC"
	if f.OldestFirst {
		order = "id"
	}
	switch {
	case edge == "":
	case f.OldestFirst:
		way.where("id <= ", edge)
	default:
		way.where("id >= ", edge)
	}
	q := way.as(selectEvent)
	if f.Since > 0 {
		q.where("at >= ", f.Since)
	}
	if f.Until > 0 {
		q.where("at < ", f.Until)
	}
	if f.narrow(&q) {
		q.among(`SELECT id FROM journal`, way, order)
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.page(order, limit), q.args...)
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
func (f EventFilter) way() (q query, err error) {
	switch {
	case f.Approval != "":
		q.equal("approval", f.Approval)
		q.conditions = append(q.conditions, "approval <> ''") // as the index says
	case f.Person != "":
		q.equal("person", f.Person)
		q.conditions = append(q.conditions, "person <> ''")
	}
	if f.Since > 0 { // the ID begins with the time
		q.where("id >= ", idAt(f.Since-1))
	}
	if f.Until > 0 {
		q.where("id < ", idAt(f.Until+1))
	}
	if f.After == "" {
		return q, nil
	}
	if id, err := hex.DecodeString(f.After); err != nil || len(id) != engine.EventIDLen || hex.EncodeToString(id) != f.After {
		return q, errCursor
	}
	if f.OldestFirst {
		q.where("id > ", f.After)
	} else {
		q.where("id < ", f.After)
	}
	return q, nil
}

// narrow adds the conditions that no index leads along, and reports whether
// there are any.
func (f EventFilter) narrow(q *query) bool {
	before := len(q.conditions)
	q.equal("kind", string(f.Kind))
	if len(f.Kinds) > 0 {
		q.in("kind", idsOf(f.Kinds, kindArg))
	}
	q.equal("client", f.Client)
	if f.Approval != "" { // else it is the way
		q.equal("person", f.Person)
	}
	q.equal("organization", f.Organization)
	q.equal("reference", f.Reference)
	if f.NoDrills {
		q.noDrills()
	}
	return len(q.conditions) > before
}

// noDrills leaves out what is of a client.Drill.
func (q *query) noDrills() {
	q.where(fmt.Sprintf("SUBSTR(client, 1, %d) <> ", len(client.DrillID)), client.DrillID)
}

// walk is how many entries a page looks at.
func (f EventFilter) walk() int {
	if f.Approval != "" || f.Person != "" {
		return maxEventWalk / 4
	}
	return maxEventWalk
}

// edge is the last entry of the way that a page looks at; "" is the end.
func (s *Store) edge(ctx context.Context, f EventFilter, way query) (id string, err error) {
	order := "id DESC"
	if f.OldestFirst {
		order = "id"
	}
	q := way.as(`SELECT id FROM journal`)
	err = s.db.Reader.QueryRowContext(ctx, q.nth(order, f.walk()), q.args...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	} else if err != nil {
		return "", engine.Unavailable("events", err)
	}
	return id, nil
}

// Event gives one entry, or ErrNotFound.
func (s *Store) Event(ctx context.Context, id string) (e Event, err error) {
	defer s.timed("events", time.Now())
	err = scanEvent(s.db.Reader.QueryRowContext(ctx, selectEvent+` WHERE id = $1`, id), &e)
	return e, engine.Lookup("event", err)
}

const selectEvent = `SELECT ` + engine.JournalColumns + ` FROM journal`

func scanEvent(row engine.Scanner, e *Event) error {
	return row.Scan(&e.ID, &e.At, &e.Kind, &e.Client, &e.Person, &e.Organization, &e.Approval,
		&e.Actor, &e.Address, &e.Reason, &e.Detail, &e.Reference)
}

func kindArg(k journal.Kind) any { return string(k) }
