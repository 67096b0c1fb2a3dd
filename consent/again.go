package consent

import (
	"slices"
	"strconv"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// lookedBack is how many of a person's newest approvals are looked through for the last
// of an app.
const lookedBack = 200

// refill gives the choices that the person had made for the app when its connection ended
// because an old key of it came back, and when they were made: nobody chose that end, and
// so nobody has to find the choices again (decision P24). Where the last connection of
// the app goes on, ended in any other way or looks as if a key was stolen, it gives none.
// Nothing is approved by them.
func (s *Server) refill(v *page.Visit, c client.Client, uri string, ruled []ruling) (choices, *page.Moment, error) {
	rows, _, err := s.Store.Approvals(v.R.Context(), store.ApprovalFilter{Person: v.Person.ID, Limit: lookedBack})
	if err != nil {
		return choices{}, nil, page.Wrap("earlier approvals", err)
	}
	at := slices.IndexFunc(rows, func(r store.ApprovalRow) bool { return sameApp(r, c, uri) })
	if at < 0 || !reused(rows[at].Reason) {
		return choices{}, nil, nil
	}
	r := rows[at]
	i := slices.IndexFunc(ruled, func(at ruling) bool { return at.Organization.ID == r.Organization && at.rule != policy.Block })
	if i < 0 {
		return choices{}, nil, nil
	}
	looks, err := s.Store.Reuse(v.R.Context(), r.ID)
	if err != nil || looks == store.LooksLikeTheft {
		return choices{}, nil, page.Wrap("reuse", err)
	}
	o := ruled[i].Offer
	chosen := choicesOf(r.Grant, o.Member, o.Ceiling)
	chosen.organization, chosen.ends = r.Organization, daysOf(r.CreatedAt, r.EndsAt)
	if r.Grant.Kind == grantset.Organization && !o.Member.Admin {
		chosen.grant = string(grantset.Roles)
	}
	when := page.On(r.CreatedAt, v.Now)
	return chosen, &when, nil
}

// sameApp reports whether an approval is of the client, or of one with its name, folded,
// that returns to the same address: many apps register anew each time they connect. A
// host can have many tenants, and behind the desktop's client is any program at all.
func sameApp(r store.ApprovalRow, c client.Client, uri string) bool {
	switch {
	case c.ID == client.DesktopID:
		return false
	case r.Client == c.ID:
		return true
	}
	return !r.Preregistered && !c.Preregistered && c.Name != "" &&
		r.RedirectURI == uri && client.NameKey(r.ClientName) == client.NameKey(c.Name)
}

// reused reports whether that ended an approval: an old code or refresh token came back.
func reused(r approval.Reason) bool { return r == approval.RefreshReused || r == approval.CodeReused }

// daysOf is the option of the form for an approval that was given until a time, "" for none
// or for one that is not offered.
func daysOf(from, until int64) string {
	days := int((until - from) / int64(oneDay.Seconds()))
	if until == 0 || !slices.Contains(endDays, days) {
		return ""
	}
	return strconv.Itoa(days)
}

// choicesOf are the choices that a grant set stands for now. Roles that the person has
// left cannot be picked (decision P5).
func choicesOf(g grantset.Set, m org.Member, ceiling *grantset.Ceiling) choices {
	c := choices{sent: true, grant: string(g.Kind), roles: map[string]string{}, personal: g.Personal && !m.Impersonal && ceiling.WithholdsPersonal() == ""}
	for _, p := range g.Picks {
		if p.Change = p.Change && ceiling.WithholdsPick(p) == ""; !m.Fills(p.Role) || ceiling.WithholdsPick(p) != "" {
			continue
		}
		if c.roles[p.Role] = "read"; p.Change {
			c.roles[p.Role] = "change"
		}
	}
	return c
}
