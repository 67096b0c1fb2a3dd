package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/grantkeeper/grantkeeper/store"
)

// A route is a path of the API with what each method does there. The same
// table answers requests and makes the document of the API.
type route struct {
	path    string // the pattern, for the log too
	methods []operation
}

// operation is a method on a path. What its names stand for is in the
// document: filters are parameters, in and out are schemas.
type operation struct {
	method  string
	name    string
	summary string
	filters []string
	in, out string
	status  int
	refuses []int // beside those of every operation
	answer  func(*Server, *call) (answer, error)

	tagless bool // one object, and yet without an ETag and without conditions
}

// call is a request on its way to an operation.
type call struct {
	*http.Request
	w      http.ResponseWriter
	actor  Actor
	id     string
	person string // under fillers
	room   []byte // to write a body in; gone when the request is answered
	roles  []Role // likewise, to gather the person's in
}

var calls = sync.Pool{New: func() any { return new(call) }}

// maxRoom bounds the bodies whose room is used again, in bytes: net/http copies
// as many before Write returns. Of a larger one HTTP/2 may still read when the
// client has reset the stream and the call has returned: by then the room must
// not hold what is for somebody else.
const maxRoom = 4 << 10

// routes is everything under /api/v5 but the MCP endpoint.
var routes = func() []route {
	all := []route{
		{"/me", []operation{
			{method: "GET", name: "readMe", summary: "Who the credential acts for, and how far", out: "Me", status: 200, answer: (*Server).me, tagless: true},
		}},
		{"/openapi.json", []operation{
			{method: "GET", name: "readDocument", summary: "This document", out: "Document", status: 200, answer: (*Server).document},
		}},
		{"/organization", []operation{
			{method: "GET", name: "readOrganization", summary: "The organization that the credential acts in", out: "Organization", status: 200, answer: (*Server).readOrganization},
			{method: "PATCH", name: "changeOrganization", summary: "Rename the organization; for admins", in: "OrganizationFields", out: "Organization", status: 200, refuses: []int{403}, answer: (*Server).changeOrganization},
		}},
		{"/people", []operation{
			{method: "GET", name: "listPeople", summary: "The members of the organization, by ID", out: "People", status: 200, answer: (*Server).listPeople},
		}},
		{"/people/{id}", []operation{
			{method: "GET", name: "readPerson", summary: "A member of the organization", out: "Person", status: 200, answer: (*Server).readPerson},
			{method: "PATCH", name: "changePerson", summary: "Give or take the admin right; for admins", in: "PersonFields", out: "Person", status: 200, refuses: []int{403, 409}, answer: (*Server).changePerson},
			{method: "DELETE", name: "removePerson", summary: "Remove a member, which ends all that they approved here; for admins", status: 204, refuses: []int{403, 409}, answer: (*Server).removePerson},
		}},
		{"/circles", []operation{
			{method: "GET", name: "listCircles", summary: "The circles of the organization, by ID", out: "Circles", status: 200, answer: (*Server).listCircles},
			{method: "POST", name: "createCircle", summary: "Make a circle; for admins", in: "NewCircle", out: "Circle", status: 201, refuses: []int{403}, answer: (*Server).createCircle},
		}},
		{"/circles/{id}", []operation{
			{method: "GET", name: "readCircle", summary: "A circle", out: "Circle", status: 200, answer: (*Server).readCircle},
			{method: "PATCH", name: "changeCircle", summary: "Rename or move a circle; for admins", in: "CircleFields", out: "Circle", status: 200, refuses: []int{403, 409}, answer: (*Server).changeCircle},
			{method: "DELETE", name: "deleteCircle", summary: "Delete a circle without roles and circles in it; for admins", status: 204, refuses: []int{403, 409}, answer: (*Server).deleteCircle},
		}},
		{"/roles", []operation{
			{method: "GET", name: "listRoles", summary: "The roles of the organization, by ID, with what may be done through each", filters: roleFilters, out: "Roles", status: 200, answer: (*Server).listRoles},
			{method: "POST", name: "createRole", summary: "Make a role; for admins", in: "NewRole", out: "Role", status: 201, refuses: []int{403}, answer: (*Server).createRole},
		}},
		{"/roles/{id}", []operation{
			{method: "GET", name: "readRole", summary: "A role", out: "Role", status: 200, answer: (*Server).readRole},
			{method: "PATCH", name: "changeRole", summary: "Rename or move a role with its items; for admins", in: "RoleFields", out: "Role", status: 200, refuses: []int{403}, answer: (*Server).changeRole},
			{method: "DELETE", name: "deleteRole", summary: "Delete a role with its items; for admins", status: 204, refuses: []int{403}, answer: (*Server).deleteRole},
		}},
		{"/roles/{id}/fillers/{person}", []operation{
			{method: "PUT", name: "fillRole", summary: "Let a member fill a role; for admins", status: 204, refuses: []int{403}, answer: (*Server).fillRole},
			{method: "DELETE", name: "leaveRole", summary: "Let a member fill a role no more; for admins", status: 204, refuses: []int{403}, answer: (*Server).leaveRole},
		}},
	}
	for _, kind := range store.ItemKinds {
		all = append(all, itemRoutes(kind)...)
	}
	for i := range all {
		all[i].path = v5Path + all[i].path
	}
	return all
}()

