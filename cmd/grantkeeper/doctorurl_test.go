package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/probe"
)

// elsewhere is an MCP endpoint of somebody else, by https, with an authorization
// server that lacks what change takes out of its metadata.
func elsewhere(t *testing.T, change func(map[string]any)) (address, caFile string) {
	t.Helper()
	var s *httptest.Server
	s = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		switch r.URL.Path {
		case "/mcp":
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer scope="a", resource_metadata="%s/.well-known/oauth-protected-resource/mcp"`, s.URL))
			w.WriteHeader(401)
		case "/.well-known/oauth-protected-resource/mcp":
			fmt.Fprintf(w, `{"resource":"%s/mcp","authorization_servers":["%s"],"scopes_supported":["a"]}`, s.URL, s.URL)
		case "/.well-known/oauth-authorization-server":
			all := map[string]any{"issuer": s.URL, "authorization_endpoint": s.URL + "/a", "token_endpoint": s.URL + "/t", "registration_endpoint": s.URL + "/r",
				"revocation_endpoint": s.URL + "/v", "response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token"},
				"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": []string{"none"},
				"authorization_response_iss_parameter_supported": true, "client_id_metadata_document_supported": true}
			change(all)
			json.NewEncoder(w).Encode(all)
		case "/r":
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"invalid_redirect_uri","error_description":"\u001b[2Jno"}`)
		case "/t", "/a":
			w.WriteHeader(400)
			fmt.Fprint(w, `{"error":"invalid_request"}`)
		default:
			w.WriteHeader(404)
		}
	}))
	t.Cleanup(s.Close)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return s.URL + "/mcp", caFile
}

// doctor --url needs no configuration. Notes are no fault, warnings are one with
// --strict, and what others wrote is escaped.
func TestDoctorOfAnotherServer(t *testing.T) {
	run := func(args ...string) (string, int) {
		var out, errs bytes.Buffer
		code := runOn(strings.NewReader(""), append([]string{"doctor", "--color", "never"}, args...), &out, &errs)
		return out.String() + errs.String(), code
	}
	good, ca := elsewhere(t, func(map[string]any) {})
	out, code := run("--url", good, "--ca-file", ca, "--strict")
	if code != 0 || !strings.Contains(out, "0 notes, 0 warnings, 0 faults.") || strings.Contains(out, "register.https") {
		t.Errorf("good: %d\n%s", code, out)
	}
	if out, code = run("--url", good); code != fault.Failed || !strings.Contains(out, "certificate that is not trusted") {
		t.Errorf("not trusted: %d\n%s", code, out)
	}
	if out, code = run("--url", good, "--ca-file", ca, "--register"); code != 0 || !strings.Contains(out, `"\x1b[2Jno"`) || strings.Contains(out, "\x1b") {
		t.Errorf("refused clients: %d\n%q", code, out)
	}
	if _, code = run("--url", good, "--ca-file", ca, "--register", "--strict"); code != fault.Failed {
		t.Errorf("strict: %d", code)
	}

	bad, ca := elsewhere(t, func(all map[string]any) { delete(all, "code_challenge_methods_supported") })
	out, code = run("--url", bad, "--ca-file", ca, "--json")
	var said struct {
		URL    string
		Rows   []probe.Row
		Faults int
	}
	if err := json.NewDecoder(strings.NewReader(out)).Decode(&said); err != nil || code != fault.Failed || said.URL != bad || said.Faults != 3 { // and two revisions
		t.Errorf("bad: %d, %v\n%s", code, err, out)
	}
	var codes []string
	for _, r := range said.Rows {
		codes = append(codes, r.Code)
	}
	if strings.Join(codes, " ") != strings.Join(probe.Codes(), " ") {
		t.Errorf("rows %q", codes)
	}
}

