package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
)

// maxTries is how often a move is made again when its row was changed between
// reading and writing.
const maxTries = 4

// Apply makes a move of an approval: state and journal are on the disk when it
// returns. The approval is given as it stands after the move. ErrNotFound
// means that there is no such row, ErrUnavailable that nothing has changed.
func (s *Store) Apply(_ context.Context, id approval.ID, m approval.Move, act Act) (approval.Approval, approval.Verdict, error) {
	return s.engine.Move(id, m, false, act)
}

// ApplyLive is Apply for moves that ask nothing of the code, such as
// approval.Refresh, Revoke and End. It saves reading the row; the approval
// that it gives lacks redirect URI, issuer and challenge.
func (s *Store) ApplyLive(ctx context.Context, id approval.ID, m approval.Move, act Act) (approval.Approval, approval.Verdict, error) {
	m, err := s.orUnused(ctx, id, m)
	if err != nil {
		return approval.Approval{}, 0, err
	}
	return s.engine.Move(id, m, true, act)
}

// move makes one move in the transaction under way: it reads the approval, saves
// what the move makes of it, journals that, and ends what the approval replaces.
// moved is false when the move changes nothing. ErrNotFound: there is no such row.
func (tx *txn) move(id approval.ID, m approval.Move, live bool, act Act) (a approval.Approval, v approval.Verdict, moved bool, err error) {
	for range maxTries {
		var replaces string
		if a, replaces, err = tx.read(id, live); err != nil {
			return a, v, false, err
		}
		before := a.State
		if a.State, v = m(a, tx.memory.Standing(a)); a.State == before {
			return a, v, false, nil
		}
		saved, err := tx.save([]transition{tx.env.transition(a, before)})
		if err != nil {
			return a, v, false, err
		}
		if saved[id] {
			return a, v, true, tx.moved(a, before, replaces, act)
		}
		live = false // the row knows better than memory
	}
	return a, v, false, fmt.Errorf("approval %s keeps changing: %w", id, ErrUnavailable)
}

// moved journals what a saved move has changed, and ends what the approval
// replaces.
func (tx *txn) moved(a approval.Approval, before approval.State, replaces string, act Act) error {
	if err := tx.journal(events(a, before, act)...); err != nil {
		return err
	}
	tx.putMoved(a)
	if before.Phase != approval.CodeIssued || a.Phase != approval.Live {
		return nil
	}
	for text := range strings.FieldsSeq(replaces) {
		id, err := approval.ParseID(text)
		if err != nil {
			return err
		}
		if _, err := tx.end(id, approval.Replaced, act); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// putMoved is for a state that was saved.
func (tx *txn) putMoved(a approval.Approval) {
	tx.later(approvalMoved{a.ID, a.State, uint32(tx.env.Now().Unix())})
}

// events says what a move means to those who read the journal.
func events(a approval.Approval, before approval.State, act Act) []Event {
	e := Event{Client: a.Client, Person: a.Person, Organization: a.Organization, Approval: a.ID.String()}
	var out []Event
	add := func(kind journal.Kind, reason approval.Reason) {
		e.Kind, e.Reason = kind, string(reason)
		out = append(out, e.by(act))
	}
	switch {
	case before.Phase == approval.CodeIssued && a.Phase == approval.Live:
		add(journal.CodeExchanged, "")
	case before.Phase != approval.Ended && a.Phase == approval.Ended:
		if a.Reason == approval.RefreshReused {
			e.Detail = act.reuse(before)
			add(journal.RefreshReused, approval.Reason(act.looksLike(before)))
			e.Detail = ""
		} else if a.Reason == approval.CodeReused {
			add(journal.CodeReused, "")
		}
		add(journal.ApprovalEnded, a.Reason)
	}
	return out
}

// read gives an approval as it stands, from memory when that is enough.
func (tx *txn) read(id approval.ID, live bool) (approval.Approval, string, error) {
	if live {
		if h := tx.memory.approvals.at(id); h != nil && h.phase == approval.Live {
			return tx.memory.uncached(id, h), "", nil
		}
	}
	rows, err := tx.query(selectApproval+` WHERE id = $1`+tx.lock(), id[:])
	if err != nil {
		return approval.Approval{}, "", err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return approval.Approval{}, "", err
		}
		return approval.Approval{}, "", fmt.Errorf("approval %s: %w", id, ErrNotFound)
	}
	return scanApproval(rows)
}

// approvalColumns are in the order of scanApproval.
const approvalColumns = `
	       a.id, a.client, a.person, a.organization, a.grant_kind, a.picks, a.personal,
	       a.redirect_uri, a.issuer, a.challenge, a.issued_at, a.created_at, a.replaces,
	       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch,
	       a.phase, a.generation, a.key_number, a.reason, a.ended_at, a.network`

const selectApproval = `SELECT ` + approvalColumns + ` FROM approval a`

func scanApproval(rows scanner, more ...any) (a approval.Approval, replaces string, err error) {
	var id []byte
	var kind, picks, reason string
	var personal int64
	err = rows.Scan(append([]any{
		&id, &a.Client, &a.Person, &a.Organization, &kind, &picks, &personal,
		&a.RedirectURI, &a.Issuer, &a.Challenge, &a.IssuedAt, &a.CreatedAt, &replaces,
		&a.Born.Membership, &a.Born.Person, &a.Born.Organization, &a.Born.Client,
		&a.Phase, &a.Generation, &a.Key, &reason, &a.EndedAt, &a.Network,
	}, more...)...)
	if err != nil {
		return a, "", err
	}
	copy(a.ID[:], id)
	a.Reason, a.Replace = approval.Reason(reason), replaces != ""
	if a.Grant, err = grantset.Decode(kind, picks, personal == 1); err != nil {
		return a, "", fmt.Errorf("approval %s: %w", a.ID, err)
	}
	return a, replaces, nil
}

// A transition is what a move makes of the row of an approval. The row has to be
// still as it was read: phase and generation are its version.
type transition struct {
	id            approval.ID
	before, after approval.State
	used          uint32 // Unix seconds, when the move is a use; else 0
}

// end ends one approval as part of a larger change; one that has ended stays as it
// ended.
func (tx *txn) end(id approval.ID, why approval.Reason, act Act) (ended bool, err error) {
	_, _, ended, err = tx.move(id, approval.End(why, tx.env.Now()), true, act)
	return ended, err
}
