package store

import (
	"errors"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// savesOne is an engine whose rows have changed but for one.
type savesOne struct {
	engine.Statements
	id approval.ID
}

func (s savesOne) Save(tx *engine.Tx, all []engine.Transition) (map[approval.ID]bool, error) {
	if all[0].ID != s.id {
		return nil, nil
	}
	return s.Statements.Save(tx, all)
}

// A move whose row is saved, and that cannot end what it replaces, is not left half
// made: its error is the batch's. One whose own row keeps changing concerns it alone.
func TestMoveThatCannotEndAnother(t *testing.T) {
	h := furnished(t)
	a := h.answer(1)
	first := h.live(t, a)
	a = h.answer(2)
	a.Replace = true
	handle, issued, err := h.Approve(t.Context(), a, Act{})
	if err != nil {
		t.Fatal(err)
	}
	id := approval.ID(handle.ID())
	for _, saved := range []approval.ID{id, {}} {
		o := &sqlite.Operation{ID: id, Move: approval.Exchange("quill", issuer, redirect, verifier, issued, 1, h.Now())}
		err := h.changeFacts(func(tx *Tx) error {
			tx.Engine = savesOne{tx.Engine, saved}
			if err := o.MakeMove(tx.Tx); err != nil {
				return errors.Join(ErrConflict, err) // is undone, and the writer goes on
			}
			return ErrNotAllowed
		})
		if half := saved == id; errors.Is(err, ErrConflict) != half || (o.Err != nil) == half {
			t.Errorf("saved %v: %v, its own %v", saved == id, err, o.Err)
		}
	}
	if r, err := h.Approval(t.Context(), first); err != nil || r.Phase != approval.Live {
		t.Errorf("the first is %v, %v", r.Phase, err)
	}
	if r, err := h.Approval(t.Context(), id); err != nil || r.Phase != approval.CodeIssued {
		t.Errorf("the second is %v, %v", r.Phase, err)
	}
}
