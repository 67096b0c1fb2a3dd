package api_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/grantkeeper/grantkeeper/limit"
)

// BenchmarkMe is GET /api/v5/me behind the guard beside a bare handler that
// writes the same answer, over real HTTP and without it.
func BenchmarkMe(b *testing.B) {
	h := newHouse(b)
	h.server.Limit = limit.NewNames(limit.Limit{N: 1 << 30, Window: limit.API.Window})
	x := h.live("ada", "nordlys", everything)
	body := h.get("/api/v5/me", x.access).Body.Bytes()
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	})
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"bare", bare}, {"guarded", h.handler}} {
		b.Run(c.name+"/http", func(b *testing.B) {
			server := httptest.NewServer(c.handler)
			defer server.Close()
			transport := &http.Transport{MaxIdleConnsPerHost: 256}
			defer transport.CloseIdleConnections()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, _ := http.NewRequest("GET", server.URL+"/api/v5/me", nil)
					r.Header.Set("Authorization", "Bearer "+x.access)
					response, err := transport.RoundTrip(r)
					if err != nil || response.StatusCode != 200 {
						b.Error(response, err)
						return
					}
					io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
			})
		})
		b.Run(c.name+"/handler", func(b *testing.B) {
			r := httptest.NewRequest("GET", "/api/v5/me", nil)
			r.Header.Set("Authorization", "Bearer "+x.access)
			w := &discard{}
			b.ReportAllocs()
			for b.Loop() {
				w.header = http.Header{}
				c.handler.ServeHTTP(w, r)
			}
		})
	}
}

type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}
