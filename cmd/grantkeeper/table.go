package main

import (
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/grantkeeper/grantkeeper/terminal"
)

const (
	plainWidth = 100 // characters of a line, where nobody says how many there are
	leastText  = 14  // characters that a text is cut to before a column is left out
	leastID    = 8   // characters of an ID that are shown, or more that tell it from the others
)

// A column of a table: its title, and what stands in it.
type column struct {
	title string
	of    func(map[string]any) string
	as    shape
	spare int // where there is no room, the column with the highest is left out first; 0 stays
}

// A shape says how a cell becomes shorter: a text is cut, an ID to its
// beginning, a time to its minute, and a word not at all.
type shape int

const (
	text shape = iota
	ident
	when
	word
)

// member is a column with one member of the object.
func member(title, name string) column {
	return column{title: title, of: func(o map[string]any) string { return inWords(o[name]) }}
}

// idOf is a column with an ID.
func idOf(title, name string) column {
	c := member(title, name)
	c.as = ident
	return c
}

// wordOf is a column with what is never cut.
func wordOf(title, name string) column {
	c := member(title, name)
	c.as = word
	return c
}

// moment is a column with a time.
func moment(title, name string) column {
	return column{title: title, of: func(o map[string]any) string { return timeOf(o[name]) }, as: when}
}

// sparing lets a column be left out, before those with a lower number.
func (c column) sparing(spare int) column {
	c.spare = spare
	return c
}

// A table is what stands in its columns.
type table struct {
	columns []column
	cells   [][]string // by column, the title first
}

func newTable(items []any, columns []column) (t table) {
	for _, c := range columns {
		cells := []string{c.title}
		for _, item := range items {
			object, _ := item.(map[string]any)
			cells = append(cells, c.of(object))
		}
		t.columns, t.cells = append(t.columns, c), append(t.cells, cells)
	}
	return t
}

// table writes objects, a line for each, so that they fit the width of the
// output, and all of them with --wide.
func (g *global) table(c *cobra.Command, items []any, columns []column) {
	t := newTable(items, columns)
	var out []string
	if !g.wide {
		out = t.fit(widthOf(c.OutOrStdout()))
	}
	t.write(c.OutOrStdout())
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

// fit shortens what has a shorter form, and then leaves columns out, until the
// lines are no wider. It gives the titles of those.
func (t *table) fit(width int) (out []string) {
	if _, fits := t.room(width, width); fits {
		return nil
	}
	for i, c := range t.columns {
		switch c.as {
		case ident:
			shortenIDs(t.cells[i][1:])
		case when:
			shortenTimes(t.cells[i])
		}
	}
	most, fits := t.room(width, leastText)
	for ; !fits; most, fits = t.room(width, leastText) {
		first := 0
		for i, c := range t.columns {
			if c.spare > t.columns[first].spare {
				first = i
			}
		}
		if t.columns[first].spare == 0 {
			most, _ = t.room(width, leastID)
			break
		}
		out = append(out, t.columns[first].title)
		t.columns, t.cells = slices.Delete(t.columns, first, first+1), slices.Delete(t.cells, first, first+1)
	}
	for i, c := range t.columns {
		for n, cell := range t.cells[i] {
			if c.as == text && n > 0 {
				t.cells[i][n] = terminal.CutTo(cell, max(most, longest(t.cells[i][:1])))
			}
		}
	}
	return out
}

// room finds how long texts may be, no less than least, and reports whether the
// lines are no wider then.
func (t *table) room(width, least int) (most int, fits bool) {
	for most = max(width, least); ; most-- {
		total := 2 * (len(t.cells) - 1)
		for i, cells := range t.cells {
			w := longest(cells)
			if t.columns[i].as == text {
				w = max(min(w, most), longest(cells[:1]))
			}
			total += w
		}
		if total <= width || most == least {
			return most, total <= width
		}
	}
}

func longest(cells []string) (width int) {
	for _, cell := range cells {
		width = max(width, utf8.RuneCountInString(cell))
	}
	return width
}

// shortenIDs leaves as much of them as tells each from the others, leastID or more.
func shortenIDs(ids []string) {
	n := leastID
	for i, one := range ids {
		for _, other := range ids[:i] {
			for one != other && len(one) >= n && len(other) >= n && one[:n] == other[:n] {
				n++
			}
		}
	}
	for i, id := range ids {
		ids[i] = terminal.CutTo(id, n+1)
	}
}

// shortenTimes leaves out the seconds; that it is UTC moves to the title.
func shortenTimes(cells []string) {
	cells[0] += " UTC"
	for i, cell := range cells[1:] {
		if len(cell) == len("2006-01-02T15:04:05Z") {
			cells[i+1] = cell[:10] + " " + cell[11:16]
		}
	}
}

// write writes the lines, with two spaces between columns and none at the end.
func (t *table) write(w io.Writer) {
	var b strings.Builder
	var widths []int
	for _, cells := range t.cells {
		widths = append(widths, longest(cells))
	}
	for n := range t.cells[0] {
		line := ""
		for i, cells := range t.cells {
			line += cells[n] + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cells[n])+2)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	_, _ = io.WriteString(w, b.String()) // what is wrong with it is asked at the end
}

// rows shows an object, a member on each line.
func rows(columns ...column) func(io.Writer, map[string]any) {
	return func(w io.Writer, o map[string]any) {
		t := table{cells: make([][]string, 2)}
		for _, c := range columns {
			t.cells[0], t.cells[1] = append(t.cells[0], c.title), append(t.cells[1], c.of(o))
		}
		t.write(w)
	}
}

// nothing stands in a cell that would be empty.
const nothing = "none"

// inWords is a value of JSON on a line.
func inWords(v any) string {
	switch v := v.(type) {
	case nil, string:
		if v, _ := v.(string); v != "" {
			return terminal.Printable(v)
		}
		return nothing
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
			return nothing
		}
		return strings.Join(all, " ")
	}
	return "?"
}

func timeOf(v any) string {
	seconds, _ := v.(float64)
	if seconds == 0 {
		return nothing
	}
	return time.Unix(int64(seconds), 0).UTC().Format("2006-01-02T15:04:05Z")
}
