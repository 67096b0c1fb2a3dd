package consent

import (
	"errors"
	"net/http"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A resetPage sets a new password by a link that an operator made, or that the
// person asked for. It signs nobody in: that takes the new password, and the
// second factor of whoever has one (decision S6).
type resetPage struct {
	frame
	Mail  string // of the account
	Post  string // path
	Fault string
	Wrong string
	Set   bool // it is done

	Back   string // sealed: what the person was about to do who asked for the link
	SignIn string // path
}

// errNoReset is a link that is used, over, or was never made.
var errNoReset = errors.New("no such reset link")

// resetting gives the page of the path's link.
func (s *Server) resetting(v *visit) (*resetPage, org.Person, error) {
	if s.Ways.NoPasswords {
		return nil, org.Person{}, errNoReset
	}
	p, err := s.Store.ResetOf(v.r.Context(), v.r.PathValue("secret"))
	if errors.Is(err, store.ErrNotFound) {
		return nil, p, errNoReset
	} else if err != nil {
		return nil, p, wrap("reset link", err)
	}
	return &resetPage{Mail: p.Email, Post: v.r.URL.EscapedPath()}, p, nil
}

// resetPage is GET /reset/{secret}. Nothing is used up by looking: programs
// that read mail open links too.
func (s *Server) resetPage(v *visit) error {
	view, _, err := s.resetting(v)
	if err != nil {
		return err
	}
	view.Back = v.r.URL.Query().Get("back")
	return s.showReset(v, http.StatusOK, view)
}

func (s *Server) showReset(v *visit, status int, view *resetPage) error {
	title := titleOf(view.Fault, "reset.title", "reset.error")
	if view.Set {
		title = "reset.short"
	}
	view.frame = s.frame(v, title)
	view.CSRF = s.Ring.FormToken(s.before(v))
	view.SignIn = s.signInPath(s.openForgotBack(v, view.Back), true)
	return s.show(v, status, resetTemplate, view)
}

// reset is POST /reset/{secret}. The link is used up when the password is set,
// and not before; all sessions of the person end then.
func (s *Server) reset(v *visit) error {
	form, err := posted(v, otherBytes, otherFields)
	if err != nil {
		return err
	}
	view, p, err := s.resetting(v)
	if err != nil {
		return err
	}
	view.Back = one(form, "back")
	if !s.own(v, one(form, "csrf")) {
		view.Fault = v.words.say("reset.elsewhere").String()
		return s.showReset(v, http.StatusUnprocessableEntity, view)
	}
	if view.Fault, view.Wrong = s.faultOfPassword(v, form, p); view.Fault != "" {
		return s.showReset(v, http.StatusUnprocessableEntity, view)
	}
	hash, err := s.hash(v, one(form, "new"))
	if err == nil {
		err = s.Store.Reset(v.r.Context(), v.r.PathValue("secret"), hash, s.actBy(v, "person:"+p.ID))
	}
	switch view.Fault = v.mustWait(err); {
	case view.Fault != "":
		return s.showReset(v, http.StatusTooManyRequests, view)
	case errors.Is(err, store.ErrNotFound): // used in another tab meanwhile
		return errNoReset
	case err != nil:
		return wrap("reset password", err)
	}
	view.Set = true
	if v.person.ID == p.ID && !v.acting() { // whose session has just ended
		forget(v)
		v.session, v.person = "", org.Person{}
	}
	return s.showReset(v, http.StatusOK, view)
}
