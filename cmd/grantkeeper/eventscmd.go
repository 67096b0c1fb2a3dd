package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var eventColumns = []terminal.Column{
	terminal.Moment("time", "at"), terminal.WordOf("kind", "kind"), terminal.IDOf("client", "client"), terminal.IDOf("person", "person"),
	terminal.Member("organization", "organization").Sparing(2), terminal.IDOf("approval", "approval").Sparing(1), terminal.Member("actor", "actor").Sparing(3),
	terminal.Member("address", "address").Sparing(4), terminal.Member("reason", "reason"), terminal.Member("detail", "detail"), terminal.WordOf("reference", "reference").Sparing(5),
}

func eventsCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "events COMMAND",
		Short: "Read the journal: who did what, when, from where, and why",
		Example: `  grantkeeper events list --kind refresh_reused --since 24h
  grantkeeper events tail
  grantkeeper events export --since 30d --output events.jsonl`,
		Annotations: map[string]string{"next": "grantkeeper events list"},
	}, eventsList(g), eventsTail(g), eventsExport(g), eventsAnchor(g), eventsVerify(g))
}

// eventFilters narrow the journal.
func eventFilters() map[string]string {
	return map[string]string{
		"kind":         "such as refresh_reused",
		"client":       "about this client ID",
		"person":       "about this person: ID or email",
		"organization": "about this organization's ID",
		"approval":     "about this approval's ID",
		"reference":    "of the answer with this reference: its X-Request-Id",
	}
}

// pastFilters are those of what has been.
func pastFilters() map[string]string {
	all := eventFilters()
	all["since"], all["until"] = "from a `TIME` on: 24h or 7d ago, or 2026-11-21T09:00:00Z", "before a `TIME`"
	return all
}

func eventsList(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:   "list",
		Short: "List entries, newest first",
		Example: `  grantkeeper events list --kind refresh_reused --since 24h
  grantkeeper events list --person tor@nordlys.example --json`,
		Annotations: map[string]string{"next": "grantkeeper approval show ID"},
	}, "/v1/events", eventColumns, pastFilters())
}

func eventsTail(g *global) *cobra.Command {
	var filter func() url.Values
	var o *remote.At
	var lastN int
	c := &cobra.Command{
		Use:   "tail",
		Short: "Show the last entries, and each new one as it comes",
		Example: `  grantkeeper events tail
  grantkeeper events tail --kind approval_ended --json`,
		Long:        `With --json it writes one object on each line. Stop it with Ctrl-C.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper events list --since 24h"},
		RunE: func(c *cobra.Command, _ []string) error {
			if lastN < 0 || lastN > 1000 {
				return fault.WrongUse("see: grantkeeper events tail --help", "--last: 0 to 1000")
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			server, err := o.Connect(ctx, g.config, os.Environ())
			if err != nil {
				return err
			}
			query := filter()
			if err := server.WholeOf(ctx, query); err != nil {
				return err
			}
			return server.TailEvents(ctx, query, lastN, func(entry json.RawMessage) error { return g.writeEvent(c.OutOrStdout(), entry) })
		},
	}
	o = operatorFlags(g, c)
	filter = filterFlags(c, eventFilters())
	c.Flags().IntVar(&lastN, "last", 10, "how many to begin with")
	return c
}

// writeEvent writes one entry on a line.
func (g *global) writeEvent(out io.Writer, entry json.RawMessage) error {
	if g.json {
		_, err := fmt.Fprintf(out, "%s\n", entry)
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(entry, &object); err != nil {
		return err
	}
	line := terminal.TimeOf(object["at"]) + "  " + terminal.InWords(object["kind"])
	for _, name := range []string{"client", "person", "organization", "approval", "actor", "address", "reason", "detail", "reference"} {
		if v, _ := object[name].(string); v != "" {
			line += "  " + name + "=" + terminal.Printable(v)
		}
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func eventsExport(g *global) *cobra.Command {
	var filter func() url.Values
	var o *remote.At
	var output string
	var proof bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write entries as JSON Lines, oldest first",
		Example: `  grantkeeper events export --since 30d --output events.jsonl
  grantkeeper events export --kind approval_ended | gzip > ended.jsonl.gz
  grantkeeper events export --proof --output journal.jsonl`,
		Long: `With --proof the blocks that entries are sealed in stand before them, and a closing
line is the last one: grantkeeper events verify checks such a file. It takes no filter
but --since, which leaves out the blocks that end before.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "keep the file where journal.retention does not reach"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
				query := filter()
				write := server.ExportEvents
				if proof {
					write = server.ExportProof
				}
				if err := server.WholeOf(ctx, query); err != nil {
					return err
				}
				return g.export(c, output, "entries", func(to io.Writer) (int, error) { return write(ctx, to, query) })
			})
		},
	}
	o = operatorFlags(g, c)
	filter = filterFlags(c, pastFilters())
	c.Flags().StringVar(&output, "output", "", "a new `FILE` (default: standard output)")
	c.Flags().BoolVar(&proof, "proof", false, "with the blocks, for events verify")
	return c
}

// export writes to a new file, or to standard output without a name, and says how many
// of what there were.
func (g *global) export(c *cobra.Command, name, what string, write func(io.Writer) (int, error)) error {
	if name == "" || name == "-" {
		_, err := write(c.OutOrStdout())
		return err
	}
	n, err := remote.ToFile(name, write)
	if err == nil {
		g.say(c, fmt.Sprintf("%d %s in %s", n, what, name))
	}
	return err
}
