package store

import (
	"context"
	"errors"
	"fmt"
	"github.com/grantkeeper/grantkeeper/facts"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
)

// Directory is people and organizations as they are loaded together.
type Directory struct {
	People        []DirectoryPerson
	Organizations []org.Organization
	Members       []DirectoryMember
	Circles       []org.Circle
	Roles         []org.Role
	Fillers       []Filler
	APIKeys       []DirectoryAPIKey

	// Unsaid is what the directory does not say of people, organizations and
	// members who are there already: it is left as it stands when the
	// directory is taken, so that an import undoes no change made meanwhile.
	Unsaid Unsaid
}

// Unsaid names, by ID, whose flags a directory leaves alone.
type Unsaid struct {
	Active, Support map[string]bool // of people
	AIIntegration   map[string]bool // of organizations
	Admin           map[MembershipID]bool
}

// MembershipID names a member.
type MembershipID struct{ Person, Organization string }

// DirectoryPerson is a person with the PHC string of their password; an empty
// one leaves the password as it is. Another one ends the person's sessions.
type DirectoryPerson struct {
	org.Person
	PasswordHash string
}

// DirectoryMember is a membership.
type DirectoryMember struct {
	Person, Organization string
	Admin                bool
}

// Filler says that a person fills a role.
type Filler struct{ Role, Person string }

// DirectoryAPIKey is an API key in clear; only its hash is stored.
type DirectoryAPIKey struct{ Key, Person, Organization, Name string }

// The lists of a directory.
const (
	ListPeople        = "people"
	ListOrganizations = "organizations"
	ListMembers       = "members"
	ListCircles       = "circles"
	ListRoles         = "roles"
	ListFillers       = "fillers" // those of the roles
	ListAPIKeys       = "api_keys"
)

// Lists are all of them, in the order in which they are taken.
var Lists = []string{ListPeople, ListOrganizations, ListMembers, ListCircles, ListRoles, ListFillers, ListAPIKeys}

// Import is a directory and how it is taken.
type Import struct {
	Directory
	// Prune holds the lists that name all there is: what such a list does not
	// name is removed. Fillers go with the roles.
	Prune map[string]bool
	// Dry changes nothing, and says what would be changed.
	Dry bool
	// AsOf is the version of the service's own directory that this one is a
	// picture of; 0 is not said. What a later event has told stays, and an
	// earlier event has nothing to tell any more.
	AsOf int64
}

// Imported says what an import has changed, or would.
type Imported struct {
	Lists   map[string]Counts // by the list's name; those without a change are left out
	Changes []Change          // the first MaxChanges
	Ended   int               // approvals
}

// Counts of one list.
type Counts struct{ Added, Changed, Removed int }

// Change is one line of what an import does.
type Change struct {
	What string // added, changed or removed
	List string
	ID   string // of members organization/person, of fillers role/person
}

// MaxChanges bounds how many changes are listed one by one.
const MaxChanges = 1000

func (i *Imported) add(what, list, id string) {
	c := i.Lists[list]
	switch what {
	case "added":
		c.Added++
	case "changed":
		c.Changed++
	default:
		c.Removed++
	}
	i.Lists[list] = c
	if len(i.Changes) < MaxChanges {
		i.Changes = append(i.Changes, Change{what, list, id})
	}
}

// Misplaced is what is wrong with a directory, and where. Its error is an
// ErrNotFound, which names what refers to something that is not there, or an
// ErrConflict.
type Misplaced struct {
	List  string
	Index int // in that list; of a filler, of its role. -1 is the whole
	Err   error
}

func (m *Misplaced) Error() string { return m.Err.Error() }

// Unwrap is for errors.Is.
func (m *Misplaced) Unwrap() error { return m.Err }

func misplaced(list string, index int, kind error, format string, args ...any) error {
	return &Misplaced{list, index, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), kind)}
}

