package store

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// These are the questions of the operators' console. Each is asked when a page
// is opened, and reads what it needs.

// ClientUses gives the clients with living approvals, by ID.
func (s *Store) ClientUses(ctx context.Context) (map[string]ClientUse, error) {
	return s.db.Engine.ClientUses(ctx)
}

// LastUses tells when the approvals of some clients were last used, ended ones
// too, in Unix seconds, true to the hour; 0 is never. A client whose approvals
// are all gone, 90 days after they ended, is left out.
func (s *Store) LastUses(ctx context.Context, clients []string) (map[string]int64, error) {
	out := map[string]int64{}
	if len(clients) == 0 {
		return out, nil
	}
	defer s.timed("client_uses", time.Now())
	q := query.Builder{Text: `SELECT client, MAX(used_at) FROM approval`, End: ` GROUP BY client`}
	q.OneOf("client", query.Anys(clients))
	rows, err := s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var id string
		var at int64
		err := r.Scan(&id, &at)
		out[id] = at
		return err
	})
	return out, engine.Unavailable("uses", err)
}

// Reach is what ends with a client.
type Reach struct {
	Approvals     int // that have not ended
	People        int // who made them
	Organizations []OrganizationReach
}

// OrganizationReach is the part of a Reach in one organization.
type OrganizationReach struct {
	ID, Name          string
	Approvals, People int
}

// ClientReach says what of a client has not ended, the organization with most
// of it first.
func (s *Store) ClientReach(ctx context.Context, client string) (r Reach, err error) {
	defer s.timed("client_reach", time.Now())
	err = s.db.Reader.QueryRowContext(ctx, `
		SELECT COUNT(*), COUNT(DISTINCT person) FROM approval WHERE client = $1 AND phase < `+engine.SQLEnded, client).Scan(&r.Approvals, &r.People)
	if err != nil {
		return Reach{}, engine.Unavailable("reach", err)
	}
	rows, err := s.db.Reader.QueryContext(ctx, `
		SELECT a.organization, o.name, COUNT(*), COUNT(DISTINCT a.person)
		  FROM approval a
		  JOIN organization o ON o.id = a.organization
		 WHERE a.client = $1 AND a.phase < `+engine.SQLEnded+`
		 GROUP BY a.organization, o.name
		 ORDER BY COUNT(*) DESC, a.organization`, client)
	r.Organizations, err = engine.ListOf(rows, err, func(r engine.Scanner, o *OrganizationReach) error {
		return r.Scan(&o.ID, &o.Name, &o.Approvals, &o.People)
	})
	return r, engine.Unavailable("reach", err)
}
