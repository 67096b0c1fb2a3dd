package signin

import (
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// A resetPage sets a new password by a link that an operator made, or that the
// person asked for. It signs nobody in: that takes the new password, and the
// second factor of whoever has one (decision S6).
type resetPage struct {
	page.Frame
	Mail  string // of the account
	Post  string // path
	Fault string
	Wrong string
	Set   bool // it is done

	Back   string // sealed: what the person was about to do who asked for the link
	SignIn string // path
}

// errNoReset is a link that is used, over, or was never made.
var errNoReset = page.Refusal{Status: http.StatusNotFound, Why: "reset", Titled: "refused.reset.short"}

// resetting gives the page of the path's link.
func (s *Server) resetting(v *page.Visit) (*resetPage, org.Person, error) {
	if s.NoPasswords {
		return nil, org.Person{}, errNoReset
	}
	p, err := s.Store.ResetOf(v.R.Context(), v.R.PathValue("secret"))
	if errors.Is(err, store.ErrNotFound) {
		return nil, p, errNoReset
	} else if err != nil {
		return nil, p, page.Wrap("reset link", err)
	}
	return &resetPage{Mail: p.Email, Post: v.R.URL.EscapedPath()}, p, nil
}

// resetPage is GET /reset/{secret}. Nothing is used up by looking: programs
// that read mail open links too.
func (s *Server) resetPage(v *page.Visit) error {
	view, _, err := s.resetting(v)
	if err != nil {
		return err
	}
	view.Back = v.R.URL.Query().Get("back")
	return s.showReset(v, http.StatusOK, view)
}

func (s *Server) showReset(v *page.Visit, status int, view *resetPage) error {
	title := page.TitleOf(view.Fault, "reset.title", "reset.error")
	if view.Set {
		title = "reset.short"
	}
	view.Frame = s.Frame(v, title)
	view.CSRF = s.Ring.FormToken(s.Before(v))
	view.SignIn = s.SignInPath(s.openForgotBack(v, view.Back))
	return s.Show(v, status, resetTemplate, view)
}

// reset is POST /reset/{secret}. The link is used up when the password is set,
// and not before; all sessions of the person end then.
func (s *Server) reset(v *page.Visit) error {
	form, err := page.Posted(v, page.OtherBytes, page.OtherFields)
	if err != nil {
		return err
	}
	view, p, err := s.resetting(v)
	if err != nil {
		return err
	}
	view.Back = page.One(form, "back")
	if !s.Own(v, page.One(form, "csrf")) {
		view.Fault = v.Words.Say("reset.elsewhere").String()
		return s.showReset(v, http.StatusUnprocessableEntity, view)
	}
	if view.Fault, view.Wrong = s.faultOfPassword(v, form, p); view.Fault != "" {
		return s.showReset(v, http.StatusUnprocessableEntity, view)
	}
	hash, err := s.hash(v, page.One(form, "new"))
	if err == nil {
		err = s.Store.Reset(v.R.Context(), v.R.PathValue("secret"), hash, s.ActBy(v, "person:"+p.ID))
	}
	switch view.Fault = v.MustWait(err); {
	case view.Fault != "":
		return s.showReset(v, http.StatusTooManyRequests, view)
	case errors.Is(err, store.ErrNotFound): // used in another tab meanwhile
		return errNoReset
	case err != nil:
		return page.Wrap("reset password", err)
	}
	view.Set = true
	if v.Person.ID == p.ID && !v.Acting() { // whose session has just ended
		forget(v)
		v.Session, v.Person = "", org.Person{}
	}
	return s.showReset(v, http.StatusOK, view)
}
