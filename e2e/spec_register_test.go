package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// registration gives the body with one member set as JSON; other members as
// in a plain registration.
func registration(member, value string) string {
	v := map[string]json.RawMessage{
		"client_name": json.RawMessage(`"Quill Assistant"`), "redirect_uris": json.RawMessage(`["` + redirect + `"]`),
	}
	if v[member] = json.RawMessage(value); value == "" {
		delete(v, member)
	}
	b, _ := json.Marshal(v)
	return string(b)
}

// wantRegistered checks the whole of a 201 (spec 2.2); name "" is none.
func wantRegistered(t *testing.T, what string, a answer, name string, uris ...any) {
	t.Helper()
	if a.status != 201 || a.header.Get("Content-Type") != jsonType || a.header.Get("Cache-Control") != "no-store" {
		t.Errorf("%s: got %s; want 201, JSON, no-store (decision R4)", what, a)
		return
	}
	v := a.json(t)
	if id, _ := v["client_id"].(string); len(id) < 16 {
		t.Errorf("%s: client_id %v", what, v["client_id"])
	}
	if at, ok := v["client_id_issued_at"].(float64); !ok || at != float64(int64(at)) {
		t.Errorf("%s: client_id_issued_at %v", what, v["client_id_issued_at"])
	}
	delete(v, "client_id")
	delete(v, "client_id_issued_at")
	want := map[string]any{
		"redirect_uris":              uris,
		"token_endpoint_auth_method": "none",
		"grant_types":                []any{"authorization_code", "refresh_token"},
		"response_types":             []any{"code"},
		"scope":                      "api",
	}
	if name != "" {
		want["client_name"] = name
	}
	wantMembers(t, what, v, want)
}

// "Success: 201 with JSON per 2.2", with no credential; "issued identifier",
// "Unix time in seconds", "no client secret is ever issued".
func TestSpec22RegistrationResponse(t *testing.T) {
	t.Parallel()
	h := start(t)
	seen := map[any]bool{}
	c := h.caller()
	for range 5 {
		from := time.Now().Unix()
		a := c.postJSON("/oauth/register", registration("", ""))
		wantRegistered(t, "plain", a, "Quill Assistant", redirect)
		v := a.json(t)
		if at := int64(v["client_id_issued_at"].(float64)); at < from || at > time.Now().Unix() {
			t.Errorf("client_id_issued_at is %d, want now", at)
		}
		if seen[v["client_id"]] {
			t.Errorf("client_id %v twice", v["client_id"])
		}
		seen[v["client_id"]] = true
	}
	got := h.items("/v1/clients?state=registered")
	if len(got) != 5 || got[0]["client_name"] != "Quill Assistant" {
		t.Errorf("the operator sees %v", got)
	}
}

