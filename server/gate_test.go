package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/limit"
)

// A gate over a handler, and what it logs.
func newGate(t *testing.T, next http.HandlerFunc) (*Gate, func() []map[string]any) {
	t.Helper()
	hosts, err := config.ParseHosts([]string{"https://app.example", "http://127.0.0.1:8080"})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var log strings.Builder
	g := &Gate{Next: next, Base: hosts.Base, Address: limit.Proxies{}.ClientAddr, Log: slog.New(slog.NewJSONHandler(lockedWriter{&mu, &log}, nil))}
	return g, func() (all []map[string]any) {
		mu.Lock()
		defer mu.Unlock()
		lines := bufio.NewScanner(strings.NewReader(log.String()))
		for lines.Scan() {
			var one map[string]any
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		return all
	}
}

type lockedWriter struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

func get(h http.Handler, url string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", url, nil)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestGateRefusesOtherHosts(t *testing.T) {
	g, _ := newGate(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "in") })
	for host, want := range map[string]int{
		"app.example": 200, "APP.example": 200, "app.example:443": 200, "127.0.0.1:8080": 200,
		"app.example:8443": 421, "app.example:80": 421, "127.0.0.1": 421, "127.0.0.1:8081": 421, "localhost:8080": 421,
		"evil.example": 421, "app.example.evil.example": 421, "app.example.": 421, "": 421, "app.example, evil.example": 421,
	} {
		w := get(g, "http://x/secret-path?q=1", func(r *http.Request) { r.Host = host })
		if w.Code != want {
			t.Errorf("Host %q: %d, want %d", host, w.Code, want)
		}
		if w.Code == 421 && host != "" && strings.Contains(w.Body.String()+fmt.Sprint(w.Header()), host) {
			t.Errorf("Host %q is repeated in %s", host, w.Body)
		}
	}
}

func TestGateHeaders(t *testing.T) {
	g, _ := newGate(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, w.Header().Get("X-Request-Id"))
	})
	id := regexp.MustCompile(`^[0-9a-f]{16}$`)
	seen := map[string]bool{}
	for range 100 {
		w := get(g, "https://app.example/", func(r *http.Request) { r.Header.Set("X-Request-Id", "0000000000000000") })
		got := w.Header().Get("X-Request-Id")
		if !id.MatchString(got) || seen[got] || got == "0000000000000000" || w.Body.String() != got {
			t.Fatalf("request ID %q, the door saw %q", got, w.Body)
		}
		seen[got] = true
	}
	for url, want := range map[string]string{"http://app.example/": "max-age=31536000", "http://127.0.0.1:8080/": ""} {
		h := get(g, url).Header()
		if h.Get("Strict-Transport-Security") != want || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", url, h)
		}
	}
	if h := get(g, "https://evil.example/").Header(); h.Get("X-Request-Id") == "" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("a refused host: %v", h)
	}
	var draining atomic.Bool
	g.Draining = &draining
	if h := get(g, "https://app.example/").Header(); h.Get("Connection") != "" {
		t.Errorf("not draining: %v", h)
	}
	draining.Store(true)
	if h := get(g, "https://app.example/").Header(); h.Get("Connection") != "close" {
		t.Errorf("draining: %v", h)
	}
}

