package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The operators' listener answers for loopback, for the address at which it is
// asked and for operator.hosts, however these are spelt, and for nothing else.
func TestOperatorHost(t *testing.T) {
	four := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("10.1.2.3:8081"))
	mapped := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[::ffff:10.1.2.3]:8081"))
	six := net.TCPAddrFromAddrPort(netip.MustParseAddrPort("[2001:db8::7]:8081"))
	names, err := parseOperatorHosts([]string{"Ops.Example", "2001:db8::99"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host  string
		local net.Addr
		want  bool
	}{
		{"127.0.0.1:8081", four, true}, {"127.0.0.1", four, true}, {"127.9.9.9:1", four, true}, {"[::1]:8081", four, true}, {"[::1]", six, true},
		{"localhost:8081", four, true}, {"LocalHost", four, true}, {"a.localhost:8081", four, true}, {"[::ffff:127.0.0.1]:8081", four, true},
		{"10.1.2.3:8081", four, true}, {"10.1.2.3", mapped, true}, {"10.1.2.3:80", four, true}, {"[::ffff:10.1.2.3]", four, true},
		{"[2001:db8::7]:8081", six, true}, {"[2001:DB8:0::7]", six, true},
		{"ops.example", four, true}, {"OPS.example:8443", six, true}, {"[2001:db8::99]:8081", four, true}, {"", four, true},

		{"rebind.example:8081", four, false}, {"rebind.example", nil, false}, {"10.1.2.3", nil, false}, {"10.1.2.4:8081", four, false},
		{"[2001:db8::8]:8081", six, false}, {"[2001:db8::7%25eth0]:8081", six, false}, {"2001:db8::7", six, false},
		{"localhost.:8081", four, false}, {"ops.example.", four, false}, {"ops.example.:8081", four, false}, {"127.0.0.1.:8081", four, false},
		{"localhost.rebind.example", four, false}, {"127.0.0.1.rebind.example:8081", four, false}, {"xops.example", four, false}, {"x.ops.example", four, false},
		{"localhost@rebind.example", four, false}, {"rebind.example@localhost", four, false}, {"operator:x@127.0.0.1:8081", four, false}, {"@localhost", four, false},
		{"localhost:0", four, false}, {"localhost:99999", four, false}, {"localhost:", four, false}, {"localhost:80:80", four, false}, {"localhost:x", four, false},
		{"localhost/", four, false}, {"localhost?x", four, false}, {"localhost#x", four, false}, {"localhost\\x", four, false}, {" localhost", four, false},
		{"127.1", four, false}, {"0x7f000001", four, false}, {"2130706433", four, false}, {"0.0.0.0:8081", four, false}, {"[::]:8081", six, false}, {"[]", four, false}, {"*", four, false},
	} {
		if got := operatorHost(c.host, c.local, names); got != c.want {
			t.Errorf("Host %q at %v: %v, want %v", c.host, c.local, got, c.want)
		}
	}
	for _, bad := range []string{"", "ops.example:8081", "ops.example.", "*", "*.example", "https://ops.example", "ops.example/", "a@ops.example", "[::1]", "::1%lo", "2001:DB8:0::99", "127.1", "ümlaut.example"} {
		if names, err := parseOperatorHosts([]string{bad}); err == nil {
			t.Errorf("operator.hosts takes %q as %q", bad, names)
		}
	}
}

// A server that is not dev is asked by those names alone too: pages, metrics,
// health and the API alike. SIGHUP adds names.
func TestServesOperatorsAreAskedByTheirNamesAlone(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	p := serve(t, dir, public, operators)
	ask := func(host, path string) int {
		t.Helper()
		r, err := http.NewRequest("GET", p.operator+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.SetBasicAuth("operator", p.password)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	for _, path := range []string{"/", "/metrics", "/version", "/livez", "/readyz", "/v1/people", "/nothing"} {
		want := 200
		if path == "/nothing" {
			want = 404
		}
		if got := ask(operators, path); got != want {
			t.Errorf("%s by its address: %d, want %d", path, got, want)
		}
		if got := ask("rebind.example", path); got != 421 {
			t.Errorf("%s by a stranger's name: %d, want 421", path, got)
		}
	}
	name := filepath.Join(dir, "grantkeeper.toml")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "[operator]", "[operator]\nhosts = [\"ops.example\"]", 1))
	if err := os.WriteFile(name, text, 0o644); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.tells("the configuration was reread", 0)
	if named, other := ask("ops.example:8443", "/v1/people"), ask("rebind.example", "/v1/people"); named != 200 || other != 421 {
		t.Errorf("once it is configured: %d, and another name %d", named, other)
	}
}

// Everybody knows the password of dev's operator API, so a page whose own name
// leads to loopback must find nothing there (DNS rebinding).
func TestDevsOperatorsAreAskedByLoopbackNamesAlone(t *testing.T) {
	dev := startDev(t, devOptions{})
	_, port, _ := strings.Cut(strings.TrimPrefix(dev.Operator, "http://"), ":")
	for host, want := range map[string]int{
		"127.0.0.1:" + port: 200, "localhost:" + port: 200, "[::1]:" + port: 200, "LOCALHOST": 200,
		"evil.example:" + port: 421, "evil.example": 421, "127.0.0.1.evil.example:" + port: 421, "192.0.2.1:" + port: 421,
	} {
		r, err := http.NewRequest("GET", dev.Operator+"/v1/people", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.SetBasicAuth(dev.OperatorUser, dev.OperatorPassword)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("Host %q: %d, want %d", host, a.StatusCode, want)
		}
	}
}

// OPTIONS * comes to the gate like every request: no host is believed that is
// not ours, and there is nothing at *.
func TestOptionsOfTheWholeServer(t *testing.T) {
	dev := startDev(t, devOptions{})
	for _, at := range []string{dev.Server, dev.Operator} {
		address := strings.TrimPrefix(at, "http://")
		for host, want := range map[string]string{address: "HTTP/1.1 404 ", "evil.example": "HTTP/1.1 421 "} {
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "OPTIONS * HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", host)
			got, err := io.ReadAll(c)
			c.Close()
			if err != nil || !strings.HasPrefix(string(got), want) {
				t.Errorf("%s, Host %s: %v %.100q, want %s", at, host, err, got, want)
			}
		}
	}
}
