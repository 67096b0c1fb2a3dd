package consent

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/orgadmin"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// site is this door, with those of signing in and of an organization's admins.
type site struct {
	*pagetest.Site
	*Server
	kept []titled // by the service behind
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
	s.Server = &Server{Site: s.Pages, SignIn: &signin.Server{Site: s.Pages}, AuthorizeLimit: limit.NewAddresses(limit.Authorize, nil)}
	s.Serve(s.Handler((&orgadmin.Server{Site: s.Pages, SignIn: s.SignIn}).Pages()))
	return s
}
