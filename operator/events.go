package operator

import (
	"errors"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

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
	if of.Since, of.Until, err = f.span(s.Store.Now()); err != nil {
		return nil, err
	}
	rows, next, err := s.Store.Events(c.Context(), of)
	return newListPage(rows, next, NewEvent), f.CursorError(err)
}

// EventFilter reads the parameters by which both the API and the console filter
// entries. The error is store.ErrNotFound where they name a person who does not
// exist; the rest of the filter is valid then too.
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
