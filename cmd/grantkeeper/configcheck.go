package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
)

func configCheckCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Load everything as serve does, and do not listen",
		Example: `  grantkeeper config check
  grantkeeper config check -c ./grantkeeper.toml && systemctl reload grantkeeper`,
		Long: `It reads the file, the environment and every file that they name, and holds the
database against the secret keys and this release. Mistakes are named together, at
most one of a group of settings but of [[rules]], where each is named, each with what
to do; rules that are never reached are warnings. Other commands name the first mistake.
A server may be running on the database meanwhile: it is read, and neither locked nor
changed.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper serve"},
		RunE: func(c *cobra.Command, _ []string) error {
			l, err := g.load(c)
			var checked config.Checked
			if err == nil {
				checked, err = whole(c.Context(), l)
			}
			if several, ok := errors.AsType[fault.Several](err); ok {
				return everyMistake{several}
			}
			if err != nil {
				return err
			}
			database, err := checkedDatabase(c.Context(), checked)
			if err != nil {
				return err
			}
			warnings := checked.Warnings()
			if g.json {
				answer := map[string]any{"ok": true, "configuration": l.Summary(), "database": database}
				if len(warnings) > 0 {
					answer["warnings"] = warnings
				}
				return writeDocument(c.OutOrStdout(), answer)
			}
			text := fmt.Sprintf("ok    configuration      %s\n", l.Summary())
			for _, warning := range warnings {
				text += "warn  configuration      " + printable(warning) + "\n"
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "%sok    database           %s\n", text, database)
			return err
		},
	}
	return c
}

// whole is what serve checks: the settings, and the variables of OpenTelemetry, which stop a start as
// well.
func whole(ctx context.Context, l config.Loaded) (config.Checked, error) {
	checked, err := l.Check()
	if err == nil {
		err = server.CheckTraces(ctx)
	}
	return checked, err
}

// checkedDatabase says of the configured database what serve would find: an
// fault.Error where it would not start.
func checkedDatabase(ctx context.Context, c config.Checked) (string, error) {
	if c.Postgres != "" {
		text, _, err := store.InspectURL(ctx, c.Postgres, c.Ring)
		if err != nil {
			return "", server.OpenError(err)
		}
		return text, nil
	}
	info, err := store.Inspect(ctx, c.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrEmpty) {
		return newDatabase(c.Path)
	}
	if err == nil {
		err = errors.Join(info.CheckKeys(c.Ring), info.CheckSchema())
	}
	if err == nil {
		if err = syscall.Access(c.Path, 2); err != nil { // to write
			err = &fs.PathError{Op: "open", Path: c.Path, Err: err}
		}
	}
	if err != nil {
		return "", server.OpenError(err)
	}
	return fmt.Sprintf("sqlite %s, schema %d, %s", c.Path, info.Schema, size(info.Bytes)), nil
}

// newDatabase says whether there can be one.
func newDatabase(path string) (string, error) {
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return "", fault.CannotOpen("mkdir "+dir+", for the user who runs serve", "database: %v", err)
	} else if !info.IsDir() {
		return "", fault.CannotOpen("choose another database.url", "database: %s is not a folder", dir)
	}
	if err := syscall.Access(dir, 2); err != nil {
		return "", server.Denied(&fs.PathError{Op: "open", Path: path, Err: err})
	}
	return "sqlite " + path + ", is made at the first start", nil
}
