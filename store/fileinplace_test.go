package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
)

// What is written to a file that was moved or deleted is lost: nothing is
// acknowledged then. A file that is put back is as good as before.
func TestMovedFile(t *testing.T) {
	if !embedded() {
		return
	}
	add := func(h house, id string) error {
		return h.AddClient(context.Background(), client.Client{ID: id, RedirectURIs: []string{"https://a.example/cb"}, IssuedAt: h.Now().Unix()}, Origin{}, Act{})
	}
	refuses := func(t *testing.T, h house) {
		t.Helper()
		if err := add(h, "lost"); !errors.Is(err, ErrUnavailable) {
			t.Errorf("registration: got %v, want ErrUnavailable", err)
		}
		if state, err := h.ClientState(context.Background(), "lost"); state != ClientUnknown || err != nil {
			t.Errorf("the client that was refused: %v, %v", state, err)
		}
		if err := h.Ready(context.Background()); h.WhyNot(err) != MovedFile {
			t.Errorf("ready: %v, %q", err, h.WhyNot(err))
		}
		var err error // no connection to what is there now, which would take this one's log for its own
		for range h.db.Reader.Stats().MaxOpenConnections {
			var conn *sql.Conn
			if conn, err = h.db.Reader.Conn(context.Background()); err != nil {
				break
			}
			defer conn.Close()
		}
		if h.WhyNot(err) != MovedFile {
			t.Errorf("another connection: %v", err)
		}
	}
	works := func(t *testing.T, h house, id string) {
		t.Helper()
		if err := errors.Join(add(h, id), h.Ready(context.Background())); err != nil {
			t.Errorf("in its place: %v", err)
		}
	}
	for _, suffix := range []string{"", "-wal", "-shm", ".lock"} {
		t.Run("database"+suffix, func(t *testing.T) {
			h := furnished(t)
			id := h.live(t, h.answer(1))
			works(t, h, "before")
			at, aside := h.path+suffix, h.path+suffix+".aside"
			if err := os.Rename(at, aside); err != nil {
				t.Fatal(err)
			}
			refuses(t, h)
			if err := os.WriteFile(at, nil, 0o600); err != nil { // another of its name
				t.Fatal(err)
			}
			refuses(t, h)
			if !h.accepts(t, id) {
				t.Error("a check needs no file")
			}
			if err := os.Rename(aside, at); err != nil {
				t.Fatal(err)
			}
			works(t, h, "after")
		})
	}
	t.Run("by a link", func(t *testing.T) { // SQLite has the log beside what it leads to
		h := furnished(t)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		link := filepath.Join(t.TempDir(), "link.db")
		if err := os.Symlink(h.path, link); err != nil {
			t.Fatal(err)
		}
		h = open(t, link, h.clock)
		works(t, h, "linked")
		if err := os.Remove(link); err != nil {
			t.Fatal(err)
		}
		refuses(t, h)
	})
	t.Run("folder", func(t *testing.T) {
		h := furnished(t)
		for os.RemoveAll(filepath.Dir(h.path)) != nil { // a refresh may make its file meanwhile
		}
		refuses(t, h)
	})
}
