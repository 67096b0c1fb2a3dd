package pgtest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bouncer is a pgbouncer before a server, in transaction mode: each transaction may
// get another of the server's connections.
type Bouncer struct {
	server  *Server
	dir     string
	port    int
	process *exec.Cmd
	ended   chan struct{}
}

// Bouncer starts one.
func (s *Server) Bouncer() (*Bouncer, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, err
	}
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	b := &Bouncer{server: s, dir: dir, port: port}
	settings := fmt.Sprintf(`[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_round_robin = 1
max_client_conn = 500
default_pool_size = 20
server_login_retry = 1
logfile = %s
`, s.port, b.port, filepath.Join(dir, "log"))
	if err := os.WriteFile(b.settings(), []byte(settings), 0o644); err != nil {
		return nil, err
	}
	if err := b.Run(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return b, nil
}

func (b *Bouncer) settings() string { return filepath.Join(b.dir, "pgbouncer.ini") }

// Run starts it, again after Kill, and waits until it answers.
func (b *Bouncer) Run() error {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer"
	}
	cmd := b.server.Command(program, b.settings())
	cmd.Path, cmd.Dir = program, b.dir
	if b.ended, err = start(cmd); err != nil {
		return fmt.Errorf("%w (Debian: apt-get install pgbouncer)", err)
	}
	b.process = cmd
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), b.URL("postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-b.ended:
			text, _ := os.ReadFile(filepath.Join(b.dir, "log"))
			return fmt.Errorf("pgbouncer has ended: %s", text)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("pgbouncer does not answer: %w", err)
		}
	}
}

// Kill ends it at once, with the connections of both sides.
func (b *Bouncer) Kill() error {
	err := b.process.Process.Kill()
	<-b.ended
	return err
}

// Stop ends it and deletes what it had.
func (b *Bouncer) Stop() error {
	_ = b.Kill()
	return os.RemoveAll(b.dir)
}

// Address is where it listens.
func (b *Bouncer) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// Mode is what a URL needs beside, for releases before 1.21 know of no prepared
// statements in this mode.
const Mode = "default_query_exec_mode=exec"

// URL names a database of the server.
func (b *Bouncer) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable&%s", b.Address(), database, Mode)
}
