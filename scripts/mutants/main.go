// Mutants measures how much of what the code says the tests of the rooms hold it to: it changes one
// thing at a time and runs the tests, of which one should fail. Nothing in the tree is written: the
// compiler gets an overlay. What is changed inside functions is compiled together, and chosen by the
// environment. It fails when a room is below its target, and when survivors.txt, the list of those
// that were read and left, has one that is no more or that a test kills.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A suite is tests of a room, all or those whose names match, with a variable of the environment.
type suite struct{ room, run, with string }

// The pure rooms need nothing but themselves; the most important are first. Tests of others start a
// store; further is what runs for those that survive them, the faster first, and of one engine where
// the other does not come by. Of store, on PostgreSQL, each test may be the only one that comes by.
var (
	pure    = strings.Fields("approval token grantset policy org client dpop strictjson sse rules identity facts directory attempt journal/chain activity journal fault terminal probe")
	sqlite  = suite{"store/enginetest", "^TestSQLite$", ""}
	pg      = suite{"store/enginetest", "^TestPostgres$", ""}
	onFiles = suite{"store", "Backup|Copies|Copy|Harmed|Inspect|LongChange|Files|Migrat|MovedFile|NotADatabase|OneServer|PowerLoss|Readers|Replace|Restore", "SQLITEONLY=1"}
	further = map[string][]suite{"store/engine": {sqlite, pg}, "store/sqlite": {onFiles, sqlite}, "store/postgres": {pg, {"store", "", "PGONLY=1"}}}
)

