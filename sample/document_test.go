package sample_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/sample"
)

// openAPI is the document as a client reads it, from outside.
type openAPI struct {
	OpenAPI    string
	Servers    []struct{ URL string }
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Parameters map[string]struct{ Name, In string }
		Responses  map[string]documented
		Headers    map[string]struct {
			Required bool
			Schema   struct{ Pattern string }
		}
		Schemas map[string]json.RawMessage
	}
}

type documented struct {
	Ref     string `json:"$ref"`
	Headers map[string]struct {
		Ref string `json:"$ref"`
	}
	Content map[string]struct {
		Schema struct {
			Ref string `json:"$ref"`
		}
	}
}

type documentedOperation struct {
	OperationID string
	Parameters  []struct {
		Ref string `json:"$ref"`
	}
	RequestBody struct {
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	}
	Responses map[string]documented
}

// theDocument is read once, by a client that is let in.
var theDocument = sync.OnceValue(func() openAPI {
	var d openAPI
	if err := json.Unmarshal(sample.Document(), &d); err != nil {
		panic(err)
	}
	return d
})

func (d openAPI) operation(path, method string) (o documentedOperation, found bool) {
	switch {
	case method == "HEAD":
		method = "GET"
	case method != strings.ToUpper(method):
		return o, false
	}
	raw, found := d.Paths[path][strings.ToLower(method)]
	if found {
		if err := json.Unmarshal(raw, &o); err != nil {
			panic(err)
		}
	}
	return o, found
}

// match gives the path of the document that a request asks for.
func (d openAPI) match(path string) string {
	rest, ok := strings.CutPrefix(path, d.Servers[0].URL+"/")
	if !ok {
		return ""
	}
	have := strings.Split(rest, "/")
	for pattern := range d.Paths {
		want := strings.Split(pattern[1:], "/")
		if slices.EqualFunc(have, want, func(have, want string) bool { return have == want || want[0] == '{' && have != "" }) {
			return pattern
		}
	}
	return ""
}

var schemas sync.Map // name -> *jsonschema.Resolved

// schema gives a schema of the document, ready to judge.
func (d openAPI) schema(ref string) *jsonschema.Resolved {
	name := ref[strings.LastIndexByte(ref, '/')+1:]
	if s, ok := schemas.Load(name); ok {
		return s.(*jsonschema.Resolved)
	}
	all, err := json.Marshal(map[string]any{"$ref": "#/components/schemas/" + name, "$defs": d.Components.Schemas})
	if err != nil {
		panic(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(all), "#/components/schemas/", "#/$defs/")), &s); err != nil {
		panic(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		panic(name + ": " + err.Error())
	}
	schemas.Store(name, resolved)
	return resolved
}

// told remembers which documented answers were given.
var told sync.Map // "operationId status" -> true

// wantDocumented holds every answer of API v5 that any test gets to the
// document: its status, headers and body.
func wantDocumented(t testing.TB, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	d, path := theDocument(), r.URL.Path
	if strings.Contains(strings.ToUpper(r.URL.RawPath), "%2F") {
		path = r.URL.RawPath // is another path
	}
	if !strings.HasPrefix(path, "/api/v5/") || strings.HasPrefix(path, "/api/v5/mcp") || w.Code == 204 && r.Method == "OPTIONS" {
		return
	}
	o, found := d.operation(d.match(path), r.Method)
	status := strconv.Itoa(w.Code)
	answer, has := o.Responses[status]
	switch {
	case !found && (w.Code < 400 || w.Code == 405 && d.match(path) == ""):
		t.Errorf("%s %s: %d, and it is not in the document", r.Method, path, w.Code)
	case found && !has && w.Code < 500:
		t.Errorf("%s %s: the document has no %s: %s", r.Method, path, status, w.Body)
	case !has:
		answer = d.Components.Responses["default"]
		if x, ok := d.Components.Responses[status]; ok {
			answer = x
		}
	case answer.Ref != "":
		answer = d.Components.Responses[answer.Ref[strings.LastIndexByte(answer.Ref, '/')+1:]]
	}
	wantAnswer(t, d, answer, w, r)
	if found {
		told.Store(o.OperationID+" "+status, true)
	}
}

