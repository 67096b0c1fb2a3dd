package mcp

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/sse"
)

// Events pass as they came, but that IDs are others (decision V13), and that other data
// takes the place of all data lines.
func TestAppendEvent(t *testing.T) {
	bind := func(id string) string { return "<" + id + ">" }
	for text, want := range map[string]string{
		"id: 1\nevent: message\ndata: a\ndata:b": "id: <1>\nevent: message\ndata: a\ndata:b\n\n",
		"id:1\r\nID: 2\r\nretry: 5\r\n: c\r\n":   "id: <1>\nID: 2\nretry: 5\n: c\n\n",
		"id: 1\nid: 2":                           "id: <1>\nid: <2>\n\n",
		"id:\ndata: a":                           "id:\ndata: a\n\n", // no ID any more
		"id: a\x00b\ndata":                       "data\n\n",         // readers ignore it
	} {
		v, err := sse.NewReader(strings.NewReader(text+"\n\n"), 100).Next()
		if got := string(rewritten(v, nil, bind)); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	v, err := sse.NewReader(strings.NewReader("event: message\ndata: a\ndata: b\nid: 1\n\n"), 100).Next()
	if got := string(rewritten(v, []byte("c"), bind)); err != nil || got != "event: message\ndata: c\nid: <1>\n\n" {
		t.Errorf("%q, %v", got, err)
	}
}