// Spec 2.1 row for row: what is accepted, and what the answer then says. "A
// requested value is replaced by the registered value. The response reflects
// this." Unknown members and null count as not sent (decision R1).
func TestSpec21AcceptedMetadata(t *testing.T) {
	t.Parallel()
	h := start(t)
	const quill = "Quill Assistant"
	for _, tt := range []struct{ member, value, name string }{
		{"client_name", "", ""},
		{"client_name", `null`, ""},
		{"client_name", `""`, ""},
		{"client_name", `"   "`, ""},
		{"client_name", `"\u00a0\u3000"`, ""},
		{"client_name", `"\u0301\u0301"`, ""}, // marks alone
		{"client_name", `"x"`, "x"},
		{"client_name", `" x "`, " x "},
		{"client_name", `"` + strings.Repeat("é", 100) + `"`, strings.Repeat("é", 100)},
		{"client_name", `"` + strings.Repeat("\U0001F600", 100) + `"`, strings.Repeat("\U0001F600", 100)},
		{"client_name", `"👩\u200d💻 Quill\ufe0f"`, "👩\u200d💻 Quill\ufe0f"},
		{"client_name", `"\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"`, "می\u200cخواهم"},
		{"client_name", `"\u0915\u094d\u200d\u0937"`, "क्\u200dष"},
		{"client_name", `"Q&A \"Quill\" 'x' \\ /"`, `Q&A "Quill" 'x' \ /`},
		{"client_name", `"\u005cu003c"`, `\u003c`},
		{"client_name", `"Tom & Jerry &lt;b&gt;"`, "Tom & Jerry &lt;b&gt;"}, // no markup: shown as it is
		{"grant_types", `["authorization_code"]`, quill},
		{"grant_types", `["refresh_token"]`, quill},
		{"grant_types", `["refresh_token","authorization_code"]`, quill},
		{"grant_types", `["authorization_code","refresh_token"]`, quill},
		{"grant_types", `null`, quill},
		{"response_types", `["code"]`, quill},
		{"response_types", `null`, quill},
		{"token_endpoint_auth_method", `"client_secret_basic"`, quill},
		{"token_endpoint_auth_method", `"client_secret_post"`, quill},
		{"token_endpoint_auth_method", `"private_key_jwt"`, quill},
		{"token_endpoint_auth_method", `"none"`, quill},
		{"token_endpoint_auth_method", `"nonsense"`, quill},
		{"scope", `"api"`, quill},
		{"scope", `"openid profile everything"`, quill},
		{"scope", `""`, quill},
		{"client_secret", `"mine"`, quill},
		{"client_id", `"mine"`, quill},
		{"client_id_issued_at", `1`, quill},
		{"registration_access_token", `"x"`, quill},
		{"software_statement", `"x.y.z"`, quill},
		{"logo_uri", `"http://127.0.0.1:1/logo.png"`, quill},
		{"client_uri", `"javascript:alert(1)"`, quill},
		{"jwks_uri", `"http://169.254.169.254/"`, quill},
		{"jwks", `{"keys":[]}`, quill},
		{"contacts", `[1,null,{"a":[]}]`, quill},
		{"application_type", `"web"`, quill},
		{"Client_Name", `"Other"`, quill}, // member names are case-sensitive
		{"REDIRECT_URIS", `["http://x"]`, quill},
		{"1e999", `1e999`, quill},
		{"__proto__", `{"client_name":"x"}`, quill},
	} {
		a := h.caller().postJSON("/oauth/register", registration(tt.member, tt.value))
		wantRegistered(t, tt.member+" "+tt.value, a, tt.name, redirect)
	}
	for _, mediaType := range []string{"application/json", "application/json; charset=utf-8", "application/json;charset=UTF-8", `Application/JSON; charset="utf-8"`} {
		a := h.caller().send("POST", "/oauth/register", registration("", ""), header{"Content-Type", mediaType})
		wantRegistered(t, mediaType, a, quill, redirect)
	}
	a := h.caller().postJSON("/oauth/register", "\r\n\t "+registration("", "")+"\n")
	wantRegistered(t, "white space around", a, quill, redirect)
}

