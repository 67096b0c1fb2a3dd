package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/docs/openapi"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

const password = "a password of tests"

// An office is a door over a real store, and an operator in front of it.
type office struct {
	*testing.T
	*Server
	handler http.Handler
	later   atomic.Int64 // nanoseconds that the clock is ahead
	close   func()       // the store
}

func newOffice(t *testing.T) *office {
	t.Helper()
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	o := &office{T: t}
	now := func() time.Time { return time.Now().Add(time.Duration(o.later.Load())) }
	s, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "test.db"), Ring: ring, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	o.close = sync.OnceFunc(func() { s.Close() })
	t.Cleanup(o.close)
	people := []store.DirectoryPerson{
		{Person: org.Person{ID: "ada", Email: "ada@nordlys.example", Name: "Ada", Active: true}},
		{Person: org.Person{ID: "tor", Email: "tor@nordlys.example", Name: "Tor", Active: true}},
		{Person: org.Person{ID: "ola", Email: "ola@havn.example", Name: "Ola", Active: true}},
	}
	err = s.AddDirectory(t.Context(), store.Directory{
		People:        people,
		Organizations: []org.Organization{{ID: "havn", Name: "Havn"}, {ID: "nordlys", Name: "Nordlys", AIIntegration: true}},
		Members:       []store.DirectoryMember{{Person: "ada", Organization: "nordlys", Admin: true}, {Person: "tor", Organization: "nordlys"}},
		Circles:       []org.Circle{{ID: "circle", Organization: "nordlys", Name: "Circle"}},
		Roles:         []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "circle", Name: "Treasurer"}},
		Fillers:       []store.Filler{{Role: "treasurer", Person: "ada"}},
	}, store.Act{Actor: "system"})
	if err != nil {
		t.Fatal(err)
	}
	o.Server = &Server{Store: s, OwnHosts: func() []string { return nil }, Password: func() string { return password }, Version: Version{Version: "9.9.9"}}
	o.handler = openapi.Read(t, "operator").Watch(t, o.Server.Handler())
	return o
}

// do sends a request as the operator.
func (o *office) do(method, path, body string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	o.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, strings.NewReader(body))
	r.SetBasicAuth(User, password)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	w.Header().Set("X-Request-Id", "reference-of-test")
	o.handler.ServeHTTP(w, r)
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		o.Errorf("%s %s: Cache-Control %q", method, path, got)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		o.Errorf("%s %s: Content-Type %q", method, path, got)
	}
	if got := w.Header().Get("Access-Control-Allow-Origin"); got != "" {
		o.Errorf("%s %s: CORS %q", method, path, got)
	}
	return w
}

// want does a request and gives the members of the answer.
func (o *office) want(status int, method, path, body string, change ...func(*http.Request)) map[string]any {
	o.Helper()
	w := o.do(method, path, body, change...)
	if w.Code != status {
		o.Fatalf("%s %s %s: %d, want %d: %s", method, path, body, w.Code, status, w.Body)
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		o.Fatalf("%s %s: %v: %s", method, path, err, w.Body)
	}
	if status >= 400 && status != http.StatusServiceUnavailable &&
		(got["error"] == "" || got["error_description"] == "" || got["reference"] != "reference-of-test") {
		o.Errorf("%s %s: refusal %s", method, path, w.Body)
	}
	return got
}

func (o *office) ids(path string) []string {
	o.Helper()
	got := []string{}
	for _, item := range o.want(200, "GET", path, "")["items"].([]any) {
		got = append(got, item.(map[string]any)["id"].(string))
	}
	return got
}

// RFC 7636 appendix B.
const verifier, challenge = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"

// approved gives an approval of a person whose code waits, and its ID.
func (o *office) approved(clientID, person string, set grantset.Set) string {
	o.Helper()
	id, _ := o.approve(clientID, person, set)
	return id.String()
}

func (o *office) approve(clientID, person string, set grantset.Set) (id approval.ID, issued int64) {
	o.Helper()
	c := client.Client{ID: clientID, Name: "Name of " + clientID, RedirectURIs: []string{"https://a.example/cb"}, IssuedAt: o.Store.Now().Unix()}
	if err := o.Store.AddClient(o.Context(), c, store.Origin{}, store.Act{}); err != nil && !errors.Is(err, store.ErrConflict) {
		o.Fatal(err)
	}
	seed := fmt.Sprintf("%-16.16s", clientID+person+string(set.Kind))
	h, issued, err := o.Store.Approve(o.Context(), store.Answer{
		Handle: func(attempt uint32) token.Handle { return token.Handle([]byte(seed)) },
		Client: clientID, Person: person, Organization: "nordlys", Grant: set,
		RedirectURI: "https://a.example/cb", Issuer: "https://svalinn.example", Challenge: challenge,
	}, store.Act{Actor: "person:" + person})
	if err != nil {
		o.Fatal(err)
	}
	return approval.ID(h.ID()), issued
}

