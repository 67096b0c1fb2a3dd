package consent

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
)

// atAsked is the page of a request that an admin allow an app. It takes the parameters
// of /oauth/authorize, and the organization.
const atAsked = "/oauth/authorize/asked"

// Faults of asking an admin.
const (
	messageLong   grantset.Fault = "message_long"
	messageBroken grantset.Fault = "message_broken"
	askedTooMuch  grantset.Fault = "asked_too_much"
)

// askedPath leads to the page of a request in an organization.
func (a authorization) askedPath(organization string) string {
	_, query, _ := strings.Cut(a.path(), "?")
	return page.WithQuery(atAsked+"?"+query, "organization", organization)
}

// An askingPage offers to ask an admin. Every name in it, and what was written, is
// text that others wrote.
type askingPage struct {
	page.Frame
	App          page.App
	Registered   page.Moment
	LooksOurs    bool
	Request      string // sealed
	ID           string // of the organization
	Organization string
	Admins       bool // it has some: else nobody can allow it
	Message      string
	Faults       []shownFault
	Declined     *decider     // who declined it the last time
	Again        *page.Moment // from when it can be asked again
	Withdrawn    bool         // a request, just now
	Old          bool         // asks again because it was open for long
}

// Fault gives what is wrong with the message.
func (view *askingPage) Fault(group string) *shownFault { return faultOf(view.Faults, group) }

// An askedPage says who has the request. Names and the message are not ours.
type askedPage struct {
	page.Frame
	App          page.App
	Request      string // sealed
	ID           string // of the organization
	Organization string
	Admins       []string
	Message      string
	When         page.Moment
	Mailed       bool // people are mailed what was decided
}

// asked is GET /oauth/authorize/asked.
func (s *Server) asked(v *page.Visit) error {
	return s.requested(v, func(c client.Client, a authorization, p parameters) error {
		organization, _ := p.one("organization")
		q := s.newQuestion(v, a)
		at, err := s.rulingAt(v, c, q, organization)
		if err != nil {
			return err
		}
		if at.rule != policy.Ask {
			return v.See(a.path()) // which says what is so now
		}
		return s.showAsking(v, c, q, at, choices{}, showing{status: http.StatusOK})
	})
}

// rulingAt asks the rules of one organization where the person can approve; the zero
// ruling is of any other.
func (s *Server) rulingAt(v *page.Visit, c client.Client, p question, organization string) (ruling, error) {
	offers, err := s.Store.Offers(v.R.Context(), v.Person.ID)
	if err != nil {
		return ruling{}, page.Wrap("offers", err)
	}
	all, err := s.rulings(v, c, p.RedirectURI, eligible(offers))
	return rulingOf(all, organization), err
}

// showAsking shows the page that offers to ask an admin, or whoever has asked and
// waits, that page. Nothing is stored by looking.
func (s *Server) showAsking(v *page.Visit, c client.Client, p question, at ruling, chosen choices, how showing) error {
	r, err := s.Store.RequestOf(v.R.Context(), at.Organization.ID, v.Person.ID, client.HostsOf(c.ID, p.RedirectURI, c.Preregistered).App)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		return page.Wrap("request", err)
	case r.State == store.RequestOpen:
		return s.showAsked(v, c, p, at, r)
	}
	admins, err := s.admins(v, at.Organization.ID)
	if err != nil {
		return err
	}
	title := "asking.title"
	if len(how.faults) > 0 {
		title = "asking.error"
	}
	view := &askingPage{Frame: s.Frame(v, title), App: s.app(c, p.authorization), Registered: page.Ago(c.IssuedAt, v.Now),
		Request: s.sealQuestion(p), ID: at.Organization.ID, Organization: at.Organization.Name, Admins: len(admins) > 0, Message: chosen.message, Old: how.old}
	view.Slim = false
	view.Withdrawn = s.JustDone(v, sealedWithdrawn, v.R.URL.Query().Get("withdrawn")) != ""
	if view.LooksOurs, err = s.looksOurs(v, c, view.App.Host); err != nil {
		return err
	}
	if r.State == store.RequestDeclined && client.NameKey(r.Name) == client.NameKey(c.Name) {
		if err := s.declined(v, view, r); err != nil {
			return err
		}
	}
	view.say(v.Words, how.faults)
	view.Same, view.Instead = s.SealPath(p.askedPath(view.ID)), s.SealPath(p.path())
	return s.Show(v, how.status, askingTemplate, view)
}

// declined says who declined it the last time, and from when it can be asked again.
func (s *Server) declined(v *page.Visit, view *askingPage, r store.Request) error {
	d, err := s.decider(v, r.DecidedBy, view.Organization, r.Reason, r.DecidedAt)
	if err != nil {
		return err
	}
	view.Declined = &d
	if again := r.DecidedAt + int64(store.AskAgainAfter/time.Second); again >= v.Now.Unix() {
		view.Again = new(page.On(again+1, v.Now))
	}
	return nil
}

