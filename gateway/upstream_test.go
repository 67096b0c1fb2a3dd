package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/api/apitest"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/limit"
)

const upstreamKey = "upstream-key-0123456789abcdef0123456789ab"

// behind starts a service and a server that stands in front of it.
type behind struct {
	*house
	front   *httptest.Server
	service *httptest.Server
	served  atomic.Int32 // requests that came to the service
	log     *apitest.Lines
	access  string

	approval approval.ID
}

// newBehind: change, unless nil, changes the upstream or the front's server.
func newBehind(t *testing.T, service http.HandlerFunc, change func(*Upstream, *httptest.Server)) *behind {
	t.Helper()
	b := &behind{house: newHouse(t), log: &apitest.Lines{}}
	b.service = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.served.Add(1)
		service(w, r)
	}))
	t.Cleanup(b.service.Close)
	to, err := url.Parse(b.service.URL)
	if err != nil {
		t.Fatal(err)
	}
	b.api.Base = func(*http.Request) string { return base }
	u := &Upstream{
		URL: to, Key: func() []byte { return []byte(upstreamKey) }, API: b.api, Base: func(*http.Request) string { return base },
		Address: limit.Proxies{}.ClientAddr, Log: slog.New(slog.NewTextHandler(b.log, nil)), Streams: NewStreams(b.api, 0),
	}
	b.front = httptest.NewUnstartedServer(nil)
	if change != nil {
		change(u, b.front)
	}
	guarded := b.api.Guard(u.Handler())
	b.front.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "request-1")
		guarded.ServeHTTP(w, r)
	})
	if b.front.EnableHTTP2 {
		b.front.StartTLS()
	} else {
		b.front.Start()
	}
	t.Cleanup(b.front.Close)
	live := b.live("ada", selected)
	b.access, b.approval = live.access, live.id
	return b
}

// call sends a request with Ada's token, unless the headers say otherwise.
func (b *behind) call(method, path string, body io.Reader, headers ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequest(method, b.front.URL+path, body)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.access)
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Add(headers[i], headers[i+1]); headers[i] == "X-Auth-Token" {
			r.Header.Del("Authorization")
		}
	}
	c := b.front.Client()
	c.Transport.(*http.Transport).DisableCompression = true // what is not asked for here is asked for by nobody
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	a, err := c.Do(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { a.Body.Close() })
	return a
}

func text(t testing.TB, a *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// The service gets the request as it came, who it is for, and no credential.
func TestUpstreamGetsTheRequest(t *testing.T) {
	var got *http.Request
	var body string
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		got, body = r, string(text)
		w.WriteHeader(204)
	}, nil)
	a := b.call("PATCH", "/api/v5/notes/a%2Fb%20c?x=1&y=%2e%2e", strings.NewReader(`{"a":1}`),
		"Content-Type", "application/json", "Accept", "text/x", "X-Idempotency-Key", "k", "Cookie", "session=secret", "X-Real-IP", "1.2.3.4",
		"X-Grantkeeper-Person", "tor", "X-Grantkeeper-Status", "x", "x_grantkeeper_person", "tor", "X-Forwarded-For", "1.2.3.4", "X-Forwarded-Host", "evil.example",
		"X-Forwarded-Proto", "ftp", "X-Forwarded-Prefix", "/x", "X-Forwarded-User", "tor", "Forwarded", "for=1.2.3.4", "X-Original-URL", "/admin", "X-Rewrite-URL", "/admin",
		"X-Gateway-Key", "k", "X-Request-Id", "theirs")
	if a.StatusCode != 204 {
		t.Fatalf("%s: %s", a.Status, text(t, a))
	}
	if got.Method != "PATCH" || got.RequestURI != "/api/v5/notes/a%2Fb%20c?x=1&y=%2e%2e" || body != `{"a":1}` || got.Host != b.service.Listener.Addr().String() {
		t.Errorf("%s %s %s %q", got.Method, got.Host, got.RequestURI, body)
	}
	who, err := identity.Verify(got.Header, b.now(), []byte(upstreamKey))
	if err != nil || who.Person != "ada" || who.Client != "client-1" || who.Acts("treasurer") != "change" || who.Acts("secretary") != "read" || who.Acts("host") != "none" || who.Admin || !who.Personal {
		t.Errorf("told %+v, %v", who, err)
	}
	for name, want := range map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Host": "app.example", "X-Forwarded-Proto": "https", "X-Request-Id": "request-1",
		"Content-Type": "application/json", "Accept": "text/x", "X-Idempotency-Key": "k",
		"Accept-Encoding": "", "Authorization": "", "X-Auth-Token": "", "Cookie": "", "X-Real-Ip": "", "X_grantkeeper_person": "", "X-Forwarded-Prefix": "", "X-Forwarded-User": "", "Forwarded": "",
		"X-Original-Url": "", "X-Rewrite-Url": "", "X-Gateway-Key": "", "X-Grantkeeper-Status": "",
	} {
		if values := got.Header[name]; strings.Join(values, "|") != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	for name := range got.Header {
		if strings.Contains(name, "_") {
			t.Errorf("%s came through", name)
		}
	}
	b.call("GET", "/api/v5/notes", nil, "X-Auth-Token", adaKey)
	if who, err := identity.Verify(got.Header, b.now(), []byte(upstreamKey)); err != nil || who.Grant != "everything" || who.Client != "" || got.Header.Get("X-Auth-Token") != "" || got.Header.Get("X-Forwarded-For") == "" {
		t.Errorf("with an API key: %+v, %v, %v", who, err, got.Header)
	}
}

