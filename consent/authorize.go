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
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
)

// ask is GET /oauth/authorize: the consent page, always, or the first reason
// why not, in the order of decisions A1 and A2.
func (s *Server) ask(v *visit) error {
	p := parseParameters(v.r.URL.RawQuery)
	id, _ := p.client()
	redirectURI, _ := p.one("redirect_uri")
	c, err := s.client(v, id, redirectURI)
	if e, ok := errors.AsType[wrongRedirect](err); ok {
		e.sent = p["redirect_uri"].first()
		return e
	} else if err != nil {
		return err
	}
	a, wrong := p.authorization(id, redirectURI, v.base)
	switch {
	case wrong != nil:
		return s.faulty(v, c, a, *wrong)
	case !v.signedIn():
		return s.toSignIn(v, a.path())
	case v.acting():
		return s.showActing(v, c, s.newPage(v, a))
	}
	chosen := s.openChoices(v, p)
	chosen.hint, _ = p.one("organization")
	return s.showConsent(v, c, s.newPage(v, a), chosen, showing{status: http.StatusOK})
}

// client gives the client of a request and checks the redirect URI. Nothing
// else is looked at before (decision A1).
func (s *Server) client(v *visit, id, redirectURI string) (client.Client, error) {
	if id == "" {
		return client.Client{}, unknownClient{"missing or malformed"}
	}
	c, err := s.Store.Client(v.r.Context(), id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return client.Client{}, unknownClient{"unknown"}
	case err != nil:
		return client.Client{}, wrap("client", err)
	case c.Disabled:
		return client.Client{}, unknownClient{"disabled: " + c.ID}
	}
	s.tell(v, c.ID, approval.ID{})
	if !c.HasRedirectURI(redirectURI) {
		return client.Client{}, wrongRedirect{}
	}
	return c, nil
}

// faulty answers a request whose client and redirect URI are right and
// something else is not. Only where the person knows the client does the
// browser go back by itself: a stranger's link never throws anybody to a
// stranger's address without a click (decision A2).
func (s *Server) faulty(v *visit, c client.Client, a authorization, f fault) error {
	back := a.redirect("error", f.code, "error_description", f.description)
	if v.signedIn() && !v.acting() {
		knows := c.Preregistered
		if !knows {
			approved, err := s.Store.HasApproved(v.r.Context(), v.person.ID, c.ID)
			if err != nil {
				return wrap("approved before", err)
			}
			knows = approved
		}
		if knows {
			return v.see(back)
		}
	}
	return s.show(v, http.StatusBadRequest, faultTemplate, &faultPage{
		frame: s.frame(v, "refused.app.short"),
		App:   newApp(c, a.RedirectURI), Code: f.code, Description: f.description, Back: exactLink(back),
	})
}

// A faultPage names what is wrong with a request and offers the way back.
type faultPage struct {
	frame
	App               app // not ours
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

// newPage makes the page that asks this person.
func (s *Server) newPage(v *visit, a authorization) page {
	nonce := make([]byte, 16)
	rand.Read(nonce)
	return page{authorization: a, Person: v.person.ID, Nonce: nonce, Made: v.now.Unix(), Key: s.Ring.Sealing()}
}

// decide is POST /oauth/authorize: the answer to a consent page. What was
// asked it takes from the page's own sealed field, never from its address.
func (s *Server) decide(v *visit) error {
	if foreign(v) {
		s.refused(v, "", "foreign_origin")
		return errForeign
	}
	form, err := readForm(v, consentBytes, consentFields)
	if err != nil {
		return err
	}
	s.speak(v, form)
	p, ok := s.openPage(one(form, "request"))
	if !ok || p.Issuer != v.base {
		return errBadForm
	}
	if !v.signedIn() {
		return s.toSignIn(v, s.withChoices(p.path(), p.Person, form))
	}
	c, err := s.client(v, p.Client, p.RedirectURI)
	if err != nil {
		return err
	}
	switch {
	case v.acting():
		return s.decideActing(v, c, p, form)
	case p.Person != v.person.ID: // never for a person who did not see the page
		s.refused(v, c.ID, "other_person")
		return s.showConsent(v, c, s.newPage(v, p.authorization), choices{}, showing{status: http.StatusConflict, otherPerson: true})
	case !s.ours(v, form): // of an earlier session, or of no page of ours
		s.refused(v, c.ID, "form_token")
		return s.showConsent(v, c, p, readChoices(form), showing{status: http.StatusForbidden, old: true})
	case one(form, "decision") == "cancel":
		return s.cancel(v, c, p)
	case one(form, "decision") != "approve" || form.Has("action") || form.Has("bulk"):
		return s.showConsent(v, c, p, readChoices(form), showing{status: http.StatusOK})
	case p.old(v.now):
		return s.showConsent(v, c, s.newPage(v, p.authorization), readChoices(form), showing{status: http.StatusOK, old: true})
	}
	return s.approve(v, c, p, form)
}

// approve answers a page with the choices of its form, checked against what
// this person may give away now.
func (s *Server) approve(v *visit, c client.Client, p page, form url.Values) error {
	ctx := v.r.Context()
	offers, err := s.Store.Offers(ctx, v.person.ID)
	if err != nil {
		return wrap("offers", err)
	}
	choice, faults := grantset.Parse(form, offers)
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
		Handle: s.handleOf(p), Client: c.ID, Person: v.person.ID, Organization: choice.Offer.Organization.ID,
		Grant: choice.Set, RedirectURI: p.RedirectURI, Issuer: p.Issuer, Challenge: p.Challenge,
		Replace: one(form, "replace") == "1",
	}, s.act(v))
	switch {
	case errors.Is(err, store.ErrAnswered):
		return answered{appsPath(choice.Offer.Organization.ID)}
	case errors.Is(err, store.ErrNotAllowed):
		return s.askAgain(v, c, p, form, []grantset.Fault{grantset.NotAllowed})
	case errors.Is(err, store.ErrNotFound):
		return unknownClient{"gone while the page was open: " + c.ID}
	case err != nil:
		return wrap("approve", err)
	}
	s.tell(v, "", approval.ID(handle.ID()))
	return v.see(p.redirect("code", s.Ring.Code(handle, issued)))
}

// askAgain shows the page with what is wrong and everything that was chosen.
func (s *Server) askAgain(v *visit, c client.Client, p page, form url.Values, faults []grantset.Fault) error {
	s.refusedFor(v, c.ID, faults)
	return s.showConsent(v, c, p, readChoices(form), showing{status: http.StatusUnprocessableEntity, faults: faults})
}

// cancel answers a page with no. It ends what an earlier Approve on the same
// page made, unless that was exchanged (decision A12).
func (s *Server) cancel(v *visit, c client.Client, p page) error {
	err := s.Store.Cancel(v.r.Context(), store.Cancelled{Handle: s.handleOf(p), Client: c.ID, Person: v.person.ID}, s.act(v))
	switch {
	case errors.Is(err, store.ErrAnswered):
		return answered{"/"}
	case err != nil:
		return wrap("cancel", err)
	}
	return v.see(p.redirect("error", "access_denied", "error_description", "The person did not approve."))
}

// toSignIn sends the browser to sign in and then to a path of this server.
func (s *Server) toSignIn(v *visit, path string) error {
	return v.see("/signin?return=" + s.sealPath(path))
}

// eligible leaves the organizations where something can be approved.
func eligible(offers []grantset.Offer) []grantset.Offer {
	return slices.DeleteFunc(slices.Clone(offers), func(o grantset.Offer) bool { return !o.Eligible() })
}
