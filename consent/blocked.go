package consent

import (
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// appBlocked is the fault of an organization whose rules block the app.
const appBlocked grantset.Fault = "app_blocked"

// Of how many admins, and of how many apps that everybody may connect, a page says
// the names.
const (
	adminsNamed = 3
	appsNamed   = 5
)

// A ruling is what the rules of an organization say of the app of a page.
type ruling struct {
	grantset.Offer
	policy *policy.Policy // nil: there are none
	rule   policy.Rule
	by     *policy.App // nil: the default says so
}

// rulings asks the rules of the organizations where something can be approved.
func (s *Server) rulings(v *page.Visit, c client.Client, redirectURI string, open []grantset.Offer) ([]ruling, error) {
	policies, err := s.Store.Policies(v.R.Context(), v.Person.ID)
	if err != nil {
		return nil, page.Wrap("rules for apps", err)
	}
	var all []ruling
	for _, o := range open {
		at := ruling{Offer: o, policy: policies[o.Organization.ID]}
		at.rule, at.by = at.policy.Decide(client.HostsOf(c.ID, redirectURI, c.Preregistered), c.Name, v.Person.ID, c.Preregistered)
		all = append(all, at)
	}
	return all, nil
}

// rulingOf gives that of the chosen organization; the zero ruling where there is none.
func rulingOf(all []ruling, organization string) ruling {
	for _, at := range all {
		if at.Organization.ID == organization {
			return at
		}
	}
	return ruling{}
}

// instead is the page that stands in place of the consent page where the rules let
// nothing be approved; nil where they do.
func (s *Server) instead(v *page.Visit, c client.Client, p question, all []ruling, chosen choices, how showing) func() error {
	if !slices.ContainsFunc(all, func(at ruling) bool { return at.rule != policy.Block }) {
		return func() error {
			s.sawAt(v, c, p, all[0].Organization.ID, attempt.OrganizationBlocks)
			return s.showBlocked(v, c, p, all, how)
		}
	}
	at := all[0]
	if len(all) > 1 {
		at = rulingOf(all, chosen.organization)
	}
	if at.rule == policy.Ask && (len(all) == 1 || chosen.sent) {
		return func() error {
			s.sawAt(v, c, p, at.Organization.ID, attempt.OrganizationAsks)
			return s.showAsking(v, c, p, at, chosen, how)
		}
	}
	return nil
}

// Asking reports whether an admin must allow the app first in some organization.
func (view *consentPage) Asking() bool {
	return slices.ContainsFunc(view.Organizations, func(o offered) bool { return o.Asks })
}

// rule shows what the rules say of each organization on the page, and takes from it
// what is of no use there.
func (view *consentPage) rule(s *Server, v *page.Visit, all []ruling) error {
	for i, at := range all {
		o := &view.Organizations[i]
		o.Limits = at.policy.Limit() != nil
		switch at.rule {
		case policy.Ask:
			o.Asks = true
		case policy.Block:
			by, err := s.decidedBy(v, at)
			if err != nil {
				return err
			}
			o.Chosen = false
			o.Blocked = v.Words.Say("blocked.option", "organization", o.Name)
			if by.Who != "" {
				o.Blocked = v.Words.Say("blocked.option_by", "organization", o.Name, "person", by.Who, "date", by.On)
			}
		default:
			continue
		}
		o.Groups, o.Show = nil, ""
	}
	return nil
}

// A decider is who decided something, when and why. Who is empty where nobody
// decided it of this app.
type decider struct {
	Who, Why string // not ours
	On       page.Moment
}

// decidedBy says who blocked an app.
func (s *Server) decidedBy(v *page.Visit, at ruling) (decider, error) {
	if at.by == nil {
		return decider{}, nil
	}
	return s.decider(v, at.by.By, at.Organization.Name, at.by.Reason, at.by.At)
}

// decider gives the name of an actor of the journal. One who is gone has decided for
// the organization, and an operator for the service.
func (s *Server) decider(v *page.Visit, actor, organization, why string, at int64) (decider, error) {
	d := decider{s.Service, why, page.On(at, v.Now)}
	if id, ok := strings.CutPrefix(actor, "person:"); ok {
		p, err := s.Store.Person(v.R.Context(), id)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return d, page.Wrap("who decided", err)
		}
		if d.Who = p.Name; d.Who == "" {
			d.Who = organization
		}
	}
	return d, nil
}

// admins gives the names of some admins of an organization.
func (s *Server) admins(v *page.Visit, organization string) ([]string, error) {
	some, err := s.Store.Admins(v.R.Context(), organization, adminsNamed)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, page.Wrap("admins", err)
	}
	return names(some), nil
}

// A blockedPage says that no organization of the person lets them connect the app.
type blockedPage struct {
	page.Frame
	App     page.App // not ours
	Request string
	Blocked []blockedAt
}

// blockedAt is one of these organizations. All but Apps is text that others wrote.
type blockedAt struct {
	Organization string
	By           decider
	Admins       []string
	Apps         page.Said // that everybody may connect there; nil for none
}

func (s *Server) showBlocked(v *page.Visit, c client.Client, p question, all []ruling, how showing) error {
	view := &blockedPage{Frame: s.Frame(v, "blocked.title"), App: s.app(c, p.authorization), Request: s.sealQuestion(p)}
	view.Slim = false
	for _, at := range all {
		by, err := s.decidedBy(v, at)
		if err != nil {
			return err
		}
		admins, err := s.admins(v, at.Organization.ID)
		if err != nil {
			return err
		}
		view.Blocked = append(view.Blocked, blockedAt{at.Organization.Name, by, admins, allowedTo(v.Words, at.policy)})
	}
	view.Same = s.SealPath(p.path())
	view.Instead = view.Same
	status := http.StatusForbidden
	if how.status != http.StatusOK {
		status = how.status
	}
	return s.Show(v, status, blockedTemplate, view)
}

// allowedTo lists some apps that everybody may connect.
func allowedTo(w *page.Words, p *policy.Policy) (said page.Said) {
	n := 0
	for _, a := range p.Apps {
		if a.Rule != policy.Allow || a.Person != "" || n == appsNamed {
			continue
		}
		if n++; n > 1 {
			said = append(said, w.Say("list.between")...)
		}
		said = append(said, w.Say("blocked.app", "name", a.Name, "host", page.HostOf("https://"+a.Host+"/"))...)
	}
	return said
}

// looksOurs asks with the clients that are set up here.
func (s *Server) looksOurs(v *page.Visit, c client.Client, at page.Host) (bool, error) {
	known, _, err := s.Store.Clients(v.R.Context(), store.ClientFilter{State: "preregistered", Limit: 1000})
	if err != nil {
		return false, page.Wrap("known clients", err)
	}
	return page.LooksOurs(c, at, s.Service, known), nil
}
