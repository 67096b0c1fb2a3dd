package operator

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

const rulesOf = "/v1/organizations/nordlys/policy"

// An operator sees, tries, sets and clears rules; what they do is said and done.
func TestPolicy(t *testing.T) {
	o := newOffice(t)
	id := o.live("c", "tor", grantset.Set{Kind: grantset.Everything})
	if got := fmt.Sprint(o.want(200, "GET", rulesOf, "")); !strings.Contains(got, "unknown:allow") || strings.Contains(got, "version") {
		t.Errorf("no rules: %s", got)
	}
	const rules = `{"reason":"copies","policy":{"apps":[{"host":"a.example","rule":"block"}],"never":["treasurer"],"max_days":30}}`
	const effect = "effects:[map[connections:1 host:a.example]] id:nordlys"
	if got := fmt.Sprint(o.want(200, "PUT", rulesOf+"?dry_run=1", rules)); !strings.Contains(got, "dry_run:true "+effect) {
		t.Errorf("dry run: %s", got)
	}
	if got := o.want(200, "GET", "/v1/approvals/"+id, "")["state"]; got != "live" {
		t.Errorf("a dry run left it %v", got)
	}
	got := fmt.Sprint(o.want(200, "PUT", rulesOf, rules))
	if !strings.Contains(got, effect) || !strings.Contains(got, "by:operator host:a.example") || !strings.Contains(got, "version:1") {
		t.Errorf("set: %s", got)
	}
	if a := o.want(200, "GET", "/v1/approvals/"+id, ""); a["state"] != "ended" || a["reason"] != "app_blocked" {
		t.Errorf("blocked: %v", a)
	}
	if got := fmt.Sprint(o.want(200, "PUT", rulesOf, rules)); strings.Contains(got, "effects") || !strings.Contains(got, "version:1") {
		t.Errorf("repeated: %s", got)
	}
	got = fmt.Sprint(o.want(409, "PUT", rulesOf, `{"policy":{"unknown":"ask"}}`))
	if !strings.Contains(got, "error:conflict") || !strings.Contains(got, "max_days:30") || !strings.Contains(got, "version:1") {
		t.Errorf("another version: %s", got)
	}
	o.want(409, "PUT", rulesOf+"?dry_run=true", rules)
	o.want(200, "PUT", rulesOf, `{"policy":{"unknown":"ask","version":1}}`)
	for range 2 {
		if got := fmt.Sprint(o.want(200, "DELETE", rulesOf, `{"reason":"enough"}`)); !strings.Contains(got, "unknown:allow") || !strings.Contains(got, "version:3") {
			t.Errorf("cleared: %s", got)
		}
	}
	e := o.want(200, "GET", "/v1/events?kind=policy_changed", "")["items"].([]any)
	if one := e[2].(map[string]any); len(e) != 3 || one["actor"] != "operator" || one["reason"] != "copies" || e[0].(map[string]any)["reason"] != "enough" {
		t.Errorf("journal: %v", e)
	}
}

// What is not one policy, or contradicts itself, changes nothing and is told why.
func TestPolicyThatCannotBe(t *testing.T) {
	o := newOffice(t)
	for body, want := range map[string]string{
		``:                             "cut off",
		`{}`:                           "policy: it is missing",
		`{"policy":null}`:              "policy: ",
		`{"policy":{},"version":1}`:    "unknown member",
		`{"policy":{"unknwon":"ask"}}`: "unknown member",
		`{"policy":{"unknown":"ask","unknown":"allow"}}`:                                                                    "comes twice",
		`{"policy":{"max_days":3651}}`:                                                                                      "access lasts at most 1 to 3650 days",
		`{"policy":{"never":["none"]}}`:                                                                                     "no role",
		`{"policy":{"apps":[{"host":"A.example","rule":"block"}]}}`:                                                         "cannot be an app's: write it as a.example",
		`{"policy":{"apps":[{"host":"a.example:443","rule":"block"}]}}`:                                                     "neither a scheme, nor a port, nor a path",
		`{"policy":{"apps":[{"host":"\u00e6.example","rule":"block"}]}}`:                                                    "in A-labels",
		`{"policy":{"apps":[{"host":"a.example","rule":"block"},{"host":"b.a.example","name":"B","rule":"ask"}]}}`:          "never holds",
		`{"policy":{},"reason":"` + strings.Repeat("x", 1001) + `"}`:                                                        "more than 1000 characters",
		`{"policy":{"apps":[{"host":"a.example","name":"A","rule":"ask"},{"host":"a.example","name":"a","rule":"allow"}]}}`: "two rules",
	} {
		for _, query := range []string{"", "?dry_run=1"} {
			if got := fmt.Sprint(o.want(400, "PUT", rulesOf+query, body)["error_description"]); !strings.Contains(got, want) {
				t.Errorf("%s: %s", body, got)
			}
		}
	}
	for _, query := range []string{"?dry_run=2", "?dryrun=1", "?dry_run=1&dry_run=0", "?dry_run=%zz"} {
		o.want(400, "PUT", rulesOf+query, `{"policy":{}}`)
	}
	if got := fmt.Sprint(o.want(200, "GET", rulesOf, "")); strings.Contains(got, "version") {
		t.Errorf("there are rules: %s", got)
	}
	for _, path := range []string{"policy", "requests", "connections"} {
		if got := o.want(404, "GET", "/v1/organizations/none/"+path, "")["error_description"]; got != "there is no such organization" {
			t.Errorf("%s: %v", path, got)
		}
	}
	o.want(404, "PUT", "/v1/organizations/none/policy", `{"policy":{}}`)
	o.want(404, "DELETE", "/v1/organizations/none/policy", "")
}

