// Package rules says which item of a service each call touches, as the service's
// operator wrote it, and asks package grantset about that item. So a service needs
// no notion of roles of its own: what a call may do is decided by what the person
// chose, in one place and by one logic (decision V20).
package rules

import (
	"encoding/json"
	"slices"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// Rule is one rule as it is configured. It names one of tool, call, resource,
// prompt and method; all of it is text that Compile checks.
type Rule struct {
	Tool     string // name of an MCP tool; * at its end makes a prefix of it
	Call     string // method and path of an HTTP call, such as POST /api/v5/roles/{role}/orders
	Resource string // URI of an MCP resource, as Tool
	Prompt   string // name of an MCP prompt, as Tool
	Method   string // MCP method of none of these, as Tool
	Path     string // of the MCP endpoint that has the last four, beside the contract's; "" is that (decision V62)

	Touches  string   // of the words below; "" with a role is Role
	Role     string   // ID
	RoleName string   // of the one role with this name, in every organization
	RoleFrom []string // where the request has the IDs of roles: all of them are needed
	Access   string   // read or change; "" is decided by the call (decision V23)
	Private  bool     // reading is for the role's circle, else for every member
}

// What a rule can say that a call touches.
const (
	TouchesRole     = "role"     // an item of a role
	TouchesOpen     = "open"     // what every member sees
	TouchesPersonal = "personal" // the person's own items
	TouchesAdmin    = "admin"    // the organization itself
	TouchesNothing  = "nothing"
	TouchesService  = "service" // the service decides, by the signed headers
)

// What becomes of calls that no rule names, under selected roles (decision V24).
const (
	Deny    = "deny"
	Read    = "read"    // what reads may pass
	Service = "service" // as TouchesService
)

// Known is what the annotations of a tool say.
type Known int

const (
	Unknown Known = iota
	Yes
	No
)

// Call is what a client asks for: one of Tool, Resource, Prompt, RPC and Method
// with Path. All of it is as it came.
type Call struct {
	Tool, Resource, Prompt, RPC string          // names and URI; RPC is any other MCP method
	Arguments                   json.RawMessage // of a tool or prompt: an object
	Reads                       Known           // of a tool: its readOnlyHint
	At                          string          // path of the MCP endpoint, as Rule.Path

	Method, Path, Query string // of HTTP: Path and Query are raw
	Body                []byte // the whole body, where that is JSON and held; else Unread
	Unread              bool
}

// Roles finds the roles of the organization that is acted in. The zero Roles
// finds none.
type Roles struct {
	ByID   func(id string) (org.Role, bool)
	ByName func(name string) []org.Role // all that are called so
}

// Rules are rules that Compile found good. They do not change. The zero Rules
// name nothing and deny that.
type Rules struct {
	rules        []rule
	unlisted     string // of MCP; "" is Deny
	unlistedHTTP string
	personal     bool // some rule is about personal items
}

// ServiceDecides are no rules: they leave all to the service, but what an
// organization lets no app do, whatever the service knows (decision V65).
var ServiceDecides = &Rules{unlisted: Service, unlistedHTTP: Service}

// Decide applies the first rule that matches. Rules refuse under selected roles
// alone, and personal items to a client that acts for the organization (decision
// V22); and whatever was approved, what the organization lets no app do (decision
// V65). Where servers read a path differently, each reading has to be allowed
// (decision V26).
func (r *Rules) Decide(a grantset.Authority, roles Roles, c Call) Decision {
	switch {
	case !a.MayReadOrganization():
		return Decision{Rule: none, Reason: NoAuthority}
	case a.Kind() == grantset.Everything && a.Whole() && !a.ReadOnly():
		return Decision{Allowed: true, Rule: none, Reason: Whole}
	case c.RPC != "" && Passes(c.RPC):
		return Decision{Allowed: true, Rule: none, Reason: Always}
	case len(r.rules) == 0:
		return r.unnamed(a, c)
	case a.Whole() && !a.ReadOnly() && !r.personal:
		return Decision{Allowed: true, Rule: none, Reason: Whole}
	}
	all, ok := c.readings()
	if !ok {
		return Decision{Rule: none, Reason: Ambiguous, Needs: c.access()}
	}
	first := r.decide(a, roles, c, all[0])
	for _, at := range all[1:] {
		if !first.Allowed {
			break
		}
		if i, _ := r.find(c, at); at.part && i < 0 {
			continue
		}
		if d := r.decide(a, roles, c, at); !d.Allowed {
			return d
		}
	}
	return first
}

// decide is Decide for one reading of the call.
func (r *Rules) decide(a grantset.Authority, roles Roles, c Call, at reading) Decision {
	i, values := r.find(c, at)
	if i < 0 {
		return r.unnamed(a, c)
	}
	rule := &r.rules[i]
	d := Decision{Rule: i, Touches: rule.touches, Needs: rule.accessOf(c)}
	switch {
	case rule.touches == TouchesNothing:
	case a.ReadOnly() && (d.Needs != "read" || rule.touches == TouchesAdmin):
		d.Reason = ReadsOnly
		return d
	case a.Whole() && rule.touches != TouchesPersonal:
		d.Allowed, d.Reason = true, Whole
		return d
	}
	return rule.decide(d, a, roles, c, values)
}

// decide asks about what the rule touches.
func (r *rule) decide(d Decision, a grantset.Authority, roles Roles, c Call, values map[string]string) Decision {
	switch r.touches {
	case TouchesRole:
		return r.decideRoles(d, a, roles, c, values)
	case TouchesNothing, TouchesService:
		d.Needs, d.Allowed, d.Reason = "", true, Listed
		return d
	case TouchesAdmin:
		d.Needs, d.Allowed, d.Reason = "admin", a.MayAdminister(), Admin
		switch {
		case d.Allowed:
			d.Reason = Listed
		case a.KeepsAdmin():
			d.Reason = KeepAdmin
		}
		return d
	case TouchesPersonal:
		d.Item.Person = a.Member().Person
	}
	d.Item.Organization = a.Member().Organization
	return d.ask(a, org.Role{})
}

// unnamed decides what no rule names.
func (r *Rules) unnamed(a grantset.Authority, c Call) Decision {
	d := Decision{Rule: none, Needs: c.access(), Reason: Unlisted}
	unlisted := r.unlisted
	if c.kind() == byCall {
		unlisted = r.unlistedHTTP
	}
	switch {
	case a.ReadOnly() && d.Needs != "read" && (c.kind() != byCall || c.Method != "OPTIONS"):
		d.Reason = ReadsOnly
	case a.Whole():
		d.Allowed, d.Reason = true, Whole
	case c.RPC != "" && c.RPC != completion:
		d.Reason = UnknownMethod
	case unlisted == Service:
		d.Allowed = true
	case unlisted == Read:
		d.Allowed = d.Needs == "read" && a.MayRead(org.Item{Organization: a.Member().Organization})
	}
	return d
}

// decideRoles asks about an item of each role: all are needed (decision V25).
func (r *rule) decideRoles(d Decision, a grantset.Authority, roles Roles, c Call, values map[string]string) Decision {
	needed, why := r.roles(roles, c, values)
	if why != "" {
		d.Reason = why
		return d
	}
	for _, role := range needed {
		d.Item = org.Item{Organization: a.Member().Organization, Role: role.ID, Circle: role.Circle, Private: r.private}
		if d = d.ask(a, role); !d.Allowed {
			break
		}
	}
	return d
}

// ask is the decision of package grantset about the item.
func (d Decision) ask(a grantset.Authority, role org.Role) Decision {
	if d.Needs == "read" {
		d.Allowed = a.MayRead(d.Item)
	} else {
		d.Allowed = a.MayChange(d.Item)
	}
	d.Role, d.RoleName, d.Has = role.ID, role.Name, ""
	switch {
	case role.ID != "":
		d.Has, d.Fills = a.Acts(role.ID), a.Member().Fills(role.ID)
		if d.Reason = reasonOf(d); a.Keeps(role.ID) {
			d.Reason = KeepRole
		}
	case d.Item.Personal() && a.KeepsPersonal():
		d.Reason = KeepPersonal
	case d.Item.Personal():
		d.Reason = Personal
	default:
		d.Reason = NoRole
	}
	if d.Allowed {
		d.Reason = Listed
	}
	return d
}

func reasonOf(d Decision) Reason {
	switch {
	case !d.Fills:
		return NotFilled
	case d.Has == "none":
		return NotGiven
	}
	return ReadOnly
}

// Lists reports whether Decide could allow some call of the tool, whatever its
// arguments. It is for lists: who is shown too much is still refused.
func (r *Rules) Lists(a grantset.Authority, roles Roles, c Call) bool {
	i, _ := r.find(c, reading{name: c.Tool})
	if i < 0 || a.Whole() || len(r.rules[i].from) == 0 {
		return r.Decide(a, roles, c).Allowed
	}
	return r.rules[i].could(a, roles, c)
}

// HangsOnAnnotations reports whether Decide could go by what a tool of an MCP endpoint,
// by its path, says of itself.
func (r *Rules) HangsOnAnnotations(a grantset.Authority, at, tool string) bool {
	i, _ := r.find(Call{At: at, Tool: tool}, reading{name: tool})
	switch {
	case a.Whole() && !a.ReadOnly():
		return false
	case i < 0:
		return a.ReadOnly() || r.unlisted == Read
	}
	rule := &r.rules[i]
	asks := rule.touches == TouchesRole || rule.touches == TouchesOpen || rule.touches == TouchesPersonal
	return rule.access == "" && (asks || a.ReadOnly() && rule.touches == TouchesService)
}

// could reports whether the authority has what the rule needs for such a call: for
// some role, where the call names it.
func (r *rule) could(a grantset.Authority, roles Roles, c Call) bool {
	d := Decision{Touches: r.touches, Needs: r.accessOf(c)}
	switch {
	case len(r.from) == 0:
		return r.decide(d, a, roles, c, nil).Allowed
	case d.Needs == "read" && !r.private:
		return a.MayReadOrganization()
	}
	// Who may act through a role that is not filled may through one that is.
	// An admin may where no role is filled.
	for _, role := range append(slices.Clone(a.Member().Roles()), org.Role{Organization: a.Member().Organization}) {
		d.Item = org.Item{Organization: role.Organization, Role: role.ID, Circle: role.Circle, Private: r.private}
		if d.ask(a, role).Allowed {
			return true
		}
	}
	return false
}

// access is what a call does where nobody says it (decision V23).
func (c Call) access() string {
	reads := true // resources and prompts
	switch c.kind() {
	case byTool:
		reads = c.Reads == Yes
	case byMethod:
		reads = c.RPC == completion
	case byCall:
		reads = c.Method == "GET" || c.Method == "HEAD"
	}
	if reads {
		return "read"
	}
	return "change"
}

func (r *rule) accessOf(c Call) string {
	if r.access != "" {
		return r.access
	}
	return c.access()
}
