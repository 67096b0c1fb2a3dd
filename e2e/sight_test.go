package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// metrics scrapes the operators' listener, which wants no password for it.
func (h *house) metrics() (text string, values map[string]float64) {
	h.t.Helper()
	a := h.caller().get(h.operator + "/metrics")
	if a.status != 200 || !strings.HasPrefix(a.header.Get("Content-Type"), "text/plain; version=0.0.4") {
		h.t.Fatalf("/metrics: %s", a)
	}
	values = map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(a.body))
	for lines.Scan() {
		name, value, _ := cutLast(lines.Text(), ' ')
		if v, err := strconv.ParseFloat(value, 64); err == nil && !strings.HasPrefix(name, "#") {
			values[name] = v
		}
	}
	return a.body, values
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	if i := strings.LastIndexByte(s, sep); i >= 0 {
		return s[:i], s[i+1:], true
	}
	return s, "", false
}

// metricNames are all that a server exports, with their labels.
var metricNames = map[string]string{
	"http_requests_total": "method route status", "http_request_duration_seconds": "route", "registrations_total": "result",
	"approvals_total": "grant result", "approvals_ended_total": "reason", "approvals_active": "", "clients": "state",
	"tokens_issued_total": "grant_type", "token_refusals_total": "error reason", "refresh_reuse_detected_total": "",
	"token_checks_total": "result", "signins_total": "result", "rate_limited_total": "endpoint", "db_query_duration_seconds": "query",
	"gc_deleted_total": "kind", "build_info": "commit go version", "schema_version": "", "last_backup_timestamp_seconds": "", "ready": "", "rate_limiter_away": "",
	"activity_records_total": "result", "activity_waiting": "", "attempt_failures_total": "reason", "journal_blocks": "", "journal_sealed_timestamp_seconds": "", "journal_anchor_info": "anchor",
}

// What a flow does is counted, under the names that are documented and no
// others, and no label holds who did it.
func TestMetrics(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, before := h.metrics()
	s, f := h.whole()
	text, got := h.metrics()
	for name, want := range map[string]float64{
		`http_requests_total{method="POST",route="/oauth/token",status="200"}`:    5,
		`http_requests_total{method="POST",route="/oauth/token",status="400"}`:    2,
		`http_requests_total{method="GET",route="/oauth/authorize",status="200"}`: 5,
		`http_request_duration_seconds_count{route="/oauth/token"}`:               7,
		`registrations_total{result="created"}`:                                   1,
		`approvals_total{grant="roles",result="approved"}`:                        2,
		`approvals_total{grant="everything",result="approved"}`:                   2,
		`approvals_total{grant="none",result="cancelled"}`:                        1,
		`approvals_ended_total{reason="refresh_reused"}`:                          1,
		`approvals_ended_total{reason="client"}`:                                  1,
		`approvals_active`:                                                        1,
		`clients{state="approved"}`:                                               1,
		`tokens_issued_total{grant_type="authorization_code"}`:                    3,
		`tokens_issued_total{grant_type="refresh_token"}`:                         2,
		`token_refusals_total{error="invalid_grant",reason="reused"}`:             1,
		`refresh_reuse_detected_total`:                                            1,
		`signins_total{result="ok"}`:                                              1,
		`signins_total{result="failed"}`:                                          1,
		`schema_version`:                                                          1,
		`ready`:                                                                   1,
	} {
		if v, ok := got["grantkeeper_"+name]; !ok || v-before["grantkeeper_"+name] != want && !strings.HasSuffix(name, "version") && name != "ready" {
			t.Errorf("%s: %v (%t), want %v more than %v", name, v, ok, want, before["grantkeeper_"+name])
		}
	}
	if got[`grantkeeper_token_checks_total{result="valid"}`] < 3 || got[`grantkeeper_db_query_duration_seconds_count{query="commit"}`] < 5 {
		t.Errorf("checks %v, commits %v", got[`grantkeeper_token_checks_total{result="valid"}`], got[`grantkeeper_db_query_duration_seconds_count{query="commit"}`])
	}
	for name, labels := range namesIn(got) {
		if of, known := metricNames[name]; !known || of != labels {
			t.Errorf("%s{%s} is exported, documented is %q", name, labels, of)
		}
	}
	for name := range metricNames {
		if !strings.Contains(text, "# TYPE grantkeeper_"+name+" ") {
			t.Errorf("%s is not exported", name)
		}
	}
	for _, who := range []string{"nordlys", "ada", f.client, "127.0.0.1", "example"} {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "grantkeeper_") && strings.Contains(line, who) {
				t.Errorf("%q tells who: %s", who, line)
			}
		}
	}
	s.absent(t, "metrics", []byte(text))

	// What a sweep deletes counts, whoever asks for it.
	h.register()
	h.sleep(14 * 24 * time.Hour)
	h.change("/v1/gc", `{"reason":"test"}`)
	if _, after := h.metrics(); after[`grantkeeper_gc_deleted_total{kind="client"}`] < 1 {
		t.Errorf("deleted clients: %v", after[`grantkeeper_gc_deleted_total{kind="client"}`])
	}
}

