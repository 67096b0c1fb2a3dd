package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

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
