package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
)

// Everything in contrib that names a command, a flag or a variable of ours
// names one that there is.
func TestContribNamesWhatThereIs(t *testing.T) {
	command := regexp.MustCompile(`(?:^|[/ "'(])grantkeeper ((?:[a-z-]+ )*[a-z-]+)((?: [^\n"'&|]*)?)`)
	variable := regexp.MustCompile(`\bGRANTKEEPER_[A-Z_]+`)
	known := config.Variables()
	commands := 0
	tree := os.DirFS("../../contrib")
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		for _, v := range variable.FindAllString(string(b), -1) {
			if !slices.Contains(known, v) {
				t.Errorf("%s: nothing reads %s", name, v)
			}
		}
		for _, m := range command.FindAllStringSubmatch(string(b), -1) {
			words := strings.Fields(strings.TrimPrefix(m[1], "grantkeeper ")) // whose user has this name too
			c, rest, err := rootCommand(io.Discard).Find(words)
			if err != nil || c.Name() == "grantkeeper" || c.HasSubCommands() || len(rest) > 1 {
				continue // prose, or the name of a user
			}
			commands++
			for _, f := range regexp.MustCompile(` --([a-z-]+)`).FindAllStringSubmatch(m[2], -1) {
				if c.Flags().Lookup(f[1]) == nil {
					t.Errorf("%s: %s has no --%s", name, c.CommandPath(), f[1])
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if commands < 4 {
		t.Errorf("only %d commands were found", commands)
	}
}

// What systemd must not start again is told by the exit status of the main process: of one
// that runs before it, RestartPreventExitStatus is not asked, and it would be started for ever.
func TestUnitEndsWhereARestartMendsNothing(t *testing.T) {
	unit, err := os.ReadFile("../../contrib/systemd/grantkeeper.service")
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("RestartPreventExitStatus=%d %d %d\n", fault.Use, fault.Config, fault.State)
	if text := string(unit); !strings.Contains(text, want) || strings.Contains(text, "\nExecStartPre=") || strings.Contains(text, "\nExecCondition=") {
		t.Errorf("not %s for the main process alone:\n%s", want, text)
	}
}

// The job of every night deletes what backups that were killed have left, and
// backups of long ago, and nothing else.
func TestBackupJobDeletesLeftovers(t *testing.T) {
	unit, err := os.ReadFile("../../contrib/systemd/grantkeeper-backup.service")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	killed, err := os.CreateTemp(dir, remote.PartPattern("today.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	killed.Close()
	for name, age := range map[string]time.Duration{filepath.Base(killed.Name()): 25 * time.Hour, "today.db.gz.part-1": 23 * time.Hour,
		"old.db.gz": 32 * 24 * time.Hour, "new.db.gz": 29 * 24 * time.Hour} {
		at := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(filepath.Join(dir, name), nil, 0o600), os.Chtimes(filepath.Join(dir, name), at, at)); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^Exec\w+=/usr/bin/(find .*)$`).FindAllStringSubmatch(string(unit), -1) {
		line := strings.Replace(m[1], "/var/lib/grantkeeper/backup", dir, 1)
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", line, err, out)
		}
	}
	left, err := filepath.Glob(dir + "/*")
	if want := []string{dir + "/new.db.gz", dir + "/today.db.gz.part-1"}; err != nil || !slices.Equal(left, want) {
		t.Errorf("left are %q, %v; want %q", left, err, want)
	}
}
