package flows

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// The hosts of the installation, and what its other doors are opened by.
const (
	service    = "Svalinn"
	operatorPW = "operator-of-the-flows"
	gatewayKey = "0f1e2d3c4b5a69788796a5b4c3d2e1f0"
	handoffKey = "a-hand-off-secret-of-32-characters-or-more"
)

var bases = []string{"https://app.flows.example", "https://eu.flows.example"}

// settings is the configuration; the folder holds its secrets.
const settings = `base_urls = ["https://app.flows.example", "https://eu.flows.example"]
secret_key_file = "%[1]s/secret.key"
operator.password_file = "%[1]s/password"
operator.listen = "127.0.0.1:0"
http.listen = "127.0.0.1:0"
http.trusted_proxies = ["127.0.0.0/8"]
database.url = %[2]q
api.upstream = "%[3]s"
mcp.upstream = "%[3]s/mcp"
service.key_file = "%[1]s/gateway.key"
signin.handoff = {url = "https://service.flows.example/handoff", key_files = ["%[1]s/handoff.key"]}
log.level = "debug"
[gateway]
listen = "127.0.0.1:0"
keys = [{name = "gate", key_file = "%[1]s/gateway.key", scopes = ["forward-auth", "decisions", "directory-read"]}]
[[rules]]
call = "GET /api/v5/roles/{role}/items"
touches = "role"
role_from = ["path:role"]
private = true
[[rules]]
call = "POST /api/v5/roles/{role}/items"
touches = "role"
role_from = ["path:role"]
[[rules]]
call = "POST /api/v5/own"
touches = "personal"
[[rules]]
call = "POST /api/v5/settings"
touches = "admin"
[[rules]]
tool = "read_item"
touches = "role"
role_from = ["argument:/role"]
access = "read"
private = true
[[rules]]
tool = "change_item"
touches = "role"
role_from = ["argument:/role"]
access = "change"
[[rules]]
tool = "change_own"
touches = "personal"
access = "change"
[[rules]]
tool = "change_settings"
touches = "admin"
`

// A house is the real server behind its three listeners, with a service behind it, on a
// clock that only a walk moves.
type house struct {
	server                    *server.Server
	clock                     atomic.Int64 // Unix seconds
	real                      bool         // time is the database's, which no walk moves (T12)
	public, operator, gateway *wire
	logged                    servertest.Buffer
	reached                   atomic.Int64 // calls that the service behind was told of
	walks                     int
	close                     func()
}

