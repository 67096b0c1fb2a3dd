package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/journal/chain"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

func eventsAnchor(g *global) *cobra.Command {
	var o *remote.At
	c := &cobra.Command{
		Use:   "anchor",
		Short: "Print the anchor of the journal's newest block",
		Example: `  grantkeeper events anchor >> /mnt/elsewhere/anchors
  grantkeeper events anchor --json`,
		Long: `It is one line with the number, the entries, the time and the hash of the block. Keep
it where nobody who can write to the database can change it: it proves later what the
journal was by then. Every journal.anchor_every it is in the log too. While nothing is
sealed, which it is a minute and a half after the first entry, no line is printed.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper events export --proof --output FILE"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
				return g.ask(ctx, c, server, http.MethodGet, "/v1/events/anchor", nil, nil, func(out io.Writer, anchor map[string]any) {
					if word, _ := anchor["anchor"].(string); word != "" {
						fmt.Fprintln(out, terminal.Printable(word))
					} else {
						g.say(c, "nothing is sealed yet")
					}
				})
			})
		},
	}
	o = operatorFlags(g, c)
	return c
}

func eventsVerify(g *global) *cobra.Command {
	var given []string
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Check an export with its blocks, without the server",
		Example: `  grantkeeper events verify journal.jsonl --anchor /mnt/elsewhere/anchors
  grantkeeper events verify journal.jsonl --anchor grantkeeper-journal-1:...`,
		Long: `FILE is what grantkeeper events export --proof has written. Entries that were altered,
left out, inserted, repeated or moved are named with their lines, and so are blocks, and an
end that is cut off. An anchor that was kept elsewhere shows that nothing has changed that was
sealed by then; without one the file is held to itself alone, and whoever can write to
the database can write such a file. A log is searched for the anchors in it.
What retention has removed and what is not sealed yet is told, and is no fault.
The exit code is 0 without faults, 1 with one, 4 when a file cannot be read.`,
		Args:        oneFile,
		Annotations: map[string]string{"next": "keep the anchors of today for the next time: grantkeeper events anchor"},
		RunE: func(c *cobra.Command, args []string) error {
			anchors, err := readAnchors(given)
			if err != nil {
				return err
			}
			r, err := chain.Verify(func() (io.ReadCloser, error) { return os.Open(args[0]) }, anchors)
			if err != nil {
				return fault.CannotOpen("", "%v", err)
			}
			if g.json {
				err = writeDocument(c.OutOrStdout(), verified{args[0], len(r.Faults) == 0, r, verifiedAnchors{len(anchors), r.AgreedCount, r.Earlier, r.Agreed}})
			} else {
				err = writeVerified(c.OutOrStdout(), len(anchors), r)
			}
			if n := int64(len(r.Faults)) + r.More; err == nil && n > 0 {
				err = &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s: faults: %d", args[0], n), Hint: "compare it with another export, and with backups from before"}
			}
			return err
		},
	}
	c.Flags().StringArrayVar(&given, "anchor", nil, "an `ANCHOR`, or a file that has some, such as a log; repeatable")
	return c
}

// readAnchors gives those that are given, or stand in files that are.
func readAnchors(given []string) (all []chain.Anchor, err error) {
	for _, one := range given {
		if strings.HasPrefix(one, chain.AnchorPrefix) {
			a, err := chain.ParseAnchor(one)
			if err != nil {
				return nil, fault.WrongUse("give it as grantkeeper events anchor has printed it", "--anchor: %v", err)
			}
			all = append(all, a)
			continue
		}
		some, err := anchorsIn(one)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// anchorsIn looks for anchors in a file: at least one.
func anchorsIn(name string) (all []chain.Anchor, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.CannotOpen("", "--anchor: %v", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, chain.MaxLine)
	for n := 1; lines.Scan(); n++ {
		some, err := chain.FindAnchors(lines.Text())
		if err != nil {
			return nil, fault.WrongUse("an anchor is one word, as it was printed", "--anchor: %s: line %d: %v", name, n, err)
		}
		all = append(all, some...)
	}
	if err := lines.Err(); err != nil {
		return nil, fault.CannotOpen("", "--anchor: %s: %v", name, err)
	}
	if len(all) == 0 {
		return nil, fault.WrongUse("give what grantkeeper events anchor has printed, or a log", "--anchor: %s has no anchor", name)
	}
	return all, nil
}

// verified is what events verify says with --json.
type verified struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	*chain.Report
	Anchors verifiedAnchors `json:"anchors"`
}

type verifiedAnchors struct {
	Given   int          `json:"given"`
	Agree   int          `json:"agree"`
	Earlier int          `json:"earlier"` // of blocks before the file
	Newest  chain.Anchor `json:"newest"`  // that agrees
}

// writeVerified says it to people.
func writeVerified(to io.Writer, given int, r *chain.Report) error {
	out := &strings.Builder{}
	say := func(what, format string, args ...any) {
		fmt.Fprintf(out, "%-9s %s\n", what, fmt.Sprintf(format, args...))
	}
	day := func(at int64) string { return terminal.UTC(at) }
	for _, f := range r.Faults {
		where := fmt.Sprintf("line %d", f.Line)
		if f.Block > 0 {
			where += fmt.Sprintf(", block %d", f.Block)
		}
		if f.Entry != "" {
			where += ", entry " + f.Entry
		}
		say("fault", "%s: %s: %s", f.Kind, where, terminal.Printable(f.Why))
	}
	if r.More > 0 {
		say("fault", "%d more", r.More)
	}
	if r.From == 0 {
		say("blocks", "none")
	} else {
		say("blocks", "%d to %d, the last of %s", r.From, r.To, day(r.Newest.At))
	}
	say("entries", "%d as they were sealed", r.Entries)
	if r.Gone > 0 {
		say("gone", "%d by retention, as the file says: from before %s", r.Gone, day(r.GoneBefore))
	}
	if r.Unsealed > 0 {
		say("unsealed", "%d that no block proves yet", r.Unsealed)
	}
	if r.From > 1 {
		say("before", "blocks up to %d are not in the file", r.From-1)
	}
	if r.Restored > 0 {
		say("backup", "one was put back at %s: anchors of what was lost then agree with nothing", day(r.Restored))
	}
	switch {
	case given == 0:
		say("anchors", "none given: the file agrees with itself, and nothing else is shown")
	case r.AgreedCount > 0:
		say("anchors", "%d agree, the newest of %s: what was sealed by then is as it was", r.AgreedCount, day(r.Agreed.At))
	default:
		say("anchors", "none agrees")
	}
	if r.Earlier > 0 {
		say("anchors", "%d of blocks before the file: not compared", r.Earlier)
	}
	_, err := io.WriteString(to, out.String())
	return err
}
