package engine

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
)

// MaxTries is how often a move is made again when its row was changed between
// reading and writing.
const MaxTries = 4

// Move makes one move in the transaction under way: it reads the approval, saves
// what the move makes of it, journals that, and ends what the approval replaces.
// moved is false when the move changes nothing. ErrNotFound: there is no such row.
func (tx *Tx) Move(id approval.ID, m approval.Move, live bool, act Act) (a approval.Approval, v approval.Verdict, moved bool, err error) {
	spent := !act.Proof.Given()
	for range MaxTries {
		var replaces string
		if a, replaces, err = tx.Read(id, live); err != nil {
			return a, v, false, err
		}
		before := a.State
		if a.State, v = m(a, tx.Memory.Standing(a)); a.State == before {
			return a, v, false, nil
		}
		if v.Proven() && !spent {
			if spent, err = tx.Spend(act.Proof.ID, act.Proof.Until); err != nil {
				return a, v, false, err
			}
			if !spent {
				a.State = before
				return a, approval.Replayed, false, nil
			}
		}
		saved, err := tx.Save([]Transition{tx.Env.Transition(a, before)})
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
func (tx *Tx) moved(a approval.Approval, before approval.State, replaces string, act Act) error {
	if err := tx.Journal(Events(a, before, act)...); err != nil {
		return err
	}
	tx.PutMoved(a)
	if before.Phase != approval.CodeIssued || a.Phase != approval.Live {
		return nil
	}
	for text := range strings.FieldsSeq(replaces) {
		id, err := approval.ParseID(text)
		if err != nil {
			return err
		}
		if _, err := tx.End(id, approval.Replaced, act); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	return nil
}

// Spend reports whether nothing of the hash was spent before, and remembers it up to a
// time, Unix seconds.
func (tx *Tx) Spend(hash [sha256.Size]byte, until int64) (first bool, err error) {
	n, err := tx.Exec(InsertSpent, hash[:], until)
	return n == 1, err
}

// InsertSpent changes no row where the hash is there.
const InsertSpent = `INSERT INTO spent (hash, ends_at) VALUES ($1, $2) ON CONFLICT (hash) DO NOTHING`

// BoundTo is how a column has the key that an approval is bound to.
func BoundTo(key approval.Thumbprint) []byte {
	if key == (approval.Thumbprint{}) {
		return []byte{}
	}
	return key[:]
}

// PutMoved is for a state that was saved.
func (tx *Tx) PutMoved(a approval.Approval) {
	tx.later(approvalMoved{a.ID, a.State, uint32(tx.Env.Now().Unix())})
}

// Events says what a move means to those who read the journal.
func Events(a approval.Approval, before approval.State, act Act) []Event {
	e := Event{Client: a.Client, Person: a.Person, Organization: a.Organization, Approval: a.ID.String()}
	var out []Event
	add := func(kind journal.Kind, reason approval.Reason) {
		e.Kind, e.Reason = kind, string(reason)
		out = append(out, e.By(act))
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

// Read gives an approval as it stands, from memory when that is enough.
func (tx *Tx) Read(id approval.ID, live bool) (approval.Approval, string, error) {
	if live {
		if a, there := tx.Memory.Living(id); there {
			return a, "", nil
		}
	}
	rows, err := tx.Query(SelectApproval+` WHERE id = $1`+tx.Lock(), id[:])
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
	return ScanApproval(rows)
}

// ApprovalColumns are in the order of scanApproval.
const ApprovalColumns = `
	       a.id, a.client, a.person, a.organization, a.grant_kind, a.picks, a.personal,
	       a.redirect_uri, a.issuer, a.challenge, a.issued_at, a.created_at, a.replaces,
	       a.membership_epoch, a.person_epoch, a.organization_epoch, a.client_epoch,
	       a.phase, a.generation, a.key_number, a.reason, a.ended_at, a.network, a.ends_at, a.bound`

// SelectApproval reads what ScanApproval takes.
const SelectApproval = `SELECT ` + ApprovalColumns + ` FROM approval a`

// ScanApproval takes a row, with more columns behind. replaces are IDs.
func ScanApproval(rows Scanner, more ...any) (a approval.Approval, replaces string, err error) {
	var id, bound []byte
	var kind, picks, reason string
	var personal int64
	err = rows.Scan(append([]any{
		&id, &a.Client, &a.Person, &a.Organization, &kind, &picks, &personal,
		&a.RedirectURI, &a.Issuer, &a.Challenge, &a.IssuedAt, &a.CreatedAt, &replaces,
		&a.Born.Membership, &a.Born.Person, &a.Born.Organization, &a.Born.Client,
		&a.Phase, &a.Generation, &a.Key, &reason, &a.EndedAt, &a.Network, &a.EndsAt, &bound,
	}, more...)...)
	if err != nil {
		return a, "", err
	}
	copy(a.ID[:], id)
	copy(a.Bound[:], bound)
	a.Reason, a.Replace = approval.Reason(reason), replaces != ""
	if a.Grant, err = grantset.Decode(kind, picks, personal == 1); err != nil {
		return a, "", fmt.Errorf("approval %s: %w", a.ID, err)
	}
	return a, replaces, nil
}

// A Transition is what a move makes of the row of an approval. The row has to be
// still as it was read: phase and generation are its version.
type Transition struct {
	ID            approval.ID
	Before, After approval.State
	Used          uint32 // Unix seconds, when the move is a use; else 0
}

// End ends one approval as part of a larger change; one that has ended stays as it
// ended.
func (tx *Tx) End(id approval.ID, why approval.Reason, act Act) (ended bool, err error) {
	_, _, ended, err = tx.Move(id, approval.End(why, tx.Env.Now()), true, act)
	return ended, err
}
