package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/util/vfsutil"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// A page of the database ends with a check sum of its content (8 bytes, as SQLite's
// cksumvfs has it), which is verified whenever the page is read (decision T18). Here it is
// bound to the page's place as well, since a disk that writes a page to the wrong place
// writes one whose sum is right; and what this process wrote, to the log of writes too, or found
// in the log when it started, is compared with what it reads: SQLite checks the sums of the log
// when it opens it and never again, and a checkpoint computes new ones for the file. What a
// checkpoint copies into the file is read back from the disk.

// DiskOf names the VFS below, by the path of a file; nil is the operating system's. Tests
// have disks that lose power.
var DiskOf func(path string) string

const checkedVFS = "grantkeeper"

func init() { vfs.Register(checkedVFS, checkedDisk{}) }

func below(path string) vfs.VFS {
	if DiskOf != nil {
		return vfs.Find(DiskOf(path))
	}
	return vfs.Find("os")
}

type checkedDisk struct{}

// Delete keeps a log whose database is empty: somebody has put another file in the place of
// the one that it belongs to, and what was written last may be in the log alone. SQLite takes
// it for a leftover, whenever it opens a connection.
func (checkedDisk) Delete(path string, sync bool) error {
	if of, isLog := strings.CutSuffix(path, "-wal"); isLog && refuseParted(of) != nil {
		return sqlite3.IOERR_DELETE
	}
	return below(path).Delete(path, sync)
}

func (checkedDisk) Access(path string, f vfs.AccessFlag) (bool, error) {
	return below(path).Access(path, f)
}
func (checkedDisk) FullPathname(path string) (string, error) { return below(path).FullPathname(path) }

func (d checkedDisk) Open(path string, f vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return d.check(path, f)(below(path).Open(path, f))
}

func (d checkedDisk) OpenFilename(name *vfs.Filename, f vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	return d.check(name.String(), f)(vfsutil.WrapOpenFilename(below(name.String()), name, f))
}

// check wraps a file that holds pages.
func (checkedDisk) check(path string, as vfs.OpenFlag) func(vfs.File, vfs.OpenFlag, error) (vfs.File, vfs.OpenFlag, error) {
	return func(f vfs.File, flags vfs.OpenFlag, err error) (vfs.File, vfs.OpenFlag, error) {
		if err != nil || as&(vfs.OPEN_MAIN_DB|vfs.OPEN_WAL) == 0 {
			return f, flags, err
		}
		return &checkedFile{File: f, path: path, wrote: wroteTo(path), main: as&vfs.OPEN_MAIN_DB != 0}, flags, nil
	}
}

// written are the sums of the pages that this process wrote to a file, or found in its log when
// it started, by their places; all its connections have the same.
type written struct {
	sync.Mutex
	seed maphash.Seed
	sums map[int64]uint64
	uses int

	// unsynced are the places of pages of the database that were not read back since they were
	// written, each with the number of that write.
	unsynced map[int64]int64
	writes   int64
}

var (
	writing  sync.Mutex
	allFiles = map[string]*written{}
)

const (
	pageSize  = 4096
	logHeader = 32
	logFrame  = 24      // and a page behind it
	maxSums   = 1 << 18 // of about 40 bytes each; a file with more is compared in part
)

func wroteTo(path string) *written {
	writing.Lock()
	defer writing.Unlock()
	w := allFiles[path]
	if w == nil {
		w = &written{seed: maphash.MakeSeed(), sums: map[int64]uint64{}, unsynced: map[int64]int64{}}
		allFiles[path] = w
	}
	w.uses++
	return w
}

// checkedFile is one connection's.
type checkedFile struct {
	vfs.File
	path  string
	wrote *written
	main  bool
	sums  bool // its pages end with a check sum
}

func (f *checkedFile) Unwrap() vfs.File { return f.File }

// leave undoes wroteTo.
func (w *written) leave(path string) {
	writing.Lock()
	defer writing.Unlock()
	if w.uses--; w.uses == 0 {
		delete(allFiles, path)
	}
}

