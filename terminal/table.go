package terminal

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	leastText = 14 // characters that a text is cut to before a column is left out
	leastID   = 8  // characters of an ID that are shown, or more that tell it from the others
)

// A Column of a table: its title, and what stands in it.
type Column struct {
	Title string
	Of    func(map[string]any) string
	As    Shape
	Spare int // where there is no room, the column with the highest is left out first; 0 stays
}

// A Shape says how a cell becomes shorter: a text is cut, an ID to its
// beginning, a time to its minute, and a word not at all.
type Shape int

const (
	Text Shape = iota
	ID
	Time
	Word
)

// Member is a column with one member of the object.
func Member(title, name string) Column {
	return Column{Title: title, Of: func(o map[string]any) string { return InWords(o[name]) }}
}

// IDOf is a column with an ID.
func IDOf(title, name string) Column {
	c := Member(title, name)
	c.As = ID
	return c
}

// WordOf is a column with what is never cut.
func WordOf(title, name string) Column {
	c := Member(title, name)
	c.As = Word
	return c
}

// Moment is a column with a time.
func Moment(title, name string) Column {
	return Column{Title: title, Of: func(o map[string]any) string { return TimeOf(o[name]) }, As: Time}
}

// Sparing lets a column be left out, before those with a lower number.
func (c Column) Sparing(spare int) Column {
	c.Spare = spare
	return c
}

// A Table is what stands in its columns.
type Table struct {
	columns []Column
	cells   [][]string // by column, the title first
}

// NewTable makes one of objects, as JSON has them: a line for each.
func NewTable(items []any, columns []Column) (t Table) {
	for _, c := range columns {
		cells := []string{c.Title}
		for _, item := range items {
			object, _ := item.(map[string]any)
			cells = append(cells, c.Of(object))
		}
		t.columns, t.cells = append(t.columns, c), append(t.cells, cells)
	}
	return t
}

// Fit shortens what has a shorter form, and then leaves columns out, until the
// lines are no wider. It gives the titles of those.
func (t *Table) Fit(width int) (out []string) {
	if _, fits := t.room(width, width); fits {
		return nil
	}
	for i, c := range t.columns {
		switch c.As {
		case ID:
			shortenIDs(t.cells[i][1:])
		case Time:
			shortenTimes(t.cells[i])
		}
	}
	most, fits := t.room(width, leastText)
	for ; !fits; most, fits = t.room(width, leastText) {
		first := 0
		for i, c := range t.columns {
			if c.Spare > t.columns[first].Spare {
				first = i
			}
		}
		if t.columns[first].Spare == 0 {
			most, _ = t.room(width, leastID)
			break
		}
		out = append(out, t.columns[first].Title)
		t.columns, t.cells = slices.Delete(t.columns, first, first+1), slices.Delete(t.cells, first, first+1)
	}
	for i, c := range t.columns {
		if c.As == Text {
			title := longest(t.cells[i][:1])
			for n, cell := range t.cells[i] {
				t.cells[i][n] = CutTo(cell, max(most, title))
			}
		}
	}
	return out
}

// room finds how long texts may be, no less than least, and reports whether the
// lines are no wider then.
func (t *Table) room(width, least int) (most int, fits bool) {
	for most = max(width, least); ; most-- {
		total := 2 * (len(t.cells) - 1)
		for i, cells := range t.cells {
			w := longest(cells)
			if t.columns[i].As == Text {
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
		ids[i] = CutTo(id, n+1)
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

// Write writes the lines, with two spaces between columns and none at the end.
func (t *Table) Write(w io.Writer) {
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

// Rows shows an object, a member on each line.
func Rows(columns ...Column) func(io.Writer, map[string]any) {
	return func(w io.Writer, o map[string]any) {
		t := Table{cells: make([][]string, 2)}
		for _, c := range columns {
			t.cells[0], t.cells[1] = append(t.cells[0], c.Title), append(t.cells[1], c.Of(o))
		}
		t.Write(w)
	}
}

// None stands in a cell that would be empty.
const None = "none"

// InWords is a value of JSON on a line.
func InWords(v any) string {
	switch v := v.(type) {
	case nil, string:
		if v, _ := v.(string); v != "" {
			return Printable(v)
		}
		return None
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
			all = append(all, InWords(one))
		}
		if len(all) == 0 {
			return None
		}
		return strings.Join(all, " ")
	}
	return "?"
}

// TimeOf is a time in Unix seconds; of 0 it is None.
func TimeOf(v any) string {
	seconds, _ := v.(float64)
	if seconds == 0 {
		return None
	}
	return time.Unix(int64(seconds), 0).UTC().Format("2006-01-02T15:04:05Z")
}
