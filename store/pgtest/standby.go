package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby makes a server that follows this one, and starts it. From then on this
// one acknowledges no commit that the standby has not on its disk, and the standby has
// all that was acknowledged before.
func (s *Server) Standby() (*Server, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	b := &Server{dir: dir, programs: s.programs, as: s.as, port: port}
	copied := s.Command("pg_basebackup", "-D", b.data(), "-R", "-X", "stream", "-c", "fast",
		"-d", fmt.Sprintf("host=127.0.0.1 port=%d user=postgres", s.port))
	if out, err := copied.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	f, err := os.OpenFile(filepath.Join(b.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("port = " + strconv.Itoa(port) + "\nunix_socket_directories = '" + dir + "'\n")
	if f.Close(); err != nil {
		return nil, err
	}
	if err := b.Run(); err != nil {
		return nil, err
	}
	if err := s.Exec("postgres", `ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`); err != nil {
		return nil, err
	}
	return b, s.awaitSync()
}

// awaitSync waits until a standby is synchronous.
func (s *Server) awaitSync() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for n := 0; n == 0; time.Sleep(20 * time.Millisecond) {
		if err := conn.QueryRow(ctx, `SELECT COUNT(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'`).Scan(&n); err != nil {
			return err
		}
	}
	return nil
}

// Promote makes a standby a server that takes writes.
func (s *Server) Promote() error { return s.Exec("postgres", `SELECT pg_promote()`) }

// Save copies the server's files, while it is down, and gives their folder.
func (s *Server) Save() (string, error) {
	dir, err := s.folder()
	if err != nil {
		return "", err
	}
	if out, err := exec.Command("cp", "-a", s.data(), dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cp: %w: %s", err, out)
	}
	return dir, nil
}

// SetBack puts the files of Save in the place of the server's, while it is down.
func (s *Server) SetBack(saved string) error {
	if err := os.RemoveAll(s.data()); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(saved, filepath.Base(s.data())), s.data()); err != nil {
		return err
	}
	return os.RemoveAll(saved)
}

// folder makes one that the server's user may use.
func (s *Server) folder() (string, error) {
	dir, err := os.MkdirTemp("", "grantkeeper-pg")
	if err == nil && s.as != nil {
		err = os.Chown(dir, int(s.as.Uid), int(s.as.Gid))
	}
	return dir, err
}
