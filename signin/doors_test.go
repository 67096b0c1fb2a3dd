package signin_test

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/orgadmin"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// site is this door, with that of approving, where people sign in for.
type site struct {
	*pagetest.Site
	*consent.Server
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
	s.Server = &consent.Server{Site: s.Pages, SignIn: &signin.Server{Site: s.Pages}, AuthorizeLimit: limit.NewAddresses(limit.Authorize, nil)}
	s.Serve(s.Handler((&orgadmin.Server{Site: s.Pages, SignIn: s.SignIn}).Pages()))
	return s
}
