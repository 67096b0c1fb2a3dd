package sqlite

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

func newBeside() *beside {
	return &beside{moved: map[approval.ID]engine.Transition{}, spent: map[[sha256.Size]byte]int64{}}
}

// refreshed is an approval's refresh, with a value of its own in each field that is saved.
func refreshed(id byte, generation int64) engine.Transition {
	return engine.Transition{ID: approval.ID{id}, Used: uint32(1_800_000_000 + generation), After: approval.State{
		Phase: approval.Live, Generation: generation, Key: 3, Network: 500 + uint16(id), Bound: [32]byte{id, 9},
	}}
}

// What is saved beside a long change is there for the next start, the last refresh of each
// approval, and a proof as long as it was saved first.
func TestWhatIsBesideIsThere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	if moved, spent, err := leftBeside(path); moved != nil || spent != nil || err != nil {
		t.Fatalf("nothing is there: %v %v %v", moved, spent, err)
	}
	if err := os.WriteFile(path+besideSuffix, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if moved, spent, err := leftBeside(path); moved != nil || spent != nil || err != nil {
		t.Fatalf("an empty file: %v %v %v", moved, spent, err)
	}
	b := newBeside()
	if err := b.save([]engine.Transition{refreshed(1, 2)}, nil); err != nil {
		t.Fatalf("in memory nothing is saved: %v", err)
	}
	if err := errors.Join(b.open(""), b.remove("")); err != nil || b.conn != nil {
		t.Fatalf("in memory there is none: %v", err)
	}
	if err := b.open(path); err != nil {
		t.Fatal(err)
	}
	if opened := b.conn; b.open(path) != nil || b.conn != opened {
		t.Fatal("it was opened once more")
	}
	proof, other := [sha256.Size]byte{7}, [sha256.Size]byte{8}
	for _, err := range []error{
		b.save([]engine.Transition{refreshed(1, 2), refreshed(2, 5)}, map[[sha256.Size]byte]int64{proof: 100}),
		b.save([]engine.Transition{refreshed(1, 3)}, map[[sha256.Size]byte]int64{proof: 200, other: 300}),
		b.save(nil, nil),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(t.TempDir(), "copied.db") // as the files of a server that was killed are
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + besideSuffix + suffix)
		if err == nil {
			err = os.WriteFile(copied+besideSuffix+suffix, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	moved, spent, err := leftBeside(copied)
	if err != nil {
		t.Fatal(err)
	}
	if want := (map[approval.ID]engine.Transition{{1}: refreshed(1, 3), {2}: refreshed(2, 5)}); !maps.Equal(moved, want) {
		t.Errorf("moved %v, want %v", moved, want)
	}
	if want := (map[[sha256.Size]byte]int64{proof: 100, other: 300}); !maps.Equal(spent, want) {
		t.Errorf("spent %v, want %v", spent, want)
	}
	if err := b.remove(path); err != nil || b.conn != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := b.remove(path); err != nil {
		t.Errorf("there is none: %v", err)
	}
}

// Nothing is saved in files that are not in their place, where no start would find it, and what
// the log has is not overlooked where the file is gone.
func TestMovedBeside(t *testing.T) {
	for _, suffix := range []string{"", "-wal"} {
		path := filepath.Join(t.TempDir(), "grantkeeper.db")
		b := newBeside()
		if err := errors.Join(b.open(path), b.save([]engine.Transition{refreshed(1, 2)}, nil)); err != nil {
			t.Fatal(err)
		}
		file := path + besideSuffix + suffix
		if err := os.Rename(file, file+".aside"); err != nil {
			t.Fatal(err)
		}
		if err := b.save([]engine.Transition{refreshed(1, 3)}, nil); !errors.Is(err, errMoved) {
			t.Errorf("%s: saved: %v", suffix, err)
		}
		if suffix == "" {
			if moved, _, err := leftBeside(path); !errors.Is(err, engine.ErrParted) {
				t.Errorf("a log without its file: %v, %v", moved, err)
			}
		}
		if err := os.Rename(file+".aside", file); err != nil {
			t.Fatal(err)
		}
		if err := b.save([]engine.Transition{refreshed(1, 3)}, nil); err != nil {
			t.Errorf("%s: in its place: %v", suffix, err)
		}
		if err := errors.Join(os.Rename(file, file+".aside"), b.remove(path), b.open(path), b.save([]engine.Transition{refreshed(1, 4)}, nil), b.remove(path)); err != nil {
			t.Errorf("%s: made anew: %v", suffix, err)
		}
	}
}

// Its log is looked at as the other one's is (decision T18).
func TestHarmedLogBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	b := newBeside()
	if err := b.open(path); err != nil {
		t.Fatal(err)
	}
	defer b.remove(path)
	for n := range int64(3) {
		if err := b.save([]engine.Transition{refreshed(1, n+2)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + besideSuffix + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if suffix != "" {
			content[frames(2)+16] ^= 1
		}
		if err := os.WriteFile(filepath.Join(dir, "x.db"+besideSuffix+suffix), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if moved, _, err := leftBeside(filepath.Join(dir, "x.db")); !errors.Is(err, engine.ErrDamaged) || moved != nil {
		t.Errorf("%v %v", moved, err)
	}
}

// What was taken and not written comes back, but not over what came since.
func TestGiveBack(t *testing.T) {
	b := newBeside()
	if !b.empty() {
		t.Error("it is not empty at first")
	}
	b.moved[approval.ID{1}], b.moved[approval.ID{2}] = refreshed(1, 2), refreshed(2, 2)
	if b.empty() {
		t.Error("empty with a refresh in it")
	}
	moved, spent := b.take()
	if len(moved) != 2 || len(spent) != 0 || !b.empty() {
		t.Fatalf("taken: %v %v, left %v", moved, spent, b.moved)
	}
	b.moved[approval.ID{1}] = refreshed(1, 3)
	spent[[sha256.Size]byte{4}] = 9
	b.giveBack(moved, spent)
	if want := (map[approval.ID]engine.Transition{{1}: refreshed(1, 3), {2}: refreshed(2, 2)}); !maps.Equal(b.moved, want) {
		t.Errorf("%v, want %v", b.moved, want)
	}
	if b.spent[[sha256.Size]byte{4}] != 9 || len(b.spent) != 1 {
		t.Errorf("spent %v", b.spent)
	}
	if _, again := b.take(); len(again) != 1 {
		t.Errorf("spent, taken: %v", again)
	}
	b.spent[[sha256.Size]byte{4}] = 9
	if b.empty() {
		t.Error("empty with a proof in it")
	}
}

// A refresh that was saved beside goes into the row it is of, unless that went on or has ended;
// and the database has seen the time of the last.
func TestBringBack(t *testing.T) {
	type call struct {
		text string
		args []any
	}
	var calls []call
	exec := func(text string, args ...any) error {
		calls = append(calls, call{text, args})
		return nil
	}
	if err := bringBack(exec, nil, nil); err != nil || len(calls) > 0 {
		t.Errorf("of nothing: %v %v", calls, err)
	}
	spent := map[[sha256.Size]byte]int64{{5}: 77}
	if err := bringBack(exec, nil, spent); err != nil || len(calls) != 1 || calls[0].text != engine.InsertSpent {
		t.Errorf("of a proof: %v %v", calls, err)
	}
	calls = nil
	moved := map[approval.ID]engine.Transition{{1}: refreshed(1, 4), {2}: refreshed(2, 9), {3}: refreshed(3, 5)}
	if err := bringBack(exec, moved, spent); err != nil || len(calls) != 5 {
		t.Fatalf("%v %v", calls, err)
	}
	if last := calls[4].args; len(last) != 2 || last[0] != engine.MetaTime || last[1] != "1800000009" {
		t.Errorf("time: %v", last)
	}
	for fails := range 5 {
		n := 0
		err := bringBack(func(string, ...any) error {
			if n++; n == fails+1 {
				return errOfDisk
			}
			return nil
		}, moved, spent)
		if !errors.Is(err, errOfDisk) || n != fails+1 {
			t.Errorf("statement %d fails: %v after %d", fails, err, n)
		}
	}
	for _, c := range calls[:3] {
		if id, is := c.args[5].([]byte); !is || !bytes.Equal(id[1:], make([]byte, len(id)-1)) || c.args[0] != moved[approval.ID(id)].After.Generation {
			t.Errorf("%v", c.args)
		}
	}
}

// A long change rests for as long as it has worked, but only while others want to, and not for
// long.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p throttle
		rests := func(worked time.Duration, want time.Duration) {
			t.Helper()
			time.Sleep(worked)
			begun := time.Now()
			if p.rest(); time.Since(begun) != want {
				t.Errorf("after %v of work: %v of rest, want %v", worked, time.Since(begun), want)
			}
		}
		p.wanted.Store(true)
		rests(time.Hour, 0) // no long change is under way
		p.working = time.Now()
		rests(throttleWork-1, 0)
		rests(1, throttleWork) // since the last rest
		rests(throttleWork, 0) // nobody wants to
		p.wanted.Store(true)
		rests(throttleWork-1, 0) // and that counted as a rest
		rests(2, throttleWork+1)
		p.wanted.Store(true)
		rests(time.Second, throttleRest)
		p.wanted.Store(true)
		p.working = time.Time{}
		rests(time.Second, 0)
	})
}

// What is beside stays there where the file of a copy does not take it.
func TestWhatIsNotBroughtBackStaysBeside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	SettingsOf = func(_ string, settings url.Values) { settings.Add("_pragma", "foreign_keys(1)") }
	defer func() { SettingsOf = nil }()
	db, err := Connect(DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `
		CREATE TABLE known (hash BLOB PRIMARY KEY);
		CREATE TABLE spent (hash BLOB PRIMARY KEY REFERENCES known (hash) DEFERRABLE INITIALLY DEFERRED, ends_at INTEGER)`); err != nil {
		t.Fatal(err) // the rows are taken, and their commit is not
	}
	b := newBeside()
	proof := map[[sha256.Size]byte]int64{{7}: 100}
	if err := errors.Join(b.open(path), b.save(nil, proof), b.conn.Close()); err != nil {
		t.Fatal(err)
	}
	if err := settleFile(t.Context(), path); err == nil {
		t.Error("the commit has not failed")
	}
	if _, spent, err := leftBeside(path); err != nil || !maps.Equal(spent, proof) {
		t.Errorf("left beside: %v, %v", spent, err)
	}
}
