package apitest

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// GivesUpTheDead fails unless a transport to https notices by itself that nothing comes
// any more on a connection of HTTP/2: the far end takes what is sent, as a network does
// whose other side is gone, and says nothing after the handshake of TLS.
func GivesUpTheDead(t *testing.T, of *http.Transport) {
	t.Helper()
	far := httptest.NewUnstartedServer(nil)
	far.EnableHTTP2 = true
	far.StartTLS()
	far.Close() // for its certificate
	synctest.Test(t, func(t *testing.T) {
		of.TLSClientConfig = far.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		of.ResponseHeaderTimeout = 0 // which a stream that has begun has not either
		dials := 0
		of.DialContext = func(context.Context, string, string) (net.Conn, error) {
			dials++
			near, end := net.Pipe()
			t.Cleanup(func() { _ = end.Close() })
			go func() {
				defer end.Close()
				_, _ = io.Copy(io.Discard, tls.Server(end, far.TLS))
			}()
			return near, nil
		}
		for asked := 1; asked <= 2; asked++ {
			ctx, stop := context.WithTimeout(t.Context(), time.Hour)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://example.com/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			a, err := of.RoundTrip(r)
			stop()
			if err == nil {
				a.Body.Close()
				t.Fatal("answered", a.Status)
			}
			if errors.Is(err, context.DeadlineExceeded) || dials != asked {
				t.Errorf("request %d: %v, after %d dials", asked, err, dials)
			}
		}
		of.CloseIdleConnections()
	})
}
