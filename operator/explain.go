package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// An explanation is whether an approval lets its client read or change an item
// now, and why. The decision is that of package grantset, which enforces it
// (decision P6). What is in an item is nobody's business here: it has no title.
type explanation struct {
	ID       string      `json:"id"` // approval/action/item
	Approval string      `json:"approval"`
	Action   string      `json:"action"` // read or change
	Item     itemObject  `json:"item"`
	Allowed  bool        `json:"allowed"`
	Reason   string      `json:"reason"` // the sentence of the chain that decided
	Chain    []chainLink `json:"chain"`

	Rule *int `json:"rule,omitempty"` // of a call: as configured, from 0; none where no rule names it
}

type itemObject struct {
	ID           string `json:"id"`
	Kind         string `json:"kind"`
	Organization string `json:"organization"`
	Role         string `json:"role"` // ID; "" on a personal item
	RoleName     string `json:"role_name"`
	Circle       string `json:"circle"` // ID; of the role
	CircleName   string `json:"circle_name"`
	Private      bool   `json:"private"` // to the circle
	Person       string `json:"person"`  // ID, of a personal item
}

// A chainLink is one fact on the way to the answer. Not every one that does
// not hold forbids something: who fills the role need not be an admin.
type chainLink struct {
	Fact  string `json:"fact"`
	Holds bool   `json:"holds"`
	Why   string `json:"why"`
}

func (s *Server) explain(c call) (any, error) {
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return nil, badRequest("the query is malformed")
	}
	if values.Has("tool") || values.Has("call") {
		return s.explainCall(c, values)
	}
	action, itemID, err := asked(values)
	if err != nil {
		return nil, err
	}
	id, err := c.approvalID()
	if err != nil {
		return nil, err
	}
	row, err := s.Store.Approval(c.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, unknown("approval")
	} else if err != nil {
		return nil, err
	}
	elsewhere := &Error{http.StatusNotFound, "not_found", "this item does not exist in the approval's organization"}
	if org.CheckID(itemID) != nil {
		return nil, elsewhere
	}
	item, err := s.Store.FindItem(c.Context(), row.Organization, itemID)
	if errors.Is(err, store.ErrNotFound) {
		return nil, elsewhere
	} else if err != nil {
		return nil, err
	}
	w := why{row: row, access: s.Store.Under(row), action: action, item: item}
	w.now = w.access.Approval.At(w.access.Standing, s.Store.Now())
	if err := w.name(c.Context(), s.Store); err != nil {
		return nil, err
	}
	w.approved = row.Grant.InWords(s.roleNames(c.Context(), row.Organization))
	return w.explanation(), nil
}

// asked reads the question: ?read=ITEM or ?change=ITEM.
func asked(values url.Values) (action, item string, err error) {
	for name, v := range values {
		if name != "read" && name != "change" || len(values) > 1 || len(v) > 1 {
			break
		}
		return name, v[0], nil
	}
	return "", "", badRequest("send read or change, once, with the ID of an item, or tool or call")
}

// why is everything that an answer stands on.
type why struct {
	row    store.ApprovalRow
	access store.Access
	now    approval.State // as it stands, whatever the row says
	action string
	item   store.Item

	person, organization, client, role, circle string // names
	approved                                   string // in words
}

