package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/orgadmin"
	"github.com/grantkeeper/grantkeeper/rules"
)

// maxPaths bounds [[paths]]: each request is held against them in turn.
const maxPaths = 50

// GuardedPath is one of [[paths]] (decision V60).
type GuardedPath struct {
	client.Resource
	URL *url.URL // of the service behind: of an MCP endpoint the whole, else scheme and host
}

// OwnMCP is the MCP endpoint of the contract, as if it were one of [[paths]].
func (c *Checked) OwnMCP() GuardedPath {
	return GuardedPath{client.Resource{Path: client.MCPPath, MCP: true}, c.MCPUpstream}
}

// McpServers are the MCP endpoints that have a service, the contract's first.
func (c *Checked) McpServers() (all []GuardedPath) {
	if c.MCPUpstream != nil {
		all = append(all, c.OwnMCP())
	}
	for _, one := range c.Guarded {
		if one.MCP {
			all = append(all, one)
		}
	}
	return all
}

// RuledAt gives the path of an MCP endpoint as rules name it: "" is the contract's.
func RuledAt(path string) string {
	if path == client.MCPPath {
		return ""
	}
	return path
}

// Setting says where its service is named.
func (g GuardedPath) Setting() string {
	if g.Path == client.MCPPath {
		return "mcp.upstream"
	}
	return `the upstream of "` + g.Path + `"`
}

// hides reports whether some router may take an API for what is at an MCP endpoint: no
// call of it would reach its service.
func (g GuardedPath) hides(other GuardedPath) bool {
	return g.MCP && !other.MCP && rules.Under(other.Path, g.Path)
}

// UpstreamPath is what an upstream answers, but for the MCP endpoint in it, and
// for who calls, which this server says (decision V45).
const (
	UpstreamPath = client.APIPath
	MePath       = UpstreamPath + "/me"
)

// OAuthRoot and the next two are what the doors of clients and of calls answer
// below; every other path is one of pages.
const (
	OAuthRoot     = "/oauth"
	WellKnownRoot = "/.well-known"
	APIRoot       = "/api"
)

// ownPaths are where this server's own routes begin.
func ownPaths() []string {
	all := []string{OAuthRoot, WellKnownRoot, APIRoot}
	for _, pattern := range slices.Concat(consent.Patterns(), orgadmin.Patterns()) {
		_, path, _ := strings.Cut(pattern, " ")
		path, _, _ = strings.Cut(path, "/{")
		if path != "" { // the page at / holds nothing
			all = append(all, path)
		}
	}
	return all
}

// Resources are those that the contract does not have.
func (c *Checked) Resources() (all client.Resources) {
	for _, one := range c.Guarded {
		all = append(all, one.Resource)
	}
	return all
}

// CheckPaths reads [[paths]].
func (c *Checked) CheckPaths() error {
	if len(c.Paths) > maxPaths {
		return fault.BadConfig("join some below one path", "paths: there are %d, and at most %d", len(c.Paths), maxPaths)
	}
	for i, one := range c.Paths {
		bad := func(do, format string, args ...any) error {
			return fault.BadConfig(do, "paths[%d] %q: %s", i, one.Path, fmt.Sprintf(format, args...))
		}
		if what, do := c.checkPath(one.Path); what != "" {
			return bad(do, "%s", what)
		}
		g := GuardedPath{Resource: client.Resource{Path: one.Path, Name: one.Name, MCP: one.Kind == "mcp"}}
		switch {
		case one.Kind != "api" && one.Kind != "mcp":
			return bad(`write kind = "api" or "mcp"`, "kind: %q is neither api nor mcp", one.Kind)
		case CheckServiceName(one.Name) != nil:
			return bad(`write name = "Bakery reports"`, "name: %v", CheckServiceName(one.Name))
		case g.MCP:
			if g.URL = wholeURL(one.Upstream); g.URL == nil {
				return bad(`write upstream = "http://127.0.0.1:9200/mcp"`, "upstream: %s", noWholeURL)
			}
		default:
			if g.URL = hostURL(one.Upstream); g.URL == nil {
				return bad(`write upstream = "http://127.0.0.1:9200"`, "upstream: %s", noHostURL)
			}
		}
		for _, other := range c.Guarded {
			if g.hides(other) || other.hides(g) {
				return bad("put the API elsewhere", "some server takes one for the other: %s, and an MCP endpoint holds no API", other.Path)
			}
		}
		c.Guarded = append(c.Guarded, g)
	}
	if len(c.Paths) > 0 {
		return c.signedTo("paths")
	}
	return nil
}

// checkPath says what is wrong with a path, and what to do, beside those that were
// taken. Some service or proxy compares without case, so none may differ by that alone
// from what is another's.
func (c *Checked) checkPath(path string) (what, do string) {
	const write = `write path = "/reports"`
	rest, ok := strings.CutPrefix(path, "/")
	if !ok || len(path) > 200 {
		return "it begins with a slash, and has at most 200 characters", write
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if segment == "" || segment[0] == '.' || strings.HasSuffix(segment, ".") || strings.Trim(strings.ToLower(segment), "abcdefghijklmnopqrstuvwxyz0123456789-_.") != "" {
			return "a segment of it has letters, digits, hyphens and underscores, and full stops inside; nothing is empty or escaped, and no slash ends it", write
		}
	}
	for _, own := range ownPaths() {
		if belowFolded(path, own) || belowFolded(own, path) {
			return "it is, holds or lies under " + own + ", where this server answers itself", "take another path"
		}
	}
	for _, other := range c.Guarded {
		switch {
		case strings.EqualFold(path, other.Path):
			return "it is guarded already", "take one of the two out"
		case belowFolded(path, other.Path) && !client.Below(path, other.Path), belowFolded(other.Path, path) && !client.Below(other.Path, path):
			return "it lies under " + other.Path + ", or holds it, in another case", "write both alike"
		}
	}
	return "", ""
}

// belowFolded is below without case, of ASCII.
func belowFolded(path, root string) bool {
	return client.Below(strings.ToLower(path), strings.ToLower(root))
}

// endpoint gives the path of a rule as rules know it: "" is the contract's MCP
// endpoint. It is not ok where there is no such endpoint.
func endpoint(path string, all []GuardedPath) (at string, ok bool) {
	if RuledAt(path) == "" {
		return "", true
	}
	for _, one := range all {
		if one.MCP && one.Path == path {
			return path, true
		}
	}
	return "", false
}
