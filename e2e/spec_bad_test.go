package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// An endpoint, with a request that is all right, which each row spoils.
type endpoint struct {
	name        string
	method      string
	target      func() string // path and query
	contentType string        // "" takes no body
	body        func() string
	headers     []string // lines
	statuses    []int    // of a refusal
	page        bool     // refuses with a page; else with JSON
}

// request writes the whole of it. With a body of its own length.
func (e endpoint) request(h *house, method, target, body string, lines ...string) string {
	all := append([]string{method + " " + target + " HTTP/1.1", "Host: " + h.host(), "Connection: close"}, e.headers...)
	if body != "" || e.contentType != "" {
		all = append(all, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return strings.Join(append(all, lines...), "\r\n") + "\r\n\r\n" + body
}

// ours is what nobody outside should read. It is nothing that a random value has by chance.
var ours = regexp.MustCompile(`\.go:|goroutine |panic: |(?i:sqlite|sqlstate|sql logic)`)

// wantRefusal checks a clear refusal in the endpoint's own form, in which
// nothing of the bad input comes back and nothing of ours gets out.
func (e endpoint) wantRefusal(t *testing.T, what string, a answer) {
	t.Helper()
	what = e.name + ": " + what
	if !slices.Contains(e.statuses, a.status) {
		t.Errorf("%s: got %.600s; want one of %v", what, a, e.statuses)
		return
	}
	if a.status == 200 && !strings.Contains(a.body, `"error"`) && !e.page { // JSON-RPC says it so
		t.Errorf("%s: accepted: %.600s", what, a)
	}
	if e.page && (!strings.HasPrefix(a.header.Get("Content-Type"), "text/html") || a.header.Get("Location") != "") {
		t.Errorf("%s: not a page: %.600s", what, a)
	}
	if v := map[string]any{}; !e.page && (json.Unmarshal([]byte(a.body), &v) != nil || v["error"] == nil || !strings.HasPrefix(a.header.Get("Content-Type"), jsonType)) {
		t.Errorf("%s: no error in JSON: %.600s", what, a)
	}
	if word := ours.FindString(a.body); word != "" || strings.Contains(a.body, "mArKeR") {
		t.Errorf("%s: the answer has %q: %.600s", what, word, a)
	}
	if got := a.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("%s: Cache-Control %q", what, got)
	}
}

// "Bad input" of every endpoint that takes a body: a clear refusal in the
// endpoint's own form, nothing written, nothing used up.
func TestBadBodies(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	f, tk := h.connected(client)
	g, code := h.issued(client)
	ada := h.signedIn("ada@nordlys.example")
	cookie := func(b *browser) string {
		u, err := url.Parse(h.base)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, c := range b.Jar.Cookies(u) {
			all = append(all, c.Name+"="+c.Value)
		}
		return "Cookie: " + strings.Join(all, "; ")
	}
	consent := ada.consent(h.flow(client)).form("/oauth/authorize").with(append(treasurer, "decision", "approve")...).values.Encode()
	outside := h.browser()
	signin := outside.page("/signin").form("/signin").with("email", "ada@nordlys.example", "password", h.password).values.Encode()
	fixed := func(s string) func() string { return func() string { return s } }
	endpoints := []endpoint{
		{"register", "POST", fixed("/oauth/register"), jsonType, fixed(`{"client_name":"mArKeR","redirect_uris":["` + redirect + `"]}`), nil, []int{400}, false},
		{"token, code", "POST", fixed("/oauth/token"), formType, fixed(form("grant_type", "authorization_code", "code", code, "redirect_uri", redirect, "client_id", client, "code_verifier", g.verifier)), nil, []int{400}, false},
		{"token, refresh", "POST", fixed("/oauth/token"), formType, fixed(form("grant_type", "refresh_token", "refresh_token", tk.refresh, "client_id", client)), nil, []int{400}, false},
		{"revoke", "POST", fixed("/oauth/revoke"), formType, fixed(form("token", tk.refresh, "client_id", client)), nil, []int{400}, false},
		{"consent", "POST", fixed("/oauth/authorize"), formType, fixed(consent), []string{cookie(ada)}, []int{400, 403, 413, 415, 422}, true},
		{"sign-in", "POST", fixed("/signin"), formType, fixed(signin), []string{cookie(outside)}, []int{400, 403, 413, 415, 422}, true},
		{"MCP", "POST", fixed("/api/v5/mcp"), jsonType, fixed(initialize), []string{"Authorization: Bearer " + tk.access, "Accept: application/json, text/event-stream"}, []int{400, 406, 413, 415}, false},
	}
	before := h.rows()
	for _, e := range endpoints {
		good := e.body()
		isJSON := e.contentType == jsonType
		typed := "Content-Type: " + e.contentType
		send := func(body string, lines ...string) answer {
			return h.raw(e.request(h, e.method, e.target(), body, lines...))
		}
		rows := map[string]func() answer{
			"no media type":    func() answer { return send(good) },
			"wrong media type": func() answer { return send(good, "Content-Type: text/mArKeR") },
			"media type of the other": func() answer {
				return send(good, "Content-Type: "+map[bool]string{true: formType, false: jsonType}[isJSON])
			},
			"a form upload":   func() answer { return send(good, "Content-Type: multipart/form-data; boundary=mArKeR") },
			"another charset": func() answer { return send(good, typed+"; charset=utf-16") },
			"two media types": func() answer { return send(good, typed, typed) },
			"compressed":      func() answer { return send(good, typed, "Content-Encoding: gzip") },
			"empty":           func() answer { return send("", typed) },
			"one byte":        func() answer { return send("\x01", typed) },
			"NUL bytes":       func() answer { return send(strings.Repeat("\x00", 100), typed) },
			"truncated": func() answer {
				return h.rawCut(strings.TrimSuffix(e.request(h, e.method, e.target(), good, typed), good[len(good)-10:]))
			},
			"an array": func() answer { return send(`["mArKeR"]`, typed) },
			"a megabyte": func() answer {
				return send(good+strings.Repeat(map[bool]string{true: " ", false: "&"}[isJSON], 1<<20), typed)
			},
			"a hundred thousand deep": func() answer { return send(strings.Repeat("[", 60_000), typed) },
			"broken UTF-8":            func() answer { return send("mArKeR=\xff\xfe&\xc0\x80", typed) },
			"chunked, with a bad chunk": func() answer {
				return h.raw(strings.Replace(e.request(h, e.method, e.target(), "", typed, "Transfer-Encoding: chunked"), "Content-Length: 0\r\n", "", 1) + "zz\r\nmArKeR")
			},
			"chunked, cut off": func() answer {
				return h.rawCut(strings.Replace(e.request(h, e.method, e.target(), "", typed, "Transfer-Encoding: chunked"), "Content-Length: 0\r\n", "", 1) + fmt.Sprintf("%x\r\n%s\r\n", len(good), good))
			},
		}
		if isJSON {
			rows["doubled"] = func() answer { return send(good+good, typed) }
			rows["an object, deep"] = func() answer { return send(strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000), typed) }
			rows["cut off"] = func() answer { return send(good[:len(good)-1], typed) }
			rows["a byte order mark"] = func() answer { return send("\ufeff"+good, typed) }
			rows["null"] = func() answer { return send("null", typed) }
			rows["a number"] = func() answer { return send("1e400", typed) }
		} else {
			rows["doubled"] = func() answer { return send(good+"&"+good, typed) }
			spoiled := func(junk string) func() answer {
				if e.page { // what a page does not know it does not look at
					for _, field := range []string{"organization=nordlys", "email=ada%40nordlys.example"} {
						if body := strings.Replace(good, field, field+junk, 1); body != good {
							return func() answer { return send(body, typed) }
						}
					}
				}
				return func() answer { return send(good+"&mArKeR="+junk, typed) }
			}
			rows["NUL"] = spoiled("%00")
			rows["broken UTF-8, escaped"] = spoiled("%ff")
			rows["a broken escape"] = spoiled("%zz")
			rows["thousands of parameters more"] = func() answer { return send(good+strings.Repeat("&a=b", 6000), typed) }
			if e.name == "token, code" || e.name == "token, refresh" || e.name == "revoke" || e.name == "sign-in" {
				rows["a thousand parameters more"] = func() answer { return send(good+strings.Repeat("&a=b", 1000), typed) }
				rows["64 KiB"] = func() answer { return send(good+"&a="+strings.Repeat("x", 64<<10), typed) }
			}
		}
		for name, row := range rows {
			e.wantRefusal(t, name, row())
		}
	}
	h.unchanged(t, before)
	// All of it is as good as before, but for the one change that each had.
	if !h.works(tk.access) {
		t.Error("the access token has ended")
	}
	next := tokensOf(t, f.refresh(tk.refresh))
	tokensOf(t, g.exchange(code))
	if a := ada.send("POST", "/oauth/authorize", consent, header{"Content-Type", formType}); a.status != 303 {
		t.Errorf("consent: %.600s", a)
	}
	if a := outside.send("POST", "/signin", signin, header{"Content-Type", formType}); a.status != 303 {
		t.Errorf("sign in: %.600s", a)
	}
	if a := h.caller().mcp(next.access, initialize); a.status != 200 {
		t.Errorf("MCP: %s", a)
	}
}