// Spec 2.1 and 4.2, decisions R1, R3 and R7: what is refused, always 400, and
// nothing is written.
func TestSpec21RefusedMetadata(t *testing.T) {
	t.Parallel()
	h := start(t)
	before := h.rows()
	metadata := func(name, body string) {
		t.Helper()
		wantJSONError(t, name, h.caller().postJSON("/oauth/register", body), 400, "invalid_client_metadata")
	}
	for _, name := range []string{
		strings.Repeat("x", 101), strings.Repeat("é", 101), strings.Repeat("\U0001F600", 101), strings.Repeat(" ", 101),
		"<b>x</b>", "a<b", "a>b", "Quill\u0000", "Quill\u0007", "Quill\n", "a\tb", "a\rb", "\u007f", "\u0085", "\u009f", "a\u2028b", "a\u2029b",
		"\u202epilc", "\u202a", "\u2066", "\u2069", "\u200e", "\u200f", "\u061c", "\ufeffQuill", "\U000E0041", "\U000E007F", "\ue000", "\U0010FFFD",
		"\u0378", "\ufffe", "\U0001FFFF",
	} {
		b, _ := json.Marshal(name)
		metadata(fmt.Sprintf("client_name %q", name), registration("client_name", string(b)))
	}
	for _, tt := range [][2]string{
		{"client_name", `"\ud800"`}, {"client_name", `"\udc00x"`}, {"client_name", `1`}, {"client_name", `["x"]`}, {"client_name", `{}`}, {"client_name", `true`},
		{"grant_types", `["implicit"]`}, {"grant_types", `["password"]`}, {"grant_types", `["client_credentials"]`},
		{"grant_types", `["authorization_code","implicit"]`}, {"grant_types", `["urn:ietf:params:oauth:grant-type:device_code"]`},
		{"grant_types", `["Authorization_Code"]`}, {"grant_types", `[""]`}, {"grant_types", `"authorization_code"`}, {"grant_types", `[1]`},
		{"grant_types", `[null]`}, {"grant_types", `[["authorization_code"]]`}, {"grant_types", `{}`},
		{"response_types", `["token"]`}, {"response_types", `["code","token"]`}, {"response_types", `["code id_token"]`}, {"response_types", `["none"]`},
		{"response_types", `["CODE"]`}, {"response_types", `"code"`}, {"response_types", `[null]`}, {"response_types", `7`},
		{"token_endpoint_auth_method", `7`}, {"token_endpoint_auth_method", `["none"]`}, {"scope", `["api"]`}, {"scope", `false`},
	} {
		metadata(tt[0]+" "+tt[1], registration(tt[0], tt[1]))
	}
	good := registration("", "")
	for name, body := range map[string]string{
		"empty": "", "null": "null", "an array": "[" + good + "]", "a string": `"x"`, "a number": "1", "white space": " ",
		"two objects": good + good, "followed by more": good + "x", "cut off": good[:len(good)-1], "comment": "/**/" + good,
		"trailing comma": good[:len(good)-1] + ",}", "single quotes": strings.ReplaceAll(good, `"`, "'"),
		"a name twice":          good[:len(good)-1] + `,"client_name":"Other"}`,
		"redirect_uris twice":   good[:len(good)-1] + `,"redirect_uris":["https://other.example/"]}`,
		"a name twice, escaped": good[:len(good)-1] + `,"client_n\u0061me":"Other"}`,
		"an unknown name twice": good[:len(good)-1] + `,"x":1,"x":1}`,
		"a name twice, deeper":  good[:len(good)-1] + `,"x":{"y":1,"y":2}}`,
		"a byte order mark":     "\ufeff" + good,
		"UTF-16":                "\xff\xfe{\x00}\x00",
		"broken UTF-8":          strings.Replace(good, "Quill", "Qu\xc3(ll", 1),
		"Latin-1":               strings.Replace(good, "Quill", "Qu\xe9ll", 1),
		"overlong UTF-8":        strings.Replace(good, "Quill", "Qu\xc0\x80ll", 1),
		"NUL":                   strings.Replace(good, "Quill", "Qu\x00ll", 1),
		"NUL, escaped":          strings.Replace(good, "Quill", `Qu\u0000ll`, 1),
		"a form":                form("client_name", "x", "redirect_uris", redirect),
		"a thousand deep":       good[:len(good)-1] + `,"x":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}",
		"thirty thousand deep":  strings.Repeat(`{"a":`, 10_000),
		"64 KiB and one byte":   good + strings.Repeat(" ", 64<<10+1-len(good)),
		"a megabyte":            good[:len(good)-1] + `,"x":"` + strings.Repeat("x", 1<<20) + `"}`,
	} {
		metadata(name, body)
	}
	for _, types := range []header{
		{}, {"Content-Type", ""}, {"Content-Type", "text/json"}, {"Content-Type", formType}, {"Content-Type", "text/plain"},
		{"Content-Type", "application/jsonp"}, {"Content-Type", "application/json; charset=latin1"}, {"Content-Type", "application/json; charset=utf-16"},
		{"Content-Type", "application/json, text/html"}, {"Content-Type", jsonType, "Content-Type", jsonType},
		{"Content-Type", "multipart/form-data; boundary=x"}, {"Content-Type", jsonType, "Content-Encoding", "gzip"},
	} {
		a := h.caller().send("POST", "/oauth/register", good, types)
		wantJSONError(t, fmt.Sprint(types), a, 400, "invalid_client_metadata")
	}
	h.unchanged(t, before)
	a := h.caller().postJSON("/oauth/register", good+strings.Repeat(" ", 64<<10-len(good)))
	wantRegistered(t, "64 KiB", a, "Quill Assistant", redirect)
}

// "1 to 5 entries, each at most 2,000 characters."
func TestSpec21RedirectURICount(t *testing.T) {
	t.Parallel()
	h := start(t)
	long := func(n int) string { return redirect + "?" + strings.Repeat("x", n-len(redirect)-1) }
	list := func(uris ...string) string { b, _ := json.Marshal(uris); return string(b) }
	five := []string{redirect + "/1", redirect + "/2", redirect + "/3", redirect + "/4", redirect + "/5"}
	for name, uris := range map[string][]string{
		"one": five[:1], "five": five, "2,000 characters": {long(2000)}, "five of 2,000 characters": {long(2000), long(1999), long(1998), long(1997), long(1996)},
	} {
		var want []any
		for _, u := range uris {
			want = append(want, u)
		}
		a := h.caller().postJSON("/oauth/register", registration("redirect_uris", list(uris...)))
		wantRegistered(t, name, a, "Quill Assistant", want...)
	}
	before := h.rows()
	for name, value := range map[string]string{
		"missing": "", "null": "null", "empty": "[]", "six": list(append(five, redirect)...), "a string": `"` + redirect + `"`, "an object": `{"0":"` + redirect + `"}`,
		"a number in it": `["` + redirect + `",1]`, "null in it": `["` + redirect + `",null]`, "an array in it": `[["` + redirect + `"]]`, "true": "true",
		"an empty string": `[""]`, "2,001 characters": list(long(2001)), "the last of five is bad": list(append(slices.Clone(five[:4]), "http://connect.quill.example/")...),
		"2,001 characters beside a good one": list(redirect, long(2001)), "half a surrogate": `["` + redirect + `?\ud800"]`, "NUL": `["` + redirect + `?\u0000"]`,
	} {
		a := h.caller().postJSON("/oauth/register", registration("redirect_uris", value))
		wantJSONError(t, name, a, 400, "invalid_redirect_uri")
	}
	h.unchanged(t, before)
}

// The redirect URI rules 1 to 3, and the one grammar of decision R2. Accepted
// ones come back byte for byte.
func TestSpec21RedirectURIRules(t *testing.T) {
	t.Parallel()
	h := start(t)
	before := h.rows()
	label63 := strings.Repeat("a", 63)
	host253 := strings.Repeat(strings.Repeat("a", 61)+".", 4) + "a.io" // 4 x 62 + 4 = 252
	send := func(uri string) answer {
		b, _ := json.Marshal([]string{uri})
		return h.caller().postJSON("/oauth/register", registration("redirect_uris", string(b)))
	}
	refused := map[string][]string{
		"1. Absolute https URIs only": {
			"http://connect.quill.example/cb", "HTTP://connect.quill.example/cb", "HTTPS://connect.quill.example/cb", "Https://connect.quill.example/",
			"//connect.quill.example/cb", "/cb", "cb", "connect.quill.example/cb", "https:connect.quill.example", "https:/connect.quill.example/cb",
			"https:///cb", "https://", "https:", "ftp://connect.quill.example/", "ws://connect.quill.example/", "file:///etc/passwd", "data:text/html,x",
			"javascript:alert(1)", "javascript://connect.quill.example/%0aalert(1)", "about:blank", "blob:https://connect.quill.example/1", "view-source:https://connect.quill.example/",
		},
		"1. Custom schemes and the out-of-band URN": {
			"com.example.app:/callback", "quill://callback", "myapp://connect.quill.example/cb", "urn:ietf:wg:oauth:2.0:oob", "urn:ietf:wg:oauth:2.0:oob:auto", "intent://x#Intent;end", "oob",
		},
		"2. A host is required": {"https:///", "https://?x", "https://:443/", "https:// /", "https://./", "https://../"},
		"2. User information": {
			"https://user@connect.quill.example/", "https://user:pass@connect.quill.example/", "https://@connect.quill.example/", "https://:@connect.quill.example/",
			"https://bank.example@connect.quill.example/", "https://connect.quill.example%40evil.example/", "https://connect.quill.example:443@evil.example/",
		},
		"2. Fragments": {"https://connect.quill.example/cb#", "https://connect.quill.example/cb#x", "https://connect.quill.example/?a#b", "https://connect.quill.example#@evil.example/"},
		"3. Loopback, private and link-local hosts": {
			"https://localhost/", "https://localhost:8443/", "https://LOCALHOST/", "https://app.localhost/", "https://a.b.localhost/", "https://printer.local/", "https://A.LOCAL/", "https://local/",
			"https://localhost./", "https://app.localhost./", "https://127.0.0.1/", "https://127.0.0.1:8443/", "https://127.1.2.3/", "https://127.1/", "https://0x7f.0.0.1/", "https://0x7f000001/",
			"https://2130706433/", "https://017700000001/", "https://0177.0.0.1/", "https://10.0.0.1/", "https://10.255.255.255/", "https://172.16.0.1/", "https://172.31.255.254/", "https://192.168.0.1/",
			"https://169.254.169.254/", "https://169.254.0.1/", "https://0.0.0.0/", "https://0.1.2.3/", "https://[::1]/", "https://[::]/", "https://[0:0:0:0:0:0:0:1]/", "https://[::ffff:127.0.0.1]/",
			"https://[::ffff:8.8.8.8]/", "https://[::ffff:7f00:1]/", "https://[fe80::1]/", "https://[fe80::1%25eth0]/", "https://[fe80::1%eth0]/", "https://[fc00::1]/", "https://[fd12:3456::1]/", "https://[fec0::1]/",
		},
		"R2: addresses that are not globally reachable": {
			"https://100.64.0.1/", "https://100.127.255.254/", "https://192.0.2.1/", "https://198.51.100.1/", "https://203.0.113.1/", "https://198.18.0.1/", "https://198.19.255.255/", "https://224.0.0.1/",
			"https://239.255.255.255/", "https://240.0.0.1/", "https://255.255.255.255/", "https://192.0.0.1/", "https://192.88.99.1/", "https://[2001:db8::1]/", "https://[3fff::1]/", "https://[2001:2::1]/",
			"https://[ff02::1]/", "https://[2002:7f00:1::]/", "https://[2002:808:808::1]/", "https://[64:ff9b::7f00:1]/", "https://[64:ff9b::808:808]/", "https://[64:ff9b:1::1]/", "https://[2001::1]/", "https://[100::1]/",
			"https://[::7f00:1]/", "https://[4000::1]/", "https://[5f00::1]/",
		},
		"R2: IPv4 in one spelling": {"https://8.8.8/", "https://8.8.8.8.8/", "https://8.8.8.08/", "https://8.8.8.256/", "https://8.8.8.8./", "https://0x8.8.8.8/", "https://134744072/", "https://a.0x7f/", "https://a.1/", "https://1.2.3.0x4/"},
		"R2: names": {
			"https://intranet/", "https://com/", "https://app.internal/", "https://internal/", "https://router.home.arpa/", "https://home.arpa/", "https://connect.quill.example./", "https://.quill.example/",
			"https://connect..example/", "https://-a.example/", "https://a-.example/", "https://a_b.example/", "https://" + label63 + "a.example/", "https://" + "aa" + host253 + "/", "https://quill*.example/", "https://*.quill.example/",
			"https://quíll.example/", "https://quill。example/", "https://ｌocalhost/", "https://connect.quill.example%2eevil.example/", "https://connect%2equill.example/", "https://[connect.quill.example]/", "https://[::1/", "https://::1/",
			"https://[2600::1]x/", "https://[8.8.8.8]/", "https://xn--/", "https://xn--zzzzzzzzz99999.example/",
		},
		"R2: ports":            {"https://connect.quill.example:0/", "https://connect.quill.example:65536/", "https://connect.quill.example:/", "https://connect.quill.example:443443/", "https://connect.quill.example:0443/", "https://connect.quill.example:+443/", "https://connect.quill.example:x/", "https://connect.quill.example:443:443/", "https://connect.quill.example:-1/"},
		"R2: dot segments":     {"https://connect.quill.example/./", "https://connect.quill.example/..", "https://connect.quill.example/a/../b", "https://connect.quill.example/%2e%2e/b", "https://connect.quill.example/.%2E/", "https://connect.quill.example/%2e", "https://connect.quill.example/a/."},
		"R2: the answer's own": {"https://connect.quill.example/?code=x", "https://connect.quill.example/?a=1&state=", "https://connect.quill.example/?error", "https://connect.quill.example/?iss=https://x", "https://connect.quill.example/?%63ode=1", "https://connect.quill.example/?a;code=1"},
		"R2: bytes of RFC 3986": {
			"https://connect.quill.example/a b", "https://connect.quill.example/\t", "https://connect.quill.example/\n", " https://connect.quill.example/", "https://connect.quill.example/ ", "https://connect.quill.example\\@evil.example/",
			"https://connect.quill.example/\\", "https://connect.quill.example/\"", "https://connect.quill.example/<>", "https://connect.quill.example/{x}", "https://connect.quill.example/|", "https://connect.quill.example/^", "https://connect.quill.example/`",
			"https://connect.quill.example/é", "https://connect.quill.example/\u202e", "https://connect.quill.example/\x00", "https://connect.quill.example/\x7f", "https://connect.quill.example/%", "https://connect.quill.example/%4", "https://connect.quill.example/%zz",
			"https://connect.quill.example/[x]", "\ufeffhttps://connect.quill.example/", "https://connect.quill.example/\r\nLocation:x",
		},
	}
	for rule, uris := range refused {
		for _, uri := range uris {
			wantJSONError(t, fmt.Sprintf("%s: %.80q", rule, uri), send(uri), 400, "invalid_redirect_uri")
		}
	}
	h.unchanged(t, before)
	for _, uri := range []string{
		"https://connect.quill.example", "https://connect.quill.example/", "https://connect.quill.example?x=y", "https://Connect.Quill.Example/CB", "https://connect.quill.example:443/", "https://connect.quill.example:1/",
		"https://connect.quill.example:65535/", "https://connect.quill.example//a//", "https://connect.quill.example/a/...", "https://connect.quill.example/%41%7E%7e", "https://connect.quill.example/%00%0a", "https://connect.quill.example/?a=b&a=b&&=",
		"https://connect.quill.example/?redirect=https://x/?code%3D1", "https://connect.quill.example/?codes=1&mystate=2", "https://connect.quill.example/?x=%20+", "https://connect.quill.example/~!$&'()*+,;=:@", "https://8.8.8.8/", "https://8.8.8.8:8443/cb",
		"https://[2600:1f00::1]/", "https://[2600:1F00:0:0::1]:8443/", "https://xn--qull-vpa.example/", "https://xn--nxasmq6b.example/", "https://" + label63 + ".example/", "https://" + host253 + "/", "https://a.b/", "https://1a.example/",
		"https://localhost.quill.example/", "https://quill.example.internal.io/", "https://127.0.0.1.quill.example/", "https://connect.quill.example/localhost", "https://172.32.0.1/", "https://11.0.0.1/", "https://100.128.0.1/",
	} {
		wantRegistered(t, uri, send(uri), "Quill Assistant", uri)
	}
}

