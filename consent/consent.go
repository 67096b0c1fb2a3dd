// Package consent is the door where people approve or cancel (spec 2.4 and 4.1),
// see and end what they approved under Connected apps, and leave an organization.
// Who they are signin knows.
package consent

import (
	"context"
	"embed"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/client/document"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

//go:embed templates/*.html
var templates embed.FS

var (
	consentTemplate = page.Parse(templates, "consent.html", "choices.html", "ends.html", "head.html")
	blockedTemplate = page.Parse(templates, "blocked.html", "head.html")
	askingTemplate  = page.Parse(templates, "asking.html", "head.html")
	askedTemplate   = page.Parse(templates, "asked.html", "head.html")
	faultTemplate   = page.Parse(templates, "fault.html")
	nowhereTemplate = page.Parse(templates, "nowhere.html")
	actingTemplate  = page.Parse(templates, "acting.html", "head.html")
	homeTemplate    = page.Parse(templates, "home.html")
	everyTemplate   = page.Parse(templates, "every.html")
	appsTemplate    = page.Parse(templates, "apps.html")
	editTemplate    = page.Parse(templates, "edit.html", "choices.html", "ends.html")
	revokeTemplate  = page.Parse(templates, "revoke.html")
	leaveTemplate   = page.Parse(templates, "leave.html")
	desktopTemplate = page.Parse(templates, "desktop.html", "head.html")
)

// Purposes of what is sealed here.
const (
	sealedPage    = "consent page"
	sealedChoices = "choices kept through sign-in"
	sealedEdit    = "edit page"
	sealedEdited  = "approval was edited"
	sealedLeft    = "organization was left"
	sealedMember  = "member of an organization"

	sealedWithdrawn = "request was withdrawn"
)

// Server answers people. Its fields are set before Handler is called and not
// changed after.
type Server struct {
	*page.Site
	SignIn *signin.Server // on the same site

	// Resources are those that a client may ask for beside the contract's (decision
	// V60).
	Resources client.Resources

	// Documents fetches the metadata documents of clients, and DocumentHosts gives the
	// hosts whose are believed now, or client.AnyHost; none where it is nil. OwnHosts are the
	// service's, at which no client lives.
	Documents               *document.Fetcher
	DocumentHosts, OwnHosts func() []string
	// NewClients counts the documents of clients that nobody has approved with the
	// registrations of an address and its network (decision R8); it gives where one comes
	// from. Nil counts none.
	NewClients func(address netip.Addr, now time.Time) (from store.Origin, ok bool, wait time.Duration)

	// AuthorizeLimit counts every request to /oauth/authorize (spec section 8), and to what
	// leads on from there (decision L1).
	AuthorizeLimit *limit.Addresses

	// Tell, unless nil, is told what the log says of a request beside its answer:
	// the client, once it is known to be one, the approval, and the error code.
	// What is empty says nothing.
	Tell func(w http.ResponseWriter, client string, of approval.ID, fault string)

	// Seen, unless nil, is told of each step of a client that comes by here. It does
	// not wait.
	Seen func(*http.Request, attempt.Observation)

	// Preview, unless nil, asks the service what authorities would give, which
	// are of one person in one organization; the answer has as many sets. False
	// is no answer, and comes soon: a page waits for it.
	Preview func(ctx context.Context, language string, sets []grantset.Authority) (identity.PreviewAnswer, bool)

	// Rules gives those that calls are held against now, and Tool what an organization
	// was told of a tool that they name, of the MCP endpoint at a path, "" the
	// contract's. Rules is nil where none are.
	Rules func() *rules.Rules
	Tool  func(organization, path, name string) (title string, reads rules.Known)

	MaxDays int // that access lasts at most, by the operator; 0 is no bound

	journaled *limit.Addresses // lets through one rate_limited event per address and window
	previews  *limit.Names
}

// Handler serves the pages, with those of signing in and of other doors on the same
// site, by pattern. It is called once.
func (s *Server) Handler(others ...map[string]func(*page.Visit) error) http.Handler {
	s.journaled = limit.NewAddresses(limit.Limit{N: 1, Window: limit.Authorize.Window}, nil)
	s.previews = s.Limits.Names("preview", previewLimit)
	s.SignIn.Asks, s.SignIn.Seen = s.asks, s.sawSignIn
	all := s.SignIn.Pages()
	maps.Copy(all, s.pages())
	for pattern, page := range s.ownPages() {
		all[pattern] = s.SignIn.Themselves(page)
	}
	for _, more := range others {
		maps.Copy(all, more)
	}
	return s.limited(s.Serve(all))
}

// Patterns are those of all pages but other doors', as net/http.ServeMux takes them:
// where people are answered.
func Patterns() []string {
	s := new(Server)
	return slices.Concat(page.Patterns(), signin.Patterns(), slices.Collect(maps.Keys(s.pages())), slices.Collect(maps.Keys(s.ownPages())))
}

// Paths of what belongs to an organization.
const (
	atOrganization = "/organizations/{organization}"
	atApps         = atOrganization + "/profile/api"
)

// pages are those that support staff see too while they act as somebody.
func (s *Server) pages() map[string]func(*page.Visit) error {
	return map[string]func(*page.Visit) error{
		"GET /{$}": s.home,

		"GET /oauth/authorize":  s.ask,
		"POST /oauth/authorize": s.decide,

		"GET " + client.DesktopPath:  s.handOn,
		"POST " + client.DesktopPath: s.askHandover,
		"POST " + atPress:            s.press,

		"GET /connected-apps": s.everyApp,

		"GET " + atApps: s.apps,
		"GET " + atApps + "/clients/{client}/revoke":  s.revokePage,
		"POST " + atApps + "/clients/{client}/revoke": s.revoke,
		"GET " + atApps + "/{approval}/activity":      s.activity,
	}
}

// ownPages are for nobody but the person (decision P9).
func (s *Server) ownPages() map[string]func(*page.Visit) error {
	return map[string]func(*page.Visit) error{
		"POST /oauth/authorize/preview": s.preview,
		"GET " + atAsked:                s.asked,

		"GET " + atApps + "/{approval}/edit":           s.editPage,
		"POST " + atApps + "/{approval}/edit":          s.edit,
		"GET " + atApps + "/{approval}/activity.jsonl": s.activityLines,
		"GET " + atOrganization + "/leave":             s.leavePage,
		"POST " + atOrganization + "/leave":            s.leave,
	}
}

// limited counts requests to the authorization endpoint, and to the page that hands its
// answers on, before anything else, whatever their method and outcome (decisions A1 and L1).
func (s *Server) limited(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains([]string{"/oauth/authorize", atAsked, client.DesktopPath, atPress}, r.URL.Path) {
			next.ServeHTTP(w, r)
			return
		}
		now, address := s.Store.Now(), s.Address(r)
		if ok, wait := s.AuthorizeLimit.Allow(address, now); !ok {
			v := s.Visit(w, r)
			s.Counted("authorize", "limited")
			if first, _ := s.journaled.Allow(address, now); first {
				s.Record(v, store.Event{Kind: journal.RateLimited, Detail: r.URL.Path})
			}
			s.Fail(v, page.TooMany{Wait: wait})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refused records that an approval was refused, and why.
func (s *Server) refused(v *page.Visit, client, why string) {
	s.Record(v, store.Event{Kind: journal.ApprovalRefused, Client: client, Person: v.Person.ID, Actor: v.By(), Reason: why})
}

// refusedFor is refused for what a form asked for and nobody could have shown
// it.
func (s *Server) refusedFor(v *page.Visit, client string, faults []grantset.Fault) {
	for _, f := range faults {
		if f == grantset.NotAllowed || f == grantset.NotEligible {
			s.refused(v, client, string(f))
		}
	}
}

// tell tells the log about which client, or approval, a request is.
func (s *Server) tell(v *page.Visit, client string, of approval.ID) {
	if s.Tell != nil {
		s.Tell(v.W, client, of, "")
	}
}
