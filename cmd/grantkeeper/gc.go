package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func gcCommand(g *global) *cobra.Command {
	var dry bool
	var change *serverChange
	c := &cobra.Command{
		Use:   "gc",
		Short: "Delete what has expired; serve does it by itself every minute",
		Example: `  grantkeeper gc --dry-run
  grantkeeper gc`,
		Long: `Clients that nobody approved for 14 days, approvals that ended 90 days ago, sessions
that are over, unused links to set a password, entries of the journal after their time.
Nothing depends on when they go: expiry is asked and never written.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper doctor"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withServer(c, change.At, func(ctx context.Context, server *remote.Server) error {
				return g.ask(ctx, c, server.Patient(), http.MethodPost, "/v1/gc", nil, change.because(map[string]any{"dry_run": dry}), showCollected)
			})
		},
	}
	c.Flags().BoolVar(&dry, "dry-run", false, "count, and delete nothing")
	change = serverChangeFlags(g, c, false)
	return c
}

func showCollected(w io.Writer, o map[string]any) {
	for _, line := range []struct{ name, what string }{
		{"clients", "clients that nobody approved for 14 days"},
		{"ended", "approvals to mark ended"},
		{"approvals", "approvals that ended 90 days ago"},
		{"sessions", "sessions"},
		{"resets", "links to set a password"},
		{"events", "entries of the journal"},
		{"activity", "records of what apps did"},
	} {
		fmt.Fprintf(w, "%7s  %s\n", terminal.InWords(o[line.name]), line.what)
	}
	if o["dry_run"] == true {
		fmt.Fprintln(w, "Nothing was deleted.")
	}
}
