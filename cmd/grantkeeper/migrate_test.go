package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/setup"
	"github.com/grantkeeper/grantkeeper/store"
)

// migrating runs a migrate command with an invented next migration, on an
// installation whose server has run once and stopped.
func migrating(t *testing.T) (dir string, run func(args ...string) (stdout, stderr string, code int)) {
	t.Helper()
	dir = t.TempDir()
	if _, err := (&setup.Options{Dir: dir, BaseURL: "http://127.0.0.1:1"}).Write(); err != nil {
		t.Fatal(err)
	}
	configFile := filepath.Join(dir, "grantkeeper.toml")
	l, err := config.Load(configFile, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(context.Background(), store.Options{Path: c.Path, Ring: c.Ring})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all := append(store.Migrations(),
		store.Migration{Version: store.SchemaVersion + 1, SQL: "ALTER TABLE client ADD COLUMN note TEXT NOT NULL DEFAULT '';", Oldest: store.SchemaVersion},
		store.Migration{Version: store.SchemaVersion + 2, SQL: "CREATE TABLE shelf (id TEXT PRIMARY KEY);", Oldest: store.SchemaVersion + 1})
	return dir, func(args ...string) (string, string, int) {
		t.Helper()
		var stdout, stderr strings.Builder
		g := &global{stderr: &stderr}
		command := migrateCommand(g, all)
		g.addFlags(command)
		command.SilenceErrors, command.SilenceUsage = true, true
		command.SetArgs(append(args, "-c", configFile))
		command.SetOut(&stdout)
		command.SetErr(&stderr)
		command.SetIn(strings.NewReader(""))
		err := command.Execute()
		if err != nil {
			stderr.WriteString(err.Error())
		}
		return stdout.String(), stderr.String(), fault.CodeOf(err)
	}
}

func TestMigrateCommands(t *testing.T) {
	dir, run := migrating(t)
	backup := filepath.Join(dir, "before.db")
	config := filepath.Join(dir, "grantkeeper.toml")
	number := strings.NewReplacer("{0}", fmt.Sprint(store.SchemaVersion), "{1}", fmt.Sprint(store.SchemaVersion+1), "{2}", fmt.Sprint(store.SchemaVersion+2),
		"{01}", fmt.Sprintf("%04d", store.SchemaVersion+1), "{02}", fmt.Sprintf("%04d", store.SchemaVersion+2)).Replace
	for _, tt := range []struct {
		args   string
		code   int
		stdout string
		stderr string
	}{
		{"status", 0, "schema {0}, newest {2}, pending: {1}, {2}", ""},
		{"plan", 0, "-- {01}\nALTER TABLE client ADD COLUMN note TEXT NOT NULL DEFAULT '';\n-- {02}\nCREATE TABLE shelf (id TEXT PRIMARY KEY);\n", "pending: {1}, {2}"},
		{"plan --to {1}", 0, "-- {01}\nALTER", ""},
		{"up", 2, "", "from schema {0} to {2}? Nobody is there to answer."},
		{"up --to {1} --backup " + backup + " --yes", 0, "schema {1}, from {0}", ""},
		{"status", 0, "schema {1}, newest {2}, pending: {2}", ""},
		{"status --json", 0, `"oldest": {0},`, ""},
		{"up --to {0} --yes", 6, "", "schema {1} is past {0}: migrations go forward only"},
		{"up --backup " + backup + " --yes", 6, "", "file exists, nothing was changed"},
		{"up --yes --json", 0, `"to": {2}`, ""},
		{"up --yes", 0, "schema {2}, the newest", ""},
	} {
		stdout, stderr, code := run(strings.Fields(number(tt.args))...)
		if strings.Contains(stdout, number("schema {1}, from {0}")) { // this binary, which has the schema before, works beside it
			for args, want := range map[string]string{"config check": "schema {1}", "migrate status": "schema {1} is of a later release, and this one, which has {0}, works on it too\n",
				"migrate up --yes": "works on it too\n", "migrate plan": ""} {
				if stdout, stderr, code := ran(t, append(strings.Fields(args), "-c", config)...); code != 0 || !strings.Contains(stdout, number(want)) {
					t.Errorf("%s on the next schema: exit code %d, %s%s", args, code, stdout, stderr)
				}
			}
		}
		if code != tt.code || !strings.Contains(stdout, number(tt.stdout)) || !strings.Contains(stderr, number(tt.stderr)) {
			t.Errorf("%s: exit code %d, want %d\nstdout %q, want %q\nstderr %q, want %q", tt.args, code, tt.code, stdout, tt.stdout, stderr, tt.stderr)
		}
	}
	if _, err := os.Stat(backup); err != nil {
		t.Error(err)
	}
	// The last takes releases of the one before it and newer, which this binary is not.
	for _, args := range [][]string{{"serve"}, {"config", "check"}, {"migrate", "up", "--yes"}} {
		_, stderr, code := ran(t, append(args, "-c", config)...)
		if code != 6 || !strings.Contains(stderr, number("{2}")) || !strings.Contains(stderr, "use release "+version+", which this database belongs to, or a later one\n") {
			t.Errorf("%q: exit code %d, %s", args, code, stderr)
		}
	}
	if got := server.OpenError(&store.SchemaError{Has: 1, Knows: 2}); fault.CodeOf(got) != 6 || got.(*fault.Error).Hint != "run: grantkeeper migrate up" {
		t.Errorf("%+v", got)
	}
}
