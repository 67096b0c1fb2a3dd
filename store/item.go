package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/org"
)

// Item is a tension, action, project or note of the reference API. Its circle
// is that of its role.
type Item struct {
	org.Item
	Kind      string // one of ItemKinds
	Title     string
	Body      string
	Status    string
	Version   int64 // grows with every change, from 1
	CreatedAt int64 // Unix seconds
	ChangedAt int64 // Unix seconds
}

// ItemKinds are the kinds of items.
var ItemKinds = []string{"tension", "action", "project", "note"}

const selectItem = `
	SELECT id, kind, organization, role, person, private, title, body, status, version, created_at, changed_at
	  FROM item`

func scanItem(row scanner, i *Item) error {
	var private int64
	err := row.Scan(&i.ID, &i.Kind, &i.Organization, &i.Role, &i.Person, &private,
		&i.Title, &i.Body, &i.Status, &i.Version, &i.CreatedAt, &i.ChangedAt)
	i.Private = private == 1
	return err
}

// circleOf is the circle of a role, and so of its items; "" is none.
func (m *memory) circleOf(role string) string {
	if r := m.roles.get(role); r != nil {
		return r.Circle
	}
	return ""
}

// place gives n items that were read the circles of their roles, as the facts are
// since then.
func (s *Store) place(ctx context.Context, n int, at func(int) *org.Item) error {
	if err := s.fresh(ctx); err != nil {
		return err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	for i := range n {
		at(i).Circle = s.memory.circleOf(at(i).Role)
	}
	return nil
}

// Item gives an item of an organization, or ErrNotFound: what belongs to
// another organization does not exist.
func (s *Store) Item(ctx context.Context, organization, kind, id string) (Item, error) {
	defer s.timed("item", time.Now())
	return s.oneItem(ctx, kind, s.reader.QueryRowContext(ctx, selectItem+` WHERE id = $1 AND organization = $2 AND kind = $3`, id, organization, kind))
}

// FindItem gives an item of an organization by its ID alone, which no two items
// share, whatever their kind; or ErrNotFound.
func (s *Store) FindItem(ctx context.Context, organization, id string) (Item, error) {
	defer s.timed("item", time.Now())
	return s.oneItem(ctx, "item", s.reader.QueryRowContext(ctx, selectItem+` WHERE id = $1 AND organization = $2`, id, organization))
}

func (s *Store) oneItem(ctx context.Context, what string, row *sql.Row) (i Item, err error) {
	if err := scanItem(row, &i); err != nil {
		return Item{}, lookup(what, err)
	}
	err = s.place(ctx, 1, func(int) *org.Item { return &i.Item })
	return i, err
}

// ItemFilter narrows Items; empty fields match all but Organization and Kind,
// which are required. Limit is at most 1000, 0 is 50.
type ItemFilter struct {
	Organization, Kind   string
	Role, Circle, Status string
	Person               string // personal items of this person alone
	After                string // ID of the last item before
	Limit                int
}

// Items lists, by ID, the items that may be seen, and gives the cursor of the
// next page or "". What may not be seen is not there: it is not counted
// either.
func (s *Store) Items(ctx context.Context, f ItemFilter, may func(org.Item) bool) ([]Item, string, error) {
	limit := pageSize(f.Limit)
	var out []Item
	for after := f.After; ; {
		page, err := s.itemPage(ctx, f, after, limit)
		if err != nil {
			return nil, "", err
		}
		for _, i := range page {
			if after = i.ID; !may(i.Item) || f.Circle != "" && i.Circle != f.Circle {
				continue
			}
			if len(out) == limit {
				return out, out[limit-1].ID, nil
			}
			out = append(out, i)
		}
		if len(page) <= limit {
			return out, "", nil
		}
	}
}

func (s *Store) itemPage(ctx context.Context, f ItemFilter, after string, limit int) ([]Item, error) {
	defer s.timed("items", time.Now())
	q := query{text: selectItem}
	q.where("organization = ", f.Organization)
	q.where("kind = ", f.Kind)
	q.equal("role", f.Role)
	q.equal("status", f.Status)
	q.equal("person", f.Person)
	if after != "" {
		q.where("id > ", after)
	}
	rows, err := s.reader.QueryContext(ctx, q.page("id", limit), q.args...)
	out, err := listOf(rows, err, scanItem)
	if err != nil {
		return nil, unavailable("items", err)
	}
	return out, s.place(ctx, len(out), func(i int) *org.Item { return &out[i].Item })
}

// refused carries a caller's own refusal out of the writer: it undoes the
// change alone, whatever error it is.
type refused struct{ error }

func (r *refused) Is(target error) bool { return target == ErrNotAllowed }

func unwrapRefused(err error) error {
	var r *refused
	if errors.As(err, &r) {
		return r.error
	}
	return err
}

// putItem adds an item under the ID that it came with, or updates the one that
// has it. One that is there as it came is not touched: a repeated import is no
// change. Organization and kind of an item stay.
func (w *writer) putItem(i Item) (func(), error) {
	now := w.store.Now().Unix()
	n, err := w.exec(`
		INSERT INTO item (id, kind, organization, role, person, private, title, body, status, version, created_at, changed_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 1, $10, $10)
		ON CONFLICT (id) DO NOTHING`,
		i.ID, i.Kind, i.Organization, i.Role, i.Person, flag(i.Private), i.Title, i.Body, i.Status, now)
	if err != nil || n == 1 {
		return func() {}, err
	}
	n, err = w.exec(`
		UPDATE item
		   SET role = $1, person = $2, private = $3, title = $4, body = $5, status = $6,
		       version = CASE WHEN role = $1 AND person = $2 AND private = $3 AND title = $4 AND body = $5 AND status = $6
		                      THEN version ELSE version + 1 END,
		       changed_at = CASE WHEN role = $1 AND person = $2 AND private = $3 AND title = $4 AND body = $5 AND status = $6
		                         THEN changed_at ELSE $7 END
		 WHERE id = $8 AND organization = $9 AND kind = $10`,
		i.Role, i.Person, flag(i.Private), i.Title, i.Body, i.Status, now, i.ID, i.Organization, i.Kind)
	if err == nil && n == 0 {
		err = fmt.Errorf("item %s is of another organization or kind: %w", i.ID, ErrConflict)
	}
	return func() {}, err
}
