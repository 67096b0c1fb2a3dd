package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
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

func (p *postgres) stop() error { return p.Stop() }

// place is the bench's place on PostgreSQL.
func (p *postgres) place(ctx context.Context, s *stock, folder string) (string, func(string) (int64, error), error) {
	name, err := p.Database()
	if err != nil {
		return "", nil, err
	}
	asked := func(query string) (n int64, err error) {
		err = p.on(name, func(c *pgx.Conn) error { return c.QueryRow(context.Background(), query).Scan(&n) })
		return n, err
	}
	if err := s.writeKey(folder); err != nil {
		return "", nil, err
	}
	if err := s.writeFacts(ctx, store.Options{URL: p.URL(name)}, store.Directory{}); err != nil {
		return "", nil, fmt.Errorf("clients: %w", err)
	}
	if err := p.on(name, func(c *pgx.Conn) error { return s.copyDirectory(ctx, c) }); err != nil {
		return "", nil, fmt.Errorf("directory: %w", err)
	}
	if err := p.on(name, func(c *pgx.Conn) error { return s.copyApprovals(ctx, c) }); err != nil {
		return "", nil, fmt.Errorf("approvals: %w", err)
	}
	return p.URL(name), asked, nil
}

func (p *postgres) on(database string, do func(*pgx.Conn) error) error {
	return p.onURL(p.URL(database), do)
}

func (p *postgres) onURL(url string, do func(*pgx.Conn) error) error {
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return errors.Join(do(c), c.Close(ctx))
}

// copyDirectory writes the directory past the store, whose import plans each
// change of a million people by itself.
func (s *stock) copyDirectory(ctx context.Context, c *pgx.Conn) error {
	d := s.directory()
	for _, t := range []struct {
		name    string
		columns []string
		rows    int
		row     func(i int) []any
	}{
		{"person", []string{"id", "email", "email_key", "name", "active", "support", "epoch", "password"}, len(d.People), func(i int) []any {
			p := &d.People[i]
			return []any{p.ID, p.Email, p.Email, p.Name, int64(1), int64(0), int64(0), ""}
		}},
		{"organization", []string{"id", "name", "ai_integration", "epoch"}, len(d.Organizations), func(i int) []any {
			return []any{d.Organizations[i].ID, d.Organizations[i].Name, int64(1), int64(0)}
		}},
		{"membership", []string{"person", "organization", "admin", "present", "epoch"}, len(d.Members), func(i int) []any {
			admin := int64(0)
			if d.Members[i].Admin {
				admin = 1
			}
			return []any{d.Members[i].Person, d.Members[i].Organization, admin, int64(1), int64(0)}
		}},
		{"circle", []string{"id", "organization", "parent", "name"}, len(d.Circles), func(i int) []any {
			return []any{d.Circles[i].ID, d.Circles[i].Organization, d.Circles[i].Parent, d.Circles[i].Name}
		}},
		{"role", []string{"id", "organization", "circle", "name"}, len(d.Roles), func(i int) []any {
			return []any{d.Roles[i].ID, d.Roles[i].Organization, d.Roles[i].Circle, d.Roles[i].Name}
		}},
		{"filler", []string{"role", "person"}, len(d.Fillers), func(i int) []any {
			return []any{d.Fillers[i].Role, d.Fillers[i].Person}
		}},
	} {
		rows := pgx.CopyFromSlice(t.rows, func(i int) ([]any, error) { return t.row(i), nil })
		if _, err := c.CopyFrom(ctx, pgx.Identifier{t.name}, t.columns, rows); err != nil {
			return fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return nil
}

var approvalColumns = []string{"id", "client", "person", "organization", "grant_kind", "picks", "personal",
	"redirect_uri", "issuer", "challenge", "issued_at", "created_at", "replaces",
	"membership_epoch", "person_epoch", "organization_epoch", "client_epoch",
	"phase", "generation", "used_at", "key_number", "reason", "ended_at"}

// copyApprovals writes the approvals past the store, makes the indexes from
// what is there, and lets PostgreSQL look at it, as it does by itself after a
// while.
func (s *stock) copyApprovals(ctx context.Context, c *pgx.Conn) error {
	drop, build, err := indexesOn(ctx, c)
	if err != nil {
		return err
	}
	if err := execAll(ctx, c, append(drop, `SET maintenance_work_mem = '512MB'`, `SET work_mem = '512MB'`)); err != nil {
		return err
	}
	row, older := s.rows(), int64(0)
	if s.grown {
		older = monthOld
	}
	_, err = c.CopyFrom(ctx, pgx.Identifier{"approval"}, approvalColumns, pgx.CopyFromSlice(s.approvals, func(number int) ([]any, error) {
		id, r := s.handle(number).ID(), row(number)
		return []any{id[:], r.client, r.person, r.organization, r.grant, r.picks, int64(0),
			redirectURI, issuer, challenge(), r.created - older, r.created - older, "", int64(0), int64(0), int64(0), int64(0),
			int64(r.phase), r.generation, s.used(r), min(r.generation, 1), r.reason, r.ended}, nil
	}))
	if err != nil {
		return err
	}
	return execAll(ctx, c, append(build, `VACUUM ANALYZE`, `CHECKPOINT`))
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

// beside is what a line of progress says of pgbench.
func beside(rate float64) string {
	if rate == 0 {
		return ""
	}
	return fmt.Sprintf("  pgbench %8.0f/s", rate)
}
