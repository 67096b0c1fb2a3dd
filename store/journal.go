package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Act says who makes a change, from where and why. It becomes part of the
// journal's entry.
type Act struct {
	Actor     string // person:<ID>, client:<client ID>, operator or system
	Address   string // of the client, as text
	Reference string // request ID, which error pages show too
	Reason    string // free text, of an operator

	Generation int64 // of the refresh token that was presented; 0 is none
}

// Event is one entry of the journal (decisions J1 to J3). It never holds a
// token, code, verifier, password, cookie or state.
type Event struct {
	ID   string
	At   int64 // Unix seconds
	Kind string

	Client, Person, Organization, Approval string // IDs
	Actor, Address, Reason, Detail         string
	Reference                              string
}

// eventIDLen is the bytes of an entry's ID, which is written in hexadecimal.
const eventIDLen = 12

// eventIDs gives IDs that sort by time, also within a millisecond.
type eventIDs struct {
	mu   sync.Mutex
	last int64 // milliseconds << 16 and a counter
}

func (e *eventIDs) next(now time.Time) string {
	e.mu.Lock()
	e.last = max(e.last+1, now.UnixMilli()<<16)
	v := e.last
	e.mu.Unlock()
	var b [eventIDLen]byte
	for i := range 8 {
		b[i] = byte(v >> (56 - 8*i))
	}
	rand.Read(b[8:])
	return hex.EncodeToString(b[:])
}

// maxTime bounds the times that are asked about, in Unix seconds: the year 5138.
const maxTime = 100_000_000_000

// idAt is what the IDs of entries from a time on, Unix seconds, come behind.
func idAt(at int64) string { return fmt.Sprintf("%016x", min(max(at, 0), maxTime)*1000<<16) }

// Record writes an entry for what changes nothing else, such as a refusal. It
// never waits; when the queue is full the entry is lost, and the log says so.
func (s *Store) Record(e Event) {
	lost := func() { s.log.Warn("an entry of the journal could not be written and is lost", "kind", e.Kind) }
	ok := s.writer.note(func(w *writer) (func(), error) { return nil, w.journal(e) }, lost)
	if !ok {
		s.log.Warn("the journal's queue is full; an entry is lost", "kind", e.Kind)
	}
}

const insertEvent = `
	INSERT INTO journal (id, at, kind, client, person, organization, approval,
	                     actor, address, reason, detail, reference)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// journal writes an entry in the transaction under way.
func (w *writer) journal(e Event) error {
	now := w.store.Now()
	if w.tx != nil { // all of them are written together, before the commit
		e.ID, e.At = w.store.ids.next(now), now.Unix()
		w.tx.events = append(w.tx.events, e)
		w.told = append(w.told, e)
		return nil
	}
	_, err := w.exec(insertEvent,
		w.store.ids.next(now), now.Unix(), e.Kind, e.Client, e.Person, e.Organization, e.Approval,
		e.Actor, e.Address, e.Reason, e.Detail, e.Reference)
	if err == nil && w.store.options.Journaled != nil {
		w.told = append(w.told, e)
	}
	if err == nil && e.provesIt() {
		err = w.noteWentBack()
	}
	return err
}

// by gives the entry the act's who, where and why.
func (e Event) by(a Act) Event {
	e.Actor, e.Address, e.Reference = a.Actor, a.Address, a.Reference
	if e.Reason == "" {
		e.Reason = a.Reason
	} else if e.Detail == "" {
		e.Detail = a.Reason
	}
	return e
}

// EventFilter narrows Events; empty fields match all. Since and Until are Unix
// seconds, Until not included; Limit is at most 1000, 0 is 50.
type EventFilter struct {
	Kind, Client, Person, Organization, Approval string
	Reference                                    string
	Kinds                                        []string // any of them
	Since, Until                                 int64
	OldestFirst                                  bool
	After                                        string
	Limit                                        int
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
	rows, err := s.reader.QueryContext(ctx, q.page(order, limit), q.args...)
	if err != nil {
		return nil, "", unavailable("events", err)
	}
	defer rows.Close()
	var out []Event
	for rows.Next() {
		e, err := scanEvent(rows)
		if err != nil {
			return nil, "", unavailable("events", err)
		}
		out = append(out, e)
	}
	if err := rows.Err(); err != nil {
		return nil, "", unavailable("events", err)
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
	if id, err := hex.DecodeString(f.After); err != nil || len(id) != eventIDLen || hex.EncodeToString(id) != f.After {
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
	q.equal("kind", f.Kind)
	if len(f.Kinds) > 0 {
		q.in("kind", anyOf(f.Kinds))
	}
	q.equal("client", f.Client)
	if f.Approval != "" { // else it is the way
		q.equal("person", f.Person)
	}
	q.equal("organization", f.Organization)
	q.equal("reference", f.Reference)
	return len(q.conditions) > before
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
	err = s.reader.QueryRowContext(ctx, q.nth(order, f.walk()), q.args...).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	} else if err != nil {
		return "", unavailable("events", err)
	}
	return id, nil
}

// Event gives one entry, or ErrNotFound.
func (s *Store) Event(ctx context.Context, id string) (Event, error) {
	defer s.timed("events", time.Now())
	e, err := scanEvent(s.reader.QueryRowContext(ctx, selectEvent+` WHERE id = $1`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return Event{}, fmt.Errorf("event: %w", ErrNotFound)
	} else if err != nil {
		return Event{}, unavailable("event", err)
	}
	return e, nil
}

const selectEvent = `
	SELECT id, at, kind, client, person, organization, approval, actor, address, reason, detail, reference
	  FROM journal`

func scanEvent(row interface{ Scan(...any) error }) (e Event, err error) {
	err = row.Scan(&e.ID, &e.At, &e.Kind, &e.Client, &e.Person, &e.Organization, &e.Approval,
		&e.Actor, &e.Address, &e.Reason, &e.Detail, &e.Reference)
	return e, err
}
