package postgres

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What to do about an error of the start is true of that error: 08P01 is all that
// pgbouncer ever says, and few of its reasons are the mode of a URL.
func TestMend(t *testing.T) {
	c := &pgx.ConnConfig{Config: pgconn.Config{User: "guest", Database: "keeper", Host: "db.example", Port: 5432}}
	for _, tt := range []struct {
		code, text string
		want       string
	}{
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
	if got := Mend(errors.New("connection refused"), c, 16); !strings.Contains(got, "runs at db.example:5432") {
		t.Errorf("nobody there: %s", got)
	}
}
