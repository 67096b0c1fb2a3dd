package signin

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/store"
)

// attemptLifetime is how long somebody may be away to sign in elsewhere.
const attemptLifetime = time.Hour

// An attempt is one sign-in elsewhere. The browser carries it sealed, as state
// or challenge, so any number of tabs are under way at once.
type attempt struct {
	Way     string `json:"way"`             // ID of the provider, or handoff
	Return  string `json:"return"`          // path of this server
	Secret  []byte `json:"secret"`          // 32 random bytes, of this attempt alone
	Browser string `json:"browser"`         // form token of the browser's cookie: nobody else can come back with it
	Began   int64  `json:"began"`           // Unix seconds
	Fresh   string `json:"fresh,omitempty"` // person who signs in anew, to go on in the session that there is
}

func (a attempt) secret() provider.Secret { return provider.Secret(a.Secret) }

func (s *Server) openAttempt(sealed string) (a attempt, ok bool) {
	ok = s.Open(sealedAttempt, sealed, &a) && len(a.Secret) == len(provider.Secret{})
	return a, ok
}

// newAttempt begins a sign-in elsewhere in this browser.
func (s *Server) newAttempt(v *page.Visit, way, path string) attempt {
	a := attempt{Way: way, Return: path, Secret: make([]byte, len(provider.Secret{})), Began: v.Now.Unix()}
	rand.Read(a.Secret)
	a.Browser = s.Ring.FormToken(s.Before(v))
	return a
}

// What can become of a sign-in elsewhere, each a page (outside.html).
type notSignedIn struct {
	why    string // of the page
	way    string // ID of the provider, or handoff
	path   string // where to go on after another attempt
	detail string // for the log
	email  string // not ours: as the provider says it
}

func (e notSignedIn) Error() string { return "not signed in: " + e.why + ": " + e.detail }

var outsideStatus = map[string]int{"down": http.StatusServiceUnavailable,
	"unknown": http.StatusForbidden, "unverified": http.StatusForbidden, "taken": http.StatusForbidden,
	"inactive": http.StatusForbidden, "acting": http.StatusForbidden, "browser": http.StatusForbidden}

// An outsidePage says why somebody is not signed in, and what to do.
type outsidePage struct {
	page.Frame
	App     *page.App // not ours
	Why     string
	Way     string // name of the other side
	Email   string // not ours
	Again   string // path to try again
	Another string // path to try as somebody else
}

func (s *Server) showOutside(v *page.Visit, e notSignedIn) error {
	status := outsideStatus[e.why]
	if status == 0 {
		status = http.StatusBadRequest
	}
	if status == http.StatusServiceUnavailable {
		v.W.Header().Set("Retry-After", page.UnavailableFor)
	}
	s.Counted("signin", "failed")
	s.Log.Info("sign-in elsewhere refused", "way", e.way, "verdict", e.why, "why", e.detail, "request_id", v.Reference())
	address := s.Address(v.R)
	if told, _ := s.lost.Allow(address, v.Now); told {
		s.Record(v, store.Event{Kind: journal.SignInFailed, Reason: e.why, Detail: e.way})
	}
	sealed := s.SealPath(e.path)
	view := &outsidePage{Frame: s.Frame(v, "outside.title"), App: s.askedAbout(v, sealed), Why: e.why,
		Way: s.wayName(e.way), Email: e.email, Again: s.SignInPath(sealed)}
	if v.SignedIn() {
		view.Again = e.path
	}
	view.Same = s.SealPath(view.Again) // what came back counts once
	if s.way(e.way) && !v.SignedIn() {
		view.Another = page.WithQuery("/signin/with/"+e.way, "return", sealed, "another", "1")
	}
	return s.Show(v, status, outsideTemplate, view)
}

// elsewhereOr shows what has become of a sign-in elsewhere that failed.
func (s *Server) elsewhereOr(f func(*page.Visit) error) func(*page.Visit) error {
	return func(v *page.Visit) error {
		err := f(v)
		if e, ok := errors.AsType[notSignedIn](err); ok {
			return s.showOutside(v, e)
		}
		return err
	}
}

// goOut is GET /signin/with/{way}.
func (s *Server) goOut(v *page.Visit) error {
	q := v.R.URL.Query()
	path := s.ReturnPath(q.Get("return"))
	if v.SignedIn() { // in another tab: who it is shows at consent
		return v.See(path)
	}
	return s.sendOut(v, s.newAttempt(v, v.R.PathValue("way"), path), q.Get("another") != "")
}

