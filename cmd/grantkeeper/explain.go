package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

func explainCommand(g *global) *cobra.Command {
	var read, change string
	var at *operatorOptions
	c := &cobra.Command{
		Use:   "explain APPROVAL",
		Short: "Say whether an approval lets its client read or change an item, and why",
		Example: `  grantkeeper explain 7f3a...e2 --read nordlys-renew-the-domain
  grantkeeper explain 7f3a...e2 --change nordlys-renew-the-domain --json`,
		Long: `It asks a running server through its operators' listener. APPROVAL is the ID
that GET /v1/approvals and the journal have. ITEM is the ID of a tension, action,
project or note of the approval's organization. The answer is that of this
moment, from the same rules that calls are held to.

The exit code is 0 for yes and for no, 5 when there is no such approval or item.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return wrongUse("grantkeeper explain APPROVAL --read ITEM", "name one approval")
			}
			return nil
		},
		Annotations: map[string]string{"next": "grantkeeper approval show APPROVAL"},
		RunE: func(c *cobra.Command, args []string) error {
			if (read == "") == (change == "") {
				return wrongUse("grantkeeper explain APPROVAL --read ITEM", "ask either --read ITEM or --change ITEM")
			}
			query := url.Values{"read": {read}}
			if change != "" {
				query = url.Values{"change": {change}}
			}
			server, err := at.connect(c.Context(), g.config, os.Environ())
			if err != nil {
				return err
			}
			return runExplain(c.Context(), server, args[0], query, g.json, c.OutOrStdout())
		},
	}
	c.Flags().StringVar(&read, "read", "", "the `ITEM` to read")
	c.Flags().StringVar(&change, "change", "", "the `ITEM` to change")
	at = operatorFlags(g, c)
	return c
}

// An explained answer, as far as it is printed.
type explained struct {
	Action  string `json:"action"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Chain   []struct {
		Fact  string `json:"fact"`
		Holds bool   `json:"holds"`
		Why   string `json:"why"`
	} `json:"chain"`
}

func runExplain(ctx context.Context, server *operatorClient, id string, query url.Values, asJSON bool, stdout io.Writer) error {
	var text json.RawMessage
	id, err := server.whole(ctx, "approval", id)
	if err != nil {
		return err
	}
	if err := server.do(ctx, http.MethodGet, "/v1/approvals/"+url.PathEscape(id)+"/explain", query, nil, &text); err != nil {
		return err
	}
	if asJSON {
		_, err := fmt.Fprintf(stdout, "%s\n", text)
		return err
	}
	var e explained
	if err := json.Unmarshal(text, &e); err != nil || len(e.Chain) == 0 {
		return server.stranger()
	}
	_, err = io.WriteString(stdout, e.String())
	return err
}

func (e explained) String() string {
	word := func(yes bool) string {
		if yes {
			return "yes"
		}
		return "no"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", word(e.Allowed), printable(e.Reason))
	for _, link := range e.Chain {
		fmt.Fprintf(&b, "  %-3s  %-12s  %s\n", word(link.Holds), printable(link.Fact), printable(link.Why))
	}
	return b.String()
}
