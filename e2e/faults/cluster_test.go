package faults

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/server/servertest"
	"github.com/grantkeeper/grantkeeper/signin"
)

// binaries are the server as it is shipped, by how far its clock is ahead.
var binaries = map[time.Duration]string{0: "", 5 * time.Minute: "", -5 * time.Minute: ""}

// inside names the variable that says where the binaries are to the process that tests.
const inside = "FAULTS_BINARIES"

// TestMain builds the binaries, and tests in a network namespace of its own: a browser
// in other tests on this machine gives up what it loads when interfaces come and go.
func TestMain(m *testing.M) {
	flag.Parse()
	if *many < 1 || *askers < 1 || *steps < 1 || *thinking < 0 {
		fmt.Fprintln(os.Stderr, "-at, -askers and -steps are at least 1, -thinking at least 0")
		os.Exit(2)
	}
	dir := os.Getenv(inside)
	for ahead := range binaries {
		binaries[ahead] = filepath.Join(dir, "grantkeeper"+ahead.String())
	}
	if dir != "" {
		if err := ip("link", "set", "lo", "up"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "grantkeeper-faults-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		for ahead, name := range binaries {
			binaries[ahead] = filepath.Join(dir, name)
			build := exec.Command("go", "build", fmt.Sprintf("-race=%v", *detector), "-ldflags", "-w -X main.clockAhead="+ahead.String(), "-o", binaries[ahead], "../../cmd/grantkeeper")
			if out, err := build.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
				return 1
			}
		}
		runtime.LockOSThread() // the tests end with the thread that started them
		tests := exec.Command("/proc/self/exe", os.Args[1:]...)
		tests.Env = append(os.Environ(), inside+"="+dir)
		tests.Stdin, tests.Stdout, tests.Stderr = os.Stdin, os.Stdout, os.Stderr
		tests.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
		switch err := tests.Run(); {
		case errors.Is(err, syscall.EPERM):
			return m.Run() // without networks of the nodes' own
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}())
}

// A cluster is one installation: nodes with one configuration, and what they
// stand on.
type cluster struct {
	t        *testing.T
	dir      string
	host     string // that every node is asked for
	password string // of operators and people
	people   []string

	secret, operators string // files: the key, the operators' password

	mu    sync.Mutex
	nodes []*node
}

// A place is where a node runs, and with what.
type place struct {
	binary   string
	database string        // URL
	limiter  string        // URL of the shared counter; may be empty
	segment  *segment      // its own network; nil is this machine's
	patience time.Duration // of those who ask; zero is 8 s
}

// A node is one server process, which is started again whenever it ends.
type node struct {
	c                 *cluster
	place             place
	config            string
	environment       []string
	address, operator string
	http              *http.Client

	mu       sync.Mutex
	process  *exec.Cmd
	stopping bool
	asked    bool         // to end, as an operator does
	out      bool         // the balancer leaves it out
	silent   atomic.Int64 // since when nobody has an answer, in Unix nanoseconds; 0 when the last had one
	ended    chan struct{}
	log      *os.File
}

// addresses are those of a node's two listeners, and of who asks them.
func (p place) addresses(t testing.TB) (public, operator, client string) {
	if p.segment == nil {
		return servertest.FreePort(t), servertest.FreePort(t), "127.0.0.1"
	}
	return p.segment.clients.there + ":8080", p.segment.clients.there + ":8081", p.segment.clients.here
}

// command runs a program where the node is.
func (p place) command(program string, args ...string) *exec.Cmd {
	if p.segment == nil {
		return exec.Command(program, args...)
	}
	return exec.Command("ip", append([]string{"netns", "exec", p.segment.name, program}, args...)...)
}

// newCluster starts a node at each place.
func newCluster(t *testing.T, environment []string, places ...place) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), password: "correct-horse-battery"}
	key := make([]byte, 32)
	rand.Read(key)
	c.secret, c.operators = c.write("secret.key", base64.StdEncoding.EncodeToString(key)), c.write("operator.password", c.password)
	t.Cleanup(c.stop)
	for _, at := range places {
		c.start(environment, at)
	}
	return c
}

