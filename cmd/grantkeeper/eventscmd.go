package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

var eventColumns = []terminal.Column{
	terminal.Moment("time", "at"), terminal.WordOf("kind", "kind"), terminal.IDOf("client", "client"), terminal.IDOf("person", "person"),
	terminal.Member("organization", "organization").Sparing(2), terminal.IDOf("approval", "approval").Sparing(1), terminal.Member("actor", "actor").Sparing(3),
	terminal.Member("address", "address").Sparing(4), terminal.Member("reason", "reason"), terminal.Member("detail", "detail"), terminal.WordOf("reference", "reference").Sparing(5),
}

func eventsCommand(g *global) *cobra.Command {
	return group(&cobra.Command{
		Use:   "events COMMAND",
		Short: "Read the journal: who did what, when, from where, and why",
		Example: `  grantkeeper events list --kind refresh_reused --since 24h
  grantkeeper events tail
  grantkeeper events export --since 30d --output events.jsonl`,
		Annotations: map[string]string{"next": "grantkeeper events list"},
	}, eventsList(g), eventsTail(g), eventsExport(g), eventsAnchor(g), eventsVerify(g))
}

// eventFilters narrow the journal.
func eventFilters() map[string]string {
	return map[string]string{
		"kind":         "such as refresh_reused",
		"client":       "about this client ID",
		"person":       "about this person: ID or email",
		"organization": "about this organization's ID",
		"approval":     "about this approval's ID",
		"reference":    "of the answer with this reference: its X-Request-Id",
	}
}

// pastFilters are those of what has been.
func pastFilters() map[string]string {
	all := eventFilters()
	all["since"], all["until"] = "from a `TIME` on: 24h or 7d ago, or 2026-11-21T09:00:00Z", "before a `TIME`"
	return all
}

func eventsList(g *global) *cobra.Command {
	return g.objectList(&cobra.Command{
		Use:   "list",
		Short: "List entries, newest first",
		Example: `  grantkeeper events list --kind refresh_reused --since 24h
  grantkeeper events list --person tor@nordlys.example --json`,
		Annotations: map[string]string{"next": "grantkeeper approval show ID"},
	}, "/v1/events", eventColumns, pastFilters())
}

// A journalPage is a part of the journal, its entries as they came.
type journalPage struct {
	Items []json.RawMessage `json:"items"`
	Next  string            `json:"next"`
}

// eventID reads what a cursor behind an entry is: its ID.
func eventID(entry json.RawMessage) string {
	var e struct {
		ID string `json:"id"`
	}
	_ = json.Unmarshal(entry, &e) // "" is the cursor of the beginning
	return e.ID
}

// tailEvery is how often tail asks for what is new.
const tailEvery = time.Second

