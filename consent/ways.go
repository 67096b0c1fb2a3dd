package consent

import (
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/provider"
)

// Ways are how people can sign in. The zero Ways is with passwords alone.
type Ways struct {
	NoPasswords bool
	Providers   []*provider.Provider
	HandOff     *HandOff

	Strong Strength      // what an approval of more than roles asks for
	Fresh  time.Duration // how long ago that may be; 0 is DefaultFresh
}

// way reports whether people can sign in by this way.
func (s *Server) way(id string) bool {
	return s.provider(id) != nil || id == handOffID && s.Ways.HandOff != nil
}

func (s *Server) wayName(id string) string {
	if p := s.provider(id); p != nil {
		return p.Name
	}
	if id == handOffID && s.Ways.HandOff != nil && s.Ways.HandOff.Name != "" {
		return s.Ways.HandOff.Name
	}
	return s.Service
}

func (s *Server) provider(id string) *provider.Provider {
	i := slices.IndexFunc(s.Ways.Providers, func(p *provider.Provider) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return s.Ways.Providers[i]
}

// A wayOut is another place to sign in, on the page.
type wayOut struct{ ID, Name, Path string }

func (s *Server) waysOut(sealed string, another bool) (ways []wayOut) {
	mark := ""
	if another {
		mark = "1"
	}
	add := func(id string) {
		ways = append(ways, wayOut{id, s.wayName(id), withQuery("/signin/with/"+id, "return", sealed, "another", mark)})
	}
	if s.Ways.HandOff != nil {
		add(handOffID)
	}
	for _, p := range s.Ways.Providers {
		add(p.ID)
	}
	return ways
}

// straightOn reports whether there is one way to sign in, and it is elsewhere.
func (s *Server) straightOn() bool {
	return s.Ways.NoPasswords && len(s.waysOut("", false)) == 1
}

// signInPath leads to the sign-in page. stay keeps it from going straight on, and
// asks other places for another account: whoever has just signed out would be
// signed in again.
func (s *Server) signInPath(sealed string, stay bool) string {
	mark := ""
	if stay && len(s.waysOut("", false)) > 0 {
		mark = "1"
	}
	return withQuery("/signin", "return", sealed, "stay", mark)
}
