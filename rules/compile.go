package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
)

// MaxRules bounds how many rules there are: each call is held against them in turn.
const MaxRules = 1000

// Fault is what is wrong with one rule.
type Fault struct {
	Rule int    // from 0; -1 is none
	Name string // what the rule names, to find it by
	What string
	Do   string
}

func (f Fault) Error() string {
	if f.Rule == none {
		return f.What
	}
	return fmt.Sprintf("rules[%d] %q: %s", f.Rule, f.Name, f.What)
}

// Faults are all that is wrong.
type Faults []Fault

func (f Faults) Error() string {
	var all []string
	for _, one := range f {
		all = append(all, one.Error())
	}
	return strings.Join(all, "; ")
}

// kind is what a rule names.
type kind string

const (
	byTool     kind = "tool"
	byCall     kind = "call"
	byResource kind = "resource"
	byPrompt   kind = "prompt"
	byMethod   kind = "method"
)

func (c Call) kind() kind {
	switch {
	case c.Tool != "":
		return byTool
	case c.Resource != "":
		return byResource
	case c.Prompt != "":
		return byPrompt
	case c.RPC != "":
		return byMethod
	}
	return byCall
}

// rule is a Rule that was found good.
type rule struct {
	kind   kind
	name   string // or a prefix of it; of a call the method, "*" for any
	prefix bool
	path   pattern
	at     string // Rule.Path

	touches, role, roleName, access string
	from                            []source
	private                         bool
}

// completion asks for what fits into a prompt or the URI of a resource.
const completion = "completion/complete"

// Passes reports whether an MCP method touches nothing of the service's
// (decision V28).
func Passes(method string) bool {
	switch method {
	case "initialize", "ping", "server/discover", "logging/setLevel", "subscriptions/listen",
		"tools/list", "resources/list", "resources/templates/list", "prompts/list",
		"tasks/get", "tasks/list", "tasks/result", "tasks/update", "tasks/cancel": // of 2025-11-25, and of the extension since 2026-07-28
		return true
	}
	return strings.HasPrefix(method, "notifications/")
}

// named are MCP methods that a rule names by what they ask for.
var named = map[string]string{
	"tools/call": "tool", "prompts/get": "prompt",
	"resources/read": "resource", "resources/subscribe": "resource", "resources/unsubscribe": "resource",
}

// Compile checks rules. unlisted is Deny, Read or Service; "" is Deny, but where
// there are no rules Service for calls over HTTP (decision V24). The error is
// Faults.
func Compile(all []Rule, unlisted string) (*Rules, error) {
	r, faults := &Rules{unlisted: unlisted, unlistedHTTP: unlisted}, Faults{}
	switch unlisted {
	case Deny, Read, Service:
	case "":
		if r.unlisted = Deny; len(all) == 0 {
			r.unlistedHTTP = Service
		}
	default:
		faults = append(faults, Fault{none, "", fmt.Sprintf("service.unlisted: %q is none of deny, read and service", unlisted), `write unlisted = "deny"`})
	}
	if len(all) > MaxRules {
		faults = append(faults, Fault{none, "", fmt.Sprintf("rules: there are %d, and at most %d", len(all), MaxRules), "make prefixes and patterns of some"})
	}
	for i, one := range all {
		made, wrong := one.compile()
		for _, f := range wrong {
			f.Rule, f.Name = i, one.names()
			faults = append(faults, f)
		}
		r.rules = append(r.rules, made)
		r.personal = r.personal || made.touches == TouchesPersonal
	}
	if len(faults) > 0 {
		return nil, faults
	}
	return r, nil
}

// Len is how many rules there are.
func (r *Rules) Len() int { return len(r.rules) }

// Empty reports whether there is no rule.
func (r *Rules) Empty() bool { return len(r.rules) == 0 }

// names is what a rule is found by.
func (r Rule) names() string {
	for _, name := range []string{r.Tool, r.Call, r.Resource, r.Prompt, r.Method} {
		if name != "" {
			return name
		}
	}
	return ""
}

func (r Rule) compile() (made rule, wrong []Fault) {
	fault := func(do, format string, args ...any) {
		wrong = append(wrong, Fault{What: fmt.Sprintf(format, args...), Do: do})
	}
	made = rule{at: r.Path, touches: r.Touches, role: r.Role, roleName: r.RoleName, access: r.Access, private: r.Private}
	r.subject(&made, fault)
	r.item(&made, fault)
	switch r.Access {
	case "", "read", "change":
	default:
		fault(`write access = "read" or "change", or leave it out`, "access: %q is neither read nor change", r.Access)
	}
	if r.Access != "" && slices.Contains([]string{TouchesAdmin, TouchesNothing, TouchesService}, made.touches) {
		fault("take access out", "access: what touches %s has none", made.touches)
	}
	if r.Access == "change" && made.touches == TouchesOpen {
		fault("name the role, or write touches = \"admin\"", "access: what every member sees is changed through a role, or by admins")
	}
	if r.Private && made.touches != TouchesRole {
		fault("take private out", "private: it is for what touches a role")
	}
	return made, wrong
}

type faulty func(do, format string, args ...any)

// subject reads what the rule names.
func (r Rule) subject(made *rule, fault faulty) {
	count := 0
	for _, one := range []struct {
		kind kind
		name string
	}{{byTool, r.Tool}, {byCall, r.Call}, {byResource, r.Resource}, {byPrompt, r.Prompt}, {byMethod, r.Method}} {
		if one.name != "" {
			made.kind, made.name = one.kind, one.name
			count++
		}
	}
	switch {
	case count != 1:
		fault(`write one of them, such as tool = "list_orders"`, "it names %d of tool, call, resource, prompt and method", count)
	case made.kind == byCall:
		made.call(fault)
		if r.Path != "" {
			fault("take path out", "path: it is for MCP, and call has a path of its own")
		}
	default:
		made.name, made.prefix = strings.CutSuffix(made.name, "*")
		if strings.Contains(made.name, "*") {
			fault("write a * at the end, or none", "%s: a * stands at its end alone", made.kind)
		}
		if made.kind == byResource && !Plain(made.name) {
			fault("write the URI without dot segments", "resource: not every server reads it alike")
		}
		if by, ok := named[made.name]; ok && made.kind == byMethod {
			fault(fmt.Sprintf("write a rule with %s", by), "method: %s is named by its %s", made.name, by)
		}
	}
}

