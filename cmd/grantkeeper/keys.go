package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func keysCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "keys",
		Short: "Exchange the secret keys that seal tokens, while running",
		Example: `  grantkeeper keys list
  grantkeeper keys add
  grantkeeper keys rotate --reason "every year"
  grantkeeper keys retire 1`,
		Long: `A new key opens and does not seal (add), until every node has it and it seals from
then on (rotate). What the one before sealed goes on to work, and a client's next
refresh is sealed by the new one. Where the old key has leaked, retire it: that ends
the approvals whose current refresh token it sealed. Where the key file is lost, see
replace-lost.`,
		Annotations: map[string]string{"next": "grantkeeper keys list"},
	}, keysListCommand(g), keysAddCommand(g), keysRotateCommand(g), keysRetireCommand(g), keysReplaceLostCommand(g))
}

func keysListCommand(g *global) *cobra.Command {
	var at *remote.At
	c := &cobra.Command{
		Use:   "list",
		Short: "List the keys: which one seals, and how many approvals each has sealed last",
		Example: `  grantkeeper keys list
  grantkeeper keys list --json`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper keys add"},
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := at.Connect(c.Context(), g.config, os.Environ())
			if err != nil {
				return err
			}
			var list struct{ Items []any }
			if err := server.Do(c.Context(), http.MethodGet, "/v1/keys", nil, nil, &list); err != nil {
				return err
			}
			if g.json {
				return writeDocument(c.OutOrStdout(), map[string]any{"items": list.Items})
			}
			g.table(c, list.Items, []terminal.Column{terminal.Member("key", "number"), terminal.Member("state", "state"), terminal.Member("approvals", "approvals")})
			return nil
		},
	}
	at = operatorFlags(g, c)
	return c
}

func keysAddCommand(g *global) *cobra.Command {
	var at *remote.At
	var change *changeOptions
	c := &cobra.Command{
		Use:   "add",
		Short: "Add a new key to the key file: it opens, and does not seal yet",
		Example: `  grantkeeper keys add
  grantkeeper keys add --reason "every year"`,
		Long: `It writes the new key into secret_key_file and has the running server take it.
Where several nodes run, copy the file to each of them and send its process SIGHUP.
Without a running server the key is taken at the next start.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper keys rotate, once every node has the key"},
		RunE: func(c *cobra.Command, _ []string) error {
			checked, err := g.loadChecked(c)
			if err != nil {
				return err
			}
			server, err := at.Connect(c.Context(), g.config, os.Environ())
			if fault.CodeOf(err) == fault.Reach {
				server, err = nil, nil
			} else if err != nil {
				return err
			}
			number, err := remote.AddKey(c.Context(), checked, server, change.reason)
			if err != nil {
				return err
			}
			if g.json {
				return writeDocument(c.OutOrStdout(), map[string]any{"number": number, "file": checked.SecretKeyFile, "taken": server != nil})
			}
			taken := "taken at the next start: no server runs"
			if server != nil {
				taken = "the running server opens with it"
			}
			fmt.Fprintf(c.OutOrStdout(), "key %d added to %s, %s\n", number, checked.SecretKeyFile, taken)
			g.say(c, "Next: copy the file to every other node and send its process SIGHUP, then: grantkeeper keys rotate")
			return nil
		},
	}
	at, change = operatorFlags(g, c), changeFlags(c, false)
	return c
}

func keysRotateCommand(g *global) *cobra.Command {
	var at *remote.At
	var change *changeOptions
	c := &cobra.Command{
		Use:   "rotate",
		Short: "Let the newest key seal from now on",
		Example: `  grantkeeper keys rotate
  grantkeeper keys rotate --reason "every year" --json`,
		Long: `It is refused until every node that lives has the newest key. What older keys sealed
goes on to work.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper keys retire N, only where key N has leaked"},
		RunE: func(c *cobra.Command, _ []string) error {
			server, err := at.Connect(c.Context(), g.config, os.Environ())
			if err != nil {
				return err
			}
			var k remote.Key
			if err := server.Do(c.Context(), http.MethodPost, "/v1/keys/rotate", nil, map[string]string{"reason": change.reason}, &k); err != nil {
				return err
			}
			if g.json {
				return writeDocument(c.OutOrStdout(), k)
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "key %d seals\n", k.Number)
			return err
		},
	}
	at, change = operatorFlags(g, c), changeFlags(c, false)
	return c
}

func keysRetireCommand(g *global) *cobra.Command {
	var at *remote.At
	var change *changeOptions
	c := &cobra.Command{
		Use:   "retire N",
		Short: "End what a key has sealed last, and never use it again",
		Example: `  grantkeeper keys retire 1
  grantkeeper keys retire 1 --yes --reason "key 1 leaked"`,
		Long: `It ends the approvals whose current refresh token the key sealed, and says how many
before it asks. Open pages of that key end too. Access tokens of other approvals that
it sealed stop working, and their clients refresh. Used refresh tokens that it sealed
are not recognised any more. The key is taken out of secret_key_file here; on other
nodes it is not used either, and can be taken out.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fault.WrongUse("grantkeeper keys retire N", "name one key by its number")
			}
			if n, err := strconv.Atoi(args[0]); err != nil || n < 1 {
				return fault.WrongUse("grantkeeper keys list", "%q is not the number of a key", args[0])
			}
			return nil
		},
		Annotations: map[string]string{"next": "grantkeeper keys list"},
		RunE: func(c *cobra.Command, args []string) error {
			return runRetire(g, c, args[0], *at, *change)
		},
	}
	at, change = operatorFlags(g, c), changeFlags(c, true)
	return c
}

func runRetire(g *global, c *cobra.Command, number string, at remote.At, change changeOptions) error {
	server, err := at.Connect(c.Context(), g.config, os.Environ())
	if err != nil {
		return err
	}
	k, keep, err := server.Retirable(c.Context(), number)
	if err != nil {
		return err
	}
	if keep != "" && !change.yes {
		g.say(c, keep)
	}
	if err := change.confirm(c, "Retire key "+number+" and end "+terminal.Plural(k.Approvals, "approval")+"?"); err != nil {
		return err
	}
	if k, err = server.Retire(c.Context(), number, change.reason); err != nil {
		return err
	}
	err = errors.New("it is another installation's, by --operator")
	if at.URL == "" {
		err = g.takeOut(c, k.Number)
	}
	if err != nil {
		fmt.Fprintf(c.ErrOrStderr(), "Take key %d out of the key file by hand: %v\n", k.Number, err)
	}
	if g.json {
		return writeDocument(c.OutOrStdout(), k)
	}
	_, err = fmt.Fprintf(c.OutOrStdout(), "key %d retired, %s ended\n", k.Number, terminal.Plural(*k.Ended, "approval"))
	return err
}

// takeOut removes a retired key from the key file of this machine, if it is in
// there.
func (g *global) takeOut(c *cobra.Command, number int) error {
	l, err := g.load(c)
	if err != nil {
		return err
	}
	return config.EditKeys(c.Context(), l.SecretKeyFile, func(keys []config.NumberedKey) ([]config.NumberedKey, error) {
		return slices.DeleteFunc(keys, func(k config.NumberedKey) bool { return k.Number == number }), nil
	}, nil)
}
