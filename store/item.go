package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
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

// ItemCount is how many items of an organization stand alike: to every
// decision about authority they are the same.
type ItemCount struct {
	org.Item // without an ID
	Kind     string
	Count    int
}

// ItemCounts counts the items of an organization by what decides about them,
// so that a preview can ask the same functions that enforce.
func (s *Store) ItemCounts(ctx context.Context, organization string) ([]ItemCount, error) {
	defer s.timed("item_counts", time.Now())
	rows, err := s.reader.QueryContext(ctx, `
		SELECT kind, role, person, private, COUNT(*)
		  FROM item WHERE organization = $1
		 GROUP BY kind, role, person, private`, organization)
	out, err := listOf(rows, err, func(r scanner, c *ItemCount) error {
		var private int64
		err := r.Scan(&c.Kind, &c.Role, &c.Person, &private, &c.Count)
		c.Organization, c.Private = organization, private == 1
		return err
	})
	if err != nil {
		return nil, unavailable("items", err)
	}
	return out, s.place(ctx, len(out), func(i int) *org.Item { return &out[i].Item })
}

// A TitledItem is what a preview says of an item.
type TitledItem struct {
	org.Item // without an ID
	Title    string
}

// ItemTitles gives the first items of an organization, at most limit, of those
// who have them: each of owners has a role or a person. With private, only those
// that not every member sees.
func (s *Store) ItemTitles(ctx context.Context, organization string, owners []org.Item, private bool, limit int) ([]TitledItem, error) {
	if len(owners) == 0 {
		return nil, nil
	}
	defer s.timed("item_titles", time.Now())
	q := query{text: `SELECT role, person, private, title FROM item`}
	q.where("organization = ", organization)
	if private {
		q.where("private = ", 1)
	}
	var values []any
	for _, o := range owners {
		values = append(values, o.Role, o.Person)
	}
	q.pairs("(role, person)", values)
	rows, err := s.reader.QueryContext(ctx, q.page("kind, id", limit-1), q.args...)
	out, err := listOf(rows, err, func(r scanner, i *TitledItem) error {
		var private int64
		err := r.Scan(&i.Role, &i.Person, &private, &i.Title)
		i.Organization, i.Private = organization, private == 1
		return err
	})
	if err != nil {
		return nil, unavailable("items", err)
	}
	return out, s.place(ctx, len(out), func(i int) *org.Item { return &out[i].Item })
}

// AddItem adds an item. check sees it with its circle, in the same step, and
// may refuse. ErrNotFound: its role is not one of the organization, or its
// person no member.
func (s *Store) AddItem(_ context.Context, i Item, check func(Item) error) (Item, error) {
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		now := w.store.Now()
		i.ID, i.Version, i.CreatedAt, i.ChangedAt = w.store.ids.next(now), 1, now.Unix(), now.Unix()
		if err := w.placeItem(&i); err != nil {
			return nil, err
		}
		if err := check(i); err != nil {
			return nil, &refused{err}
		}
		_, err := w.exec(`
			INSERT INTO item (id, kind, organization, role, person, private, title, body, status, version, created_at, changed_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
			i.ID, i.Kind, i.Organization, i.Role, i.Person, flag(i.Private), i.Title, i.Body, i.Status, i.Version, i.CreatedAt, i.ChangedAt)
		return nil, err
	})
	return i, unwrapRefused(err)
}

// placeItem finds the item's circle.
func (w *writer) placeItem(i *Item) error {
	m := w.store.memory
	if !slices.Contains(ItemKinds, i.Kind) || (i.Role == "") == (i.Person == "") {
		return fmt.Errorf("an item has a kind, and either a role or a person: %w", ErrConflict)
	}
	if i.Person != "" {
		i.Circle, i.Private = "", false
		if !m.members.get(memberKey{i.Person, i.Organization}).asMember().Exists() {
			return fmt.Errorf("person: %w", ErrNotFound)
		}
		return nil
	}
	r := m.roles.get(i.Role)
	if r == nil || r.Organization != i.Organization {
		return fmt.Errorf("role: %w", ErrNotFound)
	}
	i.Circle = r.Circle
	return nil
}

// ChangeItem changes an item in one step: change sees it as it stands, and
// gives what it shall be, or refuses. ID, organization and kind stay.
func (s *Store) ChangeItem(_ context.Context, organization, kind, id string, change func(Item) (Item, error)) (Item, error) {
	var out Item
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		at, err := w.item(organization, kind, id)
		if err != nil {
			return nil, err
		}
		next, err := change(at)
		if err != nil {
			return nil, &refused{err}
		}
		next.ID, next.Organization, next.Kind, next.CreatedAt = at.ID, at.Organization, at.Kind, at.CreatedAt
		next.Version, next.ChangedAt = at.Version+1, w.store.Now().Unix()
		if err := w.placeItem(&next); err != nil {
			return nil, err
		}
		out = next
		_, err = w.exec(`
			UPDATE item SET role = $1, person = $2, private = $3, title = $4, body = $5, status = $6, version = $7, changed_at = $8
			 WHERE id = $9`,
			next.Role, next.Person, flag(next.Private), next.Title, next.Body, next.Status, next.Version, next.ChangedAt, id)
		return nil, err
	})
	return out, unwrapRefused(err)
}

// DeleteItem deletes an item unless check, which sees it as it stands,
// refuses.
func (s *Store) DeleteItem(_ context.Context, organization, kind, id string, check func(Item) error) error {
	return unwrapRefused(s.writer.changeFacts(func(w *writer) (func(), error) {
		at, err := w.item(organization, kind, id)
		if err != nil {
			return nil, err
		}
		if err := check(at); err != nil {
			return nil, &refused{err}
		}
		_, err = w.exec(`DELETE FROM item WHERE id = $1`, id)
		return nil, err
	}))
}

func (w *writer) item(organization, kind, id string) (Item, error) {
	rows, err := w.query(selectItem+` WHERE id = $1 AND organization = $2 AND kind = $3`, id, organization, kind)
	found, err := listOf(rows, err, scanItem)
	if err != nil {
		return Item{}, err
	}
	if len(found) == 0 {
		return Item{}, fmt.Errorf("%s: %w", kind, ErrNotFound)
	}
	found[0].Circle = w.store.memory.circleOf(found[0].Role)
	return found[0], nil
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
