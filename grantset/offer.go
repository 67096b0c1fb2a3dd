package grantset

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
)

// Offer is what a person can give away in one organization.
type Offer struct {
	Organization org.Organization
	Member       org.Member
	Groups       []Group
	Ceiling      *Ceiling // of the organization: says what it withholds of all this, and why
}

// Group is a circle with the person's roles in it, by name.
type Group struct {
	Circle org.Circle
	Roles  []org.Role
}

// NewOffer puts the member's roles under their circles, the circles in tree
// order: a parent before its children, siblings by name. circles are the
// organization's; roles of a circle that is not among them come last, under
// its ID, so a damaged tree loses no role.
func NewOffer(o org.Organization, m org.Member, circles []org.Circle) Offer {
	filled := map[string][]org.Role{}
	for _, r := range m.Roles() {
		filled[r.Circle] = append(filled[r.Circle], r)
	}
	offer := Offer{Organization: o, Member: m}
	for _, c := range treeOrder(circles) {
		if roles := filled[c.ID]; len(roles) > 0 {
			offer.Groups = append(offer.Groups, newGroup(c, roles))
			delete(filled, c.ID)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(filled)) {
		offer.Groups = append(offer.Groups, newGroup(org.Circle{ID: id, Organization: o.ID, Name: id}, filled[id]))
	}
	return offer
}

func newGroup(c org.Circle, roles []org.Role) Group {
	slices.SortStableFunc(roles, func(a, b org.Role) int { return byName(a.Name, b.Name) })
	return Group{c, roles}
}

// treeOrder lists every circle once, depth first. One whose parent is unknown
// counts as a root; rings, and what hangs in them, follow the whole trees.
func treeOrder(circles []org.Circle) []org.Circle {
	byID := map[string]bool{}
	for _, c := range circles {
		byID[c.ID] = true
	}
	children := map[string][]org.Circle{}
	for _, c := range circles {
		parent := c.Parent
		if !byID[parent] {
			parent = ""
		}
		children[parent] = append(children[parent], c)
	}
	for _, cs := range children {
		slices.SortFunc(cs, func(a, b org.Circle) int { return cmp.Or(byName(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	}
	var out []org.Circle
	seen := map[string]bool{}
	var walk func([]org.Circle)
	walk = func(cs []org.Circle) {
		for _, c := range cs {
			if seen[c.ID] {
				continue
			}
			seen[c.ID] = true
			out = append(out, c)
			walk(children[c.ID])
		}
	}
	walk(children[""])
	walk(circles) // rings: no root leads to them
	return out
}

func byName(a, b string) int { return cmp.Compare(strings.ToLower(a), strings.ToLower(b)) }

// Eligible reports whether anything can be approved here (spec 2.4 item 1).
func (o Offer) Eligible() bool { return o.Organization.AIIntegration && o.Member.Exists() }

// Allows reports whether the option is offered to this person.
func (o Offer) Allows(k Kind) bool {
	switch k {
	case Roles, Everything:
		return o.Eligible() && o.Ceiling.WithholdsKind(k) == ""
	case Organization:
		return o.Eligible() && o.Member.Admin && o.Ceiling.WithholdsKind(k) == ""
	}
	return false
}

// Fault is what is wrong with a choice; the page says it in the person's words.
type Fault string

const (
	NoOrganization Fault = "no_organization" // none was chosen
	NotEligible    Fault = "not_eligible"    // AI integration is off there
	NoGrant        Fault = "no_grant"        // no option was chosen
	NothingPicked  Fault = "nothing_picked"  // selected roles without a role (decision P4)
	NotAllowed     Fault = "not_allowed"     // not, or no longer, this person's to give
)

// Choice is a form that was filled in right.
type Choice struct {
	Offer Offer // of the chosen organization
	Set   Set
}

// Parse reads a choice from the fields of the consent form: organization,
// grant, role:<role ID> and personal (the form contract in docs/protocol.md,
// spec 2.4). What is not this person's to give is refused, whatever the page
// showed. Fields of the person's roles in other organizations, and of roles
// under another option, are ignored. On faults there is no choice.
func Parse(fields map[string][]string, offers []Offer) (Choice, []Fault) {
	var faults []Fault
	offer, fault := parseOrganization(fields["organization"], offers)
	if fault != "" {
		faults = append(faults, fault)
	}
	kind, fault := parseKind(fields["grant"])
	switch {
	case fault != "":
		faults = append(faults, fault)
	case len(faults) == 0 && !offer.Allows(kind):
		faults = append(faults, NotAllowed)
	}
	if len(faults) > 0 {
		return Choice{}, faults
	}
	set := Set{Kind: kind}
	if kind == Roles {
		if set, fault = parsePicks(fields, offer, offers); fault != "" {
			return Choice{}, []Fault{fault}
		}
	}
	return Choice{offer, set}, nil
}

func parseOrganization(values []string, offers []Offer) (Offer, Fault) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return Offer{}, NoOrganization
	case len(values) > 1:
		return Offer{}, NotAllowed
	}
	for _, o := range offers {
		if o.Organization.ID != values[0] {
			continue
		}
		if !o.Eligible() {
			return Offer{}, NotEligible
		}
		return o, ""
	}
	return Offer{}, NotAllowed
}

func parseKind(values []string) (Kind, Fault) {
	switch {
	case len(values) == 0 || len(values) == 1 && values[0] == "":
		return "", NoGrant
	case len(values) > 1 || !slices.Contains(Kinds, Kind(values[0])):
		return "", NotAllowed
	}
	return Kind(values[0]), ""
}

func parsePicks(fields map[string][]string, offer Offer, offers []Offer) (Set, Fault) {
	s := Set{Kind: Roles}
	for name, values := range fields {
		role, ok := strings.CutPrefix(name, "role:")
		if !ok || !offer.Member.Fills(role) && filledElsewhere(role, offers) {
			continue
		}
		switch {
		case len(values) != 1:
			return Set{}, NotAllowed
		case values[0] == "none":
			continue
		case values[0] != "read" && values[0] != "change" || !offer.Member.Fills(role) || org.CheckID(role) != nil,
			offer.Ceiling.WithholdsPick(Pick{role, values[0] == "change"}) != "":
			return Set{}, NotAllowed
		}
		s.Picks = append(s.Picks, Pick{role, values[0] == "change"})
	}
	switch p := fields["personal"]; {
	case len(p) > 1 || len(p) == 1 && (p[0] != "1" || offer.Member.Impersonal || offer.Ceiling.WithholdsPersonal() != ""):
		return Set{}, NotAllowed
	case len(p) == 1:
		s.Personal = true
	}
	if len(s.Picks) == 0 && !s.Personal {
		return Set{}, NothingPicked
	}
	s.sort()
	return s, ""
}

func filledElsewhere(role string, offers []Offer) bool {
	return slices.ContainsFunc(offers, func(o Offer) bool { return o.Member.Fills(role) })
}
