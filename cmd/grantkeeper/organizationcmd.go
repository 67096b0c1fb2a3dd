package main

import (
	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var organizationColumns = []terminal.Column{
	terminal.IDOf("organization", "id"), terminal.Member("name", "name"), terminal.Member("AI integration", "ai_integration"),
}

func organizationCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "organization COMMAND",
		Short: "Look at organizations, their rules for apps and what is connected, and switch their AI integration",
		Example: `  grantkeeper organization list
  grantkeeper organization ai-integration havn off --reason "asked for it" --yes`,
		Annotations: map[string]string{"next": "grantkeeper organization list"},
	}, organizationList(g), organizationShow(g), organizationIntegration(g),
		policyCommand(g), requestCommand(g), connectionCommand(g))
}

func organizationList(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:         "list",
		Short:       "List organizations by ID",
		Example:     `  grantkeeper organization list --json`,
		Annotations: map[string]string{"next": "grantkeeper organization show ID"},
	}, "/v1/organizations", organizationColumns, nil)
}

func organizationShow(g *global) *cobra.Command {
	return g.objectShow(&cobra.Command{
		Use:         "show ID",
		Short:       "Show one organization",
		Example:     `  grantkeeper organization show nordlys`,
		Annotations: map[string]string{"next": "grantkeeper person list --organization ID"},
	}, "/v1/organizations/", organizationColumns...)
}

func organizationIntegration(g *global) *cobra.Command {
	var o *serverChange
	c := &cobra.Command{
		Use:   "ai-integration ID on|off",
		Short: "Switch an organization's AI integration; off ends every approval in it",
		Example: `  grantkeeper organization ai-integration nordlys on
  grantkeeper organization ai-integration havn off --reason "asked for it" --yes`,
		Args:        named("ID on|off", 2),
		Annotations: map[string]string{"next": "grantkeeper approval list --organization ID"},
		RunE: func(c *cobra.Command, args []string) error {
			on, question := args[1] == "on", ""
			switch {
			case !on && args[1] != "off":
				return fault.WrongUse("write: grantkeeper organization ai-integration ID on|off", "%q is neither on nor off", args[1])
			case !on:
				question = "This ends all approvals in %s, for good: %s."
			}
			return g.postTo(c, o, "/v1/organizations/", args[0], "ai-integration", map[string]any{"on": on}, question, organizationColumns...)
		},
	}
	o = serverChangeFlags(g, c, true)
	return c
}
