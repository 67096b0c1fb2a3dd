package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/store"
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
	Newest   int    `json:"newest"`
	Pending  []int  `json:"pending"`
}

// migration finds the configured database. There is none yet with current 0.
func (g *global) migration(c *cobra.Command, all []store.Migration) (schemaStatus, Checked, error) {
	ctx := c.Context()
	checked, err := g.loadChecked(c)
	if err != nil {
		return schemaStatus{}, Checked{}, err
	}
	s := schemaStatus{Database: checked.Path, Newest: all[len(all)-1].Version, Pending: []int{}}
	if checked.Postgres != "" {
		return g.migrationOfPostgres(ctx, s, checked, all)
	}
	info, err := store.Inspect(ctx, checked.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, checked, nil // the first start makes it, with the newest
	} else if err != nil {
		return s, checked, openError(err)
	}
	s.Current = info.Schema
	for _, m := range store.Pending(all, info.Schema, 0) {
		s.Pending = append(s.Pending, m.Version)
	}
	return s, checked, nil
}

func (g *global) migrationOfPostgres(ctx context.Context, s schemaStatus, checked Checked, all []store.Migration) (schemaStatus, Checked, error) {
	var err error
	var schema *store.SchemaError
	s.Database, err = store.InspectURL(ctx, checked.Postgres, checked.Ring)
	switch {
	case errors.As(err, &schema):
		s.Database, s.Current = "postgres", schema.Has
		for _, m := range store.Pending(all, schema.Has, 0) {
			s.Pending = append(s.Pending, m.Version)
		}
		return s, checked, nil
	case err != nil:
		return s, checked, openError(err)
	}
	s.Current = s.Newest // or it is empty, and the first start makes it so
	return s, checked, nil
}

// migratePostgres does what a node does at its start, while others run.
func migratePostgres(ctx context.Context, c Checked) error {
	s, err := store.Open(ctx, store.Options{URL: c.Postgres, Ring: c.Ring, Migrate: true})
	if err != nil {
		return openError(err)
	}
	return s.Close()
}

func (s schemaStatus) String() string {
	switch {
	case s.Current == 0:
		return fmt.Sprintf("%s: not there; the first start makes it with schema %d", s.Database, s.Newest)
	case s.Current > s.Newest:
		return fmt.Sprintf("%s: schema %d is of a later release, this one has %d", s.Database, s.Current, s.Newest)
	case len(s.Pending) == 0:
		return fmt.Sprintf("%s: schema %d, the newest", s.Database, s.Current)
	}
	return fmt.Sprintf("%s: schema %d, newest %d, pending: %s", s.Database, s.Current, s.Newest, numbers(s.Pending))
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
		Annotations: map[string]string{"next": "stop the server, then: grantkeeper migrate up --backup FILE"},
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
	case s.Current > s.Newest:
		return &exitError{exitState, s.String(), "use the release that this database belongs to, or a later one"}
	case to > 0 && to < s.Current:
		return &exitError{exitState, fmt.Sprintf("schema %d is past %d: migrations go forward only", s.Current, to), "the release before runs on it too: go back to its binary"}
	case to < 0 || to > s.Newest:
		return wrongUse("see: grantkeeper migrate status", "--to: there is no schema %d in this release", to)
	}
	return nil
}

func migrateUpCommand(g *global, all []store.Migration) *cobra.Command {
	var to int
	var backup string
	var yes changeOptions
	c := &cobra.Command{
		Use:   "up",
		Short: "Run what is pending, while the server is stopped",
		Example: `  grantkeeper migrate up --backup /backup/before.db
  grantkeeper migrate up --to 2 --yes`,
		Long: `Each migration is in a transaction of its own: one that fails changes nothing, and
those before it stand. The server must be stopped, since it is the only one who may
write; serve --migrate, or database.auto_migrate, does the same at its start.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper serve, then grantkeeper doctor"},
		RunE: func(c *cobra.Command, _ []string) error {
			s, checked, err := g.migration(c, all)
			if err == nil {
				err = s.checkTo(to)
			}
			if err != nil {
				return err
			}
			pending := store.Pending(all, s.from(), to)
			if len(pending) == 0 {
				return g.migrated(c, s, s.Current, s.Current)
			}
			question := fmt.Sprintf("Take %s from schema %d to %d?", s.Database, s.Current, pending[len(pending)-1].Version)
			if err := yes.confirm(c, question); err != nil {
				return err
			}
			if checked.Postgres != "" {
				if to != 0 || backup != "" {
					return wrongUse("pg_dump makes a backup, and all that is pending runs", "--to and --backup are for SQLite")
				}
				if err := migratePostgres(c.Context(), checked); err != nil {
					return err
				}
				return g.migrated(c, s, s.Current, s.Newest)
			}
			from, reached, err := store.Migrate(c.Context(), store.MigrateOptions{Path: checked.Path, Migrations: all, To: to, Backup: backup})
			if err != nil {
				return migrateError(err, reached)
			}
			return g.migrated(c, s, from, reached)
		},
	}
	f := c.Flags()
	f.IntVar(&to, "to", 0, "a version to stop at (default: the newest)")
	f.StringVar(&backup, "backup", "", "a new `FILE` for a backup of before")
	f.BoolVar(&yes.yes, "yes", false, "do not ask")
	return c
}

func (g *global) migrated(c *cobra.Command, s schemaStatus, from, to int) error {
	if g.json {
		return writeDocument(c.OutOrStdout(), map[string]any{"database": s.Database, "from": from, "to": to})
	}
	if from == to {
		_, err := fmt.Fprintln(c.OutOrStdout(), s)
		return err
	}
	_, err := fmt.Fprintf(c.OutOrStdout(), "%s: schema %d, from %d\n", s.Database, to, from)
	return err
}

// migrateError says where a migration that failed has left the schema.
func migrateError(err error, reached int) error {
	switch {
	case errors.Is(err, store.ErrInUse):
		return &exitError{exitState, err.Error(), "stop the server, and run it again; or: grantkeeper serve --migrate"}
	case errors.Is(err, fs.ErrExist):
		return &exitError{exitState, err.Error() + ", nothing was changed", "choose another --backup FILE"}
	case errors.Is(err, store.ErrSchema):
		return openError(err)
	}
	return &exitError{exitFailed, err.Error(), fmt.Sprintf("the schema is %d, and the release of it goes on to run; report the fault", reached)}
}
