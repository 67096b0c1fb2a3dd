package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// maxBatch bounds how many operations share a commit.
const maxBatch = 256

// writer is the only one who writes. It takes whatever waits, runs it in one
// transaction, and answers all after the commit: a caller waits for its own
// durable commit, never for a timer. Only its goroutine touches the
// connection, and only it changes memory.
type writer struct {
	*env
	gate
	files      *files
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt

	queue chan *operation
	notes chan *operation // nobody waits for these
	held  *operation      // taken from the queue, but belongs to the next batch

	open bool // a transaction is
	wide bool // roomy is on
}

// operation is a move of one approval, or any other change.
type operation struct {
	id   approval.ID
	move approval.Move // with id
	live bool          // the move asks nothing of the code: no row is read
	act  Act

	run func(*txn) error // makes a change; an error undoes this one alone
	// lost is told when a note could not be written.
	lost func()
	// alone keeps a change out of batches: it alters facts that other
	// operations of a batch would read from memory.
	alone bool

	result  approval.Approval
	verdict approval.Verdict
	err     error
	done    chan struct{}
}

func newWriter(env *env, files *files, db *sql.DB, conn *sql.Conn) *writer {
	return &writer{
		env: env, files: files, db: db, conn: conn, statements: map[string]*sql.Stmt{},
		queue: make(chan *operation, maxBatch), notes: make(chan *operation, 4096), gate: gate{closed: make(chan struct{})},
	}
}

var operations = sync.Pool{New: func() any { return &operation{done: make(chan struct{}, 1)} }}

// do hands an operation to the writer and waits for its commit.
func (w *writer) do(o *operation) error {
	leave, err := w.enter()
	if err != nil {
		return err
	}
	defer leave()
	w.queue <- o
	<-o.done
	return o.err
}

// move makes a move in the batch that is next.
func (w *writer) move(id approval.ID, m approval.Move, live bool, act Act) (approval.Approval, approval.Verdict, error) {
	o := operations.Get().(*operation)
	o.id, o.move, o.live, o.act = id, approval.GivenTo(networkOf(act.Address), m), live, act
	err := w.do(o)
	a, v := o.result, o.verdict
	if err == nil || !errors.Is(err, ErrUnavailable) {
		*o = operation{done: o.done}
		operations.Put(o)
	}
	return a, v, err
}

func (w *writer) run() {
	batch := make([]*operation, 0, maxBatch)
	for {
		batch = w.gather(batch[:0])
		if len(batch) == 0 {
			w.commit([]*operation{{run: (*txn).saveTime}})
			return
		}
		w.commit(batch)
	}
}

// gather waits for one operation, then takes what else is there. An
// operation that must be alone is a batch of its own. It gives none when the
// writer is closed and its queues are empty.
func (w *writer) gather(batch []*operation) []*operation {
	first := w.held
	w.held = nil
	if first == nil {
		select {
		case first = <-w.queue:
		case first = <-w.notes:
		case <-w.closed:
			select {
			case first = <-w.queue:
			case first = <-w.notes:
			default:
				return batch
			}
		}
	}
	batch = append(batch, first)
	if first.alone {
		return batch
	}
	for len(batch) < maxBatch {
		var next *operation
		select {
		case next = <-w.queue:
		default:
			select {
			case next = <-w.notes:
			default:
				return batch
			}
		}
		if next.alone || next.move != nil && holds(batch, next.id) {
			w.held = next
			return batch
		}
		batch = append(batch, next)
	}
	return batch
}

// holds reports whether a move of the approval stands in the batch already:
// the next is computed from the new row.
func holds(batch []*operation, id approval.ID) bool {
	for _, o := range batch {
		if o.move != nil && o.id == id {
			return true
		}
	}
	return false
}

