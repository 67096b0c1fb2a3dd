package engine

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
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
	Proof      Proof // of the client's key
}

// A Proof is that a client holds a key (RFC 9449); its zero value is none. What it helps
// to does not happen by the same one again (decision T16).
type Proof struct {
	Key   approval.Thumbprint
	ID    [sha256.Size]byte // no two proofs have one
	Until int64             // Unix seconds: up to then it would be taken once more
}

// Given reports whether there is one.
func (p Proof) Given() bool { return p.Key != approval.Thumbprint{} }

// On is a move as whoever acts makes it: what it gives goes to their network, and their
// key is proved.
func (a Act) On(m approval.Move) approval.Move {
	return approval.GivenTo(NetworkOf(a.Address), approval.HeldBy(a.Proof.Key, m))
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

// EventIDLen is the bytes of an entry's ID, which is written in hexadecimal.
const EventIDLen = 12

// EventIDs gives IDs that sort by time, also within a millisecond.
type EventIDs struct {
	mu   sync.Mutex
	last int64 // milliseconds << 16 and a counter
}

// Next gives the ID of an entry.
func (e *EventIDs) Next(now time.Time) string {
	e.mu.Lock()
	e.last = max(e.last+1, now.UnixMilli()<<16)
	v := e.last
	e.mu.Unlock()
	var b [EventIDLen]byte
	for i := range 8 {
		b[i] = byte(v >> (56 - 8*i))
	}
	rand.Read(b[8:])
	return hex.EncodeToString(b[:])
}

// JournalColumns are what a row of the journal has, in the order of Event.values.
const JournalColumns = `id, at, kind, client, person, organization, approval, actor, address, reason, detail, reference`

// Texts are the columns that are no number.
func (e Event) Texts() [11]string {
	return [...]string{
		e.ID, string(e.Kind), e.Client, e.Person, e.Organization, e.Approval, e.Actor, e.Address, e.Reason, e.Detail, e.Reference,
	}
}

// Values are in the order of the columns.
func (e Event) Values() []any {
	texts := e.Texts()
	out := append(make([]any, 0, 1+len(texts)), texts[0], e.At)
	for _, t := range texts[1:] {
		out = append(out, t)
	}
	return out
}

// InsertEvent takes what Values gives.
const InsertEvent = `
	INSERT INTO journal (` + JournalColumns + `)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`

// Journal writes entries in the transaction under way.
func (tx *Tx) Journal(entries ...Event) error {
	now, from := tx.Env.Now(), len(tx.Events)
	for _, e := range entries {
		e.ID, e.At = tx.Env.Ids.Next(now), now.Unix()
		tx.Events = append(tx.Events, e)
	}
	return tx.Engine.Journal(tx, tx.Events[from:])
}

// By gives the entry the act's who, where and why.
func (e Event) By(a Act) Event {
	e.Actor, e.Address, e.Reference = a.Actor, a.Address, a.Reference
	if e.Reason == "" {
		e.Reason = a.Reason
	} else if e.Detail == "" {
		e.Detail = a.Reason
	}
	return e
}

// Changed is the entry of a change of the directory.
func Changed(person, organization, detail string, act Act) Event {
	return Event{Kind: journal.DirectoryChanged, Person: person, Organization: organization, Detail: detail}.By(act)
}

// Changed journals a change of the directory.
func (tx *Tx) Changed(person, organization, detail string, act Act) error {
	return tx.Journal(Changed(person, organization, detail, act))
}
