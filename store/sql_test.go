package store

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// runs are the functions that take the text of a statement, and which of their
// arguments it is.
var runs = map[string]int{
	"exec": 0, "query": 0, "queryRow": 0, "statement": 0, "each": 0, "facts": 0, "runText": 0, "sessionList": 0, "ApprovalRows": 1, "connectionRows": 1, "oneRequest": 1, "readWalked": 1, "Queue": 0,
	"ExecContext": 1, "QueryContext": 1, "QueryRowContext": 1, "PrepareContext": 1,
	"inTime": 0, "Exec": 0, "Query": 0, "QueryRow": 0, "Prepare": 0,
}

// passOn are functions whose own parameter is the text: those who call them
// are looked at instead.
var passOn = []string{"exec", "query", "queryRow", "statement", "each", "facts", "runText", "sessionList", "approvalRows", "selectApprovals", "connectionRows", "oneRequest", "readWalked", "readNewest", "execIn", "execPairs", "execEach", "inTime", "execOn", "makeSchema", "beginCopy", "makeMarked", "dropTable"}

// S-10: the text of every statement consists of constants of this package and
// of what the query builder makes of such; values travel beside it.
func TestS10StatementsAreParameterized(t *testing.T) {
	statements := 0
	for _, name := range sources(t) {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		n, faults := textFaults(t, name, string(source))
		statements += n
		for _, f := range faults {
			t.Error(f)
		}
	}
	if statements < 60 {
		t.Errorf("%d statements found: this test looks at something else", statements)
	}
}

// textFaults counts the statements of a file, and lists those whose text is
// more than constants, or that write a value into it.
func textFaults(t *testing.T, name, source string) (statements int, faults []string) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	fault := func(n ast.Node, why string) { faults = append(faults, set.Position(n.Pos()).String()+": "+why) }
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if receiver(fn) == "Builder" { // the builder itself; what it is given is looked at
			continue
		}
		passes := slices.Contains(passOn, small(fn.Name.Name))
		local := locals(fn)
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				at, is := runs[called(n)]
				behind := len(n.Args) > 1 && isContext(n.Args[0])
				if behind {
					at = 1
				}
				if _, method := n.Fun.(*ast.SelectorExpr); is && (method || behind) && at < len(n.Args) && !(n.Ellipsis.IsValid() && at == len(n.Args)-1) { // a prepared one takes values alone
					statements++
					if !constant(n.Args[at], local, passes) {
						fault(n, "the text of a statement is not made of constants")
					}
				}
				if why := built(n, local); why != "" && !passes {
					fault(n, why)
				}
			case *ast.AssignStmt:
				for i, l := range n.Lhs {
					if s, ok := l.(*ast.SelectorExpr); ok && slices.Contains(buildsOn, small(s.Sel.Name)) &&
						!constant(n.Rhs[min(i, len(n.Rhs)-1)], local, false) {
						fault(n, "the query builder is given more than constants")
					}
				}
			case *ast.KeyValueExpr:
				if k, ok := n.Key.(*ast.Ident); ok && slices.Contains(buildsOn, small(k.Name)) && !constant(n.Value, local, false) {
					fault(n, "the query builder begins with more than constants")
				}
			}
			return true
		})
	}
	return statements, faults
}

// isContext tells functions that begin with a context, or with the transaction,
// from others of the same name.
func isContext(e ast.Expr) bool {
	if s, ok := e.(*ast.SelectorExpr); ok {
		return small(s.Sel.Name) == "ctx"
	}
	id, ok := e.(*ast.Ident)
	return ok && (id.Name == "ctx" || id.Name == "tx")
}

// receiver names the type that a function is a method of.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if p, ok := of.(*ast.StarExpr); ok {
		of = p.X
	}
	switch g := of.(type) { // of a generic type
	case *ast.IndexExpr:
		of = g.X
	case *ast.IndexListExpr:
		of = g.X
	}
	id, _ := of.(*ast.Ident)
	return id.Name
}

