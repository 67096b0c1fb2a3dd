package rules

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// maxDrafted bounds what a rule is drafted for, in bytes: longer names are no
// names.
const maxDrafted = 200

// DraftTool writes a rule for one tool of an MCP endpoint, as Rule.Path names it, to
// paste and complete as that of Suggest, but for any name: what is not plain in it is
// escaped. ok is false where no rule names this tool alone.
func DraftTool(at, name string) (rule string, ok bool) {
	if name == "" || len(name) > maxDrafted || strings.Contains(name, "*") { // which would be a prefix
		return "", false
	}
	return toComplete("tool", name, at), true
}

// toComplete is a rule that allows nothing, until somebody completes it.
func toComplete(key, value, at string) string {
	value = inTOML(value)
	if at != "" {
		value += "\npath = " + inTOML(at)
	}
	return fmt.Sprintf("[[rules]]\n%s = %s\nrole = \"ROLE\" # or touches = \"open\", \"personal\", \"admin\", \"nothing\" or \"service\"\n", key, value)
}

// inTOML writes a text as TOML has it, in visible ASCII alone.
func inTOML(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '"' || c == '\\':
			b.WriteString(`\` + string(c))
		case c >= ' ' && c < 0x7f:
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08X`, c)
		default:
			fmt.Fprintf(&b, `\u%04X`, c)
		}
	}
	return `"` + b.String() + `"`
}

// Operation is a call as an OpenAPI document has it.
type Operation struct {
	Method, Path string // in capitals; Path is a template, such as /orders/{id}
	Title        string // for people; may be empty
}

// Drafted is a rule for an operation.
type Drafted struct {
	Operation
	Rule string // to paste and complete; "" where there is none
	Why  string // there is none
}

// DraftCalls writes rules for operations, each of which some call reaches: what is
// said plainly stands before what has a {name} in its place, and what an earlier
// one names already is not named again. What a rule of r names is left out.
func (r *Rules) DraftCalls(all []Operation) (out []Drafted) {
	type read struct {
		Drafted
		made rule
		call string
	}
	var reads []read
	for _, one := range all {
		d := read{Drafted: Drafted{Operation: one}}
		if d.call, d.Why = callOf(one); d.Why == "" {
			d.made = rule{kind: byCall, name: d.call}
			d.made.call(func(_, format string, args ...any) { d.Why = fmt.Sprintf(format, args...) })
		}
		reads = append(reads, d)
	}
	slices.SortStableFunc(reads, func(a, b read) int {
		return cmp.Or(a.made.path.compare(b.made.path), strings.Compare(a.Method, b.Method), strings.Compare(a.Path, b.Path))
	})
	var before []rule
	for _, d := range reads {
		if d.Why == "" && covering(r.rules, &d.made) >= 0 {
			continue
		}
		if i := covering(before, &d.made); d.Why == "" && i >= 0 {
			d.Why = fmt.Sprintf("the rule of %q names it", before[i].label())
		}
		if d.Why == "" && len(r.rules)+len(before) >= MaxRules {
			d.Why = fmt.Sprintf("there are %d rules already: make patterns of some", MaxRules)
		}
		if d.Why == "" {
			before, d.Rule = append(before, d.made), toComplete("call", d.call, "")
		}
		out = append(out, d.Drafted)
	}
	return out
}

// covering is the first of the rules that matches all that another does, or -1.
func covering(all []rule, other *rule) int {
	return slices.IndexFunc(all, func(one rule) bool { return one.covers(other) })
}

// callOf is an operation as a rule's call. A segment that has a value in it is all
// of it a value: rules know no parts of segments.
func callOf(o Operation) (call, fault string) {
	if !strings.HasPrefix(o.Path, "/") || len(o.Path) > maxDrafted {
		return "", fmt.Sprintf("its path begins with a slash, and has at most %d bytes", maxDrafted)
	}
	var b strings.Builder
	seen := map[string]bool{}
	for s := range strings.SplitSeq(o.Path, "/") {
		_, inner, valued := strings.Cut(s, "{")
		if s == "" {
			continue
		}
		if !valued {
			plain, err := url.PathUnescape(s)
			if err != nil || strings.ContainsAny(plain, "/*") {
				return "", "a segment of its path is no plain text"
			}
			b.WriteString("/" + plain)
			continue
		}
		inner, _, valued = strings.Cut(inner, "}")
		if !valued || strings.ContainsAny(inner, "*+{") {
			return "", "a value in its path is more than one segment, or has no end: write ** there"
		}
		b.WriteString("/{" + unusedName(inner, seen) + "}")
	}
	if b.Len() == 0 {
		b.WriteString("/")
	}
	return o.Method + " " + b.String(), ""
}

// unusedName makes a name of a path's value, each once.
func unusedName(text string, seen map[string]bool) string {
	plain := ""
	for _, c := range text {
		if isName(string(c)) {
			plain += string(c)
		}
	}
	if plain == "" {
		plain = "id"
	}
	name := plain
	for n := 2; seen[name]; n++ {
		name = fmt.Sprint(plain, n)
	}
	seen[name] = true
	return name
}

// compare orders patterns so that none stands before one that it covers.
func (p pattern) compare(q pattern) int {
	for i := range min(len(p.parts), len(q.parts)) {
		a, b := p.parts[i], q.parts[i]
		switch {
		case a.name != "" && b.name == "":
			return 1
		case a.name == "" && b.name != "":
			return -1
		}
		if c := strings.Compare(strings.ToLower(a.literal), strings.ToLower(b.literal)); c != 0 {
			return c
		}
	}
	return len(p.parts) - len(q.parts)
}
