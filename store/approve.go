package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/oversight"
	"github.com/grantkeeper/grantkeeper/token"
)

// Answer is one pressed Approve.
type Answer struct {
	// Handle derives the handle of the page's approval; the attempt grows
	// when the one before has ended without an exchange (decision A12).
	Handle func(attempt uint32) token.Handle

	Client, Person, Organization string // IDs
	Grant                        grantset.Set
	EndsAt                       int64 // Unix seconds; 0 is without a date
	RedirectURI                  string
	Issuer                       string
	Challenge                    string
	Bound                        approval.Thumbprint // of the key that alone may exchange the code; zero is any
	Replace                      bool                // end the earlier approvals at the exchange (decision P1)
}

// maxAttempts bounds how often one page may be approved after being cancelled.
const maxAttempts = 32

// Approve makes the approval of a page, or brings the one that it made before
// up to date while its code is not exchanged. It gives the handle and the
// code's issue time in Unix seconds. The client counts as approved from then
// on. ErrAnswered: the code was exchanged. ErrNotFound: the client is gone or
// disabled. ErrNotAllowed: a fact under the approval is gone, or, as ErrAppRule,
// ErrCeiling and ErrEndDate, the organization's rules are others by now.
func (s *Store) Approve(_ context.Context, a Answer, act Act) (h token.Handle, issued int64, err error) {
	err = s.changeFacts(func(tx *Tx) (err error) {
		if err := tx.mayApprove(a); err != nil {
			return err
		}
		h, issued, err = tx.approve(a, act)
		return err
	})
	return h, issued, err
}

// mayApprove asks the facts once more, in the writer: they may have ended
// between the page and the button.
func (tx *Tx) mayApprove(a Answer) error {
	m := tx.Memory
	if c := m.Clients[a.Client]; c == nil || c.Disabled || !c.Known(tx.Env.Now()) {
		return fmt.Errorf("client: %w", ErrNotFound)
	}
	at := m.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization})
	switch {
	case !at.AsMember().Exists():
		return fmt.Errorf("membership: %w", ErrNotAllowed)
	case !at.Org.AIIntegration:
		return fmt.Errorf("AI integration: %w", ErrNotAllowed)
	case a.Grant.Kind == grantset.Organization && !at.Admin:
		return fmt.Errorf("admin right: %w", ErrNotAllowed)
	}
	if err := tx.leadsThere(a.Client, a.RedirectURI); err != nil {
		return err
	}
	return tx.underRules(a, at)
}

// underRules asks the rules of the organization once more, in the writer, for what a
// person is about to approve.
func (tx *Tx) underRules(a Answer, at *facts.Member) error {
	p := at.Org.Policy
	if err := oversight.Allowed(tx.Tx, a.Client, a.RedirectURI, a.Person, p); err != nil {
		return err
	}
	if err := oversight.IsOffered(at.Org.Limit, a.Grant); err != nil {
		return err
	}
	return oversight.MayEnd(a.EndsAt, tx.Env.Now(), oversight.MostDays(tx.Env.Options.MaxDays, p))
}

func (tx *Tx) approve(a Answer, act Act) (h token.Handle, issued int64, err error) {
	replaces, err := tx.replaced(a)
	if err != nil {
		return h, 0, err
	}
	h, row, found, err := tx.pageApproval(a.Handle)
	if err != nil {
		return h, 0, err
	}
	now := tx.Env.Now().Unix()
	made := now
	again := found && row.Organization == a.Organization && row.Grant.Equal(a.Grant)
	if found {
		if row.Person != a.Person || row.Client != a.Client {
			return h, 0, ErrConflict
		}
		made = row.CreatedAt
		if now < row.IssuedAt+int64(approval.CodeLifetime/time.Second) {
			now = row.IssuedAt // the same code comes back
		}
	}
	row = approval.Approval{
		ID: approval.ID(h.ID()), Client: a.Client, Person: a.Person, Organization: a.Organization,
		Grant: a.Grant, RedirectURI: a.RedirectURI, Issuer: a.Issuer, Challenge: a.Challenge,
		IssuedAt: now, CreatedAt: made, EndsAt: a.EndsAt, State: approval.State{Phase: approval.CodeIssued, Bound: a.Bound},
	}
	row.Born = approval.Epochs(tx.Memory.Standing(row))
	if err := tx.putApproval(row, replaces); err != nil {
		return h, 0, err
	}
	if !again { // a double click tells nothing new
		if err := tx.granted(row, act); err != nil {
			return h, 0, err
		}
	}
	return h, now, tx.PutMade(row)
}

