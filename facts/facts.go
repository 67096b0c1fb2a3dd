// Package facts holds what approvals stand on: people, organizations with circles and
// roles, memberships, who fills which role, API keys and clients, each with the epoch
// that grows when it ends. A Change alters them, and is the only way to: both engines
// load their facts and follow commits by the same changes. It does no I/O and has no
// lock.
package facts

import (
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// Facts are what approvals stand on, as they are now. They have no lock of their own.
type Facts struct {
	People   Index[string, Person]
	ByEmail  Index[string, Person] // by EmailKey
	Orgs     map[string]*Organization
	Members  Index[MemberKey, Member]
	Roles    Index[string, Role]
	RoleList []*Role          // by index
	Gone     map[string]*Role // picked in a grant set, and not there
	Clients  map[string]*Client
	APIKeys  map[[32]byte]APIKey
	Waiting  Crowd // clients that nobody has approved

	Ended int   // grows with every fact that ends
	last  Stamp // that was given

	Impersonal bool // of every member
}

// Rows is how many there are of people, memberships, roles, clients and API keys, which are
// most of the rows that facts are loaded from.
func (m *Facts) Rows() int {
	return m.People.Len() + m.Members.Len() + m.Roles.Len() + len(m.Clients) + len(m.APIKeys)
}

// MemberKey names a membership by IDs.
type MemberKey struct{ Person, Organization string }

func (k MemberKey) String() string { return k.Person + " of " + k.Organization }

// Person is somebody who has an account, or had one.
type Person struct {
	org.Person
	Epoch   int64
	Members []*Member
	one     [1]*Member // room for members: most have one
}

// Organization is one with all that is in it.
type Organization struct {
	org.Organization
	Epoch   int64
	Stamp   Stamp
	Policy  *policy.Policy    // nil where nobody has set rules for apps
	Limit   *grantset.Ceiling // of the policy; nil where it limits nothing
	Circles map[string]org.Circle
	Roles   map[string]*Role
	Members []*Member // present ones, in no order
}

// Member is a membership; one that is over stays, for its epoch.
type Member struct {
	Person     *Person
	Org        *Organization
	Admin      bool
	Present    bool
	impersonal bool
	place      int32 // among the organization's, when present
	Epoch      int64
	Roles      []Filled
	few        [3]Filled                  // room for roles, at hand
	facts      atomic.Pointer[org.Member] // nil when something has changed
}

// Role is a role and who fills it. Its Index stays the same for as long as the facts
// are in memory.
type Role struct {
	org.Role
	Index   uint32
	Fillers []Filler
}

func (r *Role) id() string { return r.ID }

// Filled is a role that a member fills, and where the role has the member.
type Filled struct {
	*Role
	place int32 // among its fillers
}

// Filler is a member who fills a role, and where the member has the role.
type Filler struct {
	*Member
	place int32 // among their roles
}

// Client is what is kept of a client in memory.
type Client struct {
	ID            string
	IssuedAt      int64
	Epoch         int64
	weight        Weight // as long as it waits for its first approval
	Preregistered bool
	Approved      bool
	Disabled      bool
	Deleted       bool // a tombstone: it counts as disabled and approved too
}

// New makes facts with room for so many people, members and roles: to grow maps
// of millions costs as much as to fill them.
func New(impersonal bool, people, members, roles int) Facts {
	return Facts{
		Ended:      1, // nobody has looked yet
		Impersonal: impersonal,
		People:     newIndex(people, (*Person).id), ByEmail: newIndex(people, (*Person).key), Orgs: map[string]*Organization{},
		Members: newIndex(members, (*Member).Key), Roles: newIndex(roles, (*Role).id), Gone: map[string]*Role{}, Clients: map[string]*Client{},
		APIKeys: map[[32]byte]APIKey{},
	}
}

// ends notes that a fact may have ended: its epoch grows.
func (m *Facts) ends(from, to int64) {
	if from != to {
		m.Ended++
	}
}

// sideBySide moves texts that are read together side by side: each that lies by
// itself costs a check one more wait for memory.
func sideBySide(texts ...*string) {
	length := 0
	for _, t := range texts {
		length += len(*t)
	}
	var whole strings.Builder
	whole.Grow(length)
	for _, t := range texts {
		whole.WriteString(*t)
	}
	rest := whole.String()
	for _, t := range texts {
		*t, rest = rest[:len(*t)], rest[len(*t):]
	}
}

func (at *Person) id() string { return at.ID }

func (at *Person) key() string { return EmailKey(at.Person) }

// EmailKey is what a person is found by. Somebody who was removed has no email
// any more, and a key that no email has.
func EmailKey(p org.Person) string {
	if p.Email == "" {
		return removedKey + p.ID
	}
	return org.EmailKey(p.Email)
}

const removedKey = "removed:"

// Removed reports whether a directory has removed the person: what is left is
// the tombstone.
func (at *Person) Removed() bool { return at.Email == "" }

// Remember keeps a place for the roles that a grant set picks and that are not
// there: they count for nothing (decision P5), but what the person chose reads
// the same as in the row.
func (m *Facts) Remember(picks []grantset.Pick) {
	for _, p := range picks {
		if m.Roles.Get(p.Role) == nil && m.Gone[p.Role] == nil {
			r := &Role{Role: org.Role{ID: p.Role}, Index: uint32(len(m.RoleList))}
			m.Gone[p.Role], m.RoleList = r, append(m.RoleList, r)
		}
	}
}

func (o *Organization) join(at *Member) {
	at.place = int32(len(o.Members))
	o.Members = append(o.Members, at)
}

// leave has the last one take the place: thousands may leave at once.
func (o *Organization) leave(at *Member) {
	end := len(o.Members) - 1
	last := o.Members[end]
	o.Members[at.place], last.place = last, at.place
	o.Members[end], o.Members = nil, o.Members[:end]
}

// ByPerson gives the members by their IDs.
func (o *Organization) ByPerson() []*Member {
	return slices.SortedFunc(slices.Values(o.Members), func(a, b *Member) int { return strings.Compare(a.Person.ID, b.Person.ID) })
}

// Fills reports whether the member fills the role.
func (at *Member) Fills(r *Role) bool { return at.role(r) >= 0 }

// role gives the role's index among those that the member fills, or -1. It looks through the
// shorter list: one person can fill all roles, and all people one role.
func (at *Member) role(r *Role) int {
	if len(at.Roles) <= len(r.Fillers) {
		return slices.IndexFunc(at.Roles, func(f Filled) bool { return f.Role == r })
	}
	if i := slices.IndexFunc(r.Fillers, func(f Filler) bool { return f.Member == at }); i >= 0 {
		return int(r.Fillers[i].place)
	}
	return -1
}

func (at *Member) fill(r *Role) {
	if !at.Fills(r) {
		at.Roles, r.Fillers = append(at.Roles, Filled{r, int32(len(r.Fillers))}), append(r.Fillers, Filler{at, int32(len(at.Roles))})
	}
}

// quit has the last of each list take the place, as leave does.
func (at *Member) quit(r *Role) {
	i := at.role(r)
	if i < 0 {
		return
	}
	place, end := at.Roles[i].place, len(r.Fillers)-1
	if last := r.Fillers[end]; last.Member != at {
		r.Fillers[place], last.Roles[last.place].place = last, place
	}
	r.Fillers[end], r.Fillers = Filler{}, r.Fillers[:end]
	end = len(at.Roles) - 1
	if last := at.Roles[end]; last.Role != r {
		at.Roles[i], last.Fillers[last.place].place = last, int32(i)
	}
	at.Roles[end], at.Roles = Filled{}, at.Roles[:end]
}

// Weight is what a client counts for that waits for its first approval.
func (c *Client) Weight() Weight { return c.weight }

func (c *Client) Waits() bool { return !c.Approved && !c.Preregistered }

// stopWaiting takes a client out of those that nobody has approved, if it is one.
func (m *Facts) stopWaiting(at *Client) {
	if at.Waits() {
		m.Waiting.Add(at.weight, -1)
	}
}

// AsMember gives the facts of a membership as they stand now: the zero Member
// when it is over or the person is deactivated.
func (at *Member) AsMember() org.Member {
	if at == nil || !at.Present || !at.Person.Active {
		return org.Member{}
	}
	if f := at.facts.Load(); f != nil {
		return *f
	}
	roles := make([]org.Role, len(at.Roles))
	for i, r := range at.Roles {
		roles[i] = r.Role.Role
	}
	f := org.NewMember(at.Person.ID, at.Org.ID, at.Admin, roles)
	f.Impersonal = at.impersonal
	at.facts.Store(&f)
	return f
}

// Limit is what the organization lets any app have at most; nil is no limit.
func (at *Member) Limit() *grantset.Ceiling {
	if at == nil {
		return nil
	}
	return at.Org.Limit
}

// Standing gives the facts' epochs for any approval. Facts that are not there
// have an epoch that no approval was born with.
func (m *Facts) Standing(a approval.Approval) approval.Standing {
	return m.StandingOn(m.Members.Get(MemberKey{a.Person, a.Organization}), &a)
}

// StandingOn is standing with the membership found; nil where there is none.
func (m *Facts) StandingOn(at *Member, a *approval.Approval) approval.Standing {
	s := approval.Standing{Membership: -1, Person: -1, Organization: -1, Client: -1}
	if at != nil {
		s.Membership, s.Person, s.Organization = at.Epoch, at.Person.Epoch, at.Org.Epoch
	} else {
		if p := m.People.Get(a.Person); p != nil {
			s.Person = p.Epoch
		}
		if o := m.Orgs[a.Organization]; o != nil {
			s.Organization = o.Epoch
		}
	}
	if c := m.Clients[a.Client]; c != nil {
		s.Client = c.Epoch
	}
	return s
}

// InOrder gives the values of a map by their keys.
func InOrder[V any](of map[string]V) []V {
	out := make([]V, 0, len(of))
	for _, k := range slices.Sorted(maps.Keys(of)) {
		out = append(out, of[k])
	}
	return out
}

// A Stamp tells one state of an organization's facts from every other: of the
// organization, its circles, roles, fillers, members, and their accounts. Reads
// between which it stays the same have seen one state. It means nothing after a
// restart, or on another node.
type Stamp int64

// touch gives the organization's facts a new stamp. Whatever changes one of
// them in memory calls it.
func (m *Facts) touch(o *Organization) {
	if o != nil {
		m.last++
		o.Stamp = m.last
	}
}

// touchAll is touch for every organization of a person.
func (m *Facts) touchAll(p *Person) {
	for _, at := range p.Members {
		m.touch(at.Org)
	}
}

// APIKey is whom a key acts as, and the epochs that it was made under: it ends
// for good with the membership and with the person.
type APIKey struct {
	MemberKey
	MembershipEpoch, PersonEpoch int64
}

// Stands reports whether neither fact has ended since the key was made.
func (k APIKey) Stands(at *Member) bool {
	return at != nil && k.MembershipEpoch == at.Epoch && k.PersonEpoch == at.Person.Epoch
}

func (at *Member) Key() MemberKey { return MemberKey{at.Person.ID, at.Org.ID} }

// Empty reports whether a removal has nothing to take from the organization.
func (o *Organization) Empty() bool {
	return !o.AIIntegration && len(o.Members) == 0 && len(o.Circles) == 0 && len(o.Roles) == 0
}

func (c *Client) Known(now time.Time) bool {
	return !c.Deleted && client.Client{
		IssuedAt: c.IssuedAt, Preregistered: c.Preregistered, Approved: c.Approved,
	}.Known(now)
}

// Inside names something that is in a circle; "" is nothing.
func (o *Organization) Inside(circle string) string {
	for _, c := range o.Circles {
		if c.Parent == circle {
			return "circle " + c.ID
		}
	}
	for _, r := range o.Roles {
		if r.Circle == circle {
			return "role " + r.ID
		}
	}
	return ""
}

// Adopt takes all facts that were loaded again.
func (m *Facts) Adopt(fresh Facts) {
	fresh.last, fresh.Ended = m.last, m.Ended
	*m = fresh
	for _, o := range m.Orgs {
		m.touch(o)
	}
}
