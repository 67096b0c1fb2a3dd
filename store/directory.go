package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// --- reading

// Person finds somebody by ID or by email, in any case.
func (s *Store) Person(ctx context.Context, idOrEmail string) (org.Person, error) {
	if err := s.fresh(ctx); err != nil {
		return org.Person{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	at := s.memory.people[idOrEmail]
	if at == nil {
		at = s.memory.byEmail[strings.ToLower(idOrEmail)]
	}
	if at == nil {
		return org.Person{}, fmt.Errorf("person: %w", ErrNotFound)
	}
	return at.Person, nil
}

// Password gives a person with the PHC string of their password, which is
// empty when none is set. The email alone finds them: attempts are counted
// under it, and by an ID an account could be tried twice as often.
func (s *Store) Password(ctx context.Context, email string) (org.Person, string, error) {
	defer s.timed("password", time.Now())
	if err := s.fresh(ctx); err != nil {
		return org.Person{}, "", err
	}
	s.memory.mu.RLock()
	at := s.memory.byEmail[strings.ToLower(email)]
	var p org.Person
	if at != nil {
		p = at.Person
	}
	s.memory.mu.RUnlock()
	if at == nil {
		return org.Person{}, "", fmt.Errorf("person: %w", ErrNotFound)
	}
	var hash string
	err := s.reader.QueryRowContext(ctx, `SELECT password FROM person WHERE id = $1`, p.ID).Scan(&hash)
	if err != nil {
		return org.Person{}, "", unavailable("password", err)
	}
	return p, hash, nil
}

// PeopleFilter narrows People; empty fields match all. Query is a part of name
// or email. Limit is at most 1000, 0 is 50.
type PeopleFilter struct {
	Organization, Query, After string
	Limit                      int
}

// People lists people by ID and gives the cursor of the next page or "".
func (s *Store) People(ctx context.Context, f PeopleFilter) ([]org.Person, string, error) {
	defer s.timed("people", time.Now())
	q := query{text: `SELECT p.id, p.email, p.name, p.active, p.support FROM person p`}
	if f.Organization != "" {
		q.text += ` JOIN membership m ON m.person = p.id AND m.present = 1`
		q.equal("m.organization", f.Organization)
	}
	if f.Query != "" {
		q.args = append(q.args, "%"+likePattern(f.Query)+"%")
		n := len(q.args)
		q.conditions = append(q.conditions, fmt.Sprintf(
			`(LOWER(p.name) LIKE $%[1]d ESCAPE '\' OR p.email_key LIKE $%[1]d ESCAPE '\')`, n))
	}
	if f.After != "" {
		if org.CheckID(f.After) != nil {
			return nil, "", errCursor
		}
		q.where("p.id > ", f.After)
	}
	limit := pageSize(f.Limit)
	rows, err := s.reader.QueryContext(ctx, q.page("p.id", limit), q.args...)
	if err != nil {
		return nil, "", unavailable("people", err)
	}
	defer rows.Close()
	var out []org.Person
	for rows.Next() {
		var p org.Person
		var active, support int64
		if err := rows.Scan(&p.ID, &p.Email, &p.Name, &active, &support); err != nil {
			return nil, "", unavailable("people", err)
		}
		p.Active, p.Support = active == 1, support == 1
		out = append(out, p)
	}
	if err := rows.Err(); err != nil {
		return nil, "", unavailable("people", err)
	}
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, "", nil
}

// Organization gives an organization, or ErrNotFound.
func (s *Store) Organization(ctx context.Context, id string) (org.Organization, error) {
	if err := s.fresh(ctx); err != nil {
		return org.Organization{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	at := s.memory.orgs[id]
	if at == nil {
		return org.Organization{}, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return at.Organization, nil
}

// Organizations lists them by ID and gives the cursor of the next page or "".
// limit is at most 1000, 0 is 50.
func (s *Store) Organizations(ctx context.Context, after string, limit int) ([]org.Organization, string, error) {
	if after != "" && org.CheckID(after) != nil {
		return nil, "", errCursor
	}
	if err := s.fresh(ctx); err != nil {
		return nil, "", err
	}
	limit = pageSize(limit)
	s.memory.mu.RLock()
	all := sorted(s.memory.orgs, func(a, b *organization) bool { return a.ID < b.ID })
	var out []org.Organization
	for _, o := range all {
		if o.ID > after && len(out) <= limit {
			out = append(out, o.Organization)
		}
	}
	s.memory.mu.RUnlock()
	if len(out) > limit {
		return out[:limit], out[limit-1].ID, nil
	}
	return out, "", nil
}

// Member gives a person as a member of an organization, as they stand now.
// ErrNotFound: not a member, or not active.
func (s *Store) Member(ctx context.Context, person, organization string) (org.Member, error) {
	if err := s.fresh(ctx); err != nil {
		return org.Member{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	m := s.memory.members[memberKey{person, organization}].asMember()
	if !m.Exists() {
		return org.Member{}, fmt.Errorf("membership: %w", ErrNotFound)
	}
	return m, nil
}

// Offers lists what the person can give in each of their organizations, by
// name, whether AI integration is on there or not.
func (s *Store) Offers(ctx context.Context, personID string) ([]grantset.Offer, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	at := s.memory.people[personID]
	if at == nil {
		return nil, fmt.Errorf("person: %w", ErrNotFound)
	}
	var out []grantset.Offer
	for _, m := range at.members {
		if f := m.asMember(); f.Exists() {
			circles := sorted(m.org.circles, func(a, b org.Circle) bool { return a.ID < b.ID })
			out = append(out, grantset.NewOffer(m.org.Organization, f, circles))
		}
	}
	sortOffers(out)
	return out, nil
}

func sortOffers(offers []grantset.Offer) {
	key := func(o grantset.Offer) string {
		return strings.ToLower(o.Organization.Name) + "\x00" + o.Organization.ID
	}
	for i := range offers {
		for j := i; j > 0 && key(offers[j]) < key(offers[j-1]); j-- {
			offers[j], offers[j-1] = offers[j-1], offers[j]
		}
	}
}

// Circles lists the circles of an organization by name.
func (s *Store) Circles(ctx context.Context, organization string) ([]org.Circle, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	at := s.memory.orgs[organization]
	if at == nil {
		return nil, fmt.Errorf("organization: %w", ErrNotFound)
	}
	return sorted(at.circles, func(a, b org.Circle) bool {
		return a.Name < b.Name || a.Name == b.Name && a.ID < b.ID
	}), nil
}

// RoleRow is a role with those who fill it, by ID.
type RoleRow struct {
	org.Role
	Fillers []string
}

// Roles lists the roles of an organization by ID.
func (s *Store) Roles(ctx context.Context, organization string) ([]RoleRow, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	at := s.memory.orgs[organization]
	if at == nil {
		return nil, fmt.Errorf("organization: %w", ErrNotFound)
	}
	var out []RoleRow
	for _, r := range sorted(at.roles, func(a, b *role) bool { return a.ID < b.ID }) {
		out = append(out, r.row())
	}
	return out, nil
}

// Circle gives a circle of an organization, or ErrNotFound.
func (s *Store) Circle(ctx context.Context, organization, id string) (org.Circle, error) {
	if err := s.fresh(ctx); err != nil {
		return org.Circle{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	if at := s.memory.orgs[organization]; at != nil {
		if c, ok := at.circles[id]; ok {
			return c, nil
		}
	}
	return org.Circle{}, fmt.Errorf("circle: %w", ErrNotFound)
}

// Role gives a role of an organization, or ErrNotFound.
func (s *Store) Role(ctx context.Context, organization, id string) (RoleRow, error) {
	if err := s.fresh(ctx); err != nil {
		return RoleRow{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	r := s.memory.roles[id]
	if r == nil || r.Organization != organization {
		return RoleRow{}, fmt.Errorf("role: %w", ErrNotFound)
	}
	return r.row(), nil
}

// row lists those who fill the role and are active members, by ID.
func (r *role) row() RoleRow {
	row := RoleRow{Role: r.Role}
	for _, f := range r.fillers {
		if f.present && f.person.Active {
			row.Fillers = append(row.Fillers, f.person.ID)
		}
	}
	slices.Sort(row.Fillers)
	return row
}

// Admins lists up to limit admins of an organization by name.
func (s *Store) Admins(ctx context.Context, organization string, limit int) ([]org.Person, error) {
	if err := s.fresh(ctx); err != nil {
		return nil, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	at := s.memory.orgs[organization]
	if at == nil {
		return nil, fmt.Errorf("organization: %w", ErrNotFound)
	}
	var out []org.Person
	for _, m := range sorted(at.members, func(a, b *member) bool { return a.person.Name < b.person.Name }) {
		if m.admin && m.person.Active && len(out) < limit {
			out = append(out, m.person.Person)
		}
	}
	return out, nil
}

// APIKey gives the member that an API key acts as (decision B6), or
// ErrNotFound.
func (s *Store) APIKey(ctx context.Context, key string) (org.Member, error) {
	hash := sha256.Sum256([]byte(key))
	if err := s.fresh(ctx); err != nil {
		return org.Member{}, err
	}
	s.memory.mu.RLock()
	defer s.memory.mu.RUnlock()
	k, ok := s.memory.apiKeys[hash]
	if !ok {
		return org.Member{}, fmt.Errorf("API key: %w", ErrNotFound)
	}
	at := s.memory.members[k.memberKey]
	if m := at.asMember(); m.Exists() && k.stands(at) {
		return m, nil
	}
	return org.Member{}, fmt.Errorf("API key: %w", ErrNotFound)
}

// --- changing

// changed journals a change of the directory.
func (w *writer) changed(person, organization, detail string, act Act) error {
	return w.journal(change(person, organization, detail, act))
}

func change(person, organization, detail string, act Act) Event {
	return Event{Kind: "directory_changed", Person: person, Organization: organization, Detail: detail}.by(act)
}

// SetActive deactivates a person, which ends their sessions and all their
// approvals, or reactivates them, which revives none (decision P10).
func (s *Store) SetActive(ctx context.Context, personID string, on bool, act Act) error {
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		at := w.store.memory.people[personID]
		if at == nil {
			return nil, fmt.Errorf("person: %w", ErrNotFound)
		}
		if at.Active == on {
			return nil, nil
		}
		p, detail := at.Person, "person reactivated"
		if p.Active = on; !on {
			detail = "person deactivated"
		}
		after, err := w.putPerson(p)
		if err != nil {
			return nil, err
		}
		return after, w.changed(p.ID, "", detail, act)
	})
	if err == nil && !on {
		s.markSoon(ctx)
	}
	return err
}

// putPerson adds or updates a person; a deactivation raises the epoch.
func (w *writer) putPerson(p org.Person) (func(), error) {
	epoch := int64(0)
	if at := w.store.memory.people[p.ID]; at != nil {
		epoch = at.epoch
		if at.Active && !p.Active {
			epoch++
		}
	}
	_, err := w.exec(`
		INSERT INTO person (id, email, email_key, name, active, support, epoch, password)
		VALUES ($1, $2, $3, $4, $5, $6, $7, '')
		ON CONFLICT (id) DO UPDATE
		   SET email = excluded.email, email_key = excluded.email_key, name = excluded.name,
		       active = excluded.active, support = excluded.support, epoch = excluded.epoch`,
		p.ID, p.Email, emailKey(p), p.Name, flag(p.Active), flag(p.Support), epoch)
	w.fact("person", p.ID)
	return func() { w.store.memory.putPerson(p, epoch) }, err
}

// SetPassword sets the PHC string of a person's password and ends the
// person's other sessions; approvals stay.
func (s *Store) SetPassword(_ context.Context, personID, hash string, act Act) error {
	return s.writer.change(func(w *writer) (func(), error) {
		if w.store.memory.people[personID] == nil {
			return nil, fmt.Errorf("person: %w", ErrNotFound)
		}
		if err := w.putPassword(personID, hash); err != nil {
			return nil, err
		}
		return nil, w.changed(personID, "", "password set", act)
	})
}

// SetIntegration switches an organization's AI integration. Off ends every
// approval in it; on again revives none (decision P7).
func (s *Store) SetIntegration(ctx context.Context, organizationID string, on bool, act Act) error {
	return s.switchIntegration(ctx, organizationID, on, func(*writer) error { return nil }, act)
}

func (s *Store) switchIntegration(ctx context.Context, organizationID string, on bool, may func(*writer) error, act Act) error {
	err := s.writer.changeFacts(func(w *writer) (func(), error) {
		at := w.store.memory.orgs[organizationID]
		if at == nil {
			return nil, fmt.Errorf("organization: %w", ErrNotFound)
		}
		if err := may(w); err != nil {
			return nil, err
		}
		if at.AIIntegration == on {
			return nil, nil
		}
		o, detail := at.Organization, "AI integration on"
		if o.AIIntegration = on; !on {
			detail = "AI integration off"
		}
		if err := w.switched(o, act); err != nil {
			return nil, err
		}
		after, err := w.putOrganization(o)
		if err != nil {
			return nil, err
		}
		return after, w.changed("", o.ID, detail, act)
	})
	if err == nil && !on {
		s.markSoon(ctx)
	}
	return err
}

// putOrganization adds or updates; switching AI integration off raises the
// epoch.
func (w *writer) putOrganization(o org.Organization) (func(), error) {
	epoch := int64(0)
	if at := w.store.memory.orgs[o.ID]; at != nil {
		epoch = at.epoch
		if at.AIIntegration && !o.AIIntegration {
			epoch++
		}
	}
	_, err := w.exec(`
		INSERT INTO organization (id, name, ai_integration, epoch) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE
		   SET name = excluded.name, ai_integration = excluded.ai_integration, epoch = excluded.epoch`,
		o.ID, o.Name, flag(o.AIIntegration), epoch)
	w.fact("organization", o.ID)
	return func() { w.store.memory.putOrganization(o, epoch) }, err
}

// SetMember adds a person to an organization, or sets the admin right of one
// who is there.
func (s *Store) SetMember(ctx context.Context, organizationID, personID string, admin bool, act Act) error {
	return s.setMember(ctx, organizationID, personID, func(at *member) (memberState, error) {
		return memberState{admin: admin, present: true, detail: "member added"}, nil
	}, act)
}

// SetAdmin gives or takes the admin right of a member. Approvals stay: what
// they give narrows by itself (decision P6).
func (s *Store) SetAdmin(ctx context.Context, organizationID, personID string, on bool, act Act) error {
	return s.setMember(ctx, organizationID, personID, func(at *member) (memberState, error) {
		if at == nil || !at.present {
			return memberState{}, fmt.Errorf("membership: %w", ErrNotFound)
		}
		detail := "admin right taken"
		if on {
			detail = "admin right given"
		}
		return memberState{admin: on, present: true, detail: detail}, nil
	}, act)
}

// RemoveMember ends a membership, whether the person left or was removed: the
// person's approvals there end, and their roles there are empty again. One who
// is no member is left as they are.
func (s *Store) RemoveMember(ctx context.Context, organizationID, personID string, act Act) error {
	err := s.setMember(ctx, organizationID, personID, func(at *member) (memberState, error) {
		return memberState{detail: "member removed"}, nil
	}, act)
	if err == nil {
		s.markSoon(ctx)
	}
	return err
}

// Membership is what can be changed of a member.
type Membership struct {
	Admin bool
	Ended bool // the person is removed, as by RemoveMember
}

// ChangeMember changes a membership in one step. change sees the member as
// they stand, and gives what they shall be, or refuses. ErrNotFound: the
// person is no member, or not active.
func (s *Store) ChangeMember(ctx context.Context, organizationID, personID string, change func(org.Member) (Membership, error), act Act) error {
	ended := false
	err := s.setMember(ctx, organizationID, personID, func(at *member) (memberState, error) {
		m := at.asMember()
		if !m.Exists() {
			return memberState{}, fmt.Errorf("membership: %w", ErrNotFound)
		}
		to, err := change(m)
		switch {
		case err != nil:
			return memberState{}, &refused{err}
		case to.Ended:
			ended = true
			return memberState{detail: "member removed"}, nil
		case to.Admin:
			return memberState{admin: true, present: true, detail: "admin right given"}, nil
		}
		return memberState{present: true, detail: "admin right taken"}, nil
	}, act)
	if err == nil && ended {
		s.markSoon(ctx)
	}
	return unwrapRefused(err)
}

type memberState struct {
	admin, present bool
	detail         string
}

func (s *Store) setMember(_ context.Context, organizationID, personID string, next func(*member) (memberState, error), act Act) error {
	return s.writer.changeFacts(func(w *writer) (func(), error) {
		m, key := w.store.memory, memberKey{personID, organizationID}
		if m.people[personID] == nil || m.orgs[organizationID] == nil {
			return nil, fmt.Errorf("person or organization: %w", ErrNotFound)
		}
		at := m.members[key]
		to, err := next(at)
		if err != nil {
			return nil, err
		}
		if at == nil && !to.present || at != nil && at.present == to.present && at.admin == to.admin {
			return nil, nil
		}
		after, err := w.putMember(key, to.admin, to.present)
		if err != nil {
			return nil, err
		}
		return after, w.changed(personID, organizationID, to.detail, act)
	})
}

// putMember adds or updates a membership; its end raises the epoch and
// empties the roles that the person filled there.
func (w *writer) putMember(key memberKey, admin, present bool) (func(), error) {
	epoch := int64(0)
	if at := w.store.memory.members[key]; at != nil {
		epoch = at.epoch
		if at.present && !present {
			epoch++
		}
	}
	_, err := w.exec(`
		INSERT INTO membership (person, organization, admin, present, epoch) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (person, organization) DO UPDATE
		   SET admin = excluded.admin, present = excluded.present, epoch = excluded.epoch`,
		key.person, key.organization, flag(admin), flag(present), epoch)
	if err != nil {
		return nil, err
	}
	w.fact("membership", key.person+" "+key.organization)
	if !present {
		if err := w.leftAll(key); err != nil {
			return nil, err
		}
		_, err = w.exec(`
			DELETE FROM filler WHERE person = $1
			   AND role IN (SELECT id FROM role WHERE organization = $2)`, key.person, key.organization)
		w.fact("filler") // they go with the membership
	}
	return func() {
		at := w.store.memory.putMember(key, admin, present, epoch)
		for !present && at != nil && len(at.roles) > 0 {
			r := at.roles[0]
			r.fillers, at.roles = without(r.fillers, at), without(at.roles, r)
		}
	}, err
}

// SetFiller puts a member into a role, or takes them out.
func (s *Store) SetFiller(ctx context.Context, roleID, personID string, on bool, act Act) error {
	return s.ChangeFiller(ctx, roleID, personID, on, func(org.Role, bool) error { return nil }, act)
}

// ChangeFiller puts a member into a role, or takes them out, unless check,
// which sees the role and whether the person fills it, refuses.
func (s *Store) ChangeFiller(_ context.Context, roleID, personID string, on bool, check func(at org.Role, fills bool) error, act Act) error {
	return unwrapRefused(s.writer.changeFacts(func(w *writer) (func(), error) {
		m := w.store.memory
		r := m.roles[roleID]
		if r == nil || m.people[personID] == nil {
			return nil, fmt.Errorf("role or person: %w", ErrNotFound)
		}
		at := m.members[memberKey{personID, r.Organization}]
		if err := check(r.Role, slices.Contains(r.fillers, at)); err != nil {
			return nil, &refused{err}
		}
		if on && (at == nil || !at.present) {
			return nil, fmt.Errorf("the person is not a member of the role's organization: %w", ErrNotFound)
		}
		after, err := w.putFiller(roleID, personID, on)
		if err != nil {
			return nil, err
		}
		detail := "role " + roleID + " taken"
		if on {
			detail = "role " + roleID + " given"
		}
		return after, w.changed(personID, r.Organization, detail, act)
	}))
}

func (w *writer) putFiller(roleID, personID string, on bool) (func(), error) {
	text := `DELETE FROM filler WHERE role = $1 AND person = $2`
	if on {
		text = `INSERT INTO filler (role, person) VALUES ($1, $2) ON CONFLICT (role, person) DO NOTHING`
	} else if err := w.left(roleID, personID); err != nil {
		return nil, err
	}
	_, err := w.exec(text, roleID, personID)
	w.fact("filler", roleID+" "+personID)
	return func() { w.store.memory.setFiller(roleID, personID, on) }, err
}

// Directory is people and organizations as they are loaded together.
type Directory struct {
	People        []DirectoryPerson
	Organizations []org.Organization
	Members       []DirectoryMember
	Circles       []org.Circle
	Roles         []org.Role
	Fillers       []Filler
	APIKeys       []DirectoryAPIKey
	Items         []Item // with IDs of their own; circle, version and times are the store's

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

func each[T any](list []T, put func(T) (func(), error), afters *[]func()) error {
	for _, one := range list {
		after, err := put(one)
		if err != nil {
			return err
		}
		*afters = append(*afters, after)
	}
	return nil
}

func (w *writer) putDirectoryPerson(p DirectoryPerson) (func(), error) {
	after, err := w.putPerson(p.Person)
	if err != nil || p.PasswordHash == "" {
		return after, err
	}
	return after, w.putPassword(p.ID, p.PasswordHash)
}

// putPassword sets a password. Sessions that began with another one end.
func (w *writer) putPassword(personID, hash string) error {
	n, err := w.exec(`UPDATE person SET password = $1 WHERE id = $2 AND password <> $1`, hash, personID)
	if err != nil || n == 0 {
		return err
	}
	w.fact("person") // a password is no fact of memory
	return w.endSessions(personID)
}

func (w *writer) putCircle(c org.Circle) (func(), error) {
	_, err := w.exec(`
		INSERT INTO circle (id, organization, parent, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET parent = excluded.parent, name = excluded.name`,
		c.ID, c.Organization, c.Parent, c.Name)
	w.fact("circle", c.ID)
	return func() { w.store.memory.putCircle(c) }, err
}

func (w *writer) putRole(r org.Role) (func(), error) {
	_, err := w.exec(`
		INSERT INTO role (id, organization, circle, name) VALUES ($1, $2, $3, $4)
		ON CONFLICT (id) DO UPDATE SET circle = excluded.circle, name = excluded.name`,
		r.ID, r.Organization, r.Circle, r.Name)
	w.fact("role", r.ID)
	return func() { w.store.memory.putRole(r) }, err
}

// putAPIKey adds an API key. One that is there is given another name at most:
// it stays its member's, and ended if it has ended with the membership or the
// person (decision B6).
func (w *writer) putAPIKey(k DirectoryAPIKey) (func(), error) {
	m, hash := w.store.memory, sha256.Sum256([]byte(k.Key))
	key := apiKey{memberKey: memberKey{k.Person, k.Organization}}
	if at := m.people[k.Person]; at != nil {
		key.personEpoch = at.epoch
	}
	if at := m.members[key.memberKey]; at != nil {
		key.membershipEpoch = at.epoch
	}
	n, err := w.exec(`
		INSERT INTO api_key (hash, person, organization, name, created_at, membership_epoch, person_epoch)
		VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (hash) DO UPDATE SET name = excluded.name
		 WHERE api_key.person = excluded.person AND api_key.organization = excluded.organization`,
		hash[:], k.Person, k.Organization, k.Name, w.store.Now().Unix(), key.membershipEpoch, key.personEpoch)
	w.fact("api_key", hex.EncodeToString(hash[:]))
	if err == nil && n == 0 {
		err = fmt.Errorf("API key of %s in %s: it is another member's: %w", k.Person, k.Organization, ErrConflict)
	}
	return func() {
		if _, there := m.apiKeys[hash]; !there {
			m.apiKeys[hash] = key
		}
	}, err
}