// An assistant gets through to this server, at each of its addresses; a client that was
// registered stays, and is named.
func TestDoctorURLOfDev(t *testing.T) {
	s := shell{t, startDev(t, devserver.Options{})}
	for _, path := range []string{"", "/api/v5", "/api/v5/mcp"} {
		var out, errs bytes.Buffer
		if code := runOn(strings.NewReader(""), []string{"doctor", "--url", s.dev.Server + path, "--strict"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "0 warnings, 0 faults") {
			t.Errorf("%s: %d\n%s%s", path, code, &out, &errs)
		}
	}
	var out, errs bytes.Buffer
	runOn(strings.NewReader(""), []string{"doctor", "--url", s.dev.Server + "/api/v5/mcp", "--register"}, &out, &errs)
	var named string
	for _, item := range s.does("", "client", "list", "--query", "grantkeeper doctor")["items"].([]any) {
		named = item.(map[string]any)["client_id"].(string)
	}
	if named == "" || !strings.Contains(out.String(), "registered and not deleted") || !strings.Contains(out.String(), named) {
		t.Errorf("client %q\n%s", named, &out)
	}
}

func TestDoctorURLUse(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none.pem")
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]int{
		"--register":                          fault.Use,
		"--ca-file x":                         fault.Use,
		"--url=":                              fault.Use,
		"--url ftp://a.example":               fault.Use,
		"--url https://a:b@a.example":         fault.Use,
		"--url https://a.example --only mail": fault.Use,
		"--url https://a.example --base-url https://b.example": fault.Use,
		"--url https://a.example --ca-file " + none:            fault.Reach,
		"--url https://a.example --ca-file " + empty:           fault.Use,
	} {
		var out, errs bytes.Buffer
		if code := runOn(strings.NewReader(""), append([]string{"doctor"}, strings.Fields(line)...), &out, &errs); code != want || out.Len() > 0 {
			t.Errorf("%s: %d, want %d\n%s%s", line, code, want, &out, &errs)
		}
	}
}

// Ended by a signal, it deletes what it has registered, and names what it cannot delete.
func TestDoctorURLThatIsEnded(t *testing.T) {
	for _, tt := range []struct {
		by      os.Signal
		code    int
		deletes bool
	}{{os.Interrupt, fault.Interrupt, true}, {syscall.SIGTERM, fault.Terminate, false}} {
		var left atomic.Int32
		var s *httptest.Server
		begun := make(chan struct{}, 1)
		s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/.well-known/oauth-authorization-server":
				fmt.Fprintf(w, `{"issuer":%q,"authorization_endpoint":"%[2]s/a","token_endpoint":"%[2]s/t","registration_endpoint":"%[2]s/r"}`, s.URL, s.URL)
			case "/r":
				left.Add(1)
				w.WriteHeader(201)
				fmt.Fprintf(w, `{"client_id":"made-%d"`, left.Load())
				if tt.deletes {
					fmt.Fprintf(w, `,"registration_access_token":"t","registration_client_uri":"%s/m"`, s.URL)
				}
				fmt.Fprint(w, "}")
			case "/m":
				left.Add(-1)
				w.WriteHeader(204)
			case "/a":
				if r.URL.Query().Has("client_id") {
					begun <- struct{}{}
					<-r.Context().Done()
				}
			default:
				w.WriteHeader(404)
			}
		}))
		t.Cleanup(s.Close)
		c := command(t, "doctor", "--url", s.URL, "--register")
		var said bytes.Buffer
		c.Stderr = &said
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-begun:
		case <-time.After(time.Minute):
			t.Fatalf("it does not begin: %s", &said)
		}
		if err := c.Process.Signal(tt.by); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // the code says it
		if code := c.ProcessState.ExitCode(); code != tt.code || tt.deletes != (left.Load() == 0) || tt.deletes == strings.Contains(said.String(), "made-1") {
			t.Errorf("%v: exit code %d, %d clients are left: %s", tt.by, code, left.Load(), &said)
		}
	}
}
