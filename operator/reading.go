package operator

import (
	"errors"
	"fmt"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
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

func (s *Server) clients(c Call) (any, error) {
	f, err := c.Filter("state", "query")
	if err != nil {
		return nil, err
	}
	rows, next, err := s.FindClients(c, f, f.Get("query"))
	return newListPage(rows, next, newClient), err
}

// FindClients gives clients, newest first, and the cursor of the next ones: those
// in the filter's state, with the query in their name, host or ID.
func (s *Server) FindClients(c Call, f Filter, query string) ([]client.Client, string, error) {
	state, err := f.OneOf("state", "registered", "approved", "disabled", "preregistered")
	if err != nil {
		return nil, "", err
	}
	rows, next, err := s.Store.Clients(c.Context(), store.ClientFilter{State: state, Query: query, After: f.After, Limit: f.Limit})
	return rows, next, f.CursorError(err)
}

func (s *Server) client(c Call) (any, error) {
	found, err := s.Store.Client(c.Context(), c.PathValue("id"))
	return newClient(found), err
}

func (s *Server) approvals(c Call) (any, error) {
	f, err := c.Filter("client", "person", "organization", "grant", "state", "unused-for")
	if err != nil {
		return nil, err
	}
	rows, next, err := s.FindApprovals(c, f)
	return newListPage(rows, next, func(r store.ApprovalRow) approvalObject { return s.approvalObject(c.Context(), r) }), err
}

// FindApprovals gives the approvals that match the filter, newest first, and the
// cursor of the next ones. The error is store.ErrNotFound where the filter names
// a person or an organization that does not exist.
func (s *Server) FindApprovals(c Call, f Filter) ([]store.ApprovalRow, string, error) {
	of, err := s.approvalFilter(c, f)
	if err != nil {
		return nil, "", err
	}
	rows, next, err := s.Store.Approvals(c.Context(), of)
	return rows, next, f.CursorError(err)
}

func (s *Server) approvalFilter(c Call, f Filter) (store.ApprovalFilter, error) {
	grant, err := f.OneOf("grant", "roles", "everything", "organization")
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	state, err := f.OneOf("state", "code_issued", "live", "ended")
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	person, err := s.knownPerson(c, f.Get("person"))
	if err != nil {
		return store.ApprovalFilter{}, err
	}
	if err := s.knownOrganization(c, f.Get("organization")); err != nil {
		return store.ApprovalFilter{}, err
	}
	of := store.ApprovalFilter{
		Client: f.Get("client"), Person: person, Organization: f.Get("organization"),
		Grant: grantset.Kind(grant), State: state, After: f.After, Limit: f.Limit,
	}
	if v := f.Get("unused-for"); v != "" {
		if state != "" && state != "live" {
			return of, BadRequest("unused-for: it is asked of live ones alone")
		}
		if of.UnusedSince, err = s.unusedSince("unused-for", v); err != nil {
			return of, err
		}
	}
	return of, nil
}

func (s *Server) approval(c Call) (any, error) {
	id, err := c.ApprovalID()
	if err != nil {
		return nil, err
	}
	row, err := s.Store.Approval(c.Context(), id)
	if err != nil {
		return nil, err
	}
	return s.approvalObject(c.Context(), row), nil
}

// ApprovalID is the {id} of the path; what cannot be one is unknown.
func (c Call) ApprovalID() (approval.ID, error) {
	id, err := approval.ParseID(c.PathValue("id"))
	if err != nil {
		return approval.ID{}, NotFound("approval")
	}
	return id, nil
}

// LeastPrefix is how many characters of an ID may stand for it, at least.
const LeastPrefix = 6

// idObject is an ID of which only the beginning was known.
type idObject struct {
	ID string `json:"id"`
}

func (s *Server) ids(c Call) (any, error) {
	f, err := c.Filter("kind", "prefix")
	if err != nil {
		return nil, err
	}
	kind, err := f.OneOf("kind", "approval", "client", "person", "organization")
	if err != nil {
		return nil, err
	}
	if kind == "" || len(f.Get("prefix")) < LeastPrefix {
		return nil, BadRequest(fmt.Sprintf("kind and prefix: what it names, and %d characters of its ID or more", LeastPrefix))
	}
	ids, next, err := s.Store.IDs(c.Context(), kind, f.Get("prefix"), f.After, f.Limit)
	return newListPage(ids, next, func(id string) idObject { return idObject{id} }), f.CursorError(err)
}

func (s *Server) events(c Call) (any, error) {
	f, err := c.Filter("kind", "order", "since", "until", "client", "person", "organization", "approval", "reference", "drills")
	if err != nil {
		return nil, err
	}
	of, err := s.EventFilter(c, f)
	if err != nil {
		return nil, err
	}
	if _, err := f.OneOf("kind", journal.Names()...); err != nil {
		return nil, err
	}
	order, err := f.OneOf("order", "newest", "oldest")
	if err != nil {
		return nil, err
	}
	drills, err := f.OneOf("drills", "no")
	if err != nil {
		return nil, err
	}
	of.NoDrills, of.OldestFirst = drills != "", order == "oldest"
	now := s.Store.Now()
	if of.Since, err = f.time("since", now); err != nil {
		return nil, err
	}
	if of.Until, err = f.time("until", now); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Events(c.Context(), of)
	return newListPage(rows, next, NewEvent), f.CursorError(err)
}

// EventFilter reads what the API and the console filter entries by alike. The
// error is store.ErrNotFound where it names a person who does not exist; the rest
// of the filter is given then too.
func (s *Server) EventFilter(c Call, f Filter) (store.EventFilter, error) {
	person, err := s.knownPerson(c, f.Get("person"))
	return store.EventFilter{
		Kind: journal.Kind(f.Get("kind")), Client: f.Get("client"), Person: person, Organization: f.Get("organization"),
		Approval: f.Get("approval"), Reference: f.Get("reference"), After: f.After, Limit: f.Limit,
	}, err
}

func (s *Server) event(c Call) (any, error) {
	e, err := s.Store.Event(c.Context(), c.PathValue("id"))
	if errors.Is(err, store.ErrNotFound) {
		return nil, NotFound("event")
	} else if err != nil {
		return nil, err
	}
	return NewEvent(e), nil
}

// knownPerson gives the ID of a person by ID or email. Nobody of that name is
// 404 in a filter too: an empty list for a misspelt email would be believed.
func (s *Server) knownPerson(c Call, idOrEmail string) (string, error) {
	if idOrEmail == "" {
		return "", nil
	}
	p, err := s.Store.Person(c.Context(), idOrEmail)
	return p.ID, err
}

func (s *Server) knownOrganization(c Call, id string) error {
	if id == "" {
		return nil
	}
	_, err := s.Store.Organization(c.Context(), id)
	return err
}
