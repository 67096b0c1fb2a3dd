package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var requestColumns = []terminal.Column{
	terminal.IDOf("request", "id"), terminal.Member("state", "state"), terminal.Member("app", "name"), terminal.Member("host", "host"), terminal.Member("person", "person_email"),
	terminal.Moment("asked", "asked_at").Sparing(1), terminal.Member("message", "message").Sparing(2), terminal.Member("decided by", "decided_by").Sparing(3),
}

var connectionColumns = []terminal.Column{
	terminal.IDOf("approval", "id"), terminal.Member("app", "client_name"), terminal.Member("host", "host").Sparing(1), terminal.Member("person", "person_email"), terminal.Member("access", "access"),
	terminal.Moment("last used", "last_used").Sparing(2), terminal.Moment("ends", "ends_at").Sparing(3), terminal.Moment("reviewed", "reviewed_at").Sparing(4),
}

var decidedColumns = []terminal.Column{
	terminal.IDOf("request", "id"), terminal.Member("state", "state"), terminal.Member("app", "name"), terminal.Member("host", "host"), terminal.Member("person", "person_email"),
	terminal.Member("decided by", "decided_by"), terminal.Member("reason", "reason"), terminal.Member("decided with it", "also"),
}

// organizationList completes a command that lists what belongs to an organization.
func (g *global) organizationList(c *cobra.Command, what string, columns []terminal.Column, filters map[string]string, whole func(context.Context, *remote.Server, string, url.Values) (bool, error)) *cobra.Command {
	o, query := listFlags(g, c), filterFlags(c, filters)
	c.Args = named("ID", 1)
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
			id, err := server.Whole(ctx, "organization", args[0])
			if err != nil {
				return err
			}
			path := "/v1/organizations/" + url.PathEscape(id) + "/" + what
			if whole != nil {
				if done, err := whole(ctx, server, path, query()); done || err != nil {
					return err
				}
			}
			return g.list(c, o, path, query(), columns)
		})
	}
	return c
}

func requestCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "request COMMAND",
		Short: "Look at what members asked the admins of an organization for, and decide it",
		Example: `  grantkeeper organization request list nordlys
  grantkeeper organization request allow nordlys 0192d5c3a7e10000a1b2c3d4e5f60718 --person-only`,
		Annotations: map[string]string{"next": "grantkeeper organization request list ID"},
	}, requestList(g), requestAllow(g), requestDecline(g))
}

func requestList(g *global) *cobra.Command {
	return g.organizationList(&cobra.Command{
		Use:         "list ID",
		Short:       "List the apps that members asked the admins of an organization for",
		Example:     `  grantkeeper organization request list nordlys --state decided`,
		Annotations: map[string]string{"next": "grantkeeper organization request allow ID REQUEST"},
	}, "requests", requestColumns, map[string]string{"state": "open, or decided"}, nil)
}

func requestAllow(g *global) *cobra.Command {
	var person bool
	c := g.decision(&cobra.Command{
		Use:   "allow ID REQUEST",
		Short: "Allow the app that somebody asked for: a rule of the organization from then on",
		Example: `  grantkeeper organization request allow nordlys 0192d5c3a7e10000a1b2c3d4e5f60718 --reason "looked at it"
  grantkeeper organization request allow nordlys 0192d5c3a7e10000a1b2c3d4e5f60718 --person-only`,
		Annotations: map[string]string{"next": "grantkeeper organization policy show ID"},
	}, func() string {
		if person {
			return "allowed_person"
		}
		return "allowed"
	})
	c.Flags().BoolVar(&person, "person-only", false, "for whoever asked, and not for everybody")
	return c
}

func requestDecline(g *global) *cobra.Command {
	return g.decision(&cobra.Command{
		Use:         "decline ID REQUEST",
		Short:       "Decline what somebody asked for; they read the reason",
		Example:     `  grantkeeper organization request decline nordlys 0192d5c3a7e10000a1b2c3d4e5f60718 --reason "it keeps copies"`,
		Annotations: map[string]string{"next": "grantkeeper organization request list ID --state decided"},
	}, func() string { return "declined" })
}

