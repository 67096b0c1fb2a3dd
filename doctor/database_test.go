package doctor

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/token"
)

// working is a configuration whose database a server works on.
func working(t *testing.T) config.Checked {
	t.Helper()
	c := healthy(t).Checked
	s, err := store.Open(t.Context(), store.Options{Path: c.Path, Ring: c.Ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return c
}

// Beside what the server says, its database and its keys are looked at where they are: what
// would stop the next start is told while there is time.
func TestDoctorLooksBesideTheServer(t *testing.T) {
	for what, tt := range map[string]struct {
		spoil func(t *testing.T, d *Examination)
		want  string // "" is nothing
	}{
		"as it should be": {func(*testing.T, *Examination) {}, ""},
		"another database": {func(_ *testing.T, d *Examination) { d.Checked.Path += ".other" },
			"fail .other is not there, or empty: the server that answers works on another database"},
		"an empty file in its place": {func(t *testing.T, d *Examination) {
			d.Checked.Path += ".other"
			if err := os.WriteFile(d.Checked.Path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "fail .other is not there, or empty: the server that answers works on another database"},
		"something else in its place": {func(t *testing.T, d *Examination) { d.Checked.Path = d.Checked.SecretKeyFile },
			"fail the server could not be restarted: database: /secret.key: not a database of Grantkeeper"},
		"another key": {func(t *testing.T, d *Examination) {
			if err := os.WriteFile(d.Checked.SecretKeyFile, []byte(base64.StdEncoding.EncodeToString([]byte("another key, that is not the one"))), 0o600); err != nil {
				t.Fatal(err)
			}
			again, err := d.Loaded.Check()
			if err != nil {
				t.Fatal(err)
			}
			d.Checked.Ring = again.Ring
		}, "fail the server could not be restarted: secret key: "},
		"another server is asked":    {func(_ *testing.T, d *Examination) { d.Operator, d.Checked.Path = "http://127.0.0.1:9081", "/nowhere" }, ""},
		"no server answers":          {func(_ *testing.T, d *Examination) { d.StatusErr, d.Checked.Path = context.Canceled, "/nowhere" }, ""},
		"dev needs no configuration": {func(_ *testing.T, d *Examination) { d.Dev, d.Checked.Path = true, "/nowhere" }, ""},
	} {
		t.Run(what, func(t *testing.T) {
			d := healthy(t)
			d.Checked.Path = working(t).Path
			tt.spoil(t, d)
			d.bases = nil
			d.Ask(t.Context(), nil, []string{"database"}, func(context.Context) {})
			var told []string
			for _, f := range d.beside {
				told = append(told, f.Result+" "+f.Text)
			}
			if got := strings.Join(told, "\n"); tt.want == "" && got != "" || !strings.HasPrefix(strings.ReplaceAll(strings.ReplaceAll(got, filepath.Dir(d.Checked.Path), ""), "/grantkeeper.db.other", ".other"), tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if d.StatusErr == nil && !slices.Equal(d.checkDatabase()[1:], d.beside) {
				t.Errorf("the lines are %+v", d.checkDatabase())
			}
		})
	}
}

// The same on PostgreSQL, of which the store says what mends it.
func TestDoctorLooksBesideTheServerOnPostgres(t *testing.T) {
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	empty, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	if err := pg.Exec(empty, `CREATE ROLE elsewhere NOLOGIN`); err != nil {
		t.Fatal(err)
	}
	c := healthy(t).Checked
	for url, want := range map[string]string{
		pg.URL(empty):                 "fail the tables are made at the first start: the server that answers works on another database",
		pg.URL("absent"):              "fail is not there: the server that answers works on another database",
		pg.URL(empty) + "&nonsense=1": "fail the server could not be restarted: database: ",
		strings.Replace(pg.URL(empty), fmt.Sprint(pg.Port()), fmt.Sprint(port), 1): "warn the configured database was not examined from here: ",
		pg.URL(empty) + "&user=elsewhere":                                          "warn the server refuses user elsewhere", // who may be let in as another user of the machine
	} {
		c.Path, c.Postgres = "", url
		all := examineRunning(t.Context(), c)
		if len(all) != 1 || all[0].Result != strings.Fields(want)[0] || !strings.Contains(all[0].Text+all[0].Fix, want[len("fail "):]) {
			t.Errorf("%s: %+v, want %q", url, all, want)
		}
	}

	old, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	c.Postgres = pg.URL(old)
	s, err := store.Open(t.Context(), store.Options{URL: c.Postgres, Ring: c.Ring})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), pg.Exec(old, `UPDATE meta SET value = '1' WHERE name IN ('schema', 'schema_oldest')`)); err != nil {
		t.Fatal(err)
	}
	takesForward(t, c, fmt.Sprintf("postgres %s at 127.0.0.1:%d", old, pg.Port()))
}

// An older schema is a fault, unless the start takes it forward.
func TestDatabaseOfAnOlderSchema(t *testing.T) {
	c := healthy(t).Checked
	ring, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{1}))
	if err != nil {
		t.Fatal(err)
	}
	c.Ring = ring
	if err := store.Unpack("../store/testdata/schema-0001.db.gz", c.Path); err != nil {
		t.Fatal(err)
	}
	takesForward(t, c, "sqlite "+c.Path)
}

func takesForward(t *testing.T, c config.Checked, name string) {
	t.Helper()
	if text, err := Database(t.Context(), c); fault.CodeOf(err) != fault.State {
		t.Errorf("%s, %v", text, err)
	}
	c.Database.AutoMigrate = true
	want := fmt.Sprintf("%s, schema 1, is taken to %d at the start", name, store.SchemaVersion)
	if text, err := Database(t.Context(), c); err != nil || !strings.HasPrefix(text, want) {
		t.Errorf("%s, %v; want %s", text, err, want)
	}
	other, err := token.NewRing("sv", 1, token.NewKey(1, [32]byte{2}))
	if err != nil {
		t.Fatal(err)
	}
	c.Ring = other
	if text, err := Database(t.Context(), c); fault.CodeOf(err) != fault.Config {
		t.Errorf("with another key: %s, %v", text, err)
	}
}

// What is known of a server that somebody named is what it says.
func TestDoctorSaysWhatItDoesNotLookAt(t *testing.T) {
	d := healthy(t)
	d.Elsewhere = true
	if f := d.Findings([]string{"database"})[0]; f.Result != "ok" || !strings.HasPrefix(f.Text, "as http://127.0.0.1:8081 says, and not looked at from here, schema ") {
		t.Errorf("%+v", f)
	}
	d.Checked.Postgres, d.Status.Integrity = "postgres://db.example/here", "damaged: there" // of the configuration here
	if f := d.Findings([]string{"database"})[0]; f.Result != "fail" || !strings.Contains(f.Text, "damaged: there") {
		t.Errorf("%+v", f)
	}
}

// To look at a database leaves nothing beside it, and nothing changed.
func TestDatabaseLeavesNothing(t *testing.T) {
	c := healthy(t).Checked
	if text, err := Database(t.Context(), c); err != nil || !strings.HasSuffix(text, "is made at the first start") {
		t.Errorf("%s, %v", text, err)
	}
	if left, err := os.ReadDir(filepath.Dir(c.Path)); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
