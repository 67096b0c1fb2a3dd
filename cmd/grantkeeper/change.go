package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/operator"
)

// serverChange are the flags of every command that changes something on a
// running server.
type serverChange struct {
	*operatorOptions
	*changeOptions
}

func serverChangeFlags(g *global, c *cobra.Command, asks bool) *serverChange {
	return &serverChange{operatorFlags(g, c), changeFlags(c, asks)}
}

// named takes the arguments of a command that wants exactly these.
func named(use string, n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		for _, a := range args {
			if a == "" {
				return wrongUse("see: "+c.CommandPath()+" --help", "an argument is empty")
			}
		}
		if len(args) != n {
			return wrongUse("see: "+c.CommandPath()+" --help", "write: %s %s", c.CommandPath(), use)
		}
		return nil
	}
}

// withServer runs a command with its operator client.
func (g *global) withServer(c *cobra.Command, at *operatorOptions, run func(context.Context, *operatorClient) error) error {
	server, err := at.connect(c.Context(), g.config, os.Environ())
	if err != nil {
		return err
	}
	return run(c.Context(), server)
}

// get prints one object.
func (g *global) get(c *cobra.Command, at *operatorOptions, path string, show func(io.Writer, map[string]any)) error {
	return g.withServer(c, at, func(ctx context.Context, server *operatorClient) error {
		return g.ask(ctx, c, server, http.MethodGet, path, nil, nil, show)
	})
}

// post makes a change and prints the object that it gives.
func (g *global) post(c *cobra.Command, o *serverChange, path string, body map[string]any, show func(io.Writer, map[string]any)) error {
	return g.withServer(c, o.operatorOptions, func(ctx context.Context, server *operatorClient) error {
		return g.ask(ctx, c, server, http.MethodPost, path, nil, o.because(body), show)
	})
}

// objectList completes a command that lists objects.
func (g *global) objectList(c *cobra.Command, path string, columns []column, filters map[string]string) *cobra.Command {
	o, query := listFlags(g, c), filterFlags(c, filters)
	c.Args = named("", 0)
	c.RunE = func(c *cobra.Command, _ []string) error { return g.list(c, o, path, query(), columns) }
	return c
}

// objectShow completes a command that shows the object which its argument
// names.
func (g *global) objectShow(c *cobra.Command, path string, columns ...column) *cobra.Command {
	o := operatorFlags(g, c)
	_, argument, _ := strings.Cut(c.Use, " ")
	c.Args = named(argument, 1)
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.get(c, o, path+url.PathEscape(args[0]), rows(columns...))
	}
	return c
}

// objectChange completes a command that changes the object which its argument
// names, by a path that ends in the command's name. What ends something asks
// before: question has the object in the place of %s.
func (g *global) objectChange(c *cobra.Command, path, question string, columns ...column) *cobra.Command {
	o := serverChangeFlags(g, c, question != "")
	what, argument, _ := strings.Cut(c.Use, " ")
	c.Args = named(argument, 1)
	c.RunE = func(c *cobra.Command, args []string) error {
		if question != "" {
			if err := o.confirm(c, fmt.Sprintf(question, printable(args[0]))); err != nil {
				return err
			}
		}
		return g.post(c, o, path+url.PathEscape(args[0])+"/"+what, nil, rows(columns...))
	}
	if question != "" {
		c.Example += " --yes"
	}
	return c
}

func (o *serverChange) because(body map[string]any) map[string]any {
	if body == nil {
		body = map[string]any{}
	}
	if o.reason != "" {
		body["reason"] = o.reason
	}
	return body
}

// ask sends a request and prints its answer: as it came, or as show has it.
func (g *global) ask(ctx context.Context, c *cobra.Command, server *operatorClient, method, path string, query url.Values, body any, show func(io.Writer, map[string]any)) error {
	var text json.RawMessage
	if err := server.do(ctx, method, path, query, body, &text); err != nil {
		return err
	}
	return g.tell(c, server, text, show)
}

func (g *global) tell(c *cobra.Command, server *operatorClient, text json.RawMessage, show func(io.Writer, map[string]any)) error {
	if g.json {
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s\n", text)
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return server.stranger()
	}
	show(c.OutOrStdout(), object)
	return nil
}

// listOptions are the flags of every list.
type listOptions struct {
	*operatorOptions
	limit int
	after string
}

