package activity

import (
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
)

// A Viewer is who is told of records of one approval.
type Viewer struct {
	// Member is who looks, as they are now; the zero Member may read no item.
	Member org.Member
	// Own is said of the person who gave the approval, when it is really them.
	Own bool
	// Person is who gave the approval: personal items are theirs.
	Person string
	// Circle gives the circle of a role of the organization as it is now; "" of a role
	// that is gone.
	Circle func(role string) string
	// Gone has the IDs of items that were deleted since.
	Gone map[string]bool
	// Latest is what was last said of an item by its ID, where it was said more than once.
	Latest map[string]identity.Item
}

// Hidden says why the title of an item is not told; "" is that it is.
type Hidden string

const (
	HiddenPrivate  Hidden = "private"
	HiddenPersonal Hidden = "personal"
	HiddenDeleted  Hidden = "deleted"
	HiddenAll      Hidden = "all" // from who is no member
)

// Tell gives a record as the viewer is told it: without title and detail where they may
// not read the item now. Then path and ID are left out too, for both may name it. The
// rights of an admin do not count: titles that are private are their circle's.
func (v Viewer) Tell(r Record) (Record, Hidden) {
	why := v.hides(r)
	if why != "" {
		r.Item.Title, r.Item.Detail, r.Item.ID = "", "", ""
		if r.Path != "" {
			r.Path = Cut
		}
	}
	return r, why
}

func (v Viewer) hides(r Record) Hidden {
	if !r.Told() {
		return "" // method and path are all that there is
	}
	at := r.Item
	if last, ok := v.Latest[at.ID]; ok && at.ID != "" {
		at.Private, at.Personal = at.Private || last.Private, at.Personal || last.Personal
		if last.Role != "" {
			at.Role = last.Role
		}
	}
	gone := at.Did == identity.Deleted || at.ID != "" && v.Gone[at.ID]
	m := v.Member
	m.Admin = false
	switch {
	case gone && v.Own: // who had it may know what it was
		return ""
	case !m.Exists():
		return HiddenAll
	case at.Personal && (!v.Own || !m.MayRead(org.Item{Organization: m.Organization, Person: v.Person})):
		return HiddenPersonal
	case at.Personal:
	case at.Private && !m.MayRead(org.Item{Organization: m.Organization, Role: at.Role, Circle: v.Circle(at.Role), Private: true}):
		return HiddenPrivate
	}
	if gone {
		return HiddenDeleted
	}
	return ""
}

// Learn has the viewer know of each item what these records, the newest first, say last of
// it. Records of items without an ID say nothing of others.
func (v *Viewer) Learn(newestFirst []Record) {
	if v.Gone == nil {
		v.Gone, v.Latest = map[string]bool{}, map[string]identity.Item{}
	}
	for _, r := range newestFirst {
		if r.Item.ID == "" || r.Outcome != Done {
			continue
		}
		if _, known := v.Latest[r.Item.ID]; known {
			continue
		}
		v.Latest[r.Item.ID] = r.Item
		v.Gone[r.Item.ID] = r.Item.Did == identity.Deleted
	}
}
