package store

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
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
	Kind journal.Kind

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

// mostRecorded bounds the entries of one kind that an hour takes of what changes
// nothing else, on each node: strangers can be refused from as many addresses as
// they have. A test has a lower one.
var mostRecorded = 10_000

// recorded counts entries of this hour, by kind.
type recorded struct {
	mu    sync.Mutex
	hour  int64
	kinds map[journal.Kind]int
}

// take reports whether the hour takes one more; last is told once in an hour, of
// the last one of its kind.
func (r *recorded) take(kind journal.Kind, now time.Time) (ok, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if hour := now.Unix() / 3600; r.kinds == nil || hour != r.hour {
		r.hour, r.kinds = hour, map[journal.Kind]int{}
	}
	r.kinds[kind]++
	return r.kinds[kind] <= mostRecorded, r.kinds[kind] == mostRecorded
}

// Record writes an entry for what changes nothing else, such as a refusal. It
// never waits; when the queue is full the entry is lost, and the log says so, and
// so it is when an hour has had as many of its kind as the journal takes.
func (s *Store) Record(e Event) {
	ok, last := s.recorded.take(e.Kind, s.Now())
	if last {
		s.log.Warn("more of a kind than the journal takes: the rest of the hour's entries are left out", "kind", string(e.Kind), "entries", mostRecorded)
	}
	if !ok {
		return
	}
	lost := func() { s.log.Warn("an entry of the journal could not be written and is lost", "kind", string(e.Kind)) }
	ok = s.later(func(tx *Tx) error { return tx.journal(e) }, lost)
	if !ok {
		s.log.Warn("the journal's queue is full; an entry is lost", "kind", string(e.Kind))
	}
}

// journalColumns are what a row of the journal has, in the order of Event.values.
const journalColumns = `id, at, kind, client, person, organization, approval, actor, address, reason, detail, reference`

// texts are the columns that are no number.
func (e Event) texts() [11]string {
	return [...]string{
		e.ID, string(e.Kind), e.Client, e.Person, e.Organization, e.Approval, e.Actor, e.Address, e.Reason, e.Detail, e.Reference,
	}
}

func (e Event) values() []any {
	texts := e.texts()
	out := append(make([]any, 0, 1+len(texts)), texts[0], e.At)
	for _, t := range texts[1:] {
		out = append(out, t)
	}
	return out
}

const insertEvent = `
	INSERT INTO journal (` + journalColumns + `)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// journal writes entries in the transaction under way.
func (tx *txn) journal(entries ...Event) error {
	now, from := tx.env.Now(), len(tx.events)
	for _, e := range entries {
		e.ID, e.At = tx.env.ids.next(now), now.Unix()
		tx.events = append(tx.events, e)
	}
	return tx.engine.Journal(tx, tx.events[from:])
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

// insertArrays is a statement that writes what eventColumns gives, as its
// parameters from one on, as far as the end of it lets them.
func insertArrays(first int, end string) string {
	arrays := make([]string, 12)
	for i := range arrays {
		arrays[i] = fmt.Sprintf("$%d::text[]", first+i)
	}
	arrays[1] = fmt.Sprintf("$%d::bigint[]", first+1)
	return `INSERT INTO journal (` + journalColumns + `)
		SELECT e.` + strings.ReplaceAll(journalColumns, ", ", ", e.") + `
		  FROM unnest(` + strings.Join(arrays, ", ") + `) AS e (` + journalColumns + `)` + end
}

// eventColumns turns entries into arrays, one for each column of the journal.
func eventColumns(events []Event) []any {
	at := make([]int64, len(events))
	var texts [11][]string
	for i := range texts {
		texts[i] = make([]string, len(events))
	}
	for i, e := range events {
		at[i] = e.At
		for c, v := range e.texts() {
			texts[c][i] = storable(v)
		}
	}
	out := []any{texts[0], at}
	for _, t := range texts[1:] {
		out = append(out, t)
	}
	return out
}

// changed journals a change of the directory.
func (tx *Tx) changed(person, organization, detail string, act Act) error {
	return tx.journal(directoryChanged(person, organization, detail, act))
}

func directoryChanged(person, organization, detail string, act Act) Event {
	return Event{Kind: journal.DirectoryChanged, Person: person, Organization: organization, Detail: detail}.by(act)
}