// The path is passed on in the bytes that were looked at: those of the client, but
// for those that no URI has, which are escaped. Every byte alike.
func TestUpstreamGetsThePath(t *testing.T) {
	var got string
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI }, nil)
	paths := map[string]string{}
	for _, same := range []string{"/api/v5/a%2Fb", "/api/v5/a%2fb", "/api/v5/a%5Cb", "/api/v5//a//", "/api/v5/a;x=1;y", "/api/v5/%3B%3F%23", "/api/v5/%61", "/api/v5/a%252Fb", "/api/v5/ä%2F"} {
		paths[same] = strings.ReplaceAll(same, "ä", "%C3%A4")
	}
	for c := byte(' ') + 1; c < 0x7f; c++ {
		switch {
		case strings.IndexByte("?#%", c) >= 0:
		case strings.IndexByte("\"<>\\^`{|}", c) >= 0:
			paths["/api/v5/a%2Fb"+string(c)+"%3Bc"] = fmt.Sprintf("/api/v5/a%%2Fb%%%02X%%3Bc", c)
		default:
			paths["/api/v5/a%2Fb"+string(c)+"%3Bc"] = "/api/v5/a%2Fb" + string(c) + "%3Bc"
		}
	}
	for path, want := range paths {
		got = ""
		if status := b.raw(t, path); status != 200 || got != want {
			t.Errorf("%s: %d, came as %q, want %q", path, status, got, want)
		}
	}
}

// raw asks for a path that no client would send, and gives the status.
func (b *behind) raw(t *testing.T, path string) int {
	t.Helper()
	conn, err := net.Dial("tcp", b.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, b.access)
	a, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	return a.StatusCode
}

// The client gets the service's answer, but for what this server says itself
// and what would act on its pages.
func TestUpstreamAnswers(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 1<<16)
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		h := w.Header()
		for name, value := range map[string]string{
			"Content-Type": "text/x", "Etag": `"1"`, "Retry-After": "7", "Www-Authenticate": "Basic", "Cache-Control": "public, max-age=60", "Expires": "0", "Set-Cookie": "session=x; Path=/",
			"Access-Control-Allow-Origin": "https://evil.example", "Access-Control-Allow-Credentials": "true", "Strict-Transport-Security": "max-age=0", "X-Request-Id": "theirs",
			"Clear-Site-Data": `"*"`, "X-Grantkeeper-Person": "tor", "Alt-Svc": `h2="evil.example:443"`,
		} {
			h.Set(name, value)
		}
		switch r.URL.Path {
		case "/api/v5/own":
			h.Set("Location", "http://"+r.Host+"//evil.example/x?y#z")
			h.Set("Content-Location", "http://"+r.Host+"/x")
		case "/api/v5/else":
			h.Set("Location", "https://else.example/x")
			h.Set("Content-Location", "https://else.example/y")
		case "/api/v5/relative":
			h.Set("Location", "/api/v5/x")
		}
		w.WriteHeader(418)
		io.WriteString(w, big)
	}, nil)
	for path, location := range map[string][2]string{
		"/api/v5/own": {base + "//evil.example/x?y#z", base + "/x"}, "/api/v5/else": {"https://else.example/x", "https://else.example/y"},
		"/api/v5/relative": {"/api/v5/x"}, "/api/v5/none": {},
	} {
		a := b.call("POST", path, strings.NewReader(big))
		if a.StatusCode != 418 || text(t, a) != big {
			t.Errorf("%s", a.Status)
		}
		for name, want := range map[string]string{
			"Content-Type": "text/x", "Etag": `"1"`, "Retry-After": "7", "Www-Authenticate": "", "Cache-Control": "no-store", "Access-Control-Allow-Origin": "*", "X-Request-Id": "request-1",
			"Expires": "", "Set-Cookie": "", "Access-Control-Allow-Credentials": "", "Strict-Transport-Security": "", "Clear-Site-Data": "", "X-Grantkeeper-Person": "", "Alt-Svc": "",
			"Location": location[0], "Content-Location": location[1],
		} {
			if got := strings.Join(a.Header[name], "|"); got != want {
				t.Errorf("%s: %s: %q, want %q", path, name, got, want)
			}
		}
	}
}

