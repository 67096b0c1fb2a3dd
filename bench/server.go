package main

import (
	"bufio"
	"cmp"
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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// build compiles the server into the folder, as `make build` does.
func build(ctx context.Context, folder string) (binary string, err error) {
	binary = filepath.Join(folder, "grantkeeper")
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, "github.com/grantkeeper/grantkeeper/cmd/grantkeeper")
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/grantkeeper/grantkeeper").Output()
	if err != nil {
		return "", fmt.Errorf("find the server: %w", err)
	}
	c.Dir, c.Env = strings.TrimSpace(string(root)), append(os.Environ(), "CGO_ENABLED=0") // its module, and not the bench's, says what it needs
	c.Stderr = os.Stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("build the server: %w", err)
	}
	return binary, nil
}

// A server is one process under measurement.
type server struct {
	process   *exec.Cmd
	ended     chan error
	public    string        // address
	operators string        // address of the operators' listener
	ready     time.Duration // from its start to the first 200 of /readyz
}

const configuration = `base_urls = [%q]
secret_key_file = %q

[http]
listen = %q
trusted_proxies = ["127.0.0.1/32"]

[operator]
listen = %q
password_file = %q

[database]
url = %q
max_staleness = %q
`

// operatorPassword opens the operators' API of a server under measurement.
const operatorPassword = "of-the-bench-and-of-nobody-else"

// staleness is the bound within which a node answers calls from memory, where
// that is measured.
const staleness = "5s"

// patience is how long a server may take to be ready: with a million people on
// a busy machine, minutes.
const patience = 10 * time.Minute

// startServer starts the program in a folder that has its key and perhaps its
// database, and waits until it is ready. It logs to a file there. It ends with
// ctx.
func startServer(ctx context.Context, binary, folder string) (*server, error) {
	return startServerOn(ctx, binary, folder, "sqlite://"+filepath.Join(folder, databaseName), "", "")
}

// startServerOn is startServer with a database anywhere, with a bound on
// staleness, "" being exact, and with further settings.
func startServerOn(ctx context.Context, binary, folder, database, within, further string) (*server, error) {
	ports, err := freeAddresses(2)
	if err != nil {
		return nil, err
	}
	public, operators := ports[0], ports[1]
	config, password := filepath.Join(folder, "grantkeeper"+within+".toml"), filepath.Join(folder, "operator.password")
	if err := os.WriteFile(password, []byte(operatorPassword+"\n"), 0o600); err != nil {
		return nil, err
	}
	text := fmt.Sprintf(configuration, issuer, filepath.Join(folder, "secret.key"), public, operators, password, database, cmp.Or(within, "0s")) + further
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(folder, "server.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &server{process: exec.CommandContext(ctx, binary, "serve", "-c", config), ended: make(chan error, 1), public: public, operators: operators}
	s.process.Stderr = log
	for _, e := range os.Environ() { // the file alone says how it is set
		if !strings.HasPrefix(e, "GRANTKEEPER_") {
			s.process.Env = append(s.process.Env, e)
		}
	}
	begin := time.Now()
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	go func() { s.ended <- s.process.Wait() }()
	if err := s.await(operators, begin); err != nil {
		s.kill()
		return nil, fmt.Errorf("%w: see %s", err, log.Name())
	}
	return s, nil
}

// freeAddresses gives loopback addresses that nobody listens on now.
func freeAddresses(n int) ([]string, error) {
	var all []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close()
		all = append(all, l.Addr().String())
	}
	return all, nil
}

// await asks every 2 ms whether the server is ready.
func (s *server) await(operators string, begin time.Time) error {
	for time.Since(begin) < patience {
		if isReady(operators) {
			s.ready = time.Since(begin)
			return nil
		}
		select {
		case err := <-s.ended:
			s.ended <- err
			return fmt.Errorf("the server ended before it was ready: %v", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return errors.New("the server is not ready")
}

func isReady(operators string) bool {
	a, err := http.Get("http://" + operators + "/readyz")
	if err != nil {
		return false
	}
	a.Body.Close()
	return a.StatusCode == http.StatusOK
}

// operate asks the operators' API, and reads its answer.
func (s *server) operate(ctx context.Context, method, path string, body io.Reader, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.operators+path, body)
	if err != nil {
		return err
	}
	r.SetBasicAuth("operator", operatorPassword)
	r.Header.Set("Content-Type", "application/json")
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, a.Status)
	}
	return json.NewDecoder(a.Body).Decode(into)
}

// stop lets the server finish.
func (s *server) stop() error {
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := <-s.ended; err != nil {
		return fmt.Errorf("the server ended: %w", err)
	}
	s.ended <- nil
	return nil
}

// kill ends the server at once, whatever it is doing: what it has answered
// must be in its files. It may be called again.
func (s *server) kill() {
	_ = s.process.Process.Kill() // it may have ended
	s.ended <- <-s.ended
}

// resident is the physical memory of the process now, in bytes: VmRSS, files
// that it has mapped included.
func (s *server) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		return 0, fmt.Errorf("memory: %w", err)
	}
	return residentOf(string(text))
}

// residentOf reads proc_pid_status(5).
func residentOf(status string) (int64, error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory: %w", err)
			}
			return kib << 10, nil
		}
	}
	return 0, errors.New("memory: the process has none")
}

// --- the bare server

// bareWord as the first argument makes this program the bare server.
const bareWord = "serve-bare"

// bareAnswer is 300 bytes of JSON.
var bareAnswer = func() string {
	const open, close = `{"bare":true,"padding":"`, `"}`
	return open + strings.Repeat("x", 300-len(open)-len(close)) + close
}()

// serveBare serves what the arguments name, by net/http and nothing else, until
// its input ends. It says its address first.
func serveBare(args []string, in io.Reader, out io.Writer) error {
	handler, err := bareServer(args[0], strings.Join(args[1:], ""))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, in)
		l.Close()
	}()
	if _, err := fmt.Fprintln(out, l.Addr()); err != nil {
		return err
	}
	err = http.Serve(l, handler)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func bareHandler(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, bareAnswer)
}

// startBare starts a bare process of a kind, and gives its address and what ends it.
func startBare(ctx context.Context, kind ...string) (address string, end func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, err
	}
	c := exec.CommandContext(ctx, self, append([]string{bareWord}, kind...)...)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := c.Start(); err != nil {
		return "", nil, err
	}
	end = func() error { return errors.Join(in.Close(), c.Wait()) }
	if address, err = bufio.NewReader(out).ReadString('\n'); err != nil {
		return "", nil, errors.Join(fmt.Errorf("the bare server: %w", err), end())
	}
	return strings.TrimSpace(address), end, nil
}
