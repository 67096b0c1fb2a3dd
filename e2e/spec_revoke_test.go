package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// Spec 4.4 and decision T9, row for row and in its order.
func TestSpec44Revocation(t *testing.T) {
	t.Parallel()
	h := start(t)
	client, other := h.register(), h.register()
	ended := 0
	type world struct {
		f           *flow
		first, last tokens
		code        string
	}
	live := func() world {
		f, code := h.issued(client)
		first := tokensOf(t, f.exchange(code))
		return world{f, first, tokensOf(t, f.refresh(first.refresh)), code}
	}
	for _, tt := range []struct {
		name   string
		fields func(w world) []string
		status int
		code   string
		ends   bool
	}{
		{"token missing", func(w world) []string { return []string{"client_id", client} }, 400, "invalid_request", false},
		{"token empty", func(w world) []string { return []string{"token", "", "client_id", client} }, 400, "invalid_request", false},
		{"client_id missing", func(w world) []string { return []string{"token", w.last.access} }, 400, "invalid_request", false},
		{"client_id empty", func(w world) []string { return []string{"token", w.last.access, "client_id", ""} }, 400, "invalid_request", false},
		{"both missing", func(w world) []string { return []string{"token_type_hint", "access_token"} }, 400, "invalid_request", false},
		{"unknown client", func(w world) []string { return []string{"token", w.last.access, "client_id", "x"} }, 403, "invalid_client", false},
		{"unknown client, unreadable token", func(w world) []string { return []string{"token", "x", "client_id", "x"} }, 403, "invalid_client", false},
		{"unreadable token", func(w world) []string { return []string{"token", "x", "client_id", client} }, 200, "", false},
		{"a token of nobody", func(w world) []string {
			return []string{"token", "svr_" + strings.Repeat("x", 64), "client_id", client}
		}, 200, "", false},
		{"a code, which is no token", func(w world) []string { return []string{"token", w.code, "client_id", client} }, 200, "", false},
		{"token cut short", func(w world) []string { return []string{"token", w.last.access[:30], "client_id", client} }, 200, "", false},
		{"access token of another client", func(w world) []string { return []string{"token", w.last.access, "client_id", other} }, 403, "unauthorized_client", false},
		{"refresh token of another client", func(w world) []string { return []string{"token", w.last.refresh, "client_id", other} }, 403, "unauthorized_client", false},
		{"used refresh token of another client", func(w world) []string { return []string{"token", w.first.refresh, "client_id", other} }, 403, "unauthorized_client", false},
		{"own access token", func(w world) []string { return []string{"token", w.last.access, "client_id", client} }, 200, "", true},
		{"own refresh token", func(w world) []string { return []string{"token", w.last.refresh, "client_id", client} }, 200, "", true},
		{"own earlier access token", func(w world) []string { return []string{"token", w.first.access, "client_id", client} }, 200, "", true},
		{"own used refresh token", func(w world) []string { return []string{"token", w.first.refresh, "client_id", client} }, 200, "", true},
		{"the right hint", func(w world) []string {
			return []string{"token", w.last.refresh, "client_id", client, "token_type_hint", "refresh_token"}
		}, 200, "", true},
		{"the wrong hint", func(w world) []string {
			return []string{"token", w.last.refresh, "client_id", client, "token_type_hint", "access_token"}
		}, 200, "", true},
		{"an unknown hint", func(w world) []string {
			return []string{"token", w.last.access, "client_id", client, "token_type_hint", "pizza"}
		}, 200, "", true},
		{"a hint for another client's", func(w world) []string {
			return []string{"token", w.last.access, "client_id", other, "token_type_hint", "access_token"}
		}, 403, "unauthorized_client", false},
		{"a blank secret", func(w world) []string {
			return []string{"token", w.last.access, "client_id", client, "client_secret", ""}
		}, 200, "", true},
		{"a secret", func(w world) []string {
			return []string{"token", w.last.access, "client_id", client, "client_secret", "x"}
		}, 401, "invalid_client", false},
		{"a secret, and nothing else", func(w world) []string { return []string{"client_secret", "x"} }, 401, "invalid_client", false},
		{"token twice", func(w world) []string {
			return []string{"token", w.last.access, "token", w.last.access, "client_id", client}
		}, 400, "invalid_request", false},
		{"client_id twice", func(w world) []string {
			return []string{"token", w.last.access, "client_id", client, "client_id", client}
		}, 400, "invalid_request", false},
		{"hint twice", func(w world) []string {
			return []string{"token", w.last.access, "client_id", client, "token_type_hint", "a", "token_type_hint", "b"}
		}, 400, "invalid_request", false},
	} {
		w := live()
		a := h.caller().postForm("/oauth/revoke", tt.fields(w)...)
		if tt.status == 200 {
			wantRevoked(t, tt.name, a)
		} else {
			wantJSONError(t, tt.name, a, tt.status, tt.code)
		}
		if got := !h.works(w.last.access); got != tt.ends || got != !h.works(w.first.access) {
			t.Errorf("%s: the approval ended: %v, want %v", tt.name, got, tt.ends)
		}
		if tt.ends {
			wantError(t, tt.name+": refresh", w.f.refresh(w.last.refresh), 400, "invalid_grant")
			if ended++; h.reasons(client)["revoked_by_client"] != ended {
				t.Errorf("%s: approvals by the reason of their end: %v", tt.name, h.reasons(client))
			}
			wantRevoked(t, tt.name+": again", h.caller().postForm("/oauth/revoke", tt.fields(w)...))
			// Dead or alive, another client's token is 403.
			for _, token := range []string{w.first.access, w.last.access, w.first.refresh, w.last.refresh} {
				wantJSONError(t, tt.name+": another client's, ended", h.caller().postForm("/oauth/revoke", "token", token, "client_id", other), 403, "unauthorized_client")
			}
		}
	}
}

