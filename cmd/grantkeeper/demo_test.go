package main

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/devserver"
)

// alarms gives what is counted of approvals that ended by a used refresh token,
// and of those of drills.
func alarms(t *testing.T, dev running) (reused, drills string) {
	t.Helper()
	a, err := http.Get(dev.Operator + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) string {
		_, rest, _ := strings.Cut(string(all), "\n"+name+" ")
		value, _, _ := strings.Cut(rest, "\n")
		return value
	}
	return find("grantkeeper_refresh_reuse_detected_total"), find(`grantkeeper_approvals_ended_total{reason="drill"}`)
}

func TestDemoAgainstDev(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	var out strings.Builder
	if err := demo.Run(t.Context(), demo.Options{BaseURL: dev.Server, Steps: "1-10"}, &out); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	want := ` 1  discover   GET  /.well-known/oauth-authorization-server        200
 2  register   POST /oauth/register                                201  client …
 3  authorize  GET  /oauth/authorize?…                             303  sign-in
 4  sign in    POST /signin              as ada@nordlys.example    303
 5  consent    Nordlys, selected roles: Treasurer (change)         303  https://demo-client.example/callback?code=…
 6  exchange   POST /oauth/token                                   200  svo_…, 1800 s
 7  call API   POST /api/v5/mcp                                    200  MCP: Svalinn, API: a service
 8  refresh    POST /oauth/token                                   200  new svr_…
 9  reuse      POST /oauth/token  with the old refresh token       400  invalid_grant (expected: theft)
10  call API   with the newest access token                        401  invalid_token (expected: all ended)
All 10 steps as expected.
`
	got := regexp.MustCompile(`client \w{4}…\w\w\n`).ReplaceAllString(out.String(), "client …\n")
	if got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	ended := dev.operator(t, "GET", "/v1/approvals?state=ended", "")["items"].([]any)
	if len(ended) != 1 || ended[0].(map[string]any)["reason"] != "refresh_reused" {
		t.Errorf("what it left: %v", ended)
	}

	t.Run("that raises no alarm", func(t *testing.T) {
		reused, drills := alarms(t, dev)
		stdout, stderr, code := ran(t, "demo", "--base-url", dev.Server, "--operator", dev.Operator)
		if code != 0 || !strings.Contains(stdout, ", and one for drills\n") || !strings.Contains(stdout, "invalid_grant (expected: theft)\n") {
			t.Errorf("%d %s\n%s", code, stderr, stdout)
		}
		if now, counted := alarms(t, dev); reused != "1" || now != "1" || drills != "0" || counted != "1" {
			t.Errorf("thefts %s, then %s; drills %s, then %s", reused, now, drills, counted)
		}
		if left := dev.operator(t, "GET", "/v1/clients?state=preregistered", "")["items"].([]any); len(left) != 2 { // dev's own, and that of programs on a computer
			t.Errorf("it left %v", left)
		}
	})

	t.Run("json is one document", func(t *testing.T) {
		for email, want := range map[string]demo.Told{
			"":              {Steps: []demo.ToldStep{{Step: 1, Status: 200, OK: true}, {Step: 2, Status: 201, OK: true}, {Step: 3, Status: 303, OK: true}, {Step: 4, Status: 303, OK: true}}, OK: true},
			"who@x.example": {Steps: []demo.ToldStep{{Step: 1, Status: 200, OK: true}, {Step: 2, Status: 201, OK: true}, {Step: 3, Status: 303, OK: true}, {Step: 4, Status: 422}}},
		} {
			var out strings.Builder
			err := demo.Run(t.Context(), demo.Options{BaseURL: dev.Server + "/", Email: email, Steps: "1-4", JSON: true}, &out)
			var got demo.Told
			if e := json.Unmarshal([]byte(out.String()), &got); e != nil || (err == nil) != want.OK || got.OK != want.OK || len(got.Steps) != len(want.Steps) {
				t.Fatalf("%q: %v, %v: %s", email, err, e, out.String())
			}
			for i, s := range got.Steps {
				if w := want.Steps[i]; s.Step != w.Step || s.Status != w.Status || s.OK != w.OK || (s.Error == "") != w.OK || s.Name != demo.Steps[i].Name || s.What == "" {
					t.Errorf("%q: %+v", email, s)
				}
			}
		}
	})
	t.Run("verbose shows no secrets", func(t *testing.T) {
		var out strings.Builder
		if err := demo.Run(t.Context(), demo.Options{BaseURL: dev.Server, Steps: "1-10", Verbose: true}, &out); err != nil {
			t.Fatal(err)
		}
		secrets := regexp.MustCompile(`sv[orc]_[A-Za-z0-9]{10}|(password|code|code_verifier|state|csrf|request|refresh_token)=[^…&\n]`)
		if found := secrets.FindAllString(out.String(), -1); len(found) > 0 {
			t.Errorf("%v in\n%s", found, out.String())
		}
		for _, shown := range []string{"> POST " + dev.Server + "/oauth/token\n", "grant_type=authorization_code", "role:nordlys-treasurer=change", `"token_type":"Bearer"`} {
			if !strings.Contains(strings.ReplaceAll(out.String(), "role%3A", "role:"), shown) {
				t.Errorf("without %q:\n%s", shown, out.String())
			}
		}
	})
	t.Run("other people", func(t *testing.T) {
		for email, want := range map[string]string{
			"mei@storhavn.example": "Storhavn, selected roles:", "tor@nordlys.example": "Nordlys, selected roles: ",
		} {
			var out strings.Builder
			if err := demo.Run(t.Context(), demo.Options{BaseURL: dev.Server, Steps: "1-5", Email: email}, &out); err != nil || !strings.Contains(out.String(), want) {
				t.Errorf("%s: %v\n%s", email, err, out.String())
			}
		}
		dev.operator(t, "POST", "/v1/organizations/fjell/members", `{"person":"ola"}`)
		var out strings.Builder
		if err := demo.Run(t.Context(), demo.Options{BaseURL: dev.Server, Steps: "1-10", Email: "ola@havn.example"}, &out); err != nil ||
			!strings.Contains(out.String(), "Fjell, only personal items") {
			t.Errorf("somebody without roles: %v\n%s", err, out.String())
		}
	})
	t.Run("differs", func(t *testing.T) {
		dev.operator(t, "POST", "/v1/organizations/fjell/members/ola/remove", "")
		wrong := write(t, "password", "not the password\n", 0o600)
		for _, tt := range []struct {
			o    demo.Options
			want string
		}{
			{demo.Options{PasswordFile: wrong}, "Step 4 of 10 differs: expected 303, got 422: The email or the password is not right."},
			{demo.Options{Email: "ola@havn.example"}, "Step 5 of 10 differs: expected 200, got 403: None of your organizations allows this yet."},
		} {
			tt.o.BaseURL, tt.o.Steps = dev.Server, "1-10"
			text, code := refused(t, demo.Run(t.Context(), tt.o, io.Discard))
			if code != 1 || !strings.HasPrefix(text, tt.want) {
				t.Errorf("code %d, %q, want %q", code, text, tt.want)
			}
		}
	})
}

