package rules

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// openAPI is what rules need of a document of OpenAPI 3.
type openAPI struct {
	Version    string `json:"openapi"`
	Servers    []openAPIServer
	Paths      map[string]json.RawMessage
	Components struct{ PathItems map[string]json.RawMessage }
}

type openAPIServer struct {
	URL       string
	Variables map[string]struct{ Default string }
}

// openAPIMethods are those that a path item has by name, in small letters.
var openAPIMethods = strings.Fields("get put post delete options head patch trace query")

// MaxOpenAPI bounds a document, in bytes.
const MaxOpenAPI = 16 << 20

// ReadOpenAPI gives the operations of a document of OpenAPI 3 in JSON, and the paths that
// it describes in another, as they are written.
func ReadOpenAPI(text []byte) (all []Operation, left []string, err error) {
	var doc openAPI
	switch {
	case len(text) > MaxOpenAPI:
		return nil, nil, fmt.Errorf("it has more than %d MiB", MaxOpenAPI>>20)
	case json.Unmarshal(text, &doc) != nil:
		return nil, nil, errors.New("it is no JSON, or its members are of other types")
	case !strings.HasPrefix(doc.Version, "3."):
		return nil, nil, fmt.Errorf("openapi is %.20q, not 3", doc.Version)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		if strings.HasPrefix(path, "x-") {
			continue
		}
		item, ok := doc.item(doc.Paths[path])
		if !ok {
			left = append(left, path)
			continue
		}
		all = append(all, doc.operations(path, item)...)
	}
	return all, left, nil
}

// item is a path item, which may stand among the components.
func (d *openAPI) item(text json.RawMessage) (item map[string]json.RawMessage, ok bool) {
	ok = json.Unmarshal(text, &item) == nil
	var ref string
	if _, refers := item["$ref"]; !ok || !refers {
		return item, ok
	}
	_ = json.Unmarshal(item["$ref"], &ref)
	name, here := strings.CutPrefix(ref, "#/components/pathItems/")
	text, ok = d.Components.PathItems[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
	item = nil
	if !here || !ok || json.Unmarshal(text, &item) != nil {
		return nil, false
	}
	_, again := item["$ref"]
	return item, !again
}

// operations are those of one path.
func (d *openAPI) operations(path string, item map[string]json.RawMessage) (all []Operation) {
	methods := map[string]json.RawMessage{}
	_ = json.Unmarshal(item["additionalOperations"], &methods)
	for _, name := range openAPIMethods {
		if text, ok := item[name]; ok {
			methods[strings.ToUpper(name)] = text
		}
	}
	for _, method := range slices.Sorted(maps.Keys(methods)) {
		var says struct {
			Summary, OperationID string
			Servers              []openAPIServer
		}
		_ = json.Unmarshal(item["servers"], &says.Servers)
		_ = json.Unmarshal(methods[method], &says)
		title := says.Summary
		if title == "" {
			title = says.OperationID
		}
		all = append(all, Operation{Method: method, Path: basePath(says.Servers, d.Servers) + path, Title: title})
	}
	return all
}

// basePath is the path of the first server, without a slash at its end: of the
// operation's own, or of the document's.
func basePath(servers, document []openAPIServer) string {
	if len(servers) == 0 {
		servers = document
	}
	if len(servers) == 0 {
		return ""
	}
	at := servers[0].URL
	for name, v := range servers[0].Variables {
		at = strings.ReplaceAll(at, "{"+name+"}", v.Default)
	}
	u, err := url.Parse(at)
	if err != nil {
		return ""
	}
	return strings.TrimRight(u.EscapedPath(), "/")
}