func main() {
	log.SetFlags(0)
	sample := flag.Int("sample", 0, "of each room, this many mutants by chance; 0 for all")
	seed := flag.Uint64("seed", 1, "which of them")
	flag.Parse()
	rooms, failed := flag.Args(), false
	if len(rooms) == 0 {
		rooms = append(pure, "api", "oauth", "store/engine", "store/postgres", "store/sqlite")
	}
	survivors := string(must(os.ReadFile("scripts/mutants/survivors.txt")))
	if line := regexp.MustCompile(`(?m)^\n[^#\n].*`).FindString(survivors); line != "" {
		log.Fatal("survivors.txt: without a reason:", line)
	}
	table := "\n| Room | Mutants | Killed | Listed | Survived | Score |\n|---|--:|--:|--:|--:|--:|\n"
	for _, room := range rooms {
		mutants := read(room)
		for i, n := range rand.New(rand.NewPCG(*seed, 0)).Perm(len(mutants)) {
			if *sample > 0 && i >= *sample {
				mutants[n].fate = "left out"
			}
		}
		for _, tests := range append([]suite{{room: room}}, further[room]...) {
			judge(tests, mutants)
		}
		row, ok := report(room, mutants, regexp.MustCompile(`(?m)^`+path.Clean(room)+`/[^/ ]+ .*`).FindAllString(survivors, -1))
		table, failed = table+row, failed || !ok
	}
	if fmt.Print(table); failed {
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

// A mutant is one change of one file of a room.
type mutant struct {
	id, line, function int    // the function is 0 outside of all
	key                string // file, function, change and line, as survivors.txt has them
	file, text, with   string // of the text, whose lines and positions count from 1, with replaces
	start, end         token.Pos
	fate               string // killed, broken (does not compile), left out of the sample, or listed
}

type reader struct {
	mutant  // what the next ones have in common
	decl    *ast.FuncDecl
	results *ast.FieldList // of that, or of a function inside
	all     *[]*mutant
	keys    map[string]int
}

func read(room string) (mutants []*mutant) {
	keys := map[string]int{}
	for _, name := range must(build.ImportDir(room, 0)).GoFiles {
		file := path.Join(room, name)
		text := must(os.ReadFile(file))
		tree := must(parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution))
		ast.Walk(reader{mutant: mutant{file: file, text: "\n" + string(text)}, all: &mutants, keys: keys}, tree)
	}
	return mutants
}

// swaps are what an operator becomes: the opposite, the other side of the boundary, another one.
var swaps = map[string]string{"==": "!=", "!=": "==", "<": ">= <=", "<=": "> <", ">": "<= >=", ">=": "< >", "&&": "||", "||": "&&", "+": "-", "-": "+", "*": "/", "/": "*", "%": "*"}

// Visit finds what to change. What declares has to stay, an if has a mutant of its own, and where
// panic(err) stands no error can be, and no test can come by.
func (r reader) Visit(n ast.Node) ast.Visitor {
	var list []ast.Stmt
	switch n := n.(type) {
	case *ast.FuncDecl:
		r.decl, r.function, r.results = n, len(*r.all)+1, n.Type.Results
	case *ast.FuncLit:
		r.results = n.Type.Results
	case *ast.ArrayType:
		return nil
	case *ast.BinaryExpr:
		for _, op := range strings.Fields(swaps[n.Op.String()]) {
			r.change(true, &ast.BasicLit{ValuePos: n.OpPos, Value: n.Op.String()}, "§ to "+op, op)
		}
	case *ast.UnaryExpr:
		r.change(n.Op == token.NOT, &ast.BasicLit{ValuePos: n.OpPos, Value: "!"}, "! removed", "")
	case *ast.BasicLit:
		r.change(n.Kind == token.INT, n, "§ and one", "(§+1)")
	case *ast.IfStmt:
		r.change(negatable(n.Cond), n.Cond, "negated", "!(§)")
		r.change(len(n.Body.List) != 1 || r.of(n.Body.List[0]) != "panic(err)", n.Cond, "never", "(§) && false")
	case *ast.ForStmt:
		r.change(negatable(n.Cond), n.Cond, "negated", "!(§)")
	case *ast.ReturnStmt:
		if count := len(n.Results); count > 0 && count == r.results.NumFields() {
			last, kind := n.Results[count-1], r.of(r.results.List[len(r.results.List)-1].Type)
			r.change(kind == "bool" && negatable(last), last, "negated", "!(§)")
			r.change(kind == "error" && r.of(last) != "nil", last, "error to nil", "nil")
		}
	case *ast.BlockStmt:
		list = n.List
	case *ast.CommClause:
		list = n.Body
	case *ast.CaseClause:
		r.change(true, n, "removed", "")
		list = n.Body
	}
	for _, s := range list {
		switch a, _ := s.(*ast.AssignStmt); s.(type) {
		case *ast.AssignStmt, *ast.ExprStmt, *ast.IncDecStmt, *ast.DeferStmt, *ast.GoStmt, *ast.SendStmt, *ast.BranchStmt:
			r.change((a == nil || a.Tok != token.DEFINE) && r.of(s) != "panic(err)", s, "removed", "{}")
		}
	}
	return r
}

// negatable is a condition unless turning its operator round says the same.
func negatable(e ast.Expr) bool {
	binary, ok := e.(*ast.BinaryExpr)
	_, not := e.(*ast.UnaryExpr)
	return e != nil && !not && (!ok || binary.Op == token.LAND || binary.Op == token.LOR)
}

func (r reader) of(n ast.Node) string { return r.text[n.Pos():n.End()] }

// change adds the mutant in which a part reads otherwise; § is what it was. In a function it is a
// case of a switch in front of all else, with a file name by which the compiler complains of it.
func (r reader) change(when bool, part ast.Node, what, with string) {
	if !when {
		return
	}
	with, what = strings.ReplaceAll(with, "§", r.of(part)), strings.ReplaceAll(what, "§", r.of(part))
	m := r.mutant
	m.id, m.line, m.start, m.end = len(*r.all)+1, strings.Count(r.text[:part.Pos()], "\n"), part.Pos(), part.End()
	name, call, then := "-", "return ", ""
	if f := r.decl; f != nil {
		if f.Type.Results == nil {
			call, then = "", "; return"
		}
		with = r.text[f.Type.Params.End():m.start] + with + r.text[m.end:f.End()]
		name, m.start, m.end = f.Name.Name, f.Body.Lbrace+1, f.Body.Lbrace+1
		with = fmt.Sprintf(" switch zz(%d) {\ncase %d:\n//line zz%d.go:1\n%sfunc()%s()%s\n}\n//line %s:1\n", m.function, m.id, m.id, call, with, then, path.Base(m.file))
	}
	m.with, m.key = with, fmt.Sprintf("%s %s: %s in: %s", m.file, name, what, strings.TrimSpace(strings.Split(m.text, "\n")[m.line]))
	if r.keys[m.key]++; r.keys[m.key] > 1 {
		m.key += fmt.Sprintf(" (%d)", r.keys[m.key])
	}
	*r.all = append(*r.all, &m)
}

// chooser is one more file of a room: which mutant a run has. With none, the functions that are
// reached are written into the file that MUTANT names.
const chooser = `
import ("fmt"; "os"; "strconv"; "sync/atomic")
var zzMutant, _ = strconv.Atoi(os.Getenv("MUTANT"))
var zzReached, _ = os.OpenFile(os.Getenv("MUTANT"), os.O_APPEND|os.O_WRONLY, 0)
var zzSeen [1<<16]atomic.Bool
func zz(function int) int {
	if zzReached != nil && !zzSeen[function].Swap(true) {
		fmt.Fprintln(zzReached, function)
	}
	return zzMutant
}
`

// compile builds the tests of a room with these mutants, all in functions or a single one. It marks
// those that do not compile, and reports whether there were any.
func compile(tests, binary string, mutants ...*mutant) (again bool) {
	files, replace := map[string]string{}, map[string]string{}
	for _, m := range slices.Backward(mutants) {
		text := cmp.Or(files[m.file], m.text)
		files[m.file] = text[:m.start] + m.with + text[m.end:]
		files[path.Dir(m.file)+"/zz.go"] = "\npackage " + path.Base(path.Dir(m.file)) + chooser
	}
	seam := regexp.MustCompile(`}\n//line \S+:1\n switch zz\(\d+\) {\n`) // of two switches of a function, which become one
	for name, text := range files {
		replace[name] = fmt.Sprintf("%s-%d.go", binary, len(replace))
		must(0, os.WriteFile(replace[name], []byte(seam.ReplaceAllString(text[1:], "")), 0o600))
	}
	must(0, os.WriteFile(binary+".json", must(json.Marshal(map[string]any{"Replace": replace})), 0o600))
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-gcflags=-e", "-overlay", binary+".json", "-o", binary, "./"+tests).CombinedOutput()
	for _, m := range mutants {
		if err != nil && (m.function == 0 || strings.Contains(string(out), fmt.Sprintf("zz%d.go:", m.id))) {
			m.fate, again = "broken", true
		}
	}
	if err != nil && !again {
		log.Fatalf("%s does not compile:\n%s", tests, out)
	}
	return again
}

// judge runs tests of a room against the mutants that are alive: those in functions that a test
// reaches, and those outside, each compiled alone.
func judge(tests suite, mutants []*mutant) {
	dir := must(os.MkdirTemp("", "mutants-")) + "/"
	defer os.RemoveAll(dir)
	for again := true; again; {
		again = compile(tests.room, dir+"together", slices.DeleteFunc(slices.Clone(mutants), func(m *mutant) bool { return m.fate != "" || m.function == 0 })...)
	}
	must(0, os.WriteFile(dir+"reached", nil, 0o600))
	fate, out, took := run(dir+"together", tests, dir+"reached", time.Hour)
	if fate != "" {
		log.Fatalf("%s fails without a mutant:\n%s", tests.room, out)
	}
	limit := 3*took + 2*time.Second
	log.Printf("tests of %s %s: each mutant for %v of a processor", tests.room, tests.run, limit.Round(time.Second))
	reached := strings.Fields(string(must(os.ReadFile(dir + "reached"))))
	for _, m := range mutants {
		switch mutant := fmt.Sprint(m.id); {
		case m.fate != "":
		case slices.Contains(reached, fmt.Sprint(m.function)):
			m.fate, _, _ = run(dir+"together", tests, mutant, limit)
		case m.function == 0 && !compile(tests.room, dir+"alone", m):
			m.fate, _, _ = run(dir+"alone", tests, mutant, limit)
		}
	}
}

// run runs tests up to the first that fails, and returns the mutant's fate, what was printed and the
// processor's time. The clock is for those that wait for each other: the machine may be busy. Others
// never stop appending. Rapid would write what failed into the tree, and look for something smaller.
func run(binary string, tests suite, mutant string, limit time.Duration) (fate, printed string, took time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*limit+5*time.Minute)
	defer cancel()
	limits := fmt.Sprintf(`ulimit -d %d -t %d && exec "$0" "$@"`, 4<<20, int(limit/time.Second)+1)
	cmd := exec.CommandContext(ctx, "bash", "-c", limits, binary, "-test.failfast", "-test.run="+tests.run)
	cmd.Env = append(os.Environ(), "MUTANT="+mutant, "RAPID_NOFAILFILE=1", "RAPID_SHRINKTIME=1ns", tests.with)
	cmd.Dir, cmd.WaitDelay = tests.room, time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		fate = "killed"
	}
	return fate, string(out), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// report prints what survived in a room, and returns its row and whether it is as it should be.
func report(room string, mutants []*mutant, listed []string) (row string, ok bool) {
	count := map[string]int{}
	for _, m := range mutants {
		if i := slices.Index(listed, m.key); i >= 0 && m.fate != "killed" {
			listed = slices.Delete(listed, i, i+1)
			m.fate = cmp.Or(m.fate, "listed")
		} else if m.fate == "" {
			fmt.Printf("%d: %s\n", m.line, m.key)
		}
		count[m.fate]++
	}
	for _, key := range listed {
		fmt.Println("listed, and killed or no more:", key)
	}
	killed, left, survived := count["killed"], count["listed"], count[""]
	score := 100 * float64(killed) / float64(max(1, survived+killed))
	row = fmt.Sprintf("| `%s` | %d | %d | %d | %d | %.1f %% |\n", room, survived+killed+left, killed, left, survived, score)
	fmt.Print(row)
	return row, len(listed) == 0 && (score >= 95 || score >= 85 && !slices.Contains(pure, room))
}
