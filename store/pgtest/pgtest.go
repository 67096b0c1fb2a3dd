// Package pgtest starts PostgreSQL for tests, out of the system's programs, on
// a free port and in a temporary folder. Nothing but tests imports it.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrAbsent means that PostgreSQL 15 or newer is not installed.
var ErrAbsent = errors.New("PostgreSQL 15 or newer is not installed (Debian: apt-get install postgresql)")

// Server is one PostgreSQL server, with fsync on.
type Server struct {
	dir, programs string
	port          int
	as            *syscall.Credential

	mu      sync.Mutex
	process *exec.Cmd
	ended   chan struct{}
	names   atomic.Int64

	filling sync.Mutex
	within  string // the database that has room for schemas
	room    int    // for how many more
}

// programs finds where Debian and others put the newest server's programs.
func programs() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	slices.SortFunc(found, func(a, b string) int { return release(b) - release(a) })
	if len(found) > 0 && release(found[0]) >= 15 {
		return filepath.Dir(found[0]), nil
	}
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	return "", ErrAbsent
}

func release(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// Start makes a server and starts it. settings are lines of postgresql.conf.
func Start(settings ...string) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "grantkeeper-pg")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, programs: bin}
	if err := s.make(settings); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if err := s.Run(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *Server) make(settings []string) error {
	if os.Geteuid() == 0 { // initdb refuses root
		as, err := somebody()
		if err != nil {
			return err
		}
		s.as = as
		if err := os.Chown(s.dir, int(as.Uid), int(as.Gid)); err != nil {
			return err
		}
	}
	cmd := s.Command("initdb", "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	var err error
	if s.port, err = FreePort(); err != nil {
		return err
	}
	lines := append([]string{
		"listen_addresses = '127.0.0.1'", "port = " + strconv.Itoa(s.port), "unix_socket_directories = '" + s.dir + "'",
		"fsync = on", "max_connections = 300", "log_min_messages = fatal",
	}, settings...)
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(strings.Join(lines, "\n") + "\n"); err != nil {
		return err
	}
	return f.Close()
}

// claims holds the same ports of UDP, which nobody here speaks, for as long as the process
// lives: a server that is down keeps its port, also from tests of other packages.
var (
	claiming sync.Mutex
	claims   []net.PacketConn
)

// FreePort gives one of 127.0.0.1 that nobody listens on, each one once, because tests run side by
// side, also those of other packages; and none that the kernel gives to connections: before a
// server has it, or while it is down, one would take it.
func FreePort() (int, error) {
	for range 1000 {
		port := 10_000 + rand.IntN(22_000)
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		claim, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		if l, err := net.Listen("tcp", address); err == nil {
			claiming.Lock()
			claims = append(claims, claim)
			claiming.Unlock()
			return port, l.Close()
		}
		claim.Close()
	}
	return 0, errors.New("no port is free")
}

// somebody is who the server runs as when the tests run as root.
func somebody() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("neither a user postgres nor nobody is there to run PostgreSQL as")
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Command is one of PostgreSQL's programs, run as the server's user.
func (s *Server) Command(program string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.programs, program), args...)
	cmd.Dir = s.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.as}
	return cmd
}

// Run starts the server, again after Kill or Stop, and waits until it answers.
// It ends with this process, whatever becomes of that.
func (s *Server) Run() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cmd := s.Command("postgres", "-D", s.data())
	logged, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer logged.Close()
	cmd.Stdout, cmd.Stderr = logged, logged
	ended, err := start(cmd)
	if err != nil {
		return err
	}
	s.process, s.ended = cmd, ended
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := pgx.Connect(context.Background(), s.URL("postgres"))
		if err == nil {
			return conn.Close(context.Background())
		}
		select {
		case <-ended:
			text, _ := os.ReadFile(logged.Name())
			return fmt.Errorf("PostgreSQL has ended: %s", text)
		default:
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		}
	}
}

// start starts a program that ends with this process; ended is closed when it is gone.
func start(cmd *exec.Cmd) (ended chan struct{}, err error) {
	endWithParent(cmd)
	started := make(chan error)
	ended = make(chan struct{})
	go func() { // the signal comes when the thread ends that has started it
		runtime.LockOSThread()
		// A thread that ends with its goroutine takes with it what others have
		// started on it before.
		defer runtime.UnlockOSThread()
		started <- cmd.Start()
		if cmd.Process != nil {
			cmd.Wait()
		}
		close(ended)
	}()
	return ended, <-started
}

// Signal sends the server's first process a signal.
func (s *Server) Signal(sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.Process.Signal(sig)
}

// Kill ends the server as a crash does, and waits until it is gone.
func (s *Server) Kill() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.process.Process.Signal(syscall.SIGQUIT) // no checkpoint, no answer
	<-s.ended
	return err
}

// Stop ends the server and deletes what it had.
func (s *Server) Stop() error {
	s.mu.Lock()
	_ = s.process.Process.Signal(syscall.SIGQUIT)
	<-s.ended
	s.mu.Unlock()
	return os.RemoveAll(s.dir)
}

// Port is where it listens, on 127.0.0.1.
func (s *Server) Port() int { return s.port }

// URL names a database of the server.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Exec runs statements in a database.
func (s *Server) Exec(database string, statements ...string) error {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, text := range statements {
		if _, err := conn.Exec(ctx, text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	return nil
}

// Database makes an empty database and gives its name.
func (s *Server) Database() (string, error) {
	name := fmt.Sprintf("test_%d", s.names.Add(1))
	return name, s.Exec("postgres", `CREATE DATABASE `+name)
}

// schemas is how many a database has at most. Who asks a catalogue which tables a schema
// has reads those of all: 500 schemas cost more than all else that was asked of them.
const schemas = 24

// Schema makes an empty schema, which is quicker than a database, and gives the URL that
// leads to it. The first ones are in the database postgres.
func (s *Server) Schema() (string, error) {
	in, err := s.roomy()
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("test_%d", s.names.Add(1))
	return s.URL(in) + "&search_path=" + name, s.Exec(in, `CREATE SCHEMA `+name)
}

// roomy gives a database for one schema more.
func (s *Server) roomy() (string, error) {
	s.filling.Lock()
	defer s.filling.Unlock()
	if s.within == "" {
		s.within, s.room = "postgres", schemas
	}
	if s.room == 0 {
		name, err := s.Database()
		if err != nil {
			return "", err
		}
		s.within, s.room = name, schemas
	}
	s.room--
	return s.within, nil
}

// Drop deletes a database, whoever is connected to it.
func (s *Server) Drop(name string) error {
	return s.Exec("postgres", `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`)
}
