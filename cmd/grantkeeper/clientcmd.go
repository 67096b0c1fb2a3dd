package main

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var clientColumns = []terminal.Column{
	terminal.IDOf("client", "client_id"), terminal.Member("state", "state"), terminal.Member("name", "client_name"),
	terminal.Member("redirect URIs", "redirect_uris"), terminal.Moment("registered", "issued_at").Sparing(1),
}

const endsClient = "This ends all approvals of client %s, for good: %s."

func clientCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "client COMMAND",
		Short: "Look at clients, preregister, disable and delete them",
		Example: `  grantkeeper client list --query quill
  grantkeeper client disable 3mUQ0dWf1cXyT5n8 --reason "imitates us"`,
		Annotations: map[string]string{"next": "grantkeeper client list"},
	}, clientList(g), clientShow(g), clientAdd(g),
		clientChange(g, "disable", "End all approvals of a client and let it make no more", endsClient,
			"grantkeeper client enable ID, which revives nothing"),
		clientChange(g, "enable", "Let a disabled client ask for approvals again; none of the old ones comes back", "",
			"grantkeeper client show ID"),
		clientChange(g, "delete", "End all approvals of a client and forget it: it has to register again", endsClient,
			"grantkeeper events list --kind client_disabled"), clientDeleteUnapproved(g))
}

// unapproved are the clients that one command deletes.
type unapproved struct {
	network, since, until string
	dry                   bool
}

func (u unapproved) body() map[string]any {
	return map[string]any{"network": u.network, "since": u.since, "until": u.until, "dry_run": u.dry}
}

func clientDeleteUnapproved(g *global) *cobra.Command {
	var u unapproved
	var o *serverChange
	c := &cobra.Command{
		Use:   "delete-unapproved",
		Short: "Delete clients that registered themselves and that nobody has approved",
		Example: `  grantkeeper client delete-unapproved --dry-run
  grantkeeper client delete-unapproved --network 2001:db8:2::/48 --reason "a flood" --yes
  grantkeeper client delete-unapproved --since 2h --until 1h --yes`,
		Long: `All that match every one of the flags are deleted. No approval ends, because there is
none; a person who is looking at the consent page of such a client has to begin again.
It says which networks most of them came from.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper client list --state registered"},
		RunE: func(c *cobra.Command, _ []string) error {
			if u.network+u.since+u.until == "" && !u.dry {
				return fault.WrongUse("see: grantkeeper client delete-unapproved --help", "say which with --network, --since or --until; --dry-run alone counts all of them")
			}
			return g.deleteUnapproved(c, o, u)
		},
	}
	o = serverChangeFlags(g, c, true)
	f := c.Flags()
	f.StringVar(&u.network, "network", "", "those that registered from a `CIDR`, such as 192.0.2.0/24, 2001:db8:2::/48 or wider")
	f.StringVar(&u.since, "since", "", "those of a `TIME` on: 24h or 7d ago, or 2026-11-21T09:00:00Z")
	f.StringVar(&u.until, "until", "", "those before a `TIME`")
	f.BoolVar(&u.dry, "dry-run", false, "say how many it would be, and delete none")
	return c
}

func (g *global) deleteUnapproved(c *cobra.Command, o *serverChange, u unapproved) error {
	const path = "/v1/clients/delete"
	return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
		server = server.Patient() // the server deletes no more of them once nobody waits
		if !u.dry && !o.yes {
			count := u
			count.dry = true
			var would struct{ Deleted int }
			if err := server.Do(ctx, http.MethodPost, path, nil, count.body(), &would); err != nil {
				return err
			}
			if err := o.confirm(c, "This deletes "+terminal.Plural(would.Deleted, "client")+" that nobody has approved."); err != nil {
				return err
			}
		}
		return g.ask(ctx, c, server, http.MethodPost, path, nil, o.because(u.body()), func(out io.Writer, answer map[string]any) {
			verb := "deleted"
			if u.dry {
				verb = "would delete"
			}
			fmt.Fprintf(out, "%s %s\n", verb, terminal.InWords(answer["deleted"]))
			if networks, _ := answer["networks"].([]any); len(networks) > 0 {
				g.table(c, networks, []terminal.Column{terminal.Member("network", "network"), terminal.Member("clients", "clients")})
			}
		})
	})
}

func clientList(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:   "list",
		Short: "List clients, newest first",
		Example: `  grantkeeper client list --state disabled
  grantkeeper client list --query quill --json`,
		Annotations: map[string]string{"next": "grantkeeper client show ID"},
	}, "/v1/clients", clientColumns, map[string]string{
		"state": "registered, approved, disabled or preregistered",
		"query": "part of name, ID or redirect URI",
	})
}

func clientShow(g *global) *cobra.Command {
	return g.objectShow(&cobra.Command{
		Use:         "show ID",
		Short:       "Show one client",
		Example:     `  grantkeeper client show 3mUQ0dWf1cXyT5n8`,
		Annotations: map[string]string{"next": "grantkeeper approval list --client ID"},
	}, "/v1/clients/", clientColumns...)
}

func clientAdd(g *global) *cobra.Command {
	var id, name string
	var uris []string
	var o *serverChange
	c := &cobra.Command{
		Use:   "add",
		Short: "Preregister a client: one that cannot register itself",
		Example: `  grantkeeper client add --id assistant-connector --name "Assistant Connector" \
    --redirect-uri https://assistant.example/api/mcp/auth_callback`,
		Long: `It is public and has no secret, like every client. It need not be in the
configuration, and stays when that changes.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper client show ID"},
		RunE: func(c *cobra.Command, _ []string) error {
			if id == "" || len(uris) == 0 {
				return fault.WrongUse("see: grantkeeper client add --help", "--id and --redirect-uri are missing")
			}
			return g.post(c, o, "/v1/clients", map[string]any{"client_id": id, "client_name": name, "redirect_uris": uris}, terminal.Rows(clientColumns...))
		},
	}
	o = serverChangeFlags(g, c, false)
	c.Flags().StringVar(&id, "id", "", "its client ID")
	c.Flags().StringVar(&name, "name", "", "its name, as people see it")
	c.Flags().StringArrayVar(&uris, "redirect-uri", nil, "where it is answered, exactly; can be repeated, up to 5")
	return c
}

func clientChange(g *global, what, short, question, next string) *cobra.Command {
	return g.objectChange(&cobra.Command{
		Use:         what + " ID",
		Short:       short,
		Example:     `  grantkeeper client ` + what + ` 3mUQ0dWf1cXyT5n8 --reason "imitates us"`,
		Annotations: map[string]string{"next": next},
	}, "/v1/clients/", question, clientColumns[:2]...)
}
