package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// certificate writes a certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	pool.AppendCertsFromPEM([]byte(cert))
	return write(t, "cert.pem", cert, 0o644), write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), 0o600), pool
}

// startServe runs serve in this process until it is stopped, or the test ends.
// change may change the configuration; the base URL is that of the listener.
func startServe(t *testing.T, scheme string, change func(*Config)) (base string, stderr *safeBuffer, stop func()) {
	t.Helper()
	l := good(t)
	address := freePort(t)
	l.BaseURLs = []string{scheme + "://" + address}
	l.HTTP.Listen, l.Operator.Listen = address, "off"
	l.Config.Database.URL = "sqlite://" + filepath.Join(t.TempDir(), "test.db")
	change(&l.Config)
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	stderr = &safeBuffer{}
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan bool), make(chan error, 1)
	go func() {
		ended <- runServe(ctx, checked, "test.toml", time.Minute, stderr, nil, func() { close(ready) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("serve ended: %v\n%s", err, stderr)
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return l.BaseURLs[0], stderr, stop
}

func TestServeWithItsOwnTLS(t *testing.T) {
	t.Parallel()
	var pool *x509.CertPool
	base, _, _ := startServe(t, "https", func(c *Config) { c.HTTP.TLSCertFile, c.HTTP.TLSKeyFile, pool = certificate(t) })
	for _, version := range []string{"HTTP/1.1", "HTTP/2.0"} {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: version == "HTTP/2.0"}
		a, err := (&http.Client{Transport: transport}).Get(base + "/.well-known/oauth-authorization-server")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(a.Body)
		a.Body.Close()
		transport.CloseIdleConnections()
		if err != nil || a.StatusCode != 200 || a.Proto != version || a.Header.Get("Strict-Transport-Security") != "max-age=31536000" ||
			!strings.Contains(string(text), `"issuer":"`+base+`"`) {
			t.Errorf("%s: %s %s %v %s", version, a.Proto, a.Status, a.Header, text)
		}
	}
	if a, err := http.Get("http://" + strings.TrimPrefix(base, "https://")); err == nil {
		a.Body.Close()
		if a.StatusCode != 400 {
			t.Errorf("plain http: %s", a.Status)
		}
	}
	old := &tls.Config{RootCAs: pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}
	if c, err := tls.Dial("tcp", strings.TrimPrefix(base, "https://"), old); err == nil {
		c.Close()
		t.Error("TLS 1.1 was taken")
	}
}

// Request line and headers have 32 KiB at most (decision L5).
func TestServeBoundsHeaders(t *testing.T) {
	t.Parallel()
	base, _, _ := startServe(t, "http", func(*Config) {})
	for size, want := range map[int]int{31 << 10: 200, 33 << 10: 431} {
		r, err := http.NewRequest("GET", base+"/.well-known/oauth-authorization-server", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Filler", strings.Repeat("x", size))
		r.Close = true
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		if a.StatusCode != want {
			t.Errorf("%d bytes of header: %s, want %d", size, a.Status, want)
		}
	}
}

// The client's address comes from a trusted proxy, and a network may have a
// multiple of the limits (decisions M2 and L3): the 21st registration of an
// hour is refused, from everywhere else.
func TestServeBehindAProxy(t *testing.T) {
	t.Parallel()
	base, stderr, stop := startServe(t, "http", func(c *Config) {
		c.HTTP.TrustedProxies = []string{"127.0.0.1"}
		c.Limiter.Networks = []NetworkConfig{{"192.0.2.0/24", 2}}
	})
	register := func(forwarded string) int {
		r, err := http.NewRequest("POST", base+"/oauth/register", strings.NewReader(`{"redirect_uris":["https://a.example/cb"]}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("X-Forwarded-For", forwarded)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	for address, n := range map[string]int{"203.0.113.1": 20, "203.0.113.2": 20, "192.0.2.1": 40} {
		for i := range n {
			if got := register("198.51.100.9, " + address); got != 201 {
				t.Fatalf("registration %d of %s: %d", i+1, address, got)
			}
		}
		if got := register(address); got != 429 {
			t.Errorf("registration %d of %s: %d", n+1, address, got)
		}
	}
	stop() // which writes what waits
	if log := stderr.String(); !strings.Contains(log, "a network has more than the contract's rate limits") {
		t.Errorf("it does not say that the contract is left:\n%s", log)
	}
}

// A client that is preregistered is known; taken out of the configuration it
// is disabled (decision R6).
func TestServePreregistersClients(t *testing.T) {
	t.Parallel()
	data := "sqlite://" + filepath.Join(t.TempDir(), "test.db")
	key := write(t, "secret.key", strings.Repeat("0f1e2d3c", 8), 0o600)
	start := func(ids ...string) (string, func()) {
		base, _, stop := startServe(t, "http", func(c *Config) {
			c.Database.URL, c.SecretKeyFile, c.Clients = data, key, nil
			for _, id := range ids {
				c.Clients = append(c.Clients, ClientConfig{id, "Name", []string{"https://assistant.example/cb"}})
			}
		})
		return base, stop
	}
	authorize := func(base, id string) int {
		a, err := http.Get(fmt.Sprintf("%s/oauth/authorize?client_id=%s&redirect_uri=https://assistant.example/cb&response_type=code", base, id))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(a.Body)
		a.Body.Close()
		if a.StatusCode == 400 && strings.Contains(string(text), "does not know this app") {
			return 404
		}
		return a.StatusCode
	}
	base, stop := start("one", "two")
	if one, none := authorize(base, "one"), authorize(base, "none"); one == 404 || none != 404 {
		t.Errorf("configured %d, unknown %d", one, none)
	}
	stop()
	base, stop = start("two")
	if one, two := authorize(base, "one"), authorize(base, "two"); one != 404 || two == 404 {
		t.Errorf("taken out %d, left %d", one, two)
	}
	stop()
}

// What is seldom meant is warned of at the start, and nothing else is.
func TestServeWarns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		scheme string
		change func(*Config)
		want   string // "" for nothing
	}{
		{"http", func(*Config) {}, ""},
		{"https", func(c *Config) { c.HTTP.TrustedProxies = []string{"127.0.0.1"} }, ""},
		{"https", func(c *Config) { c.HTTP.TrustedProxies = nil }, "no proxy is trusted"},
		{"http", func(c *Config) { c.Operator.Listen = ":0" }, "can be reached from other machines"},
		{"http", func(c *Config) { c.Operator.Listen = "127.0.0.1:0" }, ""},
	} {
		_, stderr, stop := startServe(t, tt.scheme, func(c *Config) { c.Limiter.Networks = nil; tt.change(c) })
		stop()
		log := stderr.String()
		if !strings.Contains(log, `"msg":"started"`) || strings.Contains(log, `"WARN"`) != (tt.want != "") || !strings.Contains(log, tt.want) {
			t.Errorf("%s, want %q:\n%s", tt.scheme, tt.want, log)
		}
	}
}
