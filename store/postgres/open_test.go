package postgres

import (
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What is worth trying again, and what says of a connection alone that it is gone, is
// told by the server's code, or where there is none by the kind of the error.
func TestErrorsOfConnections(t *testing.T) {
	server := func(code string) error { return fmt.Errorf("move: %w", &pgconn.PgError{Code: code}) }
	for _, tt := range []struct {
		err   error
		code  string
		again bool
		gone  bool
	}{
		{server("40001"), "40001", true, false},
		{server("40P01"), "40P01", true, false},
		{server("23505"), "23505", false, false},
		{server("25006"), "25006", false, true},
		{server("57P01"), "57P01", false, true},
		{server("57014"), "57014", false, false},
		{server("08006"), "08006", false, true},
		{server("53100"), "53100", false, false},
		{driver.ErrBadConn, "", false, true},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, "", false, true},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, "", false, false},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), "", false, true},
		{errors.New("conn closed"), "", false, true},
		{errors.New("no such thing"), "", false, false},
	} {
		if c, again, gone := Code(tt.err), retryable(tt.err), cut(tt.err); c != tt.code || again != tt.again || gone != tt.gone {
			t.Errorf("%v: %q, again %v, gone %v", tt.err, c, again, gone)
		}
	}
}

// A database is named by where it is, and never with its password.
func TestNames(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://user:secret@db.example:5433/grants":      "postgres grants at db.example:5433",
		"postgres://user:secret@[::1]:5432/grants":           "postgres grants at [::1]:5432",
		"postgres://user:secret@db.example:none/grants":      "postgres",
		"postgres://user:secret@db.example/grants?sslmode=x": "postgres",
	} {
		if got := NameOf(url); got != want || strings.Contains(got, "secret") {
			t.Errorf("%s: %s", url, got)
		}
	}
}
