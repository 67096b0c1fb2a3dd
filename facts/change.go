package facts

import (
	"encoding/hex"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// A Change alters facts. Whoever keeps a replica loads again the row that its key
// names in a table; "" names none, because other changes do, and "*" all.
type Change interface {
	Apply(m *Facts)
	Row() (table, key string)
}

// Gone reports whether a change says that its row is there no more.
func Gone(c Change) bool {
	switch c := c.(type) {
	case FillerChange:
		return !c.On
	case CircleGone, RoleGone, APIKeyGone, ClientGone:
		return true
	}
	return false
}

// Ready is the change with all made that it needs but its place. It is for who applies many
// under a lock, which everybody waits for who asks. A change that is not made ready does the same.
func Ready(c Change) Change {
	switch c := c.(type) {
	case PersonChange:
		return c.ready()
	case MemberChange:
		return c.ready()
	}
	return c
}

// PersonChange adds or changes a person. A larger epoch than before ends what
// stands on the person; so it is with all that has an epoch.
type PersonChange struct {
	org.Person
	Epoch int64
	anew  *Person // who is added where nobody has the ID; nil where nobody has made one
}

func (c PersonChange) ready() PersonChange {
	if c.anew == nil {
		sideBySide(&c.ID, &c.Name, &c.Email)
		c.anew = &Person{Person: c.Person, Epoch: c.Epoch}
		c.anew.Members = c.anew.one[:0]
	}
	return c
}

func (c PersonChange) Row() (table, key string) { return "person", c.ID }

func (c PersonChange) Apply(m *Facts) {
	c = c.ready()
	at := m.People.Get(c.ID)
	if at == nil {
		m.People.Put(c.anew)
		m.ByEmail.Put(c.anew)
		return
	}
	m.ends(at.Epoch, c.Epoch)
	moves := c.Email != at.Email
	if moves && m.ByEmail.Get(at.key()) == at { // two may change their emails with each other
		m.ByEmail.Drop(at.key())
	}
	at.Person, at.Epoch = c.Person, c.Epoch
	if moves {
		m.ByEmail.Put(at)
	}
	m.touchAll(at)
}

// OrganizationChange adds or changes an organization.
type OrganizationChange struct {
	org.Organization
	Epoch int64
}

func (c OrganizationChange) Row() (table, key string) { return "organization", c.ID }

func (c OrganizationChange) Apply(m *Facts) {
	sideBySide(&c.ID, &c.Name)
	at := m.Orgs[c.ID]
	if at == nil {
		at = &Organization{Epoch: c.Epoch, Circles: map[string]org.Circle{}, Roles: map[string]*Role{}}
		m.Orgs[c.ID] = at
	}
	m.ends(at.Epoch, c.Epoch)
	at.Organization, at.Epoch = c.Organization, c.Epoch
	m.touch(at)
}

// PolicyChange gives an organization that is there other rules; nil is none.
type PolicyChange struct {
	Organization string
	Policy       *policy.Policy
}

func (c PolicyChange) Row() (table, key string) { return "policy", c.Organization }

func (c PolicyChange) Apply(m *Facts) {
	if o := m.Orgs[c.Organization]; o != nil {
		o.Policy, o.Limit = c.Policy, c.Policy.Limit()
		m.touch(o)
	}
}

// CircleChange adds or changes a circle of an organization that is there.
type CircleChange struct{ org.Circle }

func (c CircleChange) Row() (table, key string) { return "circle", c.ID }

func (c CircleChange) Apply(m *Facts) {
	if o := m.Orgs[c.Organization]; o != nil {
		c.Organization = o.ID // one text for all that name it
		o.Circles[c.ID] = c.Circle
		m.touch(o)
	}
}

// CircleGone forgets a circle, of whichever organization where none is named.
type CircleGone struct{ Organization, ID string }

func (c CircleGone) Row() (table, key string) { return "circle", c.ID }

func (c CircleGone) Apply(m *Facts) {
	in := m.Orgs
	if c.Organization != "" {
		in = map[string]*Organization{c.Organization: m.Orgs[c.Organization]}
	}
	for _, o := range in {
		if _, ok := o.Circles[c.ID]; ok {
			delete(o.Circles, c.ID)
			m.touch(o)
		}
	}
}

// RoleChange adds or changes a role.
type RoleChange struct{ org.Role }

func (c RoleChange) Row() (table, key string) { return "role", c.ID }

func (c RoleChange) Apply(m *Facts) {
	sideBySide(&c.ID, &c.Name)
	at := m.Roles.Get(c.ID)
	if at == nil {
		at = &Role{Index: uint32(len(m.RoleList))}
		m.RoleList = append(m.RoleList, at)
		at.Role = c.Role
		m.Roles.Put(at)
	}
	at.Role = c.Role
	if o := m.Orgs[c.Organization]; o != nil {
		m.touch(o)
		o.Roles[c.ID] = at
		at.Organization = o.ID
		if in, ok := o.Circles[c.Circle]; ok {
			at.Circle = in.ID
		}
	}
	for _, f := range at.Fillers {
		f.facts.Store(nil)
	}
}

// RoleGone forgets a role, and who filled it. Its place in the list stays,
// because picks name it by that.
type RoleGone string

func (c RoleGone) Row() (table, key string) { return "role", string(c) }

func (c RoleGone) Apply(m *Facts) {
	if r := m.Roles.Get(string(c)); r != nil {
		m.empty(r)
		m.Roles.Drop(r.ID)
	}
}

// RoleEmptied takes a role from all who fill it.
type RoleEmptied string

func (c RoleEmptied) Row() (table, key string) { return "", "" }

func (c RoleEmptied) Apply(m *Facts) {
	if r := m.Roles.Get(string(c)); r != nil {
		m.empty(r)
	}
}

// empty takes a role from all who fill it, and from its organization.
func (m *Facts) empty(r *Role) {
	for n := len(r.Fillers); n > 0; n-- {
		at := r.Fillers[n-1].Member
		at.quit(r)
		at.facts.Store(nil)
	}
	m.touch(m.Orgs[r.Organization])
	delete(m.Orgs[r.Organization].Roles, r.ID)
}

// MemberChange adds, changes or ends a membership. It does nothing when person
// or organization is unknown. Who is no member fills no role, and neither does
// who left and came back.
type MemberChange struct {
	MemberKey
	Admin, Present bool
	Epoch          int64
	anew           *Member // who is added where there was none; nil where nobody has made one
}

func (c MemberChange) ready() MemberChange {
	if c.anew == nil {
		c.anew = &Member{Epoch: c.Epoch}
		c.anew.Roles = c.anew.few[:0]
	}
	return c
}

func (c MemberChange) Row() (table, key string) {
	return "membership", c.Person + " " + c.Organization
}

func (c MemberChange) Apply(m *Facts) {
	at := m.Members.Get(c.MemberKey)
	if at == nil {
		p, o := m.People.Get(c.Person), m.Orgs[c.Organization]
		if p == nil || o == nil {
			return
		}
		at = c.ready().anew
		at.Person, at.Org, at.impersonal = p, o, m.Impersonal
		m.Members.Put(at)
		p.Members = append(p.Members, at)
		m.ends(0, c.Epoch)
	}
	m.ends(at.Epoch, c.Epoch)
	m.touch(at.Org)
	switch {
	case c.Present && !at.Present:
		at.Org.join(at)
	case !c.Present && at.Present:
		at.Org.leave(at)
	}
	for (!c.Present || at.Epoch != c.Epoch) && len(at.Roles) > 0 {
		at.quit(at.Roles[len(at.Roles)-1].Role)
	}
	at.Admin, at.Present, at.Epoch = c.Admin, c.Present, c.Epoch
	at.facts.Store(nil)
}

// FillerChange records who fills a role. Somebody who is no member yet is
// remembered by the row alone, and by memory once they are.
type FillerChange struct {
	Role, Person string
	On           bool
}

func (c FillerChange) Row() (table, key string) { return "filler", c.Role + " " + c.Person }

func (c FillerChange) Apply(m *Facts) {
	r := m.Roles.Get(c.Role)
	if r == nil {
		return
	}
	at := m.Members.Get(MemberKey{c.Person, r.Organization})
	if at == nil {
		return
	}
	m.touch(at.Org)
	if c.On {
		at.fill(r)
	} else {
		at.quit(r)
	}
	at.facts.Store(nil)
}

// APIKeyChange adds an API key.
type APIKeyChange struct {
	Hash [32]byte
	APIKey
}

func (c APIKeyChange) Row() (table, key string) { return "api_key", hex.EncodeToString(c.Hash[:]) }

func (c APIKeyChange) Apply(m *Facts) { m.APIKeys[c.Hash] = c.APIKey }

// APIKeyGone forgets an API key.
type APIKeyGone [32]byte

func (c APIKeyGone) Row() (table, key string) { return "api_key", hex.EncodeToString(c[:]) }

func (c APIKeyGone) Apply(m *Facts) { delete(m.APIKeys, c) }

// APIKeysGone forgets all API keys. Other nodes load everything again.
type APIKeysGone struct{}

func (APIKeysGone) Row() (table, key string) { return "*", "" }

func (APIKeysGone) Apply(m *Facts) { clear(m.APIKeys) }

// ClientChange adds a client, or changes one. Weight is what it counts for while
// it waits for its first approval; of one that is there, 0 leaves it. A
// deleted one is a tombstone, on which its approvals lie.
type ClientChange struct {
	client.Client
	Weight  Weight
	Epoch   int64
	Deleted bool
}

func (c ClientChange) Row() (table, key string) { return "client", c.ID }

func (c ClientChange) Apply(m *Facts) {
	at := m.Clients[c.ID]
	if at == nil {
		at = &Client{ID: c.ID, Approved: true} // counted below
		m.Clients[c.ID] = at
	}
	m.stopWaiting(at)
	if c.Weight != (Weight{}) {
		at.weight = c.Weight
	}
	m.ends(at.Epoch, c.Epoch)
	at.IssuedAt, at.Epoch, at.Deleted = c.IssuedAt, c.Epoch, c.Deleted
	at.Preregistered, at.Approved, at.Disabled = c.Preregistered, c.Approved || c.Deleted, c.Disabled || c.Deleted
	if at.Waits() {
		m.Waiting.Add(at.weight, 1)
	} else {
		at.weight = Weight{}
	}
}

// ClientDeleted makes a client a tombstone.
type ClientDeleted struct {
	ID    string
	Epoch int64
}

func (c ClientDeleted) Row() (table, key string) { return "client", c.ID }

func (c ClientDeleted) Apply(m *Facts) {
	at := m.Clients[c.ID]
	m.stopWaiting(at)
	m.ends(at.Epoch, c.Epoch)
	at.Approved, at.Disabled, at.Deleted, at.Epoch, at.weight = true, true, true, c.Epoch, Weight{}
}

// ClientApproved notes that a person has approved a client.
type ClientApproved string

func (c ClientApproved) Row() (table, key string) { return "client", string(c) }

func (c ClientApproved) Apply(m *Facts) {
	if at := m.Clients[string(c)]; at != nil {
		m.stopWaiting(at)
		at.Approved, at.weight = true, Weight{}
	}
}

// ClientGone forgets a client that nothing lies under.
type ClientGone string

func (c ClientGone) Row() (table, key string) { return "client", string(c) }

func (c ClientGone) Apply(m *Facts) {
	if at := m.Clients[string(c)]; at != nil {
		m.stopWaiting(at)
		delete(m.Clients, at.ID)
	}
}
