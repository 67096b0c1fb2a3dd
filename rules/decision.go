package rules

import (
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
)

// Reason says in one word why a call is allowed or denied. The words stay.
type Reason string

const (
	// Of what is allowed.
	Listed Reason = "listed" // a rule names it, and what it touches is part of the approval
	Whole  Reason = "whole"  // more than selected roles was approved
	Always Reason = "always" // an MCP method that touches nothing

	// Of what is denied; Unlisted, of both.
	Unlisted      Reason = "unlisted"           // no rule names it
	UnknownMethod Reason = "unknown_method"     // an MCP method that is neither known nor named
	Ambiguous     Reason = "ambiguous"          // not every server reads the path or URI alike
	ReadOnly      Reason = "role_is_read_only"  // the role is part of the approval, to read
	NotGiven      Reason = "role_not_given"     // the person fills the role, and left it out
	NotFilled     Reason = "role_not_filled"    // the person does not fill the role
	NoRole        Reason = "no_role"            // what every member sees is changed through no role
	UnknownRole   Reason = "unknown_role"       // the organization has no such role
	RoleMissing   Reason = "role_missing"       // the request does not name one role where it has to
	BodyUnread    Reason = "body_unread"        // the role is in a body that is too long, or no JSON
	Personal      Reason = "personal_not_given" // personal items are not part of the approval
	Admin         Reason = "admin_not_given"    // selected roles carry no admin rights
	NoAuthority   Reason = "no_authority"       // not a member, or an approval that gives nothing

	// Of what the organization lets no app do, whatever was approved.
	ReadsOnly    Reason = "organization_read_only"
	KeepRole     Reason = "organization_keeps_role"
	KeepPersonal Reason = "organization_keeps_personal"
	KeepAdmin    Reason = "organization_keeps_admin"
)

// none is the index of no rule.
const none = -1

// Decision is whether a call may pass, and all that a denial tells.
type Decision struct {
	Allowed bool
	Reason  Reason
	Rule    int      // as configured, from 0; -1 is none
	Touches string   // as the rule says
	Item    org.Item // that package grantset was asked about; else zero

	Needs string // read, change or admin; "" is nothing
	Has   string // none, read or change: what the approval gives through the role
	Role  string // ID, of the role that decided; "" where none did

	RoleName string
	Fills    bool // the person fills the role

	Organization string // name, for whoever has it: a denial says it
}

// Helps reports whether the person can allow the call by a change of the approval's
// roles.
func (d Decision) Helps() bool {
	return !d.Allowed && d.Fills && (d.Reason == ReadOnly || d.Reason == NotGiven)
}

// Edit is the link to the page where the person can allow the call, or "" where
// that page does not help. It marks what is needed and chooses nothing.
func (d Decision) Edit(base, organization, approval string) string {
	if !d.Helps() || approval == "" {
		return ""
	}
	return fmt.Sprintf("%s/organizations/%s/profile/api/%s/edit?need=%s:%s", base, organization, approval, d.Role, d.Needs)
}

// Says tells an assistant, in English, why the call is denied and what to do. edit
// is the link of Edit. It is "" of a call that is allowed.
func (d Decision) Says(edit string) string {
	if d.Allowed {
		return ""
	}
	text := d.why()
	switch {
	case d.Helps() && edit != "":
		text += " Ask the person to allow it at " + edit + ", then try again: nothing has to reconnect."
	case d.Helps():
		text += " Ask the person to allow it among their connected apps, then try again: nothing has to reconnect."
	}
	return text
}

func (d Decision) why() string {
	through := fmt.Sprintf("This needs %s access through the role %s", d.Needs, d.RoleName)
	switch d.Reason {
	case ReadOnly:
		return through + "; the approval gives read access only."
	case NotGiven:
		return through + "; the approval does not include that role."
	case NotFilled:
		return through + ", which the person does not fill. Only somebody who fills it can let an assistant do this."
	case Personal:
		return "This touches the person's own items, which are not part of the approval."
	case Admin:
		return "This needs the rights of an admin, which an approval of selected roles never carries."
	case UnknownRole:
		return "The organization has no role that is called so. Read the list of roles, and send the ID of one of them."
	case RoleMissing:
		return "The request has to say which role it is for: once, as a text. Send the ID of the role where the service expects it."
	case BodyUnread:
		return "The role stands in the body, which has to be JSON of at most 64 KiB, without a member that stands twice."
	case Ambiguous:
		return "Not every server reads this address alike. Send it plainly, without dot segments, and escaped once."
	case UnknownMethod:
		return "This method is unknown here, and an approval of selected roles cannot use it."
	case NoAuthority:
		return "This approval gives nothing here."
	case ReadsOnly, KeepRole, KeepPersonal, KeepAdmin:
		return d.kept()
	case NoRole:
		return "The service's owner has not said through which role this is changed, so an approval of selected roles cannot do it. The person cannot allow it."
	}
	return "The service's owner has not listed this call, so an approval of selected roles, or one that the organization limits, cannot make it. The person cannot allow it."
}

// kept says what the organization lets no app do.
func (d Decision) kept() string {
	who := d.Organization
	if who == "" {
		who = "The organization"
	}
	switch d.Reason {
	case KeepRole:
		return fmt.Sprintf("%s lets no app act through the role %s. The person cannot allow it.", who, d.RoleName)
	case KeepPersonal:
		return who + " keeps personal items from apps. The person cannot allow it."
	case KeepAdmin:
		return who + " lets no app act as an admin. The person cannot allow it."
	}
	return who + " lets apps read only. The person cannot allow more."
}

// Suggest is a rule for a call that no rule names, to paste and complete: as it
// is it allows nothing. It is "" where the call can be told of no other, and of a
// name that is none. What may be an ID in the path is a {name}.
func Suggest(c Call) string {
	key, value := "", ""
	switch c.kind() {
	case byTool:
		key, value = "tool", c.Tool
	case byResource:
		return ""
	case byPrompt:
		key, value = "prompt", c.Prompt
	case byMethod:
		key, value = "method", c.RPC
	case byCall:
		all, ok := c.readings()
		if !ok || len(c.Method) > 10 || strings.Trim(c.Method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || c.Method == "" {
			return ""
		}
		key, value = "call", c.Method+" "+patternOf(all[0].segments)
	}
	if len(value) > 100 || strings.ContainsFunc(value, unsaid) {
		return ""
	}
	return toComplete(key, value, c.At)
}

// unsaid is for what no name of a tool or path of a rule needs, and a log or a
// TOML text should not have.
func unsaid(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("._-/{} ", c)
}

// patternOf makes a pattern of a path. A segment of other than few letters may be
// an ID, or a secret.
func patternOf(segments []string) string {
	var b strings.Builder
	ids := 0
	for i, s := range segments {
		word := len(s) <= 20 && strings.Trim(strings.ToLower(s), "abcdefghijklmnopqrstuvwxyz-_") == ""
		if word || i < 2 && len(s) <= 4 { // api/v5
			b.WriteString("/" + s)
			continue
		}
		if ids++; ids == 1 {
			b.WriteString("/{id}")
		} else {
			fmt.Fprintf(&b, "/{id%d}", ids)
		}
	}
	if b.Len() == 0 {
		return "/"
	}
	return b.String()
}
