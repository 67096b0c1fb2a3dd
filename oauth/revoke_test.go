package oauth

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

func wantRevoked(t *testing.T, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code != http.StatusOK || w.Body.String() != "{}" {
		t.Errorf("%d %q, want 200 {}", w.Code, w.Body)
	}
	wantUnkept(t, w)
}

// A client calls the revocation endpoint with one of its own tokens (spec
// section 3): every token of the approval ends, whatever the hint says.
func TestRevoke(t *testing.T) {
	d := open(t)
	tests := []struct {
		name  string
		token func(access, refresh string) string
		hint  []string
		after time.Duration
	}{
		{"access token", func(access, _ string) string { return access }, nil, 0},
		{"refresh token", func(_, refresh string) string { return refresh }, nil, 0},
		{"refresh token with its hint", func(_, refresh string) string { return refresh }, []string{"refresh_token"}, 0},
		{"refresh token with the other hint", func(_, refresh string) string { return refresh }, []string{"access_token"}, 0},
		{"access token with an unknown hint", func(access, _ string) string { return access }, []string{"magic"}, 0},
		{"expired access token", func(access, _ string) string { return access }, nil, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id, h, access, refresh := d.live()
			d.clock.sleep(tt.after)
			form := with(revokeForm(id, tt.token(access, refresh)), "token_type_hint", tt.hint...)
			for range 2 { // a second time is 200 too
				wantRevoked(t, d.post("/oauth/revoke", form))
				d.wantState(h, approval.Ended, 1, approval.RevokedByClient)
			}
			wantRefusal(t, d.post("/oauth/token", refreshForm(id, refresh)), 400, "invalid_grant")
		})
	}
	t.Run("used refresh token", func(t *testing.T) {
		id, h, _, refresh := d.live()
		readTokens(t, d.post("/oauth/token", refreshForm(id, refresh)))
		wantRevoked(t, d.post("/oauth/revoke", revokeForm(id, refresh)))
		d.wantState(h, approval.Ended, 2, approval.RevokedByClient)
	})
	t.Run("of a disabled client", func(t *testing.T) {
		id, h, _, refresh := d.live()
		d.disable(id)
		wantRevoked(t, d.post("/oauth/revoke", revokeForm(id, refresh)))
		d.wantState(h, approval.Ended, 1, approval.ClientDisabled)
	})
}

// What decision T9 answers without ending anything.
func TestRevokeEndsNothing(t *testing.T) {
	d := open(t)
	id, h, access, refresh := d.live()
	other := d.registered()
	foreign := newRing(t)
	_, code := d.approved(id)
	tests := []struct {
		name   string
		form   url.Values
		status int
		code   string // "" for 200
	}{
		{"token missing", with(revokeForm(id, access), "token"), 400, "invalid_request"},
		{"token empty", revokeForm(id, ""), 400, "invalid_request"},
		{"client_id missing", with(revokeForm(id, access), "client_id"), 400, "invalid_request"},
		{"token and client_id missing", url.Values{"a": {"b"}}, 400, "invalid_request"},
		{"token missing, client unknown", url.Values{"client_id": {"nobody"}}, 400, "invalid_request"},
		{"token twice", with(revokeForm(id, ""), "token", access, access), 400, "invalid_request"},
		{"client unknown", revokeForm("nobody", access), 403, "invalid_client"},
		{"client unknown, token unreadable", revokeForm("nobody", "x"), 403, "invalid_client"},
		{"client_id endless", revokeForm(strings.Repeat("x", 50_000), access), 403, "invalid_client"},
		{"client_secret", with(revokeForm(id, access), "client_secret", "x"), 401, "invalid_client"},
		{"access token of another client", revokeForm(other, access), 403, "unauthorized_client"},
		{"refresh token of another client", revokeForm(other, refresh), 403, "unauthorized_client"},
		{"token unreadable", revokeForm(id, "svr_x"), 200, ""},
		{"token of another installation", revokeForm(id, foreign.Refresh(h, 1)), 200, ""},
		{"token whose approval is not stored", revokeForm(id, d.ring.Refresh(token.Handle{9}, 1)), 200, ""},
		{"an authorization code", revokeForm(id, code), 200, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := d.post("/oauth/revoke", tt.form)
			if tt.code == "" {
				wantRevoked(t, w)
			} else {
				wantRefusal(t, w, tt.status, tt.code)
				wantNoChallenge(t, w)
			}
			d.wantState(h, approval.Live, 1, "")
		})
	}
	readTokens(t, d.post("/oauth/token", exchangeForm(id, code)))
	readTokens(t, d.post("/oauth/token", refreshForm(id, refresh)))
}

// Dead or alive: whether another client's token still works is none of this
// client's business (decision T9).
func TestRevokeOfAnotherClientsDeadToken(t *testing.T) {
	d := open(t)
	id, h, access, refresh := d.live()
	other := d.registered()
	wantRevoked(t, d.post("/oauth/revoke", revokeForm(id, refresh)))
	for _, dead := range []string{access, refresh} {
		wantRefusal(t, d.post("/oauth/revoke", revokeForm(other, dead)), 403, "unauthorized_client")
	}
	d.wantState(h, approval.Ended, 1, approval.RevokedByClient)
}

// A token that does not open here, but may at another node, is neither refused
// nor acknowledged as revoked (decision T11): it is the client's to try again.
func TestTokensOfAnotherNodesKey(t *testing.T) {
	d := open(t)
	id, h, access, _ := d.live()
	other, err := token.NewRing("sv", 3, token.NewKey(3, [32]byte{3}))
	if err != nil {
		t.Fatal(err)
	}
	of, _ := other.Handle(3, [16]byte{1}, 0)
	there := d.clock.Now().Add(time.Minute).Unix()
	for _, c := range []struct {
		name, path string
		form       url.Values
		status     int // while this node cannot know
		otherwise  int
	}{
		{"an access token to revoke", "/oauth/revoke", revokeForm(id, other.Access(of, 1, there)), 503, 200},
		{"a refresh token to revoke", "/oauth/revoke", revokeForm(id, other.Refresh(of, 1)), 503, 200},
		{"a refresh token", "/oauth/token", refreshForm(id, other.Refresh(of, 1)), 503, 400},
		{"a code", "/oauth/token", exchangeForm(id, other.Code(of, there)), 503, 400},
		{"what no node gave, to revoke", "/oauth/revoke", revokeForm(id, "nonsense"), 200, 200},
		{"what no node gave", "/oauth/token", refreshForm(id, "nonsense"), 400, 400},
		{"a token that opens here", "/oauth/revoke", revokeForm(id, access), 200, 200},
	} {
		d.opens = func() error { return store.ErrUnavailable }
		w := d.post(c.path, c.form)
		if w.Code != c.status || (w.Code == 503) != (w.Header().Get("Retry-After") != "") {
			t.Errorf("%s: got %d %v %s, want %d", c.name, w.Code, w.Header(), w.Body, c.status)
		}
		d.opens = nil
		if w := d.post(c.path, c.form); w.Code != c.otherwise {
			t.Errorf("%s, with all keys: got %d %s, want %d", c.name, w.Code, w.Body, c.otherwise)
		}
	}
	d.wantState(h, approval.Ended, 1, approval.RevokedByClient)
}
