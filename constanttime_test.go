package grantkeeper_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"
)

// S-05: the tag of a token, the proof behind a challenge and a form token are
// compared in constant time, and in no other way.
func TestS05ComparedInConstantTime(t *testing.T) {
	constant := map[string]bool{"ConstantTimeCompare": true, "Equal": true} // crypto/subtle, crypto/hmac
	for _, where := range []struct{ file, function, compared string }{
		{"token/token.go", "open", "tag"},
		{"token/page.go", "Masks", "tag"},
		{"approval/approval.go", "proves", "challenge"},
	} {
		f, err := parser.ParseFile(token.NewFileSet(), where.file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		found, plain := false, false
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != where.function {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if s, ok := n.Fun.(*ast.SelectorExpr); ok && constant[s.Sel.Name] && mentions(n, where.compared) {
						found = true
					}
				case *ast.BinaryExpr:
					if (n.Op == token.EQL || n.Op == token.NEQ) && (names(n.X, where.compared) || names(n.Y, where.compared)) {
						plain = true
					}
				}
				return true
			})
		}
		if !found || plain {
			t.Errorf("%s: %s compares %s in constant time: %v; plainly: %v", where.file, where.function, where.compared, found, plain)
		}
	}
}

// mentions reports whether an identifier stands anywhere in the node.
func mentions(n ast.Node, name string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if i, ok := n.(*ast.Ident); ok && i.Name == name {
			found = true
		}
		return true
	})
	return found
}

// names reports whether the expression is the identifier itself.
func names(e ast.Expr, name string) bool {
	i, ok := e.(*ast.Ident)
	return ok && i.Name == name
}
