package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A size is what a server with so many live approvals costs.
type size struct {
	Approvals int     `json:"approvals" col:"approvals"`
	Ready     float64 `json:"ready_ms" col:"ready ms"` // from its start to the first 200 of /readyz
	Idle      int64   `json:"idle_bytes"`              // resident, a second later
	Load      int64   `json:"load_bytes"`              // resident, the most under load
	File      int64   `json:"file_bytes"`              // of the database and its write-ahead log
	IdleMiB   float64 `json:"idle_mib" col:"idle MiB,%.1f"`
	LoadMiB   float64 `json:"load_mib" col:"load MiB,%.1f"`
	// What each approval beyond those of the row before takes; 0 in the first
	// two rows.
	IdleEach float64        `json:"idle_bytes_per_further_approval" col:"idle B/approval"`
	LoadEach float64        `json:"load_bytes_per_further_approval" col:"load B/approval"`
	FileMiB  float64        `json:"file_mib" col:"file MiB,%.1f"`
	Errors   int            `json:"errors" col:"errors"`
	Faults   map[string]int `json:"faults,omitempty"`
}

// settling is how long a server is left alone before its memory is read.
const settling = time.Second

// sizes measures an empty database, one with b.live approvals and one with
// most.
func (b *bench) sizes(ctx context.Context, most int) ([]size, error) {
	counts := []int{0, b.live, most}
	slices.Sort(counts)
	var all []size
	for _, n := range slices.Compact(counts) {
		s, err := b.size(ctx, n)
		if err != nil {
			return all, fmt.Errorf("%d approvals: %w", n, err)
		}
		if len(all) > 1 {
			before := all[len(all)-1]
			further := float64(n - before.Approvals)
			s.IdleEach = float64(s.Idle-before.Idle) / further
			s.LoadEach = float64(s.Load-before.Load) / further
		}
		all = append(all, s)
	}
	return all, nil
}

// size measures one. No approvals means no database: the server makes it.
func (b *bench) size(ctx context.Context, approvals int) (out size, err error) {
	folder, err := os.MkdirTemp(b.folder, "size-")
	if err != nil {
		return out, err
	}
	s, err := newStock(approvals)
	if err != nil {
		return out, err
	}
	b.progress("write %d approvals", approvals)
	if approvals == 0 {
		err = s.writeKey(folder)
	} else {
		err = s.write(ctx, folder)
	}
	if err != nil {
		return out, err
	}
	srv, err := startServer(ctx, b.binary, folder)
	if err != nil {
		return out, err
	}
	defer srv.kill()
	out = size{Approvals: approvals, Ready: milliseconds(srv.ready)}
	time.Sleep(settling)
	if out.Idle, err = srv.resident(); err != nil {
		return out, err
	}
	if err := b.sizeUnderLoad(ctx, s, srv, &out); err != nil {
		return out, err
	}
	srv.kill()
	for _, name := range []string{databaseName, databaseName + "-wal"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err == nil {
			out.File += info.Size()
		}
	}
	out.IdleMiB, out.LoadMiB, out.FileMiB = mebibytes(out.Idle), mebibytes(out.Load), mebibytes(out.File)
	if out.Errors == 0 {
		err = os.RemoveAll(folder)
	}
	return out, err
}

// sizeUnderLoad looks at the memory while the server answers refreshes and calls; without
// approvals there is only metadata to ask for.
func (b *bench) sizeUnderLoad(ctx context.Context, s *stock, srv *server, out *size) error {
	players := []playing{refreshPlayer, verifyPlayer}
	if s.approvals < b.connections {
		players = []playing{metadataPlayer}
	}
	watched, stop := srv.watch()
	var total run
	for _, of := range players {
		r, err := b.players(of, s, srv.public).run(ctx, span{lasts: b.lasts})
		if err != nil {
			return err
		}
		b.progress("  %8.0f/s", r.rate())
		total.merge(r)
	}
	stop()
	out.Load, out.Errors, out.Faults = <-watched, total.bad, total.faults
	return nil
}

// watch reads the memory every 50 ms until stop, and then gives the most.
func (s *server) watch() (most <-chan int64, stop func()) {
	result, end := make(chan int64, 1), make(chan struct{})
	go func() {
		t := time.NewTicker(50 * time.Millisecond)
		defer t.Stop()
		top := int64(0)
		for {
			if now, err := s.resident(); err == nil {
				top = max(top, now)
			}
			select {
			case <-t.C:
			case <-end:
				result <- top
				return
			}
		}
	}()
	return result, func() { close(end) }
}
