package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// A body is JSON where its headers say that and nothing beside it.
func TestIsJSON(t *testing.T) {
	for _, tt := range []struct {
		name     string
		types    []string
		encoding string
		want     bool
	}{
		{"as it is", []string{"application/json"}, "", true},
		{"in another case", []string{"Application/JSON"}, "", true},
		{"with charset", []string{"application/json; charset=UTF-8"}, "", true},
		{"with another parameter", []string{"application/json; a=b"}, "", true},
		{"with another charset", []string{"application/json; charset=utf-16"}, "", false},
		{"with an empty charset", []string{`application/json; charset=""`}, "", false},
		{"with a broken parameter", []string{"application/json; charset"}, "", false},
		{"another type", []string{"text/plain"}, "", false},
		{"another type with charset", []string{"text/plain; charset=utf-8"}, "", false},
		{"a type of JSON", []string{"application/problem+json"}, "", false},
		{"twice", []string{"application/json", "application/json"}, "", false},
		{"none", nil, "", false},
		{"compressed", []string{"application/json"}, "gzip", false},
	} {
		h := http.Header{"Content-Type": tt.types}
		if tt.encoding != "" {
			h.Set("Content-Encoding", tt.encoding)
		}
		if got := IsJSON(h); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// Half a surrogate pair is found, wherever it stands, and nothing else is taken for one:
// encoding/json puts U+FFFD for it, and for nothing else of these.
func TestHasLoneSurrogate(t *testing.T) {
	pieces := []string{`a`, `\\`, `\n`, `\"`, `\u0041`, `\u00d8`, `\ud7ff`, `\ue000`, `\ud800`, `\uDBFF`, `\udBc0`, `\udc00`, `\uDFFF`, `\uDa00`, `\uD900`, `\udEad`, `\uDd00`, `u`, `ud800`, `\/`, `\ufffe`}
	check := func(text string) {
		t.Helper()
		body, said := []byte(`{"a":"`+text+`"}`), struct{ A string }{}
		if err := json.Unmarshal(body, &said); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if got, want := HasLoneSurrogate(body), strings.ContainsRune(said.A, '\ufffd'); got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
	for _, a := range pieces {
		for _, b := range pieces {
			check(a + b)
			for _, c := range pieces {
				check(a + b + c)
			}
		}
	}
	if HasLoneSurrogate(nil) || HasLoneSurrogate([]byte(`[]`)) {
		t.Error("found in a body without a string")
	}
}
