package store

import (
	"context"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// IDs lists, in order, the IDs that begin with a prefix, and gives the cursor of
// the next page or "". kind is approval, client, person or organization.
func (s *Store) IDs(ctx context.Context, kind, prefix, after string, limit int) (ids []string, next string, err error) {
	defer s.timed("ids", time.Now())
	limit = pageSize(limit)
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
		return nil, errCursor
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
	q := query{text: `SELECT id FROM organization`}
	switch kind {
	case "client":
		q = query{text: `SELECT id FROM client`, conditions: []string{"disabled <> " + engine.SQLDeleted}}
	case "person":
		q = query{text: `SELECT id FROM person`}
	}
	q.args, q.conditions = append(q.args, like), append(q.conditions, "id LIKE $1 ESCAPE '!'")
	if after != "" {
		q.where("id > ", after)
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.page("id", limit), q.args...)
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
	q := query{text: `SELECT id FROM approval`}
	q.where("id >= ", least[:])
	q.where("id <= ", most[:])
	if after != "" {
		id, err := approval.ParseID(after)
		if err != nil {
			return nil, errCursor
		}
		q.where("id > ", id[:])
	}
	rows, err := s.db.Reader.QueryContext(ctx, q.page("id", limit), q.args...)
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
	q := query{text: `SELECT COUNT(*) FROM approval`, conditions: []string{"phase < " + engine.SQLEnded}}
	q.equal("client", f.Client)
	q.equal("person", f.Person)
	q.equal("organization", f.Organization)
	err = s.db.Reader.QueryRowContext(ctx, q.whole(), q.args...).Scan(&n)
	return n, engine.Unavailable("approvals", err)
}
