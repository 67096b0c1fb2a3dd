package main

import (
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/grantkeeper/grantkeeper/terminal"
)

// table writes objects, a line for each, so that they fit the width of the
// output, and all of them with --wide.
func (g *global) table(c *cobra.Command, items []any, columns []terminal.Column) {
	t := terminal.NewTable(items, columns)
	var out []string
	if !g.wide {
		out = t.Fit(widthOf(c.OutOrStdout()))
	}
	t.Write(c.OutOrStdout())
	if len(out) > 0 && len(items) > 0 {
		g.say(c, "left out: "+strings.Join(out, ", ")+"; all of it: --wide")
	}
}

func (g *global) wideFlag(c *cobra.Command) {
	c.Flags().BoolVar(&g.wide, "wide", false, "the whole table, however wide: by default it fits the terminal, COLUMNS, or 100 characters")
}

// widthOf is how many characters a line of the output has.
func widthOf(w io.Writer) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if o, ok := w.(*output); ok {
		w = o.Writer
	}
	if f, isFile := w.(*os.File); isFile {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return plainWidth
}

// plainWidth is how many characters a line has where nobody says it.
const plainWidth = 100
