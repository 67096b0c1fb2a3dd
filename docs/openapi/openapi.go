// Package openapi holds the tests of a door to the OpenAPI document of its API, which
// stands beside this file: every exchange that any of them makes is compared.
package openapi

import (
	"bytes"
	"embed"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

//go:embed gateway.json operator.json
var files embed.FS

// Document is an OpenAPI 3.1 document, as far as it is compared.
type Document struct {
	Paths      map[string]map[string]json.RawMessage
	Components struct {
		Parameters map[string]parameter
		Responses  map[string]response
		Schemas    map[string]json.RawMessage
	}
	resolved sync.Map // *jsonschema.Resolved, by the text of the schema
}

type parameter struct {
	Ref  string `json:"$ref"`
	Name string
	In   string
}

type content map[string]struct{ Schema json.RawMessage }

type response struct {
	Ref     string `json:"$ref"`
	Headers map[string]struct{ Required bool }
	Content content
}

type operation struct {
	Parameters  []parameter
	RequestBody struct{ Content content }
	Responses   map[string]response
}

// Read gives gateway or operator. That later releases may add members to answers
// is no leave for this one: an object has those alone that its schema names.
func Read(t testing.TB, name string) *Document {
	t.Helper()
	if d, ok := documents.Load(name); ok {
		return d.(*Document)
	}
	text, err := files.ReadFile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var tree any
	d := new(Document)
	if err := json.Unmarshal(text, &tree); err != nil {
		t.Fatal(err)
	}
	closeObjects(tree)
	text, err = json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatal(err)
	}
	for name, s := range d.Components.Schemas { // all of them, so that no reference leads nowhere
		d.schema(t, s)
		if !bytes.Contains(text, []byte(`"#/components/schemas/`+name+`"`)) {
			t.Errorf("nothing uses the schema %s", name)
		}
	}
	documents.Store(name, d)
	return d
}

var documents sync.Map // *Document, by its name

func closeObjects(tree any) {
	switch x := tree.(type) {
	case []any:
		for _, one := range x {
			closeObjects(one)
		}
	case map[string]any:
		_, has := x["properties"]
		if _, said := x["additionalProperties"]; x["type"] == "object" && has && !said {
			x["additionalProperties"] = false
		}
		for _, one := range x {
			closeObjects(one)
		}
	}
}