// granted marks the client approved and journals the approval.
func (tx *Tx) granted(a approval.Approval, act Act) error {
	n, err := tx.Exec(`UPDATE client SET approved = `+engine.SQLTrue+` WHERE id = $1 AND approved = `+engine.SQLFalse, a.Client)
	if err != nil {
		return err
	}
	if n > 0 {
		tx.Put(facts.ClientApproved(a.Client))
	}
	return tx.Journal(Event{
		Kind: journal.ApprovalGranted, Client: a.Client, Person: a.Person, Organization: a.Organization,
		Approval: a.ID.String(), Detail: string(a.Grant.Kind),
	}.By(act))
}

// pageApproval finds the approval that a page's next answer belongs to: the
// one it made, or the first attempt that is free. An exchanged one answers
// the page for good.
func (tx *Tx) pageApproval(handle func(uint32) token.Handle) (h token.Handle, a approval.Approval, found bool, err error) {
	for attempt := range uint32(maxAttempts) {
		h = handle(attempt)
		a, _, err = tx.Read(approval.ID(h.ID()), false)
		switch {
		case errors.Is(err, ErrNotFound):
			return h, approval.Approval{}, false, nil
		case err != nil:
			return h, a, false, err
		case a.Generation > 0:
			return h, a, true, ErrAnswered
		case a.Phase == approval.CodeIssued && a.Lost(tx.Memory.Standing(a)) == "":
			return h, a, true, nil
		}
	}
	return h, a, false, ErrAnswered
}

// replaced lists the approvals that end when this one is exchanged: those of
// the same person, client and organization that live now (decision P1).
func (tx *Tx) replaced(a Answer) (string, error) {
	if !a.Replace {
		return "", nil
	}
	ids, err := engine.ApprovalIDs(tx.Query(`
		SELECT id FROM approval
		 WHERE person = $1 AND organization = $2 AND client = $3 AND phase = `+engine.SQLLive,
		a.Person, a.Organization, a.Client))
	var texts []string
	for _, id := range ids {
		texts = append(texts, id.String())
	}
	return strings.Join(texts, " "), err
}

// putApproval writes the latest answer of a page, as long as its code was not
// exchanged.
func (tx *Tx) putApproval(a approval.Approval, replaces string) error {
	n, err := tx.Exec(`
		INSERT INTO approval (id, client, person, organization, grant_kind, picks, personal,
		       redirect_uri, issuer, challenge, issued_at, created_at, replaces,
		       membership_epoch, person_epoch, organization_epoch, client_epoch,
		       ends_at, bound, phase, generation, key_number, reason, ended_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, 1, 0, 0, '', 0)
		ON CONFLICT (id) DO UPDATE
		   SET organization = excluded.organization, grant_kind = excluded.grant_kind,
		       picks = excluded.picks, personal = excluded.personal, issued_at = excluded.issued_at,
		       replaces = excluded.replaces, membership_epoch = excluded.membership_epoch,
		       person_epoch = excluded.person_epoch, organization_epoch = excluded.organization_epoch,
		       client_epoch = excluded.client_epoch, ends_at = excluded.ends_at, bound = excluded.bound
		 WHERE approval.phase = `+engine.SQLCodeIssued+` AND approval.generation = 0`,
		a.ID[:], a.Client, a.Person, a.Organization, string(a.Grant.Kind), a.Grant.EncodePicks(), engine.Flag(a.Grant.Personal),
		a.RedirectURI, a.Issuer, a.Challenge, a.IssuedAt, a.CreatedAt, replaces,
		a.Born.Membership, a.Born.Person, a.Born.Organization, a.Born.Client, a.EndsAt, engine.BoundTo(a.Bound))
	if err == nil && n != 1 {
		return ErrAnswered
	}
	return err
}

