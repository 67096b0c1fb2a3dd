package sample

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/identity"
)

// statuses are what an item can be; a new one is the first.
var statuses = []string{"open", "done", "archived"}

// itemHead is an item as lists have it: without its body.
type itemHead struct {
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

// item is a tension, action, project or note as the caller sees it.
type item struct {
	itemHead
	Body string `json:"body"`
}

// itemFields are the members of an item that can be sent; nil was not.
type itemFields struct {
	Title    *string `json:"title,omitempty" jsonschema:"in one line"`
	Body     *string `json:"body,omitempty" merge:"null" jsonschema:"text of at most 20000 characters"`
	Status   *string `json:"status,omitempty" jsonschema:"open, done or archived"`
	Role     *string `json:"role,omitempty" jsonschema:"ID of the role that the item shall belong to"`
	Personal *bool   `json:"personal,omitempty" jsonschema:"true assigns the item to the person instead of to a role"`
	Private  *bool   `json:"private,omitempty" jsonschema:"true hides an item of a role from those who fill no role in its circle"`
}

// itemFilter narrows items; empty fields match all.
type itemFilter struct {
	Role, Circle, Status string
	Mine                 *bool // of a role that the person fills, or personal
	Personal             *bool
}

// check refuses what no item can be, before anything is looked at.
func (f itemFields) check() error {
	if f.Title != nil {
		if err := checkLine("title", *f.Title, maxTitle); err != nil {
			return err
		}
	}
	switch personal := f.Personal != nil && *f.Personal; {
	case f.Body != nil && utf8.RuneCountInString(*f.Body) > maxText:
		return badRequest(fmt.Sprintf("body has at most %d characters.", maxText))
	case f.Status != nil && !slices.Contains(statuses, *f.Status):
		return badRequest("status is " + oneOf(statuses) + ".")
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

// item gives an item as the caller sees it.
func (r rights) item(i Item) item {
	access := "read"
	if r.mayChangeItem(i.place()) {
		access = "change"
	}
	return item{itemHead{
		ID: i.ID, Kind: i.Kind, Title: i.Title, Status: i.Status, Role: i.Role, Circle: r.dir.roles[i.Role].Circle,
		Private: i.Private, Personal: i.Person != "", Access: access, CreatedAt: i.CreatedAt, ChangedAt: i.ChangedAt,
	}, i.Body}
}

// listItems gives those of a kind that may be read, by ID, and nothing of the
// others.
func (s *Server) listItems(ctx context.Context, c caller, kind string, f itemFilter, after string, limit int) (page[itemHead], error) {
	now, err := s.rights(ctx, c)
	if err != nil {
		return page[itemHead]{}, err
	}
	if err := now.checkFilter(kind, f); err != nil {
		return page[itemHead]{}, err
	}
	list := f.list(kind)
	last, err := s.openCursor(list, c, after)
	if err != nil {
		return page[itemHead]{}, err
	}
	p := page[itemHead]{Items: []itemHead{}}
	for _, i := range s.items.all(c.Organization, kind, last) {
		if !now.finds(i, f) {
			continue
		}
		if len(p.Items) == limit {
			p.Next = s.sealCursor(list, c, p.Items[limit-1].ID)
			break
		}
		p.Items = append(p.Items, now.item(i).itemHead)
	}
	touchMany(ctx, p.Items)
	return p, nil
}

// finds reports whether an item may be read, and is of the filtered list.
func (r rights) finds(i Item, f itemFilter) bool {
	personal := i.Person != ""
	return r.mayReadItem(i.place()) && (f.Role == "" || i.Role == f.Role) && (f.Status == "" || i.Status == f.Status) &&
		(f.Circle == "" || r.dir.roles[i.Role].Circle == f.Circle) &&
		(f.Mine == nil || (personal || r.fills(i.Role)) == *f.Mine) && (f.Personal == nil || personal == *f.Personal)
}

// checkFilter refuses a filter that nothing can match. A role or circle of
// another organization is as unknown as one that never was.
func (r rights) checkFilter(kind string, f itemFilter) error {
	switch err := checkKind(kind); {
	case err != nil:
		return err
	case f.Status != "" && !slices.Contains(statuses, f.Status):
		return badRequest("status is " + oneOf(statuses) + ".")
	}
	if err := r.mayRead(); err != nil {
		return err
	}
	if f.Role != "" {
		if _, err := r.role(f.Role); err != nil {
			return unknown("role", err)
		}
	}
	if f.Circle != "" {
		if _, err := r.circle(f.Circle); err != nil {
			return unknown("circle", err)
		}
	}
	return nil
}

func checkKind(kind string) error {
	if slices.Contains(Kinds, kind) {
		return nil
	}
	return badRequest("kind is " + oneOf(Kinds) + ".")
}

// unknown is the refusal of a role or circle that was sent and is not there.
func unknown(what string, err error) error { return unknownAs(what, what, err) }

func unknownAs(member, what string, err error) error {
	if errors.Is(err, errNoObject) {
		return badRequest(member + ": there is no such " + what + " in this organization.")
	}
	return err
}

// list names the filtered list in cursors.
func (f itemFilter) list(kind string) string {
	return strings.Join([]string{kind, f.Role, f.Circle, f.Status, yes(f.Mine), yes(f.Personal)}, "/")
}

// yes writes a filter that may be absent.
func yes(b *bool) string {
	if b == nil {
		return ""
	}
	return strconv.FormatBool(*b)
}

// readItem gives one item. What may not be read does not exist.
func (s *Server) readItem(ctx context.Context, c caller, kind, id string) (item, error) {
	now, err := s.rights(ctx, c)
	if err != nil {
		return item{}, err
	}
	if err := cmp.Or(now.mayRead(), checkKind(kind), checkID(id)); err != nil {
		return item{}, err
	}
	i, err := s.items.get(c.Organization, kind, id)
	if err == nil && !now.mayReadItem(i.place()) {
		err = errNoObject
	}
	if err != nil {
		return item{}, err
	}
	touch(ctx, identity.Viewed, i)
	return now.item(i), nil
}

// addItem makes an item.
func (s *Server) addItem(ctx context.Context, c caller, kind string, f itemFields) (item, error) {
	now, err := s.rights(ctx, c)
	if err != nil {
		return item{}, err
	}
	if err := now.mayAdd(kind, f); err != nil {
		return item{}, err
	}
	at := s.o.Now()
	i := f.apply(c, Item{
		ID: newItemID(at), Organization: c.Organization, Kind: kind, Status: statuses[0], CreatedAt: at.Unix(), ChangedAt: at.Unix(),
	})
	if err := cmp.Or(now.mayPut(i.place()), s.items.put(i)); err != nil {
		return item{}, err
	}
	touch(ctx, identity.Created, i)
	return now.item(i), nil
}

// mayAdd refuses what can never be added.
func (r rights) mayAdd(kind string, f itemFields) error {
	if err := cmp.Or(r.mayRead(), checkKind(kind), f.check()); err != nil {
		return err
	}
	switch {
	case f.Title == nil:
		return badRequest("title is missing.")
	case f.Role == nil && (f.Personal == nil || !*f.Personal):
		return badRequest("Send role, the ID of a role, or personal: true.")
	case f.Role != nil:
		if _, err := r.role(*f.Role); err != nil {
			return unknown("role", err)
		}
	}
	return nil
}

// apply puts what was sent into an item. Where it then belongs is not decided
// here.
func (f itemFields) apply(c caller, i Item) Item {
	set(&i.Title, f.Title)
	set(&i.Body, f.Body)
	set(&i.Status, f.Status)
	set(&i.Private, f.Private)
	switch {
	case f.Role != nil:
		i.Role, i.Person = *f.Role, ""
	case f.Personal != nil && *f.Personal:
		i.Role, i.Person, i.Private = "", c.Person, false
	}
	return i
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// changeItem changes an item. To move it, the caller must be able to change it
// where it is and where it goes.
func (s *Server) changeItem(ctx context.Context, c caller, kind, id string, f itemFields, when conditions) (item, error) {
	now, err := s.rights(ctx, c)
	if err != nil {
		return item{}, err
	}
	if err := cmp.Or(now.mayRead(), checkKind(kind), checkID(id), f.check()); err != nil {
		return item{}, err
	}
	if f == (itemFields{}) {
		return item{}, errNothingSent
	}
	did := identity.Changed
	out, err := s.items.change(c.Organization, kind, id, func(at Item) (Item, error) {
		if err := now.mayChange(at, when); err != nil {
			return at, err
		}
		next, err := now.moved(at, f)
		if next != at {
			next.ChangedAt = s.o.Now().Unix()
			if at.Status == statuses[0] && next.Status != at.Status {
				did = identity.Closed
			}
		}
		return next, err
	})
	if err != nil {
		return item{}, err
	}
	touch(ctx, did, out)
	return now.item(out), nil
}

// moved gives the changed item with its place, which may be another one.
func (r rights) moved(at Item, f itemFields) (Item, error) {
	next := f.apply(r.caller, at)
	switch personal := next.Person != ""; {
	case personal && f.Personal != nil && !*f.Personal:
		return at, badRequest("Send role, the ID of the role that the item shall belong to.")
	case personal && next.Private:
		return at, badRequest("private is for items of a role: a personal item is seen by its person alone.")
	case next.Role != at.Role && !personal:
		if _, err := r.role(next.Role); err != nil {
			return at, unknown("role", err)
		}
	}
	return next, r.mayPut(next.place())
}

// deleteItem deletes an item for good.
func (s *Server) deleteItem(ctx context.Context, c caller, kind, id string, when conditions) error {
	now, err := s.rights(ctx, c)
	if err != nil {
		return err
	}
	if err := cmp.Or(now.mayRead(), checkKind(kind), checkID(id)); err != nil {
		return err
	}
	var was Item
	err = s.items.remove(c.Organization, kind, id, func(at Item) error { was = at; return now.mayChange(at, when) })
	if err == nil {
		touch(ctx, identity.Deleted, was)
	}
	return err
}

// mayChange says why an item that is there may not be changed or deleted. What
// may not be read is unknown, before anything else can be learned of it.
func (r rights) mayChange(at Item, when conditions) error {
	if !r.mayReadItem(at.place()) {
		return errNoObject
	}
	return cmp.Or(r.mayPut(at.place()), when.check(etag(r.item(at))))
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,64}$`)

// checkID says that what cannot be an ID is unknown.
func checkID(id string) error {
	if !idForm.MatchString(id) || id == "." || id == ".." {
		return errNoObject
	}
	return nil
}
