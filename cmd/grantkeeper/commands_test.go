package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/server"
)

// A shell types commands against a dev.
type shell struct {
	*testing.T
	dev running
}

// run types a command with something on standard input.
func (s shell) run(stdin string, args ...string) (stdout, stderr string, code int) {
	s.Helper()
	var out, errOut bytes.Buffer
	code = runOn(strings.NewReader(stdin), append(args, "--operator", s.dev.Operator), &out, &errOut)
	return out.String(), errOut.String(), code
}

// does runs a command that must succeed, and gives its JSON.
func (s shell) does(stdin string, args ...string) map[string]any {
	s.Helper()
	stdout, stderr, code := s.run(stdin, append(args, "--json")...)
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != 0 {
		s.Fatalf("%v: exit code %d, %v\n%s%s", args, code, err, stdout, stderr)
	}
	return got
}

// refuses runs a command that must end with a code and say why.
func (s shell) refuses(code int, says, stdin string, args ...string) {
	s.Helper()
	stdout, stderr, got := s.run(stdin, args...)
	if got != code || !strings.Contains(stderr, says) || stdout != "" {
		s.Errorf("%v: exit code %d, want %d and %q\n%s%s", args, got, code, says, stdout, stderr)
	}
}

func (s shell) actorOfLast(kind string) string {
	s.Helper()
	items := s.does("", "events", "list", "--kind", kind, "--limit", "1")["items"].([]any)
	if len(items) != 1 {
		s.Fatalf("no %s", kind)
	}
	return items[0].(map[string]any)["actor"].(string)
}

func TestClientCommands(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	add := []string{"client", "add", "--id", "assistant", "--name", "Assistant", "--redirect-uri", "https://assistant.example/cb"}
	if got := s.does("", add...); got["state"] != "preregistered" {
		t.Errorf("added: %v", got)
	}
	s.refuses(2, "--id and --redirect-uri are missing", "", "client", "add", "--name", "x")
	s.refuses(2, "redirect_uris", "", "client", "add", "--id", "x", "--redirect-uri", "http://a.example/cb")
	s.refuses(6, "another client", "", "client", "add", "--id", "assistant", "--redirect-uri", "https://other.example/cb")
	stdout, stderr, code := s.run("", "client", "list", "--query", "assist")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "client ") || !strings.Contains(stdout, "\nassistant  preregistered  Assistant") || strings.Count(stdout, "\n") != 2 {
		t.Errorf("%d %s\n%s", code, stderr, stdout)
	}
	if _, stderr, _ = s.run("", "client", "list", "--limit", "1"); !strings.HasPrefix(stderr, "there are more: --after ") {
		t.Errorf("a page: %s", stderr)
	}
	s.refuses(2, "limit", "", "client", "list", "--limit", "0")
	s.refuses(2, "one of registered", "", "client", "list", "--state", "x")
	s.refuses(2, "add --yes", "y\n", "client", "disable", "assistant")
	if got := s.does("", "client", "show", "assistant"); got["state"] != "preregistered" {
		t.Errorf("unasked: %v", got)
	}
	for _, tt := range [][2]string{{"disable", "disabled"}, {"enable", "preregistered"}, {"delete", "deleted"}} {
		args := []string{"client", tt[0], "assistant", "--reason", "a test"}
		if tt[0] != "enable" {
			args = append(args, "--yes")
		}
		if got := s.does("", args...); got["state"] != tt[1] {
			t.Errorf("%s: %v", tt[0], got)
		}
	}
	if got := s.actorOfLast("client_disabled"); got != "operator:"+server.SystemUser() {
		t.Errorf("actor %q", got)
	}
	s.refuses(5, "no such", "", "client", "show", "assistant")
	s.refuses(5, "no such", "", "client", "enable", "assistant")
	s.refuses(6, "configuration", "", "client", "delete", devserver.DevClientID, "--yes")
	s.refuses(2, "write: grantkeeper client show ID", "", "client", "show")
}