// Where an organization lets access last for so many days, the demo chooses that.
func TestDemoWithinALongestDuration(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	for _, id := range []string{"nordlys", "fjell"} { // alike, and one alone
		dev.operator(t, "PUT", "/v1/organizations/"+id+"/policy", `{"policy":{"max_days":14},"reason":"test"}`)
		var out strings.Builder
		if err := demo.Run(t.Context(), demo.Options{BaseURL: dev.Server, Steps: "1-6"}, &out); err != nil {
			t.Errorf("%s: %v\n%s", id, err, out.String())
		}
	}
}

// Demo names what stands behind API and MCP, in a line of visible ASCII; without an
// MCP server it differs.
func TestDemoNamesWhatIsBehind(t *testing.T) {
	const nothing = `{"error":"not_found","error_description":"No service is connected here yet: the operator sets api.upstream."}`
	long := strings.Repeat("x", 5000)
	for _, tt := range []struct {
		name, kind, mcp  string
		status, api      int
		hosts, note, err string
	}{
		{"json", "application/json", `{"id":1,"result":{"serverInfo":{"name":"bakery"}}}`, 200, 200, "127.0.0.1:9000", "MCP: bakery at 127.0.0.1:9000, API: a service at 127.0.0.1:9000", ""},
		{"events", "text/event-stream", "data: {\"id\":1,\"result\":{\"serverInfo\":{\"name\":\"b\\u001b[2J\u0430\\n\"}}}\n\n", 200, 404, "", `MCP: "b\x1b[2J\u0430\n", API: nothing`, ""},
		{"long", "application/json", `{"id":1,"result":{"serverInfo":{"name":"` + long + `"}}}`, 200, 502, "a.example", "MCP: " + long[:99] + `… at a.example, API: a fault (502) at a.example`, ""},
		{"nameless", "application/json", `{"id":1,"result":{}}`, 200, 405, "", `MCP: "", API: a service`, ""},
		{"none", "application/json", nothing, 404, 200, "", "the token was taken, and nothing stands behind", demo.ErrNothingBehind.Error()},
		{"refused", "application/json", `{}`, 403, 200, "", "", "expected 200, got 403: <nil> <nil>"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer svo_x" {
				t.Errorf("%s: %s without the token", tt.name, r.URL)
			}
			w.Header().Set("Content-Type", tt.kind)
			if r.URL.Path == "/api/v5/mcp" {
				w.WriteHeader(tt.status)
				io.WriteString(w, tt.mcp)
				return
			}
			w.WriteHeader(tt.api)
			io.WriteString(w, nothing)
		}))
		d, err := demo.New(demo.Options{BaseURL: server.URL, BehindAPI: tt.hosts, BehindMCP: tt.hosts}, 10)
		if err != nil {
			t.Fatal(err)
		}
		d.Access = "svo_x"
		o, err := d.Call(t.Context())
		if o.Note != tt.note || o.Status != tt.status || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%s: %+v, %v; want %q", tt.name, o, err, tt.note)
		}
		server.Close()
	}
	for upstream, want := range map[string]string{"https://api.example:8443/mcp?key=hush": "api.example:8443", "": "", "http://[::1": ""} {
		if got := behindOf(upstream); got != want {
			t.Errorf("%q: %q", upstream, got)
		}
	}
}

