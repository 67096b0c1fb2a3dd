package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/grantset"
)

// What is exported can be sent back as it is, and changes nothing: not even
// where it names all there is.
func TestExportGoesBack(t *testing.T) {
	o := workshop(t)
	o.want(200, "POST", "/v1/directory", `{"api_keys":[{"key":"gk_0123456789abcdef","organization":"nordlys","person":"ada","name":"Script"}]}`)
	w := o.do("GET", "/v1/directory", "")
	for _, secret := range []string{"password", "argon2", "gk_0"} {
		if strings.Contains(w.Body.String(), secret) {
			t.Errorf("it has %q: %s", secret, w.Body)
		}
	}
	before := len(o.ids("/v1/events?limit=1000"))
	got := o.want(200, "POST", "/v1/directory?prune=true", w.Body.String())
	if len(got["counts"].(map[string]any)) != 0 || len(got["changes"].([]any)) != 0 || got["people"] != 3.0 || got["api_keys"] != 1.0 {
		t.Errorf("got %v", got)
	}
	if after := len(o.ids("/v1/events?limit=1000")); after != before {
		t.Errorf("%d events more", after-before)
	}
}

// Rules of organizations come and go with the directory: what an export has is what an
// import takes, a block ends approvals, which a dry run counts, and what admins have set
// meanwhile gives way to what the directory says.
func TestImportHasRules(t *testing.T) {
	o := newOffice(t)
	ada := o.live("client1", "ada", grantset.Set{Kind: grantset.Everything})
	o.want(200, "PUT", "/v1/organizations/nordlys/policy", `{"policy":{"unknown":"ask","review_days":90,"never":["treasurer"],"apps":[{"host":"x.example","rule":"block","reason":"why"}]}}`)
	exported := o.do("GET", "/v1/directory", "").Body.String()
	for _, part := range []string{`"rules":{"unknown":"ask","known":"allow","apps":[{"host":"x.example","name":"","rule":"block","reason":"why"}],`, `"rules":{}}`} {
		if !strings.Contains(exported, part) {
			t.Errorf("%s is not in %s", part, exported)
		}
	}
	before := len(o.ids("/v1/events?limit=1000"))
	if got := o.want(200, "POST", "/v1/directory?prune=true", exported); len(got["changes"].([]any)) != 0 || len(o.ids("/v1/events?limit=1000")) != before {
		t.Errorf("sent back: %v", got)
	}
	host := "a.example"
	body := fmt.Sprintf(`{"organizations":[{"id":"nordlys","name":"Nordlys","rules":{"apps":[{"host":%q,"rule":"block"}]}},{"id":"havn","name":"Havn","rules":{"max_days":5}}]}`, host)
	dry := o.want(200, "POST", "/v1/directory?dry_run=true", body)
	if o.want(200, "GET", "/v1/approvals/"+ada, "")["state"] != "live" {
		t.Error("a dry run ended something")
	}
	got := o.want(200, "POST", "/v1/directory?reason=nightly", body)
	for _, answer := range []map[string]any{dry, got} {
		if answer["approvals_ended"] != 1.0 || fmt.Sprint(answer["changes"]) != "[map[change:changed id:nordlys list:rules] map[change:added id:havn list:rules]]" {
			t.Errorf("got %v", answer)
		}
	}
	if o.want(200, "GET", "/v1/approvals/"+ada, "")["reason"] != "app_blocked" {
		t.Error("it has not ended")
	}
	e := o.want(200, "GET", "/v1/events?kind=policy_changed&organization=nordlys&limit=1", "")["items"].([]any)[0].(map[string]any)
	if e["detail"] != "version 2, approvals ended: 1" || e["reason"] != "nightly" || e["actor"] != "operator" {
		t.Errorf("event %v", e)
	}
	o.want(200, "POST", "/v1/directory", `{"organizations":[{"id":"nordlys","name":"Nord"},{"id":"havn","name":"Havn","rules":null}]}`)
	for id, want := range map[string]string{"nordlys": host, "havn": `"max_days":0`} {
		if text := o.do("GET", "/v1/organizations/"+id+"/policy", "").Body.String(); !strings.Contains(text, want) {
			t.Errorf("%s: %s", id, text)
		}
	}
	if got := o.want(200, "POST", "/v1/directory?prune=true", exported); fmt.Sprint(got["counts"]) == "map[]" || o.do("GET", "/v1/directory", "").Body.String() != exported {
		t.Errorf("what was exported does not come back: %v", got)
	}
	for body, says := range map[string]string{
		"{\"organizations\":[\n{\"id\":\"nordlys\",\"name\":\"N\"},\n{\"id\":\"havn\",\"name\":\"H\",\"rules\":{\"unknown\":\"deny\"}}]}": "line 3: organizations[1].rules: a rule is allow, ask or block",
		`{"organizations":[{"id":"havn","name":"H","rules":{"Unknown":"ask"}}]}`:                                                          "member",
		`{"organizations":[{"id":"havn","name":"H","rules":{"appps":[]}}]}`:                                                               `organizations[0].rules: unknown member "appps"`,
		`{"organizations":[{"id":"havn","name":"H","rules":[]}]}`:                                                                         "organizations[0].rules: it is not a JSON object",
		`{"organizations":[{"id":"havn","name":"H","rules":{"never":["treasurer"]}}]}`:                                                    `line 1: rules of havn: the organization has no role "treasurer"`,
		`{"people":[{"id":"ada","email":"a@a.example","name":"A","rules":{}}]}`:                                                           "unknown member",
	} {
		if got, _ := o.want(400, "POST", "/v1/directory", body)["error_description"].(string); !strings.Contains(got, says) {
			t.Errorf("%s: %q, want %q", body, got, says)
		}
	}
}