// The beginning of an ID is taken for the one that begins so, and never for one
// of several, nor where it is short.
func TestCommandsTakeTheBeginningOfAnID(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	for _, id := range []string{"assist", "assist-one", "assist-two", "assistant"} {
		s.does("", "client", "add", "--id", id, "--redirect-uri", "https://"+id+".example/cb")
	}
	for text, want := range map[string]string{"assist-o": "assist-one", "assist-t…": "assist-two", "assist": "assist", "assista": "assistant"} {
		if got := s.does("", "client", "disable", text, "--yes"); got["client_id"] != want {
			t.Errorf("%s: %v, want %s", text, got["client_id"], want)
		}
		s.does("", "client", "enable", want)
	}
	s.refuses(2, "the IDs of 2 clients begin with assist-\n", "", "client", "disable", "assist-", "--yes")
	s.refuses(5, "no such client", "", "client", "disable", "assis", "--yes") // all four begin so
	s.refuses(5, "no such client", "", "client", "show", "dev-c")             // one begins so
	s.refuses(2, "the IDs of 2 clients", "", "approval", "revoke", "--client", "assist-", "--dry-run")
	s.refuses(2, "the IDs of 2 clients", "", "approval", "list", "--client", "assist-")
	s.refuses(2, "the IDs of 2 clients", "", "events", "export", "--client", "assist-")
	if items := s.does("", "client", "list", "--state", "disabled")["items"].([]any); len(items) != 0 {
		t.Errorf("disabled: %v", items)
	}
	d, id := connected(t, s.dev, "ada@nordlys.example")
	if got := s.does("", "approval", "show", id[:6]); got["id"] != id {
		t.Errorf("approval: %v", got)
	}
	if got := s.does("", "explain", id[:8]); got["approval"] != id {
		t.Errorf("explain: %v", got)
	}
	s.refuses(5, "no such approval", "", "approval", "revoke", id[:5], "--yes")
	if got := s.does("", "approval", "list", "--client", d.ClientID[:9], "--organization", "nordly")["items"].([]any); len(got) != 1 {
		t.Errorf("list: %v", got)
	}
	if got := s.does("", "events", "list", "--approval", id[:7])["items"].([]any); len(got) != 2 {
		t.Errorf("events: %v", got)
	}
	if got := s.does("", "approval", "revoke", id[:6], "--yes")["items"].([]any)[0].(map[string]any); got["id"] != id || got["state"] != "ended" {
		t.Errorf("revoked: %v", got)
	}
}

// What ends approvals says how many, before it asks and when it is done.
func TestCommandsSayHowManyEnd(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	d, _ := connected(t, s.dev, "ada@nordlys.example")
	connected(t, s.dev, "tor@nordlys.example")
	s.refuses(2, "This ends all approvals of client "+d.ClientID+", for good: 1 approval. ", "", "client", "disable", d.ClientID)
	s.refuses(2, ": 1 approval. ", "", "client", "delete", d.ClientID[:8])
	s.refuses(2, ": no approval. ", "", "client", "disable", devserver.DevClientID)
	s.refuses(2, ": 1 approval. ", "", "person", "deactivate", "tor@nordlys.example")
	s.refuses(2, "in nordlys, for good: 2 approvals. ", "", "organization", "ai-integration", "nordlys", "off")
	for _, tt := range []struct {
		ended string
		args  []string
	}{
		{"1", []string{"client", "disable", d.ClientID}}, {"0", []string{"client", "disable", d.ClientID}},
		{"1", []string{"person", "deactivate", "tor"}}, {"0", []string{"organization", "ai-integration", "nordlys", "off"}},
	} {
		stdout, stderr, code := s.run("", append(tt.args, "--yes")...)
		if code != 0 || !strings.HasSuffix(stdout, "\napprovals ended  "+tt.ended+"\n") {
			t.Errorf("%v: %d %s\n%s", tt.args, code, stderr, stdout)
		}
	}
	if stdout, _, _ := s.run("", "client", "enable", d.ClientID); strings.Contains(stdout, "approvals ended") {
		t.Errorf("enable:\n%s", stdout)
	}
}

