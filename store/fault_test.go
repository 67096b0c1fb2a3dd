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

// full makes the database refuse to grow, as a full disk does; the func gives
// the room back.
func (h house) full(t testing.TB) func() {
	t.Helper()
	pragma := func(pages int) {
		if _, err := h.embedded().Writer.Conn.ExecContext(context.Background(), fmt.Sprintf(`PRAGMA max_page_count = %d`, pages)); err != nil {
			t.Fatal(err)
		}
	}
	var pages int
	if err := h.embedded().Writer.Conn.QueryRowContext(context.Background(), `PRAGMA page_count`).Scan(&pages); err != nil {
		t.Fatal(err)
	}
	pragma(pages)
	return func() { pragma(1 << 30) }
}

// T-23: with a full disk nothing is half-done, nothing is used up, and the
// house goes on when there is room again.
func TestT23FullDisk(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	codes, issued := map[approval.ID]bool{}, map[approval.ID]int64{} // whether each was exchanged, and its time
	for nonce := range byte(60) {
		handle, at, err := h.Approve(ctx, h.answer(nonce+2), Act{})
		if err != nil {
			t.Fatal(err)
		}
		codes[approval.ID(handle.ID())], issued[approval.ID(handle.ID())] = false, at
	}
	room := h.full(t)
	h.fill(t)
	h.exchangeAll(t, codes, issued)
	room()
	for code, exchanged := range codes {
		want := approval.OK
		if exchanged {
			want = approval.Reused
		}
		if v, err := h.exchange(code, issued[code]); v != want || err != nil {
			t.Errorf("with room again: got %v, %v; want %v", v, err, want)
		}
	}
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
		t.Errorf("refresh with room again: %v, %v", v, err)
	}
	h = h.reopen(t)
	if v, err := h.refresh(id, 2); v != approval.OK || err != nil {
		t.Errorf("refresh after a restart: %v, %v", v, err)
	}
}

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

// What was answered is in the file: a copy taken at any moment, as a crash
// leaves it, holds it (cases T-20, T-21).
func TestT20AnsweredIsDurable(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	id := h.live(t, h.answer(1))
	for g := int64(1); g <= 5; g++ {
		if v, err := h.refresh(id, g); v != approval.OK || err != nil {
			t.Fatal(v, err)
		}
		left := filepath.Join(t.TempDir(), "copy.db")
		for _, suffix := range []string{"", "-wal"} {
			copyFile(t, h.path+suffix, left+suffix)
		}
		after := open(t, left, h.clock)
		if v, err := after.refresh(id, g); v != approval.Reused || err != nil {
			t.Errorf("generation %d after the crash: got %v, %v; want reused", g, v, err)
		}
	}
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

// T13: a token from the future shows that the database went back in time.
func TestDatabaseWentBack(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if v, err := h.refresh(id, 3); v != approval.Lost || err != nil {
		t.Fatalf("got %v, %v; want lost", v, err)
	}
	row, err := h.Approval(context.Background(), id)
	if err != nil || row.Reason != approval.StateLost {
		t.Errorf("reason %q, %v; want state_lost", row.Reason, err)
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

func TestOneServerOnOneFile(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	if _, err := Open(context.Background(), Options{Path: h.path, Ring: h.ring}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second server: got %v, want in use", err)
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
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		row, err := h.Approval(t.Context(), id)
		if err == nil && row.LastUsed == h.Now().Unix() {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("last use %d, %v", row.LastUsed, err)
		}
	}
}

// The last use is noted at most hourly, and survives a restart (decision P11).
func TestLastUse(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	used := func() int64 {
		t.Helper()
		if err := h.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		row, err := h.Approval(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return row.LastUsed
	}
	start := h.Now().Unix()
	steps := []struct {
		wait time.Duration
		want int64
	}{{0, start}, {59 * time.Minute, start}, {time.Minute, start + 3600}, {time.Second, start + 3600}}
	if got := used(); got != 0 {
		t.Errorf("before any use: %d, want never", got)
	}
	for _, s := range steps {
		h.clock.add(s.wait)
		h.Used(id)
		if got := used(); got != s.want {
			t.Errorf("after %v: %d, want %d", s.wait, got-start, s.want-start)
		}
	}
	h = h.reopen(t)
	h.Used(id)
	if got := used(); got != start+3600 {
		t.Errorf("after a restart: %d, want %d", got-start, 3600)
	}
}

// A sweep deletes and marks what time has ended, and nothing else.
func TestSweep(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.register(t, "stranger")
	id := h.live(t, h.answer(1))
	waiting, _, err := h.Approve(ctx, h.answer(2), Act{})
	if err != nil {
		t.Fatal(err)
	}
	sweep := func(want Swept) {
		t.Helper()
		due, dueErr := h.Due(ctx)
		got, err := h.Sweep(ctx)
		if err != nil || got != want || dueErr != nil || due != want {
			t.Errorf("swept %+v, %v; due %+v, %v; want %+v", got, err, due, dueErr, want)
		}
	}
	sweep(Swept{})
	h.clock.add(10 * time.Minute)
	sweep(Swept{}) // the page could still be answered again
	if row, err := h.Approval(ctx, approval.ID(waiting.ID())); err != nil || row.Reason != approval.NeverConnected {
		t.Errorf("shown as %q, %v; want never_connected", row.Reason, err)
	}
	h.clock.add(time.Hour)
	sweep(Swept{Ended: 1})
	h.clock.add(client.UnapprovedRetention - 70*time.Minute - time.Second)
	sweep(Swept{})
	h.clock.add(time.Second)
	for before, want := range map[time.Duration]int{0: 1, time.Second: 0} {
		if got, err := h.Expired(ctx, h.Now().Add(-before)); err != nil || got != (Swept{Clients: want}) {
			t.Errorf("expired %s ago: %+v, %v; want %d clients", before, got, err, want)
		}
	}
	sweep(Swept{Clients: 1})
	h.clock.add(EndedRetention)
	sweep(Swept{Approvals: 1})
	h.clock.add(JournalRetention)
	if got, err := h.Sweep(ctx); err != nil || got.Events == 0 {
		t.Errorf("swept %+v, %v; want old entries of the journal gone", got, err)
	}
	if !h.accepts(t, id) {
		t.Error("the sweep ended a living approval")
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
