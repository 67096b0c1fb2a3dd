package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/drill"
	"github.com/grantkeeper/grantkeeper/remote"
)

func drillCommand(g *global) *cobra.Command {
	o := drill.Options{}
	var at *remote.At
	c := &cobra.Command{
		Use:   "drill",
		Short: "Revoke a test approval and time it to refusal on every node",
		Example: `  grantkeeper drill
  grantkeeper drill --lower --rounds 10
  grantkeeper drill --base-url https://app.example.com --email drill@example.com --person-password-file ./password \
    --node http://10.0.0.5:8080 --node http://10.0.0.6:8080`,
		Long: `It adds a client for drills, signs in and approves as grantkeeper demo does, sees
that every node takes the access token, revokes the approval through the operators'
listener of one node, and from the moment when that is acknowledged asks every
node with the access token until it refuses, and then with the refresh token.
At the end it deletes its client.

With --lower it sets the ceiling of the person's organization to read only in place of
revoking, sees that no node lets the approval change anything then, lifts the ceiling
again, and sees that all give back what was chosen. Every app of that organization can
only read for as long: use one that is for drills.

Nodes are reached at their base URLs, or behind a balancer at addresses of their
own with --node, which are asked for the host of the first base URL.

The exit code is 1 when a node accepts a call that began after the revocation
was acknowledged, or later than --within after it.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper demo --base-url URL --steps 1-2, on each node"},
		RunE: func(c *cobra.Command, _ []string) error {
			o.JSON = g.json
			if err := settle(&o, g, c, at.URL == ""); err != nil {
				return err
			}
			server, err := at.Connect(c.Context(), g.config, os.Environ())
			if err != nil {
				return err
			}
			return untilSignal(c.Context(), func(ctx context.Context) error { return drill.Run(ctx, o, server, c.OutOrStdout()) })
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.BaseURLs, "base-url", nil, "a base URL; can be repeated, each is a node (default: those of the configuration, or http://"+remote.DevListen+")")
	f.StringArrayVar(&o.Nodes, "node", nil, "where one node listens, as a URL; can be repeated (default: the base URLs)")
	f.StringVar(&o.Email, "email", "", "who signs in and approves (default: "+remote.DevPerson+", of dev)")
	f.StringVar(&o.PersonPasswordFile, "person-password-file", "", "file with that person's password (default: that of dev)")
	f.BoolVar(&o.Lower, "lower", false, "lower the ceiling of the person's organization in place of revoking, and lift it again")
	f.IntVar(&o.Rounds, "rounds", 3, "how many approvals, 1 to 30")
	f.DurationVar(&o.Within, "within", 0, "how long after the revocation a call may still be accepted")
	f.DurationVar(&o.GiveUp, "timeout", 30*time.Second, "how long to wait for a refusal")
	at = operatorFlags(g, c)
	return c
}

// settle takes the base URLs of the configuration whose operators' listener is
// asked, where none is named.
func settle(o *drill.Options, g *global, c *cobra.Command, configured bool) error {
	if len(o.BaseURLs) > 0 {
		return nil
	}
	if configured || g.config != "" {
		l, err := g.load(c)
		if err != nil {
			return err
		}
		o.BaseURLs = l.BaseURLs
	}
	if len(o.BaseURLs) == 0 {
		o.BaseURLs = []string{"http://" + remote.DevListen}
	}
	return nil
}
