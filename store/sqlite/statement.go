package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// statement prepares a statement once. The texts are constants of this
// package, so their number is bounded.
func (w *writer) statement(text string) (*sql.Stmt, error) {
	if st, ok := w.statements[text]; ok {
		return st, nil
	}
	st, err := w.Conn.PrepareContext(context.Background(), text)
	if err != nil {
		return nil, err
	}
	w.statements[text] = st
	return st, nil
}

// Exec begins the transaction of a batch at its first write.
func (w *writer) Exec(_ *engine.Tx, text string, args ...any) (int64, error) {
	if err := w.begin(); err != nil {
		return 0, err
	}
	w.throttle.rest()
	return w.runText(text, args...)
}

func (w *writer) runText(text string, args ...any) (int64, error) {
	st, err := w.statement(text)
	if err != nil {
		return 0, err
	}
	r, err := st.ExecContext(context.Background(), args...)
	if errors.Is(err, sqlite3.CONSTRAINT) {
		return 0, fmt.Errorf("%w: %w", engine.ErrConflict, err)
	} else if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Query runs a prepared statement.
func (w *writer) Query(_ *engine.Tx, text string, args ...any) (*sql.Rows, error) {
	st, err := w.statement(text)
	if err != nil {
		return nil, err
	}
	return st.QueryContext(context.Background(), args...)
}

// Save goes row by row.
func (w *writer) Save(tx *engine.Tx, all []engine.Transition) (map[approval.ID]bool, error) {
	saved := make(map[approval.ID]bool, len(all))
	for _, t := range all {
		var n int64
		var err error
		if t.After.Phase == approval.Ended {
			// Beside a long change memory can be ahead of the row, by refreshes that are not in
			// it yet: what ends is the approval as memory has it.
			n, err = tx.Exec(`
				UPDATE approval
				   SET phase = $1, reason = $2, ended_at = $3, generation = $4
				 WHERE id = $5 AND phase = $6 AND generation <= $4`,
				int64(t.After.Phase), string(t.After.Reason), t.After.EndedAt, t.Before.Generation, t.ID[:], int64(t.Before.Phase))
		} else { // every exchange and refresh: it touches no indexed column
			n, err = tx.Exec(`
				UPDATE approval
				   SET phase = $1, generation = $2, key_number = $3, network = $4, bound = $5,
				       used_at = CASE WHEN used_at < $6 THEN $6 ELSE used_at END
				 WHERE id = $7 AND phase = $8 AND generation = $9`,
				int64(t.After.Phase), t.After.Generation, int64(t.After.Key), int64(t.After.Network), engine.BoundTo(t.After.Bound), int64(t.Used), t.ID[:], int64(t.Before.Phase), t.Before.Generation)
		}
		if err != nil {
			return nil, err
		}
		saved[t.ID] = n == 1
	}
	return saved, nil
}

// Lock is empty: nobody else writes.
func (w *writer) Lock() string { return "" }

// LastUse asks memory.
func (w *writer) LastUse(tx *engine.Tx, id approval.ID) (int64, error) {
	return tx.Memory.LastUse(id), nil
}

// eventsEach are how many entries of the journal one statement writes: each
// copies every page that it changes, for it may fail, so the fewer the better.
var eventsEach = []int{1000, 64, 1}

var insertEvents = func() map[int]string {
	texts := map[int]string{}
	for _, n := range eventsEach {
		all := make([]string, n)
		for i := range all {
			all[i] = eventPlaces(i)
		}
		text := strings.Replace(engine.InsertEvent, eventPlaces(0), strings.Join(all, ", "), 1)
		// To SQLite $1 is a name, which it looks for among all the others.
		texts[n] = strings.ReplaceAll(text, "$", "?")
	}
	return texts
}()

// eventPlaces are the parameters of the entry after n others.
func eventPlaces(n int) string {
	const columns = 12
	all := make([]string, columns)
	for i := range all {
		all[i] = fmt.Sprintf("$%d", n*columns+i+1)
	}
	return "(" + strings.Join(all, ", ") + ")"
}

// Journal writes them at once.
func (w *writer) Journal(tx *engine.Tx, entries []engine.Event) error {
	for _, e := range entries {
		if e.ProvesRewound() {
			if err := tx.NoteRewound(); err != nil {
				return err
			}
			break
		}
	}
	for _, n := range eventsEach {
		for ; len(entries) >= n; entries = entries[n:] {
			args := make([]any, 0, 12*n)
			for _, e := range entries[:n] {
				args = append(args, e.Values()...)
			}
			if _, err := tx.Exec(insertEvents[n], args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// Roomy gives the engine more memory for as long as very many rows change: most of their
// pages come once more, and with little room each was read and written every time.
func (w *writer) Roomy(on bool) error {
	if w.wide == on {
		return nil
	}
	text := `PRAGMA cache_size = -2000`
	if on {
		text = `PRAGMA cache_size = -16000`
	}
	// It is done when it is prepared, so it is prepared every time.
	_, err := w.Conn.ExecContext(context.Background(), text)
	w.wide = on && err == nil
	return err
}
