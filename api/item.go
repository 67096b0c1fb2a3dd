package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// Statuses are what an item can be; a new one is the first.
var Statuses = []string{"open", "done", "archived"}

// ItemHead is an item as lists have it: without its body.
type ItemHead struct {
	ID        string `json:"id"`
	Kind      string `json:"kind" jsonschema:"tension, action, project or note"`
	Title     string `json:"title"`
	Status    string `json:"status" jsonschema:"open, done or archived"`
	Role      string `json:"role,omitempty" jsonschema:"ID of the role that the item belongs to; a personal item has none"`
	Circle    string `json:"circle,omitempty" jsonschema:"ID of the circle of that role"`
	Private   bool   `json:"private" jsonschema:"seen only by those who fill a role in the circle, and by admins"`
	Personal  bool   `json:"personal" jsonschema:"assigned to the person, and seen by nobody else"`
	Access    string `json:"access" jsonschema:"what may be done with this item: read or change"`
	CreatedAt int64  `json:"created_at" jsonschema:"Unix time in seconds"`
	ChangedAt int64  `json:"changed_at" jsonschema:"Unix time in seconds"`
}

// Item is a tension, action, project or note as the actor sees it.
type Item struct {
	ItemHead
	Body string `json:"body"`
}

// ItemFields are the members of an item that can be sent; nil was not.
type ItemFields struct {
	Title    *string `json:"title,omitempty" jsonschema:"in one line"`
	Body     *string `json:"body,omitempty" merge:"null" jsonschema:"text of at most 20000 characters"`
	Status   *string `json:"status,omitempty" jsonschema:"open, done or archived"`
	Role     *string `json:"role,omitempty" jsonschema:"ID of the role that the item shall belong to"`
	Personal *bool   `json:"personal,omitempty" jsonschema:"true assigns the item to the person instead of to a role"`
	Private  *bool   `json:"private,omitempty" jsonschema:"true hides an item of a role from those who fill no role in its circle"`
}

// ItemFilter narrows Items; empty fields match all.
type ItemFilter struct {
	Role, Circle, Status string
	Mine                 *bool // of a role that the person fills, or personal
	Personal             *bool
}

var errUnchanged = errors.New("nothing to change")

// check refuses what no item can be, before anything is looked at.
func (f ItemFields) check() error {
	if f.Title != nil {
		if err := checkLine("title", *f.Title, MaxTitle); err != nil {
			return err
		}
	}
	switch personal := f.Personal != nil && *f.Personal; {
	case f.Body != nil && utf8.RuneCountInString(*f.Body) > MaxBody:
		return badRequest(fmt.Sprintf("body has at most %d characters.", MaxBody))
	case f.Status != nil && !slices.Contains(Statuses, *f.Status):
		return badRequest("status is " + oneOf(Statuses) + ".")
	case f.Role != nil && personal:
		return badRequest("An item belongs to a role or is personal, not both.")
	case f.Private != nil && *f.Private && personal:
		return badRequest("private is for items of a role: a personal item is seen by its person alone.")
	}
	return nil
}

func oneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// item gives an item as the actor sees it.
func (r Rights) item(i store.Item) Item {
	access := "read"
	if r.MayChange(i.Item) {
		access = "change"
	}
	return Item{ItemHead{
		ID: i.ID, Kind: i.Kind, Title: i.Title, Status: i.Status, Role: i.Role, Circle: i.Circle,
		Private: i.Private, Personal: i.Personal(), Access: access, CreatedAt: i.CreatedAt, ChangedAt: i.ChangedAt,
	}, i.Body}
}

// MayChangeSome reports whether there could be an item that the actor may make
// or change.
func (r Rights) MayChangeSome() bool {
	return r.MayAdminister() || r.MayChange(org.Item{Organization: r.Organization, Person: r.Person}) ||
		slices.ContainsFunc(r.Member().Roles(), func(role org.Role) bool {
			return r.MayChange(org.Item{Organization: r.Organization, Role: role.ID, Circle: role.Circle})
		})
}

