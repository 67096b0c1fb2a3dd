package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var attemptColumns = []terminal.Column{
	terminal.WordOf("id", "id"), terminal.Moment("began", "began"), terminal.Member("client", "name"), terminal.Member("host", "host").Sparing(2), terminal.IDOf("person", "person").Sparing(3),
	terminal.WordOf("reached", "reached"), terminal.WordOf("result", "result"), {Title: "reason", Of: func(o map[string]any) string { s, _ := o["reason"].(string); return s }, As: terminal.Word},
}

func attemptsCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "attempts COMMAND",
		Short: "See how clients tried to connect, and why they came no farther",
		Example: `  grantkeeper attempts list --result failed --since 24h
  grantkeeper attempts reasons
  grantkeeper attempts show 01a20f7c5e33`,
		Annotations: map[string]string{"next": "grantkeeper attempts list --result failed"},
	}, attemptsList(g), attemptsReasons(g), attemptsShow(g))
}

func attemptsList(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:   "list",
		Short: "List attempts, newest first",
		Example: `  grantkeeper attempts list --result failed --since 24h
  grantkeeper attempts list --query app.ledgerlens.example`,
		Annotations: map[string]string{"next": "grantkeeper attempts show ID"},
	}, "/v1/attempts", attemptColumns, map[string]string{
		"query":    "a part of the app's name; or its whole host, address or client ID",
		"client":   "of this client ID",
		"person":   "of this person: ID or email",
		"approval": "of this approval's ID",
		"result":   "open, worked, failed or left",
		"reason":   "such as pkce_mismatch",
		"since":    "from a `TIME` on: 24h or 7d ago, or 2026-11-21T09:00:00Z",
	})
}

func attemptsReasons(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:   "reasons",
		Short: "Count attempts by their reason, of the last day",
		Example: `  grantkeeper attempts reasons
  grantkeeper attempts reasons --since 7d`,
		Annotations: map[string]string{"next": "grantkeeper attempts list --reason REASON"},
	}, "/v1/attempts/reasons", []terminal.Column{
		{Title: "reason", Of: func(o map[string]any) string { s, _ := o["reason"].(string); return s }, As: terminal.Word},
		terminal.WordOf("result", "result"), terminal.WordOf("attempts", "attempts"), terminal.WordOf("counted", "counted").Sparing(2), terminal.WordOf("who", "who"), terminal.Member("what to do", "do").Sparing(1),
	}, map[string]string{"since": "from a `TIME` on: 24h or 7d ago, or 2026-11-21T09:00:00Z"})
}

func attemptsShow(g *global) *cobra.Command {
	c := &cobra.Command{
		Use:         "show ID",
		Short:       "Show an attempt, step by step",
		Example:     `  grantkeeper attempts show 01a20f7c5e33`,
		Annotations: map[string]string{"next": "docs/attempts.md"},
		Args:        named("ID", 1),
	}
	o := operatorFlags(g, c)
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
			return g.ask(ctx, c, server, http.MethodGet, "/v1/attempts/"+url.PathEscape(args[0]), nil, nil, showAttempt)
		})
	}
	return c
}

// showAttempt writes an attempt as its steps.
func showAttempt(out io.Writer, answer map[string]any) {
	text := func(o map[string]any, name string) string { s, _ := o[name].(string); return terminal.Printable(s) }
	fmt.Fprintf(out, "%s  %s  %s\n", text(answer, "name"), text(answer, "host"), text(answer, "client"))
	began, _ := answer["began"].(float64)
	steps, _ := answer["steps"].([]any)
	for _, s := range steps {
		step, _ := s.(map[string]any)
		number, _ := step["step"].(float64)
		fmt.Fprintf(out, "%2.0f %-13s %s\n", number, text(step, "name"), terminal.InWords(step["mark"]))
		seen, _ := step["seen"].([]any)
		for _, s := range seen {
			one, _ := s.(map[string]any)
			at, _ := one["at"].(float64)
			times, _ := one["times"].(float64)
			line := fmt.Sprintf("     +%s  %s", (time.Duration(at-began*1000) * time.Millisecond).Round(time.Millisecond), text(one, "says"))
			if times > 1 {
				line += fmt.Sprintf(" %.0f times.", times)
			}
			fmt.Fprintln(out, line)
		}
	}
	if joined, _ := answer["joined_by_address"].(bool); joined {
		fmt.Fprintf(out, "\n%s\n", attempt.ByAddressSays)
	}
	fmt.Fprintf(out, "\n%s", text(answer, "result"))
	if reason := text(answer, "reason"); reason != "" {
		fmt.Fprintf(out, ": %s\n%s\n%s: %s", reason, text(answer, "says"), text(answer, "who"), text(answer, "do"))
	}
	fmt.Fprintln(out)
	others, _ := answer["seen_before"].([]any)
	for _, s := range others {
		one, _ := s.(map[string]any)
		n, _ := one["others"].(float64)
		fmt.Fprintf(out, "%s (%.0f): %s\n", text(one, "pattern"), n, text(one, "says"))
	}
}
