package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/database"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
)

// migrateCommand is given the migrations that there are, in order.
func migrateCommand(g *global, all []store.Migration) *cobra.Command {
	return group(&cobra.Command{
		Use:   "migrate",
		Short: "Take the database to this release's schema, or to the other engine",
		Example: `  grantkeeper migrate status
  grantkeeper migrate plan
  grantkeeper migrate up --backup /backup/before.db --yes
  grantkeeper migrate copy --to /etc/grantkeeper/database-url`,
		Long: `Migrations go forward only, each in a transaction of its own, and each keeps the
release before able to run. copy takes the rows from one engine to the other.`,
		Annotations: map[string]string{"next": "grantkeeper migrate status"},
	}, migrateStatusCommand(g, all), migratePlanCommand(g, all), migrateUpCommand(g, all), migrateCopyCommand(g))
}

// migration finds the configured database.
func (g *global) migration(c *cobra.Command, all []store.Migration) (database.Status, config.Checked, error) {
	checked, err := g.loadChecked(c)
	if err != nil {
		return database.Status{}, config.Checked{}, err
	}
	s, err := database.Inspect(c.Context(), checked, all)
	return s, checked, err
}

func migrateStatusCommand(g *global, all []store.Migration) *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "Say which schema the database has, and which this release",
		Example: `  grantkeeper migrate status
  grantkeeper migrate status --json`,
		Long:        `A server may be running on the database meanwhile: it is read alone.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper migrate plan"},
		RunE: func(c *cobra.Command, _ []string) error {
			s, _, err := g.migration(c, all)
			if err != nil {
				return err
			}
			if g.json {
				return writeDocument(c.OutOrStdout(), s)
			}
			_, err = fmt.Fprintln(c.OutOrStdout(), s)
			return err
		},
	}
	return c
}

func migratePlanCommand(g *global, all []store.Migration) *cobra.Command {
	to := 0
	c := &cobra.Command{
		Use:   "plan",
		Short: "Print the SQL that migrate up would run",
		Example: `  grantkeeper migrate plan
  grantkeeper migrate plan --to 2`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper migrate up --backup FILE"},
		RunE: func(c *cobra.Command, _ []string) error {
			s, _, err := g.migration(c, all)
			if err != nil {
				return err
			}
			pending, err := s.UpTo(all, to)
			if err != nil {
				return err
			}
			g.say(c, s.String())
			for _, m := range pending {
				fmt.Fprintf(c.OutOrStdout(), "-- %04d\n%s\n", m.Version, strings.TrimSpace(m.SQL))
				if s.Postgres && m.Postgres != "" {
					fmt.Fprintln(c.OutOrStdout(), strings.TrimSpace(m.Postgres))
				}
			}
			return nil
		},
	}
	c.Flags().IntVar(&to, "to", 0, "a version to stop at (default: the newest)")
	return c
}

func migrateUpCommand(g *global, all []store.Migration) *cobra.Command {
	var to int
	var backup string
	var yes changeOptions
	c := &cobra.Command{
		Use:   "up",
		Short: "Run what is pending",
		Example: `  grantkeeper migrate up --backup /backup/before.db
  grantkeeper migrate up --to 2 --yes`,
		Long: `Each migration is in a transaction of its own: one that fails changes nothing, and
those before it stand. serve --migrate, or database.auto_migrate, does the same at its
start.

On SQLite the server must be stopped, since it is the only one who may write. On
PostgreSQL nodes go on to work; one whose release the migration would break is
refused while it lives. It waits up to a minute and a half for a table that somebody
else holds, such as pg_dump, and is the table's owner's to run.

--backup is for SQLite. PostgreSQL is backed up by pg_dump, before.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper serve, then grantkeeper doctor"},
		RunE:        func(c *cobra.Command, _ []string) error { return g.migrateUp(c, all, to, backup, yes) },
	}
	f := c.Flags()
	f.IntVar(&to, "to", 0, "a version to stop at (default: the newest)")
	f.StringVar(&backup, "backup", "", "a new `FILE` for a backup of before")
	f.BoolVar(&yes.yes, "yes", false, "do not ask")
	return c
}

// migrateUp runs what is pending up to a version; 0 is all of it.
func (g *global) migrateUp(c *cobra.Command, all []store.Migration, to int, backup string, yes changeOptions) error {
	s, checked, err := g.migration(c, all)
	if err != nil {
		return err
	}
	pending, err := s.UpTo(all, to)
	if err != nil {
		return err
	}
	if backup != "" && checked.Postgres != "" {
		return fault.WrongUse(`before it: pg_dump --format=custom --file=`+backup+` "$DATABASE_URL"`, "--backup is for SQLite: PostgreSQL is backed up by its own means")
	}
	if len(pending) == 0 {
		return g.migrated(c, s, s.Current, s.Current, []store.Rekeyed{})
	}
	question := fmt.Sprintf("Take %s from schema %d to %d?", s.Database, s.Current, pending[len(pending)-1].Version)
	if err := yes.confirm(c, question); err != nil {
		return err
	}
	rekeyed := []store.Rekeyed{}
	from, reached, err := database.Migrate(c.Context(), store.MigrateOptions{
		Rekeyed: func(one store.Rekeyed) { rekeyed = append(rekeyed, one) },
		Path:    checked.Path, URL: checked.Postgres, Ring: checked.Ring, Release: version, Migrations: all, To: to, Backup: backup,
	})
	if err != nil {
		return err
	}
	return g.migrated(c, s, from, reached, rekeyed)
}

func (g *global) migrated(c *cobra.Command, s database.Status, from, to int, rekeyed []store.Rekeyed) error {
	if g.json {
		return writeDocument(c.OutOrStdout(), map[string]any{"database": s.Database, "from": from, "to": to, "rekeyed": rekeyed})
	}
	if from == to {
		_, err := fmt.Fprintln(c.OutOrStdout(), s)
		return err
	}
	text := fmt.Sprintf("%s: schema %d, from %d\n", s.Database, to, from)
	for _, one := range rekeyed {
		text += fmt.Sprintf("person %s, %q: %q was taken for this email, and is not any more; see who has signed in as them: grantkeeper events --person %s\n",
			one.Person, one.Email, one.Before, one.Person)
	}
	_, err := io.WriteString(c.OutOrStdout(), text)
	return err
}
