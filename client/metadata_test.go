package client_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
)

// body is a registration that is good but for the members given.
func body(members ...string) []byte {
	return []byte("{" + strings.Join(append(members, `"redirect_uris":["https://quill.example/cb"]`), ",") + "}")
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func uris(list string) []byte { return []byte(`{"redirect_uris":` + list + `}`) }

func TestMetadataAccepted(t *testing.T) {
	callback := []string{"https://quill.example/cb"}
	for _, row := range []struct {
		name string
		body []byte
		want client.Metadata
	}{
		{"redirect URIs alone", body(), client.Metadata{RedirectURIs: callback}},
		{"everything", body(`"client_name":"Quill"`, `"grant_types":["authorization_code","refresh_token"]`, `"response_types":["code"]`,
			`"token_endpoint_auth_method":"none"`, `"scope":"api"`), client.Metadata{Name: "Quill", RedirectURIs: callback}},
		{"white space around", []byte(" \r\n\t" + string(body()) + "\n "), client.Metadata{RedirectURIs: callback}},
		{"null counts as not sent", body(`"client_name":null`, `"grant_types":null`, `"response_types":null`, `"token_endpoint_auth_method":null`, `"scope":null`, `"jwks":null`),
			client.Metadata{RedirectURIs: callback}},
		{"authorization_code alone", body(`"grant_types":["authorization_code"]`), client.Metadata{RedirectURIs: callback}},
		{"refresh_token alone", body(`"grant_types":["refresh_token"]`), client.Metadata{RedirectURIs: callback}},
		{"grant types the other way round", body(`"grant_types":["refresh_token","authorization_code"]`), client.Metadata{RedirectURIs: callback}},
		{"empty lists", body(`"grant_types":[]`, `"response_types":[]`), client.Metadata{RedirectURIs: callback}},
		{"an authentication method is replaced", body(`"token_endpoint_auth_method":"client_secret_basic"`), client.Metadata{RedirectURIs: callback}},
		{"any authentication method is replaced", body(`"token_endpoint_auth_method":"\u0000<x>"`), client.Metadata{RedirectURIs: callback}},
		{"a scope is replaced", body(`"scope":"openid profile admin"`), client.Metadata{RedirectURIs: callback}},
		{"unknown members are ignored", body(`"client_uri":"http://127.0.0.1/","logo_uri":7`, `"jwks":{"keys":[{"a":1e999}]}`, `"software_statement":[[[]]]`, `"":0`),
			client.Metadata{RedirectURIs: callback}},
		{"names are case-sensitive", body(`"Client_Name":"<x>"`, `"REDIRECT_URIS":7`, `"scopE":7`), client.Metadata{RedirectURIs: callback}},
		{"an escaped name is the name", body(`"client\u005fname":"Quill"`), client.Metadata{Name: "Quill", RedirectURIs: callback}},
		{"one name in different objects", body(`"a":{"b":1,"c":{"b":1}}`, `"d":[{"b":1},{"b":1},{"redirect_uris":1}]`), client.Metadata{RedirectURIs: callback}},
		{"a string that is a name", body(`"a":"b"`, `"b":["a","a","b"]`), client.Metadata{RedirectURIs: callback}},
		{"32 deep", body(`"a":` + strings.Repeat("[", 31) + strings.Repeat("]", 31)), client.Metadata{RedirectURIs: callback}},
		{"a name in escapes", body(`"client_name":"\u0051\ud83d\ude00\"\\ud800"`), client.Metadata{Name: "Q😀\"\\ud800", RedirectURIs: callback}},
		{"digits behind another escape", body(`"a":"\nd800\td801\\dc00"`), client.Metadata{RedirectURIs: callback}},
		{"a name of 100 characters", body(`"client_name":"` + strings.Repeat(`\ud83d\ude00`, 100) + `"`), client.Metadata{Name: strings.Repeat("😀", 100), RedirectURIs: callback}},
		{"5 entries", uris(`["https://a.example/1","https://a.example/2","https://a.example/3","https://a.example/4","https://a.example/5"]`),
			client.Metadata{RedirectURIs: []string{"https://a.example/1", "https://a.example/2", "https://a.example/3", "https://a.example/4", "https://a.example/5"}}},
		{"one entry twice", uris(`["https://a.example/","https://a.example/"]`), client.Metadata{RedirectURIs: []string{"https://a.example/", "https://a.example/"}}},
		{"entries in escapes", uris(`["https:\/\/Quill.example:443\u002fcb?a=%20\u0026b"]`), client.Metadata{RedirectURIs: []string{"https://Quill.example:443/cb?a=%20&b"}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			got, refusal := client.ParseMetadata(row.body, ownHosts)
			if refusal != nil {
				t.Fatalf("%+v", *refusal)
			}
			if got.Name != row.want.Name || !slices.Equal(got.RedirectURIs, row.want.RedirectURIs) {
				t.Fatalf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestMetadataRefused(t *testing.T) {
	const (
		notJSON   = "the body is not one JSON value"
		notObject = "the body is not a JSON object"
		twice     = "the body has a member name twice"
		deep      = "the body is nested deeper than 32"
		half      = "the body holds half of a surrogate pair"
		missing   = "redirect_uris: it is missing"
		notList   = "redirect_uris: it must be an array of strings"
		count     = "redirect_uris: it must have 1 to 5 entries"
	)
	const metadata, redirect = "invalid_client_metadata", "invalid_redirect_uri"
	for _, row := range []struct {
		name       string
		body       []byte
		code, want string
	}{
		{"nothing", nil, metadata, notJSON},
		{"white space", []byte(" "), metadata, notJSON},
		{"form-encoded", []byte("redirect_uris=https://quill.example/cb"), metadata, notJSON},
		{"cut short", body()[:20], metadata, notJSON},
		{"something after it", append(body(), 'x'), metadata, notJSON},
		{"a second object after it", append(body(), body()...), metadata, notJSON},
		{"a comma at the end", []byte(`{"redirect_uris":["https://quill.example/cb"],}`), metadata, notJSON},
		{"a comment", []byte("/**/{}"), metadata, notJSON},
		{"a byte order mark", append([]byte("\xef\xbb\xbf"), body()...), metadata, notJSON},
		{"a line break in a string", body("\"a\":\"\n\""), metadata, notJSON},
		{"a bad escape", body(`"a":"\x"`), metadata, notJSON},
		{"NaN", body(`"a":NaN`), metadata, notJSON},
		{"an array", []byte(`[{"redirect_uris":["https://quill.example/cb"]}]`), metadata, notObject},
		{"a string", []byte(`"x"`), metadata, notObject},
		{"a number", []byte(`1`), metadata, notObject},
		{"null", []byte(`null`), metadata, notObject},
		{"not UTF-8", body("\"a\":\"\xff\""), metadata, "the body is not valid UTF-8"},
		{"a surrogate in bytes", body("\"client_name\":\"\xed\xa0\x80\""), metadata, "the body is not valid UTF-8"},
		{"UTF-16", []byte("\xff\xfe{\x00}\x00"), metadata, "the body is not valid UTF-8"},
		{"a name twice", body(`"scope":"a"`, `"scope":"a"`), metadata, twice},
		{"redirect_uris twice", body(`"redirect_uris":["https://quill.example/cb"]`), metadata, twice},
		{"a name twice, once escaped", body(`"redirect\u005furis":["https://evil.example/"]`), metadata, twice},
		{"a name twice, once null", body(`"scope":null`, `"scope":"a"`), metadata, twice},
		{"an unknown name twice", body(`"a":1`, `"a":2`), metadata, twice},
		{"a name twice further in", body(`"a":[{"b":{"c":1,"d":[],"c":2}}]`), metadata, twice},
		{"a name twice behind an object", body(`"a":{}`, `"b":[]`, `"a":1`), metadata, twice},
		{"33 deep", body(`"a":` + strings.Repeat("[", 32) + strings.Repeat("]", 32)), metadata, deep},
		{"33 deep in objects", body(strings.Repeat(`"a":{`, 32) + strings.Repeat("}", 32)), metadata, deep},
		{"very deep", []byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)), metadata, deep},
		{"too deep for any reader", []byte(strings.Repeat("[", 60000) + strings.Repeat("]", 60000)), metadata, notJSON},

		{"an empty object", []byte(`{}`), redirect, missing},
		{"redirect_uris missing", []byte(`{"client_name":"Quill"}`), redirect, missing},
		{"redirect_uris in another case", []byte(`{"Redirect_URIs":["https://quill.example/cb"]}`), redirect, missing},
		{"redirect_uris null", uris(`null`), redirect, missing},
		{"redirect_uris a string", uris(`"https://quill.example/cb"`), redirect, notList},
		{"redirect_uris an object", uris(`{"0":"https://quill.example/cb"}`), redirect, notList},
		{"redirect_uris a number", uris(`1`), redirect, notList},
		{"redirect_uris false", uris(`false`), redirect, notList},
		{"an entry is null", uris(`["https://quill.example/cb",null]`), redirect, notList},
		{"an entry is a number", uris(`[1]`), redirect, notList},
		{"an entry is an array", uris(`[["https://quill.example/cb"]]`), redirect, notList},
		{"an entry is an object", uris(`[{}]`), redirect, notList},
		{"no entry", uris(`[]`), redirect, count},
		{"6 entries", uris(`[` + strings.Repeat(`"https://quill.example/cb",`, 5) + `"https://quill.example/cb"]`), redirect, count},
		{"the first entry refused", uris(`["http://quill.example/cb","https://quill.example/cb"]`), redirect, "redirect_uris[0]: it must begin with https://, there is no http on loopback and no custom scheme"},
		{"the last entry refused", uris(`["https://quill.example/cb","https://quill.example/cb#"]`), redirect, "redirect_uris[1]: a fragment is not allowed"},
		{"an empty entry", uris(`[""]`), redirect, "redirect_uris[0]: it is empty"},
		{"an own host", uris(`["https://svalinn.example/"]`), redirect, "redirect_uris[0]: the host is one of this service"},
		{"a line break in an entry", uris(`["https://quill.example/\r\nX: y"]`), redirect, "redirect_uris[0]: spaces and control characters are not allowed"},
		{"half a surrogate pair in an entry", uris(`["https://quill.example/\ud800"]`), redirect,
			"redirect_uris[0]: only ASCII is allowed: write the host as A-labels and the rest percent-encoded"},

		{"client_name a number", body(`"client_name":1`), metadata, "client_name: it must be a string"},
		{"client_name an array", body(`"client_name":["Quill"]`), metadata, "client_name: it must be a string"},
		{"client_name an object", body(`"client_name":{}`), metadata, "client_name: it must be a string"},
		{"client_name false", body(`"client_name":false`), metadata, "client_name: it must be a string"},
		{"client_name of 101 characters", body(`"client_name":"` + strings.Repeat("W", 101) + `"`), metadata, "client_name: it has more than 100 characters"},
		{"client_name with markup", body(`"client_name":"<b>"`), metadata, "client_name: markup is not allowed"},
		{"client_name with escaped markup", body(`"client_name":"\u003cb"`), metadata, "client_name: markup is not allowed"},
		{"client_name with NUL", body(`"client_name":"\u0000"`), metadata, "client_name: control characters and line separators are not allowed"},
		{"client_name with a line break", body(`"client_name":"a\nb"`), metadata, "client_name: control characters and line separators are not allowed"},
		{"client_name that turns around", body(`"client_name":"\u202emoc"`), metadata, "client_name: characters that change the direction of text are not allowed"},
		{"the first half of a surrogate pair", body(`"client_name":"\ud800"`), metadata, half},
		{"the second half of a surrogate pair", body(`"client_name":"\uDC00x"`), metadata, half},
		{"the halves the wrong way round", body(`"client_name":"\ude00\ud83d"`), metadata, half},
		{"two first halves", body(`"client_name":"\ud83d\ud83d\ude00"`), metadata, half},
		{"a first half and a letter", body(`"client_name":"\ud83d\u0041"`), metadata, half},
		{"a first half and an escaped backslash", body(`"client_name":"\ud83d\\ude00"`), metadata, half},
		{"a half behind a whole pair", body(`"client_name":"\ud83d\ude00\ude00"`), metadata, half},
		{"half a surrogate pair in an unknown member", body(`"a":["\udfff"]`), metadata, half},
		{"half a surrogate pair in a name", body(`"\udbff":1`), metadata, half},
		{"token_endpoint_auth_method a number", body(`"token_endpoint_auth_method":1`), metadata, "token_endpoint_auth_method: it must be a string"},
		{"token_endpoint_auth_method an array", body(`"token_endpoint_auth_method":["none"]`), metadata, "token_endpoint_auth_method: it must be a string"},
		{"scope an array", body(`"scope":["api"]`), metadata, "scope: it must be a string"},
		{"scope true", body(`"scope":true`), metadata, "scope: it must be a string"},
		{"grant_types a string", body(`"grant_types":"authorization_code"`), metadata, "grant_types: it must be an array of strings"},
		{"grant_types with null", body(`"grant_types":["authorization_code",null]`), metadata, "grant_types: it must be an array of strings"},
		{"grant_types an object", body(`"grant_types":{}`), metadata, "grant_types: it must be an array of strings"},
		{"grant type implicit", body(`"grant_types":["authorization_code","implicit"]`), metadata, "grant_types[1]: this value is not supported"},
		{"grant type password", body(`"grant_types":["password"]`), metadata, "grant_types[0]: this value is not supported"},
		{"grant type client_credentials", body(`"grant_types":["client_credentials"]`), metadata, "grant_types[0]: this value is not supported"},
		{"grant type empty", body(`"grant_types":[""]`), metadata, "grant_types[0]: this value is not supported"},
		{"grant type in another case", body(`"grant_types":["Authorization_Code"]`), metadata, "grant_types[0]: this value is not supported"},
		{"grant type with a space", body(`"grant_types":["authorization_code "]`), metadata, "grant_types[0]: this value is not supported"},
		{"grant type code", body(`"grant_types":["code"]`), metadata, "grant_types[0]: this value is not supported"},
		{"response_types a string", body(`"response_types":"code"`), metadata, "response_types: it must be an array of strings"},
		{"response type token", body(`"response_types":["code","token"]`), metadata, "response_types[1]: this value is not supported"},
		{"response type code token", body(`"response_types":["code token"]`), metadata, "response_types[0]: this value is not supported"},
		{"response type none", body(`"response_types":["none"]`), metadata, "response_types[0]: this value is not supported"},
	} {
		t.Run(row.name, func(t *testing.T) {
			m, refusal := client.ParseMetadata(row.body, ownHosts)
			if refusal == nil {
				t.Fatalf("accepted as %+v", m)
			}
			if refusal.Code != row.code || refusal.Description != row.want || m.Name != "" || m.RedirectURIs != nil {
				t.Fatalf("got %+v and %+v, want %s: %s", *refusal, m, row.code, row.want)
			}
		})
	}
}

// R7: every refusal of a redirect URI is told by its code and index, in the
// characters of RFC 6749 section 5.2.
func TestMetadataRefusesWhatTheGrammarRefuses(t *testing.T) {
	for _, row := range refused {
		for _, uri := range row.uris {
			if !utf8.ValidString(uri) {
				continue // not to be said in JSON
			}
			_, refusal := client.ParseMetadata(uris(`["https://quill.example/cb",`+quote(uri)+`]`), ownHosts)
			if refusal == nil || refusal.Code != client.InvalidRedirectURI || refusal.Description != "redirect_uris[1]: "+row.want {
				t.Errorf("%q: %+v", cut(uri), refusal)
				continue
			}
			describable(t, refusal.Description)
		}
	}
}

// The bounds of the contract's section 8, as they are written there.
func TestBounds(t *testing.T) {
	if client.MaxName != 100 || client.MaxRedirectURIs != 5 || client.MaxRedirectURI != 2000 || client.MaxBody != 65536 || client.MaxDocument != 8192 {
		t.Fatal("a bound is not the contract's")
	}
}

// F-03: whatever is accepted obeys the rules of spec 2.1 by its own words, and
// registering the outcome again gives the same.
func FuzzF03ParseMetadata(f *testing.F) {
	for _, seed := range []string{
		`{"redirect_uris":["https://quill.example/cb"]}`, `{"client_name":"Quill","redirect_uris":["https://a.b","https://[2606:4700::1]:1/?a"],"scope":"x"}`,
		`{"redirect_uris":["https://a.b/"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`,
		`{"redirect_uris":["https://a.b/"],"client_name":"\ud83d\ude00"}`, `{"redirect_uris":["https://a.b/"],"client_name":"\ud83d"}`,
		`{"redirect_uris":["https://a.b/"],"a":{"b":[1,2,{"c":null}],"d":{}}}`, `{"a":1,"a":2}`, `{"redirect_uris":null}`, `[]`, `null`, `"`, `{}`, `{"`, "\xff", "",
		`{"redirect_uris":["https://a.b/"],"redirect\u005furis":[]}`, `{"redirect_uris":["https://a.b/"]} {}`, `{"redirect_uris":["https://a.b/",null]}`,
		`{"redirect_uris":[` + strings.Repeat(`"https://a.b/",`, 5) + `"https://a.b/"]}`, strings.Repeat("[", 100), strings.Repeat(`{"a":`, 40),
		`{"redirect_uris":["https://a.b/"],"client_name":"<"}`, `{"redirect_uris":["https://a.b/"],"grant_types":["implicit"]}`, `{"redirect_uris":["urn:ietf:wg:oauth:2.0:oob"]}`,
		`{"redirect_uris":["https://a.b/"],"client_name":"\u0000\\\"\/\b\f\n\r\t"}`, `{"redirect_uris":["https://a.b/"],"x":1e999,"y":-0,"z":"\\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		before := string(in)
		m, refusal := client.ParseMetadata(in, ownHosts)
		if string(in) != before {
			t.Fatal("the body was written to")
		}
		if refusal != nil {
			if name, host := client.Named(in); client.CheckName(name) != nil || host != "" && client.CheckRuleHost(host) != nil {
				t.Fatalf("it is told of as %q at %q", name, host)
			}
			describable(t, refusal.Description)
			if refusal.Code != "invalid_redirect_uri" && refusal.Code != "invalid_client_metadata" {
				t.Fatalf("code %q", refusal.Code)
			}
			return
		}
		obeys(t, in, m)
		if name, host := client.Named(in); name != m.Name || host != client.HostOf(m.RedirectURIs[0]) {
			t.Fatalf("%+v is told of as %q at %q", m, name, host)
		}
		again, refusal := client.ParseMetadata([]byte(`{"client_name":`+quote(m.Name)+`,"redirect_uris":`+list(m.RedirectURIs)+`}`), ownHosts)
		if refusal != nil || again.Name != m.Name || !slices.Equal(again.RedirectURIs, m.RedirectURIs) {
			t.Fatalf("%+v became %+v (%+v)", m, again, refusal)
		}
	})
}

// obeys reads the body a second time, with the standard reader, and holds the
// rules of spec 2.1 against it.
func obeys(t *testing.T, in []byte, m client.Metadata) {
	t.Helper()
	var sent map[string]any
	dec := json.NewDecoder(bytes.NewReader(in))
	dec.UseNumber()
	if err := dec.Decode(&sent); err != nil {
		t.Fatal(err)
	}
	entries, _ := sent["redirect_uris"].([]any)
	if len(entries) < 1 || len(entries) > 5 || len(entries) != len(m.RedirectURIs) {
		t.Fatalf("%d entries were sent, %d kept", len(entries), len(m.RedirectURIs))
	}
	for i, e := range entries {
		if e != m.RedirectURIs[i] || client.CheckRedirectURI(m.RedirectURIs[i], ownHosts) != nil {
			t.Fatalf("entry %d: %v became %q", i, e, m.RedirectURIs[i])
		}
	}
	name, _ := sent["client_name"].(string)
	if m.Name != "" && m.Name != name || utf8.RuneCountInString(name) > 100 || strings.ContainsAny(name, "<>\x00\n\u2028\u202E") {
		t.Fatalf("the name %q became %q", name, m.Name)
	}
	for _, member := range []string{"grant_types", "response_types"} {
		values, _ := sent[member].([]any)
		if sent[member] != nil && values == nil {
			t.Fatalf("%s was %v", member, sent[member])
		}
		for _, v := range values {
			if v != "authorization_code" && v != "refresh_token" && member == "grant_types" || v != "code" && member == "response_types" {
				t.Fatalf("%s held %v", member, v)
			}
		}
	}
	for _, member := range []string{"client_name", "token_endpoint_auth_method", "scope"} {
		if _, ok := sent[member].(string); !ok && sent[member] != nil {
			t.Fatalf("%s was %v", member, sent[member])
		}
	}
}

func list(all []string) string {
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// What a registration calls its client is read of one that is refused too, as far as a
// page can show it.
func TestNamed(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"client_name":"Ledger","redirect_uris":["https://ledger.example/cb"]}`:                                   {"Ledger", "ledger.example"},
		`{"client_name":"Ledger","redirect_uris":["http://Ledger.example:80/cb#x"]}`:                               {"Ledger", "ledger.example"},
		`{"client_name":"Ledger","redirect_uris":["http://localhost/","cursor://cb","https://two.example/cb"]}`:    {"Ledger", "two.example"},
		`{"client_name":"Ledger","redirect_uris":["ftp://one.example/","https://127.0.0.1/","https://intranet/"]}`: {"Ledger", ""},
		`{"client_name":"Ledger","redirect_uris":["https://one.example/\u0001"]}`:                                  {"Ledger", ""},
		`{"client_name":"Ledger","redirect_uris":"https://one.example/"}`:                                          {"Ledger", ""},
		`{"client_name":"Ledger","redirect_uris":["https://one.example/",1]}`:                                      {"Ledger", ""},
		`{"client_name":"<b>","redirect_uris":["https://one.example/"]}`:                                           {"", "one.example"},
		`{"client_name":"\u200b","redirect_uris":["https://one.example/"]}`:                                        {"", "one.example"},
		`{"client_name":1,"redirect_uris":["https://one.example/"]}`:                                               {"", "one.example"},
		`{"client_name":"\ud800","redirect_uris":["https://one.example/"]}`:                                        {"", ""},
		`{"client_name":"Ledger","client_name":"Two"}`:                                                             {"", ""},
		`{}`: {"", ""},
		``:   {"", ""},
	} {
		if name, host := client.Named([]byte(body)); [2]string{name, host} != want {
			t.Errorf("%s: %q at %q, want %q", body, name, host, want)
		}
	}
}
