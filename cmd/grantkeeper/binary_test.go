package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// binary builds the command once, for the tests that need a process, and gives
// its path.
var binary = sync.OnceValues(func() (string, error) {
	name := filepath.Join(binaryDir, "grantkeeper")
	out, err := exec.Command("go", "build", "-o", name, ".").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return name, nil
})

var binaryDir string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "grantkeeper")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binaryDir = dir
		return m.Run()
	}())
}

// command is the binary with arguments, without our variables of whoever runs
// the tests.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(name, args...)
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "GRANTKEEPER_") {
			c.Env = append(c.Env, e)
		}
	}
	return c
}

// ran runs the binary to its end.
func ran(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	c := command(t, args...)
	c.Stdout, c.Stderr = &out, &errOut
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(2*time.Minute, func() { c.Process.Kill() })
	defer stuck.Stop()
	_ = c.Wait() // the code says it
	return out.String(), errOut.String(), c.ProcessState.ExitCode()
}

func TestExitCodes(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at := taken.Addr().String()
	dir := t.TempDir()
	bad := write(t, "bad.toml", "base_urls = [\"https://app.example\"]\n[http]\nlisten_on = \":1\"\n", 0o644)
	file, link := write(t, "file", "", 0o600), filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string
	}{
		{[]string{"version"}, 0, ""},
		{[]string{"--version"}, 0, ""},
		{[]string{"-V"}, 0, ""},
		{[]string{"--help"}, 0, ""},
		{[]string{"completion", "bash"}, 0, ""},
		{[]string{"sevre"}, 2, "unknown command \"sevre\" for \"grantkeeper\"\ndid you mean: grantkeeper serve\n"},
		{[]string{"dev", "--listn", "x"}, 2, "unknown flag: --listn\nsee: grantkeeper dev --help\n"},
		{[]string{"dev", "extra"}, 2, `unknown command "extra"`},
		{[]string{"dev", "--listen", ":8080"}, 2, "dev serves demo accounts, so it listens on loopback only. Use 'grantkeeper serve'.\n"},
		{[]string{"dev", "--operator-listen", "0.0.0.0:0"}, 2, "dev serves demo accounts, so it listens on loopback only. Use 'grantkeeper serve'.\n"},
		{[]string{"dev", "--listen", at, "--operator-listen", "127.0.0.1:0"}, 4, at + " is in use. Choose another: grantkeeper dev --listen 127.0.0.1:9000\n"},
		{[]string{"dev", "--listen", "127.0.0.1:0", "--operator-listen", at}, 4, at + " is in use. Choose another: grantkeeper dev --operator-listen 127.0.0.1:9001\n"},
		{[]string{"dev", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--data", file}, 4, ""},
		{[]string{"dev", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--ready-file", file + "/x"}, 4, "ready file: "},
		{[]string{"dev", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--ready-file", link}, 4, "ready file: " + link + " is not a regular file"},
		{[]string{"dev", "--log-level", "loud"}, 2, "--log-level"},
		{[]string{"demo", "--base-url", "http://127.0.0.1:1"}, 4, "http://127.0.0.1:1 does not answer\nstart one: grantkeeper dev\n"},
		{[]string{"demo", "--steps", "5"}, 2, "--steps"},
		{[]string{"serve"}, 3, "run: grantkeeper init\n"},
		{[]string{"serve", "-c", "/nowhere.toml"}, 3, "name a file that is there, or run: grantkeeper init\n"},
		{[]string{"backup", "create", "-"}, 2, "name one file\n"},
		{[]string{"serve", "-c", bad}, 3, bad + ":3: unknown setting http.listen_on\ndid you mean http.listen?\n"},
		{[]string{"serve", "--base-url", "https://app.example"}, 3, "secret_key_file: there is no file"},
		{[]string{"serve", "--base-url", "http://app.example"}, 3, "base_urls"},
		{[]string{"init"}, 2, "--base-url is missing"},
		{[]string{"init", "--base-url", "app.example"}, 2, "--base-url"},
		{[]string{"init", "--base-url", "https://app.example", "--dir", dir}, 0, ""},
		{[]string{"init", "--base-url", "https://app.example", "--dir", dir}, 6, "is there already, nothing was written"},
		{[]string{"init", "--base-url", "https://app.example", "--dir", file + "/x"}, 4, ""},
	} {
		stdout, stderr, code := ran(t, tt.args...)
		if code != tt.code || !strings.Contains(stderr, tt.stderr) {
			t.Errorf("%q: exit code %d, want %d\nstdout %s\nstderr %s\nwant   %s", tt.args, code, tt.code, stdout, stderr, tt.stderr)
		}
		if tt.code != 0 && (stdout != "" && tt.args[0] != "demo" || strings.Count(stderr, "\n") > 2 || stderr == "") {
			t.Errorf("%q: not an error of one line and what to do:\nstdout %s\nstderr %s", tt.args, stdout, stderr)
		}
	}
}

// Every command has examples before everything else, says which flags it has,
// and ends with what to do next.
func TestHelp(t *testing.T) {
	root := rootCommand(io.Discard)
	names := []string{}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.TrimSpace(strings.TrimPrefix(c.CommandPath(), "grantkeeper"))
		names = append(names, path)
		var out strings.Builder
		if code := run(append(strings.Fields(path), "--help"), &out, io.Discard); code != 0 {
			t.Errorf("%s: exit code %d", path, code)
		}
		text := out.String()
		example, usage, flags := strings.Index(text, "Examples:\n"), strings.Index(text, "Usage:\n"), strings.Index(text, "Flags:\n")
		if example < 0 || usage < example || flags < usage || !strings.Contains(text[example:usage], "grantkeeper "+path) {
			t.Errorf("%s: examples at %d, usage at %d, flags at %d:\n%s", path, example, usage, flags, text)
		}
		lines := strings.Split(strings.TrimSpace(text), "\n")
		if !strings.HasPrefix(lines[len(lines)-1], "Next: ") {
			t.Errorf("%s does not say what comes next", path)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	for _, name := range []string{"", "demo", "dev", "explain", "init", "serve", "version", "config", "config show", "config reference"} {
		if !slices.Contains(names, name) {
			t.Errorf("there is no command %q in %q", name, names)
		}
	}
}

// Every command takes every global flag, before its name or after it, and
// nothing that there is not; a value that none can take is wrong use.
func TestGlobalFlags(t *testing.T) {
	all := []string{"-c", "x", "--data", "x", "--log-level", "warn", "--log-format", "text", "--color", "never", "-q", "--json"}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		path := strings.Fields(c.CommandPath())[1:]
		for _, args := range [][]string{slices.Concat(path, all), slices.Concat(all, path)} {
			if code := run(append(args, "--help"), io.Discard, io.Discard); code != 0 {
				t.Errorf("%q: exit code %d", args, code)
			}
		}
		var out strings.Builder
		if code := run(append(path, "-V"), &out, io.Discard); code != 0 || out.String() != "grantkeeper "+version+"\n" {
			t.Errorf("%q -V: %d %s", path, code, &out)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(io.Discard))
	for _, tt := range []struct {
		args   []string
		stderr string
	}{
		{[]string{"config", "sho"}, "did you mean: grantkeeper config show"},
		{[]string{"config", "show", "extra"}, "see: grantkeeper --help"},
		{[]string{"config", "show", "--jsn"}, "unknown flag: --jsn"},
		{[]string{"version", "--log-level", "loud"}, "use debug, info, warn or error"},
		{[]string{"version", "--log-format", "xml"}, "use auto, text or json"},
		{[]string{"version", "--color", "pink"}, "use auto, always or never"},
		{[]string{"version", "--color", "never", "--color", "pink"}, "use auto, always or never"}, // the last one counts
		{[]string{"init", "--data", "a", "--database", "sqlite:///b"}, "name one of them"},
		{[]string{"completion"}, "bash|zsh|fish"},
		{[]string{"completion", "powershell"}, "write bash, zsh or fish"},
	} {
		var stdout, stderr strings.Builder
		if code := run(tt.args, &stdout, &stderr); code != 2 || !strings.Contains(stderr.String(), tt.stderr) || stdout.Len() > 0 {
			t.Errorf("%q: %d %s%s, want %q", tt.args, code, &stdout, &stderr, tt.stderr)
		}
	}
}

func TestVersion(t *testing.T) {
	stdout, _, _ := ran(t, "version", "--json")
	var v map[string]any
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || v["version"] != version || v["go"] == "" || v["schema"] == 0 {
		t.Errorf("%v: %s", err, stdout)
	}
	if stdout, _, _ := ran(t, "version"); !strings.HasPrefix(stdout, "grantkeeper "+version+"  commit ") {
		t.Errorf("version: %s", stdout)
	}
	if stdout, _, _ := ran(t, "-V"); stdout != "grantkeeper "+version+"\n" {
		t.Errorf("-V: %s", stdout)
	}
}

// A process of the binary that answers.
type process struct {
	*testing.T
	cmd              *exec.Cmd
	stderr           *safeBuffer
	public, operator string // URLs
	password         string
	ended            chan struct{}
}

// installed makes an installation with init, and gives its folder and the
// addresses to serve on.
func installed(t *testing.T) (dir, public, operator string) {
	t.Helper()
	dir, public, operator = t.TempDir(), freePort(t), freePort(t)
	stdout, stderr, code := ran(t, "init", "--dir", dir, "--base-url", "http://"+public)
	if code != 0 || !strings.Contains(stdout, "grantkeeper serve -c "+dir) {
		t.Fatalf("init: %d\n%s%s", code, stdout, stderr)
	}
	return dir, public, operator
}

func serve(t *testing.T, dir, public, operator string, more ...string) *process {
	t.Helper()
	password, err := os.ReadFile(filepath.Join(dir, "operator.password"))
	if err != nil {
		t.Fatal(err)
	}
	p := &process{T: t, stderr: &safeBuffer{}, public: "http://" + public, operator: "http://" + operator,
		password: strings.TrimSpace(string(password)), ended: make(chan struct{})}
	p.cmd = command(t, append([]string{"serve", "-c", filepath.Join(dir, "grantkeeper.toml"), "--listen", public, "--operator-listen", operator}, more...)...)
	p.cmd.Stderr = p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(func() { p.cmd.Process.Kill(); <-p.ended })
	for range 1200 {
		if a, err := http.Get(p.operator + "/readyz"); err == nil {
			a.Body.Close()
			if a.StatusCode == 200 {
				return p
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("serve ended with %d:\n%s", p.cmd.ProcessState.ExitCode(), p.stderr)
		case <-time.After(50 * time.Millisecond):
		}
	}
	t.Fatalf("serve is not ready:\n%s", p.stderr)
	return nil
}

// exits waits for the end of the process and gives its code.
func (p *process) exits() int {
	p.Helper()
	select {
	case <-p.ended:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(time.Minute):
		p.Fatalf("it does not end:\n%s", p.stderr)
		return 0
	}
}

func (p *process) signal(s os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// post sends the operator's JSON.
func (p *process) post(path, body string) {
	p.Helper()
	r, err := http.NewRequest("POST", p.operator+path, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	r.SetBasicAuth("operator", p.password)
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		p.Fatal(err)
	}
	defer a.Body.Close()
	if text, _ := io.ReadAll(a.Body); a.StatusCode != 200 {
		p.Fatalf("%s: %s %s", path, a.Status, text)
	}
}

// From nothing to people who approve: init, serve, a directory, and demo as
// one of its people, up to the service that is not there. A restart forgets none of it.
func TestServeFromInitToDemo(t *testing.T) {
	t.Parallel()
	dir, public, operator := installed(t)
	for name, mode := range map[string]os.FileMode{"secret.key": 0o600, "operator.password": 0o600} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", name, info, err)
		}
	}
	p := serve(t, dir, public, operator)
	p.post("/v1/directory", `{"organizations":[{"id":"verksted","name":"Verksted","ai_integration":true}],
		"people":[{"id":"eva","email":"eva@verksted.example","name":"Eva","password":"the password of Eva"}],
		"members":[{"organization":"verksted","person":"eva"}],
		"circles":[{"id":"all","organization":"verksted","name":"All"}],
		"roles":[{"id":"keys","organization":"verksted","circle":"all","name":"Keeper of Keys","fillers":["eva"]}]}`)
	password := write(t, "password", "the password of Eva\n", 0o600)
	demo := []string{"demo", "--base-url", p.public, "--email", "eva@verksted.example", "--password-file", password}
	stdout, stderr, code := ran(t, demo...)
	if code != 1 || !strings.Contains(stdout, "Verksted, selected roles: Keeper of Keys (change)") || !strings.Contains(stderr, "no MCP server is connected") {
		t.Fatalf("demo: %d\n%s%s", code, stdout, stderr)
	}
	// Dev's client, clock and hosts are dev's alone.
	for path, host := range map[string]string{"/dev/client": public, "/.well-known/oauth-authorization-server": "localhost"} {
		r, _ := http.NewRequest("GET", p.public+path, nil)
		r.Host = host
		a, err := http.DefaultClient.Do(r)
		if err != nil || a.StatusCode != 404 && a.StatusCode != 421 {
			t.Errorf("%s of %s: %v %v", path, host, a, err)
		}
		a.Body.Close()
	}
	other := command(t, "serve", "-c", filepath.Join(dir, "grantkeeper.toml"), "--listen", freePort(t), "--operator-listen", "off")
	if out, _ := other.CombinedOutput(); other.ProcessState.ExitCode() != 6 || !strings.Contains(string(out), "another process") {
		t.Errorf("a second serve on the same database: %d %s", other.ProcessState.ExitCode(), out)
	}
	p.signal(syscall.SIGTERM)
	if code := p.exits(); code != 0 {
		t.Errorf("SIGTERM: %d\n%s", code, p.stderr)
	}
	p = serve(t, dir, public, operator)
	if stdout, stderr, code := ran(t, append(demo, "--steps", "1-5")...); code != 0 {
		t.Errorf("demo after a restart: %d\n%s%s", code, stdout, stderr)
	}
	for _, secret := range []string{"svo_", "svr_", "svc_", "the password of Eva", "eva@verksted.example", p.password} {
		if strings.Contains(p.stderr.String(), secret) {
			t.Errorf("the log has %q:\n%s", secret, p.stderr)
		}
	}
}

// A request that was accepted is answered, however long after SIGTERM, and
// balancers are told at once.
func TestServeDrains(t *testing.T) {
	t.Parallel()
	dir, public, operator := installed(t)
	for range 20 {
		if drains(t, serve(t, dir, public, operator)) {
			return
		}
	}
	t.Error("this machine is too busy to ask anything while the listener lingers")
}

// drains ends a process. It gives false when nothing could be asked before the
// listener was closed as it is to be.
func drains(t *testing.T, p *process) bool {
	t.Helper()
	public := strings.TrimPrefix(p.public, "http://")
	conn, err := net.Dial("tcp", public)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	// Half a request, so that it is under way.
	fmt.Fprintf(conn, "POST /oauth/revoke HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 10\r\n\r\ntoken", public)
	before := time.Now()
	p.signal(syscall.SIGTERM)
	said := ""
	for end := before.Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		a, err := http.Get(p.operator + "/readyz")
		if err != nil {
			t.Fatalf("the operators' listener has gone: %v\n%s", err, p.stderr)
		}
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if said = string(text); a.StatusCode == 503 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("readyz after SIGTERM: %s", said)
		}
	}
	if !strings.Contains(said, "draining") {
		t.Errorf("readyz after SIGTERM: %s", said)
	}
	asked := true
	a, err := http.Get(p.public + "/.well-known/oauth-authorization-server")
	switch {
	case errors.Is(err, syscall.ECONNREFUSED) && time.Since(before) >= lingering:
		asked = false
	case err != nil || a.StatusCode != 200 || !a.Close:
		t.Errorf("who has not noticed: %v %v", a, err)
	default:
		a.Body.Close()
	}
	// Only the half request keeps the process.
	for range 400 {
		if c, err := net.Dial("tcp", public); err != nil {
			break
		} else {
			c.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Fprint(conn, "=abcd")
	answer, err := io.ReadAll(conn)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 400 ") {
		t.Errorf("the request under way: %v %s", err, answer)
	}
	if code := p.exits(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
	return asked || t.Failed()
}

// Before a server is ready nothing was promised: the first signal ends it.
func TestASignalEndsWhatIsNotReady(t *testing.T) {
	t.Parallel()
	for s, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		dir := t.TempDir()
		seed, ready := filepath.Join(dir, "seed"), filepath.Join(dir, "ready.json")
		if err := syscall.Mkfifo(seed, 0o600); err != nil {
			t.Fatal(err)
		}
		c := command(t, "dev", "--listen", "127.0.0.1:0", "--operator-listen", "127.0.0.1:0", "--seed", seed, "--ready-file", ready)
		stderr := &safeBuffer{}
		c.Stderr = stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		stuck := time.AfterFunc(time.Minute, func() { c.Process.Kill() })
		defer stuck.Stop()
		// It opens the seed when it listens, and waits for what is in it.
		f, err := os.OpenFile(seed, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		for begun := time.Now(); err != nil; f, err = os.OpenFile(seed, os.O_WRONLY|syscall.O_NONBLOCK, 0) {
			if time.Since(begun) > time.Minute {
				t.Fatalf("it does not read the seed: %v\n%s", err, stderr)
			}
			time.Sleep(10 * time.Millisecond)
		}
		defer f.Close()
		c.Process.Signal(s)
		_ = c.Wait() // the code says it
		if code := c.ProcessState.ExitCode(); code != want || stderr.String() != "" {
			t.Errorf("%v: exit code %d, want %d\n%s", s, code, want, stderr)
		}
		if _, err := os.Stat(ready); err == nil {
			t.Errorf("%v: there is a ready file", s)
		}
	}
}

func TestASecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	for s, want := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		dir, public, operator := installed(t)
		p := serve(t, dir, public, operator, "--drain-timeout", "10m")
		conn, err := net.Dial("tcp", public)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /oauth/revoke HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\n", public)
		p.signal(s)
		p.tells(`"stopping"`, 0) // signals of one kind may merge when they come together
		p.signal(s)
		if code := p.exits(); code != want {
			t.Errorf("%v twice: exit code %d, want %d\n%s", s, code, want, p.stderr)
		}
	}
}

// The order of settings, as a process sees it.
func TestServeTakesFlagsOverEnvironment(t *testing.T) {
	t.Parallel()
	dir, public, operator := installed(t)
	c := command(t, "serve", "-c", filepath.Join(dir, "grantkeeper.toml"), "--listen", public)
	c.Env = append(c.Env, "GRANTKEEPER_LISTEN=127.0.0.1:1", "GRANTKEEPER_OPERATOR_LISTEN="+operator, "GRANTKEEPER_SERVICE_NAME=Verksted")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		a, err := http.Get("http://" + public + "/.well-known/oauth-protected-resource/api/v5")
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if !strings.Contains(string(text), `"resource_name":"Verksted`) {
			t.Errorf("resource: %s", text)
		}
		return
	}
	t.Error("it does not listen where the flag says")
}

// init writes the service's own name and no brand of ours, and listens where a
// base URL over http says.
func TestInitNamesTheService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, name, listen string }{
		{"https://app.example.com", "Example", "127.0.0.1:8080"},
		{"https://orders.firm.example", "Orders", "127.0.0.1:8080"},
		{"https://firm.example", "Firm", "127.0.0.1:8080"},
		{"https://xn--bcher-kva.example", "xn--bcher-kva.example", "127.0.0.1:8080"},
		{"http://127.0.0.1:42100", "127.0.0.1", "127.0.0.1:42100"},
		{"http://localhost", "localhost", "localhost:80"},
		{"http://[::1]:7000", "::1", "[::1]:7000"},
	} {
		dir := t.TempDir()
		if _, stderr, code := ran(t, "init", "--dir", dir, "--base-url", tt.base); code != 0 {
			t.Fatalf("%s: %d %s", tt.base, code, stderr)
		}
		text, err := os.ReadFile(filepath.Join(dir, "grantkeeper.toml"))
		if err != nil || !strings.Contains(string(text), fmt.Sprintf("\nname = %q", tt.name)) ||
			!strings.Contains(string(text), fmt.Sprintf("\nlisten = %q", tt.listen)) || strings.Contains(string(text), "Svalinn") {
			t.Errorf("%s: %v\n%s", tt.base, err, text)
		}
		config := filepath.Join(dir, "grantkeeper.toml")
		if stdout, stderr, code := ran(t, "config", "check", "-c", config); code != 0 || strings.Contains(stdout, "warn") {
			t.Errorf("%s: %d %s%s", tt.base, code, stdout, stderr)
		}
		if err := os.WriteFile(config, []byte(strings.Replace(string(text), "name = ", "# name = ", 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		if stdout, _, code := ran(t, "config", "check", "-c", config); code != 0 || !strings.Contains(stdout, "service.name is the default") {
			t.Errorf("%s: %d %s", tt.base, code, stdout)
		}
	}
	dir := t.TempDir()
	if _, _, code := ran(t, "init", "--dir", dir, "--base-url", "https://app.example", "--name", "Ørsted & Co"); code != 0 {
		t.Error("a name is refused:", code)
	}
	if _, stderr, code := ran(t, "init", "--dir", t.TempDir(), "--base-url", "https://app.example", "--name", `"x"`); code != 2 || !strings.Contains(stderr, "--name") {
		t.Errorf("a bad name: %d %s", code, stderr)
	}
}
