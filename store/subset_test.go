package store

import (
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
)

// The subset of PostgreSQL's SQL that docs/scaling.md names. What is not listed
// here is refused: engines that speak the protocol may not have it.
var (
	subsetWords = strings.Fields(`
		SELECT DISTINCT ALL FROM JOIN LEFT CROSS ON WHERE AND OR NOT NULL IS IN EXISTS BETWEEN LIKE ESCAPE GROUP BY HAVING ORDER ASC DESC LIMIT
		UNION CASE WHEN THEN ELSE END AS WITH VALUES FOR UPDATE INSERT INTO SET DELETE CONFLICT DO NOTHING RETURNING FILTER
		BEGIN COMMIT ROLLBACK LOCAL ISOLATION LEVEL READ COMMITTED
		CREATE TABLE INDEX UNIQUE PRIMARY KEY DEFAULT ALTER ADD COLUMN BIGINT TEXT BYTEA`)
	subsetFunctions = strings.Fields(`
		COUNT SUM MIN MAX COALESCE GREATEST LEAST CAST EXTRACT ANY EXISTS LENGTH LOWER REPLACE RTRIM
		unnest split_part decode length lower clock_timestamp set_config`)
	subsetTypes = strings.Fields(`text[] bigint[] bytea[] bigint text bytea`)

	// Looked at when a node starts, or shown to an operator: nothing that
	// answers a request stands on the engine's own tables and settings.
	startFunctions = strings.Fields(`current_setting version current_schema has_table_privilege has_schema_privilege current_database
		pg_database_collation_actual_version pg_database_size`)
)

// postgresOnly are words of statements that PostgreSQL itself alone is sent: postgres.Engine.IsPostgreSQL.
var postgresOnly = []string{"xmin", "random_page_cost"}

// embeddedOnly are words of statements that only the embedded engine is sent.
var embeddedOnly = []string{"PRAGMA", "sqlite_", "VACUUM", "SAVEPOINT", "RELEASE", "BEGIN IMMEDIATE", "json_", "ROWID"}

var (
	statementStart = regexp.MustCompile(`^\s*(SELECT|INSERT|UPDATE|DELETE|WITH|BEGIN|CREATE|ALTER|SET|VALUES|LISTEN|NOTIFY|LOCK|TRUNCATE|COPY|DECLARE)\b`)
	condition      = regexp.MustCompile(`\$[1-9%]`) // a part of a statement
	literal        = regexp.MustCompile(`'[^']*'`)
	remark         = regexp.MustCompile(`--[^\n]*`)
	cast           = regexp.MustCompile(`::([a-z]+(?:\[\])?)`)
	call           = regexp.MustCompile(`([A-Za-z_]+)\s?\(`)
	word           = regexp.MustCompile(`[A-Za-z_]+`)
	alias          = regexp.MustCompile(`\b(?:AS|INTO|ON|TABLE|REFERENCES|WITH)\s+[a-z_]+(?:\s+AS)?\s*\(|,\s+[a-z]+ AS \(`)
)

// beyond lists what a statement has that is not in the subset.
func beyond(text string, functions []string) (out []string) {
	text = literal.ReplaceAllString(remark.ReplaceAllString(text, ""), "''")
	for _, m := range cast.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(subsetTypes, m[1]) {
			out = append(out, "type "+m[1])
		}
	}
	for _, m := range call.FindAllStringSubmatch(alias.ReplaceAllString(text, " "), -1) {
		if !slices.Contains(functions, m[1]) && !slices.Contains(subsetWords, m[1]) {
			out = append(out, "function "+m[1])
		}
	}
	for _, w := range word.FindAllString(text, -1) {
		if w == strings.ToUpper(w) && !slices.Contains(subsetWords, w) && !slices.Contains(functions, w) && w != "EPOCH" && w != "C" {
			out = append(out, w)
		}
	}
	for _, operator := range []string{"~", "@>", "<@", "->", "&&", "#>", "^"} {
		if strings.Contains(text, operator) {
			out = append(out, "operator "+operator)
		}
	}
	return out
}

// Every statement stays inside the subset that distributed engines offer.
func TestStatementsStayInTheSubset(t *testing.T) {
	looked := 0
	look := func(at, text string) {
		if slices.ContainsFunc(slices.Concat(embeddedOnly, postgresOnly), func(w string) bool { return strings.Contains(text, w) }) {
			return
		}
		looked++
		functions := subsetFunctions
		if strings.Contains(text, "pg_") || strings.Contains(text, "current_setting") || strings.Contains(text, "version()") || strings.Contains(text, "has_schema_privilege") {
			functions = append(slices.Clone(functions), startFunctions...)
		}
		for _, what := range beyond(text, functions) {
			t.Errorf("%s: %s is outside the subset: %s", at, what, strings.Join(strings.Fields(text), " "))
		}
	}
	for _, name := range sources(t) {
		if filepath.Base(name) == "copying.go" { // a database that nobody works on, by what its engine has
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				if text, err := strconv.Unquote(l.Value); err == nil && (statementStart.MatchString(text) || condition.MatchString(text)) {
					look(set.Position(n.Pos()).String(), text)
				}
			}
			return true
		})
	}
	schemas, err := filepath.Glob("schema/*.sql")
	if err != nil || len(schemas) < 2 {
		t.Fatal(schemas, err)
	}
	for _, name := range schemas {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for statement := range strings.SplitSeq(string(text), ";\n") {
			look(name, statement)
		}
	}
	if looked < 150 {
		t.Errorf("%d statements found: this test looks at something else", looked)
	}
}

// The linter is worth something only if it notices.
func TestWhatIsBeyondTheSubsetIsNoticed(t *testing.T) {
	for text, want := range map[string]int{
		`SELECT id FROM approval WHERE id = ANY($1::bytea[]) ORDER BY id FOR UPDATE`:          0,
		`WITH u AS (SELECT 1) INSERT INTO a (x, y) SELECT * FROM unnest($1::text[]) AS u (x)`: 0,
		`SELECT 1 WHERE name = 'LISTEN to this()'`:                                            0,
		`LISTEN ended`:                                   1,
		`SELECT pg_advisory_xact_lock(1)`:                1,
		`SELECT nextval('numbers')`:                      1,
		`CREATE TABLE a (id SERIAL PRIMARY KEY)`:         1,
		`CREATE TEMP TABLE a (id BIGINT)`:                1,
		`SELECT id FROM approval FOR UPDATE SKIP LOCKED`: 2,
		`SELECT $1::jsonb`:                               1,
		`SELECT a -> 'b' FROM c`:                         1,
		`MERGE INTO a USING b ON a.id = b.id`:            2,
		`SELECT id FROM a, LATERAL unnest(b)`:            1,
		`TRUNCATE approval`:                              1,
	} {
		if got := beyond(text, subsetFunctions); len(got) != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
