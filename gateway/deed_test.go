package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// recording has a house record what calls do.
func (h *house) recording() *store.Recorder {
	h.t.Helper()
	r, err := h.store.RecordActivity()
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { r.Close() })
	h.api.Activity = r
	return r
}

// did lists what is recorded of an approval, the oldest first, and what is counted.
func (b *behind) did() (all []string) {
	b.t.Helper()
	if err := b.api.Activity.Flush(); err != nil {
		b.t.Fatal(err)
	}
	err := b.store.EachActivity(context.Background(), store.ActivityFilter{Approval: b.approval, OldestFirst: true}, func(r activity.Record) error {
		all = append(all, strings.TrimSpace(fmt.Sprint(r.Outcome, " ", r.Status, " ", r.Method, " ", r.Path, " ", r.Reason, " ", r.Item.Did, " ", r.Item.Title, " ", r.Item.Role)))
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	tallies, err := b.store.ActivityTallies(context.Background(), b.approval, 0, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, one := range tallies {
		all = append(all, fmt.Sprint(one.What, " ", one.Calls, " ", one.Kind, " ", one.Items))
	}
	return all
}

// What a call did is recorded before the client is answered (decision V70), by its outcome and by what
// the service says of items, which the client does not get; reads are counted.
func TestUpstreamRecords(t *testing.T) {
	says := map[string][]string{
		"/api/v5/told":    {`[{"id":"1","title":"Budget","kind":"note","did":"closed","role":"treasurer"}]`},
		"/api/v5/several": {`[{"title":"A"},{"title":"B","did":"created"},{"did":"read","kind":"note","count":3}]`},
		"/api/v5/twice":   {`[{"title":"A"}]`, `[{"title":"B"}]`},
		"/api/v5/wrong":   {`[{"title":"A\u202eB"}]`},
		"/api/v5/list":    {`[{"kind":"note","count":38},{"kind":"order","count":2}]`},
		"/api/v5/counts":  {`[{"title":"Seen","did":"changed"}]`},
	}
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		for _, text := range says[r.URL.Path] {
			w.Header().Add(identity.HeaderItems, text)
		}
		switch r.URL.Path {
		case "/api/v5/no":
			w.WriteHeader(403)
		case "/api/v5/conflict":
			w.WriteHeader(409)
		case "/api/v5/broken":
			w.WriteHeader(500)
		case "/api/v5/cut":
			panic(http.ErrAbortHandler)
		}
	}, nil)
	b.recording()
	for _, one := range []struct {
		method, path string
		want         []string
	}{
		{"PATCH", "/api/v5/plain/1?token=secret", []string{"done 200 PATCH /api/v5/plain/1"}},
		{"PUT", "/api/v5/told", []string{"done 200 PUT /api/v5/told  closed Budget treasurer"}},
		{"POST", "/api/v5/several", []string{"done 200 POST /api/v5/several  changed A", "done 200 POST /api/v5/several  created B"}},
		{"POST", "/api/v5/twice", []string{"done 200 POST /api/v5/twice"}},
		{"POST", "/api/v5/wrong", []string{"done 200 POST /api/v5/wrong"}},
		{"DELETE", "/api/v5/no", []string{"refused 403 DELETE /api/v5/no"}},
		{"DELETE", "/api/v5/conflict", []string{"failed 409 DELETE /api/v5/conflict"}},
		{"DELETE", "/api/v5/broken", []string{"unanswered 500 DELETE /api/v5/broken"}},
		{"DELETE", "/api/v5/cut", []string{"unanswered 0 DELETE /api/v5/cut"}},
		{"GET", "/api/v5/list", nil},
		{"GET", "/api/v5/plain", nil},
		{"GET", "/api/v5/no", nil},
		{"GET", "/api/v5/cut", nil},
		{"GET", "/api/v5/counts", []string{"done 200 GET /api/v5/counts  changed Seen"}},
	} {
		before := b.did()
		a := b.call(one.method, one.path, strings.NewReader("{}"))
		if a.Header.Get(identity.HeaderItems) != "" {
			t.Errorf("%s %s: the client gets %v", one.method, one.path, a.Header)
		}
		var now, old []string
		for _, line := range b.did() {
			if !strings.HasPrefix(line, "reads") {
				now = append(now, line)
			}
		}
		for _, line := range before {
			if !strings.HasPrefix(line, "reads") {
				old = append(old, line)
			}
		}
		if got := strings.Join(now[len(old):], "; "); got != strings.Join(one.want, "; ") {
			t.Errorf("%s %s: recorded %q, want %q", one.method, one.path, got, one.want)
		}
	}
	all := strings.Join(b.did(), "; ")
	if want := "reads 2  0; reads 2 note 41; reads 0 order 2"; !strings.HasSuffix(all, want) {
		t.Errorf("%s; want %s", all, want)
	}
	if n := strings.Count(b.log.String(), "cannot be read"); n > 1 || strings.Contains(b.log.String(), "secret") {
		t.Errorf("log: %s", b.log.String())
	}
}

// What the rules deny is recorded with the reason; what is never sent is not.
func TestUpstreamRecordsRefusals(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {}, nil)
	b.recording()
	b.rule("deny")
	b.call("POST", "/api/v5/notes", strings.NewReader("{}"))
	b.call("GET", "/api/v5/notes", nil)
	if got, want := strings.Join(b.did(), "; "), "refused 0 POST /api/v5/notes unlisted; refused 0 GET /api/v5/notes unlisted"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	b.api.Rules = nil
	b.service.Close()
	if a := b.call("POST", "/api/v5/notes", strings.NewReader("{}")); a.StatusCode != 502 {
		t.Errorf("%d", a.StatusCode)
	}
	if got := b.did(); len(got) != 2 {
		t.Errorf("what was never sent: %v", got)
	}
}

