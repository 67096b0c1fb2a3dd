package operator

import (
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// switchBody is the body of a change that switches something on or off. On has no
// default: a forgotten one must not switch anything.
type switchBody struct {
	reasonBody
	On *bool `json:"on"`
}

// memberBody is the body of a change that names a person, by ID or email.
type memberBody struct {
	reasonBody
	Person string `json:"person"`
	Admin  bool   `json:"admin"`
}

// fillerBody is about without a right.
type fillerBody struct {
	reasonBody
	Person string `json:"person"`
}

// countEnding counts the approvals that a change is about to end; nil is of one that
// ends none.
func (s *Server) countEnding(c Call, f store.ApprovalFilter, on bool) (*approvalsEnded, error) {
	if on {
		return nil, nil
	}
	n, err := s.Store.Unended(c.Context(), f)
	return &approvalsEnded{n}, err
}

func (s *Server) setActive(on bool) func(Call, reasonBody) (any, error) {
	return func(c Call, body reasonBody) (any, error) {
		p, err := s.Store.Person(c.Context(), c.PathValue("id"))
		if err != nil {
			return nil, err
		}
		ended, err := s.countEnding(c, store.ApprovalFilter{Person: p.ID}, on)
		if err != nil {
			return nil, err
		}
		if err := s.Store.SetActive(c.Context(), p.ID, on, c.Act(body.Reason)); err != nil {
			return nil, err
		}
		p.Active = on
		return struct {
			personObject
			*approvalsEnded
		}{newPerson(p), ended}, nil
	}
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

func (s *Server) setEnabled(on bool) func(Call, reasonBody) (any, error) {
	return func(c Call, body reasonBody) (any, error) {
		id := c.PathValue("id")
		ended, err := s.countEnding(c, store.ApprovalFilter{Client: id}, on)
		if err != nil {
			return nil, err
		}
		if err := s.Store.SetClientEnabled(c.Context(), id, on, c.Act(body.Reason)); err != nil {
			return nil, err
		}
		found, err := s.Store.Client(c.Context(), id)
		return struct {
			clientObject
			*approvalsEnded
		}{newClient(found), ended}, err
	}
}

func (s *Server) revoke(c Call, body reasonBody) (any, error) {
	id, err := c.ApprovalID()
	if err != nil {
		return nil, err
	}
	if err := s.Revoke(c, id, body.Reason); err != nil {
		return nil, err
	}
	return s.approval(c)
}

// Revoke ends an approval. One that has ended stays as it is.
func (s *Server) Revoke(c Call, id approval.ID, reason string) error {
	return s.Store.EndApproval(c.Context(), id, approval.RevokedByOperator, c.Act(reason))
}
