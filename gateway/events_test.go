package gateway

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

const tells = "directory-key-0123456789abcdef0123456789"

// newTeller is a house with a service that tells of its directory.
func newTeller(t testing.TB) *house {
	h := newHouse(t)
	h.keys = append(h.keys, Key{"hr", tells, []Scope{Directory}})
	return h
}

// tell sends a body as the service does, signed at a time with a key.
func (h *house) tell(body, key string, at time.Time, headers ...string) *httptest.ResponseRecorder {
	h.t.Helper()
	t := fmt.Sprint(at.Unix())
	signature := "t=" + t + ",v1=" + hex.EncodeToString(signEvent(key, t, []byte(body)))
	return send(h.t, h.handler, "POST", "/v1/directory/events", body,
		append([]string{SignatureHeader, signature, "Content-Type", "application/json"}, headers...)...)
}

func (h *house) told(body string) eventAnswer {
	h.t.Helper()
	w := h.tell(body, tells, h.now())
	if w.Code != 200 {
		h.t.Fatalf("%s: %d %s", body, w.Code, w.Body)
	}
	return parse[eventAnswer](h.t, w)
}

// journal gives the entries of a kind, newest first, once all are written.
func (h *house) journal(kind journal.Kind) []store.Event {
	h.t.Helper()
	if err := h.store.Ready(context.Background()); err != nil { // notes before it are written
		h.t.Fatal(err)
	}
	events, _, err := h.store.Events(context.Background(), store.EventFilter{Kind: kind})
	if err != nil {
		h.t.Fatal(err)
	}
	return events
}

// Each kind of event is taken, once, and in the order of its versions.
func TestDirectoryEvents(t *testing.T) {
	h := newTeller(t)
	for i, tt := range []struct{ kind, object, result string }{
		{"person", `{"id":"eva","email":"eva@nordlys.example","name":"Eva"}`, "applied"},
		{"organization", `{"id":"verksted","name":"Verksted","ai_integration":true}`, "applied"},
		{"membership", `{"organization":"verksted","person":"eva","admin":true}`, "applied"},
		{"circle", `{"id":"all","organization":"verksted","name":"All"}`, "applied"},
		{"circle", `{"id":"inner","organization":"verksted","parent":"all","name":"Inner"}`, "applied"},
		{"role", `{"id":"keys","organization":"verksted","circle":"inner","name":"Keys"}`, "applied"},
		{"filler", `{"role":"keys","person":"eva"}`, "applied"},
		{"person", `{"id":"eva","email":"eva@nordlys.example","name":"Eva","active":null}`, "unchanged"},
		{"membership", `{"organization":"verksted","person":"eva"}`, "unchanged"},
		{"filler_removed", `{"role":"keys","person":"eva"}`, "applied"},
		{"role_removed", `{"id":"keys"}`, "applied"},
		{"circle_removed", `{"id":"inner","organization":"verksted","name":"Inner"}`, "applied"},
		{"membership_removed", `{"organization":"verksted","person":"eva"}`, "applied"},
		{"organization", `{"id":"verksted","name":"Verksted","rules":{"unknown":"ask","max_days":30,"version":7}}`, "applied"},
		{"organization", `{"id":"verksted","name":"Verksted","rules":{"max_days":30,"unknown":"ask","known":"allow"}}`, "unchanged"},
		{"organization", `{"id":"verksted","name":"Verksted"}`, "unchanged"},
		{"organization", `{"id":"verksted","name":"Verksted","rules":null}`, "applied"},
		{"organization", `{"id":"verksted","name":"Verksted","rules":{}}`, "unchanged"},
		{"organization_removed", `{"id":"verksted","rules":{"never":["none"]}}`, "applied"},
		{"person_removed", `{"id":"eva"}`, "applied"},
		{"person_removed", `{"id":"eva"}`, "unchanged"},
	} {
		body := fmt.Sprintf(`{"id":"evt-%d","version":%d,"kind":%q,"object":%s}`, i, i+1, tt.kind, tt.object)
		for range 2 { // twice is once
			if got := h.told(body); got != (eventAnswer{ID: fmt.Sprint("evt-", i), Result: tt.result}) {
				t.Errorf("%s: %+v, want %s", body, got, tt.result)
			}
		}
		if tt.kind == "filler" {
			if m, err := h.store.Member(context.Background(), "eva", "verksted"); err != nil || !m.Admin || !m.Fills("keys") {
				t.Errorf("%+v, %v", m, err)
			}
		}
	}
	e := h.journal("directory_changed")[0]
	if e.Actor != "gateway:hr" || e.Person != "eva" || e.Detail != "person removed" || e.Reason != "event evt-19" || e.Address != "192.0.2.1" {
		t.Errorf("journal %+v", e)
	}
}

