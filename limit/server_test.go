package limit

import (
	"fmt"
	"log/slog"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// A testServer is a server of the tests' own: redis-server, or valkey-server.
type testServer struct {
	port    string
	dir     string
	process *exec.Cmd
}

func newServer(t testing.TB) *testServer {
	t.Helper()
	r := &testServer{port: freePort(t), dir: t.TempDir()}
	r.start(t)
	t.Cleanup(func() { r.kill() })
	return r
}

// freePort gives one that stays the server's while that is down.
func freePort(t testing.TB) string {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return strconv.Itoa(port)
}

func (r *testServer) start(t testing.TB, options ...string) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		program, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		t.Fatal("the tests of shared limits need redis-server: run scripts/setup-debian.sh")
	}
	r.process = exec.Command(program, append([]string{
		"--port", r.port, "--bind", "127.0.0.1", "--dir", r.dir, "--save", "", "--appendonly", "no"}, options...)...)
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	for range 6000 {
		if answer := r.command("PING"); answer == "+PONG" || strings.HasPrefix(answer, "-NOAUTH") {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("redis-server does not answer")
}

// kill is kill -9.
func (r *testServer) kill() {
	if r.process != nil {
		r.process.Process.Kill()
		r.process.Wait()
		r.process = nil
	}
}

// command sends one command and gives the first line of the answer.
func (r *testServer) command(words ...string) string {
	first, _, _ := strings.Cut(r.answer(words...), "\r\n")
	return first
}

func (r *testServer) answer(words ...string) string {
	c, err := net.DialTimeout("tcp", "127.0.0.1:"+r.port, time.Minute)
	if err != nil {
		return ""
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(c, "$%d\r\n%s\r\n", len(w), w)
	}
	line := make([]byte, 4096)
	n, _ := c.Read(line)
	return string(line[:n])
}

// value is the string that a command answers.
func (r *testServer) value(words ...string) string {
	_, value, _ := strings.Cut(r.answer(words...), "\r\n")
	return strings.TrimSuffix(value, "\r\n")
}

func (r *testServer) url() string { return "redis://127.0.0.1:" + r.port + "/0" }

// share connects one node to the server.
func (r *testServer) share(t testing.TB, o ValkeyOptions) *Valkey {
	t.Helper()
	server, err := ParseServer(r.url())
	if err != nil {
		t.Fatal(err)
	}
	s := Connect(server, o)
	t.Cleanup(s.Close)
	return s
}

// windows makes the windows of one kind of counter.
type windows struct {
	addresses func(Limit, Networks) *Addresses
	names     func(Limit) *Names
}

// both runs a test on the counter in memory and on the shared one, which has to
// behave alike.
func both(t *testing.T, test func(t *testing.T, w windows)) {
	t.Run("memory", func(t *testing.T) { test(t, windows{NewAddresses, NewNames}) })
	t.Run("shared", func(t *testing.T) { test(t, sharedWindows(t)) })
}

// sharedWindows are windows in a server, each a new one, with the test's time:
// noon is now.
func sharedWindows(t *testing.T) windows {
	t.Helper()
	r := newServer(t)
	base := time.Now().Truncate(time.Microsecond)
	s := r.share(t, ValkeyOptions{timeout: time.Minute, now: func(at time.Time) int64 { return base.Add(at.Sub(noon)).UnixMicro() }})
	t.Cleanup(func() {
		if s.Away() {
			t.Error("the server went away during the test")
		}
	})
	made := 0
	name := func() string { made++; return fmt.Sprint("test", made) }
	return windows{
		func(l Limit, n Networks) *Addresses { return s.Addresses(name(), l, n) },
		func(l Limit) *Names { return s.Names(name(), l) },
	}
}

// logged collects what a node logs.
type logged struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
