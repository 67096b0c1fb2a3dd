package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
)

func explainCommand(g *global) *cobra.Command {
	var id, tool, args, path, call, body string
	var at *remote.At
	c := &cobra.Command{
		Use:   "explain APPROVAL",
		Short: "Say what an approval stands on and gives, and whether it lets its client make a call, and why",
		Example: `  grantkeeper explain 7f3a...e2
  grantkeeper explain 7f3a...e2 --tool create_order --args '{"role":"r-orders"}' --json
  grantkeeper explain --approval 7f3a...e2 --call 'POST /api/v5/orders'`,
		Long: `It asks a running server through its operators' listener. APPROVAL is the ID
that GET /v1/approvals and the journal have. The answer is that of this moment: who
approved, what, for which client, and whether it is live.

Of a call to the service behind, by [[rules]], it says which rule names it, whose item it
touches, what is decided, and what would allow it, from the same rules that calls are held
to. A tool counts as one that changes. What may be done with one of the service's items, the
service decides.

The exit code is 0 for yes and for no, 5 when there is no such approval.`,
		Args: func(_ *cobra.Command, args []string) error {
			if id != "" {
				args = append(args, id)
			}
			if len(args) != 1 || args[0] == "" {
				return fault.WrongUse("grantkeeper explain APPROVAL", "name one approval")
			}
			id = args[0]
			return nil
		},
		Annotations: map[string]string{"next": "grantkeeper approval show APPROVAL"},
		RunE: func(c *cobra.Command, _ []string) error {
			query := url.Values{}
			for name, value := range map[string]string{"tool": tool, "call": call} {
				if value != "" {
					query.Set(name, value)
				}
			}
			if len(query) > 1 || args+path != "" && tool == "" || body != "" && call == "" {
				return fault.WrongUse("grantkeeper explain APPROVAL --tool NAME", "ask one of --tool (with --args and --path) and --call (with --body)")
			}
			if args != "" {
				query.Set("arguments", args)
			}
			if path != "" {
				query.Set("path", path)
			}
			if body != "" {
				query.Set("body", body)
			}
			server, err := at.Connect(c.Context(), g.config, os.Environ())
			if err != nil {
				return err
			}
			return runExplain(c.Context(), server, id, query, g.json, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&id, "approval", "", "the `APPROVAL`, in place of the argument")
	c.Flags().StringVar(&tool, "tool", "", "the `NAME` of an MCP tool to call")
	c.Flags().StringVar(&args, "args", "", "its arguments, as `JSON`")
	c.Flags().StringVar(&path, "path", "", "the `PATH` of its MCP endpoint (default /api/v5/mcp)")
	c.Flags().StringVar(&call, "call", "", "the HTTP `CALL` to make, such as 'POST /api/v5/orders'")
	c.Flags().StringVar(&body, "body", "", "its body, as `JSON`")
	at = operatorFlags(g, c)
	return c
}

func runExplain(ctx context.Context, server *remote.Server, id string, query url.Values, asJSON bool, stdout io.Writer) error {
	var text json.RawMessage
	id, err := server.Whole(ctx, "approval", id)
	if err != nil {
		return err
	}
	if err := server.Do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(id)+"/explain", query, nil, &text); err != nil {
		return err
	}
	if asJSON {
		_, err := fmt.Fprintf(stdout, "%s\n", text)
		return err
	}
	var e remote.Explained
	if err := json.Unmarshal(text, &e); err != nil || len(e.Chain) == 0 {
		return server.Stranger()
	}
	_, err = io.WriteString(stdout, e.String())
	return err
}
