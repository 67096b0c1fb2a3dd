package operator

import (
	"errors"
	"fmt"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

func (s *Server) people(c call) (any, error) {
	f, err := c.filter("organization", "query")
	if err != nil {
		return nil, err
	}
	if err := s.knownOrganization(c, f.get("organization")); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.People(c.Context(), store.PeopleFilter{
		Organization: f.get("organization"), Query: f.get("query"), After: f.after, Limit: f.limit,
	})
	return newPage(rows, next, newPerson), f.fault(err)
}

func (s *Server) person(c call) (any, error) {
	p, err := s.Store.Person(c.Context(), c.PathValue("id"))
	return newPerson(p), err
}

func (s *Server) organizations(c call) (any, error) {
	f, err := c.filter()
	if err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Organizations(c.Context(), f.after, f.limit)
	return newPage(rows, next, newOrganization), f.fault(err)
}

func (s *Server) organization(c call) (any, error) {
	o, err := s.Store.Organization(c.Context(), c.PathValue("id"))
	return newOrganization(o), err
}

func (s *Server) clients(c call) (any, error) {
	f, err := c.filter("state", "query")
	if err != nil {
		return nil, err
	}
	state, err := f.oneOf("state", "registered", "approved", "disabled", "preregistered")
	if err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Clients(c.Context(), store.ClientFilter{
		State: state, Query: f.get("query"), After: f.after, Limit: f.limit,
	})
	return newPage(rows, next, newClient), f.fault(err)
}

func (s *Server) client(c call) (any, error) {
	found, err := s.Store.Client(c.Context(), c.PathValue("id"))
	return newClient(found), err
}

func (s *Server) approvals(c call) (any, error) {
	f, err := c.filter("client", "person", "organization", "grant", "state", "unused-for")
	if err != nil {
		return nil, err
	}
	of, err := s.approvalFilter(c, f)
	if err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Approvals(c.Context(), of)
	return newPage(rows, next, func(r store.ApprovalRow) approvalObject { return s.approvalObject(c.Context(), r) }), f.fault(err)
}

func (s *Server) approvalFilter(c call, f filter) (store.ApprovalFilter, error) {
	grant, err := f.oneOf("grant", "roles", "everything", "organization")
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	state, err := f.oneOf("state", "code_issued", "live", "ended")
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	person, err := s.knownPerson(c, f.get("person"))
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	if err := s.knownOrganization(c, f.get("organization")); err != nil {
		return store.ApprovalFilter{}, err
	}
	of := store.ApprovalFilter{
		Client: f.get("client"), Person: person, Organization: f.get("organization"),
		Grant: grantset.Kind(grant), State: state, After: f.after, Limit: f.limit,
	}
	if v := f.get("unused-for"); v != "" {
		if state != "" && state != "live" {
			return of, badRequest("unused-for: it is asked of live ones alone")
		}
		if of.UnusedSince, err = s.unusedSince("unused-for", v); err != nil {
			return of, err
		}
	}
	return of, nil
}

func (s *Server) approval(c call) (any, error) {
	id, err := c.approvalID()
	if err != nil {
		return nil, err
	}
	row, err := s.Store.Approval(c.Context(), id)
	if err != nil {
		return nil, err
	}
	return s.approvalObject(c.Context(), row), nil
}

// approvalID is the {id} of the path; what cannot be one is unknown.
func (c call) approvalID() (approval.ID, error) {
	id, err := approval.ParseID(c.PathValue("id"))
	if err != nil {
		return approval.ID{}, unknown("approval")
	}
	return id, nil
}

// LeastPrefix is how many characters of an ID may stand for it, at least.
const LeastPrefix = 6

// idObject is an ID of which only the beginning was known.
type idObject struct {
	ID string `json:"id"`
}

func (s *Server) ids(c call) (any, error) {
	f, err := c.filter("kind", "prefix")
	if err != nil {
		return nil, err
	}
	kind, err := f.oneOf("kind", "approval", "client", "person", "organization")
	if err != nil {
		return nil, err
	}
	if kind == "" || len(f.get("prefix")) < LeastPrefix {
		return nil, badRequest(fmt.Sprintf("kind and prefix: what it names, and %d characters of its ID or more", LeastPrefix))
	}
	ids, next, err := s.Store.IDs(c.Context(), kind, f.get("prefix"), f.after, f.limit)
	return newPage(ids, next, func(id string) idObject { return idObject{id} }), f.fault(err)
}

func (s *Server) events(c call) (any, error) {
	f, err := c.filter("kind", "order", "since", "until", "client", "person", "organization", "approval", "reference", "drills")
	if err != nil {
		return nil, err
	}
	person, err := s.knownPerson(c, f.get("person"))
	if err != nil {
		return nil, err
	}
	kind, err := f.oneOf("kind", journal.Names()...)
	if err != nil {
		return nil, err
	}
	order, err := f.oneOf("order", "newest", "oldest")
	if err != nil {
		return nil, err
	}
	drills, err := f.oneOf("drills", "no")
	if err != nil {
		return nil, err
	}
	of := store.EventFilter{
		NoDrills: drills != "",
		Kind:     journal.Kind(kind), OldestFirst: order == "oldest", Client: f.get("client"), Person: person,
		Organization: f.get("organization"), Approval: f.get("approval"), Reference: f.get("reference"), After: f.after, Limit: f.limit,
	}
	now := s.Store.Now()
	if of.Since, err = f.moment("since", now); err != nil {
		return nil, err
	}
	if of.Until, err = f.moment("until", now); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Events(c.Context(), of)
	return newPage(rows, next, newEvent), f.fault(err)
}

func (s *Server) event(c call) (any, error) {
	e, err := s.Store.Event(c.Context(), c.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return nil, unknown("event")
	} else if err != nil {
		return nil, err
	}
	return newEvent(e), nil
}

// knownPerson gives the ID of a person by ID or email. Nobody of that name is
// 404 in a filter too: an empty list for a misspelt email would be believed.
func (s *Server) knownPerson(c call, idOrEmail string) (string, error) {
	if idOrEmail == "" {
		return "", nil
	}
	p, err := s.Store.Person(c.Context(), idOrEmail)
	return p.ID, err
}

func (s *Server) knownOrganization(c call, id string) error {
	if id == "" {
		return nil
	}
	_, err := s.Store.Organization(c.Context(), id)
	return err
}
