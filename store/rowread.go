package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
)

// question asks for an approval as it stands, or for the facts alone. It is
// answered out of a read that began after it was asked.
type question struct {
	id   approval.ID
	asks bool // for the approval
	row  *row // nil: there is none
	err  error
	done chan struct{}
}

// maxQuestions bounds how many approvals are read together.
const maxQuestions = 512

var questions = sync.Pool{New: func() any { return &question{done: make(chan struct{}, 1)} }}

// ask waits for the answer, and gives up with ctx.
func (p *postgresEngine) ask(ctx context.Context, q *question) error {
	if err := p.begin(q); err != nil {
		return err
	}
	return q.wait(ctx)
}

func (p *postgresEngine) begin(q *question) error {
	if err := p.tooOld(); err != nil {
		return err
	}
	if !p.reads.join(q, 0) {
		return fmt.Errorf("closing: %w", ErrUnavailable)
	}
	return nil
}

func (q *question) wait(ctx context.Context) error {
	select {
	case <-q.done:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// Check is exact as of some moment after it was asked, or,
// with a bound on staleness, as of that long ago.
func (p *postgresEngine) Check(ctx context.Context, id approval.ID) (Access, error) {
	if most := p.options.MaxStaleness; most > 0 && !p.outgrown.Load() {
		least := moment(time.Now()) - int64(most)
		if r := p.rows.get(id); r != nil && r.read.Load() >= least && p.asOf.Load() >= least {
			access, err := p.access(r)
			access.Remembered = true
			return access, err
		}
	}
	return p.CheckNow(ctx, id)
}

// CheckNow is Check without what is remembered.
func (p *postgresEngine) CheckNow(ctx context.Context, id approval.ID) (Access, error) {
	r, err := p.readNow(ctx, id)
	if err != nil {
		return Access{}, err
	}
	if r == nil {
		return Access{}, ErrNotFound
	}
	return p.access(r)
}

// readNow gives the row of an approval that has not ended, or nil, out of a
// read that begins now.
func (p *postgresEngine) readNow(ctx context.Context, id approval.ID) (*row, error) {
	q := questions.Get().(*question)
	q.id, q.asks = id, true
	if err := p.ask(ctx, q); err != nil {
		return nil, err // it may still be answered: it is not used again
	}
	r := q.row
	*q = question{done: q.done}
	questions.Put(q)
	return r, nil
}

// CheckAllNow asks all questions before it waits for the first answer.
func (p *postgresEngine) CheckAllNow(ctx context.Context, all []Asked) {
	asked := make([]*question, len(all))
	for i := range all {
		q := &question{id: all[i].Approval, asks: !all[i].ByKey, done: make(chan struct{}, 1)}
		if all[i].Err = p.begin(q); all[i].Err == nil {
			asked[i] = q
		}
	}
	for i, q := range asked {
		if q == nil {
			continue
		}
		a := &all[i]
		switch a.Err = q.wait(ctx); {
		case a.Err != nil:
		case a.ByKey:
			a.Access, a.Err = p.memory.apiKey(a.Key)
		case q.row == nil:
			a.Err = ErrNotFound
		default:
			a.Access, a.Err = p.access(q.row)
		}
	}
}

// access puts the facts beside an approval.
func (p *postgresEngine) access(r *row) (Access, error) {
	if r.a.Phase == approval.Ended {
		return Access{}, ErrNotFound
	}
	m := p.memory
	m.RLock()
	defer m.RUnlock()
	u := r.under.Load()
	if u == nil || u.changes != m.changes {
		u = m.under(&r.a)
		r.under.Store(u)
	}
	return u.access(r.a, r.used), nil
}

const (
	// maxReaders bounds the groups that are read at once, each over a connection
	// of its own.
	maxReaders = 8
	// slowRead is how long a group may hold up the next. Of those whose pages are in
	// the database's memory one of a thousand takes longer.
	slowRead = 4 * time.Millisecond
	// quickRead is how long a share of a group takes when they are.
	quickRead = time.Millisecond
)

// answerReads is a reader: it reads what is queued, together, when it holds the
// slot. As long as reads are quick, one reader keeps the slot, because two would
// read smaller groups. PostgreSQL reads the pages of a statement one after the
// other: while that is slow, a reader takes no more than a share of the queue,
// and passes the slot on before it reads.
func (p *postgresEngine) answerReads() {
	var batch []*question
	var read reading
	pass := func() { p.readSlot <- struct{}{} }
	late := time.AfterFunc(time.Hour, pass)
	late.Stop()
	<-p.readSlot
	for {
		shares := p.pace.shares()
		clear(batch)
		if batch = p.reads.take(batch[:0], maxQuestions, shares); len(batch) == 0 {
			pass()
			return
		}
		if shares == 1 {
			late.Reset(p.slowRead)
		} else {
			pass()
		}
		start := time.Now()
		err := p.answer(batch, &read)
		p.pace.took(time.Since(start))
		for _, q := range batch {
			q.err = err
			q.done <- struct{}{}
		}
		if !late.Stop() { // another reader has the slot
			<-p.readSlot
		}
	}
}

// pace tells whether reads are slow, by the last dozen or so: one that was held
// up says nothing.
type pace struct {
	average atomic.Int64 // nanoseconds; that two add at once loses one
	slow    atomic.Bool
}

// shares is into how many groups what waits is to be divided.
func (c *pace) shares() int {
	if c.slow.Load() {
		return maxReaders
	}
	return 1
}

func (c *pace) took(d time.Duration) {
	average := c.average.Load()
	average += (int64(min(d, 4*slowRead)) - average) / 8
	c.average.Store(average)
	switch {
	case average > int64(slowRead):
		c.slow.Store(true)
	case average < int64(quickRead):
		c.slow.Store(false)
	}
}

// answer answers questions out of one read.
func (p *postgresEngine) answer(batch []*question, read *reading) error {
	read.begin(checks)
	p.rows.mu.RLock()
	for _, q := range batch {
		if q.asks {
			read.ask(q.id, p.rows.at(q.id))
		}
	}
	p.rows.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	if err := p.read(ctx, read); err != nil {
		return p.unavailable("read", err)
	}
	for _, q := range batch {
		if q.asks {
			q.row = read.rows[q.id]
		}
	}
	return nil
}

// What of an approval is read.
const (
	wholes = iota // all of it, for a move from any state
	checks        // what Check gives
	states        // what can change, where all were read before, and lived
)

// reading is what is read together. One goroutine uses it again and again.
type reading struct {
	what  int
	known map[approval.ID]*row // who is asked for, and how they are remembered; nil is not at all
	ids   []approval.ID        // the same
	keys  [][]byte             // the same, as pgx writes them
	rows  map[approval.ID]*row // who was found
	began int64                // moment
	seen  seen                 // the facts' versions
}

func (r *reading) begin(what int) {
	if r.rows == nil {
		r.known, r.rows = map[approval.ID]*row{}, map[approval.ID]*row{}
	}
	clear(r.known)
	clear(r.rows)
	r.what, r.ids, r.keys = what, r.ids[:0], r.keys[:0]
}

func (r *reading) ask(id approval.ID, known *row) {
	if _, twice := r.known[id]; twice {
		return
	}
	r.known[id] = known
	r.ids = append(r.ids, id)
}

// start is called before each try: memory's facts have the version.
func (r *reading) start(version int64) {
	clear(r.rows)
	r.began, r.seen = moment(time.Now()), seen{before: version, found: none}
	r.keys = r.keys[:0]
	remembered := len(r.ids) > 0
	for i := range r.ids {
		r.keys = append(r.keys, r.ids[i][:])
		remembered = remembered && r.known[r.ids[i]] != nil
	}
	if r.what == checks && remembered {
		r.what = states
	}
}

// checkColumns are what a check needs, behind the version.
const checkColumns = `f.version, a.id, a.client, a.person, a.organization, a.grant_kind, a.picks, a.personal,
	       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch,
	       a.phase, a.generation, a.key_number, a.network, a.issued_at, a.used_at`

// selectWholes reads approvals and the facts' version in one snapshot.
const selectWholes = `
	SELECT ` + checkColumns + `,
	       a.redirect_uri, a.issuer, a.challenge, a.created_at, a.replaces, a.reason, a.ended_at
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1)
	 WHERE f.one = 1`

// selectChecks reads of those that have not ended what a check needs.
const selectChecks = `
	SELECT ` + checkColumns + `
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1) AND a.phase < ` + sqlEnded + `
	 WHERE f.one = 1`

// selectStates reads what changes of an approval that lives. All the rest of it
// is known by then, and never changes again.
const selectStates = `
	SELECT f.version, a.id, a.generation, a.key_number, a.grant_kind, a.picks, a.personal, a.used_at
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1) AND a.phase = ` + sqlLive + `
	 WHERE f.one = 1`

// reads are the statements, by what of an approval is read.
var reads = [...]string{wholes: selectWholes, checks: selectChecks, states: selectStates}

// selectVersion reads no approval.
const selectVersion = `SELECT version FROM facts WHERE one = 1`

// read finds approvals as they stand, and sees that the facts in memory are no
// older than they. It is tried again once: a connection may have gone stale.
func (p *postgresEngine) read(ctx context.Context, r *reading) error {
	defer p.timed("check", time.Now())
	for try := 0; ; try++ {
		err := p.readOnce(ctx, r)
		if err == nil {
			return nil
		}
		if try == 1 || ctx.Err() != nil || !retryable(err) && !cut(err) {
			clear(r.rows) // memory may be older than they are
			return err
		}
		p.pool.Reset()
	}
}

func (p *postgresEngine) readOnce(ctx context.Context, r *reading) error {
	r.start(p.version())
	var rows pgx.Rows
	var err error
	if len(r.ids) == 0 {
		rows, err = p.pool.Query(ctx, selectVersion)
	} else {
		rows, err = p.pool.Query(ctx, reads[r.what], r.keys)
	}
	if err = p.take(r, rows, err); err != nil {
		return err
	}
	return p.learn(ctx, r)
}

// none is the version before it is read.
const none = -1

// take takes what a read has found, to its last row.
func (p *postgresEngine) take(r *reading, rows pgx.Rows, err error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	c := columns{fields: rows.FieldDescriptions()}
	for rows.Next() {
		c.next(rows.RawValues())
		r.seen.found = c.number()
		if c.at == len(c.values) || c.values[c.at] == nil {
			continue // the version alone
		}
		one, err := c.row(r)
		if err != nil {
			return err
		}
		r.rows[one.a.ID] = one
	}
	if err := rows.Err(); err != nil || r.seen.found != none {
		return err
	}
	return errNoFacts
}

// learn remembers what a read has found, once memory is no older.
func (p *postgresEngine) learn(ctx context.Context, r *reading) error {
	if p.version() < r.seen.found || r.seen.back() {
		// Those who ask next need it as well, and to load a million people takes
		// longer than anybody waits.
		if err := p.catchUp(context.WithoutCancel(ctx), r.seen, false); err != nil {
			return err
		}
	}
	p.found(r.began)
	p.rows.put(r)
	return nil
}

// errNoFacts is a database that was emptied: what is not in it has not ended.
var errNoFacts = errors.New("the database has been emptied")

// --- staleness

// found notes that memory was up to date at a moment.
func (p *postgresEngine) found(since int64) {
	for {
		old := p.asOf.Load()
		if old >= since || p.asOf.CompareAndSwap(old, since) {
			return
		}
	}
}

// Recent reports whether what the facts in memory allow may be allowed now,
// without asking. What they refuse may not be refused.
func (p *postgresEngine) Recent() bool {
	most := p.options.MaxStaleness
	return most > 0 && !p.outgrown.Load() && moment(time.Now())-p.asOf.Load() <= int64(most)
}