func listFlags(g *global, c *cobra.Command) *listOptions {
	o := &listOptions{operatorOptions: operatorFlags(g, c)}
	c.Flags().IntVar(&o.limit, "limit", 50, "how many, up to 1000")
	c.Flags().StringVar(&o.after, "after", "", "go on behind the `CURSOR` that the page before has told")
	return o
}

// list prints a page as a table, and on stderr how to go on.
func (g *global) list(c *cobra.Command, o *listOptions, path string, query url.Values, columns []column) error {
	query.Set("limit", strconv.Itoa(o.limit))
	if o.after != "" {
		query.Set("after", o.after)
	}
	return g.withServer(c, o.operatorOptions, func(ctx context.Context, server *operatorClient) error {
		text, err := server.page(ctx, path, query)
		if err != nil {
			return err
		}
		return g.tell(c, server, text, func(w io.Writer, page map[string]any) {
			items, _ := page["items"].([]any)
			table(w, items, columns)
			if next, _ := page["next"].(string); next != "" {
				g.say(c, "there are more: --after "+printable(next))
			}
		})
	})
}

// page gives a page of a list as it came. The server ends one early that has
// looked at much and found little; what is empty so far is looked on from.
func (c *operatorClient) page(ctx context.Context, path string, query url.Values) (text json.RawMessage, err error) {
	for {
		if err := c.do(ctx, http.MethodGet, path, query, nil, &text); err != nil {
			return nil, err
		}
		var page journalPage
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, c.stranger()
		}
		if len(page.Items) > 0 || page.Next == "" {
			return text, nil
		}
		query.Set("after", page.Next)
	}
}

// A column of a table: its title, and what stands in it.
type column struct {
	title string
	of    func(map[string]any) string
}

func table(w io.Writer, items []any, columns []column) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, c := range columns {
		if i > 0 {
			fmt.Fprint(t, "\t")
		}
		fmt.Fprint(t, c.title)
	}
	for _, item := range items {
		object, _ := item.(map[string]any)
		fmt.Fprint(t, "\n")
		for i, c := range columns {
			if i > 0 {
				fmt.Fprint(t, "\t")
			}
			fmt.Fprint(t, c.of(object))
		}
	}
	fmt.Fprint(t, "\n")
	t.Flush()
}

// member is a column with one member of the object.
func member(title, name string) column {
	return column{title, func(o map[string]any) string { return inWords(o[name]) }}
}

// moment is a column with a time.
func moment(title, name string) column {
	return column{title, func(o map[string]any) string { return timeOf(o[name]) }}
}

// inWords is a value of JSON on a line.
func inWords(v any) string {
	switch v := v.(type) {
	case nil, string:
		if v, _ := v.(string); v != "" {
			return printable(v)
		}
		return "-"
	case bool:
		if v {
			return "yes"
		}
		return "no"
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, inWords(one))
		}
		if len(all) == 0 {
			return "-"
		}
		return strings.Join(all, " ")
	case map[string]any:
		if role, _ := v["role"].(string); role != "" {
			return printable(role) + "=" + inWords(v["access"])
		}
	}
	return "?"
}

func timeOf(v any) string {
	seconds, _ := v.(float64)
	if seconds == 0 {
		return "-"
	}
	return time.Unix(int64(seconds), 0).UTC().Format("2006-01-02T15:04:05Z")
}

// rows shows an object, a member on each line.
func rows(columns ...column) func(io.Writer, map[string]any) {
	return func(w io.Writer, o map[string]any) {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, c := range columns {
			fmt.Fprintf(t, "%s\t%s\n", c.title, c.of(o))
		}
		t.Flush()
	}
}

// filterFlags adds flags that narrow a list, with their meanings. It gives the
// query of those that are set.
func filterFlags(c *cobra.Command, meanings map[string]string) func() url.Values {
	values := map[string]*string{}
	for name, meaning := range meanings {
		values[name] = c.Flags().String(name, "", meaning)
	}
	return func() url.Values {
		query := url.Values{}
		for name, value := range values {
			if *value != "" {
				query.Set(name, *value)
			}
		}
		return query
	}
}

// as tells the server who asks.
func as(r *http.Request) {
	r.Header.Set(operator.UserHeader, systemUser())
}
