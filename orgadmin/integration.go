package orgadmin

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// An adminHead is what the pages of an organization's AI integration begin with.
// Every name on them is text that others wrote. Titles of items are on none.
type adminHead struct {
	page.Frame
	Organization string
	Path         string // of the first of the pages
	On           bool
	By           string       // who turned it on; empty: the service
	Since        *page.Moment // when; nil: not known
	Tab          string       // connections, requests, rules or attempts
	Waiting      int          // apps that somebody asks for
	Mails        bool         // people are told by email
	Told         []told
}

// told is what was just done, or could not be.
type told struct {
	Looks string // class of the note
	Says  page.Said
	Undo  string // sealed, where it can be undone
}

// adminHead gives it; title is the ID of a message.
func (s *Server) adminHead(v *page.Visit, o org.Organization, tab, title string) (adminHead, error) {
	h := adminHead{Frame: s.Frame(v, title, "organization", o.Name), Organization: o.Name, Path: page.IntegrationPath(o.ID),
		On: o.AIIntegration, Tab: tab, Mails: s.Mails}
	h.Slim, h.Other, h.Packed, h.Wide = false, true, true, true
	h.Under(v, o)
	if err := s.switchedBy(v, &h, o); err != nil {
		return h, err
	}
	var err error
	h.Told, err = s.justDone(v, o)
	return h, err
}

// A switchPage is what admins see where AI integration is off.
type switchPage struct {
	adminHead
	Default policy.Rule // for apps without a rule, when it is turned on
}

// switchedOff shows how to turn it on.
func (s *Server) switchedOff(v *page.Visit, o org.Organization) error {
	h, err := s.adminHead(v, o, "", "integration.title")
	if err != nil {
		return err
	}
	p, err := s.Store.Policy(v.R.Context(), o.ID)
	if err != nil {
		return page.Wrap("rules", err)
	}
	view := &switchPage{adminHead: h, Default: policy.Ask}
	if p != nil {
		view.Default = p.Unknown.OrAllow()
	}
	return s.Show(v, http.StatusOK, switchTemplate, view)
}

// nameAccess says which roles the connections of one page of the table have, as far
// as their people fill them now.
func (s *Server) nameAccess(v *page.Visit, o org.Organization, shown []connection) error {
	names, err := s.NamesIn(v, o)
	if err != nil {
		return err
	}
	for i := range shown {
		c := &shown[i]
		names.Member, err = s.Store.Member(v.R.Context(), c.row.Person, o.ID)
		if err != nil && !errors.Is(err, store.ErrNotFound) { // else gone since
			return page.Wrap("member", err)
		}
		c.Access = names.Gives(c.row.Grant)
		c.Access.Personal = false // it is theirs alone
	}
	return nil
}

// administered gives the organization of the path, to its admins. To
// everybody else the page does not exist.
func (s *Server) administered(v *page.Visit) (org.Organization, error) {
	o, m, err := s.Membership(v)
	if err == nil && !m.Admin {
		err = page.ErrNoPage
	}
	return o, err
}

// shownOn makes a page of one for an organization's admins that leads to the switch where
// AI integration is off.
func (s *Server) shownOn(show func(*page.Visit, org.Organization) error) func(*page.Visit) error {
	return func(v *page.Visit) error {
		o, err := s.administered(v)
		switch {
		case err != nil:
			return err
		case !o.AIIntegration:
			return v.See(page.IntegrationPath(o.ID))
		}
		return show(v, o)
	}
}

// errLostRight answers what an admin sends after the right is gone.
var errLostRight = page.Refusal{Status: http.StatusForbidden, Why: "noadmin", Titled: "refused.short"}

// A change answers what an admin of an organization sends.
type change func(*page.Visit, org.Organization, url.Values) error

// byAdmin makes a page of what an admin sends: a form of at most so many bytes and fields
// (decision P21). A member who is no admin is told so, since it may have been one when the
// page was shown; to everybody else the page does not exist.
func (s *Server) byAdmin(bytes int64, fields int, does change) func(*page.Visit) error {
	return func(v *page.Visit) error {
		form, err := s.ChangingUpTo(v, bytes, fields)
		if errors.Is(err, page.ErrSignIn) && v.R.Pattern == atConnections && org.CheckID(v.R.PathValue("organization")) == nil {
			ids, _ := pickedIn(form)
			return s.ToSignIn(v, backFrom(org.Organization{ID: v.R.PathValue("organization")}, form, ids))
		} else if err != nil {
			return err
		}
		o, m, err := s.Membership(v)
		if err == nil && !m.Admin {
			err = errLostRight
		}
		if err == nil {
			err = does(v, o, form)
		}
		if errors.Is(err, store.ErrNotAllowed) { // since it was asked
			return errLostRight
		}
		return err
	}
}

// whileOn is byAdmin where nothing is to be done once AI integration is off.
func (s *Server) whileOn(bytes int64, fields int, does change) func(*page.Visit) error {
	return s.byAdmin(bytes, fields, func(v *page.Visit, o org.Organization, form url.Values) error {
		if !o.AIIntegration {
			return s.done(v, o, page.IntegrationPath(o.ID), "off")
		}
		return does(v, o, form)
	})
}

// done leads to where a note says what was done.
func (s *Server) done(v *page.Visit, o org.Organization, path, what string) error {
	return v.See(page.WithQuery(path, "done", s.SealDone(v, sealedAdmin+o.ID, what)))
}

