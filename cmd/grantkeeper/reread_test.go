package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// log waits for a line with the text after those that were there before.
func (p *process) tells(text string, before int) {
	p.Helper()
	for range 2400 {
		if strings.Count(p.stderr.String(), text) > before {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	p.Fatalf("the log has no further %q:\n%s", text, p.stderr)
}

// SIGHUP puts in force what can change, says what cannot, and leaves
// everything as it is when something is not valid.
func TestServeRereads(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	p := serve(t, dir, public, operators)
	name := filepath.Join(dir, "grantkeeper.toml")
	original, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(public, ":")
	ask := func(host, forwarded, path string) (int, string) {
		t.Helper()
		r, err := http.NewRequest("GET", p.public+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		r.Header.Set("X-Forwarded-For", forwarded)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, _ := io.ReadAll(a.Body)
		return a.StatusCode, string(text)
	}
	const metadata = "/.well-known/oauth-authorization-server"
	second, client := "localhost:"+port, "/oauth/authorize?client_id=late&redirect_uri=https://assistant.example/cb&response_type=code"
	before := func(when string) {
		t.Helper()
		if status, _ := ask(second, "", metadata); status != 421 {
			t.Errorf("%s: the second host is answered %d", when, status)
		}
		if _, page := ask(public, "", client); !strings.Contains(page, "does not know this app") {
			t.Errorf("%s: the late client is known", when)
		}
	}
	before("at the start")
	changed := strings.Replace(string(original), "base_urls = [", fmt.Sprintf("base_urls = [%q, ", "http://"+second), 1) + `
[[clients]]
id = "late"
name = "Late"
redirect_uris = ["https://assistant.example/cb"]
[limiter]
networks = [{cidr = "192.0.2.0/24", multiple = 2}]
[session]
idle = "1h"
`
	changed = strings.Replace(changed, "[http]", "[http]\ntrusted_proxies = [\"127.0.0.1\"]", 1)
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		p.signal(syscall.SIGHUP)
	}
	for i, bad := range []string{
		strings.Replace(changed, "base_urls", "base_url", 1),
		strings.Replace(changed, "multiple = 2", "multiple = 0", 1),
		strings.Replace(changed, "https://assistant.example/cb", "http://assistant.example/cb", 1),
		changed + "[http]\n", "base_urls = [", "",
	} {
		put(bad)
		p.tells("what was in force stays so", i)
		before(fmt.Sprint("bad file ", i))
	}
	put(changed)
	p.tells("the configuration was reread", 0)
	if status, text := ask(second, "", metadata); status != 200 || !strings.Contains(text, `"issuer":"http://`+second+`"`) {
		t.Errorf("the second host: %d %s", status, text)
	}
	if status, page := ask(public, "203.0.113.9", client); status != 400 || strings.Contains(page, "does not know this app") {
		t.Errorf("the late client: %d %s", status, page)
	}
	p.tells(`"client_addr":"203.0.113.9"`, 0)
	p.tells(`"settings":"session.idle"`, 0)
	register := func(from string) int {
		r, _ := http.NewRequest("POST", p.public+"/oauth/register", strings.NewReader("{}"))
		r.Header.Set("X-Forwarded-For", from)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	for from, want := range map[string]int{"192.0.2.7": 40, "198.51.100.7": 20} {
		n := 0
		for register(from) != 429 {
			n++
		}
		if n != want {
			t.Errorf("%d registrations from %s, want %d", n, from, want)
		}
	}
	put(strings.Replace(changed, "[session]", "[log]\nlevel = \"error\"\n[session]", 1))
	quiet := false
	for tries := 0; !quiet && tries < 400; tries++ { // it says nothing any more, not even this
		lines := strings.Count(p.stderr.String(), "\n")
		ask(public, "", "/quiet")
		time.Sleep(400 * time.Millisecond) // the log is written by then
		quiet = strings.Count(p.stderr.String(), "\n") == lines
	}
	if !quiet {
		t.Error("log.level was not reread")
	}
	put(string(original))
	p.tells("the configuration was reread", 1)
	before("as it was")
}

// The operators' password, the gateways' keys and the look of pages are what
// their files say after SIGHUP, and what an open page fetches stays.
func TestServeRereadsSecretsAndLook(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	name, gateways := filepath.Join(dir, "grantkeeper.toml"), freePort(t)
	original, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const one, two = "the-first-key-of-a-gateway-0123456789", "another-key-of-a-gateway-0123456789abc"
	key := write(t, "gateway.key", one+"\n", 0o600)
	put := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	gateway := fmt.Sprintf("\n[gateway]\nlisten = %q\n[[gateway.keys]]\nname = \"proxy\"\nkey_file = %q\nscopes = [\"forward-auth\"]\n", gateways, key)
	put(name, string(original)+gateway)
	p := serve(t, dir, public, operators)
	status := func(method, url, header, value string) int {
		t.Helper()
		r, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if header == "" {
			r.SetBasicAuth("operator", value)
		} else {
			r.Header.Set(header, value)
		}
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.Body.Close()
		return a.StatusCode
	}
	stylesheet := func() string {
		t.Helper()
		a, err := http.Get(p.public + "/signin")
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		page, _ := io.ReadAll(a.Body)
		_, after, _ := strings.Cut(string(page), `rel="stylesheet" href="`)
		path, _, found := strings.Cut(after, `"`)
		if !found {
			t.Fatalf("no stylesheet: %s", page)
		}
		return path
	}
	before := stylesheet()
	asked := func(when, password, other, key, otherKey string) {
		t.Helper()
		got := []int{status("GET", p.operator+"/v1/status", "", password), status("GET", p.operator+"/v1/status", "", other),
			status("GET", "http://"+gateways+"/v1/forward-auth", "X-Gateway-Key", key), status("GET", "http://"+gateways+"/v1/forward-auth", "X-Gateway-Key", otherKey)}
		if want := []int{200, 401, 400, 403}; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	asked("at the start", p.password, "the new password", one, two)
	put(filepath.Join(dir, "operator.password"), "the new password\n")
	put(key, two+"\n")
	asked("before it was reread", p.password, "the new password", one, two)
	put(name, string(original)+gateway+"[branding]\naccent = \"#7a1fa2\"\naccent_dark = \"#d8a8ee\"\n")
	p.signal(syscall.SIGHUP)
	p.tells("the configuration was reread", 0)
	asked("afterwards", "the new password", p.password, two, one)
	if after := stylesheet(); after == before || status("GET", p.public+before, "X", "x") != 200 || status("GET", p.public+after, "X", "x") != 200 {
		t.Errorf("the stylesheet was %s and is %s", before, after)
	}
	put(key, "short\n")
	put(filepath.Join(dir, "operator.password"), "a third password\n")
	p.signal(syscall.SIGHUP)
	p.tells("what was in force stays so", 0)
	asked("after a fault", "the new password", "a third password", two, "short")
	if strings.Contains(p.stderr.String(), "need a restart") || strings.Contains(p.stderr.String(), "only after a restart") {
		t.Errorf("it waits for a restart:\n%s", p.stderr)
	}
}

// A new certificate is shown to whoever comes next.
func TestServeRereadsItsCertificate(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	name := filepath.Join(dir, "grantkeeper.toml")
	original, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var pool *x509.CertPool
	put := func() {
		cert, key, of := certificate(t)
		pool = of
		text := strings.Replace(strings.ReplaceAll(string(original), "http://"+public, "https://"+public), "[http]",
			fmt.Sprintf("[http]\ntls_cert_file = %q\ntls_key_file = %q", cert, key), 1)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put()
	p := serve(t, dir, public, operators)
	shown := func() error {
		c, err := tls.Dial("tcp", public, &tls.Config{RootCAs: pool})
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := shown(); err != nil {
		t.Fatal(err)
	}
	put()
	if err := shown(); err == nil {
		t.Fatal("the new certificate is shown before it was reread")
	}
	p.signal(syscall.SIGHUP)
	p.tells("the configuration was reread", 0)
	if err := shown(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name, original, 0o644); err != nil { // without TLS
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	p.tells("cannot be switched on or off", 0)
	if err := shown(); err != nil {
		t.Error(err)
	}
}

// DX-11: SIGTERM under load loses no request that was sent before a balancer
// could notice.
func TestDX11SIGTERMWhileOthersCall(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	for range 20 {
		if losesNothing(t, serve(t, dir, public, operators)) {
			return
		}
	}
	t.Error("this machine is too busy to ask anything while the listener lingers")
}

// losesNothing ends a process while others call. It gives false when nobody asked after the
// signal, before the listener was closed as it is to be.
func losesNothing(t *testing.T, p *process) bool {
	t.Helper()
	var noticed atomic.Bool
	var signalled atomic.Pointer[time.Time]
	since := func() time.Duration { // the signal
		if at := signalled.Load(); at != nil {
			return time.Since(*at)
		}
		return 0
	}
	var sent, closed atomic.Int64
	var workers sync.WaitGroup
	for i := range 16 {
		workers.Go(func() {
			c := &http.Client{Transport: &http.Transport{DisableKeepAlives: i%2 == 0}}
			for !noticed.Load() && since() < lingering/2 {
				a, err := c.Post(p.public+"/oauth/revoke", "application/x-www-form-urlencoded", strings.NewReader("token=x"))
				if errors.Is(err, syscall.ECONNREFUSED) && since() >= lingering {
					return // on its way for so long that the listener is closed
				} else if err != nil {
					t.Errorf("a request was lost: %v", err)
					return
				}
				if text, err := io.ReadAll(a.Body); err != nil || a.StatusCode != 400 && a.StatusCode != 429 {
					t.Errorf("%s %s %v", a.Status, text, err)
				}
				a.Body.Close()
				if sent.Add(1); a.Close {
					closed.Add(1)
				}
			}
			c.CloseIdleConnections()
		})
	}
	for sent.Load() < 500 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	now := time.Now()
	signalled.Store(&now)
	p.signal(syscall.SIGTERM)
	for draining := false; !draining; time.Sleep(50 * time.Millisecond) {
		a, err := http.Get(p.operator + "/readyz")
		if err != nil && since() >= lingering {
			break // whatever was under way may be answered by now
		} else if err != nil {
			t.Fatalf("the operators' listener has gone: %v", err)
		}
		draining = a.StatusCode == 503
		a.Body.Close()
	}
	time.Sleep(500 * time.Millisecond) // so long the balancer takes
	noticed.Store(true)
	workers.Wait()
	if code := p.exits(); code != 0 {
		t.Errorf("exit code %d\n%s", code, p.stderr)
	}
	if answered := int64(strings.Count(p.stderr.String(), `"route":"/oauth/revoke"`)); answered != sent.Load() {
		t.Errorf("%d sent, %d in the log", sent.Load(), answered)
	}
	return closed.Load() > 0 || t.Failed()
}
