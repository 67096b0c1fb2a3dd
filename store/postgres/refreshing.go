package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Refresh is one that is saved without reading the row before: the token says what is
// in it, which is all but always so, and the statement that saves looks. What it does
// not find so is left to the move, which reads the row.
type Refresh struct {
	ID         approval.ID
	Client     string
	Generation int64 // of the token
	Bound      approval.Thumbprint
	Proof      engine.Proof // of the key that it is bound to
	Move       approval.Move
	After      approval.State // what the move gives for the expected row
	Since      time.Time      // when it came
	Saved      bool
	Err        error
	done       chan struct{}
}

func newRefresh() any { return &Refresh{done: make(chan struct{}, 1)} }

// MoveExpected gives the state that was saved, or the zero State where nothing was: the
// move refuses what is expected, or the row is another. Reads are slow: skip the
// batched path, so that one slow row does not delay the others, unless the move would
// wait for facts that are being loaded.
func (p *Engine) MoveExpected(expected approval.Approval, m approval.Move, act engine.Act) (saved approval.State, err error) {
	m = act.On(m)
	after, verdict := m(expected, approval.Standing(expected.Born))
	if p.Pace.Slow.Load() && !p.loading() || verdict != approval.OK || !after.Refreshes(expected.State) {
		return saved, nil
	}
	leave, err := p.enter()
	if err != nil {
		return saved, err
	}
	defer leave()
	r := p.refreshRequests.Get().(*Refresh)
	done := r.done
	*r = Refresh{ID: expected.ID, Client: expected.Client, Generation: expected.Generation, Bound: expected.Bound, Proof: act.Proof, Move: m, After: after, Since: time.Now(), done: done}
	p.refreshes.Join(r, 0)
	<-done
	if err = r.Err; r.Saved {
		saved = after
	}
	p.refreshRequests.Put(r)
	return saved, err
}

// refreshWorkers bounds the groups of refreshes that are saved at once. The second
// worker gets the slot only while the first takes long: two would save smaller groups.
const refreshWorkers = 2

// saveRefreshes saves what waits, together, until the queue is closed.
func (p *Engine) saveRefreshes() {
	var batch []*Refresh
	of := map[approval.ID]*Refresh{}
	pass := func() { p.refreshSlot <- struct{}{} }
	late := time.AfterFunc(time.Hour, pass)
	late.Stop()
	<-p.refreshSlot
	for {
		clear(batch)
		if batch = p.refreshes.take(batch[:0], engine.MaxBatch, 1); len(batch) == 0 {
			pass()
			return
		}
		late.Reset(p.SlowRead)
		p.SaveTogether(batch, of)
		for _, r := range batch {
			r.done <- struct{}{}
		}
		if !late.Stop() { // the other worker has the slot
			<-p.refreshSlot
		}
	}
}

// SaveTogether saves refreshes of different approvals: a token that came twice is used
// once, and the second one is left to the move. When the last groups have taken
// long, so is a whole one, which reads apart and tells whether that is why; not while
// it would wait for facts that are being loaded.
func (p *Engine) SaveTogether(batch []*Refresh, of map[approval.ID]*Refresh) {
	if p.Saving.Average.Load() > int64(p.SlowRead) && !p.loading() {
		p.Saving.Average.Store(0)
		return
	}
	clear(of)
	start := time.Now()
	for _, r := range batch {
		switch {
		case start.Sub(r.Since) > 2*p.Patience: // the database hangs
			r.Err = fmt.Errorf("waiting for the refreshes before: %w", engine.ErrUnavailable)
		case of[r.ID] == nil:
			of[r.ID] = r
		}
	}
	if len(of) == 0 {
		return
	}
	err := p.saveSome(of)
	p.Saving.took(time.Since(start))
	undone := err != nil && retryable(err)
	if !undone {
		err = p.unavailable("refresh", err)
	}
	for id, r := range of {
		switch {
		case undone:
			r.Saved = false
		case err != nil:
			r.Saved, r.Err = false, err
		case r.Saved:
			p.Rows.moved(id, r.After, uint32(p.Now().Unix()), Moment(start))
		}
	}
}

// saveExpected saves refreshes of rows that are as their tokens say, with the facts as they are in
// memory, and, while memory is behind, as they are in the database; of each without proofs of
// keys, and with. It locks the rows first, as saveRows does.
var saveExpected = [2][2]string{
	{saveUnbound(knownFacts), saveBound(knownFacts)},
	{saveUnbound(newerFacts), saveBound(newerFacts)},
}

func saveUnbound(facts string) string {
	return `
	WITH locked AS (
		SELECT id FROM approval WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE
	)
	UPDATE approval a` + setExpected + `
	  FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $9::bigint[])
	       AS u (id, client, generation, key_number, network, next)
	 WHERE (SELECT COUNT(*) FROM locked) > 0
	   AND a.id = u.id AND a.bound = '' AND ` + isExpected("a", facts) + `
	RETURNING ` + expectedColumns
}

func saveBound(facts string) string {
	return `
	WITH locked AS (
		SELECT id, phase, client, generation, issued_at, used_at, ends_at, bound, ` + standsOn + `
		  FROM approval WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE
	), ` + spendProofs(`unnest($1::bytea[], $2::text[], $3::bigint[], $10::bytea[], $11::bytea[], $12::bigint[])
		       AS u (id, client, generation, bound, proof, until)`, `l.bound = u.bound AND `+isExpected("l", facts)) + `
	UPDATE approval a` + setExpected + `
	  FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $9::bigint[], $10::bytea[], $11::bytea[])
	       AS u (id, client, generation, key_number, network, next, bound, proof)
	 WHERE (SELECT COUNT(*) FROM locked) > 0
	   AND a.id = u.id AND a.bound = u.bound AND ` + isExpected("a", facts) + unspentProof + `
	RETURNING ` + expectedColumns
}

