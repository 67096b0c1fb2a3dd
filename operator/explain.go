package operator

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// An Explanation says in words which facts an approval depends on and what it
// grants; for a call to the service behind, whether the client may make the call
// now, and why. The decision is the one that the gateway makes (decisions P6 and
// V20).
type Explanation struct {
	ID       string      `json:"id"` // approval, or approval/call/the call
	Approval string      `json:"approval"`
	Action   string      `json:"action"`         // that the call needs; "" without a call
	Item     *itemObject `json:"item,omitempty"` // whose role or person the call touches
	Allowed  bool        `json:"allowed"`        // without a call: the approval is live
	Reason   string      `json:"reason"`         // the sentence of the link that decided
	Chain    []ChainLink `json:"chain"`

	Rule *int `json:"rule,omitempty"` // index of the rule that names the call; nil where none does
}

type itemObject struct {
	Organization string `json:"organization"`
	Role         string `json:"role"` // ID; "" where no role decided
	RoleName     string `json:"role_name"`
	Circle       string `json:"circle"` // ID; of the role
	CircleName   string `json:"circle_name"`
	Private      bool   `json:"private"` // to the circle
	Person       string `json:"person"`  // ID of the owner of a personal item
}

// A ChainLink is one fact of an Explanation. A fact that does not hold need not
// forbid the call: a person who fills the role may change it without being an
// admin.
type ChainLink struct {
	Fact  string `json:"fact"`
	Holds bool   `json:"holds"`
	Why   string `json:"why"`
}

func (s *Server) explain(c Call) (any, error) {
	e, err := s.Explain(c)
	return e, err
}

// Explain explains the approval of the path, and with a query the call that it names.
func (s *Server) Explain(c Call) (Explanation, error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return Explanation{}, BadRequest("the query is malformed")
	}
	var asked rules.Call
	if len(values) > 0 {
		if asked, err = readCall(values); err != nil {
			return Explanation{}, err
		}
	}
	id, err := c.ApprovalID()
	if err != nil {
		return Explanation{}, err
	}
	row, err := s.Store.Approval(c.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return Explanation{}, NotFound("approval")
	} else if err != nil {
		return Explanation{}, err
	}
	w := explainer{row: row, access: s.Store.Under(row)}
	w.now = w.access.Approval.At(w.access.Standing, s.Store.Now())
	names := s.RoleNames(c.Context(), row.Organization)
	w.approved = row.Grant.InWords(names)
	p, err := s.Store.Policy(c.Context(), row.Organization)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return Explanation{}, err
	}
	w.limits = p.Limit().InWords(names)
	if len(values) > 0 {
		return s.explainCall(c.Context(), &w, asked)
	}
	if err := w.loadNames(c.Context(), s.Store); err != nil {
		return Explanation{}, err
	}
	return w.explanation(), nil
}

// explainer is what an explanation is made of.
type explainer struct {
	row    store.ApprovalRow
	access store.Access
	now    approval.State // derived from the facts, whatever the row says
	item   org.Item       // that a call touches

	person, organization, client, role, circle string // names
	approved                                   string // in words
	limits                                     string // in words, of the organization's ceilings; "" is none
}

// loadNames reads the names. The name of a deleted object is its ID.
func (w *explainer) loadNames(ctx context.Context, s *store.Store) error {
	w.person, w.organization, w.client = w.row.Person, w.row.Organization, w.row.ClientName
	w.role, w.circle = w.item.Role, w.item.Circle
	p, err := s.Person(ctx, w.person)
	if found(err, &w.person, p.Name) != nil {
		return err
	}
	o, err := s.Organization(ctx, w.organization)
	if found(err, &w.organization, o.Name) != nil {
		return err
	}
	r, err := s.Role(ctx, o.ID, w.role)
	if found(err, &w.role, r.Name) != nil {
		return err
	}
	in, err := s.Circle(ctx, o.ID, w.circle)
	if found(err, &w.circle, in.Name) != nil {
		return err
	}
	if w.client == "" {
		w.client = w.row.Client
	}
	return nil
}

