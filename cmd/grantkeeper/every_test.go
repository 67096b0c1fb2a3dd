package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// An installation to type commands at, and what they have told of it.
type workshop struct {
	*testing.T
	config string
	did    map[string]bool // commands, by their paths
}

// json runs a command with --json, that must end with 0 and say nothing on
// standard error, and holds its one document to the names that it promises.
func (w workshop) json(names, stdin, command string, args ...string) map[string]any {
	w.Helper()
	w.did[command] = true
	var out, errOut bytes.Buffer
	all := slices.Concat(strings.Fields(command), args, []string{"--json", "-q"})
	if command != "init" {
		all = append(all, "-c", w.config)
	}
	code := runOn(strings.NewReader(stdin), all, &out, &errOut)
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || code != 0 || errOut.Len() != 0 {
		w.Fatalf("%q: exit code %d, %v\n%s%s", all, code, err, &out, &errOut)
	}
	for name := range strings.FieldsSeq(names) {
		if _, ok := got[name]; !ok {
			w.Errorf("%q has no %s: %v", all, name, got)
		}
	}
	return got
}

// text runs a command for people, that must end with 0 and say something.
func (w workshop) text(command string, args ...string) string {
	w.Helper()
	w.did[command] = true
	var out, errOut bytes.Buffer
	all := slices.Concat(strings.Fields(command), args, []string{"-c", w.config})
	if code := run(all, &out, &errOut); code != 0 || out.Len() == 0 {
		w.Fatalf("%q: exit code %d\n%s%s", all, code, &out, &errOut)
	}
	return out.String()
}

// DX-5, and every command once: what it prints with --json is one document
// with the names that scripts rely on. A name that is taken out of this test
// is a change for them.
func TestEveryCommand(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	p := serve(t, dir, public, operators)
	w := workshop{t, filepath.Join(dir, "grantkeeper.toml"), map[string]bool{"serve": true, "init": true}}
	text, err := os.ReadFile(w.config)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte(`listen = "127.0.0.1:8081"`), fmt.Appendf(nil, "listen = %q", operators), 1)
	if err := os.WriteFile(w.config, text, 0o600); err != nil {
		t.Fatal(err)
	}
	password := write(t, "password", "the password of Eva\n", 0o600)
	w.ofTheFile()
	w.ofTheDirectory()
	w.ofClients()
	w.ofApprovals(p, password)
	w.ofTheInstallation()
	p.signal(syscall.SIGTERM)
	p.exits()
	w.ofTheStopped()
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "grantkeeper ")
		if path != "dev" && path != "events tail" && path != "connect" && !c.HasSubCommands() && !w.did[path] { // those have tests of their own
			t.Errorf("no test runs %q", path)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(io.Discard))
}

func (w workshop) ofTheFile() {
	w.json("version commit go schema", "", "version")
	w.json("ok configuration database", "", "config check")
	w.json("file settings", "", "config show")
	w.json("settings", "", "config reference")
	w.json("rules drafted left", "", "service tools", "--openapi", write(w.T, "openapi.json", bakeryAPI, 0o600))
	w.text("completion", "zsh")
	w.json("password_hash", "a long passphrase\n", "operator hash-password")
	w.json("config secret_key_file password_file database key_kept", "", "init", "--base-url", "https://app.example", "--dir", w.TempDir())
}

const workshopDirectory = `{
"organizations": [{"id":"verksted","name":"Verksted","ai_integration":true}],
"people": [{"id":"eva","email":"eva@verksted.example","name":"Eva","password":"the password of Eva"}],
"members": [{"organization":"verksted","person":"eva"}],
"circles": [{"id":"all","organization":"verksted","name":"All"}],
"roles": [{"id":"keys","organization":"verksted","circle":"all","name":"Keeper of Keys","fillers":["eva"]}]}`