// live gives an exchanged approval of a person, and its ID.
func (o *office) live(clientID, person string, set grantset.Set) string {
	o.Helper()
	id, issued := o.approve(clientID, person, set)
	move := approval.Exchange(clientID, "https://svalinn.example", "https://a.example/cb", verifier, issued, 1, o.Store.Now())
	if _, verdict, err := o.Store.Apply(o.Context(), id, move, store.Act{}); err != nil || verdict != approval.OK {
		o.Fatalf("exchange: %v, %v", verdict, err)
	}
	return id.String()
}

// Decision O1: HTTP Basic as operator, before anything is told of a path.
func TestOnlyTheOperatorGetsIn(t *testing.T) {
	o := newOffice(t)
	tests := []struct {
		name   string
		change func(*http.Request)
	}{
		{"no credential", func(r *http.Request) { r.Header.Del("Authorization") }},
		{"another name", func(r *http.Request) { r.SetBasicAuth("admin", password) }},
		{"another password", func(r *http.Request) { r.SetBasicAuth(User, password+"x") }},
		{"no password", func(r *http.Request) { r.SetBasicAuth(User, "") }},
		{"bearer", func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+password) }},
	}
	for _, tt := range tests {
		for _, path := range []string{"/v1/people", "/v1/nothing", "/v1"} {
			w := o.do("GET", path, "", tt.change)
			if w.Code != 401 || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Basic realm=") {
				t.Errorf("%s at %s: %d %q", tt.name, path, w.Code, w.Header().Get("WWW-Authenticate"))
			}
		}
	}
	o.want(401, "POST", "/v1/people/ada/deactivate", "", tests[0].change)
	if p, err := o.Store.Person(t.Context(), "ada"); err != nil || !p.Active {
		t.Errorf("a stranger deactivated somebody: %+v, %v", p, err)
	}
	o.want(200, "GET", "/v1/people", "")
	if err := o.Store.Ready(t.Context()); err != nil { // a write after those that were not waited for
		t.Fatal(err)
	}
	if got := len(o.ids("/v1/events?kind=signin_failed")); got != 1 {
		t.Errorf("%d entries about wrong passwords of one address in a minute, want 1", got)
	}
}

// Decision O1.
func TestWithoutAPasswordTheAPIIsOff(t *testing.T) {
	o := newOffice(t)
	o.Password = func() string { return "" }
	for _, change := range []func(*http.Request){
		func(*http.Request) {},
		func(r *http.Request) { r.SetBasicAuth(User, "") },
		func(r *http.Request) { r.Header.Del("Authorization") },
	} {
		got := o.want(404, "GET", "/v1/people", "", change)
		if got["error"] != "api_off" || !strings.Contains(fmt.Sprint(got["error_description"]), "operator.password_file") {
			t.Errorf("it does not say why: %v", got)
		}
	}
	o.want(200, "GET", "/livez", "")
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	o := newOffice(t)
	for _, tt := range []struct{ header, value string }{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example"},
	} {
		o.want(403, "POST", "/v1/people/ada/deactivate", "", func(r *http.Request) { r.Header.Set(tt.header, tt.value) })
	}
	if p, _ := o.Store.Person(t.Context(), "ada"); !p.Active {
		t.Error("a page of another site deactivated somebody")
	}
	o.want(200, "POST", "/v1/people/ada/deactivate", "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") })
}

func TestHealthNeedsNoPassword(t *testing.T) {
	o := newOffice(t)
	stranger := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, path := range []string{"/livez", "/readyz", "/healthz"} {
		if got := o.want(200, "GET", path, "", stranger); got["status"] != "ok" {
			t.Errorf("%s: %v", path, got)
		}
	}
	if got := o.want(200, "GET", "/version", "", stranger); got["version"] != "9.9.9" {
		t.Errorf("version: %v", got)
	}
	o.Draining = func() bool { return true }
	got := o.want(503, "GET", "/readyz", "", stranger)
	if missing := got["missing"].([]any); len(missing) != 1 || !strings.Contains(missing[0].(string), "draining") {
		t.Errorf("readyz while draining: %v", got)
	}
	o.want(405, "POST", "/livez", "", stranger)
	o.want(404, "GET", "/nothing", "", stranger)
	o.close()
	got = o.want(503, "GET", "/readyz", "", stranger)
	if missing := got["missing"].([]any); len(missing) != 2 || !strings.Contains(missing[1].(string), "database") {
		t.Errorf("readyz without a database: %v", got)
	}
	o.want(200, "GET", "/livez", "", stranger)
}