func TestApprovalCommands(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	s := shell{t, dev}
	d, one := connected(t, dev, "ada@nordlys.example")
	_, two := connected(t, dev, "tor@nordlys.example")
	if items := s.does("", "approval", "list", "--person", "tor@nordlys.example", "--state", "live", "--grant", "roles")["items"].([]any); len(items) != 1 {
		t.Errorf("tor's: %v", items)
	}
	stdout, _, code := s.run("", "approval", "show", one)
	if code != 0 || !strings.Contains(stdout, "\naccess          Selected roles: Treasurer (change)\n") || !strings.Contains(stdout, "\nperson          ada\n") {
		t.Errorf("%d\n%s", code, stdout)
	}
	s.refuses(2, "name approvals, or say which", "", "approval", "revoke")
	s.refuses(2, "name approvals, or say which", "", "approval", "revoke", one, "--client", d.ClientID)
	s.refuses(2, "This ends 1 approval, ", "", "approval", "revoke", one)
	s.refuses(2, "This ends 2 approvals", "", "approval", "revoke", "--organization", "nordlys")
	s.refuses(5, "no such", "", "approval", "revoke", strings.Repeat("0", 32), "--yes")
	s.refuses(5, "no such", "", "approval", "show", "nonsense")
	s.refuses(5, "no such", "", "approval", "revoke", "--person", "nobody", "--yes")
	s.refuses(5, "no such", "", "approval", "revoke", one, strings.Repeat("0", 32), "--yes")
	if stdout, _, code := s.run("", "approval", "revoke", "--organization", "nordlys", "--dry-run"); code != 0 || stdout != "would end 2\n" {
		t.Errorf("%d %s", code, stdout)
	}
	if got := s.does("", "approval", "revoke", one, "--dry-run")["items"].([]any)[0].(map[string]any); got["state"] != "live" {
		t.Errorf("dry: %v", got)
	}
	if got := s.does("", "approval", "revoke", one, "--yes", "--reason", "asked for it")["items"].([]any)[0].(map[string]any); got["state"] != "ended" || got["reason"] != "revoked_by_operator" {
		t.Errorf("revoked: %v", got)
	}
	if got := s.does("", "approval", "revoke", "--person", "tor@nordlys.example", "--yes", "--reason", "lost device"); got["ended"] != 1.0 {
		t.Errorf("tor's: %v", got)
	}
	if got := s.does("", "approval", "show", two); got["state"] != "ended" {
		t.Errorf("tor's: %v", got)
	}
	events := s.does("", "events", "list", "--approval", two, "--kind", "approval_ended")["items"].([]any)
	if e := events[0].(map[string]any); len(events) != 1 || e["detail"] != "lost device" || e["actor"] != "operator:"+server.SystemUser() {
		t.Errorf("events %v", events)
	}
	if items := s.does("", "approval", "list", "--unused-for", "90d")["items"].([]any); len(items) != 0 {
		t.Errorf("unused: %v", items)
	}
	// A token that its client holds is explained by what became of it.
	got := s.does(d.Current+"\n", "token", "inspect")
	if got["state"] != "ended" || got["reason"] != "revoked_by_operator" || got["approval"] != one {
		t.Errorf("token: %v", got)
	}
	stdout, stderr, code := s.run(d.Access, "token", "inspect")
	if code != 0 || !strings.HasPrefix(stdout, "kind          access_token\nstate         ended\n") || strings.Contains(stdout+stderr, d.Access) {
		t.Errorf("%d %s\n%s", code, stderr, stdout)
	}
	s.refuses(2, "has not one line", "", "token", "inspect")
	s.refuses(2, "has not one line", "a\nb\n", "token", "inspect")
}

