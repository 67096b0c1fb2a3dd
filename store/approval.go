package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// maxTries is how often a move is made again when its row was changed between
// reading and writing.
const maxTries = 4

// Apply makes a move of an approval: state and journal are on the disk when it
// returns. The approval is given as it stands after the move. ErrNotFound
// means that there is no such row, ErrUnavailable that nothing has changed.
func (s *Store) Apply(_ context.Context, id approval.ID, m approval.Move, act Act) (approval.Approval, approval.Verdict, error) {
	return s.writer.apply(id, m, false, act)
}

// ApplyLive is Apply for moves that ask nothing of the code, such as
// approval.Refresh, Revoke and End. It saves reading the row; the approval
// that it gives lacks redirect URI, issuer and challenge.
func (s *Store) ApplyLive(ctx context.Context, id approval.ID, m approval.Move, act Act) (approval.Approval, approval.Verdict, error) {
	m, err := s.orUnused(ctx, id, m)
	if err != nil {
		return approval.Approval{}, 0, err
	}
	return s.writer.apply(id, m, true, act)
}

// makeMove makes one move in the transaction under way. Its error undoes the
// whole batch; what concerns the move alone is left in the operation.
func (w *writer) makeMove(o *operation) error {
	for range maxTries {
		a, replaces, err := w.read(o.id, o.live)
		if errors.Is(err, ErrNotFound) {
			o.err = err
			return nil
		} else if err != nil {
			return err
		}
		before := a.State
		a.State, o.verdict = o.move(a, w.store.memory.standing(a))
		o.result = a
		if a.State == before {
			return nil
		}
		if err := w.begin(); err != nil {
			return err
		}
		hit, err := w.save(a, before)
		if err != nil {
			return err
		}
		if !hit {
			o.live = false // the row knows better than memory
			continue
		}
		return w.moved(o, a, before, replaces)
	}
	o.err = fmt.Errorf("approval %s keeps changing: %w", o.id, ErrUnavailable)
	return nil
}

// moved journals what a move has changed, and ends what the approval
// replaces.
func (w *writer) moved(o *operation, a approval.Approval, before approval.State, replaces string) error {
	for _, e := range events(a, before, o.act) {
		if err := w.journal(e); err != nil {
			return err
		}
	}
	afters := []func(){w.remember(a)}
	if before.Phase == approval.CodeIssued && a.Phase == approval.Live && replaces != "" {
		for text := range strings.FieldsSeq(replaces) {
			id, err := approval.ParseID(text)
			if err != nil {
				return err
			}
			after, _, err := w.endRow(id, approval.Replaced, o.act)
			if err != nil && !errors.Is(err, ErrNotFound) {
				return err
			}
			afters = append(afters, after)
		}
	}
	o.after = together(afters)
	return nil
}

// remember gives what is to be done to memory once the state is durable.
func (w *writer) remember(a approval.Approval) func() {
	return func() {
		t := &w.store.memory.approvals
		h := t.at(a.ID)
		switch {
		case h == nil:
		case a.Phase == approval.Ended:
			t.drop(a.ID)
		default:
			if a.State.Refreshes(approval.State{Phase: h.phase, Generation: h.generation}) {
				atomic.StoreUint32(&h.used, uint32(w.store.Now().Unix()))
			}
			h.phase, h.generation, h.key, h.network = a.Phase, a.Generation, uint16(a.Key), a.Network
		}
	}
}

// events says what a move means to those who read the journal.
func events(a approval.Approval, before approval.State, act Act) []Event {
	e := Event{Client: a.Client, Person: a.Person, Organization: a.Organization, Approval: a.ID.String()}
	var out []Event
	add := func(kind string, reason approval.Reason) {
		e.Kind, e.Reason = kind, string(reason)
		out = append(out, e.by(act))
	}
	switch {
	case before.Phase == approval.CodeIssued && a.Phase == approval.Live:
		add("code_exchanged", "")
	case before.Phase != approval.Ended && a.Phase == approval.Ended:
		if a.Reason == approval.RefreshReused {
			e.Detail = act.reuse(before)
			add("refresh_reused", approval.Reason(act.looksLike(before)))
			e.Detail = ""
		} else if a.Reason == approval.CodeReused {
			add("code_reused", "")
		}
		add("approval_ended", a.Reason)
	}
	return out
}

// read gives an approval as it stands, from memory when that is enough.
func (w *writer) read(id approval.ID, live bool) (approval.Approval, string, error) {
	if live {
		if h := w.store.memory.approvals.at(id); h != nil && h.phase == approval.Live {
			return w.store.memory.cool(id, h), "", nil
		}
	}
	text := selectApproval + ` WHERE id = $1`
	if w.tx != nil { // other nodes write too: the row stays as it is read until the commit
		text = selectApproval + ` WHERE id = $1 FOR UPDATE`
	}
	rows, err := w.query(text, id[:])
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

// save writes a state by compare-and-set: phase and generation are the row's
// version. It reports whether the row was still the one that was read.
func (w *writer) save(a approval.Approval, before approval.State) (bool, error) {
	var n int64
	var err error
	if a.Phase == approval.Ended {
		n, err = w.exec(`
			UPDATE approval
			   SET phase = $1, reason = $2, ended_at = $3
			 WHERE id = $4 AND phase = $5 AND generation = $6`,
			int64(a.Phase), string(a.Reason), a.EndedAt, a.ID[:], int64(before.Phase), before.Generation)
	} else { // every exchange and refresh: it touches no indexed column
		used := int64(0)
		if a.State.Refreshes(before) {
			used = w.store.Now().Unix()
		}
		n, err = w.exec(`
			UPDATE approval
			   SET phase = $1, generation = $2, key_number = $3, network = $4,
			       used_at = CASE WHEN used_at < $5 THEN $5 ELSE used_at END
			 WHERE id = $6 AND phase = $7 AND generation = $8`,
			int64(a.Phase), a.Generation, int64(a.Key), int64(a.Network), used, a.ID[:], int64(before.Phase), before.Generation)
	}
	return n == 1, err
}

// endRow ends one approval in the transaction under way; one that has ended
// stays as it ended.
func (w *writer) endRow(id approval.ID, why approval.Reason, act Act) (after func(), ended bool, err error) {
	return w.moveRow(id, approval.End(why, w.store.Now()), act)
}

// moveRow makes a move that may end an approval and asks nothing of the code,
// as part of a larger change.
func (w *writer) moveRow(id approval.ID, m approval.Move, act Act) (after func(), moved bool, err error) {
	a, _, err := w.read(id, true)
	if err != nil {
		return nil, false, err
	}
	before := a.State
	a.State, _ = m(a, w.store.memory.standing(a))
	if a.State == before {
		return nil, false, nil
	}
	hit, err := w.save(a, before)
	if err != nil || !hit {
		return nil, false, err
	}
	for _, e := range events(a, before, act) {
		if err := w.journal(e); err != nil {
			return nil, false, err
		}
	}
	return w.remember(a), true, nil
}
