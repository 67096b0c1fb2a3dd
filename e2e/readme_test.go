package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// commands gives the blocks of a README section that a person would paste.
func commands(t *testing.T, section string) []string {
	t.Helper()
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(b), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("the README has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	var out []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	if len(out) == 0 {
		t.Fatalf("section %q has no commands", section)
	}
	return out
}

// The README's section "Connect a client", pasted into one shell.
func TestReadmeConnectAClient(t *testing.T) {
	t.Parallel()
	h := start(t)
	blocks := commands(t, "Connect a client")
	shell := exec.Command("bash", "-eu")
	stdin, err := shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := shell.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	shell.Stderr = os.Stderr
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	io.WriteString(stdin, strings.ReplaceAll(blocks[0], "http://127.0.0.1:8080", h.base))
	lines := bufio.NewReader(stdout)
	address, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		t.Fatal(err)
	}
	b := h.signedIn("ada@nordlys.example")
	a := b.page(u.RequestURI()).form("/oauth/authorize").submit(append(treasurer, "decision", "approve")...)
	code := a.location(t).Query().Get("code")
	if code == "" {
		t.Fatalf("no code: %s", a)
	}
	io.WriteString(stdin, strings.Replace(blocks[1], "read -r CODE\n", "read -r CODE\n"+code+"\n", 1))
	stdin.Close()
	rest, err := io.ReadAll(lines)
	if err != nil {
		t.Fatal(err)
	}
	if err := shell.Wait(); err != nil {
		t.Errorf("%v: %s", err, rest)
	}
	if !strings.Contains(string(rest), `"Treasurer"`) {
		t.Errorf("the API told nothing of the role: %s", rest)
	}
	client := u.Query().Get("client_id")
	if got := h.approvalsOf(client)[0]; got["reason"] != "revoked_by_client" {
		t.Errorf("at the end: %v, want it revoked by the client", got)
	}
}

// The README's section "Run it for real": init, serve, the first people, and a
// demo as far as it goes without a service.
func TestReadmeRunItForReal(t *testing.T) {
	t.Parallel()
	blocks := commands(t, "Run it for real")
	dir, port, operator := t.TempDir(), freePort(t), freePort(t)
	base := "http://127.0.0.1:" + port
	run := func(script string) (string, error) {
		c := exec.Command("bash", "-eu", "-c", script)
		c.Dir = dir
		c.Env = append(os.Environ(), "GRANTKEEPER_OPERATOR_LISTEN=127.0.0.1:"+operator)
		out, err := c.CombinedOutput()
		return string(out), err
	}
	var serve string
	for line := range strings.Lines(blocks[0]) {
		line = strings.NewReplacer("bin/grantkeeper", binary, "https://app.example.com", base).Replace(line)
		switch {
		case strings.HasPrefix(line, "go build"): // the binary is built
		case strings.Contains(line, " serve "):
			serve = strings.TrimSpace(line) + " --listen 127.0.0.1:" + port + " --operator-listen 127.0.0.1:" + operator
		default:
			if out, err := run(line); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, out)
			}
		}
	}
	arguments := strings.Fields(serve)[1:]
	for i, a := range arguments {
		if strings.HasPrefix(a, "./") {
			arguments[i] = filepath.Join(dir, a)
		}
	}
	h := &house{t: t, base: base, operator: "http://127.0.0.1:" + operator, args: arguments}
	h.serve(0)
	t.Cleanup(h.stop)
	if out, err := run(strings.ReplaceAll(blocks[1], "bin/grantkeeper", binary)); err != nil || !strings.Contains(out, "people         1 added") || !strings.Contains(out, ", 0 faults.") {
		t.Fatalf("directory and doctor: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte("a long passphrase"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := run(fmt.Sprintf("%s demo --base-url %s --email eva@example.com --password-file password", binary, base))
	if err == nil || !strings.Contains(out, "no MCP server is connected: the operator sets mcp.upstream") {
		t.Errorf("demo before no service: %v\n%s", err, out)
	}
	if out, err := run(fmt.Sprintf("%s demo --steps 1-6 --base-url %s --email eva@example.com --password-file password", binary, base)); err != nil {
		t.Errorf("demo: %v\n%s", err, out)
	}
}

// What the README shows of dev is what dev says.
func TestReadmeShowsDev(t *testing.T) {
	t.Parallel()
	h := start(t)
	for deadline := time.Now().Add(time.Minute); !strings.Contains(h.stderr.String(), "Ready in"); {
		if time.Now().After(deadline) {
			t.Fatal("dev does not say that it is ready")
		}
		time.Sleep(10 * time.Millisecond)
	}
	said := strings.NewReplacer(h.base, "http://127.0.0.1:8080", h.operator, "http://127.0.0.1:8081").Replace(h.stderr.String())
	b, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(b), "```\ngrantkeeper ")
	block, _, _ = strings.Cut(block, "```")
	folded := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	for line := range strings.Lines("grantkeeper " + block) {
		if line = folded(line); !strings.Contains(folded(said), line) {
			t.Errorf("dev does not say %q", line)
		}
	}
}

// Every file that the README and the documents point to is there, and so is
// every heading.
func TestDocumentsPointSomewhere(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	top, err := filepath.Glob("../*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	for _, file := range append(files, top...) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(b), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			target := file
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(file), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s points to %s: %v", file, m[1], err)
				continue
			}
			if m[2] == "" {
				continue
			}
			text, err := os.ReadFile(target)
			if err != nil {
				t.Errorf("%s points into %s: %v", file, m[1], err)
			}
			if !headings(string(text))[m[2][1:]] {
				t.Errorf("%s points to %s%s, which is not there", file, m[1], m[2])
			}
		}
	}
}

// headings gives the anchors of a document: those written out, and those that
// forges make of headings.
func headings(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?:id|name)="([^"]+)"`).FindAllStringSubmatch(text, -1) {
		out[m[1]] = true
	}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		line = strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		out[strings.ReplaceAll(regexp.MustCompile(`[^\w\- ]`).ReplaceAllString(line, ""), " ", "-")] = true
	}
	return out
}
