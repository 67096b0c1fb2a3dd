package operator

import (
	"fmt"

	"github.com/grantkeeper/grantkeeper/org"
)

// personBody is the body of POST /v1/people.
type personBody struct {
	reasonBody
	ID       string `json:"id"` // "": a random one
	Email    string `json:"email"`
	Name     string `json:"name"`
	Password string `json:"password"` // "": cannot sign in with one
}

// passwordBody is the body of POST /v1/people/{id}/password.
type passwordBody struct {
	reasonBody
	Password string `json:"password"`
}

// addPerson adds a person. One who exists exactly so, by ID too where it is said,
// stays as they are.
func (s *Server) addPerson(c Call, body personBody) (any, error) {
	err := checkTexts("person", optional("id", body.ID), textMember{"email", body.Email, false, org.CheckEmail}, nameMember(body.Name))
	if err == nil {
		err = directoryPerson{Password: body.Password}.checkPassword("person")
	}
	if err != nil {
		return nil, err
	}
	hash := ""
	if body.Password != "" {
		if s.HashPassword == nil {
			return nil, BadRequest("password: nobody signs in with one here")
		}
		hash = s.HashPassword(body.Password)
	}
	p, err := s.Store.AddPerson(c.Context(), org.Person{ID: body.ID, Email: body.Email, Name: body.Name, Active: true}, hash, c.Act(body.Reason))
	return newPerson(p), err
}

// setPassword sets a person's password, and ends their sessions that began
// with another one.
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

// resetSignIn lets a person in again who has lost what they sign in with:
// second factors and accounts at providers are forgotten, sessions end.
func (s *Server) resetSignIn(c Call, body reasonBody) (any, error) {
	p, err := s.Store.ResetSignIn(c.Context(), c.PathValue("id"), c.Act(body.Reason))
	return newPerson(p), err
}
