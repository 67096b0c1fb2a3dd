package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// told is what a store told its listeners.
type told struct {
	mu    sync.Mutex
	kinds []string
	took  map[string]int
}

func (l *told) journaled(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kinds = append(l.kinds, string(e.Kind))
}

func (l *told) timed(query string, d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d >= 0 {
		l.took[query]++
	}
}

// take gives what was told since the last time. What the writer tells after an
// answer it has told before the next one.
func (l *told) take(t testing.TB, h house) string {
	t.Helper()
	if err := h.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := h.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := strings.Join(l.kinds, " ")
	l.kinds = nil
	return out
}

// What becomes part of the journal is told once, and what does not never.
func TestJournaledIsTold(t *testing.T) {
	h := furnished(t)
	l := &told{took: map[string]int{}}
	h.Close()
	s, err := Open(t.Context(), at(t, h.path, Options{Ring: h.ring, Now: h.clock.Now, Journaled: l.journaled, Took: l.timed}))
	if err != nil {
		t.Fatal(err)
	}
	h.Store = s
	t.Cleanup(func() { s.Close() })

	id := h.live(t, h.answer(1))
	if got, want := l.take(t, h), "approval_granted code_exchanged"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	h.Record(Event{Kind: "signin_failed"})
	if got := l.take(t, h); got != "signin_failed" {
		t.Errorf("a note: told %q", got)
	}
	// A refusal undoes its entries; one that is refused itself tells nothing.
	refused := errors.New("no")
	for _, why := range []error{ErrConflict, refused} {
		_ = s.change(func(tx *Tx) error {
			return errors.Join(tx.Journal(Event{Kind: "operator_changed"}), why)
		})
		if got := l.take(t, h); got != "" {
			t.Errorf("%v: told %q", why, got)
		}
	}
	if _, err := h.refresh(id, 1); err != nil {
		t.Fatal(err)
	}
	if v, err := h.refresh(id, 1); err != nil || v != approval.Reused {
		t.Fatal(v, err)
	}
	if got, want := l.take(t, h), "refresh_reused approval_ended"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.took["group"] < 5 || embedded() && l.took["commit"] < 5 {
		t.Errorf("took %v", l.took)
	}
	before := maps.Clone(l.took)
	l.mu.Unlock()
	err = s.change(func(tx *Tx) error { return tx.Journal(Event{Kind: "operator_changed"}) })
	l.take(t, h)
	l.mu.Lock()
	if err != nil || l.took["group"] <= before["group"] || l.took["commit"] <= before["commit"] {
		t.Errorf("a change: %v, took %v before and %v after", err, before, l.took)
	}
}

func TestFigures(t *testing.T) {
	h := furnished(t)
	figures := func(when string, live, registered, approved, disabled int) {
		t.Helper()
		f, err := h.Figures(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int{"registered": registered, "approved": approved, "disabled": disabled, "preregistered": 0}
		if f.Live != live || !maps.Equal(f.Clients, want) {
			t.Errorf("%s: %+v, want %d live, %v", when, f, live, want)
		}
	}
	h.register(t, "other")
	before, err := h.Figures(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	known := before.Clients["registered"]
	id := h.live(t, h.answer(1))
	a := h.answer(2)
	a.Grant = grantset.Set{Kind: grantset.Everything}
	if _, _, err := h.Approve(t.Context(), a, Act{}); err != nil {
		t.Fatal(err)
	}
	figures("one live, one with a code", 1, known-1, 1, 0)
	if v, err := h.refresh(id, 1); err != nil || v != approval.OK {
		t.Fatal(v, err)
	}
	if err := h.SetClientEnabled(t.Context(), "other", false, Act{}); err != nil {
		t.Fatal(err)
	}
	figures("one client disabled", 1, known-2, 1, 1)
	if err := h.SetActive(t.Context(), a.Person, false, Act{}); err != nil {
		t.Fatal(err)
	}
	figures("person deactivated", 0, known-2, 1, 1)
	h.clock.add(15 * 24 * time.Hour)
	figures("15 days later", 0, 0, 1, 0)
	if v, err := h.Schema(t.Context()); err != nil || v.Version != SchemaVersion {
		t.Errorf("schema %+v %v", v, err)
	}
	const newer = SchemaVersion + 1
	h.sql(t, fmt.Sprintf(`UPDATE meta SET value = '%d' WHERE name = 'schema'`, newer))
	if v, err := h.Schema(t.Context()); err != nil || v.Version != newer {
		t.Errorf("a newer one that this release works on: %+v %v", v, err)
	}
	h.sql(t, fmt.Sprintf(`UPDATE meta SET value = '%d' WHERE name = 'schema_oldest'`, newer))
	if v, err := h.Schema(t.Context()); !errors.Is(err, ErrSchema) || v.Version != newer {
		t.Errorf("a newer one: %+v %v", v, err)
	}
}

// Each name under which a query is timed is documented, and no other.
func TestQueryNames(t *testing.T) {
	names := map[string]bool{}
	for _, name := range sources(t) {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\.[tT]imed\("(\w+)"`).FindAllSubmatch(source, -1) {
			names[string(m[1])] = true
		}
	}
	doc, err := os.ReadFile("../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `db_query_duration_seconds` \\| histogram; `query` \\| (.*) \\|$").FindSubmatch(doc)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(\\w+)`").FindAllSubmatch(row[1], -1) {
		documented[string(m[1])] = true
	}
	if !maps.Equal(names, documented) || len(names) < 10 {
		t.Errorf("timed are %v, documented %v", slices.Sorted(maps.Keys(names)), slices.Sorted(maps.Keys(documented)))
	}
}
