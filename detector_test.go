package grantkeeper_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// In rooms that the race detector sees in part, it sees each test that starts goroutines: the name
// says so, and scripts/test.sh goes by names.
func TestDetectorSeesWhatHappensAtOnce(t *testing.T) {
	script, err := os.ReadFile("scripts/test.sh")
	if err != nil {
		t.Fatal(err)
	}
	setting := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=['(](.*)[')]$`).FindSubmatch(script)
		if found == nil {
			t.Fatalf("scripts/test.sh does not say what is %s", name)
		}
		return string(found[1])
	}
	atOnce, album := regexp.MustCompile(setting("atonce")), regexp.MustCompile(setting("album"))
	seen := 0
	for _, room := range strings.Fields(setting("partly")) {
		for _, name := range goFiles(t, os.DirFS(room)) {
			if strings.Contains(name, "/") || !strings.HasSuffix(name, "_test.go") {
				continue // of another room
			}
			f, err := parser.ParseFile(token.NewFileSet(), path.Join(room, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !strings.HasPrefix(fn.Name.Name, "Test") || !startsGoroutines(fn) {
					continue
				}
				if seen++; !atOnce.MatchString(fn.Name.Name) && !album.MatchString(fn.Name.Name) {
					t.Errorf("%s/%s: %s does several things at once, and its name has none of %s", room, name, fn.Name.Name, atOnce)
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("%d tests start goroutines", seen)
	}
}

func startsGoroutines(fn *ast.FuncDecl) (does bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			does = true
		case *ast.SelectorExpr:
			does = does || n.Sel.Name == "Go"
		}
		return !does
	})
	return does
}
