package store

import (
	"encoding/hex"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
)

// A change is what a transaction does to memory once it is durable. Both engines
// apply it then, and both load their facts by the same changes.
type change interface{ apply(m *memory) }

// A factChange alters facts: other nodes load again the row that its key names
// in a table.
type factChange interface {
	change
	row() (table, key string)
}

// effect is a change of something else than memory: of the ring of keys.
type effect func()

func (e effect) apply(*memory) { e() }

// personChange adds or changes a person. A larger epoch than before ends what
// stands on the person; so it is with all that has an epoch.
type personChange struct {
	org.Person
	epoch int64
}

func (c personChange) row() (table, key string) { return "person", c.ID }

func (c personChange) apply(m *memory) {
	sideBySide(&c.ID, &c.Name, &c.Email)
	at := m.people.get(c.ID)
	if at == nil {
		at = &person{Person: c.Person, epoch: c.epoch}
		at.members = at.one[:0]
		m.people.put(at)
		m.byEmail.put(at)
		return
	}
	m.ends(at.epoch, c.epoch)
	if m.byEmail.get(at.key()) == at { // two may change their emails with each other
		m.byEmail.drop(at.key())
	}
	at.Person, at.epoch = c.Person, c.epoch
	m.byEmail.put(at)
	m.touchAll(at)
}

// organizationChange adds or changes an organization.
type organizationChange struct {
	org.Organization
	epoch int64
}

func (c organizationChange) row() (table, key string) { return "organization", c.ID }

func (c organizationChange) apply(m *memory) {
	sideBySide(&c.ID, &c.Name)
	at := m.orgs[c.ID]
	if at == nil {
		at = &organization{epoch: c.epoch, circles: map[string]org.Circle{}, roles: map[string]*role{}}
		m.orgs[c.ID] = at
	}
	m.ends(at.epoch, c.epoch)
	at.Organization, at.epoch = c.Organization, c.epoch
	m.touch(at)
}

// circleChange adds or changes a circle of an organization that is there.
type circleChange struct{ org.Circle }

func (c circleChange) row() (table, key string) { return "circle", c.ID }

func (c circleChange) apply(m *memory) {
	if o := m.orgs[c.Organization]; o != nil {
		c.Organization = o.ID // one text for all that name it
		o.circles[c.ID] = c.Circle
		m.touch(o)
	}
}

// circleGone forgets a circle, of whichever organization where none is named.
type circleGone struct{ organization, id string }

func (c circleGone) row() (table, key string) { return "circle", c.id }

func (c circleGone) apply(m *memory) {
	in := m.orgs
	if c.organization != "" {
		in = map[string]*organization{c.organization: m.orgs[c.organization]}
	}
	for _, o := range in {
		if _, ok := o.circles[c.id]; ok {
			delete(o.circles, c.id)
			m.touch(o)
		}
	}
}

// roleChange adds or changes a role.
type roleChange struct{ org.Role }

func (c roleChange) row() (table, key string) { return "role", c.ID }

func (c roleChange) apply(m *memory) {
	sideBySide(&c.ID, &c.Name)
	at := m.roles.get(c.ID)
	if at == nil {
		at = &role{index: uint32(len(m.roleList))}
		m.roleList = append(m.roleList, at)
		at.Role = c.Role
		m.roles.put(at)
	}
	at.Role = c.Role
	if o := m.orgs[c.Organization]; o != nil {
		m.touch(o)
		o.roles[c.ID] = at
		at.Organization = o.ID
		if in, ok := o.circles[c.Circle]; ok {
			at.Circle = in.ID
		}
	}
	for _, f := range at.fillers {
		f.facts.Store(nil)
	}
}

// roleGone forgets a role, and who filled it. Its place in the list stays,
// because picks name it by that.
type roleGone string

func (c roleGone) row() (table, key string) { return "role", string(c) }

func (c roleGone) apply(m *memory) {
	if r := m.roles.get(string(c)); r != nil {
		m.empty(r)
		m.roles.drop(r.ID)
	}
}

// roleEmptied takes a role from all who fill it.
type roleEmptied string

func (c roleEmptied) apply(m *memory) {
	if r := m.roles.get(string(c)); r != nil {
		m.empty(r)
	}
}

// empty takes a role from all who fill it, and from its organization.
func (m *memory) empty(r *role) {
	for _, f := range r.fillers {
		f.roles = without(f.roles, r)
		f.facts.Store(nil)
	}
	r.fillers = nil
	m.touch(m.orgs[r.Organization])
	delete(m.orgs[r.Organization].roles, r.ID)
}

// memberChange adds, changes or ends a membership. It does nothing when person
// or organization is unknown. Who is no member fills no role, and neither does
// who left and came back.
type memberChange struct {
	memberKey
	admin, present bool
	epoch          int64
}

func (c memberChange) row() (table, key string) {
	return "membership", c.person + " " + c.organization
}

func (c memberChange) apply(m *memory) {
	at := m.members.get(c.memberKey)
	if at == nil {
		p, o := m.people.get(c.person), m.orgs[c.organization]
		if p == nil || o == nil {
			return
		}
		at = &member{person: p, org: o, impersonal: m.impersonal, epoch: c.epoch}
		at.roles = at.few[:0]
		m.members.put(at)
		p.members = append(p.members, at)
		m.ends(0, c.epoch)
	}
	m.ends(at.epoch, c.epoch)
	m.touch(at.org)
	switch {
	case c.present && !at.present:
		at.org.join(at)
	case !c.present && at.present:
		at.org.leave(at)
	}
	for (!c.present || at.epoch != c.epoch) && len(at.roles) > 0 {
		r := at.roles[0]
		r.fillers, at.roles = without(r.fillers, at), without(at.roles, r)
	}
	at.admin, at.present, at.epoch = c.admin, c.present, c.epoch
	at.facts.Store(nil)
}

