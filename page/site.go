// Package page is what all pages for people have in common: how they look and
// speak, and what a visit to one brings, who is signed in, its forms and what it
// carries sealed.
//
// Pages are HTML made by the server and work without script. Everything that a
// page needs to be answered it carries itself, sealed, so any number of tabs
// work at once; the session says only who is signed in.
package page

import (
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"path"
	"strings"
	"sync/atomic"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// A Site is where pages are served. Its fields are set before Handler is
// called and not changed after; how pages look can change, by Rebrand.
type Site struct {
	Store    *store.Store
	Ring     *token.Ring
	Log      *slog.Logger
	Service  string                         // name of the protected service, as pages say it
	Nouns    map[string]Nouns               // by the tag of a language, checked; where there are none, pages say entries
	Branding Branding                       // checked
	Base     func(*http.Request) string     // {base} of the asked host (decision M1)
	Address  func(*http.Request) netip.Addr // of the client (decision L2)
	Limits   *limit.Valkey                  // counts what may be tried so often; nil does in memory

	// Count, unless nil, is told what the metrics count: of "signin" the
	// results "ok", "failed" and "throttled", of "authorize" "limited".
	Count func(endpoint, result string)

	NoPasswords bool // nobody has one here: people sign in elsewhere
	NoPersonal  bool // the service has no personal entries to choose
	Mails       bool // email is sent: pages may promise it

	Demo *Demo // of dev alone, which serves loopback; nil

	look  atomic.Pointer[look]
	pages map[string]func(*Visit) error // as Serve has them
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

// Sizes of bodies (decision L5): of forms with choices in them, and of others.
const (
	ChoiceBytes, ChoiceFields = 256 << 10, 5000
	OtherBytes, OtherFields   = 64 << 10, 100
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
func (s *Site) Rebrand(b Branding) {
	l := &look{branding: b, assets: b.assets()}
	l.logo, l.wording = l.assets.paths[b.logoName()], newWording(s.Service, s.Nouns, l.assets)
	if before := s.look.Load(); before != nil {
		maps.Copy(l.assets.files, before.assets.files)
	}
	s.look.Store(l)
}

// Serve gives the handler of pages by their patterns, and of what they fetch. It
// is called once.
func (s *Site) Serve(pages map[string]func(*Visit) error) http.Handler {
	s.Rebrand(s.Branding)
	mux := http.NewServeMux()
	for pattern, page := range pages {
		mux.Handle(pattern, s.handle(page))
	}
	mux.Handle(atLanguage, s.handle(s.changeLanguage))
	mux.HandleFunc(atAssets, s.asset)
	s.pages = pages
	return s.withPages(mux)
}

// nearest is the path of the page that has the form of what is posted to a path, by the
// pattern that has it: the one there, or else the first above it.
func (s *Site) nearest(pattern, at string) string {
	_, of, _ := strings.Cut(pattern, " ")
	for path.Clean(at) == at && strings.Count(at, "/") == strings.Count(of, "/") && len(at) > 1 {
		if s.pages[http.MethodGet+" "+of] != nil {
			return at
		}
		of, at = path.Dir(of), path.Dir(at)
	}
	return "/"
}

const (
	atLanguage = "POST /language"
	atAssets   = "GET /assets/{file}"
)

// Patterns are those that Serve adds, as net/http.ServeMux takes them.
func Patterns() []string { return []string{atLanguage, atAssets} }

// Counted tells Count.
func (s *Site) Counted(endpoint, result string) {
	if s.Count != nil {
		s.Count(endpoint, result)
	}
}

// withPages lets what the mux has no handler for, unknown paths and methods,
// answer with pages too. So does a path that a mux would correct: its 307
// would post a form, at sign-in the password, a second time (decision A10).
func (s *Site) withPages(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, pattern := mux.Handler(r)
		if at := r.URL.EscapedPath(); pattern != "" && path.Clean(at) == at {
			mux.ServeHTTP(w, r)
			return
		}
		answer := &unwritten{header: http.Header{}}
		h.ServeHTTP(answer, r)
		s.handle(func(v *Visit) error {
			if answer.status == http.StatusMethodNotAllowed {
				v.W.Header().Set("Allow", answer.header.Get("Allow"))
				return errMethod
			}
			return ErrNoPage
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
