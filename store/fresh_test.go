package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notAsked are functions that read the facts in memory and need not ask first
// whether they are those of now: their callers have, or they answer what the
// writer asks once more.
var notAsked = []string{
	"Check", "Under", "Used", "clientState", "Pressed", "stands", "cacheFilterOf", "pendingPlaces", "Write", "EachCached", "NewestChunks", "Figures",
	"access", "move", "Version", "names", "Stamp", "AwaitCommit", "APIKey", "LastUse", "Living",
	"peopleFound", "signed", // behind who asks
	"takes", "PreregisteredConflict", // the writer asks once more
	"manyKeys", // within a change, which is up to date
}

// On PostgreSQL memory is a replica: whoever answers out of it calls fresh
// first, behind the rows that it has read.
func TestFactsAreAskedFor(t *testing.T) {
	asked, exempt := 0, 0
	for _, name := range sources(t) {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if ok && calls(fn, "Recent") && fn.Name.Name != "CheckAPIKey" {
				t.Errorf("%s: %s goes by what is remembered: only a check accepts by that", name, fn.Name.Name)
			}
			if !ok || !calls(fn, "RLock") || strings.HasPrefix(filepath.Base(name), "row") {
				continue
			}
			switch {
			case slices.Contains(notAsked, fn.Name.Name):
				exempt++
			case calls(fn, "fresh"), calls(fn, "Fresh"):
				asked++
			case calls(fn, "enter"), calls(fn, "Enter"), fn.Name.Name == "Enter":
			default:
				t.Errorf("%s: %s reads the facts in memory and does not call fresh", name, fn.Name.Name)
			}
		}
	}
	if asked < 12 || exempt < len(notAsked)-2 {
		t.Errorf("%d ask, %d need not: this test looks at something else", asked, exempt)
	}
}

func calls(fn *ast.FuncDecl, name string) (found bool) {
	ast.Inspect(fn, func(n ast.Node) bool {
		if c, ok := n.(*ast.CallExpr); ok && called(c) == name {
			found = true
		}
		return !found
	})
	return found
}
