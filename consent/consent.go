// Package consent is the door for people: sign in, approve or cancel
// (spec 2.4 and 4.1), Connected apps, and leaving an organization.
//
// Pages are HTML made by the server and work without script. Everything that a
// page needs to be answered it carries itself, sealed, so any number of tabs
// work at once; the session says only who is signed in.
package consent

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"path"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Server answers people. Its fields are set before Handler is called and not
// changed after; how pages look can change, by Rebrand.
type Server struct {
	Store    *store.Store
	Ring     *token.Ring
	Log      *slog.Logger
	Service  string                         // name of the protected service, as pages say it
	Nouns    map[string]Nouns               // by the tag of a language, checked; where there are none, pages say entries
	Branding Branding                       // checked
	Base     func(*http.Request) string     // {base} of the asked host (decision M1)
	Address  func(*http.Request) netip.Addr // of the client (decision L2)

	// AuthorizeLimit counts every request to /oauth/authorize (spec section 8).
	AuthorizeLimit *limit.Addresses
	Limits         *limit.Valkey // counts failed sign-ins; nil does in memory

	// Tell, unless nil, is told what the log says of a request beside its answer:
	// the client, once it is known to be one, the approval, and the error code.
	// What is empty says nothing.
	Tell func(w http.ResponseWriter, client string, of approval.ID, fault string)

	// Count, unless nil, is told what the metrics count: of "signin" the
	// results "ok", "failed" and "throttled", of "authorize" "limited".
	Count func(endpoint, result string)

	// Preview, unless nil, asks the service what authorities would give, which
	// are of one person in one organization; the answer has as many sets. False
	// is no answer, and comes soon: a page waits for it.
	Preview func(ctx context.Context, language string, sets []grantset.Authority) (identity.PreviewAnswer, bool)

	// Rules gives those that calls are held against now, and Tool what is known of a
	// tool that they name. Rules is nil where none are.
	Rules func() *rules.Rules
	Tool  func(name string) (title string, reads rules.Known)

	NoPersonal bool // the service has no personal entries to choose

	Ways Ways // to sign in, beside passwords

	// Forgotten, unless nil, mails a link to whoever has an email, in the background;
	// false when too much mail waits. Nil where no mail is sent.
	Forgotten func(Forgotten) bool

	Demo *Demo // of dev alone, which serves loopback; nil

	look         atomic.Pointer[look]
	journaled    *limit.Addresses // lets through one rate_limited event per address and window
	failures     *failures
	wrongFactors *failures
	hasher       *hasher
	forgets      forgotLimits
	previews     *limit.Names
	farewells    wrongs           // counts those that were wrong
	elsewhere    wrongs           // counts sign-ins elsewhere that came back wrong
	lost         *limit.Addresses // lets through so many events of sign-ins elsewhere
}

// Demo is what the sign-in page and the home page say under dev: in English, to
// whoever tries the server.
type Demo struct {
	Client   string // path of the client to try
	People   []DemoPerson
	Password string // of all of them, at first
}

// A DemoPerson is somebody to sign in as.
type DemoPerson struct{ Email, About string }

// Sizes of bodies (decision L5).
const (
	consentBytes, consentFields = 256 << 10, 5000
	otherBytes, otherFields     = 64 << 10, 100
)

// A look is how pages look from some time on.
type look struct {
	branding Branding
	assets   *assetSet
	logo     string // path; empty where there is none
	wording  *wording
}

// Rebrand changes how pages look, while they are served too. What pages that
// are open fetch stays where it was.
func (s *Server) Rebrand(b Branding) {
	l := &look{branding: b, assets: b.assets()}
	l.logo, l.wording = l.assets.paths[b.logoName()], newWording(s.Service, s.Nouns, l.assets)
	if before := s.look.Load(); before != nil {
		for name, file := range before.assets.files {
			l.assets.files[name] = file
		}
	}
	s.look.Store(l)
}

// Handler serves the pages. It is called once.
func (s *Server) Handler() http.Handler {
	s.journaled = limit.NewAddresses(limit.Limit{N: 1, Window: limit.Authorize.Window}, nil)
	s.failures = newFailures(s.Limits, "signin", signInAccount)
	s.wrongFactors = newFailures(s.Limits, "second", secondAccount)
	s.hasher = newHasher()
	s.forgets = newForgotLimits(s.Limits)
	s.previews = s.Limits.Names("preview", previewLimit)
	s.elsewhere.Addresses = s.Limits.Addresses("signin-elsewhere", signInAddress, nil)
	s.lost = limit.NewAddresses(signInAddress, nil)
	s.farewells.Addresses = s.Limits.Addresses("signin-logout", signInAddress, nil)
	s.Rebrand(s.Branding)

	mux := http.NewServeMux()
	s.routes(mux)
	return s.limited(s.withPages(mux))
}

// limited counts requests to the authorization endpoint before anything else,
// whatever their method and outcome (decisions A1 and L1).
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/oauth/authorize" {
			next.ServeHTTP(w, r)
			return
		}
		now, address := s.Store.Now(), s.Address(r)
		if ok, wait := s.AuthorizeLimit.Allow(address, now); !ok {
			v := s.visit(w, r)
			s.count("authorize", "limited")
			if first, _ := s.journaled.Allow(address, now); first {
				s.record(v, store.Event{Kind: "rate_limited", Detail: "/oauth/authorize"})
			}
			s.fail(v, tooMany{wait})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) count(endpoint, result string) {
	if s.Count != nil {
		s.Count(endpoint, result)
	}
}

// withPages lets what the mux has no handler for, unknown paths and methods,
// answer with pages too. So does a path that a mux would correct: its 307
// would post a form, at sign-in the password, a second time (decision A10).
func (s *Server) withPages(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if at := r.URL.EscapedPath(); pattern != "" && path.Clean(at) == at {
			mux.ServeHTTP(w, r)
			return
		}
		answer := &unwritten{header: http.Header{}}
		h.ServeHTTP(answer, r)
		s.handle(func(v *visit) error {
			if answer.status == http.StatusMethodNotAllowed {
				return wrongMethod{answer.header.Get("Allow")}
			}
			return errNoPage
		})(w, r)
	})
}

// unwritten takes an answer that nobody is sent.
type unwritten struct {
	header http.Header
	status int
}

func (u *unwritten) Header() http.Header         { return u.header }
func (u *unwritten) WriteHeader(status int)      { u.status = status }
func (u *unwritten) Write(b []byte) (int, error) { return len(b), nil }
