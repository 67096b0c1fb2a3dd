package main

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The commands as a shell has them: every file of testdata/script is one
// session. Beside testscript's own commands there are
//
//	exits N COMMAND...   it ends with that code
//	ready ADDRESS        until its /readyz says ok
//	sees FILE            until it is there
//
// PUBLIC and OPERATOR are addresses that nobody listens on.
func TestScripts(t *testing.T) {
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(name)+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("PUBLIC", freePort(t))
			e.Setenv("OPERATOR", freePort(t))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "ready": readyAt, "sees": sees},
	})
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N COMMAND")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("%s: exit code %d, want %d\n%s", strings.Join(args[1:], " "), got, want, ts.ReadFile("stderr"))
	}
}

func readyAt(ts *testscript.TestScript, _ bool, args []string) {
	for range 1200 {
		if a, err := http.Get("http://" + args[0] + "/readyz"); err == nil {
			a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s is not ready", args[0])
}

func sees(ts *testscript.TestScript, _ bool, args []string) {
	for range 1200 {
		if _, err := os.Stat(ts.MkAbs(args[0])); err == nil {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	ts.Fatalf("%s is not there", args[0])
}
