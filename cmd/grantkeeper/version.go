package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/server"
)

// version is the release; a release build sets it with -ldflags.
var version = "0.1.0"

func thisVersion() operator.Version { return server.Build(version) }

func versionCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "version",
		Short: "Say what this binary is",
		Example: `  grantkeeper version
  grantkeeper version --json`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper --help"},
		RunE: func(c *cobra.Command, _ []string) error {
			v := thisVersion()
			if g.json {
				return json.NewEncoder(c.OutOrStdout()).Encode(v)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "grantkeeper %s  commit %s  %s  schema %d\n", v.Version, v.Commit, v.Go, v.Schema)
			return err
		},
	}
	return c
}
