package rules

// Needed is what calls of one tool need under selected roles, as far as that is
// known before one is made.
type Needed struct {
	Rule     int    // the first that names it, as configured, from 0; -1 is none
	Name     string // what that rule names, as it was written
	Touches  string // as it says
	Unlisted string // without a rule, what becomes of the calls: Deny, Read or Service
	Access   string // read, change or admin; "" is nothing, or not ours to say
	Hinted   bool   // Access is what the tool's annotation says
}

// Reads reports whether a call only reads, whoever makes it: as the rule says that names
// it, or else as the call claims itself, by its method (RFC 9110 section 9.2.1) or a tool
// by its annotation. No rules leave it to the call.
func (r *Rules) Reads(c Call) bool {
	said := false
	if all, ok := c.readings(); r != nil && ok {
		for _, at := range all {
			i, _ := r.find(c, at)
			if i < 0 || r.rules[i].access == "" {
				continue
			}
			if said = r.rules[i].access == "read"; !said {
				return false
			}
		}
	}
	return said || c.access() == "read" || c.kind() == byCall && c.Method == "OPTIONS"
}

// Needed says it of a tool, by what is known of it: Tool, At and Reads of a call.
func (r *Rules) Needed(c Call) Needed {
	i, _ := r.find(c, reading{name: c.Tool})
	if i < 0 {
		n := Needed{Rule: none, Unlisted: r.unlisted}
		if n.Unlisted == "" {
			n.Unlisted = Deny
		}
		if n.Unlisted == Read {
			n.Access, n.Hinted = c.access(), true
		}
		return n
	}
	rule := &r.rules[i]
	n := Needed{Rule: i, Name: rule.label(), Touches: rule.touches}
	switch rule.touches {
	case TouchesNothing, TouchesService:
	case TouchesAdmin:
		n.Access = "admin"
	default:
		n.Access, n.Hinted = rule.accessOf(c), rule.access == ""
	}
	return n
}
