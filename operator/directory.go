package operator

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// directoryBody is the body of POST /v1/directory, in the form that GET returns:
// people, organizations and how they are connected. The import adds or updates
// each entry; it removes entries that a list lacks only with prune. It imports the
// whole body or nothing. References are IDs of entries in the body or in the store.
type directoryBody struct {
	reasonBody
	ID            string                  `json:"id"`    // "directory", as GET returns it, or ""
	AsOf          *int64                  `json:"as_of"` // version of the service's directory that the body shows
	People        []directoryPerson       `json:"people"`
	Organizations []directoryOrganization `json:"organizations"`
	Members       []directoryMember       `json:"members"`
	Circles       []directoryCircle       `json:"circles"`
	Roles         []directoryRole         `json:"roles"`
	APIKeys       []directoryAPIKey       `json:"api_keys"`
}

// A directoryPerson has a password, or the PHC string of one (argon2id), or
// neither, which keeps a stored password.
type directoryPerson struct {
	ID           string `json:"id"`
	Email        string `json:"email"`
	Name         string `json:"name"`
	Active       *bool  `json:"active"`  // nil keeps what is stored; true for a new person
	Support      *bool  `json:"support"` // nil keeps what is stored; false for a new person
	Password     string `json:"password"`
	PasswordHash string `json:"password_hash"`
}

type directoryOrganization struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	AIIntegration *bool  `json:"ai_integration"` // nil keeps what is stored; false for a new organization

	Rules json.RawMessage `json:"rules"` // for apps, as policy.ReadTold has them; nil keeps what is stored
}

type directoryMember struct {
	Organization string `json:"organization"`
	Person       string `json:"person"`
	Admin        *bool  `json:"admin"` // nil keeps what is stored; false for a new member
}

type directoryCircle struct {
	ID           string `json:"id"`
	Organization string `json:"organization"`
	Parent       string `json:"parent"` // "" at the root
	Name         string `json:"name"`
}

type directoryRole struct {
	ID           string   `json:"id"`
	Organization string   `json:"organization"`
	Circle       string   `json:"circle"` // "" keeps what is stored; the organization's root circle for a new role
	Name         string   `json:"name"`
	Fillers      []string `json:"fillers"` // IDs of members to add
}

type directoryAPIKey struct {
	Key          string `json:"key"` // 16 to 200 visible ASCII characters; "" names a key that is stored
	Organization string `json:"organization"`
	Person       string `json:"person"`
	Name         string `json:"name"`
}

// maxPasswords bounds the passwords that one import may have hashed: each takes
// some 30 ms. The others bound the length of a password.
const (
	maxPasswords = 200
	minPassword  = 8 // bytes, as is maxPassword
	maxPassword  = 1000
)

// check refuses an entry that no directory may have. The error names the list, the
// index and the member.
func (d directoryBody) check() error {
	if d.AsOf != nil && (*d.AsOf < 0 || *d.AsOf > directory.MaxAsOf) {
		return BadRequest(fmt.Sprintf("as_of: a whole number from 0, which says none, to %d", directory.MaxAsOf))
	}
	return cmp.Or(
		checkAll("people", d.People, directoryPerson.check),
		checkAll("organizations", d.Organizations, directoryOrganization.check),
		checkAll("members", d.Members, directoryMember.check),
		checkAll("circles", d.Circles, directoryCircle.check),
		checkAll("roles", d.Roles, directoryRole.check),
		checkAll("api_keys", d.APIKeys, directoryAPIKey.check),
	)
}

func checkAll[T any](list string, entries []T, check func(one T, at string) error) error {
	for i, one := range entries {
		if err := check(one, fmt.Sprintf("%s[%d]", list, i)); err != nil {
			return err
		}
	}
	return nil
}

func (o directoryOrganization) check(at string) error {
	if err := checkTexts(at, required("id", o.ID), nameMember(o.Name)); err != nil || o.Rules == nil {
		return err
	}
	if _, err := policy.ReadTold(o.Rules); err != nil {
		return BadRequest(at + ".rules: " + err.Error())
	}
	return nil
}

func (m directoryMember) check(at string) error {
	return checkTexts(at, required("organization", m.Organization), required("person", m.Person))
}

func (c directoryCircle) check(at string) error {
	return checkTexts(at, required("id", c.ID), required("organization", c.Organization), optional("parent", c.Parent), nameMember(c.Name))
}

func (r directoryRole) check(at string) error {
	members := []textMember{required("id", r.ID), required("organization", r.Organization), optional("circle", r.Circle), nameMember(r.Name)}
	for i, f := range r.Fillers {
		members = append(members, required(fmt.Sprintf("fillers[%d]", i), f))
	}
	return checkTexts(at, members...)
}

func (k directoryAPIKey) check(at string) error {
	if err := checkTexts(at, required("organization", k.Organization), required("person", k.Person), nameMember(k.Name)); err != nil {
		return err
	}
	unseen := func(r rune) bool { return r < '!' || r > '~' } // the key is sent in a header
	if k.Key != "" && len(k.Key) < 16 || len(k.Key) > 200 || strings.ContainsFunc(k.Key, unseen) {
		return BadRequest(at + ".key: 16 to 200 visible ASCII characters")
	}
	return nil
}

// A textMember is a member of an entry and the check of its value.
type textMember struct {
	name, value string
	optional    bool
	check       func(string) error // nil accepts every value
}