// The log line of a request has the fields that are documented, the client and
// the approval where there are any, and the code of a refusal.
func TestLogFields(t *testing.T) {
	t.Parallel()
	h := serve(t, served{apiLimit: "[log]\nformat = \"json\""})
	f, tk := h.connected("", everything...)
	approval := h.approvalsOf(f.client)[0]["id"]
	f.me(tk.access)
	f.refresh(tk.refresh)
	f.refresh(tk.refresh) // reuse
	f.token("grant_type", "refresh_token", "client_id", "nobody", "refresh_token", "x")
	f.me(tk.access)
	h.stop()
	type line struct{ route, status, client, approval, fault any }
	var got []line
	for text := range strings.Lines(h.stderr.String()) {
		var l map[string]any
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		switch l["msg"] {
		case "started":
			for _, field := range []string{"version", "commit", "go", "schema", "listen", "operator", "base_urls"} {
				if l[field] == nil {
					t.Errorf("the start line has no %s: %s", field, text)
				}
			}
		case "request":
			for field := range l {
				if !slices.Contains(strings.Fields("time level msg request_id method route status duration_ms bytes client_addr client_id approval_id error"), field) {
					t.Errorf("a line has %s: %s", field, text)
				}
			}
			got = append(got, line{l["route"], l["status"], l["client_id"], l["approval_id"], l["error"]})
		}
	}
	for _, want := range []line{
		{"/oauth/register", 201.0, f.client, nil, nil},
		{"/oauth/authorize", 200.0, f.client, nil, nil},
		{"/oauth/authorize", 303.0, f.client, approval, nil},
		{"/oauth/token", 200.0, f.client, approval, nil},
		{"/api/v5/me", 200.0, f.client, approval, nil},
		{"/oauth/token", 400.0, f.client, approval, "invalid_grant"},
		{"/oauth/token", 401.0, nil, nil, "invalid_client"},
		{"/api/v5/me", 401.0, nil, nil, "invalid_token"},
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no line %v in %v", want, got)
		}
	}
}

// namesIn gives our metrics and the names of their labels.
func namesIn(values map[string]float64) map[string]string {
	all := map[string]map[string]bool{}
	for series := range values {
		name, ours := strings.CutPrefix(series, "grantkeeper_")
		if !ours {
			continue
		}
		name, labels, _ := strings.Cut(strings.TrimSuffix(name, "}"), "{")
		if strings.Contains(name, "_seconds_") { // of a histogram
			name, _, _ = cutLast(name, '_')
		}
		if all[name] == nil {
			all[name] = map[string]bool{}
		}
		for label := range strings.SplitSeq(labels, `",`) {
			if key, _, ok := strings.Cut(label, "="); ok && key != "le" {
				all[name][key] = true
			}
		}
	}
	out := map[string]string{}
	for name, labels := range all {
		out[name] = strings.Join(slices.Sorted(maps.Keys(labels)), " ")
	}
	return out
}

// Paths, methods and hosts of strangers make no labels.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("")
	hostile := func(i int) {
		c := h.caller()
		for _, path := range []string{"/%s", "/oauth/%s", "/.well-known/%s", "/api/v5/%s", "/api/%s", "/assets/%s", "/organizations/%s/profile/api"} {
			c.send("GET", fmt.Sprintf(path, fmt.Sprint("x", i)), "", header{"Authorization", "Bearer " + tk.access})
		}
		c.send(fmt.Sprint("BREW", i), "/oauth/token", "")
		f.token("grant_type", fmt.Sprint("g", i))
		h.caller().get(h.operator + fmt.Sprint("/x", i))
	}
	hostile(1)
	h.metrics() // its own route, too
	_, before := h.metrics()
	for range 600 { // what was attempted is written by and by
		if before[`grantkeeper_db_query_duration_seconds_count{query="attempts"}`] > 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
		_, before = h.metrics()
	}
	for i := range 5 {
		hostile(2 + i)
	}
	text, after := h.metrics()
	for series := range after {
		if _, known := before[series]; !known && strings.HasPrefix(series, "grantkeeper_") {
			t.Errorf("a new series: %s", series)
		}
	}
	if strings.Contains(text, "x3") || strings.Contains(text, "BREW") || strings.Contains(text, "g4") {
		t.Errorf("a stranger's words are in the metrics\n%s", text)
	}
	if after[`grantkeeper_http_requests_total{method="GET",route="none",status="404"}`] < 6 {
		t.Errorf("unknown paths are not one route\n%s", text)
	}
}

// UX-19, S-02: no event, page, operator's answer or metric tells a secret,
// whatever was sent before.
func TestUX19NothingShownIsSecret(t *testing.T) {
	t.Parallel()
	h := start(t)
	s, f := h.whole()
	h.hostile(s, f)
	h.everywhere(s, f)
	delete(s, "password") // everybody's, under dev
	text, _ := h.metrics()
	s.absent(t, "metrics", []byte(text))
	public := maps.Clone(s) // hostile registered a client with these as its name and address
	delete(public, "waiting code")
	delete(public, "living, second access token")
	for _, path := range []string{"/v1/people", "/v1/organizations", "/v1/clients", "/v1/approvals", "/v1/events?limit=1000", "/livez", "/readyz", "/version"} {
		a := h.operate(path)
		if a.status != 200 {
			t.Errorf("%s: %s", path, a)
		}
		seen := []byte(a.body)
		if path == "/v1/clients" {
			public.absent(t, path, seen)
			continue
		}
		s.absent(t, path, seen)
	}
	for _, path := range []string{"/", "/clients/" + f.client, "/clients/" + f.client + "/disable", "/approvals", "/events", "/events.jsonl"} {
		a := h.operate(path)
		if a.status != 200 {
			t.Errorf("%s: %s", path, a)
		}
		public.absent(t, "console "+path, []byte(a.body))
	}
	b := h.signedIn("ada@nordlys.example")
	for _, path := range []string{"/", "/organizations/nordlys/profile/api", "/organizations/nordlys/leave", "/nowhere"} {
		s.absent(t, path, []byte(b.get(path).body))
	}
}
