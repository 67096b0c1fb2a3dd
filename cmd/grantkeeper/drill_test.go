package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/drill"
	"github.com/grantkeeper/grantkeeper/remote"
)

// stale is a node whose knowledge is old: it still accepts so many calls with
// what it has seen accepted, or with -1 for ever.
func stale(t *testing.T, server string, calls int64) string {
	t.Helper()
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	var known atomic.Bool
	var left atomic.Int64
	left.Store(calls)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(a *http.Response) error {
			switch {
			case a.Request.URL.Path != "/api/v5/me":
			case a.StatusCode == http.StatusOK:
				known.Store(true)
			case known.Load() && left.Add(-1) != -1:
				a.StatusCode, a.Status = http.StatusOK, "200 OK"
			}
			return nil
		},
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL
}

func TestDrill(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	_, port, _ := strings.Cut(strings.TrimPrefix(dev.Server, "http://"), ":")
	stdout, stderr, code := ran(t, "drill", "--base-url", dev.Server, "--base-url", "http://localhost:"+port, "--operator", dev.Operator)
	if code != 0 || stderr != "" || strings.Count(stdout, "refresh invalid_grant\n") != 6 ||
		!strings.Contains(stdout, "\nEvery node refuses, at most ") || strings.Contains(stdout, "accepted before") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if _, drills := alarms(t, dev); drills != "3" {
		t.Errorf("%s drills", drills)
	}
	left := dev.operator(t, "GET", "/v1/approvals?state=live", "")["items"].([]any)
	clients := dev.operator(t, "GET", "/v1/clients?query=demo", "")["items"].([]any)
	if len(left) != 0 || len(clients) != 0 {
		t.Errorf("left: %v, %v", left, clients)
	}

	stdout, _, code = ran(t, "drill", "--base-url", dev.Server, "--operator", dev.Operator, "--json", "--rounds", "2")
	var report drill.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != 0 || !report.OK || len(report.Rounds) != 2 || report.Slowest <= 0 {
		t.Errorf("%v, exit code %d, %s", err, code, stdout)
	}
	if n := report.Rounds[0].Nodes[0]; n.Accepted != 0 || n.Refused <= 0 || n.Latest != -1 || n.Node != dev.Server {
		t.Errorf("%+v", n)
	}
}

// A lower ceiling counts on every node, and what it took is given back; a node that
// remembers what was given is found.
func TestDrillLowersTheCeiling(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	stdout, stderr, code := ran(t, "drill", "--lower", "--rounds", "2", "--base-url", dev.Server, "--operator", dev.Operator)
	if code != 0 || stderr != "" || strings.Count(stdout, "ceiling lowered") != 2 || strings.Contains(stdout, "refresh") ||
		!strings.Contains(stdout, "after the lower ceiling was acknowledged.\n") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	to, err := url.Parse(dev.Server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(a *http.Response) error {
			body, err := io.ReadAll(a.Body)
			body = bytes.ReplaceAll(body, []byte(`"access":"read"`), []byte(`"access":"change"`))
			a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			a.Header.Del("Content-Length")
			return err
		},
	})
	defer proxy.Close()
	stdout, stderr, code = ran(t, "drill", "--lower", "--rounds", "1", "--timeout", "200ms", "--base-url", dev.Server, "--node", dev.Server, "--node", proxy.URL, "--operator", dev.Operator)
	if code != 1 || !strings.Contains(stdout, "it did not refuse within 200ms") || !strings.Contains(stderr, "a node accepted what was above the ceiling") {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	// Somebody saves rules while the ceiling is low: they stay.
	at, err := url.Parse(dev.Operator)
	if err != nil {
		t.Fatal(err)
	}
	var once sync.Once
	operators := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) },
		ModifyResponse: func(a *http.Response) error {
			if a.Request.Method == "PUT" {
				once.Do(func() {
					p := dev.operator(t, "GET", a.Request.URL.Path, "")["policy"].(map[string]any)
					p["max_days"] = 14
					text, err := json.Marshal(map[string]any{"policy": p, "reason": "meanwhile"})
					if err != nil {
						t.Error(err)
					}
					dev.operator(t, "PUT", a.Request.URL.Path, string(text))
				})
			}
			return nil
		},
	})
	defer operators.Close()
	if stdout, stderr, code = ran(t, "drill", "--lower", "--rounds", "1", "--base-url", dev.Server, "--operator", operators.URL); code != 0 {
		t.Errorf("exit code %d, %s\n%s", code, stderr, stdout)
	}
	if p := dev.operator(t, "GET", "/v1/organizations/nordlys/policy", "")["policy"].(map[string]any); p["max_days"] != 14.0 {
		t.Errorf("what was saved meanwhile is gone: %v", p)
	}
	for _, o := range dev.operator(t, "GET", "/v1/organizations", "")["items"].([]any) {
		id := o.(map[string]any)["id"].(string)
		if p := dev.operator(t, "GET", "/v1/organizations/"+id+"/policy", "")["policy"].(map[string]any); p["read_only"] != false {
			t.Errorf("%s stays at read only", id)
		}
	}
	left := dev.operator(t, "GET", "/v1/approvals?state=live", "")["items"].([]any)
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// Ended by a signal, a drill leaves neither its client nor a ceiling that it lowered.
func TestDrillThatIsEnded(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	to, err := url.Parse(dev.Server)
	if err != nil {
		t.Fatal(err)
	}
	forgetful := httptest.NewServer(&httputil.ReverseProxy{ // never refuses, so the round goes on
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(a *http.Response) error {
			body, err := io.ReadAll(a.Body)
			body = bytes.ReplaceAll(body, []byte(`"access":"read"`), []byte(`"access":"change"`))
			a.Body, a.ContentLength, a.StatusCode = io.NopCloser(bytes.NewReader(body)), int64(len(body)), http.StatusOK
			a.Header.Del("Content-Length")
			return err
		},
	})
	defer forgetful.Close()
	for _, tt := range []struct {
		by    os.Signal
		code  int
		args  []string
		under func(*testing.T) bool
	}{{syscall.SIGTERM, 143, []string{"--lower"}, dev.readOnly}, {os.Interrupt, 130, nil, dev.drilling}} {
		c := command(t, append([]string{"drill", "--base-url", dev.Server, "--node", dev.Server, "--node", forgetful.URL, "--timeout", "1m", "--operator", dev.Operator}, tt.args...)...)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); !tt.under(t); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the drill does not begin")
			}
		}
		if err := c.Process.Signal(tt.by); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // the code says it
		if code := c.ProcessState.ExitCode(); code != tt.code || dev.drilling(t) || dev.readOnly(t) {
			t.Errorf("%v: exit code %d, its client is left %v, the ceiling is low %v", tt.by, code, dev.drilling(t), dev.readOnly(t))
		}
	}
}

