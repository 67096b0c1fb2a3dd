package oauth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/client"
)

func wantServerMetadata(base string) map[string]any {
	return map[string]any{ // decision M3
		"issuer":                                         base,
		"authorization_endpoint":                         base + "/oauth/authorize",
		"token_endpoint":                                 base + "/oauth/token",
		"registration_endpoint":                          base + "/oauth/register",
		"revocation_endpoint":                            base + "/oauth/revoke",
		"scopes_supported":                               []any{"api"},
		"response_types_supported":                       []any{"code"},
		"response_modes_supported":                       []any{"query"},
		"grant_types_supported":                          []any{"authorization_code", "refresh_token"},
		"token_endpoint_auth_methods_supported":          []any{"none"},
		"revocation_endpoint_auth_methods_supported":     []any{"none"},
		"code_challenge_methods_supported":               []any{"S256"},
		"authorization_response_iss_parameter_supported": true,
		"dpop_signing_alg_values_supported":              []any{"ES256", "Ed25519", "EdDSA", "PS256", "RS256"},
	}
}

func wantResourceMetadata(base, path, name string) map[string]any {
	return map[string]any{ // decision M4
		"resource":                 base + path,
		"authorization_servers":    []any{base},
		"scopes_supported":         []any{"api"},
		"bearer_methods_supported": []any{"header"},
		"resource_name":            name,
	}
}

// Every URL in these documents is built from the host that was asked (spec
// section 4), and they may be kept for an hour (decision M6).
func TestMetadata(t *testing.T) {
	d := open(t)
	for _, host := range []string{"auth.example", "eu.auth.example", "auth.example:8443", "auth.example"} {
		base := "https://" + host
		for path, want := range map[string]map[string]any{
			"/.well-known/oauth-authorization-server":          wantServerMetadata(base),
			"/.well-known/oauth-protected-resource/api/v5":     wantResourceMetadata(base, "/api/v5", "Svalinn API v5"),
			"/.well-known/oauth-protected-resource/api/v5/mcp": wantResourceMetadata(base, "/api/v5/mcp", "Svalinn MCP"),
			"/.well-known/oauth-protected-resource":            wantResourceMetadata(base, "/api/v5/mcp", "Svalinn MCP"),
		} {
			for _, method := range []string{"GET", "HEAD"} {
				t.Run(method+" "+base+path, func(t *testing.T) {
					r := request(method, path+"?a=b", "")
					r.Host = host
					w := d.send(r)
					if w.Code != http.StatusOK {
						t.Fatalf("%d %s", w.Code, w.Body)
					}
					var got map[string]any
					if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
						t.Fatal(err)
					}
					if !reflect.DeepEqual(got, want) {
						t.Errorf("%v, want\n%v", got, want)
					}
					for name, value := range map[string]string{
						"Content-Type":   "application/json",
						"Cache-Control":  "public, max-age=3600",
						"Content-Length": strconv.Itoa(w.Body.Len()),
						"Pragma":         "",
						"Vary":           "",
					} {
						if got := w.Header().Get(name); got != value {
							t.Errorf("%s: %q, want %q", name, got, value)
						}
					}
				})
			}
		}
	}
}

// Base URLs that nobody configured are a matter of development, where every
// port of loopback is one. They are answered right and do not fill memory.
func TestMetadataOfManyBases(t *testing.T) {
	d := open(t)
	for i := range 10 * keptBases {
		r := request("GET", "/.well-known/oauth-authorization-server", "")
		r.Host = fmt.Sprint("127.0.0.1:", 1000+i)
		var got struct{ Issuer string }
		if err := json.Unmarshal(d.send(r).Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if want := "https://" + r.Host; got.Issuer != want {
			t.Fatalf("issuer %s, want %s", got.Issuer, want)
		}
	}
	kept := 0
	d.bases.Range(func(any, any) bool { kept++; return true })
	if kept != keptBases {
		t.Errorf("%d base URLs are kept, want %d", kept, keptBases)
	}
}

// decision V60: each resource that an operator adds has its document beside the
// contract's, and can be asked for; nothing beside it does.
func TestMoreResources(t *testing.T) {
	d := open(t)
	d.Resources = client.Resources{{Path: "/reports", Name: "Bakery reports"}, {Path: "/reports/mcp", Name: "Tools", MCP: true}}
	d.handler = d.Handler()
	for path, want := range map[string]map[string]any{
		"/reports": wantResourceMetadata("https://auth.example", "/reports", "Bakery reports"), "/reports/mcp": wantResourceMetadata("https://auth.example", "/reports/mcp", "Tools"),
		"/api/v5": wantResourceMetadata("https://auth.example", "/api/v5", "Svalinn API v5"), "": wantResourceMetadata("https://auth.example", "/api/v5/mcp", "Svalinn MCP"),
		"/api/v5/mcp": wantResourceMetadata("https://auth.example", "/api/v5/mcp", "Svalinn MCP"), "/reports/": nil, "/reports/x": nil, "/Reports": nil, "/reports%2Fmcp": nil, "/mcp": nil,
	} {
		w := d.send(request("GET", "/.well-known/oauth-protected-resource"+path, ""))
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if (w.Code == 200) != (want != nil) || want != nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for resource, status := range map[string]int{"/reports": 200, "/reports/mcp/": 200, "/reports/x": 200, "/reportsx": 400, "/Reports": 400, "/reports#x": 400, "/else": 400} {
		id := d.registered()
		_, code := d.approved(id)
		w := d.post("/oauth/token", with(exchangeForm(id, code), "resource", "https://auth.example"+resource))
		if w.Code != status || status == 400 && !strings.Contains(w.Body.String(), "invalid_target") {
			t.Errorf("%s: %d %s", resource, w.Code, w.Body)
		}
	}
}
