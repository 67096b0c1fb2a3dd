package store

import (
	"context"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// OrganizationFilter narrows FindOrganizations; empty fields match all. Query is a
// part of the name, or the ID; AI is on or off. Limit is at most 1000, 0 is 50.
type OrganizationFilter struct {
	Query, AI, After string
	Limit            int
}

// OrganizationSize is an organization with how many members it has, and its rules for
// apps, nil where it has none.
type OrganizationSize struct {
	org.Organization
	Members int
	Policy  *policy.Policy
}

// FindOrganizations lists organizations by ID and gives the cursor of the next page
// or "".
func (s *Store) FindOrganizations(ctx context.Context, f OrganizationFilter) ([]OrganizationSize, string, error) {
	if f.After != "" && org.CheckID(f.After) != nil {
		return nil, "", query.ErrCursor
	}
	if err := s.fresh(ctx); err != nil {
		return nil, "", err
	}
	limit := query.PageSize(f.Limit)
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	var out []OrganizationSize
	for _, o := range facts.InOrder(s.db.Memory.Orgs) {
		switch {
		case o.ID <= f.After, f.AI == "on" && !o.AIIntegration, f.AI == "off" && o.AIIntegration,
			f.Query != "" && o.ID != f.Query && !org.Finds(o.Name, f.Query):
		case len(out) == limit:
			return out, out[limit-1].ID, nil
		default:
			out = append(out, OrganizationSize{o.Organization, len(o.Members), o.Policy})
		}
	}
	return out, "", nil
}

// OrganizationSize gives that of one, or ErrNotFound.
func (s *Store) OrganizationSize(ctx context.Context, id string) (OrganizationSize, error) {
	if err := s.fresh(ctx); err != nil {
		return OrganizationSize{}, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	at := s.db.Memory.Orgs[id]
	if at == nil {
		return OrganizationSize{}, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return OrganizationSize{at.Organization, len(at.Members), at.Policy}, nil
}

// OrganizationUses counts the approvals in some organizations that have not ended.
func (s *Store) OrganizationUses(ctx context.Context, organizations []string) (map[string]int, error) {
	out := map[string]int{}
	if len(organizations) == 0 {
		return out, nil
	}
	defer s.timed("approvals", time.Now())
	q := query.Builder{Text: `SELECT organization, COUNT(*) FROM approval`, Conditions: []string{"phase < " + engine.SQLEnded}, End: ` GROUP BY organization`}
	q.OneOf("organization", query.Anys(organizations))
	rows, err := s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var id string
		var n int
		err := r.Scan(&id, &n)
		out[id] = n
		return err
	})
	return out, engine.Unavailable("approvals", err)
}
