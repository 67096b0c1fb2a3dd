// The race detector has goroutines run in another order each time, and a seed decides it.
//go:build !race

package simulate

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

const sector, page = 512, 4096

// A disk is what the files of one database are on, in memory: what was written, and what
// of it a sync has made durable. What SQLite asks of it that is not content (whether files
// are there, their locks, the index of the log) stands in a folder of the machine.
type disk struct {
	mu      sync.Mutex
	random  *rand.Rand
	folder  string
	files   map[string]*platter
	deleted map[string]*platter // and not yet for good

	calls, syncs int     // until power is lost, until a sync fails; less than one is never
	full         bool    // no file grows
	broken       bool    // nothing is written or synced
	dark         bool    // power was lost
	write        string  // the fault of a write to come: lost or misdirected
	at           string  // in which file
	writes       int     // how many before it
	harmed       string  // what was done to content
	harmedAt     int64   // where in the log, while it is there; else less than 0
	commits      []int64 // where each that the log holds ends
	liesAboutLog bool    // a planted fault: syncs of the log do nothing

	gate    chan struct{} // where the writer waits for its turn, when there is one
	waiting bool
	trace   func(format string, args ...any)
}

// A platter is one file.
type platter struct {
	name          string
	data, durable []byte
	dirty         [][2]int64 // what was written since the last sync, from and to

	shared   int
	reserved bool
	pending  bool
}

var disks sync.Map // folder to *disk

func init() {
	vfs.Register("simulated", simulatedVFS{})
	sqlite.DiskOf = func(string) string { return "simulated" }
	sqlite.SettingsOf = func(_ string, settings url.Values) {
		settings.Add("_pragma", "wal_autocheckpoint(24)") // so that the log comes into the file in a seed
		for _, p := range planted.pragmas {
			settings.Add("_pragma", p)
		}
	}
}

type simulatedVFS struct{}

func diskOf(path string) (*disk, string) {
	d, _ := disks.Load(filepath.Dir(path))
	return d.(*disk), filepath.Base(path)
}

func (simulatedVFS) FullPathname(name string) (string, error) { return name, nil }

func (simulatedVFS) Access(path string, _ vfs.AccessFlag) (bool, error) {
	d, name := diskOf(path)
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.files[name] != nil, nil
}

func (simulatedVFS) Delete(path string, _ bool) error {
	d, name := diskOf(path)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.tick("delete", name, 0, 0); err != nil {
		return err
	}
	d.deleted[name] = d.files[name]
	delete(d.files, name)
	return nil
}

func (simulatedVFS) Open(path string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	d, name := diskOf(path)
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.files[name]
	if p == nil {
		if flags&vfs.OPEN_CREATE == 0 {
			return nil, flags, sqlite3.CANTOPEN
		}
		p = &platter{name: name}
		d.files[name] = p
	}
	return &file{d: d, p: p, index: vfs.NewSharedMemory(path+"-shm", flags)}, flags, nil
}

type file struct {
	d     *disk
	p     *platter
	lock  vfs.LockLevel
	index vfs.SharedMemory
}

func (f *file) SharedMemory() vfs.SharedMemory { return f.index }
func (f *file) SectorSize() int                { return page }
func (f *file) DeviceCharacteristics() vfs.DeviceCharacteristic {
	return vfs.IOCAP_SUBPAGE_READ | vfs.IOCAP_POWERSAFE_OVERWRITE // as those of the machine
}

