package store

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
)

// S-11: a cursor that no list gave is refused. Lists by ID take any ID.
func TestMadeUpCursors(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.live(t, h.answer(1))
	events, _, err := h.Events(ctx, EventFilter{})
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	good := events[0].ID
	lists := map[string]func(after string) error{
		"people":        func(a string) error { _, _, err := h.People(ctx, PeopleFilter{After: a}); return err },
		"organizations": func(a string) error { _, _, err := h.Organizations(ctx, a, 0); return err },
		"clients":       func(a string) error { _, _, err := h.Clients(ctx, ClientFilter{After: a}); return err },
		"approvals":     func(a string) error { _, _, err := h.Approvals(ctx, ApprovalFilter{After: a}); return err },
		"events":        func(a string) error { _, _, err := h.Events(ctx, EventFilter{After: a}); return err },
	}
	for name, list := range lists {
		for _, after := range []string{"'", "a b", "\x00", "1.\x00", "a\x00", "é", "\xff", "1.é", "1. ", strings.Repeat("9", 300), "1." + strings.Repeat("a", 300), "x' OR 1=1"} {
			if err := list(after); !errors.Is(err, ErrNotFound) {
				t.Errorf("%s after %q: got %v, want not found", name, after, err)
			}
		}
	}
	for _, after := range []string{"", "1.", "x.a", "1e3.a", "0x1.a", ".a", "9223372036854775808.a"} {
		if err := lists["clients"](after); (err == nil) != (after == "") {
			t.Errorf("clients after %q: got %v", after, err)
		}
	}
	for _, after := range []string{good[1:], good + "0", strings.ToUpper(good[:16]) + "ABCDEFAB", strings.Repeat("g", len(good)), hex.EncodeToString([]byte("x"))} {
		if err := lists["events"](after); !errors.Is(err, ErrNotFound) {
			t.Errorf("events after %q: got %v, want not found", after, err)
		}
	}
	if err := lists["events"](good); err != nil {
		t.Error("its own cursor:", err)
	}
}

// One entry of the journal is found by its ID.
func TestEvent(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.live(t, h.answer(1))
	all, _, err := h.Events(ctx, EventFilter{})
	if err != nil || len(all) < 3 {
		t.Fatal(len(all), err)
	}
	for _, want := range all {
		if got, err := h.Event(ctx, want.ID); err != nil || got != want {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	for _, id := range []string{"", "0", "x", all[0].ID[1:], all[0].ID + "\x00", " " + all[0].ID} {
		if _, err := h.Event(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: got %v, want not found", id, err)
		}
	}
}
