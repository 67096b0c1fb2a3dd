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

func startPostgres() (*postgres, error) {
	s, err := pgtest.Start("shared_buffers = '256MB'", "max_wal_size = '4GB'")
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
	if err := s.writeFacts(ctx, store.Options{URL: p.URL(name)}); err != nil {
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

var approvalColumns = []string{"id", "client", "person", "organization", "grant_kind", "picks", "personal",
	"redirect_uri", "issuer", "challenge", "issued_at", "created_at", "replaces",
	"membership_epoch", "person_epoch", "organization_epoch", "client_epoch",
	"phase", "generation", "key_number", "reason", "ended_at"}

// copyApprovals writes the approvals past the store, and lets PostgreSQL look
// at what there is, as it does by itself after a while.
func (s *stock) copyApprovals(ctx context.Context, c *pgx.Conn) error {
	row := s.rows()
	_, err := c.CopyFrom(ctx, pgx.Identifier{"approval"}, approvalColumns, pgx.CopyFromSlice(s.approvals, func(number int) ([]any, error) {
		id, r := s.handle(number).ID(), row(number)
		return []any{id[:], r.client, r.person, r.organization, r.grant, r.picks, int64(0),
			redirectURI, issuer, challenge(), r.created, r.created, "", int64(0), int64(0), int64(0), int64(0),
			int64(r.phase), r.generation, min(r.generation, 1), r.reason, r.ended}, nil
	}))
	if err != nil {
		return err
	}
	for _, text := range []string{
		fmt.Sprintf(insertUses, s.made),
		`VACUUM ANALYZE`, `CHECKPOINT`,
	} {
		if _, err := c.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// update is the transaction of pgbench: one row by its key, in a table as wide
// as an approval and with the same room on its pages.
const update = "\\set id random(1, %d)\nUPDATE beside SET generation = generation + 1 WHERE id = :id;\n"

var tps = regexp.MustCompile(`tps = ([0-9.]+)`)

// pgbench gives how many single-row UPDATEs by primary key the server makes in
// a second, with as many connections and rows.
func (p *postgres) pgbench(ctx context.Context, connections, rows int, lasts time.Duration) (float64, error) {
	if p.rows != rows {
		if err := p.Exec(p.beside, `DROP TABLE IF EXISTS beside`,
			`CREATE TABLE beside (id BIGINT PRIMARY KEY, generation BIGINT NOT NULL, text TEXT NOT NULL) WITH (fillfactor = 50)`,
			`INSERT INTO beside SELECT g, 1, repeat('x', 420) FROM generate_series(1, `+strconv.Itoa(rows)+`) g`,
			`VACUUM ANALYZE beside`); err != nil {
			return 0, err
		}
		p.rows = rows
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