// fillerChange records who fills a role. Somebody who is no member yet is
// remembered by the row alone, and by memory once they are.
type fillerChange struct {
	role, person string
	on           bool
}

func (c fillerChange) row() (table, key string) { return "filler", c.role + " " + c.person }

func (c fillerChange) apply(m *memory) {
	r := m.roles.get(c.role)
	if r == nil {
		return
	}
	at := m.members.get(memberKey{c.person, r.Organization})
	if at == nil {
		return
	}
	m.touch(at.org)
	r.fillers = without(r.fillers, at)
	at.roles = without(at.roles, r)
	if c.on {
		r.fillers, at.roles = append(r.fillers, at), append(at.roles, r)
	}
	at.facts.Store(nil)
}

// apiKeyChange adds an API key.
type apiKeyChange struct {
	hash [32]byte
	apiKey
}

func (c apiKeyChange) row() (table, key string) { return "api_key", hex.EncodeToString(c.hash[:]) }

func (c apiKeyChange) apply(m *memory) { m.apiKeys[c.hash] = c.apiKey }

// apiKeyGone forgets an API key.
type apiKeyGone [32]byte

func (c apiKeyGone) row() (table, key string) { return "api_key", hex.EncodeToString(c[:]) }

func (c apiKeyGone) apply(m *memory) { delete(m.apiKeys, c) }

// apiKeysGone forgets all API keys. Other nodes load everything again.
type apiKeysGone struct{}

func (apiKeysGone) row() (table, key string) { return everything, "" }

func (apiKeysGone) apply(m *memory) { clear(m.apiKeys) }

// clientChange adds a client, or changes one. weight is what it counts for while
// it waits for its first approval, and of one that is there it is known. A
// deleted one is a tombstone, on which its approvals lie.
type clientChange struct {
	client.Client
	weight  weight
	epoch   int64
	deleted bool
}

func (c clientChange) row() (table, key string) { return "client", c.ID }

func (c clientChange) apply(m *memory) {
	at := m.clients[c.ID]
	if at == nil {
		at = &clientFact{id: c.ID, weight: c.weight, approved: true} // counted below
		m.clients[c.ID] = at
	}
	m.stopWaiting(at)
	m.ends(at.epoch, c.epoch)
	at.issuedAt, at.epoch, at.deleted = c.IssuedAt, c.epoch, c.deleted
	at.preregistered, at.approved, at.disabled = c.Preregistered, c.Approved || c.deleted, c.Disabled || c.deleted
	if at.waits() {
		m.waiting.add(at.weight, 1)
	} else {
		at.weight = weight{}
	}
}

// clientDeleted makes a client a tombstone.
type clientDeleted struct {
	id    string
	epoch int64
}

func (c clientDeleted) row() (table, key string) { return "client", c.id }

func (c clientDeleted) apply(m *memory) {
	at := m.clients[c.id]
	m.stopWaiting(at)
	m.ends(at.epoch, c.epoch)
	at.approved, at.disabled, at.deleted, at.epoch, at.weight = true, true, true, c.epoch, weight{}
}

// clientApproved notes that a person has approved a client.
type clientApproved string

func (c clientApproved) row() (table, key string) { return "client", string(c) }

func (c clientApproved) apply(m *memory) {
	if at := m.clients[string(c)]; at != nil {
		m.stopWaiting(at)
		at.approved, at.weight = true, weight{}
	}
}

// clientGone forgets a client that nothing lies under.
type clientGone string

func (c clientGone) row() (table, key string) { return "client", string(c) }

func (c clientGone) apply(m *memory) {
	if at := m.clients[string(c)]; at != nil {
		m.stopWaiting(at)
		delete(m.clients, at.id)
	}
}

// approvalMade keeps the hot part of an approval, made when it is applied: the
// roles that it picks get their places then.
type approvalMade struct{ approval.Approval }

func (c approvalMade) apply(m *memory) {
	if m.approvals.elsewhere {
		return
	}
	m.remember(c.Grant.Picks)
	if h, err := m.heat(c.Approval); err == nil { // it was asked before: facts are never forgotten
		m.approvals.put(c.ID, h)
	}
}

// approvalMoved takes the state of an approval after a move. used is in Unix
// seconds, when the move is a use.
type approvalMoved struct {
	id   approval.ID
	to   approval.State
	used uint32
}

func (c approvalMoved) apply(m *memory) {
	h := m.approvals.at(c.id)
	switch {
	case h == nil:
	case c.to.Phase == approval.Ended:
		m.approvals.drop(c.id)
	default:
		if c.to.Refreshes(approval.State{Phase: h.phase, Generation: h.generation}) {
			atomic.StoreUint32(&h.used, c.used)
		}
		h.phase, h.generation, h.key, h.network = c.to.Phase, c.to.Generation, uint16(c.to.Key), c.to.Network
	}
}

// grantEdited takes another grant set of an approval.
type grantEdited struct{ approval.Approval }

func (c grantEdited) apply(m *memory) {
	h := m.approvals.at(c.ID)
	if h == nil {
		return
	}
	m.remember(c.Grant.Picks)
	if next, err := m.heat(c.Approval); err == nil {
		h.picks, h.kind = next.picks, next.kind
	}
}
