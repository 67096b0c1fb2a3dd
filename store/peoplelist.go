package store

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// PersonUse is how much of apps a person has, and when they signed in last.
type PersonUse struct {
	Approvals int   // that have not ended
	SignedIn  int64 // Unix seconds, of the newest session that is kept; 0 is none
}

// PersonUses gives that of some people, at most a page of them.
func (s *Store) PersonUses(ctx context.Context, people []string) (map[string]PersonUse, error) {
	out := map[string]PersonUse{}
	if len(people) == 0 {
		return out, nil
	}
	defer s.timed("people", time.Now())
	q := query.Builder{Text: `SELECT person, COUNT(*) FROM approval`, Conditions: []string{"phase < " + engine.SQLEnded}, End: ` GROUP BY person`}
	q.OneOf("person", query.Anys(people))
	rows, err := s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var id string
		var n int
		err := r.Scan(&id, &n)
		out[id] = PersonUse{Approvals: n}
		return err
	})
	if err != nil {
		return nil, engine.Unavailable("people", err)
	}
	q = query.Builder{Text: `SELECT person, MAX(created_at) FROM session`, End: ` GROUP BY person`}
	q.OneOf("person", query.Anys(people))
	rows, err = s.db.Reader.QueryContext(ctx, q.Whole(), q.Args...)
	err = engine.EachRow(rows, err, func(r engine.Scanner) error {
		var id string
		var at int64
		err := r.Scan(&id, &at)
		out[id] = PersonUse{out[id].Approvals, at}
		return err
	})
	return out, engine.Unavailable("people", err)
}

// Membership is an organization that somebody is a member of now.
type Membership struct {
	Organization org.Organization
	Admin        bool
	Roles        int
}

// Memberships gives those of some people, by the organizations' names.
func (s *Store) Memberships(ctx context.Context, people []string) (map[string][]Membership, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.db.Memory.RLock()
	defer s.db.Memory.RUnlock()
	out := map[string][]Membership{}
	for _, id := range people {
		at := s.db.Memory.People.Get(id)
		if at == nil {
			continue
		}
		for _, m := range at.Members {
			if m.Present {
				out[id] = append(out[id], Membership{m.Org.Organization, m.Admin, len(m.Roles)})
			}
		}
		slices.SortFunc(out[id], func(a, b Membership) int {
			return cmp.Or(strings.Compare(a.Organization.Name, b.Organization.Name), strings.Compare(a.Organization.ID, b.Organization.ID))
		})
	}
	return out, nil
}

// WaysIn are the ways by which a person can sign in, beside the hand-off.
type WaysIn struct {
	Password bool
	Issuers  []string // of providers that they have an account at
}

// WaysIn gives a person's.
func (s *Store) WaysIn(ctx context.Context, personID string) (w WaysIn, err error) {
	var hash string
	if err := s.db.Reader.QueryRowContext(ctx, `SELECT password FROM person WHERE id = $1`, personID).Scan(&hash); err != nil {
		return w, engine.Lookup("password", err)
	}
	w.Password = hash != ""
	w.Issuers, err = engine.Column[string](s.db.Reader.QueryContext(ctx, `SELECT issuer FROM subject WHERE person = $1 ORDER BY issuer`, personID))
	return w, engine.Unavailable("subjects", err)
}
