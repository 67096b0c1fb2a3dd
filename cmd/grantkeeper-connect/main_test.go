package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
)

func TestRun(t *testing.T) {
	none, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	kept := filepath.Join(t.TempDir(), "kept.json")
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"", fault.Use, "Usage: grantkeeper-connect URL"},
		{"--help", 0, "--sign-in"},
		{"--version", 0, "grantkeeper-connect " + version},
		{"--nonsense", fault.Use, "Usage:"},
		{"https://a.example/mcp https://b.example/mcp", fault.Use, "Usage:"},
		{"https://a.example/mcp --sign-in --sign-out", fault.Use, "Usage:"},
		{"http://a.example/mcp", fault.Use, "is not encrypted"},
		{"--store " + kept + " https://a.example/mcp --sign-out", 0, "There was no access."},
		{"https://127.0.0.1:1/mcp --store " + kept + " --sign-out", fault.Reach, "is of https://a.example/mcp"},
		{"http://127.0.0.1:1/mcp --no-browser --sign-in --store " + kept + "2", fault.Reach, "cannot be reached"},
	} {
		var out, stderr strings.Builder
		code := run(t.Context(), strings.Fields(tt.args), none, &out, &stderr)
		if said := out.String() + stderr.String(); code != tt.code || !strings.Contains(said, tt.says) {
			t.Errorf("%q: %d %s", tt.args, code, said)
		}
	}
}
