package store

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// openToAll lets new files be everybody's, as far as those who make them do.
func openToAll(t *testing.T) {
	t.Helper()
	was := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(was) })
}

// Each file of a database names it, and nothing else does.
func TestFilesOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x-wal.d", "x.db")
	all := FilesOf(path)
	for _, file := range all {
		if got := DatabaseOf(file); got != path || !strings.HasPrefix(file, path) {
			t.Errorf("%s is of %s", file, got)
		}
	}
	if all[0] != path || len(all) < 2 {
		t.Error(all)
	}
	if got := DatabaseOf("x.db-walk"); got != "x.db-walk" {
		t.Error(got)
	}
}

// wantClosed looks at all files of a folder: each is its owner's alone.
func wantClosed(t *testing.T, when, folder string, least int) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil || len(files) < least {
		t.Fatalf("%s: %v, %v; want %d files", when, files, err, least)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&sqlite.Others != 0 {
			t.Errorf("%s: %s: %v, %v; want it closed to others", when, f.Name(), info.Mode(), err)
		}
	}
}

// The database is its owner's alone: it holds hashes of passwords and sessions,
// and who can open the log's index can lock it.
func TestFilesAreTheOwnersAlone(t *testing.T) {
	if !embedded() {
		return
	}
	openToAll(t)
	h := furnished(t)
	folder := filepath.Dir(h.path)
	wantClosed(t, "a new database", folder, 4) // and its lock, log and index
	backup := filepath.Join(folder, "backup.db")
	if _, err := h.Backup(context.Background(), backup); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, "with a backup", folder, 5)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	again := filepath.Join(folder, "again.db")
	if _, err := Restore(context.Background(), RestoreOptions{From: backup, To: again, Ring: h.ring, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	open(t, again, h.clock)
	wantClosed(t, "restored", folder, 6)
}

// What others could open before, by a release that let them or a copy that did,
// they cannot any more, and the log says so once.
func TestFilesThatOthersCouldOpen(t *testing.T) {
	if !embedded() {
		return
	}
	openToAll(t)
	h := furnished(t)
	h.live(t, h.answer(1))
	folder := t.TempDir()
	path := filepath.Join(folder, "grantkeeper.db")
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} { // as after a crash
		copyFile(t, h.path+suffix, path+suffix)
		if err := os.Chmod(path+suffix, 0o664); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{path, link} { // by either name
		var log bytes.Buffer
		s, err := Open(context.Background(), Options{Path: at, Ring: h.ring, Now: h.clock.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		wantClosed(t, "opened as "+at, folder, 4)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if got, want := strings.Count(log.String(), "others could open the database"), map[string]int{path: 1}[at]; got != want || want == 1 && !strings.Contains(log.String(), "mode=0664") {
			t.Errorf("%s: said %d times, want %d:\n%s", at, got, want, &log)
		}
	}
}

// A restore writes beside the place: what its journal holds was there before.
func TestJournalsAreTheOwnersAlone(t *testing.T) {
	openToAll(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "with spaces + and%20more.db")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite3", sqlite.FileURL(path, url.Values{"_pragma": {"journal_mode(delete)"}}))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`CREATE TABLE one (text TEXT)`); err != nil {
		t.Fatal(err)
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`INSERT INTO one (text) VALUES ('x')`); err != nil {
		t.Fatal(err)
	}
	wantClosed(t, "with a journal", folder, 2)
}

// A log of writes without its database is left as it is, also where a backup is in its place:
// it alone has what was written last. What is something else is left as it is, too.
func TestFilesThatAreNotTouched(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	folder := t.TempDir()
	path := filepath.Join(folder, "grantkeeper.db")
	copyFile(t, h.path+"-wal", path+"-wal") // as it was when the server was killed
	backup, err := os.ReadFile(h.backup(t))
	if err != nil {
		t.Fatal(err)
	}
	for n, instead := range [][]byte{nil, {}, backup} {
		if n > 0 {
			if err := os.WriteFile(path, instead, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		before, err := os.ReadFile(path + "-wal")
		if err != nil || len(before) == 0 {
			t.Fatal(err, len(before))
		}
		if _, err := Open(ctx, Options{Path: path, Ring: h.ring}); !errors.Is(err, ErrParted) {
			t.Errorf("opened: %v", err)
		}
		if _, err := Inspect(ctx, path); !errors.Is(err, ErrParted) {
			t.Errorf("inspected: %v", err)
		}
		if after, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(before, after) {
			t.Errorf("the log has changed: %v", err)
		}
	}
	other := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(other, []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{Path: other, Ring: h.ring}); !errors.Is(err, ErrForeign) {
		t.Errorf("something else: %v", err)
	}
	for i, rows := range []string{"", "INSERT INTO meta VALUES ('schema', 'public')"} { // of another program
		path := filepath.Join(t.TempDir(), "other.db")
		db, err := sql.Open("sqlite3", sqlite.FileURL(path, url.Values{}))
		if err == nil {
			_, err = db.Exec(`CREATE TABLE meta (name TEXT, value TEXT); ` + rows)
		}
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		_, opened := Open(ctx, Options{Path: path, Ring: h.ring})
		if _, err := Inspect(ctx, path); !errors.Is(err, ErrForeign) || !errors.Is(opened, ErrForeign) {
			t.Errorf("another program's database %d: inspected %v, opened %v", i, err, opened)
		}
	}
	fifo := filepath.Join(folder, "fifo") // whoever opens it would wait for somebody who writes
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, folder} {
		_, opened := Open(ctx, Options{Path: path, Ring: h.ring})
		if _, err := Inspect(ctx, path); !errors.Is(err, ErrForeign) || !errors.Is(opened, ErrForeign) {
			t.Errorf("no regular file: inspected %v, opened %v", err, opened)
		}
	}
	left, _ := filepath.Glob(other + "*")
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o644 || len(left) != 1 {
		t.Errorf("something else is now %v, beside it are %v", info.Mode(), left)
	}
}

// One server works on a database, by whatever name it has it.
func TestOneServerByAnyName(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	folder := t.TempDir()
	for name, link := range map[string]func(from, to string) error{"symlink": os.Symlink, "link": os.Link} {
		to := filepath.Join(folder, name+".db")
		if err := link(h.path, to); err != nil {
			t.Fatal(name, err)
		}
		for door, open := range doorsOf(h, t.TempDir()) {
			// Beside a hard link lies no log: what is read there is old, or half of it.
			if err := open(to); !errors.Is(err, ErrInUse) {
				t.Errorf("%s by %s: %v, want that it is in use", door, name, err)
			}
		}
	}
	if err := os.Remove(h.path + ".lock"); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{Path: h.path, Ring: h.ring}); !errors.Is(err, ErrInUse) {
		t.Errorf("without its lock: %v, want that it is in use", err)
	}
}

// doorsOf are all who have a file to themselves.
func doorsOf(h house, dir string) map[string]func(path string) error {
	return map[string]func(path string) error{
		"open": func(path string) error {
			_, err := Open(ctx, Options{Path: path, Ring: h.ring})
			return err
		},
		"migrate": func(path string) error {
			_, _, err := Migrate(ctx, MigrateOptions{Path: path, Ring: h.ring})
			return err
		},
		"copy": func(path string) error {
			return Copy(ctx, CopyOptions{From: Place{Path: path}, To: Place{Path: filepath.Join(dir, "copy.db")}, Ring: h.ring})
		},
		"copy onto it": func(path string) error {
			other := filepath.Join(dir, "other.db")
			s, err := Open(ctx, Options{Path: other, Ring: h.ring})
			if err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
			return Copy(ctx, CopyOptions{From: Place{Path: other}, To: Place{Path: path}, Ring: h.ring})
		},
		"replace lost keys": func(path string) error {
			_, err := ReplaceLost(ctx, LostOptions{At: Place{Path: path}})
			return err
		},
	}
}

// Whatever link leads to the files of a server that was killed, they are the same ones.
func TestFilesByALink(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	ids := []approval.ID{h.live(t, h.answer(1)), h.live(t, h.answer(2))}
	h.clock.add(time.Hour)
	end := h.long(t, putAda) // beside which there is a file of refreshes
	if v, err := h.refreshNow(ids[0], 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	path := h.leftAt(t)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	link, far := filepath.Join(dir, "link.db"), filepath.Join(dir, "far.db")
	if err := errors.Join(os.Symlink(path, far), os.Symlink("far.db", link)); err != nil {
		t.Fatal(err)
	}
	want, err := Inspect(ctx, path)
	if err != nil || want.Approvals != 2 {
		t.Fatal(want, err)
	}
	if got, err := Inspect(ctx, link); err != nil || got.Approvals != want.Approvals || !got.At.Equal(want.At) {
		t.Errorf("by a link: %+v %v", got, err)
	}
	harmed := path + "-refreshes-wal"
	whole, err := os.ReadFile(harmed)
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(whole)
	other[logHeader+16] ^= 1
	if err := os.WriteFile(harmed, other, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(ctx, link); !errors.Is(err, ErrDamaged) {
		t.Errorf("harmed refreshes: %v", err)
	}
	if err := os.WriteFile(harmed, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dir, "copied.db")
	if err := Copy(ctx, CopyOptions{From: Place{Path: link}, To: Place{Path: copied}, Ring: h.ring}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{copied, link} {
		s, err := Open(ctx, Options{Path: path, Ring: h.ring, Now: h.clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range ids {
			if a, err := s.Check(ctx, id); err != nil || a.Approval.Generation != int64(2-i) {
				t.Errorf("%s: approval %d: %+v %v", filepath.Base(path), i, a.Approval.State, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A link that leads nowhere, with a log where it leads, is a log without its database.
func TestALogByADanglingLink(t *testing.T) {
	if !embedded() {
		return
	}
	h, _, log, _, _ := asItLies(t)
	dir := t.TempDir()
	path, link := filepath.Join(dir, "grantkeeper.db"), filepath.Join(t.TempDir(), "link.db")
	if err := errors.Join(os.WriteFile(path+"-wal", log, 0o600), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	for door, open := range doorsOf(h, dir) {
		if err := open(link); !errors.Is(err, ErrParted) {
			t.Errorf("%s: %v", door, err)
		}
		if is, err := os.ReadFile(path + "-wal"); err != nil || !bytes.Equal(is, log) {
			t.Fatalf("%s: the log is not as it was: %v", door, err)
		}
	}
}

// A start that was cut off at once has left a database in which nothing is; another
// start goes on from there.
func TestEmptyDatabase(t *testing.T) {
	if !embedded() {
		return
	}
	path := filepath.Join(t.TempDir(), "grantkeeper.db")
	db, err := sql.Open("sqlite3", sqlite.FileURL(path, url.Values{"_pragma": {"journal_mode(wal)"}}))
	if err == nil {
		err = db.Ping()
	}
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := Inspect(ctx, path); !errors.Is(err, ErrEmpty) {
		t.Errorf("inspected: %v", err)
	}
	s, err := Open(ctx, Options{Path: path, Ring: ring(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
