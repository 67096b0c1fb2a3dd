package store

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// openToAll lets new files be everybody's, as far as those who make them do.
func openToAll(t *testing.T) {
	t.Helper()
	was := syscall.Umask(0)
	t.Cleanup(func() { syscall.Umask(was) })
}

// wantClosed looks at all files of a folder: each is its owner's alone.
func wantClosed(t *testing.T, when, folder string, least int) {
	t.Helper()
	files, err := os.ReadDir(folder)
	if err != nil || len(files) < least {
		t.Fatalf("%s: %v, %v; want %d files", when, files, err, least)
	}
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm()&others != 0 {
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
	db, err := sql.Open("sqlite3", fileURL(path, url.Values{"_pragma": {"journal_mode(delete)"}}))
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
