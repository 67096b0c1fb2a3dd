package e2e

import (
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A redis is a server for rate limits, of a test's own.
type redis struct {
	t       testing.TB
	port    string
	command *exec.Cmd
}

func startRedis(t testing.TB) *redis {
	t.Helper()
	r := &redis{t: t, port: freePort(t)}
	r.start()
	t.Cleanup(r.kill)
	return r
}

func (r *redis) start() {
	r.t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		program, err = exec.LookPath("valkey-server")
	}
	if err != nil {
		r.t.Fatal("this test needs redis-server: run scripts/setup-debian.sh")
	}
	r.command = exec.Command(program, "--port", r.port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
	r.command.Dir = r.t.TempDir()
	r.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := r.command.Start(); err != nil {
		r.t.Fatal(err)
	}
	for range 3000 {
		if c, err := net.Dial("tcp", "127.0.0.1:"+r.port); err == nil {
			c.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	r.t.Fatal("redis-server does not answer")
}

func (r *redis) kill() {
	r.command.Process.Kill()
	r.command.Wait()
}

// toml is the part of a configuration that counts limits there.
func (r *redis) toml() string { return "[limiter]\nurl = \"redis://127.0.0.1:" + r.port + "/0\"\n" }

// registrations sends n in turn to each of the servers, and counts those that were
// let through.
func registrations(callers []*caller, n int) (passed int) {
	for i := range n {
		if a := callers[i%len(callers)].postJSON("/oauth/register", `{}`); a.status != 429 {
			passed++
		}
	}
	return passed
}

// says waits until the process has logged a text.
func (h *house) says(text string) {
	h.t.Helper()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(h.stderr.String(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("it does not say %q within a minute:\n%s", text, h.stderr)
		}
	}
}

// I-12, I-13: the limit holds in the sum of two processes, and by each one's memory
// while the shared counter is away.
func TestI12I13_SharedLimits(t *testing.T) {
	t.Parallel()
	r := startRedis(t)
	houses := []*house{serve(t, served{clients: r.toml()}), serve(t, served{clients: r.toml()})}
	from := func(address string) (callers []*caller) {
		for _, h := range houses {
			callers = append(callers, h.callerFrom(address))
		}
		return callers
	}
	if got := registrations(from("127.9.0.1"), 50); got != 20 {
		t.Errorf("two processes let %d registrations of one address through, want 20 in the sum", got)
	}
	r.kill()
	alone := from("127.9.0.2")
	if got := registrations(alone[:1], 30); got != 20 { // neither knows of the other
		t.Errorf("one process lets %d through while the counter is away, want 20", got)
	}
	for _, h := range houses {
		h.callerFrom("127.9.0.3").postJSON("/oauth/register", `{}`)
		h.says("the shared rate limits are away")
		if got := h.caller().get(h.operator + "/metrics"); !strings.Contains(string(got.body), "\ngrantkeeper_rate_limiter_away 1\n") {
			t.Error("the metric does not say that the counter is away")
		}
	}
	r.start()
	for _, h := range houses {
		h.says("the shared rate limits are back")
		if got := h.caller().get(h.operator + "/metrics"); !strings.Contains(string(got.body), "\ngrantkeeper_rate_limiter_away 0\n") {
			t.Error("the metric does not say that the counter is back")
		}
		if got := strings.Count(h.stderr.String(), "the shared rate limits are"); got != 2 {
			t.Errorf("%d lines about the counter, want 2:\n%s", got, h.stderr)
		}
	}
	if got := registrations(from("127.9.0.4"), 50); got != 20 {
		t.Errorf("after the counter's return %d were let through, want 20 in the sum", got)
	}
}
