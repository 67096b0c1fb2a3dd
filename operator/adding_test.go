package operator

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

func TestAddPerson(t *testing.T) {
	o := newOffice(t)
	o.HashPassword = func(p string) string { return "$argon2id$of " + p }
	for range 2 {
		got := o.want(200, "POST", "/v1/people", `{"id":"eva","email":"Eva@nordlys.example","name":"Eva","password":"long enough","reason":"new"}`)
		if got["id"] != "eva" || got["email"] != "Eva@nordlys.example" || got["active"] != true {
			t.Errorf("got %v", got)
		}
	}
	if _, hash, err := o.Store.Password(t.Context(), "eva@nordlys.example"); err != nil || hash != "$argon2id$of long enough" {
		t.Errorf("password %q, %v", hash, err)
	}
	first := o.want(200, "POST", "/v1/people", `{"email":"ida@nordlys.example","name":"Ida"}`)
	if again := o.want(200, "POST", "/v1/people", `{"email":"IDA@nordlys.example","name":"Ida"}`); again["id"] != first["id"] || len(first["id"].(string)) < 20 {
		t.Errorf("%v, and again %v", first, again)
	}
	o.want(404, "GET", "/v1/people/%C4%B0da@nordlys.example", "")
	if other := o.want(200, "POST", "/v1/people", `{"email":"\u0130da@nordlys.example","name":"Ida"}`); other["id"] == first["id"] {
		t.Errorf("whose email looks alike is %v", other)
	}
	for body, status := range map[string]int{
		`{"id":"eva","email":"other@nordlys.example","name":"Eva"}`:               409,
		`{"id":"uma","email":"eva@nordlys.example","name":"Uma"}`:                 409,
		`{"id":"eva2","email":"eva@nordlys.example","name":"Eva"}`:                409,
		`{"id":"a b","email":"x@nordlys.example","name":"X"}`:                     400,
		`{"email":"nobody","name":"X"}`:                                           400,
		`{"email":"x@nordlys.example","name":" "}`:                                400,
		`{"email":"x@nordlys.example","name":"X","password":"short"}`:             400,
		`{"email":"x@nordlys.example","name":"X","admin":true}`:                   400,
		`{"email":"x@nordlys.example","name":"X\u0000"}`:                          400,
		`{"email":"x@nordlys.example","name":"` + strings.Repeat("x", 201) + `"}`: 400,
	} {
		o.want(status, "POST", "/v1/people", body)
	}
	if got := len(o.ids("/v1/events?kind=directory_changed&person=eva")); got != 1 {
		t.Errorf("%d events about eva", got)
	}
}

func TestSetPassword(t *testing.T) {
	o := newOffice(t)
	o.want(400, "POST", "/v1/people/ada/password", `{"password":"long enough"}`) // nobody hashes here
	o.HashPassword = func(p string) string { return "$argon2id$of " + p }
	got := o.want(200, "POST", "/v1/people/ada@nordlys.example/password", `{"password":"long enough","reason":"forgotten"}`)
	if _, hash, err := o.Store.Password(t.Context(), "ada@nordlys.example"); err != nil || hash != "$argon2id$of long enough" || got["id"] != "ada" {
		t.Errorf("%v: password %q, %v", got, hash, err)
	}
	for _, body := range []string{`{}`, `{"password":"short"}`, `{"password":"` + strings.Repeat("x", 1001) + `"}`} {
		o.want(400, "POST", "/v1/people/ada/password", body)
	}
	o.want(404, "POST", "/v1/people/nobody/password", `{"password":"long enough"}`)
	for _, e := range o.want(200, "GET", "/v1/events?person=ada", "")["items"].([]any) {
		for name, v := range e.(map[string]any) {
			if s, ok := v.(string); ok && strings.Contains(s, "long enough") {
				t.Errorf("%s of an event: %s", name, s)
			}
		}
	}
}

