package store

import (
	"errors"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
)

// A key that names no hash forgets none, whatever a row or another node says.
func TestNamesOfAPIKeys(t *testing.T) {
	hash := facts.APIKeyGone{1, 2, 3}
	_, good := hash.Row()
	for _, key := range []string{"", "x", "01", good[1:], good + "00", good + good, strings.Repeat("z", 64)} {
		if got := apiKeyGone(key); got != (facts.APIKeyGone{}) {
			t.Errorf("%q forgets %v", key, got)
		}
	}
	if got := apiKeyGone(good); got != hash {
		t.Errorf("%q forgets %v", good, got)
	}
}

// savesOne is an engine whose rows have changed but for one.
type savesOne struct {
	statements
	id approval.ID
}

func (s savesOne) Save(tx *txn, all []transition) (map[approval.ID]bool, error) {
	if all[0].id != s.id {
		return nil, nil
	}
	return s.statements.Save(tx, all)
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
		o := &operation{id: id, move: approval.Exchange("quill", issuer, redirect, verifier, issued, 1, h.Now())}
		err := h.changeFacts(func(tx *Tx) error {
			tx.engine = savesOne{tx.engine, saved}
			if err := o.makeMove(tx.txn); err != nil {
				return errors.Join(ErrConflict, err) // is undone, and the writer goes on
			}
			return ErrNotAllowed
		})
		if half := saved == id; errors.Is(err, ErrConflict) != half || (o.err != nil) == half {
			t.Errorf("saved %v: %v, its own %v", saved == id, err, o.err)
		}
	}
	if r, err := h.Approval(t.Context(), first); err != nil || r.Phase != approval.Live {
		t.Errorf("the first is %v, %v", r.Phase, err)
	}
	if r, err := h.Approval(t.Context(), id); err != nil || r.Phase != approval.CodeIssued {
		t.Errorf("the second is %v, %v", r.Phase, err)
	}
}
