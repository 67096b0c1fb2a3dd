package operator

import (
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

func (s *Server) people(c Call) (any, error) {
	f, err := c.Filter("organization", "query")
	if err != nil {
		return nil, err
	}
	if err := s.knownOrganization(c, f.Get("organization")); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.People(c.Context(), store.PeopleFilter{
		Organization: f.Get("organization"), Query: f.Get("query"), After: f.After, Limit: f.Limit,
	})
	return newListPage(rows, next, newPerson), f.CursorError(err)
}

func (s *Server) person(c Call) (any, error) {
	p, err := s.Store.Person(c.Context(), c.PathValue("id"))
	return newPerson(p), err
}

// knownPerson returns the ID of a person by ID or email, and "" for "". An unknown
// person is store.ErrNotFound in a filter too: an empty list for a misspelt email
// would mislead.
func (s *Server) knownPerson(c Call, idOrEmail string) (string, error) {
	if idOrEmail == "" {
		return "", nil
	}
	p, err := s.Store.Person(c.Context(), idOrEmail)
	return p.ID, err
}

// personBody is the body of POST /v1/people.
type personBody struct {
	reasonBody
	ID       string `json:"id"` // "" is a random one
	Email    string `json:"email"`
	Name     string `json:"name"`
	Password string `json:"password"` // "" has none
}

// addPerson adds a person. Adding the same person again, with the same ID where one
// is sent, changes nothing.
func (s *Server) addPerson(c Call, body personBody) (any, error) {
	p, err := s.AddPerson(c, NewPerson{body.ID, body.Email, body.Name, body.Password}, body.Reason)
	return newPerson(p), err
}

// A NewPerson is who is to be added.
type NewPerson struct {
	ID       string // "" is a random one
	Email    string
	Name     string
	Password string // "" has none
}

// AddPerson adds a person; the same person again changes nothing.
func (s *Server) AddPerson(c Call, n NewPerson, reason string) (org.Person, error) {
	err := checkTexts("person", optional("id", n.ID), textMember{"email", n.Email, false, org.CheckEmail}, nameMember(n.Name))
	if err == nil {
		err = directoryPerson{Password: n.Password}.checkPassword("person")
	}
	if err != nil {
		return org.Person{}, err
	}
	hash := ""
	if n.Password != "" {
		if s.HashPassword == nil {
			return org.Person{}, BadRequest("password: nobody signs in with one here")
		}
		hash = s.HashPassword(n.Password)
	}
	return s.Store.AddPerson(c.Context(), org.Person{ID: n.ID, Email: n.Email, Name: n.Name, Active: true}, hash, c.Act(reason))
}

// passwordBody is the body of POST /v1/people/{id}/password.
type passwordBody struct {
	reasonBody
	Password string `json:"password"`
}

// setPassword sets a person's password, and ends the sessions that began with
// another password.
func (s *Server) setPassword(c Call, body passwordBody) (any, error) {
	if s.HashPassword == nil {
		return nil, BadRequest("password: nobody signs in with one here")
	}
	if len(body.Password) < minPassword || len(body.Password) > maxPassword {
		return nil, BadRequest(fmt.Sprintf("password: %d to %d bytes", minPassword, maxPassword))
	}
	p, err := s.Store.Person(c.Context(), c.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := s.Store.SetPassword(c.Context(), p.ID, s.HashPassword(body.Password), c.Act(body.Reason)); err != nil {
		return nil, err
	}
	return newPerson(p), nil
}

// resetSignIn deletes a person's second factors and links to accounts at providers
// and ends their sessions, for a person who has lost what they sign in with.
func (s *Server) resetSignIn(c Call, body reasonBody) (any, error) {
	p, err := s.Store.ResetSignIn(c.Context(), c.PathValue("id"), c.Act(body.Reason))
	return newPerson(p), err
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
