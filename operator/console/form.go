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

// formTag is what a form for a path carries, masked. A page of another site
// cannot know it, and the form of one change is none for another.
func (s *Server) formTag(path string) []byte {
	mac := hmac.New(sha256.New, s.formKey[:])
	mac.Write([]byte(path))
	return mac.Sum(nil)[:16]
}

// errOldForm refuses a form without the tag that this process gives it.
var errOldForm = &operator.Error{Status: http.StatusForbidden, Code: "old_form",
	Description: "This form was made before the server was started, or not by it. Open the page again."}

// form reads the form of a change.
func (s *Server) form(v *visit) (url.Values, error) {
	v.Body = http.MaxBytesReader(v.w, v.Body, operator.MaxBody)
	if err := v.ParseForm(); err != nil || v.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return nil, operator.BadRequest("the form cannot be read")
	}
	if !token.Masks(s.formTag(v.URL.Path), v.PostForm.Get("csrf")) {
		return nil, errOldForm
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
	p.CSRF = token.Mask(s.formTag(v.URL.Path))
	return s.render(v.w, status, confirmTemplate, &p)
}