// Whether a call reads is what its rule says, whatever was approved, and at each door.
func TestWhatRulesSayReads(t *testing.T) {
	for name, set := range map[string]grantset.Set{"everything": everything, "selected": selected} {
		b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {}, nil)
		b.recording()
		b.rule("deny", rules.Rule{Call: "POST /api/v5/search", Touches: rules.TouchesOpen, Access: "read"}, rules.Rule{Tool: "look", Touches: rules.TouchesOpen, Access: "read"})
		live := b.live("ada", set)
		b.access, b.approval = live.access, live.id
		b.call("POST", "/api/v5/search", strings.NewReader("{}"))
		b.decided(`{"token":` + quoted(b.access) + `,"method":"POST","path":"/api/v5/search"}`)
		b.decided(`{"token":` + quoted(b.access) + `,"tool":"look","arguments":{}}`)
		b.forward("Authorization", "Bearer "+b.access, "X-Original-URI", "/api/v5/search", "X-Original-Method", "POST")
		if got, want := strings.Join(b.did(), "; "), "reads 4  0"; got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
}

// An API key's calls are of no approval.
func TestKeysAreNotRecorded(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {}, nil)
	r := b.recording()
	b.call("POST", "/api/v5/notes", strings.NewReader("{}"), "X-Auth-Token", adaKey)
	if f := r.Figures(); f.Recorded+f.Counted != 0 {
		t.Errorf("%+v", f)
	}
}

// What another proxy was told that may pass is recorded as that: what became of it is not
// seen here. Without the call nobody knows what it is.
func TestGatewayRecords(t *testing.T) {
	b := newBehind(t, func(w http.ResponseWriter, r *http.Request) {}, nil)
	b.recording()
	ask := func(more string) { b.decided(`{"token":` + quoted(b.access) + more + `}`) }
	ask(`,"method":"POST","path":"/api/v5/notes?q=secret"`)
	ask(`,"method":"GET","path":"/api/v5/notes"`)
	ask(`,"tool":"move_order","arguments":{}`)
	ask(`,"tool":"list_orders","arguments":{},"read_only":"true"`)
	ask(``)
	b.forward("Authorization", "Bearer "+b.access, "X-Original-URI", "/api/v5/notes/1?q=secret", "X-Original-Method", "DELETE")
	b.forward("Authorization", "Bearer "+b.access, "X-Original-URI", "/api/v5/notes/1")
	b.rule("deny")
	ask(`,"method":"POST","path":"/api/v5/notes"`)
	b.forward("Authorization", "Bearer "+b.access, "X-Original-URI", "/api/v5/notes/2", "X-Original-Method", "PUT")
	got := strings.Join(b.did(), "; ")
	want := "allowed 0 POST /api/v5/notes; allowed 0; allowed 0 DELETE /api/v5/notes/1; refused 0 POST /api/v5/notes unlisted; refused 0 PUT /api/v5/notes/2 unlisted; reads 2  0; unseen 2  0"
	if got != want {
		t.Errorf("%s; want %s", got, want)
	}
}