// Rules for apps that a service tells are its organization's from then on: a ceiling holds
// at the next call, a block ends approvals, and the journal says that the service did it.
func TestRulesByEvent(t *testing.T) {
	h := newTeller(t)
	token := h.live("ada", everything)
	event := func(id string, version int, rules string) eventAnswer {
		return h.told(fmt.Sprintf(`{"id":%q,"version":%d,"kind":"organization","object":{"id":"nordlys","name":"Nordlys","rules":%s}}`, id, version, rules))
	}
	event("e1", 1, `{"read_only":true}`)
	if d := h.decided(`{"path":"/api/v5/orders","method":"GET","token":` + quoted(token.access) + `}`); !d.Allowed || !d.Actor.ReadOnly {
		t.Errorf("read only: %+v", d)
	}
	if d := h.decided(`{"path":"/api/v5/orders","method":"POST","token":` + quoted(token.access) + `}`); d.Allowed {
		t.Errorf("under read only: %+v", d)
	}
	event("e2", 3, `{"apps":[{"host":"client.example","rule":"block"}]}`)
	if got := event("e0", 2, `{}`); got.Result != "ignored" {
		t.Errorf("an older event: %+v", got)
	}
	if d := h.decided(`{"path":"/api/v5/orders","method":"GET","token":` + quoted(token.access) + `}`); d.Allowed || d.Status != 401 {
		t.Errorf("blocked: %+v", d)
	}
	for kind, reason := range map[journal.Kind]string{journal.PolicyChanged: "event e2", journal.ApprovalEnded: "app_blocked"} {
		if e := h.journal(kind)[0]; e.Actor != "gateway:hr" || e.Reason != reason || e.Organization != "nordlys" {
			t.Errorf("%s: %+v", kind, e)
		}
	}
	if p, err := h.store.Policy(context.Background(), "nordlys"); err != nil || p.ChangedBy != "gateway:hr" || p.Apps[0].By != "gateway:hr" || p.Version != 2 {
		t.Errorf("%+v, %v", p, err)
	}
}

// A removal ends what a client holds at once, and a late event brings nothing
// back; that is journaled.
func TestLateDirectoryEvent(t *testing.T) {
	h := newTeller(t)
	held := h.live("tor", everything)
	if got := h.told(`{"id":"a","version":20,"kind":"membership_removed","object":{"organization":"nordlys","person":"tor"}}`); got.Result != "applied" {
		t.Fatalf("%+v", got)
	}
	if d := h.decided(`{"token":` + quoted(held.access) + `}`); d.Allowed {
		t.Error("the access token still works")
	}
	got := h.told(`{"id":"b","version":19,"kind":"membership","object":{"organization":"nordlys","person":"tor"}}`)
	if got != (eventAnswer{"b", "ignored", "old_version"}) {
		t.Errorf("late: %+v", got)
	}
	if _, err := h.store.Member(context.Background(), "tor", "nordlys"); err == nil {
		t.Error("a late event made somebody a member again")
	}
	e := h.journal("directory_refused")[0]
	if e.Reason != "old_version" || e.Actor != "gateway:hr" || e.Person != "tor" || !strings.Contains(e.Detail, "version 19 after 20") || e.Reference != "request-1" {
		t.Errorf("journal %+v", e)
	}
}