// "The redirect_uri sent at authorization must equal a registered one
// exactly": neither missing nor nearly.
func TestSpec21RedirectURIExactly(t *testing.T) {
	t.Parallel()
	h := start(t)
	uris := []string{"https://connect.quill.example/callback", "https://connect.quill.example/cb?a=1&b=%2F", "https://Connect.Quill.Example/Other/"}
	client := h.register(uris...)
	other := h.register("https://connect.quill.example/of-another")
	b := h.signedIn("ada@nordlys.example")
	for _, uri := range uris {
		f := h.flow(client)
		if p := b.page("/oauth/authorize?" + f.query("redirect_uri", uri)); p.status != 200 {
			t.Errorf("%s: %d", uri, p.status)
		}
	}
	_ = other
	for i, uri := range []string{
		"", "https://connect.quill.example/callback/", "https://connect.quill.example/callback?", "https://connect.quill.example/callback?x", "https://connect.quill.example/callback#", "https://connect.quill.example/callback#x",
		"https://connect.quill.example:443/callback", "https://CONNECT.quill.example/callback", "HTTPS://connect.quill.example/callback", "https://connect.quill.example/Callback", "https://connect.quill.example/callbac", "https://connect.quill.example/callback/../callback",
		"https://connect.quill.example/%63allback", "https://connect.quill.example//callback", " https://connect.quill.example/callback", "https://connect.quill.example/callback ", "https://connect.quill.example/callback\n", "https://connect.quill.example/callback\x00",
		"http://connect.quill.example/callback", "https://connect.quill.example", "https://evil.example/callback", "https://connect.quill.example/of-another", "https://connect.quill.example/cb?b=%2F&a=1", "https://connect.quill.example/cb?a=1&b=%2f",
		"https://connect.quill.example/cb?a=1&b=/", "https://connect.quill.example/cb?a=1", "https://connect.quill.example/cb", "https://connect.quill.example/cb?a=1&b=%2F&c", "https://connect.quill.example/Other/", "https://Connect.Quill.Example/Other",
		"https://user@connect.quill.example/callback", "javascript:alert(1)//https://connect.quill.example/callback", "https://connect.quill.example/callback https://connect.quill.example/callback",
	} {
		if i%100 == 99 {
			b = h.signedIn("ada@nordlys.example")
		}
		a := b.get("/oauth/authorize?" + h.flow(client).query("redirect_uri", uri))
		wantPage(t, fmt.Sprintf("%q", uri), a, 400)
	}
}

