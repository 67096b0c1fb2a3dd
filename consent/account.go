package consent

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/org"
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
	frame
	Mail       string // of the account
	HasNone    bool   // there is no password to change: the person signs in elsewhere
	Sessions   []shownSession
	Others     bool // there are sessions beside this one
	WrongCodes int  // second factors that were wrong since the last right one
	WrongAt    moment
	Fault      string
	Wrong      string // which field the fault is in: current, new or again
	Done       string // what has just been done: password, session or sessions
}

type shownSession struct {
	End     string // path
	Began   moment
	Seen    moment
	Address string
	Current bool

	Browser, System string // what they are called; empty where not known
}

// accountPage is GET /account.
func (s *Server) accountPage(v *visit) error {
	if !v.signedIn() {
		return errSignIn
	}
	view := &accountPage{Done: s.justDone(v, sealedDone, v.r.URL.Query().Get("done"))}
	return s.showAccount(v, http.StatusOK, view)
}

func (s *Server) showAccount(v *visit, status int, view *accountPage) error {
	view.frame = s.frame(v, titleOf(view.Fault, "own.title", "own.error"))
	view.Slim, view.Other, view.Mail = false, true, v.person.Email
	_, stored, err := s.Store.Password(v.r.Context(), v.person.Email)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return wrap("password", err)
	}
	view.HasNone = stored == "" || s.Ways.NoPasswords
	sessions, err := s.Store.Sessions(v.r.Context(), v.person.ID, v.session)
	if err != nil {
		return wrap("sessions", err)
	}
	n, last, err := s.Store.WrongFactors(v.r.Context(), v.person.ID)
	if err != nil {
		return wrap("wrong factors", err)
	}
	view.WrongCodes, view.WrongAt = n, at(last, v.now)
	for _, i := range sessions {
		view.Others = view.Others || !i.Current
		view.Sessions = append(view.Sessions, shownSession{End: "/account/sessions/" + i.ID + "/end", Began: at(i.CreatedAt, v.now),
			Seen: at(i.SeenAt, v.now), Address: i.Address, Current: i.Current, Browser: i.Browser, System: i.System})
	}
	return s.show(v, status, accountTemplate, view)
}

// changePassword is POST /account/password. All other sessions end, and this
// one goes on under a new value; approvals stay (case A-10).
func (s *Server) changePassword(v *visit) error {
	form, err := s.changing(v)
	if err != nil {
		return err
	}
	if s.Ways.NoPasswords {
		return errNoPage // people have theirs elsewhere
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
	if view.Fault, view.Wrong = s.faultOfPassword(v, form, v.person); view.Fault != "" {
		return s.showAccount(v, http.StatusUnprocessableEntity, view)
	}
	_, stored, err := s.authenticate(v, v.person.Email, one(form, "current"))
	if err == nil && one(form, "current") == one(form, "new") {
		view.Fault, view.Wrong = v.words.say("password.same").String(), "new"
		return s.showAccount(v, http.StatusUnprocessableEntity, view)
	}
	hash, next := "", newCookie()
	if err == nil {
		hash, err = s.hash(v, one(form, "new"))
	}
	if err == nil {
		err = s.Store.ChangePassword(v.r.Context(), store.PasswordChange{Person: v.person.ID, Checked: stored, Hash: hash, Session: v.session, Next: next}, s.act(v))
	}
	if view.Fault = v.mustWait(err); view.Fault != "" {
		return s.showAccount(v, http.StatusTooManyRequests, view)
	}
	if errors.Is(err, errWrong) || errors.Is(err, store.ErrNotFound) { // another one by now
		view.Fault, view.Wrong = v.words.say("password.wrong").String(), "current"
		return s.showAccount(v, http.StatusUnprocessableEntity, view)
	} else if errors.Is(err, store.ErrNotAllowed) {
		return errSignIn // signed out meanwhile, elsewhere
	} else if err != nil {
		return wrap("change password", err)
	}
	setCookie(v, "session", next)
	return s.done(v, "password")
}

// hash makes the PHC string of a new password, when it is its turn.
func (s *Server) hash(v *visit, password string) (string, error) {
	if err := s.hasher.enter(v.r.Context()); errors.Is(err, errBusy) {
		return "", tooMany{time.Second}
	} else if err != nil {
		return "", wrap("waiting to hash", err)
	}
	defer s.hasher.leave()
	return Hash(password), nil
}

// faultOfPassword says what is wrong with a new password, and in which field.
func (s *Server) faultOfPassword(v *visit, form url.Values, p org.Person) (fault, field string) {
	id, field := s.wrongPassword(form, p)
	if id == "" {
		return "", ""
	}
	return v.words.say(id).String(), field
}

// wrongPassword gives the id of the message.
func (s *Server) wrongPassword(form url.Values, p org.Person) (id, field string) {
	password := one(form, "new")
	switch n := utf8.RuneCountInString(password); {
	case !utf8.ValidString(password) || strings.Contains(password, "\x00"):
		return "password.broken", "new"
	case n < minPassword:
		return "password.short", "new"
	case n > maxPassword:
		return "password.long", "new"
	case strings.EqualFold(password, p.Email), strings.EqualFold(password, p.Name), strings.EqualFold(password, s.Service),
		strings.Trim(password, string([]rune(password)[0])) == "":
		return "password.easy", "new"
	case password != one(form, "again"):
		return "password.differ", "again"
	}
	return "", ""
}

// endOthers is POST /account/sessions/end: all sessions of the person but this.
func (s *Server) endOthers(v *visit) error {
	return s.endSessions(v, "sessions", func(i store.SessionInfo) bool { return !i.Current })
}

// endOne is POST /account/sessions/{session}/end. One that has ended already,
// or is somebody else's, is not there to end: done twice, it is no error.
func (s *Server) endOne(v *visit) error {
	id := v.r.PathValue("session")
	return s.endSessions(v, "session", func(i store.SessionInfo) bool { return i.ID == id && !i.Current })
}

func (s *Server) endSessions(v *visit, done string, which func(store.SessionInfo) bool) error {
	if _, err := s.changing(v); err != nil {
		return err
	}
	if _, err := s.Store.EndSessions(v.r.Context(), v.person.ID, which, v.session, s.act(v)); err != nil {
		return wrap("end sessions", err)
	}
	return s.done(v, done)
}

// done goes back to the account, which says what is done.
func (s *Server) done(v *visit, what string) error {
	return v.see(withQuery("/account", "done", s.sealDone(v, sealedDone, what)))
}
