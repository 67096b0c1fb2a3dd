package sample

import (
	_ "embed"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// skeleton is the document of the API without its paths, which are made from
// the routes: so what is served and what is described cannot drift apart.
//
//go:embed openapi.json
var skeleton []byte

// document is the OpenAPI 3.1 document of the API, as GET /openapi.json gives
// it.
var document []byte

func init() {
	document = describe(routes)
}

func describe(routes []route) []byte {
	var whole map[string]any
	if err := json.Unmarshal(skeleton, &whole); err != nil {
		panic(err) // a file of this package
	}
	paths := map[string]any{}
	for _, r := range routes {
		item := map[string]any{}
		for _, o := range r.methods {
			item[strings.ToLower(o.method)] = o.describe(r.path)
		}
		var ids []any
		for _, id := range []string{"id", "person"} {
			if strings.Contains(r.path, "{"+id+"}") {
				ids = append(ids, ref("parameters", id))
			}
		}
		if ids != nil {
			item["parameters"] = ids
		}
		paths[strings.TrimPrefix(r.path, apiPath)] = item
	}
	whole["paths"] = paths
	b, err := json.Marshal(whole)
	if err != nil {
		panic(err) // of what was JSON before
	}
	return b
}

func ref(section, name string) map[string]any {
	return map[string]any{"$ref": "#/components/" + section + "/" + name}
}

func (o operation) describe(path string) map[string]any {
	parameters := []any{}
	for _, name := range o.parameters(path) {
		parameters = append(parameters, ref("parameters", name))
	}
	responses := map[string]any{"default": ref("responses", "default"), strconv.Itoa(o.status): o.success(path)}
	for _, status := range o.statuses(path) {
		responses[strconv.Itoa(status)] = ref("responses", strconv.Itoa(status))
	}
	collection, _, _ := strings.Cut(strings.TrimPrefix(path, apiPath+"/"), "/")
	x := map[string]any{
		"operationId": o.name, "summary": o.summary, "tags": []any{collection},
		"parameters": parameters, "responses": responses,
	}
	if o.in != "" {
		content := map[string]any{"application/json": map[string]any{"schema": ref("schemas", o.in)}}
		if o.method == http.MethodPatch {
			content["application/merge-patch+json"] = content["application/json"]
		}
		x["requestBody"] = map[string]any{"required": true, "content": content}
	}
	return x
}

// success describes what the operation answers when it refuses nothing.
func (o operation) success(path string) map[string]any {
	x := map[string]any{"description": http.StatusText(o.status)}
	if o.out != "" {
		x["content"] = map[string]any{"application/json": map[string]any{"schema": ref("schemas", o.out)}}
	}
	headers := map[string]any{}
	if o.out != "" && !o.lists(path) && !o.tagless {
		headers["ETag"] = ref("headers", "ETag")
	}
	if o.status == http.StatusCreated {
		headers["Location"] = ref("headers", "Location")
	}
	if len(headers) > 0 {
		x["headers"] = headers
	}
	return x
}

// lists reports whether the operation answers pages: its path holds others.
func (o operation) lists(path string) bool {
	return o.method == http.MethodGet && slices.ContainsFunc(routes, func(r route) bool { return r.path == path+"/{id}" })
}

func (o operation) parameters(path string) []string {
	switch {
	case o.lists(path):
		return append([]string{"limit", "after"}, o.filters...)
	case o.method == http.MethodPost, o.tagless:
		return nil
	}
	return []string{"If-Match", "If-None-Match"}
}

// statuses are those with which the operation refuses, beside default.
func (o operation) statuses(path string) []int {
	if o.tagless { // it looks at nothing that could be wrong
		return []int{http.StatusUnauthorized, http.StatusTooManyRequests}
	}
	all := append([]int{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusBadRequest}, o.refuses...)
	if strings.Contains(path, "{id}") {
		all = append(all, http.StatusNotFound)
	}
	if o.in != "" {
		all = append(all, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType)
	}
	switch {
	case o.method == http.MethodPost, o.lists(path):
		return all
	case o.method == http.MethodGet:
		all = append(all, http.StatusNotModified)
	}
	return append(all, http.StatusPreconditionFailed)
}
