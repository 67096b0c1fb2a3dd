package main

import (
	"io"
	"os"

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
			behind := doctor.Outside{Checked: &checked}
			all, err := behind.ListTools(c.Context())
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
			return g.listTools(c, behind, all)
		},
	}
	c.Flags().BoolVar(&write, "write", false, "draft rules for the tools that none names, and change no file")
	c.Flags().StringVar(&openAPI, "openapi", "", "draft rules for the calls of an OpenAPI `FILE`, and ask no server")
	g.wideFlag(c)
	return c
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

func (g *global) listTools(c *cobra.Command, by doctor.Outside, all []doctor.Listed) error {
	items, servers, complete, columns := []any{}, []any{}, true, toolColumns
	for _, said := range all {
		for _, t := range said.Tools {
			items = append(items, by.Needs(said.Path, t))
		}
		servers = append(servers, map[string]any{"path": said.Path, "server": said.Name, "complete": said.Cut == ""})
		complete = complete && said.Cut == ""
		if config.RuledAt(said.Path) != "" {
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
