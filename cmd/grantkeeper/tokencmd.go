package main

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func tokenCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:         "token COMMAND",
		Short:       "Say what has become of a token",
		Example:     `  grantkeeper token inspect < token.txt`,
		Annotations: map[string]string{"next": "grantkeeper token inspect"},
	}, tokenInspect(g))
}

func tokenInspect(g *global) *cobra.Command {
	var o *remote.At
	c := &cobra.Command{
		Use:   "inspect",
		Short: "Say what a token on standard input is, and whether it works",
		Example: `  grantkeeper token inspect < token.txt
  grantkeeper token inspect          # asks, without echo`,
		Long: `It takes an access token, a refresh token, an authorization code or an API key,
prints nothing of it, and uses nothing up: a refresh token stays as good as it was.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper approval show ID"},
		RunE: func(c *cobra.Command, _ []string) error {
			text, err := secretFromInput(c, "Token: ")
			if err != nil {
				return err
			}
			return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
				return g.ask(ctx, c, server, http.MethodPost, "/v1/tokens/inspect", nil, map[string]any{"token": text}, terminal.Rows(
					terminal.Member("kind", "kind"), terminal.Member("state", "state"), terminal.Member("why", "why"), terminal.Moment("expires", "expires_at"),
					terminal.Member("approval", "approval"), terminal.Member("client", "client_id"), terminal.Member("name", "client_name"),
					terminal.Member("person", "person"), terminal.Member("organization", "organization"),
					terminal.Member("reason", "reason"), terminal.Moment("ended", "ended_at"), terminal.Member("generation", "generation"), terminal.Member("current", "current"),
				))
			})
		},
	}
	o = operatorFlags(g, c)
	return c
}
