package sqlite

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/ncruces/go-sqlite3"
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

// Connect opens a connection whose plans do not depend on what statements are given. Else a
// parameter that is compared with what an index asks of its rows has the statement prepared again
// for each value: half of what it took to look attempts up.
func (c calmly) Connect(ctx context.Context) (conn sqldriver.Conn, err error) {
	if err := c.holds(); err != nil {
		return nil, err
	}
	defer func() {
		if fault := recover(); fault != nil {
			conn, err = nil, fmt.Errorf("no room for a connection: %v; see ulimit -v", fault)
		}
	}()
	if conn, err = c.Connector.Connect(ctx); err != nil {
		return nil, err
	}
	own, err := driverConn(conn)
	if err == nil {
		_, err = own.Config(sqlite3.DBCONFIG_ENABLE_QPSG, true)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// raw has the driver's own connection used, by nobody else meanwhile.
func raw(conn *sql.Conn, use func(*sqlite3.Conn) error) error {
	return conn.Raw(func(c any) error {
		own, err := driverConn(c)
		if err != nil {
			return err
		}
		return use(own)
	})
}

func driverConn(c any) (*sqlite3.Conn, error) {
	d, ok := c.(driver.Conn)
	if !ok {
		return nil, errors.New("database: the driver is not the one that was built for")
	}
	return d.Raw(), nil
}
