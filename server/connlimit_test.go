package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
)

// Strangers who open connections and say nothing, or begin to, make room for
// whoever comes; who is being answered stays.
func TestConnLimitMakesRoom(t *testing.T) {
	const most = 8
	var out safeBuffer
	g := &connLimit{most: most, log: slog.New(slog.NewTextHandler(&out, nil))}
	l, err := listen("127.0.0.1:0", false, g, "")
	if err != nil {
		t.Fatal(err)
	}
	begun, release := make(chan bool), make(chan bool)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			begun <- true
			<-release
		}
		fmt.Fprint(w, "answered")
	})}
	go s.Serve(l)
	t.Cleanup(func() { s.Close() })
	dial := func(say string) net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		c.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, say)
		return c
	}
	answered := func(c net.Conn) error {
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(a.Body)
		if string(b) != "answered" {
			err = errors.Join(err, fmt.Errorf("got %q", b))
		}
		return err
	}
	long := dial("GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun
	for i, says := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\nHalf: ", "GET / HTTP/1.1\r\nHost: x\r\n\r\n"} {
		for range 5 * most {
			dial(says)
		}
		for end := time.Now().Add(time.Minute); ; { // those that nobody reads yet wait for nothing
			if err := answered(dial("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
				t.Fatalf("after strangers who say %q: %v", says, err)
			}
			g.mu.Lock()
			n := len(g.all)
			g.mu.Unlock()
			if n <= most {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d: %d connections, want %d at most", i, n, most)
			}
		}
		g.mu.Lock()
		for at, c := range g.all {
			if c.place != at {
				t.Errorf("the one in place %d believes that it is in %d", at, c.place)
			}
		}
		g.mu.Unlock()
	}
	close(release)
	if err := answered(long); err != nil {
		t.Errorf("who was being answered: %v", err)
	}
	if told := strings.Count(out.String(), "level=WARN"); told != 1 {
		t.Errorf("%d lines in the log, want one a minute: %s", told, out.String())
	}
	s.Close()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		g.mu.Lock()
		n := len(g.all)
		g.mu.Unlock()
		if n == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d are left after the end", n)
		}
	}
}

// TLS and HTTP/2 read while a request is answered. Who is being answered stays all the same.
func TestConnLimitUnderTLS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, h2 := range []bool{false, true} {
		g := &connLimit{most: 8, log: slog.New(slog.DiscardHandler)}
		l, err := listen("127.0.0.1:0", true, g, "")
		if err != nil {
			t.Fatal(err)
		}
		begun, release := make(chan bool), make(chan bool)
		s := newServer(config.Checked{TLS: &tls.Config{}}, Options{}).server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			begun <- true
			<-release
		}))
		protocols := []string{"http/1.1"}
		if h2 {
			protocols = []string{"h2"}
		}
		go s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols}))
		t.Cleanup(func() { s.Close() })
		client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: h2, TLSClientConfig: &tls.Config{RootCAs: pool}}}
		over := make(chan error)
		for _, body := range []string{"", "x"} {
			go func() {
				r, err := client.Post("https://"+l.Addr().String(), "text/plain", strings.NewReader(body))
				if err == nil && (r.ProtoMajor == 2) != h2 {
					err = errors.New(r.Proto)
				}
				over <- err
			}()
			<-begun
		}
		for range 60 {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
		}
		last, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool})
		if err != nil { // it was let in after all others
			t.Fatal(err)
		}
		last.Close()
		for range 2 {
			release <- true
		}
		for range 2 {
			if err := <-over; err != nil {
				t.Errorf("HTTP/2 %t: %v", h2, err)
			}
		}
	}
}

// A request counts while its handler has all of it, however that ends.
func TestAnswering(t *testing.T) {
	c := &quietConn{}
	var rest io.Reader
	for _, tt := range []struct {
		body   string
		length int64
		header []string
		want   [2]int32
	}{
		{"x", 1, []string{"1"}, [2]int32{0, 1}},
		{"x", -1, nil, [2]int32{0, 1}},
		{"", 0, nil, [2]int32{1, 1}},
		{"", 0, []string{"0"}, [2]int32{0, 1}},
	} {
		body, want := tt.body, tt.want
		r := httptest.NewRequest("POST", "/", io.NopCloser(strings.NewReader(body))) // HTTP/2 gives one always
		r.ProtoMajor, r.ContentLength = 2, tt.length
		if tt.header != nil {
			r.Header["Content-Length"] = tt.header
		}
		r = r.WithContext(context.WithValue(r.Context(), quietKey{}, c))
		func() {
			defer func() { _ = recover() }()
			answering(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				before := c.answering.Load()
				if (r.Body == http.NoBody) != (before == 1) {
					t.Errorf("%q, length %d %v: the body is %T", body, tt.length, tt.header, r.Body)
				}
				rest = r.Body
				for range 2 {
					_, _ = io.Copy(io.Discard, r.Body)
				}
				if got := [2]int32{before, c.answering.Load()}; got != want {
					t.Errorf("%q: %d, want %d", body, got, want)
				}
				panic(http.ErrAbortHandler)
			})).ServeHTTP(nil, r)
		}()
		_, _ = io.Copy(io.Discard, rest)
		if n := c.answering.Load(); n != 0 {
			t.Errorf("%q: %d are left", body, n)
		}
	}
}

func TestMostOf(t *testing.T) {
	for files, want := range map[uint64]int{0: 0, 40: 10, 64: 16, 256: 208, 1024: 896, 65_536: 57_344, ^uint64(0): 7 << 21} {
		if got := mostOf(files); got != want {
			t.Errorf("of %d: %d, want %d", files, got, want)
		}
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	all := mostOf(uint64(files.Cur))
	if clients, services := connections(false); clients != all || services != 0 {
		t.Errorf("of this process: %d and %d", clients, services)
	}
	if clients, services := connections(true); clients != all/2 || services != all/4 {
		t.Errorf("of this process, with services: %d and %d", clients, services)
	}
}

// What strangers do to their connections is not worth a line; that none can be
// accepted any more is, but not each time.
func TestServerLog(t *testing.T) {
	var out safeBuffer
	l := log.New(&serverLog{log: slog.New(slog.NewTextHandler(&out, nil))}, "", 0)
	l.Printf("http: TLS handshake error from 192.0.2.1:1: EOF")
	if out.String() != "" {
		t.Errorf("of a stranger: %s", out.String())
	}
	var all safeBuffer
	debug := log.New(&serverLog{log: slog.New(slog.NewTextHandler(&all, &slog.HandlerOptions{Level: slog.LevelDebug}))}, "", 0)
	debug.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "HTTP/1.1 200 OK\r\n\r\nof-another-person", nil)
	if got := all.String(); !strings.Contains(got, "Unsolicited") || strings.Contains(got, "of-another-person") {
		t.Errorf("of a service: %s", got)
	}
	for range 100 {
		l.Printf("http: Accept error: %v; retrying in %v", errors.New("accept4: too many open files"), time.Second)
	}
	if got := out.String(); strings.Count(got, "level=ERROR") != 1 || !strings.Contains(got, `err="accept4: too many open files"`) {
		t.Errorf("got %s", got)
	}
}
