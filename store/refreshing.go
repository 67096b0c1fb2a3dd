package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
)

// Refresh is ApplyLive for approval.Refresh, and gives the generation that the
// approval has after it.
func (s *Store) Refresh(ctx context.Context, id approval.ID, client string, generation int64, key int, act Act) (int64, approval.Verdict, error) {
	act.Generation = generation
	return s.applyExpected(ctx, approval.Expected(id, client, generation), approval.Refresh(client, generation, key, s.Now()), act)
}

// applyExpected is ApplyLive for a move that asks no more of an approval than an
// expected one has. On PostgreSQL the move is made on that one, and what it gives
// is saved where the row is as expected; all else reads the row.
func (s *Store) applyExpected(ctx context.Context, expected approval.Approval, m approval.Move, act Act) (int64, approval.Verdict, error) {
	switch after, err := s.engine.MoveExpected(expected, m, act); {
	case err != nil:
		return 0, 0, err
	case after.Phase == approval.Live:
		return after.Generation, approval.OK, nil
	}
	a, v, err := s.ApplyLive(ctx, expected.ID, m, act)
	return a.Generation, v, err
}

// refresh is one that is saved without reading the row before: the token says what is
// in it, which is all but always so, and the statement that saves looks. What it does
// not find so is left to the move, which reads the row.
type refresh struct {
	id         approval.ID
	client     string
	generation int64 // of the token
	move       approval.Move
	after      approval.State // what the move gives for the expected row
	since      time.Time      // when it came
	saved      bool
	err        error
	done       chan struct{}
}

var refreshes = sync.Pool{New: func() any { return &refresh{done: make(chan struct{}, 1)} }}

// MoveExpected gives the state that was saved, or the zero State where nothing was: the
// move refuses what is expected, or the row is another. Reads are slow: skip the
// batched path, so that one slow row does not delay the others.
func (p *postgresEngine) MoveExpected(expected approval.Approval, m approval.Move, act Act) (saved approval.State, err error) {
	after, verdict := approval.GivenTo(networkOf(act.Address), m)(expected, approval.Standing(expected.Born))
	if p.pace.slow.Load() || verdict != approval.OK || !after.Refreshes(expected.State) {
		return saved, nil
	}
	leave, err := p.enter()
	if err != nil {
		return saved, err
	}
	defer leave()
	r := refreshes.Get().(*refresh)
	done := r.done
	*r = refresh{id: expected.ID, client: expected.Client, generation: expected.Generation, move: m, after: after, since: time.Now(), done: done}
	p.refreshes.join(r, 0)
	<-done
	if err = r.err; r.saved {
		saved = after
	}
	refreshes.Put(r)
	return saved, err
}

// refreshWorkers bounds the groups of refreshes that are saved at once. The second
// worker gets the slot only while the first takes long: two would save smaller groups.
const refreshWorkers = 2

// saveRefreshes saves what waits, together, until the queue is closed.
func (p *postgresEngine) saveRefreshes() {
	var batch []*refresh
	of := map[approval.ID]*refresh{}
	pass := func() { p.refreshSlot <- struct{}{} }
	late := time.AfterFunc(time.Hour, pass)
	late.Stop()
	<-p.refreshSlot
	for {
		clear(batch)
		if batch = p.refreshes.take(batch[:0], maxBatch, 1); len(batch) == 0 {
			pass()
			return
		}
		late.Reset(p.slowRead)
		p.saveTogether(batch, of)
		for _, r := range batch {
			r.done <- struct{}{}
		}
		if !late.Stop() { // the other worker has the slot
			<-p.refreshSlot
		}
	}
}