func (w workshop) ofTheDirectory() {
	const person, organization = "id email name active support", "id name ai_integration"
	w.json("id dry_run counts changes approvals_ended", workshopDirectory, "directory import", "-", "--dry-run")
	w.json("id dry_run counts changes approvals_ended", workshopDirectory, "directory import", "-", "--yes")
	w.json("people organizations members circles roles api_keys", "", "directory export")
	w.json("items next", "", "organization list")
	w.json(organization, "", "organization show", "verksted")
	w.json(organization, "", "organization ai-integration", "verksted", "on")
	w.json("id policy", "", "organization policy show", "verksted")
	w.json("id policy", `{"unknown":"allow"}`, "organization policy set", "verksted", "-", "--yes")
	w.json("id policy", "", "organization policy clear", "verksted", "--yes")
	w.json("items next", "", "organization request list", "verksted")
	w.json("items next", "", "organization connection list", "verksted")
	for _, what := range []string{"organization request allow", "organization request decline"} { // nobody has asked
		w.did[what] = run(append(strings.Fields(what), "verksted", "0192d5c3a7e10000a1b2c3d4e5f60718", "-c", w.config), io.Discard, io.Discard) == 5
	}
	w.json(person, "", "person add", "ida@verksted.example", "--name", "Ida")
	w.json(person, "a long passphrase\n", "person set-password", "ida@verksted.example")
	w.json("id mailed url expires_at", "", "person reset-link", "ida@verksted.example")
	w.json(person, "", "person reset-signin", "ida@verksted.example", "--yes")
	w.json(person, "", "person deactivate", "ida@verksted.example", "--yes")
	w.json(person, "", "person reactivate", "ida@verksted.example")
	w.json(person, "", "person show", "ida@verksted.example")
	w.json("items next", "", "person list")
}

func (w workshop) ofClients() {
	const client = "id client_id client_name state redirect_uris issued_at"
	w.json(client, "", "client add", "--id", "one", "--name", "One", "--redirect-uri", "https://one.example/cb")
	w.json(client, "", "client disable", "one", "--yes")
	w.json(client, "", "client enable", "one")
	w.json(client, "", "client show", "one")
	w.json("items next", "", "client list")
	w.json("id client_id state", "", "client delete", "one", "--yes")
	w.json("id dry_run deleted networks", "", "client delete-unapproved", "--dry-run")
	w.json("id dry_run deleted networks", "", "client delete-unapproved", "--network", "192.0.2.0/24", "--since", "2h", "--yes")
}

func (w workshop) ofApprovals(p *process, password string) {
	w.text("demo", "--email", "eva@verksted.example", "--password-file", password, "--steps", "1-6")
	w.json("steps ok", "", "demo", "--steps", "1-2")
	list := w.json("items next", "", "approval list", "--state", "live")["items"].([]any)
	if len(list) != 1 {
		w.Fatalf("live: %v", list)
	}
	id := list[0].(map[string]any)["id"].(string)
	w.json("id client_id client_name person organization grant access state reason created_at last_used ended_at ends_at key_bound roles personal", "", "approval show", id)
	w.json("action allowed reason chain", "", "explain", id)
	w.json("action item allowed reason chain", "", "explain", id, "--tool", "pay")
	w.json("id reviewed", "", "organization connection review", "verksted", id)
	w.json("id ended", "", "organization connection end", "verksted", id[:8], "--yes")
	w.json("ended", "", "approval revoke", "--person", "eva", "--yes")
	w.json("items next", "", "approval revoke", id, "--yes")
	w.json("kind state", "svo_nothing\n", "token inspect")
	w.ofAttempts()
	w.json("ok slowest_ms rounds", "", "drill", "--base-url", p.public, "--email", "eva@verksted.example", "--person-password-file", password, "--rounds", "1")
	entry := w.json("items next", "", "events list")["items"].([]any)[0].(map[string]any)
	for _, name := range []string{"id", "at", "kind", "actor"} {
		if entry[name] == nil {
			w.Errorf("an entry without %s: %v", name, entry)
		}
	}
	if lines := w.text("events export", "--json"); strings.Count(lines, "\n") < 10 || !strings.HasPrefix(lines, "{") {
		w.Errorf("exported:\n%s", lines)
	}
	w.json("id anchor chain number entries at hash", "", "events anchor")
	proof := write(w.T, "journal.jsonl", w.text("events export", "--proof"), 0o600)
	w.json("file ok chain from to entries gone gone_before unsealed restored anchors newest faults more", "", "events verify", proof)
}

