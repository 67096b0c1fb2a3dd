package metrics

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal"
)

// scrape gives what Prometheus reads, by name and labels.
func scrape(t testing.TB, m *Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	out := map[string]float64{}
	lines := bufio.NewScanner(w.Body)
	for lines.Scan() {
		if line := lines.Text(); !strings.HasPrefix(line, "#") {
			at := strings.LastIndexByte(line, ' ')
			v, err := strconv.ParseFloat(line[at+1:], 64)
			if err != nil {
				t.Fatal(err)
			}
			out[line[:at]] = v
		}
	}
	return out
}

func (m *Metrics) want(t *testing.T, want map[string]float64) {
	t.Helper()
	got := scrape(t, m)
	for name, v := range want {
		if g, ok := got["grantkeeper_"+name]; !ok || g != v {
			t.Errorf("%s: %v (%t), want %v", name, g, ok, v)
		}
	}
	if t.Failed() {
		for _, name := range slices.Sorted(maps.Keys(got)) {
			if strings.HasPrefix(name, "grantkeeper_") {
				t.Log(name, got[name])
			}
		}
	}
}

func fresh() *Metrics { return New(Build{"1.2.3", "abc", "go1"}, time.Now) }

func TestRequests(t *testing.T) {
	m := fresh()
	m.Request("GET /oauth/authorize", "GET", 200, 400*time.Microsecond)
	m.Request("POST /oauth/authorize", "POST", 303, 3*time.Millisecond)
	m.Request("POST /oauth/authorize", "POST", 303, 20*time.Second)
	m.Request("", "BREW", 418, time.Millisecond)
	m.Request("", "GET", 42, time.Millisecond)
	m.Request("", "GET", 999, time.Millisecond)
	m.want(t, map[string]float64{
		`http_requests_total{method="GET",route="/oauth/authorize",status="200"}`:    1,
		`http_requests_total{method="POST",route="/oauth/authorize",status="303"}`:   2,
		`http_requests_total{method="other",route="none",status="418"}`:              1,
		`http_requests_total{method="GET",route="none",status="other"}`:              2,
		`http_request_duration_seconds_bucket{route="/oauth/authorize",le="0.0005"}`: 1,
		`http_request_duration_seconds_bucket{route="/oauth/authorize",le="0.001"}`:  1,
		`http_request_duration_seconds_bucket{route="/oauth/authorize",le="0.005"}`:  2,
		`http_request_duration_seconds_bucket{route="/oauth/authorize",le="10"}`:     2,
		`http_request_duration_seconds_bucket{route="/oauth/authorize",le="+Inf"}`:   3,
		`http_request_duration_seconds_count{route="/oauth/authorize"}`:              3,
		`http_request_duration_seconds_sum{route="/oauth/authorize"}`:                20.0034,
		`http_request_duration_seconds_bucket{route="none",le="0.001"}`:              3,
		`build_info{commit="abc",go="go1",version="1.2.3"}`:                          1,
	})
}

// Whatever is asked, there are at most so many routes and values of a label.
func TestLabelsAreBounded(t *testing.T) {
	m := fresh()
	for i := range 2 * maxRoutes {
		m.Request(fmt.Sprint("GET /r", i), "GET", 200, time.Millisecond)
		m.OAuth("token", fmt.Sprint("e", i), "r")
	}
	got := scrape(t, m)
	routes, refusals, all := 0, 0, 0.0
	for name, v := range got {
		if strings.HasPrefix(name, "grantkeeper_http_requests_total") {
			routes++
			all += v
		}
		if strings.HasPrefix(name, "grantkeeper_token_refusals_total") {
			refusals++
		}
	}
	if routes != maxRoutes+1 || all != 2*maxRoutes || refusals > maxLabels+1 {
		t.Errorf("%d routes with %v requests, %d refusals", routes, all, refusals)
	}
}

