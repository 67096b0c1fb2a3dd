package store

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// refusedFor is how long it is told that the database refused something, once it
// takes such things again.
const refusedFor = time.Minute

// Refused is what PostgreSQL did last when it could not do what was asked. Its
// zero value is that there is nothing to tell.
type Refused struct {
	Cause string    // what is the matter with the database, such as FullDisk
	At    time.Time // when it refused last
	Over  bool      // it has taken a write with an entry of the journal since
}

// Causes that an operator can mend.
const (
	FullDisk     = "its disk is full"
	BadDisk      = "its disk cannot be read or written" // a limit on the size of files too
	NoConnection = "it has no connection left"
	ReadOnly     = "it is read-only"
	NoRight      = "this user lacks a right"
	NoTable      = "a table is gone"
	Slow         = "it does not answer in time"
)

// asks are the causes that a read meets too: nobody has to write before it is
// known that they are over.
var asks = map[string]bool{NoRight: true, NoTable: true, Slow: true}

// causeOf says what is the matter with a database that gives such an error, or "".
func causeOf(err error) string {
	switch code(err) {
	case "53100":
		return FullDisk
	case "XX000": // a connection is the first since the server's start, or since a change of tables
		if strings.Contains(err.Error(), "could not write init file") {
			return FullDisk
		}
	case "53200":
		return "it is out of memory"
	case "53300":
		return NoConnection
	case "25006":
		return ReadOnly
	case "42501":
		return NoRight
	case "42P01", "3F000":
		return NoTable
	case "55P03", "57014": // a lock was waited for, or the statement took too long
		return Slow
	}
	if errors.Is(err, errNoFacts) {
		return NoTable
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return Slow
	}
	return ""
}

// noRoom is less room, in bytes, than the log of the embedded engine takes. A
// test has another.
var noRoom int64 = 16 << 20

// causeOfFile is causeOf for the embedded engine, whose errors tell a full disk
// from one that fails only sometimes. It is for the log: no door tells it.
func causeOfFile(err error, path string) string {
	switch {
	case errors.Is(err, sqlite3.FULL):
		return FullDisk
	case path == "", !errors.Is(err, sqlite3.IOERR):
		return ""
	}
	if free, err := Room(filepath.Dir(path)); err == nil && free < noRoom {
		return FullDisk
	}
	return BadDisk
}

// Room is how many bytes of a folder's disk are free for this user.
func Room(dir string) (int64, error) {
	var fs syscall.Statfs_t
	err := syscall.Statfs(dir, &fs)
	return int64(fs.Bavail) * int64(fs.Bsize), err
}

// refusals keeps the last one.
type refusals struct {
	mu   sync.Mutex
	last Refused
}

// note keeps an error that has such a cause.
func (r *refusals) note(err error, now time.Time) {
	if cause := causeOf(err); cause != "" {
		r.mu.Lock()
		if cause != Slow || r.last.Over || r.last.Cause == "" { // that may follow from what was said before
			r.last = Refused{Cause: cause}
		}
		r.last.At = now
		r.mu.Unlock()
	}
}

// wrote says that something was written that takes room.
func (r *refusals) wrote() {
	r.mu.Lock()
	r.last.Over = true
	r.mu.Unlock()
}

// Refused says why the database refused something, until it takes such a thing
// again, and for a minute more; or for a minute, where reads would meet it too.
func (s *Store) Refused() Refused { return s.engine.Refused() }

// Refused is what was kept.
func (p *postgresEngine) Refused() Refused {
	r := &p.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	if (r.last.Over || asks[r.last.Cause]) && p.options.Now().Sub(r.last.At) >= refusedFor {
		return Refused{}
	}
	return r.last
}

// WhyNot says what is the matter with the database that Ready gave such an error
// of, or "": also where it says nothing any more, if it did before.
func (s *Store) WhyNot(err error) string { return s.engine.WhyNot(err) }

// WhyNot goes by the error, then by what was kept.
func (p *postgresEngine) WhyNot(err error) string {
	cause := causeOf(err)
	if cause != "" && cause != Slow || err == nil {
		return cause
	}
	if r := p.Refused(); r.Cause != "" && !r.Over {
		return r.Cause
	}
	return cause
}
