package grantkeeper_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

// These tests keep the building as docs/architecture.md draws it, and the
// citations in the sources pointing at something.

const module = "github.com/grantkeeper/grantkeeper"

// A room is a folder with Go files, and what it may import of this module.
type room struct {
	pure bool     // the standard library alone, and neither clock nor I/O
	may  []string // rooms

	libraries []string // and of all others none; nil is any
	tests     []string // rooms that its tests may import too
}

var (
	pureRooms = []string{
		"activity",
		"approval",
		"attempt",
		"client",
		"directory",
		"dpop",
		"facts",
		"fault",
		"grantset",
		"identity",
		"journal",
		"journal/chain",
		"org",
		"policy",
		"rules",
		"sse",
		"strictjson",
		"token",
	}
	below = append([]string{"store", "limit", "provider", "client/document"}, pureRooms...) // below the doors
	pages = append([]string{"page"}, below...)                                              // below the doors for people
	doors = []string{"oauth", "signin", "consent", "orgadmin", "api", "mcp", "gateway", "operator", "operator/console"}
)

// rooms lists every folder that may hold Go files. One that is not here fails
// the test: it is added here and in docs/architecture.md in the same commit.
var rooms = map[string]room{
	"org":              {pure: true},
	"grantset":         {pure: true, may: []string{"org"}},
	"approval":         {pure: true, may: []string{"grantset", "org"}},
	"token":            {pure: true},
	"dpop":             {pure: true, may: []string{"strictjson"}},
	"strictjson":       {pure: true},
	"sse":              {pure: true},
	"client":           {pure: true, may: []string{"strictjson"}},
	"identity":         {pure: true, may: []string{"strictjson"}},
	"rules":            {pure: true, may: []string{"grantset", "org", "strictjson"}},
	"policy":           {pure: true, may: []string{"client", "grantset", "org", "strictjson"}},
	"facts":            {pure: true, may: []string{"approval", "client", "grantset", "org", "policy"}},
	"directory":        {pure: true, may: []string{"facts", "org", "policy"}, tests: []string{"grantset"}},
	"journal":          {pure: true},
	"journal/chain":    {pure: true, may: []string{"strictjson"}},
	"activity":         {pure: true, may: []string{"approval", "identity", "org"}},
	"fault":            {pure: true},
	"durable":          {libraries: []string{"golang.org/x/sys"}},
	"attempt":          {pure: true, may: []string{"org"}},
	"limit":            {may: pureRooms},
	"provider":         {may: pureRooms},
	"outbound":         {libraries: []string{}},
	"client/document":  {may: append([]string{"outbound"}, pureRooms...), libraries: []string{}},
	"store":            {may: append([]string{"store/accounts", "store/approvals", "store/engine", "store/oversight", "store/postgres", "store/query", "store/records", "store/schema", "store/sqlite"}, pureRooms...), libraries: []string{}},
	"store/accounts":   {may: append([]string{"store/engine", "store/query"}, pureRooms...), libraries: []string{}},
	"store/approvals":  {may: append([]string{"store/engine", "store/query"}, pureRooms...), libraries: []string{}},
	"store/oversight":  {may: append([]string{"store/approvals", "store/engine", "store/query"}, pureRooms...), libraries: []string{}},
	"store/records":    {may: append([]string{"store/approvals", "store/engine", "store/query"}, pureRooms...), libraries: []string{}, tests: []string{"store", "store/pgtest"}},
	"store/query":      {may: append([]string{"store/engine"}, pureRooms...), libraries: []string{}},
	"store/schema":     {may: []string{"org", "token"}, libraries: []string{}},
	"store/engine":     {may: append([]string{"store/schema"}, pureRooms...), libraries: []string{}},
	"store/sqlite":     {may: append([]string{"durable", "store/engine", "store/schema"}, pureRooms...), libraries: []string{"github.com/ncruces/go-sqlite3"}},
	"store/postgres":   {may: append([]string{"store/engine", "store/schema"}, pureRooms...), libraries: []string{"github.com/jackc/pgx/v5"}},
	"store/pgtest":     {},
	"store/enginetest": {may: append([]string{"store"}, pureRooms...)},
	"store/simulate":   {may: []string{"approval"}, libraries: []string{"github.com/anishathalye/porcupine"}, tests: append([]string{"store", "store/engine", "store/postgres", "store/sqlite"}, pureRooms...)},
	"consent/chromium": {},
	"oauth":            {may: below},
	"page":             {may: below},
	"api/apitest":      {may: below},
	"page/pagetest":    {may: append([]string{"store/pgtest"}, pages...)},
	"signin":           {may: pages, tests: []string{"consent", "orgadmin"}},
	"consent":          {may: append([]string{"signin"}, pages...), tests: []string{"orgadmin"}},
	"orgadmin":         {may: append([]string{"signin"}, pages...), tests: []string{"consent"}},
	"api":              {may: below},
	"mcp":              {may: append([]string{"api"}, below...)},
	"gateway":          {may: append([]string{"api"}, below...)},
	"operator":         {may: append([]string{"metrics"}, below...)},
	"operator/console": {may: append([]string{"operator", "metrics"}, pages...)},
	"metrics":          {may: []string{"approval", "journal"}},

	// For services: whoever uses it links nothing else of the server.
	"identity/httpidentity": {may: []string{"identity"}},
	// A stranger's service has no more. Its tests put the real server before it.
	"sample": {
		may: []string{"identity"}, libraries: []string{"github.com/modelcontextprotocol/go-sdk", "github.com/google/jsonschema-go"},
		tests: append([]string{"api", "gateway"}, below...),
	},
	"config":                  {may: append([]string{"consent", "durable", "gateway", "mcp", "operator", "orgadmin", "page", "signin"}, below...)},
	"config/configtest":       {may: []string{"fault"}},
	"server":                  {may: append(append(slices.Clone(doors), "page", "metrics", "config", "terminal"), below...)},
	"server/servertest":       {may: []string{"config", "config/configtest", "store/pgtest"}},
	"connect":                 {may: []string{"client", "durable", "fault", "sse", "strictjson", "terminal"}, libraries: []string{"golang.org/x/sys", "golang.org/x/term"}},
	"terminal":                {pure: true},
	"probe":                   {pure: true, may: []string{"client", "strictjson", "terminal"}},
	"probe/fetch":             {may: []string{"outbound", "probe"}, libraries: []string{}},
	"doctor":                  {may: append([]string{"gateway", "mcp", "operator", "config", "server", "terminal"}, below...), tests: []string{"signin"}},
	"database":                {may: append([]string{"config", "server", "terminal"}, below...), libraries: []string{}},
	"remote":                  {may: append([]string{"durable", "operator", "config", "server", "doctor", "terminal"}, below...)},
	"setup":                   {may: []string{"config", "durable", "fault", "rules", "terminal"}},
	"devserver":               {may: append([]string{"durable", "gateway", "operator", "page", "signin", "sample", "config", "connect", "setup", "server", "remote", "terminal"}, below...)},
	"demo":                    {may: append([]string{"mcp", "config", "doctor", "remote", "terminal"}, below...)},
	"drill":                   {may: []string{"client", "config", "demo", "fault", "policy", "remote", "terminal"}},
	"cmd/grantkeeper":         {may: append([]string{"mcp", "operator", "config", "connect", "setup", "server", "database", "devserver", "demo", "drill", "doctor", "probe", "probe/fetch", "remote", "terminal"}, below...)},
	"cmd/grantkeeper-connect": {may: []string{"connect", "fault"}, libraries: []string{}},
}