// commit runs a batch in one transaction. Memory changes only after the
// durable commit, and not at all if it fails.
func (w *writer) commit(batch []*operation) {
	tx := newTx(context.Background(), w.env, w.conn, w)
	start := time.Now()
	err := w.runBatch(tx, batch)
	settled := func() {}
	if batch[0].alone && len(tx.changes) > 0 {
		// Rows can be read from the commit on, facts a little later: hold off whoever
		// has read rows and is about to see that the facts are still the same.
		w.memory.settling.Lock()
		settled = w.memory.settling.Unlock
	}
	if w.open {
		w.timed("group", start)
		if err == nil {
			start = time.Now()
			err = w.end()
			w.timed("commit", start)
		} else {
			w.rollback()
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		w.log.Error("a commit failed; nothing of it stands", w.mend("operations", len(batch), "err", err)...)
	}
	if err == nil {
		w.memory.Lock()
		tx.apply()
		w.memory.Unlock()
	}
	settled()
	var notes []*operation // an operation that is answered is its caller's again
	for _, o := range batch {
		if err != nil {
			o.err = err
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
	if told := w.options.Journaled; err == nil && told != nil {
		for _, e := range tx.events {
			told(e)
		}
	}
}

// noteAgain writes the notes of a batch that failed, without those who waited:
// nobody else would. Those that were alone already are lost.
func (w *writer) noteAgain(notes []*operation, of int) {
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
func (w *writer) runBatch(tx *txn, batch []*operation) error {
	for _, o := range batch {
		var err error
		if o.move != nil {
			err = o.makeMove(tx)
		} else {
			err = w.makeChange(tx, o)
		}
		if err != nil {
			return err
		}
	}
	if w.open && w.Now().Unix() > w.clock.saved.Load() {
		return tx.saveTime()
	}
	return nil
}

// makeMove makes the operation's move. What concerns it alone is left in it; what
// comes after its row was saved undoes the batch, since no savepoint could.
func (o *operation) makeMove(tx *txn) error {
	var moved bool
	var err error
	o.result, o.verdict, moved, err = tx.move(o.id, o.move, o.live, o.act)
	if !moved && (errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnavailable)) {
		o.err, err = err, nil
	}
	return err
}

// makeChange runs one change inside a savepoint, so that its refusal leaves the
// others of the batch alone. One that has the transaction to itself has none: within
// one, every statement takes the longer the more pages were changed before it.
func (w *writer) makeChange(tx *txn, o *operation) error {
	if err := w.begin(); err != nil {
		return err
	}
	if !o.alone {
		if _, err := tx.exec(`SAVEPOINT change`); err != nil {
			return err
		}
	}
	mark := tx.mark()
	if o.err = runSafely(tx, o.run); o.err != nil && !refusal(o.err) {
		return o.err
	}
	if o.err != nil {
		tx.back(mark)
	}
	switch {
	case o.alone && o.err != nil:
		w.rollback()
		return nil
	case o.alone:
		return nil
	case o.err != nil:
		if _, err := tx.exec(`ROLLBACK TO change`); err != nil {
			return err
		}
	}
	_, err := tx.exec(`RELEASE change`)
	return err
}

// saveTime writes the time into the database (decision T12).
func (tx *txn) saveTime() error {
	now := tx.env.Now().Unix()
	if err := tx.putMeta(metaTime, strconv.FormatInt(now, 10)); err != nil {
		return err
	}
	tx.env.clock.saved.Store(now)
	return nil
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
		w.log.Debug("rollback", "err", err)
	}
	w.open = false
	w.clock.saved.Store(0)
}

// atStart is for the start, before the writer runs.
func (w *writer) atStart(ctx context.Context, f func(*txn) error) error {
	if err := f(newTx(ctx, w.env, w.conn, w)); err != nil {
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

// mend adds to what is logged of an error what is the matter with the embedded
// engine's disk, and what to do about it.
func (w *writer) mend(of ...any) []any {
	err, _ := of[len(of)-1].(error)
	if w.options.Path == "" {
		return of
	}
	dir := filepath.Dir(w.options.Path)
	switch cause := causeOfFile(err, w.options.Path); cause {
	case FullDisk:
		return append(of, "cause", cause, "fix", "make room in "+dir+": the server goes on by itself then")
	case BadDisk:
		return append(of, "cause", cause, "fix", "see the system's log about the disk of "+dir+", and ulimit -f")
	}
	return of
}
