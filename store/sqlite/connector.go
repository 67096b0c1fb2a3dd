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
	return connectWhile(dsn, func() error { return nil })
}

// connectWhile is Connect where something has to hold whenever a connection is opened.
func connectWhile(dsn string, holds func() error) (*sql.DB, error) {
	c, err := (&driver.SQLite{}).OpenConnector(dsn)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(calmly{c, holds}), nil
}

// calmly makes an error of a panic of the driver.
type calmly struct {
	sqldriver.Connector
	holds func() error
}

// Connect opens a connection.
func (c calmly) Connect(ctx context.Context) (conn sqldriver.Conn, err error) {
	if err := c.holds(); err != nil {
		return nil, err
	}
	defer func() {
		if fault := recover(); fault != nil {
			conn, err = nil, fmt.Errorf("no room for a connection: %v; see ulimit -v", fault)
		}
	}()
	return c.Connector.Connect(ctx)
}
