package server

import (
	"bytes"
	"crypto/tls"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/grantkeeper/grantkeeper/config"
)

// Whoever asks over HTTP/2 and takes nothing of the answers is let go: net/http
// bounds the time of each stream, and says so in a frame that is not taken either.
func TestHTTP2ConnectionThatTakesNothing(t *testing.T) {
	t.Parallel()
	certFile, keyFile, pool := certificate(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	l, err := listen("127.0.0.1:0", false, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	asked, closed := make(chan bool, 1), make(chan bool, 1)
	s := newServer(config.Checked{}, Options{}).server(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- true
		for piece := make([]byte, 1<<20); ; {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	s.HTTP2.WriteByteTimeout /= 100
	s.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			closed <- true
		}
	}
	go s.Serve(tls.NewListener(l, &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}}))
	t.Cleanup(func() { s.Close() })

	c, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: pool, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var head bytes.Buffer
	fields := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "https"}, {":authority", "x"}, {":path", "/"}} {
		if err := fields.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}); err != nil {
			t.Fatal(err)
		}
	}
	c.Write([]byte(http2.ClientPreface))
	f := http2.NewFramer(c, nil)
	f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
	f.WriteWindowUpdate(0, 1<<30)
	f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndHeaders: true, EndStream: true})
	for _, what := range []struct {
		name string
		come chan bool
	}{{"the request", asked}, {"its end", closed}} {
		select {
		case <-what.come:
		case <-time.After(40 * time.Second):
			t.Fatalf("%s does not come", what.name)
		}
	}
}
