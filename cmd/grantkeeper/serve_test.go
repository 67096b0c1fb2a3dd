package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server"
)

// startServe runs serve in this process until it is stopped, or the test ends.
// change may change the configuration; the base URL is that of the listener.
func startServe(t *testing.T, scheme string, change func(*config.Config)) (base string, stderr *safeBuffer, stop func()) {
	t.Helper()
	l := good(t)
	address := freePort(t)
	l.BaseURLs = []string{scheme + "://" + address}
	l.HTTP.Listen, l.Operator.Listen, l.Gateway.Listen = address, "off", "off"
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
		ended <- runServe(ctx, serveOptions{checked: checked, file: "test.toml", drain: time.Minute, ready: func() { close(ready) }}, stderr)
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
	base, _, _ := startServe(t, "https", func(c *config.Config) { c.HTTP.TLSCertFile, c.HTTP.TLSKeyFile, pool = certificate(t) })
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
	base, _, _ := startServe(t, "http", func(*config.Config) {})
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
	base, stderr, stop := startServe(t, "http", func(c *config.Config) {
		c.HTTP.TrustedProxies = []string{"127.0.0.1"}
		c.Limiter.Networks = []config.Network{{CIDR: "192.0.2.0/24", Multiple: 2}}
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
		base, _, stop := startServe(t, "http", func(c *config.Config) {
			c.Database.URL, c.SecretKeyFile, c.Clients.Preregistered = data, key, nil
			for _, id := range ids {
				c.Clients.Preregistered = append(c.Clients.Preregistered, config.Client{ID: id, Name: "Name", RedirectURIs: []string{"https://assistant.example/cb"}})
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
		change func(*config.Config)
		want   string // "" for nothing
	}{
		{"http", func(*config.Config) {}, ""},
		{"https", func(c *config.Config) { c.HTTP.TrustedProxies = []string{"127.0.0.1"} }, ""},
		{"https", func(c *config.Config) { c.HTTP.TrustedProxies = nil }, "no proxy is trusted"},
		{"http", func(c *config.Config) { c.Operator.Listen = ":0" }, "can be reached from other machines"},
		{"http", func(c *config.Config) { c.Operator.Listen = "127.0.0.1:0" }, ""},
		{"http", func(c *config.Config) { c.HTTP.ForwardedHeader, c.HTTP.TrustedProxies = "Forwarded", nil }, "http.forwarded_header: nobody is believed in it"},
		{"http", func(c *config.Config) { c.API.Upstream = "" }, "no service answers API v5"}, // decision V46
		{"http", func(c *config.Config) { c.MCP.Upstream = "" }, "no service answers at the MCP endpoint"},
		{"http", func(c *config.Config) { c.Service.Unlisted = "" }, "no tool of mcp.upstream can be called"}, // decision V24
	} {
		_, stderr, stop := startServe(t, tt.scheme, func(c *config.Config) {
			c.Limiter.Networks, c.Gateway.Keys = nil, nil
			c.API.Upstream, c.MCP.Upstream = "http://127.0.0.1:1", "http://127.0.0.1:1/mcp"
			c.Service.KeyFile, c.Service.Unlisted = write(t, "service.key", "service-"+gatewayKey, 0o600), "service"
			tt.change(c)
		})
		stop()
		log := stderr.String()
		if !strings.Contains(log, `"msg":"started"`) || strings.Contains(log, `"WARN"`) != (tt.want != "") || !strings.Contains(log, tt.want) {
			t.Errorf("%s, want %q:\n%s", tt.scheme, tt.want, log)
		}
	}
}

// A service's own MCP server answers at the MCP endpoint, and its streams hold no stop
// up (decision V1).
func TestServeStandsBeforeAnMCPServer(t *testing.T) {
	t.Parallel()
	key := write(t, "service.key", "service-"+gatewayKey, 0o600)
	told := make(chan http.Header, 8)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	}))
	defer service.Close()
	operators := freePort(t)
	base, stderr, stop := startServe(t, "http", func(c *config.Config) {
		c.Operator.Listen, c.MCP.Upstream, c.Service.KeyFile = operators, service.URL+"/mcp?of=nordlys", key
	})
	const adaKey = "a-key-of-ada-for-scripts"
	send := func(method, url, body, name, value string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(name, value)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	password := "Basic " + base64.StdEncoding.EncodeToString([]byte("operator:long enough"))
	if a := send("POST", "http://"+operators+"/v1/directory", `{"reason":"test","people":[{"id":"ada","email":"ada@nordlys.example","name":"Ada"}],
		"organizations":[{"id":"nordlys","name":"Nordlys","ai_integration":true}],"members":[{"person":"ada","organization":"nordlys","admin":true}],
		"api_keys":[{"key":"`+adaKey+`","person":"ada","organization":"nordlys","name":"script"}]}`, "Authorization", password); a.StatusCode != 200 {
		t.Fatal(a.Status)
	}
	a := send("POST", base+"/api/v5/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "X-Auth-Token", adaKey)
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 || string(text) != `{"jsonrpc":"2.0","id":1,"result":{}}` {
		t.Errorf("%s %s, %v", a.Status, text, err)
	}
	if who, err := identity.Verify(<-told, time.Now(), []byte("service-"+gatewayKey)); err != nil || who.Person != "ada" {
		t.Errorf("%+v, %v", who, err)
	}
	stream := send("GET", base+"/api/v5/mcp", "", "X-Auth-Token", adaKey)
	defer stream.Body.Close()
	<-told
	if stream.StatusCode != 200 || stream.Header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("stream: %s %v", stream.Status, stream.Header)
	}
	stop() // ends the stream, and does not wait for it
	if log := stderr.String(); !strings.Contains(log, `"mcp_upstream":"`+service.URL+`/mcp"`) || strings.Contains(log, "of=nordlys") {
		t.Errorf("log: %s", log)
	}
	if rest, _ := io.ReadAll(stream.Body); len(rest) > 0 || strings.Contains(stderr.String(), "cut off") {
		t.Errorf("%q\n%s", rest, stderr)
	}
}

// A service behind gets API v5 but the MCP endpoint; a gateway asks the same
// guard on its own listener, where nothing else answers.
func TestServeStandsBeforeAService(t *testing.T) {
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := identity.Verify(r.Header, time.Now(), []byte("upstream-"+gatewayKey))
		fmt.Fprintln(w, "behind", who.Person, r.Header.Get("X-Forwarded-For"), r.URL.Path, err)
	}))
	defer service.Close()
	operators, gateways := freePort(t), freePort(t)
	base, stderr, stop := startServe(t, "http", func(c *config.Config) {
		c.Operator.Listen, c.Gateway.Listen = operators, gateways
		c.API.Upstream, c.API.UpstreamKeyFile = service.URL, write(t, "upstream.key", "upstream-"+gatewayKey, 0o600)
	})
	send := func(method, url, body string, headers ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(text)
	}
	const key = "a-key-of-ada-for-scripts"
	password := "Basic " + base64.StdEncoding.EncodeToString([]byte("operator:long enough"))
	if status, said := send("POST", "http://"+operators+"/v1/directory", `{"reason":"test","people":[{"id":"ada","email":"ada@nordlys.example","name":"Ada"}],
		"organizations":[{"id":"nordlys","name":"Nordlys","ai_integration":true}],"members":[{"person":"ada","organization":"nordlys","admin":true}],
		"api_keys":[{"key":"`+key+`","person":"ada","organization":"nordlys","name":"script"}]}`, "Authorization", password); status != 200 {
		t.Fatalf("directory: %d %s", status, said)
	}
	for _, c := range []struct {
		method, url, body string
		headers           []string
		status            int
		said              string // the beginning
	}{
		{"GET", base + "/api/v5/notes/1", "", []string{"X-Auth-Token", key}, 200, "behind ada 127.0.0.1 /api/v5/notes/1 <nil>"},
		{"GET", base + "/api/v5/me", "", []string{"X-Auth-Token", key}, 200, `{"person":`},
		{"GET", base + "/api/v5", "", []string{"X-Auth-Token", key}, 200, "behind ada"},
		{"GET", base + "/api/v5/notes", "", nil, 401, `{"error":"unauthorized"`},
		{"GET", base + "/api/v3/me", "", []string{"X-Auth-Token", key}, 200, `{"person":`},
		{"GET", base + "/api/v5/mcp", "", []string{"X-Auth-Token", key}, 404, `{"error":"not_found","error_description":"No service`},
		{"GET", base + "/api/v5/mcp/", "", []string{"X-Auth-Token", key}, 404, `{"error":"not_found"`},
		{"GET", base + "/api/v55", "", []string{"X-Auth-Token", key}, 404, `{"error":"not_found"`},
		{"POST", "http://" + gateways + "/v1/decisions", `{"api_key":"` + key + `"}`, []string{"X-Gateway-Key", strings.ToUpper(gatewayKey)}, 200, `{"allowed":true,"actor":{"person":"ada"`},
		{"POST", "http://" + gateways + "/v1/decisions", `{}`, []string{"X-Gateway-Key", gatewayKey}, 403, `{"error":"gateway_key_refused"`},
		{"GET", "http://" + gateways + "/v1/forward-auth", "", []string{"X-Gateway-Key", gatewayKey, "X-Auth-Token", key, "X-Original-URI", "/api/v5/x"}, 200, ""},
		{"GET", "http://" + gateways + "/v1/people", "", []string{"Authorization", password, "X-Gateway-Key", gatewayKey}, 404, `{"error":"not_found"`},
		{"GET", "http://" + gateways + "/api/v5/me", "", []string{"X-Auth-Token", key}, 404, `{"error":"not_found"`},
		{"POST", base + "/v1/decisions", "{}", []string{"X-Gateway-Key", gatewayKey}, 404, ""},
		{"POST", "http://" + operators + "/v1/decisions", "{}", []string{"X-Gateway-Key", gatewayKey}, 401, ""},
	} { // who calls, this server says itself: decision V45
		if status, said := send(c.method, c.url, c.body, c.headers...); status != c.status || !strings.HasPrefix(said, c.said) {
			t.Errorf("%s %s: %d %s, want %d %s", c.method, c.url, status, said, c.status, c.said)
		}
	}
	service.Close()
	if status, said := send("GET", base+"/api/v5/notes", "", "X-Auth-Token", key); status != 502 || strings.Contains(said, "127.0.0.1") {
		t.Errorf("the service is down: %d %s", status, said)
	}
	stop()
	log := stderr.String()
	for _, want := range []string{`"gateway":"` + gateways + `"`, `"upstream":"` + service.URL + `"`, `"route":"/v1/forward-auth"`, `"route":"/v1/decisions"`, `"route":"/api/v5/"`, "the service behind does not answer"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s:\n%s", want, log)
		}
	}
	for _, secret := range []string{gatewayKey, strings.ToUpper(gatewayKey), key, "can be reached from other machines"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s:\n%s", secret, log)
		}
	}
	if c, err := net.Dial("tcp", gateways); err == nil {
		c.Close()
		t.Error("the gateways' listener is still open")
	}
}

// What dev says to whoever tries it, serve never says, not even on loopback.
func TestServeNamesNoDemoPeople(t *testing.T) {
	t.Parallel()
	base, _, _ := startServe(t, "http", func(c *config.Config) {})
	a, err := http.Get(base + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 || !strings.Contains(string(text), `name="password"`) {
		t.Fatalf("%s %v: %s", a.Status, err, text)
	}
	for _, never := range []string{devserver.People[0].Email, remote.DevPassword, server.DevPath, "Development mode"} {
		if strings.Contains(string(text), never) {
			t.Errorf("serve says %q", never)
		}
	}
}
