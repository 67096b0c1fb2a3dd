package operator

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/docs/openapi"
)

// Every route of the sources is in the document, and the other way round. What is
// asked and answered, every other test of this package compares.
func TestDocumentIsTheRoutes(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := []string{metricsPattern}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?:mux|open)\.Handle\("([A-Z]+ /[^"]+)"`).FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(name, "_test.go") {
				routes = append(routes, m[1])
			}
		}
	}
	slices.Sort(routes)
	if got := openapi.Read(t, "operator").Operations(); !slices.Equal(got, routes) {
		t.Errorf("the document has\n%q\nand the server\n%q", got, routes)
	}
}

// What no other test of this package does.
func TestDocumentOfTheRest(t *testing.T) {
	o := newOffice(t)
	o.want(200, "POST", "/v1/people/ada/reset-signin", `{"reason":"lost the phone"}`)
	o.want(200, "POST", "/v1/backup", `{"taken_at":1795290656}`)
	o.want(400, "POST", "/v1/backup", `{"taken_at":"now"}`)
}