// "POST /oauth/register": other methods are 405, and there is no client
// management endpoint (decision R5).
func TestSpec42RegisterMethods(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	before := h.rows()
	for _, method := range []string{"GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS", "BREW"} {
		a := h.caller().send(method, "/oauth/register", registration("", ""), header{"Content-Type", jsonType})
		if method == "HEAD" {
			if a.status != 405 {
				t.Errorf("HEAD: %d", a.status)
			}
			continue
		}
		wantJSONError(t, method, a, 405, "invalid_request", "invalid_client_metadata")
		if a.header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow %q", method, a.header.Get("Allow"))
		}
	}
	for _, path := range []string{"/oauth/register/" + client, "/oauth/register/", "/oauth/register?client_id=" + client, "/oauth/clients/" + client, "/oauth/client"} {
		for _, method := range []string{"GET", "PUT", "DELETE", "POST"} {
			if strings.Contains(path, "?") && method == "POST" {
				continue // a registration like any other
			}
			a := h.caller().send(method, path, registration("", ""), header{"Content-Type", jsonType, "Authorization", "Bearer x"})
			if want := map[bool]int{true: 405, false: 404}[strings.Contains(path, "?")]; a.status != want || a.errorCode() == "" {
				t.Errorf("%s %s: %s; want %d", method, path, a, want)
			}
		}
	}
	h.unchanged(t, before)
}