func (f *file) Close() error {
	if f.index != nil {
		f.index.Close()
	}
	return f.Unlock(vfs.LOCK_NONE)
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.d.dark {
		return 0, sqlite3.IOERR_READ
	}
	if off >= int64(len(f.p.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.p.data[off:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return int64(len(f.p.data)), nil
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.tick("write", f.p.name, off, len(b)); err != nil {
		return 0, err
	}
	end := off + int64(len(b))
	switch {
	case f.d.broken:
		return 0, sqlite3.IOERR_WRITE
	case f.d.full && end > int64(len(f.p.data)):
		return 0, sqlite3.FULL
	}
	if f.d.write != "" && f.d.at == f.p.name && len(b) >= sector {
		if f.d.writes--; f.d.writes < 0 {
			f.d.harm(f.p, b, off)
			return len(b), nil
		}
	}
	if strings.HasSuffix(f.p.name, "-wal") && off == 0 && len(b) == 32 {
		f.d.commits, f.d.harmedAt = nil, -1 // the log begins anew
	}
	f.p.put(b, off)
	f.p.dirty = append(f.p.dirty, [2]int64{off, end})
	return len(b), nil
}

func (p *platter) put(b []byte, off int64) {
	p.data = resized(p.data, max(int64(len(p.data)), off+int64(len(b))))
	copy(p.data[off:], b)
}

// harm does not write what it says it has written; misdirected, it writes it somewhere else.
// The operating system may show what was written until power is lost.
func (d *disk) harm(p *platter, b []byte, off int64) {
	what := d.write
	d.write = ""
	if strings.HasSuffix(p.name, "-wal") {
		d.harmedAt = off
	}
	shown := d.random.IntN(2) == 0
	p.durable = resized(p.durable, max(int64(len(p.durable)), off+int64(len(b))))
	if !shown {
		p.data = resized(p.data, max(int64(len(p.data)), off+int64(len(b))))
	} else {
		p.put(b, off)
	}
	d.harmed = fmt.Sprintf("%s write to %s at %d, shown until the power goes: %v", what, p.name, off, shown)
	if pages := int64(len(p.durable)) / page; what == "misdirected" && pages > 2 {
		to := off%page + page*d.random.Int64N(pages-1)
		if to+int64(len(b)) > int64(len(p.durable)) || to == off {
			to = off % page
		}
		copy(p.durable[to:], b)
		if !shown {
			copy(p.data[min(to, int64(len(p.data))):], b)
		}
		d.harmed += fmt.Sprintf(", to %d", to)
	}
	d.trace("harm %s", d.harmed)
}

func (f *file) Truncate(to int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.tick("truncate", f.p.name, to, 0); err != nil {
		return err
	}
	f.p.data = resized(f.p.data, to)
	return nil
}

// waits reports whether a sync waits for the disk to go on.
func (d *disk) waits() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}

func (f *file) Sync(vfs.SyncFlag) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.tick("sync", f.p.name, 0, 0); err != nil {
		return err
	}
	if gate := f.d.gate; gate != nil {
		f.d.waiting = true
		f.d.mu.Unlock()
		<-gate
		f.d.mu.Lock()
		if f.d.waiting = false; f.d.dark {
			return sqlite3.IOERR_FSYNC
		}
	}
	if f.d.syncs--; f.d.syncs == 0 || f.d.broken {
		// What could not be written is forgotten: a later sync that succeeds says nothing of it.
		f.p.settle(f.d.random, 0.5)
		f.p.dirty = nil
		return sqlite3.IOERR_FSYNC
	}
	if f.d.liesAboutLog && strings.HasSuffix(f.p.name, "-wal") {
		return nil
	}
	if n := len(f.p.dirty); n > 0 && strings.HasSuffix(f.p.name, "-wal") && f.p.dirty[n-1][1] > max(sector, lastOf(f.d.commits)) {
		f.d.commits = append(f.d.commits, f.p.dirty[n-1][1]) // and not what is written once more
	}
	f.p.settle(f.d.random, 1)
	f.p.dirty = nil
	f.p.durable = resized(f.p.durable, int64(len(f.p.data)))
	clear(f.d.deleted)
	return nil
}

// Forget is the system's memory of a part of the file, given up.
func (f *file) Forget(off, n int64) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if end := min(off+n, int64(len(f.p.durable)), int64(len(f.p.data))); off < end {
		copy(f.p.data[off:end], f.p.durable[off:end])
	}
}

// settle makes sectors of what was written durable, each by chance.
func (p *platter) settle(random *rand.Rand, keep float64) {
	for _, w := range p.dirty {
		for from := w[0]; from < w[1]; {
			to := min(from/sector*sector+sector, w[1])
			if (keep == 1 || random.Float64() < keep) && to <= int64(len(p.data)) {
				p.durable = resized(p.durable, max(int64(len(p.durable)), to))
				copy(p.durable[from:to], p.data[from:to])
			}
			from = to
		}
	}
}

