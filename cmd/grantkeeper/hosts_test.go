package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/grantkeeper/grantkeeper/devserver"
)

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
	dev := startDev(t, devserver.Options{})
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
	dev := startDev(t, devserver.Options{})
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
