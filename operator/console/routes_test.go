package console

import (
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/operator"
)

// Which right each path of the console needs (decision O8), for people to review: a new path is a
// line here.
var reviewedRights = map[string]operator.Rights{
	"GET /{$}":                                             operator.Read,
	"GET /attempts":                                        operator.Read,
	"GET /attempts/{id}":                                   operator.Read,
	"GET /clients":                                         operator.Read,
	"GET /clients/{id}":                                    operator.Read,
	"GET /clients/{id}/disable":                            operator.Act,
	"POST /clients/{id}/disable":                           operator.Act,
	"GET /clients/{id}/enable":                             operator.Act,
	"POST /clients/{id}/enable":                            operator.Act,
	"GET /approvals":                                       operator.Read,
	"GET /approvals/{id}/revoke":                           operator.Act,
	"POST /approvals/{id}/revoke":                          operator.Act,
	"GET /events":                                          operator.Read,
	"GET /events.jsonl":                                    operator.Read,
	"GET /people":                                          operator.Read,
	"GET /add-person":                                      operator.Administer,
	"POST /add-person":                                     operator.Administer,
	"GET /people/{id}":                                     operator.Read,
	"GET /people/{id}/link":                                operator.Act,
	"POST /people/{id}/link":                               operator.Act,
	"GET /people/{id}/sign-out":                            operator.Act,
	"POST /people/{id}/sign-out":                           operator.Act,
	"GET /people/{id}/reset-factor":                        operator.Act,
	"POST /people/{id}/reset-factor":                       operator.Act,
	"GET /people/{id}/deactivate":                          operator.Administer,
	"POST /people/{id}/deactivate":                         operator.Administer,
	"GET /people/{id}/reactivate":                          operator.Administer,
	"POST /people/{id}/reactivate":                         operator.Administer,
	"GET /organizations/{id}/turn-off":                     operator.Administer,
	"POST /organizations/{id}/turn-off":                    operator.Administer,
	"GET /organizations/{id}/turn-on":                      operator.Administer,
	"POST /organizations/{id}/turn-on":                     operator.Administer,
	"GET /organizations/{id}/add-member":                   operator.Administer,
	"POST /organizations/{id}/add-member":                  operator.Administer,
	"GET /organizations/{id}/members/{person}/remove":      operator.Administer,
	"POST /organizations/{id}/members/{person}/remove":     operator.Administer,
	"GET /organizations/{id}/members/{person}/make-admin":  operator.Administer,
	"POST /organizations/{id}/members/{person}/make-admin": operator.Administer,
	"GET /organizations/{id}/members/{person}/take-admin":  operator.Administer,
	"POST /organizations/{id}/members/{person}/take-admin": operator.Administer,
	"GET /organizations":                                   operator.Read,
	"GET /organizations/{id}":                              operator.Read,
	"GET /organizations/{id}/members":                      operator.Read,
	"GET /health":                                          operator.Read,
	"POST /health":                                         operator.Read,
	"GET /add-client":                                      operator.Administer,
	"POST /add-client":                                     operator.Administer,
	"GET /clients/{id}/delete":                             operator.Administer,
	"POST /clients/{id}/delete":                            operator.Administer,
	"GET /delete-unapproved":                               operator.Administer,
	"POST /delete-unapproved":                              operator.Administer,
	"GET /revoke-many":                                     operator.Administer,
	"POST /revoke-many":                                    operator.Administer,
	"GET /approvals/{id}/activity":                         operator.Read,
	"GET /approvals/{id}/explain":                          operator.Read,
	"GET /inspect":                                         operator.Read,
	"POST /inspect":                                        operator.Read,
	"POST /signout":                                        operator.Read,
}

// patterns are those of the table of routes, with their methods.
func patterns() map[string]operator.Rights {
	all := map[string]operator.Rights{}
	for _, r := range routes() {
		if r.get != nil {
			all["GET "+r.path] = r.right
		}
		if r.post != nil {
			all["POST "+r.path] = r.right
		}
	}
	return all
}

