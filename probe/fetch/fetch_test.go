package fetch

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/outbound"
	"github.com/grantkeeper/grantkeeper/probe"
)

// A hostile server answers one document badly, and all else as a good one.
type hostile struct {
	base  string
	paths map[string]http.HandlerFunc
	asked atomic.Int32
}

const (
	prmPath = "/.well-known/oauth-protected-resource/mcp"
	asPath  = "/.well-known/oauth-authorization-server"
)

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.asked.Add(1)
	if f := h.paths[r.URL.Path]; f != nil {
		f(w, r)
		return
	}
	switch r.URL.Path {
	case "/mcp":
		w.Header().Set("WWW-Authenticate", `Bearer resource_metadata="`+h.base+prmPath+`"`)
		w.WriteHeader(401)
	case prmPath:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"resource":%q,"authorization_servers":[%q]}`, h.base+"/mcp", h.base)
	case asPath:
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":%q,"token_endpoint":%q,"registration_endpoint":%q,"response_types_supported":["code"],"code_challenge_methods_supported":["S256"]}`,
			h.base, h.base+"/authorize", h.base+"/token", h.base+"/register")
	case "/token":
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(400)
		fmt.Fprint(w, `{"error":"invalid_request"}`)
	default:
		w.WriteHeader(404)
	}
}

func start(t *testing.T, paths map[string]http.HandlerFunc) *hostile {
	h := &hostile{paths: paths}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	h.base = s.URL
	return h
}

func rows(t *testing.T, url string, register bool, o Options) (map[string]probe.Row, *probe.Inquiry) {
	t.Helper()
	q := &probe.Inquiry{URL: url, Register: register}
	Run(t.Context(), q, o)
	all := map[string]probe.Row{}
	for _, r := range q.Rows() {
		all[r.Code] = r
	}
	return all, q
}

func body(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, s)
	}
}

func to(location string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", location)
		w.WriteHeader(302)
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		if _, err := w.Write(make([]byte, 1<<16)); err != nil {
			return
		}
	}
}

