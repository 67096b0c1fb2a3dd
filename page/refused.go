package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
)

// A Refusal is an error with a page of its own, in refused.html. Every other
// error is ours, logged and told to nobody.
type Refusal struct {
	Status int
	Why    string // which page
	Titled string // ID of the message that is its title
	Log    string // what the log says of an authorization: outsiders are told less
	Sent   string // not ours: the redirect URI that was sent
	At     Host   // not ours: of a client's metadata document
	Apps   string // path of Connected apps
}

func (e Refusal) Error() string { return cmp.Or(e.Log, "refused: "+e.Why) }

// TooMany is a refusal for some time.
type TooMany struct{ Wait time.Duration }

func (e TooMany) Error() string { return "too many requests" }

var (
	ErrNoPage   = Refusal{Status: http.StatusNotFound, Why: "missing", Titled: "refused.missing.short"}
	errMethod   = Refusal{Status: http.StatusMethodNotAllowed, Why: "method", Titled: "refused.method.short"}
	ErrForeign  = Refusal{Status: http.StatusForbidden, Why: "foreign", Titled: "refused.short"}           // from another site
	ErrStale    = Refusal{Status: http.StatusForbidden, Why: "stale", Titled: "refused.short"}             // shown to another session
	ErrBadForm  = Refusal{Status: http.StatusBadRequest, Why: "form", Titled: "refused.short"}             // cannot be read
	errTooLarge = Refusal{Status: http.StatusRequestEntityTooLarge, Why: "large", Titled: "refused.short"} // of a form
)

// ErrSignIn says that somebody has to sign in first.
var ErrSignIn = errors.New("nobody is signed in")

// UnavailableFor is how long to wait when the database cannot answer: seconds.
const UnavailableFor = "5"

// A refusedPage is any page that ends a visit here, without a way on.
type refusedPage struct {
	Frame
	Refusal
	Minutes int  // to wait
	Asked   bool // about an app, which is where the person can begin again
}

// Fail answers an error with its page.
func (s *Site) Fail(v *Visit, err error) {
	if errors.Is(err, ErrSignIn) {
		path := v.here() // with its query: a filter is part of an address that people share
		switch {
		case path == "":
			path = s.nearest(v.R.Pattern, v.R.URL.EscapedPath()) // what was asked for is not done unseen after signing in
		case len(path) > MaxPath:
			path = v.R.URL.EscapedPath()
		}
		s.ToSignIn(v, path)
		return
	}
	p := refusedPage{Refusal: refusalOf(v, err), Asked: v.R.URL.Path == "/oauth/authorize"}
	if e, ok := errors.AsType[TooMany](err); ok {
		p.Minutes = minutes(e.Wait)
	}
	if p.Status >= 500 && !errors.Is(err, context.Canceled) { // else nobody is there any more
		s.Log.Error("request failed", "err", err, "request_id", v.Reference())
	} else if p.Log != "" {
		s.Log.Info("authorization refused", "verdict", p.Log, "request_id", v.Reference())
	}
	p.Frame = s.Frame(v, p.Titled)
	if err := s.Show(v, p.Status, refusedTemplate, &p); err != nil {
		s.Log.Error("page failed", "err", err, "request_id", v.Reference())
	}
}

func refusalOf(v *Visit, err error) Refusal {
	if e, ok := errors.AsType[Refusal](err); ok {
		return e
	}
	if e, ok := errors.AsType[TooMany](err); ok {
		v.W.Header().Set("Retry-After", limit.RetryAfter(e.Wait))
		return Refusal{Status: http.StatusTooManyRequests, Why: "limit", Titled: "refused.limit.short"}
	}
	status := http.StatusInternalServerError
	if errors.Is(err, store.ErrUnavailable) {
		v.W.Header().Set("Retry-After", UnavailableFor)
		status = http.StatusServiceUnavailable
	}
	return Refusal{Status: status, Why: "broken", Titled: "refused.broken.short"}
}

// ToSignIn sends the browser to sign in and then to a path of this server.
func (s *Site) ToSignIn(v *Visit, path string) error {
	return v.See("/signin?return=" + s.SealPath(path))
}

// MustWait says for how long, in words, where that is what an error says.
func (v *Visit) MustWait(err error) string {
	e, ok := errors.AsType[TooMany](err)
	if !ok {
		return ""
	}
	v.W.Header().Set("Retry-After", limit.RetryAfter(e.Wait))
	return v.Words.Say("signin.wait", "n", minutes(e.Wait)).String()
}

// minutes is a wait as people are told it, rounded up.
func minutes(wait time.Duration) int {
	return max(1, int((wait+time.Minute-1)/time.Minute))
}

// Wrap says what was being done when the store said no.
func Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, err)
}
