package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/journal/chain"
)

// seal lets time pass and seals what there is.
func (o *office) seal() {
	o.Helper()
	o.later.Add(int64(time.Minute))
	if _, err := o.Store.Seal(o.Context()); err != nil {
		o.Fatal(err)
	}
}

// proved asks for the export.
func (o *office) proved(query string) *httptest.ResponseRecorder {
	o.Helper()
	r, w := httptest.NewRequest("GET", "http://127.0.0.1:8081/v1/events/proof"+query, nil), httptest.NewRecorder()
	r.SetBasicAuth(User, password)
	if o.handler.ServeHTTP(w, r); w.Code != 200 || w.Header().Get("Content-Type") != "application/jsonl" {
		o.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	return w
}

// The anchor, the list of blocks and the export say the same, and the export is
// verified with the anchor.
func TestBlocks(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	if got := o.want(200, "GET", "/v1/events/anchor", ""); got["anchor"] != "" || got["id"] != "anchor" || got["number"] != 0.0 {
		t.Errorf("nothing is sealed: %v", got)
	}
	if got := o.ids("/v1/events/blocks"); len(got) != 0 {
		t.Errorf("nothing is sealed: %v", got)
	}
	o.seal()
	first := o.want(200, "GET", "/v1/events/anchor", "")
	o.want(200, "POST", "/v1/people/tor/deactivate", `{"reason":"left"}`)
	o.seal()
	second := o.want(200, "GET", "/v1/events/anchor", "")
	if second["number"] != 2.0 || second["anchor"] == first["anchor"] {
		t.Errorf("%v, then %v", first, second)
	}
	page := o.want(200, "GET", "/v1/events/blocks?limit=1", "")
	newest := page["items"].([]any)[0].(map[string]any)
	if page["next"] != "2" || newest["anchor"] != second["anchor"] || newest["hash"] != second["hash"] || newest["total"] != second["entries"] {
		t.Errorf("the newest block: %v, the anchor: %v", page, second)
	}
	page = o.want(200, "GET", "/v1/events/blocks?limit=1&after=2", "")
	if oldest := page["items"].([]any)[0].(map[string]any); page["next"] != "" || oldest["anchor"] != first["anchor"] || oldest["hash"] != newest["previous"] {
		t.Errorf("the oldest: %v", page)
	}
	w := o.proved("")
	var anchors []chain.Anchor
	for _, of := range []map[string]any{first, second} {
		a, err := chain.ParseAnchor(fmt.Sprint(of["anchor"]))
		if err != nil {
			t.Fatal(err)
		}
		anchors = append(anchors, a)
	}
	r, err := chain.Verify(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(w.Body.Bytes())), nil }, anchors)
	if err != nil || len(r.Faults) > 0 || r.AgreedCount != 2 {
		t.Errorf("%v, %+v", err, r)
	}
	if w := o.proved("?since=10s"); strings.Contains(w.Body.String(), `"block"`) || !strings.Contains(w.Body.String(), `"end"`) {
		t.Errorf("since: %s", w.Body)
	}
	for _, path := range []string{
		"/v1/events/anchor?x=1", "/v1/events/blocks?x=1", "/v1/events/blocks?after=x", "/v1/events/blocks?after=0", "/v1/events/blocks?after=01", "/v1/events/blocks?after=-1",
		"/v1/events/proof?x=1", "/v1/events/proof?since=soon", "/v1/events/proof?kind=restored", "/v1/events/proof?since=1h&since=2h",
	} {
		o.want(400, "GET", path, "")
	}
	if got := o.ids("/v1/events/blocks?after=1"); len(got) != 0 {
		t.Errorf("behind the oldest: %v", got)
	}
}

// An export that cannot begin is refused, and one that cannot go on breaks off.
func TestProofBreaksOff(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.seal()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if w := o.do("GET", "/v1/events/proof", "", func(r *http.Request) { *r = *r.WithContext(ctx) }); w.Code != 503 || strings.Contains(w.Body.String(), "journal") {
		t.Errorf("nobody waits: %d %s", w.Code, w.Body)
	}
	full := &fullAfter{header: http.Header{}}
	func() {
		defer func() {
			if fault := recover(); fault != http.ErrAbortHandler {
				t.Errorf("it ended with %v", fault)
			}
		}()
		o.Server.proof(full, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/events/proof", nil))
	}()
	if full.written == 0 {
		t.Error("nothing was sent")
	}
}

// fullAfter takes the first line of an answer, and nothing more.
type fullAfter struct {
	written int
	header  http.Header
}

func (f *fullAfter) Header() http.Header { return f.header }
func (f *fullAfter) WriteHeader(int)     {}
func (f *fullAfter) Write(p []byte) (int, error) {
	if f.written++; f.written > 1 {
		return 0, errors.New("the reader has gone")
	}
	return len(p), nil
}
