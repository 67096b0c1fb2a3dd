package e2e

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Strangers open more connections than the process may have files, and keep them:
// others are served all the while, on old connections and new ones, operators are
// answered, and the database can be written to.
func TestIdleConnectionsShutNobodyOut(t *testing.T) {
	t.Parallel()
	h := serve(t, served{files: 256})
	f, tk := h.connected("")
	host := strings.TrimPrefix(h.base, "http://")
	for _, says := range []string{"", "GET / HTTP/1.1\r\nHost: " + host + "\r\nHalf: ", "GET /signin HTTP/1.1\r\nHost: " + host + "\r\n\r\n"} {
		for range 3 {
			for range 200 {
				c, err := net.DialTimeout("tcp", host, 10*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				io.WriteString(c, says)
			}
			f.CloseIdleConnections() // a kept one may make room just as it is used again
			tk = tokensOf(t, f.refresh(tk.refresh))
			if !h.works(tk.access) { // by a caller with a new connection
				t.Error("the token does not work")
			}
			if a := h.operate("/readyz"); a.status != 200 {
				t.Errorf("the operators' listener: %s", a)
			}
			h.register()
		}
	}
	if log := h.stderr.String(); !strings.Contains(log, "those that wait make room") {
		t.Error("the log does not say that connections were closed")
	}
}
