package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grantkeeper/grantkeeper/store/engine"
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

// What another node may have done at the same time is waited for at the start.
func TestFirstElsewhere(t *testing.T) {
	for code, want := range map[string]bool{
		"42P07": true, "42710": true, "23505": true, "40001": true, "40P01": true, "55P03": true,
		"42P01": false, "23514": false, "57P01": false, "": false,
	} {
		if got := firstElsewhere(fmt.Errorf("start: %w", &pgconn.PgError{Code: code})); got != want {
			t.Errorf("%q: %v", code, got)
		}
	}
}

// What the server has undone is a failure like any other. Where nobody can know whether it
// was done, nothing says that it may be done again.
func TestSent(t *testing.T) {
	server := func(code string) error { return fmt.Errorf("move: %w", &pgconn.PgError{Code: code}) }
	for _, tt := range []struct {
		err              error
		outcome, unknown bool
	}{
		{nil, false, false},
		{server("40001"), false, false},
		{server("23505"), false, false},
		{server("57014"), false, false},
		{server("57P01"), true, false},
		{server("08P01"), true, false},
		{server("25006"), true, false},
		{io.ErrUnexpectedEOF, true, false},
		{os.ErrDeadlineExceeded, true, false},
		{notSent{}, true, true},
		{fmt.Errorf("%w: %w", pgx.ErrPreprocessingBatch{}, os.ErrDeadlineExceeded), false, false},
		{fmt.Errorf("%w: %w", pgx.ErrPreprocessingBatch{}, server("57P01")), false, false},
	} {
		got := sent(tt.err)
		if errors.Is(got, engine.ErrOutcome) != tt.outcome || errors.Is(got, errUnknown) != tt.unknown || (got == nil) != (tt.err == nil) || retryable(got) != (Code(tt.err) == "40001") {
			t.Errorf("%v: %v", tt.err, got)
		}
		if !tt.unknown && !errors.Is(got, tt.err) || tt.unknown && !strings.Contains(got.Error(), tt.err.Error()) {
			t.Errorf("%v became %v", tt.err, got)
		}
	}
}

// notSent is an error of pgx which says that the server was sent nothing.
type notSent struct{}

func (notSent) Error() string     { return "nothing was sent" }
func (notSent) SafeToRetry() bool { return true }

// A file that a connection string or the environment names is a regular one: a FIFO would
// keep the start waiting for ever. The error has the parameter, and not the password.
func TestFilesOfURL(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	const plain = "postgres://guest:hush@db.example/keeper?sslmode=disable"
	for _, f := range urlFiles {
		for _, name := range []string{t.TempDir(), fifo} { // a folder keeps nobody waiting who forgets to look
			refused := func(address string) {
				_, err := configOf(address)
				for _, err := range []error{err, CheckURL(address)} {
					if err == nil || !strings.Contains(err.Error(), f[0]+" "+name+": it is not a regular file") || strings.Contains(err.Error(), "hush") {
						t.Fatalf("%s %s: %v", f[0], name, err)
					}
				}
			}
			refused(plain + "&" + f[0] + "=" + url.QueryEscape(name))
			t.Setenv(f[1], name)
			refused(plain)
			t.Setenv(f[1], "")
		}
	}
	for _, none := range []string{"", "&passfile=" + os.DevNull, "&passfile=/none/such", "&sslrootcert=system"} {
		if err := CheckURL(strings.Replace(plain, "disable", "verify-full", 1) + none); err != nil {
			t.Errorf("%s: %v", none, err)
		}
	}
}

// What PostgreSQL cannot hold is U+FFFD, and all else is as it was.
func TestStorable(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "Åse\n": "Åse\n", "a\x00b": "a\uFFFDb", "\x00\x00": "\uFFFD\uFFFD", "\xff\xfeb": "\uFFFDb", "a\xff\x00": "a\uFFFD\uFFFD",
	} {
		if got := storable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A connection string has what it says, and beside it what a node needs: a bound for the
// connecting, servers that write, and a name in the server's lists.
func TestConfigOf(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u@h/d": "5s grantkeeper primary",
		"postgres://u@h/d?connect_timeout=9&application_name=mine": "9s mine primary",
		"postgres://u@h/d?target_session_attrs=read-write":         "5s grantkeeper its own",
	} {
		c, err := configOf(url)
		if err != nil {
			t.Fatal(err)
		}
		which := "its own"
		if reflect.ValueOf(c.ConnConfig.ValidateConnect).Pointer() == reflect.ValueOf(pgconn.ValidateConnectTargetSessionAttrsPrimary).Pointer() {
			which = "primary"
		}
		if got := fmt.Sprint(c.ConnConfig.ConnectTimeout, " ", c.ConnConfig.RuntimeParams["application_name"], " ", which); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
	for url, want := range map[string]string{
		"postgres://u:geheim@[::1/d":             "IPv6 host",
		"postgres://u:geheim@h/d?sslmode=geheim": "sslmode",
	} {
		_, err := configOf(url)
		if !errors.Is(err, ErrDatabase) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "write postgres://") || strings.Contains(err.Error(), "geheim@") {
			t.Errorf("%s: %v", url, err)
		}
		if check := CheckURL(url); check == nil || strings.Contains(check.Error(), "geheim@") {
			t.Errorf("%s: checked: %v", url, check)
		}
	}
	if err := CheckURL("postgres://u:geheim@h/d"); err != nil {
		t.Error(err)
	}
	if err := errors.New("of something else"); withoutURL(err) != err {
		t.Error(withoutURL(err))
	}
}

// Of a connection that commits nobody asks the server to stop: the driver would dial for it.
func TestACommitIsNotStopped(t *testing.T) {
	config, err := configOf("postgres://u@h/d")
	if err != nil {
		t.Fatal(err)
	}
	c := config.ConnConfig
	dialled := 0
	c.DialFunc = func(context.Context, string, string) (net.Conn, error) { dialled++; return nil, io.EOF }
	if err := config.BeforeConnect(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	conn, err := pgconn.Construct(&pgconn.HijackedConn{Config: &c.Config, CustomData: map[string]any{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.AfterConnect(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	on := conn.CustomData()[commitsName].(*atomic.Bool)
	for n, commits := range []bool{false, true, false} {
		on.Store(commits)
		before := dialled
		if _, err := c.DialFunc(t.Context(), "tcp", "h:1"); errors.Is(err, io.EOF) == commits || dialled-before != map[bool]int{false: 1}[commits] {
			t.Errorf("%d: commits %v: %v, dialled %d times", n, commits, err, dialled-before)
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