func drip(w http.ResponseWriter, r *http.Request) {
	for r.Context().Err() == nil {
		io.WriteString(w, " ")
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// raw answers with a text, whatever that is.
func raw(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			io.WriteString(conn, text)
			conn.Close()
		}
	}
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// Whatever a server does instead of an answer is one clear row, and the inquiry ends.
func TestHostileServers(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		does       http.HandlerFunc
		code, want string // row, and a part of what was seen
	}{
		{"nothing hostile", "/x", nil, "server.issuer", "http://127.0.0.1"},
		{"a document that leads elsewhere as well", "/token", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Location", "/x") }, "token.error", "is answered 200 as if"},
		{"endless body", prmPath, endless, "resource.found", "more than 1 MiB"},
		{"huge JSON", prmPath, body(`{"a":"` + strings.Repeat("x", 2<<20) + `"}`), "resource.found", "more than 1 MiB"},
		{"deep JSON", prmPath, body(strings.Repeat(`[`, 1<<19)), "resource.found", "not JSON"},
		{"slow drip", prmPath, drip, "resource.found", "in time"},
		{"no answer", prmPath, hang, "resource.found", "in time"},
		{"redirect in a circle", prmPath, to(prmPath), "resource.found", "redirects too often"},
		{"redirect to a file", prmPath, to("file:///etc/passwd"), "resource.found", "not https"},
		{"redirect to a cloud's metadata", prmPath, to("http://169.254.169.254/latest/meta-data/"), "resource.found", "private address"},
		{"redirect to a script", prmPath, to("javascript:alert(1)"), "resource.found", "not https"},
		{"redirect with a password", prmPath, to("http://a:b@127.0.0.1:1/"), "resource.found", "does not answer as HTTP"},
		{"redirect to no URL", prmPath, to("http://[::1"), "resource.found", "does not answer as HTTP"},
		{"a member twice", prmPath, body(`{"resource":"a","resource":"b"}`), "resource.found", "has the member resource twice"},
		{"escapes of a terminal", prmPath, body(`{"resource":"\u001b]0;x\u0007\u202e","authorization_servers":["\u001b[2J"]}`), "resource.identifier", `"\x1b]0;x\a\u202e"`},
		{"HTML", prmPath, body("<!DOCTYPE html><title>Sign in</title>"), "resource.found", "HTML"},
		{"not UTF-8", prmPath, body("{\"a\":\"\xff\xfe\"}"), "resource.found", "UTF-8"},
		{"issuer of another", asPath, body(`{"issuer":"https://other.example"}`), "server.issuer", "must not use them"},
		{"issuer by http", prmPath, body(`{"resource":"http://127.0.0.1/mcp","authorization_servers":["http://as.invalid"]}`), "server.issuer-form", "not https"},
		{"issuer is a file", prmPath, body(`{"resource":"http://127.0.0.1/mcp","authorization_servers":["file:///etc/passwd"]}`), "server.issuer-form", "no URL to go to"},
		{"200 with an error", "/token", body(`{"error":"invalid_request"}`), "token.error", "as if it had succeeded"},
		{"endless errors", "/token", endless, "token.answers", "more than 1 MiB"},
		{"a call without an end", "/mcp", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer scope="x"`)
			w.WriteHeader(401)
			endless(w, r)
		}, "challenge.scope", "scope=x"},
		{"a stream without an end", "/mcp", func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(401)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			drip(w, r)
		}, "challenge.status", "401"},
		{"huge header", "/mcp", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }, "target.answers", "does not answer"},
		{"no HTTP", "/mcp", raw("SSH-2.0-x\r\n\r\n"), "target.answers", "does not answer as HTTP"},
		{"a header that cannot be read", "/mcp", raw("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer \x1b[2J\r\nno colon\r\n\r\n"), "target.answers", "does not answer as HTTP"},
		{"broken off", "/mcp", func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "target.answers", "does not answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := start(t, map[string]http.HandlerFunc{tt.path: tt.does})
			each := time.Minute // all others end by themselves
			if strings.HasSuffix(tt.want, "in time") || strings.HasPrefix(tt.name, "a stream") {
				each = 2 * time.Second
			}
			got, q := rows(t, h.base+"/mcp", false, Options{Each: each})
			if r := got[tt.code]; !strings.Contains(r.Seen, tt.want) {
				t.Errorf("%s is %s: %s, want %q", tt.code, r.Result, r.Seen, tt.want)
			}
			if len(q.Exchanges) > probe.MostRequests {
				t.Errorf("asked %d times", len(q.Exchanges))
			}
		})
	}
}

// All together end, too, and what was registered is deleted even then.
func TestEndsInTime(t *testing.T) {
	var deleted atomic.Bool
	var h *hostile
	h = start(t, map[string]http.HandlerFunc{
		"/register": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"client_id":"x","registration_access_token":"t","registration_client_uri":%q}`, h.base+"/manage")
		},
		"/authorize": hang,
		"/manage": func(w http.ResponseWriter, r *http.Request) {
			deleted.Store(r.Method == http.MethodDelete && r.Header.Get("Authorization") == "Bearer t")
			w.WriteHeader(204)
		},
	})
	got, q := rows(t, h.base+"/mcp", true, Options{Each: 2 * time.Second, Within: 5 * time.Second})
	if !deleted.Load() || got["register.left"].Result != probe.OK {
		t.Errorf("deleted %v, %+v", deleted.Load(), got["register.left"])
	}
	if !slices.ContainsFunc(q.Exchanges, func(e probe.Exchange) bool { return e.Answer.Error == probe.Stopped || e.Answer.Error == probe.Slow }) {
		t.Error("nothing was cut off")
	}

	ctx, stop := context.WithCancel(t.Context())
	stop()
	q = &probe.Inquiry{URL: h.base + "/mcp", Register: true}
	if Run(ctx, q, Options{}); len(q.Exchanges) != 1 || q.Exchanges[0].Answer.Error != probe.Stopped {
		t.Errorf("after the end: %+v", q.Exchanges)
	}
}

// A registration that is under way when all ends is waited for: what it makes is deleted.
func TestEndedWhileItRegisters(t *testing.T) {
	var h *hostile
	ctx, end := context.WithCancel(t.Context())
	var left atomic.Int32
	h = start(t, map[string]http.HandlerFunc{
		"/register": func(w http.ResponseWriter, r *http.Request) {
			end()
			select {
			case <-r.Context().Done(): // made all the same, and nobody knows
			case <-time.After(200 * time.Millisecond):
			}
			left.Add(1)
			w.WriteHeader(201)
			fmt.Fprintf(w, `{"client_id":"x","registration_access_token":"t","registration_client_uri":%q}`, h.base+"/manage")
		},
		"/manage": func(w http.ResponseWriter, _ *http.Request) {
			left.Add(-1)
			w.WriteHeader(204)
		},
	})
	q := &probe.Inquiry{URL: h.base + "/mcp", Register: true}
	if Run(ctx, q, Options{}); ctx.Err() == nil || left.Load() != 0 {
		t.Errorf("%d clients are left: %+v", left.Load(), q.Exchanges)
	}
}