// Bad targets and headers, at every endpoint: no panic, no 5xx, and nothing
// that was sent comes back as a header.
func TestBadTargetsAndHeaders(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, tk := h.connected("")
	before := h.rows()
	host := "Host: " + h.host()
	for name, request := range map[string]string{
		"no HTTP":                       "mArKeR\r\n\r\n",
		"HTTP/9":                        "GET / HTTP/9.9\r\n" + host + "\r\n\r\n",
		"no Host":                       "GET /oauth/authorize HTTP/1.1\r\n\r\n",
		"two Hosts":                     "GET /oauth/authorize HTTP/1.1\r\n" + host + "\r\nHost: evil.example\r\n\r\n",
		"HTTP/1.0 without Host":         "GET /oauth/authorize HTTP/1.0\r\n\r\n",
		"absolute target of a stranger": "GET http://evil.example/oauth/authorize HTTP/1.1\r\n" + host + "\r\nConnection: close\r\n\r\n",
		"CONNECT":                       "CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\nConnection: close\r\n\r\n",
		"a header of 40 KiB":            "GET /api/v5/me HTTP/1.1\r\n" + host + "\r\nX: " + strings.Repeat("x", 40<<10) + "\r\n\r\n",
		"a target of 40 KiB":            "GET /oauth/authorize?" + strings.Repeat("x", 40<<10) + " HTTP/1.1\r\n" + host + "\r\n\r\n",
		"ten thousand headers":          "GET /oauth/authorize HTTP/1.1\r\n" + host + "\r\n" + strings.Repeat("X: y\r\n", 10_000) + "\r\n",
		"two lengths":                   "POST /oauth/token HTTP/1.1\r\n" + host + "\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
		"a negative length":             "POST /oauth/token HTTP/1.1\r\n" + host + "\r\nContent-Length: -1\r\n\r\n",
		"a length and chunks":           "POST /oauth/token HTTP/1.1\r\n" + host + "\r\nConnection: close\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"an unknown transfer coding":    "POST /oauth/token HTTP/1.1\r\n" + host + "\r\nTransfer-Encoding: mArKeR\r\n\r\n",
		"NUL in a header":               "GET /api/v5/me HTTP/1.1\r\n" + host + "\r\nAuthorization: Bearer \x00\r\n\r\n",
		"NUL in the target":             "GET /oauth/\x00 HTTP/1.1\r\n" + host + "\r\n\r\n",
		"a folded header":               "GET /api/v5/me HTTP/1.1\r\n" + host + "\r\nAuthorization: Bearer\r\n " + tk.access + "x\r\nConnection: close\r\n\r\n",
		"a token of odd bytes":          "GET /api/v5/me HTTP/1.1\r\n" + host + "\r\nAuthorization: Bearer \xff\xfe\r\nConnection: close\r\n\r\n",
		"an API key of odd bytes":       "GET /api/v5/me HTTP/1.1\r\n" + host + "\r\nX-Auth-Token: \xff'\"--\r\nConnection: close\r\n\r\n",
		"an escape cut off in the path": "GET /api/v5/% HTTP/1.1\r\n" + host + "\r\nConnection: close\r\n\r\n",
		"an expectation":                "POST /oauth/token HTTP/1.1\r\n" + host + "\r\nExpect: mArKeR\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
	} {
		a := h.raw(request)
		refused := a.status >= 400 && a.status <= 499 || a.status == 501 || a.status == 505 // of HTTP itself
		if !refused || strings.Contains(fmt.Sprint(a.header), "mArKeR") || strings.Contains(a.String(), "evil.example") {
			t.Errorf("%s: %.600s", name, a)
		}
	}
	for _, path := range []string{
		"/oauth/%00", "/oauth/token/", "/oauth/token/x", "/OAuth/Token", "/oauth", "/oauth/", "/oauth/%2e%2e/api/v5/me", "/oauth/introspect", "/oauth/userinfo", "/oauth/authorize/", "/oauth/authorize/x", "/oauth/device_authorization",
	} {
		for _, method := range []string{"GET", "POST"} {
			a := h.caller().send(method, path, "")
			if a.status != 404 || a.header.Get("Location") != "" || strings.HasPrefix(path, "/oauth/") && a.errorCode() != "not_found" {
				t.Errorf("%s %s: %.600s; want 404", method, path, a)
			}
		}
	}
	for _, path := range []string{"/%00", "/organizations/%ff/profile/api", "/signin?return=mArKeR", "/signin?return=https%3A%2F%2Fevil.example", "/signin?return=%00&return=%zz", "/assets/%2e%2e%2fconsent.go", "/organizations/" + strings.Repeat("x", 10_000) + "/profile/api", "/dev/client?flow=%00"} {
		if a := h.signedIn("ada@nordlys.example").get(path); a.status >= 500 || strings.Contains(a.header.Get("Location"), "evil.example") {
			t.Errorf("%s: %.600s", path, a)
		}
	}
	h.unchanged(t, before)
	if !h.works(tk.access) {
		t.Error("the access token has ended")
	}
}