// Demo notices a server that does one thing wrong.
func TestDemoNoticesWrongServers(t *testing.T) {
	dev := startDev(t, devserver.Options{})
	to, err := url.Parse(dev.Server)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		step string
		path string
		bend func(*http.Response)
	}{
		{"Step 1", "/.well-known/oauth-authorization-server", func(a *http.Response) { a.StatusCode = 404 }},
		{"Step 2", "/oauth/register", func(a *http.Response) { a.StatusCode = 200 }},
		{"Step 3", "/oauth/authorize", func(a *http.Response) { a.Header.Set("Location", "https://evil.example/signin") }},
		{"Step 4", "/signin", func(a *http.Response) {
			if a.StatusCode == 303 {
				a.StatusCode = 302
			}
		}},
		{"Step 1", "/.well-known/oauth-authorization-server", inBody(`"issuer":"`, `"issuer":"x`)},
		{"Step 1", "/.well-known/oauth-authorization-server", inBody(`"token_endpoint":"http://`, `"token_endpoint":"http://x`)},
		{"Step 2", "/oauth/register", inBody(`"client_name"`, `"client_secret":"x","client_name"`)},
		{"Step 4", "/signin", func(a *http.Response) {
			if a.StatusCode == 303 {
				a.Header.Set("Location", "https://evil.example/oauth/authorize")
			}
		}},
		{"Step 6", "/oauth/token", inBody(`"expires_in":1800`, `"expires_in":3600`)},
		{"Step 6", "/oauth/token", inBody(`"Bearer"`, `"MAC"`)},
		{"Step 8", "/oauth/token", keepTokens()},
		{"Step 9", "/oauth/token", inBody(`"invalid_grant"`, `"invalid_request"`)},
		{"Step 5", "/oauth/authorize", func(a *http.Response) {
			a.Header.Set("Location", strings.Replace(a.Header.Get("Location"), "state=", "state=x", 1))
		}},
		{"Step 5", "/oauth/authorize", func(a *http.Response) {
			a.Header.Set("Location", strings.Replace(a.Header.Get("Location"), "iss=http", "iss=https", 1))
		}},
		{"Step 5", "/oauth/authorize", func(a *http.Response) {
			if a.StatusCode == 303 && strings.Contains(a.Header.Get("Location"), "callback") {
				a.StatusCode = 307
			}
		}},
		{"Step 6", "/oauth/token", func(a *http.Response) { a.StatusCode = 500 }},
		{"Step 7", "/api/v5/mcp", func(a *http.Response) { a.StatusCode = 401 }},
		{"Step 9", "/oauth/token", func(a *http.Response) {
			if a.StatusCode == 400 {
				a.StatusCode = 401
			}
		}},
		{"Step 10", "/api/v5/mcp", func(a *http.Response) { a.Header.Set("WWW-Authenticate", "Bearer") }},
	} {
		proxy := &httputil.ReverseProxy{
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = r.In.Host },
			ModifyResponse: func(a *http.Response) error {
				if a.Request.URL.Path == tt.path {
					tt.bend(a)
				}
				return nil
			},
		}
		server := httptest.NewServer(proxy)
		text, code := refused(t, demo.Run(t.Context(), demo.Options{BaseURL: server.URL, Steps: "1-10"}, io.Discard))
		if code != 1 || !strings.HasPrefix(text, tt.step+" of 10 differs: expected") {
			t.Errorf("%s at %s: code %d, %q", tt.step, tt.path, code, text)
		}
		server.Close()
	}
}