// Objects have at least the members of decision O2, and no others than these.
func TestObjects(t *testing.T) {
	o := newOffice(t)
	set := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer", Change: true}}, Personal: true}
	id := o.live("client1", "ada", set)
	created, registered := o.want(200, "GET", "/v1/approvals/"+id, "")["created_at"], o.want(200, "GET", "/v1/clients/client1", "")["issued_at"]
	tests := []struct{ path, want string }{
		{"/v1/people/ada", `{"id":"ada","email":"ada@nordlys.example","name":"Ada","active":true,"support":false}`},
		{"/v1/people/ADA@nordlys.example", `{"id":"ada","email":"ada@nordlys.example","name":"Ada","active":true,"support":false}`},
		{"/v1/organizations/nordlys", `{"id":"nordlys","name":"Nordlys","ai_integration":true}`},
		{"/v1/clients/client1", fmt.Sprintf(`{"id":"client1","client_id":"client1","client_name":"Name of client1","state":"approved","redirect_uris":["https://a.example/cb"],"issued_at":%.0f}`, registered)},
		{"/v1/approvals/" + id, fmt.Sprintf(`{"id":"%s","client_id":"client1","client_name":"Name of client1","person":"ada","organization":"nordlys","grant":"roles","access":"Selected roles: Treasurer (change); personal items included","roles":[{"role":"treasurer","access":"change"}],"personal":true,"state":"live","reason":"","created_at":%.0f,"last_used":0,"ended_at":0,"ends_at":0,"key_bound":false}`, id, created)},
	}
	for _, tt := range tests {
		if got := strings.TrimSpace(o.do("GET", tt.path, "").Body.String()); got != tt.want {
			t.Errorf("%s\n got %s\nwant %s", tt.path, got, tt.want)
		}
	}
	events := o.want(200, "GET", "/v1/events?approval="+id, "")["items"].([]any)
	if len(events) != 2 {
		t.Fatalf("events of the approval: %v", events)
	}
	first := events[0].(map[string]any)
	if got := o.want(200, "GET", "/v1/events/"+first["id"].(string), ""); fmt.Sprint(got) != fmt.Sprint(first) {
		t.Errorf("event alone %v, in the list %v", got, first)
	}
}

func TestUnknownIs404(t *testing.T) {
	o := newOffice(t)
	for _, path := range []string{
		"/v1/people/nobody", "/v1/organizations/none", "/v1/clients/none", "/v1/events/none", "/v1/events/0",
		"/v1/approvals/none", "/v1/approvals/00000000000000000000000000000000", "/v1/nothing", "/v1/", "/v1/people/ada/more",
		"/v1/approvals?person=nobody", "/v1/approvals?organization=none", "/v1/events?person=nobody", "/v1/people?organization=none",
		"/v1/dev/clock", "/v1//people", "/v1/../v1/people", "/v1/./people", "//v1/people", "/livez/../livez", "//livez",
	} {
		o.want(404, "GET", path, "")
	}
	for path, body := range map[string]string{
		"/v1/people/nobody/deactivate":                          "",
		"/v1/people/nobody/reactivate":                          "",
		"/v1/organizations/none/members":                        `{"person":"ada"}`,
		"/v1/organizations/nordlys/members":                     `{"person":"nobody"}`,
		"/v1/organizations/none/members/ada/remove":             "",
		"/v1/organizations/nordlys/members/nobody/remove":       "",
		"/v1/organizations/nordlys/members/ola/admin":           `{"on":true}`,
		"/v1/organizations/none/ai-integration":                 `{"on":true}`,
		"/v1/roles/none/fillers":                                `{"person":"ada"}`,
		"/v1/roles/treasurer/fillers":                           `{"person":"nobody"}`,
		"/v1/roles/treasurer/fillers/remove":                    `{"person":"nobody"}`,
		"/v1/clients/none/disable":                              "",
		"/v1/approvals/none/revoke":                             "",
		"/v1/approvals/00000000000000000000000000000000/revoke": "",
		"/v1/dev/clock":                                         `{"advance_seconds":1}`,
	} {
		o.want(404, "POST", path, body)
	}
}

func TestWrongMethodIs405(t *testing.T) {
	o := newOffice(t)
	for path, allow := range map[string]string{
		"/v1/people": "GET, HEAD, POST", "/v1/people/ada": "GET, HEAD", "/v1/directory": "GET, HEAD, POST",
	} {
		method := "DELETE"
		w := o.do(method, path, "")
		if w.Code != 405 || w.Header().Get("Allow") != allow {
			t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
		}
	}
	o.want(405, "GET", "/v1/people/ada/deactivate", "")
}