// saveTogether saves refreshes of different approvals: a token that came twice is used
// once, and the second one is left to the move. When the last groups have taken
// long, so is a whole one, which reads apart and tells whether that is why.
func (p *postgresEngine) saveTogether(batch []*refresh, of map[approval.ID]*refresh) {
	if p.saving.average.Load() > int64(p.slowRead) {
		p.saving.average.Store(0)
		return
	}
	clear(of)
	start := time.Now()
	for _, r := range batch {
		switch {
		case start.Sub(r.since) > 2*p.patience: // the database hangs
			r.err = fmt.Errorf("waiting for the refreshes before: %w", ErrUnavailable)
		case of[r.id] == nil:
			of[r.id] = r
		}
	}
	if len(of) == 0 {
		return
	}
	err := p.saveSome(of)
	p.saving.took(time.Since(start))
	undone := err != nil && retryable(err)
	if !undone {
		err = p.unavailable("refresh", err)
	}
	for id, r := range of {
		switch {
		case undone:
			r.saved = false
		case err != nil:
			r.saved, r.err = false, err
		case r.saved:
			p.rows.moved(id, r.after, uint32(p.Now().Unix()), moment(start))
		}
	}
}

// saveExpected saves refreshes of rows that are as their tokens say, with the facts as
// they are in memory. It locks the rows first, as saveRows does.
const saveExpected = `
	WITH locked AS (
		SELECT id FROM approval WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE
	)
	UPDATE approval a
	   SET generation = u.next, key_number = u.key_number, network = u.network, used_at = GREATEST(a.used_at, $6::bigint)
	  FROM unnest($1::bytea[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $9::bigint[])
	       AS u (id, client, generation, key_number, network, next)
	 WHERE (SELECT COUNT(*) FROM locked) > 0
	   AND a.id = u.id AND a.phase = ` + sqlLive + ` AND a.client = u.client AND a.generation = u.generation
	   AND GREATEST(a.issued_at, a.used_at) > $7::bigint
	   AND (SELECT version FROM facts WHERE one = 1) = $8::bigint
	RETURNING a.id, a.person, a.organization,
	       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch`

// saveSome notes of each refresh whether it is saved. What was saved for an approval
// that a fact has ended is not: the move ends it then, as nobody has its new token.
func (p *postgresEngine) saveSome(of map[approval.ID]*refresh) error {
	defer p.timed("group", time.Now())
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	began, now := moment(time.Now()), p.Now()
	c := columns{facts: p.memory}
	err := p.inTime(ctx, saveExpected, p.expected(of, now), func(rows pgx.Rows) {
		for c.fields = rows.FieldDescriptions(); rows.Next(); {
			c.next(rows.RawValues())
			if r := of[c.id()]; r != nil && c.stands(r) {
				r.saved = true
			}
		}
	})
	if err == nil && c.values != nil {
		p.found(began)
	}
	return errors.Join(err, c.err)
}

func (p *postgresEngine) expected(of map[approval.ID]*refresh, now time.Time) []any {
	n := len(of)
	ids, clients := make([][]byte, 0, n), make([]string, 0, n)
	generations, nexts := make([]int64, 0, n), make([]int64, 0, n)
	keys, networks := make([]int64, 0, n), make([]int64, 0, n)
	for _, r := range of {
		ids, clients = append(ids, r.id[:]), append(clients, storable(r.client))
		generations, nexts = append(generations, r.generation), append(nexts, r.after.Generation)
		keys, networks = append(keys, int64(r.after.Key)), append(networks, int64(r.after.Network))
	}
	unused := int64(-1)
	if most := p.options.EndUnusedAfter; most > 0 {
		unused = now.Add(-most).Unix()
	}
	return []any{ids, clients, generations, keys, networks, now.Unix(), unused, p.version(), nexts}
}

// stands takes the rest of a row, and asks the move whether the facts under the
// approval stand.
func (c *columns) stands(r *refresh) bool {
	a := approval.Expected(r.id, r.client, r.generation)
	person, organization := c.bytes(), c.bytes()
	a.Born.Membership, a.Born.Person, a.Born.Organization, a.Born.Client = c.number(), c.number(), c.number(), c.number()
	c.facts.RLock()
	standing := approval.Standing{Membership: none, Person: none, Organization: none, Client: none}
	if at := c.facts.Members.Get(facts.MemberKey{Person: string(person), Organization: string(organization)}); at != nil {
		standing = c.facts.StandingOn(at, &a)
	}
	c.facts.RUnlock()
	_, verdict := r.move(a, standing)
	return verdict == approval.OK && c.err == nil
}