func wantAnswer(t testing.TB, d openAPI, answer documented, w *httptest.ResponseRecorder, r *http.Request) {
	t.Helper()
	for _, name := range []string{"ETag", "Location", "Retry-After", "WWW-Authenticate"} {
		_, wanted := answer.Headers[name]
		value := w.Header().Get(name)
		if wanted != (value != "") && !(name == "Retry-After" && w.Code == 503) {
			t.Errorf("%s %s: %d with %s %q", r.Method, r.URL.Path, w.Code, name, value)
		}
		if pattern := d.Components.Headers[name].Schema.Pattern; wanted && !regexp.MustCompile(pattern).MatchString(value) {
			t.Errorf("%s %q", name, value)
		}
	}
	if r.Method == http.MethodHead && w.Body.Len() == 0 {
		return
	}
	content, ok := answer.Content[w.Header().Get("Content-Type")]
	if !ok {
		if w.Body.Len() > 0 || w.Header().Get("Content-Type") != "" || len(answer.Content) > 0 {
			t.Errorf("%s %s: %d, %q, %s", r.Method, r.URL.Path, w.Code, w.Header().Get("Content-Type"), w.Body)
		}
		return
	}
	var body any
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Errorf("%v in %s", err, w.Body)
		return
	}
	if err := d.schema(content.Schema.Ref).Validate(body); err != nil {
		t.Errorf("%s %s: %v in %s", r.Method, r.URL.Path, err, w.Body)
	}
}

// The document is served behind the guard, and every reference in it leads
// somewhere.
func TestDocument(t *testing.T) {
	h := newHouse(t)
	wantStatus(t, h.call("GET", "/api/v5/openapi.json"), 401, missing)
	w := h.get("/api/v5/openapi.json", h.live("tor", "nordlys", roles(true)).access)
	wantStatus(t, w, 200, "")
	d := parse[openAPI](t, w)
	if !strings.HasPrefix(d.OpenAPI, "3.1.") || len(d.Servers) != 1 || d.Servers[0].URL != "/api/v5" {
		t.Errorf("got %s, %+v", d.OpenAPI, d.Servers)
	}
	var whole map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &whole); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	wantRefs(t, whole, whole, used)
	for section, all := range whole["components"].(map[string]any) {
		for name := range all.(map[string]any) {
			if section != "securitySchemes" && !used["#/components/"+section+"/"+name] {
				t.Errorf("nothing uses %s/%s", section, name)
			}
		}
	}
	names := map[string]bool{}
	for path, methods := range d.Paths {
		for method := range methods {
			if method != "parameters" {
				o, _ := d.operation(path, strings.ToUpper(method))
				if names[o.OperationID] || o.OperationID == "" {
					t.Errorf("%s %s: operation %q", method, path, o.OperationID)
				}
				names[o.OperationID] = true
			}
		}
	}
}

func wantRefs(t *testing.T, whole map[string]any, part any, used map[string]bool) {
	t.Helper()
	switch x := part.(type) {
	case []any:
		for _, y := range x {
			wantRefs(t, whole, y, used)
		}
	case map[string]any:
		if ref, ok := x["$ref"].(string); ok {
			var at any = whole
			for _, name := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
				at, _ = at.(map[string]any)[name].(map[string]any)
			}
			if at == nil {
				t.Errorf("%s leads nowhere", ref)
			}
			used[ref] = true
		}
		for _, y := range x {
			wantRefs(t, whole, y, used)
		}
	}
}

// Every route is in the document and every operation of the document is
// routed; what the code does not have is not there.
func TestDocumentIsTheRoutes(t *testing.T) {
	d := theDocument()
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	inCode := sample.Operations()
	for path, methods := range d.Paths {
		for method := range methods {
			if method == "parameters" {
				continue
			}
			target := strings.NewReplacer("{id}", "nobody", "{person}", "nobody").Replace(path)
			r := httptest.NewRequest(strings.ToUpper(method), base+"/api/v5"+target, nil)
			r.Header.Set("Authorization", "Bearer "+x)
			w := httptest.NewRecorder()
			h.handler.ServeHTTP(w, r)
			if w.Code == 405 || strings.Contains(w.Body.String(), "nothing at this path") {
				t.Errorf("%s %s is not answered: %d %s", method, path, w.Code, w.Body)
			}
			key := strings.ToUpper(method) + " /api/v5" + path
			if !slices.Contains(inCode, key) {
				t.Errorf("%s is not in the code", key)
			}
		}
	}
	for _, key := range inCode {
		method, path, _ := strings.Cut(key, " ")
		if _, ok := d.operation(strings.TrimPrefix(path, "/api/v5"), method); !ok {
			t.Errorf("%s is not in the document", key)
		}
	}
}

