package limit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Of many who ask at once, each gets its own answer.
func TestSharedAnswersGoToWhoAsked(t *testing.T) {
	s := newServer(t).share(t, ValkeyOptions{timeout: time.Minute})
	var group sync.WaitGroup
	for i := range 50 {
		w := s.Names(fmt.Sprint("of ", i), Limit{100 + i, time.Hour})
		group.Go(func() {
			for asked := range 40 {
				if got := w.Remaining("o1", 100+i, noon); got != 100+i-asked {
					t.Errorf("%d has %d left after %d, want %d", i, got, asked, 100+i-asked)
					return
				}
				w.Allow("o1", noon)
			}
		})
	}
	group.Wait()
	if s.Away() {
		t.Error("the server was away")
	}
}

// A connection that ended while nobody asked costs nobody an answer.
func TestSharedConnectionThatEnded(t *testing.T) {
	r := newServer(t)
	var log logged
	s := r.share(t, ValkeyOptions{timeout: time.Minute, Log: log.logger()})
	w := s.Addresses("token", Limit{10, time.Hour}, nil)
	for range 5 {
		let(t, w, client, 1, time.Now())
		if got := r.command("CLIENT", "KILL", "TYPE", "normal"); !strings.HasPrefix(got, ":") {
			t.Fatal(got)
		}
	}
	if log.String() != "" {
		t.Errorf("logged: %s", log.String())
	}
}

// relay stands before the server. Connections up to number dead swallow what they
// are sent.
type relay struct {
	net.Listener
	made, dead atomic.Int32
}

func newRelay(t *testing.T, r *testServer) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &relay{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", "127.0.0.1:"+r.port)
			if err != nil {
				near.Close()
				continue
			}
			go io.Copy(near, far)
			go b.pass(far, near, b.made.Add(1))
		}
	}()
	return b
}

func (b *relay) pass(far, near net.Conn, number int32) {
	defer far.Close()
	part := make([]byte, 4096)
	for {
		n, err := near.Read(part)
		if err != nil {
			return
		}
		if number > b.dead.Load() {
			far.Write(part[:n])
		}
	}
}

// A connection over which nothing comes any more is given up for a new one.
func TestI13_AConnectionThatIsDead(t *testing.T) {
	b := newRelay(t, newServer(t))
	server, err := ParseServer("redis://" + b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	var told changes
	s := Connect(server, ValkeyOptions{Changed: told.changed})
	defer s.Close()
	w := s.Addresses("token", Limit{10, time.Hour}, nil)
	let(t, w, client, 1, time.Now())
	b.dead.Store(b.made.Load())
	let(t, w, client, 1, time.Now())
	if told.n.Load() == 0 {
		t.Error("nobody noticed")
	}
	told.wait(t, false)
	let(t, w, client, 1, time.Now())
}

// What is no such server, or answers what the script does not, is away.
func TestI13_WhatIsNoSuchServer(t *testing.T) {
	const greeted = "-ERR unknown command\r\n+OK\r\n" // no HELLO before Redis 6
	for _, answer := range []string{
		"HTTP/1.1 400 Bad Request\r\n\r\n", "+OK\r\n", greeted + ":5\r\n", greeted + "*2\r\n:-1\r\n:0\r\n", greeted + "*1\r\n:1\r\n",
		greeted + "*2\r\n:1\r\n$1\r\nx\r\n", greeted + "-LOADING it is\r\n", greeted + "-NOSCRIPT no\r\n-NOSCRIPT no\r\n",
		greeted + "+OK\r\n+OK\r\n", "\r\n", "",
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, answer)
				go func() {
					io.Copy(io.Discard, c)
					c.Close()
				}()
			}
		}()
		server, err := ParseServer("redis://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s := Connect(server, ValkeyOptions{timeout: 50 * time.Millisecond})
		if !s.Away() {
			t.Errorf("%q is a server", answer)
		}
		let(t, s.Addresses("token", Limit{1, time.Hour}, nil), client, 1, noon)
		s.Close()
		l.Close()
	}
}