func TestEveryRouteHasItsRight(t *testing.T) {
	got := patterns()
	for pattern, right := range got {
		if reviewedRights[pattern] != right || right == 0 {
			t.Errorf("%s needs %d, and the list above says %d", pattern, right, reviewedRights[pattern])
		}
	}
	for pattern := range reviewedRights {
		if got[pattern] == 0 {
			t.Errorf("there is no %s", pattern)
		}
	}
	// What the pages ask about is in the table too.
	asked := regexp.MustCompile(`(?:\.May |mayAt\([\w.]+, )"([^"]+)"`)
	for _, m := range asked.FindAllStringSubmatch(sourceOfPages(t), -1) {
		if rightFor()[m[1]] == 0 {
			t.Errorf("pages ask whether somebody may %s, which is no path", m[1])
		}
	}
}

// pathOf gives a path of a pattern: of what is there, or of what is not.
func pathOf(pattern, live string, there bool) string {
	_, path, _ := strings.Cut(pattern, " ")
	ids := map[string]string{"/clients/": "quill", "/approvals/": live, "/people/": "ada", "/organizations/": "nordlys"}
	for kind, id := range ids {
		if !there {
			id = strings.Repeat("0", 32)
		}
		if strings.HasPrefix(path, kind) {
			path = strings.Replace(path, "{id}", id, 1)
		}
	}
	member := "tor"
	if !there {
		member = "nobody"
	}
	return strings.NewReplacer("{$}", "", "{person}", member).Replace(path)
}

// Every route, for everybody: who is not signed in goes to sign in, who has no right
// is refused before anything else, and who has it is not. The shared password opens
// all.
func TestEveryRouteForEverybody(t *testing.T) {
	o, live, _ := withNamed(t)
	one := o.attempt()
	browsers := map[operator.Rights]*browser{operator.Read: o.signedIn("rita"), operator.Act: o.signedIn("arne"), operator.Administer: o.signedIn("ingrid")}
	for _, pattern := range slices.Sorted(maps.Keys(patterns())) {
		method, _, _ := strings.Cut(pattern, " ")
		needs, path := patterns()[pattern], strings.Replace(pathOf(pattern, live, true), "{id}", one, 1)
		if p := o.browser().asks(method, path, nil); p.code != 303 || !strings.HasPrefix(p.head.Get("Location"), "/signin") || p.head.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: nobody gets %d", pattern, p.code)
		}
		for has, b := range browsers {
			p := b.asks(method, path, nil)
			refused := p.code == 403 && strings.Contains(p.body, "Your rights do not let you")
			if refused != (has < needs) {
				t.Errorf("%s: rights %d get %d, refused %v", pattern, has, p.code, refused)
			}
			if method == "POST" && has >= needs && p.code != 403 { // without its tag
				t.Errorf("%s: a form without a tag gets %d", pattern, p.code)
			}
			if p.code >= 500 {
				t.Errorf("%s: %d", pattern, p.code)
			}
		}
		if p := o.visit(method, path, nil); method == "GET" && p.code != 200 || method == "POST" && p.code != 403 {
			t.Errorf("%s: the shared password gets %d", pattern, p.code)
		}
		if needs > operator.Read {
			if p := browsers[operator.Administer].asks(method, path, nil, func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }); method == "POST" && p.code != 403 {
				t.Errorf("%s: of another site gets %d", pattern, p.code)
			}
		}
		if strings.Contains(pattern, "{") && pattern != "GET /{$}" {
			if p := browsers[operator.Administer].asks(method, pathOf(pattern, live, false), url.Values{}); p.code != 404 && !(method == "POST" && p.code == 403) {
				t.Errorf("%s of what is not there: %d", pattern, p.code)
			}
		}
	}
}

// sourceOfPages is the text of the console's Go files and templates.
func sourceOfPages(t *testing.T) string {
	t.Helper()
	var all strings.Builder
	for _, glob := range []string{"*.go", "templates/*.html"} {
		names, err := filepath.Glob(glob)
		if err != nil || len(names) == 0 {
			t.Fatal(names, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	return all.String()
}
