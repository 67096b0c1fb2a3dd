package oauth

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
)

// The log is told which client and approval a request is about, as soon as that
// is known, and what it was refused with; a client that is none is not named.
func TestTell(t *testing.T) {
	d := open(t)
	type told struct {
		client string
		of     approval.ID
		fault  string
	}
	var got told
	d.Tell = func(_ http.ResponseWriter, client string, of approval.ID, fault string) {
		got.client, got.fault = cmp.Or(client, got.client), cmp.Or(fault, got.fault)
		got.of = cmp.Or(of, got.of)
	}
	id, h, access, refresh := d.live()
	of := approval.ID(h.ID())
	waiting, code := d.approved(id)
	for _, tt := range []struct {
		name string
		send func() *httptest.ResponseRecorder
		want told
	}{
		{"exchange without a verifier", func() *httptest.ResponseRecorder {
			return d.post("/oauth/token", with(exchangeForm(id, code), "code_verifier"))
		}, told{id, approval.ID{}, "invalid_request"}},
		{"exchange", func() *httptest.ResponseRecorder { return d.post("/oauth/token", exchangeForm(id, code)) },
			told{id, approval.ID(waiting.ID()), ""}},
		{"refresh with no token of ours", func() *httptest.ResponseRecorder { return d.post("/oauth/token", refreshForm(id, "svr_x")) },
			told{id, approval.ID{}, "invalid_grant"}},
		{"refresh", func() *httptest.ResponseRecorder { return d.post("/oauth/token", refreshForm(id, refresh)) }, told{id, of, ""}},
		{"refresh by nobody", func() *httptest.ResponseRecorder { return d.post("/oauth/token", refreshForm("nobody", refresh)) },
			told{"", approval.ID{}, "invalid_client"}},
		{"revoke no token of ours", func() *httptest.ResponseRecorder { return d.post("/oauth/revoke", revokeForm(id, "svr_x")) },
			told{id, approval.ID{}, ""}},
		{"revoke by nobody", func() *httptest.ResponseRecorder { return d.post("/oauth/revoke", revokeForm("nobody", access)) },
			told{"", approval.ID{}, "invalid_client"}},
		{"revoke", func() *httptest.ResponseRecorder { return d.post("/oauth/revoke", revokeForm(id, access)) }, told{id, of, ""}},
	} {
		got = told{}
		if tt.send(); got != tt.want {
			t.Errorf("%s: told %+v, want %+v", tt.name, got, tt.want)
		}
	}
	got = told{}
	var made struct {
		ClientID string `json:"client_id"`
	}
	w := d.send(request("POST", "/oauth/register", `{"redirect_uris":["https://client.example/"]}`))
	if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || made.ClientID == "" || got != (told{client: made.ClientID}) {
		t.Errorf("register: told %+v of %s (%v)", got, w.Body, err)
	}
}
