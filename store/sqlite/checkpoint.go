package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/ncruces/go-sqlite3"
)

// What the log of writes says goes into the database by checkpoints, after the commit that
// made it long was answered. One that copies much runs on a connection of its own, beside
// commits; what was written meanwhile is little, and that the writer copies itself. Only
// then does the log begin anew.
var (
	// checkpointAt is how many pages the log has before. A test has others.
	checkpointAt int64 = 2000
	// checkpointInline is how many pages are copied while those who write wait.
	checkpointInline int64 = 500
)

// A walLog follows the log of writes.
type walLog struct {
	conn    *sqlite3.Conn // the writer's; nil in memory
	engine  *Engine
	pages   atomic.Int64 // that the log has, by the last commit
	tried   int64        // that it had when it was copied last; the writer's alone
	copied  atomic.Int64
	running atomic.Bool
	group   sync.WaitGroup
}

// watch takes the place of SQLite's own checkpoints on the writer's connection.
func (l *walLog) watch(e *Engine) error {
	if e.Options.Path == "" {
		return nil
	}
	l.engine = e
	return raw(e.Writer.Conn, func(c *sqlite3.Conn) error {
		l.conn = c
		l.conn.WALHook(func(_ *sqlite3.Conn, _ string, pages int) error {
			l.pages.Store(int64(pages))
			return nil
		})
		return nil
	})
}

// tend copies what is due, after a commit. While somebody reads an old state the log cannot
// begin anew: then it is tried again when it has grown.
func (l *walLog) tend() {
	pages := l.pages.Load()
	if pages < l.tried { // it began anew
		l.tried = 0
		l.copied.Store(0)
	}
	if l.conn == nil || pages < checkpointAt || l.running.Load() || l.tried > 0 && pages-l.tried < checkpointInline/2 {
		return
	}
	l.tried = pages
	if pages-l.copied.Load() > checkpointInline {
		l.apart()
		return
	}
	_, copied, err := l.conn.WALCheckpoint("main", sqlite3.CHECKPOINT_PASSIVE)
	l.note(copied, err)
}

// apart copies all that is in the log now on another connection.
func (l *walLog) apart() {
	if l.conn == nil || !l.running.CompareAndSwap(false, true) {
		return
	}
	l.group.Go(func() {
		defer l.running.Store(false)
		var busy, pages, copied int
		err := l.engine.reader.QueryRowContext(context.Background(), `PRAGMA wal_checkpoint(PASSIVE)`).Scan(&busy, &pages, &copied)
		l.note(copied, err)
	})
}

func (l *walLog) note(copied int, err error) {
	if err == nil {
		l.copied.Store(int64(copied))
	} else if !errors.Is(err, sqlite3.BUSY) {
		l.engine.Log.Warn("the log of writes is not in the database yet", l.engine.Writer.mend("err", err)...)
	}
}

// stop waits for the checkpoint that runs.
func (l *walLog) stop() { l.group.Wait() }