func TestPersonAndOrganizationCommands(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	if got := s.does("", "person", "add", "eva@nordlys.example", "--name", "Eva Eng", "--id", "eva"); got["id"] != "eva" {
		t.Errorf("added: %v", got)
	}
	s.refuses(2, "--name is missing", "", "person", "add", "x@nordlys.example")
	s.refuses(2, "email", "", "person", "add", "x", "--name", "X")
	s.refuses(6, "exists already", "", "person", "add", "eva@nordlys.example", "--name", "Other")
	if got := s.does("a long passphrase\r\n", "person", "set-password", "eva@nordlys.example", "--reason", "new"); got["id"] != "eva" {
		t.Errorf("password: %v", got)
	}
	for _, flags := range [][]string{{"--reason", "forgot it"}, {"--here"}} {
		got := s.does("", append([]string{"person", "reset-link", "eva@nordlys.example"}, flags...)...)
		if link, _ := got["url"].(string); got["id"] != "eva" || got["mailed"] != false || !strings.HasPrefix(link, s.dev.Server+"/reset/") {
			t.Errorf("reset link: %v", got)
		}
	}
	s.refuses(5, "no such", "", "person", "reset-link", "nobody@nordlys.example")
	s.refuses(2, "add --yes", "", "person", "reset-signin", "eva@nordlys.example")
	s.refuses(5, "no such", "", "person", "reset-signin", "nobody@nordlys.example", "--yes")
	if got := s.does("", "person", "reset-signin", "eva@nordlys.example", "--yes", "--reason", "lost the phone"); got["id"] != "eva" {
		t.Errorf("reset sign-in: %v", got)
	}
	if got := s.actorOfLast("directory_changed"); got != "operator:"+server.SystemUser() {
		t.Errorf("actor of the reset: %q", got)
	}
	s.refuses(2, "8 to 1000 bytes", "short\n", "person", "set-password", "eva@nordlys.example")
	s.refuses(2, "has not one line", "", "person", "set-password", "eva@nordlys.example")
	s.refuses(5, "no such", "a long passphrase", "person", "set-password", "nobody@nordlys.example")
	d, err := demo.New(demo.Options{BaseURL: s.dev.Server, Email: "eva@nordlys.example"}, 4)
	if err != nil {
		t.Fatal(err)
	}
	d.Password = "a long passphrase"
	for _, step := range demo.Steps[:4] {
		if _, err := step.Run(d, t.Context()); err != nil {
			t.Fatal("eva signs in:", err)
		}
	}
	s.refuses(2, "add --yes", "", "person", "deactivate", "eva@nordlys.example")
	if got := s.does("", "person", "deactivate", "eva@nordlys.example", "--yes", "--reason", "left"); got["active"] != false {
		t.Errorf("deactivated: %v", got)
	}
	if got := s.does("", "person", "reactivate", "eva"); got["active"] != true {
		t.Errorf("reactivated: %v", got)
	}
	if stdout, _, code := s.run("", "person", "show", "EVA@nordlys.example"); code != 0 || stdout != "person   eva\nemail    eva@nordlys.example\nname     Eva Eng\nactive   yes\nsupport  no\n" {
		t.Errorf("%d\n%s", code, stdout)
	}
	if got := s.does("", "person", "list", "--organization", "nordlys", "--query", "tor")["items"].([]any); len(got) != 1 {
		t.Errorf("listed: %v", got)
	}
	s.refuses(2, "neither on nor off", "", "organization", "ai-integration", "nordlys", "maybe")
	s.refuses(2, "add --yes", "", "organization", "ai-integration", "nordlys", "off")
	if got := s.does("", "organization", "ai-integration", "nordlys", "off", "--yes"); got["ai_integration"] != false {
		t.Errorf("off: %v", got)
	}
	if got := s.does("", "organization", "ai-integration", "nordlys", "on"); got["ai_integration"] != true {
		t.Errorf("on: %v", got)
	}
	if got := s.does("", "organization", "show", "nordlys"); got["ai_integration"] != true {
		t.Errorf("shown: %v", got)
	}
	if got := s.does("", "organization", "list")["items"].([]any); len(got) != len(devserver.Organizations) {
		t.Errorf("listed: %v", got)
	}
	s.refuses(5, "no such", "", "organization", "show", "nowhere")
}