func TestAddAndDeleteClient(t *testing.T) {
	o := newOffice(t)
	o.OwnHosts = func() []string { return []string{"app.svalinn.example"} }
	const body = `{"client_id":"assistant","client_name":"Assistant","redirect_uris":["https://assistant.example/cb"],"reason":"asked"}`
	for range 2 {
		if got := o.want(200, "POST", "/v1/clients", body); got["state"] != "preregistered" || got["id"] != "assistant" {
			t.Errorf("got %v", got)
		}
	}
	for body, status := range map[string]int{
		`{"client_id":"assistant","redirect_uris":["https://other.example/cb"]}`: 409,
		`{"client_id":"","redirect_uris":["https://a.example/cb"]}`:              400,
		`{"client_id":"x"}`: 400,
		`{"client_id":"x","redirect_uris":["http://a.example/cb"]}`:                      400,
		`{"client_id":"x","redirect_uris":["https://localhost/cb"]}`:                     400,
		`{"client_id":"x","redirect_uris":["https://app.svalinn.example/cb"]}`:           400,
		`{"client_id":"x","client_name":"<b>","redirect_uris":["https://a.example/cb"]}`: 400,
	} {
		o.want(status, "POST", "/v1/clients", body)
	}
	id, _ := o.approve("assistant", "ada", grantset.Set{Kind: grantset.Everything})
	for range 2 {
		if got := o.want(200, "POST", "/v1/clients/assistant/delete", `{"reason":"gone"}`); got["state"] != "deleted" || got["id"] != "assistant" {
			t.Errorf("deleted: %v", got)
		}
	}
	o.want(404, "GET", "/v1/clients/assistant", "")
	o.want(404, "POST", "/v1/clients/nobody/delete", "")
	o.want(200, "POST", "/v1/clients", `{"client_id":"unused","redirect_uris":["https://unused.example/cb"]}`)
	o.want(200, "POST", "/v1/clients/unused/delete", "")
	if due := o.want(200, "POST", "/v1/gc", `{"dry_run":true}`); due["clients"] != 1.0 {
		t.Errorf("due: %v, want the client that nobody approved", due)
	}
	if status := o.want(200, "GET", "/v1/status", ""); status["overdue"] != 0.0 {
		t.Errorf("%v rows are overdue that no sweep had time to delete", status["overdue"])
	}
	if got := o.want(200, "GET", "/v1/approvals/"+id.String(), ""); got["state"] != "ended" || got["reason"] != "client_disabled" {
		t.Errorf("its approval: %v", got)
	}
}

// Which approvals end is said by person, client, organization and time; a dry
// run ends none.
func TestRevokeMany(t *testing.T) {
	o := newOffice(t)
	everything := grantset.Set{Kind: grantset.Everything}
	one, two, three := o.live("client1", "ada", everything), o.live("client2", "ada", everything), o.live("client1", "tor", everything)
	waiting := o.approved("client2", "tor", everything)
	states := func() (live []string) {
		for _, id := range []string{one, two, three, waiting} {
			if o.want(200, "GET", "/v1/approvals/"+id, "")["state"] != "ended" {
				live = append(live, id)
			}
		}
		return live
	}
	for _, tt := range []struct {
		body  string
		ended float64
		live  []string
	}{
		{`{"person":"ada@nordlys.example","dry_run":true}`, 2, []string{one, two, three, waiting}},
		{`{"organization":"havn"}`, 0, []string{one, two, three, waiting}},
		{`{"person":"ada","client":"client2","reason":"lost device"}`, 1, []string{one, three, waiting}},
		{`{"unused_for":"1h"}`, 0, []string{one, three, waiting}},
		{`{"client":"client1"}`, 2, []string{waiting}},
		{`{"client":"client1"}`, 0, []string{waiting}},
		{`{"organization":"nordlys"}`, 1, nil},
	} {
		if got := o.want(200, "POST", "/v1/approvals/revoke", tt.body); got["ended"] != tt.ended {
			t.Errorf("%s: %v, want %v", tt.body, got, tt.ended)
		}
		if live := states(); !slices.Equal(live, tt.live) {
			t.Errorf("%s: %v live, want %v", tt.body, live, tt.live)
		}
	}
	events := o.want(200, "GET", "/v1/events?kind=approval_ended&client=client2&person=ada", "")["items"].([]any)
	if e := events[0].(map[string]any); len(events) != 1 || e["reason"] != "revoked_by_operator" || e["detail"] != "lost device" {
		t.Errorf("events %v", events)
	}
	old := o.live("client4", "ada", everything)
	o.later.Store(int64(100 * 24 * time.Hour))
	fresh := o.live("client3", "ada", everything)
	if got := o.want(200, "POST", "/v1/approvals/revoke", `{"unused_for":"90d"}`); got["ended"] != 1.0 {
		t.Errorf("unused: %v", got)
	}
	if o.want(200, "GET", "/v1/approvals/"+old, "")["state"] != "ended" || o.want(200, "GET", "/v1/approvals/"+fresh, "")["state"] != "live" {
		t.Error("the wrong one has ended")
	}
	for body, status := range map[string]int{
		`{}`: 400, `{"dry_run":true}`: 400, `{"unused_for":"soon"}`: 400, `{"person":"nobody"}`: 404, `{"client":"nobody"}`: 404, `{"organization":"nowhere"}`: 404,
	} {
		o.want(status, "POST", "/v1/approvals/revoke", body)
	}
}

