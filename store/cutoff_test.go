package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/grantkeeper/grantkeeper/store/postgres"
)

// scissors cut one connection, when as many things were sent as are left. What nobody waits
// for is not counted: the end of a transaction or a connection, and a request to stop.
type scissors struct {
	left     atomic.Int64
	atCommit atomic.Bool // it was a commit that was cut off
}

type cuttable struct {
	net.Conn
	by *scissors
}

// Write loses what it cuts off, as a server does that stops.
func (c *cuttable) Write(b []byte) (int, error) {
	ends := b[0] == 'X' || bytes.Contains(bytes.ToLower(b), []byte("rollback"))
	stops := len(b) >= 8 && binary.BigEndian.Uint32(b[4:]) == 80877102
	if !ends && !stops && c.by.left.Add(-1) == 0 {
		c.by.atCommit.Store(bytes.Contains(b, []byte("COMMIT\x00")))
		return len(b), c.Close()
	}
	return c.Conn.Write(b)
}

// cutting gives scissors for all connections that name themselves so.
func cutting(t *testing.T, name string) *scissors {
	t.Helper()
	s := &scissors{}
	postgres.ConfigOf = func(c *pgxpool.Config) {
		if c.ConnConfig.RuntimeParams["application_name"] != name {
			return
		}
		dial := c.ConnConfig.DialFunc
		c.ConnConfig.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &cuttable{conn, s}, nil
		}
	}
	t.Cleanup(func() { postgres.ConfigOf = nil })
	return s
}

// Whoever is cut off from the server half-way, whatever was asked of it last, is told so; it has
// found nothing good that it has not seen, leaves no connection, and the next try is as good as
// the first.
func TestCutOffHalfWay(t *testing.T) {
	if embedded() {
		return
	}
	const name = "cutoff"
	empty := func() string { return at(t, "", Options{}).URL }
	used := func() string {
		h := furnished(t)
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
		return at(t, h.path, Options{}).URL
	}
	start := func(url string) (io.Closer, error) { return Open(ctx, Options{URL: url, Ring: ring(t)}) }
	look := func(url string) (io.Closer, error) { _, _, err := InspectURL(ctx, url, ring(t)); return nil, err }
	migrate := func(url string) (io.Closer, error) {
		_, _, err := Migrate(ctx, MigrateOptions{URL: url, Ring: ring(t), Migrations: next(aColumn + `UPDATE client SET note = 'x';`)})
		return nil, err
	}
	for _, tt := range []struct {
		name string
		of   func() string
		do   func(url string) (io.Closer, error)

		again bool // a commit of unknown outcome is tried again: what it made is found then
	}{
		{"a start that makes the tables", empty, start, false},
		{"a start", used, start, false},
		{"a look at no tables", empty, look, false},
		{"a look", used, look, false},
		{"a migration", used, migrate, true},
		{"a copy of it", used, func(url string) (io.Closer, error) { return postgres.CopyFrom(ctx, url, ring(t)) }, false},
		{"a copy into it", empty, func(url string) (io.Closer, error) { return postgres.CopyTo(ctx, url, "test") }, false},
		{"a change without keys", used, func(url string) (io.Closer, error) { return postgres.OpenAlone(ctx, url) }, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := tt.of() + "&application_name=" + name
			by, through := cutting(t, name), false
			for n := int64(1); !through && n < 1000; n++ {
				by.left.Store(n)
				by.atCommit.Store(false)
				made, err := tt.do(url)
				if through = by.left.Swap(0) > 0; through != (err == nil) && !(tt.again && by.atCommit.Load()) {
					t.Errorf("cut off at %d: %v, through: %v", n, err, through)
				}
				if err != nil && (!errors.Is(err, ErrDatabase) || !strings.Contains(err.Error(), "see that PostgreSQL runs")) {
					t.Errorf("cut off at %d, and told to mend something else: %v", n, err)
				}
				if err == nil && made != nil {
					if err := made.Close(); err != nil {
						t.Error(err)
					}
				}
			}
			if !through {
				t.Error("it never comes through")
			}
			conn, err := pgx.Connect(ctx, server.URL("postgres"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(ctx)
			until(t, "no connection is left", func() bool {
				var n int
				if err := conn.QueryRow(ctx, `SELECT COUNT(*) FROM pg_stat_activity WHERE application_name = $1`, name).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n == 0
			})
		})
	}
}