func wantRevoked(t *testing.T, what string, a answer) {
	t.Helper()
	if a.status != 200 || a.header.Get("Cache-Control") != "no-store" || strings.Contains(a.body, "error") {
		t.Errorf("%s: got %s; want 200", what, a)
	}
}

// "Answers 200 whether or not the token was still valid": expired, ended by
// others, of a disabled client.
func TestSpec44RevocationOfWhatIsOver(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("")
	h.sleep(31 * minute)
	if h.works(tk.access) {
		t.Fatal("the access token has not expired")
	}
	wantRevoked(t, "an expired access token", f.revoke(tk.access))
	wantError(t, "it ends the approval all the same", f.refresh(tk.refresh), 400, "invalid_grant")
	f, tk = h.connected(f.client)
	h.change("/v1/organizations/nordlys/members/ada/remove", `{"reason":"test"}`)
	wantRevoked(t, "after the person was removed", f.revoke(tk.refresh))
	if got := h.reasons(f.client); got["left_organization"] != 1 || got["revoked_by_client"] != 1 {
		t.Errorf("approvals by the reason of their end: %v", got)
	}
	f, tk = h.connectedBy("tor@nordlys.example", "", "organization", "nordlys", "grant", "everything")
	h.change("/v1/clients/"+f.client+"/disable", `{"reason":"test"}`)
	wantRevoked(t, "of a disabled client", f.revoke(tk.refresh))
}

// The form of the request, in the order of the token endpoint: method, media
// type, credentials of a client.
func TestSpec44RevocationRequests(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, tk := h.connected("")
	before := h.rows()
	body := form("token", tk.access, "client_id", f.client)
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		a := h.caller().send(method, "/oauth/revoke", body, header{"Content-Type", formType})
		wantJSONError(t, method, a, 405, "invalid_request")
		if a.header.Get("Allow") != "POST" {
			t.Errorf("%s: Allow %q", method, a.header.Get("Allow"))
		}
	}
	for _, types := range []header{nil, {"Content-Type", jsonType}, {"Content-Type", "text/plain"}, {"Content-Type", formType + "; charset=latin1"}, {"Content-Type", formType, "Content-Encoding", "br"}} {
		wantJSONError(t, fmt.Sprint(types), h.caller().send("POST", "/oauth/revoke", body, types), 400, "invalid_request")
	}
	a := h.caller().send("POST", "/oauth/revoke", body, header{"Content-Type", formType, "Authorization", "Basic eDo="})
	wantJSONError(t, "Authorization", a, 401, "invalid_client")
	if a.header.Get("WWW-Authenticate") == "" {
		t.Error("no WWW-Authenticate (decision T2)")
	}
	a = h.caller().send("POST", "/oauth/revoke?"+body, "", header{"Content-Type", formType})
	wantJSONError(t, "in the query string", a, 400, "invalid_request")
	h.unchanged(t, before)
	if !h.works(tk.access) {
		t.Error("a refused request has ended the approval")
	}
}
