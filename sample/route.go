package sample

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
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
	theirs  bool // Grantkeeper answers it: it is in the document alone
}

// call is a request on its way to an operation.
type call struct {
	*http.Request
	caller caller
	id     string
	person string // under fillers
}

// routes is everything under /api/v5 but the MCP endpoint.
var routes = func() []route {
	all := []route{
		{"/me", []operation{
			{method: "GET", name: "readMe", summary: "Who the credential acts for, and how far", out: "Me", status: 200, tagless: true, theirs: true},
		}},
		{"/openapi.json", []operation{
			{method: "GET", name: "readDocument", summary: "This document", out: "Document", status: 200, answer: doDocument},
		}},
		{"/organization", []operation{
			{method: "GET", name: "readOrganization", summary: "The organization that the credential acts in", out: "Organization", status: 200, answer: doReadOrganization},
			{method: "PATCH", name: "changeOrganization", summary: "Rename the organization; for admins", in: "OrganizationFields", out: "Organization", status: 200, refuses: []int{403}, answer: doChangeOrganization},
		}},
		{"/people", []operation{
			{method: "GET", name: "listPeople", summary: "The members of the organization, by ID", out: "People", status: 200, answer: doListPeople},
		}},
		{"/people/{id}", []operation{
			{method: "GET", name: "readPerson", summary: "A member of the organization", out: "Person", status: 200, answer: doReadPerson},
			{method: "PATCH", name: "changePerson", summary: "Give or take the admin right; for admins", in: "PersonFields", out: "Person", status: 200, refuses: []int{403, 409}, answer: doChangePerson},
			{method: "DELETE", name: "removePerson", summary: "Remove a member, which ends all that they approved here; for admins", status: 204, refuses: []int{403, 409}, answer: doRemovePerson},
		}},
		{"/circles", []operation{
			{method: "GET", name: "listCircles", summary: "The circles of the organization, by ID", out: "Circles", status: 200, answer: doListCircles},
			{method: "POST", name: "createCircle", summary: "Make a circle; for admins", in: "NewCircle", out: "Circle", status: 201, refuses: []int{403}, answer: doCreateCircle},
		}},
		{"/circles/{id}", []operation{
			{method: "GET", name: "readCircle", summary: "A circle", out: "Circle", status: 200, answer: doReadCircle},
			{method: "PATCH", name: "changeCircle", summary: "Rename or move a circle; for admins", in: "CircleFields", out: "Circle", status: 200, refuses: []int{403, 409}, answer: doChangeCircle},
			{method: "DELETE", name: "deleteCircle", summary: "Delete a circle without roles and circles in it; for admins", status: 204, refuses: []int{403, 409}, answer: doDeleteCircle},
		}},
		{"/roles", []operation{
			{method: "GET", name: "listRoles", summary: "The roles of the organization, by ID, with what may be done through each", filters: roleFilters, out: "Roles", status: 200, answer: doListRoles},
			{method: "POST", name: "createRole", summary: "Make a role; for admins", in: "NewRole", out: "Role", status: 201, refuses: []int{403}, answer: doCreateRole},
		}},
		{"/roles/{id}", []operation{
			{method: "GET", name: "readRole", summary: "A role", out: "Role", status: 200, answer: doReadRole},
			{method: "PATCH", name: "changeRole", summary: "Rename or move a role with its items; for admins", in: "RoleFields", out: "Role", status: 200, refuses: []int{403}, answer: doChangeRole},
			{method: "DELETE", name: "deleteRole", summary: "Delete a role with its items; for admins", status: 204, refuses: []int{403}, answer: doDeleteRole},
		}},
		{"/roles/{id}/fillers/{person}", []operation{
			{method: "PUT", name: "fillRole", summary: "Let a member fill a role; for admins", status: 204, refuses: []int{403}, answer: doFillRole},
			{method: "DELETE", name: "leaveRole", summary: "Let a member fill a role no more; for admins", status: 204, refuses: []int{403}, answer: doLeaveRole},
		}},
	}
	for _, kind := range Kinds {
		all = append(all, itemRoutes(kind)...)
	}
	for i := range all {
		all[i].path = apiPath + all[i].path
	}
	return all
}()

// itemRoutes are the paths of one kind of items.
func itemRoutes(kind string) []route {
	title, many := strings.ToUpper(kind[:1])+kind[1:], kind+"s"
	return []route{
		{"/" + many, []operation{
			{method: "GET", name: "list" + title + "s", summary: "The " + many + " that may be read, by ID, without their bodies", filters: itemFilters, out: "Items", status: 200, answer: doItemsOf(kind)},
			{method: "POST", name: "create" + title, summary: "Make a " + kind + " of a role, or a personal one", in: "NewItem", out: "Item", status: 201, refuses: []int{403}, answer: doItemMade(kind)},
		}},
		{"/" + many + "/{id}", []operation{
			{method: "GET", name: "read" + title, summary: "A " + kind, out: "Item", status: 200, answer: doItemOf(kind)},
			{method: "PATCH", name: "change" + title, summary: "Change or move a " + kind, in: "ItemFields", out: "Item", status: 200, refuses: []int{403}, answer: doItemChanged(kind)},
			{method: "DELETE", name: "delete" + title, summary: "Delete a " + kind, status: 204, refuses: []int{403}, answer: doItemDeleted(kind)},
		}},
	}
}

// index finds a route by its path, where an ID is {id}.
var index = func() map[string]route {
	found := map[string]route{}
	for _, r := range routes {
		if !r.methods[0].theirs {
			found[r.path] = r
		}
	}
	return found
}()

// find gives the route of a path, or that of all other paths, with the IDs in
// it. {id} is one segment that is not empty. An escaped slash is no slash (RFC
// 3986 section 2.2), and no ID has one, so there is nothing at such a path.
func find(at *url.URL) (route, [2]string) {
	var ids [2]string
	if at.RawPath != "" && strings.Count(at.RawPath, "/") != strings.Count(at.Path, "/") {
		return route{}, ids
	}
	if r, ok := index[at.Path]; ok {
		return r, ids
	}
	rest, _ := strings.CutPrefix(at.Path, apiPath+"/")
	segments := strings.SplitN(rest, "/", 5)
	switch {
	case len(segments) == 2 && segments[1] != "":
		ids[0], segments[1] = segments[1], "{id}"
	case len(segments) == 4 && segments[1] != "" && segments[3] != "":
		ids = [2]string{segments[1], segments[3]}
		segments[1], segments[3] = "{id}", "{person}"
	default:
		return route{}, ids
	}
	if r, ok := index[apiPath+"/"+strings.Join(segments, "/")]; ok {
		return r, ids
	}
	return route{}, [2]string{}
}

// answer lets the operation of the request's method answer. HEAD is GET, whose
// body stays behind.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, c caller, to route, ids [2]string) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	i := slices.IndexFunc(to.methods, func(o operation) bool { return o.method == method })
	if i < 0 {
		allow := to.allow()
		w.Header().Set("Allow", allow)
		s.fail(w, r, &fault{Status: 405, Code: "method_not_allowed", Description: "This path takes " + allow + "."})
		return
	}
	ctx, touched := gathering(r.Context())
	x, err := to.methods[i].answer(s, &call{r.WithContext(ctx), c, ids[0], ids[1]})
	touched.tell(w.Header())
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.write(w, r, x)
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