// name finds the names. What has been deleted is called by its ID.
func (w *why) name(ctx context.Context, s *store.Store) error {
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

func (w *why) explanation() explanation {
	i := w.item
	e := explanation{
		ID:       strings.Join([]string{w.row.ID.String(), w.action, i.ID}, "/"),
		Approval: w.row.ID.String(), Action: w.action,
		Item: itemObject{i.ID, i.Kind, i.Organization, i.Role, w.role, i.Circle, w.circle, i.Private, i.Person},
	}
	e.Chain = append(w.standing(), w.granted()...)
	e.Chain = append(e.Chain, w.about()...)
	decision := w.decision()
	e.Chain = append(e.Chain, decision)
	// A token of what is not live is refused before anybody asks for an item.
	e.Allowed, e.Reason = true, decision.Why
	for _, link := range append(w.standing(), decision) {
		if !link.Holds {
			e.Allowed, e.Reason = false, link.Why
			break
		}
	}
	return e
}

func day(seconds int64) string { return time.Unix(seconds, 0).UTC().Format(time.DateOnly) }

// standing is the approval's phase and the facts under it (decision P12).
func (w *why) standing() []chainLink {
	phase := fmt.Sprintf("The approval of %s is live.", day(w.row.CreatedAt))
	switch w.now.Phase {
	case approval.CodeIssued:
		phase = "The client has not exchanged its code yet, so there is no token."
	case approval.Ended:
		phase = fmt.Sprintf("The approval ended on %s: %s.", day(w.now.EndedAt), strings.ReplaceAll(string(w.now.Reason), "_", " "))
	}
	const forGood = ", which ends it for good."
	link := func(fact string, born, now int64, stands, ended string) chainLink {
		if born == now {
			return chainLink{fact, true, stands + " ever since."}
		}
		return chainLink{fact, false, ended + " after the approval" + forGood}
	}
	b, s := w.row.Born, w.access.Standing
	return []chainLink{
		{"approval", w.now.Phase == approval.Live, phase},
		link("person", b.Person, s.Person, w.person+" has been active", w.person+" was deactivated"),
		link("membership", b.Membership, s.Membership, w.person+" has been a member of "+w.organization, w.person+" left "+w.organization),
		link("organization", b.Organization, s.Organization, "AI integration has been on in "+w.organization, "AI integration was switched off in "+w.organization),
		link("client", b.Client, s.Client, w.client+" has been enabled", w.client+" was disabled"),
	}
}

// granted is the grant set, and what the person has to give.
func (w *why) granted() []chainLink {
	set := map[grantset.Kind]string{
		grantset.Everything:   "Everything that the person can access was approved.",
		grantset.Organization: "Everything in this organization was approved, without anybody's personal items.",
		grantset.Roles:        w.approved + ".",
	}[w.row.Grant.Kind]
	filled := w.access.Member().Roles()
	roles := fmt.Sprintf("%s fills %s in %s", w.person, count(len(filled), "1 role", "%s roles"), w.organization)
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
	return []chainLink{
		{"grant_set", true, set},
		{"admin", w.access.Member().Admin, admin},
		{"roles", len(filled) > 0, roles + "."},
	}
}

// about is the item, and what ties the person and the approval to it.
func (w *why) about() []chainLink {
	no := func(holds bool) string {
		if holds {
			return ""
		}
		return "not "
	}
	i, byRoles := w.item, w.row.Grant.Kind == grantset.Roles
	if i.Personal() {
		own := i.Person == w.row.Person
		links := []chainLink{
			{"item", true, fmt.Sprintf("The item is a personal %s, seen by its person alone.", i.Kind)},
			{"own", own, fmt.Sprintf("The item is %s%s's own.", no(own), w.person)},
		}
		if byRoles {
			picked := w.row.Grant.Personal && !w.access.Member().Impersonal
			links = append(links, chainLink{"pick", picked, fmt.Sprintf("Personal items are %spart of this approval.", no(picked))})
		}
		return links
	}
	seen := "open to every member"
	if i.Private {
		seen = "private to the circle"
	}
	fills := chainLink{"role", w.access.Member().Fills(i.Role), fmt.Sprintf("%s fills %s.", w.person, w.role)}
	if !fills.Holds {
		fills.Why = fmt.Sprintf("%s does not fill %s.", w.person, w.role)
	}
	links := []chainLink{{"item", true, fmt.Sprintf("The item is %s of %s in %s, %s.", article(i.Kind), w.role, w.circle, seen)}, fills}
	if i.Private {
		in := w.access.Member().InCircle(i.Circle)
		text := fmt.Sprintf("%s fills a role in %s.", w.person, w.circle)
		if !in {
			text = fmt.Sprintf("%s fills no role in %s.", w.person, w.circle)
		}
		links = append(links, chainLink{"circle", in, text})
	}
	if byRoles {
		links = append(links, w.pick())
	}
	return links
}

func article(kind string) string {
	if kind == "action" {
		return "an action"
	}
	return "a " + kind
}

// pick is what was picked of the item's role, and whether it counts.
func (w *why) pick() chainLink {
	picked := w.row.Grant.Access(w.item.Role)
	acts := w.access.Acts(w.item.Role)
	link := chainLink{"pick", acts == "change" || acts == "read" && w.action == "read", fmt.Sprintf("%s was picked, to %s.", w.role, picked)}
	switch {
	case picked == "none":
		link.Why = w.role + " was not picked."
	case acts == "none": // decision P5
		link.Why += " It counts for nothing while the person does not fill the role."
	}
	return link
}

// decision is the rule that decides, in the words of package grantset.
func (w *why) decision() chainLink {
	i := w.item.Item
	if w.action == "read" {
		if refusal := w.access.ExplainRead(i, w.role); refusal != "" {
			return chainLink{"decision", false, refusal}
		}
		return chainLink{"decision", w.access.MayRead(i), w.access.ReadGrounds(i)}
	}
	if refusal := w.access.ExplainChange(i, w.role); refusal != "" {
		return chainLink{"decision", false, refusal}
	}
	return chainLink{"decision", w.access.MayChange(i), w.access.ChangeGrounds(i, w.role)}
}