// A token is named and judged, and nothing of it comes back.
func TestInspect(t *testing.T) {
	o := newOffice(t)
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	o.Ring = ring
	look := func(text, kind, state string) map[string]any {
		t.Helper()
		w := o.do("POST", "/v1/tokens/inspect", `{"token":"`+text+`"}`)
		if strings.Contains(w.Body.String(), text) {
			t.Errorf("it is repeated: %s", w.Body)
		}
		got := o.want(200, "POST", "/v1/tokens/inspect", `{"token":"`+text+`"}`)
		if got["kind"] != kind || got["state"] != state || got["why"] == "" {
			t.Errorf("%v, want a %s that is %s", got, kind, state)
		}
		return got
	}
	now := o.Store.Now().Unix()
	h := token.Handle{1, 2, 3}
	look(ring.Refresh(h, 1), "refresh_token", "unknown")
	look("nonsense", "unknown", "unknown")
	look("svr_nonsense", "unknown", "unknown")
	id, issued := o.approve("client1", "ada", grantset.Set{Kind: grantset.Everything})
	h = token.Handle([]byte("client1adaeveryt"))
	if h.ID() != id {
		t.Fatal("the handle is another one")
	}
	look(ring.Code(h, issued), "authorization_code", "valid")
	exchange := approval.Exchange("client1", "https://svalinn.example", "https://a.example/cb", verifier, issued, 1, o.Store.Now())
	if _, v, err := o.Store.Apply(t.Context(), h.ID(), exchange, store.Act{}); err != nil || v != approval.OK {
		t.Fatal(v, err)
	}
	look(ring.Code(h, issued), "authorization_code", "used")
	look(ring.Refresh(h, 1), "refresh_token", "valid")
	look(ring.Refresh(h, 2), "refresh_token", "unknown")
	if got := look(ring.Access(h, 1, now+100), "access_token", "valid"); got["expires_at"] != float64(now+100) || got["client_id"] != "client1" || got["person"] != "ada" {
		t.Errorf("got %v", got)
	}
	look(ring.Access(h, 1, now-1), "access_token", "expired")
	if _, v, err := o.Store.Refresh(t.Context(), h.ID(), "client1", 1, 1, store.Act{}); err != nil || v != approval.OK {
		t.Fatal(v, err)
	}
	look(ring.Refresh(h, 1), "refresh_token", "used")
	look(ring.Refresh(h, 2), "refresh_token", "valid")
	o.want(200, "POST", "/v1/approvals/"+id.String()+"/revoke", "")
	if got := look(ring.Refresh(h, 2), "refresh_token", "ended"); got["reason"] != "revoked_by_operator" || got["approval"] != id.String() {
		t.Errorf("got %v", got)
	}
	o.want(400, "POST", "/v1/tokens/inspect", `{}`)
}

// The journal names who was at the keyboard, as far as that is a plain name.
func TestOperatorUser(t *testing.T) {
	o := newOffice(t)
	for name, want := range map[string]string{
		"anna": "operator:anna", `CORP\anna`: `operator:CORP\anna`, "anna.b-c_d@host": "operator:anna.b-c_d@host",
		"": "operator", "a b": "operator", "a\x7f": "operator", "é": "operator", strings.Repeat("x", 65): "operator",
	} {
		for _, path := range []string{"deactivate", "reactivate"} {
			o.do("POST", "/v1/people/tor/"+path, "", func(r *http.Request) { r.Header.Set(UserHeader, name) })
		}
		e := o.want(200, "GET", "/v1/events?kind=directory_changed&limit=1", "")["items"].([]any)[0].(map[string]any)
		if e["actor"] != want {
			t.Errorf("%q: actor %v, want %v", name, e["actor"], want)
		}
	}
}