// An MCP server that the service has at the endpoint's path is reached by no spelling
// of it: what is called there would be decided as a path, and not as a tool.
func TestUpstreamIsNoWayToMCP(t *testing.T) {
	b := newBehind(t, func(http.ResponseWriter, *http.Request) {}, nil)
	for _, path := range []string{"/api/v5/mcp", "/api/v5/MCP", "/api/v5//mcp", "/api/v5/mcp/", "/api/v5/mcp;v=1", "/api/v5/%6dcp", "/api/v5/mcp%20", "/api/v5/%256dcp", "/API/v5/mcp.json", "/api/v5/mcp/x", "/api/v5%2Fmcp"} {
		if a := b.call("POST", path, strings.NewReader("{}")); a.StatusCode != 404 && a.StatusCode != 400 {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
	if n := b.served.Load(); n != 0 {
		t.Errorf("%d came to the service", n)
	}
	for _, path := range []string{"/api/v5/mcps", "/api/v5/notes/mcp", "/api/v5"} {
		if a := b.call("POST", path, strings.NewReader("{}")); a.StatusCode != 200 {
			t.Errorf("%s: %s", path, a.Status)
		}
	}
}

// What the guard refuses never comes to the service, nor does a path that it
// could read as one outside API v5.
func TestUpstreamIsGuarded(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, _ *http.Request) {}, nil)
	r, _ := http.NewRequest("GET", b.front.URL+"/api/v5/notes", nil)
	a, err := b.front.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	a.Body.Close()
	if a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") != missing {
		t.Errorf("%s %v", a.Status, a.Header)
	}
	for _, path := range []string{"/api/v5/../v3/x", "/api/v5/%2e%2e/v3/x", "/api/v5/..%2fv3", "/api/v5/..;/v3", "/api/v5/..%5cv3", "/api/v5/%252e%252e/",
		"/api/v5/a/../b", "/api/v5/%2e%2e;%2Fv5/v3/x", "/api/v5/a%2fb/../%2e%2e/v3", "/api%2Fv5/notes", "/api/v5%2Fnotes", `/api/v5/..%2fv3\x`, "/api/v5/%c0%ae%c0%ae/v3"} {
		if status := b.raw(t, path); status != 400 {
			t.Errorf("%s: %d", path, status)
		}
	}
	preflight, _ := http.NewRequest("OPTIONS", b.front.URL+"/api/v5/notes", nil)
	preflight.Header.Set("Access-Control-Request-Method", "PUT")
	if a, err := b.front.Client().Do(preflight); err != nil || a.StatusCode != 204 {
		t.Errorf("preflight: %v, %v", a, err)
	}
	if n := b.served.Load(); n != 0 {
		t.Errorf("%d requests came to the service", n)
	}
}

