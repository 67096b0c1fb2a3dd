// Package directory decides what an import or an event of a service's own directory
// changes. A Plan compares what came with the facts, names each change, and refuses what
// cannot be, with its place; it reads what else it needs through Source, and changes
// nothing.
package directory

import (
	"errors"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// Directory is people and organizations as they are loaded together.
type Directory struct {
	People        []Person
	Organizations []org.Organization
	Members       []Member
	Circles       []org.Circle
	Roles         []org.Role
	Fillers       []Filler
	APIKeys       []APIKey

	// Rules are those for apps of organizations that are among these, by ID. An
	// organization without is left with the rules that it has; those of the zero
	// Policy are none.
	Rules map[string]policy.Policy

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

// Person is a person with the PHC string of their password; an empty
// one leaves the password as it is. Another one ends the person's sessions.
type Person struct {
	org.Person
	PasswordHash string
}

// Member is a membership.
type Member struct {
	Person, Organization string
	Admin                bool
}

// Filler says that a person fills a role.
type Filler struct{ Role, Person string }

// APIKey is an API key in clear; only its hash is stored.
type APIKey struct{ Key, Person, Organization, Name string }

// The lists of a directory.
const (
	ListPeople        = "people"
	ListOrganizations = "organizations"
	ListMembers       = "members"
	ListCircles       = "circles"
	ListRoles         = "roles"
	ListFillers       = "fillers" // those of the roles
	ListAPIKeys       = "api_keys"
	ListRules         = "rules" // those of the organizations
)

// Lists are all of them, in the order in which they are taken.
var Lists = []string{ListPeople, ListOrganizations, ListMembers, ListCircles, ListRoles, ListFillers, ListAPIKeys, ListRules}

// Import is a directory and how it is taken.
type Import struct {
	Directory
	// Prune holds the lists that name all there is: what such a list does not
	// name is removed. Fillers go with the roles.
	Prune map[string]bool
	// Dry changes nothing, and says what would be changed.
	Dry bool
	// AsOf is the version of the service's own directory that this one is a
	// picture of; 0 is not said. What a later event has reported stays, and an
	// earlier event is ignored from then on.
	AsOf int64
}

// MaxAsOf bounds AsOf. One that is taken refuses each smaller one for good, so the greatest
// number that a program has at hand must not be one; a clock in nanoseconds comes to this in
// the year 2223.
const MaxAsOf int64 = 8_000_000_000_000_000_000

// Imported says what an import has changed, or would.
type Imported struct {
	Lists   map[string]Counts // by the list's name; those without a change are left out
	Changes []Change          // the first MaxChanges
	Ended   int               // approvals
	AsOf    int64             // the version that is taken; 0 where none is, or the one that was taken last
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

// String lists what was changed in words, "" for nothing.
func (i Imported) String() string {
	var parts []string
	for _, list := range Lists {
		if c, ok := i.Lists[list]; ok {
			parts = append(parts, list+": "+c.String())
		}
	}
	if i.AsOf != 0 {
		parts = append(parts, fmt.Sprintf("as_of: %d", i.AsOf))
	}
	return strings.Join(parts, "; ")
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

// The kinds of what is wrong with a directory.
var (
	ErrNotFound = errors.New("not found")
	ErrConflict = errors.New("exists already, or changed meanwhile")
)
