package store

import (
	"context"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
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

// CountEvents counts the entries of some kinds in each of n spans from since
// on, oldest first, those of drills left out; since and span are seconds.
func (s *Store) CountEvents(ctx context.Context, kinds []journal.Kind, since, span int64, n int) (map[journal.Kind][]uint64, error) {
	defer s.timed("event_counts", time.Now())
	q := query.Builder{Text: `SELECT kind, (at - $1) / $2, COUNT(*) FROM journal`, Args: []any{since, span}, End: ` GROUP BY 1, 2`}
	q.Where("id >= ", query.IDAt(since))
	q.OneOf("kind", query.IDs(kinds, kindArg))
	q.NoDrills()
	rows, err := s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
	out := map[journal.Kind][]uint64{}
	for _, k := range kinds {
		out[k] = make([]uint64, n)
	}
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var kind journal.Kind
		var at int64
		var count uint64
		if err := r.Scan(&kind, &at, &count); err != nil {
			return err
		}
		if at >= 0 && at < int64(n) {
			out[kind][at] += count
		}
		return nil
	})
	return out, engine.Unavailable("events", err)
}

// LimitedAddresses counts the addresses that went over a rate limit since a
// time, in Unix seconds, and names one of them.
func (s *Store) LimitedAddresses(ctx context.Context, since int64) (n int, one string, err error) {
	err = s.db.Reader.QueryRowContext(ctx, `
		SELECT COUNT(DISTINCT address), COALESCE(MIN(address), '') FROM journal
		 WHERE id >= $1 AND kind = `+engine.SQLRateLimited, query.IDAt(since)).Scan(&n, &one)
	if err != nil {
		return 0, "", engine.Unavailable("events", err)
	}
	return n, one, nil
}