func TestEventCommands(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	connected(t, s.dev, "ada@nordlys.example")
	s.refuses(2, "client_registered", "", "events", "list", "--kind", "nope")
	s.refuses(2, "since", "", "events", "list", "--since", "yesterday")
	s.refuses(5, "no such", "", "events", "list", "--person", "nobody")
	stdout, _, code := s.run("", "events", "list", "--person", "ada", "--since", "1h")
	if code != 0 || !strings.Contains(stdout, "  code_exchanged  ") && !strings.Contains(stdout, "  code_exchanged") {
		t.Errorf("%d\n%s", code, stdout)
	}
	file := filepath.Join(t.TempDir(), "events.jsonl")
	stdout, stderr, code := s.run("", "events", "export", "--output", file, "--since", "1h")
	if code != 0 || stdout != "" || !strings.Contains(stderr, "entries in "+file) {
		t.Errorf("%d %s %s", code, stdout, stderr)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stdout, _, _ = s.run("", "events", "export", "--since", "1h")
	last := 0.0
	for line := range strings.Lines(stdout) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil || e["at"].(float64) < last {
			t.Fatalf("%v: %s", err, line)
		}
		last = e["at"].(float64)
	}
	if stdout != string(written) || strings.Count(stdout, "\n") < 5 {
		t.Errorf("to standard output\n%sinto the file\n%s", stdout, written)
	}
	s.refuses(6, "is there already, nothing was written", "", "events", "export", "--output", file)
	s.refuses(4, "no such file", "", "events", "export", "--output", filepath.Join(t.TempDir(), "gone", "x"))
	if left, _ := filepath.Glob(file + ".*"); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

// tail begins with the last entries and follows what comes, as JSON Lines, and
// ends with 0 when it is told to stop.
func TestEventsTail(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	c := command(t, "events", "tail", "--json", "--kind", "directory_changed", "--last", "1", "--operator", s.dev.Operator)
	out := &safeBuffer{}
	c.Stdout, c.Stderr = out, out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor := func(lines int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); strings.Count(out.String(), "\n") < lines; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				c.Process.Kill()
				t.Fatalf("only\n%s", out)
			}
		}
	}
	waitFor(1)
	s.does("", "person", "deactivate", "tor", "--yes")
	s.does("", "person", "reactivate", "tor")
	waitFor(3)
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
	var details []string
	for line := range strings.Lines(out.String()) {
		var e map[string]any
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		details = append(details, e["detail"].(string))
	}
	if len(details) != 3 || details[1] != "person deactivated" || details[2] != "person reactivated" {
		t.Errorf("got %q", details)
	}
}

// Nothing answers: exit code 4, whatever is asked.
func TestCommandsWithoutServer(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"client", "list"}, {"approval", "list"}, {"person", "list"}, {"organization", "list"},
		{"events", "list"}, {"events", "tail"}, {"events", "export"}, {"person", "deactivate", "tor", "--yes"},
	} {
		var out, errOut bytes.Buffer
		if code := runOn(strings.NewReader(""), append(args, "--operator", "http://127.0.0.1:1"), &out, &errOut); code != 4 || out.Len() != 0 {
			t.Errorf("%v: exit code %d, %s%s", args, code, out.String(), errOut.String())
		}
	}
}

// What a client's author has in hand of a refusal, its X-Request-Id, leads to
// the entry that says why.
func TestEventsOfARefusal(t *testing.T) {
	t.Parallel()
	s := shell{t, startDev(t, devserver.Options{})}
	a, err := http.Post(s.dev.Server+"/oauth/register", "application/json", strings.NewReader(`{"redirect_uris":["http://a.example/cb"]}`))
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	reference := a.Header.Get("X-Request-Id")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) { // nobody waits for the entry
		items := s.does("", "events", "list", "--reference", reference)["items"].([]any)
		if len(items) == 1 {
			e := items[0].(map[string]any)
			if a.StatusCode != 400 || e["kind"] != "registration_refused" || e["address"] != "127.0.0.1" || e["detail"] == "" && e["reason"] == "" {
				t.Errorf("%d, %v", a.StatusCode, e)
			}
			return
		}
		if time.Now().After(deadline) || reference == "" {
			t.Fatalf("reference %q leads to %v", reference, items)
		}
	}
}