// A stream comes through piece by piece, and lasts longer than the server's
// timeouts, over HTTP/1.1 and HTTP/2.
func TestUpstreamStreams(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			next, gone := make(chan bool), make(chan bool)
			b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for n := 1; ; n++ {
					fmt.Fprintf(w, "data: %d\n\n", n)
					http.NewResponseController(w).Flush()
					select {
					case <-next:
					case <-r.Context().Done():
						close(gone)
						return
					}
				}
			}, func(_ *Upstream, front *httptest.Server) {
				front.Config.ReadTimeout, front.Config.WriteTimeout = 2*time.Second, 2*time.Second // of the handshake, too
				front.EnableHTTP2 = proto == "HTTP/2.0"
			})
			a := b.call("GET", "/api/v5/events", nil, "Accept", "text/event-stream")
			if a.Proto != proto {
				t.Fatal(a.Proto)
			}
			lines := bufio.NewReader(a.Body)
			for n := 1; n <= 3; n++ {
				line, err := lines.ReadString('\n')
				if err != nil || line != fmt.Sprintf("data: %d\n", n) {
					t.Fatalf("piece %d: %q, %v", n, line, err)
				}
				if _, err := lines.ReadString('\n'); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2200 * time.Millisecond) // silence beyond the timeouts
				if n == 3 {
					break
				}
				select {
				case next <- true:
				case <-gone:
					t.Fatalf("the stream is cut off behind after %d pieces", n)
				}
			}
			a.Body.Close() // and its end is felt behind
			<-gone
		})
	}
}

// An upload may last as well, while its pieces come.
func TestUpstreamTakesLongUploads(t *testing.T) {
	for _, proto := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				fmt.Fprint(w, n, err)
			}, func(_ *Upstream, front *httptest.Server) {
				front.Config.ReadTimeout, front.Config.WriteTimeout = 2*time.Second, 2*time.Second // of the handshake, too
				front.EnableHTTP2 = proto == "HTTP/2.0"
			})
			body, pieces := io.Pipe()
			go func() {
				for range 4 {
					pieces.Write(make([]byte, 1000))
					time.Sleep(800 * time.Millisecond)
				}
				pieces.Close()
			}()
			if a := b.call("POST", "/api/v5/notes", body); a.StatusCode != 200 || text(t, a) != "4000 <nil>" || a.Proto != proto {
				t.Errorf("%s %s", a.Proto, a.Status)
			}
		})
	}
}

// A service may answer before it has the whole request, as when it refuses it: the
// right is asked for both then, at once.
func TestTheRightIsAskedForBothAtOnce(t *testing.T) {
	h := newHouse(t)
	asks := h.api.Guard(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now, _ := h.api.Whole(w, r, 0)
		of := &told{u: &Upstream{API: h.api}, request: r, rights: now}
		var both sync.WaitGroup
		for _, ask := range []func() error{of.stands, of.answers} {
			both.Go(func() {
				if err := ask(); err != nil {
					t.Error(err)
				}
			})
		}
		both.Wait()
	}))
	if w := send(t, asks, "POST", base+"/api/v5/notes", "", "Authorization", "Bearer "+h.live("ada", selected).access); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// closedAfterEnd is a body as net/http has it once the answer has begun.
type closedAfterEnd struct{ reads int }

func (b *closedAfterEnd) Read(p []byte) (int, error) {
	if b.reads++; b.reads > 1 {
		return 0, http.ErrBodyReadAfterClose
	}
	return copy(p, "whole"), io.EOF
}

func (b *closedAfterEnd) Close() error { return nil }

// The transport asks a body once more after its end, which must not look like
// a broken one.
func TestTheEndOfABodyStays(t *testing.T) {
	r := httptest.NewRequest("POST", "/", nil)
	r.Body = &closedAfterEnd{}
	api.NewLasting(httptest.NewRecorder(), r, time.Minute)
	for n, want := range []string{"whole", "", ""} {
		if b, err := io.ReadAll(r.Body); string(b) != want || err != nil {
			t.Errorf("read %d: %q, %v", n, b, err)
		}
	}
}

// tripper is what leads to a service.
type tripper func(*http.Request) (*http.Response, error)

func (t tripper) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

// silence says nothing until its request is over, and then as little as HTTP/2 does.
type silence struct{ context.Context }

func (s silence) Read([]byte) (int, error) {
	<-s.Done()
	return 0, s.Err()
}

// slow takes a while for each piece.
type slow struct{ pieces []time.Duration }

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(s.pieces[0])
	s.pieces = s.pieces[1:]
	return len(p), nil
}

