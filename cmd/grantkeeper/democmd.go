package main

import (
	"context"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server"
)

func demoCommand(g *global) *cobra.Command {
	o := demo.Options{}
	at := remote.At{Flag: "--operator-password-file"}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Be a client against a server, step by step",
		Example: `  grantkeeper demo
  grantkeeper demo --verbose
  grantkeeper demo --base-url https://app.example.com --steps 1-2    # needs no account
  grantkeeper demo -c grantkeeper.toml --email me@example.com --password-file ./password --operator http://127.0.0.1:8081`,
		Long: `It registers a client, signs in and approves as a browser would, and ends what
it was given by sending an old refresh token. Run it against servers of your own.
Behind API and MCP it names what stands there: the MCP server by what it calls itself,
and with --config the hosts.

That last step is theft to the server, and to its alerts. With --operator it goes
on as a client of its own from the consent, which operators add for drills, and
deletes it at the end: it raises no alarm.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "open " + server.DevPath + " of grantkeeper dev in a browser"},
		RunE: func(c *cobra.Command, _ []string) error {
			o.JSON = g.json
			if g.config != "" && !c.Flag("base-url").Changed {
				l, err := g.load(c)
				if err != nil {
					return err
				}
				if len(l.BaseURLs) > 0 {
					o.BaseURL = l.BaseURLs[0]
				}
				o.BehindAPI, o.BehindMCP = behindOf(l.API.Upstream), behindOf(l.MCP.Upstream)
			}
			if at.URL != "" {
				var err error
				if o.Server, err = at.Connect(c.Context(), g.config, os.Environ()); err != nil {
					return err
				}
			}
			return untilSignal(c.Context(), func(ctx context.Context) error { return demo.Run(ctx, o, c.OutOrStdout()) })
		},
	}
	f := c.Flags()
	f.StringVar(&at.URL, "operator", "", "URL of the operators' listener, to raise no alarm")
	f.StringVar(&at.PasswordFile, "operator-password-file", "", "file with the operators' password (default: that of the configuration; dev's own needs none)")
	f.StringVar(&o.BaseURL, "base-url", "http://"+remote.DevListen, "the server; with --config, the first of its base_urls")
	f.StringVar(&o.Email, "email", "", "who signs in (default: "+remote.DevPerson+", of dev)")
	f.StringVar(&o.PasswordFile, "password-file", "", "file with the password (default: that of dev)")
	f.StringVar(&o.Steps, "steps", "1-10", "how far to go, such as 1-2")
	f.BoolVar(&o.Verbose, "verbose", false, "show requests and answers, secrets shortened")
	return c
}

// behindOf is the host of an upstream: a path or query may be a secret.
func behindOf(upstream string) string {
	u, err := url.Parse(upstream)
	if err != nil {
		return ""
	}
	return u.Host
}