// justDone gives the note, if that was just now.
func (s *Server) justDone(v *page.Visit, o org.Organization) ([]told, error) {
	q := v.R.URL.Query()
	if id := q.Get("revoked"); id != "" {
		return s.doneByAdmin(v, o, id)
	}
	sealed := q.Get("done")
	what, of, _ := strings.Cut(s.JustDone(v, sealedAdmin+o.ID, sealed), ":")
	n, _ := strconv.Atoi(of)
	if n == 0 && (what == "marked" || what == "ended") { // by another press, or in another tab
		what = "before"
	}
	switch what {
	case "":
		return nil, nil
	case "off":
		return []told{{Looks: "warn", Says: v.Words.Say("lost.off")}}, nil
	case "before":
		return []told{{Looks: "good", Says: v.Words.Say("connections.before")}}, nil
	case "marked":
		return []told{{Looks: "good", Says: v.Words.Say("connections.marked", "n", n)}}, nil
	case "ended":
		return []told{{Looks: "good", Says: v.Words.Say("connections.ended", "n", n)}}, nil
	case "saved":
		return []told{{Looks: "good", Says: v.Words.Say("orgrules.saved")}}, nil
	case "same":
		return []told{{Says: v.Words.Say("orgrules.same")}}, nil
	}
	return s.requestDone(v, o, what, of, sealed)
}

// switchedBy says who turned AI integration on, and when.
func (s *Server) switchedBy(v *page.Visit, view *adminHead, o org.Organization) error {
	by, err := s.Store.Switched(v.R.Context(), o.ID)
	if errors.Is(err, store.ErrNotFound) || err == nil && !o.AIIntegration {
		return nil
	} else if err != nil {
		return page.Wrap("switched by", err)
	}
	when := page.On(by.At, v.Now)
	view.Since = &when
	view.By, err = s.nameOfActor(v, by.Actor)
	return err
}

// nameOfActor names who did something by what the journal has of it; nobody where it
// was no person, or one who is gone.
func (s *Server) nameOfActor(v *page.Visit, actor string) (string, error) {
	id, ok := strings.CutPrefix(actor, "person:")
	if !ok {
		return "", nil
	}
	p, err := s.Store.Person(v.R.Context(), id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return "", page.Wrap("who did it", err)
	}
	return p.Name, nil
}

// doneByAdmin tells of a connection that has just ended, if that is true: the
// ID stands in an address that anybody can write.
func (s *Server) doneByAdmin(v *page.Visit, o org.Organization, id string) ([]told, error) {
	parsed, err := approval.ParseID(id)
	if err != nil {
		return nil, nil
	}
	r, err := s.Store.Approval(v.R.Context(), parsed)
	if errors.Is(err, store.ErrNotFound) || err == nil && (r.Organization != o.ID || !ended(r)) {
		return nil, nil
	} else if err != nil {
		return nil, page.Wrap("approval", err)
	}
	p, err := s.Store.Person(v.R.Context(), r.Person)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, page.Wrap("person", err)
	}
	says := v.Words.Say("integration.revoked", "app", page.AppOf(r.Client, r.ClientName, r.RedirectURI, r.Preregistered).String(), "person", p.Name)
	if r.Reason != approval.RevokedByAdmin {
		says = v.Words.Say("integration.already", "app", page.AppOf(r.Client, r.ClientName, r.RedirectURI, r.Preregistered).String(), "person", p.Name)
	}
	return []told{{Looks: "good", Says: says}}, nil
}

// An offPage asks whether AI integration is to be turned off.
type offPage struct {
	page.Frame
	Organization string // not ours
	All          store.ConnectionCounts
	Post, Back   string // paths
}

// offPage is GET .../ai-integration/off.
func (s *Server) offPage(v *page.Visit, o org.Organization) error {
	n, err := s.Store.ConnectionCounts(v.R.Context(), o.ID)
	if err != nil {
		return page.Wrap("connections", err)
	}
	view := &offPage{Frame: s.Frame(v, "off.title"), Organization: o.Name, All: n,
		Post: page.IntegrationPath(o.ID) + "/off", Back: page.IntegrationPath(o.ID)}
	view.Other = true
	return s.Show(v, http.StatusOK, offTemplate, view)
}

// turn is POST .../ai-integration/on and off (decision P7). Done twice, it is
// no error.
func (s *Server) turn(on bool) change {
	return func(v *page.Visit, o org.Organization, form url.Values) error {
		if rule := policy.Rule(page.One(form, "default")); on && rule != "" && !o.AIIntegration {
			if !slices.Contains(policy.Rules, rule) {
				return page.ErrBadForm
			}
			// Before AI integration is on.
			if _, err := s.changeRules(v, o, func(p *policy.Policy) bool { p.Unknown = rule; return true }); err != nil {
				return err
			}
		}
		if err := s.Store.SwitchIntegration(v.R.Context(), o.ID, v.Person.ID, on, s.Act(v)); err != nil {
			return page.Wrap("AI integration", err)
		}
		return v.See(page.IntegrationPath(o.ID))
	}
}

// changeRules saves what a change makes of the rules that hold now, whoever else saves some
// at the same time. It reports whether the change is in them: not where change says no.
func (s *Server) changeRules(v *page.Visit, o org.Organization, change func(*policy.Policy) bool) (is bool, err error) {
	for range 3 {
		var was, p policy.Policy
		if was, err = s.rulesOf(v, o); err != nil {
			return false, err
		}
		if p = was; !change(&p) {
			return false, nil
		}
		if policy.Same(&was, &p) {
			return true, nil
		}
		_, _, err = s.Store.SetPolicy(v.R.Context(), store.Rules{Organization: o.ID, Admin: v.Person.ID, Seen: was.Version, Policy: p}, s.Act(v))
		if !errors.Is(err, store.ErrChanged) {
			break
		}
	}
	return err == nil, page.Wrap("rules", err)
}

func connectionPath(organization string, id approval.ID) string {
	return page.IntegrationPath(organization) + "/" + id.String()
}
