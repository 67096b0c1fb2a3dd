package orgadmin

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

const (
	requestsShown = 50 // cards on one page, those that wait longest
	decidedShown  = 50 // rows of what was decided, the last ones
)

// A requestsPage is what members ask an organization's admins for.
type requestsPage struct {
	adminHead
	Requests     []wanted
	MoreRequests bool
	Decided      []decidedRequest
}

// wanted is an app that somebody asks for. Names and messages are not ours.
type wanted struct {
	App       page.App
	LooksOurs bool   // warning W2 of the consent page
	First     wish   // who asked first
	Others    []wish // who asked after that
	Decline   string // path
	of        store.Request
}

type wish struct {
	ID, Person, Message string
	When                page.Moment
}

type decidedRequest struct {
	App            page.App
	Person, Reason string // not ours
	State          store.RequestState
	By             string // name; empty where it was no person
	On             page.Moment
	Lapsed         bool // it was allowed, and the rules do not allow it now
}

// waiting lists the apps that members ask for, the one that has waited longest first.
func (s *Server) waiting(v *page.Visit, o org.Organization) ([]wanted, error) {
	f := store.RequestFilter{Organization: o.ID, Limit: 1000}
	open, err := store.Collect(&f.After, func() ([]store.Request, string, error) { return s.Store.Requests(v.R.Context(), f) })
	if err != nil || len(open) == 0 {
		return nil, page.Wrap("requests", err)
	}
	known, _, err := s.Store.Clients(v.R.Context(), store.ClientFilter{State: "preregistered", Limit: 1000})
	if err != nil {
		return nil, page.Wrap("known clients", err)
	}
	var out []wanted
	place := map[[2]string]int{} // host and folded name: index in out
	for _, r := range slices.Backward(open) {
		one := wish{r.ID, cmp.Or(r.PersonName, r.Person), r.Message, page.At(r.AskedAt, v.Now)}
		key := [2]string{r.Host, client.NameKey(r.Name)}
		if i, ok := place[key]; ok {
			out[i].Others = append(out[i].Others, one)
			continue
		}
		place[key] = len(out)
		app := appAsked(r, known)
		out = append(out, wanted{App: app, First: one, of: r, Decline: page.IntegrationPath(o.ID) + "/requests/" + r.ID + "/decline",
			LooksOurs: page.LooksOurs(client.Client{Name: r.Name, Preregistered: app.Known}, app.Host, s.Service, known)})
	}
	return out, nil
}

// appAsked is the app of a request.
func appAsked(r store.Request, known []client.Client) page.App {
	ours := slices.ContainsFunc(known, func(c client.Client) bool { return c.ID == r.Client })
	return page.AppOf("", r.Name, "https://"+r.Host+"/", ours)
}

// requests is GET .../ai-integration/requests.
func (s *Server) requests(v *page.Visit, o org.Organization) error {
	h, err := s.adminHead(v, o, "requests", "requests.title")
	if err != nil {
		return err
	}
	view := &requestsPage{adminHead: h}
	if view.Requests, err = s.waiting(v, o); err != nil {
		return err
	}
	view.Waiting = len(view.Requests)
	view.Requests = view.Requests[:min(view.Waiting, requestsShown)]
	if view.Decided, err = s.decided(v, o); err != nil {
		return err
	}
	return s.Show(v, http.StatusOK, requestsTemplate, view)
}

// decided lists the last decisions.
func (s *Server) decided(v *page.Visit, o org.Organization) (out []decidedRequest, err error) {
	rows, _, err := s.Store.Requests(v.R.Context(), store.RequestFilter{Organization: o.ID, Decided: true, Limit: decidedShown})
	if err != nil {
		return nil, page.Wrap("requests", err)
	}
	p, err := s.rulesOf(v, o)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		one := decidedRequest{App: appAsked(r, nil), Person: cmp.Or(r.PersonName, r.Person), Reason: r.Reason, State: r.State, On: page.On(r.DecidedAt, v.Now)}
		if one.By, err = s.nameOfActor(v, r.DecidedBy); err != nil {
			return nil, err
		}
		if r.State != store.RequestDeclined {
			rule, _ := p.Decide(client.Hosts{App: r.Host}, r.Name, r.Person, s.isKnown(v, r))
			one.Lapsed = rule != policy.Allow
		}
		out = append(out, one)
	}
	return out, nil
}

