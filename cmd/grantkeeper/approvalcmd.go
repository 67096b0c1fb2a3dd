package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var approvalColumns = []terminal.Column{
	terminal.IDOf("approval", "id"), terminal.Member("state", "state"), terminal.IDOf("client", "client_id").Sparing(3), terminal.Member("name", "client_name"),
	terminal.IDOf("person", "person"), terminal.Member("organization", "organization"), terminal.Member("access", "access"),
	terminal.Moment("approved", "created_at").Sparing(1), terminal.Moment("last used", "last_used"), terminal.Member("reason", "reason").Sparing(2),
}

func approvalCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "approval COMMAND",
		Short: "Look at approvals and revoke them",
		Example: `  grantkeeper approval list --person tor@nordlys.example
  grantkeeper approval revoke --person tor@nordlys.example --reason "lost device" --yes`,
		Annotations: map[string]string{"next": "grantkeeper approval list"},
	}, approvalList(g), approvalShow(g), approvalRevoke(g))
}

func approvalList(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:   "list",
		Short: "List approvals, newest first",
		Example: `  grantkeeper approval list --grant organization --json
  grantkeeper approval list --unused-for 2160h`,
		Annotations: map[string]string{"next": "grantkeeper approval show ID"},
	}, "/v1/approvals", approvalColumns, map[string]string{
		"client":       "client ID",
		"person":       "ID or email",
		"organization": "ID",
		"grant":        "roles, everything or organization",
		"state":        "code_issued, live or ended",
		"unused-for":   "live ones that nobody used for so `LONG`, such as 2160h or 90d",
	})
}

func approvalShow(g *global) *cobra.Command {
	return g.objectShow(&cobra.Command{
		Use:         "show ID",
		Short:       "Show one approval",
		Example:     `  grantkeeper approval show 5d1c0f6a3b9e47d28c40f1a2b3c4d5e6`,
		Annotations: map[string]string{"next": "grantkeeper events list --approval ID"},
	}, "/v1/approvals/", slices.Concat(approvalColumns, []terminal.Column{terminal.Moment("ended", "ended_at"), terminal.Member("bound to a key", "key_bound")})...)
}

// which are the approvals that one command revokes.
type which struct {
	client, person, organization, unused string
	dry                                  bool
}

// whichOf are those of one client, person or organization.
func whichOf(kind, id string) (w which) {
	*map[string]*string{"client": &w.client, "person": &w.person, "organization": &w.organization}[kind] = id
	return w
}

func (w which) body() map[string]any {
	body := map[string]any{"dry_run": w.dry}
	for name, value := range map[string]string{"client": w.client, "person": w.person, "organization": w.organization, "unused_for": w.unused} {
		if value != "" {
			body[name] = value
		}
	}
	return body
}

func approvalRevoke(g *global) *cobra.Command {
	var w which
	var o *serverChange
	c := &cobra.Command{
		Use:   "revoke [ID...]",
		Short: "End approvals, for good",
		Example: `  grantkeeper approval revoke 5d1c0f6a3b9e47d28c40f1a2b3c4d5e6 --reason "asked for it" --yes
  grantkeeper approval revoke --person tor@nordlys.example --dry-run
  grantkeeper approval revoke --client 3mUQ0dWf1cXyT5n8 --organization nordlys --yes`,
		Long: `Name approvals, or say which: all that match every one of the flags --client,
--person, --organization and --unused-for end.`,
		Annotations: map[string]string{"next": "grantkeeper approval list --state ended"},
		RunE: func(c *cobra.Command, ids []string) error {
			filtered := len(w.body()) > 1
			switch {
			case filtered == (len(ids) > 0):
				return fault.WrongUse("see: grantkeeper approval revoke --help", "name approvals, or say which with --client, --person, --organization or --unused-for")
			case filtered:
				return g.revokeMany(c, o, w)
			}
			return g.revokeEach(c, o, ids, w.dry)
		},
	}
	o = serverChangeFlags(g, c, true)
	g.wideFlag(c)
	f := c.Flags()
	f.StringVar(&w.client, "client", "", "those of a client")
	f.StringVar(&w.person, "person", "", "those of a person: ID or email")
	f.StringVar(&w.organization, "organization", "", "those in an organization")
	f.StringVar(&w.unused, "unused-for", "", "live ones that nobody used for so `LONG`, such as 2160h or 90d")
	f.BoolVar(&w.dry, "dry-run", false, "say how many it would be, and end none")
	return c
}

// wouldEnd says how many approvals a change is about to end.
func wouldEnd(ctx context.Context, server *remote.Server, w which) (string, error) {
	w.dry = true
	var would struct{ Ended int }
	err := server.Do(ctx, http.MethodPost, "/v1/approvals/revoke", nil, w.body(), &would)
	if would.Ended == 0 {
		return "no approval", err
	}
	return terminal.Plural(would.Ended, "approval"), err
}

func (g *global) revokeMany(c *cobra.Command, o *serverChange, w which) error {
	return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) (err error) {
		server = server.Patient() // the server ends no more of them once nobody waits
		for kind, at := range map[string]*string{"client": &w.client, "person": &w.person, "organization": &w.organization} {
			if *at, err = server.Whole(ctx, kind, *at); err != nil {
				return err
			}
		}
		if !w.dry && !o.yes {
			ends, err := wouldEnd(ctx, server, w)
			if err != nil {
				return err
			}
			if err := o.confirm(c, "This ends "+ends+", for good."); err != nil {
				return err
			}
		}
		return g.ask(ctx, c, server, http.MethodPost, "/v1/approvals/revoke", nil, o.because(w.body()), func(out io.Writer, answer map[string]any) {
			verb := "ended"
			if w.dry {
				verb = "would end"
			}
			fmt.Fprintf(out, "%s %s\n", verb, terminal.InWords(answer["ended"]))
		})
	})
}

func (g *global) revokeEach(c *cobra.Command, o *serverChange, ids []string, dry bool) error {
	return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) (err error) {
		items := []any{}
		ids := slices.Clone(ids)
		for i := range ids { // all of them are there before the first one ends
			if ids[i], err = server.Whole(ctx, "approval", ids[i]); err != nil {
				return err
			}
			var object map[string]any
			if err := server.Do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(ids[i]), nil, nil, &object); err != nil {
				return err
			}
			items = append(items, object)
		}
		if !dry {
			if err := o.confirm(c, "This ends "+terminal.Plural(len(ids), "approval")+", for good."); err != nil {
				return err
			}
		}
		for i, id := range ids {
			if dry {
				break
			}
			var object map[string]any
			if err := server.Do(ctx, http.MethodPost, "/v1/approvals/"+id+"/revoke", url.Values{}, o.because(nil), &object); err != nil {
				if at, ok := errors.AsType[*fault.Error](err); ok && i > 0 {
					return &fault.Error{Code: at.Code, What: fmt.Sprintf("%s ended, then: %s", terminal.Plural(i, "approval"), at.What), Hint: at.Hint}
				}
				return err
			}
			items[i] = object
		}
		if g.json {
			return json.NewEncoder(c.OutOrStdout()).Encode(map[string]any{"items": items, "next": ""})
		}
		g.table(c, items, approvalColumns)
		return nil
	})
}
