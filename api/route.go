package api

import (
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
)

// route gives the pattern of a path, for the log. An escaped slash is no slash
// (RFC 3986 section 2.2), so there is nothing at a path with one. Whoever asks is
// checked all the same: another reader might take it for one under API v5.
func (s *Server) route(at *url.URL) string {
	escaped := at.RawPath != "" && strings.Count(at.RawPath, "/") != strings.Count(at.Path, "/")
	of, _ := s.Resources.Of(at.Path)
	switch {
	case !escaped && (of.MCP && at.Path == of.Path || slices.Contains(mePaths, at.Path)):
		return at.Path
	case !client.Below(of.Path, client.APIPath):
		return of.Path + "/"
	}
	return "/api/"
}
