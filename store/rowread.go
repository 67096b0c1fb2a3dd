package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// question asks for an approval as it stands, or for the facts alone. It is
// answered out of a read that began after it was asked.
type question struct {
	id    approval.ID
	row   bool
	found bool
	a     approval.Approval
	err   error
	done  chan struct{}
}

// maxQuestions bounds how many approvals are read together.
const maxQuestions = 512

var questions = sync.Pool{New: func() any { return &question{done: make(chan struct{}, 1)} }}

// ask waits for the answer, and gives up with ctx.
func (p *shared) ask(ctx context.Context, q *question) error {
	if err := p.tooOld(); err != nil {
		return err
	}
	if !p.asked.join(q, 0) {
		return fmt.Errorf("closing: %w", ErrUnavailable)
	}
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// check is the store's Check: exact as of some moment after it was asked, or,
// with a bound on staleness, as of that long ago.
func (p *shared) check(ctx context.Context, id approval.ID) (Access, error) {
	if now := time.Now(); p.recent(now) {
		if at, ok := p.rows.get(id); ok && now.Sub(at.read) <= p.store.options.MaxStaleness {
			access, err := p.access(at.a)
			access.Remembered = true
			return access, err
		}
	}
	return p.checkNow(ctx, id)
}

// checkNow is check without what is remembered.
func (p *shared) checkNow(ctx context.Context, id approval.ID) (Access, error) {
	q := questions.Get().(*question)
	q.id, q.row = id, true
	err := p.ask(ctx, q)
	if err != nil {
		return Access{}, err // it may still be answered: it is not used again
	}
	a, found := q.a, q.found
	*q = question{done: q.done}
	questions.Put(q)
	if !found || a.Phase == approval.Ended {
		return Access{}, ErrNotFound
	}
	return p.access(a)
}

// access puts the facts beside an approval.
func (p *shared) access(a approval.Approval) (Access, error) {
	if a.Phase == approval.Ended {
		return Access{}, ErrNotFound
	}
	m := p.store.memory
	m.mu.RLock()
	defer m.mu.RUnlock()
	x := Access{Approval: a, Standing: m.standing(a), Idle: true} // use knows better
	if at := m.members[memberKey{a.Person, a.Organization}]; at != nil {
		x.Member, x.PersonName, x.OrganizationName = at.asMember(), at.person.Name, at.org.Name
	}
	return x, nil
}

// answerAsked reads what is asked for, together.
func (p *shared) answerAsked() {
	var batch []*question
	for {
		clear(batch)
		if batch = p.asked.take(batch[:0], maxQuestions); len(batch) == 0 {
			return
		}
		err := p.answer(batch)
		for _, q := range batch {
			q.err = err
			q.done <- struct{}{}
		}
	}
}

func (p *shared) answer(batch []*question) error {
	ids := make([]approval.ID, 0, len(batch))
	known := true
	for _, q := range batch {
		if q.row {
			ids = append(ids, q.id)
			known = known && p.rows.has(q.id)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	rows, err := p.read(ctx, ids, known)
	if err != nil {
		return p.unavailable("read", err)
	}
	for _, q := range batch {
		if at, ok := rows[q.id]; ok && q.row {
			q.a, q.found = at.a, true
		}
	}
	return nil
}

// rowAt is an approval as it was read.
type rowAt struct {
	a        approval.Approval
	picks    string // of the grant set, as they are written
	replaces string
}

// selectRows reads approvals and the facts' version in one snapshot.
const selectRows = `
	SELECT f.version, a.id, a.client, a.person, a.organization, a.grant_kind, a.picks, a.personal,
	       a.redirect_uri, a.issuer, a.challenge, a.issued_at, a.created_at, a.replaces,
	       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch,
	       a.phase, a.generation, a.key_number, a.reason, a.ended_at, a.network
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1)
	 WHERE f.one = 1`

// selectStates reads what changes of an approval that lives. All the rest of it
// is known by then, and never changes again.
const selectStates = `
	SELECT f.version, a.id, a.generation, a.key_number, a.personal, a.grant_kind, a.picks
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1) AND a.phase = 2
	 WHERE f.one = 1`

// read gives approvals as they stand, and sees that the facts in memory are no
// older than they. known says that all of them were read before, and lived.
// It is tried again once: a connection may have gone stale.
func (p *shared) read(ctx context.Context, ids []approval.ID, known bool) (map[approval.ID]rowAt, error) {
	defer p.store.timed("check", time.Now())
	for try := 0; ; try++ {
		out, err := p.readOnce(ctx, ids, known)
		if err == nil || try == 1 || ctx.Err() != nil || !retryable(err) && !cut(err) {
			return out, err
		}
		p.pool.Reset()
	}
}

func (p *shared) readOnce(ctx context.Context, ids []approval.ID, known bool) (map[approval.ID]rowAt, error) {
	began := time.Now()
	var version int64
	var err error
	out := make(map[approval.ID]rowAt, len(ids))
	switch {
	case len(ids) == 0:
		err = p.pool.QueryRow(ctx, `SELECT version FROM facts WHERE one = 1`).Scan(&version)
	case known:
		known, err = p.readStates(ctx, ids, out, &version)
		if err == nil && !known { // forgotten meanwhile
			return p.readOnce(ctx, ids, false)
		}
	default:
		err = p.readRows(ctx, ids, out, &version)
	}
	if err != nil {
		return nil, err
	}
	if p.version() < version {
		if err := p.catchUp(ctx, version, false); err != nil {
			return nil, err
		}
	}
	p.found(began)
	p.rows.put(out, began)
	return out, nil
}

// readStates is readRows for those that are known; false when one is not any
// more.
func (p *shared) readStates(ctx context.Context, ids []approval.ID, out map[approval.ID]rowAt, version *int64) (bool, error) {
	rows, err := p.pool.Query(ctx, selectStates, byteses(ids))
	if err != nil {
		return false, err
	}
	defer rows.Close()
	var id, kind, picks []byte
	var generation, key, personal int64
	into := []any{version, (*pgtype.DriverBytes)(&id), &generation, &key, &personal, (*pgtype.DriverBytes)(&kind), (*pgtype.DriverBytes)(&picks)}
	for rows.Next() {
		if rows.RawValues()[1] == nil {
			return true, rows.Scan(version, nil, nil, nil, nil, nil, nil)
		}
		if err := rows.Scan(into...); err != nil {
			return false, err
		}
		at, ok := p.rows.get(approval.ID(id))
		if !ok {
			return false, nil
		}
		r := at.rowAt
		r.a.Generation, r.a.Key = generation, int(key)
		if r.picks != string(picks) || string(r.a.Grant.Kind) != string(kind) || r.a.Grant.Personal != (personal == 1) {
			if r.a.Grant, err = grantset.Decode(string(kind), string(picks), personal == 1); err != nil {
				return false, fmt.Errorf("approval %s: %w", r.a.ID, err)
			}
			r.picks = string(picks)
		}
		out[r.a.ID] = r
	}
	return true, rows.Err()
}

func (p *shared) readRows(ctx context.Context, ids []approval.ID, out map[approval.ID]rowAt, version *int64) error {
	rows, err := p.pool.Query(ctx, selectRows, byteses(ids))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r, found, err := scanRow(rows, version)
		if err != nil {
			return err
		}
		if found {
			out[r.a.ID] = r
		}
	}
	return rows.Err()
}

// scanRow takes one row, which may be the version alone.
func scanRow(rows pgx.Rows, version *int64) (r rowAt, found bool, err error) {
	if rows.RawValues()[1] == nil {
		skip := make([]any, len(rows.RawValues()))
		skip[0] = version
		return r, false, rows.Scan(skip...)
	}
	var id []byte
	var kind, picks, reason string
	var personal, phase, key, network int64
	a := &r.a
	if err := rows.Scan(version, &id, &a.Client, &a.Person, &a.Organization, &kind, &picks, &personal,
		&a.RedirectURI, &a.Issuer, &a.Challenge, &a.IssuedAt, &a.CreatedAt, &r.replaces,
		&a.Born.Membership, &a.Born.Person, &a.Born.Organization, &a.Born.Client,
		&phase, &a.Generation, &key, &reason, &a.EndedAt, &network); err != nil {
		return r, false, err
	}
	copy(a.ID[:], id)
	r.picks = picks
	a.Phase, a.Key, a.Network = approval.Phase(phase), int(key), uint16(network)
	a.Reason, a.Replace = approval.Reason(reason), r.replaces != ""
	if a.Grant, err = grantset.Decode(kind, picks, personal == 1); err != nil {
		return r, false, fmt.Errorf("approval %s: %w", a.ID, err)
	}
	return r, true, nil
}

// --- staleness

// found notes that memory was up to date at a moment.
func (p *shared) found(at time.Time) {
	since := int64(at.Sub(processStart))
	for {
		old := p.asOf.Load()
		if old >= since || p.asOf.CompareAndSwap(old, since) {
			return
		}
	}
}

// processStart is what moments are counted from: by the monotonic clock, which
// nobody sets.
var processStart = time.Now().Add(-time.Hour)

// recent reports whether the facts in memory may answer now, without asking.
func (p *shared) recent(now time.Time) bool {
	most := p.store.options.MaxStaleness
	return most > 0 && !p.outgrown.Load() && now.Sub(processStart)-time.Duration(p.asOf.Load()) <= most
}

// rowCache remembers approvals that lived when they were read. What of such a
// row ever changes is its state and its grant set; a move can be computed from
// it, because it is saved only if the row still is in that state.
type rowCache struct {
	mu   sync.RWMutex
	rows map[approval.ID]cachedRow
}

type cachedRow struct {
	rowAt
	read time.Time // when the read began
}

// maxCached bounds its memory, at about 500 bytes each.
const maxCached = 50_000

func (c *rowCache) get(id approval.ID) (cachedRow, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, ok := c.rows[id]
	return at, ok
}

func (c *rowCache) has(id approval.ID) bool {
	_, ok := c.get(id)
	return ok
}

// put remembers what a read has found that began at a moment.
func (c *rowCache) put(rows map[approval.ID]rowAt, read time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rows == nil || len(c.rows)+len(rows) > maxCached {
		c.rows = make(map[approval.ID]cachedRow, len(rows))
	}
	for id, r := range rows {
		at, ok := c.rows[id]
		switch {
		case ok && at.read.After(read):
		case r.a.Phase != approval.Live:
			delete(c.rows, id)
		default:
			r.a.RedirectURI, r.a.Issuer, r.a.Challenge, r.replaces = "", "", "", ""
			c.rows[id] = cachedRow{r, read}
		}
	}
}

// moved remembers the state that a move has saved, which began at a moment.
func (c *rowCache) moved(id approval.ID, to approval.State, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, ok := c.rows[id]
	if ok && to.Phase == approval.Live && at.a.Generation < to.Generation {
		at.a.State, at.read = to, began
		c.rows[id] = at
	} else if ok && to.Phase != approval.Live {
		delete(c.rows, id)
	}
}

func (c *rowCache) drop(id approval.ID) {
	c.mu.Lock()
	delete(c.rows, id)
	c.mu.Unlock()
}
