package store

import (
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/org"
)

// checkItems finds items of a directory that cannot be, or that refer to what
// neither it nor the database has.
func (p *plan) checkItems(isRole, isMember func(id, organization string) bool) error {
	seen := make(map[string]bool, len(p.Items))
	for n, i := range p.Items {
		wrong := func(kind error, format string, args ...any) error {
			return misplaced(ListItems, n, kind, format, args...)
		}
		switch {
		case org.CheckID(i.ID) != nil:
			return wrong(ErrConflict, "item %q: %v", i.ID, org.CheckID(i.ID))
		case seen[i.ID]:
			return wrong(ErrConflict, "item %s comes twice", i.ID)
		case !slices.Contains(ItemKinds, i.Kind):
			return wrong(ErrConflict, "item %s: there is no kind %q", i.ID, i.Kind)
		case (i.Role == "") == (i.Person == ""):
			return wrong(ErrConflict, "item %s has neither a role nor a person, or both", i.ID)
		case i.Personal() && i.Private:
			return wrong(ErrConflict, "item %s is personal, so no circle can see it", i.ID)
		case i.Role != "" && !isRole(i.Role, i.Organization):
			return wrong(ErrNotFound, "item %s: role %s in %s", i.ID, i.Role, i.Organization)
		case i.Person != "" && !isMember(i.Person, i.Organization):
			return wrong(ErrNotFound, "item %s: member %s of %s", i.ID, i.Person, i.Organization)
		}
		seen[i.ID] = true
	}
	return nil
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
