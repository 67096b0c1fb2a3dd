package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/database"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
	"github.com/grantkeeper/grantkeeper/token"
)

func keysReplaceLostCommand(g *global) *cobra.Command {
	var dry bool
	var change *changeOptions
	c := &cobra.Command{
		Use:   "replace-lost",
		Short: "Let the database go on with a new key file, where the old one is lost for good",
		Example: `  grantkeeper keys replace-lost --dry-run
  grantkeeper keys replace-lost --reason "disk failed, no copy" --yes`,
		Long: `Look for a copy first: with the right key file nothing ends. Without it, no token that
a client has can be opened. So this ends the approvals that the lost keys sealed, all
sessions, of operators too, and all reset links; people sign in and approve again. The
directory, clients, passwords, passkeys, recovery codes, API keys, rules, the journal,
attempts and what apps did stay. Codes of authenticator apps count no more: people get in
with a passkey or a recovery code and add their app anew, or ask for: person reset-signin.

Stop every server first. Where secret_key_file is not there, it is made, with a number
that no key had before; copy it to every other node, and to where it is not lost again.
Where it is there, its keys are taken, and only what else is missing counts as lost.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper serve, then grantkeeper doctor"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.replaceLost(c, dry, *change)
		},
	}
	change = changeFlags(c, true)
	c.Flags().BoolVar(&dry, "dry-run", false, "count what would end, and change nothing")
	return c
}

// lostIn finds the database, whose key file may be gone, and the keys that there are.
func (g *global) lostIn(c *cobra.Command) (config.Checked, store.LostOptions, error) {
	l, err := g.load(c)
	if err != nil {
		return config.Checked{}, store.LostOptions{}, err
	}
	checked := config.Checked{Config: l.Config}
	if err := checked.CheckDatabase(); err != nil {
		return checked, store.LostOptions{}, err
	}
	o := store.LostOptions{At: store.Place{Path: checked.Path, URL: checked.Postgres}, Now: time.Now(), DryRun: true}
	if _, err := os.Stat(checked.SecretKeyFile); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(checked.SecretKeyFile); err == nil {
			return checked, o, fault.BadConfig("mend that link; or remove it and run this again, and a new file is made", "secret_key_file: %s leads to a file that is not there", checked.SecretKeyFile)
		}
		return checked, o, nil
	}
	o.Keys, err = config.ReadKeys(checked.SecretKeyFile)
	return checked, o, err
}

func (g *global) replaceLost(c *cobra.Command, dry bool, change changeOptions) error {
	checked, o, err := g.lostIn(c)
	if err != nil {
		return err
	}
	found, err := database.ReplaceLost(c.Context(), o, checked.SecretKeyFile)
	if err != nil {
		return err
	}
	if dry {
		return g.tellReplaced(c, found, checked, true)
	}
	ends := found.Approvals.Before - found.Approvals.After
	question := fmt.Sprintf("Go on without key %s, and end %s and %s?", terminal.Numbers(found.Lost),
		terminal.Plural(ends, "approval"), terminal.Plural(found.Sessions.Before, "session"))
	if err := change.confirm(c, question); err != nil {
		return err
	}
	if _, o, err = g.lostIn(c); err != nil { // somebody may have brought a file while this asked
		return err
	}
	o.DryRun, o.Act = false, store.Act{Actor: operator.User + ":" + server.SystemUser(), Reason: change.reason}
	o.Make = func(number int) (*token.Key, error) { return config.MakeKeys(checked.SecretKeyFile, number) }
	done, err := database.ReplaceLost(c.Context(), o, checked.SecretKeyFile)
	if err != nil {
		return err
	}
	return g.tellReplaced(c, done, checked, false)
}

func (g *global) tellReplaced(c *cobra.Command, r store.Replaced, checked config.Checked, dry bool) error {
	out := c.OutOrStdout()
	if g.json {
		return writeDocument(out, map[string]any{"dry_run": dry, "lost": r.Lost, "in_use": r.New, "file": checked.SecretKeyFile, "approvals": r.Approvals, "sessions": r.Sessions,
			"operator_sessions": r.OperatorSessions, "reset_links": r.Resets, "authenticator_apps": r.OneTime})
	}
	fmt.Fprintf(out, "%-18s %9s %9s\n", "", "before", "after")
	for _, row := range []struct {
		what string
		fate store.Fate
	}{{"approvals", r.Approvals}, {"sessions", r.Sessions}, {"operators' sessions", r.OperatorSessions}, {"reset links", r.Resets}} {
		fmt.Fprintf(out, "%-19s %8d %9d\n", row.what, row.fate.Before, row.fate.After)
	}
	if r.OneTime > 0 {
		fmt.Fprintf(out, "Codes of %s count no more: people get in with a passkey or a recovery code, or by: grantkeeper person reset-signin EMAIL\n", terminal.Plural(r.OneTime, "authenticator app"))
	}
	if dry {
		fmt.Fprintf(out, "Key %s is lost. Nothing was changed.\n", terminal.Numbers(r.Lost))
		return nil
	}
	fmt.Fprintf(out, "Key %s is lost; in use: key %s of %s.\n", terminal.Numbers(r.Lost), terminal.Numbers(r.New), checked.SecretKeyFile)
	g.say(c, "Next: see that the server's user may read it, keep a copy elsewhere, copy it to every other node, then: grantkeeper serve")
	return nil
}
