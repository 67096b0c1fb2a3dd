package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/connect"
	"github.com/grantkeeper/grantkeeper/fault"
)

func connectCommand(g *global) *cobra.Command {
	o := connect.Options{Version: version, Open: connect.OpenBrowser}
	var signIn, signOut bool
	c := &cobra.Command{
		Use:   "connect URL",
		Short: "Be the MCP server of an assistant on this computer, by a server that allows it",
		Example: `  grantkeeper connect https://app.example.com/api/v5/mcp --sign-in    # approve, in a browser
  claude mcp add example -- grantkeeper connect https://app.example.com/api/v5/mcp
  grantkeeper connect https://app.example.com/api/v5/mcp --sign-out`,
		Long: `An assistant starts it, and speaks MCP with it over standard input and output. What it
says is passed on to the server, with the access that you approve in a browser: which
organization, and how much, you choose there. The access is kept in a file of yours alone,
and shared by all assistants of yours on this computer.

The server must allow it: clients.desktop. In a terminal it has you approve, as
with --sign-in.`,
		Args:        cobra.ExactArgs(1),
		Annotations: map[string]string{"next": "add it to your assistant, as the examples do"},
		RunE: func(c *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if signIn && signOut {
				return fault.WrongUse("use one of them", "--sign-in and --sign-out exclude each other")
			}
			o.URL, o.In, o.Out, o.Err = args[0], c.InOrStdin(), c.OutOrStdout(), c.ErrOrStderr()
			err := connect.Command(ctx, o, signIn, signOut, "grantkeeper connect", func(text string) { g.say(c, text) })
			if _, ours := errors.AsType[*fault.Error](err); err != nil && !ours {
				err = fault.CannotOpen("", "%s", connect.Words(err))
			}
			return err
		},
	}
	f := c.Flags()
	f.BoolVar(&signIn, "sign-in", false, "have the access approved, and end")
	f.BoolVar(&signOut, "sign-out", false, "end the access, here and at the server")
	f.BoolVar(&o.NoBrowser, "no-browser", false, "print the address to open, and open no browser")
	f.StringVar(&o.Store, "store", "", "`FILE` to keep the access in (default: one for the URL, in grantkeeper of your folder of settings)")
	return c
}
