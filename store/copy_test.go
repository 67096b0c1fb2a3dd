package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/store/schema"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
	"github.com/grantkeeper/grantkeeper/token"
)

// here is a place on the engine of the run, for a path; file is one on the other engine
// where the run is on PostgreSQL.
func here(t testing.TB, path string) Place {
	t.Helper()
	o := at(t, path, Options{})
	return Place{Path: o.Path, URL: o.URL}
}

func file(t testing.TB) Place { return Place{Path: filepath.Join(t.TempDir(), "copy.db")} }

// copies copies, and gives what was told.
func copies(t testing.TB, from, to Place) (all []CopiedTable, err error) {
	t.Helper()
	return all, Copy(ctx, CopyOptions{From: from, To: to, Ring: ring(t), Release: "test", Told: func(one CopiedTable) { all = append(all, one) }})
}

func mustCopy(t testing.TB, from, to Place) []CopiedTable {
	t.Helper()
	all, err := copies(t, from, to)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// oddRows writes rows into every table, with values at the edges of what each column holds.
func oddRows(t testing.TB, h house) {
	t.Helper()
	numbers := []int64{0, -1, math.MaxInt64}
	texts := []string{"", "Ægir 👍 \u202e", "it's \"1\"\n\\x00 NULL 007"}
	octets := []string{"", "00ff80", "2731"}
	for _, name := range schema.SharedTables() {
		columns := h.columnsOf(t, name)
		for row := range 3 {
			var names, values []string
			for i, c := range columns {
				if name == "approval" && c.Name == "bound" && row == 0 {
					continue // is what a migration has filled in
				}
				names = append(names, c.Name)
				switch c.Holds {
				case schema.Numbers:
					values = append(values, fmt.Sprint(numbers[(row+i)%3]))
				case schema.Texts: // the number keeps keys apart
					values = append(values, "'"+strings.ReplaceAll(texts[(row+i)%3], "'", "''")+strings.Repeat("x", row)+"'")
				case schema.Octets:
					text := octets[(row+i)%3] + fmt.Sprintf("%02x", row)
					values = append(values, map[bool]string{true: "x'" + text + "'", false: `'\x` + text + "'"}[embedded()])
				default:
					t.Fatalf("%s: %+v", name, c)
				}
			}
			h.sql(t, "INSERT INTO "+name+" ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(values, ", ")+")")
		}
	}
}

// columnsOf are those of a database that a store works on.
func (h house) columnsOf(t testing.TB, table string) []schema.Column {
	t.Helper()
	text := `SELECT column_name, data_type FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = $1`
	if embedded() {
		text = `SELECT name, type FROM pragma_table_info($1)`
	}
	all, err := engine.ColumnsOf(h.db.Reader.QueryContext(ctx, text, table))
	if err != nil || len(all) == 0 {
		t.Fatal(table, all, err)
	}
	return all
}

// Every value of every table arrives on the other engine, and is the same once it is back.
func TestCopyThereAndBack(t *testing.T) {
	h := open(t, filepath.Join(t.TempDir(), "grantkeeper.db"), &machine{now: time.Unix(1_800_000_000, 0)})
	oddRows(t, h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	middle, back := file(t), filepath.Join(t.TempDir(), "back.db")
	there := mustCopy(t, here(t, h.path), middle)
	again := mustCopy(t, middle, here(t, back))
	seen := map[string]bool{}
	for i, one := range there {
		if one.Rows < 3 || one.Mended != 0 || len(one.Digest) != 64 {
			t.Errorf("%+v", one)
		}
		if name := one.Table; name == "meta" && !embedded() { // PostgreSQL's own time is written into it
			again[i].Digest, again[i].Rows = one.Digest, one.Rows
		}
		if again[i] != one {
			t.Errorf("there %+v, and back %+v", one, again[i])
		}
		seen[one.Table] = true
	}
	if tables := schema.TablesOf(SchemaVersion); !embedded() && len(seen) != len(tables)-4 || embedded() && len(seen) < 30 { // facts, fact_change, node, lease
		t.Errorf("%d of %d tables", len(seen), len(tables))
	}
	db, err := sql.Open("sqlite3", sqlite.DSN(middle.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for text, want := range map[string]int{
		`SELECT COUNT(*) FROM approval WHERE typeof(bound) = 'blob' AND typeof(id) = 'blob' AND typeof(phase) = 'integer' AND typeof(person) = 'text'`: 3,
		`SELECT COUNT(*) FROM person WHERE name LIKE '%👍%' OR name LIKE '%007%'`:                                                                       2,
		`SELECT COUNT(*) FROM approval WHERE bound = x''`:                                                                                              1,
	} {
		var got int
		if err := db.QueryRow(text).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
}

// What columns hold is one form on both engines; what is neither is refused.
func TestCopyValue(t *testing.T) {
	same := func(s string) string { return s }
	for _, tt := range []struct {
		holds    string
		in, want any
	}{
		{schema.Numbers, int64(1), int64(1)}, {schema.Numbers, int64(math.MinInt64), int64(math.MinInt64)},
		{schema.Numbers, "1", nil}, {schema.Numbers, true, nil}, {schema.Numbers, 1.0, nil}, {schema.Numbers, nil, nil},
		{schema.Texts, "", ""}, {schema.Texts, []byte("a"), "a"}, {schema.Texts, int64(1), nil}, {schema.Texts, nil, nil},
		{schema.Octets, []byte{0, 255}, []byte{0, 255}}, {schema.Octets, []byte(nil), []byte{}}, {schema.Octets, "", []byte{}}, {schema.Octets, int64(7), nil}, {schema.Octets, nil, nil},
		{"REAL", 1.0, nil},
	} {
		got, err := engine.CopyValue(tt.in, schema.Column{Name: "c", Holds: tt.holds}, same)
		if fmt.Sprintf("%T %v", got, got) != fmt.Sprintf("%T %v", tt.want, tt.want) || (err != nil) != (tt.want == nil) {
			t.Errorf("%s %T %v: %T %v, %v", tt.holds, tt.in, tt.in, got, got, err)
		}
	}
}

// The digest tells rows apart by every value, its kind and its place, and not by their order.
func TestTableDigest(t *testing.T) {
	of := func(rows ...[]any) string {
		var d tableDigest
		for _, r := range rows {
			d.add(r)
		}
		return d.text()
	}
	a, b := []any{"a", int64(1)}, []any{"b", int64(2)}
	if of(a, b) != of(b, a) {
		t.Error("the order counts")
	}
	all := map[string]int{}
	for i, rows := range [][][]any{{}, {a}, {b}, {a, b}, {a, a}, {{"a", int64(2)}}, {{"a1"}}, {{"a", "1"}}, {{[]byte("a"), int64(1)}}, {{"", "a1"}}, {{int64(1), "a"}}} {
		if before, twice := all[of(rows...)]; twice {
			t.Errorf("%d and %d have one digest", before, i)
		}
		all[of(rows...)] = i
	}
}

// People and clients go on where they were: tokens, sessions and API keys work on the copy.
func TestCopyGoesOn(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	h.signIn(t, "ada-1", "ada")
	h.journaled(t, 20)
	h.seal(t)
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	middle, back := file(t), filepath.Join(t.TempDir(), "back.db")
	mustCopy(t, here(t, h.path), middle)
	now := h.clock.Now
	if !embedded() { // a server has its own time, and what comes back must not be ahead of it
		now = time.Now
	}
	s, err := Open(ctx, Options{Path: middle.Path, Ring: h.ring, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	moved := house{Store: s, clock: h.clock, path: middle.Path, ring: h.ring}
	if v, err := moved.refresh(id, 2); v != approval.OK || err != nil {
		t.Errorf("refresh on the copy: %v %v", v, err)
	}
	moved.is(t, "ada-1", "ada", "")
	if _, err := moved.APIKey(ctx, "key-of-ada-in-nordlys"); err != nil {
		t.Errorf("API key: %v", err)
	}
	moved.whole(t)
	if err := moved.Close(); err != nil {
		t.Fatal(err)
	}
	mustCopy(t, middle, here(t, back))
	again := open(t, back, h.clock)
	if v, err := again.refresh(id, 3); v != approval.OK || err != nil {
		t.Errorf("refresh when it is back: %v %v", v, err)
	}
	again.is(t, "ada-1", "ada", "")
	again.register(t, "after")
	again.whole(t)
}

// Nothing is copied out of, or into, what it would spoil.
func TestCopyRefuses(t *testing.T) {
	h := furnished(t)
	if _, err := copies(t, here(t, h.path), file(t)); !errors.Is(err, ErrInUse) {
		t.Errorf("a server works on it: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	from := here(t, h.path)
	other, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{9}))
	if err != nil {
		t.Fatal(err)
	}
	if err := Copy(ctx, CopyOptions{From: from, To: file(t), Ring: other}); !errors.Is(err, ErrKeys) {
		t.Errorf("other keys: %v", err)
	}
	second := open(t, filepath.Join(t.TempDir(), "second.db"), h.clock)
	if _, err := copies(t, from, here(t, second.path)); !errors.Is(err, map[bool]error{true: ErrInUse, false: ErrNotEmpty}[embedded()]) {
		t.Errorf("onto another one's: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := copies(t, from, here(t, second.path)); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("onto another one: %v", err)
	}
	if _, err := copies(t, from, from); !errors.Is(err, ErrInUse) && !errors.Is(err, ErrNotEmpty) {
		t.Errorf("onto itself: %v", err)
	}
	note := file(t)
	if err := os.WriteFile(note.Path, []byte("a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := copies(t, from, note); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("onto a file of something else: %v", err)
	}
	if text, _ := os.ReadFile(note.Path); string(text) != "a note" {
		t.Errorf("the file is %q", text)
	}
	fifo, link := file(t), file(t) // never a device: a copy that removes what is there would remove the machine's
	if err := errors.Join(syscall.Mkfifo(fifo.Path, 0o600), os.Symlink(fifo.Path, link.Path)); err != nil {
		t.Fatal(err)
	}
	for _, odd := range []Place{fifo, link} {
		if _, err := copies(t, from, odd); !errors.Is(err, ErrNotEmpty) {
			t.Errorf("onto a FIFO: %v", err)
		}
		if info, err := os.Stat(odd.Path); err != nil || info.Mode().IsRegular() {
			t.Errorf("the FIFO is gone: %v", err)
		}
	}
	beside := file(t) // refreshes of a database that was there
	if err := os.WriteFile(beside.Path+"-refreshes-wal", []byte("a note"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := copies(t, from, beside); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "-refreshes") {
		t.Errorf("beside another one's refreshes: %v", err)
	}
	if _, err := copies(t, file(t), file(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	to := file(t)
	old := load(t, "testdata/schema-0001")
	var differs *SchemaError
	if _, err := copies(t, here(t, old), to); !errors.As(err, &differs) || !differs.Older() {
		t.Errorf("an older schema: %v", err)
	}
	if _, _, err := Migrate(ctx, MigrateOptions{Path: from.Path, URL: from.URL, Ring: h.ring, Migrations: next("CREATE TABLE shelf (id TEXT PRIMARY KEY);")}); err != nil {
		t.Fatal(err)
	}
	if _, err := copies(t, from, to); !errors.As(err, &differs) || differs.Older() {
		t.Errorf("a later schema: %v", err)
	}
	if _, err := os.Stat(to.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused copy has left something: %v", err)
	}
}

// A table that somebody has changed by hand is not copied in part.
func TestCopyRefusesAnotherTable(t *testing.T) {
	h := furnished(t)
	h.sql(t, `ALTER TABLE journal ADD COLUMN theirs TEXT NOT NULL DEFAULT ''`)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	to := file(t)
	if _, err := copies(t, here(t, h.path), to); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "theirs") {
		t.Errorf("%v", err)
	}
	if _, err := Open(ctx, Options{Path: to.Path, Ring: h.ring}); !errors.Is(err, ErrUnfinished) {
		t.Errorf("what is there of it opens: %v", err)
	}
}

// What is not on the other engine what it is here is refused, and said: a value that no column
// of its kind holds, two keys that would be one, a time that would go back (decision T12).
func TestCopyRefusesRows(t *testing.T) {
	h := furnished(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	from, to := file(t), here(t, filepath.Join(t.TempDir(), "to.db"))
	mustCopy(t, here(t, h.path), from)
	db, err := sql.Open("sqlite3", sqlite.DSN(from.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	refused := func(want error, says, wrong, right string) {
		t.Helper()
		if _, err := db.Exec(wrong); err != nil {
			t.Fatal(err)
		}
		if _, err := copies(t, from, to); !errors.Is(err, want) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", wrong, err)
		}
		if _, err := db.Exec(right); err != nil {
			t.Fatal(err)
		}
	}
	refused(ErrRow, "table client: a row cannot be copied: column epoch", `UPDATE client SET epoch = 'two'`, `UPDATE client SET epoch = 0`)
	if !embedded() {
		refused(ErrRow, "policy_never_pkey", `INSERT INTO policy_never SELECT organization, role FROM (SELECT 'n' AS organization, CAST(x'61ff' AS TEXT) AS role UNION ALL SELECT 'n', CAST(x'61fe' AS TEXT))`, `DELETE FROM policy_never`)
		refused(ErrAhead, "2099-", `UPDATE meta SET value = '4090000000' WHERE name = 'time'`, `UPDATE meta SET value = '1700000000' WHERE name = 'time'`)
	}
	mustCopy(t, from, to)
}

// A copy that was killed while it made its file has left nothing in it but what SQLite undoes.
func TestCopyOverNoTables(t *testing.T) {
	h := furnished(t)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	begun, to := file(t), file(t)
	db, err := sql.Open("sqlite3", sqlite.FileURL(begun.Path, url.Values{"_pragma": {"journal_mode(delete)", "cache_size(1)"}}))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if err := os.WriteFile(begun.Path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`BEGIN IMMEDIATE`, `CREATE TABLE meta (name TEXT)`, `INSERT INTO meta VALUES (HEX(ZEROBLOB(1000000)))`} {
		if _, err := db.Exec(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, suffix := range []string{"-journal", ""} { // which is there until all of the file is
		copyFile(t, begun.Path+suffix, to.Path+suffix)
		if _, err := db.Exec(`COMMIT`); err != nil && suffix != "" {
			t.Fatal(err)
		}
		if info, err := os.Stat(to.Path + suffix); err != nil || info.Size() == 0 {
			t.Fatalf("nothing was written yet: %v", err)
		}
	}
	mustCopy(t, here(t, h.path), to)
}

// Of a copy that ends half-way nobody makes a database, but another copy (decision O10).
func TestCopyUnfinished(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "half.db")
	from, to := here(t, h.path), here(t, path)
	half, cancel := context.WithCancel(ctx)
	var inMeanwhile error
	err := Copy(half, CopyOptions{From: from, To: to, Ring: h.ring, Told: func(one CopiedTable) {
		if one.Table == "approval" {
			_, inMeanwhile = copies(t, from, to)
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if !errors.Is(inMeanwhile, ErrInUse) {
		t.Errorf("two at once: %v", inMeanwhile)
	}
	unfinished := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, ErrUnfinished) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err = Open(ctx, Options{Path: to.Path, URL: to.URL, Ring: h.ring, Now: h.clock.Now})
	unfinished("open", err)
	_, err = Open(ctx, Options{Path: to.Path, URL: to.URL, Ring: h.ring, Now: h.clock.Now, Migrate: true})
	unfinished("open that migrates", err)
	_, _, err = Migrate(ctx, MigrateOptions{Path: to.Path, URL: to.URL, Ring: h.ring})
	unfinished("migrate", err)
	if embedded() {
		_, err = Inspect(ctx, to.Path)
	} else {
		_, _, err = InspectURL(ctx, to.URL, h.ring)
	}
	unfinished("inspect", err)
	_, err = copies(t, to, file(t))
	unfinished("copy of it", err)
	mustCopy(t, from, to)
	again := open(t, path, h.clock)
	if v, err := again.refresh(id, 1); v != approval.OK || err != nil {
		t.Errorf("refresh: %v %v", v, err)
	}
}

// With a full disk the error says so, and nothing passes for a database.
func TestCopyOntoAFullDisk(t *testing.T) {
	h := furnished(t)
	h.journaled(t, 3000)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	var disk *pgtest.Disk
	var to Place
	if embedded() {
		var err error
		if disk, err = pgtest.NewDisk(2 << 20); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := disk.Unmount(); err != nil {
				t.Error(err)
			}
		})
		to.Path = filepath.Join(disk.Dir(), "copy.db")
	} else {
		own, small, name := smallDisk(t)
		disk, to.URL = small, own.URL(name)
	}
	filled := false
	err := Copy(ctx, CopyOptions{From: here(t, h.path), To: to, Ring: h.ring, Told: func(CopiedTable) {
		if !filled {
			filled = true
			if err := disk.Fill(); err != nil {
				t.Error(err)
			}
		}
	}})
	if err == nil || embedded() && !errors.Is(err, syscall.ENOSPC) || !embedded() && !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("got %v", err)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(ctx, Options{Path: to.Path, URL: to.URL, Ring: h.ring}); !errors.Is(err, ErrUnfinished) {
		t.Errorf("what is there opens: %v", err)
	}
	mustCopy(t, here(t, h.path), to)
	s, err := Open(ctx, Options{Path: to.Path, URL: to.URL, Ring: h.ring})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