// tick counts a call, and loses power at the one that it is time for: what was not synced is
// there afterwards or not, each sector by chance.
func (d *disk) tick(what, name string, off int64, n int) error {
	if d.dark {
		return sqlite3.IOERR
	}
	d.trace("  %s %s %d+%d", what, name, off, n)
	if d.calls--; d.calls == 0 {
		d.losePower()
		return sqlite3.IOERR
	}
	return nil
}

func (d *disk) losePower() {
	d.dark = true
	d.trace("power is lost")
	keep := [...]float64{0, 0.5, 0.9, 1}[d.random.IntN(4)]
	for _, name := range sorted(d.deleted) {
		if d.random.IntN(2) == 0 && d.files[name] == nil {
			d.files[name] = d.deleted[name]
		}
	}
	clear(d.deleted)
	for _, name := range sorted(d.files) {
		p := d.files[name]
		p.settle(d.random, keep)
		if len(p.data) < len(p.durable) && d.random.IntN(2) == 0 {
			p.durable = p.durable[:len(p.data)]
		}
		d.files[name] = &platter{name: name, data: append([]byte{}, p.durable...), durable: p.durable}
	}
}

// rot turns bits of a file that has content, outside of the free end of the log.
func (d *disk) rot(name string) {
	p := d.files[name]
	if p == nil || len(p.data) == 0 {
		return
	}
	at, bit := d.random.IntN(len(p.data)), byte(1)<<d.random.IntN(8)
	if row := bytes.Index(p.data[at:], []byte("nordlys")); row >= 0 && d.random.IntN(4) > 0 {
		at = min(at+row+d.random.IntN(64), len(p.data)-1) // where something is that matters
	}
	for _, b := range [][]byte{p.data, p.durable} {
		if at < len(b) {
			b[at] ^= bit
		}
	}
	d.harmed = fmt.Sprintf("rot in %s at %d", name, at)
	if strings.HasSuffix(name, "-wal") {
		d.harmedAt = int64(at)
	}
	d.trace("harm %s", d.harmed)
}

// Lock and Unlock are for the connections of one process.
func (f *file) Lock(to vfs.LockLevel) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	switch {
	case f.lock >= to:
		return nil
	case to == vfs.LOCK_SHARED && f.p.pending, to == vfs.LOCK_RESERVED && f.p.reserved,
		to == vfs.LOCK_EXCLUSIVE && f.p.shared > 1:
		return sqlite3.BUSY
	case to == vfs.LOCK_SHARED:
		f.p.shared++
	case to == vfs.LOCK_RESERVED:
		f.p.reserved = true
	case to == vfs.LOCK_EXCLUSIVE:
		f.p.pending = true
	}
	f.lock = to
	return nil
}

func (f *file) Unlock(to vfs.LockLevel) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.lock <= to {
		return nil
	}
	if f.lock >= vfs.LOCK_RESERVED {
		f.p.reserved, f.p.pending = false, false
	}
	if to == vfs.LOCK_NONE {
		f.p.shared--
	}
	f.lock = to
	return nil
}

func (f *file) CheckReservedLock() (bool, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.p.reserved, nil
}

// inLastCommit reports whether the harm was done to what the log ends with, which nobody can
// tell from what was under way. So it is with the end of the last commit but one, where two
// sectors share that frame's header: it may be half of what was under way.
func (d *disk) inLastCommit() bool {
	if d.harmedAt < 0 {
		return false
	}
	i, _ := slices.BinarySearch(d.commits, d.harmedAt+1)
	if behind := len(d.commits) - i; behind != 2 {
		return behind < 2
	}
	frame := d.commits[i] - 24 - page
	return d.harmedAt >= frame && frame%sector > sector-24
}

func lastOf(ends []int64) int64 {
	if len(ends) == 0 {
		return 0
	}
	return ends[len(ends)-1]
}

func resized(b []byte, size int64) []byte {
	if int64(len(b)) >= size {
		return b[:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}