func called(c *ast.CallExpr) string {
	switch f := c.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// small is a name as its own package would have it.
func small(name string) string {
	if rest, ok := strings.CutPrefix(name, "SQL"); ok && rest != "" {
		return "sql" + rest
	}
	return strings.ToLower(name[:1]) + name[1:]
}

// built looks at what is handed to the query builder: names of columns and
// conditions are constants, and a number may stand in a text as %d alone.
func built(c *ast.CallExpr, local map[string][]ast.Expr) string {
	at, is := builds[called(c)]
	if is && at < len(c.Args) && !constant(c.Args[at], local, false) {
		return "a condition or an order is not a constant"
	}
	return ""
}

// builds are the functions that hand a column, a condition or an order to the
// query builder, and which of their arguments it is; buildsOn are the fields
// that they end in.
var (
	builds = map[string]int{
		"Where": 0, "Equals": 0, "EqualsIndexed": 0, "OneOf": 0, "Pairs": 0, "Page": 0, "Nth": 0, "WithText": 0, "Among": 0, "Search": 0, "Named": 1, "EachOf": 0, "readNewest": 1, "ExecIn": 2, "ExecPairs": 2, "ExecEach": 2,
	}
	buildsOn = []string{"text", "conditions", "condition"}
)

// locals gives what each variable of a function is set to, where that can be
// seen.
func locals(fn *ast.FuncDecl) map[string][]ast.Expr {
	out := map[string][]ast.Expr{}
	ast.Inspect(fn, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				if id, ok := l.(*ast.Ident); ok && len(n.Lhs) == len(n.Rhs) {
					out[id.Name] = append(out[id.Name], n.Rhs[i])
				}
			}
		case *ast.RangeStmt:
			if id, ok := n.Value.(*ast.Ident); ok {
				if list, ok := n.X.(*ast.CompositeLit); ok {
					out[id.Name] = append(out[id.Name], list.Elts...)
				}
			}
		}
		return true
	})
	return out
}

// texts are constants of this package, and what embeds one.
var texts = []string{"insertSpent", "selectApproval", "approvalRows", "selectApprovals", "selectClient", "selectEvent", "selectBlock", "insertEvent", "insertOnce", "selectSession", "selectReset", "selectLastUse", "putMeta", "lockPatience",
	"selectVersion", "reads", "saveRows", "saveExpected", "setTimeouts", "savePlain", "saveJournaled", "addClients", "pendingEndRows", "begin", "walkedRows", "insertEvents", "checkpointPages", "forgetRewound", "insertActivity", "putTally", "attemptsNow", "activityColumns", "ofActivity", "tallyColumns", "noteRestored",
	"sqlCodeIssued", "sqlLive", "sqlEnded", "sqlEnabled", "sqlNotConfigured", "sqlDeleted", "sqlFalse", "sqlTrue", "sqlRateLimited", "sqlSignInFailed", "sqlSecondFactors",
	"insertGathered", "connectionRows", "standingRows", "newestFirst", "selectRequest", "selectPolicies", "selectPolicyApps", "selectPolicyNever", "sqlOpen", "sqlDeclined", "journalColumns", "approvalColumns", "countWritten", "databaseSeconds", "selectAttempt", "attemptColumns"}