const setExpected = `
	   SET generation = u.next, key_number = u.key_number, network = u.network, used_at = GREATEST(a.used_at, $6::bigint)`

const (
	standsOn        = `person, organization, membership_epoch, person_epoch, organization_epoch, client_epoch`
	expectedColumns = `a.id, ` + standsOn
)

// What is asked of the facts: that they have the version of memory's, which are asked about the
// rows that were saved; or that the database has newer ones, and what this row was made under
// stands by them. To look each fact up by its key takes no plan that reads a whole table.
const (
	knownFacts = `(SELECT version FROM facts WHERE one = 1) = $8::bigint`
	newerFacts = `(SELECT version FROM facts WHERE one = 1) > $8::bigint
	   AND (SELECT epoch FROM membership f WHERE f.person = this.person AND f.organization = this.organization) = this.membership_epoch
	   AND (SELECT epoch FROM person f WHERE f.id = this.person) = this.person_epoch
	   AND (SELECT epoch FROM organization f WHERE f.id = this.organization) = this.organization_epoch
	   AND (SELECT epoch FROM client f WHERE f.id = this.client) = this.client_epoch`
)

// isExpected compares a row with what its token says, and with the facts.
func isExpected(row, facts string) string {
	return row + `.phase = ` + engine.SQLLive + ` AND ` + row + `.client = u.client AND ` + row + `.generation = u.generation
	   AND GREATEST(` + row + `.issued_at, ` + row + `.used_at) > $7::bigint AND (` + row + `.ends_at = 0 OR ` + row + `.ends_at > $6::bigint)
	   AND ` + strings.ReplaceAll(facts, "this.", row+".")
}

// saveSome notes of each refresh whether it is saved. What was saved for an approval
// that a fact has ended is not: the move ends it then, as nobody has its new token.
// Where nothing is saved, the facts may be newer than memory's, which can take longer to
// load than a refresh may wait: it is tried with those of the database, and they are
// loaded for whoever asks next.
func (p *Engine) saveSome(of map[approval.ID]*Refresh) error {
	defer p.Timed("group", time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	began, now := Moment(time.Now()), p.Now()
	with, args := p.expected(of, now)
	for i, statements := range saveExpected {
		inMemory := i == 0 // by the facts there
		c := columns{facts: p.Memory}
		err := p.InTime(ctx, statements[with], args, func(rows pgx.Rows) {
			for c.fields = rows.FieldDescriptions(); rows.Next(); {
				c.next(rows.RawValues())
				if r := of[c.id()]; r != nil && (!inMemory || c.stands(r)) {
					r.Saved = true
				}
			}
		})
		if err = errors.Join(err, c.err); err != nil {
			return err
		}
		switch saved := c.values != nil; {
		case saved && inMemory:
			p.found(began)
			return nil
		case saved: // nobody waits for this question, which loads them
			p.Reads.Join(&Question{Done: make(chan struct{}, 1)}, 0)
		}
	}
	return nil
}

// loading reports whether facts in memory are known to be older than the database's.
func (p *Engine) loading() bool { return len(p.catching) > 0 }

// expected are the arguments of saveExpected, and which of the two it is.
func (p *Engine) expected(of map[approval.ID]*Refresh, now time.Time) (with int, args []any) {
	n := len(of)
	ids, clients := make([][]byte, 0, n), make([]string, 0, n)
	generations, nexts := make([]int64, 0, n), make([]int64, 0, n)
	keys, networks := make([]int64, 0, n), make([]int64, 0, n)
	bound := make([][]byte, 0, n)
	var proofs proofsOf
	for _, r := range of {
		if proofs.add(r.Proof, true) {
			continue // left to the move
		}
		bound = append(bound, engine.BoundTo(r.Bound))
		ids, clients = append(ids, r.ID[:]), append(clients, storable(r.Client))
		generations, nexts = append(generations, r.Generation), append(nexts, r.After.Generation)
		keys, networks = append(keys, int64(r.After.Key)), append(networks, int64(r.After.Network))
	}
	unused := int64(-1)
	if most := p.Options.EndUnusedAfter; most > 0 {
		unused = now.Add(-most).Unix()
	}
	args = []any{ids, clients, generations, keys, networks, now.Unix(), unused, p.Version(), nexts}
	if proofs.any > 0 {
		args = append(args, bound, proofs.hashes, proofs.until)
	}
	return proofs.any, args
}

// stands takes the rest of a row, and asks the move whether the facts under the
// approval stand.
func (c *columns) stands(r *Refresh) bool {
	a := approval.Expected(r.ID, r.Client, r.Generation)
	a.Bound = r.Bound
	person, organization := c.bytes(), c.bytes()
	a.Born.Membership, a.Born.Person, a.Born.Organization, a.Born.Client = c.number(), c.number(), c.number(), c.number()
	c.facts.RLock()
	standing := approval.Standing{Membership: none, Person: none, Organization: none, Client: none}
	if at := c.facts.Members.Get(facts.MemberKey{Person: string(person), Organization: string(organization)}); at != nil {
		standing = c.facts.StandingOn(at, &a)
	}
	c.facts.RUnlock()
	_, verdict := r.Move(a, standing)
	return verdict == approval.OK && c.err == nil
}