// Operations are the methods and paths, as in "GET /v1/people", in order.
func (d *Document) Operations() (all []string) {
	for path, methods := range d.Paths {
		for method := range methods {
			if method != "parameters" && !strings.HasPrefix(method, "x-") {
				all = append(all, strings.ToUpper(method)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

var nullMember = regexp.MustCompile(`,\s*"[a-z_]+"\s*:\s*null|"[a-z_]+"\s*:\s*null\s*,?`)

// Watch is the handler, whose every exchange is compared with the document.
func (d *Document) Watch(t testing.TB, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var sent bytes.Buffer
		if r.Body != nil {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &sent), r.Body}
		}
		query := r.URL.Query()
		seen := httptest.NewRecorder()
		next.ServeHTTP(&both{w, seen}, r)
		maps.Copy(seen.Header(), w.Header())
		path := r.URL.EscapedPath()
		if strings.Count(path, "/") == strings.Count(r.URL.Path, "/") {
			path = r.URL.Path
		}
		o, found := d.find(t, r.Method, path)
		switch {
		case found:
			d.compare(t, r, sent.Bytes(), query, o, seen)
		case strings.HasPrefix(r.URL.Path, "/v1") && seen.Code < 400:
			t.Errorf("%s %s: %d, and it is not in the document", r.Method, r.URL.Path, seen.Code)
		case strings.HasPrefix(r.URL.Path, "/v1"):
			d.answer(t, r, d.Components.Responses["refusal"], seen)
		}
	})
}

// both writes an answer and keeps it.
type both struct {
	http.ResponseWriter
	seen *httptest.ResponseRecorder
}

func (b *both) WriteHeader(status int) {
	b.ResponseWriter.WriteHeader(status)
	b.seen.WriteHeader(status)
}

func (b *both) Write(p []byte) (int, error) {
	b.seen.Write(p)
	return b.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (b *both) Unwrap() http.ResponseWriter { return b.ResponseWriter }

// find gives the operation of a request; a path of no parameters comes first.
func (d *Document) find(t testing.TB, method, path string) (o operation, found bool) {
	t.Helper()
	methods, ok := d.Paths[path]
	for pattern, of := range d.Paths {
		if !ok && matches(pattern, path) {
			methods = of
		}
	}
	raw, found := methods[strings.ToLower(method)]
	if _, any := methods["x-any-method"]; any || method == http.MethodHead {
		raw, found = methods["get"]
	}
	if found {
		if err := json.Unmarshal(raw, &o); err != nil {
			t.Fatal(err)
		}
	}
	return o, found
}

// matches reports whether a path is one of the pattern's; {original} has slashes.
func matches(pattern, path string) bool {
	if before, ok := strings.CutSuffix(pattern, "{original}"); ok {
		return strings.HasPrefix(path, before)
	}
	return slices.EqualFunc(strings.Split(pattern, "/"), strings.Split(path, "/"), func(want, got string) bool {
		return want == got || strings.HasPrefix(want, "{") && got != ""
	})
}

// compare holds what was taken to what the document says is taken, and the answer.
func (d *Document) compare(t testing.TB, r *http.Request, sent []byte, query map[string][]string, o operation, seen *httptest.ResponseRecorder) {
	t.Helper()
	if seen.Code < 400 {
		for name := range query {
			if !slices.ContainsFunc(o.Parameters, func(p parameter) bool { return d.parameter(p) == parameter{Name: name, In: "query"} }) && r.Pattern != "/v1/forward-auth" {
				t.Errorf("%s %s: takes ?%s, which is not in the document", r.Method, r.URL.Path, name)
			}
		}
		if of, ok := o.RequestBody.Content["application/json"]; len(bytes.TrimSpace(sent)) > 0 && r.Pattern != "/v1/forward-auth" {
			if !ok {
				t.Errorf("%s %s: takes a body, and the document has none", r.Method, r.URL.Path)
			} else {
				d.valid(t, r, of.Schema, nullMember.ReplaceAll(sent, nil)) // which is taken for one that is not sent
			}
		}
	}
	a, ok := o.Responses[strconv.Itoa(seen.Code)]
	if !ok {
		if a, ok = o.Responses["default"]; seen.Code < 400 || !ok {
			t.Errorf("%s %s: %d is not in the document", r.Method, r.URL.Path, seen.Code)
		}
	}
	d.answer(t, r, a, seen)
}

func (d *Document) parameter(p parameter) parameter {
	if p.Ref != "" {
		return d.Components.Parameters[p.Ref[strings.LastIndexByte(p.Ref, '/')+1:]]
	}
	return p
}

func (d *Document) answer(t testing.TB, r *http.Request, a response, seen *httptest.ResponseRecorder) {
	t.Helper()
	if a.Ref != "" {
		a = d.Components.Responses[a.Ref[strings.LastIndexByte(a.Ref, '/')+1:]]
	}
	for name, of := range a.Headers {
		if of.Required && seen.Header().Get(name) == "" {
			t.Errorf("%s %s: %d without %s", r.Method, r.URL.Path, seen.Code, name)
		}
	}
	media, _, _ := strings.Cut(seen.Header().Get("Content-Type"), ";")
	of, ok := a.Content[media]
	switch {
	case !ok && (media != "" || len(a.Content) > 0 && r.Method != http.MethodHead):
		t.Errorf("%s %s: %d in %q", r.Method, r.URL.Path, seen.Code, media)
	case of.Schema != nil && r.Method != http.MethodHead:
		d.valid(t, r, of.Schema, seen.Body.Bytes())
	}
}

func (d *Document) valid(t testing.TB, r *http.Request, schema json.RawMessage, text []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Errorf("%s %s: %v in %s", r.Method, r.URL.Path, err, text)
	} else if err := d.schema(t, schema).Validate(v); err != nil {
		t.Errorf("%s %s: %v in %s", r.Method, r.URL.Path, err, text)
	}
}

// schema gets a schema ready to judge.
func (d *Document) schema(t testing.TB, raw json.RawMessage) *jsonschema.Resolved {
	t.Helper()
	if is, ok := d.resolved.Load(string(raw)); ok {
		return is.(*jsonschema.Resolved)
	}
	named := map[string]json.RawMessage{}
	d.named(raw, named)
	all, err := json.Marshal(map[string]any{"allOf": []any{raw}, "$defs": named})
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(bytes.ReplaceAll(all, []byte("#/components/schemas/"), []byte("#/$defs/")), &s); err != nil {
		t.Fatal(err)
	}
	is, err := s.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	d.resolved.Store(string(raw), is)
	return is
}

var reference = regexp.MustCompile(`"#/components/schemas/([^"]+)"`)

// named puts the schemas there that one names, and those that these do. One that is
// not in the document is missed by whoever resolves them.
func (d *Document) named(raw json.RawMessage, into map[string]json.RawMessage) {
	for _, found := range reference.FindAllSubmatch(raw, -1) {
		name := string(found[1])
		s, ok := d.Components.Schemas[name]
		if _, has := into[name]; ok && !has {
			into[name] = s
			d.named(s, into)
		}
	}
}
