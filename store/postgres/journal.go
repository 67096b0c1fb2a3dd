package postgres

import (
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// insertArrays is a statement that writes what eventColumns gives, as its
// parameters from one on, as far as the end of it lets them.
func insertArrays(first int, end string) string {
	arrays := make([]string, 12)
	for i := range arrays {
		arrays[i] = fmt.Sprintf("$%d::text[]", first+i)
	}
	arrays[1] = fmt.Sprintf("$%d::bigint[]", first+1)
	return `INSERT INTO journal (` + engine.JournalColumns + `)
		SELECT e.` + strings.ReplaceAll(engine.JournalColumns, ", ", ", e.") + `
		  FROM unnest(` + strings.Join(arrays, ", ") + `) AS e (` + engine.JournalColumns + `)` + end
}

// eventColumns turns entries into arrays, one for each column of the journal.
func eventColumns(events []engine.Event) []any {
	at := make([]int64, len(events))
	var texts [11][]string
	for i := range texts {
		texts[i] = make([]string, len(events))
	}
	for i, e := range events {
		at[i] = e.At
		for c, v := range e.Texts() {
			texts[c][i] = storable(v)
		}
	}
	out := []any{texts[0], at}
	for _, t := range texts[1:] {
		out = append(out, t)
	}
	return out
}
