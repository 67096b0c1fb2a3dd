package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/operator"
)

// signInPath is where operators sign in by name.
const signInPath = "/signin"

// A signInPage asks an operator who they are.
type signInPage struct {
	frame
	Email  string // as it was typed
	Return string // path to go on to
	Fault  string
	Wrong  bool   // the fault is in the fields
	Done   string // out or ended
	CSRF   string

	Passwords bool // some operator has one
	Ways      []wayOut
}

// A wayOut leads to a provider.
type wayOut struct{ Name, Path string }

// handleSignIn puts into a mux what is open to everybody while operators have names.
func (s *Server) handleSignIn(mux *http.ServeMux) {
	for pattern, f := range map[string]func(*Server, *visit) error{
		"GET " + signInPath:                     (*Server).signInPage,
		"POST " + signInPath:                    (*Server).signIn,
		"GET " + signInPath + "/with/{way}":     (*Server).goAway,
		"GET " + signInPath + "/callback/{way}": (*Server).comeBack,
	} {
		mux.Handle(pattern, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			v := s.visit(w, r)
			if err := f(s, v); err != nil {
				s.refuse(w, v.Call, err)
			}
		}))
	}
}

// askSignIn leads who is not signed in to the page for that, and from there back.
func (s *Server) askSignIn(w http.ResponseWriter, c operator.Call) {
	values := url.Values{}
	if to := c.URL.RequestURI(); to != "/" && s.ownPath(to) {
		values.Set("return", to)
	}
	if c.Method != http.MethodGet && c.Method != http.MethodHead {
		values.Set("done", "ended")
	}
	to := signInPath
	if len(values) > 0 {
		to += "?" + values.Encode()
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

// ownPath reports whether a text is a page of the console, to go on to after a
// sign-in: nothing that a browser could take for another host.
func (s *Server) ownPath(text string) bool {
	if len(text) > 2000 || !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") ||
		strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f || c == '\\' }) {
		return false
	}
	u, err := url.Parse(text)
	if err != nil || u.Host != "" || u.Scheme != "" {
		return false
	}
	part, _, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	return u.Path == "/" || s.first[part] && part != "signin" && part != "signout"
}

// returnPath is where to go on to.
func (s *Server) returnPath(text string) string {
	if s.ownPath(text) {
		return text
	}
	return "/"
}

func (s *Server) signInPage(v *visit) error {
	q := v.URL.Query()
	to := s.returnPath(q.Get("return"))
	if _, ok, err := s.API.SignedIn(v.Request); err != nil || ok {
		if err != nil {
			return err
		}
		return v.redirect(to)
	}
	return s.showSignIn(v, http.StatusOK, signInPage{Return: to, Done: q.Get("done")})
}

// before is the cookie of a browser that is about to sign in; it is set where there
// is none.
func (s *Server) before(v *visit) string {
	value := s.API.Cookie(v.Request, operator.BeforeCookie)
	if value == "" {
		value = operator.NewCookie()
		s.API.SetCookie(v.w, v.Request, operator.BeforeCookie, value)
	}
	return value
}

func (s *Server) showSignIn(v *visit, status int, p signInPage) error {
	title := "Sign in"
	if p.Fault != "" {
		title = "Error: " + title
	}
	p.frame = s.bareFrame(v.Call, title)
	p.Slim, p.CSRF, p.Passwords = true, s.formTag(s.before(v), signInPath), s.API.HasPasswords()
	for _, way := range s.away(v.Request) {
		p.Ways = append(p.Ways, wayOut{way.Name, signInPath + "/with/" + way.ID + "?" + url.Values{"return": {p.Return}}.Encode()})
	}
	return s.render(v.w, status, signInTemplate, &p)
}

// signIn checks email and password. Nobody is told which of them was wrong.
func (s *Server) signIn(v *visit) error {
	form, err := s.sent(v)
	if err != nil {
		return err
	}
	p := signInPage{Email: form.Get("email"), Return: s.returnPath(form.Get("return"))}
	if before := s.API.Cookie(v.Request, operator.BeforeCookie); before == "" || !s.ours(before, signInPath, form.Get("csrf")) {
		p.Fault = "This page was open for too long, or cookies are off. Try again."
		return s.showSignIn(v, http.StatusUnprocessableEntity, p)
	}
	n, err := s.API.SignIn(v.Call, p.Email, form.Get("password"))
	if errors.Is(err, operator.ErrWrong) {
		p.Fault, p.Wrong = "The email or the password is not right.", true
		return s.showSignIn(v, http.StatusUnprocessableEntity, p)
	}
	if err == nil {
		err = s.API.Enter(v.w, v.Call, n, operator.ByPassword)
	}
	if err != nil {
		return err
	}
	return v.redirect(p.Return)
}

func (s *Server) signOut(v *visit) error {
	if _, err := s.form(v); err != nil {
		return err
	}
	if v.Who.Session == "" {
		return errNoPage // a password that the browser sends by itself
	}
	if err := s.API.Leave(v.w, v.Call); err != nil {
		return err
	}
	return v.redirect(signInPath + "?done=out")
}
