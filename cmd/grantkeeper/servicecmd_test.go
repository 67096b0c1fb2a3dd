package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/doctor"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/setup"
)

// A toolServer is an MCP server with a session, which takes what is signed alone.
type toolServer struct {
	*testing.T
	list func(cursor string) string // a result of tools/list

	mu     sync.Mutex
	began  int
	ended  int
	events bool // it answers in streams
}

func (s *toolServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.Error(err)
	}
	if _, err := identity.VerifyCall(r.Header, identity.Call{Method: r.Method, Target: r.URL.RequestURI(), Body: body}, time.Now(), []byte(gatewayKey)); err != nil {
		s.Errorf("%s: %v", r.Method, err)
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Cursor string }
	}
	if r.Method == http.MethodPost && json.Unmarshal(body, &m) != nil {
		s.Errorf("sent %s", body)
	}
	if begins := m.Method == "initialize"; !begins && (r.Header.Get("Mcp-Session-Id") != "s1" || r.Method == http.MethodPost && r.Header.Get("MCP-Protocol-Version") != "2025-03-26") {
		s.Errorf("%s %s outside of the session: %v", r.Method, m.Method, r.Header)
	}
	result := ""
	switch m.Method {
	case "":
		s.ended++
	case "initialize":
		s.began++
		w.Header().Set("Mcp-Session-Id", "s1")
		result = `{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"Orders\u001b[31m"}}`
	case "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	case "tools/list":
		result = s.list(m.Params.Cursor)
	default:
		s.Errorf("asked %s", m.Method)
	}
	if result == "" {
		return
	}
	answer := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result)
	if s.events {
		w.Header().Set("Content-Type", "text/event-stream")
		answer = ": hello\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\r\n\r\ndata: " + strings.ReplaceAll(answer, "\n", "") + "\r\n\r\n"
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	fmt.Fprint(w, answer)
}

// before gives a configuration whose MCP server it is, and the URL.
func (s *toolServer) before(more string) (config, url string) {
	at := httptest.NewServer(s)
	s.Cleanup(at.Close)
	key := write(s.T, "key", gatewayKey+"\n", 0o600)
	return write(s.T, "grantkeeper.toml", fmt.Sprintf("[mcp]\nupstream = \"%s/mcp?key=hush\"\n[service]\nkey_file = %q\n%s", at.URL, key, more), 0o600), at.URL
}

// typed runs a command, and gives what it writes.
func typed(args ...string) (stdout, stderr string, code int) {
	var out, errOut bytes.Buffer
	code = run(args, &out, &errOut)
	return out.String(), errOut.String(), code
}

const (
	pageOne = `{"tools":[{"name":"list_orders","title":"Orders","annotations":{"readOnlyHint":true}},{"name":"create_order"},7],"nextCursor":"2"}`
	pageTwo = `{"tools":[{"name":"move"},{"name":"wages","annotations":{"readOnlyHint":true}},{"name":"close","annotations":{"readOnlyHint":false}},
		{"name":"about"},{"name":"all"},{"name":"mine"},{"name":"note"},{"name":"spare"},{"name":"list_orders","annotations":{"readOnlyHint":false}}]}`
	pageRules = `
[[rules]]
tool = "list_*"
touches = "open"
[[rules]]
tool = "create_order"
role_name = "Orders"
[[rules]]
tool = "move"
role_from = ["argument:/from", "argument:/to"]
access = "change"
[[rules]]
tool = "wages"
role = "r-wages"
private = true
[[rules]]
tool = "close"
touches = "admin"
[[rules]]
tool = "about"
touches = "nothing"
[[rules]]
tool = "all"
touches = "service"
[[rules]]
tool = "mine"
touches = "personal"
[[rules]]
tool = "note"
role = "r-notes"
access = "read"
`
)

func twoPages(cursor string) string { return map[string]string{"": pageOne, "2": pageTwo}[cursor] }

