package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// writer is the only one who writes. It takes whatever waits, runs it in one
// transaction, and answers all after the commit: a caller waits for its own
// durable commit, never for a timer. Only its goroutine touches the
// connection, and only it changes memory.
type writer struct {
	*engine.Env
	engine.Gate
	files      *files
	db         *sql.DB
	Conn       *sql.Conn
	statements map[string]*sql.Stmt

	Queue chan *Operation
	Notes chan *Operation // nobody waits for these
	held  []*Operation    // taken from the queue, but belong to later batches

	open     bool // a transaction is
	wide     bool // roomy is on
	reader   *sql.DB
	beside   beside
	throttle throttle // of a long change
	log      walLog

	operations sync.Pool // of those that move
}

// Operation is a move of one approval, or any other change.
type Operation struct {
	ID   approval.ID
	Move approval.Move // with id
	live bool          // the move asks nothing of the code: no row is read
	act  engine.Act

	run func(*engine.Tx) error // makes a change; an error undoes this one alone
	// lost is told when a note could not be written.
	lost func()
	// alone keeps a change out of batches: it alters facts that other
	// operations of a batch would read from memory.
	alone bool
	// long is a change alone that takes seconds: refreshes are saved beside it.
	long bool

	result  approval.Approval
	verdict approval.Verdict
	Err     error
	done    chan struct{}
}

func newWriter(env *engine.Env, files *files, db *sql.DB, conn *sql.Conn) *writer {
	return &writer{
		Env: env, files: files, db: db, Conn: conn, statements: map[string]*sql.Stmt{},
		Queue: make(chan *Operation, engine.MaxBatch), Notes: make(chan *Operation, 4096), Gate: engine.Gate{Closed: make(chan struct{})},
		beside:     beside{moved: map[approval.ID]engine.Transition{}, spent: map[[sha256.Size]byte]int64{}},
		operations: sync.Pool{New: func() any { return &Operation{done: make(chan struct{}, 1)} }},
	}
}

// do hands an operation to the writer and waits for its commit.
func (w *writer) do(o *Operation) error {
	leave, err := w.Enter()
	if err != nil {
		return err
	}
	defer leave()
	w.Queue <- o
	<-o.done
	return o.Err
}

// move makes a move in the batch that is next.
func (w *writer) move(id approval.ID, m approval.Move, live bool, act engine.Act) (approval.Approval, approval.Verdict, error) {
	o := w.operations.Get().(*Operation)
	o.ID, o.Move, o.live, o.act = id, act.On(m), live, act
	err := w.do(o)
	a, v := o.result, o.verdict
	if err == nil || !errors.Is(err, engine.ErrUnavailable) {
		*o = Operation{done: o.done}
		w.operations.Put(o)
	}
	return a, v, err
}

func (w *writer) run() {
	batch := make([]*Operation, 0, engine.MaxBatch)
	var err error // of the last settle
	for {
		if err == nil {
			err = w.settle() // before gather, so that no operation waits for it
		}
		if batch = w.gather(batch[:0]); err != nil {
			err = w.settle() // again, now that somebody asks
		}
		if err != nil && len(batch) > 0 {
			refuse(batch, err)
			continue
		}
		switch {
		case len(batch) == 0:
			w.commit([]*Operation{{run: (*engine.Tx).SaveTime}})
			return
		case batch[0].long:
			w.commitLong(batch[0])
			w.log.apart()
		default:
			w.commit(batch)
		}
		w.log.tend()
	}
}

// refuse answers all of a batch with an error.
func refuse(batch []*Operation, err error) {
	for _, o := range batch {
		if o.Err = err; o.done != nil {
			o.done <- struct{}{}
		} else if o.lost != nil {
			o.lost()
		}
	}
}

// gather waits for one operation, then takes what else is there. An
// operation that must be alone is a batch of its own. It gives none when the
// writer is closed and its queues are empty.
func (w *writer) gather(batch []*Operation) []*Operation {
	var first *Operation
	if len(w.held) > 0 {
		first = w.unhold()
	} else {
		select {
		case first = <-w.Queue: // before what nobody waits for
		default:
		}
	}
	if first == nil {
		select {
		case first = <-w.Queue:
		case first = <-w.Notes:
		case <-w.Closed:
			select {
			case first = <-w.Queue:
			case first = <-w.Notes:
			default:
				return batch
			}
		}
	}
	batch = append(batch, first)
	if first.alone {
		return batch
	}
	for len(batch) < engine.MaxBatch {
		var next *Operation
		if len(w.held) > 0 {
			next = w.unhold()
		} else {
			select {
			case next = <-w.Queue:
			default:
				select {
				case next = <-w.Notes:
				default:
					return batch
				}
			}
		}
		if next.alone || next.Move != nil && holds(batch, next.ID) {
			w.held = append([]*Operation{next}, w.held...)
			return batch
		}
		batch = append(batch, next)
	}
	return batch
}

// unhold gives the first of those that are held.
func (w *writer) unhold() *Operation {
	first := w.held[0]
	if w.held = w.held[1:]; len(w.held) == 0 {
		w.held = nil
	}
	return first
}

