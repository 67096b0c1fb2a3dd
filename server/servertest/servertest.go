// Package servertest has what tests of servers need: a free port, a certificate, a
// log that can be read meanwhile, and a mail server.
package servertest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config/configtest"
)

// A Buffer is a log that can be read while it is written.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write adds to it.
func (s *Buffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// String gives what was written until now.
func (s *Buffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// Take gives what was written since it was asked last.
func (s *Buffer) Take() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.b.Reset()
	return s.b.String()
}

var (
	claims sync.Mutex
	claim  []net.PacketConn // of the ports that FreePort gave, until the process ends
)

// FreePort gives an address that nobody listens on, each one once, because tests run side
// by side, also those of other packages: the same port of UDP, which nobody here speaks, is
// held for as long as the process lives. It is none that the kernel gives to connections.
func FreePort(t testing.TB) string {
	t.Helper()
	for range 1000 {
		address := fmt.Sprintf("127.0.0.1:%d", 20000+mathrand.IntN(12000))
		claimed, err := net.ListenPacket("udp", address)
		if err != nil {
			continue
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			claimed.Close()
			continue
		}
		l.Close()
		claims.Lock()
		claim = append(claim, claimed)
		claims.Unlock()
		return address
	}
	t.Fatal("no port is free")
	return ""
}

// Certificate writes a certificate for 127.0.0.1 and its key.
func Certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	cert := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	pool.AppendCertsFromPEM([]byte(cert))
	return configtest.Write(t, "cert.pem", cert, 0o644), configtest.Write(t, "key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})), 0o600), pool
}
