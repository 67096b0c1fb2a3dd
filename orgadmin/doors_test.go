package orgadmin

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// site is this door, with those of signing in and of approving, on one site.
type site struct {
	*pagetest.Site
	*Server
	consent *consent.Server
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := openSite(t, pagetest.NewPlace(t), nil)
	s.Furnish()
	return s
}

// openSite has nobody in it yet.
func openSite(t testing.TB, at store.Options, other *pagetest.Clock) *site {
	t.Helper()
	s := &site{Site: pagetest.Open(t, at, other)}
	s.consent = &consent.Server{Site: s.Site.Pages, SignIn: &signin.Server{Site: s.Site.Pages}, AuthorizeLimit: limit.NewAddresses(limit.Authorize, nil)}
	s.Server = &Server{Site: s.Site.Pages, SignIn: s.consent.SignIn}
	s.Serve(s.consent.Handler(s.Server.Pages()))
	return s
}
