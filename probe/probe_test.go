package probe

import (
	"encoding/json"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/grantkeeper/grantkeeper/client"
)

func row1(t *testing.T, rows []Row, code string) Row {
	t.Helper()
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Code == code })
	if i < 0 {
		t.Fatalf("no row %s", code)
	}
	return rows[i]
}

// An issuer is known by its metadata; what belongs to resources is not judged then,
// and no message of MCP is sent.
func TestIssuerIsNoResource(t *testing.T) {
	for given, said := range map[string]string{issuer: issuer, issuer + "/": issuer, "https://as.example": "https://as.example/"} {
		w := good()
		w["call"] = Answer{Status: 302, Location: "https://as.example/sign-in"}
		members := serverMembers()
		members["issuer"] = said
		w[asDoc], w["https://as.example/.well-known/oauth-authorization-server"] = doc(members), doc(members)
		q := w.ask(t, &Inquiry{URL: given})
		rows := q.Rows()
		if r := row1(t, rows, "target.kind"); !strings.HasPrefix(r.Seen, "it is an issuer") {
			t.Errorf("%s: kind: %s", given, r.Seen)
		}
		for _, code := range []string{"resource.found", "legacy.root"} {
			if r := row1(t, rows, code); r.Result != None || r.Seen != notAResource {
				t.Errorf("%s: %+v", given, r)
			}
		}
		if r := row1(t, rows, "mcp.2026-07-28"); r.Result != OK || !strings.Contains(r.Seen, "issuer") {
			t.Errorf("%s: revision %+v", given, r)
		}
		if r := row1(t, rows, "server.issuer"); r.Result != OK || r.At != said {
			t.Errorf("%s: issuer %+v", given, r)
		}
		for _, r := range rows {
			if strings.HasPrefix(r.Code, "resource.") && r.Result != None || r.Result == Fail || r.Result == Warn || strings.HasPrefix(r.Code, "challenge.") && r.Seen != notAResource {
				t.Errorf("%s: %s is %s: %s", given, r.Code, r.Result, r.Seen)
			}
		}
		for _, e := range q.Exchanges {
			if e.Request.Method == "POST" && e.Request.Step != "token" {
				t.Errorf("%s: sent %s", given, e.Request.Step)
			}
		}
	}
}

// Metadata at an issuer's address that call themselves another are found out.
func TestIssuerThatCallsItselfOtherwise(t *testing.T) {
	w := good()
	delete(w, "call")
	with(asDoc, map[string]any{"issuer": "https://evil.example"})(w)
	rows := w.ask(t, &Inquiry{URL: issuer}).Rows()
	if r := row1(t, rows, "server.issuer"); r.Result != Fail || !strings.Contains(r.Seen, "evil.example") {
		t.Errorf("%+v", r)
	}
	if r := row1(t, rows, "target.kind"); !strings.Contains(r.Seen, "no issuer") {
		t.Errorf("%+v", r)
	}
}

func TestOtherAddresses(t *testing.T) {
	for _, tt := range []struct{ url, code, want string }{
		{"http://mcp.example/mcp", "target.https", Fail},
		{"http://127.0.0.1:1/mcp", "target.https", OK},
		{"http://[::1]:1/mcp", "target.https", OK},
		{"http://localhost:1/mcp", "target.https", OK},
		{"http://localhost.evil.example/mcp", "target.https", Fail},
		{mcpURL, "target.https", OK},
		{"ftp://mcp.example/", "target.answers", Fail},
		{"https://user:pass@mcp.example/", "target.answers", Fail},
		{"https://mcp.example/#x", "target.answers", Fail},
		{"", "target.answers", Fail},
	} {
		q := good().ask(t, &Inquiry{URL: tt.url})
		if r := row1(t, q.Rows(), tt.code); r.Result != tt.want {
			t.Errorf("%q: %s is %s, want %s", tt.url, tt.code, r.Result, tt.want)
		}
		if asked := len(q.Exchanges) > 0; asked != (Check(tt.url) == nil) {
			t.Errorf("%q: asked %d times", tt.url, len(q.Exchanges))
		}
	}
}