func (view *askingPage) say(w *page.Words, faults []grantset.Fault) {
	for _, f := range faults {
		switch f {
		case messageLong:
			view.Faults = append(view.Faults, shownFault{"message", w.Say("asking.long", "link", page.Href("#message"))})
		case messageBroken:
			view.Faults = append(view.Faults, shownFault{"message", w.Say("asking.broken", "link", page.Href("#message"))})
		case askedTooMuch:
			view.Faults = append(view.Faults, shownFault{"", w.Say("asking.full")})
		default:
			view.Faults = append(view.Faults, shownFault{"", w.Say("fault.impossible")})
		}
	}
}

// showAsked says who has the request. At one host one app is asked for at a time, and
// the page is of that one, whatever the client is called.
func (s *Server) showAsked(v *page.Visit, c client.Client, p question, at ruling, r store.Request) error {
	admins, err := s.admins(v, at.Organization.ID)
	if err != nil {
		return err
	}
	asked := c
	asked.Name = r.Name
	view := &askedPage{Frame: s.Frame(v, "asking.sent"), App: s.app(asked, p.authorization), Request: s.sealQuestion(p),
		ID: at.Organization.ID, Organization: at.Organization.Name, Admins: admins, Message: r.Message, When: page.At(r.AskedAt, v.Now), Mailed: s.Mails}
	view.Slim = false
	view.Same, view.Instead = s.SealPath(p.askedPath(view.ID)), s.SealPath(p.path())
	return s.Show(v, http.StatusOK, askedTemplate, view)
}

// askAdmin answers the page that offers to ask with yes.
func (s *Server) askAdmin(v *page.Visit, c client.Client, p question, form url.Values) error {
	chosen := readChoices(form)
	at, err := s.rulingAt(v, c, p, chosen.organization)
	if err != nil {
		return err
	}
	admins, err := s.admins(v, at.Organization.ID)
	if err != nil {
		return err
	}
	if at.rule != policy.Ask || len(admins) == 0 {
		return s.showConsent(v, c, p, chosen, showing{status: http.StatusOK})
	}
	message, fault := readMessage(chosen.message)
	if fault != "" {
		return s.showAsking(v, c, p, at, chosen, showing{status: http.StatusUnprocessableEntity, faults: []grantset.Fault{fault}})
	}
	_, _, err = s.Store.Ask(v.R.Context(), store.Asking{Organization: at.Organization.ID, Person: v.Person.ID, Client: c.ID,
		RedirectURI: p.RedirectURI, Message: message}, s.Act(v))
	switch {
	case err == nil:
		return v.See(p.askedPath(at.Organization.ID))
	case errors.Is(err, store.ErrDeclined):
		return s.showAsking(v, c, p, at, chosen, showing{status: http.StatusConflict})
	case errors.Is(err, store.ErrChanged), errors.Is(err, store.ErrAppRule):
		return v.See(p.path()) // the rules have changed: it says to what
	case errors.Is(err, store.ErrNotAllowed):
		return s.askAgain(v, c, p, form, []grantset.Fault{grantset.NotAllowed})
	case errors.Is(err, store.ErrFull):
		return s.showAsking(v, c, p, at, chosen, showing{status: http.StatusUnprocessableEntity, faults: []grantset.Fault{askedTooMuch}})
	case errors.Is(err, store.ErrNotFound):
		return unknownClient("gone while the page was open: " + c.ID)
	}
	return page.Wrap("ask", err)
}

// readMessage takes what a person wrote to the admins: text of some lines.
func readMessage(sent string) (string, grantset.Fault) {
	text := strings.TrimSpace(strings.ReplaceAll(sent, "\r\n", "\n"))
	switch {
	case !org.Legible(text, true):
		return "", messageBroken
	case utf8.RuneCountInString(text) > store.MaxMessage:
		return "", messageLong
	}
	return text, ""
}

// withdraw answers the page of a request by taking it back. Done twice, it is no error.
func (s *Server) withdraw(v *page.Visit, c client.Client, p question, organization string) error {
	ctx := v.R.Context()
	r, err := s.Store.RequestOf(ctx, organization, v.Person.ID, client.HostsOf(c.ID, p.RedirectURI, c.Preregistered).App)
	if err == nil && r.State == store.RequestOpen {
		_, err = s.Store.Withdraw(ctx, r.ID, v.Person.ID, s.Act(v))
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrChanged) {
		return page.Wrap("withdraw", err)
	}
	return v.See(page.WithQuery(p.askedPath(organization), "withdrawn", s.SealDone(v, sealedWithdrawn, organization)))
}
