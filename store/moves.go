package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// moveRequest is a move that waits.
type moveRequest struct {
	id    approval.ID
	move  approval.Move
	live  bool      // the move asks nothing of the code
	row   *row      // of a live move: the approval, read since it was asked for
	tries int       // how often it was computed in vain
	since time.Time // when it came
	act   Act

	result  approval.Approval
	verdict approval.Verdict
	err     error
	done    chan struct{}
}

var moveRequests = sync.Pool{New: func() any { return &moveRequest{done: make(chan struct{}, 1)} }}

// Move makes a move together with others that wait.
func (p *postgresEngine) Move(id approval.ID, m approval.Move, live bool, act Act) (approval.Approval, approval.Verdict, error) {
	leave, err := p.enter()
	if err != nil {
		return approval.Approval{}, 0, err
	}
	defer leave()
	o := moveRequests.Get().(*moveRequest)
	o.id, o.move, o.live, o.act = id, approval.GivenTo(networkOf(act.Address), m), live, act
	if err = p.lookUp(o); err == nil {
		p.moves.join(o)
		<-o.done
		err = o.err
	}
	a, v := o.result, o.verdict
	if err == nil || !errors.Is(err, ErrUnavailable) {
		*o = moveRequest{done: o.done}
		moveRequests.Put(o)
	}
	return a, v, err
}

// moveQueue is the queue of moves. Of one approval at most one is under way; the
// next is computed from the row as that one leaves it.
type moveQueue struct {
	queue[*moveRequest]
	underWay map[approval.ID][]*moveRequest // with those that wait for it
}

func (q *moveQueue) init() {
	q.queue.init()
	q.underWay = map[approval.ID][]*moveRequest{}
}

func (q *moveQueue) join(o *moveRequest) {
	o.since = time.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	behind, busy := q.underWay[o.id]
	if busy {
		q.underWay[o.id] = append(behind, o)
		return
	}
	q.underWay[o.id] = nil
	q.add(o)
}

// add enqueues a move that is under way; the caller holds the lock.
func (q *moveQueue) add(o *moveRequest) {
	q.items = append(q.items, o)
	q.wake.Signal()
}

// again lets a move be made once more.
func (q *moveQueue) again(o *moveRequest) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(o)
}

// finish answers the caller, and lets the next move of the approval go.
func (q *moveQueue) finish(o *moveRequest) {
	q.mu.Lock()
	if behind := q.underWay[o.id]; len(behind) > 0 {
		q.underWay[o.id] = behind[1:]
		q.add(behind[0])
	} else {
		delete(q.underWay, o.id)
	}
	q.mu.Unlock()
	o.done <- struct{}{}
}

// moveWorkers bounds the groups of moves that are made at once: while one reads, the other
// saves.
const moveWorkers = 2

// makeMoves makes the moves that wait, together, until the queue is closed.
func (p *postgresEngine) makeMoves() {
	var group []*moveRequest
	for {
		clear(group)
		if group = p.moves.take(group[:0], maxBatch, 1); len(group) == 0 {
			return
		}
		p.makeTogether(group)
	}
}

// makeTogether reads rows, and saves what the moves make of them. One that has waited
// for long is refused: while the database hangs, nobody shall wait for all who came before.
func (p *postgresEngine) makeTogether(group []*moveRequest) {
	r, err := p.readFor(group)
	var saves []moved
	for _, o := range group {
		at := o.row
		if at == nil {
			at = r.rows[o.id]
		}
		switch {
		case time.Since(o.since) > 2*p.patience:
			p.refuse(o, fmt.Errorf("waiting for the moves before: %w", ErrUnavailable))
		case at == nil && err != nil:
			p.refuse(o, err)
		case o.row == nil && r.what == checks && (at == nil || at.a.Phase != approval.Live):
			o.live = false // all of the row is needed
			p.moves.again(o)
		case at == nil:
			p.refuse(o, fmt.Errorf("approval %s: %w", o.id, ErrNotFound))
		default:
			saves = p.compute(saves, o, at)
		}
	}
	if len(saves) > 0 {
		p.saveMoves(saves)
	}
}

// readFor reads the rows of moves that do not have them: of those that ask nothing of
// the code, what a check needs.
func (p *postgresEngine) readFor(group []*moveRequest) (r reading, err error) {
	r.begin(checks)
	for _, o := range group {
		if o.row == nil {
			r.ask(o.id, nil)
			if !o.live {
				r.what = wholes
			}
		}
	}
	if len(r.ids) == 0 {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.patience)
	defer cancel()
	start := time.Now()
	err = p.unavailable("move", p.read(ctx, &r))
	p.pace.took(time.Since(start))
	return r, err
}

// compute makes a move from its row, as it was read, and answers what changes
// nothing. One that ends others with it is made alone.
func (p *postgresEngine) compute(saves []moved, o *moveRequest, at *row) []moved {
	m, alone := p.move(o, at)
	switch {
	case alone:
		go p.moveAlone(o)
	case m.after != m.before:
		return append(saves, m)
	default:
		p.moves.finish(o)
	}
	return saves
}

// saveMoves saves moves, and has those made again whose rows have changed meanwhile.
func (p *postgresEngine) saveMoves(saves []moved) {
	start := time.Now()
	hit, err := p.save(saves)
	undone := err != nil && retryable(err)
	if !undone {
		err = p.unavailable("move", err)
	}
	for i := range saves {
		m := &saves[i]
		switch {
		case undone || err == nil && !hit[m.o.id]:
			p.again(m.o)
		case err != nil:
			p.refuse(m.o, err)
		default:
			p.rows.moved(m.o.id, m.after, m.used, moment(start))
			p.tell(m.entries())
			p.moves.finish(m.o)
		}
	}
}

// again has a move computed from its row once more: what was to save it was undone,
// or its row has changed. If that goes on, it is made alone, with the row held.
func (p *postgresEngine) again(o *moveRequest) {
	o.row = nil
	if o.tries++; o.tries == maxTries {
		go p.moveAlone(o)
		return
	}
	p.moves.again(o)
}

// refuse answers a move with an error: the caller can rely on nothing.
func (p *postgresEngine) refuse(o *moveRequest, err error) {
	o.err = err
	p.rows.drop(o.id)
	p.moves.finish(o)
}

// lookUp reads the row of a live move while reads are slow, as a check does: side by
// side with others. What does not live is read whole, later.
func (p *postgresEngine) lookUp(o *moveRequest) error {
	if !o.live || !p.pace.slow.Load() {
		return nil
	}
	r, err := p.readNow(context.Background(), o.id)
	if err == nil && r != nil && r.a.Phase == approval.Live {
		o.row = r
	}
	return err
}
