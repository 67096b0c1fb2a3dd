package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

func personResetSignIn(g *global) *cobra.Command {
	var o *serverChange
	c := &cobra.Command{
		Use:     "reset-signin EMAIL",
		Short:   "Forget a person's second factors and who they are at providers, and end their sessions",
		Example: `  grantkeeper person reset-signin eva@verksted.example --reason "lost the phone" --yes`,
		Long: `For somebody who has lost authenticator app, passkey and recovery codes: the password
alone, or the next sign-in at the provider, lets them in again. The password and the
approvals stay. See that it is they who ask.`,
		Args:        named("EMAIL", 1),
		Annotations: map[string]string{"next": "grantkeeper events list --person EMAIL"},
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.confirm(c, "This forgets the second factors and the providers of "+printable(args[0])+", and ends their sessions."); err != nil {
				return err
			}
			return g.post(c, o, "/v1/people/"+url.PathEscape(args[0])+"/reset-signin", nil, rows(personColumns...))
		},
	}
	o = serverChangeFlags(g, c, true)
	return c
}
