package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// Named is a person or an organization, where a name says enough.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Role is a role as the actor sees it. Access is "none", "read" or "change":
// what the actor may do through it, which is never more than "none" for a role
// that its person does not fill.
type Role struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Circle string `json:"circle"` // ID
	Access string `json:"access" jsonschema:"what may be done through this role: none, read or change"`
}

// Grant is what the person chose to give (spec 2.4), as it stands now, under what the
// organization lets any app have (decision P16).
type Grant struct {
	Kind          string `json:"kind" jsonschema:"roles, everything or organization"`
	Words         string `json:"words" jsonschema:"the choice in words"`
	PersonalItems bool   `json:"personal_items" jsonschema:"whether the person's own tensions, actions, projects and notes are part of it"`
	Administers   bool   `json:"administers" jsonschema:"whether circles, roles, fillers and members may be changed"`
}

// Me says who the actor is and what it may do. Roles are those that the person
// fills, by ID.
type Me struct {
	Person       Named  `json:"person"`
	Organization Named  `json:"organization"`
	Client       string `json:"client_id,omitempty"` // none when an API key was sent
	Grant        Grant  `json:"grant"`
	Roles        []Role `json:"roles"`
}

// mePaths are where GET says who a credential acts for. API v3 and v4 have one
// each, so that a key can be asked whose it is (decision B6).
var mePaths = []string{client.APIPath + "/me", "/api/v4/me", "/api/v3/me"}

// room is what an answer is written in, and the person's roles gathered in; used
// again for later ones.
type room struct {
	body  []byte
	roles []Role
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// maxRoom bounds the bodies whose room is used again, in bytes: net/http copies
// as many before Write returns. Of a larger one HTTP/2 may still read when the
// client has reset the stream and the call has returned: by then the room must
// not hold what is for somebody else.
const maxRoom = 4 << 10

// me answers GET and HEAD on one of mePaths. It has no tag: nobody changes it by
// itself, and to make one would cost more than the answer.
func (s *Server) me(w http.ResponseWriter, r *http.Request, a Actor) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		s.fail(w, r, &Fault{Status: 405, Code: "method_not_allowed", Description: "This path takes GET, HEAD."})
		return
	}
	in := rooms.Get().(*room)
	m, err := s.Me(r.Context(), a, in.roles[:0])
	if err != nil {
		s.fail(w, r, err)
		return
	}
	in.roles, in.body = m.Roles, m.append(in.body[:0])
	w.Header()["Content-Type"] = jsonType
	w.Write(in.body)
	if len(in.body) <= maxRoom {
		rooms.Put(in) // after a panic it is not used again
	}
}

// Me answers GET /api/v5/me. It gathers the roles in an empty slice, if there is one.
func (s *Server) Me(ctx context.Context, a Actor, roles []Role) (Me, error) {
	return ask(ctx, s, a, false, func(_ context.Context, now Rights) (Me, error) {
		if roles == nil {
			roles = make([]Role, 0, len(now.Member().Roles()))
		}
		return now.me(roles[:0])
	})
}

func (r Rights) me(roles []Role) (Me, error) {
	if err := r.mayRead(); err != nil {
		return Me{}, err
	}
	for role, access := range r.Filled {
		roles = append(roles, Role{role.ID, role.Name, role.Circle, access})
	}
	return Me{
		Person:       Named{r.Person, r.personName},
		Organization: Named{r.Organization, r.organizationName},
		Client:       r.Client,
		Grant: Grant{
			Kind: string(r.Kind()), Words: r.words(roles),
			PersonalItems: r.MayRead(org.Item{Organization: r.Organization, Person: r.Person}),
			Administers:   r.MayAdminister(),
		},
		Roles: roles,
	}, nil
}

// mayRead refuses an authority that gives not even what every member sees.
func (r Rights) mayRead() error {
	if r.MayReadOrganization() {
		return nil
	}
	return Forbidden("This approval gives nothing in the organization.")
}

// words says the grant set as the person reads it on the consent page, and where the
// organization leaves less of it. roles are those that the person fills.
func (r Rights) words(roles []Role) string {
	switch said := r.chosen(roles); {
	case r.ReadOnly():
		return said + "; the organization lets apps read only"
	case len(r.Never()) > 0:
		return said + "; not through roles that the organization keeps from apps"
	default:
		return said
	}
}

func (r Rights) chosen(roles []Role) string {
	switch r.Kind() {
	case grantset.Everything:
		return "Everything I can access"
	case grantset.Organization:
		if r.ActsAsAdmin() { // under read only too
			return "Everything in this organization"
		}
		return "Everything in this organization, as far as the person, who is not an admin now, may reach"
	}
	var room [128]byte
	b := append(room[:0], "Only selected roles: "...)
	n := 0
	for i := range roles {
		role := &roles[i]
		if role.Access == "none" {
			continue
		}
		if n++; n > 1 {
			b = append(b, ", "...)
		}
		b = append(append(b, role.Name...), " ("...)
		b = append(append(b, role.Access...), ')')
	}
	if n == 0 {
		b = append(b, "none now"...)
	}
	if r.MayRead(org.Item{Organization: r.Organization, Person: r.Person}) {
		b = append(b, "; and personal items"...)
	}
	return string(b)
}

// append writes what json.Marshal would, in a quarter of its time: this is what
// clients ask first and most, and it should cost no more than the check.
func (m *Me) append(b []byte) []byte {
	b = append(b, `{"person":`...)
	b = m.Person.append(b)
	b = append(b, `,"organization":`...)
	b = m.Organization.append(b)
	if m.Client != "" {
		b = append(b, `,"client_id":`...)
		b = appendString(b, m.Client)
	}
	b = append(b, `,"grant":{"kind":`...)
	b = appendString(b, m.Grant.Kind)
	b = append(b, `,"words":`...)
	b = appendString(b, m.Grant.Words)
	b = append(b, `,"personal_items":`...)
	b = strconv.AppendBool(b, m.Grant.PersonalItems)
	b = append(b, `,"administers":`...)
	b = strconv.AppendBool(b, m.Grant.Administers)
	b = append(b, `},"roles":[`...)
	for i := range m.Roles {
		if i > 0 {
			b = append(b, ',')
		}
		b = m.Roles[i].append(b)
	}
	return append(b, "]}"...)
}

func (n *Named) append(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, n.ID)
	b = append(b, `,"name":`...)
	b = appendString(b, n.Name)
	return append(b, '}')
}

func (r *Role) append(b []byte) []byte {
	b = append(b, `{"id":`...)
	b = appendString(b, r.ID)
	b = append(b, `,"name":`...)
	b = appendString(b, r.Name)
	b = append(b, `,"circle":`...)
	b = appendString(b, r.Circle)
	b = append(b, `,"access":`...)
	b = appendString(b, r.Access)
	return append(b, '}')
}

// appendString writes a JSON string. Plain ASCII is copied; the rest is left to
// encoding/json.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // strings are always JSON
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// plain says of each byte whether it stands in JSON as it is.
var plain = func() (ok [256]bool) {
	for c := byte(' '); c < 0x7f; c++ {
		ok[c] = strings.IndexByte(`"\<>&`, c) < 0
	}
	return ok
}()
