package engine

import (
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/policy"
)

// The rules of organizations lie in three tables, in the order of PolicyRows.
const (
	SelectPolicies = `
		SELECT organization, unknown_apps, known_apps, widest, read_only, no_personal, max_days, review_days, changed_by, changed_at, version
		  FROM policy`
	SelectPolicyApps  = `SELECT organization, host, name, person, rule, actor, decided_at, reason FROM policy_app`
	SelectPolicyNever = `SELECT organization, role FROM policy_never`
)

// Cells are the values of a row, one after the other.
type Cells interface {
	Text() string
	Number() int64
}

// PolicyRows puts the rules of organizations together, by their IDs.
type PolicyRows map[string]*policy.Policy

// Policy takes a row of SelectPolicies, and gives the organization.
func (p PolicyRows) Policy(c Cells) (organization string) {
	organization = c.Text()
	p[organization] = &policy.Policy{
		Unknown: policy.Rule(c.Text()), Known: policy.Rule(c.Text()),
		Ceiling: grantset.Ceiling{Widest: grantset.Kind(c.Text()), ReadOnly: c.Number() == 1, NoPersonal: c.Number() == 1},
		MaxDays: int(c.Number()), ReviewDays: int(c.Number()), ChangedBy: c.Text(), ChangedAt: c.Number(), Version: c.Number(),
	}
	return organization
}

// App takes a row of SelectPolicyApps, and gives the organization.
func (p PolicyRows) App(c Cells) (organization string) {
	organization = c.Text()
	if of := p[organization]; of != nil {
		of.Apps = append(of.Apps, policy.App{
			Host: c.Text(), Name: c.Text(), Person: c.Text(), Rule: policy.Rule(c.Text()), By: c.Text(), At: c.Number(), Reason: c.Text(),
		})
	}
	return organization
}

// Never takes a row of SelectPolicyNever, and gives the organization.
func (p PolicyRows) Never(c Cells) (organization string) {
	organization = c.Text()
	if of := p[organization]; of != nil {
		of.Ceiling.Never = append(of.Ceiling.Never, c.Text())
	}
	return organization
}

// Changes are what the rows say, of those organizations as well that have none.
func (p PolicyRows) Changes(organizations []string) (out []facts.Change) {
	for _, id := range organizations {
		if p[id] == nil {
			out = append(out, facts.PolicyChange{Organization: id})
		}
	}
	for id, of := range p {
		out = append(out, facts.PolicyChange{Organization: id, Policy: new(of.Tidy())}) // whatever a database sorts by
	}
	return out
}