// What is not signed, with another key, another body or at another time, is
// refused before it is read, and journaled once for an address and minute.
func TestUnsignedDirectoryEvents(t *testing.T) {
	const good = `{"id":"a","version":1,"kind":"person_removed","object":{"id":"tor"}}`
	h := newTeller(t)
	now := h.now()
	stamp := func(body, key string, at time.Time) string {
		ts := fmt.Sprint(at.Unix())
		return "t=" + ts + ",v1=" + hex.EncodeToString(signEvent(key, ts, []byte(body)))
	}
	right := stamp(good, tells, now)
	for name, tt := range map[string]struct{ signature, code string }{
		"none":                 {"", "signature_refused"},
		"of another body":      {stamp(good+" ", tells, now), "signature_refused"},
		"with another key":     {stamp(good, "another-key-0123456789abcdef0123456789ab", now), "signature_refused"},
		"with another scope":   {stamp(good, asks, now), "signature_refused"},
		"of another time":      {strings.Replace(right, "t=1", "t=2", 1), "signature_refused"},
		"cut":                  {right[:len(right)-2], "signature_refused"},
		"in another order":     {"v1=" + strings.Split(right, "v1=")[1] + ",t=" + fmt.Sprint(now.Unix()), "signature_refused"},
		"a time with a plus":   {strings.Replace(right, "t=", "t=+", 1), "signature_refused"},
		"too late":             {stamp(good, tells, now.Add(-eventWindow-time.Second)), "signature_expired"},
		"from the future":      {stamp(good, tells, now.Add(eventWindow+time.Second)), "signature_expired"},
		"an empty one":         {"t=,v1=", "signature_refused"},
		"the gateway's secret": {tells, "signature_refused"},
	} {
		headers := []string{"Content-Type", "application/json"}
		if tt.signature != "" {
			headers = append(headers, SignatureHeader, tt.signature)
		}
		w := send(t, h.handler, "POST", "/v1/directory/events", good, headers...)
		if f := parse[api.Fault](t, w); w.Code != 403 || f.Code != tt.code || strings.Contains(w.Body.String(), tells) {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	w := send(t, h.handler, "POST", "/v1/directory/events", good, "Content-Type", "application/json", SignatureHeader, right, SignatureHeader, right)
	if w.Code != 403 {
		t.Errorf("two signatures: %d", w.Code)
	}
	if p, err := h.store.Person(context.Background(), "tor"); err != nil || !p.Active {
		t.Errorf("tor: %+v, %v", p, err)
	}
	events := h.journal("directory_refused")
	if len(events) != 1 || events[0].Actor != "gateway" || events[0].Address != "192.0.2.1" || !strings.HasPrefix(events[0].Reason, "signature_") {
		t.Errorf("journal %+v", events)
	}
	h.Pass(time.Minute + time.Second)
	send(t, h.handler, "POST", "/v1/directory/events", good)
	if n := len(h.journal("directory_refused")); n != 2 {
		t.Errorf("%d entries a minute later", n)
	}
	// Recorded, and sent once more within the window: it changes nothing.
	h.told(`{"id":"b","version":5,"kind":"person","object":{"id":"tor","email":"tor@nordlys.example","name":"Torgeir"}}`)
	h.told(`{"id":"c","version":6,"kind":"person","object":{"id":"tor","email":"tor@nordlys.example","name":"Tor"}}`)
	h.told(`{"id":"b","version":5,"kind":"person","object":{"id":"tor","email":"tor@nordlys.example","name":"Torgeir"}}`)
	if p, _ := h.store.Person(context.Background(), "tor"); p.Name != "Tor" {
		t.Errorf("an event sent once more made them %s", p.Name)
	}
}

// What cannot be, or refers to what is not there, is refused with the word for
// it, journaled, and may come again.
func TestWrongDirectoryEvents(t *testing.T) {
	h := newTeller(t)
	event := func(rest string) string { return `{"id":"a","version":1,` + rest + `}` }
	person := func(object string) string { return event(`"kind":"person","object":` + object) }
	for _, tt := range []struct {
		body   string
		status int
		code   string
	}{
		{``, 400, "invalid_event"}, {`[]`, 400, "invalid_event"}, {`{}`, 400, "invalid_event"}, {`{"id":"a"`, 400, "invalid_event"},
		{person(`{"id":"eva","email":"eva@nordlys.example","name":"Eva"}`) + "{}", 400, "invalid_event"},
		{event(`"id":"b","kind":"person","object":{}`), 400, "invalid_event"},
		{event(`"kind":"persons","object":{}`), 400, "invalid_event"},
		{event(`"kind":"person"`), 400, "invalid_event"},
		{event(`"kind":"person","object":null`), 400, "invalid_event"},
		{event(`"kind":"person","object":[]`), 400, "invalid_event"},
		{event(`"knd":"person","object":{}`), 400, "invalid_event"},
		{`{"id":"a","version":0,"kind":"person_removed","object":{"id":"tor"}}`, 400, "invalid_event"},
		{`{"id":"a","version":-1,"kind":"person_removed","object":{"id":"tor"}}`, 400, "invalid_event"},
		{`{"id":"a","version":1.5,"kind":"person_removed","object":{"id":"tor"}}`, 400, "invalid_event"},
		{`{"id":"a","version":9007199254740992,"kind":"person_removed","object":{"id":"tor"}}`, 400, "invalid_event"},
		{`{"id":"a","version":"1","kind":"person_removed","object":{"id":"tor"}}`, 400, "invalid_event"},
		{`{"id":"a b","version":1,"kind":"person_removed","object":{"id":"tor"}}`, 400, "invalid_event"},
		{`{"id":7,"version":1,"kind":"person_removed","object":{"id":"tor"}}`, 400, "invalid_event"},
		{person(`{"id":"eva","email":"eva@nordlys.example","name":"Eva","support":true}`), 400, "invalid_event"},
		{person(`{"id":"eva","email":"eva","name":"Eva"}`), 400, "invalid_event"},
		{person(`{"id":"eva","email":"eva@nordlys.example","name":""}`), 400, "invalid_event"},
		{person(`{"id":"e v a","email":"eva@nordlys.example","name":"Eva"}`), 400, "invalid_event"},
		{person(`{"id":"eva","id":"eva","email":"eva@nordlys.example","name":"Eva"}`), 400, "invalid_event"},
		{person(`{"id":"eva","email":"eva@nordlys.example","name":"Eva","active":"no"}`), 400, "invalid_event"},
		{person(`{"id":"eva","email":"eva@nordlys.example","name":"Eva\u0000"}`), 400, "invalid_event"},
		{person(strings.Repeat(`{"id":`, 10_000)), 400, "invalid_event"},
		{event(`"kind":"person_removed","object":{"id":"tor"},"x":"` + strings.Repeat("x", maxBody) + `"`), 400, "invalid_event"},
		{event(`"kind":"organization","object":{"id":"nordlys","name":"N","rules":{"unknown":"deny"}}`), 400, "invalid_event"},
		{event(`"kind":"organization","object":{"id":"nordlys","name":"N","rules":"none"}`), 400, "invalid_event"},
		{event(`"kind":"organization","object":{"id":"nordlys","name":"N","rules":{"apps":[{"host":"a.example","rule":"block"},{"host":"a.example","name":"A","rule":"allow"}]}}`), 400, "invalid_event"},
		{event(`"kind":"organization","object":{"id":"nordlys","name":"N","rules":{"never":["none"]}}`), 409, "unknown_object"},
		{event(`"kind":"person","object":{"id":"eva","email":"eva@nordlys.example","name":"Eva","rules":{}}`), 400, "invalid_event"},
		{event(`"kind":"membership","object":{"organization":"nordlys","person":"uma"}`), 409, "unknown_object"},
		{event(`"kind":"membership","object":{"organization":"nowhere","person":"tor"}`), 409, "unknown_object"},
		{event(`"kind":"role","object":{"id":"r","organization":"nordlys","circle":"none","name":"R"}`), 409, "unknown_object"},
		{event(`"kind":"filler","object":{"role":"none","person":"tor"}`), 409, "unknown_object"},
		{event(`"kind":"circle","object":{"id":"general","organization":"nordlys","parent":"general","name":"G"}`), 409, "conflict"},
		{event(`"kind":"circle_removed","object":{"id":"general"}`), 409, "conflict"},
		{event(`"kind":"role_removed","object":{"id":"host"},"reason":"a\nb"`), 400, "invalid_event"},
		{`{"id":"a","kind":"role_removed","object":{"id":"host"},"if_match":null}`, 400, "invalid_event"},
		{person(`{"id":"eva","email":"ADA@nordlys.example","name":"Eva"}`), 409, "conflict"},
	} {
		w := h.tell(tt.body, tells, h.now())
		if f := parse[api.Fault](t, w); w.Code != tt.status || f.Code != tt.code || f.Description == "" || w.Body.Len() > 2000 {
			t.Errorf("%.300s: %d %s", tt.body, w.Code, w.Body)
		}
		e := h.journal("directory_refused")[0]
		if e.Reason != tt.code || e.Actor != "gateway:hr" && len(tt.body) < maxBody {
			t.Errorf("%.300s: journal %+v", tt.body, e)
		}
	}
	if got := h.told(person(`{"id":"eva","email":"eva@nordlys.example","name":"Eva"}`)); got.Result != "applied" {
		t.Errorf("a right one under the same ID: %+v", got)
	}
	w := h.tell(person(`{"id":"eva","email":"eva@nordlys.example","name":"Eve"}`), tells, h.now())
	if f := parse[api.Fault](t, w); w.Code != 409 || f.Code != "conflict" {
		t.Errorf("another one under the same ID: %d %s", w.Code, w.Body)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "OPTIONS"} {
		if w := send(t, h.handler, method, "/v1/directory/events", ""); w.Code != 405 || w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	h.store.Close()
	if w := h.tell(person(`{"id":"ida","email":"ida@nordlys.example","name":"Ida"}`), tells, h.now()); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("closed: %d %s", w.Code, w.Body)
	}
}

// Whatever the bytes: what is taken names one object, by IDs that can be.
func FuzzEvent(f *testing.F) {
	for _, s := range []string{
		`{"id":"a","version":1,"kind":"person","object":{"id":"eva","email":"eva@nordlys.example","name":"Eva","active":false}}`,
		`{"id":"a","version":1,"kind":"filler_removed","object":{"role":"keys","person":"eva"}}`,
		`{"id":"a","version":1e2,"kind":"circle","object":{"id":"c","organization":"o","parent":null,"name":"C"}}`, `{"id":"a","ID":"b"}`,
		`{"id":"a","kind":"role_removed","object":{"id":"r"},"if_match":"x","reason":"by ada"}`,
		`{"id":"a","version":1,"kind":"organization","object":{"id":"o","name":"O","rules":{"unknown":"ask","apps":[{"host":"a.example","rule":"block"}],"never":["r"]}}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest("POST", "/", nil)
		r.Header.Set("Content-Type", "application/json")
		told, _, err := readEvent(r, body)
		if err != nil {
			return
		}
		n := 0
		for _, is := range []bool{told.Person != nil, told.Organization != nil, told.Member != nil, told.Circle != nil, told.Role != nil, told.Filler != nil} {
			if is {
				n++
			}
		}
		if n != 1 || told.ID == "" || told.Version < 1 && told.Like == nil || !json.Valid(body) {
			t.Fatalf("%q was taken as %+v", body, told)
		}
	})
}