// Items answers GET /api/v5/tensions, actions, projects and notes, by ID:
// those that the actor may read, and nothing of the others.
func (s *Server) Items(ctx context.Context, a Actor, kind string, f ItemFilter, after string, limit int) (Page[ItemHead], error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Page[ItemHead], error) {
		if err := now.checkFilter(ctx, kind, f); err != nil {
			return Page[ItemHead]{}, err
		}
		list := f.list(kind)
		after, err := s.openCursor(list, a, after)
		if err != nil {
			return Page[ItemHead]{}, err
		}
		filter := store.ItemFilter{Kind: kind, Role: f.Role, Circle: f.Circle, Status: f.Status, After: after, Limit: limit}
		found, next, err := now.storedItems(ctx, filter, func(i org.Item) bool {
			mine := i.Personal() || now.Member().Fills(i.Role)
			return now.MayRead(i) && (f.Mine == nil || mine == *f.Mine) && (f.Personal == nil || i.Personal() == *f.Personal)
		})
		if err != nil {
			return Page[ItemHead]{}, err
		}
		items := make([]ItemHead, len(found))
		for n, i := range found {
			items[n] = now.item(i).ItemHead
		}
		return Page[ItemHead]{items, s.sealCursor(list, a, next)}, nil
	})
}

// checkFilter refuses a filter that nothing can match. A role or circle of
// another organization is as unknown as one that never was.
func (r Rights) checkFilter(ctx context.Context, kind string, f ItemFilter) error {
	switch err := checkKind(kind); {
	case err != nil:
		return err
	case f.Status != "" && !slices.Contains(Statuses, f.Status):
		return badRequest("status is " + oneOf(Statuses) + ".")
	}
	if err := r.mayRead(); err != nil {
		return err
	}
	if f.Role != "" {
		if _, err := r.role(ctx, f.Role); err != nil {
			return unknown("role", err)
		}
	}
	if f.Circle != "" {
		if _, err := r.circle(ctx, f.Circle); err != nil {
			return unknown("circle", err)
		}
	}
	return nil
}

func checkKind(kind string) error {
	if slices.Contains(store.ItemKinds, kind) {
		return nil
	}
	return badRequest("kind is " + oneOf(store.ItemKinds) + ".")
}

// unknown is the refusal of a role or circle that was sent and is not there.
func unknown(what string, err error) error { return unknownAs(what, what, err) }

func unknownAs(member, what string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return badRequest(member + ": there is no such " + what + " in this organization.")
	}
	return err
}

// list names the filtered list in cursors.
func (f ItemFilter) list(kind string) string {
	return strings.Join([]string{kind, f.Role, f.Circle, f.Status, yes(f.Mine), yes(f.Personal)}, "/")
}