// decideRequest is POST .../ai-integration/requests.
func (s *Server) decideRequest(v *page.Visit, o org.Organization, form url.Values) error {
	states := map[string]store.RequestState{"allow": store.RequestAllowed, "person": store.RequestAllowedPerson, "decline": store.RequestDeclined}
	decision := page.One(form, "decision")
	if decision == "undo" {
		return s.undo(v, o, page.One(form, "done"))
	}
	d := store.Decision{Organization: o.ID, Request: page.One(form, "request"), Admin: v.Person.ID, State: states[decision]}
	if decision == "decline" {
		d.Reason = strings.TrimSpace(page.One(form, "reason"))
		if fault := textFault(v, d.Reason, policy.MaxReason, false); fault != nil {
			return s.showDecline(v, o, d.Request, d.Reason, fault)
		}
	}
	if d.State == "" {
		return page.ErrBadForm
	}
	all, err := s.Store.DecideRequest(v.R.Context(), d, s.Act(v))
	back := page.IntegrationPath(o.ID) + "/requests"
	switch {
	case errors.Is(err, store.ErrChanged): // somebody else decided it, or this admin pressed twice
		r, err := s.Store.Request(v.R.Context(), o.ID, d.Request)
		if err == nil && r.DecidedBy == s.Act(v).Actor && r.State == d.State && r.Reason == d.Reason {
			return s.done(v, o, back, decision+":"+d.Request+":0")
		}
		return s.done(v, o, back, "first:"+d.Request)
	case errors.Is(err, policy.ErrFull):
		return s.done(v, o, back, "full:"+d.Request)
	case errors.Is(err, store.ErrRules): // nothing else is wrong with one more that allows
		return s.done(v, o, back, "blocked:"+d.Request)
	case errors.Is(err, store.ErrNotFound):
		return page.ErrNoPage
	case err != nil:
		return page.Wrap("request", err)
	}
	return s.done(v, o, back, decision+":"+d.Request+":"+strconv.Itoa(len(all)))
}

// requestDone says what became of a request. sealed is the note itself, by which it
// can be undone.
func (s *Server) requestDone(v *page.Visit, o org.Organization, what, of, sealed string) ([]told, error) {
	if what == "late" {
		return []told{{Looks: "warn", Says: v.Words.Say("requests.late")}}, nil
	}
	id, count, _ := strings.Cut(of, ":")
	r, err := s.Store.Request(v.R.Context(), o.ID, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, page.Wrap("request", err)
	}
	app, who := appAsked(r, nil), cmp.Or(r.PersonName, r.Person)
	say := func(id string, values ...any) page.Said { return v.Words.Say(id, append(values, "app", app)...) }
	t := told{Looks: "good"}
	switch what {
	case "allow":
		t.Says, t.Undo = say("requests.allowed", "organization", o.Name), sealed
	case "person":
		t.Says, t.Undo = say("requests.allowedone", "person", who), sealed
	case "decline":
		t.Says = say("requests.declined")
	case "undone":
		t.Says = say("requests.undone")
	case "notundone":
		t.Looks, t.Says = "warn", v.Words.Say("requests.notundone")
	case "blocked":
		t.Looks, t.Says = "bad", say("requests.blocked")
	case "full":
		t.Looks, t.Says = "bad", say("requests.full", "most", policy.MaxApps)
	default:
		t.Looks = "warn"
		t.Says, err = s.wasFirst(v, r, say)
		return []told{t}, err
	}
	if n, _ := strconv.Atoi(count); n > 0 && s.Mails {
		t.Says = append(append(t.Says, page.Part{Kind: "text", Text: " "}), v.Words.Say("requests.tell", "n", n)...)
	}
	return []told{t}, nil
}

// wasFirst says who decided a request before this admin.
func (s *Server) wasFirst(v *page.Visit, r store.Request, say func(string, ...any) page.Said) (page.Said, error) {
	by, err := s.nameOfActor(v, r.DecidedBy)
	switch when := page.At(r.DecidedAt, v.Now); {
	case err != nil || by == "" || r.State == store.RequestWithdrawn:
		return say("requests.first.gone"), err
	case r.State == store.RequestDeclined:
		return say("requests.first.declined", "person", by, "when", when), nil
	default:
		return say("requests.first.allowed", "person", by, "when", when), nil
	}
}

