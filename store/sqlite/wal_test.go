package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

const oneFrame = logFrame + pageSize

// aLog makes a log of writes, of commits with so many frames each.
func aLog(order binary.ByteOrder, salts string, commits ...int) []byte {
	b := make([]byte, logHeader)
	binary.BigEndian.PutUint32(b, 0x377f0682)
	if order == binary.BigEndian {
		b[3]++
	}
	binary.BigEndian.PutUint32(b[4:], 3007000)
	binary.BigEndian.PutUint32(b[8:], pageSize)
	copy(b[16:], salts)
	sum := addSum(order, walSum{}, b[:24])
	put := func(at []byte) {
		binary.BigEndian.PutUint32(at, sum[0])
		binary.BigEndian.PutUint32(at[4:], sum[1])
	}
	put(b[24:])
	for _, frames := range commits {
		for n := range frames {
			f := make([]byte, oneFrame)
			binary.BigEndian.PutUint32(f, uint32(n+2))
			if n == frames-1 {
				binary.BigEndian.PutUint32(f[4:], 125)
			}
			copy(f[8:], salts)
			for i := range f[logFrame:] {
				f[logFrame+i] = byte(len(b)/oneFrame + i)
			}
			sum = addSum(order, addSum(order, sum, f[:8]), f[logFrame:])
			put(f[16:])
			b = append(b, f...)
		}
	}
	return b
}

const salts, otherSalts = "\x00\x00\x00\x07abcd", "\x00\x00\x00\x06wxyz"

func endOf(log []byte) (int64, error) {
	return walEnd(bytes.NewReader(log), int64(len(log)), func(int64, []byte) {})
}

// frames is where so many frames of a log end.
func frames(n int) int64 { return logHeader + int64(n)*oneFrame }

// The end of a log is where SQLite takes it to be.
func TestWALEnd(t *testing.T) {
	whole := aLog(binary.LittleEndian, salts, 2, 1, 3)
	before := aLog(binary.LittleEndian, otherSalts, 1, 1, 1, 1, 1, 1, 1, 1)
	over := func(log []byte) []byte { return append(bytes.Clone(log), before[len(log):]...) }
	with := func(log []byte, change func(log []byte)) []byte {
		log = bytes.Clone(log)
		change(log)
		return log
	}
	// A longer commit was under way when the power went, then a shorter one on it: of that the
	// disk has what comes before the end of a sector, in the midst of the header.
	torn := func(at, cut int) []byte {
		log := aLog(binary.LittleEndian, salts, 1, at-1, 4)
		shorter := aLog(binary.LittleEndian, salts, 1, at-1, 1)
		return append(shorter[:int(frames(at))+cut], log[int(frames(at))+cut:]...)
	}
	otherPages := with(whole, func(b []byte) {
		binary.BigEndian.PutUint32(b[8:], 512)
		sum := addSum(binary.LittleEndian, walSum{}, b[:24])
		binary.BigEndian.PutUint32(b[24:], sum[0])
		binary.BigEndian.PutUint32(b[28:], sum[1])
	})
	for _, tt := range []struct {
		name string
		log  []byte
		want int64
	}{
		{"no byte", nil, 0},
		{"less than a header", whole[:logHeader-1], 0},
		{"a header", whole[:logHeader], 0},
		{"a commit under way", whole[:frames(1)], 0},
		{"a commit", whole[:frames(2)], frames(2)},
		{"less than a commit", whole[:frames(2)-1], 0},
		{"whole", whole, frames(6)},
		{"of a machine with the other order", aLog(binary.BigEndian, salts, 2, 1), frames(3)},
		{"and a part of a frame", whole[:frames(5)+oneFrame-1], frames(3)},
		{"and a commit under way", whole[:frames(4)], frames(3)},
		{"on one that was there before", over(whole), frames(6)},
		{"a commit under way, on one that was there before", over(whole[:frames(4)]), frames(3)},
		{"of the last commit only the end is there", with(over(whole), func(b []byte) { copy(b[frames(3):frames(4)], before[frames(3):]) }), frames(3)},
		{"the end of the last commit has another bit", with(whole, func(b []byte) { b[len(b)-1] ^= 1 }), frames(3)},
		{"the header and the only commit", with(aLog(binary.LittleEndian, salts, 3), func(b []byte) { b[4] ^= 1 }), 0},
		{"half a header, before the salts", torn(41, 8), frames(41)},
		{"half a header, before the sum", torn(62, 16), frames(62)},
		{"pages of another size", otherPages, int64(len(otherPages))},
		{"zeros", make([]byte, 3*oneFrame), 0},
	} {
		if end, err := endOf(tt.log); err != nil || end != tt.want {
			t.Errorf("%s: %d %v, want %d", tt.name, end, err, tt.want)
		}
	}
}

