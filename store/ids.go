package store

import (
	"context"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/query"
)

// IDs lists, in order, the IDs that begin with a prefix, and gives the cursor of
// the next page or "". kind is approval, client, person or organization.
func (s *Store) IDs(ctx context.Context, kind, prefix, after string, limit int) (ids []string, next string, err error) {
	defer s.timed("ids", time.Now())
	limit = query.PageSize(limit)
	list := s.idsBeginning
	if kind == "approval" {
		list = s.approvalsBeginning
	}
	if ids, err = list(ctx, kind, prefix, after, limit); err != nil {
		return nil, "", err
	}
	if len(ids) > limit {
		return ids[:limit], ids[limit-1], nil
	}
	return ids, "", nil
}

func (s *Store) idsBeginning(ctx context.Context, kind, prefix, after string, limit int) ([]string, error) {
	unseen := func(r rune) bool { return r < '!' || r > '~' }
	switch {
	case strings.ContainsFunc(prefix, unseen):
		return nil, nil // no ID begins so
	case strings.ContainsFunc(after, unseen):
		return nil, query.ErrCursor
	}
	like := strings.NewReplacer("!", "!!", "%", "!%", "_", "!_").Replace(prefix) + "%"
	var found []string
	for len(found) <= limit {
		page, err := s.idsLike(ctx, kind, like, after, limit)
		if err != nil {
			return nil, err
		}
		for _, id := range page {
			if after = id; strings.HasPrefix(id, prefix) { // SQLite's LIKE takes no heed of case
				found = append(found, id)
			}
		}
		if len(page) <= limit {
			break
		}
	}
	return found[:min(len(found), limit+1)], nil
}

func (s *Store) idsLike(ctx context.Context, kind, like, after string, limit int) ([]string, error) {
	q := query.Builder{Text: `SELECT id FROM organization`}
	switch kind {
	case "client":
		q = query.Builder{Text: `SELECT id FROM client`, Conditions: []string{"disabled <> " + engine.SQLDeleted}}
	case "person":
		q = query.Builder{Text: `SELECT id FROM person`}
	}
	q.Args, q.Conditions = append(q.Args, like), append(q.Conditions, "id LIKE $1 ESCAPE '!'")
	if after != "" {
		q.Where("id > ", after)
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.Page("id", limit), q.Args...)
	ids, err := engine.Column[string](rows, err)
	return ids, engine.Unavailable("ids", err)
}

// approvalsBeginning finds them by the range that the prefix stands for.
func (s *Store) approvalsBeginning(ctx context.Context, _, prefix, after string, limit int) (ids []string, err error) {
	fill := max(0, 2*len(approval.ID{})-len(prefix))
	least, wrong := approval.ParseID(prefix + strings.Repeat("0", fill))
	most, _ := approval.ParseID(prefix + strings.Repeat("f", fill)) // as right as the other
	if wrong != nil {
		return nil, nil
	}
	q := query.Builder{Text: `SELECT id FROM approval`}
	q.Where("id >= ", least[:])
	q.Where("id <= ", most[:])
	if after != "" {
		id, err := approval.ParseID(after)
		if err != nil {
			return nil, query.ErrCursor
		}
		q.Where("id > ", id[:])
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.Page("id", limit), q.Args...)
	found, err := engine.ApprovalIDs(rows, err)
	for _, id := range found {
		ids = append(ids, id.String())
	}
	return ids, engine.Unavailable("ids", err)
}

// Unended counts the approvals of a client, of a person or in an organization that
// have not ended.
func (s *Store) Unended(ctx context.Context, f ApprovalFilter) (n int, err error) {
	defer s.timed("approvals", time.Now())
	q := query.Builder{Text: `SELECT COUNT(*) FROM approval`, Conditions: []string{"phase < " + engine.SQLEnded}}
	q.Equals("client", f.Client)
	q.Equals("person", f.Person)
	q.Equals("organization", f.Organization)
	err = s.db.Reader.QueryRowContext(ctx, q.Whole(), q.Args...).Scan(&n)
	return n, engine.Unavailable("approvals", err)
}
