package grantkeeper_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// uses finds where the code of the rooms, without their tests, mentions one of
// the functions, by import path: "file:function" and what is mentioned there.
// Methods, whose receiver an import does not tell, stand under "", and texts of
// SQL are what the expression finds.
func uses(t *testing.T, wanted map[string][]string, sql *regexp.Regexp) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, name := range goFiles(t, os.DirFS(".")) {
		if dir := path.Dir(name); strings.HasSuffix(name, "_test.go") || isTool(dir) || slices.Contains(forTests, dir) {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		imported := map[string]string{} // path by the name in this file
		for _, spec := range f.Imports {
			p, _ := strconv.Unquote(spec.Path.Value)
			as := path.Base(p)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			imported[as] = p
		}
		for _, d := range f.Decls {
			at := name + ":" + declared(d)
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					if what := mentioned(n, imported, wanted); what != "" {
						found[at] = append(found[at], what)
					}
				case *ast.BasicLit:
					if n.Kind == token.STRING && sql != nil {
						found[at] = append(found[at], sql.FindAllString(n.Value, -1)...)
					}
				}
				return true
			})
			if len(found[at]) == 0 {
				delete(found, at)
			}
		}
	}
	return found
}

// mentioned is the function that a selector names, if it is wanted.
func mentioned(n *ast.SelectorExpr, imported map[string]string, wanted map[string][]string) string {
	if x, ok := n.X.(*ast.Ident); ok && imported[x.Name] != "" {
		if slices.Contains(wanted[imported[x.Name]], n.Sel.Name) {
			return x.Name + "." + n.Sel.Name
		}
		return ""
	}
	if slices.Contains(wanted[""], n.Sel.Name) {
		return n.Sel.Name
	}
	return ""
}

// declared names a declaration: a function, with its receiver's type, or the
// first name of another.
func declared(d ast.Decl) string {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return d.Name.Name
		}
		of := d.Recv.List[0].Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if of, ok := of.(*ast.Ident); ok {
			return of.Name + "." + d.Name.Name
		}
		return d.Name.Name
	case *ast.GenDecl:
		switch spec := d.Specs[0].(type) {
		case *ast.ValueSpec:
			return spec.Names[0].Name
		case *ast.TypeSpec:
			return spec.Name.Name
		}
	}
	return "?"
}

// A reviewed list says of places in the code, "file:function" by white space,
// why they may do what is found there.
type reviewed []struct{ why, where string }

// check fails for each place that the list lacks, and for each that it has and
// that is gone; what is said of new ones ends in what to do.
func (list reviewed) check(t *testing.T, found map[string][]string, do string) {
	t.Helper()
	known := map[string]bool{}
	for _, l := range list {
		for where := range strings.FieldsSeq(l.where) {
			if known[where] {
				t.Errorf("%s is listed twice", where)
			}
			if known[where] = true; len(found[where]) == 0 {
				t.Errorf("%s is listed (%s), and does nothing of the kind any more: take it out", where, l.why)
			}
		}
	}
	for _, where := range slices.Sorted(maps.Keys(found)) {
		if !known[where] {
			t.Errorf("%s uses %s and is not listed: %s", where, strings.Join(slices.Compact(slices.Sorted(slices.Values(found[where]))), ", "), do)
		}
	}
}
