package e2e

import (
	"bufio"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

// The files for services in other languages accept and refuse what the one in Go
// does, which package identity holds to the same vectors.
func TestVerifyingInOtherLanguages(t *testing.T) {
	t.Parallel()
	for _, with := range [][]string{{"node", "testdata/vectors.mjs"}, {"python3", "testdata/vectors.py"}} {
		out, err := exec.Command(with[0], with[1], "../contrib/verify").CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), " vectors agree\n") {
			t.Errorf("%s: %v\n%s", with[0], err, out)
		}
	}
}

// Services in other languages behind api.upstream: each call that comes through the
// server is taken, and nothing else.
func TestServicesInOtherLanguagesBehind(t *testing.T) {
	t.Parallel()
	for _, with := range [][]string{{"node", "../docs/examples/notes.mjs"}, {"python3", "../docs/examples/notes.py"}} {
		t.Run(with[0], func(t *testing.T) {
			t.Parallel()
			c := exec.Command(with[0], with[1], secretFile(t, nginxKey))
			stdout, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			process(t, c)
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			service := strings.TrimSpace(line)
			h := serve(t, served{apiLimit: example(t, "upstream.toml", "http://127.0.0.1:9000", service, "/etc/grantkeeper/upstream.key", secretFile(t, nginxKey))})
			f, held := h.connected("", treasurer...)
			bearer := header{"Authorization", "Bearer " + held.access}
			caller := h.caller()
			for _, path := range []string{"/api/v5/notes", "/api/v5/notes?", "/api/v5/n%6Ftes?a=b%20c&d=%C3%A9"} {
				if a := caller.get(path, bearer); a.status != 200 || a.json(t)["person"] != "ada" || a.json(t)["client"] != f.client {
					t.Errorf("GET %s: %s", path, a)
				}
			}
			for _, body := range []string{"{}", "", strings.Repeat("ä", 30000)} {
				if a := caller.postJSON("/api/v5/notes", body, bearer); a.status != 201 {
					t.Errorf("POST of %d bytes: %s", len(body), a)
				}
			}
			_, read := h.connected("", "organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read")
			if a := caller.postJSON("/api/v5/notes", "{}", header{"Authorization", "Bearer " + read.access}); a.status != 403 || !strings.Contains(a.body, "treasurer") {
				t.Errorf("a change by who may read: %s", a)
			}

			now := time.Now()
			who, call := identity.Identity{Person: "ada", Organization: "nordlys", Grant: "everything"}, identity.Call{Method: "POST", Target: "/api/v5/notes", Body: []byte("{}")}
			for what, at := range map[string]time.Time{"now": now, "two minutes ago": now.Add(-2 * time.Minute)} {
				signed, err := who.Sign([]byte(nginxKey), at)
				if err == nil {
					err = identity.SignCall([]byte(nginxKey), signed, call)
				}
				if err != nil {
					t.Fatal(err)
				}
				var headers header
				for name, value := range signed {
					headers = append(headers, name, value)
				}
				for _, one := range []struct {
					method, path, body string
					header             header
					taken              bool
				}{
					{http.MethodPost, "/api/v5/notes", "{}", headers, what == "now"},
					{http.MethodPost, "/api/v5/notes", "{ }", headers, false},
					{http.MethodPost, "/api/v5/notes?", "{}", headers, false},
					{http.MethodPut, "/api/v5/notes", "{}", headers, false},
					{http.MethodPost, "/api/v5/notes", "{}", append(header{identity.HeaderPerson, "tor"}, headers...), false},
					{http.MethodPost, "/api/v5/notes", "{}", nil, false},
				} {
					if a := caller.send(one.method, service+one.path, one.body, one.header); a.status != map[bool]int{true: 201, false: 403}[one.taken] {
						t.Errorf("signed %s: %s %s %q: %s", what, one.method, one.path, one.body, a)
					}
				}
			}
		})
	}
}
