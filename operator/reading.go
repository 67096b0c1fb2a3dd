package operator

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
)

// A list gives defaultItems at a time, and maxItems at most.
const (
	defaultItems = 50
	maxItems     = 1000
)

// filter is the query of a list, read strictly: a misspelt filter must not
// give the whole list.
type filter struct {
	values url.Values
	after  string
	limit  int
}

func (c call) filter(names ...string) (filter, error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return filter{}, badRequest("the query is malformed")
	}
	names = append(names, "limit", "after")
	for name, v := range values {
		if !slices.Contains(names, name) {
			return filter{}, badRequest("unknown filter; known are " + strings.Join(names, ", "))
		}
		if len(v) != 1 {
			return filter{}, badRequest(name + ": it comes twice")
		}
		// Nothing that is stored has one, and a part of a text that begins with
		// NUL would be a part of every text.
		if err := checkText(name, v[0], len(v[0])); err != nil {
			return filter{}, err
		}
	}
	f := filter{values: values, after: values.Get("after"), limit: defaultItems}
	if v := values.Get("limit"); v != "" {
		f.limit, err = strconv.Atoi(v)
		if err != nil || f.limit < 1 || f.limit > maxItems {
			return filter{}, badRequest(fmt.Sprintf("limit: a number from 1 to %d", maxItems))
		}
	}
	return f, nil
}

// fault is for the store's answer to a cursor that it did not make.
func (f filter) fault(err error) error {
	if f.after != "" && errors.Is(err, store.ErrNotFound) {
		return badRequest("after: not the next of this list")
	}
	return err
}

func (f filter) get(name string) string { return f.values.Get(name) }

// oneOf gives a value that is one of few, or "".
func (f filter) oneOf(name string, known ...string) (string, error) {
	v := f.get(name)
	if v != "" && !slices.Contains(known, v) {
		return "", badRequest(name + ": one of " + strings.Join(known, ", "))
	}
	return v, nil
}

// moment gives a time in Unix seconds, which is written so, as RFC 3339, or as
// how long ago: 24h, 7d. 0 is not sent.
func (f filter) moment(name string, now time.Time) (int64, error) {
	v := f.get(name)
	if v == "" {
		return 0, nil
	}
	if n, err := strconv.ParseInt(v, 10, 64); err == nil && n > 0 {
		return n, nil
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil && t.Unix() > 0 {
		return t.Unix(), nil
	}
	ago, ok := duration(v)
	if !ok {
		return 0, badRequest(name + ": Unix seconds, a time such as 2026-11-21T09:00:00Z, or how long ago, such as 24h or 7d")
	}
	return max(now.Add(-ago).Unix(), 1), nil
}

// duration reads 90m, 24h and 7d.
func duration(s string) (time.Duration, bool) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 15)
		return time.Duration(n) * 24 * time.Hour, err == nil
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

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
	return newPage(rows, next, newApproval), f.fault(err)
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
	return newApproval(row), err
}

// approvalID is the {id} of the path; what cannot be one is unknown.
func (c call) approvalID() (approval.ID, error) {
	id, err := approval.ParseID(c.PathValue("id"))
	if err != nil {
		return approval.ID{}, unknown("approval")
	}
	return id, nil
}

func (s *Server) events(c call) (any, error) {
	f, err := c.filter("kind", "order", "since", "until", "client", "person", "organization", "approval", "reference")
	if err != nil {
		return nil, err
	}
	person, err := s.knownPerson(c, f.get("person"))
	if err != nil {
		return nil, err
	}
	kind, err := f.oneOf("kind", store.Kinds...)
	if err != nil {
		return nil, err
	}
	order, err := f.oneOf("order", "newest", "oldest")
	if err != nil {
		return nil, err
	}
	of := store.EventFilter{
		Kind: kind, OldestFirst: order == "oldest", Client: f.get("client"), Person: person,
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