// A dry run says what would change and how many approvals would end; the run
// does just that, names who did it and why, and prunes only lists that are
// there.
func TestImportPrunes(t *testing.T) {
	o := newOffice(t)
	ada, tor := o.live("client1", "ada", grantset.Set{Kind: grantset.Everything}), o.live("client1", "tor", grantset.Set{Kind: grantset.Everything})
	const body = `{"members":[{"organization":"nordlys","person":"ada"}],"reason":"in the file"}`
	if got := o.want(200, "POST", "/v1/directory", body); got["approvals_ended"] != 0.0 {
		t.Errorf("without prune: %v", got)
	}
	dry := o.want(200, "POST", "/v1/directory?prune=true&dry_run=true", body)
	if o.want(200, "GET", "/v1/approvals/"+tor, "")["state"] != "live" || dry["dry_run"] != true {
		t.Error("a dry run ended something")
	}
	got := o.want(200, "POST", "/v1/directory?prune=1&reason=nightly", body)
	if fmt.Sprint(got["changes"]) != "[map[change:removed id:nordlys/tor list:members]]" || got["approvals_ended"] != 1.0 || fmt.Sprint(got["counts"]) != fmt.Sprint(dry["counts"]) || dry["approvals_ended"] != 1.0 {
		t.Errorf("got %v, a dry run said %v", got, dry)
	}
	if o.want(200, "GET", "/v1/approvals/"+ada, "")["state"] != "live" || o.want(200, "GET", "/v1/approvals/"+tor, "")["reason"] != "left_organization" {
		t.Error("the wrong one has ended")
	}
	e := o.want(200, "GET", "/v1/events?kind=directory_changed&person=tor&limit=1", "")["items"].([]any)[0].(map[string]any)
	if e["detail"] != "member removed" || e["reason"] != "nightly" || e["organization"] != "nordlys" {
		t.Errorf("event %v", e)
	}
	for _, query := range []string{"?prune=maybe", "?dry_run=", "?prne=true", "?prune=true&prune=true", "?reason=%00", "?%zz"} {
		o.want(400, "POST", "/v1/directory"+query, body)
	}
}