// Redirects are followed as clients do: a message only where it stays one.
func TestFollow(t *testing.T) {
	const from = "https://h.example/a"
	for _, tt := range []struct {
		method, follow string
		status         int
		location       string
		next, why      string
	}{
		{"GET", probe.FollowAny, 302, "/b#f", "https://h.example/b", ""},
		{"GET", probe.FollowAny, 200, "/b", "", ""},
		{"GET", probe.FollowAny, 308, "https://o.example/b", "https://o.example/b", ""},
		{"GET", probe.FollowAny, 301, "http://h.example/b", "", probe.Scheme},
		{"GET", probe.FollowAny, 301, "ftp://h.example/b", "", probe.Scheme},
		{"GET", probe.FollowAny, 301, "https://u:p@h.example/b", "", probe.Malformed},
		{"GET", probe.FollowOrigin, 301, "https://u:p@h.example/b", "", ""},
		{"GET", probe.FollowOrigin, 301, "https://o.example/b", "", ""},
		{"GET", probe.FollowOrigin, 301, "https://h.example:444/b", "", ""},
		{"GET", probe.FollowOrigin, 303, "b", "https://h.example/b", ""},
		{"GET", probe.FollowNone, 302, "/b", "", ""},
		{"POST", probe.FollowOrigin, 302, "/b", "", ""},
		{"POST", probe.FollowOrigin, 307, "/b", "https://h.example/b", ""},
		{"POST", probe.FollowOrigin, 308, "https://o.example/", "", ""},
	} {
		next, why := follow(probe.Request{Method: tt.method, Follow: tt.follow}, from, probe.Answer{Status: tt.status, Location: tt.location})
		if next != tt.next || why != tt.why {
			t.Errorf("%+v: %q, %q", tt, next, why)
		}
	}
}

// Decision O5: a public server leads to nothing private, and nobody but the person who gives it to
// an address of the link.
func TestMay(t *testing.T) {
	for _, tt := range []struct {
		public   bool
		host, ip string
		want     bool
	}{
		{true, "given.example", "8.8.8.8", true},
		{true, "other.example", "8.8.8.8", true},
		{true, "other.example", "10.0.0.1", false},
		{true, "other.example", "::ffff:127.0.0.1", false},
		{true, "given.example", "127.0.0.1", false}, // its name leads elsewhere now
		{false, "given.example", "10.0.0.1", true},
		{false, "other.example", "127.0.0.1", true},
		{false, "other.example", "169.254.169.254", false},
		{false, "other.example", "::ffff:169.254.169.254", false},
		{false, "given.example", "169.254.169.254", true},
	} {
		f := newFetcher("https://given.example/", Options{})
		f.given = "given.example"
		f.public.Store(tt.public)
		if got := f.may(tt.host, netip.MustParseAddr(tt.ip)); got != tt.want {
			t.Errorf("%+v: %v", tt, got)
		}
	}
}

// Decision O5: what the first look-up says of the given host holds for all that follow.
func TestDial(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, tt := range []struct {
		given, then string // addresses of the given host, and of what is asked next
		want        error
	}{
		{"127.0.0.1", "127.0.0.1", nil},
		{"::ffff:127.0.0.1", "::ffff:127.0.0.1", nil},
		{"8.8.8.8", "127.0.0.1", outbound.ErrPrivate},
		{"127.0.0.1 8.8.8.8", "127.0.0.1", outbound.ErrPrivate},
		{"127.0.0.1", "169.254.169.254", outbound.ErrPrivate},
	} {
		f := newFetcher("https://x.example/", Options{})
		f.lookup = func(_ context.Context, _, host string) (all []netip.Addr, err error) {
			for _, ip := range strings.Fields(map[string]string{"given": tt.given, "then": tt.then}[host]) {
				all = append(all, netip.MustParseAddr(ip))
			}
			return all, nil
		}
		none, stop := context.WithCancel(t.Context())
		stop() // the first is looked up, and not connected to
		if _, err := f.transport.DialContext(none, "tcp", "given:"+port); err == nil {
			t.Fatal("connected")
		}
		conn, err := f.transport.DialContext(t.Context(), "tcp", "then:"+port)
		if !errors.Is(err, tt.want) {
			t.Errorf("%+v: %v", tt, err)
		}
		if err == nil {
			conn.Close()
		}
	}
}

// What was given by https is asked by https alone, and its certificate has to be
// trusted.
func TestHTTPS(t *testing.T) {
	plain := start(t, nil)
	h := &hostile{}
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	h.base = s.URL
	h.paths = map[string]http.HandlerFunc{prmPath: body(fmt.Sprintf(`{"resource":%q,"authorization_servers":[%q]}`, s.URL+"/mcp", plain.base))}
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	got, _ := rows(t, s.URL+"/mcp", false, Options{Roots: roots})
	if r := got["server.found"]; r.Result != probe.Fail || !strings.Contains(r.Seen, "not https") || plain.asked.Load() > 0 {
		t.Errorf("%+v, asked %d times", r, plain.asked.Load())
	}
	got, _ = rows(t, s.URL+"/mcp", false, Options{})
	if r := got["target.answers"]; r.Result != probe.Fail || !strings.Contains(r.Seen, "not trusted") {
		t.Errorf("%+v", r)
	}
}

// Nothing listens there.
func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	got, _ := rows(t, "http://"+l.Addr().String()+"/", false, Options{})
	if r := got["target.answers"]; r.Result != probe.Fail || !strings.Contains(r.Seen, "does not answer") {
		t.Errorf("%+v", r)
	}
}
