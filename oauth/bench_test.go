package oauth

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// What this door adds to net/http: no connection is made.

func BenchmarkMetadata(b *testing.B) {
	d := open(b)
	b.RunParallel(func(pb *testing.PB) {
		r := request("GET", "/.well-known/oauth-protected-resource/api/v5/mcp", "")
		w := &discard{http.Header{}}
		for pb.Next() {
			clear(w.header)
			d.handler.ServeHTTP(w, r)
		}
	})
}

// The way to the token endpoint's last check, without the store.
func BenchmarkRefusal(b *testing.B) {
	d := open(b)
	d.Count = nil
	id := d.registered()
	body := refreshForm(id, d.ring.Access([16]byte{}, 1, 1)).Encode()
	r := request("POST", "/oauth/token", body)
	w := &discard{http.Header{}}
	for n := 0; b.Loop(); n++ {
		clear(w.header)
		r.Body = io.NopCloser(strings.NewReader(body))
		d.handler.ServeHTTP(w, r)
		if n%100_000 == 0 {
			d.clock.sleep(2 * time.Second) // out of the rate limit
		}
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
