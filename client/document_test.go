package client_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
)

const documentURL = "https://assistant.example/oauth/client.json"

// Decision R8: of one place there is one spelling.
func TestDocumentHost(t *testing.T) {
	for id, host := range map[string]string{
		documentURL:                     "assistant.example",
		"https://assistant.example/x":   "assistant.example",
		"https://a.b.c.example/x/":      "a.b.c.example",
		"https://assistant.example/%41": "assistant.example",
		"https://assistant.example//":   "assistant.example",
		"https://xn--mnchen-3ya.example/" + strings.Repeat("x", client.MaxDocumentURL-len("https://xn--mnchen-3ya.example/")): "xn--mnchen-3ya.example",
	} {
		if got, err := client.DocumentHost(id, ownHosts); err != nil || got != host || !client.IsURL(id) {
			t.Errorf("%s: %q, %v", id, got, err)
		}
	}
	for id, want := range map[string]string{
		"":                                                       "empty",
		"http://assistant.example/x":                             "must begin with https://",
		"HTTPS://assistant.example/x":                            "must begin with https://",
		"https:/assistant.example/x":                             "must begin with https://",
		"https://assistant.example":                              "needs a path",
		"https://assistant.example/":                             "needs a path",
		"https://assistant.example?x":                            "query",
		"https://assistant.example/x?y":                          "query",
		"https://assistant.example/x?":                           "query",
		"https://assistant.example/x#y":                          "fragment",
		"https://assistant.example/x#":                           "fragment",
		"https://u@assistant.example/x":                          "user information",
		"https://u:p@assistant.example/x":                        "user information",
		"https://assistant.example:443/x":                        "a port is not allowed",
		"https://assistant.example:8443/x":                       "a port is not allowed",
		"https://assistant.example:/x":                           "a port is not allowed",
		"https://assistant.example/../x":                         "dots",
		"https://assistant.example/./x":                          "dots",
		"https://assistant.example/a/..":                         "dots",
		"https://assistant.example/%2e%2e/x":                     "dots",
		"https://assistant.example/.%2E%2fx":                     "dots",
		"https://assistant.example/a%2f..%2fx":                   "dots",
		"https://assistant.example\\@x.example":                  "backslash",
		"https://assistant.example/a b":                          "spaces",
		"https://assistant.example/\n":                           "spaces and control",
		"https://assistant.example/\x00":                         "spaces and control",
		"https://assistant.example/ü":                            "ASCII",
		"https://münchen.example/x":                              "ASCII",
		"https://assistant.example/%zz":                          "percent",
		"https://assistant.example/[x]":                          "brackets",
		"https://assistant.example/<x>":                          "RFC 3986",
		"https://Assistant.example/x":                            "write it as assistant.example",
		"https://assistant%2eexample/x":                          "letters, digits",
		"https://assistant.example./x":                           "must not end with a dot",
		"https:///x":                                             "empty label",
		"https://localhost/x":                                    "loopback",
		"https://assistant/x":                                    "two labels",
		"https://a.localhost/x":                                  "loopback",
		"https://printer.local/x":                                "private networks",
		"https://a.internal/x":                                   "private networks",
		"https://127.0.0.1/x":                                    "not reachable",
		"https://2130706433/x":                                   "four decimal",
		"https://0x7f.1/x":                                       "four decimal",
		"https://169.254.169.254/latest":                         "not reachable",
		"https://10.0.0.1/x":                                     "not reachable",
		"https://8.8.8.8/x":                                      "address, which names nobody",
		"https://[::1]/x":                                        "not reachable",
		"https://[2606:4700::1111]/x":                            "address, which names nobody",
		"https://[2606:4700::1111]:443/x":                        "a host alone",
		"https://svalinn.example/x":                              "one of this service",
		documentURL + strings.Repeat("x", client.MaxDocumentURL): "more than 256",
	} {
		if got, err := client.DocumentHost(id, ownHosts); err == nil || got != "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", id, got, err, want)
		} else if len(id) > 12 && strings.Contains(err.Error(), id[8:]) {
			t.Errorf("%q: the error repeats it", id)
		}
	}
}

// doc is a document with more members.
func doc(members ...string) string {
	all := append([]string{fmt.Sprintf(`"client_id":%q`, documentURL), `"client_name":"Assistant"`, `"redirect_uris":["https://assistant.example/cb"]`}, members...)
	return "{" + strings.Join(all, ",") + "}"
}

// with is a document with some members alone.
func with(members string) string { return fmt.Sprintf(`{"client_id":%q,%s}`, documentURL, members) }