// R8: off unless an operator takes some, and an https client_id is an unknown client.
func TestDecisionR8MetadataDocumentClient(t *testing.T) {
	t.Parallel()
	h := start(t)
	f := h.flow("https://connect.quill.example/client.json")
	wantPage(t, "signed out", h.caller().get("/oauth/authorize?"+f.query()), 400)
	wantPage(t, "signed in", h.signedIn("ada@nordlys.example").get("/oauth/authorize?"+f.query()), 400)
	wantError(t, "token", f.exchange("svc_x"), 401, "invalid_client")
}

// "A preregistered public client exists": fixed client ID, blank secret, PKCE
// only. The 14-day rule never touches it (decision R6).
func TestSpec1PreregisteredClient(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.sleep(15 * day)
	f := h.flow("dev-client")
	f.redirect = h.base + "/dev/client"
	b := h.signedIn("ada@nordlys.example")
	a := b.consent(f).form("/oauth/authorize").submit(append(treasurer, "decision", "approve")...)
	tk := tokensOf(t, f.exchange(codeOf(t, a, f), "client_secret", ""))
	if !h.works(tk.access) {
		t.Error("the access token does not work")
	}
	tokensOf(t, f.refresh(tk.refresh))
	wantRedirect(t, "P-02: without PKCE", b.get("/oauth/authorize?"+f.query("code_challenge", "", "code_challenge_method", "")), f, "invalid_request")
	wantPage(t, "another redirect URI", b.get("/oauth/authorize?"+f.query("redirect_uri", redirect)), 400)
	for _, id := range []string{"Dev-Client", "DEV-CLIENT", " dev-client"} {
		wantPage(t, id, b.get("/oauth/authorize?"+f.query("client_id", id)), 400)
	}
	a = h.caller().postJSON("/oauth/register", registration("client_id", `"dev-client"`))
	if a.status != 201 || a.json(t)["client_id"] == "dev-client" {
		t.Errorf("P-04: a registration took the fixed ID: %s", a)
	}
}
