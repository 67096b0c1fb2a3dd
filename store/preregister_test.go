package store

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
)

func fixed(id string) client.Client {
	return client.Client{ID: id, Name: "Assistant", RedirectURIs: []string{redirect}, Preregistered: true}
}

// What an operator has added stays, whatever the configuration names, and no
// age ends it (decision R6).
func TestPreregister(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for range 2 {
		if err := h.Preregister(ctx, fixed("assistant"), Act{Actor: "operator"}); err != nil {
			t.Fatal(err)
		}
	}
	if events, _, err := h.Events(ctx, EventFilter{Client: "assistant"}); err != nil || len(events) != 1 || events[0].Kind != "client_registered" {
		t.Errorf("events %+v, %v", events, err)
	}
	other := fixed("assistant")
	other.RedirectURIs = []string{"https://other.example/cb"}
	for _, c := range []client.Client{other, fixed("quill")} {
		if err := h.Preregister(ctx, c, Act{}); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: got %v, want conflict", c.ID, err)
		}
	}
	if err := h.SyncPreregistered(ctx, []client.Client{fixed("configured")}, Act{}); err != nil {
		t.Fatal(err)
	}
	h.clock.add(100 * 24 * time.Hour)
	if _, err := h.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"assistant", "configured"} {
		if c, err := h.Client(ctx, id); err != nil || c.State() != "preregistered" {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
		if s, err := h.ClientState(ctx, id); err != nil || s != ClientEnabled {
			t.Errorf("%s: %v, %v", id, s, err)
		}
	}
	h.same(t, "preregistered")
	h = h.reopen(t)
	if err := h.SyncPreregistered(ctx, nil, Act{}); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]ClientState{"assistant": ClientEnabled, "configured": ClientDisabled} {
		if s, err := h.ClientState(ctx, id); err != nil || s != want {
			t.Errorf("%s taken out: %v, %v", id, s, err)
		}
	}
}

// A deleted client is unknown at once, its approvals end for good, and its ID
// brings none of them back.
func TestDeleteClient(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	if err := h.Preregister(ctx, fixed("assistant"), Act{}); err != nil {
		t.Fatal(err)
	}
	of := h.answer(1)
	of.Client = "assistant"
	id := h.live(t, of)
	h.register(t, "nobody-approved")
	before := h.db.Memory.Waiting.Clients
	for _, c := range []string{"assistant", "nobody-approved"} {
		if err := h.DeleteClient(ctx, c, Act{Actor: "operator", Reason: "gone"}); err != nil {
			t.Fatal(err)
		}
		if err := h.DeleteClient(ctx, c, Act{}); err != nil {
			t.Errorf("again: %v", err)
		}
		if err := h.SetClientEnabled(ctx, c, true, Act{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("enabled: %v", err)
		}
		if s, err := h.ClientState(ctx, c); err != nil || s != ClientUnknown {
			t.Errorf("state %v, %v", s, err)
		}
		if _, err := h.Client(ctx, c); !errors.Is(err, ErrNotFound) {
			t.Errorf("found: %v", err)
		}
	}
	if h.db.Memory.Waiting.Clients != before-1 {
		t.Errorf("%d clients count as unapproved, want %d", h.db.Memory.Waiting.Clients, before-1)
	}
	if cs, _, err := h.Clients(ctx, ClientFilter{}); err != nil || slices.ContainsFunc(cs, func(c client.Client) bool { return c.ID == "assistant" }) {
		t.Errorf("listed: %+v, %v", cs, err)
	}
	row, err := h.Approval(ctx, id)
	if err != nil || row.Phase != approval.Ended || row.Reason != approval.ClientDisabled || row.ClientName != "Assistant" {
		t.Errorf("approval %+v, %v", row, err)
	}
	if _, _, err := h.Approve(ctx, of, Act{}); !errors.Is(err, ErrNotFound) {
		t.Errorf("approved: %v", err)
	}
	if events, _, err := h.Events(ctx, EventFilter{Client: "assistant", Kind: "client_disabled"}); err != nil || len(events) != 1 || events[0].Detail != "deleted" || events[0].Reason != "gone" {
		t.Errorf("events %+v, %v", events, err)
	}
	h.same(t, "deleted")
	h = h.reopen(t)
	if err := h.SyncPreregistered(ctx, []client.Client{fixed("assistant")}, Act{}); err != nil {
		t.Fatal(err)
	}
	if s, err := h.ClientState(ctx, "assistant"); err != nil || s != ClientEnabled || h.accepts(t, id) {
		t.Errorf("back again: %v, %v, its old approval lives: %v", s, err, h.accepts(t, id))
	}
	if err := h.DeleteClient(ctx, "assistant", Act{}); !errors.Is(err, ErrNotAllowed) {
		t.Errorf("one of the configuration: %v", err)
	}
	if err := h.SyncPreregistered(ctx, nil, Act{}); err != nil {
		t.Fatal(err)
	}
	if err := h.DeleteClient(ctx, "assistant", Act{}); err != nil {
		t.Errorf("taken out of the configuration: %v", err)
	}
	h.clock.add(EndedRetention + time.Minute)
	for range 2 { // approvals first, then what they lay under
		if _, err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
	}
	var rows int
	if err := h.db.Reader.QueryRow(`SELECT COUNT(*) FROM client WHERE disabled = 3`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d tombstones are left, %v", rows, err)
	}
	h.same(t, "swept")
}
