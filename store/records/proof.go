package records

import (
	"context"
	"database/sql"
	"errors"
	"io"

	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// WriteProof writes the journal with its blocks, to be verified by package chain: the blocks
// that have entries from a time on, Unix seconds, 0 is all, whole; and behind them the
// entries that were not sealed yet when it began. What it reads for long is not one
// state: a block does not change, and what retention removes meanwhile it says.
func (s *Records) WriteProof(ctx context.Context, since int64, to io.Writer) error {
	newest, err := s.newestBlock(ctx)
	if err != nil {
		return err
	}
	w := chain.NewWriter(to, newest.Chain)
	from := int64(1)
	if since > 0 {
		if err := s.db.Reader.QueryRowContext(ctx, `SELECT COALESCE(MIN(number), $1) FROM journal_block WHERE kept = 1 AND last_id >= $2`,
			newest.Number+1, query.IDAt(since)).Scan(&from); err != nil {
			return engine.Unavailable("proof", err)
		}
	}
	for number := from; number <= newest.Number; number++ {
		if err := s.proveBlock(ctx, w, newest.Chain, number); err != nil {
			return err
		}
	}
	if err := s.proveRest(ctx, w, newest.Number, since); err != nil {
		return err
	}
	return w.End()
}

// proveBlock writes a block and its entries. A number that is not there is left out,
// which whoever verifies is told.
func (s *Records) proveBlock(ctx context.Context, w *chain.Writer, name string, number int64) error {
	rows, err := s.db.Reader.QueryContext(ctx, `
		SELECT number, previous, entries, total, first_id, last_id, sealed_at, root, hash, leaves
		  FROM journal_block WHERE number = $1`, number)
	type row struct {
		chain.Block
		leaves []byte
	}
	found, err := engine.ListOf(rows, err, func(r engine.Scanner, b *row) error {
		return scanBlock(with{r, &b.leaves}, &b.Block)
	})
	if err != nil {
		return engine.Unavailable("proof", err)
	}
	for _, b := range found {
		leaves, err := chain.Unpack(b.leaves)
		if err != nil {
			leaves = nil // whoever verifies is told
		}
		ids := make([]string, len(leaves))
		for i, l := range leaves {
			ids[i] = l.ID
		}
		events, err := s.eventsOf(ctx, ids)
		if err != nil {
			return err
		}
		gone := ""
		if int64(len(events)) < b.Entries {
			if gone, err = s.goneBefore(ctx); err != nil {
				return err
			}
		}
		entries := make([]chain.Entry, len(events))
		for i, e := range events {
			entries[i] = ChainEntry(e)
		}
		b.Chain = name
		if err := w.Block(b.Block, leaves, entries, gone); err != nil {
			return err
		}
	}
	return nil
}

// with reads one column more than its caller asks for.
type with struct {
	engine.Scanner
	last any
}

func (w with) Scan(into ...any) error { return w.Scanner.Scan(append(into, w.last)...) }

// goneBefore is the ID that entries lie below which retention may have removed.
func (s *Records) goneBefore(ctx context.Context) (string, error) {
	noted, err := s.meta(ctx, metaGone)
	return max(noted, JournalID(s.db.Now().Add(-s.db.Options.JournalRetention))), err
}

// proveRest writes the entries that no block up to a number has.
func (s *Records) proveRest(ctx context.Context, w *chain.Writer, upTo, since int64) error {
	highest, err := s.highest(ctx, upTo)
	if err != nil {
		return err
	}
	behind := query.IDAt(since)
	if highest != "" {
		behind = max(behind, later(highest, -lateFor))
	}
	const end = "g" // behind every ID
	for next := behind; next != ""; {
		var ids []string
		if ids, next, err = s.notIn(ctx, upTo, next, end); err != nil {
			return err
		}
		events, err := s.eventsOf(ctx, ids)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := w.Unsealed(ChainEntry(e)); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteGone notes that entries below an ID may be gone. It never goes back.
func noteGone(tx *engine.Tx, before string) error {
	noted, err := tx.Meta(metaGone)
	if err != nil && !errors.Is(err, sql.ErrNoRows) || noted >= before {
		return err
	}
	return tx.PutMeta(metaGone, before)
}
