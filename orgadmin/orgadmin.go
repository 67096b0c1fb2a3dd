// Package orgadmin is the door for an organization's admins: which apps members have
// connected, and tried to, what members ask for, and the rules for apps. Who is signed in signin
// knows; consent serves the pages, with its own.
package orgadmin

import (
	"embed"
	"maps"
	"slices"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

//go:embed templates/*.html
var templates embed.FS

var (
	switchTemplate         = page.Parse(templates, "switch.html", "aihead.html")
	integrationTemplate    = page.Parse(templates, "integration.html", "aihead.html")
	connectionTemplate     = page.Parse(templates, "connection.html", "aihead.html")
	endConnectionTemplate  = page.Parse(templates, "endconnection.html")
	endConnectionsTemplate = page.Parse(templates, "endconnections.html", "aihead.html")
	markTemplate           = page.Parse(templates, "markconnections.html")
	attemptsTemplate       = page.Parse(templates, "attempts.html", "aihead.html")
	requestsTemplate       = page.Parse(templates, "requests.html", "aihead.html")
	declineTemplate        = page.Parse(templates, "decline.html")
	rulesTemplate          = page.Parse(templates, "rules.html", "aihead.html")
	rulesCheckTemplate     = page.Parse(templates, "rulescheck.html")
	offTemplate            = page.Parse(templates, "off.html")
)

// Purposes of what is sealed here.
const (
	sealedAdmin = "an admin did something in "          // and the organization's ID
	sealedRules = "rules that an admin is writing for " // and the organization's ID
)

// Server answers admins. Its fields are set before Pages is called and not changed
// after.
type Server struct {
	*page.Site
	SignIn *signin.Server // on the same site
}

// Pages are what is served here, by pattern: see page.Site.Serve.
func (s *Server) Pages() map[string]func(*page.Visit) error {
	all := s.pages()
	for pattern, page := range s.ownPages() {
		all[pattern] = s.SignIn.Themselves(page)
	}
	return all
}

// Patterns are those of all pages, as net/http.ServeMux takes them.
func Patterns() []string {
	s := new(Server)
	return slices.Concat(slices.Collect(maps.Keys(s.pages())), slices.Collect(maps.Keys(s.ownPages())))
}

// atIntegration is where all pages lie.
const atIntegration = "/organizations/{organization}/settings/ai-integration"

// atConnections takes what the list sends, and one connection; both say where they were.
const atConnections = "POST " + atIntegration + "/connections"

// pages are those that support staff see too while they act as somebody.
func (s *Server) pages() map[string]func(*page.Visit) error {
	return map[string]func(*page.Visit) error{
		"GET " + atIntegration:                          s.integration,
		"GET " + atIntegration + "/{approval}":          s.connectionPage,
		"GET " + atIntegration + "/attempts":            s.shownOn(s.attempts),
		"GET " + atIntegration + "/requests":            s.shownOn(s.requests),
		"GET " + atIntegration + "/rules":               s.shownOn(s.rulesPage),
		"GET " + atIntegration + "/{approval}/activity": s.activity,
	}
}

// ownPages are for nobody but the person (decision P9).
func (s *Server) ownPages() map[string]func(*page.Visit) error {
	return map[string]func(*page.Visit) error{
		"GET " + atIntegration + "/connections.csv":            s.shownOn(s.export),
		"POST " + atIntegration + "/requests":                  s.whileOn(page.OtherBytes, page.OtherFields, s.decideRequest),
		"GET " + atIntegration + "/requests/{request}/decline": s.shownOn(s.declinePage),
		"POST " + atIntegration + "/rules":                     s.whileOn(page.ChoiceBytes, page.ChoiceFields, s.rulesForm),
		atConnections:                                          s.whileOn(page.ChoiceBytes, page.ChoiceFields, s.bulk),

		"GET " + atIntegration + "/off":                s.shownOn(s.offPage),
		"POST " + atIntegration + "/off":               s.byAdmin(page.OtherBytes, page.OtherFields, s.turn(false)),
		"POST " + atIntegration + "/on":                s.byAdmin(page.OtherBytes, page.OtherFields, s.turn(true)),
		"GET " + atIntegration + "/{approval}/revoke":  s.endConnectionPage,
		"POST " + atIntegration + "/{approval}/revoke": s.byAdmin(page.OtherBytes, page.OtherFields, s.endConnection),
	}
}

func ended(r store.ApprovalRow) bool { return r.Phase == approval.Ended }
