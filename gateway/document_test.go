package gateway

import (
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/docs/openapi"
)

// Every path of the source is in the document, and the other way round. What is
// asked and answered, every other test of this package compares.
func TestDocumentIsTheRoutes(t *testing.T) {
	text, err := os.ReadFile("gateway.go")
	if err != nil {
		t.Fatal(err)
	}
	paths := []string{"/v1/forward-auth/{original}"}
	for _, m := range regexp.MustCompile(`Path += "(/v1/[^"]+)"`).FindAllStringSubmatch(string(text), -1) {
		paths = append(paths, m[1])
	}
	var got []string
	for path := range openapi.Read(t, "gateway").Paths {
		got = append(got, path)
	}
	slices.Sort(paths)
	slices.Sort(got)
	if !slices.Equal(got, paths) {
		t.Errorf("the document has %q, and the server %q", got, paths)
	}
}
