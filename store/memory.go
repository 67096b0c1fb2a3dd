package store

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// memory is what the embedded engine keeps of the rows: all facts, and of
// every approval that has not ended the part that a check needs. The writer
// changes it under the lock; the writer alone may read it without.
type memory struct {
	mu        sync.RWMutex
	settling  sync.RWMutex // held, before mu, from the commit of a change of facts until they are here
	version   int64        // of the facts, on PostgreSQL
	stamps    Stamp        // the last that was given
	changes   int64        // how often facts may have changed here, on PostgreSQL
	people    finder[string, person]
	byEmail   finder[string, person] // by emailKey
	orgs      map[string]*organization
	members   finder[memberKey, member]
	roles     finder[string, role]
	roleList  []*role          // by index
	gone      map[string]*role // picked in a grant set, and not there
	clients   map[string]*clientFact
	apiKeys   map[[32]byte]apiKey
	approvals approvals

	waiting  crowd // clients that nobody has approved
	arriving crowd // those that are being registered now

	// ended grows with every fact that ends, and marked is what it was when the
	// last mark began that left nothing unmarked. While they differ, there may
	// be approvals that have ended by a fact without their row saying so.
	ended, marked int

	impersonal bool // of every member
}

type memberKey struct{ person, organization string }

func (k memberKey) String() string { return k.person + " of " + k.organization }

type person struct {
	org.Person
	epoch   int64
	members []*member
	one     [1]*member // room for members: most have one
}

type organization struct {
	org.Organization
	epoch   int64
	stamp   Stamp
	circles map[string]org.Circle
	roles   map[string]*role
	members []*member // present ones, in no order
}

type member struct {
	person     *person
	org        *organization
	admin      bool
	present    bool
	impersonal bool
	place      int32 // among the organization's, when present
	epoch      int64
	roles      []*role
	few        [3]*role                   // room for roles, at hand
	facts      atomic.Pointer[org.Member] // nil when something has changed
}

type role struct {
	org.Role
	index   uint32
	fillers []*member
}

func (r *role) id() string { return r.ID }

type clientFact struct {
	id            string
	issuedAt      int64
	epoch         int64
	weight        weight // as long as it waits for its first approval
	preregistered bool
	approved      bool
	disabled      bool
	deleted       bool // a tombstone: it counts as disabled and approved too
}

func newMemory(impersonal bool) *memory {
	return &memory{
		ended:      1, // nobody has looked yet
		impersonal: impersonal,
		people:     newFinder(0, (*person).id), byEmail: newFinder(0, (*person).key), orgs: map[string]*organization{},
		members: newFinder(0, (*member).key), roles: newFinder(0, (*role).id), gone: map[string]*role{}, clients: map[string]*clientFact{},
		apiKeys: map[[32]byte]apiKey{}, approvals: approvals{index: map[approval.ID]uint32{}},
	}
}

// ends notes that a fact may have ended: its epoch grows.
func (m *memory) ends(from, to int64) {
	if from != to {
		m.ended++
	}
}

// sideBySide moves texts that are read together side by side: each that lies by
// itself costs a check one more wait for memory.
func sideBySide(texts ...*string) {
	var whole strings.Builder
	for _, t := range texts {
		whole.WriteString(*t)
	}
	rest := whole.String()
	for _, t := range texts {
		*t, rest = rest[:len(*t)], rest[len(*t):]
	}
}

func (at *person) id() string { return at.ID }

func (at *person) key() string { return emailKey(at.Person) }

// emailKey is what a person is found by. Somebody who was removed has no email
// any more, and a key that no email has.
func emailKey(p org.Person) string {
	if p.Email == "" {
		return removedKey + p.ID
	}
	return org.EmailKey(p.Email)
}

const removedKey = "removed:"

// removed reports whether a directory has removed the person: what is left is
// the tombstone.
func (at *person) removed() bool { return at.Email == "" }

// remember keeps a place for the roles that a grant set picks and that are not
// there: they count for nothing (decision P5), but what the person chose reads
// the same as in the row.
func (m *memory) remember(picks []grantset.Pick) {
	for _, p := range picks {
		if m.roles.get(p.Role) == nil && m.gone[p.Role] == nil {
			r := &role{Role: org.Role{ID: p.Role}, index: uint32(len(m.roleList))}
			m.gone[p.Role], m.roleList = r, append(m.roleList, r)
		}
	}
}

func (o *organization) join(at *member) {
	at.place = int32(len(o.members))
	o.members = append(o.members, at)
}

// leave has the last one take the place: thousands may leave at once.
func (o *organization) leave(at *member) {
	end := len(o.members) - 1
	last := o.members[end]
	o.members[at.place], last.place = last, at.place
	o.members[end], o.members = nil, o.members[:end]
}

// byPerson gives the members by their IDs.
func (o *organization) byPerson() []*member {
	return slices.SortedFunc(slices.Values(o.members), func(a, b *member) int { return strings.Compare(a.person.ID, b.person.ID) })
}

func without[T comparable](list []T, x T) []T {
	for i, y := range list {
		if y == x {
			return append(list[:i], list[i+1:]...)
		}
	}
	return list
}

func (c *clientFact) waits() bool { return !c.approved && !c.preregistered }

// stopWaiting takes a client out of those that nobody has approved, if it is one.
func (m *memory) stopWaiting(at *clientFact) {
	if at.waits() {
		m.waiting.add(at.weight, -1)
	}
}

// asMember gives the facts of a membership as they stand now: the zero Member
// when it is over or the person is deactivated.
func (at *member) asMember() org.Member {
	if at == nil || !at.present || !at.person.Active {
		return org.Member{}
	}
	if f := at.facts.Load(); f != nil {
		return *f
	}
	roles := make([]org.Role, len(at.roles))
	for i, r := range at.roles {
		roles[i] = r.Role
	}
	f := org.NewMember(at.person.ID, at.org.ID, at.admin, roles)
	f.Impersonal = at.impersonal
	at.facts.Store(&f)
	return f
}

// standing gives the facts' epochs for any approval. Facts that are not there
// have an epoch that no approval was born with.
func (m *memory) standing(a approval.Approval) approval.Standing {
	return m.standingOn(m.members.get(memberKey{a.Person, a.Organization}), &a)
}

// standingOn is standing with the membership found; nil where there is none.
func (m *memory) standingOn(at *member, a *approval.Approval) approval.Standing {
	s := approval.Standing{Membership: -1, Person: -1, Organization: -1, Client: -1}
	if at != nil {
		s.Membership, s.Person, s.Organization = at.epoch, at.person.epoch, at.org.epoch
	} else {
		if p := m.people.get(a.Person); p != nil {
			s.Person = p.epoch
		}
		if o := m.orgs[a.Organization]; o != nil {
			s.Organization = o.epoch
		}
	}
	if c := m.clients[a.Client]; c != nil {
		s.Client = c.epoch
	}
	return s
}

// inOrder gives the values of a map by their keys.
func inOrder[V any](of map[string]V) []V {
	out := make([]V, 0, len(of))
	for _, k := range slices.Sorted(maps.Keys(of)) {
		out = append(out, of[k])
	}
	return out
}
