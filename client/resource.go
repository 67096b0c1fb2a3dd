package client

import (
	"slices"
	"strings"
	"unicode"
)

// Resource is a protected resource of this server (RFC 9728): what stands at a path
// or below it, but for longer paths of others.
type Resource struct {
	Path string // such as /api/v5, without a slash at its end
	Name string // for people
	MCP  bool   // an MCP endpoint, which stands at its path alone
}

// APIPath and MCPPath are where the resources of every server are (spec 4).
const (
	APIPath = "/api/v5"
	MCPPath = APIPath + "/mcp"
)

// contract are these, and the one that answers where there is no other comes first.
var contract = []Resource{{APIPath, "API v5", false}, {MCPPath, "MCP", true}}

// Resources are those that a server has beside the contract's (decision V60).
type Resources []Resource

// All gives the contract's two, and the others.
func (more Resources) All() []Resource { return append(slices.Clip(contract), more...) }

// Of gives the resource whose path is the longest that holds a path, byte for byte.
// Where none does it is API v5, and false.
func (more Resources) Of(path string) (of Resource, ok bool) {
	of = contract[0]
	for _, list := range [][]Resource{contract, more} {
		for _, one := range list {
			if Below(path, one.Path) && (!ok || len(one.Path) > len(of.Path)) {
				of, ok = one, true
			}
		}
	}
	return of, ok
}

// Below reports whether a path is the root or stands under it.
func Below(path, root string) bool {
	return strings.HasPrefix(path, root) && (len(path) == len(root) || path[len(root)] == '/')
}

// ServedAt reports whether a resource (RFC 8707 section 2) is this server at
// {base}, or one of its resources or something below it. decision A7.
// It narrows nothing, so a broad reading costs nothing.
func (more Resources) ServedAt(base, resource string) bool {
	r := strings.TrimSuffix(normalOrigin(resource), "/")
	path, ours := strings.CutPrefix(r, base)
	if !ours || strings.ContainsRune(r, '#') { // RFC 8707 section 2
		return false
	}
	_, ok := more.Of(path)
	return ok || path == ""
}

// normalOrigin lower-cases scheme and host of a URI and drops the port that is
// its scheme's default.
func normalOrigin(uri string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if strings.ContainsFunc(authority, func(r rune) bool { return r > unicode.MaxASCII }) {
		return uri // U+212A lowers to k: it is no host of ours
	}
	scheme, authority = strings.ToLower(scheme), strings.ToLower(authority)
	switch scheme {
	case "https":
		authority = strings.TrimSuffix(authority, ":443")
	case "http":
		authority = strings.TrimSuffix(authority, ":80")
	}
	return scheme + "://" + authority + path
}
