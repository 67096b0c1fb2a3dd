package main

import (
	"slices"
	"testing"
)

// A cell of a list in CSV is no formula, whatever a client calls itself.
func TestCellsOfCSV(t *testing.T) {
	for _, tt := range []struct {
		value any
		want  string
	}{
		{"Quill", "Quill"}, {"=1+1", "'=1+1"}, {"+1", "'+1"}, {"-1", "'-1"}, {"@x", "'@x"}, {"\t=1", "'\t=1"}, {"", ""}, {nil, ""}, {0., ""}, {1795290656., "2026-11-21T19:50:56Z"},
	} {
		if got := csvCell(tt.value); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.value, got, tt.want)
		}
	}
}

// Each effect of rules is told in words.
func TestEffectsInWords(t *testing.T) {
	got := effectsInWords([]any{
		map[string]any{"host": "a.example", "connections": 1.}, map[string]any{"ceiling": "read_only", "connections": 2.}, map[string]any{"ends_at": 1795290656., "connections": 3.},
	})
	want := []string{"1 connection to a.example: ended for good, because it is blocked", "2 connections: less access, by read_only", "3 connections: an end on 2026-11-21T19:50:56Z"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
