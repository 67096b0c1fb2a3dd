package postgres

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// The columns of entries stand in the order of the table's, each with the type that the
// statement says, and are numbered from where the statement begins.
func TestEntriesAsArrays(t *testing.T) {
	events := []engine.Event{
		{ID: "1", At: 10, Kind: journal.ClientRegistered, Client: "quill\x00", Person: "ada", Organization: "nordlys", Approval: "aa", Actor: "a", Address: "192.0.2.1", Reason: "r", Detail: "d", Reference: "f"},
		{ID: "2", At: 20},
	}
	columns := eventColumns(events)
	for i := range columns {
		for n, e := range events {
			got, want := reflect.ValueOf(columns[i]).Index(n).Interface(), e.Values()[i]
			if text, ok := want.(string); ok {
				want = storable(text)
			}
			if got != want {
				t.Errorf("column %d of %s: %v, want %v", i, e.ID, got, want)
			}
		}
	}
	text := insertArrays(5, " END")
	names := strings.Split(engine.JournalColumns, ", ")
	if len(columns) != len(names) {
		t.Errorf("%d arrays for %d columns", len(columns), len(names))
	}
	var arrays []string
	for i := range names {
		kind := "text"
		if names[i] == "at" {
			kind = "bigint"
		}
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", 5+i, kind))
	}
	want := `INSERT INTO journal (` + engine.JournalColumns + `) SELECT e.` + strings.Join(names, ", e.") +
		` FROM unnest(` + strings.Join(arrays, ", ") + `) AS e (` + engine.JournalColumns + `) END`
	if got := strings.Join(strings.Fields(text), " "); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// What is written of clients stands where the statement looks for it, and beside it one entry of
// the journal for each.
func TestClientsAsArrays(t *testing.T) {
	p := &Engine{Env: engine.NewEnv(engine.Options{Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})}
	args := p.clientColumns([]*registration{
		{client: client.Client{ID: "quill", Name: "Quill\x00", RedirectURIs: []string{"https://a.example", "https://b.example"}, IssuedAt: 10, Preregistered: true}, network: "192.0.2.0", act: engine.Act{Actor: "anna"}},
		{client: client.Client{ID: "brass", IssuedAt: 20, Approved: true, Disabled: true}},
	})
	for i, want := range []any{
		[]string{"quill", "brass"}, []string{"Quill\uFFFD", ""}, []string{"https://a.example\nhttps://b.example", ""}, []string{"192.0.2.0", ""},
		[]int64{10, 20}, []int64{1, 0}, []int64{0, 1}, []int64{0, 1},
	} {
		if !reflect.DeepEqual(args[i], want) {
			t.Errorf("$%d: %v, want %v", i+1, args[i], want)
		}
	}
	entries := args[8:]
	if ids := entries[0].([]string); len(ids) != 2 || ids[0] == ids[1] || ids[0] == "" {
		t.Errorf("IDs of the entries: %q", ids)
	}
	if at := entries[1].([]int64); !reflect.DeepEqual(at, []int64{1_800_000_000, 1_800_000_000}) {
		t.Errorf("at %v", at)
	}
	for i, want := range map[int][]string{2: {string(journal.ClientRegistered), string(journal.ClientRegistered)}, 3: {"quill", "brass"}, 7: {"anna", ""}} {
		if !reflect.DeepEqual(entries[i], want) {
			t.Errorf("column %d of the entries: %v, want %v", i, entries[i], want)
		}
	}
}