// start adds a node at a place, and waits until it is ready.
func (c *cluster) start(environment []string, at place) *node {
	t := c.t
	t.Helper()
	n := &node{c: c, place: at, environment: environment, out: true, ended: make(chan struct{})}
	var client string
	n.address, n.operator, client = at.addresses(t)
	if c.host == "" { // plain http is for loopback alone
		c.host = newLink(t, "127.0.0.1", n.address).address()
	}
	i := len(c.nodes)
	n.config = c.write(fmt.Sprintf("node%d.toml", i), fmt.Sprintf(`
base_urls = ["http://%s"]
secret_key_file = %q
[http]
listen = %q
trusted_proxies = ["127.0.0.1", %q]
[operator]
listen = %q
password_file = %q
[database]
url = %q
[limiter]
url = %q
[api]
rate_limit = "1000000/24h"
[log]
level = "warn"
`, c.host, c.secret, n.address, client, n.operator, c.operators, at.database, at.limiter))
	dial := &net.Dialer{Timeout: 2 * time.Second}
	n.http = &http.Client{
		Timeout:       cmp.Or(at.patience, 8*time.Second),
		Transport:     &http.Transport{DialContext: dial.DialContext, MaxIdleConnsPerHost: 64},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	log, err := os.Create(filepath.Join(c.dir, fmt.Sprintf("node%d.log", i)))
	if err != nil {
		t.Fatal(err)
	}
	n.log = log
	c.mu.Lock()
	c.nodes = append(c.nodes, n)
	c.mu.Unlock()
	go n.supervise()
	c.ready(n)
	n.leftOut(false)
	return n
}

// leftOut says whether the balancer asks a node.
func (n *node) leftOut(out bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.out = out
}

func (c *cluster) write(name, text string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// supervise keeps the process running, as systemd would.
func (n *node) supervise() {
	defer close(n.ended)
	for {
		n.mu.Lock()
		if n.stopping {
			n.mu.Unlock()
			return
		}
		p := n.place.command(n.place.binary, "serve", "--config", n.config)
		p.Stderr = n.log
		p.Env = append(os.Environ(), n.environment...)
		err := p.Start()
		n.process = p
		n.mu.Unlock()
		if err == nil {
			err = p.Wait()
		}
		n.mu.Lock()
		asked := n.stopping || n.asked
		n.asked = false
		n.mu.Unlock()
		if asked && err != nil {
			n.c.t.Errorf("a node ended with %v", err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

func (n *node) signal(s syscall.Signal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.process != nil && n.process.Process != nil {
		n.process.Process.Signal(s)
	}
}

// stop ends all nodes as an operator does, and reads what they logged.
func (c *cluster) stop() {
	for _, n := range c.nodes {
		n.mu.Lock()
		n.stopping = true
		n.mu.Unlock()
		n.signal(syscall.SIGCONT)
		n.signal(syscall.SIGTERM)
	}
	for i, n := range c.nodes {
		select {
		case <-n.ended:
		case <-time.After(time.Minute):
			n.signal(syscall.SIGKILL)
			c.t.Errorf("node %d does not end", i)
		}
		n.http.CloseIdleConnections()
		n.log.Close()
		if bad := badLine(n.log.Name()); bad != "" {
			c.t.Errorf("node %d logged %s", i, bad)
		}
	}
}

// badLine finds in a log, which may be long, what no node may write, with what follows.
func badLine(name string) string {
	log, err := os.Open(name)
	if err != nil {
		return err.Error()
	}
	defer log.Close()
	lines, found := bufio.NewScanner(log), ""
	lines.Buffer(nil, 16<<20)
	for lines.Scan() && len(found) < 4000 {
		line := lines.Text()
		if found != "" || strings.Contains(line, "DATA RACE") || strings.Contains(line, "panic:") || strings.Contains(line, "goroutine ") {
			found += line + "\n"
		}
	}
	if err := lines.Err(); err != nil {
		found += err.Error()
	}
	return found
}

// ready waits until a node says that it is.
func (c *cluster) ready(n *node) {
	c.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if a, err := n.http.Get("http://" + n.operator + "/readyz"); err == nil {
			if a.Body.Close(); a.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(n.log.Name())
			c.t.Fatalf("a node is not ready within 90 s:\n%.4000s", text)
		}
	}
}

// furnish brings an organization and as many people in it.
func (c *cluster) furnish(people int) {
	c.t.Helper()
	hash := signin.Hash(c.password) // once: a server under the race detector takes seconds for all
	var persons, members []map[string]any
	for i := range people {
		id := fmt.Sprintf("p%d", i)
		c.people = append(c.people, id)
		persons = append(persons, map[string]any{"id": id, "email": id + "@nordlys.example", "name": id, "password_hash": hash})
		members = append(members, map[string]any{"person": id, "organization": "nordlys"})
	}
	b, err := json.Marshal(map[string]any{
		"reason": "test", "people": persons, "members": members,
		"organizations": []map[string]any{{"id": "nordlys", "name": "Nordlys", "ai_integration": true}},
		"circles":       []map[string]any{{"id": "anchor", "organization": "nordlys", "name": "Nordlys"}},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	a := c.nodes[0].operate("POST", "/v1/directory", string(b))
	for end := time.Now().Add(time.Minute); a.status == http.StatusServiceUnavailable && time.Now().Before(end); a = c.nodes[0].operate("POST", "/v1/directory", string(b)) {
		time.Sleep(time.Second)
	}
	if a.status != 200 {
		c.t.Fatalf("directory: %v", a)
	}
}

// An answer of a node. Without one, the status is 0, and sent says whether the
// request may have arrived.
type answer struct {
	status int
	header http.Header
	body   []byte
	err    error
	sent   bool
}

func (a answer) String() string { return fmt.Sprintf("%d %v %.300s", a.status, a.err, a.body) }

func (a answer) member(name string) string {
	var m map[string]any
	_ = json.Unmarshal(a.body, &m)
	s, _ := m[name].(string)
	return s
}

// ask sends one request to a node, for the host of the cluster.
func (n *node) ask(method, path, body string, headers ...string) answer {
	r, err := http.NewRequest(method, "http://"+n.address+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	r.Host = n.c.host
	// An address of its own for each request, so that no limit is reached.
	r.Header.Set("X-Forwarded-For", fmt.Sprintf("10.%d.%d.%d", mrand.IntN(256), mrand.IntN(256), mrand.IntN(256)))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return n.send(r)
}

// operate sends one request to a node's operators' listener.
func (n *node) operate(method, path, body string) answer {
	r, err := http.NewRequest(method, "http://"+n.operator+path, bytes.NewReader([]byte(body)))
	if err != nil {
		return answer{err: err}
	}
	r.SetBasicAuth("operator", n.c.password)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return n.send(r)
}

func (n *node) send(r *http.Request) answer {
	a, err := n.http.Do(r)
	if err != nil {
		n.silent.Store(time.Now().UnixNano())
		return answer{err: err, sent: !errors.Is(err, syscall.ECONNREFUSED)}
	}
	defer a.Body.Close()
	body, err := io.ReadAll(a.Body)
	if err != nil {
		n.silent.Store(time.Now().UnixNano())
		return answer{err: err, sent: true}
	}
	n.silent.Store(0)
	return answer{a.StatusCode, a.Header, body, nil, true}
}

// serving are the nodes that a balancer would ask.
func (c *cluster) serving() (all []*node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		n.mu.Lock()
		if !n.out {
			all = append(all, n)
		}
		n.mu.Unlock()
	}
	return all
}

// any is one of them, by chance. A balancer prefers those that answer: one that did not, and has
// not answered since, is asked an eighth as often for some seconds.
func (c *cluster) any() *node {
	all := c.serving()
	n := all[mrand.IntN(len(all))]
	if n.isSilent() && mrand.IntN(8) > 0 {
		if all = slices.DeleteFunc(all, (*node).isSilent); len(all) > 0 {
			n = all[mrand.IntN(len(all))]
		}
	}
	return n
}

func (n *node) isSilent() bool {
	return time.Now().UnixNano()-n.silent.Load() < int64(3*time.Second)
}
