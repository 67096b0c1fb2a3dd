package consent

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// unusedDays is after how many days without use Connected apps gives a hint.
const unusedDays = 90

// An appsPage is Connected apps: clients, with the person's approvals of them
// in one organization inside (decision P2).
type appsPage struct {
	frame
	Organization string  // not ours, as are all names below
	Path         string  // of this page
	Revoked      *string // name of the app whose access was just revoked
	Changed      *string // name of the app whose approval was just edited
	Apps         []connected
	Ended        []endedApproval
}

type connected struct {
	App       app
	Approvals []shownApproval
	Revoke    string // path of the confirmation
	lastUsed  int64
}

type shownApproval struct {
	Access    access
	Connected moment
	Used      *moment
	Unused    int    // days, when it is time to say so
	Edit      string // path of the page that changes it; empty before the app has connected
}

// access is what an approval allows, in one line and in detail.
type access struct {
	Kind         grantset.Kind
	Personal     bool
	Organization string
	Roles        []shownPick
	Impersonal   bool // there are no personal entries
	Narrowed     bool // given as a whole organization by somebody who is an admin no more
}

type shownPick struct {
	Role, Circle string
	Access       string  // read, change, or empty when the person no longer fills it
	Left         *moment // when the person left it, where that is known
	Gone         bool    // the role is deleted
}

type endedApproval struct {
	App    app
	Had    access
	When   moment
	Used   *moment
	Reason approval.Reason
	Looks  string // what a refresh token that came back looked like, as store.Reuse has it
	id     approval.ID
	at     int64 // Unix seconds
}

// Reused reports whether an old code or refresh token was presented again.
func (e endedApproval) Reused() bool {
	return e.Reason == approval.RefreshReused || e.Reason == approval.CodeReused
}

// apps is GET /organizations/{organization}/profile/api.
func (s *Server) apps(v *visit) error {
	o, m, err := s.membership(v)
	if err != nil {
		return err
	}
	rows, err := s.approvals(v, o.ID, "")
	if err != nil {
		return err
	}
	lookup, err := s.roles(v, o, m)
	if err != nil {
		return err
	}
	view := &appsPage{frame: s.frame(v, "apps.title", "organization", o.Name), Organization: o.Name, Path: appsPath(o.ID)}
	view.Slim, view.Other, view.Packed = false, true, true
	view.under(v, o)
	view.list(v, o, rows, lookup)
	if err := s.explainReuse(v, view.Ended); err != nil {
		return err
	}
	view.Revoked = justRevoked(rows, v.r.URL.Query().Get("revoked"), v.revokes())
	view.Changed = s.justEdited(v, rows)
	return s.show(v, http.StatusOK, appsTemplate, view)
}

// explainReuse finds what each refresh token that came back looked like.
func (s *Server) explainReuse(v *visit, of []endedApproval) (err error) {
	for i := range of {
		if of[i].Reason != approval.RefreshReused {
			continue
		}
		if of[i].Looks, err = s.Store.Reuse(v.r.Context(), of[i].id); err != nil {
			return wrap("reuse", err)
		}
	}
	return nil
}

// list groups what lives by client, the most recently used first, and lists
// what has ended, the last first.
func (view *appsPage) list(v *visit, o org.Organization, rows []store.ApprovalRow, l lookup) {
	place := map[string]int{} // client ID: index in view.Apps
	for _, r := range rows {
		if ended(r) {
			view.Ended = append(view.Ended, endedApproval{
				App: appOf(r.ClientName, r.RedirectURI, r.Preregistered), Had: l.gave(r.Grant),
				When: at(r.EndedAt, v.now), Used: lastUse(r, v.now), Reason: r.Reason, id: r.ID, at: r.EndedAt,
			})
			continue
		}
		i, ok := place[r.Client]
		if !ok {
			i = len(view.Apps)
			place[r.Client] = i
			view.Apps = append(view.Apps, connected{
				App: appOf(r.ClientName, r.RedirectURI, r.Preregistered), Revoke: revokePath(o.ID, r.Client),
			})
		}
		c := &view.Apps[i]
		c.lastUsed = max(c.lastUsed, r.LastUsed)
		one := shownApproval{Access: l.gives(r.Grant), Connected: on(r.CreatedAt, v.now), Used: lastUse(r, v.now)}
		if r.Phase == approval.Live && !v.acting() {
			one.Edit = editPath(o.ID, r.ID)
		}
		if days := daysSince(max(r.LastUsed, r.CreatedAt), v.now); days > unusedDays {
			one.Unused = days
		}
		c.Approvals = append(c.Approvals, one)
	}
	slices.SortStableFunc(view.Apps, func(a, b connected) int { return cmp.Compare(b.lastUsed, a.lastUsed) })
	slices.SortStableFunc(view.Ended, func(a, b endedApproval) int { return cmp.Compare(b.at, a.at) })
}

