package signin

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/store"
)

// Lengths of a new password, in characters. There is no rule of what it is
// made of; all may be pasted (NIST SP 800-63B section 3.1.1.2).
const (
	minPassword = 12
	maxPassword = 200
)

// An accountPage is where a person changes the password, and sees and ends
// sessions.
type accountPage struct {
	page.Frame
	Mail       string // of the account
	HasNone    bool   // there is no password to change: the person signs in elsewhere
	Sessions   []shownSession
	Others     bool // there are sessions beside this one
	WrongCodes int  // second factors that were wrong since the last right one
	WrongAt    page.Moment
	Fault      string
	Wrong      string // which field the fault is in: current, new or again
	Done       string // what has just been done: password, session or sessions
}

type shownSession struct {
	End     string // path
	Began   page.Moment
	Seen    page.Moment
	Address string
	Current bool

	Browser, System string // what they are called; empty where not known
}

// accountPage is GET /account.
func (s *Server) accountPage(v *page.Visit) error {
	if !v.SignedIn() {
		return page.ErrSignIn
	}
	view := &accountPage{Done: s.JustDone(v, sealedDone, v.R.URL.Query().Get("done"))}
	return s.showAccount(v, http.StatusOK, view)
}

func (s *Server) showAccount(v *page.Visit, status int, view *accountPage) error {
	view.Frame = s.Frame(v, page.TitleOf(view.Fault, "own.title", "own.error"))
	view.Slim, view.Other, view.Mail = false, true, v.Person.Email
	_, stored, err := s.Store.Password(v.R.Context(), v.Person.Email)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return page.Wrap("password", err)
	}
	view.HasNone = stored == "" || s.NoPasswords
	sessions, err := s.Store.Sessions(v.R.Context(), v.Person.ID, v.Session)
	if err != nil {
		return page.Wrap("sessions", err)
	}
	n, last, err := s.Store.WrongFactors(v.R.Context(), v.Person.ID)
	if err != nil {
		return page.Wrap("wrong factors", err)
	}
	view.WrongCodes, view.WrongAt = n, page.At(last, v.Now)
	for _, i := range sessions {
		view.Others = view.Others || !i.Current
		view.Sessions = append(view.Sessions, shownSession{End: "/account/sessions/" + i.ID + "/end", Began: page.At(i.CreatedAt, v.Now),
			Seen: page.At(i.SeenAt, v.Now), Address: i.Address, Current: i.Current, Browser: i.Browser, System: i.System})
	}
	return s.Show(v, status, accountTemplate, view)
}

// changePassword is POST /account/password. All other sessions end, and this
// one goes on under a new value; approvals stay (case A-10).
func (s *Server) changePassword(v *page.Visit) error {
	form, err := s.Changing(v)
	if err != nil {
		return err
	}
	if s.NoPasswords {
		return page.ErrNoPage // people have theirs elsewhere
	}
	// The form has the password: what is asked for beside it is the second factor.
	if _, hasFactor, err := s.proved(v); err != nil {
		return err
	} else if hasFactor {
		if may, err := s.mayChangeSignIn(v, "/account"); !may {
			return err
		}
	}
	view := &accountPage{}
	if view.Fault, view.Wrong = s.faultOfPassword(v, form, v.Person); view.Fault != "" {
		return s.showAccount(v, http.StatusUnprocessableEntity, view)
	}
	_, stored, err := s.authenticate(v, v.Person.Email, page.One(form, "current"))
	if err == nil && page.One(form, "current") == page.One(form, "new") {
		view.Fault, view.Wrong = v.Words.Say("password.same").String(), "new"
		return s.showAccount(v, http.StatusUnprocessableEntity, view)
	}
	hash, next := "", page.NewCookie()
	if err == nil {
		hash, err = s.hash(v, page.One(form, "new"))
	}
	if err == nil {
		err = s.Store.ChangePassword(v.R.Context(), store.PasswordChange{Person: v.Person.ID, Checked: stored, Hash: hash, Session: v.Session, Next: next}, s.Act(v))
	}
	if view.Fault = v.MustWait(err); view.Fault != "" {
		return s.showAccount(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) || errors.Is(err, store.ErrNotFound) { // another one by now
		view.Fault, view.Wrong = v.Words.Say("password.wrong").String(), "current"
		return s.showAccount(v, http.StatusUnprocessableEntity, view)
	} else if errors.Is(err, store.ErrNotAllowed) {
		return s.toAgain(v, "/account") // signed out elsewhere meanwhile, or a factor was added
	} else if err != nil {
		return page.Wrap("change password", err)
	}
	page.SetCookie(v, "session", next)
	return s.done(v, "password")
}

// hash makes the PHC string of a new password, when it is its turn.
func (s *Server) hash(v *page.Visit, password string) (string, error) {
	if err := s.hasher.enter(v.R.Context()); errors.Is(err, errBusy) {
		return "", page.TooMany{Wait: time.Second}
	} else if err != nil {
		return "", page.Wrap("waiting to hash", err)
	}
	defer s.hasher.leave()
	return Hash(password), nil
}

// faultOfPassword says what is wrong with a new password, and in which field.
func (s *Server) faultOfPassword(v *page.Visit, form url.Values, p org.Person) (fault, field string) {
	id, field := s.wrongPassword(form, p)
	if id == "" {
		return "", ""
	}
	return v.Words.Say(id).String(), field
}

// wrongPassword gives the id of the message.
func (s *Server) wrongPassword(form url.Values, p org.Person) (id, field string) {
	password := page.One(form, "new")
	switch n := utf8.RuneCountInString(password); {
	case !org.Storable(password):
		return "password.broken", "new"
	case n < minPassword:
		return "password.short", "new"
	case n > maxPassword:
		return "password.long", "new"
	case strings.EqualFold(password, p.Email), strings.EqualFold(password, p.Name), strings.EqualFold(password, s.Service),
		strings.Trim(password, string([]rune(password)[0])) == "":
		return "password.easy", "new"
	case password != page.One(form, "again"):
		return "password.differ", "again"
	}
	return "", ""
}

// endOthers is POST /account/sessions/end: all sessions of the person but this.
func (s *Server) endOthers(v *page.Visit) error {
	return s.endSessions(v, "sessions", func(i store.SessionInfo) bool { return !i.Current })
}

// endOne is POST /account/sessions/{session}/end. One that has ended already,
// or is somebody else's, is not there to end: done twice, it is no error.
func (s *Server) endOne(v *page.Visit) error {
	id := v.R.PathValue("session")
	return s.endSessions(v, "session", func(i store.SessionInfo) bool { return i.ID == id && !i.Current })
}

func (s *Server) endSessions(v *page.Visit, done string, which func(store.SessionInfo) bool) error {
	if _, err := s.Changing(v); err != nil {
		return err
	}
	if _, err := s.Store.EndSessions(v.R.Context(), v.Person.ID, which, v.Session, s.Act(v)); err != nil {
		return page.Wrap("end sessions", err)
	}
	return s.done(v, done)
}

// done goes back to the account, which says what is done.
func (s *Server) done(v *page.Visit, what string) error {
	return v.See(page.WithQuery("/account", "done", s.SealDone(v, sealedDone, what)))
}
