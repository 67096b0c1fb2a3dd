package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// listWithin bounds all that an MCP server is asked to list its tools.
const listWithin = 30 * time.Second

// ListTools asks the MCP servers of the configuration, of which no more is checked than
// that needs. It is an error when there is none.
func (c Outside) ListTools(ctx context.Context) (all []Listed, err error) {
	for _, check := range []func() error{c.CheckServiceKey, c.CheckMCP} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	for _, one := range c.McpServers() {
		said, err := c.toolsOf(ctx, one)
		if err != nil {
			return nil, err
		}
		all = append(all, said)
	}
	if len(all) == 0 {
		return nil, fault.BadConfig("set mcp.upstream; for an API: --openapi FILE", "mcp.upstream: no MCP server is connected")
	}
	return all, nil
}

func (c Outside) toolsOf(ctx context.Context, one config.GuardedPath) (said Listed, err error) {
	ctx, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	f, said := c.GreetMCP(ctx, one)
	said.Path = one.Path
	if f.Result != "ok" {
		return said, fault.CannotOpen(terminal.Printable(f.Fix), "%s", terminal.Printable(f.Text))
	}
	if said.Cut != "" && len(said.Tools) == 0 {
		return said, fault.CannotOpen("see its log, and that it lists its tools to whoever is signed for", "%s, and lists no tools: %s", f.Text, terminal.Printable(said.Cut))
	}
	return said, nil
}

// Needs says of a tool at a path what its calls need, as --json has it.
func (c Outside) Needs(path string, t mcp.Tool) map[string]any {
	n := c.Ruled.Needed(rules.Call{At: config.RuledAt(path), Tool: t.Name, Reads: t.Reads})
	o := map[string]any{"path": path, "tool": t.Name, "title": t.Title, "needs": n.Access, "by_annotation": n.Hinted, "through": "", "read_only_hint": nil, "rule": nil}
	if t.Hinted {
		o["read_only_hint"] = t.Reads == mcp.Reads
	}
	why := fmt.Sprintf("no rule, service.unlisted is %s", n.Unlisted)
	if n.Rule >= 0 {
		o["rule"], o["touches"] = n.Rule, n.Touches
		o["needs"], o["through"] = c.through(n)
		why = fmt.Sprintf("rules[%d] %s touches %s", n.Rule, terminal.ShownName(n.Name), n.Touches)
	} else {
		o["unlisted"] = n.Unlisted
		switch {
		case n.Unlisted == rules.Service:
			o["needs"] = "service decides"
		case n.Access != "read":
			o["needs"] = "denied"
		default:
			o["through"] = "every member"
		}
	}
	if n.Hinted {
		why += ", by annotation"
	}
	o["why"] = why
	return o
}

// through says whom a tool asks for by its rule.
func (c Outside) through(n rules.Needed) (needs, through string) {
	rule := c.Rules[n.Rule]
	switch n.Touches {
	case rules.TouchesOpen:
		if n.Access == "change" {
			return "denied", "no role changes what all see"
		}
		return n.Access, "every member"
	case rules.TouchesPersonal:
		return n.Access, "personal items"
	case rules.TouchesAdmin:
		return "denied", "admins alone"
	case rules.TouchesNothing:
		return "nothing", ""
	case rules.TouchesService:
		return "service decides", ""
	}
	through = "role " + rule.Role + rule.RoleName
	if len(rule.RoleFrom) > 0 {
		through = "role in " + strings.Join(rule.RoleFrom, " and ")
	}
	switch {
	case n.Access == "read" && !rule.Private:
		through = "every member" // decision V21
	case n.Access == "read":
		through += ", or its circle"
	}
	return n.Access, through
}
