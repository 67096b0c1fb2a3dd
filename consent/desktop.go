package consent

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Purposes of what is sealed: where a program waits for its code, and what its page
// hands on.
const (
	sealedHandover = "handover to a program"
	sealedAnswer   = "answer to a program"
)

// errHandover is of a request, or of an answer, that no program on this computer waits
// for any more, or never did.
var errHandover = page.Refusal{Status: http.StatusBadRequest, Why: "desktop", Titled: "refused.desktop.short"}

// askHandover is POST /oauth/desktop: a program on somebody's computer says where it
// waits, and gets the state that its authorization request has to have (decision A15).
// It is answered in JSON.
func (s *Server) askHandover(v *page.Visit) error {
	if page.Foreign(v) { // no page of anybody asks this
		return page.ErrForeign
	}
	form, err := page.ReadForm(v, page.OtherBytes, page.OtherFields)
	if err != nil {
		return err
	}
	answer, status := map[string]any{}, http.StatusOK
	if h, err := client.ParseHandover(form); err != nil {
		answer["error"], answer["error_description"], status = "invalid_request", err.Error(), http.StatusBadRequest
	} else {
		h.Issuer, h.Made = v.Base, v.Now.Unix()
		answer["state"], answer["expires_in"] = s.Seal(sealedHandover, h), int(client.HandoverLifetime.Seconds())
	}
	body, err := json.Marshal(answer)
	if err != nil {
		return page.Wrap("handover", err)
	}
	v.W.Header().Set("Content-Type", "application/json")
	v.W.WriteHeader(status)
	_, _ = v.W.Write(body) // the program may have gone
	return nil
}

// waits refuses a request of the desktop's client that no program waits for: what its
// state has sealed is of this request alone, bound to its issuer and challenge, and good
// as long as the program waits. Requests of others pass.
func (s *Server) waits(v *page.Visit, c client.Client, a authorization) error {
	if c.ID != client.DesktopID {
		return nil
	}
	var h client.Handover
	if !s.Open(sealedHandover, string(a.State), &h) || h.Issuer != v.Base || h.Over(v.Now) || h.Challenge != a.Challenge {
		return errHandover
	}
	return nil
}

// app is the client of a request as its pages show it.
func (s *Server) app(c client.Client, a authorization) page.App {
	app := page.NewApp(c, a.RedirectURI)
	var h client.Handover
	if app.Host.Desktop && s.Open(sealedHandover, string(a.State), &h) {
		app.Program = h.Program
		app.Host.Lead, app.Host.Domain, app.Host.Port = "", "127.0.0.1", ":"+strconv.Itoa(h.Port)
	}
	return app
}

// A desktopPage hands an answer on to the program that waits for it.
type desktopPage struct {
	page.Frame
	App    page.App
	Answer string // sealed; empty where nothing is to be handed on any more
	No     bool   // the answer is no code
}

// A brought answer is what the redirect URI of the desktop's client was asked with. It
// travels sealed through its page, which shows no code.
type brought struct {
	State string `json:"state"`
	Code  string `json:"code,omitempty"`
	Error string `json:"error,omitempty"`
}

// atPress is where the button of the page leads.
const atPress = client.DesktopPath + "/press"

// handOn is GET /oauth/desktop, the redirect URI of the desktop's client: it says where
// the answer goes, and the person presses. Nothing is handed on by itself, so that a
// link leads nobody's browser to a port of their computer.
func (s *Server) handOn(v *page.Visit) error {
	p := parseParameters(v.R.URL.RawQuery)
	var b brought
	b.State, _ = p.one("state")
	b.Code, _ = p.one("code")
	if b.Code == "" {
		b.Error, _ = p.one("error")
	}
	_, waits, err := s.handoverOf(v, b)
	if err != nil {
		return err
	}
	title := "desktop.short"
	if b.Error != "" {
		title = "desktop.no.short"
	}
	view := &desktopPage{Frame: s.Frame(v, title), No: b.Error != "",
		App: s.app(client.Desktop([]string{v.Base}), authorization{RedirectURI: v.Base + client.DesktopPath, State: []byte(b.State)})}
	if waits {
		view.Answer = s.Seal(sealedAnswer, b)
	}
	view.Account, view.Same, view.Zone = "", "", "" // where it leads is the one thing to do
	return s.Show(v, http.StatusOK, desktopTemplate, view)
}

// press is the answer to that page: it leads the browser to the program.
func (s *Server) press(v *page.Visit) error {
	form, err := s.Changing(v)
	if err != nil && !errors.Is(err, page.ErrSignIn) {
		return err
	}
	var b brought
	switch opened := s.Open(sealedAnswer, page.One(form, "answer"), &b); {
	case !opened:
		return page.ErrBadForm
	case err != nil: // the page is nothing without its answer
		return s.ToSignIn(v, page.WithQuery(client.DesktopPath, "state", b.State, "code", b.Code, "error", b.Error))
	}
	h, waits, err := s.handoverOf(v, b)
	if err != nil {
		return err
	}
	if !waits {
		return errHandover
	}
	answer := url.Values{"state": {b.State}, "iss": {v.Base}}
	if answer.Set("code", b.Code); b.Code == "" {
		answer.Del("code")
		answer.Set("error", b.Error)
	}
	return v.See(h.Address(answer))
}

// handoverOf finds where an answer goes, and whether the program still waits for it.
func (s *Server) handoverOf(v *page.Visit, b brought) (h client.Handover, waits bool, err error) {
	if !s.Open(sealedHandover, b.State, &h) || h.Issuer != v.Base {
		return h, false, errHandover
	}
	if b.Code == "" {
		if !slices.Contains([]string{"access_denied", "invalid_request", "unsupported_response_type", "invalid_scope", "invalid_target", "server_error"}, b.Error) {
			return h, false, errHandover
		}
		return h, !h.Over(v.Now), nil
	}
	done, err := s.checkCode(v, h, b.Code)
	if err == nil && !done && h.Over(v.Now) {
		err = errHandover
	}
	return h, !done, err
}

// checkCode finds whether a code is of the request that the program waits for, and was
// given to who is signed in here. done says that it has been exchanged.
func (s *Server) checkCode(v *page.Visit, h client.Handover, code string) (done bool, err error) {
	claim, ok := s.Ring.Read(token.Code, code)
	if !ok || !v.SignedIn() || v.Acting() {
		return false, errHandover
	}
	row, err := s.Store.Approval(v.R.Context(), approval.ID(claim.Handle.ID()))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return false, errHandover
	case err != nil:
		return false, page.Wrap("approval", err)
	case row.Client != client.DesktopID, row.Person != v.Person.ID, row.Phase == approval.Ended:
		return false, errHandover
	case row.Phase != approval.CodeIssued:
		return true, nil
	case row.Challenge != h.Challenge, row.Issuer != v.Base:
		return false, errHandover
	}
	return false, nil
}
