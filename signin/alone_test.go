package signin

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// site is this door alone.
type site struct {
	*pagetest.Site
	SignIn *Server
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
	s.SignIn = &Server{Site: s.Pages}
	s.Serve(s.Pages.Serve(s.SignIn.Pages()))
	return s
}
