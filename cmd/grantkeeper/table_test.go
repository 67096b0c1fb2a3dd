package main

import (
	"strings"
	"testing"
)

// The width is what COLUMNS says, and else the same wherever it is no terminal.
func TestTableWidth(t *testing.T) {
	for columns, want := range map[string]int{"": 100, "0": 100, "-3": 100, "wide": 100, "72": 72, "400": 400} {
		t.Setenv("COLUMNS", columns)
		if got := widthOf(new(strings.Builder)); got != want {
			t.Errorf("COLUMNS %q: %d, want %d", columns, got, want)
		}
	}
}