// The tools of both pages, each with what it needs and by which rule, in JSON and in
// streams; a tool that is listed as reading and as changing changes.
func TestServiceTools(t *testing.T) {
	for _, events := range []bool{false, true} {
		s := &toolServer{T: t, list: twoPages, events: events}
		config, _ := s.before(pageRules)
		out, told, code := typed("service", "tools", "--wide", "-c", config)
		want := `tool          needs            through                                 why                                                annotation
list_orders   denied           no role changes what all see            rules[0] list_* touches open, by annotation        changes
create_order  change           role Orders                             rules[1] create_order touches role, by annotation  none
move          change           role in argument:/from and argument:/to rules[2] move touches role                         none
wages         read             role r-wages, or its circle             rules[3] wages touches role, by annotation         reads
close         denied           admins alone                            rules[4] close touches admin                       changes
about         nothing          none                                    rules[5] about touches nothing                     none
all           service decides  none                                    rules[6] all touches service                       none
mine          change           personal items                          rules[7] mine touches personal, by annotation      none
note          read             every member                            rules[8] note touches role                         none
spare         denied           none                                    no rule, service.unlisted is deny                  none
`
		if words := strings.Fields(out); !slices.Equal(words, strings.Fields(want)) || told != "" || code != 0 {
			t.Errorf("%d %s\n%s\nwant\n%s", code, told, out, want)
		}
		if s.began != 1 || s.ended != 1 {
			t.Errorf("%d sessions began, %d ended", s.began, s.ended)
		}
	}
	for unlisted, want := range map[string]string{
		"read":    "list_orders denied none no rule, service.unlisted is read, by annotation changes",
		"service": "list_orders service decides none no rule, service.unlisted is service changes",
	} {
		s := &toolServer{T: t, list: twoPages}
		config, _ := s.before(fmt.Sprintf("unlisted = %q\n", unlisted))
		if out, _, _ := typed("service", "tools", "-c", config); !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("%s: %s", unlisted, out)
		}
	}
}