func TestOutcomes(t *testing.T) {
	m := fresh()
	for _, o := range [][3]string{
		{"token", "ok", "refresh_token"}, {"token", "ok", "refresh_token"}, {"token", "ok", "authorization_code"},
		{"token", "invalid_grant", "reused"}, {"token", "invalid_request", ""}, {"token", "temporarily_unavailable", "unavailable"},
		{"token", "server_error", ""}, {"token", "temporarily_unavailable", "limited"}, {"revoke", "temporarily_unavailable", "limited"},
		{"revoke", "ok", ""}, {"revoke", "invalid_client", ""}, {"register", "ok", ""}, {"register", "invalid_redirect_uri", ""},
		{"register", "temporarily_unavailable", "limited"}, {"register", "temporarily_unavailable", "unavailable"},
	} {
		m.OAuth(o[0], o[1], o[2])
	}
	for _, r := range []string{"valid", "valid", "wrong_header", "missing", "unavailable"} {
		m.Check(r)
	}
	for _, e := range [][3]string{
		{"approval_granted", "", "roles"}, {"approval_granted", "", "organization"}, {"approval_cancelled", "", ""}, {"approval_refused", "other_person", ""},
		{"refresh_reused", "", ""}, {"approval_ended", "refresh_reused", ""}, {"approval_ended", "left_organization", ""},
		{"approval_ended", "something_new", ""}, {"client_registered", "", ""},
	} {
		m.Journaled(journal.Kind(e[0]), e[1], e[2])
	}
	m.SignIn("failed")
	m.Limited("api")
	m.Limited("authorize")
	m.Deleted("session", 7)
	m.Query("commit", 2*time.Millisecond)
	m.Gauges = func(context.Context) (Gauges, error) {
		return Gauges{Ready: true, Approvals: 5, Clients: map[string]int{"approved": 3}, Schema: 1, LastBackup: 12, JournalBlocks: 3, JournalSealed: 9, JournalAnchor: "a:b"}, nil
	}
	m.want(t, map[string]float64{
		`tokens_issued_total{grant_type="refresh_token"}`:              2,
		`tokens_issued_total{grant_type="authorization_code"}`:         1,
		`token_refusals_total{error="invalid_grant",reason="reused"}`:  1,
		`token_refusals_total{error="invalid_request",reason="none"}`:  1,
		`registrations_total{result="created"}`:                        1,
		`registrations_total{result="refused"}`:                        1,
		`registrations_total{result="limited"}`:                        1,
		`rate_limited_total{endpoint="token"}`:                         2,
		`rate_limited_total{endpoint="register"}`:                      1,
		`rate_limited_total{endpoint="authorize"}`:                     1,
		`rate_limited_total{endpoint="api"}`:                           1,
		`token_checks_total{result="valid"}`:                           2,
		`token_checks_total{result="wrong_header"}`:                    1,
		`token_checks_total{result="expired"}`:                         0,
		`approvals_total{grant="roles",result="approved"}`:             1,
		`approvals_total{grant="everything",result="approved"}`:        0,
		`approvals_total{grant="organization",result="approved"}`:      1,
		`approvals_total{grant="none",result="cancelled"}`:             1,
		`approvals_total{grant="none",result="refused"}`:               1,
		`approvals_ended_total{reason="refresh_reused"}`:               1,
		`approvals_ended_total{reason="membership"}`:                   1,
		`approvals_ended_total{reason="something_new"}`:                1,
		`approvals_ended_total{reason="person"}`:                       0,
		`refresh_reuse_detected_total`:                                 1,
		`signins_total{result="failed"}`:                               1,
		`gc_deleted_total{kind="session"}`:                             7,
		`db_query_duration_seconds_bucket{query="commit",le="0.0025"}`: 1,
		`db_query_duration_seconds_count{query="commit"}`:              1,
		`approvals_active`:                                             5,
		`clients{state="approved"}`:                                    3,
		`schema_version`:                                               1,
		`last_backup_timestamp_seconds`:                                12,
		`journal_blocks`:                                               3,
		`journal_sealed_timestamp_seconds`:                             9,
		`journal_anchor_info{anchor="a:b"}`:                            1,
		`ready`:                                                        1,
	})
	got := scrape(t, m)
	for name := range got {
		if strings.Contains(name, "unavailable") || strings.Contains(name, "server_error") || strings.Contains(name, "missing") {
			t.Errorf("%s is counted elsewhere", name)
		}
	}
	m.Gauges = func(context.Context) (Gauges, error) { return Gauges{}, errors.New("no database") }
	got = scrape(t, m)
	if _, there := got["grantkeeper_approvals_active"]; there || got["grantkeeper_ready"] != 0 || got[`grantkeeper_signins_total{result="failed"}`] != 1 {
		t.Errorf("without a database: active %t, ready %v", there, got["grantkeeper_ready"])
	}
}

