package oversight

import (
	"context"
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// What the rules of an organization refuse. Those of an approval are ErrNotAllowed too.
var (
	ErrRules   = engine.ErrRules // with a sentence for whoever wrote them, a PolicyError
	ErrAppRule = fmt.Errorf("the organization does not let this app be connected: %w", engine.ErrNotAllowed)
	ErrCeiling = fmt.Errorf("the organization lets apps have less: %w", engine.ErrNotAllowed)
	ErrEndDate = fmt.Errorf("the end date: %w", engine.ErrNotAllowed)
)

// A PolicyError is what policy.Check says of rules. It is ErrRules.
type PolicyError struct{ error }

func (PolicyError) Is(target error) bool { return target == ErrRules }

// Unwrap is for the kinds of package policy.
func (e PolicyError) Unwrap() error { return e.error }

// Policy gives the rules of an organization as they stand, nil where it has none.
// ErrNotFound: there is no such organization.
func (s *OversightStore) Policy(ctx context.Context, organization string) (*policy.Policy, error) {
	if err := s.db.Fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.Orgs[organization]
	if at == nil {
		return nil, fmt.Errorf("organization: %w", engine.ErrNotFound)
	}
	return at.Policy, nil
}

// Policies gives the rules of those organizations of a person that have some, by
// their IDs: what belongs to Offers.
func (s *OversightStore) Policies(ctx context.Context, personID string) (map[string]*policy.Policy, error) {
	if err := s.db.Fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.People.Get(personID)
	if at == nil {
		return nil, fmt.Errorf("person: %w", engine.ErrNotFound)
	}
	out := map[string]*policy.Policy{}
	for _, m := range at.Members {
		if m.Org.Policy != nil && m.AsMember().Exists() {
			out[m.Org.ID] = m.Org.Policy
		}
	}
	return out, nil
}

// Rules are what somebody wants the rules of an organization to be.
type Rules struct {
	Organization string
	Admin        string // ID of the person who sets them, as an admin there; "" is an operator
	Seen         int64  // version of the rules that they saw; 0 is none
	Policy       policy.Policy
}

// SetPolicy saves rules, and does what they do at once: a block ends all approvals of
// the apps that it is for (approval.AppBlocked), a bound in days sets the end of those
// that would end later. Who decided an app and when is kept for rules that are as they
// were, and is act and now for the others. It gives the rules as they are saved, and
// what saving did.
//
// ErrChanged: they are another version by now, which is given instead. ErrNotAllowed:
// the person is no admin (any more). ErrRules: they cannot be.
func (s *OversightStore) SetPolicy(_ context.Context, r Rules, act engine.Act) (p *policy.Policy, effects []policy.Effect, err error) {
	err = s.db.ChangeFacts(func(tx *engine.Tx) (err error) {
		p, effects, err = setPolicy(tx, r, act)
		return err
	})
	return p, effects, err
}

// mayRule asks whether somebody may rule over the apps of an organization: one of its
// admins, or an operator, who has the ID "".
func mayRule(tx *engine.Tx, adminID, organizationID string) error {
	switch {
	case tx.Memory.Orgs[organizationID] == nil:
		return fmt.Errorf("organization: %w", engine.ErrNotFound)
	case adminID != "":
		return tx.IsAdmin(adminID, organizationID)
	}
	return nil
}

func setPolicy(tx *engine.Tx, r Rules, act engine.Act) (*policy.Policy, []policy.Effect, error) {
	if err := mayRule(tx, r.Admin, r.Organization); err != nil {
		return nil, nil, err
	}
	at := tx.Memory.Orgs[r.Organization]
	if old := at.Policy; Version(old) != r.Seen {
		return old, nil, fmt.Errorf("rules: %w", engine.ErrChanged)
	}
	p := r.Policy
	if err := sign(tx, &p, at, act); err != nil {
		return nil, nil, err
	}
	effects, _, err := rule(tx, at.ID, at.Policy, &p, act)
	if err != nil {
		return nil, nil, err
	}
	return &p, effects, nil
}

// rule puts signed rules in the place of others, and does what they do at once. It
// counts what that ended.
func rule(tx *engine.Tx, organization string, old, p *policy.Policy, act engine.Act) (effects []policy.Effect, ended int, err error) {
	effects, blocked, err := effectsOfSaving(tx, organization, old, p)
	if err != nil {
		return nil, 0, err
	}
	if err := putPolicy(tx, organization, p); err != nil {
		return nil, 0, err
	}
	for batch := range slices.Chunk(blocked, approvals.EndsBatch) {
		n, err := approvals.MoveRows(tx, batch, approval.End(approval.AppBlocked, tx.Env.Now()), act)
		if ended += n; err != nil {
			return nil, 0, err
		}
	}
	if p.MaxDays > 0 {
		if _, err := endBy(tx, organization, EndOf(tx.Env.Now(), p.MaxDays)); err != nil {
			return nil, 0, err
		}
	}
	return effects, ended, tx.Journal(engine.Event{
		Kind: journal.PolicyChanged, Organization: organization, Detail: fmt.Sprintf("version %d, approvals ended: %d", p.Version, ended),
	}.By(act))
}

// TakeRules saves the rules of a directory, which the plan has checked, whatever is there
// by now, and counts what that ended. The organization may be one of the same import.
func TakeRules(tx *engine.Tx, all []directory.Rules, act engine.Act) (ended int, err error) {
	for _, r := range all {
		var old *policy.Policy
		if at := tx.Memory.Orgs[r.Organization]; at != nil {
			old = at.Policy
		}
		p := r.Policy
		if err := signOver(tx, &p, old, func(string) bool { return true }, act); err != nil {
			return 0, err
		}
		_, n, err := rule(tx, r.Organization, old, &p, act)
		if ended += n; err != nil {
			return 0, err
		}
	}
	return ended, nil
}

func Version(p *policy.Policy) int64 {
	if p == nil {
		return 0
	}
	return p.Version
}

// sign says of rules who made them, and checks that they can be.
func sign(tx *engine.Tx, p *policy.Policy, at *facts.Organization, act engine.Act) error {
	return signOver(tx, p, at.Policy, func(role string) bool { return at.Roles[role] != nil || at.Policy.Names(role) }, act)
}

// signOver is sign for rules in the place of others, of an organization with such roles. One
// that is gone since stays named until somebody takes it out.
func signOver(tx *engine.Tx, p, old *policy.Policy, role func(string) bool, act engine.Act) error {
	now := tx.Env.Now().Unix()
	*p = p.Tidy()
	p.Version, p.ChangedBy, p.ChangedAt = Version(old)+1, act.Actor, now
	for i := range p.Apps {
		a := &p.Apps[i]
		a.By, a.At = act.Actor, now
		if was := ruleOf(old, a); was != nil && was.Rule == a.Rule && was.Reason == a.Reason {
			a.By, a.At = was.By, was.At
		}
	}
	if err := p.Check(role); err != nil {
		return PolicyError{err}
	}
	return nil
}

// ruleOf finds the rule that one takes the place of.
func ruleOf(p *policy.Policy, of *policy.App) *policy.App {
	if p == nil {
		return nil
	}
	i := slices.IndexFunc(p.Apps, func(a policy.App) bool { return a.Key() == of.Key() })
	if i < 0 {
		return nil
	}
	return &p.Apps[i]
}
