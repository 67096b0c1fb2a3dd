package terminal

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// eventColumns are of every shape, with and without a place in the order of leaving out.
var eventColumns = []Column{
	Moment("time", "at"), WordOf("kind", "kind"), IDOf("client", "client"), IDOf("person", "person"),
	Member("organization", "organization").Sparing(2), IDOf("approval", "approval").Sparing(1), Member("actor", "actor").Sparing(3),
	Member("detail", "detail"), WordOf("reference", "reference").Sparing(5),
}

// journalOf are some entries with cells of every shape, short and long.
func journalOf(n int) (items []any) {
	for i := range n {
		items = append(items, map[string]any{
			"at": float64(1_800_000_000 + i), "kind": "approval_granted", "client": fmt.Sprintf("0123456%dabcdefghijklmno", i), "person": "ada",
			"organization": "nordlys", "approval": strings.Repeat(fmt.Sprint(i), 32), "actor": "operator:" + strings.Repeat("å", 30),
			"detail": strings.Repeat("word ", 30), "reference": "0123456789abcdef",
		})
	}
	return items
}

// No line is wider than it may be, as long as there is room for what is never
// left out, and what is not cut is whole.
func TestTableFits(t *testing.T) {
	items := journalOf(9)
	var whole strings.Builder
	full := NewTable(items, eventColumns)
	if out := full.Fit(1000); out != nil {
		t.Errorf("left out at 1000: %v", out)
	}
	full.Write(&whole)
	if !strings.Contains(whole.String(), strings.Repeat("3", 32)) || strings.Contains(whole.String(), "…") || !strings.Contains(whole.String(), "2027-01-15T08:00:00Z") {
		t.Errorf("with room for all:\n%s", whole.String())
	}
	last := 0
	for width := 75; width <= 400; width++ {
		table := NewTable(items, eventColumns)
		out := table.Fit(width)
		var b strings.Builder
		table.Write(&b)
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width || strings.HasSuffix(line, " \n") {
				t.Fatalf("width %d: %d characters:\n%s", width, n, b.String())
			}
		}
		if len(table.columns)+len(out) != len(eventColumns) || len(table.columns) < last {
			t.Fatalf("width %d: %d columns, without %v; narrower had %d", width, len(table.columns), out, last)
		}
		last = len(table.columns)
		if !strings.Contains(b.String(), "approval_granted") {
			t.Fatalf("width %d: a word is cut:\n%s", width, b.String())
		}
	}
	if last != len(eventColumns) {
		t.Errorf("%d columns with room for all", last)
	}
}

// IDs are cut where each can still be told from the others, and times keep
// their minute.
func TestTableShortens(t *testing.T) {
	ids := []string{"aaaaaaaaaabbbbbbbbbb", "aaaaaaaaaacccccccccc", "short", "none", "aaaaaaaaaabbbbbbbbbb"}
	shortenIDs(ids)
	if got := strings.Join(ids, " "); got != "aaaaaaaaaab… aaaaaaaaaac… short none aaaaaaaaaab…" {
		t.Errorf("IDs: %s", got)
	}
	ids = []string{"123456789", "abcdefghij"}
	shortenIDs(ids)
	if got := strings.Join(ids, " "); got != "123456789 abcdefgh…" { // nothing is cut for a mark as long
		t.Errorf("IDs: %s", got)
	}
	times := []string{"used", TimeOf(1_800_000_000.0), TimeOf(0.0)}
	shortenTimes(times)
	if got := strings.Join(times, "|"); got != "used UTC|2027-01-15 08:00|none" {
		t.Errorf("times: %s", got)
	}
}

// An empty cell says so.
func TestTableSaysNone(t *testing.T) {
	table := NewTable([]any{map[string]any{"uris": []any{}}}, []Column{IDOf("client", "id"), Member("URIs", "uris"), Moment("made", "at")})
	var b strings.Builder
	table.Write(&b)
	if got := strings.Fields(strings.Split(b.String(), "\n")[1]); strings.Join(got, " ") != "none none none" {
		t.Errorf("%v", got)
	}
}