// note remembers a page.
func (w *written) note(off int64, page []byte) {
	w.Lock()
	defer w.Unlock()
	if len(w.sums) < maxSums {
		w.sums[off] = maphash.Bytes(w.seed, page)
	}
}

func (f *checkedFile) Close() error {
	f.wrote.leave(f.path)
	return f.File.Close()
}

// places gives where the first page begins, and how far the next is from it.
func (f *checkedFile) places() (first, step int64) {
	if f.main {
		return 0, pageSize
	}
	return logHeader + logFrame, logFrame + pageSize
}

// begins reports whether a page begins at a place.
func (f *checkedFile) begins(off int64) bool {
	first, step := f.places()
	return (off-first)%step == 0
}

// asWritten reports whether a page is what this process wrote there, or that it wrote none.
func (f *checkedFile) asWritten(b []byte, off int64) bool {
	f.wrote.Lock()
	sum, wrote := f.wrote.sums[off]
	f.wrote.Unlock()
	return !wrote || sum == maphash.Bytes(f.wrote.seed, b)
}

func (f *checkedFile) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.header(b[:n], off)
	if n != pageSize || !f.begins(off) {
		return n, err
	}
	if !f.asWritten(b, off) {
		return 0, sqlite3.IOERR_DATA
	}
	f.bind(b, off)
	return n, err
}

func (f *checkedFile) WriteAt(b []byte, off int64) (int, error) {
	f.header(b, off)
	whole := len(b) == pageSize && f.begins(off)
	if whole {
		f.bind(b, off)
		defer f.bind(b, off) // the page is SQLite's, which goes on with it
	}
	n, err := f.File.WriteAt(b, off)
	f.wrote.Lock()
	defer f.wrote.Unlock()
	if whole && err == nil && len(f.wrote.sums) < maxSums {
		f.wrote.sums[off] = maphash.Bytes(f.wrote.seed, b)
		if f.main {
			f.wrote.writes++
			f.wrote.unsynced[off] = f.wrote.writes
		}
		return n, err
	}
	at, step := f.places()
	if off > at {
		at = off - (off-at)%step
	}
	for ; at < off+int64(len(b)); at += step {
		if off < at+pageSize { // the frame's header may be all that is written
			delete(f.wrote.sums, at)
		}
	}
	return n, err
}

// readBack is how many bytes of a file are read at once to see what was written there.
const readBack = 64 * pageSize

// readGap is how far apart pages are at most that are read together: more is slower than to
// ask twice.
const readGap = 5 * pageSize

// Sync reads what it has made durable from the disk again, whichever connection has written it:
// a checkpoint may copy a part on one, and the rest on another, which syncs all. The log of writes
// keeps all of it until that has been there; where it is not, every sync fails from then on, and
// the next start brings all of the log into the file once more.
func (f *checkedFile) Sync(flags vfs.SyncFlag) error {
	if !f.main {
		return f.File.Sync(flags)
	}
	due := f.wrote.due()
	if err := f.File.Sync(flags); err != nil || len(due) == 0 {
		return err
	}
	drop, fetch := func(int64, int64) {}, func(int64, int64) {}
	if at, ok := f.File.(interface{ Forget(off, n int64) }); ok { // a disk of a test
		drop = at.Forget
	} else if at, err := os.Open(f.path); err == nil {
		defer at.Close()
		drop = func(off, n int64) { forget(at.Fd(), off, n) }
		fetch = func(off, n int64) { readAhead(at.Fd(), off, n) }
	}
	parts := partsOf(slices.Sorted(maps.Keys(due)))
	for _, p := range parts {
		drop(p[0], p[len(p)-1]+pageSize-p[0])
	}
	for _, p := range parts { // all at once: the disk has the next while one is compared
		fetch(p[0], p[len(p)-1]+pageSize-p[0])
	}
	b := make([]byte, readBack)
	for _, p := range parts {
		b := b[:p[len(p)-1]+pageSize-p[0]]
		if _, err := f.File.ReadAt(b, p[0]); err != nil {
			return err
		}
		for _, off := range p {
			if !f.asWritten(b[off-p[0]:][:pageSize], off) {
				return sqlite3.IOERR_DATA
			}
		}
		f.wrote.readBack(p, due)
	}
	return nil
}