// Whatever byte is harmed before the last commit, the log is not taken for one that ends there.
func TestWALEndOfHarm(t *testing.T) {
	for name, order := range map[string]binary.ByteOrder{"little": binary.LittleEndian, "big": binary.BigEndian} {
		log := aLog(order, salts, 2, 1, 3)
		harmed := func(at int) {
			t.Helper()
			for _, bit := range []byte{1, 0x80} {
				log[at] ^= bit
				end, err := endOf(log)
				log[at] ^= bit
				if !errors.Is(err, engine.ErrDamaged) || end != 0 {
					t.Fatalf("%s, byte %d: %d, %v", name, at, end, err)
				}
				if broken := "at byte 0:"; at < logHeader && !strings.Contains(err.Error(), broken) {
					t.Fatalf("%s, byte %d: %v", name, at, err)
				}
			}
		}
		for at := range logHeader {
			harmed(at)
		}
		for frame := range 3 {
			for at := range logFrame {
				harmed(int(frames(frame)) + at)
			}
			for at := logFrame; at < oneFrame; at += 97 {
				harmed(int(frames(frame)) + at)
			}
		}
		if end, err := endOf(log); err != nil || end != frames(6) {
			t.Fatalf("%s, as it was: %d %v", name, end, err)
		}
		// A whole frame that is another's, and one that was never written.
		for _, lost := range [][]byte{make([]byte, oneFrame), aLog(order, otherSalts, 1)[logHeader:]} {
			other := bytes.Clone(log)
			copy(other[logHeader:], lost)
			if _, err := endOf(other); !errors.Is(err, engine.ErrDamaged) || !strings.Contains(err.Error(), "at byte 32:") {
				t.Errorf("%s, the first frame was not written: %v", name, err)
			}
		}
	}
}

// What the log begins with may be missing as a whole, or be as it was before the log began anew.
func TestWALEndOfALostBeginning(t *testing.T) {
	for _, before := range []string{"\x00\x00\x00\x06wxyz", "\x00\x00\x00\x06abcd"} {
		log, old := aLog(binary.LittleEndian, salts, 1, 1, 2, 1, 3), aLog(binary.LittleEndian, before, 1, 2, 1, 1, 3)
		for name, lost := range map[string][]byte{"of before": old, "zeros": make([]byte, len(old))} {
			for _, n := range []int{logHeader, logHeader + 8, sectorSize, pageSize, oneFrame, int(frames(1)), int(frames(1)) + 480} {
				harmed := bytes.Clone(log)
				copy(harmed[:n], lost)
				if end, err := endOf(harmed); !errors.Is(err, engine.ErrDamaged) {
					t.Errorf("the first %d bytes are %s: %d %v", n, name, end, err)
				}
			}
		}
		// A log that began anew and has no frame yet.
		begun := append(bytes.Clone(log[:logHeader]), old[logHeader:]...)
		if end, err := endOf(begun); err != nil || end != 0 {
			t.Errorf("a header before what was there: %d %v", end, err)
		}
		begun = append(bytes.Clone(log[:frames(1)]), old[frames(1):]...)
		if end, err := endOf(begun); err != nil || end != frames(1) {
			t.Errorf("a commit before what was there: %d %v", end, err)
		}
	}
}

// A memory is a file whose calls may fail.
type memory struct {
	*bytes.Reader
	wrote  []byte // what was, from its start on
	synced int
	fails  string
	forgot int64
}

var errOfDisk = errors.New("the disk says no")

func (m *memory) ReadAt(b []byte, off int64) (int, error) {
	if m.fails == "read" && off > 0 || m.fails == "read again" && m.forgot > 0 {
		return 0, errOfDisk
	}
	n, err := m.Reader.ReadAt(b, off)
	if m.forgot > 0 && (m.fails == "other" && off == frames(20) || m.fails == "end" && off == frames(149)) {
		b[7] ^= 1
	}
	return n, err
}

func (m *memory) WriteAt(b []byte, off int64) (int, error) {
	if m.fails == "write" && off > 0 {
		return 0, errOfDisk
	}
	if int64(len(m.wrote)) != off {
		return 0, errors.New("out of order")
	}
	m.wrote = append(m.wrote, b...)
	return len(b), nil
}

func (m *memory) Sync() error {
	m.synced++
	if m.fails == "sync" {
		return errOfDisk
	}
	return nil
}

