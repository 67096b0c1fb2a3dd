package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printTable prints rows under their heading: the first column to the left,
// numbers to the right.
func printTable(w io.Writer, heading []string, rows [][]string) {
	widths := make([]int, len(heading))
	for _, row := range append([][]string{heading}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range append([][]string{heading}, rows...) {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0:
				line.WriteString(cell + gap)
			default:
				line.WriteString("  " + gap + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

func printComparisons(w io.Writer, all []comparison) {
	heading := []string{"scenario", "requests/s", "lowest", "highest", "bare/s", "of bare", "p50 ms", "p99 ms", "bare p50", "bare p99", "errors"}
	onPostgres := slices.ContainsFunc(all, func(c comparison) bool { return c.Pgbench > 0 })
	if onPostgres {
		heading = append(heading, "pgbench/s", "of pgbench")
	}
	var rows [][]string
	for _, c := range all {
		var rates []float64
		for _, r := range c.Runs {
			rates = append(rates, r.Scenario.Rate)
		}
		low, high := 0.0, 0.0
		if len(rates) > 0 {
			low, high = slices.Min(rates), slices.Max(rates)
		}
		name := c.Scenario
		if c.Early {
			name += " *"
		}
		rows = append(rows, []string{
			name, thousands(int64(c.Rate)), thousands(int64(low)), thousands(int64(high)), thousands(int64(c.Bare)),
			fmt.Sprintf("%.2f", c.Ratio), fmt.Sprintf("%.2f", c.P50), fmt.Sprintf("%.2f", c.P99), fmt.Sprintf("%.2f", c.BareP50), fmt.Sprintf("%.2f", c.BareP99), thousands(int64(c.Errors)),
		})
		if onPostgres {
			rows[len(rows)-1] = append(rows[len(rows)-1], thousands(int64(c.Pgbench)), fmt.Sprintf("%.2f", c.OfPgbench))
		}
	}
	printTable(w, heading, rows)
	if slices.ContainsFunc(all, func(c comparison) bool { return c.Early }) {
		fmt.Fprintln(w, "\n* ended before its time: nothing was left to ask for")
	}
	for _, c := range all {
		printFaults(w, c.Scenario, c.Faults)
	}
}

func printSizes(w io.Writer, all []size) {
	heading := []string{"approvals", "ready ms", "idle MiB", "load MiB", "idle B/approval", "load B/approval", "file MiB", "errors"}
	var rows [][]string
	for i, s := range all {
		idle, load := "", ""
		if i > 1 {
			idle, load = fmt.Sprintf("%.0f", s.IdleEach), fmt.Sprintf("%.0f", s.LoadEach)
		}
		rows = append(rows, []string{
			thousands(int64(s.Approvals)), fmt.Sprintf("%.0f", s.Ready), mebibytes(s.Idle), mebibytes(s.Load),
			idle, load, mebibytes(s.File), thousands(int64(s.Errors)),
		})
	}
	printTable(w, heading, rows)
	for _, s := range all {
		printFaults(w, thousands(int64(s.Approvals))+" approvals", s.Faults)
	}
}

func printGrowth(w io.Writer, g growth) {
	fmt.Fprintf(w, "%s refreshes of %s approvals, %s errors\n\n",
		thousands(int64(g.Refreshes)), thousands(int64(g.Approvals)), thousands(int64(g.Errors)))
	var rows [][]string
	for _, t := range g.Tables {
		rows = append(rows, []string{t.Table, thousands(t.Before), thousands(t.After), thousands(t.After - t.Before)})
	}
	printTable(w, []string{"table", "rows before", "after", "more"}, rows)
	fmt.Fprintln(w)
	rows = nil
	for _, f := range g.Files {
		rows = append(rows, []string{f.File, thousands(f.Before), thousands(f.Ready), thousands(f.After), thousands(f.Stopped)})
	}
	printTable(w, []string{"bytes", "before", "ready", "after", "stopped"}, rows)
	printFaults(w, "growth", g.Faults)
}

// printFaults says what the errors were.
func printFaults(w io.Writer, of string, faults map[string]int) {
	for _, what := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(w, "\n%s: %s times: %s\n", of, thousands(int64(faults[what])), what)
	}
}

// thousands writes a number with a comma before every three digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, text = "-", text[1:]
	}
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return sign + text
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }
