package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strconv"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

func TestLiteralsAreTheValuesOfRows(t *testing.T) {
	for text, want := range map[string]int64{
		engine.SQLCodeIssued: int64(approval.CodeIssued), engine.SQLLive: int64(approval.Live), engine.SQLEnded: int64(approval.Ended),
	} {
		if text != strconv.FormatInt(want, 10) {
			t.Errorf("a phase is %s in statements, want %d", text, want)
		}
	}
	for text, want := range map[string]int64{
		engine.SQLEnabled: engine.Enabled, engine.SQLNotConfigured: engine.NotConfigured, engine.SQLDeleted: engine.Deleted,
	} {
		if text != strconv.FormatInt(want, 10) {
			t.Errorf("a client's state is %s in statements, want %d", text, want)
		}
	}
	if engine.SQLTrue != strconv.FormatInt(engine.Flag(true), 10) || engine.SQLFalse != strconv.FormatInt(engine.Flag(false), 10) {
		t.Errorf("flags are %s and %s in statements", engine.SQLTrue, engine.SQLFalse)
	}
}

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