// The service has a time to take each piece, which does not go on while the client sends
// the next, and none once it has answered.
func TestPiecesAreTakenInTime(t *testing.T) {
	for _, c := range []struct {
		name     string
		client   []time.Duration // for each piece, in seconds
		service  []time.Duration
		answered int // pieces that are taken before the answer
		stalled  bool
	}{
		{"both slow", []time.Duration{9, 9, 9}, []time.Duration{9, 9, 9}, 3, false},
		{"a service that is slower", []time.Duration{1, 1}, []time.Duration{9, 11}, 2, true},
		{"a service that has answered", []time.Duration{1, 1, 1}, []time.Duration{1, 30, 30}, 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cut := context.WithCancelCause(t.Context())
			defer cut(nil)
			late := time.AfterFunc(10*time.Second, func() { cut(api.ErrStalled) })
			defer late.Stop()
			for i := range c.client {
				c.client[i], c.service[i] = c.client[i]*time.Second, c.service[i]*time.Second
			}
			take := func(r *http.Request, pieces []time.Duration) {
				for _, d := range pieces {
					if _, err := r.Body.Read(make([]byte, 1)); err != nil {
						t.Error(err)
					}
					time.Sleep(d)
				}
			}
			var sent *http.Request
			f := &finals{ctx: ctx, late: late, piece: 10 * time.Second, to: tripper(func(r *http.Request) (*http.Response, error) {
				sent = r
				take(r, c.service[:c.answered])
				return nil, nil
			})}
			_, _ = f.RoundTrip(httptest.NewRequest("POST", "/", &slow{c.client}))
			take(sent, c.service[c.answered:])
			time.Sleep(time.Minute)
			if stalled := context.Cause(ctx) == api.ErrStalled; stalled != c.stalled {
				t.Errorf("%s: cut %t", c.name, stalled)
			}
		})
	}
}

// A service that answers before it has taken the body has the time of its answer, whatever
// it takes of the body meanwhile.
func TestTheBodyLeavesTheAnswersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cut := context.WithCancelCause(t.Context())
		defer cut(nil)
		late := time.AfterFunc(10*time.Second, func() { cut(api.ErrStalled) })
		defer late.Stop()
		var body io.Reader
		f := &finals{ctx: ctx, late: late, piece: time.Second, to: tripper(func(r *http.Request) (*http.Response, error) {
			body = r.Body
			return nil, nil
		})}
		_, _ = f.RoundTrip(httptest.NewRequest("POST", "/", &slow{make([]time.Duration, 9)}))
		late.Reset(5 * time.Second)
		for _, cuts := range []bool{false, false, true} {
			_, _ = body.Read(make([]byte, 1))
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if (ctx.Err() != nil) != cuts {
				t.Errorf("cut %t, want %t", !cuts, cuts)
			}
		}
	})
}

