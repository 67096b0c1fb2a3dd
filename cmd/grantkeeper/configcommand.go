package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
)

//go:generate sh -c "go run . config reference > ../../docs/configuration.md"

func configCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "config",
		Short: "Look at the configuration",
		Example: `  grantkeeper config check
  grantkeeper config show
  grantkeeper config reference`,
		Annotations: map[string]string{"next": "grantkeeper config check"},
	}, configCheckCommand(g), configShowCommand(g), configReferenceCommand(g))
}

func configShowCommand(g *global) *cobra.Command {
	origin := true
	c := &cobra.Command{
		Use:   "show",
		Short: "Show the values that hold, and where each comes from",
		Example: `  grantkeeper config show
  grantkeeper config show -c ./grantkeeper.toml --json
  grantkeeper config show --origin=false > flat.toml     # as a file`,
		Long: `A flag of serve wins over the environment, the environment over the file, the
file over the default. Secrets are not shown.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper serve"},
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := g.load(c)
			if err != nil {
				return err
			}
			if g.json {
				return writeDocument(c.OutOrStdout(), l.Shown())
			}
			return l.Show(c.OutOrStdout(), origin)
		},
	}
	c.Flags().BoolVar(&origin, "origin", origin, "say where each value comes from")
	return c
}

func configReferenceCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "reference",
		Short: "Every setting, as Markdown or JSON",
		Example: `  grantkeeper config reference
  grantkeeper config reference --json`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper config show"},
		RunE: func(c *cobra.Command, _ []string) error {
			if !g.json {
				return config.WriteReference(c.OutOrStdout())
			}
			return writeDocument(c.OutOrStdout(), config.Reference())
		},
	}
	return c
}

// writeDocument writes the one document of a command with --json.
func writeDocument(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
