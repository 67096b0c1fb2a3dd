package api

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
)

func TestChallenge(t *testing.T) {
	const doc = "https://app.example/.well-known/oauth-protected-resource/api/v5"
	for _, c := range []struct {
		name, realm, metadata string
		rejected              bool
		want                  string
	}{
		{"no credential", "Svalinn", doc, false, `Bearer realm="Svalinn", resource_metadata="` + doc + `"`},
		{"rejected credential", "Svalinn", doc, true, `Bearer realm="Svalinn", resource_metadata="` + doc + `", error="invalid_token"`},
		{"API v3, no credential", "Svalinn", "", false, `Bearer realm="Svalinn"`},
		{"API v3, rejected", "Svalinn", "", true, `Bearer realm="Svalinn", error="invalid_token"`},
		{"name with quotes", `The "Best" \ Service`, doc, false, `Bearer realm="The \"Best\" \\ Service", resource_metadata="` + doc + `"`},
		{"name with line ends", "A\r\nSet-Cookie: x=1\x00\x7f", "", false, `Bearer realm="A  Set-Cookie: x=1  "`},
		{"name in other letters", "Æsir 神", "", false, `Bearer realm="Æsir 神"`},
		{"host with a quote", "S", "https://a\".example\r\n/\\ é", false, `Bearer realm="S", resource_metadata="https://a%22.example%0D%0A/%5C%20%C3%A9"`},
		{"every kind of character", "S", "https://azAZ09-._~:/?#[]@!$&'()*+,;=%`{@[/:^|}", false, `Bearer realm="S", resource_metadata="https://azAZ09-._~:/?#[]@!$&'()*+,;=%%60%7B@[/:%5E%7C%7D"`},
		{"IPv6 host", "S", "http://[::1]:8080/x", false, `Bearer realm="S", resource_metadata="http://[::1]:8080/x"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := challenge(c.realm, c.metadata, c.rejected); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestMetadataURL(t *testing.T) {
	const base = "https://app.example"
	const v5, mcp = base + "/.well-known/oauth-protected-resource/api/v5", base + "/.well-known/oauth-protected-resource/api/v5/mcp"
	for path, want := range map[string]string{
		"/api/v5": v5, "/api/v5/": v5, "/api/v5/me": v5, "/api/v5/mcpx": v5, "/api/v5/x/mcp": v5, "/elsewhere": v5,
		"/api/v5/mcp": mcp, "/api/v5/mcp/": mcp, "/api/v5/mcp/deeper": mcp,
	} {
		if got := new(Server).metadataURL(base, path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// Whatever the service is called and whatever host was asked: the challenge is
// one header line that parses, has the three parameters and no other, says the
// name back, and holds a URL in which nothing ends the quotes (F-06).
func FuzzChallenge(f *testing.F) {
	for _, realm := range []string{"Svalinn", `a"b`, `\`, `x\"`, "a\r\nb: c", "神", "\x00\x7f\xff", `", error="x`, ""} {
		for _, base := range []string{"https://app.example", "http://[::1]:8080", `https://a", x="y`, "https://a\r\nb", "%zz", "https://é.example", `//"`, ""} {
			f.Add(realm, base, "/api/v5/mcp", true)
			f.Add(realm, base, "/api/v5", false)
		}
	}
	f.Fuzz(func(t *testing.T, realm, base, path string, rejected bool) {
		metadata := new(Server).metadataURL(base, path)
		for _, metadata := range []string{metadata, ""} {
			got := challenge(realm, metadata, rejected)
			for i := range len(got) {
				if got[i] < ' ' || got[i] == 0x7f {
					t.Fatalf("control character in %q", got)
				}
			}
			p := parameters(t, got)
			wanted := 1
			if metadata != "" {
				wanted++
				checkURL(t, p["resource_metadata"], metadata)
			}
			if rejected {
				wanted++
			}
			if len(p) != wanted || (p["error"] == "invalid_token") != rejected {
				t.Fatalf("parameters %q in %q", p, got)
			}
			if p["realm"] != strings.Map(spaceForControl, realm) && realm == strings.ToValidUTF8(realm, "") {
				t.Fatalf("realm %q became %q", realm, p["realm"])
			}
		}
	})
}

func spaceForControl(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// wellFormed is every character that a URI may have (RFC 3986 section 2).
var wellFormed = regexp.MustCompile(`^[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]*$`)

// checkURL: a URL that could stand in a header is not touched; of any other
// nothing is left that could not.
func checkURL(t *testing.T, got, metadata string) {
	t.Helper()
	if !wellFormed.MatchString(got) {
		t.Fatalf("URL %q", got)
	}
	if wellFormed.MatchString(metadata) && got != metadata {
		t.Fatalf("%q became %q", metadata, got)
	}
	if back, err := url.PathUnescape(got); err == nil && !strings.Contains(metadata, "%") && back != metadata {
		t.Fatalf("%q became %q", metadata, got)
	}
}

// parameters reads a challenge by the grammar of RFC 9110 section 11.6.1,
// strictly: token "=" quoted-string, and a comma between.
func parameters(t *testing.T, header string) map[string]string {
	t.Helper()
	rest, ok := strings.CutPrefix(header, "Bearer ")
	if !ok {
		t.Fatalf("no scheme in %q", header)
	}
	p := map[string]string{}
	for {
		name, after, ok := strings.Cut(rest, `="`)
		if !ok || name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz_") != "" {
			t.Fatalf("no parameter at %q of %q", rest, header)
		}
		value, n := []byte{}, 0
		for n < len(after) && after[n] != '"' {
			if after[n] == '\\' {
				n++
			}
			if n < len(after) {
				value = append(value, after[n])
			}
			n++
		}
		if n >= len(after) {
			t.Fatalf("quotes stay open in %q", header)
		}
		if _, twice := p[name]; twice {
			t.Fatalf("%s twice in %q", name, header)
		}
		p[name] = string(value)
		if rest = after[n+1:]; rest == "" {
			return p
		}
		if rest, ok = strings.CutPrefix(rest, ", "); !ok {
			t.Fatalf("no comma at %q of %q", rest, header)
		}
	}
}

// What the log and the metrics call a path is one of few, whatever is asked (decision
// V60).
func TestRouteOfMorePaths(t *testing.T) {
	s := &Server{Resources: client.Resources{{Path: "/reports"}, {Path: "/tools", MCP: true}}}
	for path, want := range map[string]string{"/tools": "/tools", "/tools/x": "/tools/", "/reports/x": "/reports/", "/api/v5/mcp": "/api/v5/mcp", "/api/v5/mcp/x": "/api/", "/api/v5/x": "/api/", "/x": "/api/"} {
		if got := s.route(&url.URL{Path: path}); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
