package store

import (
	"context"
	"slices"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// wouldEnd counts the approvals that live and would not after a dry run.
func (s *Store) wouldEnd(ctx context.Context, p *directory.Plan) (int, error) {
	people := map[string]bool{}
	for _, id := range p.EndedPeople() {
		people[id] = true
	}
	members := map[string][]any{}
	for _, k := range p.Removed.Members {
		if !people[k.Person] {
			members[k.Organization] = append(members[k.Organization], k.Person)
		}
	}
	ended := map[string]bool{}
	count := func(column, organization string, values []any) error {
		for batch := range slices.Chunk(values, query.Batch) {
			if err := s.countLiving(ctx, column, organization, batch, ended); err != nil {
				return err
			}
		}
		return nil
	}
	if err := count("person", "", query.Anys(p.EndedPeople())); err != nil {
		return 0, err
	}
	for organization, people := range members {
		if err := count("person", organization, people); err != nil {
			return 0, err
		}
	}
	if err := count("organization", "", query.Anys(p.SwitchedOff())); err != nil {
		return 0, err
	}
	for _, r := range p.Rules {
		_, blocked, err := s.Effects(ctx, r.Organization, nil, &r.Policy)
		if err != nil {
			return 0, err
		}
		for _, id := range blocked {
			ended[id.String()] = true
		}
	}
	return len(ended), nil
}

// countLiving gathers the approvals of some people, or of one organization,
// that have not ended.
func (s *Store) countLiving(ctx context.Context, column, organization string, values []any, into map[string]bool) error {
	gather := func(rows []ApprovalRow) {
		for _, r := range rows {
			if r.StateName() != "ended" && (organization == "" || r.Organization == organization) {
				into[r.ID.String()] = true
			}
		}
	}
	if column == "person" {
		q := query.Builder{Text: approvals.SelectApprovals, Conditions: []string{"a.ended_at = 0"}}
		q.OneOf("a.person", values)
		rows, err := s.ApprovalRows(ctx, q.Whole(), q.Args...)
		gather(rows)
		return err
	}
	f := ApprovalFilter{Limit: 1000}
	for _, id := range values {
		f.Organization = id.(string)
		for f.After = ""; ; {
			rows, next, err := s.Approvals(ctx, f)
			if err != nil {
				return err
			}
			if gather(rows); next == "" {
				break
			}
			f.After = next
		}
	}
	return nil
}