// due are the pages that have to be read back, with the numbers of their writes.
func (w *written) due() map[int64]int64 {
	w.Lock()
	defer w.Unlock()
	return maps.Clone(w.unsynced)
}

// readBack takes places out that were as written, unless somebody has written there since.
func (w *written) readBack(places []int64, due map[int64]int64) {
	w.Lock()
	defer w.Unlock()
	for _, off := range places {
		if w.unsynced[off] == due[off] {
			delete(w.unsynced, off)
		}
	}
}

// partsOf gives the places, in order, of pages that are read together.
func partsOf(places []int64) (parts [][]int64) {
	for len(places) > 0 {
		n := 1
		for n < len(places) && places[n]+pageSize-places[0] <= readBack && places[n]-places[n-1] <= readGap {
			n++
		}
		parts, places = append(parts, places[:n]), places[n:]
	}
	return parts
}

// header learns from the first page whether pages end with a check sum.
func (f *checkedFile) header(b []byte, off int64) {
	if f.main && off == 0 && len(b) >= 100 && bytes.HasPrefix(b, []byte("SQLite format 3\x00")) {
		f.sums = b[20] == 8
	}
}

// bind mixes the page's place into its check sum, or out of it.
func (f *checkedFile) bind(b []byte, off int64) {
	if f.main && f.sums {
		end := b[pageSize-8:]
		binary.LittleEndian.PutUint64(end, binary.LittleEndian.Uint64(end)^uint64(off/pageSize+1)*0x9e3779b97f4a7c15)
	}
}

func (f *checkedFile) Truncate(to int64) error {
	f.wrote.Lock()
	for off := range f.wrote.sums {
		if off+pageSize > to {
			delete(f.wrote.sums, off)
		}
	}
	for off := range f.wrote.unsynced {
		if off+pageSize > to {
			delete(f.wrote.unsynced, off)
		}
	}
	f.wrote.Unlock()
	return f.File.Truncate(to)
}

func (f *checkedFile) SharedMemory() vfs.SharedMemory {
	if f, ok := f.File.(vfs.FileSharedMemory); ok {
		return f.SharedMemory()
	}
	return nil
}
func (f *checkedFile) LockState() vfs.LockLevel     { return vfsutil.WrapLockState(f.File) }
func (f *checkedFile) PersistWAL() bool             { return vfsutil.WrapPersistWAL(f.File) }
func (f *checkedFile) SetPersistWAL(on bool)        { vfsutil.WrapSetPersistWAL(f.File, on) }
func (f *checkedFile) PowersafeOverwrite() bool     { return vfsutil.WrapPowersafeOverwrite(f.File) }
func (f *checkedFile) SetPowersafeOverwrite(b bool) { vfsutil.WrapSetPowersafeOverwrite(f.File, b) }
func (f *checkedFile) SizeHint(size int64) error    { return vfsutil.WrapSizeHint(f.File, size) }
func (f *checkedFile) HasMoved() (bool, error)      { return vfsutil.WrapHasMoved(f.File) }

// withSums lets the pages of a database end with check sums. It writes all of it anew, unless
// they do already.
func withSums(ctx context.Context, conn *sql.Conn) error {
	return raw(conn, func(c *sqlite3.Conn) error {
		old := c.SetInterrupt(ctx)
		defer c.SetInterrupt(old)
		return c.EnableChecksums("main")
	})
}

// damaged marks an error that says that a file has other content than was written.
func damaged(err error) error {
	if errors.Is(err, sqlite3.CORRUPT) || errors.Is(err, sqlite3.IOERR_DATA) || errors.Is(err, sqlite3.NOTADB) {
		return fmt.Errorf("%w: %w", engine.ErrDamaged, err)
	}
	return err
}
