package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Question asks for an approval as it stands, or for the facts alone. It is
// answered out of a read that began after it was asked.
type Question struct {
	id   approval.ID
	asks bool // for the approval
	row  *row // nil: there is none
	err  error
	Done chan struct{}
}

// MaxQuestions bounds how many approvals are read together.
const MaxQuestions = 512

func newQuestion() any { return &Question{Done: make(chan struct{}, 1)} }

// Ask waits for the answer, and gives up with ctx.
func (p *Engine) Ask(ctx context.Context, q *Question) error {
	if err := p.begin(q); err != nil {
		return err
	}
	return q.wait(ctx)
}

func (p *Engine) begin(q *Question) error {
	if err := p.tooOld(); err != nil {
		return err
	}
	if !p.Reads.Join(q, 0) {
		return fmt.Errorf("closing: %w", engine.ErrUnavailable)
	}
	return nil
}

// wait tells whoever has given up so, also where there is an answer by then.
func (q *Question) wait(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	select {
	case <-q.Done:
		return q.err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, ctx.Err())
	}
}

// Check is exact as of some moment after it was asked, or,
// with a bound on staleness, as of that long ago.
func (p *Engine) Check(ctx context.Context, id approval.ID) (engine.Access, error) {
	if most := p.Options.MaxStaleness; most > 0 && !p.outgrown.Load() {
		least := Moment(time.Now()) - int64(most)
		if r := p.Rows.Get(id); r != nil && r.Read.Load() >= least && p.AsOf.Load() >= least {
			access, err := p.access(r)
			access.Remembered = true
			return access, err
		}
	}
	return p.CheckNow(ctx, id)
}

// CheckNow is Check without what is remembered.
func (p *Engine) CheckNow(ctx context.Context, id approval.ID) (engine.Access, error) {
	r, err := p.ReadNow(ctx, id)
	if err != nil {
		return engine.Access{}, err
	}
	if r == nil {
		return engine.Access{}, engine.ErrNotFound
	}
	return p.access(r)
}

// ReadNow gives the row of an approval that has not ended, or nil, out of a
// read that begins now.
func (p *Engine) ReadNow(ctx context.Context, id approval.ID) (*row, error) {
	q := p.questions.Get().(*Question)
	q.id, q.asks = id, true
	if err := p.Ask(ctx, q); err != nil {
		return nil, err // it may still be answered: it is not used again
	}
	r := q.row
	*q = Question{Done: q.Done}
	p.questions.Put(q)
	return r, nil
}

// CheckAllNow asks all questions before it waits for the first answer.
func (p *Engine) CheckAllNow(ctx context.Context, all []engine.Asked) {
	asked := make([]*Question, len(all))
	for i := range all {
		q := &Question{id: all[i].Approval, asks: !all[i].ByKey, Done: make(chan struct{}, 1)}
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
			a.Access, a.Err = p.Memory.APIKey(a.Key)
		case q.row == nil:
			a.Err = engine.ErrNotFound
		default:
			a.Access, a.Err = p.access(q.row)
		}
	}
}

// access puts the facts beside an approval.
func (p *Engine) access(r *row) (engine.Access, error) {
	if r.A.Phase == approval.Ended {
		return engine.Access{}, engine.ErrNotFound
	}
	m := p.Memory
	m.RLock()
	defer m.RUnlock()
	u := r.Under.Load()
	if u == nil || u.Changes != m.Changes {
		u = m.Under(&r.A)
		r.Under.Store(u)
	}
	return u.Access(r.A, r.Used), nil
}