// One line for each request, with the pattern and never the address.
func TestGateLog(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /people/{id}", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		io.WriteString(w, "four")
	})
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) {})
	g, log := newGate(t, mux.ServeHTTP)
	g.Address = func(*http.Request) netip.Addr { return netip.MustParseAddr("2001:db8::7") }
	get(g, "https://app.example/people/secret1?code=secret2#secret3", func(r *http.Request) { r.Method = "POST"; r.Header.Set("Authorization", "secret4") })
	get(g, "https://app.example/silent?state=secret5")
	get(g, "https://app.example/nothing/secret6-that-is-longer-than-words/x%22y?secret=secret6")
	get(g, "https://secret7.example/")
	get(g, "https://app.example/silent", func(r *http.Request) { r.Method = "SECRET8" })
	want := []struct {
		method, route string
		status, bytes float64
	}{
		{"POST", "/people/{id}", 418, 4}, {"GET", "/silent", 200, 0}, {"GET", "none", 404, 19}, {"GET", "none", 421, 57}, {"other", "/silent", 200, 0},
	}
	got := log()
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		l := got[i]
		if l["msg"] != "request" || l["method"] != w.method || l["route"] != w.route || l["status"] != w.status || l["bytes"] != w.bytes ||
			l["client_addr"] != "2001:db8::7" || len(fmt.Sprint(l["request_id"])) != 16 || l["duration_ms"] == nil {
			t.Errorf("line %d: %v, want %+v", i, l, w)
		}
	}
	if s := strings.ToLower(fmt.Sprint(got)); strings.Contains(s, "secret") {
		t.Errorf("the log has a secret: %s", s)
	}
	for i := range got { // of what is not there alone the path is told
		if path := got[i]["path"]; i == 2 && path != "/nothing/*/*" || i != 2 && path != nil {
			t.Errorf("line %d: path %v", i, path)
		}
	}
}

