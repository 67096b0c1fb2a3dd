package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"strings"
	"syscall"
	"testing"
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
