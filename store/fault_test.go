package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/token"
)

// fill registers clients until the database has no room for another.
func (h house) fill(t testing.TB) {
	t.Helper()
	ctx := context.Background()
	for n := range 10_000 {
		c := client.Client{ID: fmt.Sprint("c", n), Name: "Filler", RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}
		switch err := h.AddClient(ctx, c, Origin{}, Act{}); {
		case errors.Is(err, ErrUnavailable):
			if state, _ := h.ClientState(ctx, c.ID); state != ClientUnknown {
				t.Error("memory has a client that no row has")
			}
			return
		case err != nil:
			t.Fatalf("got %v, want unavailable", err)
		}
	}
	t.Fatal("the disk never was full")
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
}

// A row that memory is wrong about is read again: compare-and-set decides.
func TestCompareAndSet(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	h.sql(t, `UPDATE approval SET generation = 7`)
	if v, err := h.refresh(id, 1); v != approval.Reused || err != nil {
		t.Errorf("got %v, %v; want reused, by the row", v, err)
	}
}

func TestStartRefused(t *testing.T) {
	other, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{2}))
	if err != nil {
		t.Fatal(err)
	}
	two, err := token.NewRing("sv", 2, token.NewKey(1, [32]byte{1}), token.NewKey(2, [32]byte{2}))
	if err != nil {
		t.Fatal(err)
	}
	newer := func(h house) error {
		h.sql(t, `UPDATE meta SET value = '99' WHERE name IN ('schema', 'schema_oldest')`)
		return nil
	}
	for _, tt := range []struct {
		name  string
		spoil func(house) error
		rings []*token.Ring
		want  error
	}{
		{"another key", nil, []*token.Ring{other}, ErrKeys},
		{"a key that is missing", nil, []*token.Ring{two, ring(t)}, ErrKeys},
		{"a newer schema", newer, []*token.Ring{ring(t)}, ErrSchema},
		{"one key more", nil, []*token.Ring{two}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			if tt.spoil != nil {
				if err := tt.spoil(h); err != nil {
					t.Fatal(err)
				}
			}
			if err := h.Close(); err != nil {
				t.Fatal(err)
			}
			var got error
			for _, r := range tt.rings {
				s, err := Open(context.Background(), at(t, h.path, Options{Ring: r}))
				if got = err; err == nil {
					s.Close()
				}
			}
			if !errors.Is(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if !embedded() {
		return
	}
	garbage := filepath.Join(t.TempDir(), "garbage.db")
	if err := os.WriteFile(garbage, make([]byte, 8192), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(garbage, []byte("this is no database, but a text of some length, so that it is read"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(context.Background(), Options{Path: garbage}); err == nil {
		s.Close()
		t.Error("a file that is no database was opened")
	}
}

// A session ends by time and by what ends its person's sign-ins (decision S2).
func TestSessions(t *testing.T) {
	ctx := context.Background()
	tests := []struct {
		name  string
		after func(h house) error
		want  bool
	}{
		{"at once", func(h house) error { return nil }, true},
		{"idle for less than 12 hours", func(h house) error { h.clock.add(12*time.Hour - time.Second); return nil }, true},
		{"idle for 12 hours", func(h house) error { h.clock.add(12 * time.Hour); return nil }, false},
		{"signed out", func(h house) error { return h.EndSession(ctx, "value") }, false},
		{"person deactivated", func(h house) error { return h.SetActive(ctx, "ada", false, Act{}) }, false},
		{"deactivated and reactivated", func(h house) error {
			return errors.Join(h.SetActive(ctx, "ada", false, Act{}), h.SetActive(ctx, "ada", true, Act{}))
		}, false},
		{"password changed", func(h house) error { return h.SetPassword(ctx, "ada", "$argon2id$y", Act{}) }, false},
		{"in use for 30 days", func(h house) error {
			for range 90 {
				h.clock.add(8 * time.Hour)
				_, err := h.Session(ctx, "value")
				if h.Ready(ctx); err != nil { // what was noted is written by then
					return nil
				}
			}
			return nil
		}, false},
		{"in use for 29 days", func(h house) error {
			for range 87 {
				h.clock.add(8 * time.Hour)
				if _, err := h.Session(ctx, "value"); err != nil {
					return err
				}
				h.Ready(ctx)
			}
			return nil
		}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			if err := h.AddSession(ctx, "value", "ada", Act{}); err != nil {
				t.Fatal(err)
			}
			if err := tt.after(h); err != nil {
				t.Fatal(err)
			}
			s, err := h.Session(ctx, "value")
			if got := err == nil; got != tt.want || tt.want && s.Person != "ada" || !tt.want && !errors.Is(err, ErrNotFound) {
				t.Errorf("got %+v, %v; want it to stand: %v", s, err, tt.want)
			}
		})
	}
}

// A use is written though nothing else is.
func TestUseIsWrittenByItself(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if err := h.Ready(t.Context()); err != nil { // so that nothing waits
		t.Fatal(err)
	}
	h.Used(id)
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		row, err := h.Approval(t.Context(), id)
		if err == nil && row.LastUsed == h.Now().Unix() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("last use %d, %v", row.LastUsed, err)
		}
	}
}

// What is committed is on the disk, whatever happens to the machine.
func TestCommitsAreDurable(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal"} {
		var got string
		if err := h.embedded().Writer.Conn.QueryRowContext(context.Background(), `PRAGMA `+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", pragma, got, err, want)
		}
	}
}

// A start that is refused for its keys leaves nothing of them behind: the
// right keys are still right (decision T11).
func TestRefusedKeysAreNotKept(t *testing.T) {
	h := furnished(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]Options{
		"another key beside a new one": {Ring: ringOf(t, 2, 9)},
		"a new key alone":              {Ring: ringOf(t, 0, 9)},
	} {
		wrong.Path = h.path
		if s, err := Open(context.Background(), at(t, h.path, wrong)); !errors.Is(err, ErrKeys) {
			if err == nil {
				s.Close()
			}
			t.Fatalf("%s: %v, want it refused", name, err)
		}
	}
	open(t, h.path, h.clock)
}

// ringOf makes a ring that seals with key 2; key 1 is left out when its secret
// is 0.
func ringOf(t testing.TB, first, second byte) *token.Ring {
	t.Helper()
	keys := []*token.Key{token.NewKey(2, [32]byte{second})}
	if first != 0 {
		keys = append(keys, token.NewKey(1, [32]byte{first}))
	}
	r, err := token.NewRing("sv", 2, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
