package sqlite

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/durable"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// A long change, such as an import of a whole directory, has the one transaction for as long
// as it takes, since it is there whole or not at all. Clients that refresh meanwhile do not
// wait: what their moves give is made durable in a second database beside the file, from
// where it goes into the rows when the change is done, before anything else is. Where the
// server was killed before that, the next start does it.
//
// Only refreshes go there. They are made on what memory has, which the change leaves as it
// is until its commit, so they come before it; and a generation only grows, so what is in
// the second database can be written into the rows again and again.

// besideSuffix names the second database; it has a log of writes of its own.
const besideSuffix = "-refreshes"

// besideSuffixes are those of all its files.
var besideSuffixes = []string{besideSuffix, besideSuffix + "-wal", besideSuffix + "-journal"}

// besideRound is how many refreshes are brought back into the rows while everybody waits;
// more are a long change themselves.
const besideRound = 256

// A beside is the second database and what of it is not in the rows yet. Only the writer's
// goroutine touches it.
type beside struct {
	conn   *sqlite3.Conn // nil until there is something to save; never for a database in memory
	files  files         // of it, for as long as it is open
	failed bool          // the disk refused: refreshes wait as all else does
	moved  map[approval.ID]engine.Transition
	spent  map[[sha256.Size]byte]int64 // proofs of clients' keys, until when they would be taken
}

func (b *beside) empty() bool { return len(b.moved) == 0 && len(b.spent) == 0 }

// take empties it, and gives what was in it.
func (b *beside) take() (moved map[approval.ID]engine.Transition, spent map[[sha256.Size]byte]int64) {
	moved, spent = b.moved, b.spent
	b.moved, b.spent = map[approval.ID]engine.Transition{}, map[[sha256.Size]byte]int64{}
	return moved, spent
}

// giveBack undoes take; what came since is newer.
func (b *beside) giveBack(moved map[approval.ID]engine.Transition, spent map[[sha256.Size]byte]int64) {
	for id, t := range moved {
		if _, newer := b.moved[id]; !newer {
			b.moved[id] = t
		}
	}
	for hash, until := range spent {
		b.spent[hash] = until
	}
}

// open makes the second database.
func (b *beside) open(path string) (err error) {
	if b.conn != nil || path == "" {
		return nil
	}
	name := path + besideSuffix
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), durable.SyncFolder(filepath.Dir(name))); err != nil {
		return err
	}
	if b.conn, err = openBeside(name); err != nil {
		return err
	}
	if err := b.conn.Exec(`
		CREATE TABLE IF NOT EXISTS moved (id BLOB PRIMARY KEY, generation INTEGER, key_number INTEGER, network INTEGER, bound BLOB, used_at INTEGER) WITHOUT ROWID;
		CREATE TABLE IF NOT EXISTS spent (hash BLOB PRIMARY KEY, ends_at INTEGER) WITHOUT ROWID`); err != nil {
		return err
	}
	return b.files.hold(name, name+"-wal")
}

func openBeside(name string) (*sqlite3.Conn, error) {
	settings := url.Values{"_pragma": {"locking_mode(exclusive)", "journal_mode(wal)", "synchronous(full)", "temp_store(2)"}}
	if DiskOf != nil {
		settings.Set("vfs", DiskOf(name))
	}
	return sqlite3.Open(FileURL(name, settings))
}

// save makes refreshes durable.
func (b *beside) save(moved []engine.Transition, spent map[[sha256.Size]byte]int64) (err error) {
	if b.conn == nil {
		return nil
	}
	if err := b.files.inPlace(); err != nil {
		return err
	}
	if err := b.conn.Exec(`BEGIN IMMEDIATE`); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = b.conn.Exec(`ROLLBACK`) // which it may have done by itself
		}
	}()
	rows := make([][]any, 0, len(moved))
	for _, t := range moved {
		rows = append(rows, []any{t.ID[:], t.After.Generation, int64(t.After.Key), int64(t.After.Network), engine.BoundTo(t.After.Bound), int64(t.Used)})
	}
	if err := execEach(b.conn, `INSERT OR REPLACE INTO moved VALUES (?, ?, ?, ?, ?, ?)`, rows); err != nil {
		return err
	}
	rows = rows[:0]
	for hash, until := range spent {
		rows = append(rows, []any{hash[:], until})
	}
	if err := execEach(b.conn, `INSERT INTO spent (hash, ends_at) VALUES (?, ?) ON CONFLICT (hash) DO NOTHING`, rows); err != nil {
		return err
	}
	return b.conn.Exec(`COMMIT`)
}