// A version that is newer than the last is said, before and after it is taken; one that would
// refuse every later one is none.
func TestImportSaysAsOf(t *testing.T) {
	o := newOffice(t)
	for _, wrong := range []string{"-1", "8000000000000000001", "9223372036854775807", "9223372036854775808", "1.5"} {
		o.want(400, "POST", "/v1/directory", `{"as_of":`+wrong+`}`)
	}
	for _, tt := range []struct {
		query, body string
		want        any
	}{
		{"?dry_run=true", `{"as_of":7}`, 7.0}, {"", `{"as_of":7}`, 7.0}, {"", `{"as_of":7}`, nil}, {"", `{"as_of":0}`, nil},
		{"", `{"as_of":1800000000000000000}`, 1.8e18}, {"?dry_run=true", `{"as_of":8000000000000000000}`, 8e18},
	} {
		if got := o.want(200, "POST", "/v1/directory"+tt.query, tt.body); got["as_of"] != tt.want {
			t.Errorf("%s %s: %v", tt.query, tt.body, got)
		}
	}
}

// A file that is cut off, doubled, contradictory or hostile changes nothing,
// and the refusal names the line.
func TestImportNamesTheLine(t *testing.T) {
	lines := []string{
		`{`,
		`  "organizations": [`,
		`    {"id": "verksted", "name": "Verksted"}`,
		`  ],`,
		`  "people": [`,
		`    {"id": "eva", "email": "eva@verksted.example", "name": "Eva"},`,
		`    {"id": "ida", "email": "ida@verksted.example", "name": "Ida"}`,
		`  ],`,
		`  "members": [{"organization": "verksted", "person": "eva"},`,
		`              {"organization": "verksted",`,
		`               "person": "ida"}],`,
		`  "circles": [{"id": "all", "organization": "verksted", "name": "All"}],`,
		`  "roles": [`,
		`    {"id": "keys", "organization": "verksted", "circle": "all", "name": "Keys", "fillers": ["eva"]}`,
		`  ]`,
		`}`,
	}
	good := strings.Join(lines, "\n")
	with := func(line int, from, to string) string {
		changed := slices.Clone(lines)
		changed[line-1] = strings.Replace(changed[line-1], from, to, 1)
		if changed[line-1] == lines[line-1] {
			t.Fatalf("line %d is as it was", line)
		}
		return strings.Join(changed, "\n")
	}
	hashed := func(costs string) string {
		return `"password_hash": "$argon2id$v=19$` + costs + `$MDEyMzQ1Njc4OWFiY2RlZg$MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY", `
	}
	for _, tt := range []struct {
		name, body string
		line       int
		says       string
	}{
		{"cut off in a text", good[:strings.Index(good, "Ida\"")], 7, "cut off"},
		{"cut off between two", strings.Join(lines[:6], "\n"), 6, "cut off"},
		{"no JSON", with(6, "eva@", `"`), 6, ""},
		{"a member twice in one object", with(6, `"name"`, `"id"`), 6, "twice"},
		{"a list twice", with(5, "people", "organizations"), 5, "twice"},
		{"another spelling", with(7, `"email"`, `"Email"`), 7, "unknown member"},
		{"an unknown member", with(14, `"name"`, `"nme"`), 14, "unknown member"},
		{"an unknown list", with(13, "roles", "rolls"), 13, "unknown member"},
		{"another type", with(9, `"eva"`, `7`), 9, "must be of type string"},
		{"a list that is none", with(13, "[", "7, \"api_keys\": ["), 13, "must be of type array"},
		{"items", with(15, "]", "],\n  \"items\": [{\"id\": \"oil\"}]"), 16, "items: they belong to the service now, and not to its directory: leave the member out"},
		{"items, none", with(13, "\"roles\"", "\"items\": null, \"roles\""), 13, "items: they belong to the service now"},
		{"not an ID", with(7, `"ida"`, `"i d a"`), 7, "an ID consists of"},
		{"not an email", with(7, "ida@verksted.example", "ida"), 7, "email"},
		{"a name with a line break", with(6, "Eva", `E\nva`), 6, "control character"},
		{"a role that turns the text around", with(14, `"Keys"`, `"Keys\u202e"`), 14, "turns the text around"},
		{"an organization with hidden text", with(3, "Verksted", "Verksted\U000E0061"), 3, "tag characters"},
		{"a circle that shows nothing", with(12, `"All"`, `"\u200b"`), 12, "it shows nothing"},
		{"an email with what nobody sees", with(7, "ida@", "ida\u200b@"), 7, "not an email address"},
		{"a weak hash", with(7, `"name"`, hashed("m=8,t=1,p=1")+`"name"`), 7, "too weak"},
		{"a costly hash", with(7, `"name"`, hashed("m=65536,t=9,p=1")+`"name"`), 7, "too high"},
		{"a hash out of bounds", with(7, `"name"`, hashed("m=131072,t=1,p=1")+`"name"`), 7, "out of bounds"},
		{"a person twice", with(7, `"ida"`, `"eva"`), 7, "person eva comes twice"},
		{"an email twice", with(7, "ida@", "EVA@"), 7, "another person has this email"},
		{"a member twice", with(11, "ida", "eva"), 10, "comes twice"},
		{"a member who is nobody", with(11, "ida", "uma"), 10, "membership of uma"},
		{"a filler twice", with(14, `["eva"]`, `["eva", "eva"]`), 14, "comes twice"},
		{"a filler who is nobody", with(14, `["eva"]`, `["eva", "uma"]`), 14, "filler uma"},
		{"a person without an email", with(7, `"email": "ida@verksted.example", `, ``), 7, "people[1]: email is missing"},
		{"a role in no circle of two", strings.Replace(with(14, `"circle": "all", `, ``), `"circles": [`, `"circles": [{"id":"two","organization":"verksted","name":"Two"},`, 1), 14, "roles[0]: circle is missing, and verksted has not one root circle"},
		{"a role in no circle", with(14, `"all"`, `"none"`), 14, "circle none"},
		{"an ancestor of itself", with(12, `"name"`, `"parent": "all", "name"`), 12, "its own ancestor"},
		{"something behind it", good + "\n{}", 17, "not one JSON object"},
		{"nested without end", with(6, `"Eva"`, strings.Repeat("[", 100)), 6, "nested deeper"},
		{"deeply nested, and cut off", strings.Repeat(`{"a":`, 100_000), 1, "nested deeper"},
		{"a great number", with(3, `"verksted"`, `1e999999`), 3, ""},
		{"not UTF-8", with(6, "Eva", "\xff"), 6, "UTF-8"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newOffice(t)
			w := o.do("POST", "/v1/directory?prune=true", tt.body)
			var got struct {
				Description string `json:"error_description"`
			}
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 400 && w.Code != 409 {
				t.Fatalf("%d %s %v", w.Code, w.Body, err)
			}
			if prefix := fmt.Sprintf("line %d: ", tt.line); tt.line > 0 && !strings.HasPrefix(got.Description, prefix) || !strings.Contains(got.Description, tt.says) || len(got.Description) > 500 {
				t.Errorf("got %q, want %s%s", got.Description, prefix, tt.says)
			}
			o.want(404, "GET", "/v1/organizations/verksted", "")
			if got := o.ids("/v1/people"); len(got) != 3 {
				t.Errorf("people %v", got)
			}
		})
	}
	o := newOffice(t)
	o.want(200, "POST", "/v1/directory", good)
}

// A password that is stored already is not set again: to hash it anew would
// end the person's sessions with every import.
func TestImportKeepsTheSamePassword(t *testing.T) {
	o := newOffice(t)
	n := 0
	o.HashPassword = func(p string) string { n++; return fmt.Sprintf("$argon2id$%d of %s", n, p) }
	o.SamePassword = func(hash, p string) bool { return strings.HasSuffix(hash, " of "+p) }
	body := func(password string) string {
		return `{"people":[{"id":"ada","email":"ada@nordlys.example","name":"Ada","password":"` + password + `"}]}`
	}
	for password, changed := range map[string]bool{"long enough": true} {
		for range 2 {
			got := o.want(200, "POST", "/v1/directory", body(password))
			if _, is := got["counts"].(map[string]any)["people"]; is != changed {
				t.Errorf("%s: %v", password, got)
			}
			changed = false
		}
	}
	if got := o.want(200, "POST", "/v1/directory", body("another one")); n != 2 || !maps.Equal(got["counts"].(map[string]any)["people"].(map[string]any), map[string]any{"added": 0.0, "changed": 1.0, "removed": 0.0}) {
		t.Errorf("another password: %v, hashed %d times", got, n)
	}
}