// tools are folders, at any depth, that may import every room and that no room
// may import. The root holds these tests; bench is a module of its own.
var tools = []string{".", "bench", "docs", "e2e", "scripts"}

// forTests are rooms that tests of every room may import, and nothing else may
// but the tools.
var forTests = []string{"store/pgtest", "store/enginetest", "store/simulate", "api/apitest", "page/pagetest", "consent/chromium", "config/configtest", "server/servertest", "docs/openapi"}

// notPure are the packages (and all below them) that a pure room may not
// import: each of them reads or writes something, or stands for a request.
var notPure = []string{"net/http", "database/sql", "os", "log", "context"}

// clock are the functions of package time that read it.
var clock = []string{"Now", "Since", "Until"}

// emptyNames say nothing about what is in a package.
var emptyNames = []string{"util", "common", "model", "service", "handler", "core", "types", "pkg", "internal"}

func TestLayout(t *testing.T) {
	tree := os.DirFS(".")
	files := goFiles(t, tree)
	if !slices.Contains(files, "layout_test.go") {
		t.Fatalf("read %d Go files and not this one: the wrong folder", len(files))
	}
	for _, fault := range layoutFaults(t, tree) {
		t.Error(fault)
	}
}

// goFiles returns the paths of all Go files that the toolchain would look at.
func goFiles(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var files []string
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		hidden := name != "." && (strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_"))
		if d.IsDir() && (hidden || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if !d.IsDir() && !hidden && path.Ext(name) == ".go" {
			files = append(files, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// layoutFaults returns what is wrong in the tree, each fault as "file: why".
func layoutFaults(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var faults []string
	for _, name := range goFiles(t, tree) {
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		for _, why := range fileFaults(name, f) {
			faults = append(faults, name+": "+why)
		}
	}
	return faults
}

func fileFaults(name string, f *ast.File) []string {
	var faults []string
	dir := path.Dir(name)
	for _, element := range append(strings.Split(dir, "/"), strings.TrimSuffix(f.Name.Name, "_test")) {
		if slices.Contains(emptyNames, element) {
			faults = append(faults, fmt.Sprintf("a package called %s", element))
		}
	}
	here, listed := rooms[dir]
	if !listed && !isTool(dir) {
		faults = append(faults, fmt.Sprintf("folder %s is not in the layout", dir))
	}
	test := strings.HasSuffix(name, "_test.go")
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		if why := importFault(dir, here, p, test); why != "" {
			faults = append(faults, why)
		}
	}
	if here.pure && !test {
		faults = append(faults, clockFaults(f)...)
	}
	return faults
}

// importFault says why a file of room here, in folder dir, may not import the
// package p; "" if it may. Tests keep to the arrows as well, but may read files
// and use libraries for testing.
func importFault(dir string, here room, p string, test bool) string {
	if p == "C" {
		return "imports C"
	}
	if to, ours := strings.CutPrefix(p, module+"/"); ours {
		switch {
		case isTool(dir), to == dir, slices.Contains(here.may, to), test && (slices.Contains(forTests, to) || slices.Contains(here.tests, to)):
			return ""
		}
		return fmt.Sprintf("%s may not import %s", dir, to)
	}
	if p == module {
		return fmt.Sprintf("%s may not import the root", dir)
	}
	first, _, _ := strings.Cut(p, "/")
	library := strings.Contains(first, ".")
	if library && !test && here.libraries != nil && !slices.ContainsFunc(here.libraries, func(l string) bool { return strings.HasPrefix(p+"/", l+"/") }) {
		return fmt.Sprintf("%s may not import %s", dir, p)
	}
	if !here.pure || test {
		return ""
	}
	if library {
		return fmt.Sprintf("%s is pure and imports %s from outside the standard library", dir, p)
	}
	for _, no := range notPure {
		if p == no || strings.HasPrefix(p, no+"/") {
			return fmt.Sprintf("%s is pure and imports %s", dir, p)
		}
	}
	return ""
}

func isTool(dir string) bool {
	first, _, _ := strings.Cut(dir, "/")
	return slices.Contains(tools, first)
}

// clockFaults finds every mention of a function that reads the clock, called
// or passed on, under whatever name the file imports package time.
func clockFaults(f *ast.File) []string {
	var faults []string
	names := map[string]bool{} // of package time in this file
	for _, spec := range f.Imports {
		if spec.Path.Value != `"time"` && spec.Path.Value != "`time`" {
			continue
		}
		switch {
		case spec.Name == nil:
			names["time"] = true
		case spec.Name.Name == ".":
			faults = append(faults, "imports time with a dot, which hides readings of the clock")
		default:
			names[spec.Name.Name] = true
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] && slices.Contains(clock, sel.Sel.Name) {
			faults = append(faults, "a pure room reads the clock: time."+sel.Sel.Name)
		}
		return true
	})
	return faults
}

// The checker is worth something only if it notices: each source here is
// planted alone in a tree.
func TestLayoutFaultsAreNoticed(t *testing.T) {
	imports := func(pkg string, paths ...string) string {
		s := "package " + pkg + "\n"
		for _, p := range paths {
			s += "import _ " + strconv.Quote(p) + "\n"
		}
		return s
	}
	ours := func(rooms ...string) []string {
		for i := range rooms {
			rooms[i] = module + "/" + rooms[i]
		}
		return rooms
	}
	tests := []struct {
		name, file, source string
		want               string // a part of the only fault; "" for none
	}{
		// What stands as drawn.
		{"approval on grant set and org", "approval/a.go", imports("approval", ours("grantset", "org")...), ""},
		{"grant set on org", "grantset/a.go", imports("grantset", ours("org")...), ""},
		{"rules on grant set and org", "rules/a.go", imports("rules", ours("grantset", "org", "strictjson")...), ""},
		{"store on pure rooms", "store/a.go", imports("store", ours("approval", "client", "token")...), ""},
		{"limit on pure rooms", "limit/a.go", imports("limit", ours("org")...), ""},
		{"a door on store, limit and pure rooms", "oauth/a.go", imports("oauth", ours("store", "limit", "token")...), ""},
		{"the MCP proxy behind api", "mcp/a.go", imports("mcp", ours("api", "identity")...), ""},
		{"consent on who signed in", "consent/a.go", imports("consent", ours("signin", "page")...), ""},
		{"a test of signing in on what it is for", "signin/a_test.go", imports("signin_test", ours("consent", "page/pagetest")...), ""},
		{"gateway behind api", "gateway/a.go", imports("gateway", ours("api", "identity")...), ""},
		{"the sample on what a stranger has", "sample/a.go", imports("sample", append(ours("identity"), "net/http", "github.com/modelcontextprotocol/go-sdk/mcp")...), ""},
		{"a test of the sample on the server", "sample/a_test.go", imports("sample_test", append(ours("gateway", "store"), "pgregory.net/rapid")...), ""},
		{"a test of the store on what is for it", "store/a_test.go", imports("store", ours("store/pgtest")...), ""},
		{"the middleware on what it wraps", "identity/httpidentity/a.go", imports("httpidentity", append(ours("identity"), "net/http")...), ""},
		{"an example in the documents", "docs/examples/notes/main.go", imports("main", ours("identity")...), ""},
		{"the server on everything", "server/doors.go", imports("server", ours("oauth", "mcp", "store", "org")...), ""},
		{"end-to-end tests on everything", "e2e/browser/a_test.go", imports("browser_test", ours("consent", "oauth")...), ""},
		{"a test of its own room", "client/a_test.go", imports("client_test", ours("client")...), ""},
		{"a test of a pure room reads files", "client/a_test.go", imports("client", "os", "pgregory.net/rapid"), ""},
		{"a test of a pure room reads the clock", "token/a_test.go", "package token\nimport \"time\"\nvar t = time.Now()\n", ""},
		{"net/url is pure", "client/a.go", imports("client", "net/url", "net/netip"), ""},
		{"time as an argument", "approval/a.go", "package approval\nimport \"time\"\nfunc f(now time.Time) time.Time { return now.Add(time.Second) }\n", ""},
		{"Now of something else", "approval/a.go", "package approval\nvar a struct{ Now func() }\nfunc f() { a.Now() }\n", ""},
		{"I/O may read the clock", "store/a.go", "package store\nimport \"time\"\nvar t = time.Now()\n", ""},
		{"I/O may do I/O, by libraries too", "store/sqlite/a.go", imports("sqlite", "os", "context", "database/sql", "github.com/ncruces/go-sqlite3/driver"), ""},
		{"an engine on the seam", "store/postgres/a.go", imports("postgres", ours("store/engine", "store/schema", "approval")...), ""},
		{"testdata is not ours to judge", "client/testdata/util/a.go", imports("util"), ""},

		// Arrows upward or sideways.
		{"org on grant set", "org/a.go", imports("org", ours("grantset")...), "org may not import grantset"},
		{"grant set on approval", "grantset/a.go", imports("grantset", ours("approval")...), "grantset may not import approval"},
		{"token on approval", "token/a.go", imports("token", ours("approval")...), "token may not import approval"},
		{"approval on token", "approval/a.go", imports("approval", ours("token")...), "approval may not import token"},
		{"rules on approval", "rules/a.go", imports("rules", ours("approval")...), "rules may not import approval"},
		{"grant set on rules", "grantset/a.go", imports("grantset", ours("rules")...), "grantset may not import rules"},
		{"client on org", "client/a.go", imports("client", ours("org")...), "client may not import org"},
		{"a pure room on the store", "approval/a.go", imports("approval", ours("store")...), "approval may not import store"},
		{"the store on what is for its tests", "store/a.go", imports("store", ours("store/pgtest")...), "store may not import store/pgtest"},
		{"its test on the store", "approval/a_test.go", imports("approval_test", ours("store")...), "approval may not import store"},
		{"the store on a driver", "store/a.go", imports("store", "github.com/jackc/pgx/v5"), "store may not import github.com/jackc/pgx/v5"},
		{"the seam on a driver", "store/engine/a.go", imports("engine", "github.com/ncruces/go-sqlite3"), "store/engine may not import github.com/ncruces/go-sqlite3"},
		{"an engine on the other's driver", "store/sqlite/a.go", imports("sqlite", "github.com/jackc/pgx/v5"), "store/sqlite may not import github.com/jackc/pgx/v5"},
		{"an engine on the store", "store/postgres/a.go", imports("postgres", ours("store")...), "store/postgres may not import store"},
		{"an engine on the other", "store/sqlite/a.go", imports("sqlite", ours("store/postgres")...), "store/sqlite may not import store/postgres"},
		{"the seam on an engine", "store/engine/a.go", imports("engine", ours("store/sqlite")...), "store/engine may not import store/sqlite"},
		{"a door on the seam", "oauth/a.go", imports("oauth", ours("store/engine")...), "oauth may not import store/engine"},
		{"store on limit", "store/a.go", imports("store", ours("limit")...), "store may not import limit"},
		{"limit on store", "limit/a.go", imports("limit", ours("store")...), "limit may not import store"},
		{"store on a door", "store/a.go", imports("store", ours("oauth")...), "store may not import oauth"},
		{"oauth on consent", "oauth/a.go", imports("oauth", ours("consent")...), "oauth may not import consent"},
		{"a door's test on another door", "consent/a_test.go", imports("consent_test", ours("oauth")...), "consent may not import oauth"},
		{"consent on the door of admins", "consent/a.go", imports("consent", ours("orgadmin")...), "consent may not import orgadmin"},
		{"the door of admins on consent", "orgadmin/a.go", imports("orgadmin", ours("consent")...), "orgadmin may not import consent"},
		{"signing in on consent", "signin/a.go", imports("signin", ours("consent")...), "signin may not import consent"},
		{"pages on signing in", "page/a.go", imports("page", ours("signin")...), "page may not import signin"},
		{"oauth on pages", "oauth/a.go", imports("oauth", ours("page")...), "oauth may not import page"},
		{"api on the MCP proxy", "api/a.go", imports("api", ours("mcp")...), "api may not import mcp"},
		{"api on gateway", "api/a.go", imports("api", ours("gateway")...), "api may not import gateway"},
		{"the MCP proxy on gateway", "mcp/a.go", imports("mcp", ours("gateway")...), "mcp may not import gateway"},
		{"gateway on the MCP proxy", "gateway/a.go", imports("gateway", ours("mcp")...), "gateway may not import mcp"},
		{"identity on its middleware", "identity/a.go", imports("identity", ours("identity/httpidentity")...), "identity may not import identity/httpidentity"},
		{"the middleware on the server", "identity/httpidentity/a.go", imports("httpidentity", ours("api")...), "identity/httpidentity may not import api"},
		{"the sample on org", "sample/a.go", imports("sample", ours("org")...), "sample may not import org"},
		{"the sample on strictjson", "sample/a.go", imports("sample", ours("strictjson")...), "sample may not import strictjson"},
		{"the sample on another library", "sample/a.go", imports("sample", "golang.org/x/text/width"), "sample may not import golang.org/x/text/width"},
		{"the sample on a library of like name", "sample/a.go", imports("sample", "github.com/google/jsonschema-go2/x"), "may not import"},
		{"a door on the sample", "api/a.go", imports("api", ours("sample")...), "api may not import sample"},
		{"identity on org", "identity/a.go", imports("identity", ours("org")...), "identity may not import org"},
		{"the MCP proxy on oauth", "mcp/a.go", imports("mcp", ours("oauth")...), "mcp may not import oauth"},
		{"operator on its console", "operator/a.go", imports("operator", ours("operator/console")...), "operator may not import operator/console"},
		{"operator on api", "operator/a.go", imports("operator", ours("api")...), "operator may not import api"},
		{"a door on the command", "api/a.go", imports("api", ours("cmd/grantkeeper")...), "api may not import cmd/grantkeeper"},
		{"a door on the server", "oauth/a.go", imports("oauth", ours("server")...), "oauth may not import server"},
		{"the settings on the server", "config/a.go", imports("config", ours("server")...), "config may not import server"},
		{"the server on the command", "server/a.go", imports("server", ours("cmd/grantkeeper")...), "server may not import cmd/grantkeeper"},
		{"the server on the sample", "server/a.go", imports("server", ours("sample")...), "server may not import sample"},
		{"the command on a door that it only starts", "cmd/grantkeeper/a.go", imports("main", ours("oauth")...), "cmd/grantkeeper may not import oauth"},
		{"a door on the settings", "gateway/a.go", imports("gateway", ours("config")...), "gateway may not import config"},
		{"the command on tests", "cmd/grantkeeper/a.go", imports("main", ours("e2e")...), "cmd/grantkeeper may not import e2e"},
		{"a door on a room's folder", "oauth/a.go", imports("oauth", ours("store/rows")...), "oauth may not import store/rows"},
		{"a door on the root", "oauth/a.go", imports("oauth", module), "may not import the root"},
		{"an import under another name", "oauth/a.go", "package oauth\nimport c \"" + module + "/consent\"\nvar _ c.Page\n", "oauth may not import consent"},
		{"behind a build constraint", "oauth/a_windows.go", "//go:build windows\n\n" + imports("oauth", ours("consent")...), "oauth may not import consent"},

		// Pure rooms that are not.
		{"net/http", "token/a.go", imports("token", "net/http"), "token is pure and imports net/http"},
		{"net/http/httptest", "token/a.go", imports("token", "net/http/httptest"), "imports net/http/httptest"},
		{"database/sql", "client/a.go", imports("client", "database/sql"), "imports database/sql"},
		{"os", "org/a.go", imports("org", "os"), "imports os"},
		{"os/exec", "org/a.go", imports("org", "os/exec"), "imports os/exec"},
		{"log", "approval/a.go", imports("approval", "log"), "imports log"},
		{"log/slog", "approval/a.go", imports("approval", "log/slog"), "imports log/slog"},
		{"context", "grantset/a.go", imports("grantset", "context"), "imports context"},
		{"a library", "client/a.go", imports("client", "golang.org/x/text/width"), "from outside the standard library"},
		{"C", "store/a.go", imports("store", "C"), "imports C"},
		{"the clock", "approval/a.go", "package approval\nimport \"time\"\nfunc f() time.Time { return time.Now() }\n", "reads the clock: time.Now"},
		{"the clock, passed on", "approval/a.go", "package approval\nimport \"time\"\nvar now = time.Now\n", "reads the clock: time.Now"},
		{"the clock, renamed", "approval/a.go", "package approval\nimport clock \"time\"\nvar t = clock.Now()\n", "reads the clock: time.Now"},
		{"the clock, with a dot", "approval/a.go", "package approval\nimport . \"time\"\nvar t = Now()\n", "imports time with a dot"},
		{"the clock, as a difference", "token/a.go", "package token\nimport \"time\"\nfunc f(t time.Time) time.Duration { return time.Since(t) }\n", "reads the clock: time.Since"},

		// Folders and names.
		{"a new folder", "mailer/a.go", imports("mailer"), "folder mailer is not in the layout"},
		{"a folder in a room", "store/rows/a.go", imports("rows"), "folder store/rows is not in the layout"},
		{"a second command", "cmd/other/main.go", imports("main"), "folder cmd/other is not in the layout"},
		{"an empty name", "store/a.go", imports("util"), "a package called util"},
		{"an empty name, of a test", "store/a_test.go", imports("common_test"), "a package called common"},
		{"an empty folder name", "e2e/internal/a.go", imports("x"), "a package called internal"},
		{"not Go", "store/a.go", "package store\nfunc {", "expected"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := layoutFaults(t, fstest.MapFS{tt.file: {Data: []byte(tt.source)}})
			switch {
			case tt.want == "" && len(got) > 0:
				t.Errorf("faults %q, want none", got)
			case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
				t.Errorf("faults %q, want one with %q", got, tt.want)
			}
		})
	}
	for _, name := range emptyNames {
		got := layoutFaults(t, fstest.MapFS{"store/a.go": {Data: []byte("package " + name)}})
		if len(got) != 1 {
			t.Errorf("package %s: faults %q, want one", name, got)
		}
	}
}

// A citation names a section of docs/protocol.md ("spec 4.4", "spec section 8")
// or a decision of docs/decisions.md ("decision T9", "decisions T9 and A2").
var (
	sectionCited  = regexp.MustCompile(`\b[Ss]pec\s+(?:sections?\s+)?(\d{1,2}(?:\.\d{1,2})*(?:(?:,\s*|\s+and\s+|\s+or\s+)\d{1,2}\.\d{1,2})*)\b`)
	decisionCited = regexp.MustCompile(`\b[Dd]ecisions?\s+([A-Z]\d{1,3}(?:(?:,\s*and\s+|,\s*|\s+and\s+|\s+or\s+|/|-)[A-Z]\d{1,3})*)\b`)
	number        = regexp.MustCompile(`[A-Z]?\d+(?:\.\d+)*`)

	// A comment or a quotation may break a citation in two.
	lineBreak = regexp.MustCompile(`\s*\n[\t >]*(?://|#|--|\*)?[\t ]*`)

	sectionHeading = regexp.MustCompile(`^##+ (\d+(?:\.\d+)*)\.? `)
	listItem       = regexp.MustCompile(`^(\d+)\. `)
	decisionAnchor = regexp.MustCompile(`<a id="([a-z])(\d+)"></a>\*\*([A-Z]\d+)\*\*`)
)

// cited returns the sections and decisions that a source cites.
func cited(source string) (sections, decisions []string) {
	flat := lineBreak.ReplaceAllString(source, " ")
	for _, m := range sectionCited.FindAllStringSubmatch(flat, -1) {
		sections = append(sections, number.FindAllString(m[1], -1)...)
	}
	for _, m := range decisionCited.FindAllStringSubmatch(flat, -1) {
		decisions = append(decisions, number.FindAllString(m[1], -1)...)
	}
	return sections, decisions
}

// sectionsOf returns the numbers of a document's headings, and of the items of
// the numbered list in a section: item 7 of section 5 is cited as spec 5.7.
func sectionsOf(doc string) map[string]bool {
	found := map[string]bool{}
	section := ""
	for line := range strings.Lines(doc) {
		if m := sectionHeading.FindStringSubmatch(line); m != nil {
			section = m[1]
			found[section] = true
		} else if strings.HasPrefix(line, "#") {
			section = ""
		} else if m := listItem.FindStringSubmatch(line); m != nil {
			found[section+"."+m[1]] = true
		}
	}
	return found
}

// decisionsOf returns the numbers of the decisions that have an anchor.
func decisionsOf(doc string) map[string]bool {
	found := map[string]bool{}
	for _, m := range decisionAnchor.FindAllStringSubmatch(doc, -1) {
		found[m[3]] = true
	}
	return found
}

func TestCitationsNameWhatExists(t *testing.T) {
	sections := sectionsOf(read(t, "docs/protocol.md"))
	decisions := decisionsOf(read(t, "docs/decisions.md"))
	for _, name := range goFiles(t, os.DirFS(".")) {
		if name == "layout_test.go" {
			continue // cites what does not exist, on purpose
		}
		for _, why := range deadCitations(read(t, name), sections, decisions) {
			t.Errorf("%s %s", name, why)
		}
	}
}

// Every decision is cited where it is tested.
func TestEveryDecisionIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, name := range goFiles(t, os.DirFS(".")) {
		if name != "layout_test.go" && (strings.HasSuffix(name, "_test.go") || path.Dir(name) == "store/enginetest") {
			_, decisions := cited(read(t, name))
			for _, d := range decisions {
				tested[d] = true
			}
		}
	}
	for _, d := range slices.Sorted(maps.Keys(decisionsOf(read(t, "docs/decisions.md")))) {
		if !tested[d] {
			t.Errorf("no test cites decision %s", d)
		}
	}
}

// deadCitations says what the source cites that is in neither document.
func deadCitations(source string, sections, decisions map[string]bool) []string {
	var dead []string
	citedSections, citedDecisions := cited(source)
	for _, s := range citedSections {
		if !sections[s] {
			dead = append(dead, "cites spec "+s+", which is not in docs/protocol.md")
		}
	}
	for _, d := range citedDecisions {
		if !decisions[d] {
			dead = append(dead, "cites decision "+d+", which is not in docs/decisions.md")
		}
	}
	return dead
}

func TestDeadCitationsAreNoticed(t *testing.T) {
	sections := sectionsOf("# 7. Title\n## 4. Endpoints\n### 4.4 POST /oauth/revoke\n1. One.\n   2. Inner.\ntext 9.9\n## Words\n3. Not ours.\n")
	decisions := decisionsOf("<a id=\"t9\"></a>**T9** Revocation. T10 is mentioned.\n")
	for source, want := range map[string]int{
		"// spec 4.4, spec section 4, decision T9": 0,
		"// spec 4.5":                                   1,
		"// spec 4.4.1, an item":                        0,
		"// spec 4.4.2, a list inside an item":          1,
		"// spec 4.4.3, below a heading without number": 1,
		"// spec 9.9, which is no heading":              1,
		"// spec 7, which is the title":                 1,
		"// decision T10, which has no anchor":          1,
		"// decisions T9 and T11 and spec 4.4 and 6.1":  2,
	} {
		if got := deadCitations(source, sections, decisions); len(got) != want {
			t.Errorf("%q: dead %q, want %d", source, got, want)
		}
	}
}

func TestCitationsAreNoticed(t *testing.T) {
	tests := []struct {
		source    string
		sections  []string
		decisions []string
	}{
		{"// RFC 7009 section 2.2, spec 4.4, decision T9", []string{"4.4"}, []string{"T9"}},
		{"// spec section 8; RFC 6749 section 4.1.2", []string{"8"}, nil},
		{"// Spec 2.1 and 4.2. Decision R2.", []string{"2.1", "4.2"}, []string{"R2"}},
		{"// spec 4.4.1", []string{"4.4.1"}, nil},
		{"// spec sections 4.1, 4.3", []string{"4.1", "4.3"}, nil},
		{"// decisions T4, T5 and T6", nil, []string{"T4", "T5", "T6"}},
		{"// decisions T4 or P1/P2", nil, []string{"T4", "P1", "P2"}},
		{"// as written in decision\n\t// T11: keys", nil, []string{"T11"}},
		{"// as written in spec\n\t\t// section 5 item 7", []string{"5"}, nil},
		{"-- decision\n-- P12", nil, []string{"P12"}},
		{`t.Run("decision A12", f)`, nil, []string{"A12"}},
		{"// RFC 7009 section 2.2 and MCP spec 2025-06-18", nil, nil},
		{"// the spec says 5 entries; a decision made", nil, nil},
	}
	for _, tt := range tests {
		sections, decisions := cited(tt.source)
		if !slices.Equal(sections, tt.sections) || !slices.Equal(decisions, tt.decisions) {
			t.Errorf("%q cites %q and %q, want %q and %q", tt.source, sections, decisions, tt.sections, tt.decisions)
		}
	}
}

// The numbers are an address that sources, tests and people use: none may go
// missing, and every anchor leads to the decision that it names.
func TestDocumentsKeepTheirNumbers(t *testing.T) {
	sections := sectionsOf(read(t, "docs/protocol.md"))
	want := []string{
		"1", "1.1", "1.2", "1.3", "1.4", "1.5",
		"2", "2.1", "2.1.1", "2.1.2", "2.1.3", "2.1.4", "2.2", "2.3", "2.4", "2.4.1", "2.4.2", "2.5",
		"3",
		"4", "4.1", "4.2", "4.3", "4.3.1", "4.3.2", "4.3.3", "4.4", "4.5",
		"5", "5.1", "5.2", "5.3", "5.4", "5.5", "5.6", "5.7",
		"6", "7", "8", "9",
	}
	if got := slices.Sorted(maps.Keys(sections)); !slices.Equal(got, want) {
		t.Errorf("sections of docs/protocol.md:\n%q, want\n%q", got, want)
	}

	doc := read(t, "docs/decisions.md")
	last := map[string]int{} // by letter
	for _, m := range decisionAnchor.FindAllStringSubmatch(doc, -1) {
		letter := strings.ToUpper(m[1])
		if letter+m[2] != m[3] {
			t.Errorf("anchor %s%s stands at decision %s", m[1], m[2], m[3])
		}
		n, err := strconv.Atoi(m[2])
		if gaps := letter == "V"; err != nil || n <= last[letter] || !gaps && n != last[letter]+1 { // V has tens, by subject
			t.Errorf("decision %s stands behind %s%d", m[3], letter, last[letter])
		}
		last[letter] = n
	}
	// More may be added; fewer means that one was lost.
	for letter, least := range map[string]int{
		"N": 1, "M": 6, "R": 7, "A": 12, "P": 15, "T": 14, "B": 6, "L": 5, "S": 2, "J": 3, "O": 4, "V": 16,
	} {
		if last[letter] < least {
			t.Errorf("docs/decisions.md has %d decisions %s, want at least %d", last[letter], letter, least)
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