// What goes wrong behind is told without saying where that is.
func TestUpstreamFaults(t *testing.T) {
	brief := func(u *Upstream, _ *httptest.Server) { u.piece = 500 * time.Millisecond }
	silent := make(chan bool)
	t.Cleanup(func() { close(silent) })
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead.Close()
	to := func(address string) func(*Upstream, *httptest.Server) {
		return func(u *Upstream, _ *httptest.Server) { u.URL = &url.URL{Scheme: "http", Host: address} }
	}
	answers := func(raw string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(c, raw)
				c.Close()
			}
		}
	}
	for _, c := range []struct {
		name    string
		service http.HandlerFunc
		change  func(*Upstream, *httptest.Server)
		headers []string
		status  int
		code    string
	}{
		{"down", nil, to(dead.Addr().String()), nil, 502, "bad_gateway"},
		{"silent", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-silent:
			case <-r.Context().Done():
			}
		}, func(u *Upstream, _ *httptest.Server) { u.wait = 30 * time.Millisecond }, nil, 504, "gateway_timeout"},
		{"no HTTP", answers("nonsense 10.1.2.3\r\n\r\n"), nil, nil, 502, "bad_gateway"},
		{"hangs up", answers(""), nil, nil, 502, "bad_gateway"},
		{"hangs up in a short answer", answers("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), nil, nil, 502, "bad_gateway"},
		{"takes nothing as signed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "not signed at 10.1.2.3", http.StatusUnauthorized)
		}, nil, nil, 502, "bad_gateway"},
		{"switches protocols unasked", answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"), nil, nil, 502, "bad_gateway"},
		{"switches protocols when asked", func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade")+r.Header.Get("Connection") != "" {
				w.WriteHeader(200) // which fails the test
				return
			}
			answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")(w, r)
		}, nil, []string{"Connection", "Upgrade", "Upgrade", "websocket"}, 502, "bad_gateway"},
		{"a key that signs nothing", nil, func(u *Upstream, _ *httptest.Server) { u.Key = func() []byte { return []byte(upstreamKey)[:8] } }, nil, 500, "server_error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBehind(t, c.service, c.change)
			a := b.call("GET", "/api/v5/notes?secret=1", nil, c.headers...)
			said := text(t, a)
			if a.StatusCode != c.status || !strings.Contains(said, `"error":"`+c.code+`"`) || !strings.Contains(said, `"reference":"request-1"`) {
				t.Errorf("%s %s", a.Status, said)
			}
			for _, address := range []string{b.service.Listener.Addr().String(), dead.Addr().String(), "10.1.2.3", "127.0.0.1"} {
				if strings.Contains(said, address) {
					t.Errorf("it tells an address: %s", said)
				}
			}
			if log := b.log.String(); !strings.Contains(log, "request-1") || strings.Contains(log, "secret=1") || strings.Contains(log, b.access) {
				t.Errorf("log: %s", log)
			}
		})
	}
	t.Run("a change that may have been made", func(t *testing.T) {
		for _, c := range []struct {
			method string
			change func(*Upstream, *httptest.Server)
			again  bool
		}{{"POST", nil, false}, {"DELETE", nil, false}, {"GET", nil, true}, {"POST", to(dead.Addr().String()), true}} {
			b := newBehind(t, answers(""), c.change)
			if said := text(t, b.call(c.method, "/api/v5/notes", nil)); strings.Contains(said, "Try again") != c.again {
				t.Errorf("%s: %s", c.method, said)
			}
		}
	})
	t.Run("a client that stops sending", func(t *testing.T) {
		b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				t.Error("the service saw a whole body")
			}
		}, brief)
		for _, sent := range []int{4, maxHeld + 1000} { // before the service hears of it, and after
			conn, err := net.Dial("tcp", b.front.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			fmt.Fprintf(conn, "POST /api/v5/notes HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer %s\r\nContent-Length: 1000000\r\n\r\n%s", b.access, strings.Repeat("x", sent))
			a, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			if a.StatusCode != 408 {
				t.Errorf("after %d bytes: %s\n%s", sent, a.Status, b.log)
			}
		}
	})
	t.Run("a service that takes nothing", func(t *testing.T) {
		for _, size := range []int{maxHeld, 64 << 20} {
			hold := make(chan bool)
			b := newBehind(t, nil, func(u *Upstream, front *httptest.Server) {
				brief(u, front)
				l, err := net.Listen("tcp", "127.0.0.1:0") // which nobody reads from
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					if c, err := l.Accept(); err == nil {
						_ = c.(*net.TCPConn).SetReadBuffer(1 << 10)
						<-hold
						c.Close()
					}
				}()
				t.Cleanup(func() { l.Close() })
				u.URL, u.wait = &url.URL{Scheme: "http", Host: l.Addr().String()}, 100*time.Millisecond
			})
			if a := b.call("POST", "/api/v5/notes", bytes.NewReader(make([]byte, size))); a.StatusCode != 504 {
				t.Errorf("%d bytes: %s\n%s", size, a.Status, b.log)
			}
			close(hold)
		}
	})
	t.Run("a service that stops in a short answer", func(t *testing.T) {
		b := newBehind(t, nil, func(u *Upstream, _ *httptest.Server) {
			u.wait, u.to = 100*time.Millisecond, tripper(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, ContentLength: 100, Header: http.Header{}, Body: io.NopCloser(silence{r.Context()})}, nil
			})
		})
		if a := b.call("GET", "/api/v5/notes", nil); a.StatusCode != 504 {
			t.Errorf("%s\n%s", a.Status, b.log)
		}
	})
	t.Run("a client that stops reading", func(t *testing.T) {
		gone := make(chan bool)
		b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
			piece := make([]byte, 1<<20)
			for r.Context().Err() == nil {
				w.Write(piece)
			}
			close(gone)
		}, brief)
		conn, err := net.Dial("tcp", b.front.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /api/v5/notes HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer %s\r\n\r\n", b.access)
		<-gone // and the service is not kept busy for ever
	})
	t.Run("what is no last answer is none", func(t *testing.T) {
		for _, head := range []string{"042 Odd", "407 Proxy Authentication Required", "200 OK\r\nX-Long: " + strings.Repeat("x", 80<<10)} {
			b := newBehind(t, answers("HTTP/1.1 "+head+"\r\nContent-Length: 1\r\n\r\nx"), nil)
			if a := b.call("GET", "/api/v5/notes", nil); a.StatusCode != 502 {
				t.Errorf("%.40q: %s", head, a.Status)
			}
		}
	})
	t.Run("half an answer does not look whole", func(t *testing.T) {
		b := newBehind(t, answers("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nhalf"), nil)
		a := b.call("GET", "/api/v5/notes", nil)
		if half, err := io.ReadAll(a.Body); err == nil {
			t.Errorf("taken for whole: %q", half)
		}
	})
}

