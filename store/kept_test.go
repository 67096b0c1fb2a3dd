package store

import (
	"compress/gzip"
	"database/sql"
	"encoding/json"
	"errors"
	flags "flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/token"
)

// Of every released schema a database is kept in testdata, for each engine:
// schema-NNNN.db.gz, and schema-NNNN.sql, which pg_dump has written. Beside them
// is what people and clients of it hold, sealed by key 1, which is 32 bytes of
// which the first is 1: schema-NNNN.json.

var keep = flags.Bool("keep", false, "write testdata/schema-NNNN.*: once, when a schema is released")

// A holding is what people and clients have in their hands, and what there was.
type holding struct {
	At        int64  `json:"at"` // Unix seconds
	Access    string `json:"access"`
	Refresh   string `json:"refresh"`
	Used      string `json:"used"` // the refresh token before
	Code      string `json:"code"` // not exchanged yet
	Ended     string `json:"ended"`
	Cancelled string `json:"cancelled"` // a code of a page that was cancelled afterwards
	Session   string `json:"session"`
	APIKey    string `json:"api_key"`
	Journal   string `json:"journal"`
}

// furnishKept makes what is kept: approvals that live, wait for their exchange,
// have ended and were cancelled, clients, sessions, an API key, and the
// journal of it.
func furnishKept(t *testing.T) (house, holding) {
	t.Helper()
	h := furnished(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	approve := func(nonce byte) (token.Handle, int64) {
		handle, issued, err := h.Approve(ctx, h.answer(nonce), Act{Actor: "person:ada"})
		must(err)
		return handle, issued
	}
	id := h.live(t, h.answer(1))
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	ended := h.live(t, h.answer(2))
	must(h.EndApproval(ctx, ended, approval.RevokedByPerson, Act{Actor: "person:ada"}))
	waits, issued := approve(3)
	cancelled, at := approve(4)
	must(h.Cancel(ctx, Cancelled{h.page(4), "quill", "ada"}, Act{Actor: "person:ada"}))
	h.register(t, "nobody")
	h.register(t, "imitator")
	must(h.SetClientEnabled(ctx, "imitator", false, Act{Actor: "operator:root", Reason: "imitates us"}))
	must(h.AddSession(ctx, "cookie-of-ada", "ada", Act{}))
	lives, _ := h.ring.Handle(1, [16]byte{1}, 0)
	over, _ := h.ring.Handle(1, [16]byte{2}, 0)
	if lives.ID() != id || over.ID() != ended {
		t.Fatal("handles are not those of the pages")
	}
	until := h.Now().Unix() + 1800
	return h, holding{
		At: h.Now().Unix(), Access: h.ring.Access(lives, 2, until), Refresh: h.ring.Refresh(lives, 2), Used: h.ring.Refresh(lives, 1),
		Code: h.ring.Code(waits, issued), Ended: h.ring.Access(over, 1, until), Cancelled: h.ring.Code(cancelled, at),
		Session: "cookie-of-ada", APIKey: "key-of-ada-in-nordlys", Journal: h.kinds(t),
	}
}

// keeps writes what is kept of this schema for the engine of the run, by a name
// without its end.
func keeps(t *testing.T, name string) {
	t.Helper()
	h, held := furnishKept(t)
	text, err := json.MarshalIndent(held, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".json", append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	if !embedded() {
		dumped(t, h, name+".sql")
		return
	}
	in, err := os.Open(h.backup(t))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(name + ".db.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, _ := gzip.NewWriterLevel(out, gzip.BestCompression)
	if _, err := io.Copy(z, in); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// notKept are lines of a dump that lead to one place, or to psql alone.
var notKept = regexp.MustCompile(`(?m)^(--.*|SET .*|SELECT pg_catalog\.set_config.*|CREATE SCHEMA .*|\\.*|)\n`)

// dumped writes a dump that can be loaded into any schema.
func dumped(t *testing.T, h house, name string) {
	t.Helper()
	if err := h.Close(); err != nil { // no node is alive in it
		t.Fatal(err)
	}
	url := at(t, h.path, Options{}).URL
	database, schema, _ := strings.Cut(url, "&search_path=")
	out, err := server.Command("pg_dump", "--inserts", "--no-owner", "--no-privileges", "--schema="+schema, database).Output()
	if err != nil {
		t.Fatal(err)
	}
	text := notKept.ReplaceAllString(strings.ReplaceAll(string(out), schema+".", ""), "")
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// load puts what is kept under a name where a test may work on it, and gives the
// path that leads there.
func load(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kept.db")
	if embedded() {
		if err := Unpack(name+".db.gz", path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	text, err := os.ReadFile(name + ".sql")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(ctx, at(t, path, Options{}).URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, string(text)); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return path
}

// released are the names of what is kept.
func released(t *testing.T) (names []string) {
	t.Helper()
	all, err := filepath.Glob("testdata/schema-*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		names = append(names, strings.TrimSuffix(name, ".json"))
	}
	return names
}

func migrates(t *testing.T, path string, all []Migration) {
	t.Helper()
	o := at(t, path, Options{})
	if _, to, err := Migrate(ctx, MigrateOptions{Path: o.Path, URL: o.URL, Ring: ring(t), Migrations: all}); err != nil {
		t.Fatalf("to %d: %v", to, err)
	}
}

// Every released schema is opened by this release, as it is or brought forward,
// and works with the migration of the next beside it; and what people and clients
// hold goes on to work, or not, as before.
func TestKeptDatabases(t *testing.T) {
	if *keep {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		keeps(t, fmt.Sprintf("testdata/schema-%04d", SchemaVersion))
	}
	names := released(t)
	if len(names) == 0 {
		t.Fatal("no database is kept")
	}
	for _, name := range names {
		text, err := os.ReadFile(name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var held holding
		if err := json.Unmarshal(text, &held); err != nil {
			t.Fatal(err)
		}
		for what, all := range map[string][]Migration{"this release": nil, "the next": next(aColumn)} {
			t.Run(filepath.Base(name)+", "+what, func(t *testing.T) {
				path := load(t, name)
				migrates(t, path, all)
				h := open(t, path, &machine{now: time.Unix(held.At+60, 0)})
				held.works(t, h)
			})
		}
	}
}

// claim reads a token; nobody but this ring has sealed it.
func (h house) claim(t *testing.T, kind token.Kind, text string) (approval.ID, token.Claim) {
	t.Helper()
	c, ok := h.ring.Read(kind, text)
	if !ok {
		t.Fatalf("%c: it cannot be read", kind)
	}
	return approval.ID(c.Handle.ID()), c
}

func (h house) acceptsToken(t *testing.T, text string) bool {
	t.Helper()
	id, c := h.claim(t, token.Access, text)
	a, err := h.Check(ctx, id)
	if errors.Is(err, ErrNotFound) {
		return false
	} else if err != nil {
		t.Fatal(err)
	}
	return a.Approval.Accepts(a.Standing, c.Generation, c.Time, h.Now())
}

func (held holding) works(t *testing.T, h house) {
	t.Helper()
	if got := h.kinds(t); got != held.Journal {
		t.Errorf("journal:\n got %s\nwant %s", got, held.Journal)
	}
	if !h.acceptsToken(t, held.Access) || h.acceptsToken(t, held.Ended) {
		t.Errorf("accepted: the living %v, the ended %v", h.acceptsToken(t, held.Access), h.acceptsToken(t, held.Ended))
	}
	id, _ := h.claim(t, token.Access, held.Access)
	a, err := h.Check(ctx, id)
	if err != nil || a.Approval.Person != "ada" || a.Approval.Client != "quill" || len(a.Approval.Grant.Picks) != 1 || a.Approval.Grant.Kind != grantset.Roles {
		t.Errorf("what was approved: %+v, %v", a.Approval, err)
	}
	for text, want := range map[string]approval.Verdict{held.Code: approval.OK, held.Cancelled: approval.Over} {
		id, c := h.claim(t, token.Code, text)
		if v, err := h.exchange(id, c.Time); v != want || err != nil {
			t.Errorf("code: %v %v, want %v", v, err, want)
		}
	}
	for _, tt := range []struct {
		text string
		want approval.Verdict
	}{{held.Refresh, approval.OK}, {held.Used, approval.Reused}} {
		id, c := h.claim(t, token.Refresh, tt.text)
		if v, err := h.refresh(id, c.Generation); v != tt.want || err != nil {
			t.Errorf("refresh token of generation %d: %v %v, want %v", c.Generation, v, err, tt.want)
		}
	}
	if h.acceptsToken(t, held.Access) {
		t.Error("accepted after a used refresh token came back")
	}
	if s, err := h.Session(ctx, held.Session); err != nil || s.Person != "ada" {
		t.Errorf("session: %+v, %v", s, err)
	}
	if m, err := h.APIKey(ctx, held.APIKey); err != nil || m.Organization != "nordlys" {
		t.Errorf("API key: %+v, %v", m, err)
	}
	states := map[string]string{}
	clients, _, err := h.Clients(ctx, ClientFilter{})
	for _, c := range clients {
		states[c.ID] = string(c.State())
	}
	if want := map[string]string{"quill": "approved", "nobody": "registered", "imitator": "disabled"}; err != nil || !maps.Equal(states, want) {
		t.Errorf("clients: %v, %v", states, err)
	}
}

// shape lists the columns and the indexes that a database has.
func (h house) shape(t *testing.T) (all []string) {
	t.Helper()
	text := `
		SELECT m.name || '.' || c.name || ' ' || c.type || ' ' || c."notnull" || ' ' || COALESCE(c.dflt_value, '') || ' ' || c.pk
		  FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'
		 UNION ALL SELECT COALESCE(sql, name) FROM sqlite_master WHERE type <> 'table'`
	if !embedded() {
		text = `
		SELECT table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || COALESCE(column_default, '')
		  FROM information_schema.columns WHERE table_schema = current_schema()
		 UNION ALL SELECT replace(indexdef, current_schema() || '.', '') FROM pg_indexes WHERE schemaname = current_schema()`
	}
	rows, err := h.db.Reader.QueryContext(ctx, text)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var one sql.NullString
		if err := rows.Scan(&one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one.String)
	}
	slices.Sort(all)
	return all
}

// The file of a released schema never changes: a database that was made with it
// and brought forward has what a new one has.
func TestReleasedSchemasStay(t *testing.T) {
	want := furnished(t).shape(t)
	if len(want) < 100 {
		t.Fatalf("%d columns and indexes: this test looks at something else", len(want))
	}
	for _, name := range released(t) {
		path := load(t, name)
		migrates(t, path, nil)
		got := open(t, path, &machine{now: time.Unix(1_800_000_060, 0)}).shape(t)
		for _, one := range got {
			if !slices.Contains(want, one) {
				t.Errorf("%s has, and a new database has not: %s", name, one)
			}
		}
		for _, one := range want {
			if !slices.Contains(got, one) {
				t.Errorf("%s has not, and a new database has: %s", name, one)
			}
		}
		if t.Failed() {
			t.Fatal("a released schema's file has changed: undo that, and write a migration. " +
				"Until the first release: go test ./store -run TestKeptDatabases -args -keep")
		}
	}
}

// ruleFaults says which rules of docs/upgrade.md migrations break, as far as their
// text tells. source is what this release reads; kept are the schemas of releases.
func ruleFaults(all []Migration, kept []int, source string) (faults []string) {
	for i, m := range all[1:] {
		before := 1
		for _, n := range kept {
			if n < m.Version {
				before = max(before, n)
			}
		}
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Sprintf("%04d: ", m.Version)+fmt.Sprintf(format, args...))
		}
		if !strings.HasPrefix(m.SQL, "-- Releases of schema ") {
			fault("it does not begin by saying which releases work beside it")
		} else if m.Oldest > before && apart[m.Version] == "" {
			fault("it takes schema %d and newer, and the release before has %d", m.Oldest, before)
		} else if least := all[i].Oldest; m.Oldest < least { // all[i] is the one before
			fault("it takes schema %d and newer, and the one before takes none older than %d", m.Oldest, least)
		}
		made := map[string]bool{}
		for _, text := range strings.Split(comment.ReplaceAllString(m.SQL+m.Postgres, ""), ";") {
			words := strings.Fields(strings.ToUpper(text))
			if table := strings.ToLower(strings.Trim(strings.Join(words[min(2, len(words)):min(3, len(words))], ""), "(")); strings.HasPrefix(strings.Join(words, " "), "CREATE TABLE ") {
				made[table] = true
			}
			if why := statementFault(words, made, source); why != "" {
				fault("%s: %s", why, strings.Join(strings.Fields(text), " "))
			}
		}
	}
	return faults
}

// apart are the migrations that no release before may work beside, and why.
var apart = map[int]string{
	7:  "the release before gives apps more than an organization's rules leave them, and for longer",
	8:  "works beside 7, which takes no older ones",
	9:  "works beside 7, which takes no older ones",
	10: "works beside 7, which takes no older ones",
	11: "the release before records nothing of what apps do, and nobody would be told that something is missing",
	12: "the release before refreshes without the key that a refresh token is bound to",
}

var comment = regexp.MustCompile(`(?m)--.*$`)

// statementFault looks at one statement, in capitals.
func statementFault(words []string, made map[string]bool, source string) string {
	text := " " + strings.Join(words, " ") + " "
	says := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(text, p) })
	}
	word := func(n int) string {
		if n >= len(words) {
			return ""
		}
		return strings.ToLower(words[n])
	}
	used := func(name string) bool {
		return regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`).MatchString(source)
	}
	switch {
	case len(words) == 0, says(" CREATE TABLE "):
	case says(" ALTER TABLE ") && made[word(2)]:
	case says(" RENAME "):
		return "the release before does not find what is renamed"
	case says(" TRIGGER ", " ADD CONSTRAINT ", " ALTER COLUMN "), says(" ADD COLUMN ") && says(" UNIQUE ", " CHECK ", " CHECK(", " REFERENCES "):
		return "the release before does not keep it"
	case says(" CREATE UNIQUE INDEX ") && !slices.ContainsFunc(slices.Collect(maps.Keys(made)), func(n string) bool { return says(" ON "+strings.ToUpper(n)+" ", " ON "+strings.ToUpper(n)+"(") }):
		return "the release before does not keep it"
	case says(" ADD COLUMN ") && says(" NOT NULL ") && !says(" DEFAULT "):
		return "the release before inserts rows without it"
	case says(" DROP TABLE ") && used(word(len(words)-1)), says(" DROP COLUMN ") && used(word(len(words)-1)):
		return "it is used still"
	case says(" DROP INDEX ", " DROP TABLE ", " DROP COLUMN "):
	case says(" ADD COLUMN ", " CREATE INDEX ", " CREATE UNIQUE INDEX ", " INSERT INTO ", " UPDATE ", " DELETE FROM ", " SET (FILLFACTOR "):
	default:
		return "nobody has said that this is safe"
	}
	return ""
}

func TestMigrationsKeepTheRules(t *testing.T) {
	var kept []int
	for _, name := range released(t) {
		n := 0
		fmt.Sscanf(filepath.Base(name), "schema-%d", &n)
		kept = append(kept, n)
	}
	var source strings.Builder
	for _, name := range sources(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(text)
	}
	for _, f := range ruleFaults(Migrations(), kept, source.String()) {
		t.Error(f)
	}
	const beside = "-- Releases of schema 1 and newer work beside it.\n"
	planted := func(m Migration) []string {
		m.Version = 2
		if strings.HasPrefix(m.SQL, "-- Releases of schema ") && m.Oldest == 0 {
			m.Oldest = 1
		}
		return ruleFaults([]Migration{{Version: 1}, m}, []int{1}, source.String())
	}
	for text, want := range map[string]int{
		beside + "ALTER TABLE client ADD COLUMN note TEXT NOT NULL DEFAULT '';":                             0,
		beside + "ALTER TABLE client ADD COLUMN note TEXT;":                                                 0,
		beside + "CREATE TABLE shelf (id TEXT PRIMARY KEY);\nCREATE UNIQUE INDEX shelf_id ON shelf (id);":   0,
		beside + "CREATE INDEX client_name ON client (name); UPDATE client SET name = '' WHERE name = 'x';": 0,
		beside + "ALTER TABLE client DROP COLUMN gone_long_ago; DROP INDEX client_old;":                     0,
		"ALTER TABLE client ADD COLUMN note TEXT;":                                                          1,
		beside + "ALTER TABLE client ADD COLUMN note TEXT NOT NULL;":                                        1,
		beside + "ALTER TABLE client ADD COLUMN note TEXT UNIQUE;":                                          1,
		beside + "ALTER TABLE client RENAME COLUMN name TO title;":                                          1,
		beside + "ALTER TABLE client RENAME TO app;":                                                        1,
		beside + "ALTER TABLE client DROP COLUMN redirect_uris;":                                            1,
		beside + "DROP TABLE approval;":                                                                     1,
		beside + "CREATE UNIQUE INDEX client_name ON client (name);":                                        1,
		beside + "CREATE TRIGGER x BEFORE INSERT ON client BEGIN SELECT 1; END;":                            2,
		beside + "ALTER TABLE client ALTER COLUMN name SET NOT NULL;":                                       1,
		beside + "VACUUM;": 1,
	} {
		if got := planted(Migration{SQL: text}); len(got) != want {
			t.Errorf("%s\n%d faults, want %d: %q", text, len(got), want, got)
		}
	}
	if got := planted(Migration{SQL: strings.Replace(beside, "1", "2", 1), Oldest: 2}); len(got) != 1 {
		t.Errorf("one that the release before cannot work beside: %q", got)
	}
	third := Migration{Version: 3, SQL: beside, Oldest: 1}
	if got := ruleFaults([]Migration{{Version: 1, Oldest: 1}, {Version: 2, SQL: strings.Replace(beside, "1", "2", 1), Oldest: 2}, third}, []int{1, 2}, ""); len(got) != 2 {
		t.Errorf("one that lets in again whom the one before has shut out: %q", got)
	}
}
