package rules_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/rules"
)

// The operations of a document, and what it describes elsewhere.
func TestReadOpenAPI(t *testing.T) {
	const text = `{"openapi":"3.1.0","servers":[{"url":"https://{host}.example/{v}/","variables":{"host":{"default":"api"},"v":{"default":"v5"}}},{"url":"/other"}],
		"paths":{"/orders":{"get":{"summary":"List them","operationId":"list"},"post":{"operationId":"add"},"parameters":[],"additionalOperations":{"COPY":{}}},
			"/own":{"servers":[{"url":"/item/"}],"put":{},"patch":{"servers":[{"url":"/call"}]}},
			"/bad":{"servers":[{"url":"https://%zz/"}],"delete":{}}, "/odd":7, "x-more":{"get":{}},
			"/here":{"$ref":"#/components/pathItems/a~1b~0c"}, "/there":{"$ref":"other.json#/components/pathItems/a~1b~0c"}, "/nowhere":{"$ref":"#/components/pathItems/no"},
			"/again":{"$ref":"#/components/pathItems/again"}, "/number":{"$ref":7}, "/broken":{"$ref":"#/components/pathItems/odd"}},
		"components":{"pathItems":{"a/b~c":{"head":{}},"again":{"$ref":"#/components/pathItems/a~1b~0c"},"odd":[]}}}`
	want := []rules.Operation{
		{Method: "DELETE", Path: "/bad"}, {Method: "HEAD", Path: "/v5/here"},
		{Method: "COPY", Path: "/v5/orders"}, {Method: "GET", Path: "/v5/orders", Title: "List them"}, {Method: "POST", Path: "/v5/orders", Title: "add"},
		{Method: "PATCH", Path: "/call/own"}, {Method: "PUT", Path: "/item/own"},
	}
	all, left, err := rules.ReadOpenAPI([]byte(text))
	if err != nil || !reflect.DeepEqual(all, want) || strings.Join(left, " ") != "/again /broken /nowhere /number /odd /there" {
		t.Errorf("%+v, left %q, %v", all, left, err)
	}
	all, left, err = rules.ReadOpenAPI([]byte(`{"openapi":"3.0.3","paths":{"/a":{"get":{}}}}`))
	if err != nil || len(left) > 0 || !reflect.DeepEqual(all, []rules.Operation{{Method: "GET", Path: "/a"}}) {
		t.Errorf("without servers: %+v, left %q, %v", all, left, err)
	}
	large := func(n int) string { return `{"openapi":"3.0.3"}` + strings.Repeat(" ", n-len(`{"openapi":"3.0.3"}`)) }
	for text, want := range map[string]string{
		large(16 << 20): "", large(16<<20 + 1): "it has more than 16 MiB",
		``: "it is no JSON", `[]`: "it is no JSON", `{"openapi":"2.0"}`: `openapi is "2.0", not 3`, `{}`: `openapi is "", not 3`,
	} {
		if _, _, err := rules.ReadOpenAPI([]byte(text)); (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", text, err, want)
		}
	}
}
