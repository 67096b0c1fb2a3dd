package operator

import (
	"github.com/grantkeeper/grantkeeper/store"
)

func (s *Server) organizations(c Call) (any, error) {
	f, err := c.Filter()
	if err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Organizations(c.Context(), f.After, f.Limit)
	return newListPage(rows, next, newOrganization), f.CursorError(err)
}

func (s *Server) organization(c Call) (any, error) {
	o, err := s.Store.Organization(c.Context(), c.PathValue("id"))
	return newOrganization(o), err
}

// knownOrganization reports store.ErrNotFound for an organization that does not
// exist; "" is fine.
func (s *Server) knownOrganization(c Call, id string) error {
	if id == "" {
		return nil
	}
	_, err := s.Store.Organization(c.Context(), id)
	return err
}

// switchBody is the body of a change that switches something on or off. On has no
// default: a request without it changes nothing.
type switchBody struct {
	reasonBody
	On *bool `json:"on"`
}

func (s *Server) setIntegration(c Call, body switchBody) (any, error) {
	if body.On == nil {
		return nil, BadRequest("on: it is missing")
	}
	id := c.PathValue("id")
	ended, err := s.countEnding(c, store.ApprovalFilter{Organization: id}, *body.On)
	if err != nil {
		return nil, err
	}
	if err := s.Store.SetIntegration(c.Context(), id, *body.On, c.Act(body.Reason)); err != nil {
		return nil, err
	}
	o, err := s.Store.Organization(c.Context(), id)
	return struct {
		organizationObject
		*approvalsEnded
	}{newOrganization(o), ended}, err
}

// memberBody is the body of POST /v1/organizations/{id}/members. Person is an ID or
// an email.
type memberBody struct {
	reasonBody
	Person string `json:"person"`
	Admin  bool   `json:"admin"`
}

func (s *Server) setMember(c Call, body memberBody) (any, error) {
	if body.Person == "" {
		return nil, BadRequest("person: it is missing")
	}
	person, err := s.knownPerson(c, body.Person)
	if err != nil {
		return nil, err
	}
	organization := c.PathValue("id")
	if err := s.Store.SetMember(c.Context(), organization, person, body.Admin, c.Act(body.Reason)); err != nil {
		return nil, err
	}
	return newMember(organization, person, true, body.Admin), nil
}

func newMember(organization, person string, member, admin bool) memberObject {
	return memberObject{organization + "/" + person, organization, person, member, admin}
}

func (s *Server) removeMember(c Call, body reasonBody) (any, error) {
	person, err := s.knownPerson(c, c.PathValue("person"))
	if err != nil {
		return nil, err
	}
	organization := c.PathValue("id")
	if err := s.Store.RemoveMember(c.Context(), organization, person, c.Act(body.Reason)); err != nil {
		return nil, err
	}
	return newMember(organization, person, false, false), nil
}

func (s *Server) setAdmin(c Call, body switchBody) (any, error) {
	if body.On == nil {
		return nil, BadRequest("on: it is missing")
	}
	person, err := s.knownPerson(c, c.PathValue("person"))
	if err != nil {
		return nil, err
	}
	organization := c.PathValue("id")
	if err := s.Store.SetAdmin(c.Context(), organization, person, *body.On, c.Act(body.Reason)); err != nil {
		return nil, err
	}
	return newMember(organization, person, true, *body.On), nil
}

// fillerBody is the body of a change of a role's fillers. Person is an ID or an
// email.
type fillerBody struct {
	reasonBody
	Person string `json:"person"`
}

func (s *Server) setFiller(on bool) func(Call, fillerBody) (any, error) {
	return func(c Call, body fillerBody) (any, error) {
		if body.Person == "" {
			return nil, BadRequest("person: it is missing")
		}
		person, err := s.knownPerson(c, body.Person)
		if err != nil {
			return nil, err
		}
		role := c.PathValue("id")
		if err := s.Store.SetFiller(c.Context(), role, person, on, c.Act(body.Reason)); err != nil {
			return nil, err
		}
		return fillerObject{role + "/" + person, role, person, on}, nil
	}
}
