package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// crowded has no room for a connection, as under ulimit -v.
type crowded struct{ sqldriver.Connector }

func (crowded) Connect(context.Context) (sqldriver.Conn, error) { panic(syscall.ENOMEM) }

func TestNoRoomForAConnection(t *testing.T) {
	c, err := calmly{crowded{}, func() error { return nil }}.Connect(context.Background())
	if c != nil || err == nil || !strings.Contains(err.Error(), "cannot allocate memory") {
		t.Errorf("got %v, %v", c, err)
	}
}

// A statement is prepared once, whatever values it is given and whatever indexes ask of them.
func TestStatementsArePreparedOnce(t *testing.T) {
	db, err := Connect(DSN(""))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.ExecContext(t.Context(), `CREATE TABLE x (id INTEGER PRIMARY KEY, of TEXT); CREATE INDEX x_of ON x (of) WHERE of <> ''; CREATE INDEX x_none ON x (id) WHERE of = ''`); err != nil {
		t.Fatal(err)
	}
	err = raw(conn, func(c *sqlite3.Conn) error {
		st, _, err := c.Prepare(`SELECT id FROM x WHERE of <> '' AND of = ?`)
		if err != nil {
			return err
		}
		defer st.Close()
		for _, value := range []string{"a", "", "b"} {
			if err := errors.Join(st.BindText(1, value), st.Exec()); err != nil {
				return err
			}
		}
		if n := st.Status(sqlite3.STMTSTATUS_REPREPARE, false); n != 0 {
			t.Errorf("it was prepared again %d times", n)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