// What was seen of a client is written some seconds later.
func (w workshop) ofAttempts() {
	w.Helper()
	var list []any
	for until := time.Now().Add(time.Minute); len(list) == 0 && time.Now().Before(until); time.Sleep(100 * time.Millisecond) {
		list = w.json("items next", "", "attempts list")["items"].([]any)
	}
	if len(list) == 0 {
		w.Fatal("the client of the demo has made no attempt")
	}
	w.text("activity export", "--since", "30d")
	w.json("items next", "", "attempts reasons")
	w.json("id began client name host person step reached result reason says do who steps seen_before", "", "attempts show", list[0].(map[string]any)["id"].(string))
}

func (w workshop) ofTheInstallation() {
	w.json("checks warnings faults", "", "doctor")
	w.json("clients ended approvals sessions resets events activity dry_run", "", "gc", "--dry-run")
	w.json("number file taken", "", "keys add")
	w.json("id number state approvals", "", "keys rotate")
	w.json("items", "", "keys list")
	w.json("id number state ended", "", "keys retire", "1", "--yes")
	backup := filepath.Join(filepath.Dir(w.config), "backup.db")
	w.json("file bytes taken_at", "", "backup create", backup)
	w.json("file bytes taken_at schema clients approvals keys", "", "backup verify", backup)
	w.json("file bytes taken_at schema clients approvals keys ended database", "", "backup restore", backup, "--data", w.TempDir(), "--yes")
}

func (w workshop) ofTheStopped() {
	w.json("database current newest pending", "", "migrate status")
	w.json("database from to", "", "migrate up", "--yes")
	w.did["migrate plan"] = run([]string{"migrate", "plan", "-c", w.config}, io.Discard, io.Discard) == 0 // nothing is pending
	w.json("from to tables rows mended", "", "migrate copy", "--to", "sqlite://"+filepath.Join(w.TempDir(), "copy.db"), "--yes")
	if err := os.Remove(filepath.Join(filepath.Dir(w.config), "secret.key")); err != nil {
		w.Fatal(err)
	}
	if dry := w.json("dry_run lost in_use file approvals sessions operator_sessions reset_links authenticator_apps", "", "keys replace-lost", "--dry-run"); dry["dry_run"] != true {
		w.Errorf("%v", dry)
	}
	w.text("keys replace-lost", "--yes")
}

// Data that could not be written is an error, whichever command it is of.
func TestOutputThatIsFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"version"}, {"config", "reference"}, {"--help"}, {"completion", "fish"}, {"client", "--help"}} {
		var stderr strings.Builder
		if code := run(args, full, &stderr); code != 4 || !strings.HasSuffix(stderr.String(), "standard output: no space left on device\nsee where it leads\n") {
			t.Errorf("%q: %d %s", args, code, &stderr)
		}
	}
}

// A server outlives whoever reads its log.
func TestLogWithoutReader(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	c := command(t, "serve", "-c", filepath.Join(dir, "grantkeeper.toml"), "--listen", public, "--operator-listen", operators)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if _, err := r.Read(make([]byte, 1)); err != nil { // it has started
		t.Fatal(err)
	}
	r.Close()
	for range 3 {
		a, err := http.Get("http://" + public + "/.well-known/oauth-authorization-server")
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		time.Sleep(400 * time.Millisecond) // the log is written by then
	}
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
}