// begin is when each house begins.
var begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// open starts a house; database is "" for SQLite in a folder of its own, in memory where
// there is such a folder: a walk commits often, and what a disk takes is another test's.
func open(t testing.TB, database string) *house {
	t.Helper()
	in := ""
	if _, err := os.Stat("/dev/shm"); err == nil {
		in = "/dev/shm"
	}
	dir, err := os.MkdirTemp(in, "flows-")
	must(t, err)
	for name, text := range map[string]string{"secret.key": strings.Repeat("0f1e2d3c", 8), "password": operatorPW, "gateway.key": gatewayKey, "handoff.key": handoffKey} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text+"\n"), 0o600))
	}
	h := &house{real: database != ""}
	h.clock.Store(begin.Unix())
	now := func() time.Time { return time.Unix(h.clock.Load(), 0) }
	if h.real {
		h.clock.Store(time.Now().Unix())
		now = nil
	}
	behind := httptest.NewServer(http.HandlerFunc(h.serviceBehind))
	if database == "" {
		database = "sqlite://" + filepath.Join(dir, "flows.db")
	}
	file := filepath.Join(dir, "grantkeeper.toml")
	must(t, os.WriteFile(file, fmt.Appendf(nil, settings, dir, database, behind.URL), 0o600))
	loaded, err := config.Load(file, nil, nil)
	must(t, err)
	checked, err := loaded.Check()
	must(t, err)
	log := slog.New(slog.NewJSONHandler(&h.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.server, err = server.Start(context.Background(), checked, server.Options{Log: log, Requests: &h.logged, Now: now})
	must(t, err)
	h.public, h.operator, h.gateway = &wire{at: h.server.PublicAddr()}, &wire{at: h.server.OperatorAddr()}, &wire{at: h.server.GatewayAddr()}
	h.close = func() {
		for _, w := range []*wire{h.public, h.operator, h.gateway} {
			w.drop()
		}
		h.server.Close(context.Background())
		behind.Close()
		os.RemoveAll(dir)
	}
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// serviceBehind is the service that is protected: an API, and an MCP server that answers in JSON.
func (h *house) serviceBehind(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path != "/mcp" {
		h.reached.Add(1)
		io.WriteString(w, `{"served":true}`)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.NewDecoder(r.Body).Decode(&m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if m.Method != "tools/list" { // which the proxy asks by itself, too
		h.reached.Add(1)
	}
	result := `{"content":[{"type":"text","text":"done"}]}`
	switch m.Method {
	case "initialize":
		w.Header().Set("Mcp-Session-Id", "session-of-the-service")
		result = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"flows","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"read_item","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},{"name":"change_item","inputSchema":{"type":"object"}}]}`
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
}

// A wire is one connection to a listener, kept open. net/http's client would cost more
// than what it asks.
type wire struct {
	at   net.Addr
	conn net.Conn
	r    *bufio.Reader
	out  bytes.Buffer
}

func (w *wire) drop() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

// A request is one of HTTP. Its fields are sent as they are: the wire mends nothing.
type request struct {
	method, path, host string
	headers            [][2]string
	body               string
}

func (r *request) set(name, value string) { r.headers = append(r.headers, [2]string{name, value}) }

// get gives the values of a header of the request.
func (r *request) get(name string) (all []string) {
	for _, h := range r.headers {
		if strings.EqualFold(h[0], name) {
			all = append(all, h[1])
		}
	}
	return all
}

// An answer was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

func (w *wire) do(r request) (a answer, err error) {
	for range 2 { // the server may have closed what was idle
		if a, err = w.once(r); err == nil {
			return a, nil
		}
		w.drop()
	}
	return a, err
}

func (w *wire) once(r request) (answer, error) {
	if w.conn == nil {
		conn, err := net.Dial("tcp", w.at.String())
		if err != nil {
			return answer{}, err
		}
		w.conn, w.r = conn, bufio.NewReader(conn)
	}
	w.out.Reset()
	fmt.Fprintf(&w.out, "%s %s HTTP/1.1\r\nHost: %s\r\n", r.method, r.path, r.host)
	for _, h := range r.headers {
		fmt.Fprintf(&w.out, "%s: %s\r\n", h[0], h[1])
	}
	if r.body != "" || r.method == "POST" || r.method == "PUT" {
		fmt.Fprintf(&w.out, "Content-Length: %d\r\n", len(r.body))
	}
	w.out.WriteString("\r\n" + r.body)
	w.conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := w.conn.Write(w.out.Bytes()); err != nil {
		return answer{}, err
	}
	res, err := http.ReadResponse(w.r, &http.Request{Method: r.method})
	if err != nil {
		return answer{}, err
	}
	b, err := io.ReadAll(res.Body)
	res.Body.Close()
	if res.Close {
		w.drop()
	}
	return answer{res.StatusCode, res.Header, string(b)}, err
}

// fields gives the members of a JSON object, nil where it is none.
func (a answer) fields() (m map[string]any) {
	if json.Unmarshal([]byte(a.body), &m) != nil {
		return nil
	}
	return m
}

// text gives a member that is a text.
func (a answer) text(name string) string {
	s, _ := a.fields()[name].(string)
	return s
}

// location gives where a redirect leads, and its query.
func (a answer) location() (before string, q url.Values) {
	before, query, _ := strings.Cut(a.header.Get("Location"), "?")
	q, _ = url.ParseQuery(query)
	return before, q
}

// between gives what stands between two texts of the body, unescaped as an attribute.
func (a answer) between(before, after string) string {
	_, rest, ok := strings.Cut(a.body, before)
	if !ok {
		return ""
	}
	s, _, _ := strings.Cut(rest, after)
	return strings.NewReplacer("&#43;", "+", "&#34;", `"`, "&amp;", "&").Replace(s)
}

// hidden gives the value of a hidden field of the page.
func (a answer) hidden(name string) string { return a.between(`name="`+name+`" value="`, `"`) }

// operate asks the operators' API.
func (h *house) operate(method, path, body string) (answer, error) {
	r := request{method: method, path: path, host: "127.0.0.1", body: body}
	r.set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("operator:"+operatorPW)))
	r.set("Content-Type", "application/json")
	return h.operator.do(r)
}

// assertion is what the service says of who is signed in there.
func (h *house) assertion(base, challenge, person string) (string, error) {
	now := time.Unix(h.clock.Load(), 0)
	if h.real {
		now = time.Now()
	}
	return identity.Assertion{Audience: base, Challenge: challenge, Person: person, AuthTime: now}.Sign([]byte(handoffKey), now)
}