const (
	// MaxReaders bounds the groups that are read at once, each over a connection
	// of its own.
	MaxReaders = 8
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
func (p *Engine) answerReads() {
	var batch []*Question
	var read Reading
	pass := func() { p.readSlot <- struct{}{} }
	late := time.AfterFunc(time.Hour, pass)
	late.Stop()
	<-p.readSlot
	for {
		shares := p.Pace.shares()
		clear(batch)
		if batch = p.Reads.take(batch[:0], MaxQuestions, shares); len(batch) == 0 {
			pass()
			return
		}
		if shares == 1 {
			late.Reset(p.SlowRead)
		} else {
			pass()
		}
		start := time.Now()
		err := p.answer(batch, &read)
		p.Pace.took(time.Since(start))
		for _, q := range batch {
			q.err = err
			q.Done <- struct{}{}
		}
		if !late.Stop() { // another reader has the slot
			<-p.readSlot
		}
	}
}

// pace tells whether reads are slow, by the last dozen or so: one that was held
// up says nothing.
type pace struct {
	Average atomic.Int64 // nanoseconds; that two add at once loses one
	Slow    atomic.Bool
}

// shares is into how many groups what waits is to be divided.
func (c *pace) shares() int {
	if c.Slow.Load() {
		return MaxReaders
	}
	return 1
}

// took counts one.
func (c *pace) took(d time.Duration) {
	average := c.Average.Load()
	average += (int64(min(d, 4*slowRead)) - average) / 8
	c.Average.Store(average)
	switch {
	case average > int64(slowRead):
		c.Slow.Store(true)
	case average < int64(quickRead):
		c.Slow.Store(false)
	}
}

// answer answers questions out of one read.
func (p *Engine) answer(batch []*Question, read *Reading) error {
	read.Begin(Checks)
	p.Rows.mu.RLock()
	for _, q := range batch {
		if q.asks {
			read.Ask(q.id, p.Rows.at(q.id))
		}
	}
	p.Rows.mu.RUnlock()
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	if err := p.read(ctx, read); err != nil {
		return p.unavailable("read", err)
	}
	for _, q := range batch {
		if q.asks {
			q.row = read.Rows[q.id]
		}
	}
	return nil
}

// What of an approval is read.
const (
	Wholes = iota // all of it, for a move from any state
	Checks        // what Check gives
	States        // what can change, where all were read before, and lived
)

// Reading is what is read together. One goroutine uses it again and again.
type Reading struct {
	What  int
	known map[approval.ID]*row // who is asked for, and how they are remembered; nil is not at all
	ids   []approval.ID        // the same
	Keys  [][]byte             // the same, as pgx writes them
	Rows  map[approval.ID]*row // who was found
	Began int64                // moment
	seen  seen                 // the facts' versions
}

// Begin empties it.
func (r *Reading) Begin(what int) {
	if r.Rows == nil {
		r.known, r.Rows = map[approval.ID]*row{}, map[approval.ID]*row{}
	}
	clear(r.known)
	clear(r.Rows)
	r.What, r.ids, r.Keys = what, r.ids[:0], r.Keys[:0]
}

// Ask adds an approval, with what is remembered of it or nil.
func (r *Reading) Ask(id approval.ID, known *row) {
	if _, twice := r.known[id]; twice {
		return
	}
	r.known[id] = known
	r.ids = append(r.ids, id)
}

// Start is called before each try: memory's facts have the version.
func (r *Reading) Start(version int64) {
	clear(r.Rows)
	r.Began, r.seen = Moment(time.Now()), seen{before: version, found: none}
	r.Keys = r.Keys[:0]
	remembered := len(r.ids) > 0
	for i := range r.ids {
		r.Keys = append(r.Keys, r.ids[i][:])
		remembered = remembered && r.known[r.ids[i]] != nil
	}
	if r.What == Checks && remembered {
		r.What = States
	}
}

// checkColumns are what a check needs, behind the version.
const checkColumns = `f.version, a.id, a.client, a.person, a.organization, a.grant_kind, a.picks, a.personal,
	       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch,
	       a.phase, a.generation, a.key_number, a.network, a.issued_at, a.used_at, a.ends_at, a.bound`

// selectWholes reads approvals and the facts' version in one snapshot.
const selectWholes = `
	SELECT ` + checkColumns + `,
	       a.redirect_uri, a.issuer, a.challenge, a.created_at, a.replaces, a.reason, a.ended_at
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1)
	 WHERE f.one = 1`

// selectChecks reads of those that have not ended what a check needs.
const selectChecks = `
	SELECT ` + checkColumns + `
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1) AND a.phase < ` + engine.SQLEnded + `
	 WHERE f.one = 1`

// selectStates reads what changes of an approval that lives. All the rest of it
// is known by then, and never changes again.
const selectStates = `
	SELECT f.version, a.id, a.generation, a.key_number, a.grant_kind, a.picks, a.personal, a.used_at, a.ends_at
	  FROM facts f LEFT JOIN approval a ON a.id = ANY($1) AND a.phase = ` + engine.SQLLive + `
	 WHERE f.one = 1`

// Reads are the statements, by what of an approval is read.
var Reads = [...]string{Wholes: selectWholes, Checks: selectChecks, States: selectStates}

// selectVersion reads no approval.
const selectVersion = `SELECT version FROM facts WHERE one = 1`

// read finds approvals as they stand, and sees that the facts in memory are no
// older than they. It is tried again once: a connection may have gone stale.
func (p *Engine) read(ctx context.Context, r *Reading) error {
	defer p.Timed("check", time.Now())
	for try := 0; ; try++ {
		err := p.readOnce(ctx, r)
		if err == nil {
			return nil
		}
		if try == 1 || ctx.Err() != nil || !retryable(err) && !cut(err) {
			clear(r.Rows) // memory may be older than they are
			return err
		}
		p.Pool.Reset()
	}
}

func (p *Engine) readOnce(ctx context.Context, r *Reading) error {
	r.Start(p.Version())
	var rows pgx.Rows
	var err error
	if len(r.ids) == 0 {
		rows, err = p.Pool.Query(ctx, selectVersion)
	} else {
		rows, err = p.Pool.Query(ctx, Reads[r.What], r.Keys)
	}
	if err = p.Take(r, rows, err); err != nil {
		return err
	}
	return p.learn(ctx, r)
}

// none is the version before it is read.
const none = -1

// Take takes what a read has found, to its last row.
func (p *Engine) Take(r *Reading, rows pgx.Rows, err error) error {
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
		r.Rows[one.A.ID] = one
	}
	if err := rows.Err(); err != nil || r.seen.found != none {
		return err
	}
	return errNoFacts
}

// learn remembers what a read has found, once memory is no older.
func (p *Engine) learn(ctx context.Context, r *Reading) error {
	if p.Version() < r.seen.found || r.seen.back() {
		// Those who ask next need it as well, and to load a million people takes
		// longer than anybody waits.
		if err := p.catchUp(context.WithoutCancel(ctx), r.seen, false); err != nil {
			return err
		}
	}
	p.found(r.Began)
	p.Rows.Put(r)
	return nil
}

// errNoFacts is a database that was emptied: what is not in it has not ended.
var errNoFacts = errors.New("the database has been emptied")

// --- staleness

// found notes that memory was up to date at a moment.
func (p *Engine) found(since int64) {
	for {
		old := p.AsOf.Load()
		if old >= since || p.AsOf.CompareAndSwap(old, since) {
			return
		}
	}
}

// Recent reports whether what the facts in memory allow may be allowed now,
// without asking. What they refuse may not be refused.
func (p *Engine) Recent() bool {
	most := p.Options.MaxStaleness
	return most > 0 && !p.outgrown.Load() && Moment(time.Now())-p.AsOf.Load() <= int64(most)
}
