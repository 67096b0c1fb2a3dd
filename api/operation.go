package api

import (
	"encoding/json"
	"net/http"
)

// The operations of API v5: each reads its request, asks the function of the
// same name that the MCP tools ask too, and gives the answer.

// list answers a page of what ask gives.
func list[T any](c *call, filters []string, ask func(query) (Page[T], error)) (answer, error) {
	q, err := readQuery(c.URL.RawQuery, filters)
	if err != nil {
		return answer{}, err
	}
	page, err := ask(q)
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(page)
	return answer{status: http.StatusOK, body: body}, err
}

// read answers one object.
func read[T any](v T, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return object(http.StatusOK, v)
}

// create answers with what the body has made, and where it is.
func create[Fields, T any](c *call, do func(Fields) (T, error), id func(T) string) (answer, error) {
	var f Fields
	if err := readBody(c.w, c.Request, &f); err != nil {
		return answer{}, err
	}
	v, err := do(f)
	if err != nil {
		return answer{}, err
	}
	x, err := object(http.StatusCreated, v)
	x.location = c.URL.Path + "/" + id(v)
	return x, err
}

// change answers with what the body has changed.
func change[Fields, T any](c *call, do func(Fields, Conditions) (T, error)) (answer, error) {
	var f Fields
	when, err := conditionsOf(c.Header)
	if err != nil {
		return answer{}, err
	}
	if err := readBody(c.w, c.Request, &f); err != nil {
		return answer{}, err
	}
	return read(do(f, when))
}

// without answers a change that leaves nothing to show.
func without(c *call, do func(Conditions) error) (answer, error) {
	when, err := conditionsOf(c.Header)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, do(when)
}

func (s *Server) document(*call) (answer, error) {
	return answer{status: http.StatusOK, body: document, tag: tagOf(document)}, nil
}

func (s *Server) readOrganization(c *call) (answer, error) {
	return read(s.Organization(c.Context(), c.actor))
}

func (s *Server) changeOrganization(c *call) (answer, error) {
	return change(c, func(f OrganizationFields, when Conditions) (Named, error) {
		return s.ChangeOrganization(c.Context(), c.actor, f, when)
	})
}

func (s *Server) listPeople(c *call) (answer, error) {
	return list(c, nil, func(q query) (Page[Person], error) { return s.People(c.Context(), c.actor, q.after, q.limit) })
}

func (s *Server) readPerson(c *call) (answer, error) {
	return read(s.Person(c.Context(), c.actor, c.id))
}

func (s *Server) changePerson(c *call) (answer, error) {
	return change(c, func(f PersonFields, when Conditions) (Person, error) {
		return s.ChangePerson(c.Context(), c.actor, c.id, f, when)
	})
}

func (s *Server) removePerson(c *call) (answer, error) {
	return without(c, func(when Conditions) error { return s.RemovePerson(c.Context(), c.actor, c.id, when) })
}

func (s *Server) listCircles(c *call) (answer, error) {
	return list(c, nil, func(q query) (Page[Circle], error) { return s.Circles(c.Context(), c.actor, q.after, q.limit) })
}

func (s *Server) readCircle(c *call) (answer, error) {
	return read(s.Circle(c.Context(), c.actor, c.id))
}

func (s *Server) createCircle(c *call) (answer, error) {
	return create(c, func(f CircleFields) (Circle, error) { return s.AddCircle(c.Context(), c.actor, f) },
		func(x Circle) string { return x.ID })
}

func (s *Server) changeCircle(c *call) (answer, error) {
	return change(c, func(f CircleFields, when Conditions) (Circle, error) {
		return s.ChangeCircle(c.Context(), c.actor, c.id, f, when)
	})
}

func (s *Server) deleteCircle(c *call) (answer, error) {
	return without(c, func(when Conditions) error { return s.DeleteCircle(c.Context(), c.actor, c.id, when) })
}

func (s *Server) listRoles(c *call) (answer, error) {
	return list(c, roleFilters, func(q query) (Page[RoleOfAll], error) {
		mine, err := q.flag("mine")
		if err != nil {
			return Page[RoleOfAll]{}, err
		}
		return s.Roles(c.Context(), c.actor, RoleFilter{q.fields.Get("circle"), mine}, q.after, q.limit)
	})
}

func (s *Server) readRole(c *call) (answer, error) {
	return read(s.Role(c.Context(), c.actor, c.id))
}

func (s *Server) createRole(c *call) (answer, error) {
	return create(c, func(f RoleFields) (RoleOfAll, error) { return s.AddRole(c.Context(), c.actor, f) },
		func(x RoleOfAll) string { return x.ID })
}

func (s *Server) changeRole(c *call) (answer, error) {
	return change(c, func(f RoleFields, when Conditions) (RoleOfAll, error) {
		return s.ChangeRole(c.Context(), c.actor, c.id, f, when)
	})
}

func (s *Server) deleteRole(c *call) (answer, error) {
	return without(c, func(when Conditions) error { return s.DeleteRole(c.Context(), c.actor, c.id, when) })
}

func (s *Server) fillRole(c *call) (answer, error) {
	return without(c, func(when Conditions) error { return s.SetFiller(c.Context(), c.actor, c.id, c.person, true, when) })
}

func (s *Server) leaveRole(c *call) (answer, error) {
	return without(c, func(when Conditions) error {
		return s.SetFiller(c.Context(), c.actor, c.id, c.person, false, when)
	})
}

// The filters of lists, by their names in the query.
var (
	roleFilters = []string{"circle", "mine"}
	itemFilters = []string{"role", "circle", "status", "mine", "personal"}
)

func listItems(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return list(c, itemFilters, func(q query) (Page[ItemHead], error) {
			mine, err := q.flag("mine")
			if err != nil {
				return Page[ItemHead]{}, err
			}
			personal, err := q.flag("personal")
			if err != nil {
				return Page[ItemHead]{}, err
			}
			f := ItemFilter{q.fields.Get("role"), q.fields.Get("circle"), q.fields.Get("status"), mine, personal}
			return s.Items(c.Context(), c.actor, kind, f, q.after, q.limit)
		})
	}
}

func readItem(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) { return read(s.Item(c.Context(), c.actor, kind, c.id)) }
}

func createItem(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return create(c, func(f ItemFields) (Item, error) { return s.AddItem(c.Context(), c.actor, kind, f) },
			func(i Item) string { return i.ID })
	}
}

func changeItem(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return change(c, func(f ItemFields, when Conditions) (Item, error) {
			return s.ChangeItem(c.Context(), c.actor, kind, c.id, f, when)
		})
	}
}

func deleteItem(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return without(c, func(when Conditions) error { return s.DeleteItem(c.Context(), c.actor, kind, c.id, when) })
	}
}