// Each change does what it says, is fine when repeated, and stands in the
// journal once with its reason (decision O3).
func TestChanges(t *testing.T) {
	ctx := context.Background()
	person := func(o *office, id string) org.Person {
		p, err := o.Store.Person(ctx, id)
		if err != nil {
			o.Fatal(err)
		}
		return p
	}
	member := func(o *office, id string) org.Member { // the zero Member when there is none
		m, err := o.Store.Member(ctx, id, "nordlys")
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			o.Fatal(err)
		}
		return m
	}
	tests := []struct {
		path, body string // reason is added
		holds      func(*office) bool
		answer     string
	}{
		{"/v1/people/ada@nordlys.example/deactivate", "", func(o *office) bool { return !person(o, "ada").Active },
			`{"id":"ada","email":"ada@nordlys.example","name":"Ada","active":false,"support":false,"approvals_ended":0}`},
		{"/v1/organizations/nordlys/members", `"person":"ola@havn.example"`, func(o *office) bool { return member(o, "ola").Exists() && !member(o, "ola").Admin },
			`{"id":"nordlys/ola","organization":"nordlys","person":"ola","member":true,"admin":false}`},
		{"/v1/organizations/nordlys/members", `"person":"ola","admin":true`, func(o *office) bool { return member(o, "ola").Admin },
			`{"id":"nordlys/ola","organization":"nordlys","person":"ola","member":true,"admin":true}`},
		{"/v1/organizations/nordlys/members/tor/remove", "", func(o *office) bool { return !member(o, "tor").Exists() },
			`{"id":"nordlys/tor","organization":"nordlys","person":"tor","member":false,"admin":false}`},
		{"/v1/organizations/nordlys/members/tor@nordlys.example/admin", `"on":true`, func(o *office) bool { return member(o, "tor").Admin },
			`{"id":"nordlys/tor","organization":"nordlys","person":"tor","member":true,"admin":true}`},
		{"/v1/organizations/nordlys/members/ada/admin", `"on":false`, func(o *office) bool { return member(o, "ada").Exists() && !member(o, "ada").Admin },
			`{"id":"nordlys/ada","organization":"nordlys","person":"ada","member":true,"admin":false}`},
		{"/v1/organizations/nordlys/ai-integration", `"on":false`, func(o *office) bool { got, _ := o.Store.Organization(ctx, "nordlys"); return !got.AIIntegration },
			`{"id":"nordlys","name":"Nordlys","ai_integration":false,"approvals_ended":0}`},
		{"/v1/organizations/havn/ai-integration", `"on":true`, func(o *office) bool { got, _ := o.Store.Organization(ctx, "havn"); return got.AIIntegration },
			`{"id":"havn","name":"Havn","ai_integration":true}`},
		{"/v1/roles/treasurer/fillers", `"person":"tor@nordlys.example"`, func(o *office) bool { return member(o, "tor").Fills("treasurer") },
			`{"id":"treasurer/tor","role":"treasurer","person":"tor","fills":true}`},
		{"/v1/roles/treasurer/fillers/remove", `"person":"ada"`, func(o *office) bool { return !member(o, "ada").Fills("treasurer") },
			`{"id":"treasurer/ada","role":"treasurer","person":"ada","fills":false}`},
	}
	for _, tt := range tests {
		t.Run(tt.path+" "+tt.body, func(t *testing.T) {
			o := newOffice(t)
			if tt.holds(o) {
				t.Fatal("it holds before the change")
			}
			body := `{"reason":"because of a test"}`
			if tt.body != "" {
				body = "{" + tt.body + `,"reason":"because of a test"}`
			}
			for range 2 {
				if got := strings.TrimSpace(o.do("POST", tt.path, body).Body.String()); got != tt.answer {
					t.Errorf("\n got %s\nwant %s", got, tt.answer)
				}
				if !tt.holds(o) {
					t.Error("it does not hold after the change")
				}
			}
			events := o.want(200, "GET", "/v1/events?kind=directory_changed&limit=1", "")["items"].([]any)
			e := events[0].(map[string]any)
			if e["actor"] != "operator" || e["reason"] != "because of a test" || e["reference"] != "reference-of-test" || e["address"] != "192.0.2.1" {
				t.Errorf("journal: %v", e)
			}
		})
	}
}

func TestClientsAndApprovals(t *testing.T) {
	o := newOffice(t)
	everything := grantset.Set{Kind: grantset.Everything}
	ada, tor := o.live("client1", "ada", everything), o.live("client1", "tor", everything)
	other := o.live("client2", "ada", grantset.Set{Kind: grantset.Organization})

	for query, want := range map[string][]string{
		"":                            {ada, tor, other},
		"?client=client1":             {ada, tor},
		"?person=ada":                 {ada, other},
		"?person=ada@nordlys.example": {ada, other},
		"?organization=nordlys":       {ada, tor, other},
		"?organization=havn":          {},
		"?grant=organization":         {other},
		"?state=live":                 {ada, tor, other},
		"?state=ended":                {},
		"?unused-for=0s":              {ada, tor, other},
		"?unused-for=90d":             {},
		"?client=client1&person=tor":  {tor},
		"?client=client2&grant=roles": {},
	} {
		got := o.ids("/v1/approvals" + query)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("approvals%s: %v, want %v", query, got, want)
		}
	}

	for range 2 {
		got := o.want(200, "POST", "/v1/approvals/"+tor+"/revoke", `{"reason":"lost device"}`)
		if got["id"] != tor || got["state"] != "ended" || got["reason"] != "revoked_by_operator" {
			t.Errorf("revoked: %v", got)
		}
	}
	for _, ended := range []float64{1, 0} {
		if got := o.want(200, "POST", "/v1/clients/client1/disable", `{"reason":"imitates us"}`); got["state"] != "disabled" || got["approvals_ended"] != ended {
			t.Errorf("disabled: %v, want %v ended", got, ended)
		}
	}
	if got := o.want(200, "GET", "/v1/approvals/"+ada, ""); got["state"] != "ended" || got["reason"] != "client_disabled" {
		t.Errorf("approval of a disabled client: %v", got)
	}
	if got := o.want(200, "POST", "/v1/clients/client1/enable", ""); got["state"] != "approved" || got["approvals_ended"] != nil {
		t.Errorf("enabled: %v", got)
	}
	if got := o.ids("/v1/approvals?state=live"); !slices.Equal(got, []string{other}) {
		t.Errorf("enabling revived approvals: %v", got)
	}
	for query, want := range map[string][]string{
		"?state=approved": {"client1", "client2"}, "?state=disabled": {}, "?query=LIENT2": {"client2"}, "?query=%25": {},
	} {
		got := o.ids("/v1/clients" + query)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("clients%s: %v, want %v", query, got, want)
		}
	}
	events := o.want(200, "GET", "/v1/events?client=client1&kind=client_disabled", "")["items"].([]any)
	if len(events) != 1 || events[0].(map[string]any)["reason"] != "imitates us" {
		t.Errorf("journal of the disabling: %v", events)
	}
}

