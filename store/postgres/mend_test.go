package postgres

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/schema"
)

// What to do about an error of the start is true of that error: 08P01 is all that
// pgbouncer ever says, and few of its reasons are the mode of a URL.
func TestMend(t *testing.T) {
	c := &pgx.ConnConfig{Config: pgconn.Config{User: "guest", Database: "keeper", Host: "db.example", Port: 5432}}
	for _, tt := range []struct {
		code, text string
		want       string
	}{
		{"28P01", `password authentication failed for user "guest"`, "refuses user guest"},
		{"28000", `role "guest" is not permitted to log in`, "refuses user guest"},
		{"55P03", "canceling statement due to lock timeout", "somebody holds the table"},
		{"42501", "permission denied for schema public", "ALTER DATABASE keeper OWNER TO guest"},
		{"42704", `unrecognized configuration parameter "nonsense"`, "a parameter that stands in database.url"},
		{"3F000", "no schema has been selected to create in", "CREATE SCHEMA"},
		{"25006", "cannot execute INSERT in a read-only transaction", "target_session_attrs=read-write"},
		{"57P03", "the database system is starting up", "starting or stopping"},
		{"42P05", `prepared statement "stmtcache_1" already exists`, "?default_query_exec_mode=exec"},
		{"53100", "could not extend file: No space left on device", "the server's disk is full"},
		{"XX000", `could not write init file: No space left on device`, "the server's disk is full"},
		{"XX000", "standby mode, and server refused TLS", "runs at db.example:5432"},
		{"57014", "canceling statement due to statement timeout", "ALTER ROLE guest SET statement_timeout = 0"},
		{"3D000", `database "keeper" does not exist`, "createdb --encoding UTF8 --template template0 keeper"},
		{"53300", "too many clients already", "opens up to 16"},
		{"26000", `prepared statement "stmtcache_1" does not exist`, "?default_query_exec_mode=exec"},
		{"08P01", `bind message supplies 2 parameters, but prepared statement "" requires 1`, "?default_query_exec_mode=exec"},
		{"08P01", "server login has been failing, try again later (server_login_retry)", "pgbouncer reaches no PostgreSQL"},
		{"08P01", "pgbouncer cannot connect to server", "pgbouncer reaches no PostgreSQL"},
		{"08P01", "unsupported startup parameter: search_path", "ignore_startup_parameters"},
		{"08P01", "no such database: keeper", "pgbouncer's log, or the server's"},
	} {
		err := error(&pgconn.PgError{Severity: "FATAL", Code: tt.code, Message: tt.text})
		for _, err := range []error{err, fmt.Errorf("the start: %w", err)} {
			got := Mend(err, c, 16)
			if !strings.Contains(got, tt.want) || strings.Contains(got, "exec_mode") != strings.Contains(tt.want, "exec_mode") {
				t.Errorf("%v: %s; want %s", err, got, tt.want)
			}
		}
	}
	for text, want := range map[string]string{
		"connection refused":                         "runs at db.example:5432",
		"ValidateConnect: server is in standby mode": "it is a standby: name the primary",
		"tls error: server refused TLS connection":   "the server offers no TLS",
	} {
		if got := Mend(errors.New(text), c, 16); !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", text, got, want)
		}
	}
	for code, want := range map[string]string{"42501": "as the owner of the tables", "42804": "it has changed nothing", "53100": "the server's disk is full"} {
		_, _, err := schema.Options{Migrations: schema.Migrations()}.Run(schema.Version-1, func(schema.Migration) error { return &pgconn.PgError{Code: code} })
		if got := Mend(err, c, 16); !strings.Contains(got, want) {
			t.Errorf("%v: %s; want %s", err, got, want)
		}
	}
	_, _, gone := schema.Options{Migrations: schema.Migrations()}.Run(schema.Version-1, func(schema.Migration) error { return io.ErrUnexpectedEOF })
	if got := Mend(gone, c, 16); !strings.Contains(got, "runs at db.example:5432") {
		t.Errorf("%v: %s", gone, got)
	}
}

// What a server says of the database is told from what it says of itself, of who asks or of
// now: only the first is so for every other who connects by this URL.
func TestWhatIsKnownOfTheDatabase(t *testing.T) {
	const open, with = "postgres://guest@db.example/keeper", "postgres://guest:geheim@db.example/keeper"
	for _, tt := range []struct {
		code, url string
		want      error
	}{
		{"3D000", open, ErrAbsent},
		{"3F000", open, ErrDatabase},
		{"42501", open, ErrDatabase},
		{"42704", open, ErrDatabase},
		{"28P01", with, ErrDatabase},
		{"28P01", open + "?password=geheim", ErrDatabase},
		{"28P01", open, ErrUnexamined}, // it came from a file or a variable of who asks
		{"28000", with, ErrUnexamined}, // a user of the machine, or an address, that is refused
		{"53300", with, ErrUnexamined},
		{"57P03", with, ErrUnexamined},
		{"57014", with, ErrUnexamined},
		{"08P01", with, ErrUnexamined},
		{"", with, ErrUnexamined},
	} {
		err := error(&pgconn.PgError{Code: tt.code})
		if tt.code == "" {
			err = io.ErrUnexpectedEOF
		}
		err = away(t, tt.url).explain(fmt.Errorf("the start: %w", err))
		if !errors.Is(err, ErrDatabase) || errors.Is(err, ErrAbsent) != (tt.want == ErrAbsent) || errors.Is(err, ErrUnexamined) != (tt.want == ErrUnexamined) {
			t.Errorf("%s by %s: %v, want %v", tt.code, tt.url, err, tt.want)
		}
	}
}

// away is an engine whose pool has nobody to connect to.
func away(t *testing.T, url string) *Engine {
	t.Helper()
	p, err := askerOf(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Pool.Close)
	return p
}

// What is refused in words of ours is passed on as it is; of all else it is said what to
// mend, in one line and without the password of the connection string.
func TestExplain(t *testing.T) {
	p := away(t, "postgres://guest:geheim@db.example:5432/keeper?pool_max_conns=99")
	for _, known := range []error{ErrDatabase, schema.ErrVersion, schema.ErrUnfinished, engine.ErrKeys, engine.ErrNodes, engine.ErrInUse, engine.ErrNotEmpty, engine.ErrRow} {
		if err := fmt.Errorf("the start: %w", known); p.explain(err) != err {
			t.Errorf("%v: %v", err, p.explain(err))
		}
	}
	for text, want := range map[string]string{
		"database: refused\n\tby  db.example":            "database: the database cannot be used: refused by db.example; see that",
		"cannot dial postgres://guest:geheim@db.example": "database: the database cannot be used: it cannot be reached; see that",
		"ParseConfig: what was written":                  "database: the database cannot be used: it cannot be reached; see that",
	} {
		if err := p.explain(errors.New(text)); !errors.Is(err, ErrDatabase) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := away(t, "postgres://guest@db.example/keeper").explain(errors.New("refused")); !strings.Contains(err.Error(), ": refused;") {
		t.Errorf("without a password: %v", err)
	}
	for url, want := range map[string]string{"postgres://guest@db.example/keeper?pool_max_conns=99": "opens up to 99", "postgres://guest@db.example/keeper?pool_max_conns=2": fmt.Sprint("opens up to ", LeastConns)} {
		if err := away(t, url).explain(&pgconn.PgError{Code: "53300"}); !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}
