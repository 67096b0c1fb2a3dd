package store

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
)

// I-15: the clients that nobody has approved are bounded in all. The log warns
// from twenty thousand on, once an hour; at a million no more can register, until some are
// approved or gone.
func TestI15UnapprovedClientsAreBounded(t *testing.T) {
	h := furnished(t)
	var log bytes.Buffer
	h.db.Log = slog.New(slog.NewTextHandler(&log, nil))
	add := func(id string) error {
		return h.AddClient(ctx, client.Client{ID: id, RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}, Origin{}, Act{})
	}
	waiting := func(n int) {
		h.db.Memory.Lock()
		h.db.Memory.Waiting.Clients = n
		h.db.Memory.Unlock()
	}
	for _, tt := range []struct {
		waiting int
		warned  bool
		want    error
	}{
		{UnapprovedPressure - 1, false, nil},
		{UnapprovedPressure, true, nil},
		{UnapprovedPressure + 1, false, nil}, // within an hour
		{MaxUnapproved - 1, false, nil},
		{MaxUnapproved, true, ErrUnavailable},
		{MaxUnapproved + 1, false, ErrUnavailable}, // within a minute of the last
	} {
		log.Reset()
		waiting(tt.waiting)
		id := fmt.Sprintf("client-%d", tt.waiting)
		if err := add(id); !errors.Is(err, tt.want) {
			t.Errorf("%d waiting: got %v, want %v", tt.waiting, err, tt.want)
		}
		if got := strings.Contains(log.String(), "wait for their first approval"); got != tt.warned {
			t.Errorf("%d waiting: warned %v, want %v", tt.waiting, got, tt.warned)
		}
		if state, _ := h.ClientState(ctx, id); (state == ClientUnknown) != (tt.want != nil) {
			t.Errorf("%d waiting: the client is there: %v", tt.waiting, state != ClientUnknown)
		}
	}
}

// The count behind it follows registrations, approvals and deletions.
func TestUnapprovedClientsAreCounted(t *testing.T) {
	h := furnished(t) // with one client that nobody has approved
	count := func() int {
		h.db.Memory.RLock()
		defer h.db.Memory.RUnlock()
		return h.db.Memory.Waiting.Clients
	}
	want := func(when string, n int) {
		t.Helper()
		if got := count(); got != n {
			t.Errorf("%s: %d, want %d", when, got, n)
		}
	}
	want("at first", 1)
	h.register(t, "second")
	want("registered", 2)
	h.live(t, h.answer(1))
	h.live(t, h.answer(2))
	want("approved", 1)
	h = h.reopen(t)
	want("after a restart", 1)
	h.clock.add(client.UnapprovedRetention)
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	want("swept", 0)
}
