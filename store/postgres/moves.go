package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// MoveRequest is a move that waits.
type MoveRequest struct {
	ID    approval.ID
	Move  approval.Move
	Live  bool      // the move asks nothing of the code
	Row   *row      // of a live move: the approval, read since it was asked for
	Tries int       // how often it was computed in vain
	Since time.Time // when it came
	Act   engine.Act

	Result  approval.Approval
	Verdict approval.Verdict
	Err     error
	Done    chan struct{}
}

func newMoveRequest() any { return &MoveRequest{Done: make(chan struct{}, 1)} }

// Move makes a move together with others that wait.
func (p *Engine) Move(id approval.ID, m approval.Move, live bool, act engine.Act) (approval.Approval, approval.Verdict, error) {
	leave, err := p.enter()
	if err != nil {
		return approval.Approval{}, 0, err
	}
	defer leave()
	o := p.moveRequests.Get().(*MoveRequest)
	o.ID, o.Move, o.Live, o.Act = id, act.On(m), live, act
	if err = p.LookUp(o); err == nil {
		p.Moves.Join(o)
		<-o.Done
		err = o.Err
	}
	a, v := o.Result, o.Verdict
	if err == nil || !errors.Is(err, engine.ErrUnavailable) {
		*o = MoveRequest{Done: o.Done}
		p.moveRequests.Put(o)
	}
	return a, v, err
}

// moveQueue is the queue of moves. Of one approval at most one is under way; the
// next is computed from the row as that one leaves it.
type moveQueue struct {
	queue[*MoveRequest]
	underWay map[approval.ID][]*MoveRequest // with those that wait for it
}

func (q *moveQueue) init() {
	q.queue.init()
	q.underWay = map[approval.ID][]*MoveRequest{}
}

// Join adds a move, behind those of its approval.
func (q *moveQueue) Join(o *MoveRequest) {
	o.Since = time.Now()
	q.Mu.Lock()
	defer q.Mu.Unlock()
	behind, busy := q.underWay[o.ID]
	if busy {
		q.underWay[o.ID] = append(behind, o)
		return
	}
	q.underWay[o.ID] = nil
	q.add(o)
}

// add enqueues a move that is under way; the caller holds the lock.
func (q *moveQueue) add(o *MoveRequest) {
	q.Items = append(q.Items, o)
	q.wake.Signal()
}

// again lets a move be made once more.
func (q *moveQueue) again(o *MoveRequest) {
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.add(o)
}

// finish answers the caller, and lets the next move of the approval go.
func (q *moveQueue) finish(o *MoveRequest) {
	q.Mu.Lock()
	if behind := q.underWay[o.ID]; len(behind) > 0 {
		q.underWay[o.ID] = behind[1:]
		q.add(behind[0])
	} else {
		delete(q.underWay, o.ID)
	}
	q.Mu.Unlock()
	o.Done <- struct{}{}
}

// moveWorkers bounds the groups of moves that are made at once: while one reads, the other
// saves.
const moveWorkers = 2

// makeMoves makes the moves that wait, together, until the queue is closed.
func (p *Engine) makeMoves() {
	var group []*MoveRequest
	for {
		clear(group)
		if group = p.Moves.take(group[:0], engine.MaxBatch, 1); len(group) == 0 {
			return
		}
		p.MakeTogether(group)
	}
}

// MakeTogether reads rows, and saves what the moves make of them. One that has waited
// for long is refused: while the database hangs, nobody shall wait for all who came before.
func (p *Engine) MakeTogether(group []*MoveRequest) {
	r, err := p.readFor(group)
	var saves []moved
	for _, o := range group {
		at := o.Row
		if at == nil {
			at = r.Rows[o.ID]
		}
		switch {
		case time.Since(o.Since) > 2*p.Patience:
			p.refuse(o, fmt.Errorf("waiting for the moves before: %w", engine.ErrUnavailable))
		case at == nil && err != nil:
			p.refuse(o, err)
		case o.Row == nil && r.What == Checks && (at == nil || at.A.Phase != approval.Live):
			o.Live = false // all of the row is needed
			p.Moves.again(o)
		case at == nil:
			p.refuse(o, fmt.Errorf("approval %s: %w", o.ID, engine.ErrNotFound))
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
func (p *Engine) readFor(group []*MoveRequest) (r Reading, err error) {
	r.Begin(Checks)
	for _, o := range group {
		if o.Row == nil {
			r.Ask(o.ID, nil)
			if !o.Live {
				r.What = Wholes
			}
		}
	}
	if len(r.ids) == 0 {
		return r, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.Patience)
	defer cancel()
	start := time.Now()
	err = p.unavailable("move", p.read(ctx, &r))
	p.Pace.took(time.Since(start))
	return r, err
}

// compute makes a move from its row, as it was read, and answers what changes
// nothing. One that ends others with it is made alone.
func (p *Engine) compute(saves []moved, o *MoveRequest, at *row) []moved {
	m, alone := p.move(o, at)
	switch {
	case alone:
		go p.moveAlone(o)
	case m.After != m.Before:
		return append(saves, m)
	default:
		p.Moves.finish(o)
	}
	return saves
}

// saveMoves saves moves, and has those made again whose rows have changed meanwhile.
func (p *Engine) saveMoves(saves []moved) {
	start := time.Now()
	hit, err := p.save(saves)
	undone := err != nil && retryable(err)
	if !undone {
		err = p.unavailable("move", err)
	}
	for i := range saves {
		m := &saves[i]
		switch {
		case undone || err == nil && !hit[m.o.ID]:
			if m.o.Act.Proof.Given() {
				m.o.Tries = engine.MaxTries - 1 // made alone it is told whether its proof was used before
			}
			p.again(m.o)
		case err != nil:
			p.refuse(m.o, err)
		default:
			p.Rows.moved(m.o.ID, m.After, m.Used, Moment(start))
			p.tell(m.entries())
			p.Moves.finish(m.o)
		}
	}
}

// again has a move computed from its row once more: what was to save it was undone,
// or its row has changed. If that goes on, it is made alone, with the row held.
func (p *Engine) again(o *MoveRequest) {
	o.Row = nil
	if o.Tries++; o.Tries == engine.MaxTries {
		go p.moveAlone(o)
		return
	}
	p.Moves.again(o)
}

// refuse answers a move with an error: the caller can rely on nothing.
func (p *Engine) refuse(o *MoveRequest, err error) {
	o.Err = err
	p.Rows.Drop(o.ID)
	p.Moves.finish(o)
}

// LookUp reads the row of a live move while reads are slow, as a check does: side by
// side with others. What does not live is read whole, later.
func (p *Engine) LookUp(o *MoveRequest) error {
	if !o.Live || !p.Pace.Slow.Load() {
		return nil
	}
	r, err := p.ReadNow(context.Background(), o.ID)
	if err == nil && r != nil && r.A.Phase == approval.Live {
		o.Row = r
	}
	return err
}