func (s *Server) sendOut(v *page.Visit, a attempt, another bool) error {
	if a.Way == handOffID && s.HandOff != nil {
		return v.See(s.HandOff.address(s.Seal(sealedAttempt, a), v.Base, a.Fresh != "", another))
	}
	p := s.provider(a.Way)
	if p == nil {
		return page.ErrNoPage
	}
	to, err := p.Begin(v.R.Context(), provider.Ask{RedirectURI: callbackURI(v, p), Secret: a.secret(), State: s.Seal(sealedAttempt, a),
		Fresh: a.Fresh != "", Another: another})
	if err != nil {
		return providerFault(a, err)
	}
	return v.See(to)
}

// callbackURI is a path of its own for each provider, so that the answer of
// one cannot pass for another's (RFC 9700 section 4.4.2.2).
func callbackURI(v *page.Visit, p *provider.Provider) string {
	return v.Base + "/signin/callback/" + p.ID
}

func providerFault(a attempt, err error) error {
	why := "untrusted"
	if errors.Is(err, provider.ErrDown) {
		why = "down"
	}
	return notSignedIn{why: why, way: a.Way, path: a.Return, detail: err.Error()}
}

// comeBack is GET /signin/callback/{way}. What fails is counted only where the
// attempt began in this browser: any web page can have a browser ask for this
// address, and nobody else's sign-in may suffer from it.
func (s *Server) comeBack(v *page.Visit) error {
	if to := v.R.Header.Get("Sec-Fetch-Dest"); to != "" && to != "document" {
		return page.ErrNoPage // a picture, a script or a frame of another page
	}
	return s.back(v)
}

// attempted finishes an attempt of this browser, which counts where it fails.
func (s *Server) attempted(v *page.Visit, do func() error) (err error) {
	wait := s.elsewhere.try(s.Address(v.R), v.Now, func() bool {
		err = do()
		e, failed := errors.AsType[notSignedIn](err)
		return failed && e.why != "down" // which is nobody's fault here
	})
	if wait > 0 {
		return page.TooMany{Wait: wait}
	}
	return err
}

// back finishes a sign-in elsewhere.
func (s *Server) back(v *page.Visit) error {
	way, q := v.R.PathValue("way"), v.R.URL.Query()
	if way == handOffID && s.HandOff != nil {
		return s.assertedBack(v, page.One(q, "assertion"))
	}
	p := s.provider(way)
	if p == nil {
		return page.ErrNoPage
	}
	a, ok := s.openAttempt(page.One(q, "state"))
	if open, err := s.checkAttempt(v, a, ok, way); !open {
		return err
	}
	return s.attempted(v, func() error {
		if code := page.One(q, "error"); code != "" || page.One(q, "code") == "" {
			return notSignedIn{why: "refused", way: way, path: a.Return, detail: "the provider answers " + plainWord(code)}
		}
		c, err := p.Finish(v.R.Context(), provider.Ask{RedirectURI: callbackURI(v, p), Secret: a.secret()},
			provider.Answer{Code: page.One(q, "code"), Issuer: page.One(q, "iss")})
		if err != nil {
			return providerFault(a, err)
		}
		return s.vouched(v, p, a, c)
	})
}

// checkAttempt refuses what did not begin here, in this browser, for this way, a
// while ago at most. Who is signed in by now, in another tab, goes on without:
// nothing is done with the answer.
func (s *Server) checkAttempt(v *page.Visit, a attempt, ok bool, way string) (open bool, err error) {
	fault := notSignedIn{why: "browser", way: way, path: a.Return}
	switch {
	case !ok:
		fault.path, fault.detail = "/", "state is not ours"
	case a.Way != way:
		fault.why, fault.detail = "untrusted", "state was given to "+a.Way
	case v.SignedIn() && a.Fresh == "":
		return false, v.See(a.Return)
	case !s.Own(v, a.Browser):
		fault.detail = "begun in another browser"
	case v.Now.Sub(time.Unix(a.Began, 0)) > attemptLifetime:
		fault.detail = "begun too long ago"
	default:
		return true, nil
	}
	return false, fault
}

// plainWord keeps of an error code what may stand in a log.
func plainWord(code string) string {
	if len(code) > 40 || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "something else"
	}
	return code
}
