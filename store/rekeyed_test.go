package store

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
)

// executes carries out a statement in a database that nobody has opened.
func executes(t *testing.T, path, text string) {
	t.Helper()
	if !embedded() {
		conn, err := pgx.Connect(ctx, at(t, path, Options{}).URL)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, text); err != nil {
			t.Fatal(err)
		}
		return
	}
	db, err := sql.Open("sqlite3", sqlite.DSN(path))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(text); err != nil {
		t.Fatal(err)
	}
}

// A database of schema 1 in which people stand under what Unicode made of their
// emails is brought forward: each is told of, and found by their own email alone.
func TestLookAlikesAreToldOf(t *testing.T) {
	path := load(t, "testdata/schema-0001")
	for _, p := range [][3]string{
		{"turk", "me\u0130@F\u0130RM.example", "mei@firm.example"}, {"kelvin", "\u212aim@firm.example", "kim@firm.example"},
		{"eva", "\u00c9va@Firm.example", "\u00e9va@firm.example"}, {"plain", "Plain@Firm.Example", "plain@firm.example"}, {"small", "zo\u00eb@firm.example", "zo\u00eb@firm.example"},
	} {
		executes(t, path, `INSERT INTO person (id, email, email_key, name, active, support, epoch, password)
			VALUES ('`+p[0]+`', '`+p[1]+`', '`+p[2]+`', 'Somebody', 1, 0, 0, '')`)
	}
	executes(t, path, `INSERT INTO person (id, email, email_key, name, active, support, epoch, password)
		VALUES ('gone', '', 'removed:gone', 'Gone', 0, 0, 1, '')`)
	var told []Rekeyed
	o := at(t, path, Options{})
	if _, to, err := Migrate(ctx, MigrateOptions{Path: o.Path, URL: o.URL, Ring: ring(t), Rekeyed: func(one Rekeyed) { told = append(told, one) }}); to != SchemaVersion || err != nil {
		t.Fatalf("to %d, %v", to, err)
	}
	if want := []Rekeyed{{Person: "eva", Email: "\u00c9va@Firm.example", Before: "\u00e9va@firm.example"}, {Person: "kelvin", Email: "\u212aim@firm.example", Before: "kim@firm.example"},
		{Person: "turk", Email: "me\u0130@F\u0130RM.example", Before: "mei@firm.example"}}; !slices.Equal(told, want) {
		t.Errorf("told of %q,\nwant %q", told, want)
	}
	h := open(t, path, &machine{now: time.Unix(1_800_000_060, 0)})
	for email, want := range map[string]string{
		"me\u0130@f\u0130rm.example": "turk", "ME\u0130@F\u0130RM.EXAMPLE": "turk", "mei@firm.example": "", "kim@firm.example": "", "\u212aIM@firm.example": "kelvin",
		"\u00e9va@firm.example": "", "\u00c9VA@FIRM.example": "eva", "PLAIN@firm.example": "plain", "zo\u00eb@FIRM.example": "small", "pla\u0130n@firm.example": "",
	} {
		if p, err := h.Person(ctx, email); p.ID != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v; want %q", email, p.ID, err, want)
		}
	}
	rows, err := h.db.Reader.QueryContext(ctx, `SELECT id, email, email_key FROM person`)
	if err := engine.EachRow(rows, err, func(r engine.Scanner) error {
		var p org.Person
		var key string
		err := r.Scan(&p.ID, &p.Email, &key)
		if key != facts.EmailKey(p) {
			t.Errorf("%s: stored under %q, want %q", p.ID, key, facts.EmailKey(p))
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.AddPerson(ctx, org.Person{ID: "mei", Email: "mei@firm.example", Name: "Mei", Active: true}, "", Act{}); err != nil {
		t.Errorf("whose email a look-alike had taken: %v", err)
	}
	if _, err := h.AddPerson(ctx, org.Person{ID: "mei2", Email: "MEI@firm.example", Name: "Mei", Active: true}, "", Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("another ID for who is there: %v", err)
	}
	if p, err := h.AddPerson(ctx, org.Person{Email: "MEI@firm.example", Name: "Mei", Active: true}, "", Act{}); p.ID != "mei" || err != nil {
		t.Errorf("no ID: %+v, %v", p, err)
	}
	if p, err := h.AddPerson(ctx, org.Person{Email: "new@firm.example", Name: "New", Active: true}, "", Act{}); org.CheckID(p.ID) != nil || err != nil {
		t.Errorf("somebody new: %+v, %v", p, err)
	}
}

// An email that another server vouches for leads to a person by the letters of
// ASCII in any case, and byte for byte beyond.
func TestVouched(t *testing.T) {
	h := furnished(t)
	for id, email := range map[string]string{"kim": "Kim@Firm.example", "zoe": "zo\u00eb@firm.example"} {
		if _, err := h.AddPerson(ctx, org.Person{ID: id, Email: email, Name: "Somebody", Active: true}, "", Act{}); err != nil {
			t.Fatal(err)
		}
	}
	for email, want := range map[string]string{
		"kim@FIRM.example": "kim", "kim@f\u0130rm.example": "", "\u212aim@firm.example": "", "kim": "", "": "", strings.Repeat("k", 300): "",
		"zo\u00eb@firm.example": "zoe", "Zo\u00eb@firm.example": "", "zo\u00cb@firm.example": "", "zoe\u0308@firm.example": "",
	} {
		if p, err := h.Vouched(ctx, email); p.ID != want || (want == "") != errors.Is(err, ErrNotFound) {
			t.Errorf("%q is %q, %v; want %q", email, p.ID, err, want)
		}
		if _, _, err := h.Password(ctx, email); want == "" && !strings.HasPrefix(email, "Zo\u00eb") && !errors.Is(err, ErrNotFound) {
			t.Errorf("%q may sign in: %v", email, err)
		}
	}
}
