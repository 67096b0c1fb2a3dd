package e2e

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
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

// frameworks are those that a service of docs/examples is written with.
var frameworks = []string{"net/http", "express", "fastify", "flask", "fastapi"}

// serviceOf runs the service of docs/examples that is written with a framework, beside
// the file of contrib/verify and what scripts/packages.sh has fetched, and gives its address.
func serviceOf(t *testing.T, framework string) string {
	t.Helper()
	program, ending := "node", ".mjs"
	switch framework {
	case "net/http":
		return "http://" + notesService(t, nginxKey)
	case "flask", "fastapi":
		program, ending = "/usr/bin/python3", ".py" // the system's, which has Debian's packages
		if _, err := os.Stat(program); err != nil {
			program = "python3"
		}
	}
	dir := t.TempDir()
	if ending == ".mjs" {
		if err := os.Symlink(packages(t, "services"), filepath.Join(dir, "node_modules")); err != nil {
			t.Fatal(err)
		}
	}
	for _, from := range []string{"../contrib/verify/grantkeeper" + ending, "../docs/examples/notes_" + framework + ending} {
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(from)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command(program, filepath.Join(dir, "notes_"+framework+ending), secretFile(t, nginxKey))
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	process(t, c)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v: run scripts/setup-debian.sh", framework, err)
	}
	return strings.TrimSpace(line)
}

// Services with each framework behind api.upstream: each call that comes through the
// server is taken, and nothing else.
func TestServicesBehind(t *testing.T) {
	t.Parallel()
	for _, framework := range frameworks {
		t.Run(framework, func(t *testing.T) {
			t.Parallel()
			service := serviceOf(t, framework)
			h := serve(t, served{apiLimit: example(t, "upstream.toml", "http://127.0.0.1:9000", service, "/etc/grantkeeper/service.key", secretFile(t, nginxKey))})
			f, held := h.connected("", treasurer...)
			bearer := header{"Authorization", "Bearer " + held.access}
			takesCalls(t, h, bearer, f.client)
			_, read := h.connected("", "organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read")
			if a := h.caller().postJSON("/api/v5/notes", "{}", header{"Authorization", "Bearer " + read.access}); a.status != 403 || !strings.Contains(a.body, "treasurer") {
				t.Errorf("a change by who may read: %s", a)
			}
			refusesOthers(t, h.caller(), service)
		})
	}
}

// takesCalls makes calls whose paths, queries and bodies are read in many ways.
func takesCalls(t *testing.T, h *house, bearer header, client string) {
	t.Helper()
	caller := h.caller()
	for _, path := range []string{
		"/api/v5/notes", "/api/v5/notes/", "/api/v5/n%6Ftes?a=b%20c&d=%C3%A9", "/api/v5/notes/a%2Fb", "/api/v5/notes/a%2fb", "/api/v5/notes/a+b;c=d,e", "/api/v5/notes/%C3%A9%25%3B%3F",
		"/api/v5/notes?a=b+c;d=e%2Ff", "/api/v5/notes?%2F%3F=%26&&=&a", "/api/v5/notes?a=?b/c", "/api/v5/notes?a=[b]'(c)!*~@:$",
	} {
		a := caller.get(path, bearer)
		told := strings.ToLower(a.body)
		if a.status != 200 || !strings.Contains(told, `"person":"ada"`) || !strings.Contains(told, `"client":"`+strings.ToLower(client)+`"`) {
			t.Errorf("GET %s: %s", path, a)
		}
		if a := caller.send("HEAD", path, "", bearer); a.status != 200 || a.body != "" {
			t.Errorf("HEAD %s: %s", path, a)
		}
	}
	for _, body := range []string{"{}", `{"title":"Frühling","more":"` + strings.Repeat("ä", 30000) + `"}`} {
		if a := caller.postJSON("/api/v5/notes", body, bearer); a.status != 201 || len(a.body) < len(body) || !strings.Contains(a.body, "{") {
			t.Errorf("POST of %d bytes: %s", len(body), a)
		}
	}
	a := h.raw("POST /api/v5/notes?x=%C3%A9 HTTP/1.1\r\nHost: " + h.host() + "\r\nAuthorization: " + bearer[1] + "\r\nContent-Type: application/json\r\n" +
		"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n")
	if a.status != 201 || !strings.Contains(strings.ReplaceAll(a.body, " ", ""), `{"a":1}`) {
		t.Errorf("POST in chunks: %s", a)
	}
	long := `{"more":"` + strings.Repeat("a", 80000) + `"}`
	if a := caller.postJSON("/api/v5/notes", long, bearer); a.status != 502 {
		t.Errorf("POST of more than is signed: %d", a.status)
	}
}

// refusesOthers asks the service itself, with what was signed for a call.
func refusesOthers(t *testing.T, caller *caller, service string) {
	t.Helper()
	who, call := identity.Identity{Person: "ada", Organization: "nordlys", Grant: "everything"}, identity.Call{Method: "POST", Target: "/api/v5/notes", Body: []byte("{}")}
	headers := func(key string, at time.Time) header {
		signed, err := who.Sign([]byte(key), at)
		if err == nil {
			err = identity.SignCall([]byte(key), signed, call)
		}
		if err != nil {
			t.Fatal(err)
		}
		h := header{"Content-Type", "application/json"}
		for name, value := range signed {
			h = append(h, name, value)
		}
		return h
	}
	good := headers(nginxKey, time.Now())
	for what, tt := range map[string]struct {
		method, path, body string
		header             header
		want               int
	}{
		"the call that was signed":  {"POST", "/api/v5/notes", "{}", good, 201},
		"another body":              {"POST", "/api/v5/notes", "{ }", good, 401},
		"no body":                   {"POST", "/api/v5/notes", "", good, 401},
		"a query":                   {"POST", "/api/v5/notes?a", "{}", good, 401},
		"another path":              {"POST", "/api/v5/notes/", "{}", good, 401},
		"a path that is not there":  {"POST", "/elsewhere", "{}", good, 401},
		"another way to write it":   {"POST", "/api/v5/n%6Ftes", "{}", good, 401},
		"another method":            {"PUT", "/api/v5/notes", "{}", good, 401},
		"a person twice":            {"POST", "/api/v5/notes", "{}", append(header{identity.HeaderPerson, "tor"}, good...), 401},
		"signed two minutes ago":    {"POST", "/api/v5/notes", "{}", headers(nginxKey, time.Now().Add(-2*time.Minute)), 401},
		"signed by somebody else":   {"POST", "/api/v5/notes", "{}", headers(billingKey, time.Now()), 401},
		"nothing is signed":         {"POST", "/api/v5/notes", "{}", nil, 401},
		"nothing is signed, to GET": {"GET", "/api/v5/notes", "", header{identity.HeaderPerson, "ada"}, 401},
	} {
		if a := caller.send(tt.method, service+tt.path, tt.body, tt.header); a.status != tt.want || a.header.Get("WWW-Authenticate") != "" {
			t.Errorf("%s: %s", what, a)
		}
	}
}
