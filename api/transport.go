package api

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"
)

// IdleConnection is how long a connection to a service is kept unused. Servers in use end
// theirs after 2 seconds at the soonest; what is sent just then is lost, and a change or a
// call of a tool is not sent again.
const IdleConnection = time.Second

const (
	dialTimeout = 5 * time.Second
	pingTimeout = 5 * time.Second // of silence on a connection of HTTP/2, before a ping, and then for its answer
	maxHead     = 64 << 10        // bytes of an answer's headers
)

// ErrStalled is a service that takes nothing of a request, or does not go on with an answer
// that is no stream.
var ErrStalled = fmt.Errorf("the service stands still: %w", os.ErrDeadlineExceeded)

// NeverSent reports whether a request failed before the service had any of it.
func NeverSent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// NewTransport gives what leads to a service behind the guard. An answer may be silent for
// hours, so a connection of HTTP/2, which many share, is asked by pings whether it is dead
// (decision V14). An answer may take wait to begin.
func NewTransport(wait time.Duration) *http.Transport {
	return &http.Transport{ // no proxy from the environment: the service is named
		DialContext:            (&net.Dialer{Timeout: dialTimeout}).DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		ResponseHeaderTimeout:  wait,
		MaxResponseHeaderBytes: maxHead,
		IdleConnTimeout:        IdleConnection,
		MaxIdleConnsPerHost:    256,
		DisableCompression:     true, // what the client accepts, the service hears
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingTimeout, PingTimeout: pingTimeout},
	}
}