// inBody replaces a part of every body.
func inBody(old, with string) func(*http.Response) {
	return func(a *http.Response) {
		text, _ := io.ReadAll(a.Body)
		changed := strings.Replace(string(text), old, with, 1)
		a.Body, a.ContentLength = io.NopCloser(strings.NewReader(changed)), int64(len(changed))
		a.Header.Set("Content-Length", strconv.Itoa(len(changed)))
	}
}

// keepTokens answers every success with the tokens of the first.
func keepTokens() func(*http.Response) {
	first := ""
	return func(a *http.Response) {
		text, _ := io.ReadAll(a.Body)
		if first == "" {
			first = string(text)
		}
		if a.StatusCode == 200 {
			text = []byte(first)
		}
		a.Body, a.ContentLength = io.NopCloser(strings.NewReader(string(text))), int64(len(text))
		a.Header.Set("Content-Length", strconv.Itoa(len(text)))
	}
}

func TestDemoOptions(t *testing.T) {
	for _, tt := range []struct {
		o    demo.Options
		code int
	}{
		{demo.Options{BaseURL: "http://127.0.0.1:1", Steps: "1-1"}, 4},
		{demo.Options{BaseURL: "app.example", Steps: "1-1"}, 2},
		{demo.Options{BaseURL: "http://127.0.0.1:1/x", Steps: "1-1"}, 2},
		{demo.Options{BaseURL: "http://127.0.0.1:1", Steps: "2-3"}, 2},
		{demo.Options{BaseURL: "http://127.0.0.1:1", Steps: "1-11"}, 2},
		{demo.Options{BaseURL: "http://127.0.0.1:1", Steps: "all"}, 2},
		{demo.Options{BaseURL: "https://app.example", Steps: "1-10"}, 2}, // dev's password is nothing to send elsewhere
		{demo.Options{BaseURL: "http://127.0.0.1:1", Steps: "1-10", PasswordFile: "/nowhere"}, 4},
	} {
		if _, code := refused(t, demo.Run(t.Context(), tt.o, io.Discard)); code != tt.code {
			t.Errorf("%+v: code %d, want %d", tt.o, code, tt.code)
		}
	}
	why := errors.New("lookup app.example: no such host")
	for base, want := range map[string]string{
		"http://[::1]:8080":   "http://[::1]:8080 does not answer",
		"http://localhost":    "http://localhost does not answer",
		"https://app.example": "https://app.example does not answer: lookup app.example: no such host",
	} {
		text, code := refused(t, (&demo.Client{Base: base}).NoAnswer(why))
		if what, hint, _ := strings.Cut(text, "\n"); code != 4 || what != want || strings.Contains(hint, "dev") == strings.Contains(base, "example") {
			t.Errorf("%s: code %d, %q", base, code, text)
		}
	}
	for in, want := range map[string]string{
		"http://App.example:80/": "http://app.example", "https://app.example:443": "https://app.example", "http://app.example:8080": "http://app.example:8080",
	} {
		if base, _, err := config.ParseBaseAnywhere(in); err != nil || base != want {
			t.Errorf("%s: %q, %v", in, base, err)
		}
	}
}