// holds reports whether a move of the approval stands in the batch already:
// the next is computed from the new row.
func holds(batch []*Operation, id approval.ID) bool {
	for _, o := range batch {
		if o.Move != nil && o.ID == id {
			return true
		}
	}
	return false
}

// commit runs a batch in one transaction. Memory changes only after the
// durable commit, and not at all if it fails.
func (w *writer) commit(batch []*Operation) {
	tx := engine.NewTx(context.Background(), w.Env, w.Conn, w)
	start := time.Now()
	w.finish(tx, batch, start, w.runBatch(tx, batch))
}

// finish commits what a batch has done, unless it failed, and answers all.
func (w *writer) finish(tx *engine.Tx, batch []*Operation, start time.Time, err error) {
	settled := func() {}
	if batch[0].alone && len(tx.Changes) > 0 {
		// Rows can be read from the commit on, facts a little later: hold off whoever
		// has read rows and is about to see that the facts are still the same.
		w.Memory.Settling.Lock()
		settled = w.Memory.Settling.Unlock
	}
	if w.open {
		w.Timed("group", start)
		if err == nil {
			start = time.Now()
			err = w.end()
			w.Timed("commit", start)
		} else {
			w.rollback()
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", engine.ErrUnavailable, damaged(err))
		w.Log.Error("a commit failed; nothing of it stands", w.mend("operations", len(batch), "err", err)...)
	}
	if err == nil {
		w.Memory.Lock()
		tx.Apply()
		w.Memory.Unlock()
	}
	settled()
	var notes []*Operation // an operation that is answered is its caller's again
	for _, o := range batch {
		if err != nil {
			o.Err = err
		}
		if o.done != nil {
			o.done <- struct{}{}
		} else {
			notes = append(notes, o)
		}
	}
	if err != nil {
		w.noteAgain(notes, len(batch))
	}
	if told := w.Options.Journaled; err == nil && told != nil {
		for _, e := range tx.Events {
			told(e)
		}
	}
}

// noteAgain writes the notes of a batch that failed, without those who waited:
// nobody else would. Those that were alone already are lost.
func (w *writer) noteAgain(notes []*Operation, of int) {
	if len(notes) < of && len(notes) > 0 {
		w.commit(notes)
		return
	}
	for _, o := range notes {
		if o.lost != nil {
			o.lost()
		}
	}
}

// runBatch gives an error when the whole batch must be undone.
func (w *writer) runBatch(tx *engine.Tx, batch []*Operation) error {
	for _, o := range batch {
		var err error
		if o.Move != nil {
			err = o.MakeMove(tx)
		} else {
			err = w.makeChange(tx, o)
		}
		if err != nil {
			return err
		}
	}
	if w.open && w.Now().Unix() > w.Clock.Saved.Load() {
		return tx.SaveTime()
	}
	return nil
}

// MakeMove makes the operation's move. What concerns it alone is left in it; what
// comes after its row was saved undoes the batch, since no savepoint could.
func (o *Operation) MakeMove(tx *engine.Tx) error {
	var moved bool
	var err error
	o.result, o.verdict, moved, err = tx.Move(o.ID, o.Move, o.live, o.act)
	if !moved && (errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrUnavailable)) {
		o.Err, err = err, nil
	}
	return err
}

// makeChange runs one change inside a savepoint, so that its refusal leaves the
// others of the batch alone. One that has the transaction to itself has none: within
// one, every statement takes the longer the more pages were changed before it.
func (w *writer) makeChange(tx *engine.Tx, o *Operation) error {
	if err := w.begin(); err != nil {
		return err
	}
	if !o.alone {
		if _, err := tx.Exec(`SAVEPOINT change`); err != nil {
			return err
		}
	}
	mark := tx.Mark()
	if o.Err = engine.RunSafely(tx, o.run); o.Err != nil && !engine.Refusal(o.Err) {
		return o.Err
	}
	if o.Err != nil {
		tx.Back(mark)
	}
	switch {
	case o.alone && o.Err != nil:
		w.rollback()
		return nil
	case o.alone:
		return nil
	case o.Err != nil:
		if _, err := tx.Exec(`ROLLBACK TO change`); err != nil {
			return err
		}
	}
	_, err := tx.Exec(`RELEASE change`)
	return err
}

// begin opens the transaction of a batch at its first write.
func (w *writer) begin() error {
	if w.open {
		return nil
	}
	if _, err := w.runText(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	w.open = true
	return nil
}

func (w *writer) end() error {
	err := w.files.inPlace()
	if err == nil {
		_, err = w.runText(`COMMIT`)
	}
	if err != nil {
		w.rollback()
		return err
	}
	w.open = false
	return nil
}

// rollback also serves when the engine has rolled back by itself, as SQLite
// does when the disk is full.
func (w *writer) rollback() {
	if _, err := w.runText(`ROLLBACK`); err != nil {
		w.Log.Debug("rollback", "err", err)
	}
	w.open = false
	w.Clock.Saved.Store(0)
}

// atStart is for the start, before the writer runs.
func (w *writer) atStart(ctx context.Context, f func(*engine.Tx) error) error {
	if err := f(engine.NewTx(ctx, w.Env, w.Conn, w)); err != nil {
		if w.open {
			w.rollback()
		}
		return err
	}
	if w.open {
		return w.end()
	}
	return nil
}
