package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path"
	"strings"
)

// What becomes of a mutant. Of the dead, a test has failed or taken too long; what is
// broken does not compile, and does not count.
const alive, dead, broken = 0, 1, 2

// A mutant is one change of one file.
type mutant struct {
	id, first  int // in the room; the first is that of its function
	file       *source
	decl       *ast.FuncDecl // where it is; nil outside functions
	line       int
	key        string // file, function, change and line, as survivors.txt has them
	start, end int    // offsets of what it replaces
	with       string
	state      int
}

// text is what the file says from one offset to another, with the change.
func (m *mutant) text(from, to int) string {
	return m.file.text[from:m.start] + m.with + m.file.text[m.end:to]
}

// A source is one file of a room.
type source struct {
	name, text string // the name is from the root of the module
	tree       *ast.File
	mutants    []*mutant
	decl       *ast.FuncDecl
	keys       map[string]int
}

// read returns all mutants of the room, in the order of their IDs, which count from 1.
func read(room string) (all []*mutant) {
	pkg, err := build.ImportDir(room, 0)
	check(err)
	for _, name := range pkg.GoFiles {
		b, err := os.ReadFile(path.Join(room, name))
		check(err)
		f := &source{name: path.Join(room, name), text: string(b), keys: map[string]int{}}
		f.tree, err = parser.ParseFile(token.NewFileSet(), f.name, b, parser.SkipObjectResolution)
		check(err)
		for _, d := range f.tree.Decls {
			if f.decl, _ = d.(*ast.FuncDecl); f.decl == nil {
				f.walk(d, nil)
			} else if f.decl.Body != nil {
				f.walk(f.decl.Body, f.decl.Type.Results)
			}
		}
		all = append(all, f.mutants...)
	}
	for i, m := range all {
		m.id, m.first = i+1, i+1
		if i > 0 && m.decl == all[i-1].decl {
			m.first = all[i-1].first
		}
	}
	return all
}

func (f *source) offset(p token.Pos) int { return int(p - f.tree.FileStart) }

func (f *source) of(n ast.Node) string { return f.text[f.offset(n.Pos()):f.offset(n.End())] }

func (f *source) line(offset int) int { return 1 + strings.Count(f.text[:offset], "\n") }

// chooser is one more file of a room: which mutant this run has. With -1 there is none,
// and of each function that is reached the first mutant is written down.
const chooser = `package %s

import ("fmt"; "os"; "strconv"; "sync/atomic")

var zzMutant, _ = strconv.Atoi(os.Getenv("MUTANT"))

var zzSeen [1<<16]atomic.Bool

func zzReached(id int) {
	if !zzSeen[id].Swap(true) {
		f, _ := os.OpenFile(os.Getenv("MUTANT_REACHED"), os.O_APPEND|os.O_WRONLY, 0)
		defer f.Close()
		fmt.Fprintln(f, id)
	}
}
`

// with is the file in which each function first asks which of its mutants it is to be.
// The compiler takes each for a file of its own, and names that where it complains.
func (f *source) with(mutants []*mutant) (out string) {
	choices, first := map[*ast.FuncDecl]string{}, map[*ast.FuncDecl]int{}
	for _, m := range mutants {
		if m.file == f {
			call, results, then := "", "", "; return"
			if r := m.decl.Type.Results; r != nil {
				call, results, then = "return ", f.of(r), ""
			}
			body := m.text(f.offset(m.decl.Body.Lbrace), f.offset(m.decl.Body.Rbrace)+1)
			choices[m.decl] += fmt.Sprintf("case %d:\n//line zz%d.go:1\n%sfunc() %s %s()%s\n", m.id, m.id, call, results, body, then)
			first[m.decl] = m.first
		}
	}
	done := 0
	for _, d := range f.tree.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && first[d] > 0 {
			at := f.offset(d.Body.Lbrace) + 1
			out += fmt.Sprintf("%s switch zzMutant {\ncase -1: zzReached(%d)\n%s}\n//line %s:%d\n", f.text[done:at], first[d], choices[d], path.Base(f.name), f.line(at))
			done = at
		}
	}
	return out + f.text[done:]
}