// asked is a request of a person for the app of a client.
func (o *office) asked(clientID, person string) string {
	o.Helper()
	r, _, err := o.Store.Ask(o.Context(), store.Asking{Organization: "nordlys", Person: person, Client: clientID, RedirectURI: "https://a.example/cb", Message: "Please."}, store.Act{Actor: "person:" + person})
	if err != nil {
		o.Fatal(err)
	}
	return r.ID
}

// An operator lists requests and decides each once, as an admin does.
func TestRequests(t *testing.T) {
	o := newOffice(t)
	o.live("c", "tor", grantset.Set{Kind: grantset.Everything})
	o.want(200, "PUT", rulesOf, `{"policy":{"unknown":"ask"}}`)
	tor, ada := o.asked("c", "tor"), o.asked("c", "ada")
	list := "/v1/organizations/nordlys/requests"
	first := o.want(200, "GET", list+"?limit=1", "")
	if got := first["items"].([]any)[0].(map[string]any); got["id"] != ada || got["message"] != "Please." || got["person_name"] != "Ada" || got["state"] != "open" {
		t.Errorf("%v", got)
	}
	if got := o.ids(list + "?state=open&after=" + first["next"].(string)); !slices.Equal(got, []string{tor}) {
		t.Errorf("second page: %v", got)
	}
	decide := func(status int, id, body string) map[string]any {
		t.Helper()
		return o.want(status, "POST", list+"/"+id+"/decision", body)
	}
	o.want(400, "GET", list+"?after=x", "")
	o.want(400, "GET", list+"?state=x", "")
	if got := decide(400, tor, `{"state":"declined","reason":"a\nb"}`)["error_description"]; got != "reason: it has a control character" {
		t.Error(got)
	}
	decide(400, tor, `{}`)
	decide(400, tor, `{"state":"withdrawn"}`)
	decide(400, tor, `{"state":"declined","reason":"`+strings.Repeat("x", 201)+`"}`)
	if got := decide(404, "none", `{"state":"declined"}`)["error_description"]; got != "there is no such request" {
		t.Error(got)
	}
	o.want(404, "POST", "/v1/organizations/havn/requests/"+tor+"/decision", `{"state":"declined"}`)
	if got := o.want(404, "POST", "/v1/organizations/none/requests/"+tor+"/decision", `{"state":"declined"}`)["error_description"]; got != "there is no such organization" {
		t.Error(got)
	}
	if got := decide(200, tor, `{"state":"allowed_person","reason":"fine"}`); got["state"] != "allowed_person" || got["decided_by"] != "operator" || len(got["also"].([]any)) != 0 {
		t.Errorf("%v", got)
	}
	decide(200, tor, `{"state":"allowed_person","reason":"fine"}`)
	if got := fmt.Sprint(decide(409, tor, `{"state":"declined"}`)["error_description"]); !strings.HasPrefix(got, "it is allowed_person: by operator, 20") {
		t.Error(got)
	}
	if got := decide(200, ada, `{"state":"declined","reason":"no"}`); got["reason"] != "no" {
		t.Errorf("%v", got)
	}
	if got := o.ids(list + "?state=decided"); !slices.Equal(got, []string{ada, tor}) || len(o.ids(list)) != 0 {
		t.Errorf("decided: %v", got)
	}
	if got := fmt.Sprint(o.want(200, "GET", rulesOf, "")); !strings.Contains(got, "person:tor reason:fine rule:allow") {
		t.Errorf("the rule: %s", got)
	}
	var last struct{ Actor, Reason string }
	text, err := json.Marshal(o.want(200, "GET", "/v1/events?kind="+string(journal.RequestDeclined), "")["items"].([]any)[0])
	if err != nil || json.Unmarshal(text, &last) != nil || last.Actor != "operator" || last.Reason != "no" {
		t.Errorf("journal: %s, %v", text, err)
	}
}

// Who asked has left since: the request is not allowed for them, and the answer says so.
func TestRequestOfOneWhoLeft(t *testing.T) {
	o := newOffice(t)
	o.live("c", "tor", grantset.Set{Kind: grantset.Everything})
	o.want(200, "PUT", rulesOf, `{"policy":{"unknown":"ask"}}`)
	tor := o.asked("c", "tor")
	if err := o.Store.RemoveMember(t.Context(), "nordlys", "tor", store.Act{}); err != nil {
		t.Fatal(err)
	}
	got := o.want(409, "POST", "/v1/organizations/nordlys/requests/"+tor+"/decision", `{"state":"allowed_person"}`)
	if got["error"] != "not_allowed" || got["error_description"] != "whoever asked is not a member any more" {
		t.Errorf("%v", got)
	}
}