func TestDocument(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		name string
		uris []string
	}{
		"plain":      {doc(), "Assistant", []string{"https://assistant.example/cb"}},
		"everything": {doc(`"grant_types":["authorization_code","refresh_token"]`, `"response_types":["code"]`, `"token_endpoint_auth_method":"none"`, `"scope":"api"`), "Assistant", []string{"https://assistant.example/cb"}},
		"what is not known": {doc(`"logo_uri":"http://127.0.0.1/x"`, `"jwks":{"keys":[{"kty":"EC"}]}`, `"client_secret_old":"x"`, `"contacts":[]`, `"software_statement":7`),
			"Assistant", []string{"https://assistant.example/cb"}},
		"no name":        {with(`"redirect_uris":["https://assistant.example/cb"]`), "", []string{"https://assistant.example/cb"}},
		"a name of none": {with(`"client_name":" \u200d","redirect_uris":["https://assistant.example/cb"]`), "", []string{"https://assistant.example/cb"}},
		"null is not sent": {doc(`"client_secret":null`, `"grant_types":null`, `"token_endpoint_auth_method":null`), "Assistant",
			[]string{"https://assistant.example/cb"}},
		"other grants beside": {doc(`"grant_types":["urn:ietf:params:oauth:grant-type:device_code","authorization_code"]`, `"response_types":["code","token"]`), "Assistant",
			[]string{"https://assistant.example/cb"}},
		"what others take is left out": {with(`"redirect_uris":["http://127.0.0.1:33418/","http://localhost/cb","app:/cb","https://code.example/redirect","https://svalinn.example/","https://insiders.code.example/redirect"]`), "",
			[]string{"https://code.example/redirect", "https://insiders.code.example/redirect"}},
		"once each": {with(`"redirect_uris":["https://a.example/","https://a.example/","https://b.example/"]`), "", []string{"https://a.example/", "https://b.example/"}},
		"five, and what is left out": {with(`"redirect_uris":["https://a.example/1","http://x/","https://a.example/2","https://a.example/3","https://a.example/4","https://a.example/5"]`), "",
			[]string{"https://a.example/1", "https://a.example/2", "https://a.example/3", "https://a.example/4", "https://a.example/5"}},
	} {
		got, bad := client.ParseDocument(documentURL, []byte(tt.text), ownHosts)
		if bad != nil || got.Name != tt.name || !slices.Equal(got.RedirectURIs, tt.uris) {
			t.Errorf("%s: %+v, %v", name, got, bad)
		}
	}
}

