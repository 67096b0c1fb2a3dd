package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/doctor"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func configCheckCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "check",
		Short: "Load everything as serve does, and do not listen",
		Example: `  grantkeeper config check
  grantkeeper config check -c ./grantkeeper.toml && systemctl reload grantkeeper`,
		Long: `It reads the file, the environment and every file that they name, holds the database
against the secret keys and this release, whose start takes an older schema forward where
database.auto_migrate says so, and sees that this user may write it and make files beside
it. Mistakes are named together, at most one of a group of settings but of [[rules]],
where each is named, each with what to do; rules that are never reached, and what is set
and does nothing for want of another setting, are warnings. Other commands name the first
mistake. A server may be running on the database meanwhile: it is read, and neither
locked nor changed.`,
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
			database, err := doctor.Database(c.Context(), checked)
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
				text += "warn  configuration      " + terminal.Printable(warning) + "\n"
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
		err = checked.CheckPorts()
	}
	if err == nil {
		err = server.CheckTraces(ctx)
	}
	return checked, err
}
