package oauth

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
)

// A token request that is refused before its client is looked for is told of with the
// client that it names, and the approval that its code is of; neither answer nor code is
// another for it.
func TestAttemptsOfWhatIsRefusedFirst(t *testing.T) {
	d := open(t)
	var seen []attempt.Observation
	d.Server.Seen = func(_ *http.Request, o attempt.Observation) { seen = append(seen, o) }
	d.handler = d.Handler()
	id, other, off := d.registered(), d.registered(), d.disabledClient()
	h, code := d.approved(id)
	_, foreign := d.approved(other)
	live, held, access, refresh := d.live()
	of, heldOf := approval.ID(h.ID()).String(), approval.ID(held.ID()).String()
	basic := func(user string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":secret")) }
	exchange, secret := exchangeForm(id, code), func(f url.Values) url.Values { return with(f, "client_secret", "x") }
	tests := []struct {
		name          string
		form          url.Values
		authorization string
		reason        attempt.Reason
		step          attempt.Step
		client, of    string
		what          attempt.What
	}{
		{"a secret in the body", secret(exchange), "", attempt.ClientCredentials, attempt.Token, id, of, attempt.OwnGrant},
		{"Basic, and client_id", exchange, basic("x"), attempt.ClientCredentials, attempt.Token, id, of, attempt.OwnGrant},
		{"Basic alone", with(exchange, "client_id"), basic(id), attempt.ClientCredentials, attempt.Token, id, of, attempt.OwnGrant},
		{"Basic alone, encoded", with(exchange, "client_id"), basic(fmt.Sprintf("%%%02x", id[0]) + id[1:]), attempt.ClientCredentials, attempt.Token, id, of, attempt.OwnGrant},
		{"Basic of nobody", with(exchange, "client_id"), basic("nobody"), attempt.ClientCredentials, attempt.Token, "", "", ""},
		{"Basic that cannot be decoded", with(exchange, "client_id"), basic("%zz"), attempt.ClientCredentials, attempt.Token, "", of, ""},
		{"another scheme", exchange, "Bearer x", attempt.ClientCredentials, attempt.Token, id, of, attempt.OwnGrant},
		{"no client at all", secret(with(exchange, "client_id")), "", attempt.ClientCredentials, attempt.Token, "", of, ""},
		{"a client that is none", secret(with(exchange, "client_id", "nobody")), basic(id), attempt.ClientCredentials, attempt.Token, "", "", ""},
		{"a client ID without end", secret(with(exchange, "client_id", strings.Repeat("x", 300))), "", attempt.ClientCredentials, attempt.Token, "", "", ""},
		{"a client that is disabled", secret(with(exchange, "client_id", off)), "", attempt.ClientCredentials, attempt.Token, off, "", attempt.OtherGrant},
		{"another client's code", secret(with(exchange, "code", foreign)), "", attempt.ClientCredentials, attempt.Token, id, "", attempt.OtherGrant},
		{"no code", secret(with(exchange, "code")), "", attempt.ClientCredentials, attempt.Token, id, "", ""},
		{"what is no code", secret(with(exchange, "code", "svc_x")), "", attempt.ClientCredentials, attempt.Token, id, "", attempt.NoGrant},
		{"an access token as the code", secret(with(exchange, "code", access)), "", attempt.ClientCredentials, attempt.Token, id, "", attempt.NoGrant},
		{"no code, of no client", secret(with(with(exchange, "code", "svc_x"), "client_id")), "", attempt.ClientCredentials, attempt.Token, "", "", ""},
		{"a refresh", refreshForm(live, refresh), basic(live), attempt.ClientCredentials, attempt.Refresh, live, heldOf, attempt.OwnGrant},
		{"a refresh by another", refreshForm(id, refresh), basic(id), attempt.ClientCredentials, attempt.Refresh, id, "", attempt.OtherGrant},
		{"no grant type", with(exchange, "grant_type"), "", attempt.TokenParameter, attempt.Token, id, of, attempt.OwnGrant},
		{"another grant type", with(exchange, "grant_type", "client_credentials"), "", attempt.GrantType, attempt.Token, id, of, attempt.OwnGrant},
	}
	for _, tt := range tests {
		seen = nil
		var headers []string
		if tt.authorization != "" {
			headers = []string{"Authorization", tt.authorization}
		}
		w := d.send(request("POST", "/oauth/token", tt.form.Encode(), headers...))
		status, fault := http.StatusBadRequest, cmp.Or(map[attempt.Reason]string{attempt.GrantType: "unsupported_grant_type"}[tt.reason], "invalid_request")
		if tt.reason == attempt.ClientCredentials {
			status, fault = http.StatusUnauthorized, "invalid_client"
		}
		wantRefusal(t, w, status, fault)
		want := attempt.Observation{Step: tt.step, Outcome: attempt.Failed, Reason: tt.reason, What: tt.what, Status: status, Keys: attempt.Keys{Client: tt.client, Approval: tt.of}}
		if len(seen) != 1 || seen[0] != want {
			t.Errorf("%s: seen %+v, want %+v", tt.name, seen, want)
		}
	}
	// Nothing is known of a body that cannot be read, whatever stands beside it.
	for _, body := range []string{exchange.Encode() + "&code=x", exchange.Encode() + "&a=%"} {
		seen = nil
		d.send(request("POST", "/oauth/token", body, "Authorization", basic(id)))
		if len(seen) != 1 || seen[0].Keys != (attempt.Keys{}) || seen[0].What != "" {
			t.Errorf("of a body that cannot be read: %+v", seen)
		}
	}
	// What cannot be told now is not told: another node may know it better.
	d.opens = func() error { return unavailable }
	seen = nil
	d.post("/oauth/token", secret(with(exchange, "code", "svc_x")))
	if len(seen) != 1 || seen[0].Client != id || seen[0].What != "" {
		t.Errorf("while keys are missing: %+v", seen)
	}
	d.opens = nil
	d.wantState(h, approval.CodeIssued, 0, "")
	d.wantState(held, approval.Live, 1, "")
	readTokens(t, d.post("/oauth/token", exchange)) // the code was not used up
	readTokens(t, d.post("/oauth/token", refreshForm(live, refresh)))
}

// A registration that is refused is told of with what its client calls itself.
func TestAttemptsOfRefusedRegistrations(t *testing.T) {
	d := open(t)
	var seen []attempt.Observation
	d.Server.Seen = func(_ *http.Request, o attempt.Observation) { seen = append(seen, o) }
	d.handler = d.Handler()
	for body, want := range map[string]attempt.Keys{
		`{"client_name":"Other App","redirect_uris":["http://other.example/cb"]}`:             {Name: "Other App", Host: "other.example"},
		`{"client_name":"Other App","redirect_uris":["cursor://cb"]}`:                         {Name: "Other App"},
		`{"redirect_uris":["https://other.example/cb"],"grant_types":["client_credentials"]}`: {Host: "other.example"},
		`{"client_name":"<b>Evil</b>","redirect_uris":["https://other.example/cb"]}`:          {Host: "other.example"},
		`{"client_name":"Other App"`: {},
	} {
		seen = nil
		status := d.send(request("POST", "/oauth/register", body)).Code
		if len(seen) != 1 || seen[0].Outcome != attempt.Failed || seen[0].Keys != want || status != http.StatusBadRequest {
			t.Errorf("%s: %d, %+v, want %+v", body, status, seen, want)
		}
	}
}
