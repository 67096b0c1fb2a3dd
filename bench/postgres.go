package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// A postgres is a server of PostgreSQL with a database for each scenario, and
// one more for pgbench.
type postgres struct {
	*pgtest.Server
	beside string // pgbench's database
	rows   int    // of its table
}

// startPostgres starts one with so much memory of its own, as shared_buffers, and more
// settings.
func startPostgres(buffers string, more ...string) (*postgres, error) {
	s, err := pgtest.Start(append(more, "shared_buffers = '"+buffers+"'", "max_wal_size = '4GB'")...)
	if err != nil {
		return nil, err
	}
	p := &postgres{Server: s}
	if p.beside, err = s.Database(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return p, nil
}

// place is the bench's place on PostgreSQL, which looks at what is there, as it does by
// itself after a while.
func (p *postgres) place(ctx context.Context, s *stock, folder string) (string, asked, error) {
	name, err := p.Database()
	if err != nil {
		return "", nil, err
	}
	ask := func(query string) (n int64, err error) {
		err = onURL(p.URL(name), func(c *pgx.Conn) error { return c.QueryRow(context.Background(), query).Scan(&n) })
		return n, err
	}
	if err := errors.Join(s.writeKey(folder), s.writeClients(ctx, store.Options{URL: p.URL(name)})); err != nil {
		return "", nil, err
	}
	return p.URL(name), ask, onURL(p.URL(name), func(c *pgx.Conn) error {
		drop, build, err := indexesOn(ctx, c)
		if err != nil {
			return err
		}
		if err := execAll(ctx, c, append(drop, `SET maintenance_work_mem = '512MB'`, `SET work_mem = '512MB'`)); err != nil {
			return err
		}
		for _, t := range s.tables() {
			next, stop := iter.Pull(t.rows)
			defer stop()
			rows := pgx.CopyFromFunc(func() ([]any, error) { row, _ := next(); return row, nil })
			if _, err := c.CopyFrom(ctx, pgx.Identifier{t.name}, strings.Fields(t.columns), rows); err != nil {
				return fmt.Errorf("%s: %w", t.name, err)
			}
		}
		return execAll(ctx, c, append(build, `VACUUM ANALYZE`, `CHECKPOINT`))
	})
}

func onURL(url string, do func(*pgx.Conn) error) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(ctx))
}

// indexesOn gives what drops the indexes of the approvals, and what makes them
// again.
func indexesOn(ctx context.Context, c *pgx.Conn) (drop, build []string, err error) {
	rows, err := c.Query(ctx, `SELECT indexname, indexdef FROM pg_indexes
		WHERE schemaname = current_schema() AND tablename = 'approval' AND indexname <> 'approval_pkey'`)
	if err != nil {
		return nil, nil, err
	}
	drop, build = []string{`ALTER TABLE approval DROP CONSTRAINT approval_pkey`}, []string{`ALTER TABLE approval ADD PRIMARY KEY (id)`}
	var name, text string
	_, err = pgx.ForEachRow(rows, []any{&name, &text}, func() error {
		drop, build = append(drop, `DROP INDEX `+name), append(build, text)
		return nil
	})
	return drop, build, err
}

func execAll(ctx context.Context, c *pgx.Conn, texts []string) error {
	for _, text := range texts {
		if _, err := c.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// update is the transaction of pgbench: one row by its key, in a table whose pages
// hold as many rows as those of the approvals, ten, and as much room.
const update = "\\set id random(1, %d)\nUPDATE beside SET generation = generation + 1 WHERE id = :id;\n"

// preparePgbench writes its table, unless it is there.
func (p *postgres) preparePgbench(rows int) error {
	if p.rows == rows {
		return nil
	}
	p.rows = rows
	return p.Exec(p.beside, `DROP TABLE IF EXISTS beside`,
		`CREATE TABLE beside (id BIGINT NOT NULL, generation BIGINT NOT NULL, text TEXT NOT NULL) WITH (fillfactor = 50)`,
		`INSERT INTO beside SELECT g, 1, repeat('x', 355) FROM generate_series(1, `+strconv.Itoa(rows)+`) g`,
		`ALTER TABLE beside ADD PRIMARY KEY (id)`,
		`VACUUM ANALYZE beside`, `CHECKPOINT`)
}

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// warm reads tables and indexes into PostgreSQL's own memory, as far as there is
// room: as they are on a server that has run for a while, and not as what went
// before left them. What that has changed is on the disk then.
func (p *postgres) warm(database string, relations ...string) error {
	texts := []string{`CREATE EXTENSION IF NOT EXISTS pg_prewarm`}
	for _, name := range relations {
		texts = append(texts, `SELECT pg_prewarm('`+name+`')`)
	}
	return p.Exec(database, append(texts, `CHECKPOINT`)...)
}

// pgbench gives how many single-row UPDATEs by primary key the server makes in
// a second, with as many connections and rows.
func (p *postgres) pgbench(ctx context.Context, connections, rows int, lasts time.Duration) (float64, error) {
	if err := p.preparePgbench(rows); err != nil {
		return 0, err
	}
	file, err := os.CreateTemp("", "grantkeeper-update")
	if err != nil {
		return 0, err
	}
	defer os.Remove(file.Name())
	if _, err := fmt.Fprintf(file, update, rows); err != nil {
		return 0, err
	}
	if err := errors.Join(file.Chmod(0o644), file.Close()); err != nil {
		return 0, err
	}
	seconds := strconv.Itoa(max(1, int(lasts.Round(time.Second)/time.Second)))
	out, err := p.Command("pgbench", "-n", "-M", "prepared", "-c", strconv.Itoa(connections), "-j", "2", "-T", seconds,
		"-f", file.Name(), p.URL(p.beside)).CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, out)
	}
	found := tps.FindSubmatch(out)
	if found == nil {
		return 0, fmt.Errorf("pgbench says no rate: %s", out)
	}
	return strconv.ParseFloat(string(found[1]), 64)
}

// lap is pgbench in turn with others.
func (p *postgres) lap(connections, rows int) *lap {
	return &lap{name: "pgbench", do: func(ctx context.Context, s span) (run, error) {
		rate, err := p.pgbench(ctx, connections, rows, s.lasts)
		return run{good: int(1000 * rate), elapsed: 1000 * time.Second}, err
	}}
}
