package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/grantkeeper/grantkeeper/operator"
)

// A change is what an operator is asked before it is carried out. Others wrote Name.
type change struct {
	Under               string   // tab
	Before, Name, After string   // the heading, with a name in it
	Lines               []string // what it does
	Fields              []field  // beside the reason
	Button, Keep        string
	Gentle              bool   // it ends nothing
	Back                string // path of who keeps it as it is

	// do carries it out, and gives where to go on to; "" when it has answered.
	do func(form url.Values, reason string) (to string, err error)
}

// A field is one of a change's form, beside the reason.
type field struct {
	ID, Label, Hint string
	Kind            string // text, email, password, check or lines
	Value           string // as it was sent
	Optional        bool
}

// An invalid refuses what was sent in one field, in a sentence.
type invalid struct{ field, text string }

func (e invalid) Error() string { return e.field + ": " + e.text }

// A changePage asks before a change.
type changePage struct {
	frame
	change
	CSRF   string
	Reason string
	Fault  string
	At     string // the field that the fault is in; "" is none
	Path   string
}

// showChange is GET of a change, and changeIt POST.
func showChange(f func(*Server, *visit) (change, error)) func(*Server, *visit) error {
	return func(s *Server, v *visit) error {
		c, err := f(s, v)
		if err != nil {
			return err
		}
		return s.askChange(v, http.StatusOK, changePage{change: c})
	}
}

func changeIt(f func(*Server, *visit) (change, error)) func(*Server, *visit) error {
	return func(s *Server, v *visit) error {
		c, err := f(s, v)
		if err != nil {
			return err
		}
		form, err := s.form(v)
		if err != nil {
			return err
		}
		for i := range c.Fields {
			c.Fields[i].Value = form.Get(c.Fields[i].ID)
		}
		p := changePage{change: c}
		if p.Reason, p.Fault = readReason(form); p.Fault != "" {
			p.At = "reason"
			return s.askChange(v, http.StatusUnprocessableEntity, p)
		}
		to, err := c.do(form, p.Reason)
		if bad, ok := errors.AsType[invalid](err); ok {
			p.Fault, p.At = bad.text, bad.field
			return s.askChange(v, http.StatusUnprocessableEntity, p)
		}
		if refused, ok := errors.AsType[*operator.Error](err); ok && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusConflict) {
			p.Fault = sentence(refused.Description)
			return s.askChange(v, refused.Status, p)
		}
		if err != nil || to == "" {
			return err
		}
		return v.redirect(to)
	}
}

// askChange shows what a change does, and asks for the reason. A password that was
// sent is not repeated.
func (s *Server) askChange(v *visit, status int, p changePage) error {
	title := p.Before + p.Name + p.After
	if p.Fault != "" {
		title = "Error: " + title
	}
	p.frame = s.frame(v, p.Under, title)
	p.CSRF, p.Path = s.formTag(v.Who.Session, v.URL.Path), v.URL.Path
	return s.render(v.w, status, changeTemplate, &p)
}
