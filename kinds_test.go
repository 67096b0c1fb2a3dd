package grantkeeper_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/terminal"
	gktoken "github.com/grantkeeper/grantkeeper/token"
)

// alike are texts that are a kind's by chance, by file.
var alike = map[string][]string{
	"api/answer.go":            {"rate_limited"},                                                                       // a code of the API
	"approval/approval.go":     {"refresh_reused", "code_reused", "client_disabled", "restored"},                       // reasons of an end
	"attempt/reason.go":        {"client_disabled", "code_reused", "approval_ended", "refresh_reused", "rate_limited"}, // reasons of an attempt
	"metrics/metrics.go":       {"refresh_reused", "code_reused", "client_disabled", "restored"},                       // reasons as the metric says them
	"oauth/token.go":           {"client_disabled"},                                                                    // why a token is refused, for logs
	"operator/installation.go": {"restored"},                                                                           // an answer's ID
	"operator/answer.go":       {"rate_limited"},                                                                       // a code of the API
	"operator/operator.go":     {"rate_limited"},                                                                       // a code of the API
	"gateway/events.go":        {"directory_changed", "old_version"},                                                   // codes of the API
	"sample/directory.go":      {"directory_changed"},                                                                  // what the gateway answers
}

// Kinds of entries, and reasons that others compare, are written by their names
// in package journal alone, and each is written somewhere.
func TestKindsHaveNames(t *testing.T) {
	known := append(journal.Names(), journal.OldVersion, journal.SecondFactor, journal.SecondFactorRepeated)
	inSQL := regexp.MustCompile(`'(?:` + strings.Join(known, "|") + `)'`)
	if !inSQL.MatchString("kind = 'restored'") {
		t.Error("kinds in statements are not noticed")
	}
	named, chance := map[string]bool{}, map[string]bool{}
	for _, name := range goFiles(t, os.DirFS(".")) {
		room := strings.SplitN(name, "/", 2)[0]
		if strings.HasSuffix(name, "_test.go") || slices.Contains([]string{"journal", "bench", "e2e", "docs", "scripts"}, room) {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "journal" {
					named[n.Sel.Name] = true
				}
			case *ast.BasicLit:
				text, err := strconv.Unquote(n.Value)
				if err != nil || n.Kind != token.STRING {
					return true
				}
				if slices.Contains(alike[name], text) {
					chance[name+" "+text] = true
				} else if slices.Contains(known, text) || inSQL.MatchString(text) {
					t.Errorf("%s: %s has its name in package journal", set.Position(n.Pos()), n.Value)
				}
			}
			return true
		})
	}
	for name, texts := range alike {
		for _, text := range texts {
			if !chance[name+" "+text] {
				t.Errorf("%s has no %q any more", name, text)
			}
		}
	}
	for name, kind := range kindConstants(t) {
		if !named[name] {
			t.Errorf("nobody writes or asks for %s", kind)
		}
	}
}

// kindConstants gives the kinds by the names of their constants.
func kindConstants(t *testing.T) map[string]string {
	source, err := os.ReadFile("journal/journal.go")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+)\s+Kind = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		out[m[1]] = m[2]
	}
	if len(out) != len(journal.Meanings) {
		t.Errorf("%d constants, and %d in the table", len(out), len(journal.Meanings))
	}
	return out
}

func TestDocsListTheKinds(t *testing.T) {
	decisions, api := document(t, "docs/decisions.md"), document(t, "docs/operator-api.md")
	_, j1, _ := strings.Cut(decisions, `<a id="j1"></a>`)
	j1, _, _ = strings.Cut(j1, `<a id="j2"></a>`)
	var listed []string
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(j1, -1) {
		listed = append(listed, m[1])
	}
	names := journal.Names()
	slices.Sort(listed)
	if slices.Sort(names); !slices.Equal(listed, names) {
		t.Errorf("decision J1 lists %v, want %v", listed, names)
	}
	var table strings.Builder
	for _, m := range journal.Meanings {
		fmt.Fprintf(&table, "| `%s` | %s |\n", m.Kind, m.Says)
	}
	if !strings.Contains(api, "\n|---|---|\n"+table.String()+"\n") {
		t.Errorf("docs/operator-api.md does not have this table:\n%s", table.String())
	}
	files, err := filepath.Glob("docs/*.md")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		for _, m := range regexp.MustCompile(`(?:events\?kind=|--kind )([a-z_]+)`).FindAllStringSubmatch(document(t, name), -1) {
			if m[1] != "string" && !slices.Contains(names, m[1]) { // the flag itself
				t.Errorf("%s: %s is no kind", name, m[1])
			}
		}
	}
}

// The reasons for which an approval ends are those of decision J2, in its order.
func TestDocsListTheReasons(t *testing.T) {
	_, j2, _ := strings.Cut(document(t, "docs/decisions.md"), `<a id="j2"></a>`)
	j2, _, _ = strings.Cut(j2, `<a id="j3"></a>`)
	var listed []approval.Reason
	for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(j2, -1) {
		listed = append(listed, approval.Reason(m[1]))
	}
	if !slices.Equal(listed, approval.Reasons) {
		t.Errorf("decision J2 lists %v, want %v", listed, approval.Reasons)
	}
}

// Every kind of token is shown to nobody whole, and named by documents.
func TestEveryKindOfToken(t *testing.T) {
	_, n1, _ := strings.Cut(document(t, "docs/decisions.md"), `<a id="n1"></a>`)
	n1, _, _ = strings.Cut(n1, "\n## ")
	api := document(t, "docs/openapi/operator.json")
	for _, kind := range gktoken.Kinds {
		prefix := "sv" + string(rune(kind)) + "_"
		if text := prefix + strings.Repeat("x", gktoken.Len-len(prefix)); terminal.ShortenSecrets(text) == text {
			t.Errorf("%s is shown whole at a terminal", prefix)
		}
		if !strings.Contains(n1, "`"+prefix+"`") {
			t.Errorf("decision N1 does not say what %s is", prefix)
		}
		if !strings.Contains(api, `"`+kind.Name()+`"`) {
			t.Errorf("docs/openapi/operator.json has no %s", kind.Name())
		}
	}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