// With --json all of it is one document.
func TestServiceToolsAsJSON(t *testing.T) {
	s := &toolServer{T: t, list: twoPages}
	config, _ := s.before(pageRules)
	out, told, code := typed("service", "tools", "--json", "-c", config)
	var got struct {
		Server   string
		Complete bool
		Items    []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || told != "" || code != 0 || !got.Complete || got.Server != "Orders\x1b[31m" || len(got.Items) != 10 {
		t.Fatalf("%d %v %s\n%s", code, err, told, out)
	}
	for name, want := range map[string]any{"tool": "wages", "needs": "read", "through": "role r-wages, or its circle", "rule": 3.0, "touches": "role", "read_only_hint": true, "by_annotation": true} {
		if got.Items[3][name] != want {
			t.Errorf("%s is %v, want %v", name, got.Items[3][name], want)
		}
	}
	if last := got.Items[9]; last["rule"] != nil || last["read_only_hint"] != nil || last["unlisted"] != "deny" {
		t.Errorf("%v", last)
	}
}

// The tools of each MCP server are its own: by its rules, and drafted with its path
// (decision V62).
func TestServiceToolsOfPaths(t *testing.T) {
	one := &toolServer{T: t, list: func(string) string { return `{"tools":[{"name":"list"},{"name":"add"}]}` }}
	two := &toolServer{T: t, list: func(string) string { return `{"tools":[{"name":"list"},{"name":"add"},{"name":"drop"}]}` }}
	_, url := two.before("")
	paths := fmt.Sprintf(`
[[paths]]
path = "/reports"
upstream = %q
kind = "api"
name = "Reports"
[[paths]]
path = "/tools"
upstream = "%s/mcp"
kind = "mcp"
name = "Tools"
[[rules]]
tool = "drop"
path = "/tools"
touches = "admin"
[[rules]]
tool = "list"
touches = "open"
[[rules]]
tool = "add"
path = "/tools"
role = "r-tools"
`, url, url)
	configFile, _ := one.before(paths)
	out, told, code := typed("service", "tools", "--wide", "-c", configFile)
	want := `path         tool  needs   through          why                                           annotation
/api/v5/mcp  list  denied  no role changes what all see  rules[1] list touches open, by annotation  none
/api/v5/mcp  add   denied  none             no rule, service.unlisted is deny             none
/tools       list  denied  none             no rule, service.unlisted is deny             none
/tools       add   change  role r-tools     rules[2] add touches role, by annotation      none
/tools       drop  denied  admins alone     rules[0] drop touches admin                   none
`
	if !slices.Equal(strings.Fields(out), strings.Fields(want)) || told != "" || code != 0 {
		t.Errorf("%d %s\n%s\nwant\n%s", code, told, out, want)
	}
	var got struct {
		Server  string
		Servers []struct{ Path, Server string }
		Items   []struct{ Path, Tool string }
	}
	if out, _, _ = typed("service", "tools", "--json", "-c", configFile); json.Unmarshal([]byte(out), &got) != nil || got.Server == "" || len(got.Servers) != 2 || got.Servers[1].Path != "/tools" || got.Servers[1].Server == "" || len(got.Items) != 5 || got.Items[0].Path != "/api/v5/mcp" || got.Items[4].Path != "/tools" {
		t.Errorf("as JSON: %s", out)
	}
	out, _, code = typed("service", "tools", "--write", "-c", configFile)
	if code != 0 || strings.Count(out, "[[rules]]") != 2 || !strings.Contains(out, "tool = \"add\"\nrole") || !strings.Contains(out, "tool = \"list\"\npath = \"/tools\"\nrole") {
		t.Errorf("drafted: %s", out)
	}
	if one.began != 3 || one.ended != 3 || two.began != 3 || two.ended != 3 {
		t.Errorf("sessions: %d, %d, %d, %d", one.began, one.ended, two.began, two.ended)
	}
	l, err := config.Load(configFile, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Checked{Config: l.Config}
	if err := errors.Join(c.CheckServiceKey(), c.CheckMCP(), c.CheckPaths(), c.CheckRules()); err != nil {
		t.Fatal(err)
	}
	for _, at := range c.McpServers() {
		silent := map[string]string{"/api/v5/mcp": ": list", "/tools": ": add"}[at.Path]
		if f := (doctor.Outside{Checked: &c}).AskMCP(t.Context(), at); f.Result != "warn" || !strings.HasSuffix(f.Text, silent) {
			t.Errorf("%s: %+v", at.Path, f)
		}
	}
	two.list = func(string) string { return `null,"error":{"code":1}` }
	if out, told, code := typed("service", "tools", "-c", configFile); code != fault.Reach || out != "" || !strings.Contains(told, url) {
		t.Errorf("one of them has no list: %d %s\n%s", code, told, out)
	}
}

// hostileNames are names of tools that would be something else where they are
// written carelessly. The last two are names that no rule has.
var hostileNames = []string{
	"list_orders", "lіst_orders", "a\"b\\", "a\n[[rules]]\ntool = \"b\"\ntouches = \"nothing\"", "x\x1b[2J\x00\x7f", "\u202edrop", "' '''", `"""`, "#", "{{.}}", "<script>", "😀", " a ", "a*", "*",
}

// What is drafted for a hostile server is rules that are good, name each tool alone,
// and allow nothing (decision V31); what is shown of it has no controls and no look-alikes.
func TestDraftsOfHostileTools(t *testing.T) {
	s := &toolServer{T: t, list: func(string) string {
		var tools []map[string]any
		for _, name := range hostileNames {
			tools = append(tools, map[string]any{"name": name, "title": "x\n[[rules]]\ntool=\"*\" " + name, "annotations": map[string]any{"readOnlyHint": true},
				"description": "<b>\n[[rules]]"})
		}
		text, err := json.Marshal(map[string]any{"tools": tools})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}}
	configFile, _ := s.before("")
	out, told, code := typed("service", "tools", "--write", "-c", configFile)
	if code != 0 || !strings.HasPrefix(told, "13 rules to complete, ") || strings.Count(out, "claims that it only reads\n") != len(hostileNames) || strings.Count(out, "has no rule here") != 2 {
		t.Fatalf("%d %s\n%s", code, told, out)
	}
	made, err := config.ReadRules(write(t, "rules.toml", out, 0o600))
	if err != nil || made.Len() != len(hostileNames)-2 || len(made.Unreachable()) > 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, name := range hostileNames {
		want := i
		if strings.HasSuffix(name, "*") {
			want = -1
		}
		for other, want := range map[string]int{name: want, name + "x": -1} {
			if got := made.Needed(rules.Call{Tool: other, Reads: rules.Yes}); got.Rule != want || want >= 0 && got.Touches != "role" {
				t.Errorf("%q: %+v, want rule %d", other, got, want)
			}
		}
	}
	if text, err := os.ReadFile(configFile); err != nil || strings.Contains(string(text), "[[rules]]") {
		t.Errorf("the configuration is %s, %v", text, err)
	}
	table, _, code := typed("service", "tools", "--wide", "-c", configFile)
	if lines := strings.Count(table, "\n"); code != 0 || lines != len(hostileNames)+1 || strings.ContainsAny(table, "\x1b\x00\x7f\u202eі") {
		t.Errorf("%d, %d lines\n%q", code, lines, table)
	}
}

// A server whose list has no end, or that has more tools than anybody reads, is read
// to a bound, and that is said; of rules no more are drafted than a configuration
// takes.
func TestServiceToolsAreBounded(t *testing.T) {
	n := 0
	page := func(size int) string {
		var tools []string
		for range size {
			n++
			tools = append(tools, fmt.Sprintf(`{"name":"t%d"}`, n))
		}
		return fmt.Sprintf(`{"tools":[%s],"nextCursor":"more"}`, strings.Join(tools, ","))
	}
	for said, list := range map[string]func(string) string{
		"its list has more than 100 pages": func(string) string { return page(11) },
		"it has more than 10000 tools":     func(string) string { return page(doctor.MostTools + 1) },
		"tools/list: it answers more than": func(string) string {
			return `{"tools":[{"name":"a"}],"x":"` + strings.Repeat("x", doctor.MostListed) + `"}`
		},
		"tools/list: it did not answer the":     func(string) string { return `{}},{"` },
		"tools/list: it answered with an error": func(string) string { return `null,"error":{"code":1}` },
	} {
		s := &toolServer{T: t, list: list}
		configFile, url := s.before(pageRules)
		out, told, code := typed("service", "tools", "--write", "-c", configFile)
		if !strings.Contains(told, said) || strings.Contains(told+out, "hush") || s.ended != 1 {
			t.Errorf("%s: %d %s", said, code, told)
		}
		if n == 0 || strings.HasPrefix(said, "tools/list") {
			if code != fault.Reach || out != "" || !strings.Contains(told, url) {
				t.Errorf("%s: %d %s %s", said, code, told, out)
			}
			continue
		}
		if made, err := config.ReadRules(write(t, "rules.toml", out+pageRules, 0o600)); code != 0 || err != nil || made.Len() != rules.MaxRules || !strings.Contains(out, "at most 1000 rules") {
			t.Errorf("%s: %d %v", said, code, err)
		}
	}
}

// Doctor names the tools that leave the rules to guess, and says that a list was not
// all read; where rules say what a tool does, nothing is missing.
func TestDoctorLooksAtTools(t *testing.T) {
	for _, tt := range []struct{ list, rules, result, text string }{
		{pageTwo, pageRules, "warn", "without readOnlyHint, and so taken to change something: mine"},
		{pageTwo, "", "ok", "answers"},
		{pageTwo, "unlisted = \"read\"\n", "warn", "taken to change something: move, about, all, mine, note and 1 more"},
		{`{"tools":[{"name":"mіne"}]}`, "unlisted = \"read\"\n", "warn", `taken to change something: "m\u0456ne"`},
		{`{"tools":[{"name":"mine","annotations":{"readOnlyHint":false}}]}`, pageRules, "ok", "answers"},
		{`{"tools":7}`, pageRules, "ok", "answers"},
		{`null,"error":{}`, pageRules, "warn", "its tools are not all known: tools/list: it answered with an error"},
	} {
		s := &toolServer{T: t, list: func(string) string { return tt.list }}
		configFile, _ := s.before(tt.rules)
		l, err := config.Load(configFile, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := config.Checked{Config: l.Config}
		if err := errors.Join(c.CheckServiceKey(), c.CheckMCP(), c.CheckRules()); err != nil {
			t.Fatal(err)
		}
		if f := (doctor.Outside{Checked: &c}).AskMCP(t.Context(), c.OwnMCP()); f.Result != tt.result || !strings.HasSuffix(f.Text, tt.text) || (f.Fix == "") != (tt.result == "ok") || s.ended != 1 {
			t.Errorf("%s: %+v", tt.list, f)
		}
	}
}

// What cannot be asked or read is said in one line, with one of what to do.
func TestServiceToolsThatFail(t *testing.T) {
	answers := func(status int) string {
		at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(at.Close)
		return write(t, "a.toml", fmt.Sprintf("[mcp]\nupstream = %q\n[service]\nkey_file = %q\n", at.URL, write(t, "key", gatewayKey, 0o600)), 0o600)
	}
	none := write(t, "b.toml", "", 0o600)
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"-c " + none, fault.Config, "mcp.upstream: no MCP server is connected\n"},
		{"-c " + write(t, "c.toml", "[mcp]\nupstream = \"http://127.0.0.1:1/\"\n", 0o600), fault.Config, "there is no service.key_file\n"},
		{"-c " + write(t, "d.toml", "[[rules]]\ntool = \"a\"\n", 0o600), fault.Config, "it does not say what it touches\n"},
		{"-c " + answers(401), fault.Reach, "does not take what service.key_file signs\n"},
		{"-c " + answers(500), fault.Reach, "answers 500\n"},
		{"-c " + answers(307), fault.Reach, "redirects"},
		{"--write --openapi x.json -c " + none, fault.Use, "one at a time\n"},
		{"--openapi " + none + "no -c " + none, fault.Reach, "no such file"},
		{"--openapi " + none + " -c " + none, fault.Use, "it is no JSON"},
		{"--openapi " + write(t, "old.json", `{"swagger":"2.0"}`, 0o600) + " -c " + none, fault.Use, `openapi is "", not 3`},
		{"extra -c " + none, fault.Use, "write: grantkeeper service tools"},
	} {
		out, told, code := typed(append([]string{"service", "tools"}, strings.Fields(tt.args)...)...)
		if code != tt.code || out != "" || !strings.Contains(told, tt.says) || strings.Count(told, "\n") > 2 {
			t.Errorf("%s: %d %s %s", tt.args, code, told, out)
		}
	}
}

const bakeryAPI = `{"openapi":"3.1.0","servers":[{"url":"https://api.example/{base}/","variables":{"base":{"default":"api/v5"}}},{"url":"/other"}],
"paths":{"x-note":{"get":{}},"/orders":{"get":{"summary":"List\n[[rules]]"},"post":{"operationId":"createOrder"},"head":{},"parameters":[],"trace":{"servers":[{"url":"/t"}]}},
 "/orders/{id}":{"get":{},"delete":{}},"/orders/mine":{"get":{},"additionalOperations":{"COPY":{}}},"/wages/{id}":{"get":{}},
 "/shared":{"$ref":"#/components/pathItems/a~1b"},"/else":{"$ref":"other.json#/x"},"/again":{"$ref":"#/components/pathItems/again"},"/7":7,
 "/v2":{"servers":[{"url":"https://api.example/v2"}],"put":{}}},
"components":{"pathItems":{"a/b":{"patch":{}},"again":{"$ref":"#/components/pathItems/a~1b"}}}}`

// An OpenAPI document becomes rules without a server, for what no rule names.
func TestDraftsOfAnAPI(t *testing.T) {
	configFile := write(t, "grantkeeper.toml", "[[rules]]\ncall = \"* /api/v5/wages/**\"\ntouches = \"admin\"\n", 0o600)
	file := write(t, "openapi.json", bakeryAPI, 0o600)
	out, told, code := typed("service", "tools", "--openapi", file, "-c", configFile)
	var calls []string
	for line := range strings.Lines(out) {
		if call, ok := strings.CutPrefix(line, `call = "`); ok {
			calls = append(calls, strings.TrimSuffix(call, "\"\n"))
		}
	}
	want := []string{"GET /api/v5/orders", "POST /api/v5/orders", "COPY /api/v5/orders/mine", "GET /api/v5/orders/mine", "DELETE /api/v5/orders/{id}", "GET /api/v5/orders/{id}",
		"PATCH /api/v5/shared", "TRACE /t/orders", "PUT /v2/v2"}
	if !slices.Equal(calls, want) || code != 0 || told != "9 rules to complete, each of which allows nothing yet; no file was changed\n" {
		t.Errorf("%d %s%q\nwant %q", code, told, calls, want)
	}
	for _, one := range []string{"# List [[rules]] (GET /api/v5/orders): reads\n", "# createOrder (POST /api/v5/orders): changes\n", "# HEAD /api/v5/orders: reads\n# has no rule here: ", "# /else\n", "# /again\n", "# /7\n"} {
		if !strings.Contains(out, one) {
			t.Errorf("without %q:\n%s", one, out)
		}
	}
	if made, err := config.ReadRules(write(t, "rules.toml", out, 0o600)); err != nil || made.Len() != len(want) || len(made.Unreachable()) > 0 {
		t.Errorf("%v", err)
	}
	_, told, _ = typed("service", "tools", "--openapi", write(t, "none.json", `{"openapi":"3.0.3","paths":{}}`, 0o600), "-c", configFile)
	if told != "rules name all of it already\n" {
		t.Errorf("%q", told)
	}
}

// Whatever a document says, what is drafted is rules that are good.
func FuzzOpenAPI(f *testing.F) {
	f.Add([]byte(bakeryAPI))
	f.Add([]byte(`{"openapi":"3.0.0","servers":[{"url":"\u2028%2f"}],"paths":{"/\u0000\n\r":{"get":{"summary":"\u0085\r[[rules]]"}},"/{\"}":{"post":{}},"/\\":{"$ref":7}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := setup.DraftAPI(new(rules.Rules), text)
		if err != nil {
			return
		}
		var file struct {
			Rules []config.Rule `toml:"rules"`
		}
		if err := toml.NewDecoder(strings.NewReader(d.String())).DisallowUnknownFields().Decode(&file); err != nil {
			t.Fatalf("%q: %v\n%s", text, err, d)
		}
		if made, err := config.CompileRules(file.Rules, "", nil); err != nil || made.Len() != d.Rules || len(made.Unreachable()) > 0 {
			t.Fatalf("%q: %v\n%s", text, err, d)
		}
	})
}
