package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

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
				return l.showJSON(c.OutOrStdout())
			}
			return l.show(c.OutOrStdout(), origin)
		},
	}
	c.Flags().BoolVar(&origin, "origin", origin, "say where each value comes from")
	return c
}

// origin says where a setting's value comes from.
func (l Loaded) origin(s setting) Origin {
	if o, ok := l.Origins[s.key]; ok {
		return o
	}
	return "default"
}

// show writes a file of the configuration that holds.
func (l Loaded) show(w io.Writer, origin bool) error {
	var b strings.Builder
	for _, s := range settings {
		if s.list != "" {
			continue
		}
		line := s.key + " = " + s.written(l.Config)
		if origin {
			line = fmt.Sprintf("%-60s # %s", line, l.from(s))
		}
		fmt.Fprintln(&b, line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// from names the origin: the file, the variable, or the default.
func (l Loaded) from(s setting) string {
	switch o := l.origin(s); o {
	case "file":
		return "file " + l.File
	case "environment":
		return "environment " + s.env
	default:
		return string(o)
	}
}

func (l Loaded) showJSON(w io.Writer) error {
	type shown struct {
		Key    string `json:"key"`
		Value  any    `json:"value"` // null when it is empty
		Origin Origin `json:"origin"`
	}
	out := struct {
		File     string  `json:"file,omitempty"`
		Settings []shown `json:"settings"`
	}{File: l.File}
	for _, s := range settings {
		if s.list == "" {
			out.Settings = append(out.Settings, shown{s.key, s.value(l.Config), l.origin(s)})
		}
	}
	return writeDocument(w, out)
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
				return writeReference(c.OutOrStdout())
			}
			var out struct {
				Settings []described `json:"settings"`
			}
			for _, s := range settings {
				out.Settings = append(out.Settings, s.described())
			}
			return writeDocument(c.OutOrStdout(), out)
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
