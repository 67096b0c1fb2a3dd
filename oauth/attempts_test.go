package oauth

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/limit"
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

// A registration that is made is told of with what it asked for.
func TestAttemptsOfRegistrations(t *testing.T) {
	d, seen := watched(t)
	w := d.send(request("POST", "/oauth/register", `{"client_name":"Other App","redirect_uris":["https://other.example/cb","https://client.example/cb"]}`))
	var made struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil {
		t.Fatal(err)
	}
	want := attempt.Observation{Step: attempt.Registration, Outcome: attempt.Done, N: 2, Status: http.StatusCreated, Keys: attempt.Keys{Client: made.ID, Name: "Other App", Host: "other.example"}}
	if len(*seen) != 1 || (*seen)[0] != want {
		t.Errorf("seen %+v, want %+v", *seen, want)
	}
}

// watched gives a door and what it tells of attempts.
func watched(t *testing.T) (*door, *[]attempt.Observation) {
	d, seen := open(t), new([]attempt.Observation)
	d.Server.Seen = func(_ *http.Request, o attempt.Observation) { *seen = append(*seen, o) }
	d.handler = d.Handler()
	return d, seen
}

// Of the paths without a body, those that a client reads metadata at are told of, and a
// script that may not send what it wants to; of the others nothing is.
func TestAttemptsWithoutABody(t *testing.T) {
	d, seen := watched(t)
	read := func(what attempt.What) attempt.Observation {
		return attempt.Observation{Step: attempt.Metadata, Outcome: attempt.Done, What: what, Status: http.StatusOK}
	}
	absent := attempt.Observation{Step: attempt.Metadata, Outcome: attempt.Failed, Reason: attempt.MetadataPath, Status: http.StatusNotFound}
	stopped := func(step attempt.Step) attempt.Observation {
		return attempt.Observation{Step: step, Outcome: attempt.Failed, Reason: attempt.CORSHeader, What: attempt.Preflight, Status: http.StatusNoContent}
	}
	for _, tt := range []struct {
		method, path, asks string // asks is of a preflight
		want               []attempt.Observation
	}{
		{"GET", "/.well-known/oauth-authorization-server", "", []attempt.Observation{read(attempt.OfServer)}},
		{"GET", "/.well-known/oauth-protected-resource", "", []attempt.Observation{read(attempt.OfResource)}},
		{"HEAD", "/.well-known/oauth-protected-resource/api/v5", "", []attempt.Observation{read(attempt.OfResource)}},
		{"POST", "/.well-known/oauth-authorization-server", "", nil},
		{"GET", "/.well-known/oauth-authorization-server/api/v5", "", []attempt.Observation{absent}},
		{"GET", "/.well-known/oauth-protected-resource/other", "", []attempt.Observation{absent}},
		{"GET", "/.well-known/openid-configuration", "", []attempt.Observation{absent}},
		{"GET", "/.well-known/openid-configuration/api/v5", "", []attempt.Observation{absent}},
		{"OPTIONS", "/.well-known/openid-configuration", "x-more", nil},
		{"GET", "/.well-known/jwks.json", "", nil},
		{"GET", "/oauth/introspect", "", nil},
		{"OPTIONS", "/oauth/token", "content-type, dpop", nil},
		{"OPTIONS", "/oauth/token", "content-type, x-more", []attempt.Observation{stopped(attempt.Token)}},
		{"OPTIONS", "/oauth/register", "content-type, authorization", nil},
		{"OPTIONS", "/oauth/register", "dpop", []attempt.Observation{stopped(attempt.Registration)}},
		{"OPTIONS", "/oauth/revoke", "x-more", nil},
	} {
		*seen = nil
		var headers []string
		if tt.asks != "" {
			headers = []string{"Origin", "https://app.example", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", tt.asks}
		}
		d.send(request(tt.method, tt.path, "", headers...))
		if !slices.Equal(*seen, tt.want) {
			t.Errorf("%s %s %s: seen %+v, want %+v", tt.method, tt.path, tt.asks, *seen, tt.want)
		}
	}
}

// One that is over the limit is told of with the seconds that it has to wait.
func TestAttemptsOverTheLimit(t *testing.T) {
	d, seen := watched(t)
	d.TokenLimit = limit.NewAddresses(limit.Limit{N: 1, Window: 90 * time.Second}, nil)
	d.handler = d.Handler()
	id, h, _, refresh := d.live()
	*seen = nil
	d.post("/oauth/token", refreshForm(id, refresh))
	want := attempt.Observation{Step: attempt.Token, Outcome: attempt.Failed, Reason: attempt.RateLimited, N: 90, Status: http.StatusTooManyRequests}
	if len(*seen) != 1 || (*seen)[0] != want {
		t.Errorf("seen %+v, want %+v", *seen, want)
	}
	d.wantState(h, approval.Live, 1, "")
}

// Each refusal has its reason, at the step that it is of.
func TestReasonOf(t *testing.T) {
	grant := func(v approval.Verdict) *Error { return invalidGrant(v.String(), "") }
	spent := &Error{Status: http.StatusTooManyRequests, Code: "temporarily_unavailable", reason: "limited"}
	for _, tt := range []struct {
		step attempt.Step
		e    *Error
		want attempt.Reason
	}{
		{attempt.Registration, spent, attempt.RateLimited},
		{attempt.Token, spent, attempt.RateLimited},
		{attempt.Token, unavailable, attempt.ServerUnavailable},
		{attempt.Registration, uncertain, attempt.ServerUnavailable},
		{attempt.Refresh, refuse(500, "server_error", ""), attempt.ServerFault},
		{attempt.Registration, methodNotAllowed("POST"), attempt.RegistrationBody},
		{attempt.Registration, refuse(400, client.InvalidRedirectURI, "it must begin with https://"), attempt.RedirectScheme},
		{attempt.Registration, refuse(400, client.InvalidClientMetadata, "client_name: it is too long"), attempt.RegistrationName},
		{attempt.Token, methodNotAllowed("POST"), attempt.TokenMethod},
		{attempt.Token, missing("code"), attempt.TokenParameter},
		{attempt.Token, invalidRequest("a parameter was sent twice: code"), attempt.TokenParameter},
		{attempt.Token, invalidRequest(badText), attempt.TokenBody},
		{attempt.Token, invalidRequest("code_verifier must be 43 to 128 letters, digits and - . _ ~"), attempt.PKCEVerifier},
		{attempt.Token, refuse(401, "invalid_client", "clients are public here"), attempt.ClientCredentials},
		{attempt.Token, refuse(401, "invalid_client", "this client_id is not known here"), attempt.ClientUnknown},
		{attempt.Token, refuse(400, "unsupported_grant_type", ""), attempt.GrantType},
		{attempt.Refresh, refuse(400, "invalid_scope", ""), attempt.ScopeUnknown},
		{attempt.Token, refuse(400, "invalid_target", ""), attempt.ResourceUnknown},
		{attempt.Token, refuse(400, invalidProof, ""), attempt.DPoPProof},
		{attempt.Token, refuse(400, useNonce, ""), attempt.DPoPNonce},
		{attempt.Token, refuse(400, "a code of no row", ""), attempt.ServerFault},
		{attempt.Refresh, disabled, attempt.ClientDisabled},
		{attempt.Refresh, grant(approval.WrongKey), attempt.DPoPKey},
		{attempt.Token, grant(approval.WrongVerifier), attempt.PKCEMismatch},
		{attempt.Token, grant(approval.WrongRedirect), attempt.RedirectAtToken},
		{attempt.Token, grant(approval.WrongIssuer), attempt.CodeOtherIssuer},
		{attempt.Token, grant(approval.Expired), attempt.CodeExpired},
		{attempt.Token, grant(approval.Reused), attempt.CodeReused},
		{attempt.Refresh, grant(approval.Reused), attempt.RefreshReused},
		{attempt.Token, grant(approval.WrongClient), attempt.CodeOtherClient},
		{attempt.Refresh, grant(approval.WrongClient), attempt.RefreshUnknown},
		{attempt.Token, invalidGrant("unknown", ""), attempt.CodeUnknown},
		{attempt.Refresh, invalidGrant("unknown", ""), attempt.RefreshUnknown},
		{attempt.Token, grant(approval.Over), attempt.ApprovalEnded},
		{attempt.Refresh, grant(approval.Lost), attempt.ApprovalEnded},
		{attempt.Refresh, invalidGrant("not_found", ""), attempt.ApprovalEnded},
	} {
		if got := reasonOf(tt.step, tt.e); got != tt.want {
			t.Errorf("%v, %v (%s): %s, want %s", tt.step, tt.e, tt.e.reason, got, tt.want)
		}
	}
}

// Of refreshes that go well the first alone is told of, and of a verifier how it is none.
func TestAttemptsOfTokens(t *testing.T) {
	d, seen := watched(t)
	id := d.registered()
	h, code := d.approved(id)
	of := attempt.Keys{Client: id, Approval: approval.ID(h.ID()).String()}
	want := func(name string, all ...attempt.Observation) {
		t.Helper()
		if !slices.Equal(*seen, all) {
			t.Errorf("%s: seen %+v, want %+v", name, *seen, all)
		}
		*seen = nil
	}
	d.post("/oauth/token", with(exchangeForm(id, code), "code_verifier", "short"))
	want("a short verifier", attempt.Observation{Step: attempt.Token, Outcome: attempt.Failed, Reason: attempt.PKCEVerifier, What: attempt.WrongLength, N: 5, Status: 400, Keys: attempt.Keys{Client: id}})
	first := readTokens(t, d.post("/oauth/token", exchangeForm(id, code)))
	want("an exchange", attempt.Observation{Step: attempt.Token, Outcome: attempt.Done, Status: 200, Keys: of})
	second := readTokens(t, d.post("/oauth/token", refreshForm(id, first.Refresh)))
	want("the first refresh", attempt.Observation{Step: attempt.Refresh, Outcome: attempt.Done, Status: 200, Keys: of})
	third := readTokens(t, d.post("/oauth/token", refreshForm(id, second.Refresh)))
	want("the second refresh")
	d.post("/oauth/token", with(refreshForm(id, third.Refresh), "scope", "all"))
	want("a refresh with another scope", attempt.Observation{Step: attempt.Refresh, Outcome: attempt.Failed, Reason: attempt.ScopeUnknown, Status: 400, Keys: attempt.Keys{Client: id}})
	d.post("/oauth/token", refreshForm(id, second.Refresh))
	want("a used token", attempt.Observation{Step: attempt.Refresh, Outcome: attempt.Failed, Reason: attempt.RefreshReused, Status: 400, Keys: of})
}