// AddDirectory adds or updates all that a directory names, in one transaction,
// and removes nothing. ErrNotFound names what refers to something that is not
// there, ErrConflict a doubled email or ID, an ID of another organization, or a
// circle that would be its own ancestor.
func (s *Store) AddDirectory(ctx context.Context, d Directory, act Act) error {
	_, err := s.ImportDirectory(ctx, Import{Directory: d}, act)
	return err
}

// ImportDirectory takes a directory in one transaction, or not at all. What is
// there as it came is not touched, so that a repeated import is no change.
// Errors are those of AddDirectory, mostly as Misplaced.
func (s *Store) ImportDirectory(ctx context.Context, i Import, act Act) (out Imported, err error) {
	var p *plan
	err = s.writer.changeFacts(func(tx *Tx) error {
		if p, err = tx.plan(i); err != nil || i.Dry {
			return err
		}
		if err := tx.engine.roomy(len(p.removed.members) > markBatch); err != nil {
			return err
		}
		return errors.Join(tx.carryOut(p, act), tx.engine.roomy(false))
	})
	if err != nil {
		return Imported{}, err
	}
	if out = p.out; i.Dry {
		out.Ended, err = s.wouldEnd(ctx, p)
		return out, err
	}
	if out.Ended, err = s.mark(ctx); err != nil {
		s.log.Warn("rows are not marked ended yet", "err", err)
	}
	return out, nil
}

// carryOut writes what is planned. What is removed goes first: its email may have
// come to another person. It
// stops at the first error: the engine may have rolled back by then, and what
// came after would stand alone.
func (tx *Tx) carryOut(p *plan, act Act) error {
	if err := tx.remove(p); err != nil {
		return err
	}
	for _, o := range p.organizations {
		if err := tx.switched(o, act); err != nil {
			return err
		}
	}
	for _, put := range []func() error{
		func() error { return each(p.people, tx.putDirectoryPerson) },
		func() error { return each(p.organizations, tx.putOrganization) },
		func() error {
			return each(p.members, func(m DirectoryMember) error {
				return tx.putMember(facts.MemberKey{Person: m.Person, Organization: m.Organization}, m.Admin, true)
			})
		},
		func() error { return each(p.circles, tx.putCircle) },
		func() error { return each(p.roles, tx.putRole) },
		func() error {
			return each(p.fillers, func(f Filler) error { return tx.putFiller(f.Role, f.Person, true) })
		},
		func() error { return each(p.keys, tx.putAPIKey) },
	} {
		if err := put(); err != nil {
			return err
		}
	}
	return tx.tellImport(p, act)
}

// tellImport journals what has ended, one by one, and the rest in one entry.
// An import that changes nothing is no event.
func (tx *Tx) tellImport(p *plan, act Act) error {
	var entries []Event
	for _, e := range p.ends {
		entries = append(entries, directoryChanged(e.person, e.organization, e.what, act))
	}
	if err := tx.journal(entries...); err != nil {
		return err
	}
	if p.asOf > 0 {
		if err := tx.putMeta(asOfName, strconv.FormatInt(p.asOf, 10)); err != nil {
			return err
		}
	}
	text := p.out.String()
	switch {
	case text == "":
		return nil
	case p.told == nil:
		return tx.changed("", "", text, act)
	case len(p.ends) > 0:
		return nil
	}
	return tx.changed(p.told.person, p.told.organization, p.told.what+": "+text, act)
}

// String lists what was changed in words, "" for nothing.
func (i Imported) String() string {
	text := ""
	for _, list := range Lists {
		c, ok := i.Lists[list]
		if !ok {
			continue
		}
		if text != "" {
			text += "; "
		}
		text += list + ": " + c.String()
	}
	return text
}

// String is such as 2 added, 1 removed.
func (c Counts) String() string {
	var parts []string
	for _, one := range []struct {
		n    int
		what string
	}{{c.Added, "added"}, {c.Changed, "changed"}, {c.Removed, "removed"}} {
		if one.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.n, one.what))
		}
	}
	return strings.Join(parts, ", ")
}

func each[T any](list []T, put func(T) error) error {
	for _, one := range list {
		if err := put(one); err != nil {
			return err
		}
	}
	return nil
}
