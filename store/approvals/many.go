package approvals

import (
	"slices"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// MoveRows makes a move of many approvals that may end them and asks nothing
// of the code, as part of a larger change: a few statements for all of them.
// What is not there any more, or has ended meanwhile, is left out of the count.
func MoveRows(tx *engine.Tx, ids []approval.ID, m approval.Move, act engine.Act) (ended int, err error) {
	all, err := ReadMany(tx, ids)
	if err != nil {
		return 0, err
	}
	var over []approval.Approval
	var ends []engine.Transition
	for _, a := range all {
		before := a.State
		if a.State, _ = m(a, tx.Memory.Standing(a)); a.State != before && a.Phase == approval.Ended {
			over, ends = append(over, a), append(ends, tx.Env.Transition(a, before))
		}
	}
	if len(ends) == 0 {
		return 0, nil
	}
	saved, err := tx.Save(ends)
	if err != nil {
		return 0, err
	}
	over = slices.DeleteFunc(over, func(a approval.Approval) bool { return !saved[a.ID] })
	var entries []engine.Event
	for _, a := range over {
		entries = append(entries, engine.Events(a, approval.State{Phase: approval.Live}, act)...)
	}
	if err := tx.Journal(entries...); err != nil {
		return 0, err
	}
	for _, a := range over {
		tx.PutMoved(a)
	}
	return len(over), nil
}

// ReadMany gives those of the approvals that are there: from memory where that
// is enough, else from their rows, which on PostgreSQL stay as they are read.
func ReadMany(tx *engine.Tx, ids []approval.ID) ([]approval.Approval, error) {
	out := make([]approval.Approval, 0, len(ids))
	var rest []any
	for _, id := range ids {
		if a, there := tx.Memory.Living(id); there {
			out = append(out, a)
			continue
		}
		rest = append(rest, id[:])
	}
	if len(rest) == 0 {
		return out, nil
	}
	q := query.Builder{Text: engine.SelectApproval}
	if lock := tx.Lock(); lock != "" {
		q.End = ` ORDER BY id` + lock
	}
	q.OneOf("id", query.Padded(rest))
	rows, err := tx.Query(q.Whole(), q.Args...)
	return out, engine.EachRow(rows, err, func(r engine.Scanner) error {
		a, _, err := engine.ScanApproval(r)
		out = append(out, a)
		return err
	})
}
