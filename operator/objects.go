package operator

import (
	"context"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// The objects of decision O2. Later releases add members and rename none; no member
// is null. All times are Unix seconds.

type personObject struct {
	ID      string `json:"id"`
	Email   string `json:"email"`
	Name    string `json:"name"`
	Active  bool   `json:"active"`
	Support bool   `json:"support"`
}

func newPerson(p org.Person) personObject {
	return personObject{p.ID, p.Email, p.Name, p.Active, p.Support}
}

type organizationObject struct {
	ID            string `json:"id"`
	Name          string `json:"name"`
	AIIntegration bool   `json:"ai_integration"`
}

func newOrganization(o org.Organization) organizationObject {
	return organizationObject{o.ID, o.Name, o.AIIntegration}
}

type clientObject struct {
	ID           string   `json:"id"` // the client ID
	ClientID     string   `json:"client_id"`
	ClientName   string   `json:"client_name"` // as the client reported it; "" when it reported none
	State        string   `json:"state"`
	RedirectURIs []string `json:"redirect_uris"`
	IssuedAt     int64    `json:"issued_at"`
}

func newClient(c client.Client) clientObject {
	return clientObject{c.ID, c.ID, c.Name, c.State(), append([]string{}, c.RedirectURIs...), c.IssuedAt}
}

type approvalObject struct {
	ID           string       `json:"id"`
	ClientID     string       `json:"client_id"`
	ClientName   string       `json:"client_name"`
	Person       string       `json:"person"`       // ID
	Organization string       `json:"organization"` // ID
	Grant        string       `json:"grant"`        // roles, everything or organization
	Access       string       `json:"access"`       // the same in words, with the roles' names
	Roles        []pickObject `json:"roles"`        // under roles
	Personal     bool         `json:"personal"`     // under roles
	State        string       `json:"state"`        // code_issued, live or ended
	Reason       string       `json:"reason"`       // of the end; "" has not ended
	CreatedAt    int64        `json:"created_at"`
	LastUsed     int64        `json:"last_used"` // true to the hour; 0 is never
	EndedAt      int64        `json:"ended_at"`  // 0 has not ended
	EndsAt       int64        `json:"ends_at"`   // at the latest; 0 is without an end date
	KeyBound     bool         `json:"key_bound"` // its refresh tokens work with the client's key alone
}

type pickObject struct {
	Role   string `json:"role"`   // ID
	Access string `json:"access"` // read or change
}

func (s *Server) approvalObject(ctx context.Context, r store.ApprovalRow) approvalObject {
	o := approvalObject{
		ID: r.ID.String(), ClientID: r.Client, ClientName: r.ClientName,
		Person: r.Person, Organization: r.Organization,
		Grant: string(r.Grant.Kind), Access: r.Grant.InWords(s.RoleNames(ctx, r.Organization)), Roles: []pickObject{}, Personal: r.Grant.Personal,
		State: r.StateName(), Reason: string(r.Reason),
		CreatedAt: r.CreatedAt, LastUsed: r.LastUsed, EndedAt: r.EndedAt, EndsAt: r.EndsAt, KeyBound: r.Bound != approval.Thumbprint{},
	}
	for _, p := range r.Grant.Picks {
		o.Roles = append(o.Roles, pickObject{p.Role, r.Grant.Access(p.Role)})
	}
	return o
}

// RoleNames gives a role's name by its ID. The name of a deleted role is its ID.
func (s *Server) RoleNames(ctx context.Context, organization string) func(string) string {
	return func(id string) string {
		if r, err := s.Store.Role(ctx, organization, id); err == nil {
			return r.Name
		}
		return id
	}
}

// approvalsEnded is added to the object in the answer to a change that ends
// approvals.
type approvalsEnded struct {
	Ended int `json:"approvals_ended"` // approvals that had not ended before
}

type EventObject struct {
	ID           string `json:"id"`
	At           int64  `json:"at"`
	Kind         string `json:"kind"`
	Client       string `json:"client"`
	Person       string `json:"person"`
	Organization string `json:"organization"`
	Approval     string `json:"approval"`
	Actor        string `json:"actor"`
	Address      string `json:"address"`
	Reason       string `json:"reason"`
	Detail       string `json:"detail"`
	Reference    string `json:"reference"`
}

func NewEvent(e store.Event) EventObject {
	return EventObject{e.ID, e.At, string(e.Kind), e.Client, e.Person, e.Organization, e.Approval,
		e.Actor, e.Address, e.Reason, e.Detail, e.Reference}
}

// A memberObject is a person in an organization, after a change.
type memberObject struct {
	ID           string `json:"id"` // organization/person
	Organization string `json:"organization"`
	Person       string `json:"person"`
	Member       bool   `json:"member"`
	Admin        bool   `json:"admin"`
}

// A fillerObject is a person in a role, after a change.
type fillerObject struct {
	ID     string `json:"id"` // role/person
	Role   string `json:"role"`
	Person string `json:"person"`
	Fills  bool   `json:"fills"`
}

// A listPage is one page of a list.
type listPage[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next"` // cursor for the parameter after; "" at the end
}

func newListPage[R, T any](rows []R, next string, object func(R) T) listPage[T] {
	p := listPage[T]{Items: make([]T, 0, len(rows)), Next: next}
	for _, r := range rows {
		p.Items = append(p.Items, object(r))
	}
	return p
}
