package rules

import (
	"encoding/json"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/grantset"
)

// Survey is what an authority lets the calls do that rules name, each of them once:
// what can be said of it before anything is called (decision V55). Of what the
// service decides it says nothing.
type Survey struct {
	Change, Read []Named // some call passes, by Decide; what changes is not among what reads
	Not          []Named // no call passes; not of names that stand for many

	Changes bool // something may change: by a rule, or because the service decides
	Passes  bool // something passes
	Unsaid  bool // there are calls of which the service decides
}

// Named is what a rule names.
type Named struct {
	Tool string // of a rule for one tool
	Name string // as it was written
	At   string // path of the tool's MCP endpoint, as Rule.Path
}

// Survey holds a call of each rule against Decide, under selected roles. reads says
// what is known of a tool. Tools come first, and else the order is that of the rules.
func (r *Rules) Survey(a grantset.Authority, roles Roles, reads func(at, tool string) Known) (s Survey) {
	s.Unsaid = r.unlisted == Service || r.unlistedHTTP == Service
	s.Changes, s.Passes = s.Unsaid, s.Unsaid || r.unlisted == Read
	for _, tools := range []bool{true, false} {
		for i := range r.rules {
			if rule := &r.rules[i]; (rule.kind == byTool) == tools {
				r.survey(&s, i, a, roles, reads)
			}
		}
	}
	return s
}

func (r *Rules) survey(s *Survey, i int, a grantset.Authority, roles Roles, reads func(at, tool string) Known) {
	if covering(r.rules[:i], &r.rules[i]) >= 0 {
		return // nothing reaches it
	}
	rule := &r.rules[i]
	switch rule.touches {
	case TouchesService:
		s.Unsaid, s.Changes, s.Passes = true, true, true
		return
	case TouchesNothing:
		s.Passes = true
		return
	}
	named := Named{Name: rule.label()}
	if rule.kind == byTool && !rule.prefix {
		named.Tool, named.At = rule.name, rule.at
	}
	never, passes, ways := true, "", rule.ways(reads)
	for _, c := range ways {
		never = never && !rule.could(a, roles, rule.example(c, ""))
		for _, role := range examples(a, rule) {
			if d := r.Decide(a, roles, rule.example(c, role)); d.Allowed && d.Rule == i && passes != "change" {
				passes = d.Needs
			}
		}
	}
	s.Passes = s.Passes || !never
	switch {
	case never && (rule.prefix || rule.path.rest):
	case never:
		s.Not = append(s.Not, named)
	case passes == "change":
		s.Change, s.Changes = append(s.Change, named), true
	case passes == "read" && (rule.access != "" || rule.kind != byTool || len(ways) == 1): // else nobody knows whether it reads
		s.Read = append(s.Read, named)
	}
}

// ways are the calls that the rule may take to read, and to change. Of a tool of
// which nothing is known there are both.
func (r *rule) ways(reads func(at, tool string) Known) []Call {
	switch {
	case r.kind == byCall && r.name == "*":
		return []Call{{Method: "GET"}, {Method: "POST"}}
	case r.kind == byCall:
		return []Call{{Method: r.name}}
	case r.kind != byTool:
		return []Call{{}}
	case !r.prefix && reads(r.at, r.name) != Unknown:
		return []Call{{Reads: reads(r.at, r.name)}}
	}
	return []Call{{Reads: Yes}, {Reads: No}}
}

// examples are roles to try in a call that names one: the first of each access.
func examples(a grantset.Authority, r *rule) (ids []string) {
	if len(r.from) == 0 {
		return []string{""}
	}
	seen := map[string]bool{}
	for role, access := range a.Filled {
		if !seen[access] {
			seen[access], ids = true, append(ids, role.ID)
		}
	}
	return ids
}

// example completes a call that the rule matches, with the role wherever it looks
// for one.
func (r *rule) example(c Call, role string) Call {
	name := r.name
	if r.prefix {
		name += "x"
	}
	c.At = r.at
	switch r.kind {
	case byTool:
		c.Tool = name
	case byResource:
		c.Resource = name
	case byPrompt:
		c.Prompt = name
	case byMethod:
		c.RPC = name
	}
	query, inPath, members := url.Values{}, map[string]bool{}, map[string]any{}
	for _, s := range r.from {
		switch s.in {
		case "path":
			inPath[s.name] = true
		case "query":
			query.Set(s.name, role)
		default:
			put(members, s.at, role)
		}
	}
	if r.kind == byCall {
		c.Path, c.Query = r.path.example(inPath, role), query.Encode()
	}
	c.Body, _ = json.Marshal(members)
	c.Arguments = c.Body
	return c
}

// put writes a text where a pointer leads to.
func put(in map[string]any, at []string, text string) {
	for _, name := range at[:len(at)-1] {
		next, ok := in[name].(map[string]any)
		if !ok {
			next = map[string]any{}
			in[name] = next
		}
		in = next
	}
	in[at[len(at)-1]] = text
}

func (p pattern) example(roles map[string]bool, role string) string {
	var b strings.Builder
	for _, one := range p.parts {
		switch {
		case roles[one.name]:
			b.WriteString("/" + url.PathEscape(role))
		case one.name != "":
			b.WriteString("/x")
		default:
			b.WriteString("/" + url.PathEscape(one.literal))
		}
	}
	if p.rest || b.Len() == 0 {
		b.WriteString("/")
	}
	if p.rest {
		b.WriteString("x")
	}
	return b.String()
}
