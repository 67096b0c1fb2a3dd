package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// source is where a request has the ID of a role.
type source struct {
	in   string   // path, query, body or argument
	name string   // of a path's or query's value
	at   []string // of a JSON pointer, decoded
}

// parseSource reads one entry of role_from, for a rule of that kind.
func parseSource(text string, of *rule) (s source, err error) {
	in, where, _ := strings.Cut(text, ":")
	s.in = in
	switch {
	case of.kind == byCall && (in == "path" || in == "query"):
		if !isName(where) {
			return s, errors.New("a name has letters, digits, _ and -")
		}
		s.name = where
		if in == "path" && !of.path.has(where) {
			return s, fmt.Errorf("the path of the call has no {%s}", where)
		}
		return s, nil
	case of.kind == byCall && in == "body", (of.kind == byTool || of.kind == byPrompt) && in == "argument":
		s.at, err = parsePointer(where)
		return s, err
	case of.kind == byCall:
		return s, errors.New("a call has roles in path:, query: or body: alone")
	case of.kind == byTool || of.kind == byPrompt:
		return s, errors.New("a tool and a prompt have roles in argument: alone")
	}
	return s, errors.New("only calls, tools and prompts can name roles")
}

func (p pattern) has(name string) bool {
	for _, one := range p.parts {
		if one.name == name {
			return true
		}
	}
	return false
}

// parsePointer reads a JSON pointer (RFC 6901) that leads into an object.
func parsePointer(text string) (at []string, err error) {
	rest, ok := strings.CutPrefix(text, "/")
	if !ok {
		return nil, errors.New("a JSON pointer begins with a slash")
	}
	for token := range strings.SplitSeq(rest, "/") {
		name := strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
		if strings.Count(token, "~") != strings.Count(token, "~0")+strings.Count(token, "~1") {
			return nil, errors.New("in a JSON pointer ~ is written ~0")
		}
		at = append(at, name)
	}
	return at, nil
}

// maxBody bounds a body in which a role is looked for, in bytes, and maxDepth how
// deep it is nested.
const (
	maxBody  = 64 << 10
	maxDepth = 128
)

// roles gives the roles that the rule names for a call, or why it cannot.
func (r *rule) roles(roles Roles, c Call, values map[string]string) ([]org.Role, Reason) {
	if r.roleName != "" {
		var all []org.Role
		if roles.ByName != nil {
			all = roles.ByName(r.roleName)
		}
		if len(all) != 1 { // of two, nobody knows which was meant
			return nil, UnknownRole
		}
		return all, ""
	}
	ids := []string{r.role}
	if len(r.from) > 0 {
		ids = nil
	}
	for _, s := range r.from {
		id, why := s.id(c, values)
		if why != "" {
			return nil, why
		}
		ids = append(ids, id)
	}
	var all []org.Role
	for _, id := range ids {
		if roles.ByID == nil || org.CheckID(id) != nil {
			return nil, UnknownRole
		}
		role, ok := roles.ByID(id)
		if !ok {
			return nil, UnknownRole
		}
		all = append(all, role)
	}
	return all, ""
}

// id gives the one text that stands where a role has to.
func (s source) id(c Call, values map[string]string) (id string, why Reason) {
	switch s.in {
	case "path":
		id = values[s.name]
	case "query":
		id = inQuery(c.Query, s.name)
	case "argument":
		id = inJSON(c.Arguments, s.at)
	case "body":
		if c.Unread || len(c.Body) > maxBody {
			return "", BodyUnread
		}
		if _, err := strictjson.Folded(c.Body, maxDepth); err != nil {
			return "", BodyUnread
		}
		id = inJSON(c.Body, s.at)
	}
	if id == "" {
		return "", RoleMissing
	}
	return id, ""
}

// inQuery gives the value of a name that stands in the query once, in whatever
// way frameworks write it: in another case, or as the first of a list. It is "" of any other.
func inQuery(query, name string) (value string) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	for key, all := range values {
		if !strings.EqualFold(plainKey(key), plainKey(name)) {
			continue
		}
		if key != name || len(all) != 1 {
			return ""
		}
		value = all[0]
	}
	return value
}

// plainKey is a name as PHP and its like make one of it: without what follows a
// bracket, and with an underscore for each dot and space.
func plainKey(key string) string {
	key, _, _ = strings.Cut(strings.TrimLeft(key, " "), "[")
	return strings.NewReplacer(".", "_", " ", "_", "\x00", "").Replace(key)
}

// inJSON gives the text that a pointer leads to, through objects alone: in a list,
// one place says nothing of the others. No member of the whole may stand twice,
// nor in two cases: two readers could find two roles. It is "" where there is none.
func inJSON(text []byte, at []string) (value string) {
	for _, name := range at {
		members, _ := strictjson.Folded(text, maxDepth) // none of what two could read in two ways
		text = members[name]
	}
	if json.Unmarshal(text, &value) != nil {
		return ""
	}
	return value
}
