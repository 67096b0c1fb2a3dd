package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/rules"
)

// maxPaths bounds [[paths]]: each request is held against them in turn.
const maxPaths = 50

// guardedPath is one of [[paths]] (decision V60).
type guardedPath struct {
	client.Resource
	URL *url.URL // of the service behind: of an MCP endpoint the whole, else scheme and host
}

// ownMCP is the MCP endpoint of the contract, as if it were one of [[paths]].
func (c *Checked) ownMCP() guardedPath {
	return guardedPath{client.Resource{Path: mcpPath, MCP: true}, c.MCPUpstream}
}

// mcpServers are the MCP endpoints that have a service, the contract's first.
func (c *Checked) mcpServers() (all []guardedPath) {
	if c.MCPUpstream != nil {
		all = append(all, c.ownMCP())
	}
	for _, one := range c.Guarded {
		if one.MCP {
			all = append(all, one)
		}
	}
	return all
}

// ruledAt gives the path of an MCP endpoint as rules name it: "" is the contract's.
func ruledAt(path string) string {
	if path == mcpPath {
		return ""
	}
	return path
}

// setting says where its service is named.
func (g guardedPath) setting() string {
	if g.Path == mcpPath {
		return "mcp.upstream"
	}
	return `the upstream of "` + g.Path + `"`
}

// hides reports whether some router may take an API for what is at an MCP endpoint: no
// call of it would reach its service.
func (g guardedPath) hides(other guardedPath) bool {
	return g.MCP && !other.MCP && rules.Under(other.Path, g.Path)
}

// ownRoots are below what the doors of clients and of calls answer; every other
// path is one of pages.
const (
	oauthRoot     = "/oauth"
	wellKnownRoot = "/.well-known"
	apiRoot       = "/api"
)

// ownPaths are where this server's own routes begin.
func ownPaths() []string {
	all := []string{oauthRoot, wellKnownRoot, apiRoot}
	for _, pattern := range consent.Patterns() {
		_, path, _ := strings.Cut(pattern, " ")
		path, _, _ = strings.Cut(path, "/{")
		if path != "" { // the page at / holds nothing
			all = append(all, path)
		}
	}
	return all
}

// resources are those that the contract does not have.
func (c *Checked) resources() (all client.Resources) {
	for _, one := range c.Guarded {
		all = append(all, one.Resource)
	}
	return all
}

// checkPaths reads [[paths]].
func (c *Checked) checkPaths() error {
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
		g := guardedPath{Resource: client.Resource{Path: one.Path, Name: one.Name, MCP: one.Kind == "mcp"}}
		switch {
		case one.Kind != "api" && one.Kind != "mcp":
			return bad(`write kind = "api" or "mcp"`, "kind: %q is neither api nor mcp", one.Kind)
		case checkServiceName(one.Name) != nil:
			return bad(`write name = "Bakery reports"`, "name: %v", checkServiceName(one.Name))
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
		case belowFolded(path, other.Path) && !below(path, other.Path), belowFolded(other.Path, path) && !below(other.Path, path):
			return "it lies under " + other.Path + ", or holds it, in another case", "write both alike"
		}
	}
	return "", ""
}

// belowFolded is below without case, of ASCII.
func belowFolded(path, root string) bool { return below(strings.ToLower(path), strings.ToLower(root)) }

// endpoint gives the path of a rule as rules know it: "" is the contract's MCP
// endpoint. It is not ok where there is no such endpoint.
func endpoint(path string, all []guardedPath) (at string, ok bool) {
	if ruledAt(path) == "" {
		return "", true
	}
	for _, one := range all {
		if one.MCP && one.Path == path {
			return path, true
		}
	}
	return "", false
}