func found(err error, at *string, name string) error {
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err == nil {
		*at = name
	}
	return err
}

// explanation makes the chain, followed by the links of a call, of which the last
// decides.
func (w *explainer) explanation(call ...ChainLink) Explanation {
	standing := w.standingLinks()
	e := Explanation{ID: w.row.ID.String(), Approval: w.row.ID.String(), Chain: slices.Concat(standing, w.grantLinks(), call)}
	decisive := standing
	e.Allowed, e.Reason = true, standing[0].Why
	if len(call) > 0 {
		last := call[len(call)-1]
		decisive, e.Reason = append(decisive, last), last.Why
	}
	// A token of an approval that is not live is refused before any other check.
	for _, link := range decisive {
		if !link.Holds {
			e.Allowed, e.Reason = false, link.Why
			break
		}
	}
	return e
}

func day(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.DateOnly) }

// standingLinks are the approval's phase and the facts that it depends on (decision
// P12).
func (w *explainer) standingLinks() []ChainLink {
	phase := fmt.Sprintf("The approval of %s is live.", day(w.row.CreatedAt))
	switch w.now.Phase {
	case approval.CodeIssued:
		phase = "The client has not exchanged its code yet, so there is no token."
	case approval.Ended:
		phase = fmt.Sprintf("The approval ended on %s: %s.", day(w.now.EndedAt), strings.ReplaceAll(string(w.now.Reason), "_", " "))
	}
	const forGood = ", which ends it for good."
	link := func(fact string, born, now int64, stands, ended string) ChainLink {
		if born == now {
			return ChainLink{fact, true, stands + " ever since."}
		}
		return ChainLink{fact, false, ended + " after the approval" + forGood}
	}
	b, s := w.row.Born, w.access.Standing
	return []ChainLink{
		{"approval", w.now.Phase == approval.Live, phase},
		link("person", b.Person, s.Person, w.person+" has been active", w.person+" was deactivated"),
		link("membership", b.Membership, s.Membership, w.person+" has been a member of "+w.organization, w.person+" left "+w.organization),
		link("organization", b.Organization, s.Organization, "AI integration has been on in "+w.organization, "AI integration was switched off in "+w.organization),
		link("client", b.Client, s.Client, w.client+" has been enabled", w.client+" was disabled"),
	}
}

// grantLinks are the grant set and the rights of the person.
func (w *explainer) grantLinks() []ChainLink {
	set := map[grantset.Kind]string{
		grantset.Everything:   "Everything that the person can access was approved.",
		grantset.Organization: "Everything in this organization was approved, without anybody's personal items.",
		grantset.Roles:        w.approved + ".",
	}[w.row.Grant.Kind]
	filled := w.access.Member().Roles()
	roles := fmt.Sprintf("%s fills %s in %s", w.person, Count(len(filled), "1 role", "%s roles"), w.organization)
	if len(filled) == 0 {
		roles = fmt.Sprintf("%s fills no role in %s", w.person, w.organization)
	} else if w.row.Grant.Kind == grantset.Roles {
		n := 0
		for _, r := range filled {
			if w.access.Acts(r.ID) != "none" {
				n++
			}
		}
		if roles += fmt.Sprintf("; part of this approval: %d", n); n == 0 {
			roles = strings.TrimSuffix(roles, "0") + "none"
		}
	}
	admin := w.person + " is an admin of " + w.organization + "."
	if !w.access.Member().Admin {
		admin = w.person + " is no admin of " + w.organization + "."
	}
	links := []ChainLink{
		{"grant_set", true, set},
		{"admin", w.access.Member().Admin, admin},
		{"roles", len(filled) > 0, roles + "."},
	}
	if w.limits != "" {
		links = append(links, ChainLink{"ceilings", false, "Apps get in " + w.organization + ": " + w.limits + "."})
	}
	return links
}
