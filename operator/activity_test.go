package operator

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
)

// Operators see what a client did, without what items are called (decision V72).
func TestActivity(t *testing.T) {
	o := newOffice(t)
	r, err := o.Store.RecordActivity()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	id := o.live("client1", "ada", grantset.Set{Kind: grantset.Everything})
	of, err := approval.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	r.Begin().Done(of, activity.Record{Way: activity.API, Outcome: activity.Done, Status: 200, Method: "PUT", Path: "/api/v5/notes/secret-title",
		Item: identity.Item{ID: "secret-title", Title: "secret", Kind: "note", Did: identity.Closed, Role: "treasurer", Private: true, Detail: "secret"}})
	r.Refuse(of, activity.Record{Way: activity.MCP, Method: "POST", Path: "/api/v5/mcp", Tool: "burn", Reason: "unlisted"})
	r.Read(of, identity.Item{Kind: "note", Count: 3})
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	at := "/v1/approvals/" + id + "/activity"
	all := fmt.Sprint(o.want(200, "GET", at, ""))
	for _, has := range []string{"did:closed", "kind:note", "outcome:refused", "path:…", "reason:unlisted", "tool:burn", "what:reads", "items:3", "role:treasurer"} {
		if !strings.Contains(all, has) {
			t.Errorf("no %s in %s", has, all)
		}
	}
	if strings.Contains(all, "secret") {
		t.Errorf("a title is told: %s", all)
	}
	for query, want := range map[string]int{"outcome=refused": 1, "outcome=other": 1, "order=oldest": 2, "since=1h": 2, "until=1h": 0} {
		if got := len(o.want(200, "GET", at+"?"+query, "")["items"].([]any)); got != want {
			t.Errorf("%s: %d records, want %d", query, got, want)
		}
	}
	first := o.want(200, "GET", at+"?limit=1", "")
	second := o.want(200, "GET", at+"?limit=1&after="+url.QueryEscape(first["next"].(string)), "")
	if len(second["items"].([]any)) != 1 || second["next"] != "" || len(second["tallies"].([]any)) != 0 {
		t.Errorf("%v", second)
	}
	for _, query := range []string{"outcome=x", "order=x", "since=x", "after=x", "more=x"} {
		o.want(400, "GET", at+"?"+query, "")
	}
	o.want(404, "GET", "/v1/approvals/00000000000000000000000000000000/activity", "")
	o.want(404, "GET", "/v1/approvals/x/activity", "")
	wantExport(t, o, id)
}

// The export has each line with its approval, and ends with the numbers of all.
func wantExport(t *testing.T, o *office, id string) {
	t.Helper()
	export := func(query string) string {
		t.Helper()
		r, w := httptest.NewRequest("GET", "http://127.0.0.1:8081/v1/activity/export"+query, nil), httptest.NewRecorder()
		r.SetBasicAuth(User, password)
		o.handler.ServeHTTP(w, r)
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/jsonl" {
			t.Fatalf("%s: %d %s", query, w.Code, w.Body)
		}
		return w.Body.String()
	}
	all := export("")
	lines := strings.Split(strings.TrimSpace(all), "\n")
	if want := fmt.Sprintf(`{"approvals":1,"records":2,"counts":1,"gaps":%d}`, len(lines)-4); lines[len(lines)-1] != want || strings.Contains(all, "secret") {
		t.Errorf("%s, want at its end %s", all, want)
	}
	if begin := `{"approval":"` + id + `","client":"client1","person":"ada",`; !strings.HasPrefix(lines[0], begin) || !strings.Contains(lines[0], `"did":"closed"`) || !strings.Contains(lines[2], `"items":3`) {
		t.Errorf("%q, %q", lines[0], lines[2])
	}
	for _, query := range []string{"?person=tor", "?until=1h", "?client=other"} {
		if got := export(query); !strings.Contains(got, `{"approvals":0,"records":0,"counts":0,"gaps":`) {
			t.Errorf("%s: %s", query, got)
		}
	}
	for _, query := range []string{"?approval=" + id, "?person=ada&since=1h", "?organization=nordlys"} {
		if got := export(query); !strings.Contains(got, `"records":2`) {
			t.Errorf("%s: %s", query, got)
		}
	}
	o.want(404, "GET", "/v1/activity/export?approval=x", "")
	o.want(404, "GET", "/v1/activity/export?approval=00000000000000000000000000000000", "")
	o.want(400, "GET", "/v1/activity/export?since=soon", "")
	o.want(400, "GET", "/v1/activity/export?since=24h&until=48h", "")
	o.want(400, "GET", "/v1/activity/export?kind=x", "")
}
