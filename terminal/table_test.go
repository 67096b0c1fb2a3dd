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
	for _, tt := range [][2]string{ // one begins as the other is
		{"aaaaaaaaaabbbbb aaaaaaaaaa", "aaaaaaaaaab… aaaaaaaaaa"}, {"aaaaaaaaaa aaaaaaaaaabbbbb", "aaaaaaaaaa aaaaaaaaaab…"},
	} {
		ids := strings.Fields(tt[0])
		shortenIDs(ids)
		if got := strings.Join(ids, " "); got != tt[1] {
			t.Errorf("IDs: %s, want %s", got, tt[1])
		}
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

// What has a shorter form takes it first, then texts are cut to the room that there is, then
// columns are left out, the highest first, and at last texts become shorter than they should.
func TestTableAtWidths(t *testing.T) {
	items := []any{
		map[string]any{"id": "0123456789abcdef", "at": 1_800_000_000.0, "state": "connected", "text": "some words that are many more than fit", "name": "a"},
		map[string]any{"id": "123456789abcdef0", "at": 1_800_000_060.0, "state": "ended", "text": "few", "name": "somewhat long name"},
	}
	id, at, state, text, name := IDOf("client", "id"), Moment("used", "at"), WordOf("state", "state"), Member("what it says", "text"), Member("name", "name")
	for _, tt := range []struct {
		columns []Column
		width   int
		out     string
		want    []string
	}{
		{[]Column{id, at, state}, 49, "", []string{
			"client            used                  state",
			"0123456789abcdef  2027-01-15T08:00:00Z  connected",
			"123456789abcdef0  2027-01-15T08:01:00Z  ended",
		}},
		{[]Column{id, at, state}, 48, "", []string{
			"client     used UTC          state",
			"01234567…  2027-01-15 08:00  connected",
			"12345678…  2027-01-15 08:01  ended",
		}},
		{[]Column{state, text}, 40, "", []string{
			"state      what it says",
			"connected  some words that are many mor…",
			"ended      few",
		}},
		{[]Column{text, name}, 36, "", []string{
			"what it says      name",
			"some words that…  a",
			"few               somewhat long na…",
		}},
		{[]Column{text, name}, 31, "", []string{
			"what it says    name",
			"some words th…  a",
			"few             somewhat long…",
		}},
		{[]Column{text, name}, 29, "", []string{ // what is left to nothing else
			"what it says   name",
			"some words t…  a",
			"few            somewhat lon…",
		}},
		{[]Column{text, name}, 23, "", []string{ // no title is cut
			"what it says  name",
			"some words…   a",
			"few           somewhat…",
		}},
		{[]Column{text, name}, 10, "", []string{ // wider than it should be
			"what it says  name",
			"some words…   a",
			"few           somewha…",
		}},
		{[]Column{text.Sparing(1), state, name.Sparing(2)}, 25, "name", []string{
			"what it says    state",
			"some words th…  connected",
			"few             ended",
		}},
		{[]Column{text.Sparing(1), state, name.Sparing(2)}, 24, "name, what it says", []string{
			"state",
			"connected",
			"ended",
		}},
		{[]Column{text.Sparing(1), state.Sparing(1), name}, 30, "what it says", []string{ // of two, the one in front
			"state      name",
			"connected  a",
			"ended      somewhat long name",
		}},
		{[]Column{state}, 5, "", []string{
			"state",
			"connected",
			"ended",
		}},
	} {
		table := NewTable(items, tt.columns)
		out := strings.Join(table.Fit(tt.width), ", ")
		var b strings.Builder
		table.Write(&b)
		if want := strings.Join(tt.want, "\n") + "\n"; b.String() != want || out != tt.out {
			t.Errorf("width %d: without %q:\n%swant without %q:\n%s", tt.width, out, b.String(), tt.out, want)
		}
	}
}

func TestRows(t *testing.T) {
	var b strings.Builder
	Rows(Member("name", "name"), Moment("ends at", "ends"), Member("URIs", "uris"))(&b, map[string]any{"name": "a", "uris": []any{"b", "c"}})
	if got, want := b.String(), "name     a\nends at  none\nURIs     b c\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestInWords(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{nil, "none"}, {"", "none"}, {"a\nb", "a b"}, {true, "yes"}, {false, "no"}, {0.0, "0"}, {1.5, "1.5"}, {1e21, "1000000000000000000000"},
		{0.1, "0.1"}, {[]any{}, "none"}, {[]any{"a", 2.0, true}, "a 2 yes"}, {map[string]any{}, "?"},
	} {
		if got := InWords(tt.value); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.value, got, tt.want)
		}
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