// The journal is read from either end, and a kind that there is not is refused
// with those that there are.
func TestEventOrderAndKinds(t *testing.T) {
	o := newOffice(t)
	o.live("client1", "ada", grantset.Set{Kind: grantset.Everything})
	newest, oldest := o.ids("/v1/events"), o.ids("/v1/events?order=oldest")
	slices.Reverse(oldest)
	if !slices.Equal(newest, oldest) || len(newest) < 4 {
		t.Errorf("newest first %v, oldest first %v", newest, oldest)
	}
	after := o.ids("/v1/events?order=oldest&after=" + newest[2])
	if !slices.Equal(after, []string{newest[1], newest[0]}) {
		t.Errorf("after the third last: %v of %v", after, newest)
	}
	got := o.want(400, "GET", "/v1/events?kind=nope", "")
	if d := got["error_description"].(string); !strings.Contains(d, "refresh_reused") || !strings.Contains(d, "client_expired") {
		t.Errorf("%v", got)
	}
	o.want(400, "GET", "/v1/events?order=any", "")
	if got := o.ids("/v1/events?since=99999999999999"); len(got) != 0 {
		t.Errorf("since the end of time: %v", got)
	}
}

// What a refusal's answer has as its reference leads to its entry.
func TestEventsByReference(t *testing.T) {
	o := newOffice(t)
	o.Store.Record(store.Event{Kind: "registration_refused", Reference: "0123456789abcdef", Detail: "redirect_uris"})
	o.Store.Record(store.Event{Kind: "registration_refused", Reference: "fedcba9876543210"})
	if err := o.Store.Ready(t.Context()); err != nil { // both are written
		t.Fatal(err)
	}
	got := o.want(200, "GET", "/v1/events?reference=0123456789abcdef", "")["items"].([]any)
	if len(got) != 1 || got[0].(map[string]any)["detail"] != "redirect_uris" {
		t.Errorf("got %v", got)
	}
}

// Clients that nobody has approved are deleted by network and time, and counted
// by a dry run, which says which networks have most.
func TestDeleteUnapproved(t *testing.T) {
	o := newOffice(t)
	for i, network := range []string{"2001:db8:2::/48", "2001:db8:2::/48", "192.0.2.0/24"} {
		c := client.Client{ID: fmt.Sprint("flood", i), RedirectURIs: []string{"https://client.example/cb"}, IssuedAt: o.Store.Now().Unix()}
		if err := o.Store.AddClient(o.Context(), c, store.Origin{Network: netip.MustParsePrefix(network)}, store.Act{}); err != nil {
			t.Fatal(err)
		}
	}
	all := o.want(200, "POST", "/v1/clients/delete", `{"dry_run":true}`)
	if networks := all["networks"].([]any); all["dry_run"] != true || len(networks) < 2 || all["deleted"].(float64) < 3 {
		t.Errorf("a dry run: %v", all)
	}
	for _, tt := range []struct {
		body    string
		deleted float64
	}{
		{`{"network":"2001:db8:2::/48","dry_run":true}`, 2},
		{`{"network":"2001:db8:2::/48","until":"1h"}`, 0},
		{`{"network":"2001:db8::/32","since":"1h","reason":"a flood"}`, 2},
		{`{"network":"2001:db8::/32"}`, 0},
		{`{"network":"192.0.2.0/24"}`, 1},
	} {
		if got := o.want(200, "POST", "/v1/clients/delete", tt.body); got["deleted"] != tt.deleted || got["id"] != "clients" {
			t.Errorf("%s: %v, want %v", tt.body, got, tt.deleted)
		}
	}
	o.want(404, "GET", "/v1/clients/flood0", "")
	for _, body := range []string{
		`{}`, `{"reason":"x"}`, `{"network":"192.0.2.7/32"}`, `{"network":"192.0.2.7/24"}`, `{"network":"2001:db8:2::/64"}`, `{"network":"192.0.2.0"}`,
		`{"network":"::ffff:192.0.2.0/120"}`, `{"network":"everything"}`, `{"since":"soon"}`, `{"until":"-1"}`, `{"query":"x"}`,
		`{"since":"1h","until":"2h"}`,
	} {
		o.want(400, "POST", "/v1/clients/delete", body)
	}
}
