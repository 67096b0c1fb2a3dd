package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// recoverWAL checks the log of writes of a file that the caller has locked, before SQLite opens it,
// and makes it durable. It refuses a log that is damaged before its end with ErrDamaged (decision
// T18). It rewrites the log in place and syncs it (decision T19): after a failed sync the page cache
// of the system holds data that it will never write back, and a loss of power then loses these
// commits and all that follow them. The sums of the log's pages are kept, so that later reads are
// compared with them; the caller calls done once SQLite has the log open.
func recoverWAL(path string) (done func(), err error) {
	if path, err = walPath(path); err != nil {
		return nil, err
	}
	f, size, err := openWAL(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && f == nil {
		return func() {}, nil
	} else if err != nil {
		return nil, fmt.Errorf("database: cannot open %s: %w", path, err)
	}
	wrote := wroteTo(path)
	done = func() { wrote.leave(path) }
	if err = errors.Join(secureWAL(f, size, wrote), f.Close()); err != nil {
		done()
		return nil, fmt.Errorf("database: %s: %w", path, err)
	}
	return done, nil
}

// walPath is the path of a file's log, as SQLite names it. The path of the file is a realPath.
func walPath(path string) (string, error) {
	path, err := filepath.Abs(path + "-wal")
	if err != nil {
		return "", fmt.Errorf("database: %w", err)
	}
	return path, nil
}

// checkWAL refuses what recoverWAL would, and writes nothing. It skips files that another process
// has locked: that process checked the log at its start, and writes it meanwhile.
func checkWAL(path string) error {
	if inUse(path) {
		return nil
	}
	for _, of := range []string{path, path + besideSuffix} {
		if err := checkWALFile(of); err != nil && !inUse(path) {
			return err
		}
	}
	return nil
}

func checkWALFile(path string) error {
	log, err := walPath(path)
	if err != nil {
		return err
	}
	f, err := os.Open(log)
	if err != nil {
		return nil // opening the database says why
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("database: %s: %w", log, err)
	}
	if _, err := walEnd(f, info.Size(), func(int64, []byte) {}); err != nil {
		return fmt.Errorf("database: %s: %w", log, err)
	}
	return nil
}

// secureWAL makes the committed part of a log durable, and passes its pages to wrote.
func secureWAL(f walFile, size int64, wrote *written) error {
	end, err := walEnd(f, size, func(int64, []byte) {})
	if err != nil || end == 0 {
		return err
	}
	if err := rewriteWAL(f, end); err != nil {
		return err
	}
	again, err := walEnd(f, size, wrote.note)
	if err == nil && again != end {
		err = fmt.Errorf("%w: the disk has not kept what was written", engine.ErrDamaged)
	}
	return err
}

// walFile is a log of the operating system, or of a test's disk.
type walFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Forget(off, n int64) // drops the page cache, so that the next read asks the disk
}

type diskFile struct{ vfs.File }

func (f diskFile) Sync() error { return f.File.Sync(vfs.SYNC_FULL) }
func (f diskFile) Forget(off, n int64) {
	if at, ok := f.File.(interface{ Forget(off, n int64) }); ok {
		at.Forget(off, n)
	}
}

type systemFile struct{ *os.File }

func (f systemFile) Forget(off, n int64) { forget(f.Fd(), off, n) }

