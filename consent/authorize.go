package consent

import (
	"crypto/rand"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// ask is GET /oauth/authorize: the consent page, always, or the first reason
// why not, in the order of decisions A1 and A2.
func (s *Server) ask(v *page.Visit) error {
	return s.requested(v, func(c client.Client, a authorization, p parameters) error {
		chosen := s.openChoices(v, p)
		chosen.hint, _ = p.one("organization")
		return s.showConsent(v, c, s.newQuestion(v, a), chosen, showing{status: http.StatusOK})
	})
}

// requested answers an authorization request that is in order, of somebody who is
// there as themselves, with a page about it, and every other one as it deserves.
func (s *Server) requested(v *page.Visit, show func(client.Client, authorization, parameters) error) error {
	p := parseParameters(v.R.URL.RawQuery)
	id := p.client()
	redirectURI, _ := p.one("redirect_uri")
	c, err := s.clientOf(v, id, redirectURI, true)
	if err != nil {
		s.sawNoClient(v, id, redirectURI, p, err)
	}
	if errors.Is(err, errRedirect) {
		e := errRedirect
		e.Sent = p["redirect_uri"].first()
		return e
	} else if err != nil {
		return err
	}
	a, wrong := p.authorization(id, redirectURI, v.Base, s.Resources)
	if err := s.waits(v, c, a); err != nil {
		return err
	}
	if wrong == nil {
		s.sawRequest(v, c, a, p)
	}
	switch {
	case wrong != nil:
		s.sawFault(v, c, a, p, *wrong)
		return s.faulty(v, c, a, *wrong)
	case !v.SignedIn():
		return s.ToSignIn(v, a.path())
	case v.Acting():
		return s.showActing(v, c, s.newQuestion(v, a))
	}
	return show(c, a, p)
}

// errRedirect is of a request whose redirect URI is not a registered one.
var errRedirect = page.Refusal{Status: http.StatusBadRequest, Why: "redirect", Titled: "refused.app.short"}

// unknownClient says why to the log alone: outsiders are told of one fault.
func unknownClient(why string) error {
	return page.Refusal{Status: http.StatusBadRequest, Why: "client", Titled: "refused.app.short", Log: "client " + why}
}

// answered is of a page that was answered, and its code exchanged. apps is the path
// of Connected apps.
func answered(apps string) error {
	return page.Refusal{Status: http.StatusConflict, Why: "answered", Titled: "refused.answered.short", Apps: apps}
}

// client is clientOf, of a request that was looked at before.
func (s *Server) client(v *page.Visit, id, redirectURI string) (client.Client, error) {
	return s.clientOf(v, id, redirectURI, false)
}

// clientOf gives the client of a request and checks the redirect URI. Nothing
// else is looked at before (decision A1). Of one that has just arrived the client's
// metadata document is asked for, where it has one.
func (s *Server) clientOf(v *page.Visit, id, redirectURI string, arriving bool) (client.Client, error) {
	if id == "" {
		return client.Client{}, unknownClient("missing or malformed")
	}
	c, err := s.Store.Client(v.R.Context(), id)
	if client.IsURL(id) && (errors.Is(err, store.ErrNotFound) || err == nil && !c.Preregistered && !c.Disabled) {
		c, err = s.documented(v, id, c, arriving)
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return client.Client{}, unknownClient("unknown")
	case err != nil:
		return client.Client{}, page.Wrap("client", err)
	case c.Disabled:
		return client.Client{}, unknownClient("disabled: " + c.ID)
	}
	s.tell(v, c.ID, approval.ID{})
	if !c.HasRedirectURI(redirectURI) {
		return client.Client{}, errRedirect
	}
	return c, nil
}

// asks gives the app of an authorization request, by its path. What goes wrong
// here is found again by the request itself.
func (s *Server) asks(v *page.Visit, path string) *page.App {
	query, ok := strings.CutPrefix(path, "/oauth/authorize?")
	if !ok {
		return nil
	}
	p := parseParameters(query)
	id := p.client()
	redirectURI, _ := p.one("redirect_uri")
	c, err := s.client(v, id, redirectURI)
	if err != nil {
		return nil
	}
	state, _ := p.one("state")
	return new(s.app(c, authorization{RedirectURI: redirectURI, State: []byte(state)}))
}

// faulty answers a request whose client and redirect URI are right and
// something else is not. Only where the person knows the client does the
// browser go back by itself: a stranger's link never throws anybody to a
// stranger's address without a click (decision A2).
func (s *Server) faulty(v *page.Visit, c client.Client, a authorization, f fault) error {
	back := a.redirect("error", f.code, "error_description", f.description)
	if v.SignedIn() && !v.Acting() {
		knows := c.Preregistered
		if !knows {
			approved, err := s.Store.HasApproved(v.R.Context(), v.Person.ID, c.ID)
			if err != nil {
				return page.Wrap("approved before", err)
			}
			knows = approved
		}
		if knows {
			return v.See(back)
		}
	}
	return s.Show(v, http.StatusBadRequest, faultTemplate, &faultPage{
		Frame: s.Frame(v, "refused.app.short"),
		App:   s.app(c, a), Code: f.code, Description: f.description, Back: exactLink(back),
	})
}

// A faultPage names what is wrong with a request and offers the way back.
type faultPage struct {
	page.Frame
	App               page.App // not ours
	Code, Description string
	Back              template.HTMLAttr
}

// exactLink is the href of a link to a registered redirect URI. html/template
// would percent-encode some characters of it ('()), and a registered URI's
// bytes are never touched. The grammar of redirect URIs leaves nothing that
// could end the attribute, and what could is escaped here.
func exactLink(uri string) template.HTMLAttr {
	return template.HTMLAttr(`href="` + template.HTMLEscapeString(uri) + `"`)
}

func (p parameter) first() string {
	if len(p.values) == 0 {
		return ""
	}
	return p.values[0]
}

// newQuestion makes the page that asks this person.
func (s *Server) newQuestion(v *page.Visit, a authorization) question {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	return question{authorization: a, Person: v.Person.ID, Nonce: nonce, Made: v.Now.Unix(), Key: s.Ring.Sealing()}
}

// decide is POST /oauth/authorize: the answer to a consent page. What was
// asked it takes from the page's own sealed field, never from its address.
func (s *Server) decide(v *page.Visit) error {
	if page.Foreign(v) {
		s.refused(v, "", "foreign_origin")
		return page.ErrForeign
	}
	form, err := page.ReadForm(v, page.ChoiceBytes, page.ChoiceFields)
	if err != nil {
		return err
	}
	s.Speak(v, form)
	p, ok := s.openQuestion(page.One(form, "request"))
	if !ok || p.Issuer != v.Base {
		return page.ErrBadForm
	}
	if !v.SignedIn() {
		return s.ToSignIn(v, s.withChoices(p.path(), p.Person, form))
	}
	c, err := s.client(v, p.Client, p.RedirectURI)
	if err == nil {
		err = s.waits(v, c, p.authorization)
	}
	if err != nil {
		return err
	}
	switch {
	case v.Acting():
		return s.decideActing(v, c, p, form)
	case p.Person != v.Person.ID: // never for a person who did not see the page
		s.refused(v, c.ID, "other_person")
		return s.showConsent(v, c, s.newQuestion(v, p.authorization), choices{}, showing{status: http.StatusConflict, otherPerson: true})
	case !s.Ours(v, form): // of an earlier session, or of no page of ours
		s.refused(v, c.ID, "form_token")
		return s.showConsent(v, c, p, readChoices(form), showing{status: http.StatusForbidden, old: true})
	case page.One(form, "decision") == "cancel":
		return s.cancel(v, c, p)
	case page.One(form, "decision") == "withdraw":
		return s.withdraw(v, c, p, page.One(form, "organization"))
	case page.One(form, "decision") == "ask" && !form.Has("action") && !p.old(v.Now):
		return s.askAdmin(v, c, p, form)
	case !slices.Contains([]string{"approve", "ask"}, page.One(form, "decision")) || form.Has("action") || form.Has("bulk"):
		return s.showConsent(v, c, p, readChoices(form), showing{status: http.StatusOK})
	case p.old(v.Now):
		return s.showConsent(v, c, s.newQuestion(v, p.authorization), readChoices(form), showing{status: http.StatusOK, old: true})
	}
	return s.approve(v, c, p, form)
}

// approve answers a page with the choices of its form, checked against what
// this person may give away now.
func (s *Server) approve(v *page.Visit, c client.Client, p question, form url.Values) error {
	ctx := v.R.Context()
	offers, err := s.offers(v)
	if err != nil {
		return err
	}
	ruled, err := s.rulings(v, c, p.RedirectURI, eligible(offers))
	if err != nil {
		return err
	}
	at := rulingOf(ruled, page.One(form, "organization"))
	if at.rule == policy.Ask {
		return s.showConsent(v, c, p, readChoices(form), showing{status: http.StatusOK})
	}
	choice, faults := grantset.Parse(form, offers)
	faults = readChoices(form).explained(faults, offerOf(offers, at.Organization.ID))
	if at.rule == policy.Block {
		faults = []grantset.Fault{appBlocked}
	}
	days, fault := s.boundOf(at.Offer, at.policy).readEnd(form["ends"])
	if len(faults) == 0 && fault != "" {
		faults = append(faults, fault)
	}
	if !slices.Contains([]string{"", "1"}, strings.Join(form["replace"], " ")) {
		faults = append(faults, grantset.NotAllowed)
	}
	if len(faults) > 0 {
		return s.askAgain(v, c, p, form, faults)
	}
	if done, err := s.strengthen(v, c.ID, choice.Set.Kind, s.withChoices(p.path(), p.Person, form)); done {
		return err
	}
	handle, issued, err := s.Store.Approve(ctx, store.Answer{
		Handle: s.handleOf(p), Client: c.ID, Person: v.Person.ID, Organization: choice.Offer.Organization.ID,
		Grant: choice.Set, EndsAt: endsAt(days, v.Now), RedirectURI: p.RedirectURI, Issuer: p.Issuer, Challenge: p.Challenge,
		Replace: page.One(form, "replace") == "1", Bound: p.bindsTo(),
	}, s.Act(v))
	switch {
	case errors.Is(err, store.ErrAnswered):
		return answered(page.AppsPath(choice.Offer.Organization.ID))
	case errors.Is(err, store.ErrEndDate):
		return s.askAgain(v, c, p, form, []grantset.Fault{endUnknown})
	case errors.Is(err, store.ErrNotAllowed):
		return s.askAgain(v, c, p, form, []grantset.Fault{grantset.NotAllowed})
	case errors.Is(err, store.ErrNotFound):
		return unknownClient("gone while the page was open: " + c.ID)
	case err != nil:
		return page.Wrap("approve", err)
	}
	s.tell(v, "", approval.ID(handle.ID()))
	s.sawApproval(v, c, p, choice.Offer.Organization.ID, approval.ID(handle.ID()))
	return v.See(p.redirect("code", s.Ring.Code(handle, issued)))
}

// strengthen keeps an approval of everything, or of a whole organization, waiting
// until the person is who they are beyond doubt; path leads back to it, choices
// kept. done is false when nothing is in its way.
func (s *Server) strengthen(v *page.Visit, client string, kind grantset.Kind, path string) (done bool, err error) {
	if kind != grantset.Everything && kind != grantset.Organization {
		return false, nil
	}
	ask, err := s.SignIn.Stronger(v, path)
	if ask == nil {
		return err != nil, err
	}
	s.refused(v, client, "not_fresh")
	return true, ask()
}

// askAgain shows the page with what is wrong and everything that was chosen.
func (s *Server) askAgain(v *page.Visit, c client.Client, p question, form url.Values, faults []grantset.Fault) error {
	s.refusedFor(v, c.ID, faults)
	return s.showConsent(v, c, p, readChoices(form), showing{status: http.StatusUnprocessableEntity, faults: faults})
}

// cancel answers a page with no. It ends what an earlier Approve on the same
// page made, unless that was exchanged (decision A12).
func (s *Server) cancel(v *page.Visit, c client.Client, p question) error {
	err := s.Store.Cancel(v.R.Context(), store.Cancelled{Handle: s.handleOf(p), Client: c.ID, Person: v.Person.ID}, s.Act(v))
	switch {
	case errors.Is(err, store.ErrAnswered):
		return answered("/")
	case err != nil:
		return page.Wrap("cancel", err)
	}
	s.sawAt(v, c, p, "", attempt.Cancelled)
	return v.See(p.redirect("error", "access_denied", "error_description", "The person did not approve."))
}

// eligible leaves the organizations where something can be approved.
func eligible(offers []grantset.Offer) []grantset.Offer {
	return slices.DeleteFunc(slices.Clone(offers), func(o grantset.Offer) bool { return !o.Eligible() })
}

// An actingPage says to support staff that only the person can approve (ux 6,
// E3).
type actingPage struct {
	page.Frame
	App     page.App // not ours
	Request string
}

// showActing is E3, and an event. p asks about the request again, once support
// staff are themselves.
func (s *Server) showActing(v *page.Visit, c client.Client, p question) error {
	s.refused(v, c.ID, "impersonating")
	s.sawAt(v, c, p, "", attempt.ActingAs)
	p.Person = "" // what staff read here makes no choices that the person would find made
	view := &actingPage{Frame: s.Frame(v, "acting.short"), App: s.app(c, p.authorization), Request: s.sealQuestion(p)}
	view.Stops = false // the page has its own button
	view.Instead = s.SealPath(p.path())
	return s.Show(v, http.StatusForbidden, actingTemplate, view)
}

// decideActing answers a consent page that support staff post while they act
// as somebody: they can go back to themselves, or cancel.
func (s *Server) decideActing(v *page.Visit, c client.Client, p question, form url.Values) error {
	p = s.newQuestion(v, p.authorization) // whoever it was made for: what that page made stays
	switch ours := s.Ours(v, form); {
	case ours && page.One(form, "action") == "stop_impersonating":
		if err := s.SignIn.BeThemselves(v); err != nil {
			return err
		}
		if !v.SignedIn() {
			return v.See(s.SignIn.SignInPath(s.SealPath(p.path())))
		}
		return v.See(p.path())
	case ours && page.One(form, "decision") == "cancel":
		return s.cancel(v, c, p)
	}
	return s.showActing(v, c, p)
}

// visible leaves the organizations that a visit shows: support staff see the
// one that they act in.
func visible(v *page.Visit, offers []grantset.Offer) []grantset.Offer {
	if !v.Acting() || v.ActsElsewhere() {
		return offers
	}
	return slices.DeleteFunc(offers, func(o grantset.Offer) bool { return o.Organization.ID != v.ActingIn })
}
