package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/server"
)

// An export goes back in and changes nothing; a file that leaves somebody out
// removes them when it is told to, after it has said so.
func TestDirectoryCommands(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	s := shell{t, dev}
	connected(t, dev, "tor@nordlys.example")
	stdout, stderr, code := s.run("", "directory", "export")
	if code != 0 || stderr != "" || !strings.Contains(stdout, "\n    {\"id\":\"tor\",\"email\":\"tor@nordlys.example\"") || strings.Contains(stdout, "dev-api-key") || strings.Contains(stdout, "argon2") {
		t.Fatalf("%d %s\n%.2000s", code, stderr, stdout)
	}
	file := filepath.Join(t.TempDir(), "directory.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(stdout)
	if same, _, code := s.run("", "directory", "import", file, "--prune", "--yes"); code != 0 || same != "nothing to change\napprovals      0 ended\n" {
		t.Errorf("%d\n%s", code, same)
	}
	if same, _, code := s.run(stdout, "directory", "import", "-", "--prune", "--dry-run"); code != 0 || same != "nothing to change\napprovals      0 would end\n" {
		t.Errorf("from standard input: %d\n%s", code, same)
	}
	var left []string
	for line := range strings.Lines(stdout) {
		if !strings.Contains(line, `"id":"tor"`) && !strings.Contains(line, `"person":"tor"`) {
			left = append(left, strings.Replace(strings.Replace(line, `"tor"]`, `]`, 1), `,]`, `]`, 1))
		}
	}
	without := strings.Replace(strings.Join(left, ""), "},\n  ]", "}\n  ]", -1)
	write(without)
	out, stderr, _ := s.run("", "directory", "import", file, "--prune", "--dry-run")
	for _, line := range []string{"removed  people         tor\n", "removed  members        nordlys/tor\n", "\npeople         0 added, 0 changed, 1 removed\n", "\napprovals      1 would end\n"} {
		if !strings.Contains(out, line) {
			t.Errorf("no %q in\n%s%s", line, out, stderr)
		}
	}
	s.refuses(2, "removes 2, and ends 1 approval for", "", "directory", "import", file, "--prune")
	if got := s.does("", "approval", "list", "--person", "tor", "--state", "live")["items"].([]any); len(got) != 1 {
		t.Errorf("unasked: %v", got)
	}
	if got := s.does("", "directory", "import", file, "--prune", "--yes", "--reason", "nightly"); got["approvals_ended"] != 1.0 || got["dry_run"] != false {
		t.Errorf("imported: %v", got)
	}
	if got := s.does("", "approval", "list", "--person", "tor")["items"].([]any)[0].(map[string]any); got["state"] != "ended" || got["reason"] != "person_deactivated" {
		t.Errorf("tor's: %v", got)
	}
	if got := s.actorOfLast("directory_changed"); got != "operator:"+server.SystemUser() {
		t.Errorf("actor %q", got)
	}
	write(strings.Replace(without, `"name":"Nordlys"`, `"nme":"Nordlys"`, 1))
	s.refuses(2, "line 6: unknown member \"nme\"", "", "directory", "import", file, "--yes")
	write(without[:len(without)/2])
	s.refuses(2, "is cut off", "", "directory", "import", file, "--prune", "--yes")
	write(" \n")
	s.refuses(2, "is empty", "", "directory", "import", file, "--yes")
	s.refuses(4, "no such file", "", "directory", "import", file+".gone", "--yes")
	s.refuses(2, "write: grantkeeper directory import", "", "directory", "import")
}
