package oauth

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/store"
)

// spec 2.2
func TestRegister(t *testing.T) {
	d := open(t)
	registration := func(more map[string]any) map[string]any {
		want := map[string]any{
			"client_id_issued_at":        float64(d.clock.Now().Unix()),
			"redirect_uris":              []any{"https://client.example/cb"},
			"token_endpoint_auth_method": "none",
			"grant_types":                []any{"authorization_code", "refresh_token"},
			"response_types":             []any{"code"},
			"scope":                      "api",
		}
		maps.Copy(want, more)
		return want
	}
	tests := []struct {
		name, body string
		want       map[string]any
	}{
		{"the least", `{"redirect_uris":["https://client.example/cb"]}`, nil},
		{"name and two URIs, given back as they are",
			`{"client_name":"Q&A \"é\"","redirect_uris":["https://client.example/a?b=c&d=%2f","https://[2606:4700::1]:8443/"]}`,
			map[string]any{"client_name": `Q&A "é"`, "redirect_uris": []any{"https://client.example/a?b=c&d=%2f", "https://[2606:4700::1]:8443/"}}},
		{"requested method and scope are replaced",
			`{"redirect_uris":["https://client.example/cb"],"token_endpoint_auth_method":"client_secret_basic","scope":"openid email"}`, nil},
		{"one grant type; the answer has both", // decision R4
			`{"redirect_uris":["https://client.example/cb"],"grant_types":["authorization_code"],"response_types":["code"]}`, nil},
		{"null counts as not sent, unknown members are ignored", // decision R1
			`{"redirect_uris":["https://client.example/cb"],"client_name":null,"logo_uri":"https://x.example/","client_id":"mine"}`, nil},
	}
	ids := map[any]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := d.send(request("POST", "/oauth/register", tt.body))
			if w.Code != http.StatusCreated {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			wantUnkept(t, w)
			var got map[string]any
			if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
				t.Fatal(err)
			}
			id := got["client_id"]
			if ids[id] {
				t.Errorf("client_id %v was given twice", id)
			}
			ids[id] = true
			if strings.Contains(tt.body, "?b=c&d=") && !strings.Contains(w.Body.String(), "?b=c&d=%2f") {
				t.Errorf("not as it was written: %s", w.Body)
			}
			want := registration(tt.want)
			want["client_id"] = id
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want\n%v", got, want)
			}
			c, err := d.Store.Client(context.Background(), id.(string))
			if err != nil || c.Approved || c.Disabled || c.Preregistered {
				t.Errorf("stored: %+v, %v", c, err)
			}
		})
	}
	events := d.events("client_registered")
	if len(events) != len(tests) {
		t.Fatalf("%d events client_registered, want %d", len(events), len(tests))
	}
	for _, e := range events {
		if !ids[e.Client] || e.Actor != "client:"+e.Client || e.Address != testAddress || e.Reference != "request-1" {
			t.Errorf("event %+v", e)
		}
	}
	if n := d.counted("register ok"); n != len(tests) {
		t.Errorf("%d registrations counted, want %d", n, len(tests))
	}
}

// 128 random bits or more, in one case: no preregistered ID can be hit.
func TestNewClientID(t *testing.T) {
	form := regexp.MustCompile(`^[a-z2-7]{26}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := newClientID()
		if !form.MatchString(id) || seen[id] {
			t.Fatalf("%q", id)
		}
		seen[id] = true
	}
}

// spec section 7: 400 with error and error_description; decision R7 says which.
func TestRegisterRefusals(t *testing.T) {
	d := open(t)
	const fine = `{"redirect_uris":["https://client.example/cb"]`
	tests := []struct{ name, body, code string }{
		{"redirect_uris missing", `{}`, "invalid_redirect_uri"},
		{"redirect_uris not an array", `{"redirect_uris":"https://client.example/cb"}`, "invalid_redirect_uri"},
		{"redirect_uris empty", `{"redirect_uris":[]}`, "invalid_redirect_uri"},
		{"six redirect_uris", `{"redirect_uris":[` + strings.Repeat(`"https://client.example/cb",`, 5) + `"https://client.example/cb"]}`, "invalid_redirect_uri"},
		{"redirect URI http", `{"redirect_uris":["http://client.example/cb"]}`, "invalid_redirect_uri"},
		{"redirect URI localhost", `{"redirect_uris":["https://localhost/cb"]}`, "invalid_redirect_uri"},
		{"redirect URI out of band", `{"redirect_uris":["urn:ietf:wg:oauth:2.0:oob"]}`, "invalid_redirect_uri"},
		{"redirect URI at the service's own host", `{"redirect_uris":["https://auth.example/cb"]}`, "invalid_redirect_uri"},
		{"redirect URI too long", `{"redirect_uris":["https://client.example/` + strings.Repeat("a", 2000) + `"]}`, "invalid_redirect_uri"},
		{"grant_types disallowed", fine + `,"grant_types":["implicit"]}`, "invalid_client_metadata"},
		{"response_types disallowed", fine + `,"response_types":["token"]}`, "invalid_client_metadata"},
		{"client_name with markup", fine + `,"client_name":"<b>"}`, "invalid_client_metadata"},
		{"client_name of 101 characters", fine + `,"client_name":"` + strings.Repeat("a", 101) + `"}`, "invalid_client_metadata"},
		{"client_name a number", fine + `,"client_name":1}`, "invalid_client_metadata"},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantRefusal(t, d.send(request("POST", "/oauth/register", tt.body)), 400, tt.code)
			events := d.events("registration_refused")
			if len(events) != i+1 {
				t.Fatalf("%d events registration_refused, want %d", len(events), i+1)
			}
			if e := events[0]; e.Reason != tt.code || e.Address != testAddress || e.Reference != "request-1" || e.Detail == "" {
				t.Errorf("event %+v", e)
			}
		})
	}
	wantNoClient(t, d)
}

func wantNoClient(t *testing.T, d *door) {
	t.Helper()
	all, _, err := d.Store.Clients(context.Background(), store.ClientFilter{Limit: 10})
	if err != nil || len(all) > 0 {
		t.Errorf("clients %v, %v; want none", all, err)
	}
}
