package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/remote"
)

func directoryCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "directory COMMAND",
		Short: "Take people, organizations and all between them from a file, or write them to one",
		Example: `  grantkeeper directory export > directory.json
  grantkeeper directory import directory.json --prune --dry-run`,
		Annotations: map[string]string{"next": "grantkeeper directory export"},
	}, directoryImport(g), directoryExport(g))
}

func directoryImport(g *global) *cobra.Command {
	var dry, prune bool
	var o *serverChange
	c := &cobra.Command{
		Use:   "import FILE|-",
		Short: "Add and update what a file names, and with --prune remove what it does not",
		Example: `  grantkeeper directory import directory.json --dry-run
  grantkeeper directory import directory.json --prune --reason nightly --yes
  some-export | grantkeeper directory import - --yes`,
		Long: `The file is JSON, as docs/operator-api.md has it and directory export writes it.
It is taken whole or not at all; what is there already is left as it is. --prune
removes what the lists of the file do not name; a list that the file does not have
is left alone. Approvals of those who are removed end for good. --dry-run says what
would change and how many approvals would end, and changes nothing.`,
		Args:        named("FILE|-", 1),
		Annotations: map[string]string{"next": "grantkeeper events list --kind directory_changed"},
		RunE: func(c *cobra.Command, args []string) error {
			text, err := remote.ReadImport(c.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
				server.HTTP.Timeout = remote.ImportTimeout
				return g.importDirectory(ctx, c, server, o, text, prune, dry)
			})
		},
	}
	o = serverChangeFlags(g, c, true)
	c.Flags().BoolVar(&dry, "dry-run", false, "say what would change, and change nothing")
	c.Flags().BoolVar(&prune, "prune", false, "remove what the file's lists do not name")
	return c
}

// importDirectory asks with the numbers of a dry run before it changes
// anything.
func (g *global) importDirectory(ctx context.Context, c *cobra.Command, server *remote.Server, o *serverChange, text remote.RawJSON, prune, dry bool) error {
	query := url.Values{"prune": {fmt.Sprint(prune)}}
	if o.reason != "" {
		query.Set("reason", o.reason)
	}
	if !dry && !o.yes {
		query.Set("dry_run", "true")
		var would remote.Imported
		if err := server.Do(ctx, http.MethodPost, "/v1/directory", query, text, &would); err != nil {
			return err
		}
		if err := o.confirm(c, would.Question()); err != nil {
			return err
		}
	}
	query.Set("dry_run", fmt.Sprint(dry))
	var answer json.RawMessage
	if err := server.Do(ctx, http.MethodPost, "/v1/directory", query, text, &answer); err != nil {
		return err
	}
	if g.json {
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s\n", answer)
		return err
	}
	var told remote.Imported
	if err := json.Unmarshal(answer, &told); err != nil {
		return server.Stranger()
	}
	_, err := io.WriteString(c.OutOrStdout(), told.String())
	return err
}

func directoryExport(g *global) *cobra.Command {
	var o *remote.At
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the whole directory as JSON, as import takes it",
		Example: `  grantkeeper directory export > directory.json
  grantkeeper directory export | grantkeeper directory import - --prune --dry-run`,
		Long: `Passwords are not in it, and API keys are there by their names alone. To import it
again changes nothing.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper directory import FILE --dry-run"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
				server.HTTP.Timeout = remote.ImportTimeout
				var text json.RawMessage
				if err := server.Do(ctx, http.MethodGet, "/v1/directory", nil, nil, &text); err != nil {
					return err
				}
				if g.json {
					_, err := fmt.Fprintf(c.OutOrStdout(), "%s\n", text)
					return err
				}
				return remote.WriteEntries(c.OutOrStdout(), text)
			})
		},
	}
	o = operatorFlags(g, c)
	return c
}