// Cancelled is one pressed Cancel.
type Cancelled struct {
	Handle         func(attempt uint32) token.Handle // as in Answer
	Client, Person string                            // IDs
}

// Cancel journals a cancelled page, and ends the approval that the page made
// before, unless that was exchanged: ErrAnswered (decision A12).
func (s *Store) Cancel(_ context.Context, c Cancelled, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		h, a, found, err := tx.pageApproval(c.Handle)
		if err != nil {
			return err
		}
		if found && a.Person == c.Person {
			if _, err = tx.End(approval.ID(h.ID()), approval.RevokedByPerson, act); err != nil {
				return err
			}
		}
		return tx.Journal(Event{Kind: journal.ApprovalCancelled, Client: c.Client, Person: c.Person}.By(act))
	})
}

// Edit is what a person makes of a live approval.
type Edit struct {
	From, To grantset.Set // what the person saw, and wants
	EndsAt   int64        // Unix seconds, sooner than it was; 0 leaves it
}

// EditGrant is EditApproval of the grant set alone.
func (s *Store) EditGrant(ctx context.Context, id approval.ID, personID string, from, to grantset.Set, act Act) error {
	return s.EditApproval(ctx, id, personID, Edit{From: from, To: to}, act)
}

// EditApproval changes what a live approval of a person gives, from the grant set
// that the person saw to another (decision P3), and how long. It takes effect on the
// next request. ErrConflict: it is not what the person saw any more; ErrNotFound:
// it has ended or is not the person's; ErrNotAllowed: the facts do not allow
// it any more; ErrCeiling: nor do the organization's rules; ErrAppRule: they do not let
// the app be connected now, and it would get more; ErrEndDate: it would not end sooner.
func (s *Store) EditApproval(_ context.Context, id approval.ID, personID string, e Edit, act Act) error {
	return s.changeFacts(func(tx *Tx) error {
		a, _, err := tx.Read(id, false)
		if err != nil {
			return err
		}
		now := tx.Env.Now()
		if a.Person != personID || a.Phase != approval.Live || a.At(tx.Memory.Standing(a), now).Phase != approval.Live {
			return fmt.Errorf("approval: %w", ErrNotFound)
		}
		if err := tx.mayEdit(a, e, now); err != nil {
			return err
		}
		if a.Grant = e.To; e.EndsAt > 0 {
			a.EndsAt = e.EndsAt
		}
		if _, err := tx.Exec(`UPDATE approval SET grant_kind = $1, picks = $2, personal = $3, ends_at = $4 WHERE id = $5`,
			string(a.Grant.Kind), a.Grant.EncodePicks(), engine.Flag(a.Grant.Personal), a.EndsAt, id[:]); err != nil {
			return err
		}
		if err := tx.PutEdited(a); err != nil {
			return err
		}
		return tx.Journal(Event{Kind: journal.ApprovalEdited, Client: a.Client, Person: a.Person, Organization: a.Organization,
			Approval: a.ID.String(), Detail: string(e.To.Kind)}.By(act))
	})
}

func (tx *Tx) mayEdit(a approval.Approval, e Edit, now time.Time) error {
	at := tx.Memory.Members.Get(facts.MemberKey{Person: a.Person, Organization: a.Organization})
	switch {
	case !a.Grant.Equal(e.From):
		return fmt.Errorf("approval: %w", ErrConflict)
	case e.To.Kind == grantset.Organization && !at.Admin:
		return fmt.Errorf("admin right: %w", ErrNotAllowed)
	case e.EndsAt > 0:
		if err := oversight.MayShorten(a, e.EndsAt, now); err != nil {
			return err
		}
	}
	if e.To.Equal(e.From) {
		return nil
	}
	if m := at.AsMember(); !e.To.Narrow(m, nil).Within(e.From.Narrow(m, nil)) { // more is as if it were approved anew
		if err := oversight.Allowed(tx.Tx, a.Client, a.RedirectURI, a.Person, at.Org.Policy); err != nil {
			return err
		}
	}
	return oversight.IsOffered(at.Limit(), e.To)
}
