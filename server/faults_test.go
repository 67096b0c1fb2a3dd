package server

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The log has the error code of every refusal: of the doors that answer as long as it
// takes, which have an answer of their own, of gateways and of operators, over HTTP/1 and HTTP/2.
func TestEveryRefusalIsLoggedWithItsCode(t *testing.T) {
	l := good(t)
	l.Service.KeyFile, l.API.Upstream, l.MCP.Upstream = write(t, "service.key", gatewayKey+"\n", 0o600), "http://127.0.0.1:1", "http://127.0.0.1:1/mcp"
	checked, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	var log safeBuffer
	s := withAda(t, checked, Options{Log: slog.New(slog.NewJSONHandler(&log, nil))})
	public := s.public()
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, tt := range []struct {
		door                     http.Handler
		method, path, body, code string
		header                   string
		status                   int
	}{
		{public, "GET", "/api/v5/items", "", "bad_gateway", "", 502},
		{public, "GET", "/api/v5/a/%2e%2e/b", "", "invalid_request", "", 400},
		{public, "TRACK", "/api/v5/items", "", "bad_gateway", "", 502},
		{public, "PUT", "/api/v5/mcp", list, "method_not_allowed", "", 405},
		{public, "POST", "/api/v5/mcp", "{", "invalid_request", "", 400},
		{public, "POST", "/api/v5/mcp", list, "bad_gateway", "", 502},
		{public, "POST", "/api/v5/mcp", list, "-32001", "Mcp-Session-Id", 404},
		{s.gateways(), "GET", "/v1/nothing", "", "not_found", "", 404},
		{s.gateways(), "POST", "/v1/decisions", "", "gateway_key_refused", "", 403},
		{s.operators(), "GET", "/v1/people", "", "unauthorized", "", 401},
		{s.operators(), "GET", "/assets/none", "", "not_found", "", 404},
	} {
		for _, http2 := range []bool{false, true} {
			server := httptest.NewUnstartedServer(tt.door)
			server.EnableHTTP2 = http2
			server.StartTLS()
			r, err := http.NewRequestWithContext(t.Context(), tt.method, server.URL+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(tt.path, "/api/") {
				r.Host = "app.example"
			}
			r.Header.Set("X-Auth-Token", adasKey)
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if tt.header != "" {
				r.Header.Set(tt.header, "none")
			}
			name := fmt.Sprint(tt.method, " ", tt.path, ", HTTP/2 ", http2)
			a, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(name, err)
			}
			text, _ := io.ReadAll(a.Body)
			a.Body.Close()
			server.Close() // after the line is written
			if a.StatusCode != tt.status || (a.ProtoMajor == 2) != http2 {
				t.Errorf("%s: %d over %s, want %d: %s", name, a.StatusCode, a.Proto, tt.status, text)
			}
			lines := strings.Split(strings.TrimSpace(log.String()), "\n")
			var line struct{ Msg, Error string }
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &line); err != nil || line.Msg != "request" || line.Error != tt.code {
				t.Errorf("%s: %v, %s, want the code %s", name, err, lines[len(lines)-1], tt.code)
			}
		}
	}
}
