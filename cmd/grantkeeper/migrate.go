package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// migrateCommand is given the migrations that there are, in order.
func migrateCommand(g *global, all []store.Migration) *cobra.Command {
	return group(&cobra.Command{
		Use:   "migrate",
		Short: "Take the database's schema to that of this release",
		Example: `  grantkeeper migrate status
  grantkeeper migrate plan
  grantkeeper migrate up --backup /backup/before.db --yes`,
		Long: `Migrations go forward only, each in a transaction of its own, and each keeps the
release before able to run.`,
		Annotations: map[string]string{"next": "grantkeeper migrate status"},
	}, migrateStatusCommand(g, all), migratePlanCommand(g, all), migrateUpCommand(g, all))
}

// schemaStatus is how far a database is.
type schemaStatus struct {
	Database string `json:"database"`
	Current  int    `json:"current"` // 0 when there is none yet
	Oldest   int    `json:"oldest"`  // schema whose releases work on it too; 0 when it does not say
	Release  string `json:"release"` // that has made the schema; empty when it does not say
	Newest   int    `json:"newest"`
	Pending  []int  `json:"pending"`
	Works    bool   `json:"works"` // this release starts on it
	postgres bool
}

// migration finds the configured database. There is none yet with current 0.
func (g *global) migration(c *cobra.Command, all []store.Migration) (schemaStatus, config.Checked, error) {
	ctx := c.Context()
	checked, err := g.loadChecked(c)
	if err != nil {
		return schemaStatus{}, config.Checked{}, err
	}
	s := schemaStatus{Database: checked.Path, Newest: all[len(all)-1].Version, Pending: []int{}, Works: true, postgres: checked.Postgres != ""}
	var schema store.Schema
	if checked.Postgres != "" {
		s.Database, schema, err = store.InspectURL(ctx, checked.Postgres, checked.Ring)
		s.Database, _, _ = strings.Cut(s.Database, ",")
	} else {
		info, failed := store.Inspect(ctx, checked.Path)
		if errors.Is(failed, fs.ErrNotExist) {
			return s, checked, nil // the first start makes it, with the newest
		}
		schema, err = store.Schema{Version: info.Schema, Oldest: info.Oldest, Release: info.Release}, failed
		if err == nil {
			err = info.CheckSchema()
		}
	}
	if err != nil && !errors.Is(err, store.ErrSchema) {
		return s, checked, server.OpenError(err)
	}
	s.Current, s.Oldest, s.Release = schema.Version, schema.Oldest, schema.Release
	if s.Current > 0 {
		for _, m := range store.Pending(all, s.Current, 0) {
			s.Pending = append(s.Pending, m.Version)
		}
	}
	s.Works = err == nil || s.Current == s.Newest // which tests invent
	return s, checked, nil
}

func (s schemaStatus) String() string {
	switch {
	case s.Current == 0:
		return fmt.Sprintf("%s: not there; the first start makes it with schema %d", s.Database, s.Newest)
	case s.Current > s.Newest && s.Works:
		return fmt.Sprintf("%s: schema %d is of a later release, and this one, which has %d, works on it too", s.Database, s.Current, s.Newest)
	case s.Current > s.Newest:
		return fmt.Sprintf("%s: schema %d is of a later release, this one has %d", s.Database, s.Current, s.Newest)
	case len(s.Pending) == 0:
		return fmt.Sprintf("%s: schema %d, the newest", s.Database, s.Current)
	}
	return fmt.Sprintf("%s: schema %d, newest %d, pending: %s", s.Database, s.Current, s.Newest, terminal.Numbers(s.Pending))
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
			if err == nil {
				err = s.checkTo(to)
			}
			if err != nil {
				return err
			}
			g.say(c, s.String())
			for _, m := range store.Pending(all, s.from(), to) {
				fmt.Fprintf(c.OutOrStdout(), "-- %04d\n%s\n", m.Version, strings.TrimSpace(m.SQL))
				if s.postgres && m.Postgres != "" {
					fmt.Fprintln(c.OutOrStdout(), strings.TrimSpace(m.Postgres))
				}
			}
			return nil
		},
	}
	c.Flags().IntVar(&to, "to", 0, "a version to stop at (default: the newest)")
	return c
}

// from is the version that nothing is pending for: all of them where there is
// no database yet.
func (s schemaStatus) from() int {
	if s.Current == 0 {
		return s.Newest
	}
	return s.Current
}

func (s schemaStatus) checkTo(to int) error {
	switch {
	case s.Current > s.Newest && !s.Works:
		return &fault.Error{Code: fault.State, What: s.String(), Hint: server.LaterRelease(&store.SchemaError{Release: s.Release})}
	case s.Current > s.Newest && to == 0:
		return nil // an old node's turn in a rolling upgrade: nothing is pending
	case to > 0 && to < s.Current:
		return &fault.Error{Code: fault.State, What: fmt.Sprintf("schema %d is past %d: migrations go forward only", s.Current, to), Hint: "the release before runs on it too: go back to its binary"}
	case to < 0 || to > s.Newest:
		return fault.WrongUse("see: grantkeeper migrate status", "--to: there is no schema %d in this release", to)
	}
	return nil
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
	if err == nil {
		err = s.checkTo(to)
	}
	if err != nil {
		return err
	}
	if backup != "" && checked.Postgres != "" {
		return fault.WrongUse(`before it: pg_dump --format=custom --file=`+backup+` "$DATABASE_URL"`, "--backup is for SQLite: PostgreSQL is backed up by its own means")
	}
	pending := store.Pending(all, s.from(), to)
	if len(pending) == 0 {
		return g.migrated(c, s, s.Current, s.Current, []store.Rekeyed{})
	}
	question := fmt.Sprintf("Take %s from schema %d to %d?", s.Database, s.Current, pending[len(pending)-1].Version)
	if err := yes.confirm(c, question); err != nil {
		return err
	}
	rekeyed := []store.Rekeyed{}
	from, reached, err := store.Migrate(c.Context(), store.MigrateOptions{
		Rekeyed: func(one store.Rekeyed) { rekeyed = append(rekeyed, one) },
		Path:    checked.Path, URL: checked.Postgres, Ring: checked.Ring, Release: version, Migrations: all, To: to, Backup: backup,
	})
	if err != nil {
		return migrateError(err, reached)
	}
	return g.migrated(c, s, from, reached, rekeyed)
}

func (g *global) migrated(c *cobra.Command, s schemaStatus, from, to int, rekeyed []store.Rekeyed) error {
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

// migrateError says where a migration that failed has left the schema.
func migrateError(err error, reached int) error {
	switch {
	case errors.Is(err, store.ErrInUse):
		return &fault.Error{Code: fault.State, What: err.Error(), Hint: "stop the server, and run it again; or: grantkeeper serve --migrate"}
	case errors.Is(err, fs.ErrExist):
		return &fault.Error{Code: fault.State, What: err.Error() + ", nothing was changed", Hint: "choose another --backup FILE"}
	case errors.Is(err, store.ErrSchema), errors.Is(err, store.ErrNodes), errors.Is(err, store.ErrKeys), errors.Is(err, store.ErrDatabase):
		return server.OpenError(err)
	}
	return &fault.Error{Code: fault.Failed, What: err.Error(), Hint: fmt.Sprintf("the schema is %d, and the release of it goes on to run; report the fault", reached)}
}
