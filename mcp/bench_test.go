package mcp

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"testing"
)

// BenchmarkCall is a tool call behind the proxy, and behind no more than
// httputil.ReverseProxy, before the same server; in JSON and in a stream.
func BenchmarkCall(b *testing.B) {
	const answer = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"taken"}]}}`
	for name, service := range map[string]http.HandlerFunc{
		"JSON": jsonService(answer),
		"stream": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: message\ndata: %s\n\n", answer)
		},
	} {
		h := newHouse(b, service)
		token, _ := h.live("ada", everything)
		to, err := url.Parse(h.service.URL)
		if err != nil {
			b.Fatal(err)
		}
		bare := httptest.NewServer(&httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }})
		defer bare.Close()
		for what, at := range map[string]string{"proxy": h.front.URL, "bare": bare.URL} {
			b.Run(name+"/"+what, func(b *testing.B) {
				for b.Loop() {
					r, err := http.NewRequest("POST", at+"/api/v5/mcp", strings.NewReader(call("take")))
					if err != nil {
						b.Fatal(err)
					}
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Content-Type", "application/json")
					a, err := http.DefaultClient.Do(r)
					if err != nil {
						b.Fatal(err)
					}
					if n, err := io.Copy(io.Discard, a.Body); err != nil || a.StatusCode != 200 || n < int64(len(answer)) {
						b.Fatal(a.Status, n, err)
					}
					a.Body.Close()
				}
			})
		}
	}
}

// BenchmarkIdleStreams is what a silent stream costs in memory, on both sides of the
// proxy and in it.
func BenchmarkIdleStreams(b *testing.B) {
	h := newHouse(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "data: {}\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	const each = 50
	memory := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	n, before := 0, memory()
	for b.Loop() {
		token, _ := h.live("ada", everything)
		for range each {
			a := h.open(b.Context(), "GET", token, nil)
			readLine(b, bufio.NewReader(a.Body))
			n++
		}
	}
	b.ReportMetric(float64(memory()-before)/float64(n)/1024, "KiB/stream")
}