// Messages that are JSON and no good MCP: an error, and the next call works.
func TestBadMCPMessages(t *testing.T) {
	t.Parallel()
	h := start(t)
	_, tk := h.connected("")
	c := h.caller()
	call := func(name, arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":` + name + `,"arguments":` + arguments + `}}`
	}
	version := header{"MCP-Protocol-Version", "2025-06-18"}
	for name, message := range map[string]string{
		"an empty object": `{}`, "another protocol": `{"jsonrpc":"1.0","id":1,"method":"tools/list"}`, "a method of another type": `{"jsonrpc":"2.0","id":1,"method":7}`,
		"an unknown method": `{"jsonrpc":"2.0","id":1,"method":"mArKeR"}`, "an ID that is an object": `{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, "parameters of another type": `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"x"}`,
		"an unknown tool": call(`"mArKeR"`, `{}`), "a tool of another type": call(`7`, `{}`), "unknown arguments": call(`"whoami"`, `{"organization":"fjell"}`), "arguments of another type": call(`"list_roles"`, `{"limit":"x"}`),
		"arguments that are a list": call(`"list_roles"`, `[1]`), "a limit out of range": call(`"list_roles"`, `{"limit":-1}`), "a huge limit": call(`"list_roles"`, `{"limit":1e300}`), "a cursor of nobody": call(`"list_roles"`, `{"after":"' OR 1=1 --"}`),
		"a cursor with NUL": call(`"list_roles"`, `{"after":"\u0000"}`), "deep arguments": call(`"whoami"`, strings.Repeat(`{"a":`, 3000)+"1"+strings.Repeat("}", 3000)), "an empty batch": `[]`,
		"a batch of a hundred": "[" + strings.Repeat(`{"jsonrpc":"2.0","id":1,"method":"tools/list"},`, 99) + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}]`,
	} {
		a := c.mcp(tk.access, message, version)
		if a.status >= 500 || a.status == 401 || a.status < 300 && !strings.Contains(a.body, `"error"`) && !strings.Contains(a.body, `"isError":true`) {
			t.Errorf("%s: %.600s", name, a)
		}
		if ours.MatchString(a.body) {
			t.Errorf("%s: %.600s", name, a)
		}
	}
	if a := c.mcp(tk.access, call(`"whoami"`, `{}`), version); a.status != 200 || strings.Contains(a.body, `"isError":true`) {
		t.Errorf("afterwards: %s", a)
	}
}
