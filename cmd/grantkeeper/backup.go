package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/database"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func backupCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "backup",
		Short: "Back up the database while it runs, verify a backup, restore it",
		Example: `  grantkeeper backup create grantkeeper-today.db
  grantkeeper backup verify grantkeeper-today.db
  grantkeeper backup restore grantkeeper-today.db --yes`,
		Annotations: map[string]string{"next": "grantkeeper backup create FILE"},
	}, backupCreateCommand(g), backupVerifyCommand(g), backupRestoreCommand(g))
}

// oneFile is for commands that take one file.
func oneFile(c *cobra.Command, args []string) error {
	if len(args) != 1 || args[0] == "" || args[0] == "-" { // which elsewhere is the standard output
		return fault.WrongUse(c.CommandPath()+" FILE", "name one file")
	}
	return nil
}

// A backupResult is what the commands tell of a backup, as JSON.
type backupResult struct {
	File      string `json:"file"`
	Bytes     int64  `json:"bytes"`              // of the file
	TakenAt   int64  `json:"taken_at,omitempty"` // Unix seconds
	Schema    int    `json:"schema,omitempty"`
	Clients   *int   `json:"clients,omitempty"`
	Approvals *int   `json:"approvals,omitempty"` // that have not ended
	Keys      []int  `json:"keys,omitempty"`      // numbers of the secret keys that it needs
	Ended     *int   `json:"ended,omitempty"`     // approvals, by the restore
	Database  string `json:"database,omitempty"`
}

func backupCreateCommand(g *global) *cobra.Command {
	var packed bool
	var at *remote.At
	var change *changeOptions
	c := &cobra.Command{
		Use:   "create FILE",
		Short: "Write a backup of the running server's database",
		Example: `  grantkeeper backup create /backup/grantkeeper-$(date +%F).db
  grantkeeper backup create /backup/grantkeeper.db.gz --gzip`,
		Long: `It is one moment of the database, taken through the operators' listener while
everything goes on. The file must not be there yet; it has hashes of passwords, so
it is its owner's alone. The secret keys are not in it: keep them apart from it.`,
		Args:        oneFile,
		Annotations: map[string]string{"next": "grantkeeper backup verify FILE"},
		RunE: func(c *cobra.Command, args []string) error {
			made := backupResult{File: args[0]}
			if err := untilSignal(c.Context(), func(ctx context.Context) error {
				running, err := at.Connect(ctx, g.config, os.Environ())
				if err == nil {
					made.TakenAt, made.Bytes, err = running.BackUp(ctx, made.File, packed, change.reason)
				}
				return err
			}); err != nil {
				return err
			}
			if g.json {
				return writeDocument(c.OutOrStdout(), made)
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "%s  %s, of %s\n", made.File, terminal.Size(made.Bytes), terminal.UTC(made.TakenAt))
			return err
		},
	}
	c.Flags().BoolVar(&packed, "gzip", false, "compress it")
	at, change = operatorFlags(g, c), changeFlags(c, false)
	return c
}

func backupVerifyCommand(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Read a backup to its last page, and say what is in it",
		Example: `  grantkeeper backup verify grantkeeper-today.db
  grantkeeper backup verify grantkeeper-today.db.gz --json`,
		Long: `It needs no server and changes nothing. A compressed backup is unpacked into the
machine's folder for temporary files meanwhile.

The exit code is 0 when the backup can be restored by this release, 1 when it is
damaged, no backup or a copy that was not finished, 4 when it cannot be read, 6 when
it is of a later release, or a database with writes in other files beside it.`,
		Args:        oneFile,
		Annotations: map[string]string{"next": "grantkeeper backup restore FILE, where there is no database"},
		RunE: func(c *cobra.Command, args []string) error {
			info, err := database.Verify(c.Context(), args[0])
			if err != nil {
				return err
			}
			out := newBackupResult(args[0], info)
			if g.json {
				return writeDocument(c.OutOrStdout(), out)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "ok    %s  %s, of %s\n      schema %d, %d clients, %d approvals that have not ended, needs secret keys: %s\n",
				out.File, terminal.Size(out.Bytes), terminal.UTC(out.TakenAt), out.Schema, *out.Clients, *out.Approvals, terminal.Numbers(out.Keys))
			return err
		},
	}
	return c
}

func newBackupResult(file string, i store.Info) backupResult {
	out := backupResult{File: file, Bytes: i.Bytes, TakenAt: i.At.Unix(), Schema: i.Schema, Clients: &i.Clients, Approvals: &i.Approvals,
		Keys: slices.Sorted(maps.Keys(i.Keys))}
	if info, err := os.Stat(file); err == nil {
		out.Bytes = info.Size()
	}
	return out
}

