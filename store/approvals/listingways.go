package approvals

import (
	"context"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// walked is a row as far as it is looked at on the way.
type walked struct {
	query.Place
	client, person, organization, grant string
	endedAt, usedAt                     int64
}

// matches reports whether the row may be one of the list. States that are not
// in the row are asked later.
func (w walked) matches(f ApprovalFilter) bool {
	return (f.Client == "" || f.Client == w.client) && (f.Person == "" || f.Person == w.person) &&
		(f.Organization == "" || f.Organization == w.organization) && (f.Grant == "" || string(f.Grant) == w.grant) &&
		(f.State == "" || (f.State == "ended") == (w.endedAt > 0)) && !(f.Unended && w.endedAt > 0) &&
		(f.UnusedSince == 0 || w.At <= f.UnusedSince && w.usedAt <= f.UnusedSince)
}

// A way is a condition whose rows an index has in the list's order.
type way struct {
	condition string // with one parameter, unless value is ""
	value     string
}

// A stretch is a part of a way. It ends where the way does, or goes on.
type stretch struct {
	rows []walked
	ends bool
}

// reaches is where it leads to.
func (s stretch) reaches() query.Place {
	if len(s.rows) == 0 {
		return query.Place{}
	}
	return s.rows[len(s.rows)-1].Place
}

func (p *approvalsPage) ways() (all []way) {
	for _, one := range []way{
		{condition: "a.person = ", value: p.f.Person}, {condition: "a.organization = ", value: p.f.Organization},
		{condition: "a.client = ", value: p.f.Client}, {condition: "a.grant_kind = ", value: string(p.f.Grant)},
	} {
		if one.value != "" {
			all = append(all, one)
		}
	}
	if p.f.State == "ended" {
		all = append(all, way{condition: "a.ended_at > 0"})
	}
	if len(all) == 0 {
		all = []way{{}}
	}
	return all
}

// bestWay tries all ways, and gives the one that leads furthest with as many
// rows: its rows leave out most of what does not match.
func (p *approvalsPage) bestWay(ctx context.Context, from query.Place) (best way, begins stretch, err error) {
	ways := p.ways()
	step := max(WalkStep/len(ways), p.limit+1)
	for i, w := range ways {
		s, err := p.stretch(ctx, w, from, step)
		if err != nil {
			return best, begins, err
		}
		if i == 0 || s.ends && !begins.ends || s.ends == begins.ends && s.reaches().Compare(begins.reaches()) > 0 {
			best, begins = w, s
		}
		if begins.ends {
			break
		}
	}
	return best, begins, nil
}

const walkedRows = `SELECT a.id, a.created_at, a.client, a.person, a.organization, a.grant_kind, a.ended_at, a.used_at FROM approval a`

// stretch reads so many rows of a way.
func (p *approvalsPage) stretch(ctx context.Context, w way, from query.Place, rows int) (s stretch, err error) {
	q := query.Builder{Text: walkedRows}
	if w.condition != "" && w.value != "" {
		q.Where(w.condition, w.value)
	} else if w.condition != "" {
		q.Conditions = append(q.Conditions, w.condition)
	}
	q.Behind(from)
	s.rows, err = p.readWalked(ctx, q.Page("a.created_at DESC, a.id DESC", rows-1), q.Args)
	s.ends = len(s.rows) < rows
	return s, err
}

func (p *approvalsPage) readWalked(ctx context.Context, text string, args []any) ([]walked, error) {
	defer p.db.Timed("approvals", time.Now())
	rows, err := p.db.Reader.QueryContext(ctx, text, args...)
	out, err := engine.ListOf(rows, err, func(r engine.Scanner, w *walked) error {
		var id []byte
		err := r.Scan(&id, &w.At, &w.client, &w.person, &w.organization, &w.grant, &w.endedAt, &w.usedAt)
		copy(w.ID[:], id)
		return err
	})
	return out, engine.Unavailable("approvals", err)
}

// pair finds all approvals of one client in one organization at once where
// these are few: either may have so many that no way leads far.
func (p *approvalsPage) pair(ctx context.Context, from query.Place) (few bool, err error) {
	if p.f.Client == "" || p.f.Organization == "" {
		return false, nil
	}
	defer p.db.Timed("approvals", time.Now())
	q := query.Builder{Text: `SELECT 1 FROM approval a`}
	q.Equals("a.client", p.f.Client)
	q.Equals("a.organization", p.f.Organization)
	var n int
	err = p.db.Reader.QueryRowContext(ctx, q.Count(FewRows+1), q.Args...).Scan(&n)
	if err != nil {
		return false, engine.Unavailable("approvals", err)
	}
	if n > FewRows {
		return false, nil
	}
	all := query.Builder{Text: walkedRows}
	all.Equals("a.client", p.f.Client)
	all.Equals("a.organization", p.f.Organization)
	s := stretch{ends: true}
	if s.rows, err = p.readWalked(ctx, all.Whole(), all.Args); err != nil {
		return false, err
	}
	// With the place as a condition SQLite would walk all of the client.
	s.rows = slices.DeleteFunc(s.rows, func(w walked) bool { return from != query.Place{} && w.Place.Compare(from) <= 0 })
	slices.SortFunc(s.rows, func(a, b walked) int { return a.Place.Compare(b.Place) })
	p.whole = true
	if err := p.take(ctx, s); err != nil {
		return true, err
	}
	return true, nil
}