// An operator lists, reviews and ends connections of an organization, and of no other.
func TestConnections(t *testing.T) {
	o := newOffice(t)
	tor, ada := o.live("c", "tor", grantset.Set{Kind: grantset.Everything}), o.live("c", "ada", grantset.Set{Kind: grantset.Organization})
	list := "/v1/organizations/nordlys/connections"
	first := o.want(200, "GET", list+"?limit=1", "")
	if got := first["items"].([]any)[0].(map[string]any); got["id"] != ada || got["host"] != "a.example" || got["person_email"] != "ada@nordlys.example" || got["ends_at"] != 0. {
		t.Errorf("%v", got)
	}
	for query, want := range map[string][]string{
		"?after=" + first["next"].(string): {tor}, "?query=tor": {tor}, "?grant=everything": {tor}, "?show=unreviewed": {}, "": {ada, tor},
	} {
		if got := o.ids(list + query); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"?after=x", "?show=x", "?grant=x", "?state=live", "?limit=0"} {
		o.want(400, "GET", list+query, "")
	}
	for _, what := range []string{"/reviewed", "/end"} {
		for _, body := range []string{`{}`, `{"ids":[]}`, `{"ids":["x"]}`, `{"ids":[1]}`, `{"ids":[` + strings.Repeat(`"`+tor+`",`, 1000) + `"` + tor + `"]}`} {
			o.want(400, "POST", list+what, body)
		}
		o.want(404, "POST", "/v1/organizations/none/connections"+what, `{"ids":["`+tor+`"]}`)
		if got := o.want(200, "POST", "/v1/organizations/havn/connections"+what, `{"ids":["`+tor+`"]}`); got["reviewed"] != 0. && got["ended"] != 0. {
			t.Errorf("of another organization: %v", got)
		}
	}
	if got := o.want(200, "POST", list+"/reviewed", `{"ids":["`+tor+`","`+tor+`"],"reason":"looked"}`)["reviewed"]; got != 1. {
		t.Errorf("reviewed: %v", got)
	}
	if got := o.want(200, "GET", list+"?query=tor", "")["items"].([]any)[0].(map[string]any); got["reviewed_by"] != "operator" || got["reviewed_at"] == 0. {
		t.Errorf("%v", got)
	}
	o.want(404, "POST", "/v1/organizations/none/connections/exported", `{}`)
	o.want(200, "POST", list+"/exported", `{"reason":"audit"}`)
	if e := o.want(200, "GET", "/v1/events?kind=connections_exported", "")["items"].([]any)[0].(map[string]any); e["organization"] != "nordlys" || e["reason"] != "audit" || e["actor"] != "operator" {
		t.Errorf("%v", e)
	}
	for _, want := range []float64{1, 0} {
		if got := o.want(200, "POST", list+"/end", `{"ids":["`+tor+`"],"reason":"gone"}`)["ended"]; got != want {
			t.Errorf("ended: %v, want %v", got, want)
		}
	}
	if a := o.want(200, "GET", "/v1/approvals/"+tor, ""); a["reason"] != "revoked_by_operator" {
		t.Errorf("%v", a)
	}
	if got := o.ids(list); !slices.Equal(got, []string{ada}) {
		t.Errorf("left: %v", got)
	}
}

// The rules and requests of an app whose client is gone are what they were.
func TestPolicyOfAClientThatIsGone(t *testing.T) {
	o := newOffice(t)
	id := o.live("c", "tor", grantset.Set{Kind: grantset.Everything})
	o.want(200, "PUT", rulesOf, `{"policy":{"unknown":"ask","apps":[{"host":"b.example","name":"B","rule":"block"}]}}`)
	tor := o.asked("c", "tor")
	if err := o.Store.DeleteClient(t.Context(), "c", store.Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	if a := o.want(200, "GET", "/v1/approvals/"+id, ""); a["state"] != "ended" {
		t.Errorf("%v", a)
	}
	if got := o.ids("/v1/organizations/nordlys/connections"); len(got) != 0 {
		t.Errorf("connections %v", got)
	}
	list := "/v1/organizations/nordlys/requests"
	if got := o.want(200, "GET", list, "")["items"].([]any)[0].(map[string]any); got["id"] != tor || got["client_id"] != "c" || got["host"] != "a.example" {
		t.Errorf("%v", got)
	}
	o.want(200, "POST", list+"/"+tor+"/decision", `{"state":"allowed"}`)
	got := fmt.Sprint(o.want(200, "GET", rulesOf, ""))
	if !strings.Contains(got, "host:a.example") || !strings.Contains(got, "host:b.example") {
		t.Errorf("rules %s", got)
	}
	if exported := fmt.Sprint(o.want(200, "GET", "/v1/directory", "")); !strings.Contains(exported, "host:a.example") || !strings.Contains(exported, "host:b.example") {
		t.Errorf("directory %s", exported)
	}
}
