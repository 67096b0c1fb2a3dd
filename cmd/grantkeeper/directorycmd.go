package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
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
		var would importAnswer
		if err := server.Do(ctx, http.MethodPost, "/v1/directory", query, text, &would); err != nil {
			return err
		}
		if err := o.confirm(c, would.question()); err != nil {
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
	var told importAnswer
	if err := json.Unmarshal(answer, &told); err != nil {
		return server.Stranger()
	}
	_, err := io.WriteString(c.OutOrStdout(), told.String())
	return err
}

// importAnswer is an import's answer, as far as it is printed.
type importAnswer struct {
	DryRun bool `json:"dry_run"`
	Counts map[string]struct {
		Added, Changed, Removed int
	} `json:"counts"`
	Changes []struct{ Change, List, ID string } `json:"changes"`
	Ended   int                                 `json:"approvals_ended"`
}

// importLists is the order in which the lists are told.
var importLists = []string{"people", "organizations", "members", "circles", "roles", "fillers", "api_keys", "rules"}

func (a importAnswer) question() string {
	added, changed, removed := 0, 0, 0
	for _, n := range a.Counts {
		added, changed, removed = added+n.Added, changed+n.Changed, removed+n.Removed
	}
	return fmt.Sprintf("This adds %d, changes %d and removes %d, and ends %s for good.", added, changed, removed, terminal.Plural(a.Ended, "approval"))
}

func (a importAnswer) String() string {
	var b strings.Builder
	for _, one := range a.Changes {
		fmt.Fprintf(&b, "%-8s %-14s %s\n", terminal.Printable(one.Change), terminal.Printable(one.List), terminal.Printable(one.ID))
	}
	total := 0
	for _, n := range a.Counts {
		total += n.Added + n.Changed + n.Removed
	}
	if more := total - len(a.Changes); more > 0 {
		fmt.Fprintf(&b, "and %d more\n", more)
	}
	if total > 0 {
		b.WriteString("\n")
	}
	for _, list := range importLists {
		if n, ok := a.Counts[list]; ok {
			fmt.Fprintf(&b, "%-14s %d added, %d changed, %d removed\n", list, n.Added, n.Changed, n.Removed)
		}
	}
	verb := "ended"
	if a.DryRun {
		verb = "would end"
	}
	if total == 0 {
		b.WriteString("nothing to change\n")
	}
	fmt.Fprintf(&b, "%-14s %d %s\n", "approvals", a.Ended, verb)
	return b.String()
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
				return writeEntries(c.OutOrStdout(), text)
			})
		},
	}
	o = operatorFlags(g, c)
	return c
}

// writeEntries writes each entry on a line of its own: a fault is named by its
// line, and two files can be compared.
func writeEntries(w io.Writer, text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("{")
	for first := true; dec.More(); first = false {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if !first {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "\n  %q: ", name)
		var entries []json.RawMessage
		if json.Unmarshal(value, &entries) != nil {
			b.Write(value)
			continue
		}
		b.WriteString("[")
		for i, entry := range entries {
			if i > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "\n    %s", entry)
		}
		if len(entries) > 0 {
			b.WriteString("\n  ")
		}
		b.WriteString("]")
	}
	b.WriteString("\n}\n")
	_, err := w.Write(b.Bytes())
	return err
}
