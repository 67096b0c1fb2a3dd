package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/ncruces/go-sqlite3"
)

// Rows and bytes that come and go are seen, on both engines.
func TestGrowing(t *testing.T) {
	p := smallPostgres(t)
	for name, engine := range map[string]*postgres{"SQLite": nil, "PostgreSQL": p} {
		t.Run(name, func(t *testing.T) {
			s, err := newStock(2000)
			if err != nil {
				t.Fatal(err)
			}
			folder := t.TempDir()
			b := &bench{postgres: engine}
			url, ask, err := b.place(context.Background(), s, folder)
			if err != nil {
				t.Fatal(err)
			}
			g, err := b.growing(folder, url, ask)
			if err != nil {
				t.Fatal(err)
			}
			do := func(texts ...string) error {
				if engine != nil {
					return onURL(g.url, func(c *pgx.Conn) error { return execAll(context.Background(), c, texts) })
				}
				db, err := sqlite3.Open("file:" + folder + "/" + databaseName + "?vfs=grantkeeper")
				if err != nil {
					return err
				}
				defer db.Close()
				for _, text := range texts {
					if err := db.Exec(text); err != nil {
						return err
					}
				}
				return nil
			}
			out := g.growth(2000)
			all := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			all(g.count(&out, func(t *tableGrowth) *int64 { return &t.Before }))
			all(g.weigh(&out, func(f *fileGrowth) *int64 { return &f.Before }))
			all(do(`DELETE FROM filler`, `CREATE TABLE beside AS SELECT a.* FROM approval a, (SELECT 1 FROM client LIMIT 10) c`, `CREATE INDEX on_beside ON beside (id)`))
			all(g.weigh(&out, func(f *fileGrowth) *int64 { return &f.After }))
			all(g.vacuum())
			all(g.count(&out, func(t *tableGrowth) *int64 { return &t.After }))
			all(g.weigh(&out, func(f *fileGrowth) *int64 { return &f.Stopped }))

			rows := map[string]tableGrowth{}
			for _, of := range out.Tables {
				rows[of.Table] = of
			}
			if a, f := rows["approval"], rows["filler"]; a.Before != 2000 || a.After != 2000 || f.Before == 0 || f.After != 0 {
				t.Errorf("%+v, %+v", a, f)
			}
			if len(out.Files) != 2 {
				t.Errorf("%+v", out.Files)
			}
			for _, f := range out.Files {
				switch f.File {
				case "database", "indexes":
					if f.Before == 0 || f.After <= f.Before {
						t.Errorf("%+v", f)
					}
				case "tables": // the empty one is given back
					if f.Before == 0 || f.After <= f.Before || f.Stopped >= f.After {
						t.Errorf("%+v", f)
					}
				case "write-ahead log": // nobody has it open
					if f.After != 0 {
						t.Errorf("%+v", f)
					}
				default:
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