// A node that accepts what was revoked is found, for however short a time.
func TestDrillFindsAStaleNode(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	for _, tt := range []struct {
		calls int64
		flags []string
		code  int
		says  string
	}{
		{1, nil, 1, "1 calls accepted before   FAULT: it accepted a call that began "},
		{1, []string{"--within", "1m"}, 0, "1 calls accepted before\n"},
		{-1, []string{"--timeout", "100ms"}, 1, "; it did not refuse within 100ms\n"},
		{-1, []string{"--timeout", "100ms", "--within", "1m"}, 1, "never refused, "},
	} {
		node := stale(t, dev.Server, tt.calls)
		args := append([]string{"drill", "--rounds", "1", "--base-url", dev.Server, "--node", dev.Server, "--node", node, "--operator", dev.Operator}, tt.flags...)
		stdout, stderr, code := ran(t, args...)
		if code != tt.code || !strings.Contains(stdout, tt.says) || (code == 1) != strings.Contains(stderr, "a node accepted what was revoked") {
			t.Errorf("%v: exit code %d, want %d and %q: %s\n%s", args, code, tt.code, tt.says, stderr, stdout)
		}
	}
}

func TestDrillRefuses(t *testing.T) {
	t.Parallel()
	dev, other := startDev(t, devserver.Options{}), startDev(t, devserver.Options{})
	for _, tt := range []struct {
		flags []string
		code  int
		says  string
	}{
		{[]string{"--rounds", "0"}, 2, "--rounds"},
		{[]string{"--base-url", "ftp://x"}, 2, "--base-url"},
		{[]string{"--base-url", dev.Server, "--node", "nowhere/x"}, 2, "--node"},
		{[]string{"--base-url", "http://127.0.0.1:1"}, 4, "grantkeeper demo --steps 1-2"},
		{[]string{"--base-url", dev.Server, "--node", "http://127.0.0.1:1"}, 4, "does not answer"},
		{[]string{"--base-url", dev.Server, "--node", other.Server}, 1, "a node of this installation"},
		{[]string{"--base-url", other.Server}, 1, "a node of this installation"},
		{[]string{"--base-url", "https://app.example"}, 2, "name yours with --email and --person-password-file"},
		{[]string{"--base-url", dev.Server, "--email", "nobody@nordlys.example"}, 1, "sign in: expected 303, got 422"},
	} {
		_, stderr, code := ran(t, append([]string{"drill", "--operator", dev.Operator}, tt.flags...)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", tt.flags, code, tt.code, tt.says, stderr)
		}
	}
}

