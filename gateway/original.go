package gateway

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/rules"
)

// original is the request that a gateway asks about. It came to the gateway,
// and its credentials are the client's.
type original struct {
	host   string // as its Host header said; "" takes Server.Host
	target string // path and query, as they came; "" is /api/v5
	header http.Header
}

// roots are those that a path may stand under: what is behind them differs, and
// so does what credentials they take (decision B1).
type roots []string

// rootsOf are the APIs and what is guarded beside them.
func rootsOf(more client.Resources) roots {
	all := roots{client.APIPath, "/api/v4", "/api/v3"}
	for _, of := range more {
		all = append(all, of.Path)
	}
	return all
}

// of gives the longest root of a path; "" is none.
func (all roots) of(path string) (longest string) {
	for _, root := range all {
		if rest, ok := strings.CutPrefix(path, root); ok && (rest == "" || rest[0] == '/') && len(root) > len(longest) {
			longest = root
		}
	}
	return longest
}

// ambiguous describes the refusal of what settle does not take.
const ambiguous = "The path is none, or not every server reads it alike: send it without dot segments, its beginning as it is and the rest escaped once."

// settle gives the decoded path of a request target. It refuses a path that two
// readers might take for two: one with a dot segment, however often it is escaped,
// written with a backslash or followed by parameters; one that is under a root for
// some of them alone; and bytes that are not UTF-8, which some decode all the same.
func (all roots) settle(target string) (decoded string, ok bool) {
	raw, _, _ := strings.Cut(target, "?")
	// No target has a "#" (RFC 9112 section 3.2): some cut it off with what follows, in the
	// query as well, where a rule would read a role that the service does not.
	if !strings.HasPrefix(raw, "/") || strings.Contains(target, "#") {
		return "", false
	}
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return "", false
	}
	root := all.of(decoded)
	reading := raw
	for range 4 { // the path as it came, and after each decoding that somebody might do
		if !rules.Plain(reading) || all.of(cleaned(withoutParameters(reading))) != root {
			return "", false
		}
		next := rules.Unescaped(reading)
		if next == reading {
			return decoded, true
		}
		reading = next
	}
	return "", false // nobody escapes as often who does not hide something
}

// sent gives a path in the bytes that came, but for those that no URI has (RFC 3986
// section 2), which are escaped. URL.EscapedPath writes the whole path anew where
// there is one of those, and a slash for %2F.
func sent(u *url.URL) string {
	if u.RawPath == "" {
		return u.EscapedPath() // what came
	}
	var out strings.Builder
	for _, c := range []byte(u.RawPath) {
		if c >= utf8.RuneSelf || strings.IndexByte(" \"<>\\^`{|}", c) >= 0 {
			fmt.Fprintf(&out, "%%%02X", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// cleaned makes one of doubled slashes, of either kind.
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
		o.host = s.Host()
	}
	if s.Base(o.host) == "" {
		return nil, &api.Fault{Status: 421, Code: "misdirected_request", Description: "The host that was asked is not one of this server's."}
	}
	if o.target == "" {
		o.target = client.APIPath
	}
	decoded, ok := rootsOf(s.API.Resources).settle(o.target)
	if !ok {
		return nil, &api.Fault{Status: 400, Code: "invalid_request", Description: ambiguous}
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
