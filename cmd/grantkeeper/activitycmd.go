package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
)

func activityCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:         "activity COMMAND",
		Short:       "Read what apps did in people's names, without titles",
		Example:     `  grantkeeper activity export --since 30d --output activity.jsonl`,
		Annotations: map[string]string{"next": "grantkeeper activity export"},
	}, activityExport(g))
}

func activityExport(g *global) *cobra.Command {
	var filter func() url.Values
	var o *remote.At
	var output string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write what apps did as JSON Lines",
		Example: `  grantkeeper activity export --since 30d --output activity.jsonl
  grantkeeper activity export --person tor@nordlys.example`,
		Long: `Of each approval come the records, oldest first, then what was counted by the hour;
then from when to when records may be missing, and last how many lines there are.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "keep the file where activity.keep does not reach"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
				query := filter()
				if err := server.WholeOf(ctx, query); err != nil {
					return err
				}
				if output == "" || output == "-" {
					_, err := exportActivity(ctx, c.OutOrStdout(), server, query)
					return err
				}
				n, err := exportFile(output, func(to io.Writer) (int, error) { return exportActivity(ctx, to, server, query) })
				if err == nil {
					g.say(c, fmt.Sprintf("%d records in %s", n, output))
				}
				return err
			})
		},
	}
	o = operatorFlags(g, c)
	all := pastFilters()
	delete(all, "kind")
	delete(all, "reference")
	filter = filterFlags(c, all)
	c.Flags().StringVar(&output, "output", "", "a new `FILE` (default: standard output)")
	return c
}

// exportActivity writes the answer as it comes, and gives how many records its closing
// line says.
func exportActivity(ctx context.Context, out io.Writer, server *remote.Server, query url.Values) (int, error) {
	answer, err := server.Open(ctx, "/v1/activity/export?"+query.Encode())
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	last, in := &lastLine{to: out}, &brokenOff{Reader: answer.Body}
	if _, err := io.Copy(last, in); err != nil && in.err == nil {
		return 0, fault.CannotOpen("", "%v", err)
	}
	var end struct{ Records *int }
	if err := json.Unmarshal(last.line, &end); in.err != nil || err != nil || end.Records == nil {
		return 0, fault.CannotOpen("see its log, and repeat it", "%s broke off its answer", server.Base)
	}
	return *end.Records, nil
}

// lastLine keeps the last whole line of what passes.
type lastLine struct {
	to           io.Writer
	coming, line []byte
}

func (l *lastLine) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		part, after, whole := bytes.Cut(rest, []byte("\n"))
		l.coming, rest = append(l.coming, part...), after
		if whole {
			l.line, l.coming = append(l.line[:0], l.coming...), l.coming[:0]
		}
	}
	return l.to.Write(p)
}