// itemRoutes are the paths of one kind of items.
func itemRoutes(kind string) []route {
	title, many := strings.ToUpper(kind[:1])+kind[1:], kind+"s"
	return []route{
		{"/" + many, []operation{
			{method: "GET", name: "list" + title + "s", summary: "The " + many + " that may be read, by ID, without their bodies", filters: itemFilters, out: "Items", status: 200, answer: listItems(kind)},
			{method: "POST", name: "create" + title, summary: "Make a " + kind + " of a role, or a personal one", in: "NewItem", out: "Item", status: 201, refuses: []int{403}, answer: createItem(kind)},
		}},
		{"/" + many + "/{id}", []operation{
			{method: "GET", name: "read" + title, summary: "A " + kind, out: "Item", status: 200, answer: readItem(kind)},
			{method: "PATCH", name: "change" + title, summary: "Change or move a " + kind, in: "ItemFields", out: "Item", status: 200, refuses: []int{403}, answer: changeItem(kind)},
			{method: "DELETE", name: "delete" + title, summary: "Delete a " + kind, status: 204, refuses: []int{403}, answer: deleteItem(kind)},
		}},
	}
}

// index finds a route by its path, where an ID is {id}. API v3 and v4 have one
// each, so that a key can be asked whose it is (decision B6).
var index = func() map[string]route {
	found := map[string]route{mcpPath: {path: mcpPath}}
	for _, r := range routes {
		found[r.path] = r
	}
	for _, old := range []string{"/api/v3/me", "/api/v4/me"} {
		found[old] = route{old, found[v5Path+"/me"].methods}
	}
	return found
}()

// find gives the route of a path, or that of all other paths, with the IDs in
// it. {id} is one segment that is not empty. An escaped slash is no slash (RFC
// 3986 section 2.2), and no ID has one, so there is nothing at such a path.
// Whoever asks is checked all the same: another reader might take it for one
// under API v5.
func find(at *url.URL) (route, [2]string) {
	var ids [2]string
	if at.RawPath != "" && strings.Count(at.RawPath, "/") != strings.Count(at.Path, "/") {
		return route{path: "/api/"}, ids
	}
	if r, ok := index[at.Path]; ok {
		return r, ids
	}
	rest, _ := strings.CutPrefix(at.Path, v5Path+"/")
	segments := strings.SplitN(rest, "/", 5)
	switch {
	case len(segments) == 2 && segments[1] != "":
		ids[0], segments[1] = segments[1], "{id}"
	case len(segments) == 4 && segments[1] != "" && segments[3] != "":
		ids = [2]string{segments[1], segments[3]}
		segments[1], segments[3] = "{id}", "{person}"
	default:
		return route{path: "/api/"}, ids
	}
	if r, ok := index[v5Path+"/"+strings.Join(segments, "/")]; ok {
		return r, ids
	}
	return route{path: "/api/"}, [2]string{}
}

// answer lets the operation of the request's method answer. HEAD is GET, whose
// body stays behind.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, a Actor, to route, ids [2]string) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	i := slices.IndexFunc(to.methods, func(o operation) bool { return o.method == method })
	if i < 0 {
		allow := to.allow()
		w.Header().Set("Allow", allow)
		s.fail(w, r, &Fault{Status: 405, Code: "method_not_allowed", Description: "This path takes " + allow + "."})
		return
	}
	c := calls.Get().(*call)
	*c = call{r, w, a, ids[0], ids[1], c.room[:0], c.roles[:0]}
	o := &to.methods[i]
	x, err := o.answer(s, c)
	if err != nil {
		s.fail(w, r, err)
	} else {
		s.write(w, r, o, x)
	}
	if len(c.room) > maxRoom {
		c.room, c.roles = nil, nil
	}
	*c = call{room: c.room, roles: c.roles} // after a panic it is not used again
	calls.Put(c)
}

func (r route) allow() string {
	var all []string
	for _, o := range r.methods {
		all = append(all, o.method)
		if o.method == http.MethodGet {
			all = append(all, http.MethodHead)
		}
	}
	return strings.Join(all, ", ")
}
