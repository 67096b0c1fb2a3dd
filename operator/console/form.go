package console

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// formSecret is what a form for a path is bound to: the path, so that the form of one
// change is none for another, and the cookie of whoever it was made for.
func formSecret(cookie, path string) string { return "console\x00" + cookie + "\x00" + path }

// formTag is what a form for a path carries, masked. A page of another site cannot
// know it. Every node takes that of a session; without one, it is of this process.
func (s *Server) formTag(cookie, path string) string {
	if cookie != "" && s.API.Ring != nil {
		return s.API.Ring.FormToken(formSecret(cookie, path))
	}
	return token.Mask(s.processTag(cookie, path))
}

// ours reports whether formTag gave a tag.
func (s *Server) ours(cookie, path, tag string) bool {
	if cookie != "" && s.API.Ring != nil {
		return s.API.Ring.CheckFormToken(formSecret(cookie, path), tag)
	}
	return token.Masks(s.processTag(cookie, path), tag)
}

func (s *Server) processTag(cookie, path string) []byte {
	mac := hmac.New(sha256.New, s.formKey[:])
	mac.Write([]byte(formSecret(cookie, path)))
	return mac.Sum(nil)[:16]
}

// errOldForm refuses a form without the tag of its page.
var errOldForm = &operator.Error{Status: http.StatusForbidden, Code: "old_form",
	Description: "This form was made before the server was started, before you signed in, or not by it. Open the page again."}

// form reads the form of a change.
func (s *Server) form(v *visit) (url.Values, error) {
	form, err := s.sent(v)
	if err == nil && !s.ours(v.Who.Session, v.URL.Path, form.Get("csrf")) {
		err = errOldForm
	}
	return form, err
}

// sent reads a form, whoever made it.
func (s *Server) sent(v *visit) (url.Values, error) {
	v.Body = http.MaxBytesReader(v.w, v.Body, operator.MaxBody)
	if err := v.ParseForm(); err != nil || v.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return nil, operator.BadRequest("the form cannot be read")
	}
	return v.PostForm, nil
}

// readReason gives the reason of a form, or what is wrong with it.
func readReason(form url.Values) (reason, fault string) {
	reason = strings.TrimSpace(strings.Join(strings.Fields(form.Get("reason")), " "))
	if reason == "" {
		return "", "Say why. It is kept in the event."
	}
	if operator.CheckReason(reason) != nil {
		return reason, "The reason is too long, or has control characters."
	}
	return reason, ""
}

// A confirmPage asks for a reason before a change.
type confirmPage struct {
	frame
	What         string // disable, enable or revoke
	Client       clientRow
	Reach        store.Reach
	Person       string // of an approval
	Organization string
	CSRF         string
	Reason       string
	Fault        string
	Path, Back   string
}

// confirm shows the confirmation of a change.
func (s *Server) confirm(v *visit, p confirmPage, tab, title string, status int) (err error) {
	if p.What == "disable" {
		if p.Reach, err = s.API.Store.ClientReach(v.Context(), p.Client.ID); err != nil {
			return err
		}
	}
	if p.Fault != "" {
		title = "Error: " + title
	}
	p.frame = s.frame(v, tab, title)
	p.CSRF = s.formTag(v.Who.Session, v.URL.Path)
	return s.render(v.w, status, confirmTemplate, &p)
}
