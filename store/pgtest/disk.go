package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// Disk is a small disk in memory that can be filled up.
type Disk struct{ dir string }

// Disk makes one of that many bytes for the server. Only root may.
func (s *Server) Disk(bytes int64) (*Disk, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, err
	}
	owner := ""
	if s.as != nil {
		owner = fmt.Sprintf(",uid=%d,gid=%d", s.as.Uid, s.as.Gid)
	}
	return mount(dir, bytes, owner)
}

// NewDisk makes one of that many bytes for this process. Only root may.
func NewDisk(bytes int64) (*Disk, error) {
	dir, err := os.MkdirTemp("", "grantkeeper-disk")
	if err != nil {
		return nil, err
	}
	return mount(dir, bytes, "")
}

func mount(dir string, bytes int64, owner string) (*Disk, error) {
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%d,mode=0700%s", bytes, owner), "grantkeeper-test", dir).CombinedOutput()
	if err != nil {
		os.Remove(dir)
		return nil, fmt.Errorf("a disk that can be full is a tmpfs, which only root may mount: mount: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return &Disk{dir}, nil
}

// Fill takes all the room that there is.
func (d *Disk) Fill() error {
	f, err := os.OpenFile(d.filler(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for piece := make([]byte, 1<<20); len(piece) > 0; {
		if _, err := f.Write(piece); errors.Is(err, syscall.ENOSPC) {
			piece = piece[:len(piece)/2]
		} else if err != nil {
			return err
		}
	}
	return nil
}

// Dir is where it is mounted.
func (d *Disk) Dir() string { return d.dir }

// Free gives back what Fill took.
func (d *Disk) Free() error { return os.Remove(d.filler()) }

func (d *Disk) filler() string { return filepath.Join(d.dir, "filler") }

// Unmount deletes it. The server must be down.
func (d *Disk) Unmount() error {
	if out, err := exec.Command("umount", d.dir).CombinedOutput(); err != nil {
		return fmt.Errorf("umount: %w: %s", err, out)
	}
	return os.Remove(d.dir)
}

// DatabaseOn makes an empty database whose tables lie on a disk, and gives its name.
func (s *Server) DatabaseOn(d *Disk) (string, error) {
	name := fmt.Sprintf("test_%d", s.names.Add(1))
	return name, s.Exec("postgres",
		fmt.Sprintf(`CREATE TABLESPACE disk_%s LOCATION '%s'`, name, d.dir),
		fmt.Sprintf(`CREATE DATABASE %s TABLESPACE disk_%s`, name, name))
}

// LogOn moves the server's write-ahead log to a disk, in segments of 1 MiB. The
// server is stopped for it and started again.
func (s *Server) LogOn(d *Disk) error {
	if err := s.Signal(syscall.SIGINT); err != nil {
		return err
	}
	<-s.ended
	if out, err := s.Command("pg_resetwal", "--wal-segsize=1", s.data()).CombinedOutput(); err != nil {
		return fmt.Errorf("pg_resetwal: %w: %s", err, out)
	}
	log, moved := filepath.Join(s.data(), "pg_wal"), filepath.Join(d.dir, "pg_wal")
	if out, err := exec.Command("mv", log, moved).CombinedOutput(); err != nil {
		return fmt.Errorf("mv: %w: %s", err, out)
	}
	if err := os.Symlink(moved, log); err != nil {
		return err
	}
	return s.Run()
}

// UseUpLog lets the log be at its last segment that is there: the next one needs room.
func (s *Server) UseUpLog() error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for {
		var left int
		if err := conn.QueryRow(ctx, `SELECT COUNT(*) FROM pg_ls_waldir()
			WHERE name ~ '^[0-9A-F]{24}$' AND name > pg_walfile_name(pg_current_wal_insert_lsn())`).Scan(&left); err != nil || left == 0 {
			return err
		}
		// A segment with nothing in it is not left.
		if _, err := conn.Exec(ctx, `SELECT pg_logical_emit_message(false, 'test', '')`); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `SELECT pg_switch_wal()`); err != nil {
			return err
		}
	}
}

// Ended reports whether the server has ended by itself.
func (s *Server) Ended() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}
