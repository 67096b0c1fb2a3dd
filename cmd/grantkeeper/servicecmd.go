package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/doctor"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/setup"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func serviceCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "service COMMAND",
		Short: "Look at the service behind, and draft rules for it",
		Example: `  grantkeeper service tools
  grantkeeper service tools --write >> grantkeeper.toml`,
		Annotations: map[string]string{"next": "grantkeeper service tools"},
	}, serviceTools(g))
}

// listWithin bounds all that service tools asks of an MCP server.
const listWithin = 30 * time.Second

func serviceTools(g *global) *cobra.Command {
	var write bool
	var openAPI string
	c := &cobra.Command{
		Use:   "tools",
		Short: "List the tools of the MCP servers behind, what each needs by the rules of today, and why",
		Example: `  grantkeeper service tools
  grantkeeper service tools --write > more.toml          # rules for the tools that none names
  grantkeeper service tools --openapi openapi.json       # rules for an API: nobody is asked`,
		Long: `It reads the configuration, signs in to each MCP server of mcp.upstream and [[paths]] as
every call is signed, but for nobody, and reads its list of tools: a server that lists by
person may have more. What it says is about "Only selected roles": of more than that
little is refused. A server's readOnlyHint is its own claim, and is not checked.

--write and --openapi draft [[rules]] for what no rule names, on standard output, and
change no file. As they are they allow nothing: complete each, and add them to the
configuration (grantkeeper config check). Paths of an OpenAPI file, version 3 in JSON,
begin with the path of its first server; GET and HEAD read, and all else changes.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper config check"},
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := g.load(c)
			if err != nil {
				return err
			}
			checked := config.Checked{Config: l.Config}
			for _, check := range []func() error{checked.CheckPaths, checked.CheckRules} {
				if err := check(); err != nil {
					return err
				}
			}
			switch {
			case openAPI != "" && write:
				return fault.WrongUse("run it twice", "--write is for tools and --openapi for an API: one at a time")
			case openAPI != "":
				return g.draftCalls(c, checked.Ruled, openAPI)
			}
			all, err := behind{doctor.Outside{Checked: &checked}}.connected(c.Context())
			if err != nil {
				return err
			}
			for _, said := range all {
				if said.Cut != "" {
					g.say(c, "these are not all of the tools at "+said.Path+": "+terminal.Printable(said.Cut))
				}
			}
			if write {
				return g.draftTools(c, checked.Ruled, all)
			}
			return g.listTools(c, behind{doctor.Outside{Checked: &checked}}, all)
		},
	}
	c.Flags().BoolVar(&write, "write", false, "draft rules for the tools that none names, and change no file")
	c.Flags().StringVar(&openAPI, "openapi", "", "draft rules for the calls of an OpenAPI `FILE`, and ask no server")
	g.wideFlag(c)
	return c
}

// behind are the services behind, as to what their tools need.
type behind struct{ doctor.Outside }

// connected asks the MCP servers of the configuration, which needs no more than that.
func (c behind) connected(ctx context.Context) (all []doctor.Listed, err error) {
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

func (c behind) toolsOf(ctx context.Context, one config.GuardedPath) (said doctor.Listed, err error) {
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

// needs says of a tool at a path what its calls need, as --json has it.
func (c behind) needs(path string, t mcp.Tool) map[string]any {
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
func (c behind) through(n rules.Needed) (needs, through string) {
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

var toolColumns = []terminal.Column{
	{Title: "tool", Of: func(o map[string]any) string { name, _ := o["tool"].(string); return terminal.ShownName(name) }},
	terminal.WordOf("needs", "needs"), terminal.Member("through", "through"), terminal.Member("why", "why").Sparing(1),
	{Title: "annotation", As: terminal.Word, Spare: 2, Of: func(o map[string]any) string {
		switch o["read_only_hint"] {
		case true:
			return "reads"
		case false:
			return "changes"
		}
		return terminal.None
	}},
}

func (g *global) listTools(c *cobra.Command, by behind, all []doctor.Listed) error {
	items, servers, complete, columns := []any{}, []any{}, true, toolColumns
	for _, said := range all {
		for _, t := range said.Tools {
			items = append(items, by.needs(said.Path, t))
		}
		servers = append(servers, map[string]any{"path": said.Path, "server": said.Name, "complete": said.Cut == ""})
		complete = complete && said.Cut == ""
		if said.Path != config.MCPPath {
			columns = append([]terminal.Column{terminal.WordOf("path", "path")}, toolColumns...)
		}
	}
	if g.json {
		return writeDocument(c.OutOrStdout(), map[string]any{"server": all[0].Name, "servers": servers, "items": items, "complete": complete})
	}
	g.table(c, items, columns)
	return nil
}

// draftTools writes rules for the tools that none names.
func (g *global) draftTools(c *cobra.Command, by *rules.Rules, all []doctor.Listed) error {
	d := setup.NewDraft(rules.MaxRules - by.Len())
	for _, said := range all {
		for _, t := range said.Tools {
			draftTool(d, by, config.RuledAt(said.Path), t)
		}
	}
	return g.tellDraft(c, d)
}

// draftTool drafts a rule for a tool that none names at its endpoint.
func draftTool(d *setup.Draft, by *rules.Rules, at string, t mcp.Tool) {
	if by.Needed(rules.Call{At: at, Tool: t.Name, Reads: t.Reads}).Rule >= 0 {
		return
	}
	claim := "says nothing, so it counts as one that changes"
	if t.Hinted {
		claim = map[bool]string{true: "claims that it only reads", false: "says that it changes"}[t.Reads == mcp.Reads]
	}
	rule, ok := rules.DraftTool(at, t.Name)
	why := ""
	if !ok {
		why = "no rule names it alone: its name has a *, or is too long"
	}
	d.Add(setup.Titled(t.Title, terminal.ShownName(t.Name))+": its annotation "+claim, rule, why)
}

// draftCalls writes rules for the calls of an API.
func (g *global) draftCalls(c *cobra.Command, by *rules.Rules, name string) error {
	in, err := os.Open(name)
	if err != nil {
		return fault.CannotOpen("", "--openapi: %v", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, rules.MaxOpenAPI+1))
	if err != nil {
		return fault.CannotOpen("", "--openapi: %v", err)
	}
	d, err := setup.DraftAPI(by, text)
	if err != nil {
		return fault.WrongUse("name a file of OpenAPI 3 in JSON", "--openapi: %s: %v", name, err)
	}
	return g.tellDraft(c, d)
}

func (g *global) tellDraft(c *cobra.Command, d *setup.Draft) error {
	if g.json {
		return writeDocument(c.OutOrStdout(), map[string]any{"rules": d.String(), "drafted": d.Rules, "left": d.Left})
	}
	told := terminal.Plural(d.Rules, "rule") + " to complete, each of which allows nothing yet; no file was changed"
	if d.Rules+d.Left == 0 {
		told = "rules name all of it already"
	}
	g.say(c, told)
	_, err := io.WriteString(c.OutOrStdout(), d.String())
	return err
}