// good are bodies that each schema of a request takes, and bad ones it does
// not: what the schema says, the server does.
var bodies = map[string]struct{ good, bad []string }{
	"OrganizationFields": {[]string{`{"name":"Nordlys AS"}`}, []string{`{}`, `{"name":""}`, `{"name":null}`, `{"id":"x"}`, `{"name":7}`}},
	"PersonFields":       {[]string{`{"admin":false}`}, []string{`{}`, `{"admin":"yes"}`, `{"admin":null}`, `{"admin":true,"name":"x"}`}},
	"NewCircle":          {[]string{`{"name":"Sea"}`, `{"name":"Sea","parent":"general"}`, `{"name":"Sea","parent":null}`}, []string{`{}`, `{"parent":"general"}`, `{"name":"Sea","id":"sea"}`}},
	"CircleFields":       {[]string{`{"name":"Gold"}`, `{"parent":null}`, `{"parent":""}`, `{"parent":"general"}`}, []string{`{}`, `{"name":null}`, `{"parent":7}`, `{"roles":[]}`}},
	"NewRole":            {[]string{`{"name":"Cook","circle":"general"}`}, []string{`{}`, `{"name":"Cook"}`, `{"circle":"general"}`, `{"name":"Cook","circle":null}`}},
	"RoleFields":         {[]string{`{"name":"Cook"}`, `{"circle":"general"}`}, []string{`{}`, `{"circle":""}`, `{"circle":"a b"}`, `{"fillers":["ada"]}`, `{"name":["x"]}`}},
	"NewItem": {
		[]string{`{"title":"T","role":"treasurer"}`, `{"title":"T","personal":true}`, `{"title":"T","role":"treasurer","private":true,"body":"x","status":"done","personal":false}`, `{"title":"T","role":"treasurer","body":null}`},
		[]string{`{}`, `{"title":"T"}`, `{"role":"treasurer"}`, `{"title":"","role":"treasurer"}`, `{"title":"T","role":"treasurer","status":"gone"}`, `{"title":"T","role":"treasurer","id":"x"}`, `{"title":"T","role":7}`},
	},
	"ItemFields": {
		[]string{`{"title":"T2"}`, `{"body":null}`, `{"body":""}`, `{"status":"archived"}`, `{"role":"secretary"}`, `{"private":true}`, `{"personal":false}`},
		[]string{`{}`, `{"title":null}`, `{"title":""}`, `{"status":null}`, `{"status":"OPEN"}`, `{"role":null}`, `{"private":"yes"}`, `{"personal":0}`, `{"created_at":7}`, `{"Title":"x"}`, `{"body":["x"]}`},
	},
}

// Each operation, made to give every answer that the document has for it, and
// no other.
func TestEveryAnswer(t *testing.T) {
	d := theDocument()
	for path, methods := range d.Paths {
		for method := range methods {
			if method == "parameters" {
				continue
			}
			o, _ := d.operation(path, strings.ToUpper(method))
			t.Run(o.OperationID, func(t *testing.T) { provoke(t, d, path, strings.ToUpper(method), o) })
		}
	}
}

