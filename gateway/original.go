package gateway

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/grantkeeper/grantkeeper/api"
)

// original is the request that a gateway asks about. It came to the gateway,
// and its credentials are the client's.
type original struct {
	host   string // as its Host header said; "" takes Server.Host
	target string // path and query, as they came; "" is /api/v5
	header http.Header
}

// apis are the roots that a path may stand under. They differ in what
// credentials they take (decision B1).
var apis = []string{"/api/v5", "/api/v4", "/api/v3"}

func rootOf(path string) string {
	for _, root := range apis {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') {
			return root
		}
	}
	return ""
}

// settle gives the decoded path of a request target. It refuses a path that the
// service behind might take for one under another API than this server does:
// one that leaves the API by dot segments, however they are escaped, written
// with a backslash or followed by parameters.
func settle(target string) (decoded string, ok bool) {
	raw, _, _ := strings.Cut(target, "?")
	if !strings.HasPrefix(raw, "/") || strings.Contains(raw, "#") {
		return "", false
	}
	decoded, err := url.PathUnescape(raw)
	if err != nil || strings.ContainsFunc(decoded, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", false
	}
	root := rootOf(decoded)
	reading := raw
	for range 4 { // the path as it came, and after each decoding that somebody might do
		if rootOf(cleaned(reading)) != root || rootOf(cleaned(withoutParameters(reading))) != root {
			return "", false
		}
		next, err := url.PathUnescape(reading)
		if err != nil || next == reading {
			break
		}
		reading = next
	}
	return decoded, true
}

// cleaned resolves dot segments and doubled slashes of either kind.
func cleaned(reading string) string {
	return path.Clean(strings.ReplaceAll(reading, `\`, "/"))
}

// withoutParameters takes what follows a semicolon out of each segment, as
// some servers do before they resolve dot segments.
func withoutParameters(reading string) string {
	segments := strings.Split(reading, "/")
	for i := range segments {
		segments[i], _, _ = strings.Cut(segments[i], ";")
	}
	return strings.Join(segments, "/")
}

// request makes what the guard reads, or says why it cannot: the path is not
// one for every reader, or the host is not ours (decision M2).
func (s *Server) request(ctx context.Context, o original) (*http.Request, *api.Fault) {
	if o.host == "" {
		o.host = s.Host
	}
	if s.Base(o.host) == "" {
		return nil, &api.Fault{Status: 421, Code: "misdirected_request", Description: "The host that was asked is not one of this server's."}
	}
	if o.target == "" {
		o.target = "/api/v5"
	}
	decoded, ok := settle(o.target)
	if !ok {
		return nil, &api.Fault{Status: 400, Code: "invalid_request", Description: "The path is none, or could be read as one under another API."}
	}
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: decoded}, Host: o.host, Header: o.header}
	return r.WithContext(ctx), nil
}

// withCredentials gives a header with what the guard reads of another one.
func withCredentials(from http.Header) http.Header {
	h := http.Header{}
	for _, name := range []string{"Authorization", "X-Auth-Token"} {
		if values, ok := from[name]; ok {
			h[name] = values
		}
	}
	return h
}
