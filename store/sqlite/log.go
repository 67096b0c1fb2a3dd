package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/ncruces/go-sqlite3/vfs"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// takeLog is what whoever has a file to itself does with its log of writes, before SQLite opens
// it. A log that is damaged before its end is refused (decision T18). What it says is written
// once more, in place, and synced (decision T19): where a sync failed in the process before, the
// system shows what was to be synced, and does not write it any more, whatever is synced later.
// When the power goes it is missing, and with it all that was written behind it. What is read of
// it from then on is compared with that; done is called when SQLite has it open.
func takeLog(path string) (done func(), err error) {
	if path, err = logOf(path); err != nil {
		return nil, err
	}
	f, size, err := openLog(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && f == nil {
		return func() {}, nil
	} else if err != nil {
		return nil, fmt.Errorf("database: cannot open %s: %w", path, err)
	}
	wrote := wroteTo(path)
	done = func() { wrote.leave(path) }
	if err = errors.Join(secure(f, size, wrote), f.Close()); err != nil {
		done()
		return nil, fmt.Errorf("database: %s: %w", path, err)
	}
	return done, nil
}

// logOf names the log of a file, as SQLite does.
func logOf(path string) (string, error) {
	path, err := filepath.Abs(realPath(path) + "-wal")
	if err != nil {
		return "", fmt.Errorf("database: %w", err)
	}
	return path, nil
}

// lookAtLog refuses a damaged log as takeLog does, and changes nothing. Who works on the file
// writes the log meanwhile, and has looked at it.
func lookAtLog(path string) error {
	if inUse(path) {
		return nil
	}
	for _, of := range []string{path, path + besideSuffix} {
		if err := lookAt(of); err != nil && !inUse(path) {
			return err
		}
	}
	return nil
}

func lookAt(path string) error {
	log, err := logOf(path)
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
	if _, err := logEnd(f, info.Size(), func(int64, []byte) {}); err != nil {
		return fmt.Errorf("database: %s: %w", log, err)
	}
	return nil
}

// secure has what a log says on the disk, as it was before.
func secure(f writtenFile, size int64, wrote *written) error {
	end, err := logEnd(f, size, func(int64, []byte) {})
	if err != nil || end == 0 {
		return err
	}
	if err := writeAgain(f, end); err != nil {
		return err
	}
	again, err := logEnd(f, size, wrote.note)
	if err == nil && again != end {
		err = fmt.Errorf("%w: the disk has not kept what was written", engine.ErrDamaged)
	}
	return err
}

// writtenFile is a file of the system, or of the disk of a test.
type writtenFile interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Forget(off, n int64) // has the next read ask the disk
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

// openLog opens the file, on the disk that it is on; it gives none where none is.
func openLog(path string) (writtenFile, int64, error) {
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

// writeAgain writes what is there until end as it is and syncs it; what is read of it then comes
// from the disk.
func writeAgain(f writtenFile, end int64) error {
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

// logEnd gives how many bytes of a log SQLite reads, up to the last commit, and ErrDamaged of one
// that it would end too early. It takes the first frame with a wrong sum for the end, which is
// right of what was under way when the power went: the last commit. Where one commit goes on from
// another behind that frame, what was there had been synced, and acknowledged. Each page before
// that frame is given to note.
func logEnd(f io.ReaderAt, size int64, note func(off int64, page []byte)) (int64, error) {
	header := make([]byte, logHeader)
	if size < logHeader {
		return 0, nil
	}
	if _, err := f.ReadAt(header, 0); err != nil {
		return 0, err
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		s := &logScan{order: order, salts: string(header[16:24]), broken: -1}
		s.said, s.made = sumSaid(header[24:]), sumOf(order, logSum{}, header[:24])
		switch {
		case s.said != s.made, binary.BigEndian.Uint32(header)&^1 != logMagic:
			s.broken, s.salts = 0, "" // those of the frames are what there is
		case binary.BigEndian.Uint32(header[8:]) != pageSize:
			return size, nil // no log of ours, as it says
		}
		end, err := s.scan(f, size, note)
		if err != nil || end > 0 {
			return end, err
		}
	}
	return 0, nil // nothing in it counts
}

// A logSum is a check sum of the log. Each frame's goes on from that of the one before.
type logSum [2]uint32

func sumSaid(b []byte) logSum {
	return logSum{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}
}

func sumOf(order binary.ByteOrder, s logSum, b []byte) logSum {
	for ; len(b) >= 8; b = b[8:] {
		s[0] += order.Uint32(b) + s[1]
		s[1] += order.Uint32(b[4:]) + s[0]
	}
	return s
}

// A logScan goes through the frames of a log.
type logScan struct {
	order  binary.ByteOrder
	salts  string // of the header; empty where that is broken
	before string // the salts of the frame before
	said   logSum // its sum
	made   logSum // which that has to be
	commit bool   // it ends one
	broken int64  // where the log ends for SQLite; less than 0 before that
}

const (
	logMagic = 0x377f0682
	// sectorSize is the least that a disk writes whole.
	sectorSize = 512
)

// scan gives where the last commit ends, 0 where there is none.
func (s *logScan) scan(f io.ReaderAt, size int64, note func(off int64, page []byte)) (end int64, err error) {
	b := make([]byte, logFrame+pageSize)
	for off := int64(logHeader); off+int64(len(b)) <= size; off += int64(len(b)) {
		if _, err := f.ReadAt(b, off); err != nil {
			return 0, err
		}
		salts, goesOn := string(b[8:16]), s.goesOn(b)
		switch {
		case s.broken >= 0 && goesOn && s.commit && almost(salts, s.before) && s.counts(salts):
			return 0, fmt.Errorf("%w at byte %d: whole commits are behind it", engine.ErrDamaged, s.broken)
		case s.broken < 0 && goesOn && salts == s.salts:
			note(off+logFrame, b[logFrame:])
		case s.broken < 0:
			s.broken = off
		}
		// A header that two sectors share may be half of what was under way and half of what lay
		// there before, of a commit that was longer.
		torn := !goesOn && off%sectorSize > sectorSize-logFrame
		s.commit, s.before = binary.BigEndian.Uint32(b[4:]) != 0 && !torn, salts
		if s.commit && s.broken < 0 {
			end = off + int64(len(b))
		}
	}
	return end, nil
}

// goesOn reports whether a frame goes on from the one before, by what that said its sum is or by
// what it has to be: one of the two may be what is harmed.
func (s *logScan) goesOn(b []byte) bool {
	said := sumSaid(b[16:])
	made := sumOf(s.order, sumOf(s.order, s.said, b[:8]), b[logFrame:])
	is := said == made || s.made != s.said && said == sumOf(s.order, sumOf(s.order, s.made, b[:8]), b[logFrame:])
	s.said, s.made = said, made
	return is
}

// counts reports whether frames with these salts were written since the log began, and do not
// lie there from before: those of the header, or of one that came after it and was not written.
func (s *logScan) counts(salts string) bool {
	first := func(salts string) uint32 { return binary.BigEndian.Uint32([]byte(salts)) }
	return s.salts == "" || salts == s.salts || first(salts) == first(s.salts)+1
}

// almost reports whether the salts of two frames are the same but for one byte, which may be
// harmed: no sum is made of them. Those of a log that began anew differ in more.
func almost(a, b string) bool {
	differ := 0
	for i := range len(a) {
		if a[i] != b[i] {
			differ++
		}
	}
	return differ <= 1
}