// The line that is written without slog is the one that slog would write.
func TestGateLineIsSlogs(t *testing.T) {
	told := said{}
	g, log := newGate(t, func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = "GET /a/{b}"
		tell(struct{ http.ResponseWriter }{w}, "lost", approval.ID{}, "") // nobody can tell whose it is
		tell(&answer{ResponseWriter: w}, "another", approval.ID{}, "")
		tell(wrapped{w}, told.client, told.approval, told.fault)
		tell(w, "", approval.ID{}, "")
		if told.client == "x" {
			w.WriteHeader(http.StatusNotFound)
		}
		w.Write(make([]byte, 12345))
	})
	longest := said{strings.Repeat(`"\`, client.MaxID/2), approval.ID{1, 15: 255}, "temporarily_unavailable"}
	for i, address := range []netip.Addr{{}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")} {
		told = []said{{}, {client: "x"}, longest}[i]
		g.Address = func(*http.Request) netip.Addr { return address }
		g.JSON = nil
		get(g, "https://app.example/")
		var direct strings.Builder
		g.JSON = &direct
		get(g, "https://app.example/")
		lines := log()
		var got map[string]any
		if err := json.Unmarshal([]byte(direct.String()), &got); err != nil || !strings.HasSuffix(direct.String(), "}\n") {
			t.Fatalf("%v: %s", err, direct.String())
		}
		want := lines[len(lines)-1]
		for _, changing := range []string{"time", "request_id", "duration_ms"} {
			if fmt.Sprintf("%T", got[changing]) != fmt.Sprintf("%T", want[changing]) {
				t.Errorf("%s: %v, slog %v", changing, got[changing], want[changing])
			}
			delete(got, changing)
			delete(want, changing)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("\n got %v\nwant %v", got, want)
		}
	}
}

// wrapped is what a door may make of an answer.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// A path is logged without what could be a secret or end a line, and bounded.
func TestAppendPath(t *testing.T) {
	for path, want := range map[string]string{
		"": "/", "/": "/", "/robots.txt": "/robots.txt", "/api/v5/Notes_1/x-y": "/api/v5/Notes_1/x-y", "//a//": "//a//",
		"/12345678901234567890/123456789012345678901": "/12345678901234567890/*", "/a b/\"/\n/é/%2e/a@b.example/\xff": "/*/*/*/*/*/*/*",
		"/svo_" + strings.Repeat("a", 60): "/*", strings.Repeat("/12345678901234567890", 9): strings.Repeat("/12345678901234567890", 5) + "/...",
		strings.Repeat("/", 1000): strings.Repeat("/", maxPath) + "/...",
	} {
		if got := string(appendPath([]byte("x"), path)); got != "x"+want {
			t.Errorf("%.40q: %q, want %q", path, got, want)
		}
	}
}

func TestGateSurvivesPanics(t *testing.T) {
	g, log := newGate(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Set-Cookie", "half=done")
		panic("table secret_things is broken")
	})
	for accept, kind := range map[string]string{"": "application/json", "text/html,*/*": "text/html; charset=utf-8"} {
		w := get(g, "https://app.example/", func(r *http.Request) { r.Header.Set("Accept", accept) })
		id := w.Header().Get("X-Request-Id")
		if w.Code != 500 || w.Header().Get("Content-Type") != kind || id == "" || !strings.Contains(w.Body.String(), id) ||
			strings.Contains(w.Body.String(), "secret") || w.Header().Get("Set-Cookie") != "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("Accept %q: %d %v %s", accept, w.Code, w.Header(), w.Body)
		}
	}
	lines := log()
	if len(lines) != 4 || lines[0]["msg"] != "panic" || lines[0]["fault"] != "table secret_things is broken" || lines[0]["stack"] == nil ||
		lines[1]["msg"] != "request" || lines[1]["status"] != 500. || lines[0]["request_id"] != lines[1]["request_id"] {
		t.Errorf("log: %v", lines)
	}

	// Half an answer must not look like a whole one.
	g, _ = newGate(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "half"); panic("late") })
	server := httptest.NewServer(g)
	defer server.Close()
	g.Base = nil
	r, err := http.Get(server.URL)
	if err == nil {
		_, err = io.ReadAll(r.Body)
		r.Body.Close()
	}
	if err == nil {
		t.Error("a panic after the first bytes gave a whole answer")
	}
	// And one that aborts on purpose is not reported.
	g, log = newGate(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	func() {
		defer func() {
			if recover() != http.ErrAbortHandler {
				t.Error("an abort was swallowed")
			}
		}()
		get(g, "https://app.example/")
	}()
	if len(log()) != 0 {
		t.Errorf("an abort was logged: %v", log())
	}
}

func TestGateLetsAnswersFlush(t *testing.T) {
	g, log := newGate(t, func(w http.ResponseWriter, r *http.Request) {
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		w.(http.Flusher).Flush()
	})
	if w := get(g, "https://app.example/"); !w.Flushed {
		t.Error("not flushed")
	}
	if got := log(); len(got) != 1 || got[0]["status"] != 200. {
		t.Errorf("log: %v", got)
	}
}

// Answers that are used again must not tell of each other.
func TestGateKeepsRequestsApart(t *testing.T) {
	g, log := newGate(t, func(w http.ResponseWriter, r *http.Request) {
		n := len(r.URL.Query().Get("n"))
		if n%2 == 0 {
			tell(w, fmt.Sprint("c", n), approval.ID{byte(n)}, "fault")
		}
		w.WriteHeader(400 + n)
		io.WriteString(w, strings.Repeat("x", n))
	})
	var wait sync.WaitGroup
	for n := range 40 {
		wait.Go(func() {
			if w := get(g, "https://app.example/?n="+strings.Repeat("n", n+1)); w.Code != 401+n || w.Body.Len() != n+1 {
				t.Errorf("%d: %d, %d bytes", n, w.Code, w.Body.Len())
			}
		})
	}
	wait.Wait()
	for _, l := range log() {
		n := int(l["bytes"].(float64))
		if said := n%2 == 0; (l["client_id"] == fmt.Sprint("c", n)) != said || (l["error"] == "fault") != said || (l["approval_id"] != nil) != said {
			t.Errorf("line: %v", l)
		}
		if l["status"].(float64)-400 != l["bytes"].(float64) {
			t.Errorf("line: %v", l)
		}
	}
}

// Log lines wait for others, but not for long, and not for the next one.
func TestLinesAreWrittenSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out safeBuffer
		l := NewLines(&out)
		io.WriteString(l, "before the banner\n")
		time.Sleep(time.Hour)
		if got := out.String(); got != "" {
			t.Errorf("before Start: %q", got)
		}
		l.Start()
		time.Sleep(flushEvery)
		synctest.Wait()
		if got := out.String(); got != "before the banner\n" {
			t.Errorf("after Start: %q", got)
		}
		io.WriteString(l, "the last\n")
		l.Close()
		if got := out.String(); got != "before the banner\nthe last\n" {
			t.Errorf("after Close: %q", got)
		}
	})
}

func TestLogFormats(t *testing.T) {
	for _, tt := range []struct {
		format         string
		terminal, json bool
	}{{"auto", true, false}, {"auto", false, true}, {"text", false, false}, {"json", true, true}} {
		var b strings.Builder
		log, requests := NewLogger(&b, new(slog.LevelVar), tt.format, tt.terminal)
		log.Info("x")
		log.Debug("hidden")
		if json.Valid([]byte(b.String())) != tt.json || (requests != nil) != tt.json || strings.Contains(b.String(), "hidden") {
			t.Errorf("%+v: %s", tt, b.String())
		}
	}
	// The level can change while it runs, for lines about requests too.
	var b strings.Builder
	level := new(slog.LevelVar)
	level.Set(slog.LevelWarn)
	log, requests := NewLogger(&b, level, "json", false)
	g := &Gate{Next: http.NotFoundHandler(), Address: limit.Proxies{}.ClientAddr, Log: log, Level: level, JSON: requests}
	get(g, "/quiet")
	level.Set(slog.LevelInfo)
	get(g, "/told")
	if strings.Count(b.String(), `"msg":"request"`) != 1 {
		t.Errorf("at level warn and then info: %s", b.String())
	}
}

type nowhere struct{ header http.Header }

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) WriteHeader(int)             {}
func (n *nowhere) Write(p []byte) (int, error) { return len(p), nil }

// What the gate costs a request, logging to a buffer included.
func BenchmarkGate(b *testing.B) {
	hosts, err := config.ParseHosts([]string{"https://app.example"})
	if err != nil {
		b.Fatal(err)
	}
	log := NewLines(io.Discard)
	log.Start()
	defer log.Close()
	body := []byte("{}")
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = "/.well-known/oauth-authorization-server"
		w.WriteHeader(200)
		w.Write(body)
	})
	g := &Gate{Next: next, Base: hosts.Base, Address: limit.Proxies{}.ClientAddr}
	g.Log, g.JSON = NewLogger(log, new(slog.LevelVar), "json", false)
	slow := *g
	slow.JSON = nil
	for name, h := range map[string]http.Handler{"bare": next, "gate": g, "gate by slog": &slow} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				r := httptest.NewRequest("GET", "https://app.example/", nil)
				w := &nowhere{http.Header{}}
				for pb.Next() {
					h.ServeHTTP(w, r)
				}
			})
		})
	}
}

func TestAppendTime(t *testing.T) {
	east, west := time.FixedZone("east", 5*3600+1800), time.FixedZone("west", -8*3600)
	at := time.Date(2026, 2, 28, 23, 59, 58, 0, time.UTC)
	for _, nanoseconds := range []int{0, 1, 10, 999, 1000, 120_000_000, 100_000_001, 123_456_789, 999_999_999, 1_000_000_000, 2_050_000_000} {
		for _, where := range []*time.Location{time.UTC, east, west, time.Local} {
			now := at.Add(time.Duration(nanoseconds)).In(where)
			if got, want := string(appendTime([]byte("at "), now)), "at "+now.Format(time.RFC3339Nano); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

func TestMilliseconds(t *testing.T) {
	for _, d := range []time.Duration{0, 999, time.Microsecond, 50 * time.Microsecond, 100 * time.Microsecond, 999 * time.Microsecond,
		time.Millisecond, 1010 * time.Microsecond, 1500 * time.Microsecond, 12345678 * time.Microsecond} {
		want := strconv.FormatFloat(float64(d.Microseconds())/1000, 'f', -1, 64)
		if got := string(appendMilliseconds(nil, d)); got != want {
			t.Errorf("%s: %s, want %s", d, got, want)
		}
	}
}
