package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"fmt"

	"github.com/ncruces/go-sqlite3/driver"
)

// Connect is sql.Open for a driver that panics where it cannot have the address
// space for a connection.
func Connect(dsn string) (*sql.DB, error) {
	c, err := (&driver.SQLite{}).OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(calmly{c}), nil
}

// calmly makes an error of a panic of the driver.
type calmly struct{ sqldriver.Connector }

// Connect opens a connection.
func (c calmly) Connect(ctx context.Context) (conn sqldriver.Conn, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			conn, err = nil, fmt.Errorf("no room for a connection: %v; see ulimit -v", fault)
		}
	}()
	return c.Connector.Connect(ctx)
}
