package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/remote"
)

// connected is a client that somebody has approved, as demo is after its
// sixth step, and the approval's ID.
func connected(t *testing.T, dev running, email string) (d *demo.Client, id string) {
	t.Helper()
	d, err := demo.New(demo.Options{BaseURL: dev.Server, Email: email}, 6)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range demo.Steps[:6] {
		if _, err := step.Run(d, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c := remote.Server{Base: dev.Operator, Password: remote.DevPassword, HTTP: http.DefaultClient}
	var list struct{ Items []struct{ ID string } }
	if err := c.Do(t.Context(), "GET", "/v1/approvals", url.Values{"client": {d.ClientID}}, nil, &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return d, list.Items[0].ID
}

// The command, as it is typed, against a dev that stands where the flag says.
func TestExplainCommand(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	_, id := connected(t, dev, "ada@nordlys.example")
	stdout, stderr, code := ran(t, "explain", id, "--operator", dev.Operator)
	for _, line := range []string{
		"yes: The approval of ",
		"\n\n  yes  approval      The approval of ",
		"\n  yes  membership    Ada Aasen has been a member of Nordlys ever since.\n",
		"\n  yes  client        Grantkeeper demo has been enabled ever since.\n",
		"\n  yes  grant_set     Selected roles: Treasurer (change).\n",
		"\n  yes  admin         Ada Aasen is an admin of Nordlys.\n",
		"\n  yes  roles         Ada Aasen fills 9 roles in Nordlys; part of this approval: 1.\n",
	} {
		if !strings.Contains(stdout, line) {
			t.Errorf("no %q in\n%s", line, stdout)
		}
	}
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, %s", code, stderr)
	}
	stdout, _, code = ran(t, "explain", "--approval", id, "--operator", dev.Operator+"/", "--json")
	var e map[string]any
	if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != 0 || e["allowed"] != true || e["id"] != id || e["approval"] != id || len(e["chain"].([]any)) != 8 {
		t.Errorf("%v %d %s", err, code, stdout)
	}
	for _, args := range [][]string{{"--tool", "pay", "--args", "{}"}, {"--call", "GET /api/v5/orders"}} {
		stdout, stderr, code := ran(t, append([]string{"explain", "--approval", id, "--operator", dev.Operator}, args...)...)
		if code != 0 || !strings.HasPrefix(stdout, "yes: The call may pass, and the service decides.\n") || !strings.Contains(stdout, "  rule ") {
			t.Errorf("%v: exit code %d, %s%s", args, code, stdout, stderr)
		}
	}
	for _, args := range [][]string{{}, {id, "--args", "{}"}, {id, "--body", "{}"}, {id, "--tool", "a", "--call", "GET /x"}, {id, "--call", "GET /x", "--args", "{}"}, {id, "--approval", id, "--tool", "a"}, {id, "--tool", "x", "--body", "x"}} {
		if _, stderr, code := ran(t, append([]string{"explain", "--operator", dev.Operator}, args...)...); code != 2 {
			t.Errorf("%v: exit code %d, %s", args, code, stderr)
		}
	}
}

func TestExplainExitCodes(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	_, id := connected(t, dev, "tor@nordlys.example")
	dir := t.TempDir()
	file := func(name, content string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	right, wrong := file("right", remote.DevPassword+"\n"), file("wrong", "another password\n")
	empty, two := file("empty", "\n"), file("two", "a\nb\n")
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{id, "--operator", dev.Operator}, 0, ""},
		{[]string{id, "--operator", dev.Operator, "--password-file", right}, 0, ""},
		{[]string{id, "--operator", dev.Operator, "--password-file", wrong}, 4, "does not take the operators' password\nname the file"},
		{[]string{id, "--operator", dev.Operator, "--password-file", filepath.Join(dir, "none")}, 4, "--password-file: "},
		{[]string{id, "--operator", dev.Operator, "--password-file", empty}, 2, "has not one line"},
		{[]string{id, "--operator", dev.Operator, "--password-file", two}, 2, "has not one line"},
		{[]string{strings.Repeat("0", 32), "--operator", dev.Operator}, 5, "there is no such approval\n"},
		{[]string{"../people", "--operator", dev.Operator}, 5, "there is no such approval"},
		{[]string{id, "--operator", "http://127.0.0.1:1"}, 4, "http://127.0.0.1:1 does not answer\nstart it: grantkeeper serve, or dev"},
		{[]string{id, "--operator", stranger.URL}, 4, "answers, but not as an operator API\n"},
		{[]string{id, "--operator", dev.Server}, 4, "answers, but not as an operator API\n"},
		{[]string{id, "--operator", "127.0.0.1:8081"}, 2, "--operator: "},
		{[]string{id, "-c", filepath.Join(dir, "none.toml")}, 3, "configuration: "},
		{[]string{id, "--tool", "a", "--call", "GET /x", "--operator", dev.Operator}, 2, "ask one of --tool (with --args and --path) and --call (with --body)"},
		{[]string{"--tool", "a", "--operator", dev.Operator}, 2, "name one approval"},
		{[]string{id, id}, 2, "name one approval"},
		{[]string{id, "--read", "x"}, 2, "unknown flag: --read"},
	} {
		stdout, stderr, code := ran(t, append([]string{"explain"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) {
			t.Errorf("%q: exit code %d, want %d\n%s%s\nwant %s", tt.args, code, tt.code, stdout, stderr, tt.says)
		}
		if (code == 0) != (stdout != "") || code != 0 && strings.Count(stderr, "\n") > 2 || strings.Contains(stderr, "password\n"+remote.DevPassword) {
			t.Errorf("%q: stdout %s stderr %s", tt.args, stdout, stderr)
		}
	}
}

// Against serve, the configuration says where the listener is and which
// password it takes.
func TestExplainAgainstServe(t *testing.T) {
	t.Parallel()
	dir, public, listen := installed(t)
	p := serve(t, dir, public, listen)
	c := remote.Server{Base: p.operator, Password: p.password, HTTP: http.DefaultClient}
	if v, err := c.Version(t.Context()); err != nil || v.Mode != "serve" || v.Version != version {
		t.Errorf("version: %+v, %v", v, err)
	}
	nobody := strings.Repeat("0", 32)
	config := filepath.Join(dir, "grantkeeper.toml")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	there := strings.Replace(string(text), `listen = "127.0.0.1:8081"`, `listen = "`+listen+`"`, 1)
	if there == string(text) {
		t.Fatalf("init writes no operator.listen:\n%s", text)
	}
	everywhere := strings.Replace(there, listen, strings.TrimPrefix(listen, "127.0.0.1"), 1)
	off := strings.Replace(there, listen, "off", 1)
	without := strings.Replace(there, "password_file", "#password_file", 1)
	for _, tt := range []struct {
		name, config string
		args         []string
		code         int
		says         string
	}{
		{"as configured", there, nil, 5, "there is no such approval\n"},
		{"on every address", everywhere, nil, 5, "there is no such approval\n"},
		{"off", off, nil, 3, "operator.listen is off\n"},
		{"off, and another named", off, []string{"--operator", p.operator}, 5, "there is no such approval\n"},
		{"no password", without, nil, 2, "the operators' password for " + p.operator + " is not known\nname it: --password-file FILE\n"},
		{"a password by flag", without, []string{"--password-file", filepath.Join(dir, "operator.password")}, 5, "there is no such approval\n"},
		{"another host", there, []string{"--operator", "http://192.0.2.1:8081"}, 2, "the operators' password for http://192.0.2.1:8081 is not known\n"},
	} {
		if err := os.WriteFile(config, []byte(tt.config), 0o600); err != nil {
			t.Fatal(err)
		}
		stdout, stderr, code := ran(t, append([]string{"explain", nobody, "-c", config}, tt.args...)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) || stdout != "" {
			t.Errorf("%s: exit code %d, want %d\n%s%s", tt.name, code, tt.code, stdout, stderr)
		}
	}
}
