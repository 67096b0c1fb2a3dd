package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/strictjson"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var policyColumns = []terminal.Column{
	terminal.Member("version", "version"), terminal.Member("apps that no rule names", "unknown"), terminal.Member("of these, set up here", "known"), terminal.Member("widest access", "widest"),
	terminal.Member("read only", "read_only"), terminal.Member("no personal items", "no_personal"), terminal.Member("roles never given", "never"),
	terminal.Member("days at most", "max_days"), terminal.Member("days until a review", "review_days"), terminal.Member("changed by", "changed_by"), terminal.Moment("changed", "changed_at"),
}

var ruleColumns = []terminal.Column{
	terminal.Member("rule", "rule"), terminal.Member("host", "host"), terminal.Member("app", "name"), terminal.IDOf("person", "person"), terminal.Member("by", "by").Sparing(1), terminal.Moment("at", "at").Sparing(2), terminal.Member("reason", "reason").Sparing(3),
}

func policyCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "policy COMMAND",
		Short: "Look at an organization's rules for apps, set and clear them",
		Example: `  grantkeeper organization policy show nordlys
  grantkeeper organization policy set nordlys rules.json --dry-run`,
		Annotations: map[string]string{"next": "grantkeeper organization policy show ID"},
	}, policyShow(g), policySet(g), policyClear(g))
}

func policyPath(id string) string { return "/v1/organizations/" + url.PathEscape(id) + "/policy" }

func policyShow(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:   "show ID",
		Short: "Show an organization's rules for apps",
		Example: `  grantkeeper organization policy show nordlys
  grantkeeper organization policy show nordlys --json > rules.json    # to change and set`,
		Args:        named("ID", 1),
		Annotations: map[string]string{"next": "grantkeeper organization policy set ID FILE"},
	}
	o := operatorFlags(g, c)
	g.wideFlag(c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
			id, err := server.Whole(ctx, "organization", args[0])
			if err != nil {
				return err
			}
			return g.ask(ctx, c, server, http.MethodGet, policyPath(id), nil, nil, g.policyIn(c))
		})
	}
	return c
}

// policyIn shows rules, those for apps as a table, and what saving them did.
func (g *global) policyIn(c *cobra.Command) func(io.Writer, map[string]any) {
	return func(w io.Writer, answer map[string]any) {
		p, _ := answer["policy"].(map[string]any)
		terminal.Rows(policyColumns...)(w, p)
		if apps, _ := p["apps"].([]any); len(apps) > 0 {
			fmt.Fprintln(w)
			g.table(c, apps, ruleColumns)
		}
		verb := "done"
		if answer["dry_run"] == true {
			verb = "would do"
		}
		effects, _ := answer["effects"].([]any)
		for _, one := range remote.EffectsInWords(effects) {
			fmt.Fprintf(w, "%s: %s\n", verb, one)
		}
	}
}

func policySet(g *global) *cobra.Command {
	var o *serverChange
	var dry bool
	c := &cobra.Command{
		Use:   "set ID FILE",
		Short: "Set an organization's rules for apps from a file, or from standard input for -",
		Example: `  grantkeeper organization policy set nordlys rules.json --dry-run
  grantkeeper organization policy set nordlys rules.json --reason "decided on 3 May" --yes`,
		Long: `The file is what policy show --json prints, or its member policy alone. The version in
it is the one that was seen: rules that somebody has changed since then stay.`,
		Args:        named("ID FILE", 2),
		Annotations: map[string]string{"next": "grantkeeper organization connection list ID"},
		RunE: func(c *cobra.Command, args []string) error {
			rules, err := readRules(c.InOrStdin(), args[1])
			if err != nil {
				return err
			}
			return g.setPolicy(c, o, args[0], rules, dry)
		},
	}
	o = serverChangeFlags(g, c, true)
	g.wideFlag(c)
	c.Flags().BoolVar(&dry, "dry-run", false, "say what it would do to connections, and change nothing")
	return c
}

// readRules gives the rules in a file, whether they stand in an answer or alone.
func readRules(stdin io.Reader, name string) (json.RawMessage, error) {
	text, err := remote.ReadImport(stdin, name)
	if err != nil {
		return nil, err
	}
	members, err := strictjson.Object(text, 4)
	if err != nil {
		return nil, fault.WrongUse("write what this prints: grantkeeper organization policy show ID --json", "%s: %v", name, err)
	}
	if inner, ok := members["policy"]; ok {
		return inner, nil
	}
	return json.RawMessage(text), nil
}

// setPolicy asks with the effects of a dry run before it changes anything.
func (g *global) setPolicy(c *cobra.Command, o *serverChange, argument string, rules json.RawMessage, dry bool) error {
	return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
		id, err := server.Whole(ctx, "organization", argument)
		if err != nil {
			return err
		}
		body, query := o.because(map[string]any{"policy": rules}), url.Values{"dry_run": {"true"}}
		if !dry && !o.yes {
			var would struct{ Effects []any }
			if err := server.Do(ctx, http.MethodPut, policyPath(id), query, body, &would); err != nil {
				return err
			}
			if len(would.Effects) > 0 {
				if err := o.confirm(c, "This does to connections: "+strings.Join(remote.EffectsInWords(would.Effects), "; ")+"."); err != nil {
					return err
				}
			}
		}
		if !dry {
			query = nil
		}
		return g.ask(ctx, c, server, http.MethodPut, policyPath(id), query, body, g.policyIn(c))
	})
}

func policyClear(g *global) *cobra.Command {
	var o *serverChange
	c := &cobra.Command{
		Use:         "clear ID",
		Short:       "Take all of an organization's rules for apps away; end dates stay",
		Example:     `  grantkeeper organization policy clear nordlys --reason "not needed" --yes`,
		Args:        named("ID", 1),
		Annotations: map[string]string{"next": "grantkeeper organization policy show ID"},
		RunE: func(c *cobra.Command, args []string) error {
			return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
				id, err := server.Whole(ctx, "organization", args[0])
				if err != nil {
					return err
				}
				if err := o.confirm(c, "This lifts every rule and ceiling of "+terminal.Printable(id)+": apps get all that people have chosen."); err != nil {
					return err
				}
				return g.ask(ctx, c, server, http.MethodDelete, policyPath(id), nil, o.because(nil), g.policyIn(c))
			})
		},
	}
	o = serverChangeFlags(g, c, true)
	return c
}