// lastUse is nil where an app never used what it was given.
func lastUse(r store.ApprovalRow, now time.Time) *moment {
	if r.LastUsed == 0 {
		return nil
	}
	return new(used(r.LastUsed, now))
}

func ended(r store.ApprovalRow) bool { return r.Phase == approval.Ended }

// approvals gives all of the person's approvals in an organization, of one
// client or of all, newest first.
func (s *Server) approvals(v *visit, organization, client string) (all []store.ApprovalRow, err error) {
	f := store.ApprovalFilter{Person: v.person.ID, Organization: organization, Client: client, Limit: 1000}
	for {
		rows, next, err := s.Store.Approvals(v.r.Context(), f)
		if err != nil {
			return nil, wrap("approvals", err)
		}
		if all = append(all, rows...); next == "" {
			return all, nil
		}
		f.After = next
	}
}

// justRevoked names the client whose access the person has just revoked, if
// that is true: the ID stands in an address that anybody can write.
func justRevoked(rows []store.ApprovalRow, client string, by approval.Reason) *string {
	var name *string
	for _, r := range rows {
		switch {
		case r.Client != client:
		case !ended(r):
			return nil
		case r.Reason == by && name == nil:
			name = new(nameOfApp(r))
		}
	}
	return name
}

func nameOfApp(r store.ApprovalRow) string {
	return cmp.Or(r.ClientName, hostOf(r.RedirectURI).String())
}

// A lookup knows the names behind a grant set.
type lookup struct {
	organization org.Organization
	member       org.Member
	roles        map[string]org.Role
	circles      map[string]string
	left         map[string]int64 // when the member left a role, in Unix seconds
	now          time.Time
	impersonal   bool // the service has no personal entries
}

func (s *Server) roles(v *visit, o org.Organization, m org.Member) (lookup, error) {
	l, err := s.allRoles(v, o)
	if err != nil {
		return lookup{}, err
	}
	l.member = m
	if l.left, err = s.Store.LeftRoles(v.r.Context(), m.Person, o.ID); err != nil {
		return lookup{}, wrap("left roles", err)
	}
	return l, nil
}

// allRoles is the lookup of nobody yet.
func (s *Server) allRoles(v *visit, o org.Organization) (lookup, error) {
	l := lookup{organization: o, roles: map[string]org.Role{}, circles: map[string]string{}, now: v.now, impersonal: s.NoPersonal}
	roles, err := s.Store.Roles(v.r.Context(), o.ID)
	if err != nil {
		return lookup{}, wrap("roles", err)
	}
	for _, r := range roles {
		l.roles[r.ID] = r.Role
	}
	circles, err := s.Store.Circles(v.r.Context(), o.ID)
	if err != nil {
		return lookup{}, wrap("circles", err)
	}
	for _, c := range circles {
		l.circles[c.ID] = c.Name
	}
	return l, nil
}

// gave is what a grant set was when it was chosen.
func (l lookup) gave(s grantset.Set) access {
	a := access{Kind: s.Kind, Personal: s.Personal && !l.impersonal, Impersonal: l.impersonal, Organization: l.organization.Name}
	for _, p := range s.Picks {
		one := shownPick{Role: cmp.Or(l.roles[p.Role].Name, p.Role), Circle: l.circles[l.roles[p.Role].Circle], Access: "read"}
		if p.Change {
			one.Access = "change"
		}
		a.Roles = append(a.Roles, one)
	}
	a.sort()
	return a
}

// gives is what a grant set allows now: roles that the person has left count
// for nothing but are named (decision P5).
func (l lookup) gives(s grantset.Set) access {
	a := access{Kind: s.Kind, Personal: s.Personal && !l.impersonal, Impersonal: l.impersonal, Organization: l.organization.Name,
		Narrowed: s.Kind == grantset.Organization && !l.member.Admin}
	for _, p := range s.Picks {
		r, there := l.roles[p.Role]
		one := shownPick{Role: cmp.Or(r.Name, p.Role), Circle: l.circles[r.Circle]}
		switch {
		case !there:
			one.Gone = true
		case !l.member.Fills(p.Role):
			if at := l.left[p.Role]; at > 0 {
				one.Left = new(on(at, l.now))
			}
		case p.Change:
			one.Access = "change"
		default:
			one.Access = "read"
		}
		a.Roles = append(a.Roles, one)
	}
	a.sort()
	return a
}

