package e2e

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// quickStart gives the commands of a section of docs/quickstart.md, by block.
func quickStart(t *testing.T, section string) (blocks []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/quickstart.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("the quick start has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		blocks = append(blocks, strings.ReplaceAll(m[1], "\\\n", ""))
	}
	return blocks
}

// docs/quickstart.md from an empty folder to the end, with each service: its
// commands as they stand, but for the ports and what is built and fetched already;
// what the person does in their browser is done with the same forms.
func TestQuickStart(t *testing.T) {
	t.Parallel()
	for n, language := range []string{"node", "python3"} {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			q := &quick{t: t, dir: t.TempDir(), port: freePort(t), public: freePort(t), operator: freePort(t)}
			q.path = filepath.Dir(binary)
			if err := os.Symlink(packages(t, "services"), filepath.Join(q.dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
			before := strings.SplitN(quickStart(t, "2. Put Grantkeeper before the service")[0], "\n", 2)
			q.run(before[0])
			dev := q.begin(before[1] + " --listen 127.0.0.1:" + q.public + " --operator-listen 127.0.0.1:" + q.operator)
			q.until("http://127.0.0.1:" + q.operator + "/readyz")
			service := strings.Split(strings.TrimSpace(quickStart(t, "3. Run the service")[n]), "\n")
			q.begin("PORT=" + q.port + " " + service[len(service)-1])
			q.until("http://127.0.0.1:" + q.port + "/")
			q.assistant()
			q.end(dev)
			q.real()
		})
	}
}

type quick struct {
	t                      *testing.T
	dir, path              string
	port, public, operator string
}

// command is one of the document's, in its folder and with ports of this test's.
func (q *quick) command(line string) *exec.Cmd {
	line = strings.NewReplacer("http://127.0.0.1:9000", "http://127.0.0.1:"+q.port, "http://127.0.0.1:8080", "http://127.0.0.1:"+q.public).Replace(line)
	c := exec.Command("bash", "-euc", "exec "+line)
	if strings.Contains(line, "PORT=") {
		c = exec.Command("bash", "-euc", strings.Replace(line, " ", " exec ", 1))
	}
	source, err := filepath.Abs("..")
	if err != nil {
		q.t.Fatal(err)
	}
	c.Dir = q.dir
	c.Env = append(os.Environ(), "SOURCE="+source, "PATH="+q.path+":"+os.Getenv("PATH"))
	return c
}

