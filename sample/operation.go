package sample

import (
	"encoding/json"
	"net/http"
)

// The operations of API v5: each reads its request, asks the method of the same
// name that the MCP tools ask too, and gives the answer.

// list answers a page of what ask gives.
func list[T any](c *call, filters []string, ask func(query) (page[T], error)) (answer, error) {
	q, err := readQuery(c.URL.RawQuery, filters)
	if err != nil {
		return answer{}, err
	}
	p, err := ask(q)
	if err != nil {
		return answer{}, err
	}
	body, err := json.Marshal(p)
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
	if err := readBody(c.Request, &f); err != nil {
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
func change[Fields, T any](c *call, do func(Fields, conditions) (T, error)) (answer, error) {
	var f Fields
	when, err := conditionsOf(c.Header)
	if err != nil {
		return answer{}, err
	}
	if err := readBody(c.Request, &f); err != nil {
		return answer{}, err
	}
	return read(do(f, when))
}

// without answers a change that leaves nothing to show.
func without(c *call, do func(conditions) error) (answer, error) {
	when, err := conditionsOf(c.Header)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusNoContent}, do(when)
}

func doDocument(*Server, *call) (answer, error) {
	return answer{status: http.StatusOK, body: document, tag: tagOf(document)}, nil
}

func doReadOrganization(s *Server, c *call) (answer, error) {
	return read(s.readOrganization(c.Context(), c.caller))
}

func doChangeOrganization(s *Server, c *call) (answer, error) {
	return change(c, func(f organizationFields, when conditions) (named, error) {
		return s.changeOrganization(c.Context(), c.caller, f, when)
	})
}

func doListPeople(s *Server, c *call) (answer, error) {
	return list(c, nil, func(q query) (page[person], error) { return s.listPeople(c.Context(), c.caller, q.after, q.limit) })
}

func doReadPerson(s *Server, c *call) (answer, error) {
	return read(s.readPerson(c.Context(), c.caller, c.id))
}

func doChangePerson(s *Server, c *call) (answer, error) {
	return change(c, func(f personFields, when conditions) (person, error) {
		return s.changePerson(c.Context(), c.caller, c.id, f, when)
	})
}

func doRemovePerson(s *Server, c *call) (answer, error) {
	return without(c, func(when conditions) error { return s.removePerson(c.Context(), c.caller, c.id, when) })
}

func doListCircles(s *Server, c *call) (answer, error) {
	return list(c, nil, func(q query) (page[circle], error) { return s.listCircles(c.Context(), c.caller, q.after, q.limit) })
}

func doReadCircle(s *Server, c *call) (answer, error) {
	return read(s.readCircle(c.Context(), c.caller, c.id))
}

func doCreateCircle(s *Server, c *call) (answer, error) {
	return create(c, func(f circleFields) (circle, error) { return s.addCircle(c.Context(), c.caller, f) },
		func(x circle) string { return x.ID })
}

func doChangeCircle(s *Server, c *call) (answer, error) {
	return change(c, func(f circleFields, when conditions) (circle, error) {
		return s.changeCircle(c.Context(), c.caller, c.id, f, when)
	})
}

func doDeleteCircle(s *Server, c *call) (answer, error) {
	return without(c, func(when conditions) error { return s.deleteCircle(c.Context(), c.caller, c.id, when) })
}

func doListRoles(s *Server, c *call) (answer, error) {
	return list(c, roleFilters, func(q query) (page[roleOfAll], error) {
		mine, err := q.flag("mine")
		if err != nil {
			return page[roleOfAll]{}, err
		}
		return s.listRoles(c.Context(), c.caller, roleFilter{q.fields.Get("circle"), mine}, q.after, q.limit)
	})
}

func doReadRole(s *Server, c *call) (answer, error) {
	return read(s.readRole(c.Context(), c.caller, c.id))
}

func doCreateRole(s *Server, c *call) (answer, error) {
	return create(c, func(f roleFields) (roleOfAll, error) { return s.addRole(c.Context(), c.caller, f) },
		func(x roleOfAll) string { return x.ID })
}

func doChangeRole(s *Server, c *call) (answer, error) {
	return change(c, func(f roleFields, when conditions) (roleOfAll, error) {
		return s.changeRole(c.Context(), c.caller, c.id, f, when)
	})
}

func doDeleteRole(s *Server, c *call) (answer, error) {
	return without(c, func(when conditions) error { return s.deleteRole(c.Context(), c.caller, c.id, when) })
}

func doFillRole(s *Server, c *call) (answer, error) {
	return without(c, func(when conditions) error {
		return s.setFiller(c.Context(), c.caller, c.id, c.person, true, when)
	})
}

func doLeaveRole(s *Server, c *call) (answer, error) {
	return without(c, func(when conditions) error {
		return s.setFiller(c.Context(), c.caller, c.id, c.person, false, when)
	})
}

// The filters of lists, by their names in the query.
var (
	roleFilters = []string{"circle", "mine"}
	itemFilters = []string{"role", "circle", "status", "mine", "personal"}
)

func doItemsOf(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return list(c, itemFilters, func(q query) (page[itemHead], error) {
			mine, err := q.flag("mine")
			if err != nil {
				return page[itemHead]{}, err
			}
			personal, err := q.flag("personal")
			if err != nil {
				return page[itemHead]{}, err
			}
			f := itemFilter{q.fields.Get("role"), q.fields.Get("circle"), q.fields.Get("status"), mine, personal}
			return s.listItems(c.Context(), c.caller, kind, f, q.after, q.limit)
		})
	}
}

func doItemOf(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) { return read(s.readItem(c.Context(), c.caller, kind, c.id)) }
}

func doItemMade(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return create(c, func(f itemFields) (item, error) { return s.addItem(c.Context(), c.caller, kind, f) },
			func(i item) string { return i.ID })
	}
}

func doItemChanged(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return change(c, func(f itemFields, when conditions) (item, error) {
			return s.changeItem(c.Context(), c.caller, kind, c.id, f, when)
		})
	}
}

func doItemDeleted(kind string) func(*Server, *call) (answer, error) {
	return func(s *Server, c *call) (answer, error) {
		return without(c, func(when conditions) error { return s.deleteItem(c.Context(), c.caller, kind, c.id, when) })
	}
}