// constant reports whether a text is made of constants alone. parameter says
// that a name which is set nowhere is the function's own parameter.
func constant(e ast.Expr, local map[string][]ast.Expr, parameter bool) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.STRING
	case *ast.Ident:
		if slices.Contains(texts, small(e.Name)) {
			return true
		}
		values, set := local[e.Name]
		for _, v := range values {
			if !constant(v, local, parameter) {
				return false
			}
		}
		return set || parameter && e.Name == "text"
	case *ast.IndexExpr: // one of several
		return constant(e.X, nil, false)
	case *ast.BinaryExpr:
		return e.Op == token.ADD && constant(e.X, local, parameter) && constant(e.Y, local, parameter)
	case *ast.SelectorExpr: // the builder's own text, and a numbered file's
		return slices.Contains([]string{"text", "Text", "condition", "SQL", "Postgres"}, e.Sel.Name) || slices.Contains(texts, small(e.Sel.Name))
	case *ast.CompositeLit:
		return !slices.ContainsFunc(e.Elts, func(x ast.Expr) bool { return !constant(x, local, parameter) })
	case *ast.CallExpr:
		switch called(e) {
		case "Page", "Whole", "Nth", "Count", "Lock", "Text", "Selecting", "Inserting": // closes a query; built looks at its order; of a table of the schema
			return true
		case "append":
			return !slices.ContainsFunc(e.Args[1:], func(x ast.Expr) bool { return !constant(x, local, parameter) })
		case "Join": // of the builder's conditions
			s, ok := e.Args[0].(*ast.SelectorExpr)
			return ok && small(s.Sel.Name) == "conditions"
		case "Sprintf":
			return onlyNumbers(e)
		}
	}
	return false
}

// onlyNumbers lets a text be formatted with numbers of parameters.
func onlyNumbers(c *ast.CallExpr) bool {
	format, ok := c.Args[0].(*ast.BasicLit)
	if !ok {
		return false
	}
	text, err := strconv.Unquote(format.Value)
	if err != nil {
		return false
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, "$%d", ""), "$%[1]d", "")
	return !strings.Contains(text, "%")
}

// The linter is worth something only if it notices.
func TestValuesInStatementsAreNoticed(t *testing.T) {
	const before = "package store\nfunc (tx *Tx) f(id string, n int) {\n"
	for source, want := range map[string]int{
		"tx.exec(`DELETE FROM a WHERE id = $1`, id)":                                                 0,
		"text := `A`\nif n > 0 {\ntext = `B`\n}\nw.exec(text, id)":                                   0,
		"for _, text := range []string{`A`, `B`} {\nw.exec(text, id)\n}":                             0,
		"q := query.Builder{Text: selectClient}\nq.Where(\"id = \", id)\nw.query(q.Page(\"id\", n))": 0,
		"tx.query(selectApproval+` WHERE id = $1`, id)":                                              0,
		"q := query.Builder{}\nq.Conditions = append(q.Conditions, fmt.Sprintf(`a = $%d`, n))":       0,
		"tx.exec(`DELETE FROM a WHERE id = '` + id + `'`)":                                           1,
		"tx.exec(fmt.Sprintf(`DELETE FROM a WHERE id = '%s'`, id))":                                  1,
		"tx.exec(fmt.Sprintf(`DELETE FROM a WHERE n = %d`, n))":                                      1,
		"text := `A ` + id\nw.exec(text)":                                                            1,
		"text := `A`\ntext = id\nw.exec(text)":                                                       1,
		"tx.exec(insertEvents[n], id)":                                                               0,
		"tx.exec(id)":                                                                                1,
		"tx.exec(of[n])":                                                                             1,
		"s.db.Reader.QueryRowContext(ctx, `SELECT ` + id, n)":                                        1,
		"q := query.Builder{Text: id}\n_ = q":                                                        1,
		"q.Where(id, n)":                                                                             1,
		"q.Equals(id + ` = `, `x`)":                                                                  1,
		"q.Text += id":                                                                               1,
		"q.Conditions = append(q.Conditions, id)":                                                    1,
		"q.Conditions[0] += `)`\nq.Conditions = append(q.Conditions, `a = '` + id)":                  1,
		"tx.query(q.Page(id, n))":                                                                    1,
		"tx.query(q.Nth(id, n))":                                                                     1,
		"q.Pairs(id, nil)":                                                                           1,
		"query.ExecIn(tx, q, id, nil)":                                                               1,
		"_ = way{condition: id}":                                                                     1,
	} {
		if _, faults := textFaults(t, "planted.go", before+source+"\n}\n"); len(faults) != want {
			t.Errorf("%s: %d faults, want %d: %v", source, len(faults), want, faults)
		}
	}
}