func (m *memory) Forget(off, n int64) {
	if off == 0 && m.synced > 0 {
		m.forgot = n
	}
}

func (m *memory) Close() error { return nil }

// What a log says is written once more, as it is and to its end, synced, read back from the disk,
// and remembered.
func TestSecureWAL(t *testing.T) {
	secured := func(log []byte, fails string) (*memory, *written, error) {
		m, w := &memory{Reader: bytes.NewReader(log), fails: fails}, &written{seed: maphash.MakeSeed(), sums: map[int64]uint64{}}
		return m, w, secureWAL(m, int64(len(log)), w)
	}
	for _, n := range []int{1, 2, 63, 64, 200} {
		log := aLog(binary.LittleEndian, salts, n)
		end := len(log)
		log = append(log, aLog(binary.LittleEndian, otherSalts, 3)...)
		m, w, err := secured(log, "")
		if err != nil || !bytes.Equal(m.wrote, log[:end]) || m.synced != 1 || m.forgot != int64(end) {
			t.Errorf("%d frames: %v, %d bytes, synced %d times, %d asked of the disk", n, err, len(m.wrote), m.synced, m.forgot)
		}
		for i := range n {
			at := frames(i) + logFrame
			if w.sums[at] != maphash.Bytes(w.seed, log[at:][:pageSize]) {
				t.Errorf("%d frames: another page is remembered at %d", n, at)
			}
		}
		if len(w.sums) != n {
			t.Errorf("%d frames: %d pages are remembered", n, len(w.sums))
		}
	}
	for _, log := range [][]byte{nil, aLog(binary.LittleEndian, salts), aLog(binary.LittleEndian, salts, 3)[:frames(2)]} {
		if m, w, err := secured(log, "write"); err != nil || m.wrote != nil || m.synced > 0 || len(w.sums) > 0 {
			t.Errorf("nothing counts in %d bytes: %v, %d bytes written, synced %d times", len(log), err, len(m.wrote), m.synced)
		}
	}
	log := aLog(binary.LittleEndian, salts, 100, 50)
	for fails, want := range map[string]error{"read": errOfDisk, "write": errOfDisk, "sync": errOfDisk, "read again": errOfDisk, "other": engine.ErrDamaged, "end": engine.ErrDamaged} {
		if _, _, err := secured(log, fails); !errors.Is(err, want) {
			t.Errorf("%s: %v", fails, err)
		}
	}
	log[frames(3)] ^= 1
	if m, _, err := secured(log, ""); !errors.Is(err, engine.ErrDamaged) || m.wrote != nil {
		t.Errorf("harmed: %v, %d bytes written", err, len(m.wrote))
	}
	full := &written{seed: maphash.MakeSeed(), sums: map[int64]uint64{}}
	for n := range int64(maxSums + 3) {
		full.note(n, nil)
	}
	if len(full.sums) != maxSums {
		t.Errorf("%d pages are remembered", len(full.sums))
	}
}

// The log is left as it is, unless it is refused, and done gives back what is known of it.
func TestRecoverWAL(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	take := func() error {
		t.Helper()
		done, err := recoverWAL(path)
		if err == nil {
			done()
		}
		if allFiles[path+"-wal"] != nil {
			t.Error("it is not given back")
		}
		return err
	}
	if err := take(); err != nil {
		t.Errorf("no log: %v", err)
	}
	log := aLog(binary.LittleEndian, salts, 2, 1, 3)
	put := func(b []byte) {
		t.Helper()
		if err := os.WriteFile(path+"-wal", b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(log)
	if err := take(); err != nil {
		t.Error(err)
	}
	if is, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(is, log) {
		t.Errorf("it is not as it was: %v", err)
	}
	log[frames(1)] ^= 1
	put(log)
	if err := take(); !errors.Is(err, engine.ErrDamaged) || !strings.Contains(err.Error(), path+"-wal: ") {
		t.Errorf("harmed: %v", err)
	}
	if err := errors.Join(os.Remove(path+"-wal"), os.Mkdir(path+"-wal", 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := take(); err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "cannot open "+path+"-wal: ") {
		t.Errorf("a folder in its place: %v", err)
	}
}

// Damage is one byte; the salts of another log differ in more.
func TestSaltsMatch(t *testing.T) {
	for other, want := range map[string]bool{salts: true, "\x00\x00\x00\x07abcX": true, "\x00\x00\x00\x06abcd": true, "\x00\x00\x00\x06abcX": false, otherSalts: false} {
		if saltsMatch(salts, other) != want {
			t.Errorf("%q: want %v", other, want)
		}
	}
}
