package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// printTable prints rows under their heading: the first column to the left,
// numbers to the right.
func printTable(w io.Writer, heading []string, rows [][]string) {
	rows = append([][]string{heading}, rows...)
	widths := make([]int, len(heading))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + gap)
			} else {
				line.WriteString("  " + gap + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// printRows prints structs as a table, of the fields that have a tag such as
// `col:"p99 ms,%.2f"`: the heading, and how a float is written, in whole numbers where
// that is missing. A column in which all are zero is left out where the tag ends with
// "some". Below the table stand their Faults.
func printRows[T any](w io.Writer, all []T) {
	if len(all) == 0 {
		return
	}
	var heading []string
	rows := make([][]string, len(all))
	for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
		tag, shown := f.Tag.Lookup("col")
		name, form, _ := strings.Cut(tag, ",")
		form, some := strings.CutSuffix(form, "some")
		zero := func(one T) bool { return reflect.ValueOf(one).FieldByIndex(f.Index).IsZero() }
		if !shown || some && !slices.ContainsFunc(all, func(one T) bool { return !zero(one) }) {
			continue
		}
		heading = append(heading, name)
		for i := range all {
			rows[i] = append(rows[i], cell(reflect.ValueOf(all[i]).FieldByIndex(f.Index), form))
		}
	}
	printTable(w, heading, rows)
	for i := range all {
		faults := reflect.ValueOf(all[i]).FieldByName("Faults")
		if faults.IsValid() {
			printFaults(w, rows[i][0]+" "+heading[0], faults.Interface().(map[string]int))
		}
	}
}

func cell(v reflect.Value, form string) string {
	switch {
	case v.CanInt():
		return thousands(v.Int())
	case v.CanFloat() && form == "":
		return whole(v.Float())
	}
	return fmt.Sprintf(cmp.Or(form, "%v"), v.Interface())
}

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

func whole(f float64) string      { return thousands(int64(f)) }
func hundredths(f float64) string { return fmt.Sprintf("%.2f", f) }
func tenths(f float64) string     { return fmt.Sprintf("%.1f", f) }
func mebibytes(n int64) float64   { return float64(n) / (1 << 20) }