// What cannot be reached is one row, and nothing more is asked.
func TestUnreachable(t *testing.T) {
	for _, e := range []string{Unreachable, TLS, Scheme, Malformed, Redirects} {
		w := good()
		w["call"] = Answer{Error: e}
		q := w.ask(t, &Inquiry{URL: mcpURL, Register: true})
		if len(q.Exchanges) != 1 {
			t.Errorf("%s: asked %d times", e, len(q.Exchanges))
		}
		for _, r := range q.Rows() {
			if known := r.Code == "target.answers" || r.Code == "target.redirect" || r.Code == "target.https"; !known && r.Result != None {
				t.Errorf("%s: %s is %s", e, r.Code, r.Result)
			}
		}
		if r, want := row1(t, q.Rows(), "target.redirect"), map[bool]string{true: Fail, false: None}[e == Redirects]; r.Result != want {
			t.Errorf("%s: %+v, want %s", e, r, want)
		}
		if r := row1(t, q.Rows(), "target.answers"); r.Result != Fail || failures[e] == "" || !strings.Contains(r.Seen, failures[e]) {
			t.Errorf("%s: %+v", e, r)
		}
	}
}

// Before anything was asked, nothing is judged, and nothing is said of what it is.
func TestNothingAsked(t *testing.T) {
	for given, judged := range map[string]string{mcpURL: "target.https", "ftp://mcp.example/": "target.answers"} {
		for _, r := range (&Inquiry{URL: given}).Rows() {
			if r.Result != None && r.Code != judged || r.At != "" || strings.Contains(r.Seen, "issuer,") {
				t.Errorf("%s: %s of %q is %s: %s", given, r.Code, r.At, r.Result, r.Seen)
			}
		}
	}
}

// What was not asked yet is not judged, however far an inquiry came.
func TestUnfinished(t *testing.T) {
	w := good()
	w["call"] = Answer{Status: 401, Challenges: []string{`Bearer scope="read", resource_metadata="https://mcp.example/prm"`}}
	w["https://mcp.example/prm"] = w[mcpPRM]
	last := good()
	last[asAppended] = last[asDoc]
	delete(last, asDoc)
	for _, w := range []world{good(), w, last} {
		q := w.ask(t, &Inquiry{URL: mcpURL, Register: true})
		if r := row1(t, (&Inquiry{URL: mcpURL, Exchanges: q.Exchanges[:2]}).Rows(), "resource.well-known"); r.Seen != mcpPRM && r.Seen != mcpPRM+" was not asked" {
			t.Errorf("%+v", r)
		}
		for n := range q.Exchanges {
			for _, r := range (&Inquiry{URL: mcpURL, Register: true, Exchanges: q.Exchanges[:n]}).Rows() {
				if r.Result != OK && r.Result != None && r.Code != "register.left" && r.Code != "server.rfc8414" && r.Code != "mcp.2025-06-18" { // which are so
					t.Errorf("after %d: %s is %s: %s", n, r.Code, r.Result, r.Seen)
				}
			}
		}
	}
}

// Two spellings of one host are one, and no other part of a URL has two.
func TestSpellingsOfTheResource(t *testing.T) {
	for given, want := range map[string]string{
		"https://MCP.example/public/mcp": OK, "https://mcp.example:443/public/mcp": OK, "https://mcp.example/Public/mcp": Fail, "https://mcp.example:80/public/mcp": Fail,
		"https://mcp.example/public/mcp?k=v": Warn, "https://mcp.example/public/mcp/more": Warn, "https://mcp.example/public/mcpx": Fail,
	} {
		if r := row1(t, good().ask(t, &Inquiry{URL: given}).Rows(), "resource.identifier"); r.Result != want {
			t.Errorf("%s: %s: %s", given, r.Result, r.Seen)
		}
	}
}

func TestShown(t *testing.T) {
	long := strings.Repeat("a", 120)
	for said, want := range map[string]string{"": `""`, "https://a.example/?b=c": "https://a.example/?b=c", "a b": `"a b"`, "\u202e": `"\u202e"`, long: long, long + "b": `"` + long + `"...`} {
		if got := shown(said); got != want {
			t.Errorf("%q: %s, want %s", said, got, want)
		}
	}
}

