package store

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// smallDisk is a PostgreSQL of the test's own, and a database whose tables lie on a disk
// that can be filled up.
func smallDisk(t *testing.T) (own *pgtest.Server, disk *pgtest.Disk, name string) {
	t.Helper()
	own, err := pgtest.Start()
	if err != nil {
		t.Fatal(err)
	}
	if disk, err = own.Disk(24 << 20); err != nil {
		own.Stop()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(own.Stop(), disk.Unmount()); err != nil {
			t.Error(err)
		}
	})
	if name, err = own.DatabaseOn(disk); err != nil {
		t.Fatal(err)
	}
	return own, disk, name
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) has(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), text)
}

// T-23 on PostgreSQL: with a full disk nothing is half-done, nothing is used up, what
// was acknowledged stays, and the house goes on when there is room again.
func TestT23FullDiskOfPostgres(t *testing.T) {
	if embedded() {
		return
	}
	own, disk, name := smallDisk(t)
	h := house{ring: ring(t), clock: &machine{now: time.Now()}}
	var err error
	var log logged
	if h.Store, err = Open(ctx, Options{URL: own.URL(name), Ring: h.ring, Log: slog.New(slog.NewTextHandler(&log, nil))}); err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	h.furnish(t)
	id := h.live(t, h.answer(1))
	codes, issued := map[approval.ID]bool{}, map[approval.ID]int64{} // whether each was exchanged, and its time
	for nonce := range byte(60) {
		handle, at, err := h.Approve(ctx, h.answer(nonce+2), Act{})
		if err != nil {
			t.Fatal(err)
		}
		codes[approval.ID(handle.ID())], issued[approval.ID(handle.ID())] = false, at
	}
	if r := h.Refused(); r != (Refused{}) {
		t.Errorf("before: %+v", r)
	}
	if err := disk.Fill(); err != nil {
		t.Fatal(err)
	}
	h.fill(t)
	if r := h.Refused(); r.Cause != "its disk is full" || r.Over {
		t.Errorf("when it is full: %+v", r)
	}
	h.exchangeAll(t, codes, issued)
	h.refuseMany(t)
	if !h.accepts(t, id) {
		t.Error("a check is refused")
	}
	for n := range 200 { // more than there is room for on the pages that are there
		h.Record(Event{Kind: "sign_in_failed", Detail: fmt.Sprint(n, strings.Repeat("x", 500))})
	}
	for end := time.Now().Add(time.Minute); !log.has("what was noted is not written yet\" tries=1 "); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("what was noted is written, with a full disk")
		}
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
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
	if r := h.Refused(); !r.Over {
		t.Errorf("with room again: %+v", r)
	}
	h.same(t, "with room again")
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if n := h.rows(t, `SELECT COUNT(*) FROM journal WHERE kind = 'sign_in_failed'`); n == 200 {
			return
		} else if time.Now().After(end) {
			t.Fatalf("%d of 200 entries that were noted are there", n)
		}
	}
}

// exchangeAll exchanges codes, and marks those that were: some must be refused.
func (h house) exchangeAll(t *testing.T, codes map[approval.ID]bool, issued map[approval.ID]int64) {
	t.Helper()
	refused := 0
	for code := range codes { // an exchange is journaled, and so needs room
		v, err := h.exchange(code, issued[code])
		switch {
		case err == nil && v == approval.OK:
			codes[code] = true
		case errors.Is(err, ErrUnavailable):
			refused++
		default:
			t.Fatalf("got %v, %v; want unavailable", v, err)
		}
	}
	if refused == 0 {
		t.Fatal("the disk never was full for an exchange")
	}
}

// refuseMany wants changes of many rows to be refused whole.
func (h house) refuseMany(t *testing.T) {
	t.Helper()
	people := h.rows(t, `SELECT COUNT(*) FROM person`)
	var d directory.Directory
	for n := range 500 {
		id := fmt.Sprint("p", n)
		d.People = append(d.People, directory.Person{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: strings.Repeat("x", 200), Active: true}})
	}
	if err := h.AddDirectory(ctx, d, Act{}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a directory: got %v, want unavailable", err)
	}
	if n := h.rows(t, `SELECT COUNT(*) FROM person`); n != people {
		t.Errorf("%d people, want %d", n, people)
	}
	h.same(t, "with a full disk")
}

// A server does not start on an empty database that it has no room to make its tables in,
// and the error says what to mend; with room it does.
func TestT23NoRoomForTables(t *testing.T) {
	if embedded() {
		return
	}
	own, disk, name := smallDisk(t)
	for _, when := range []string{"at the first connection", "at the first table"} {
		if err := disk.Fill(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(ctx, Options{URL: own.URL(name), Ring: ring(t)})
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, ErrDatabase) || !strings.HasSuffix(err.Error(), "; the server's disk is full") {
			t.Errorf("%s: got %v, want it to name the full disk", when, err)
		}
		if err := disk.Free(); err != nil {
			t.Fatal(err)
		}
		if err := own.Exec(name, `SELECT 1`); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(ctx, Options{URL: own.URL(name), Ring: ring(t)})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}