func provoke(t *testing.T, d openAPI, path, method string, o documentedOperation) {
	t.Parallel()
	h := newHouse(t)
	x := h.live("ada", "nordlys", everything).access
	reader := h.live("tor", "nordlys", roles(true)).access
	target, unknown := "/api/v5"+path, "/api/v5"+strings.NewReplacer("{id}", "nobody", "{person}", "ada").Replace(path)
	place := func() string { return target }
	in := ""
	if c, ok := o.RequestBody.Content["application/json"]; ok {
		in = c.Schema.Ref[strings.LastIndexByte(c.Schema.Ref, '/')+1:]
	}
	body := ""
	if in != "" {
		body = bodies[in].good[0]
	}
	switch collection, rest, _ := strings.Cut(path[1:], "/"); {
	case rest == "{id}/fillers/{person}":
		target = "/api/v5/roles/host/fillers/ada"
		if method == "DELETE" {
			target = "/api/v5/roles/host/fillers/tor"
		}
	case rest == "":
	case collection == "people":
		target = "/api/v5/people/tor"
	case collection == "circles":
		target = "/api/v5/circles/money"
		if method == "DELETE" {
			place = func() string {
				return h.send("POST", "/api/v5/circles", x, `{"name":"Empty"}`).Header().Get("Location")
			}
		}
	case collection == "roles":
		target = "/api/v5/roles/treasurer"
	default:
		i := ofRole("treasurer", false)
		i.Kind = strings.TrimSuffix(collection, "s")
		place = func() string { return "/api/v5/" + collection + "/" + h.item(i).ID }
		target = place()
	}
	wantStatus(t, h.call(method, target), 401, missing)
	if strings.HasPrefix(o.OperationID, "list") {
		wantStatus(t, h.get(target+"?limit=0", x), 400, "")
		wantStatus(t, h.get(target+"?colour=red", x), 400, "")
	} else if o.OperationID == "readMe" {
		wantStatus(t, h.send(method, target, x, "", "If-Match", `"another"`, "If-None-Match", "*"), 200, "")
	} else if method != "POST" {
		wantStatus(t, h.send(method, target, x, body, "If-Match", "x"), 400, "")
		wantStatus(t, h.send(method, target, x, body, "If-None-Match", `"a" "b"`), 400, "")
		wantStatus(t, h.send(method, target, x, body, "If-Match", `"another", "second"`), 412, "")
	}
	if in != "" {
		for _, bad := range bodies[in].bad {
			wantStatus(t, h.send(method, target, x, bad), 400, "")
			wantSchemaSays(t, d, in, bad, false)
		}
		wantStatus(t, h.send(method, target, x, `"`+strings.Repeat("x", 64<<10)+`"`), 413, "")
		wantStatus(t, h.send(method, target, x, body, "Content-Type", "text/plain"), 415, "")
	}
	if strings.Contains(path, "{") {
		wantStatus(t, h.send(method, unknown, x, body), 404, "")
	}
	if _, ok := o.Responses["403"]; ok {
		wantStatus(t, h.send(method, target, reader, body), 403, "")
	}
	switch o.OperationID {
	case "changePerson", "removePerson":
		wantStatus(t, h.send(method, "/api/v5/people/ada", x, body), 409, "")
	case "changeCircle":
		wantStatus(t, h.send(method, "/api/v5/circles/general", x, `{"parent":"money"}`), 409, "")
	case "deleteCircle":
		wantStatus(t, h.send(method, "/api/v5/circles/general", x, ""), 409, "")
	}
	if method == "GET" && !strings.HasPrefix(o.OperationID, "list") && o.OperationID != "readMe" {
		wantStatus(t, h.get(target, x), 200, "")
		wantStatus(t, h.send("GET", target, x, "", "If-None-Match", "*"), 304, "")
	}
	h.server.Limit = limit.NewNames(limit.Limit{N: 1, Window: time.Minute})
	h.get("/api/v5/me", x)
	wantStatus(t, h.send(method, target, x, body), 429, "")
	h.server.Limit = limit.NewNames(limit.API)
	if in == "" {
		wantSuccess(t, h.send(method, place(), x, ""), o)
	} else {
		for _, good := range bodies[in].good {
			wantSchemaSays(t, d, in, good, true)
			wantSuccess(t, h.send(method, place(), x, good), o)
		}
	}
	for status := range o.Responses {
		if _, ok := told.Load(o.OperationID + " " + status); !ok && status != "default" {
			t.Errorf("%s was not seen", status)
		}
	}
}

func wantSuccess(t *testing.T, w *httptest.ResponseRecorder, o documentedOperation) {
	t.Helper()
	if _, ok := o.Responses[fmt.Sprint(w.Code)]; !ok || w.Code >= 300 {
		t.Errorf("got %d: %s", w.Code, w.Body)
	}
}

func wantSchemaSays(t *testing.T, d openAPI, name, body string, ok bool) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	if err := d.schema(name).Validate(v); (err == nil) != ok {
		t.Errorf("%s and %s: %v", name, body, err)
	}
}