func TestDrillOfAConfiguration(t *testing.T) {
	t.Parallel()
	dir, public, operators := installed(t)
	p := serve(t, dir, public, operators)
	config := filepath.Join(dir, "grantkeeper.toml")
	args := []string{"drill", "-c", config, "--operator", p.operator, "--rounds", "1"}
	_, stderr, code := ran(t, args...)
	if code != 1 || !strings.Contains(stderr, "http://"+public+": the test approval: sign in") || !strings.HasSuffix(stderr, "--email and --person-password-file\n") {
		t.Errorf("%d %s", code, stderr)
	}
	if _, stderr, code = ran(t, "demo", "-c", config); code != 1 || !strings.HasSuffix(stderr, "--email and --password-file\n") {
		t.Errorf("demo: %d %s", code, stderr)
	}
	directory := write(t, "directory.json", `{"people":[{"id":"eva","email":"eva@example.com","name":"Eva","password":"a long passphrase"}],
		"organizations":[{"id":"board","name":"Board","ai_integration":true}],"members":[{"person":"eva","organization":"board"}],
		"circles":[{"id":"all","organization":"board","name":"All"}],"roles":[{"id":"r","organization":"board","circle":"all","name":"R","fillers":["eva"]}]}`, 0o600)
	if _, stderr, code := ran(t, "directory", "import", directory, "--yes", "-c", config, "--operator", p.operator); code != 0 {
		t.Fatal(stderr)
	}
	password := write(t, "password", "a long passphrase\n", 0o600)
	stdout, stderr, code := ran(t, append(args, "--email", "eva@example.com", "--person-password-file", password)...)
	if code != 0 || !strings.Contains(stdout, "http://"+public) || !strings.Contains(stdout, "refresh invalid_grant\n") {
		t.Errorf("%d %s\n%s", code, stderr, stdout)
	}
}

// What a drill cannot undo is told, also to who has ended it.
func TestDrillThatLeavesSomething(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	to, err := url.Parse(dev.Server)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(dev.Operator)
	if err != nil {
		t.Fatal(err)
	}
	forgetful := httptest.NewServer(&httputil.ReverseProxy{ // never refuses, so the round goes on
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
		ModifyResponse: func(a *http.Response) error {
			body, err := io.ReadAll(a.Body)
			body = bytes.ReplaceAll(body, []byte(`"access":"read"`), []byte(`"access":"change"`))
			a.Body, a.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			a.Header.Del("Content-Length")
			return err
		},
	})
	defer forgetful.Close()
	var gone atomic.Bool
	through := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(at) }}
	operators := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			panic(http.ErrAbortHandler)
		}
		through.ServeHTTP(w, r)
	}))
	defer operators.Close()
	c := command(t, "drill", "--lower", "--base-url", dev.Server, "--node", dev.Server, "--node", forgetful.URL, "--timeout", "1m", "--operator", operators.URL)
	var said bytes.Buffer
	c.Stderr = &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !dev.readOnly(t); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the drill does not begin")
		}
	}
	gone.Store(true)
	if err := c.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // the code says it
	for _, want := range []string{"terminated; ", "organization nordlys may be left at read only", "client " + client.DrillID, "may be left: ", "grantkeeper client delete " + client.DrillID} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("it does not say %q: %s", want, &said)
		}
	}
	if code := c.ProcessState.ExitCode(); code != 143 || !dev.readOnly(t) || !dev.drilling(t) {
		t.Errorf("exit code %d, its client is left %v, the ceiling is low %v", code, dev.drilling(t), dev.readOnly(t))
	}
}

// What a drill was about to do when it was ended is not done after it has undone that: a change
// that is cut off on its way would arrive when all is over.
func TestDrillThatIsEndedWhileItChanges(t *testing.T) {
	t.Parallel()
	dev := startDev(t, devserver.Options{})
	for _, lower := range []bool{false, true} {
		changed := "/v1/clients"
		if lower {
			changed = "/v1/organizations/nordlys/policy"
		}
		ctx, end := context.WithCancel(t.Context())
		server, err := remote.At{URL: dev.Operator, Password: remote.DevPassword}.Connect(ctx, "", nil)
		if err != nil {
			t.Fatal(err)
		}
		late := func() {}
		server.HTTP.Transport = roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && r.URL.Path == changed && ctx.Err() == nil {
				end()
				if err := r.Context().Err(); err != nil {
					r = r.Clone(t.Context())
					late = func() {
						if a, err := http.DefaultTransport.RoundTrip(r); err != nil || a.StatusCode >= 300 {
							t.Errorf("%s: %v", changed, err)
						}
					}
					return nil, err
				}
			}
			return http.DefaultTransport.RoundTrip(r)
		})
		options := drill.Options{BaseURLs: []string{dev.Server}, Rounds: 1, Within: time.Second, GiveUp: time.Second, Lower: lower}
		if err := drill.Run(ctx, options, server, io.Discard); err == nil || ctx.Err() == nil {
			t.Errorf("lower %t: it went on to its end: %v", lower, err)
		}
		late()
		if dev.drilling(t) || dev.readOnly(t) {
			t.Errorf("lower %t: its client is left %t, the ceiling is low %t", lower, dev.drilling(t), dev.readOnly(t))
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// readOnly reports whether the ceiling over Nordlys is low.
func (r running) readOnly(t *testing.T) bool {
	t.Helper()
	return r.operator(t, "GET", "/v1/organizations/nordlys/policy", "")["policy"].(map[string]any)["read_only"] == true
}

// drilling reports whether there is a client of a drill.
func (r running) drilling(t *testing.T) bool {
	t.Helper()
	return slices.ContainsFunc(r.operator(t, "GET", "/v1/clients", "")["items"].([]any), func(one any) bool {
		return client.Drill(one.(map[string]any)["client_id"].(string))
	})
}