func eventsTail(g *global) *cobra.Command {
	var filter func() url.Values
	var o *remote.At
	var lastN int
	c := &cobra.Command{
		Use:   "tail",
		Short: "Show the last entries, and each new one as it comes",
		Example: `  grantkeeper events tail
  grantkeeper events tail --kind approval_ended --json`,
		Long:        `With --json it writes one object on each line. Stop it with Ctrl-C.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "grantkeeper events list --since 24h"},
		RunE: func(c *cobra.Command, _ []string) error {
			if lastN < 0 || lastN > 1000 {
				return fault.WrongUse("see: grantkeeper events tail --help", "--last: 0 to 1000")
			}
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			server, err := o.Connect(ctx, g.config, os.Environ())
			if err != nil {
				return err
			}
			query := filter()
			if err := server.WholeOf(ctx, query); err != nil {
				return err
			}
			return g.tail(ctx, c.OutOrStdout(), server, query, lastN)
		},
	}
	o = operatorFlags(g, c)
	filter = filterFlags(c, eventFilters())
	c.Flags().IntVar(&lastN, "last", 10, "how many to begin with")
	return c
}

// tail writes the last entries and then those that come, until ctx ends. A
// server that is away for a moment, as at a restart, is asked again.
func (g *global) tail(ctx context.Context, out io.Writer, server *remote.Server, query url.Values, lastN int) error {
	behind, latest, err := lastEvents(ctx, server, query, lastN)
	if err != nil {
		return err
	}
	for _, entry := range slices.Backward(latest) {
		if err := g.writeEvent(out, entry); err != nil {
			return err
		}
	}
	query.Set("order", "oldest")
	query.Set("limit", "1000")
	for wait := tailEvery; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		setAfter(query, behind)
		var page journalPage
		err := server.Do(ctx, http.MethodGet, "/v1/events", query, nil, &page)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && fault.CodeOf(err) != fault.Reach {
			return err
		}
		for _, entry := range page.Items {
			if err := g.writeEvent(out, entry); err != nil {
				return err
			}
			behind = eventID(entry)
		}
		if wait = tailEvery; page.Next != "" { // others came between, or more
			behind, wait = page.Next, 0
		}
	}
}

// tailLooks is how many pages are looked at for the last entries that a filter
// lets through.
const tailLooks = 100

// lastEvents gives the last entries, newest first, and the cursor behind all
// that there were.
func lastEvents(ctx context.Context, server *remote.Server, query url.Values, n int) (behind string, latest []json.RawMessage, err error) {
	var page journalPage
	if err := server.Do(ctx, http.MethodGet, "/v1/events", url.Values{"limit": {"1"}}, nil, &page); err != nil {
		return "", nil, err
	}
	if len(page.Items) > 0 {
		behind = eventID(page.Items[0])
	}
	query = maps.Clone(query)
	query.Set("limit", fmt.Sprint(max(n, 1))) // also without any, so that a wrong filter is refused
	for range tailLooks {
		page = journalPage{}
		if err := server.Do(ctx, http.MethodGet, "/v1/events", query, nil, &page); err != nil {
			return "", nil, err
		}
		for _, entry := range page.Items {
			if len(latest) < n && eventID(entry) <= behind { // what came since is still to be told
				latest = append(latest, entry)
			}
		}
		if len(latest) >= n || page.Next == "" {
			break
		}
		setAfter(query, page.Next)
	}
	return behind, latest, nil
}

func setAfter(query url.Values, cursor string) {
	if cursor != "" {
		query.Set("after", cursor)
	}
}

// writeEvent writes one entry on a line.
func (g *global) writeEvent(out io.Writer, entry json.RawMessage) error {
	if g.json {
		_, err := fmt.Fprintf(out, "%s\n", entry)
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(entry, &object); err != nil {
		return err
	}
	line := terminal.TimeOf(object["at"]) + "  " + terminal.InWords(object["kind"])
	for _, name := range []string{"client", "person", "organization", "approval", "actor", "address", "reason", "detail", "reference"} {
		if v, _ := object[name].(string); v != "" {
			line += "  " + name + "=" + terminal.Printable(v)
		}
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

func eventsExport(g *global) *cobra.Command {
	var filter func() url.Values
	var o *remote.At
	var output string
	var proof bool
	c := &cobra.Command{
		Use:   "export",
		Short: "Write entries as JSON Lines, oldest first",
		Example: `  grantkeeper events export --since 30d --output events.jsonl
  grantkeeper events export --kind approval_ended | gzip > ended.jsonl.gz
  grantkeeper events export --proof --output journal.jsonl`,
		Long: `With --proof the blocks that entries are sealed in stand before them, and a closing
line is the last one: grantkeeper events verify checks such a file. It takes no filter
but --since, which leaves out the blocks that end before.`,
		Args:        named("", 0),
		Annotations: map[string]string{"next": "keep the file where journal.retention does not reach"},
		RunE: func(c *cobra.Command, _ []string) error {
			return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
				query := filter()
				write := export
				if proof {
					write = exportProof
				}
				if err := server.WholeOf(ctx, query); err != nil {
					return err
				}
				if output == "" || output == "-" {
					_, err := write(ctx, c.OutOrStdout(), server, query)
					return err
				}
				n, err := exportFile(output, func(to io.Writer) (int, error) { return write(ctx, to, server, query) })
				if err == nil {
					g.say(c, fmt.Sprintf("%d entries in %s", n, output))
				}
				return err
			})
		},
	}
	o = operatorFlags(g, c)
	filter = filterFlags(c, pastFilters())
	c.Flags().StringVar(&output, "output", "", "a new `FILE` (default: standard output)")
	c.Flags().BoolVar(&proof, "proof", false, "with the blocks, for events verify")
	return c
}

// exportProof writes the journal with its blocks.
func exportProof(ctx context.Context, out io.Writer, server *remote.Server, query url.Values) (n int, err error) {
	for name := range query {
		if name != "since" {
			return 0, fault.WrongUse("leave out --"+name, "--proof takes no filter but --since: what is left out could not be told from what is missing")
		}
	}
	answer, err := server.Open(ctx, "/v1/events/proof?"+query.Encode())
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	counted, in := &entryCount{to: out}, &brokenOff{Reader: answer.Body}
	if _, err := io.Copy(counted, in); in.err != nil {
		return 0, fault.CannotOpen("see its log, and repeat it", "%s broke off its answer", server.Base)
	} else if err != nil {
		return 0, fault.CannotOpen("", "%v", err)
	}
	return counted.entries, nil
}

// brokenOff keeps the error of who sends apart from that of who takes.
type brokenOff struct {
	io.Reader
	err error
}

func (b *brokenOff) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}

// entryCount counts the lines that are entries.
type entryCount struct {
	to      io.Writer
	head    []byte // of the line that is coming
	entries int
}

func (e *entryCount) Write(p []byte) (int, error) {
	for _, b := range p {
		switch begin := []byte(`{"id":`); {
		case b == '\n':
			if bytes.Equal(e.head, begin) {
				e.entries++
			}
			e.head = e.head[:0]
		case len(e.head) < len(begin):
			e.head = append(e.head, b)
		}
	}
	return e.to.Write(p)
}

// export writes a page at a time.
func export(ctx context.Context, out io.Writer, server *remote.Server, query url.Values) (n int, err error) {
	query.Set("order", "oldest")
	query.Set("limit", "1000")
	for {
		var page journalPage
		if err := server.Do(ctx, http.MethodGet, "/v1/events", query, nil, &page); err != nil {
			return n, err
		}
		for _, entry := range page.Items {
			if _, err := fmt.Fprintf(out, "%s\n", entry); err != nil {
				return n, fault.CannotOpen("", "%v", err)
			}
		}
		if n += len(page.Items); page.Next == "" {
			return n, nil
		}
		query.Set("after", page.Next)
	}
}

// exportFile leaves no half a file: it is there under its name once it is
// whole. One that is there already is not written over.
func exportFile(name string, write func(io.Writer) (int, error)) (int, error) {
	if _, err := os.Lstat(name); err == nil {
		return 0, fault.AlreadyThere(name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return 0, fault.CannotOpen("", "%v", err)
	}
	defer os.Remove(f.Name()) // it is under its own name by then, or nothing
	w := bufio.NewWriter(f)
	n, err := write(w)
	if err != nil {
		f.Close()
		return 0, err
	}
	for _, step := range []func() error{w.Flush, f.Sync, f.Close, func() error { return os.Link(f.Name(), name) }} {
		if err := step(); err != nil {
			f.Close()
			return 0, fault.CannotOpen("", "%v", err)
		}
	}
	return n, nil
}