func TestSeverally(t *testing.T) {
	for want, all := range map[string][]string{
		"none": nil, "a": {"a"}, `a, "b c"`: {"a", "b c"}, "1, 2, 3, 4, 5, 6": strings.Split("123456", ""), "1, 2, 3, 4, 5, 6 and 2 more": strings.Split("12345678", ""),
	} {
		if got := severally(all); got != want {
			t.Errorf("%q: %s, want %s", all, got, want)
		}
	}
}

// Decision O5: without Register, nobody is registered and at most two token requests are made, of
// however many servers.
func TestAsksNoMoreThanItSays(t *testing.T) {
	w := good()
	issuers := []string{"https://a.example", "https://b.example", "https://c.example", "https://d.example", "https://a.example"}
	with(mcpPRM, map[string]any{"authorization_servers": issuers})(w)
	for _, at := range issuers {
		members := serverMembers()
		members["issuer"], members["token_endpoint"], members["authorization_endpoint"] = at, at+"/token", at+"/authorize"
		w[at+"/.well-known/oauth-authorization-server"] = doc(members)
	}
	for _, register := range []bool{false, true} {
		q := w.ask(t, &Inquiry{URL: mcpURL, Register: register})
		count := map[string]int{}
		for _, e := range q.Exchanges {
			count[e.Request.Method]++
			if e.Request.Method == "POST" && !register && (e.Request.Step != "token" || e.Request.Body != "") {
				t.Errorf("sent %+v", e.Request)
			}
		}
		if want := map[bool]int{false: 2, true: 4}[register]; count["POST"] != want {
			t.Errorf("register %v: %v", register, count)
		}
		at := map[string]bool{}
		for _, r := range q.Rows() {
			at[r.At] = true
			if of, _, _ := strings.Cut(r.Code, "."); r.At > "https://a.example" && (of == "register" || of == "begin") && (r.Result != None || r.Code == "begin.resource" && r.Seen != "not seen") {
				t.Errorf("%s of %s is %s: %s", r.Code, r.At, r.Result, r.Seen)
			}
		}
		if want := map[string]bool{"": true, "https://a.example": true, "https://b.example": true, "https://c.example": true}; !reflect.DeepEqual(at, want) {
			t.Errorf("rows about %v", at)
		}
	}
}

// Each way of not being metadata is said.
func TestWhatIsNoDocument(t *testing.T) {
	for body, want := range map[string]string{
		"":                            "is not JSON",
		" <!DOCTYPE html>":            "is HTML",
		"{":                           "is not JSON",
		"[]":                          "is not a JSON object",
		"null":                        "is not a JSON object",
		`{"resource":1,"resource":2}`: "has the member resource twice",
		`{"a":{"` + "\\u001b" + `":1,"` + "\\u001b" + `":2}}`:       `has the member "\x1b" twice`,
		"{\"resource\":\"\xff\"}":                                   "is not valid UTF-8",
		strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40): "is nested too deep",
	} {
		w := good()
		w[mcpPRM] = Answer{Status: 200, Type: "application/json", Body: body}
		if r := row1(t, w.ask(t, &Inquiry{URL: mcpURL}).Rows(), "resource.found"); r.Result != Fail || !strings.Contains(r.Seen, want) {
			t.Errorf("%q: %s, want %q", body, r.Seen, want)
		}
	}
}

