package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// serverChange are the flags of every command that changes something on a
// running server.
type serverChange struct {
	*remote.At
	*changeOptions
}

func serverChangeFlags(g *global, c *cobra.Command, asks bool) *serverChange {
	return &serverChange{operatorFlags(g, c), changeFlags(c, asks)}
}

// named takes the arguments of a command that wants exactly these.
func named(use string, n int) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if slices.Contains(args, "") {
			return fault.WrongUse("see: "+c.CommandPath()+" --help", "an argument is empty")
		}
		if len(args) != n {
			return fault.WrongUse("see: "+c.CommandPath()+" --help", "write: %s %s", c.CommandPath(), use)
		}
		return nil
	}
}

// withServer runs a command with its operator client.
func (g *global) withServer(c *cobra.Command, at *remote.At, run func(context.Context, *remote.Server) error) error {
	server, err := at.Connect(c.Context(), g.config, os.Environ())
	if err != nil {
		return err
	}
	return run(c.Context(), server)
}

// post makes a change and prints the object that it gives.
func (g *global) post(c *cobra.Command, o *serverChange, path string, body map[string]any, show func(io.Writer, map[string]any)) error {
	return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
		return g.ask(ctx, c, server, http.MethodPost, path, nil, o.because(body), show)
	})
}

// objectList completes a command that lists objects.
func (g *global) objectList(c *cobra.Command, path string, columns []terminal.Column, filters map[string]string) *cobra.Command {
	o, query := listFlags(g, c), filterFlags(c, filters)
	c.Args = named("", 0)
	c.RunE = func(c *cobra.Command, _ []string) error { return g.list(c, o, path, query(), columns) }
	return c
}

// objectShow completes a command that shows the object which its argument
// names.
func (g *global) objectShow(c *cobra.Command, path string, columns ...terminal.Column) *cobra.Command {
	o := operatorFlags(g, c)
	_, argument, _ := strings.Cut(c.Use, " ")
	c.Args = named(argument, 1)
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.withServer(c, o, func(ctx context.Context, server *remote.Server) error {
			id, err := server.Whole(ctx, remote.KindOf(path), args[0])
			if err != nil {
				return err
			}
			return g.ask(ctx, c, server, http.MethodGet, path+url.PathEscape(id), nil, nil, terminal.Rows(columns...))
		})
	}
	return c
}

// objectChange completes a command that changes the object which its argument
// names, by a path that ends in the command's name. What ends something asks
// before: question has the object in the place of the first %s, and in the
// place of a second one how many approvals end.
func (g *global) objectChange(c *cobra.Command, path, question string, columns ...terminal.Column) *cobra.Command {
	o := serverChangeFlags(g, c, question != "")
	what, argument, _ := strings.Cut(c.Use, " ")
	c.Args = named(argument, 1)
	c.RunE = func(c *cobra.Command, args []string) error {
		return g.postTo(c, o, path, args[0], what, nil, question, columns...)
	}
	if question != "" {
		c.Example += " --yes"
	}
	return c
}

// postTo changes the object that an argument names, which has its question as
// objectChange has it, and prints what it is then.
func (g *global) postTo(c *cobra.Command, o *serverChange, path, argument, what string, body map[string]any, question string, columns ...terminal.Column) error {
	return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
		id, err := server.Whole(ctx, remote.KindOf(path), argument)
		if err != nil {
			return err
		}
		ends := strings.Count(question, "%s") == 2
		if ends {
			columns = slices.Concat(columns, []terminal.Column{terminal.Member("approvals ended", "approvals_ended")})
		}
		if question != "" && !o.yes {
			values := []any{terminal.Printable(id)}
			if ends {
				n, err := wouldEnd(ctx, server, whichOf(remote.KindOf(path), id))
				if err != nil {
					return err
				}
				values = append(values, n)
			}
			if err := o.confirm(c, fmt.Sprintf(question, values...)); err != nil {
				return err
			}
		}
		return g.ask(ctx, c, server, http.MethodPost, path+url.PathEscape(id)+"/"+what, nil, o.because(body), terminal.Rows(columns...))
	})
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
func (g *global) ask(ctx context.Context, c *cobra.Command, server *remote.Server, method, path string, query url.Values, body any, show func(io.Writer, map[string]any)) error {
	var text json.RawMessage
	if err := server.Do(ctx, method, path, query, body, &text); err != nil {
		return err
	}
	return g.tell(c, server, text, show)
}

func (g *global) tell(c *cobra.Command, server *remote.Server, text json.RawMessage, show func(io.Writer, map[string]any)) error {
	if g.json {
		_, err := fmt.Fprintf(c.OutOrStdout(), "%s\n", text)
		return err
	}
	var object map[string]any
	if err := json.Unmarshal(text, &object); err != nil {
		return server.Stranger()
	}
	show(c.OutOrStdout(), object)
	return nil
}

// listOptions are the flags of every list.
type listOptions struct {
	*remote.At
	limit int
	after string
}

func listFlags(g *global, c *cobra.Command) *listOptions {
	o := &listOptions{At: operatorFlags(g, c)}
	c.Flags().IntVar(&o.limit, "limit", 50, "how many, up to 1000")
	c.Flags().StringVar(&o.after, "after", "", "go on behind the `CURSOR` that the page before has told")
	g.wideFlag(c)
	return o
}

// list prints a page as a table, and on stderr how to go on.
func (g *global) list(c *cobra.Command, o *listOptions, path string, query url.Values, columns []terminal.Column) error {
	query.Set("limit", strconv.Itoa(o.limit))
	if o.after != "" {
		query.Set("after", o.after)
	}
	return g.withServer(c, o.At, func(ctx context.Context, server *remote.Server) error {
		if err := server.WholeOf(ctx, query); err != nil {
			return err
		}
		text, err := server.Page(ctx, path, query)
		if err != nil {
			return err
		}
		return g.tell(c, server, text, func(_ io.Writer, page map[string]any) {
			items, _ := page["items"].([]any)
			g.table(c, items, columns)
			if next, _ := page["next"].(string); next != "" {
				g.say(c, "there are more: --after "+terminal.Printable(next))
			}
		})
	})
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
