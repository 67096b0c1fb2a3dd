package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"
)

// refreshesToGrow is how many refreshes -growth makes.
const refreshesToGrow = 100_000

// A growth is what refreshes leave behind.
type growth struct {
	Approvals int            `json:"approvals"`
	Refreshes int            `json:"refreshes"` // right answers
	Errors    int            `json:"errors"`
	Faults    map[string]int `json:"faults,omitempty"`
	Tables    []tableGrowth  `json:"tables"`
	Files     []fileGrowth   `json:"files"`
}

type tableGrowth struct {
	Table  string `json:"table" col:"table"`
	Before int64  `json:"rows_before" col:"rows before"`
	After  int64  `json:"rows_after" col:"after"`
	More   int64  `json:"rows_more" col:"more"`
}

// fileGrowth is the bytes of a file or, on PostgreSQL, of all tables or all
// indexes: before the server's start, when it was ready, after its last answer,
// and after it was stopped and, on PostgreSQL, a VACUUM.
type fileGrowth struct {
	File    string `json:"file" col:"bytes"`
	Before  int64  `json:"before" col:"before"`
	Ready   int64  `json:"ready" col:"ready"`
	After   int64  `json:"after" col:"after"`
	Stopped int64  `json:"stopped" col:"stopped"`
}

// A growing is the database that the refreshes are made on.
type growing struct {
	url, folder string
	tables      []string
	ask         asked
	weighed     []weighed
	vacuum      func() error
}

// A weighed is what has bytes: a file, or tables or indexes together.
type weighed struct {
	name  string
	bytes func() (int64, error)
}

func (b *bench) growth(ctx context.Context) (*growth, error) {
	folder, s, url, ask, err := b.placeNew(ctx, "growth", max(b.live, b.connections), nil)
	if err != nil {
		return nil, err
	}
	g, err := b.growing(folder, url, ask)
	if err != nil {
		return nil, err
	}
	out := g.growth(s.approvals)
	if err := b.grow(ctx, s, g, &out); err != nil || out.Errors > 0 {
		return &out, err
	}
	return &out, os.RemoveAll(folder)
}

func (b *bench) growing(folder, url string, ask asked) (growing, error) {
	g := growing{url: url, folder: folder, ask: ask}
	if b.postgres != nil {
		return g, g.onPostgres()
	}
	return g, g.onSQLite(filepath.Join(folder, databaseName))
}

// growth is the table that has nothing yet.
func (g growing) growth(approvals int) growth {
	out := growth{Approvals: approvals}
	for _, name := range g.tables {
		out.Tables = append(out.Tables, tableGrowth{Table: name})
	}
	for _, w := range g.weighed {
		out.Files = append(out.Files, fileGrowth{File: w.name})
	}
	return out
}

func (b *bench) grow(ctx context.Context, s *stock, g growing, out *growth) error {
	err := errors.Join(g.count(out, func(t *tableGrowth) *int64 { return &t.Before }),
		g.weigh(out, func(f *fileGrowth) *int64 { return &f.Before }))
	if err != nil {
		return err
	}
	srv, err := startServerOn(ctx, b.binary, g.folder, g.url, "", "")
	if err != nil {
		return err
	}
	defer srv.kill()
	if err := g.weigh(out, func(f *fileGrowth) *int64 { return &f.Ready }); err != nil {
		return err
	}
	begin := time.Now()
	r, err := b.players(refreshPlayer, s, srv.public).run(ctx, span{most: refreshesToGrow})
	if err != nil {
		return err
	}
	b.progress("  %d refreshes in %v", r.good, time.Since(begin).Round(time.Millisecond))
	out.Refreshes, out.Errors, out.Faults = r.good, r.bad, r.faults
	if err := g.weigh(out, func(f *fileGrowth) *int64 { return &f.After }); err != nil {
		return err
	}
	if err := errors.Join(srv.stop(), g.vacuum()); err != nil {
		return err
	}
	return errors.Join(g.count(out, func(t *tableGrowth) *int64 { return &t.After }),
		g.weigh(out, func(f *fileGrowth) *int64 { return &f.Stopped }))
}

// count and weigh write the rows and the bytes of this moment.
func (g growing) count(out *growth, at func(*tableGrowth) *int64) (err error) {
	for i := range out.Tables {
		t := &out.Tables[i]
		if *at(t), err = g.ask(fmt.Sprintf("SELECT COUNT(*) FROM %q", t.Table)); err != nil {
			return err
		}
		t.More = t.After - t.Before
	}
	return nil
}

func (g growing) weigh(out *growth, at func(*fileGrowth) *int64) (err error) {
	for i, w := range g.weighed {
		if *at(&out.Files[i]), err = w.bytes(); err != nil {
			return err
		}
	}
	return nil
}

// onSQLite is a database in a file, which needs no vacuum: a page that is free
// is written again.
func (g *growing) onSQLite(path string) (err error) {
	file := func(name, path string) weighed {
		return weighed{name, func() (int64, error) {
			info, err := os.Stat(path)
			if errors.Is(err, fs.ErrNotExist) {
				return 0, nil
			} else if err != nil {
				return 0, err
			}
			return info.Size(), nil
		}}
	}
	g.weighed = []weighed{file("database", path), file("write-ahead log", path+"-wal")}
	g.vacuum = func() error { return nil }
	db, err := sqlite3.Open("file:" + path + "?vfs=grantkeeper")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	st, _, err := db.Prepare(`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`)
	if err != nil {
		return err
	}
	defer st.Close()
	for st.Step() {
		g.tables = append(g.tables, st.ColumnText(0))
	}
	return st.Err()
}

// onPostgres weighs what is in tables and indexes themselves: the maps of free and
// visible rows beside them are VACUUM's.
func (g *growing) onPostgres() error {
	const ours = ` FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = `
	all := func(name, kind string) weighed {
		return weighed{name, func() (int64, error) { return g.ask(`SELECT SUM(pg_relation_size(oid))::BIGINT` + ours + kind) }}
	}
	g.weighed = []weighed{all("tables", `'r'`), all("indexes", `'i'`)}
	g.vacuum = func() error {
		return onURL(g.url, func(c *pgx.Conn) error { return execAll(context.Background(), c, []string{`VACUUM`}) })
	}
	return onURL(g.url, func(c *pgx.Conn) error {
		rows, err := c.Query(context.Background(), `SELECT relname`+ours+`'r' ORDER BY relname`)
		if err != nil {
			return err
		}
		g.tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
}

func printGrowth(w io.Writer, g growth) {
	fmt.Fprintf(w, "%s refreshes of %s approvals, %s errors\n\n",
		thousands(int64(g.Refreshes)), thousands(int64(g.Approvals)), thousands(int64(g.Errors)))
	printRows(w, g.Tables)
	fmt.Fprintln(w)
	printRows(w, g.Files)
	printFaults(w, "growth", g.Faults)
}
