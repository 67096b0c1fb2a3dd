package e2e

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/consent"
	"github.com/grantkeeper/grantkeeper/orgadmin"
)

// A declaredRoute is one that a door declares in its source.
type declaredRoute struct {
	door, method, path string
}

// declaredRoutes has those of people's pages from the tables that are served, and reads
// the operators' out of the sources, so that those that are added later are among them.
func declaredRoutes(t testing.TB) (routes []declaredRoute) {
	t.Helper()
	declared := regexp.MustCompile(`(?m)(?:\bHandle(?:Func)?\(|^\s*)"([A-Z]+) (/[^"]*)?"(?: \+ (at\w+)(?: \+ "([^"]*)")?)?\s*[:,]`)
	named := regexp.MustCompile(`(?m)^\s*(at\w+)\s*= (?:(at\w+) \+ )?"([^"]*)"$`)
	begins := map[string]string{"": ""}
	for _, pattern := range slices.Sorted(slices.Values(slices.Concat(consent.Patterns(), orgadmin.Patterns()))) {
		method, path, _ := strings.Cut(pattern, " ")
		routes = append(routes, declaredRoute{"consent", method, strings.TrimSuffix(path, "{$}")})
	}
	files, err := filepath.Glob("../operator/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(source), -1) {
			begins[m[1]] = begins[m[2]] + m[3]
		}
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			path := m[2] + begins[m[3]] + m[4]
			if !strings.HasPrefix(path, "/") {
				t.Errorf("%s: %s: no path", name, m[0])
			}
			routes = append(routes, declaredRoute{"operator", m[1], strings.TrimSuffix(path, "{$}")})
		}
	}
	return routes
}

// everywhere sends secrets to every route that a door declares, in its path,
// its query, its headers and as every field that one of them reads: as somebody
// who is signed in, and as the operator. What it is shown itself it adds to the
// secrets.
func (h *house) everywhere(s secrets, f *flow) {
	h.t.Helper()
	access, refresh, code := s["living, second access token"], s["living, second refresh token"], s["waiting code"]
	b := h.signedIn("tor@nordlys.example")
	s.cookies("signed in again", b)
	csrf := b.page("/").form("/signout").values.Get("csrf")
	s["form token again"] = csrf
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("operator:"+h.password))
	routes := declaredRoutes(h.t)
	// Signing out ends what the others need.
	slices.SortStableFunc(routes, func(a, b declaredRoute) int {
		return strings.Count(a.path, "signout") - strings.Count(b.path, "signout")
	})
	parameter := regexp.MustCompile(`\{[^}]*\}`)
	for _, r := range routes {
		for _, secret := range []string{access, code} {
			path := parameter.ReplaceAllString(r.path, secret) + "?code=" + code + "&state=" + f.state + "&return=" + secret + "&after=" + secret
			headers := []header{{"Referer", h.base + "/?code=" + code}, {"User-Agent", access}, {"X-Auth-Token", refresh}}
			if r.door == "operator" {
				headers = append(headers, header{"Authorization", basic})
				if r.method == "GET" {
					b.send("GET", h.operator+path, "", headers...)
				}
				// Each has a member that is unknown, or a secret that is to be kept.
				for _, member := range []string{"token", "password", "person", "secret", "email", "id"} {
					body, _ := json.Marshal(map[string]string{member: secret, "reason": "test"})
					if r.method == "POST" {
						b.send("POST", h.operator+path, string(body), append(headers, header{"Content-Type", "application/json"})...)
					}
				}
				continue
			}
			if r.method == "GET" {
				b.send("GET", path, "", headers...)
				continue
			}
			for _, token := range []string{csrf, secret} {
				b.send(r.method, path, form("csrf", token, "email", secret, "password", s["wrong password"], "current", s["wrong password"],
					"new", refresh, "again", access, "code", code, "request", s["sealed request"], "return", secret, "secret", refresh,
					"decision", "approve", "grant", "everything", "organization", secret, "reason", "test"),
					append(headers, header{"Content-Type", "application/x-www-form-urlencoded"}, header{"Sec-Fetch-Site", "same-origin"})...)
			}
		}
	}
	if len(routes) < 80 {
		h.t.Errorf("only %d routes were found", len(routes))
	}
}
