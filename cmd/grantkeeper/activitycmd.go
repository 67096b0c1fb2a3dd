package main

import (
	"context"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/remote"
)

func activityCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:         "activity COMMAND",
		Short:       "Read what apps did in people's names, without titles",
		Example:     `  grantkeeper activity export --since 30d --output activity.jsonl`,
		Annotations: map[string]string{"next": "grantkeeper activity export"},
	}, activityExport(g))
}

func activityExport(g *global) *cobra.Command {
	var filter func() url.Values
	var o *remote.At
	var output string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write what apps did as JSON Lines",
		Example: `  grantkeeper activity export --since 30d --output activity.jsonl
  grantkeeper activity export --person tor@nordlys.example`,
		Long: `Of each approval come the records, oldest first, then what was counted by the hour;
then from when to when records may be missing, and last how many lines there are.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "keep the file where activity.keep does not reach"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
				query := filter()
				if err := server.WholeOf(ctx, query); err != nil {
					return err
				}
				return g.export(c, output, "records", func(to io.Writer) (int, error) { return server.ExportActivity(ctx, to, query) })
			})
		},
	}
	o = operatorFlags(g, c)
	all := pastFilters()
	delete(all, "kind")
	delete(all, "reference")
	filter = filterFlags(c, all)
	c.Flags().StringVar(&output, "output", "", "a new `FILE` (default: standard output)")
	return c
}