func TestDocumentRefused(t *testing.T) {
	for text, want := range map[string]client.DocumentFault{
		"":                             client.NotJSON,
		"null":                         client.NotJSON,
		"[]":                           client.NotJSON,
		"<html>":                       client.NotJSON,
		doc() + doc():                  client.NotJSON,
		doc()[:40]:                     client.NotJSON,
		"\xef\xbb\xbf" + doc():         client.NotJSON,
		doc("\"a\":\"\xff\""):          client.NotJSON,
		doc(`"a":"\ud800"`):            client.NotJSON,
		doc(`"a":1`, `"a":1`):          client.NotJSON,
		doc(`"client_id":"x"`):         client.NotJSON, // twice
		doc(`"client\u005fid":"x"`):    client.NotJSON,
		doc(`"redirect_uris":[]`):      client.NotJSON,
		doc(`"a":{"b":{"c":1,"c":2}}`): client.NotJSON,
		doc(`"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40)): client.NotJSON,
		`{}`: client.OtherClient,
		`{"redirect_uris":["https://assistant.example/cb"]}`:                                                               client.OtherClient,
		`{"client_id":null,"redirect_uris":["https://assistant.example/cb"]}`:                                              client.OtherClient,
		`{"client_id":7,"redirect_uris":["https://assistant.example/cb"]}`:                                                 client.OtherClient,
		`{"Client_ID":"` + documentURL + `","redirect_uris":["https://assistant.example/cb"]}`:                             client.OtherClient,
		`{"client_id":"` + documentURL + `/","redirect_uris":["https://assistant.example/cb"]}`:                            client.OtherClient,
		`{"client_id":"https://assistant.example:443/oauth/client.json","redirect_uris":["https://assistant.example/cb"]}`: client.OtherClient,
		`{"client_id":"https://ASSISTANT.example/oauth/client.json","redirect_uris":["https://assistant.example/cb"]}`:     client.OtherClient,
		`{"client_id":"https://other.example/client.json","redirect_uris":["https://assistant.example/cb"]}`:               client.OtherClient,
		doc(`"client_secret":"x"`):                                client.NotPublic,
		doc(`"client_secret":7`):                                  client.NotPublic,
		doc(`"client_secret_expires_at":0`):                       client.NotPublic,
		doc(`"token_endpoint_auth_method":"client_secret_basic"`): client.NotPublic,
		doc(`"token_endpoint_auth_method":"client_secret_post"`):  client.NotPublic,
		doc(`"token_endpoint_auth_method":"client_secret_jwt"`):   client.NotPublic,
		doc(`"token_endpoint_auth_method":"private_key_jwt"`):     client.NotPublic,
		doc(`"token_endpoint_auth_method":"None"`):                client.NotPublic,
		doc(`"token_endpoint_auth_method":"private_key_jwt","token_endpoint_auth_methods_supported":["private_key_jwt"]`): client.NotPublic,
		doc(`"token_endpoint_auth_method":"private_key_jwt","token_endpoint_auth_methods_supported":"none"`):              client.NotPublic,
		doc(`"token_endpoint_auth_method":"client_secret_basic","token_endpoint_auth_methods_supported":["none"]`):        client.NotPublic,
		doc(`"token_endpoint_auth_method":["private_key_jwt"],"token_endpoint_auth_methods_supported":["none"]`):          client.NotPublic,
		doc(`"token_endpoint_auth_method":["none"]`):                                                                      client.NotPublic,
		doc(`"grant_types":["client_credentials"]`):                                                                       client.NotThisGrant,
		doc(`"grant_types":[]`):                                   client.NotThisGrant,
		doc(`"grant_types":"authorization_code"`):                 client.NotThisGrant,
		doc(`"response_types":["token"]`):                         client.NotThisGrant,
		with(`"client_name":"Assistant"`):                         client.NoRedirectURI,
		with(`"redirect_uris":"https://assistant.example/cb"`):    client.NoRedirectURI,
		with(`"redirect_uris":[]`):                                client.NoRedirectURI,
		with(`"redirect_uris":[null]`):                            client.NoRedirectURI,
		with(`"redirect_uris":["http://localhost/cb","app:/cb"]`): client.NoRedirectURI,
		with(`"redirect_uris":["https://10.0.0.1/cb"]`):           client.NoRedirectURI,
		with(`"redirect_uris":["https://svalinn.example/cb"]`):    client.NoRedirectURI,
		with(`"redirect_uris":["https://a.example/1","https://a.example/2","https://a.example/3","https://a.example/4","https://a.example/5","https://a.example/6"]`): client.NoRedirectURI,
		with(`"redirect_uris":["https://assistant.example/cb"],"client_name":7`):                                                                                      client.NameNotAllowed,
		with(`"redirect_uris":["https://assistant.example/cb"],"client_name":"<b>"`):                                                                                  client.NameNotAllowed,
		with(`"redirect_uris":["https://assistant.example/cb"],"client_name":"a\nb"`):                                                                                 client.NameNotAllowed,
		with(`"redirect_uris":["https://assistant.example/cb"],"client_name":"` + strings.Repeat("W", 101) + `"`):                                                     client.NameNotAllowed,
	} {
		got, bad := client.ParseDocument(documentURL, []byte(text), ownHosts)
		if bad == nil || bad.Fault != want || bad.Error() == "" || got.RedirectURIs != nil {
			t.Errorf("%.120s: %+v, %+v; want %d", text, got, bad, want)
		}
	}
}

// Of redirect URIs that cannot be taken, the first is told of.
func TestDocumentRedirectsSay(t *testing.T) {
	for members, want := range map[string]string{
		`"client_name":"Assistant"`:                                   "it is missing",
		`"redirect_uris":null`:                                        "it is missing",
		`"redirect_uris":"https://assistant.example/cb"`:              "it must be an array of strings",
		`"redirect_uris":[]`:                                          "it is empty",
		`"redirect_uris":["https://a.localhost/","https://10.0.0.1"]`: "none of them can be taken: the first: the host is a loopback name",
	} {
		if _, bad := client.ParseDocument(documentURL, []byte(with(members)), ownHosts); bad == nil || !strings.HasSuffix(bad.Error(), want) {
			t.Errorf("%s: %v, want %q", members, bad, want)
		}
	}
}

func TestKeptFor(t *testing.T) {
	control := func(v ...string) map[string][]string { return map[string][]string{"Cache-Control": v} }
	for _, tt := range []struct {
		header map[string][]string
		want   time.Duration
	}{
		{nil, time.Hour},
		{map[string][]string{"Etag": {`"x"`}}, time.Hour},
		{control("public"), time.Hour},
		{control("max-age=7200"), 2 * time.Hour},
		{control(`public, max-age="7200"`), 2 * time.Hour},
		{control("public", "Max-Age=7200"), 2 * time.Hour},
		{control("max-age=60"), 5 * time.Minute},
		{control("max-age=0"), 5 * time.Minute},
		{control("no-store"), 5 * time.Minute},
		{control("no-cache, max-age=7200"), 5 * time.Minute},
		{control("max-age=31536000, immutable"), 24 * time.Hour},
		{control("max-age=99999999999999999999999"), 24 * time.Hour},
		{control("max-age=-5"), 5 * time.Minute},
		{control("max-age=x"), 5 * time.Minute},
		{control("max-age="), 5 * time.Minute},
		{control("max-age=7200, max-age=3600"), 5 * time.Minute},
		{control("max-age=7200, max-age=7200"), 2 * time.Hour},
		{control("max-age=60, s-maxage=7200"), 2 * time.Hour},
		{map[string][]string{"Cache-Control": {"max-age=7200"}, "Age": {"3600"}}, time.Hour},
		{map[string][]string{"Cache-Control": {"max-age=7200"}, "Age": {"99999"}}, 5 * time.Minute},
		{map[string][]string{"Cache-Control": {"max-age=7200"}, "Age": {"x"}}, 2 * time.Hour},
		{map[string][]string{"Date": {"Thu, 26 Nov 2026 12:00:00 GMT"}, "Expires": {"Thu, 26 Nov 2026 14:00:00 GMT"}}, 2 * time.Hour},
		{map[string][]string{"Date": {"Thu, 26 Nov 2026 12:00:00 GMT"}, "Expires": {"0"}}, 5 * time.Minute},
		{map[string][]string{"Date": {"Thu, 26 Nov 2026 12:00:00 GMT"}, "Expires": {"Wed, 25 Nov 2026 12:00:00 GMT"}}, 5 * time.Minute},
		{map[string][]string{"Expires": {"Thu, 26 Nov 2026 14:00:00 GMT"}}, 5 * time.Minute},
		{map[string][]string{"Date": {"Thu, 26 Nov 2026 12:00:00 GMT"}, "Expires": {"Thu, 26 Nov 9026 14:00:00 GMT"}}, 24 * time.Hour},
		{map[string][]string{"Cache-Control": {"max-age=600"}, "Date": {"Thu, 26 Nov 2026 12:00:00 GMT"}, "Expires": {"Thu, 26 Nov 2026 14:00:00 GMT"}}, 10 * time.Minute},
	} {
		if got := client.KeptFor(tt.header); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.header, got, tt.want)
		}
	}
}

func TestHostsOf(t *testing.T) {
	for _, tt := range []struct {
		id, redirect string
		preset       bool
		want         client.Hosts
	}{
		{"abc", "https://App.example/cb", false, client.Hosts{App: "app.example"}},
		{"https://doc.example/c", "https://app.example/cb", false, client.Hosts{App: "doc.example", Back: "app.example"}},
		{"https://doc.example/c", "https://doc.example:8443/cb", false, client.Hosts{App: "doc.example"}},
		{"https://doc.example/c", "https://app.example/cb", true, client.Hosts{App: "app.example"}},
	} {
		if got := client.HostsOf(tt.id, tt.redirect, tt.preset); got != tt.want {
			t.Errorf("%+v: %+v", tt, got)
		}
	}
}

// Whatever a document is, what is made of it obeys the contract's rules.
func FuzzDocument(f *testing.F) {
	f.Add(doc())
	f.Add(with(`"redirect_uris":["http://localhost/","https://a.example/"],"client_name":"x"`))
	f.Add(doc(`"a":[{"b":"\ud83d\ude00"}]`))
	f.Fuzz(func(t *testing.T, text string) {
		m, bad := client.ParseDocument(documentURL, []byte(text), ownHosts)
		if bad != nil {
			return
		}
		if len(m.RedirectURIs) == 0 || len(m.RedirectURIs) > client.MaxRedirectURIs || client.CheckName(m.Name) != nil || !strings.Contains(text, "client") {
			t.Fatalf("%q: %+v", text, m)
		}
		for _, uri := range m.RedirectURIs {
			if client.CheckRedirectURI(uri, ownHosts) != nil {
				t.Fatalf("%q: %q", text, uri)
			}
		}
	})
}
