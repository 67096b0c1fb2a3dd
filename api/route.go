package api

import (
	"net/url"
	"slices"
	"strings"
)

// route gives the pattern of a path, for the log. An escaped slash is no slash
// (RFC 3986 section 2.2), so there is nothing at a path with one. Whoever asks is
// checked all the same: another reader might take it for one under API v5.
func route(at *url.URL) string {
	escaped := at.RawPath != "" && strings.Count(at.RawPath, "/") != strings.Count(at.Path, "/")
	if !escaped && (at.Path == mcpPath || slices.Contains(mePaths, at.Path)) {
		return at.Path
	}
	return "/api/"
}