// The beginning of an ID leads to each that begins so, and to nothing else.
func TestIDs(t *testing.T) {
	o := newOffice(t)
	id := o.live("client1", "ada", grantset.Set{Kind: grantset.Everything})
	o.live("client2", "ada", grantset.Set{Kind: grantset.Everything})
	for query, want := range map[string][]string{
		"kind=client&prefix=client": {"client1", "client2"}, "kind=client&prefix=client2": {"client2"}, "kind=client&prefix=lient1": {},
		"kind=client&prefix=client%25": {}, "kind=person&prefix=client": {}, "kind=organization&prefix=nordly": {"nordlys"},
		"kind=approval&prefix=" + id[:7]: {id}, "kind=approval&prefix=" + id: {id}, "kind=approval&prefix=nonsense": {},
	} {
		if got := o.ids("/v1/ids?" + query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"", "?kind=client", "?kind=client&prefix=clien", "?kind=role&prefix=treasurer", "?prefix=client1", "?kind=approval&prefix=" + id[:6] + "&after=x"} {
		o.want(400, "GET", "/v1/ids"+query, "")
	}
	if got := o.want(200, "POST", "/v1/clients/client1/delete", `{}`); got["approvals_ended"] != 1.0 {
		t.Errorf("deleted: %v", got)
	}
	if got := o.ids("/v1/ids?kind=client&prefix=client"); !slices.Equal(got, []string{"client2"}) {
		t.Errorf("after one was deleted: %v", got)
	}
}

// The pages of a list, put together, are the list.
func TestPaging(t *testing.T) {
	o := newOffice(t)
	for _, c := range []string{"client1", "client2", "client3"} {
		o.live(c, "ada", grantset.Set{Kind: grantset.Everything})
	}
	for _, path := range []string{
		"/v1/people?x", "/v1/organizations?x", "/v1/clients?x", "/v1/approvals?x", "/v1/events?x", "/v1/approvals?unused-for=0s&x",
		"/v1/ids?kind=client&prefix=client&x",
	} {
		path = strings.TrimSuffix(strings.TrimSuffix(path, "x"), "&")
		whole := o.ids(path)
		var parts []string
		for after := ""; ; {
			sep := "&"
			if strings.HasSuffix(path, "?") {
				sep = ""
			}
			got := o.want(200, "GET", path+sep+"limit=1&after="+after, "")
			items := got["items"].([]any)
			if len(items) > 1 {
				t.Fatalf("%s: %d items with limit=1", path, len(items))
			}
			for _, item := range items {
				parts = append(parts, item.(map[string]any)["id"].(string))
			}
			if after = got["next"].(string); after == "" {
				break
			}
		}
		if len(whole) < 2 || !slices.Equal(whole, parts) {
			t.Errorf("%s: whole %v, in parts %v", path, whole, parts)
		}
	}
	// Approvals that are used too lately lie between those that are not.
	o.later.Store(int64(100 * 24 * time.Hour))
	o.live("client4", "ada", grantset.Set{Kind: grantset.Everything})
	got := o.want(200, "GET", "/v1/approvals?unused-for=90d&limit=2", "")
	more := o.want(200, "GET", "/v1/approvals?unused-for=90d&limit=2&after="+got["next"].(string), "")
	if len(got["items"].([]any)) != 2 || len(more["items"].([]any)) != 1 || more["next"] != "" {
		t.Errorf("unused: %v and %v", got, more)
	}
	o.want(400, "GET", "/v1/approvals?unused-for=90d&after=nonsense", "")
	o.want(400, "GET", "/v1/approvals?after=nonsense", "")
	o.want(400, "GET", "/v1/clients?after=nonsense", "")
}

func TestEventsByTime(t *testing.T) {
	o := newOffice(t)
	all := o.ids("/v1/events")
	if len(all) == 0 {
		t.Fatal("no events")
	}
	now := o.Store.Now()
	for query, want := range map[string]int{
		"?since=1h": len(all), "?until=1h": 0, "?since=7d&until=1d": 0, "?since=0": len(all), "?until=0": 0, "?since=1970-01-01T00:00:00Z": len(all),
		fmt.Sprintf("?since=%d", now.Unix()+100):                            0,
		"?until=" + now.Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z"): len(all),
	} {
		if got := len(o.ids("/v1/events" + query)); got != want {
			t.Errorf("events%s: %d, want %d", query, got, want)
		}
	}
}

// What a filter names, and nobody has, is said as what it can be.
func TestNobodyHasWhatAFilterNames(t *testing.T) {
	o := newOffice(t)
	for _, one := range []map[string]any{
		o.want(404, "GET", "/v1/approvals?person=nobody", ""),
		o.want(404, "GET", "/v1/attempts?person=nobody", ""),
		o.want(404, "POST", "/v1/approvals/revoke", `{"client":"nobody","dry_run":true}`),
	} {
		if got := one["error_description"]; got != "there is no such client, person or organization" {
			t.Error(got)
		}
	}
	for path, want := range map[string]string{"/v1/people?organization=nowhere": "organization", "/v1/approvals/" + strings.Repeat("0", 32) + "/activity": "approval"} {
		if got := o.want(404, "GET", path, "")["error_description"]; got != "there is no such "+want {
			t.Error(path, got)
		}
	}
}

// What cannot be right is refused with 400 and changes nothing.
func TestBadRequests(t *testing.T) {
	o := newOffice(t)
	for _, path := range []string{
		"/v1/people?query=%00", "/v1/people?query=a%0A", "/v1/clients?query=%FF", "/v1/approvals?client=%00", "/v1/events?kind=%00", "/v1/events?after=x",
		"/v1/people?limit=0", "/v1/people?limit=1001", "/v1/people?limit=x", "/v1/people?limit=-1", "/v1/people?limit=1&limit=2",
		"/v1/people?emial=x", "/v1/organizations?query=x", "/v1/clients?state=gone", "/v1/approvals?state=gone", "/v1/approvals?grant=all",
		"/v1/approvals?unused-for=soon", "/v1/approvals?unused-for=-1h", "/v1/events?since=yesterday", "/v1/events?until=-5", "/v1/people?query=%zz",
	} {
		o.want(400, "GET", path, "")
	}
	for _, body := range []string{
		`{"on":false,"on":false}`, `{"On":false}`, `{"on":"false"}`, `{"on":0}`, `{"on":null}`, `{}`, ``, `{"on":false,"more":1}`,
		`{"on":false} {}`, `[{"on":false}]`, `{"on":false`, `false`, `null`, "{\"on\":false,\"reason\":\"\xff\"}", `{"on":false,"reason":1}`,
		`{"on":false,"reason":"a\nb"}`, `{"on":false,"reason":"` + strings.Repeat("x", 1001) + `"}`, `{"on":false,"reaſon":"x"}`,
		`{"on":false,"reason":"` + strings.Repeat("x", 64<<10) + `"}`, `{"on":{"on":{"on":{"on":{"on":{"on":{"on":{"on":{"on":1}}}}}}}}}`,
	} {
		o.want(400, "POST", "/v1/organizations/nordlys/ai-integration", body)
	}
	if got := o.do("POST", "/v1/organizations/nordlys/ai-integration", `{"on":`+strings.Repeat("[", 100)).Body.String(); !strings.Contains(got, "nested deeper") {
		t.Errorf("a deep body: %s", got)
	}
	for body, want := range map[string]string{
		`{"on":0}`: "on: it must be of type bool", `{"on":false,"reason":1}`: `"reason: it must be of type string`,
	} {
		if got := o.do("POST", "/v1/organizations/nordlys/ai-integration", body).Body.String(); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	o.want(400, "POST", "/v1/organizations/nordlys/ai-integration", `{"on":false}`+strings.Repeat(" ", MaxBody))
	for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/jsonp"} {
		o.want(400, "POST", "/v1/organizations/nordlys/ai-integration", `{"on":false}`, func(r *http.Request) { r.Header.Set("Content-Type", kind) })
	}
	if got, _ := o.Store.Organization(t.Context(), "nordlys"); !got.AIIntegration {
		t.Error("a refused request switched AI integration off")
	}
	o.want(400, "POST", "/v1/organizations/nordlys/members", `{"admin":true}`)
	o.want(400, "POST", "/v1/roles/treasurer/fillers", `{}`)
	o.want(200, "POST", "/v1/organizations/nordlys/ai-integration", `{"on":false,"reason":null}`,
		func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=utf-8") })
}

func TestDirectory(t *testing.T) {
	o := newOffice(t)
	o.HashPassword = func(p string) string { return "hash of " + p }
	const hash = "$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
	body := `{"reason":"first people","organizations":[{"id":"fjell","name":"Fjell","ai_integration":true},{"id":"nordlys","name":"Nordlys 2"}],
		"people":[{"id":"mei","email":"Mei@storhavn.example","name":"Mei","password":"long enough"},
		          {"id":"ada","email":"ada@nordlys.example","name":"Ada B.","password_hash":"` + hash + `"}],
		"circles":[{"id":"top","organization":"fjell","name":"Top"},{"id":"sub","organization":"fjell","parent":"top","name":"Sub"}],
		"members":[{"organization":"fjell","person":"mei","admin":true},{"organization":"nordlys","person":"ada"}],
		"roles":[{"id":"keeper","organization":"fjell","circle":"sub","name":"Keeper","fillers":["mei"]}],
		"api_keys":[{"key":"gk_0123456789abcdef","organization":"fjell","person":"mei","name":"Mei's script"}]}`
	got := o.do("POST", "/v1/directory", body)
	want := `{"id":"directory","people":2,"organizations":2,"members":2,"circles":2,"roles":1,"fillers":1,"api_keys":1,"dry_run":false,"counts":{"api_keys":{"added":1,"changed":0,"removed":0},"circles":{"added":2,"changed":0,"removed":0},"fillers":{"added":1,"changed":0,"removed":0},"members":{"added":1,"changed":0,"removed":0},"organizations":{"added":1,"changed":1,"removed":0},"people":{"added":1,"changed":1,"removed":0},"roles":{"added":1,"changed":0,"removed":0}},"changes":[{"change":"added","list":"people","id":"mei"},{"change":"changed","list":"people","id":"ada"},{"change":"added","list":"organizations","id":"fjell"},{"change":"changed","list":"organizations","id":"nordlys"},{"change":"added","list":"members","id":"fjell/mei"},{"change":"added","list":"circles","id":"top"},{"change":"added","list":"circles","id":"sub"},{"change":"added","list":"roles","id":"keeper"},{"change":"added","list":"fillers","id":"keeper/mei"},{"change":"added","list":"api_keys","id":"fjell/mei"}],"approvals_ended":0}`
	if strings.TrimSpace(got.Body.String()) != want {
		t.Fatalf("\n got %d %s\nwant %s", got.Code, got.Body, want)
	}
	m, err := o.Store.Member(t.Context(), "mei", "fjell")
	if err != nil || !m.Admin || !m.Fills("keeper") {
		t.Errorf("member: %+v, %v", m, err)
	}
	if m, err := o.Store.Member(t.Context(), "ada", "nordlys"); err != nil || !m.Admin {
		t.Errorf("an admin whose right was not sent: %+v, %v", m, err)
	}
	for email, want := range map[string]string{"mei@storhavn.example": "hash of long enough", "ada@nordlys.example": hash} {
		if _, got, err := o.Store.Password(t.Context(), email); err != nil || got != want {
			t.Errorf("password of %s: %q, %v", email, got, err)
		}
	}
	if got := o.want(200, "GET", "/v1/organizations/nordlys", ""); got["name"] != "Nordlys 2" || got["ai_integration"] != true {
		t.Errorf("updated organization: %v", got)
	}
	if m, err := o.Store.APIKey(t.Context(), "gk_0123456789abcdef"); err != nil || m.Person != "mei" {
		t.Errorf("API key: %+v, %v", m, err)
	}
	// Somebody deactivated stays so unless the directory says otherwise.
	o.want(200, "POST", "/v1/people/mei/deactivate", "")
	o.want(200, "POST", "/v1/directory", `{"people":[{"id":"mei","email":"mei@storhavn.example","name":"Mei"}]}`)
	if got := o.want(200, "GET", "/v1/people/mei", ""); got["active"] != false {
		t.Errorf("an import reactivated somebody: %v", got)
	}
}

func TestBadDirectoriesAreRefusedWhole(t *testing.T) {
	o := newOffice(t)
	o.want(400, "POST", "/v1/directory", `{"people":[{"id":"a","email":"a@b.example","name":"A","password":"long enough"}]}`) // nobody hashes
	o.HashPassword = func(p string) string { return "hash of " + p }
	many := ""
	for i := range maxPasswords + 1 {
		many += fmt.Sprintf(`,{"id":"p%d","email":"p%d@b.example","name":"P","password":"long enough"}`, i, i)
	}
	o.want(400, "POST", "/v1/directory", `{"people":[`+many[1:]+`]}`)
	o.want(400, "POST", "/v1/directory", "{\"people\":[{\"id\":\"a\",\"email\":\"a@b.example\",\"name\":\"A\",\"password\":\"long \xff enough\"}]}")
	const good = `{"id":"new","name":"New"}`
	for _, body := range []string{
		`{"people":[{"id":"","email":"a@b.example","name":"A"}]}`,
		`{"people":[{"id":"a b","email":"a@b.example","name":"A"}]}`,
		`{"people":[{"id":"a","email":"a.example","name":"A"}]}`,
		`{"people":[{"id":"a","email":"a@b@c.example","name":"A"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":" "}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password":"short"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password":"long enough","password_hash":"$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password_hash":"$2y$10$abc"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password_hash":"$argon2id$v=19$m=8,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password_hash":"$argon2id$v=19$m=65536,t=5,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password_hash":"$argon2id$v=19$m=131072,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","password_hash":"$argon2id$v=19$m=19456,t=2,p=1$MDEyMzQ1Njc4OWFiY2RlZg$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}`,
		`{"people":[{"id":"a","email":"a@b.example","name":"A","pasword":"long enough"}]}`,
		`{"people":{"id":"a"}}`,
		`{"members":[{"organization":"none","person":"ada"}]}`,
		`{"members":[{"organization":"nordlys","person":"nobody"}]}`,
		`{"circles":[{"id":"c","organization":"none","name":"C"}]}`,
		`{"roles":[{"id":"r","organization":"nordlys","circle":"none","name":"R"}]}`,
		`{"roles":[{"id":"r","organization":"nordlys","circle":"circle","name":"R","fillers":["ola"]}]}`,
		`{"api_keys":[{"key":"short","organization":"nordlys","person":"ada","name":"K"}]}`,
		`{"api_keys":[{"key":"0123456789 abcdef","organization":"nordlys","person":"ada","name":"K"}]}`,
		`{"api_keys":[{"key":"0123456789abcdef","organization":"nordlys","person":"ola","name":"K"}]}`,
	} {
		whole := `{"organizations":[` + good + `],` + body[1:]
		if !json.Valid([]byte(whole)) {
			t.Fatalf("not JSON: %s", whole)
		}
		o.want(400, "POST", "/v1/directory", whole)
	}
	o.want(409, "POST", "/v1/directory", `{"organizations":[`+good+`],"people":[{"id":"b","email":"ADA@nordlys.example","name":"B"}]}`)
	o.want(404, "GET", "/v1/organizations/new", "")
	if strings.Contains(o.do("POST", "/v1/directory", `{"people":[{"id":"a","email":"x","name":"A","password":"a secret word"}]}`).Body.String(), "secret") {
		t.Error("a refusal repeats a password")
	}
}

func TestClockOfDev(t *testing.T) {
	o := newOffice(t)
	var state ClockState
	o.Clock = func(_ context.Context, m ClockMove) (ClockState, error) {
		state.Ahead += m.By
		if m.Stop != nil {
			state.Stopped = *m.Stop
		}
		return state, nil
	}
	for _, tt := range []struct {
		body    string // "" reads
		ahead   float64
		stopped bool
	}{
		{`{"advance_seconds":300}`, 300, false}, {`{"advance_seconds":-100}`, 200, false}, {`{"stopped":true}`, 200, true}, {"", 200, true},
		{`{"advance_seconds":1}`, 201, true}, {`{"advance_seconds":-1,"stopped":false,"reason":"x"}`, 200, false}, {"", 200, false},
	} {
		method := "POST"
		if tt.body == "" {
			method = "GET"
		}
		got := o.want(200, method, "/v1/dev/clock", tt.body)
		if got["id"] != "clock" || got["advance_seconds"] != tt.ahead || got["stopped"] != tt.stopped || got["now"].(float64) < 1e9 {
			t.Errorf("%s: %v", tt.body, got)
		}
	}
	for _, body := range []string{`{}`, `{"advance_seconds":1.5}`, `{"advance_seconds":1e300}`, `{"advance_seconds":3153600001}`, `{"advance_seconds":-3153600001}`, `{"advance_seconds":"1"}`, `{"stopped":1}`} {
		o.want(400, "POST", "/v1/dev/clock", body)
	}
	if state.Ahead != 200*time.Second || state.Stopped {
		t.Errorf("a refused request moved the clock: %+v", state)
	}
}

// Faults of ours are logged and told as a reference alone; a database that
// cannot answer is 503.
func TestFaultsOfOurs(t *testing.T) {
	o := newOffice(t)
	var log strings.Builder
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	for _, tt := range []struct {
		err  error
		want int
	}{
		{errors.New("table secret_things is broken"), 500},
		{fmt.Errorf("disk: %w", store.ErrUnavailable), 503},
	} {
		w := httptest.NewRecorder()
		w.Header().Set("X-Request-Id", "reference-of-test")
		o.answer(func(Call) (any, error) { return nil, tt.err }).ServeHTTP(w, httptest.NewRequest("GET", "/v1/people", nil))
		if w.Code != tt.want || strings.Contains(w.Body.String(), "secret_things") || !strings.Contains(w.Body.String(), "reference-of-test") {
			t.Errorf("%v: %d %s", tt.err, w.Code, w.Body)
		}
		if (w.Header().Get("Retry-After") != "") != (tt.want == 503) {
			t.Errorf("%v: Retry-After %q", tt.err, w.Header().Get("Retry-After"))
		}
	}
	if !strings.Contains(log.String(), "secret_things") || !strings.Contains(log.String(), "reference-of-test") {
		t.Errorf("log: %s", log.String())
	}
}
