package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"testing"
)

// bareValue is a column with a number whose name is in literals.go.
var bareValue = regexp.MustCompile(`(?i)\b(phase|disabled|preregistered|approved)\s*(=|<>|<=?|>=?|IN\s*\()\s*[0-9]`)

func TestStatementsNameTheirValues(t *testing.T) {
	for _, name := range sources(t) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if found := bareValue.FindString(text.Value); found != "" {
					t.Errorf("%s: %q has a number without its name (literals.go)", set.Position(text.Pos()), found)
				}
			}
			return true
		})
	}
	for _, planted := range []string{"a.phase = 2", "phase < 3", "disabled <> 0", "preregistered=1", "phase IN (1, 2)"} {
		if !bareValue.MatchString(planted) {
			t.Errorf("%q is not noticed", planted)
		}
	}
}
