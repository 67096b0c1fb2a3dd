package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// moveLine is where moves wait. Of one approval at most one is under way; the
// next is computed from the row as that one leaves it.
type moveLine struct {
	line[*operation]
	underWay map[approval.ID][]*operation // with those that wait for it
}

func (l *moveLine) init() {
	l.line.init()
	l.underWay = map[approval.ID][]*operation{}
}

func (l *moveLine) join(o *operation) {
	o.since = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	behind, busy := l.underWay[o.id]
	if busy {
		l.underWay[o.id] = append(behind, o)
		return
	}
	l.underWay[o.id] = nil
	l.waits = append(l.waits, o)
	l.wake.Signal()
}

// finish answers the caller, and lets the next move of the approval go.
func (l *moveLine) finish(o *operation) {
	l.mu.Lock()
	if behind := l.underWay[o.id]; len(behind) > 0 {
		l.underWay[o.id] = behind[1:]
		l.waits = append(l.waits, behind[0])
		l.wake.Signal()
	} else {
		delete(l.underWay, o.id)
	}
	l.mu.Unlock()
	o.done <- struct{}{}
}

// trip is what moves ask of the database together: those whose rows are known are
// saved, and the rows of those that came after them are read.
type trip struct {
	saves []moved
	reads []*operation
	late  bool // the one before took long: it is to be seen whether to read does
}

func (t *trip) empty() bool { return len(t.saves) == 0 && len(t.reads) == 0 }

// makers bounds the trips that are under way at once.
const makers = 2

// makeMoves makes the moves that wait, until the line is closed. Who has nothing
// under way waits for the turn: a trip that only saves keeps it, because two
// would save smaller groups, and one that reads as well, which takes longer, gives
// it on.
func (p *shared) makeMoves() {
	var come []*operation
	var now trip
	for {
		clear(come)
		turn := now.empty()
		if turn {
			<-p.moveTurn
			come = p.moves.take(come[:0], maxBatch, 1)
		} else {
			come = p.moves.taken(come[:0], maxBatch)
		}
		for _, o := range come {
			p.board(&now, o)
		}
		if turn && (len(now.reads) > 0 || len(come) == 0) {
			turn = false
			p.moveTurn <- struct{}{}
		}
		if now.empty() && len(come) == 0 {
			return
		}
		now = p.make(&now)
		if turn {
			p.moveTurn <- struct{}{}
		}
	}
}

// board gives a move that has come its place. One that is computed from what is
// remembered is saved only if row and facts still are what they were; one that would
// change nothing then is computed again, from the row. One that has waited for long is
// refused: while the database hangs, nobody shall wait for all who came before.
func (p *shared) board(t *trip, o *operation) {
	if time.Since(o.since) > 2*p.patience {
		p.refuse(o, fmt.Errorf("waiting for the moves before: %w", ErrUnavailable))
		return
	}
	if o.row != nil {
		p.compute(t, o, o.row)
		return
	}
	if at := p.rows.get(o.id); at != nil && o.live {
		if m, alone := p.move(o, at); !alone && m.after != m.before {
			t.saves = append(t.saves, m)
			return
		}
	}
	t.reads = append(t.reads, o)
}

// compute makes a move from its row, as it was read, and answers what changes
// nothing.
func (p *shared) compute(t *trip, o *operation, at *row) {
	m, alone := p.move(o, at)
	switch {
	case alone:
		go p.moveAlone(o)
	case m.after != m.before:
		m.version = unguarded
		t.saves = append(t.saves, m)
	default:
		p.moves.finish(o)
	}
}

// make makes a trip, and gives what it leaves to the next.
func (p *shared) make(t *trip) (next trip) {
	r, start := t.reading(), time.Now()
	hit, read, err := p.saveAndRead(t, r)
	next.late = time.Since(start) > p.slowRead
	undone := err != nil && retryable(err)
	if !undone {
		err = p.unavailable("move", err)
	}
	for i := range t.saves {
		m := &t.saves[i]
		switch {
		case undone:
			p.again(&next, m.o)
		case err != nil:
			p.refuse(m.o, err)
		case !hit[m.o.id]:
			p.again(&next, m.o)
		default:
			p.rows.moved(m.o.id, m.after, m.used, moment(start))
			p.tell(m.entries())
			p.moves.finish(m.o)
		}
	}
	if len(t.reads) == 0 {
		return next
	}
	patience := p.patience
	held := errors.Is(err, context.DeadlineExceeded) // somebody holds a row, or the database hangs
	if held {
		patience /= 5
	}
	if err == nil || undone || held || cut(err) {
		err = p.unavailable("move", p.endReading(r, read, patience))
	}
	for _, o := range t.reads {
		p.arrive(&next, o, r, err)
	}
	return next
}

// arrive computes a move from what was read.
func (p *shared) arrive(next *trip, o *operation, r *reading, err error) {
	at := r.rows[o.id]
	switch {
	case err != nil:
		p.refuse(o, err)
	case r.what == checks && (at == nil || at.a.Phase != approval.Live):
		o.live = false // all of the row is needed
		p.again(next, o)
	case at == nil:
		p.refuse(o, fmt.Errorf("approval %s: %w", o.id, ErrNotFound))
	default:
		p.compute(next, o, at)
	}
}

// reading is what is to be read: of moves that ask nothing of the code, what a
// check needs.
func (t *trip) reading() *reading {
	var r reading
	r.begin(checks)
	for _, o := range t.reads {
		if !o.live {
			r.what = wholes
		}
		r.ask(o.id, nil)
	}
	return &r
}

// again has a move computed from its row once more: what was to save it was undone,
// or its row has changed. If that goes on, it is made alone, with the row held.
func (p *shared) again(t *trip, o *operation) {
	if o.tries++; o.tries == maxTries {
		go p.moveAlone(o)
		return
	}
	t.reads = append(t.reads, o)
}

// refuse answers a move with an error: the caller can rely on nothing.
func (p *shared) refuse(o *operation, err error) {
	o.err = err
	p.rows.drop(o.id)
	p.moves.finish(o)
}

// lookUp reads the row of a live move that is not remembered while reads are slow, as
// a check does: side by side with others. What does not live is read whole, later.
func (p *shared) lookUp(o *operation) error {
	if !o.live || !p.pace.slow.Load() || p.rows.get(o.id) != nil {
		return nil
	}
	r, err := p.readNow(context.Background(), o.id)
	if err == nil && r != nil && r.a.Phase == approval.Live {
		o.row = r
	}
	return err
}
