package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"

	"github.com/grantkeeper/grantkeeper/approval"
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
	Table  string `json:"table"`
	Before int64  `json:"rows_before"`
	After  int64  `json:"rows_after"`
}

// fileGrowth is the bytes of a file or, on PostgreSQL, of all tables or all
// indexes: before the server's start, when it was ready, after its last answer,
// and after it was stopped and, on PostgreSQL, a VACUUM.
type fileGrowth struct {
	File    string `json:"file"`
	Before  int64  `json:"before"`
	Ready   int64  `json:"ready"`
	After   int64  `json:"after"`
	Stopped int64  `json:"stopped"`
}

// A growing is the database that the refreshes are made on.
type growing struct {
	url, folder string
	tables      []string
	ask         func(query string) (int64, error)
	weighed     []weighed
	vacuum      func() error
}

// A weighed is what has bytes: a file, or tables or indexes together.
type weighed struct {
	name  string
	bytes func() (int64, error)
}

func (b *bench) growth(ctx context.Context) (out growth, err error) {
	folder, err := os.MkdirTemp(b.folder, "growth-")
	if err != nil {
		return out, err
	}
	s, err := newStock(max(b.live, b.connections), approval.Live)
	if err != nil {
		return out, err
	}
	b.progress("write %d approvals", s.approvals)
	g, err := b.growing(ctx, s, folder)
	if err != nil {
		return out, err
	}
	out = g.growth(s.approvals)
	if err := b.grow(ctx, s, g, &out); err != nil {
		return out, err
	}
	if out.Errors == 0 {
		err = os.RemoveAll(folder)
	}
	return out, err
}

// growing writes the stock.
func (b *bench) growing(ctx context.Context, s *stock, folder string) (g growing, err error) {
	g.folder = folder
	if g.url, g.ask, err = b.place(ctx, s, folder); err != nil {
		return g, err
	}
	if b.postgres != nil {
		return g, g.onPostgres(b.postgres)
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
	sc, err := scenarioOf("refresh")
	if err != nil {
		return err
	}
	begin := time.Now()
	r, err := b.players(sc.player, s, srv.public).run(ctx, span{most: refreshesToGrow})
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
	db, err := sqlite3.Open("file:" + path)
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
func (g *growing) onPostgres(p *postgres) error {
	const ours = ` FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = `
	all := func(name, kind string) weighed {
		return weighed{name, func() (int64, error) { return g.ask(`SELECT SUM(pg_relation_size(oid))::BIGINT` + ours + kind) }}
	}
	g.weighed = []weighed{all("tables", `'r'`), all("indexes", `'i'`)}
	g.vacuum = func() error {
		return p.onURL(g.url, func(c *pgx.Conn) error { return execAll(context.Background(), c, []string{`VACUUM`}) })
	}
	return p.onURL(g.url, func(c *pgx.Conn) error {
		rows, err := c.Query(context.Background(), `SELECT relname`+ours+`'r' ORDER BY relname`)
		if err != nil {
			return err
		}
		g.tables, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
}
