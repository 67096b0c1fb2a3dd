package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/database"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func migrateCopyCommand(g *global) *cobra.Command {
	var from, to string
	var yes changeOptions
	c := &cobra.Command{
		Use:   "copy",
		Short: "Copy the database into an empty one, of SQLite or of PostgreSQL",
		Example: `  grantkeeper migrate copy --to postgres://grantkeeper@db.example:5432/grantkeeper
  grantkeeper migrate copy --from /etc/grantkeeper/database-url --to sqlite:///var/lib/grantkeeper/grantkeeper.db --yes`,
		Long: `Everything is copied: with the same key file, tokens, sessions, passwords and API keys
go on to work. Every server on either database is stopped before. What was written is
read again, and each table compared by its number of rows and a digest of them.

A URL is as in database.url. A name without a scheme is of a file that holds one, as
database.url_file: a password on the command line is everybody's on this machine.

The other database must be empty, and is made with this release's schema, which the
first must have too. A copy that ends half-way is no database: no server starts on it,
and the next copy begins anew. Afterwards name the new one in the configuration, and
start no server on the old one: it would be of the past.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "name the new one in database.url, then grantkeeper serve"},
		RunE: func(c *cobra.Command, _ []string) error {
			checked, err := g.loadChecked(c)
			if err != nil {
				return err
			}
			return g.migrateCopy(c, checked, from, to, yes)
		},
	}
	f := c.Flags()
	f.StringVar(&from, "from", "", "the database that is copied, a `URL` or a file with one (default: the one of the configuration)")
	f.StringVar(&to, "to", "", "the empty one, a `URL` or a file with one")
	f.BoolVar(&yes.yes, "yes", false, "do not ask")
	return c
}

func (g *global) migrateCopy(c *cobra.Command, checked config.Checked, from, to string, yes changeOptions) error {
	if to == "" {
		return fault.WrongUse("write: "+c.CommandPath()+" --to URL", "--to: there is none")
	}
	source := store.Place{Path: checked.Path, URL: checked.Postgres}
	var err error
	if from != "" {
		if source, err = database.PlaceOf("--from", from, checked); err != nil {
			return err
		}
	}
	target, err := database.PlaceOf("--to", to, checked)
	if err != nil {
		return err
	}
	if err := yes.confirm(c, fmt.Sprintf("Copy %s into %s?", source.Name(), target.Name())); err != nil {
		return err
	}
	var tables []store.CopiedTable
	var rows, mended int64
	o := store.CopyOptions{From: source, To: target, Ring: checked.Ring, Release: version, Told: func(one store.CopiedTable) {
		tables, rows, mended = append(tables, one), rows+one.Rows, mended+one.Mended
		if !g.json {
			fmt.Fprintf(c.OutOrStdout(), "%-20s %9d  %s\n", one.Table, one.Rows, one.Digest[:16])
		}
	}}
	if err := untilSignal(c.Context(), func(ctx context.Context) error { return database.Copy(ctx, o) }); err != nil {
		return err
	}
	if g.json {
		return writeDocument(c.OutOrStdout(), map[string]any{"from": source.Name(), "to": target.Name(), "tables": tables, "rows": rows, "mended": mended})
	}
	fmt.Fprintf(c.OutOrStdout(), "%s copied into %s, and compared.\n", terminal.Plural(int(rows), "row"), target.Name())
	if mended > 0 {
		fmt.Fprintf(c.OutOrStdout(), "%s had bytes that PostgreSQL cannot hold, which are U+FFFD there.\n", terminal.Plural(int(mended), "text"))
	}
	setting := "database.url"
	if database.IsFile(to) {
		setting += "_file"
	}
	g.say(c, "Next: name it in "+setting+", then grantkeeper serve; start no server on the old one any more")
	return nil
}