// call reads method and path.
func (r *rule) call(fault faulty) {
	const do = `write call = "POST /api/v5/roles/{role}/orders/**"`
	method, path, _ := strings.Cut(r.name, " ")
	if r.name = method; method != "*" && (method == "" || strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "") {
		fault(do, "call: it begins with a method in capitals, or with *")
		return
	}
	var why string
	if r.path, why = parsePath(path); why != "" {
		fault(do, "call: %s", why)
	}
}

// item reads what the rule touches.
func (r Rule) item(made *rule, fault faulty) {
	ways := 0
	for _, given := range []bool{r.Role != "", r.RoleName != "", len(r.RoleFrom) > 0} {
		if given {
			ways++
		}
	}
	if ways > 0 && r.Touches == "" {
		made.touches = TouchesRole
	}
	switch made.touches {
	case TouchesRole, TouchesOpen, TouchesPersonal, TouchesAdmin, TouchesNothing, TouchesService:
	case "":
		fault("name a role, or write touches", "it does not say what it touches")
	default:
		fault("write touches = \"open\"", "touches: %q is none of role, open, personal, admin, nothing and service", r.Touches)
	}
	switch {
	case ways > 1:
		fault("write one of them", "it has more than one of role, role_name and role_from")
	case ways == 0 && made.touches == TouchesRole:
		fault("write role, role_name or role_from", "it touches a role and does not say which")
	case ways == 1 && made.touches != TouchesRole:
		fault("take touches out, or the role", "it names a role and touches %s", made.touches)
	}
	if r.Role != "" {
		if err := org.CheckID(r.Role); err != nil {
			fault("write the role's ID, or role_name", "role: %v", err)
		}
	}
	if r.RoleName != "" {
		if err := org.CheckName(r.RoleName); err != nil {
			fault("write the role's name as the directory has it", "role_name: %v", err)
		}
	}
	for i, text := range r.RoleFrom {
		s, err := parseSource(text, made)
		if err == nil && slices.Contains(r.RoleFrom[:i], text) {
			err = errors.New("it is given twice")
		}
		if err != nil {
			fault(`write role_from = ["path:role"], "query:role", "body:/role" or "argument:/role"`, "role_from: %q: %v", text, err)
		}
		made.from = append(made.from, s)
	}
}

// Unreachable names the rules that match nothing, because an earlier one matches
// it, or nothing asks them.
func (r *Rules) Unreachable() (all []Fault) {
	for j := range r.rules {
		later := &r.rules[j]
		if later.kind == byMethod && Passes(later.name) {
			all = append(all, Fault{j, later.label(), "it is never asked: this method always passes", "take it out"})
			continue
		}
		for i := range r.rules[:j] {
			if r.rules[i].covers(later) {
				all = append(all, Fault{j, later.label(), fmt.Sprintf("it is never reached: rules[%d] %q matches all that it does", i, r.rules[i].label()), "put it before that one, or take it out"})
				break
			}
		}
	}
	return all
}

// label is what the rule names, as it was written.
func (r *rule) label() string {
	switch {
	case r.kind == byCall:
		return r.name + " " + r.path.String()
	case r.prefix:
		return r.name + "*"
	}
	return r.name
}

// find gives the first rule that matches, with the values of its path, or -1.
func (r *Rules) find(c Call, at reading) (int, map[string]string) {
	for i := range r.rules {
		if values, ok := r.rules[i].matches(c, at); ok {
			return i, values
		}
	}
	return none, nil
}

func (r *rule) matches(c Call, at reading) (values map[string]string, ok bool) {
	switch {
	case r.kind != c.kind(), r.kind != byCall && r.at != c.At:
		return nil, false
	case r.kind == byCall:
		if !methodIn(r.name, c.Method) {
			return nil, false
		}
		return r.path.match(at)
	case r.kind == byResource:
		return nil, len(at.name) >= len(r.name) && strings.EqualFold(at.name[:len(r.name)], r.name) && (r.prefix || len(at.name) == len(r.name))
	case r.prefix:
		return nil, strings.HasPrefix(at.name, r.name)
	}
	return nil, at.name == r.name
}

// methodIn reports whether a rule's method is that of a call. Some servers take
// methods in any case.
func methodIn(rule, method string) bool {
	return rule == "*" || strings.EqualFold(rule, method) || rule == "GET" && strings.EqualFold(method, "HEAD")
}

func (r *rule) covers(later *rule) bool {
	switch {
	case r.kind != later.kind, r.at != later.at:
		return false
	case r.kind == byCall:
		return methodIn(r.name, later.name) && r.path.covers(later.path)
	case r.prefix:
		return len(later.name) >= len(r.name) && r.same(later.name[:len(r.name)])
	}
	return !later.prefix && r.same(later.name)
}

func (r *rule) same(name string) bool {
	return name == r.name || r.kind == byResource && strings.EqualFold(name, r.name)
}

func (p pattern) String() string {
	var b strings.Builder
	for _, one := range p.parts {
		if b.WriteString("/" + one.literal); one.name != "" {
			b.WriteString("{" + one.name + "}")
		}
	}
	if p.rest {
		b.WriteString("/**")
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}