func (a access) sort() {
	slices.SortStableFunc(a.Roles, func(a, b shownPick) int {
		return cmp.Or(cmp.Compare(strings.ToLower(a.Circle), strings.ToLower(b.Circle)),
			cmp.Compare(strings.ToLower(a.Role), strings.ToLower(b.Role)))
	})
}

// pick names a role, with what it is picked for.
func (w *words) pick(access, role string) said {
	if access == "change" {
		return w.say("grant.role.change", "role", role)
	}
	return w.say("grant.role.read", "role", role)
}

// access says in words what an access gives: to whom it belongs is not said.
// Roles that the person no longer fills give nothing and are not named.
func (w *words) access(a access) said {
	if a.Kind != grantset.Roles {
		return w.say("grant." + string(a.Kind))
	}
	var all said
	n := 0
	for _, kind := range []string{"change", "read"} {
		for _, r := range a.Roles {
			if r.Access != kind {
				continue
			}
			if n++; n > namesShown {
				continue
			}
			if n > 1 {
				all = append(all, w.say("list.between")...)
			}
			all = append(all, w.pick(kind, r.Role)...)
		}
	}
	if n > namesShown {
		all = append(append(all, part{Kind: "text", Text: " "}), w.say("grant.more", "n", n-namesShown)...)
	}
	switch {
	case n == 0 && a.Personal:
		return w.say("grant.personal")
	case n == 0:
		return w.say("grant.roles")
	case a.Personal:
		return w.say("grant.some.personal", "roles", all)
	}
	return w.say("grant.some.roles", "roles", all)
}

// A revokePage asks whether the access of a client is to end.
type revokePage struct {
	frame
	App          app    // not ours
	Organization string // not ours
	Here, Back   string // paths
}

// revokePage is GET .../clients/{client}/revoke.
func (s *Server) revokePage(v *visit) error {
	o, rows, err := s.ofClient(v)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(rows, func(r store.ApprovalRow) bool { return !ended(r) }) {
		return v.see(appsPath(o.ID)) // done already, in another tab
	}
	r := rows[0]
	view := &revokePage{frame: s.frame(v, "revoke.title"), Organization: o.Name,
		Here: revokePath(o.ID, r.Client), Back: appsPath(o.ID), App: appOf(r.ClientName, r.RedirectURI, r.Preregistered)}
	view.Other = true
	return s.show(v, http.StatusOK, revokeTemplate, view)
}

// revoke is POST .../clients/{client}/revoke. It ends all of the person's
// approvals of the client in the organization (decision P2). Done twice, it is
// no error.
func (s *Server) revoke(v *visit) error {
	if _, err := s.changing(v); err != nil {
		return err
	}
	o, rows, err := s.ofClient(v)
	if err != nil {
		return err
	}
	f := store.ApprovalFilter{Client: rows[0].Client, Person: v.person.ID, Organization: o.ID}
	if _, err := s.Store.EndApprovals(v.r.Context(), f, v.revokes(), s.act(v)); err != nil && !errors.Is(err, store.ErrNotFound) {
		return wrap("revoke", err)
	}
	return v.see(withQuery(appsPath(o.ID), "revoked", rows[0].Client))
}

// revokes is the reason of what is revoked: the person is not told that they
// did it themselves where support staff did.
func (v *visit) revokes() approval.Reason {
	if v.acting() {
		return approval.RevokedByOperator
	}
	return approval.RevokedByPerson
}

// ofClient gives the person's own approvals of the client in the path, of
// which there is at least one.
func (s *Server) ofClient(v *visit) (org.Organization, []store.ApprovalRow, error) {
	o, _, err := s.membership(v)
	if err != nil {
		return org.Organization{}, nil, err
	}
	client := v.r.PathValue("client")
	if client == "" || strings.Contains(client, "\x00") {
		return org.Organization{}, nil, errNoPage
	}
	rows, err := s.approvals(v, o.ID, client)
	if err != nil {
		return org.Organization{}, nil, err
	}
	if len(rows) == 0 {
		return org.Organization{}, nil, errNoPage
	}
	return o, rows, nil
}

func revokePath(organization, client string) string {
	return fmt.Sprintf("%s/clients/%s/revoke", appsPath(organization), url.PathEscape(client))
}