func (q *quick) run(line string) string {
	q.t.Helper()
	out, err := q.command(strings.TrimSpace(line)).CombinedOutput()
	if err != nil {
		q.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

func (q *quick) begin(line string) *exec.Cmd {
	q.t.Helper()
	c := q.command(strings.TrimSpace(strings.ReplaceAll(line, "\n", " ")))
	said := &servertest.Buffer{}
	c.Stdout, c.Stderr = said, said
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := c.Start(); err != nil {
		q.t.Fatal(err)
	}
	q.t.Cleanup(func() {
		if c.ProcessState == nil {
			_ = c.Process.Signal(syscall.SIGTERM)
			_ = c.Wait()
		}
		if q.t.Failed() {
			q.t.Logf("%s\n%s", line, tail(said.String()))
		}
	})
	return c
}

// end stops the server and waits until it is gone: while it drains, its operator
// address still answers.
func (q *quick) end(c *exec.Cmd) {
	q.t.Helper()
	if err := c.Process.Signal(os.Interrupt); err != nil {
		q.t.Fatal(err)
	}
	gone := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer gone.Stop()
	if err := c.Wait(); err != nil {
		q.t.Fatalf("dev does not stop: %v", err)
	}
}

// until waits until something answers, and is ready.
func (q *quick) until(address string) {
	q.t.Helper()
	for range 1200 {
		if a, err := http.Get(address); err == nil {
			a.Body.Close()
			if a.StatusCode != http.StatusServiceUnavailable {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	q.t.Fatalf("nothing is ready at %s", address)
}

// assistant does what section 4 says.
func (q *quick) assistant() {
	t := q.t
	h := &house{t: t, base: "http://127.0.0.1:" + q.public, operator: "http://127.0.0.1:" + q.operator, password: "rye and caraway"}
	b := h.signedIn("bea@bakery.example")
	p := b.follow(b.page("/dev/client").form("/dev/client").submit("do", "start"))
	link := regexp.MustCompile(`href="([^"]*/oauth/authorize[^"]*)"`).FindStringSubmatch(p.body)
	if link == nil {
		t.Fatalf("the client leads nowhere: %s", p.body)
	}
	consent := b.page(strings.TrimPrefix(strings.ReplaceAll(link[1], "&amp;", "&"), h.base))
	p = b.follow(consent.form("/oauth/authorize").submit("organization", "bakery", "grant", "roles", "role:r-orders", "read", "decision", "approve"))
	flow := regexp.MustCompile(`name="flow" value="([^"]*)"`).FindStringSubmatch(p.body)
	if flow == nil {
		t.Fatalf("after the approval: %s", p.body)
	}
	does := func(fields ...string) string {
		t.Helper()
		return b.follow((&pageForm{b, "/dev/client", url.Values{"flow": {flow[1]}}}).submit(fields...)).body
	}
	listed := does("do", "tools")
	if !strings.Contains(listed, "<option>list_orders</option>") || strings.Contains(listed, "<option>create_order</option>") {
		t.Fatalf("tools by reading alone: %s", listed)
	}
	order := []string{"do", "tool", "tool", "create_order", "arguments", `{"what":"12 rye rolls"}`}
	refused := does(order...)
	edit := regexp.MustCompile(`href="([^"]*/edit[^"]*)"`).FindStringSubmatch(refused)
	if edit == nil || !strings.Contains(refused, "This needs change access through the role Orders; the approval gives read access only.") {
		t.Fatalf("the refusal: %s", refused)
	}
	at := strings.TrimPrefix(strings.ReplaceAll(edit[1], "&amp;", "&"), h.base)
	page := b.page(at)
	path, _, _ := strings.Cut(at, "?")
	page.form(path).submit("role:r-orders", "change", "decision", "save")
	if done := does(order...); !strings.Contains(done[strings.LastIndex(done, "<h2"+` id="step`):], "<b>Done</b>") || !strings.Contains(done, "12 rye rolls") {
		t.Errorf("after the change: %s", done)
	}
	if listed = does("do", "tools"); !strings.Contains(listed, "<option>create_order</option>") {
		t.Errorf("tools after the change: %s", listed)
	}
}

// follow goes where an answer sends the browser.
func (b *browser) follow(a answer) *page {
	b.h.t.Helper()
	for a.status == http.StatusSeeOther {
		a = b.get(a.location(b.h.t).RequestURI())
	}
	return b.read(a)
}

// real does what section 5 says.
func (q *quick) real() {
	blocks := quickStart(q.t, "5. For real")
	lines := strings.Split(strings.TrimSpace(blocks[0]), "\n")
	for _, line := range lines[:len(lines)-1] {
		q.run(line)
	}
	q.begin(lines[len(lines)-1] + " --operator-listen 127.0.0.1:" + q.operator)
	q.until("http://127.0.0.1:" + q.operator + "/readyz")
	for line := range strings.Lines(blocks[1]) {
		if out := q.run("env GRANTKEEPER_OPERATOR_LISTEN=127.0.0.1:" + q.operator + " " + line); strings.Contains(line, "doctor") && !strings.Contains(out, ", 0 faults.") {
			q.t.Errorf("doctor: %s", out)
		}
	}
	q.assistantless()
}

// assistantless sees that the server which stands now has the person, and the guard
// before the service.
func (q *quick) assistantless() {
	h := &house{t: q.t, base: "http://127.0.0.1:" + q.public, operator: "http://127.0.0.1:" + q.operator, password: "rye and caraway"}
	h.signedIn("bea@bakery.example")
	if a := h.caller().get("/api/v5/orders"); a.status != 401 || !strings.Contains(a.header.Get("WWW-Authenticate"), `realm="Bakery"`) {
		q.t.Errorf("the guard: %s", a)
	}
}