func required(name, id string) textMember { return textMember{name, id, false, org.CheckID} }
func optional(name, id string) textMember { return textMember{name, id, true, org.CheckID} }
func nameMember(value string) textMember  { return textMember{"name", value, false, org.CheckName} }

func checkTexts(at string, members ...textMember) error {
	for _, m := range members {
		switch {
		case m.value == "" && m.optional:
		case m.value == "":
			return BadRequest(at + ": " + m.name + " is missing")
		case m.check != nil:
			if err := m.check(m.value); err != nil {
				return BadRequest(at + "." + m.name + ": " + err.Error())
			}
		}
	}
	return nil
}

// checkPasswordHash refuses a PHC string that sign-in cannot compare with, and
// costs that are too low, or so high that they slow down every sign-in (decision
// L4).
func checkPasswordHash(hash string) error {
	h, err := identity.ReadPasswordHash(hash)
	if err == nil {
		err = h.CheckImported()
	}
	if err != nil {
		return fmt.Errorf("password_hash: %w", err)
	}
	return nil
}

func (p directoryPerson) check(at string) error {
	err := checkTexts(at, required("id", p.ID), textMember{"email", p.Email, false, org.CheckEmail}, nameMember(p.Name))
	if err == nil {
		err = p.checkPassword(at)
	}
	return err
}

func (p directoryPerson) checkPassword(at string) error {
	switch {
	case p.Password != "" && p.PasswordHash != "":
		return BadRequest(at + ".password: there is a password_hash too")
	case p.Password != "" && (len(p.Password) < minPassword || len(p.Password) > maxPassword):
		return BadRequest(fmt.Sprintf("%s.password: %d to %d bytes", at, minPassword, maxPassword))
	case p.PasswordHash != "":
		if err := checkPasswordHash(p.PasswordHash); err != nil {
			return BadRequest(at + "." + err.Error())
		}
	}
	return nil
}

// toStore hashes the passwords, and notes which members were not sent: the import
// keeps their stored values.
func (s *Server) toStore(c Call, body directoryBody) (store.Directory, error) {
	d := store.Directory{Rules: map[string]policy.Policy{}, Unsaid: store.Unsaid{
		Active: map[string]bool{}, Support: map[string]bool{}, AIIntegration: map[string]bool{}, Admin: map[store.MembershipID]bool{},
	}}
	passwords := 0
	for _, p := range body.People {
		one := store.DirectoryPerson{PasswordHash: p.PasswordHash, Person: org.Person{ID: p.ID, Email: p.Email, Name: p.Name, Active: true}}
		d.Unsaid.Active[p.ID], d.Unsaid.Support[p.ID] = p.Active == nil, p.Support == nil
		setIfSent(&one.Active, p.Active)
		setIfSent(&one.Support, p.Support)
		if p.Password != "" {
			if passwords++; passwords > maxPasswords || s.HashPassword == nil {
				return d, BadRequest(fmt.Sprintf("people: more than %d passwords; send password_hash, or several requests", maxPasswords))
			}
			one.PasswordHash = s.hash(c, p)
		}
		d.People = append(d.People, one)
	}
	for _, o := range body.Organizations {
		one := org.Organization{ID: o.ID, Name: o.Name}
		d.Unsaid.AIIntegration[o.ID] = o.AIIntegration == nil
		setIfSent(&one.AIIntegration, o.AIIntegration)
		d.Organizations = append(d.Organizations, one)
		if o.Rules != nil {
			rules, err := policy.ReadTold(o.Rules)
			if err != nil {
				return d, err
			}
			d.Rules[o.ID] = rules
		}
	}
	for _, m := range body.Members {
		one := store.DirectoryMember{Person: m.Person, Organization: m.Organization}
		d.Unsaid.Admin[store.MembershipID{Person: m.Person, Organization: m.Organization}] = m.Admin == nil
		setIfSent(&one.Admin, m.Admin)
		d.Members = append(d.Members, one)
	}
	body.copyRest(&d)
	return d, nil
}

// copyRest copies the lists that the store takes as they were sent.
func (d directoryBody) copyRest(into *store.Directory) {
	for _, o := range d.Circles {
		into.Circles = append(into.Circles, org.Circle{ID: o.ID, Organization: o.Organization, Parent: o.Parent, Name: o.Name})
	}
	for _, r := range d.Roles {
		into.Roles = append(into.Roles, org.Role{ID: r.ID, Organization: r.Organization, Circle: r.Circle, Name: r.Name})
		for _, person := range r.Fillers {
			into.Fillers = append(into.Fillers, store.Filler{Role: r.ID, Person: person})
		}
	}
	for _, k := range d.APIKeys {
		into.APIKeys = append(into.APIKeys, store.DirectoryAPIKey{Key: k.Key, Person: k.Person, Organization: k.Organization, Name: k.Name})
	}
}

// hash returns the PHC string of a person's password. It is the stored string where
// that is of the same password, because a new string ends the person's sessions.
func (s *Server) hash(c Call, p directoryPerson) string {
	if s.SamePassword != nil {
		at, stored, err := s.Store.Password(c.Context(), p.Email)
		if err == nil && at.ID == p.ID && stored != "" && s.SamePassword(stored, p.Password) {
			return stored
		}
	}
	return s.HashPassword(p.Password)
}

func setIfSent(value *bool, sent *bool) {
	if sent != nil {
		*value = *sent
	}
}
