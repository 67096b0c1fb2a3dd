package server

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"sync"
)

// answering counts, for each connection under TLS, the requests that are whole and not
// answered yet: TLS and HTTP/2 read on meanwhile, so no read tells whether one waits for its
// client.
func answering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(quietKey{}).(*quietConn); ok {
			if r.ProtoMajor == 2 && r.ContentLength == 0 && r.Header["Content-Length"] == nil { // with a length of 0, its end may be still to come
				r.Body = http.NoBody // which HTTP/2 leaves to be read
			}
			b := &wholeBody{ReadCloser: r.Body, of: c}
			defer b.over()
			if r.Body == http.NoBody {
				b.whole()
			} else {
				r.Body = b
			}
		}
		next.ServeHTTP(w, r)
	})
}

type quietKey struct{}

// underTLS tells answering the connection of a request.
func underTLS(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(*tls.Conn); ok {
		return context.WithValue(ctx, quietKey{}, t.NetConn())
	}
	return ctx
}

// wholeBody counts its request once it has been read to its end.
type wholeBody struct {
	io.ReadCloser
	of *quietConn

	mu             sync.Mutex // a transport may read it after the handler
	counted, ended bool
}

func (b *wholeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF {
		b.whole()
	}
	return n, err
}

func (b *wholeBody) whole() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.counted && !b.ended {
		b.counted = true
		b.of.answering.Add(1)
	}
}

func (b *wholeBody) over() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended = true; b.counted {
		b.of.answering.Add(-1)
	}
}