// openWAL opens a log on the disk of its path; the file is nil where a test's disk has none.
func openWAL(path string) (walFile, int64, error) {
	if disk := below(path); disk != vfs.Find("os") { // which opens nothing by its name alone
		if there, err := disk.Access(path, vfs.ACCESS_EXISTS); err != nil || !there {
			return nil, 0, err
		}
		f, _, err := disk.Open(path, vfs.OPEN_READWRITE|vfs.OPEN_WAL)
		if err != nil {
			return nil, 0, err
		}
		size, err := f.Size()
		return diskFile{f}, size, err
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return systemFile{f}, info.Size(), nil
}

// rewriteWAL writes the first end bytes with their own content and syncs them. It drops the page
// cache, so that the caller reads them from the disk.
func rewriteWAL(f walFile, end int64) error {
	b := make([]byte, readBack)
	for off := int64(0); off < end; off += readBack {
		part := b[:min(readBack, end-off)]
		if _, err := f.ReadAt(part, off); err != nil {
			return err
		}
		if _, err := f.WriteAt(part, off); err != nil {
			return err
		}
	}
	err := f.Sync()
	f.Forget(0, end)
	return err
}

// walEnd returns the length of the part of a log that SQLite reads, which ends with the last
// commit, and calls note for each valid page. SQLite ends the log at the first frame with a wrong
// sum, as it has to after a loss of power during the last commit. A commit that continues another
// commit behind that frame was synced and acknowledged: then the log is damaged, and walEnd returns
// ErrDamaged with the offset of the frame.
func walEnd(f io.ReaderAt, size int64, note func(off int64, page []byte)) (int64, error) {
	header := make([]byte, logHeader)
	if size < logHeader {
		return 0, nil
	}
	if _, err := f.ReadAt(header, 0); err != nil {
		return 0, err
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		s := &walScan{order: order, salts: string(header[16:24]), broken: -1}
		s.said, s.made = storedSum(header[24:]), addSum(order, walSum{}, header[:24])
		switch {
		case s.said != s.made, binary.BigEndian.Uint32(header)&^1 != walMagic:
			s.broken, s.salts = 0, "" // only the frames tell their salts
		case binary.BigEndian.Uint32(header[8:]) != pageSize:
			return size, nil // another page size: not written by us
		}
		end, err := s.scan(f, size, note)
		if err != nil || end > 0 {
			return end, err
		}
	}
	return 0, nil // SQLite ignores this log
}

// walSum is the check sum of a frame, which continues that of the frame before (SQLite file format,
// section 4.2).
type walSum [2]uint32

func storedSum(b []byte) walSum {
	return walSum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

// addSum reads every byte of a log, which the race detector would be told of one by one.
//
//go:norace
func addSum(order binary.ByteOrder, s walSum, b []byte) walSum {
	big := order == binary.BigEndian
	for ; len(b) >= 8; b = b[8:] {
		x, y := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if big {
			x, y = bits.ReverseBytes32(x), bits.ReverseBytes32(y)
		}
		s[0] += x + s[1]
		s[1] += y + s[0]
	}
	return s
}

// walScan reads the frames of a log in order.
type walScan struct {
	order  binary.ByteOrder
	salts  string // of the header; empty where the header is broken
	before string // salts of the previous frame
	said   walSum // sum that the previous frame stores
	made   walSum // sum that its content gives
	commit bool   // the previous frame ends a commit
	broken int64  // offset where SQLite ends the log; negative until then
}

const (
	walMagic = 0x377f0682
	// sectorSize is the smallest unit that a disk writes atomically, in bytes.
	sectorSize = 512
)

// scan returns the offset behind the last commit, or 0.
func (s *walScan) scan(f io.ReaderAt, size int64, note func(off int64, page []byte)) (end int64, err error) {
	b := make([]byte, logFrame+pageSize)
	for off := int64(logHeader); off+int64(len(b)) <= size; off += int64(len(b)) {
		if _, err := f.ReadAt(b, off); err != nil {
			return 0, err
		}
		salts, goesOn := string(b[8:16]), s.goesOn(b)
		switch {
		case s.broken >= 0 && goesOn && s.commit && saltsMatch(salts, s.before) && s.inThisLog(salts):
			return 0, fmt.Errorf("%w at byte %d: whole commits are behind it", engine.ErrDamaged, s.broken)
		case s.broken < 0 && goesOn && salts == s.salts:
			note(off+logFrame, b[logFrame:])
		case s.broken < 0:
			s.broken = off
		}
		// A frame header across two sectors can be torn: half from the commit that lost power, half
		// from a longer commit that the same place held before. Its commit mark proves nothing.
		torn := !goesOn && off%sectorSize > sectorSize-logFrame
		s.commit, s.before = binary.BigEndian.Uint32(b[4:]) != 0 && !torn, salts
		if s.commit && s.broken < 0 {
			end = off + int64(len(b))
		}
	}
	return end, nil
}

// goesOn reports whether a frame continues the previous one, by the sum that that one stores or by
// the sum that its content gives: damage changes only one of them.
func (s *walScan) goesOn(b []byte) bool {
	said := storedSum(b[16:])
	made := addSum(s.order, addSum(s.order, s.said, b[:8]), b[logFrame:])
	is := said == made || s.made != s.said && said == addSum(s.order, addSum(s.order, s.made, b[:8]), b[logFrame:])
	s.said, s.made = said, made
	return is
}

// inThisLog reports whether frames with these salts are of the current log, and not left from an
// earlier one: they have the salts of the header, or of a later header that the disk has lost.
func (s *walScan) inThisLog(salts string) bool {
	first := func(salts string) uint32 { return binary.BigEndian.Uint32([]byte(salts)) }
	return s.salts == "" || salts == s.salts || first(salts) == first(s.salts)+1
}

// saltsMatch reports whether the salts of two frames differ in at most one byte, which may be
// damaged: the sums do not cover salts. The salts of two logs differ in more.
func saltsMatch(a, b string) bool {
	differ := 0
	for i := range len(a) {
		if a[i] != b[i] {
			differ++
		}
	}
	return differ <= 1
}
