package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
)

func TestInitRefusesDatabases(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ database, says string }{
		{"mysql://u@h/x", "--database: not sqlite:///path/to/file, nor postgres://\nwrite "},
		{"grantkeeper.db", "--database: not "},
		{"postgres://u:hidden@h/x", "it has a password"},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		stdout, stderr, code := ran(t, "init", "--dir", dir, "--base-url", "https://app.example", "--database", tt.database)
		if _, err := os.Stat(dir); code != fault.Use || !strings.Contains(stderr, tt.says) || strings.Contains(stderr, "hidden") || stdout != "" || err == nil {
			t.Errorf("%s: %d %s%s, %v", tt.database, code, stdout, stderr, err)
		}
	}
	stdout, _, code := ran(t, "init", "--dir", t.TempDir(), "--base-url", "https://app.example", "--database", "postgres://u@h/x")
	if code != 0 || !strings.Contains(stdout, "The tables in postgres://u@h/x are made at the first start; the database has to be there.\n") {
		t.Errorf("%d %s", code, stdout)
	}
}

func TestNobodyIsAsked(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	c := command(t, "client", "disable", devserver.DevClientID, "--operator", dev.Operator) // its standard input is /dev/null
	stderr := &safeBuffer{}
	c.Stderr = stderr
	if err := c.Run(); err == nil || c.ProcessState.ExitCode() != fault.Use || strings.Contains(stderr.String(), "[y/N]") || !strings.HasSuffix(stderr.String(), "Nobody is there to answer.\nadd --yes\n") {
		t.Errorf("%v %s", err, stderr)
	}
}

func TestNoSuchObject(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	s.refuses(5, "there is no such client\nsee: grantkeeper client list\n", "", "client", "show", "nobody")
	s.refuses(5, "there is no such client\nsee: grantkeeper client list\n", "", "client", "disable", "nobody", "--yes")
	s.refuses(5, "there is no such person\nsee: grantkeeper person list\n", "", "person", "show", "nobody@nordlys.example")
	s.refuses(5, "there is no such person\n", "", "person", "deactivate", "nobody", "--yes")
	s.refuses(5, "there is no such organization\nsee: grantkeeper organization list\n", "", "organization", "show", "nowhere")
	s.refuses(5, "there is no such organization\n", "", "organization", "ai-integration", "nowhere", "on")
	s.refuses(5, "see: grantkeeper approval list\n", "", "approval", "show", strings.Repeat("0", 32))
}

// doctor hears of a server that answers and is not ready.
func TestDoctorAsksWhetherReady(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status         int
		body, has, not string
	}{
		{503, `{"status":"not ready","missing":["the database does not answer a write","x"],"reference":"1"}`, "is not ready: the database does not answer a write, x", ""},
		{503, `<html>`, "is not ready: /readyz answers 503", ""},
		{200, `{"status":"ok"}`, " answers, version", "not ready"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/readyz" {
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.body)
				return
			}
			io.WriteString(w, `{"mode":"serve","version":{}}`)
		}))
		defer s.Close()
		stdout, _, _ := ran(t, "doctor", "--only", "server", "--operator", s.URL, "--password-file", write(t, "password", "the password\n", 0o600))
		if !strings.Contains(stdout, tt.has) || tt.not != "" && strings.Contains(stdout, tt.not) {
			t.Errorf("%d %s: %s", tt.status, tt.body, stdout)
		}
	}
}

// Where no copy can be written, the operator hears that, and not of a fault.
func TestBackupWithoutRoom(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := shell{t, startDev(t, devserver.Options{Data: dir})}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	defer os.Rename(dir+"-away", dir)
	s.refuses(4, "the copy beside the database could not be made", "", "backup", "create", filepath.Join(t.TempDir(), "b.db"))
}

// Where many are changed a server may take longer than for one: whoever gives up has it stop
// half-way, and does not know what has become of the rest. Not in parallel, since others have
// less time meanwhile.
func TestManyTakeTheirTime(t *testing.T) {
	within := remote.AnswersWithin
	remote.AnswersWithin = time.Second
	defer func() { remote.AnswersWithin = within }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method != http.MethodGet {
			time.Sleep(remote.AnswersWithin * 3 / 2)
		}
		fmt.Fprint(w, `{"id":"x","items":[],"counts":{}}`)
	}))
	defer server.Close()
	password := write(t, "password", "a long password\n", 0o600)
	for _, args := range [][]string{
		{"approval", "revoke", "--unused-for", "90d", "--yes"}, {"client", "delete-unapproved", "--since", "24h", "--yes"},
	} {
		var out, errs bytes.Buffer
		if code := runOn(strings.NewReader(""), append(args, "--operator", server.URL, "--password-file", password), &out, &errs); code != 0 {
			t.Errorf("%v: %d %s", args, code, &errs)
		}
	}
}

// Where the answer to the second of several is lost, it is told that the first has ended.
func TestRevokeEachIsToldOf(t *testing.T) {
	t.Parallel()
	first, second := strings.Repeat("1", 32), strings.Repeat("2", 32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/approvals/"+second+"/revoke" {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, `{"id":"x"}`)
	}))
	defer server.Close()
	password := write(t, "password", "a long password\n", 0o600)
	_, stderr, code := ran(t, "approval", "revoke", first, second, "--yes", "--operator", server.URL, "--password-file", password)
	if code != fault.Reach || !strings.Contains(stderr, "1 approval ended, then: "+server.URL+" broke off its answer, and may have done") {
		t.Errorf("%d %s", code, stderr)
	}
}
