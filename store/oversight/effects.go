package oversight

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// standingRows are the connections of an organization that have not ended, as far as
// their rows know.
const standingRows = connectionRows + ` WHERE a.organization = $1 AND a.ended_at = 0`

// eachConnection reads connections one at a time, to the end: there may be very many.
func eachConnection(rows *sql.Rows, err error, see func(*Connection)) error {
	return engine.EachRow(rows, err, func(r engine.Scanner) error {
		var c Connection
		err := scanConnection(r, &c)
		if err == nil {
			see(&c)
		}
		return err
	})
}

func scanConnection(r engine.Scanner, c *Connection) (err error) {
	var preregistered int64
	c.Approval, _, err = engine.ScanApproval(r, &c.ClientName, &preregistered, &c.LastUsed, &c.ReviewedBy, &c.ReviewedAt)
	c.Preregistered = preregistered != 0
	c.Hosts = client.HostsOf(c.Client, c.RedirectURI, c.Preregistered)
	return err
}

// effects says what rules do to connections in the place of others, and which ones they
// block. stands gives the member behind one; false is for what has ended by now.
func effects(old, to *policy.Policy, now time.Time, rows *sql.Rows, err error, stands func(*Connection) (*facts.Member, bool)) (all []policy.Effect, blocked []approval.ID, _ error) {
	all = policy.Effects(old, to, now.Unix(), func(yield func(policy.Connection) bool) {
		err = eachConnection(rows, err, func(c *Connection) {
			at, ok := stands(c)
			if !ok {
				return
			}
			if rule, app := to.Decide(c.Hosts, c.ClientName, c.Person, c.Preregistered); rule == policy.Block && app != nil {
				blocked = append(blocked, c.ID)
			}
			yield(policy.Connection{App: c.Hosts, Member: at.AsMember(), Grant: c.Grant, EndsAt: c.EndsAt}) // it takes all
		})
	})
	return all, blocked, err
}

// harmless reports whether rules can do nothing to any connection.
func harmless(p *policy.Policy) bool {
	return p.MaxDays == 0 && p.Limit() == nil && !slices.ContainsFunc(p.Apps, func(a policy.App) bool { return a.Rule == policy.Block })
}

// effectsOfSaving is that of rules as they are about to be saved.
func effectsOfSaving(tx *engine.Tx, organization string, old, to *policy.Policy) ([]policy.Effect, []approval.ID, error) {
	if harmless(to) {
		return nil, nil, nil
	}
	now := tx.Env.Now()
	rows, err := tx.Query(standingRows, organization)
	return effects(old, to, now, rows, err, func(c *Connection) (*facts.Member, bool) { return behind(tx.Memory, c, now) })
}

// behind gives the member behind a connection, unless that has ended; the lock of memory
// is the caller's, or the writer's own.
func behind(m *engine.Memory, c *Connection, now time.Time) (*facts.Member, bool) {
	at := m.Members.Get(facts.MemberKey{Person: c.Person, Organization: c.Organization})
	return at, c.At(m.StandingOn(at, &c.Approval), now).Phase != approval.Ended
}

// PolicyEffects says what saving rules would do now to the connections of their
// organization, and saves nothing. Errors are those of SetPolicy.
func (s *OversightStore) PolicyEffects(ctx context.Context, r Rules) ([]policy.Effect, error) {
	if err := s.db.Fresh(ctx); err != nil {
		return nil, err
	}
	old, to, err := s.signed(r)
	if err != nil || harmless(to) {
		return nil, err
	}
	all, _, err := s.Effects(ctx, r.Organization, old, to)
	return all, err
}

// Effects is that of rules that are not saved.
func (s *OversightStore) Effects(ctx context.Context, organization string, old, to *policy.Policy) ([]policy.Effect, []approval.ID, error) {
	if err := s.db.Fresh(ctx); err != nil {
		return nil, nil, err
	}
	defer s.db.Timed("connections", time.Now())
	now := s.db.Now()
	rows, err := s.db.Reader.QueryContext(ctx, standingRows, organization)
	all, blocked, err := effects(old, to, now, rows, err, func(c *Connection) (*facts.Member, bool) {
		s.db.Memory.RLock()
		defer s.db.Memory.RUnlock()
		return behind(s.db.Memory, c, now)
	})
	return all, blocked, engine.Unavailable("effects", err)
}

// signed gives the rules that are there, and others as they would be saved.
func (s *OversightStore) signed(r Rules) (old, to *policy.Policy, err error) {
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	tx := &engine.Tx{Env: s.db.Env, Memory: s.db.Memory}
	if err := mayRule(tx, r.Admin, r.Organization); err != nil {
		return nil, nil, err
	}
	at := s.db.Memory.Orgs[r.Organization]
	if Version(at.Policy) != r.Seen {
		return nil, nil, fmt.Errorf("rules: %w", engine.ErrChanged)
	}
	p := r.Policy
	return at.Policy, &p, sign(tx, &p, at, engine.Act{})
}