// change adds the mutant in which what stands from start up to end reads otherwise.
func (f *source) change(start, end token.Pos, what, with string) {
	at, function := f.offset(start), "-"
	if f.decl != nil {
		function = f.decl.Name.Name
	}
	line, _, _ := strings.Cut(f.text[strings.LastIndex(f.text[:at], "\n")+1:], "\n")
	key := fmt.Sprintf("%s %s: %s in: %s", f.name, function, what, strings.TrimSpace(line))
	if f.keys[key]++; f.keys[key] > 1 {
		key += fmt.Sprintf(" (%d)", f.keys[key])
	}
	f.mutants = append(f.mutants, &mutant{file: f, decl: f.decl, line: f.line(at), key: key, start: at, end: f.offset(end), with: with})
}

// swaps are what stands for an operator in a mutant: the opposite, the other side of the
// boundary, the other operation.
var swaps = map[token.Token][]string{
	token.EQL: {"!="}, token.NEQ: {"=="}, token.LAND: {"||"}, token.LOR: {"&&"},
	token.LSS: {">=", "<="}, token.LEQ: {">", "<"}, token.GTR: {"<=", ">="}, token.GEQ: {"<", ">"},
	token.ADD: {"-"}, token.SUB: {"+"}, token.MUL: {"/"}, token.QUO: {"*"}, token.REM: {"*"},
}

// walk goes through a function that has these results, or what stands outside of all.
func (f *source) walk(root ast.Node, results *ast.FieldList) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.walk(n.Body, n.Type.Results)
			return false
		case *ast.ArrayType:
			return false
		case *ast.BinaryExpr:
			for _, op := range swaps[n.Op] {
				f.change(n.OpPos, n.OpPos+token.Pos(len(n.Op.String())), n.Op.String()+" to "+op, op)
			}
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				f.change(n.OpPos, n.OpPos+1, "! removed", "")
			}
		case *ast.BasicLit:
			if n.Kind == token.INT {
				f.change(n.Pos(), n.End(), n.Value+" and one", "("+n.Value+"+1)")
			}
		case *ast.IfStmt:
			f.negate(n.Cond)
			if len(n.Body.List) != 1 || !f.impossible(n.Body.List[0]) {
				f.change(n.Cond.Pos(), n.Cond.End(), "never", "("+f.of(n.Cond)+") && false")
			}
		case *ast.ForStmt:
			f.negate(n.Cond)
		case *ast.ReturnStmt:
			f.returns(n, results)
		case *ast.BlockStmt:
			f.without(n.List)
		case *ast.CaseClause:
			f.change(n.Pos(), n.End(), "removed", "")
			f.without(n.Body)
		case *ast.CommClause:
			f.without(n.Body)
		}
		return true
	})
}

// impossible is what stands where no error can be, and where no test can come by.
func (f *source) impossible(s ast.Stmt) bool { return f.of(s) == "panic(err)" }

// negate turns a condition round, unless turning its operator round says the same.
func (f *source) negate(e ast.Expr) {
	binary, _ := e.(*ast.BinaryExpr)
	_, not := e.(*ast.UnaryExpr)
	if e != nil && !not && (binary == nil || binary.Op == token.LAND || binary.Op == token.LOR) {
		f.change(e.Pos(), e.End(), "negated", "!("+f.of(e)+")")
	}
}

// returns gives back no error where there is one, and the other answer to yes or no.
func (f *source) returns(n *ast.ReturnStmt, results *ast.FieldList) {
	if results == nil || len(n.Results) != results.NumFields() {
		return
	}
	switch e := n.Results[len(n.Results)-1]; f.of(results.List[len(results.List)-1].Type) {
	case "error":
		if f.of(e) != "nil" {
			f.change(e.Pos(), e.End(), "error to nil", "nil")
		}
	case "bool":
		f.negate(e)
	}
}

// without leaves out one statement at a time. What declares has to stay, and an if has a
// mutant of its own.
func (f *source) without(list []ast.Stmt) {
	for _, s := range list {
		switch a, _ := s.(*ast.AssignStmt); s.(type) {
		case *ast.AssignStmt, *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
			if (a == nil || a.Tok != token.DEFINE) && !f.impossible(s) {
				f.change(s.Pos(), s.End(), "removed", "{}")
			}
		}
	}
}