// undo takes back an approval that this admin has just made: the rule that it was goes,
// if nobody has changed it since. Where the app would be allowed all the same, admins
// are asked before. What members have connected stays.
func (s *Server) undo(v *page.Visit, o org.Organization, sealed string) error {
	what, of, _ := strings.Cut(s.JustDone(v, sealedAdmin+o.ID, sealed), ":")
	id, _, _ := strings.Cut(of, ":")
	back := page.IntegrationPath(o.ID) + "/requests"
	if what != "allow" && what != "person" {
		return s.done(v, o, back, "late:") // or another's
	}
	r, err := s.Store.Request(v.R.Context(), o.ID, id)
	if err != nil {
		return page.Wrap("request", err)
	}
	twice := false
	is, err := s.changeRules(v, o, func(p *policy.Policy) bool {
		twice = isBack(p, r)
		return takeBack(p, r, s.isKnown(v, r))
	})
	switch {
	case err != nil:
		return err
	case !is && !twice:
		return s.done(v, o, back, "notundone:"+id)
	}
	return s.done(v, o, back, "undone:"+id)
}

// ruleOf is the rule that came of a request, by what it is for.
func ruleOf(r store.Request) (of policy.App) {
	of = policy.App{Host: r.Host, Name: r.Name}
	if r.State == store.RequestAllowedPerson {
		of.Person = r.Person
	}
	return of
}

// isBack reports whether the rule that came of a request was taken back before: it is
// gone, or admins are asked in its place, as the same admin has it, whenever that was.
func isBack(p *policy.Policy, r store.Request) bool {
	of := ruleOf(r)
	return !slices.ContainsFunc(p.Apps, func(a policy.App) bool {
		return a.Key() == of.Key() && (a.Rule != policy.Ask || a.By != r.DecidedBy)
	})
}

// takeBack takes the rule out of others that came of a request; false where it is not
// there as it was made.
func takeBack(p *policy.Policy, r store.Request, known bool) bool {
	of := ruleOf(r)
	i := slices.IndexFunc(p.Apps, func(a policy.App) bool {
		return a.Key() == of.Key() && a.Rule == policy.Allow && a.By == r.DecidedBy && a.At == r.DecidedAt
	})
	if i < 0 {
		return false
	}
	was := p.Apps[i]
	p.Apps = slices.Delete(slices.Clone(p.Apps), i, i+1)
	if rule, _ := p.Decide(client.Hosts{App: r.Host}, r.Name, r.Person, known); rule == policy.Allow {
		was.Rule, was.Reason = policy.Ask, ""
		p.Apps = append(p.Apps, was)
	}
	return true
}

// isKnown reports whether the operator set up the client of a request. One that is gone
// is nobody's.
func (s *Server) isKnown(v *page.Visit, r store.Request) bool {
	c, err := s.Store.Client(v.R.Context(), r.Client)
	return err == nil && c.Preregistered
}

// A declinePage asks why.
type declinePage struct {
	page.Frame
	App     page.App // not ours
	Path    string
	Request string
	People  int // who asked for it
	Reason  string
	Fault   page.Said
}

// declinePage is GET .../ai-integration/requests/{request}/decline.
func (s *Server) declinePage(v *page.Visit, o org.Organization) error {
	return s.showDecline(v, o, v.R.PathValue("request"), "", nil)
}

func (s *Server) showDecline(v *page.Visit, o org.Organization, id, reason string, fault page.Said) error {
	all, err := s.waiting(v, o)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(all, func(a wanted) bool {
		return a.First.ID == id || slices.ContainsFunc(a.Others, func(o wish) bool { return o.ID == id })
	})
	if i < 0 {
		if _, err := s.Store.Request(v.R.Context(), o.ID, id); err == nil { // somebody else decided it
			return s.done(v, o, page.IntegrationPath(o.ID)+"/requests", "first:"+id)
		} else if errors.Is(err, store.ErrNotFound) {
			return page.ErrNoPage
		} else {
			return page.Wrap("request", err)
		}
	}
	title, status := "requests.declinetitle", http.StatusOK
	if fault != nil {
		title, status = "requests.declineerror", http.StatusUnprocessableEntity
	}
	view := &declinePage{Frame: s.Frame(v, title), App: all[i].App, Path: page.IntegrationPath(o.ID), Request: id,
		People: 1 + len(all[i].Others), Reason: reason, Fault: fault}
	view.Other = true
	return s.Show(v, status, declineTemplate, view)
}