func execEach(conn *sqlite3.Conn, text string, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	st, _, err := conn.Prepare(text)
	if err != nil {
		return err
	}
	defer st.Close()
	for _, row := range rows {
		for i, v := range row {
			switch v := v.(type) {
			case int64:
				err = st.BindInt64(i+1, v)
			case []byte:
				err = st.BindBlob(i+1, v)
			}
			if err != nil {
				return err
			}
		}
		if err := st.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// remove takes the second database away; all that it said is in the rows.
func (b *beside) remove(path string) error {
	if path == "" {
		return nil
	}
	var errs []error
	if b.conn != nil {
		errs = append(errs, b.conn.Close())
		b.conn, b.files = nil, files{}
	}
	for _, suffix := range besideSuffixes {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leftBeside gives what the second database has, of a server that was killed. One that was
// not finished says nothing yet.
func leftBeside(path string) (moved map[approval.ID]engine.Transition, spent map[[sha256.Size]byte]int64, err error) {
	name := path + besideSuffix
	if err := refuseParted(name); err != nil {
		return nil, nil, err
	}
	if info, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil, nil, nil
	}
	done, err := recoverWAL(name)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	conn, err := openBeside(name)
	if err != nil {
		return nil, nil, cannotOpen(name, err)
	}
	defer conn.Close()
	defer func() {
		if err != nil {
			err = cannotOpen(name, err)
		}
	}()
	tables := 0
	l := loader{conn: conn}
	if err := l.each(`SELECT COUNT(*) FROM sqlite_master WHERE name IN ('moved', 'spent')`, func(st *sqlite3.Stmt) error {
		tables = st.ColumnInt(0)
		return nil
	}); err != nil || tables < 2 {
		return nil, nil, err
	}
	moved, spent = map[approval.ID]engine.Transition{}, map[[sha256.Size]byte]int64{}
	err = l.each(`SELECT id, generation, key_number, network, bound, used_at FROM moved`, func(st *sqlite3.Stmt) error {
		t := engine.Transition{Used: uint32(st.ColumnInt64(5)), After: approval.State{Phase: approval.Live,
			Generation: st.ColumnInt64(1), Key: st.ColumnInt(2), Network: uint16(st.ColumnInt(3))}}
		copy(t.ID[:], st.ColumnRawBlob(0))
		copy(t.After.Bound[:], st.ColumnRawBlob(4))
		moved[t.ID] = t
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return moved, spent, l.each(`SELECT hash, ends_at FROM spent`, func(st *sqlite3.Stmt) error {
		spent[[sha256.Size]byte(st.ColumnRawBlob(0))] = st.ColumnInt64(1)
		return nil
	})
}

// bringBack writes refreshes that were saved beside into their rows. One whose approval has
// ended since, or went on, stays as it is. The database has then seen the time of the last of
// them (decision T12).
func bringBack(exec func(text string, args ...any) error, moved map[approval.ID]engine.Transition, spent map[[sha256.Size]byte]int64) error {
	last := uint32(0)
	for _, t := range moved {
		last = max(last, t.Used)
		if err := exec(`
			UPDATE approval
			   SET generation = $1, key_number = $2, network = $3, bound = $4,
			       used_at = CASE WHEN used_at < $5 THEN $5 ELSE used_at END
			 WHERE id = $6 AND phase = `+engine.SQLLive+` AND generation < $1`,
			t.After.Generation, int64(t.After.Key), int64(t.After.Network), engine.BoundTo(t.After.Bound), int64(t.Used), t.ID[:]); err != nil {
			return err
		}
	}
	for hash, until := range spent {
		if err := exec(engine.InsertSpent, hash[:], until); err != nil {
			return err
		}
	}
	if last == 0 {
		return nil
	}
	return exec(`
		INSERT INTO meta (name, value) VALUES ($1, $2)
		    ON CONFLICT (name) DO UPDATE SET value = excluded.value
		 WHERE CAST(meta.value AS BIGINT) < CAST(excluded.value AS BIGINT)`, engine.MetaTime, strconv.FormatInt(int64(last), 10))
}

// writerTx is a transaction of the writer's.
type writerTx struct{ *engine.Tx }

func (tx writerTx) exec(text string, args ...any) error {
	_, err := tx.Exec(text, args...)
	return err
}

// bringBackLeft does so at the start, before anything is loaded.
func (e *Engine) bringBackLeft(ctx context.Context) error {
	path := e.Options.Path
	if path == "" {
		return nil
	}
	if err := e.putAside(path + besideSuffix); err != nil {
		return err
	}
	moved, spent, err := leftBeside(path)
	if err != nil {
		return err
	}
	err = e.Writer.atStart(ctx, func(tx *engine.Tx) error { return bringBack(writerTx{tx}.exec, moved, spent) })
	if err != nil {
		return fmt.Errorf("database: refreshes beside a change that was not finished: %w", err)
	}
	if len(moved) > 0 {
		e.Log.Info("refreshes beside a change that was not finished are in the database", "refreshes", len(moved))
	}
	return e.Writer.beside.remove(path)
}

// putAside keeps a log of refreshes whose file somebody took away. A server that was killed
// while it removed both leaves the same, so it is no reason not to start.
func (e *Engine) putAside(name string) error {
	if refuseParted(name) == nil {
		return nil
	}
	aside := fmt.Sprintf("%s-wal.aside-%d", name, time.Now().UnixNano())
	e.Log.Warn("a log of refreshes is without its file, and put aside: unless a server was killed just as it removed them, the apps have to be approved again", "file", aside)
	if err := os.Rename(name+"-wal", aside); err != nil {
		return fmt.Errorf("database: %w", err)
	}
	return nil
}

// A throttle makes a long change sleep for part of its time while clients refresh, so that they
// get the processors: an import of 50,000 members takes 2.3 seconds instead of 1.7, and the median
// call beside it 2 ms instead of 47 (docs/benchmarks.md, Beside other work).
type throttle struct {
	wanted  atomic.Bool // a client has refreshed since the last sleep
	working time.Time   // when the current slice of work began; zero outside of a long change
}

const (
	throttleWork = 4 * time.Millisecond  // the shortest slice of work
	throttleRest = 10 * time.Millisecond // the longest sleep
)

// rest runs between two statements. It sleeps for as long as the slice of work took.
func (t *throttle) rest() {
	if t.working.IsZero() {
		return
	}
	worked := time.Since(t.working)
	if worked < throttleWork {
		return
	}
	if t.wanted.Swap(false) {
		time.Sleep(min(worked, throttleRest))
	}
	t.working = time.Now()
}

// commitLong runs a long change in a goroutine of its own, which has the connection and the
// transaction, and saves refreshes beside until it is ready to commit.
func (w *writer) commitLong(o *Operation) {
	tx := engine.NewTx(context.Background(), w.Env, w.Conn, w)
	start, ready := time.Now(), make(chan error, 1)
	go func() {
		err := w.Roomy(true)
		if err == nil {
			if o.long { // and not what is brought back, for which everybody waits
				w.throttle.working = time.Now()
			}
			err = w.runBatch(tx, []*Operation{o})
			w.throttle.working = time.Time{}
		}
		if err == nil && w.open {
			err = w.flush()
		}
		ready <- err
	}()
	err := w.saveBeside(ready)
	w.finish(tx, []*Operation{o}, start, err)
	if err := w.Roomy(false); err != nil {
		w.Log.Warn("the room of a long change is not given back", "err", err)
	}
}

// flush has all that a transaction has written on the disk before its commit, for which
// everybody waits.
func (w *writer) flush() error {
	err := raw(w.Conn, (*sqlite3.Conn).CacheFlush)
	if err != nil || w.Options.Path == "" {
		return err
	}
	log, err := os.OpenFile(w.Options.Path+"-wal", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(log.Sync(), log.Close())
}

// saveBeside makes refreshes until the change is ready. All else waits, in the order in
// which it came.
func (w *writer) saveBeside(ready <-chan error) error {
	for {
		select {
		case err := <-ready:
			return err
		case o := <-w.Queue:
			batch := []*Operation{o}
			for more := true; more && len(batch) < engine.MaxBatch; {
				select {
				case o := <-w.Queue:
					batch = append(batch, o)
				default:
					more = false
				}
			}
			for len(batch) > 0 {
				batch = w.refreshBeside(batch)
			}
		}
	}
}

// refreshBeside makes the refreshes of a batch, at most one of an approval, and gives those
// that have to be made on what it left.
func (w *writer) refreshBeside(batch []*Operation) (again []*Operation) {
	tx := engine.NewTx(context.Background(), w.Env, nil, nil)
	var made []*Operation
	var moved []engine.Transition
	spent, seen := map[[sha256.Size]byte]int64{}, map[approval.ID]bool{}
	for _, o := range batch {
		if w.beside.failed || o.Move == nil || !o.live {
			w.held = append(w.held, o)
			continue
		}
		if seen[o.ID] {
			again = append(again, o)
			continue
		}
		a, there := w.Memory.Living(o.ID)
		if !there {
			w.held = append(w.held, o)
			continue
		}
		before := a.State
		a.State, o.verdict = o.Move(a, w.Memory.Standing(a))
		proof := o.act.Proof
		if proven := proof.Given() && o.verdict.Proven(); proven {
			if _, twice := spent[proof.ID]; twice {
				again = append(again, o)
				continue
			}
			used, err := w.isSpent(proof.ID)
			if err != nil {
				w.held = append(w.held, o)
				continue
			}
			if used && a.State != before {
				a.State, o.verdict = before, approval.Replayed
			}
		}
		switch {
		case a.State == before: // nothing is to be saved
			o.result = a
			o.done <- struct{}{}
			continue
		case o.verdict != approval.OK || !a.State.Refreshes(before):
			w.held = append(w.held, o)
			continue
		}
		if seen[o.ID] = true; proof.Given() {
			spent[proof.ID] = proof.Until
		}
		o.result = a
		made, moved = append(made, o), append(moved, w.Env.Transition(a, before))
		tx.PutMoved(a)
	}
	if len(made) == 0 {
		return again
	}
	w.throttle.wanted.Store(true)
	if err := w.makeDurable(moved, spent); err != nil {
		w.Log.Error("refreshes wait for a long change", w.mend("operations", len(made), "err", err)...)
		w.beside.failed = true
		w.held = append(w.held, made...)
		return again
	}
	w.beside.giveBack(nil, spent)
	for _, t := range moved {
		w.beside.moved[t.ID] = t
	}
	w.Memory.Lock()
	tx.Apply()
	w.Memory.Unlock()
	for _, o := range made {
		o.done <- struct{}{}
	}
	return again
}

func (w *writer) makeDurable(moved []engine.Transition, spent map[[sha256.Size]byte]int64) error {
	defer w.Timed("group", time.Now())
	if err := w.files.inPlace(); err != nil {
		return err
	}
	if err := w.beside.open(w.Options.Path); err != nil {
		return err
	}
	return w.beside.save(moved, spent)
}

// isSpent asks both databases for a proof.
func (w *writer) isSpent(hash [sha256.Size]byte) (bool, error) {
	if _, there := w.beside.spent[hash]; there {
		return true, nil
	}
	n := 0
	err := w.reader.QueryRowContext(context.Background(), `SELECT COUNT(*) FROM spent WHERE hash = $1`, hash[:]).Scan(&n)
	return n > 0, err
}

// settle brings all that is beside into the rows, before anything is done that reads them.
func (w *writer) settle() error {
	for !w.beside.empty() {
		moved, spent := w.beside.take()
		o := &Operation{alone: true, run: func(tx *engine.Tx) error { return bringBack(writerTx{tx}.exec, moved, spent) }, done: make(chan struct{}, 1)}
		if len(moved) > besideRound {
			w.commitLong(o)
		} else {
			w.commit([]*Operation{o})
		}
		if <-o.done; o.Err != nil {
			w.beside.giveBack(moved, spent)
			return o.Err
		}
	}
	w.beside.failed = false
	if w.beside.conn != nil {
		if err := w.beside.remove(w.Options.Path); err != nil { // the next start finds nothing new in it
			w.Log.Warn("the database of refreshes beside a long change is not removed", "err", err)
		}
	}
	return nil
}
