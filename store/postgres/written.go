package postgres

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/store/engine"
)

// fewRows are so few that other nodes load them by their keys in no time, whatever they are of.
const fewRows = 1000

// byWriter are the tables that a directory of thousands is in. Where one transaction has
// written many rows of one, it is named instead of their keys: by its key a row takes eight
// times as long as one among all.
var byWriter = [...]string{"person", "membership", "role", "filler"}

// countWritten names the transaction, and counts the rows of byWriter that it wrote last.
const countWritten = `
	SELECT pg_current_xact_id()::xid::text,
	       (SELECT COUNT(*) FROM person WHERE xmin = pg_current_xact_id()::xid),
	       (SELECT COUNT(*) FROM membership WHERE xmin = pg_current_xact_id()::xid),
	       (SELECT COUNT(*) FROM role WHERE xmin = pg_current_xact_id()::xid),
	       (SELECT COUNT(*) FROM filler WHERE xmin = pg_current_xact_id()::xid)`

// written are the rows of a table that a transaction wrote last. Whoever does not find as
// many loads all facts: others have written some of them since, or the rows have come to
// another server, where no transaction is the one that wrote them.
type written struct {
	table, by string
	rows      int
}

func (w written) String() string { return fmt.Sprint(w.by, " ", w.table, " ", w.rows) }

// writtenBy reads what String gives.
func writtenBy(key string) (w written, ok bool) {
	by, rest, _ := strings.Cut(key, " ")
	table, rows, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(rows)
	return written{table, by, n}, err == nil && slices.Contains(byWriter[:], table)
}

// factChanges are what the transaction logs for other nodes: each row that it has changed, by
// its table and key; rows of byWriter by who wrote them, where those of one table are many;
// or, where still more than an eighth of the facts would be named, that everything has
// changed. An earlier release takes the second for the third, and so does who looks for
// approvals that have ended (see PendingEnds).
func (p *Engine) factChanges(tx *engine.Tx) (tables, keys []string, err error) {
	rows := tx.ChangedRows()
	there := map[string]map[string]bool{}
	for _, r := range rows {
		if there[r.Table] == nil {
			there[r.Table] = map[string]bool{}
		}
		if !r.Gone {
			there[r.Table][r.Key] = true
		}
	}
	whole := map[string]bool{} // tables that are named by who wrote
	if p.IsPostgreSQL && slices.ContainsFunc(byWriter[:], func(table string) bool { return len(there[table]) > p.Few }) {
		var by string
		var n [len(byWriter)]int
		if err := tx.QueryRow(countWritten).Scan(&by, &n[0], &n[1], &n[2], &n[3]); err != nil {
			return nil, nil, err
		}
		for i, table := range byWriter {
			// Fewer would be there if some had been there as they came.
			if many := len(there[table]); many > 0 && n[i] >= many {
				whole[table] = true
				tables, keys = append(tables, everything), append(keys, written{table, by, n[i]}.String())
			}
		}
	}
	for _, r := range rows {
		if r.Gone || !whole[r.Table] {
			tables, keys = append(tables, r.Table), append(keys, r.Key)
		}
	}
	if p.manyKeys(len(keys)) {
		return []string{everything}, []string{""}, nil
	}
	return tables, keys, nil
}

// manyKeys reports whether a change names so many rows that other nodes are quicker to load
// all facts again.
func (p *Engine) manyKeys(n int) bool {
	const times = 8
	m := p.Memory
	m.RLock()
	defer m.RUnlock()
	return n > p.Few && n > m.Rows()/times
}
