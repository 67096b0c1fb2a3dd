package consent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// What a handler can refuse. Each is a page of its own copy in refused.html;
// every other error is ours, logged and told to nobody.
type (
	unknownClient struct{ why string }  // why is for the log: outsiders are told of one fault alone
	wrongRedirect struct{ sent string } // sent may be anything
	answered      struct{ apps string } // path of Connected apps
	tooMany       struct{ wait time.Duration }
	wrongMethod   struct{ allow string }
)

func (e unknownClient) Error() string { return "client " + e.why }
func (e wrongRedirect) Error() string { return "redirect URI is not a registered one" }
func (e answered) Error() string      { return "the page was answered and its code exchanged" }
func (e tooMany) Error() string       { return "too many requests" }
func (e wrongMethod) Error() string   { return "method not allowed" }

var (
	errNoPage   = errors.New("no such page")
	errForeign  = errors.New("the form came from another site")
	errBadForm  = errors.New("the form cannot be read")
	errTooLarge = errors.New("the form is too large")
	errStale    = errors.New("the form was shown to another session")
)

// unavailableFor is how long to wait when the database cannot answer: seconds.
const unavailableFor = "5"

// A refusedPage is any page that ends a visit here, without a way on.
type refusedPage struct {
	frame
	Why     string // which page
	Sent    string // not ours: the redirect URI that was sent
	Apps    string // path of Connected apps
	Minutes int    // to wait
	Asked   bool   // about an app, which is where the person can begin again
}

// fail answers an error with its page.
func (s *Server) fail(v *visit, err error) {
	if errors.Is(err, errSignIn) {
		path := v.here() // with its query: a filter is part of an address that people share
		switch {
		case path == "":
			path = "/" // what was asked for is not done unseen after signing in
		case len(path) > maxPath:
			path = v.r.URL.EscapedPath()
		}
		s.toSignIn(v, path)
		return
	}
	if e, ok := errors.AsType[notSignedIn](err); ok {
		if err = s.showOutside(v, e); err == nil {
			return
		}
	}
	status, p := refusedPageOf(v, err)
	if status >= 500 && !errors.Is(err, context.Canceled) { // else nobody is there any more
		s.Log.Error("request failed", "err", err, "request_id", v.reference())
	} else if e, ok := errors.AsType[unknownClient](err); ok {
		s.Log.Info("authorization refused", "verdict", e.Error(), "request_id", v.reference())
	}
	p.frame, p.Asked = s.frame(v, p.Title), v.r.URL.Path == "/oauth/authorize"
	if err := s.show(v, status, refusedTemplate, &p); err != nil {
		s.Log.Error("page failed", "err", err, "request_id", v.reference())
	}
}

func refusedPageOf(v *visit, err error) (int, refusedPage) {
	header := v.w.Header()
	cannot := frame{Title: "refused.app.short"}
	if e, ok := errors.AsType[tooMany](err); ok {
		header.Set("Retry-After", limit.RetryAfter(e.wait))
		return http.StatusTooManyRequests, refusedPage{frame: frame{Title: "refused.limit.short"}, Why: "limit", Minutes: minutes(e.wait)}
	}
	if e, ok := errors.AsType[wrongRedirect](err); ok {
		return http.StatusBadRequest, refusedPage{frame: cannot, Why: "redirect", Sent: e.sent}
	}
	if e, ok := errors.AsType[answered](err); ok {
		return http.StatusConflict, refusedPage{frame: frame{Title: "refused.answered.short"}, Why: "answered", Apps: e.apps}
	}
	if e, ok := errors.AsType[wrongMethod](err); ok {
		header.Set("Allow", e.allow)
		return http.StatusMethodNotAllowed, refusedPage{frame: frame{Title: "refused.method.short"}, Why: "method"}
	}
	_, unknown := errors.AsType[unknownClient](err)
	switch {
	case unknown:
		return http.StatusBadRequest, refusedPage{frame: cannot, Why: "client"}
	case errors.Is(err, errNoPage):
		return http.StatusNotFound, refusedPage{frame: frame{Title: "refused.missing.short"}, Why: "missing"}
	case errors.Is(err, errNoReset):
		return http.StatusNotFound, refusedPage{frame: frame{Title: "refused.reset.short"}, Why: "reset"}
	case errors.Is(err, errActing):
		return http.StatusForbidden, refusedPage{frame: frame{Title: "acting.short"}, Why: "acting"}
	case errors.Is(err, errForeign):
		return http.StatusForbidden, refusedPage{frame: frame{Title: "refused.short"}, Why: "foreign"}
	case errors.Is(err, errStale):
		return http.StatusForbidden, refusedPage{frame: frame{Title: "refused.short"}, Why: "stale"}
	case errors.Is(err, errBadForm):
		return http.StatusBadRequest, refusedPage{frame: frame{Title: "refused.short"}, Why: "form"}
	case errors.Is(err, errTooLarge):
		return http.StatusRequestEntityTooLarge, refusedPage{frame: frame{Title: "refused.short"}, Why: "large"}
	case errors.Is(err, store.ErrUnavailable):
		header.Set("Retry-After", unavailableFor)
		return http.StatusServiceUnavailable, refusedPage{frame: frame{Title: "refused.broken.short"}, Why: "broken"}
	}
	return http.StatusInternalServerError, refusedPage{frame: frame{Title: "refused.broken.short"}, Why: "broken"}
}

// mustWait says for how long, in words, where that is what an error says.
func (v *visit) mustWait(err error) string {
	e, ok := errors.AsType[tooMany](err)
	if !ok {
		return ""
	}
	v.w.Header().Set("Retry-After", limit.RetryAfter(e.wait))
	return v.words.say("signin.wait", "n", minutes(e.wait)).String()
}

// minutes is a wait as people are told it, rounded up.
func minutes(wait time.Duration) int {
	return max(1, int((wait+time.Minute-1)/time.Minute))
}

// wrap says what was being done when the store said no.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