// What comes behind the body is no way around the headers: some servers take
// trailers for headers.
func TestUpstreamGetsNoTrailers(t *testing.T) {
	var got http.Header
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		got = r.Trailer
		w.WriteHeader(204)
	}, nil)
	c, err := net.Dial("tcp", b.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /api/v5/notes HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer %s\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"+
		"Trailer: X-Grantkeeper-Person, X-Grantkeeper-Signature\r\n\r\n1\r\nx\r\n0\r\nX-Grantkeeper-Person: tor\r\nX-Grantkeeper-Signature: s\r\n\r\n", b.access)
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 204 ") {
		t.Fatalf("%v: %s", err, answer)
	}
	if len(got) != 0 {
		t.Errorf("the service got the trailers %v", got)
	}
}

// What the service says before its answer, and behind it, gives the client no header
// that would not pass with it, and takes none of this server's away.
func TestBeforeAndBehindAnAnswer(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer c.Close()
		fmt.Fprint(c, "HTTP/1.1 103 Early Hints\r\nSet-Cookie: session=early\r\nX-Early: 1\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Set-Cookie, Grpc-Status\r\n\r\n"+
			"1\r\nx\r\n0\r\nSet-Cookie: session=late\r\nGrpc-Status: 0\r\nCache-Control: public\r\nX-Grantkeeper-Person: tor\r\n\r\n")
	}, nil)
	c, err := net.Dial("tcp", b.front.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /api/v5/notes HTTP/1.1\r\nHost: app.example\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", b.access)
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") {
		t.Fatalf("%v: %s", err, answer)
	}
	for said, want := range map[string]bool{
		"\r\nCache-Control: no-store\r\n": true, "\r\nX-Request-Id: request-1\r\n": true, "\r\nRatelimit: ": true, "\r\nGrpc-Status: 0\r\n": true,
		"Cookie": false, "Early": false, "public": false, "Grantkeeper": false,
	} {
		if strings.Contains(string(answer), said) != want {
			t.Errorf("%q: want %v in %s", said, want, answer)
		}
	}
}

// A connection that nobody has used for as long as a service keeps one is used no
// more: the service may end it just as a change is sent, which is not sent again.
func TestUpstreamIsGivenNoStaleConnection(t *testing.T) {
	var by []string // of the service's connections, one request after the other
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) { by = append(by, r.RemoteAddr) }, nil)
	for range 10 { // a busy machine may come to leave it alone later than it is done with
		if a := b.call("POST", "/api/v5/organizations/nordlys/circles", strings.NewReader("{}")); a.StatusCode != 200 {
			t.Fatalf("status %d", a.StatusCode)
		}
		if len(by) > 1 && by[len(by)-1] != by[len(by)-2] {
			break
		}
		time.Sleep(api.IdleConnection + 50*time.Millisecond)
	}
	if api.IdleConnection >= 2*time.Second || by[len(by)-1] == by[len(by)-2] {
		t.Errorf("connections %v, idle for up to %v", by, api.IdleConnection)
	}
}

// Neither calls nor previews wait on a connection whose other side is gone.
func TestDeadConnections(t *testing.T) {
	apitest.GivesUpTheDead(t, api.NewTransport(time.Minute))
	var p Previews
	p.begin()
	apitest.GivesUpTheDead(t, p.http.Transport.(*http.Transport))
}