func TestChallenges(t *testing.T) {
	one := func(scheme string, params ...string) challenge {
		c := challenge{scheme: scheme, params: map[string]string{}}
		for i := 0; i < len(params); i += 2 {
			c.params[params[i]] = params[i+1]
		}
		return c
	}
	loose := func(c challenge) challenge { c.loose = true; return c }
	for _, tt := range []struct {
		field string
		want  []challenge
	}{
		{"", nil},
		{"Bearer", []challenge{one("Bearer")}},
		{`bearer realm="a, b", Scope = "x y"`, []challenge{one("bearer", "realm", "a, b", "scope", "x y")}},
		{`Bearer realm="q\"\\", error=invalid_token`, []challenge{one("Bearer", "realm", `q"\`, "error", "invalid_token")}},
		{`Basic realm="x", Bearer a="b"`, []challenge{one("Basic", "realm", "x"), one("Bearer", "a", "b")}},
		{`Negotiate YWJj==, Bearer a=b`, []challenge{one("Negotiate"), one("Bearer", "a", "b")}},
		{`Bearer resource_metadata=https://h/x?y=1, a=b`, []challenge{loose(one("Bearer", "resource_metadata", "https://h/x?y=1", "a", "b"))}},
		{`Bearer a="b`, []challenge{loose(one("Bearer", "a", "b"))}},
		{`Bearer a="b\`, []challenge{loose(one("Bearer", "a", `b\`))}},
		{`Bearer a=1, A=2`, []challenge{loose(one("Bearer", "a", "1"))}},
		{`Bearer "x" a=1`, []challenge{loose(one("Bearer")), loose(one("x", "a", "1"))}}, // what stands behind is read as it can be
		{`"x"`, []challenge{loose(one("x"))}},
		{`Bearer "`, []challenge{loose(one("Bearer"))}},
		{`Bearer x=y, a=, b=c`, []challenge{loose(one("Bearer", "x", "y", "a", "", "b", "c"))}},
		{`Bearer a="b\"`, []challenge{loose(one("Bearer", "a", `b"`))}},
		{`,, Bearer a=b,`, []challenge{one("Bearer", "a", "b")}},
	} {
		got := challenges([]string{tt.field})
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\n%+v, want\n%+v", tt.field, got, tt.want)
		}
	}
}

func TestPlacesOfMetadata(t *testing.T) {
	for raw, want := range map[string][]string{
		"https://h.example":       {"https://h.example/.well-known/oauth-protected-resource"},
		"https://h.example/":      {"https://h.example/.well-known/oauth-protected-resource"},
		"https://h.example:8/a/":  {"https://h.example:8/.well-known/oauth-protected-resource/a/", "https://h.example:8/.well-known/oauth-protected-resource"},
		"https://h.example/a%2Fb": {"https://h.example/.well-known/oauth-protected-resource/a%2Fb", "https://h.example/.well-known/oauth-protected-resource"},
		"https://h.example?k=v":   {"https://h.example/.well-known/oauth-protected-resource?k=v", "https://h.example/.well-known/oauth-protected-resource"},
	} {
		u, _ := parse(raw)
		if got := resourceDocuments(u); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
	for raw, want := range map[string][]string{
		"https://h.example/":    {"https://h.example/.well-known/oauth-authorization-server", "https://h.example/.well-known/openid-configuration"},
		"https://h.example/t1/": {"https://h.example/.well-known/oauth-authorization-server/t1", "https://h.example/.well-known/openid-configuration/t1", "https://h.example/t1/.well-known/openid-configuration"},
	} {
		u, _ := parse(raw)
		if got := issuerDocuments(u); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}

func TestPrivateAddresses(t *testing.T) {
	for ip, want := range map[string]bool{
		"127.0.0.1": true, "10.1.2.3": true, "192.168.1.1": true, "172.16.0.1": true, "169.254.169.254": true, "100.64.0.1": true,
		"0.0.0.0": true, "224.0.0.1": true, "255.255.255.255": true, "::1": true, "fe80::1": true, "fd00::1": true, "::": true,
		"::ffff:127.0.0.1": true, "64:ff9b::7f00:1": true, "64:ff9b::808:808": false, "8.8.8.8": false, "2606:4700::1": false, "100.128.0.1": false,
	} {
		if got := IsPrivate(netip.MustParseAddr(ip)); got != want {
			t.Errorf("%s: %v, want %v", ip, got, want)
		}
	}
}

// What others wrote reaches a terminal as printable ASCII, and not endlessly.
func TestWhatOthersWroteIsEscaped(t *testing.T) {
	hostile := "\x1b[2J\u202e\u0007ä" + strings.Repeat("A", 5000)
	w := good()
	w["call"] = Answer{Status: 401, Type: hostile, Challenges: []string{"Bearer error=\"" + hostile + "\", scope=\"" + hostile + "\", resource_metadata=\"https://mcp.example/prm\""}}
	w["https://mcp.example/prm"] = w[mcpPRM]
	with("https://mcp.example/prm", map[string]any{"resource": hostile, "scopes_supported": []string{hostile}, "bearer_methods_supported": []string{hostile}})(w)
	changes := map[string]any{}
	for name, value := range serverMembers() {
		if _, list := value.([]string); list {
			changes[name] = []string{hostile}
		}
	}
	with(asDoc, changes)(w)
	w["token"] = Answer{Status: 400, Type: hostile, Body: string(must(json.Marshal(map[string]string{"error": hostile})))}
	w["register-https"] = w["token"]
	w["begin-loopback"] = Answer{Status: 302, Location: hostile}
	w["authorize"] = Answer{Status: 302, Location: hostile}
	for _, r := range w.ask(t, &Inquiry{URL: mcpURL, Register: true}).Rows() {
		if i := strings.IndexFunc(r.Seen+r.At, func(c rune) bool { return c > unicode.MaxASCII || c < ' ' || c == 0x7f }); i >= 0 || len(r.Seen) > 2000 {
			t.Errorf("%s: %d bytes, not printable at %d: %q", r.Code, len(r.Seen), i, r.Seen)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// Codes are told apart, and are for people to look up: none may change.
func TestCodes(t *testing.T) {
	seen := map[string]bool{}
	for _, code := range Codes() {
		if seen[code] || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz0123456789.-") != "" || !strings.Contains(code, ".") {
			t.Errorf("code %q", code)
		}
		seen[code] = true
	}
	for _, r := range revisions {
		for _, need := range r.needs {
			if !seen[need] {
				t.Errorf("%s needs %s, which is no row", r.code, need)
			}
		}
	}
}

// Whatever a server answers: no panic, no more requests than there may be, each row
// once a server, and what is shown is printable.
func FuzzRows(f *testing.F) {
	base := good()
	f.Add(base["call"].Challenges[0], base[mcpPRM].Body, base[asDoc].Body, base["token"].Body, base["register-https"].Body, httpsRedirect+"?error=x", uint16(401), uint16(200))
	f.Add("Bearer", `{"authorization_servers":["https://[::1"]}`, `{"issuer":null}`, "<", `{"client_id":""}`, "%zz", uint16(302), uint16(500))
	f.Fuzz(func(t *testing.T, field, resource, server, token, registered, location string, status, other uint16) {
		answer := func(body string, status uint16) Answer {
			return Answer{Status: int(status), Type: "application/json", Body: body, Location: location, Challenges: []string{field}}
		}
		w := world{"call": answer("", status), "ping": answer("", other), mcpPRM: answer(resource, 200), "document": answer(server, 200), "token": answer(token, other),
			"register-https": answer(registered, 201), "register-loopback": answer(registered, other), "begin": answer("", 302), "begin-without-pkce": answer("", other)}
		delete(w, "document")
		for _, at := range []string{asDoc, asOIDC, mcpRoot, mcpRootPRM} {
			w[at] = answer(server, 200)
		}
		q := w.ask(t, &Inquiry{URL: mcpURL, Register: true})
		seen := map[[2]string]bool{}
		for _, r := range q.Rows() {
			if key := [2]string{r.Code, r.At}; seen[key] && r.At != "" {
				t.Errorf("%v twice", key)
			} else {
				seen[key] = true
			}
			if !slices.Contains([]string{OK, Note, Warn, Fail, None}, r.Result) || r.Seen == "" {
				t.Errorf("%s: %q, %q", r.Code, r.Result, r.Seen)
			}
			if strings.IndexFunc(r.Seen+r.At, func(c rune) bool { return c > unicode.MaxASCII || c < ' ' || c == 0x7f }) >= 0 {
				t.Errorf("%s: %q", r.Code, r.Seen)
			}
		}
	})
}

// This machine and private networks are told by the host alone, in every spelling.
func TestPrivateNames(t *testing.T) {
	for host, want := range map[string][2]bool{ // on this machine, private
		"localhost": {true, true}, "a.localhost": {true, true}, "127.0.0.1": {true, true}, "127.9.9.9": {true, true}, "::1": {true, true}, "::ffff:127.0.0.1": {true, true},
		"10.1.2.3": {false, true}, "fd00::1": {false, true}, "0.0.0.0": {false, true},
		"8.8.8.8": {false, false}, "as.example": {false, false}, "localhost.example": {false, false}, "alocalhost": {false, false}, "": {false, false},
	} {
		if got := [2]bool{client.Loopback(host), privateName(host)}; got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

// A row that is ok is one line; of another there is by what, for whom and what mends it.
func TestLine(t *testing.T) {
	bad := Row{Code: "server.pkce", At: "https://as.example", Result: Fail, Source: "RFC 1", Seen: "gone\x1b[2J", Breaks: []Kind{Hosted, CLI}, Fix: "mend it"}
	good := Row{Code: "target.https", Result: OK, Source: "RFC 2", Seen: "https"}
	const by, more = "                             by:  RFC 1", "; for hosted, cli\n                             fix: mend it\n"
	for _, tt := range []struct {
		name             string
		row              Row
		colored, several bool
		want             string
	}{
		{"ok", good, false, true, "ok    target.https           https\n"},
		{"ok in color", good, true, false, "\x1b[32mok    \x1b[0mtarget.https           https\n"},
		{"a fault", bad, false, false, "fail  server.pkce            gone [2J\n" + by + more},
		{"of one of several", bad, false, true, "fail  server.pkce            https://as.example: gone [2J\n" + by + more},
		{"for one", Row{Code: "server.cimd", Result: Note, Source: "RFC 1", Seen: "no", Breaks: []Kind{CIMD}}, false, false, "note  server.cimd            no\n" + by + "; for cimd\n"},
		{"for nobody", Row{Code: "server.pkce", Result: None, Source: "RFC 1", Seen: "not asked"}, false, false, "none  server.pkce            not asked\n" + by + "\n"},
	} {
		got := tt.row.Line(tt.colored, tt.several)
		if strings.ContainsRune(got, 0x1b) != tt.colored || got != tt.want {
			t.Errorf("%s:\n%q, want\n%q", tt.name, got, tt.want)
		}
	}
}

// Rows about a server come for each, the others once; and what an issuer protects is
// nothing that it could deny where no resource was asked.
func TestRowsOfSeveralServers(t *testing.T) {
	w := good()
	with(mcpPRM, map[string]any{"authorization_servers": []string{issuer, "https://other.example"}})(w)
	count := map[string]int{}
	rows := w.ask(t, &Inquiry{URL: mcpURL}).Rows()
	if got := revisionsOf(rows); len(got) > 0 || row1(t, rows, "server.found").Result != OK {
		t.Errorf("the second is not there, and revisions are %q", got)
	}
	for _, r := range rows {
		if count[r.Code]++; (r.At != "") != slices.ContainsFunc(table, func(of row) bool { return of.code == r.Code && of.ofServer }) {
			t.Errorf("%s is of %q", r.Code, r.At)
		}
	}
	for _, of := range table {
		if want := map[bool]int{true: 2, false: 1}[of.ofServer]; count[of.code] != want {
			t.Errorf("%s comes %d times, want %d", of.code, count[of.code], want)
		}
	}
	delete(w, "call")
	with(asDoc, map[string]any{"protected_resources": []string{"https://elsewhere.example"}})(w)
	if r := row1(t, w.ask(t, &Inquiry{URL: issuer}).Rows(), "server.protects"); r.Result != OK {
		t.Errorf("of an issuer alone: %+v", r)
	}
}

// After a call, a message of MCP is sent at once where the answer is one of MCP's, or is not sent at
// all where it says enough; of all others it is looked whether they are an issuer first.
func TestWhatIsAskedNext(t *testing.T) {
	for _, tt := range []struct {
		answer Answer
		want   string
	}{
		{Answer{Status: 400}, "ping"}, {Answer{Status: 405}, "ping"}, {Answer{Status: 406}, "ping"}, {Answer{Error: Slow}, "ping"},
		{Answer{Status: 200, Type: "text/event-stream; charset=utf-8"}, "ping"},
		{Answer{Status: 200, Type: "text/html"}, "document https://mcp.example/.well-known/oauth-authorization-server/public/mcp"},
		{Answer{Status: 403}, "document https://mcp.example/.well-known/oauth-authorization-server/public/mcp"},
		{Answer{Status: 401}, "document " + mcpPRM}, {Answer{Error: TLS}, ""},
	} {
		q := &Inquiry{URL: mcpURL}
		first, _ := q.Next()
		q.Exchanges = []Exchange{{first, tt.answer}}
		next, more := q.Next()
		if got := next.Step + " " + next.URL; !strings.HasPrefix(got, tt.want) || more != (tt.want != "") || first.Step != "call" {
			t.Errorf("%+v: %v, %s, want %s", tt.answer, more, got, tt.want)
		}
	}
	for count, want := range map[int]bool{39: true, 40: false, 41: false} {
		if r, more := (&Inquiry{URL: mcpURL, Exchanges: make([]Exchange, count)}).Next(); more != want {
			t.Errorf("after %d requests: %v, %+v", count, more, r)
		}
	}
}

// An authorization endpoint may have a query of its own, and what is no metadata names no resource.
func TestHowAnAssistantBegins(t *testing.T) {
	for _, tt := range []struct {
		change func(world)
		want   string
	}{
		{func(world) {}, "https://as.example/authorize?client_id=h"},
		{with(asDoc, map[string]any{"authorization_endpoint": "https://as.example/authorize?tenant=a"}), "https://as.example/authorize?tenant=a&client_id=h"},
		{func(w world) {
			w["call"] = Answer{Status: 401, Challenges: []string{`Bearer scope="read"`}}
			w[mcpPRM] = doc(map[string]any{"resource": "https://evil.example"})
			changed(mcpPRM, func(a *Answer) { a.Status = 404 })(w)
		}, "https://as.example/authorize?client_id=h"},
	} {
		w := good()
		tt.change(w)
		q := w.ask(t, &Inquiry{URL: mcpURL, Register: true})
		i := slices.IndexFunc(q.Exchanges, func(e Exchange) bool { return e.Request.Step == "begin" })
		if got := q.Exchanges[max(i, 0)].Request.URL; !strings.HasPrefix(got, tt.want) || !strings.Contains(got, "&resource="+url.QueryEscape(mcpURL)+"&") {
			t.Errorf("begins with %s, want %s", got, tt.want)
		}
	}
}

// A resource at the root of its host has one place for its metadata; that its host is an issuer too,
// which is asked where clients of 2025-03-26 look, makes it none once it has challenged a call.
func TestResourceThatIsAnIssuerToo(t *testing.T) {
	const at = "https://mcp.example"
	for name, change := range map[string]func(world){
		"GET is challenged":  func(world) {},
		"POST is challenged": func(w world) { w["ping"], w["call"] = w["call"], Answer{Status: 405} },
	} {
		w := good()
		w["call"] = Answer{Status: 401}
		w[mcpRootPRM] = w[mcpPRM]
		with(mcpRootPRM, map[string]any{"resource": at + "/", "authorization_servers": []string{at}})(w)
		with(mcpRoot, map[string]any{"issuer": at, "protected_resources": []string{at + "/"}})(w)
		change(w)
		rows := w.ask(t, &Inquiry{URL: at}).Rows()
		for code, want := range map[string]string{
			"target.kind": "it is a protected resource", "resource.found": mcpRootPRM, "server.issuer": at,
			"resource.identifier": "resource is https://mcp.example/; without a path the slash means nothing",
		} {
			if r := row1(t, rows, code); r.Result != OK || r.Seen != want {
				t.Errorf("%s: %+v, want %s", name, r, want)
			}
		}
	}
}
