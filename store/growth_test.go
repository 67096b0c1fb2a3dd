package store

import (
	"context"
	"maps"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// counted gives the rows of every table.
func (h house) counted(t testing.TB) map[string]int {
	t.Helper()
	text := `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1`
	if !embedded() {
		text = `SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema() ORDER BY 1`
	}
	names, err := h.db.Reader.QueryContext(context.Background(), text)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	counts := map[string]int{}
	for names.Next() {
		var name string
		if err := names.Scan(&name); err != nil {
			t.Fatal(err)
		}
		counts[name] = 0
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
	for name := range counts {
		counts[name] = h.rows(t, `SELECT COUNT(*) FROM "`+name+`"`)
	}
	return counts
}

// All state of an approval's tokens is one row (decision T1): however often it is
// refreshed, no table has a row more, and the embedded engine's file no page more.
func TestRefreshesLeaveNoRow(t *testing.T) {
	ctx := context.Background()
	h := furnished(t)
	id := h.live(t, h.answer(1))
	refresh := func(from, to int64) {
		for n := from; n < to; n++ {
			if _, v, err := h.Refresh(ctx, id, "quill", n, 1, Act{}); v != approval.OK || err != nil {
				t.Fatal(n, v, err)
			}
		}
		if err := h.Ready(ctx); err != nil { // what was noted is written by then
			t.Fatal(err)
		}
	}
	before, pages := h.counted(t), 0
	if embedded() {
		pages = h.rows(t, `PRAGMA page_count`)
	}
	if before["approval"] != 1 {
		t.Fatalf("rows at first: %v", before)
	}
	refresh(1, 200)
	if after := h.counted(t); !maps.Equal(before, after) {
		t.Errorf("rows before %v, after %v", before, after)
	}
	if embedded() && h.rows(t, `PRAGMA page_count`) != pages {
		t.Errorf("%d pages became %d", pages, h.rows(t, `PRAGMA page_count`))
	}
}
