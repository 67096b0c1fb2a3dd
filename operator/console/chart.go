package console

import (
	"fmt"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
)

// A tile is one number with its bars.
type tile struct {
	ID    string // of its heading
	Title string
	Total string
	Under string // a line below the number
	Tone  string // of the bars: "", bad or care
	Since string // since when it was counted, in a sentence; "" is the whole range

	Width   int // of the chart; its height is chartHeight
	Bars    []bar
	Summary string // the chart in words
	First   string
	Last    string
	Peak    string
	Rows    []tileRow
}

type bar struct{ X, Y, W, H int }

type tileRow struct{ When, N string }

// In units of the drawing.
const chartHeight, barWidth = 60, 10

// chart adds to a tile the bars of a series, a summary in words, and a table of the
// same counts.
func (s span) chart(t tile, begin int64, counts []uint64, zone *time.Location) tile {
	var total, peak uint64
	highest := 0
	for i, n := range counts {
		total += n
		if n > peak {
			peak, highest = n, i
		}
	}
	label := func(i int) string { return s.label(begin+int64(i)*int64(s.bar.Seconds()), zone) }
	t.Total, t.Width = operator.Number(total), barWidth*len(counts)
	for i, n := range counts {
		t.Rows = append(t.Rows, tileRow{label(i), operator.Number(n)})
		if n == 0 {
			continue
		}
		high := max(1, int(n*chartHeight/peak))
		t.Bars = append(t.Bars, bar{i*barWidth + 1, chartHeight - high, barWidth - 2, high})
	}
	t.First, t.Last = label(0), label(len(counts)-1)
	t.Summary = fmt.Sprintf("%s in %s: none.", t.Title, s.Words)
	if total > 0 {
		t.Peak = fmt.Sprintf("peak %s/%s", operator.Number(peak), s.unit())
		t.Summary = fmt.Sprintf("%s in %s: %s, at most %s per %s, at %s.", t.Title, s.Words, t.Total, operator.Number(peak), s.unit(), label(highest))
	}
	return t
}
