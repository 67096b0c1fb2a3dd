package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// overTLS runs serve with a certificate of its own, so that it speaks HTTP/2.
func overTLS(t testing.TB) (h *house, trusted *tls.Config) {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := make([]byte, 32)
	rand.Read(secret)
	public, operator := freePort(t), freePort(t)
	h = &house{t: t, base: "https://127.0.0.1:" + public, operator: "http://127.0.0.1:" + operator}
	config := fmt.Sprintf("base_urls = [%q]\nsecret_key_file = %q\n[http]\nlisten = \"127.0.0.1:%s\"\ntls_cert_file = %q\ntls_key_file = %q\n"+
		"[operator]\nlisten = \"127.0.0.1:%s\"\n[database]\nurl = \"sqlite://%s\"\n",
		h.base, write("secret.key", []byte(base64.StdEncoding.EncodeToString(secret))), public, write("cert.pem", certificate),
		write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), operator, filepath.Join(dir, "grantkeeper.db"))
	h.args = []string{"serve", "--config", write("grantkeeper.toml", []byte(config)), "--log-level", "error"}
	h.serve(0)
	t.Cleanup(h.stop)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(certificate)
	return h, &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}}
}

// A rude client speaks HTTP/2 frame by frame.
type rude struct {
	t      testing.TB
	conn   *tls.Conn
	framer *http2.Framer
	header []byte        // of a GET
	closed chan struct{} // by the server
}

func rudely(t testing.TB, h *house, c *tls.Config) *rude {
	t.Helper()
	address := strings.TrimPrefix(h.base, "https://")
	conn, err := tls.Dial("tcp", address, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if got := conn.ConnectionState().NegotiatedProtocol; got != "h2" {
		t.Fatalf("it speaks %q, want h2", got)
	}
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", address}, {":path", "/oauth/token"},
		{"content-type", "application/x-www-form-urlencoded"}} {
		if err := e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	r := &rude{t, conn, http2.NewFramer(conn, conn), b.Bytes(), make(chan struct{})}
	if err := r.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.closed)
		reader := http2.NewFramer(nil, conn)
		for {
			if _, err := reader.ReadFrame(); err != nil {
				return
			}
		}
	}()
	return r
}

// ends wants the server to close the connection.
func (r *rude) ends(after string) {
	r.t.Helper()
	select {
	case <-r.closed:
	case <-time.After(time.Minute):
		r.t.Errorf("%s: the connection stays open", after)
	}
}

// resident is the memory of the process, in bytes.
func (h *house) resident() int64 {
	h.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", h.command.Process.Pid))
	if err != nil {
		h.t.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	if err != nil {
		h.t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// others wants another connection to be served meanwhile.
func others(t testing.TB, h *house, c *tls.Config) {
	t.Helper()
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: c.Clone(), ForceAttemptHTTP2: true}}
	defer client.CloseIdleConnections()
	a, err := client.Get(h.base + "/.well-known/oauth-authorization-server")
	if err != nil {
		t.Errorf("nobody else is served: %v", err)
		return
	}
	a.Body.Close()
	if a.StatusCode != 200 || a.ProtoMajor != 2 {
		t.Errorf("others get %s over HTTP/%d", a.Status, a.ProtoMajor)
	}
}

// Rapid reset: 10,000 streams that are opened and reset at once, again and again.
// The server may end the connection; memory is flat and others are served.
func TestB10_RapidReset(t *testing.T) {
	t.Parallel()
	h, c := overTLS(t)
	h.resets(c, 8) // by now the heap is as large as such a load makes it
	before := h.resident()
	h.resets(c, 8)
	if grown := h.resident() - before; grown > 32<<20 {
		t.Errorf("memory grew by %d MiB over 80,000 streams", grown>>20)
	}
	others(t, h, c)
}

// The race detector asks the same, and keeps some memory for all that it has seen.
func TestB10_RapidResetAtOnce(t *testing.T) {
	t.Parallel()
	h, c := overTLS(t)
	h.resets(c, 2)
	others(t, h, c)
}

// resets opens 10,000 streams a round and calls each of them off, beside others.
func (h *house) resets(c *tls.Config, rounds int) {
	t := h.t
	t.Helper()
	others(t, h, c)
	for range rounds {
		r := rudely(t, h, c)
		var err error
		for i := uint32(0); i < 10_000 && err == nil; i++ {
			id := 2*i + 1
			err = r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.header, EndHeaders: true})
			if err == nil {
				err = r.framer.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			if i%2000 == 1999 {
				others(t, h, c)
			}
		}
		if err != nil { // the server has had enough
			r.ends("after " + err.Error())
		}
		r.conn.Close()
	}
}

// A header that never ends: CONTINUATION frames without END_HEADERS.
func TestB10_ContinuationFlood(t *testing.T) {
	t.Parallel()
	h, c := overTLS(t)
	others(t, h, c)
	before := h.resident()
	for _, fill := range []string{"", strings.Repeat("\x00\x01a\x01b", 3000)} { // nothing at all, and short fields
		r := rudely(t, h, c)
		err := r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: r.header})
		for i := 0; i < 100_000 && err == nil; i++ {
			err = r.framer.WriteContinuation(1, false, []byte(fill))
		}
		if fill != "" {
			r.ends("a header that never ends")
			if err == nil {
				t.Error("it took 300 MB of header fields")
			}
		} // else nothing was sent that takes memory, and the idle timeout ends it
		others(t, h, c)
		r.conn.Close()
	}
	if grown := h.resident() - before; grown > 64<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
}