// Nothing is lost when many count at once, and a scrape sees no more requests
// than there were.
func TestAtOnce(t *testing.T) {
	m := fresh()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 500 {
				m.Request(fmt.Sprint("GET /r", j%20), "GET", 200, time.Millisecond)
				m.Check("valid")
				m.Query(fmt.Sprint("q", i), time.Millisecond)
				m.OAuth("token", "ok", "refresh_token")
				if j%100 == 0 {
					scrape(t, m)
					m.History(Refreshes, time.Hour, 24)
				}
			}
		})
	}
	all.Wait()
	m.want(t, map[string]float64{
		`http_requests_total{method="GET",route="/r7",status="200"}`: 200,
		`token_checks_total{result="valid"}`:                         4000,
		`db_query_duration_seconds_count{query="q3"}`:                500,
	})
	if got := m.History(Refreshes, time.Hour, 24); got[23]+got[22] != 4000 {
		t.Errorf("history %v", got)
	}
}

func TestHistory(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC)
	m := New(Build{}, func() time.Time { return now })
	refresh := func(n int) {
		for range n {
			m.OAuth("token", "ok", "refresh_token")
		}
		m.sample()
	}
	refresh(3)
	now = now.Add(20 * time.Minute)
	refresh(2)
	now = now.Add(15 * time.Minute) // 11:05
	refresh(1)
	m.OAuth("token", "invalid_grant", "over")
	m.OAuth("token", "invalid_grant", "reused")
	m.OAuth("register", "invalid_redirect_uri", "")
	m.Limited("api")
	for _, tt := range []struct {
		s    Series
		span time.Duration
		n    int
		want []uint64
	}{
		{Refreshes, time.Hour, 3, []uint64{0, 5, 1}},
		{Refreshes, 5 * time.Minute, 9, []uint64{0, 3, 0, 0, 0, 2, 0, 0, 1}},
		{Refreshes, 24 * time.Hour, 2, []uint64{0, 6}},
		{Refusals, time.Hour, 2, []uint64{0, 3}},
		{Limited, time.Hour, 1, []uint64{1}},
	} {
		if got := m.History(tt.s, tt.span, tt.n); !slices.Equal(got, tt.want) {
			t.Errorf("%v %s: %v, want %v", tt.s, tt.span, got, tt.want)
		}
	}
	if code, n := m.MostRefused(24 * time.Hour); code != "invalid_grant" || n != 2 {
		t.Errorf("mostly %s (%d)", code, n)
	}
	// A day later the minutes are other ones, and the hours still there.
	now = now.Add(24 * time.Hour)
	refresh(4)
	if got := m.History(Refreshes, time.Hour, 24); !slices.Equal(got[:23], make([]uint64, 23)) || got[23] != 4 {
		t.Errorf("a day later: %v", got)
	}
	if got := m.History(Refreshes, 24*time.Hour, 30); got[28] != 6 || got[29] != 4 {
		t.Errorf("in 30 days: %v", got)
	}
	if code, _ := m.MostRefused(24 * time.Hour); code != "" {
		t.Errorf("a day later mostly %s", code)
	}
	now = now.Add(31 * 24 * time.Hour)
	if got := m.History(Refreshes, 24*time.Hour, 30); !slices.Equal(got, make([]uint64, 30)) {
		t.Errorf("a month later: %v", got)
	}
}

func BenchmarkRequest(b *testing.B) {
	m := New(Build{}, time.Now)
	for _, p := range []string{"", "GET /oauth/authorize", "POST /oauth/authorize", "/oauth/token", "/oauth/revoke", "/api/v5/me", "/api/v5/items", "/api/v5/mcp", "/v1/forward-auth"} {
		m.Request(p, "GET", 200, time.Millisecond)
	}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			m.Request("/api/v5/me", "GET", 200, 25*time.Microsecond)
			m.Check("valid")
		}
	})
}

func BenchmarkRequestAlone(b *testing.B) {
	m := New(Build{}, time.Now)
	for _, p := range []string{"", "GET /oauth/authorize", "POST /oauth/authorize", "/oauth/token", "/oauth/revoke", "/api/v5/me", "/api/v5/items", "/api/v5/mcp", "/v1/forward-auth"} {
		m.Request(p, "GET", 200, time.Millisecond)
	}
	b.ReportAllocs()
	for b.Loop() {
		m.Request("/api/v5/me", "GET", 200, 25*time.Microsecond)
		m.Check("valid")
	}
}