// decision completes a command that decides a request, which its second argument names.
func (g *global) decision(c *cobra.Command, state func() string) *cobra.Command {
	o := serverChangeFlags(g, c, false)
	c.Args = named("ID REQUEST", 2)
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
			id, err := server.Whole(ctx, "organization", args[0])
			if err != nil {
				return err
			}
			path := "/v1/organizations/" + url.PathEscape(id) + "/requests/" + url.PathEscape(args[1]) + "/decision"
			return g.ask(ctx, c, server, http.MethodPost, path, nil, o.because(map[string]any{"state": state()}), terminal.Rows(decidedColumns...))
		})
	}
	return c
}

func connectionCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "connection COMMAND",
		Short: "Look at the approvals that live in an organization, mark them reviewed and end them",
		Example: `  grantkeeper organization connection list nordlys --show unreviewed
  grantkeeper organization connection end nordlys 5d1c0f6a3b9e47d28c40f1a2b3c4d5e6 --reason unused --yes`,
		Annotations: map[string]string{"next": "grantkeeper organization connection list ID"},
	}, connectionList(g), connectionReview(g), connectionEnd(g))
}

func connectionReview(g *global) *cobra.Command {
	return g.someConnections(&cobra.Command{
		Use:         "review ID APPROVAL...",
		Short:       "Note that somebody has looked at approvals in an organization",
		Example:     `  grantkeeper organization connection review nordlys 5d1c0f6a3b9e47d28c40f1a2b3c4d5e6`,
		Annotations: map[string]string{"next": "grantkeeper organization connection list ID --show unreviewed"},
	}, "reviewed", "", "reviewed")
}

func connectionEnd(g *global) *cobra.Command {
	return g.someConnections(&cobra.Command{
		Use:         "end ID APPROVAL...",
		Short:       "End approvals in an organization, for good",
		Example:     `  grantkeeper organization connection end nordlys 5d1c0f6a3b9e47d28c40f1a2b3c4d5e6 --reason unused --yes`,
		Annotations: map[string]string{"next": "grantkeeper approval list --organization ID --state ended"},
	}, "end", "This ends %s, for good.", "ended")
}

// someConnections completes a command that changes approvals of an organization, by a path
// that ends in what. A question asks before; told is the member of the answer that counts.
func (g *global) someConnections(c *cobra.Command, what, question, told string) *cobra.Command {
	o := serverChangeFlags(g, c, question != "")
	c.Args = func(c *cobra.Command, args []string) error {
		return named("ID APPROVAL...", max(2, len(args)))(c, args)
	}
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
			id, err := server.Whole(ctx, "organization", args[0])
			if err != nil {
				return err
			}
			var ids []string
			for _, begin := range args[1:] {
				one, err := server.Whole(ctx, "approval", begin)
				if err != nil {
					return err
				}
				ids = append(ids, one)
			}
			if question != "" {
				if err := o.confirm(c, fmt.Sprintf(question, terminal.Plural(len(ids), "approval"))); err != nil {
					return err
				}
			}
			path := "/v1/organizations/" + url.PathEscape(id) + "/connections/" + what
			return g.ask(ctx, c, server, http.MethodPost, path, nil, o.because(map[string]any{"ids": ids}), terminal.Rows(terminal.Member(told, told)))
		})
	}
	return c
}

func connectionList(g *global) *cobra.Command {
	var asCSV bool
	c := &cobra.Command{
		Use:   "list ID",
		Short: "List the approvals that live in an organization, the widest first",
		Example: `  grantkeeper organization connection list nordlys --show unused
  grantkeeper organization connection list nordlys --csv > connections.csv`,
		Annotations: map[string]string{"next": "grantkeeper organization connection review ID APPROVAL"},
	}
	g.organizationList(c, "connections", connectionColumns, map[string]string{
		"query": "part of the app's name or host, or of the person's name or email",
		"grant": "roles, everything or organization",
		"show":  "unreviewed, unused, ending or beyond",
	}, func(ctx context.Context, server *remote.Server, path string, query url.Values) (bool, error) {
		if !asCSV {
			return false, nil
		}
		return true, server.WriteConnections(ctx, c.OutOrStdout(), path, query)
	})
	c.Flags().BoolVar(&asCSV, "csv", false, "all that match, in CSV, which the journal says")
	return c
}