func backupRestoreCommand(g *global) *cobra.Command {
	var keep bool
	var at *remote.At
	var change *changeOptions
	c := &cobra.Command{
		Use:   "restore [FILE]",
		Short: "Put a backup where there is no database, and end all its approvals",
		Example: `  grantkeeper backup restore /backup/grantkeeper.db --yes --reason "disk failed"
  grantkeeper backup restore /backup/moved.db --keep-approvals --yes    # a planned move`,
		Long: `A backup is a past state. Approvals that were revoked since then would live again,
and clients hold newer refresh tokens that it does not know. So the restore ends all
approvals, sessions, API keys, reset links and recovery codes; people approve again,
and get new keys and codes. --keep-approvals keeps them all, and is
for a planned move: the server was stopped before the backup's last moment, and has
not run since.

It needs the configuration and the secret keys of the installation, and no server. It
refuses to touch a database that is there.

PostgreSQL is restored by its own means, pg_restore or a standby of the past. Then,
with the server running, this command without a FILE ends all its approvals.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 { // FILE is not needed on PostgreSQL
				return nil
			}
			return oneFile(c, args)
		},
		Annotations: map[string]string{"next": "grantkeeper serve, then grantkeeper doctor"},
		RunE: func(c *cobra.Command, args []string) error {
			checked, err := g.loadChecked(c)
			if err != nil {
				return err
			}
			if checked.Postgres != "" {
				return settlePostgres(g, c, args, *at, *change, keep)
			}
			if err := oneFile(c, args); err != nil {
				return err
			}
			return runRestore(g, c, args[0], checked, keep, *change)
		},
	}
	c.Flags().BoolVar(&keep, "keep-approvals", false, "for a planned move alone: let approvals, sessions, API keys, reset links and recovery codes live on")
	at, change = operatorFlags(g, c), changeFlags(c, true)
	return c
}

// settlePostgres ends what lives in a PostgreSQL database that was restored.
func settlePostgres(g *global, c *cobra.Command, args []string, at remote.At, change changeOptions, keep bool) error {
	switch {
	case len(args) > 0:
		return &fault.Error{Code: fault.State, What: "the database is PostgreSQL, and a backup of SQLite cannot be restored into it",
			Hint: "restore it by PostgreSQL's own means, start the server, then: grantkeeper backup restore --yes"}
	case keep:
		return fault.WrongUse("nothing is left to do", "PostgreSQL is restored by its own means, and its approvals live on")
	}
	if err := change.confirm(c, "End all approvals of the PostgreSQL database that was restored?"); err != nil {
		return err
	}
	server, err := at.Connect(c.Context(), g.config, os.Environ())
	if err != nil {
		return err
	}
	var done struct{ Ended int }
	if err := server.Patient().Do(c.Context(), http.MethodPost, "/v1/restored", nil, map[string]string{"reason": change.reason}, &done); err != nil {
		return err
	}
	if g.json {
		return writeDocument(c.OutOrStdout(), map[string]int{"ended": done.Ended})
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "%s ended, people approve again.\n%s\n", terminal.Plural(done.Ended, "approval"), pastState)
	return err
}

// loadChecked is the configuration as serve would have it.
func (g *global) loadChecked(c *cobra.Command) (config.Checked, error) {
	l, err := g.load(c)
	if err != nil {
		return config.Checked{}, err
	}
	return l.Check()
}

// pastState says what a restore cannot know, and what is to be done about it.
const pastState = `Sessions, reset links and recovery codes ended too. What else changed since the backup is
back: people deactivated, members removed, roles lost, AI integration off, clients disabled,
passwords and second factors. Import the directory with --prune before anybody signs in, and
repeat the rest: docs/operations.md.`

func runRestore(g *global, c *cobra.Command, file string, checked config.Checked, keep bool, change changeOptions) error {
	fate := "end all its approvals"
	if keep {
		fate = "let all its approvals live on"
	}
	if err := change.confirm(c, "Restore "+file+" to "+checked.Path+" and "+fate+"?"); err != nil {
		return err
	}
	done, err := database.Restore(c.Context(), store.RestoreOptions{
		From: file, To: checked.Path, Ring: checked.Ring, KeepApprovals: keep, Now: time.Now(),
		Act: store.Act{Actor: operator.User + ":" + server.SystemUser(), Reason: change.reason},
	})
	if err != nil {
		return err
	}
	out := newBackupResult(file, done.Info)
	out.Ended, out.Database = &done.Ended, checked.Path
	if g.json {
		return writeDocument(c.OutOrStdout(), out)
	}
	if keep {
		_, err = fmt.Fprintf(c.OutOrStdout(), "Restored to %s, living on: %s.\n", checked.Path, terminal.Plural(done.Approvals, "approval"))
	} else {
		_, err = fmt.Fprintf(c.OutOrStdout(), "Restored to %s: %s ended, people approve again.\nAPI keys ended: %d. %s\n",
			checked.Path, terminal.Plural(done.Ended, "approval"), done.APIKeys, pastState)
	}
	if err != nil {
		return err
	}
	if done.Schema < store.SchemaVersion {
		g.say(c, "Next: grantkeeper migrate up, then grantkeeper serve")
		return nil
	}
	g.say(c, "Next: grantkeeper serve")
	return nil
}