// The URL says who asks, and in which database.
func TestSharedUserAndDatabase(t *testing.T) {
	r := newServer(t)
	for _, words := range []string{
		"ACL SETUSER counts on >hid:den resetkeys ~grantkeeper:* -@all +@read +@write +eval +evalsha +time +dbsize +select",
		"ACL SETUSER open on nopass ~* +@all",
		"ACL SETUSER default off",
	} {
		if got := r.command(strings.Fields(words)...); got != "+OK" {
			t.Fatalf("%s: %s", words, got)
		}
	}
	for address, there := range map[string]bool{
		"counts:hid%3Aden@/7": true, "open@": true, "open:anything@/15": true,
		"counts:wrong@/7": false, "counts@": false, "/7": false, ":hid%3Aden@": false, "open@/16": false,
	} {
		user, database, _ := strings.Cut(address, "/")
		var log logged
		server, err := ParseServer("redis://" + user + "127.0.0.1:" + r.port + "/" + database)
		if err != nil {
			t.Fatal(err)
		}
		s := Connect(server, ValkeyOptions{timeout: time.Minute, Log: log.logger()})
		if s.Away() == there {
			t.Errorf("%s: there %v, want %v: %s", address, !s.Away(), there, log.String())
		}
		if strings.Contains(log.String(), "hid") {
			t.Errorf("%s: the log has the password: %s", address, log.String())
		}
		if there { // the key of the probe ends a second after it, this one not before the test
			let(t, s.Addresses("token", Limit{1, time.Hour}, nil), client, 1, time.Now())
		}
		s.Close()
	}
	counted := func() (got string, all bool) {
		got = r.asked("open", "INFO keyspace")
		return got, strings.Contains(got, "db0:keys=1,") && strings.Contains(got, "db7:keys=1,") && strings.Contains(got, "db15:keys=1,")
	}
	got, all := counted()
	for end := time.Now().Add(time.Minute); !all && time.Now().Before(end); got, all = counted() {
		time.Sleep(50 * time.Millisecond) // until the probes' keys are gone
	}
	if !all {
		t.Errorf("counted elsewhere: %s", got)
	}
}

// Who does not know the command repeats what came with it.
func TestSharedPasswordIsNotRepeated(t *testing.T) {
	r := newServer(t)
	r.kill()
	r.start(t, "--rename-command", "AUTH", "")
	server, err := ParseServer("redis://counts:hidden@127.0.0.1:" + r.port)
	if err != nil {
		t.Fatal(err)
	}
	var log logged
	s := Connect(server, ValkeyOptions{timeout: time.Minute, Log: log.logger()})
	defer s.Close()
	if !strings.Contains(log.String(), "AUTH: ERR") || strings.Contains(log.String(), "hidden") {
		t.Errorf("logged: %s", log.String())
	}
}

// asked sends one command as a user without a password.
func (r *testServer) asked(user, command string) string {
	c, err := net.Dial("tcp", "127.0.0.1:"+r.port)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(c, "AUTH %s x\r\n%s\r\nQUIT\r\n", user, command)
	all, _ := io.ReadAll(c)
	return string(all)
}

// rediss: is TLS, and trusts no certificate but one of an authority it knows, for
// the host that was named.
func TestSharedOverTLS(t *testing.T) {
	r := newServer(t)
	r.kill()
	certificate, key, known := selfSigned(t, r.dir)
	plain, port := r.port, freePort(t)
	r.start(t, "--tls-port", port, "--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no")
	for _, tt := range []struct {
		address string
		roots   *x509.CertPool
		there   bool
	}{
		{"rediss://127.0.0.1:" + port, known, true},
		{"valkeys://127.0.0.1:" + port + "/2", known, true},
		{"rediss://127.0.0.1:" + port, nil, false},
		{"rediss://localhost:" + port, known, false}, // the certificate is for 127.0.0.1
		{"rediss://127.0.0.1:" + plain, known, false},
		{"redis://127.0.0.1:" + port, known, false},
	} {
		server, err := ParseServer(tt.address)
		if err != nil {
			t.Fatal(err)
		}
		if server.tls != nil {
			server.tls.RootCAs = tt.roots
		}
		s := Connect(server, ValkeyOptions{timeout: time.Minute})
		if s.Away() == tt.there {
			t.Errorf("%s: there %v, want %v", tt.address, !s.Away(), tt.there)
		}
		if tt.there { // a connection that ended while nobody asked
			if got := r.command("CLIENT", "KILL", "TYPE", "normal"); !strings.HasPrefix(got, ":") {
				t.Fatal(got)
			}
			let(t, s.Addresses("token", Limit{10, time.Hour}, nil), client, 1, time.Now())
			if s.Away() {
				t.Errorf("%s: away after one connection ended", tt.address)
			}
		}
		s.Close()
	}
}

// selfSigned writes a certificate for 127.0.0.1, and its key.
func selfSigned(t *testing.T, dir string) (certificate, key string, known *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}, &x509.Certificate{SerialNumber: big.NewInt(1)}, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	known = x509.NewCertPool()
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	known.AppendCertsFromPEM(public)
	certificate, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, content := range map[string][]byte{certificate: public, key: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return certificate, key, known
}