// yes writes a filter that may be absent.
func yes(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

// Item answers GET /api/v5/notes/{id} and its like. What may not be read does
// not exist.
func (s *Server) Item(ctx context.Context, a Actor, kind, id string) (Item, error) {
	return ask(ctx, s, a, func(ctx context.Context, now Rights) (Item, error) {
		if err := cmp.Or(now.mayRead(), checkKind(kind), checkID(id)); err != nil {
			return Item{}, err
		}
		i, err := now.stored(ctx, kind, id)
		if err != nil {
			return Item{}, err
		}
		if !now.MayRead(i.Item) {
			return Item{}, errNoObject
		}
		return now.item(i), nil
	})
}

// AddItem answers POST /api/v5/notes and its like.
func (s *Server) AddItem(ctx context.Context, a Actor, kind string, f ItemFields) (Item, error) {
	return changing(ctx, s, a, func(now Rights) (Item, error) {
		if err := now.mayAdd(ctx, kind, f); err != nil {
			return Item{}, err
		}
		first := store.Item{Item: org.Item{Organization: a.Organization}, Kind: kind, Status: Statuses[0]}
		out, err := s.Store.AddItem(ctx, f.apply(a, first), func(next store.Item) (err error) {
			if now, err = s.current(ctx, a); err != nil {
				return err
			}
			return now.mayPut(ctx, next.Item)
		})
		return now.changed(out, err)
	})
}

// mayAdd refuses what can never be added. Whether this may, the writer asks.
func (r Rights) mayAdd(ctx context.Context, kind string, f ItemFields) error {
	if err := cmp.Or(r.mayRead(), checkKind(kind), f.check()); err != nil {
		return err
	}
	switch {
	case f.Title == nil:
		return badRequest("title is missing.")
	case f.Role == nil && (f.Personal == nil || !*f.Personal):
		return badRequest("Send role, the ID of a role, or personal: true.")
	case f.Role != nil: // the writer would say less
		if _, err := r.role(ctx, *f.Role); err != nil {
			return unknown("role", err)
		}
	}
	return nil
}

// changed gives the item that was made or changed by these rights.
func (r Rights) changed(i store.Item, err error) (Item, error) {
	if err != nil {
		return Item{}, err
	}
	return r.item(i), nil
}

// apply puts what was sent into an item. Where it then belongs is not decided
// here.
func (f ItemFields) apply(a Actor, i store.Item) store.Item {
	set(&i.Title, f.Title)
	set(&i.Body, f.Body)
	set(&i.Status, f.Status)
	set(&i.Private, f.Private)
	switch {
	case f.Role != nil:
		i.Role, i.Person = *f.Role, ""
	case f.Personal != nil && *f.Personal:
		i.Role, i.Circle, i.Person, i.Private = "", "", a.Person, false
	}
	return i
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// ChangeItem answers PATCH /api/v5/notes/{id} and its like. To move an item,
// the actor must be able to change it where it is and where it goes.
func (s *Server) ChangeItem(ctx context.Context, a Actor, kind, id string, f ItemFields, when Conditions) (Item, error) {
	return changing(ctx, s, a, func(now Rights) (Item, error) {
		if err := cmp.Or(now.mayRead(), checkKind(kind), checkID(id), f.check()); err != nil {
			return Item{}, err
		}
		if f == (ItemFields{}) {
			return Item{}, errNothingSent
		}
		var same store.Item
		out, err := s.Store.ChangeItem(ctx, a.Organization, kind, id, func(at store.Item) (_ store.Item, err error) {
			if now, err = s.current(ctx, a); err != nil {
				return at, err
			}
			if err := now.mayChange(ctx, at, when); err != nil {
				return at, err
			}
			next, err := now.moved(ctx, at, f)
			if err != nil {
				return at, err
			}
			if same = at; next == at {
				return at, errUnchanged
			}
			return next, nil
		})
		if errors.Is(err, errUnchanged) {
			out, err = same, nil
		}
		return now.changed(out, err)
	})
}

// moved gives the changed item with its place, which may be another one.
func (r Rights) moved(ctx context.Context, at store.Item, f ItemFields) (store.Item, error) {
	next := f.apply(r.Actor, at)
	switch {
	case next.Personal() && f.Personal != nil && !*f.Personal:
		return at, badRequest("Send role, the ID of the role that the item shall belong to.")
	case next.Personal() && next.Private:
		return at, badRequest("private is for items of a role: a personal item is seen by its person alone.")
	case next.Role != at.Role && !next.Personal():
		role, err := r.role(ctx, next.Role)
		if err != nil {
			return at, unknown("role", err)
		}
		next.Circle = role.Circle
	}
	return next, r.mayPut(ctx, next.Item)
}

// DeleteItem answers DELETE /api/v5/notes/{id} and its like.
func (s *Server) DeleteItem(ctx context.Context, a Actor, kind, id string, when Conditions) error {
	return changingOnly(ctx, s, a, func(now Rights) error {
		if err := cmp.Or(now.mayRead(), checkKind(kind), checkID(id)); err != nil {
			return err
		}
		return s.Store.DeleteItem(ctx, a.Organization, kind, id, func(at store.Item) error {
			now, err := s.current(ctx, a)
			if err != nil {
				return err
			}
			return now.mayChange(ctx, at, when)
		})
	})
}

// mayChange says why an item that is there may not be changed or deleted. What
// may not be read is unknown, before anything else can be learned of it.
func (r Rights) mayChange(ctx context.Context, at store.Item, when Conditions) error {
	if !r.MayRead(at.Item) {
		return errNoObject
	}
	if err := r.mayPut(ctx, at.Item); err != nil {
		return err
	}
	return when.check(Tag(r.item(at)))
}

// mayPut says why there may not be such an item by the actor's hand, and names
// its role (decision B3): it was sent, or is that of an item that may be read.
func (r Rights) mayPut(ctx context.Context, i org.Item) error {
	if r.MayChange(i) {
		return nil
	}
	role, err := r.role(ctx, i.Role)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	return Forbidden(r.ExplainPut(i, role.Name))
}

// checkID says that what cannot be an ID is unknown, without a question to the
// store.
func checkID(id string) error {
	if org.CheckID(id) != nil {
		return errNoObject
	}
	return nil
}
