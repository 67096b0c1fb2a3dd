package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

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

// fileGrowth is a file's bytes: before the server's start, when it was ready,
// after its last answer, and after it was stopped.
type fileGrowth struct {
	File    string `json:"file"`
	Before  int64  `json:"before"`
	Ready   int64  `json:"ready"`
	After   int64  `json:"after"`
	Stopped int64  `json:"stopped"`
}

func (b *bench) growth(ctx context.Context) (growth, error) {
	folder, err := os.MkdirTemp(b.folder, "growth-")
	if err != nil {
		return growth{}, err
	}
	s, err := newStock(max(b.live, b.connections), approval.Live)
	if err != nil {
		return growth{}, err
	}
	b.progress("write %d approvals", s.approvals)
	if err := s.write(ctx, folder); err != nil {
		return growth{}, err
	}
	path := filepath.Join(folder, databaseName)
	out := growth{Approvals: s.approvals, Files: []fileGrowth{{File: "database"}, {File: "write-ahead log"}}}
	if out.Tables, err = countRows(path, nil); err != nil {
		return out, err
	}
	if err := b.grow(ctx, s, folder, &out); err != nil {
		return out, err
	}
	if out.Tables, err = countRows(path, out.Tables); err != nil {
		return out, err
	}
	if out.Errors == 0 {
		err = os.RemoveAll(folder)
	}
	return out, err
}

func (b *bench) grow(ctx context.Context, s *stock, folder string, out *growth) error {
	look := func(at func(*fileGrowth) *int64) {
		for i, name := range []string{databaseName, databaseName + "-wal"} {
			if info, err := os.Stat(filepath.Join(folder, name)); err == nil {
				*at(&out.Files[i]) = info.Size()
			}
		}
	}
	look(func(f *fileGrowth) *int64 { return &f.Before })
	srv, err := startServer(ctx, b.binary, folder)
	if err != nil {
		return err
	}
	defer srv.kill()
	look(func(f *fileGrowth) *int64 { return &f.Ready })
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
	look(func(f *fileGrowth) *int64 { return &f.After })
	if err := srv.stop(); err != nil {
		return err
	}
	look(func(f *fileGrowth) *int64 { return &f.Stopped })
	return nil
}

// countRows counts the rows of every table: into rows before, or where those
// are given, into rows after.
func countRows(path string, before []tableGrowth) (all []tableGrowth, err error) {
	db, err := sqlite3.Open("file:" + path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	st, _, err := db.Prepare(`SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	known := map[string]int64{}
	for _, t := range before {
		known[t.Table] = t.Before
	}
	for st.Step() {
		name := st.ColumnText(0)
		n, err := ask(path, fmt.Sprintf("SELECT COUNT(*) FROM %q", name))
		if err != nil {
			return nil, err
		}
		t := tableGrowth{Table: name, Before: n}
		if before != nil {
			t.Before, t.After = known[name], n
		}
		all = append(all, t)
	}
	return all, st.Err()
}
