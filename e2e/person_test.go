package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// revokeApp presses Revoke on Connected apps.
func (b *browser) revokeApp(organization, client string) answer {
	b.h.t.Helper()
	path := "/organizations/" + organization + "/profile/api/clients/" + client + "/revoke"
	return b.page(path).form(path).submit()
}

// over checks that an approval has ended, for calls and for refreshes.
func (h *house) over(t *testing.T, when string, f *flow, tk tokens) {
	t.Helper()
	if h.works(tk.access) {
		t.Errorf("%s: the access token works", when)
	}
	wantError(t, when+": refresh", f.refresh(tk.refresh), 400, "invalid_grant")
}

// Revoke under Connected apps ends the client's approvals in this
// organization alone.
func TestA01A02RevokeUnderConnectedApps(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	f, first := h.connected(client)
	g, second := h.connected(client, everything...)
	_, fjell := h.connected(client, "organization", "fjell", "grant", "everything")
	b := h.signedIn("ada@nordlys.example")
	if p := b.page("/organizations/nordlys/profile/api"); !strings.Contains(p.text(), "Quill Assistant") {
		t.Errorf("not listed: %s", p.text())
	}
	path := "/organizations/nordlys/profile/api/clients/" + client + "/revoke"
	stale := b.page(path).form(path)
	if a := b.revokeApp("nordlys", client); a.status != 303 {
		t.Fatal(a)
	}
	h.over(t, "revoked", f, first)
	h.over(t, "revoked, the other connection", g, second)
	if !h.works(fjell.access) {
		t.Error("A-02: the approval in the other organization has ended")
	}
	p := b.page("/organizations/nordlys/profile/api")
	for n := range p.root.Descendants() {
		if n.Data == "form" && strings.Contains(attr(n, "action"), client) {
			t.Error("the entry is still there")
		}
	}
	if a := stale.submit(); a.status != 303 {
		t.Errorf("revoking twice, from a stale page: %s", a)
	}
	if a := b.get(path); a.status != 303 {
		t.Errorf("confirming what is revoked: %s", a)
	}
}

// the facts that end an approval, and that coming back revives
// nothing.
func TestA03ToA08Facts(t *testing.T) {
	t.Parallel()
	member := `{"person":"ada","admin":true,"reason":"test"}`
	reason := `{"reason":"test"}`
	for _, tt := range []struct {
		name       string
		end, again func(h *house, client string)
		fjellLives bool
		otherLives bool // another client's approval
	}{
		{"A-03 person leaves", func(h *house, _ string) {
			b := h.signedIn("ada@nordlys.example")
			if a := b.page("/organizations/nordlys/leave").form("/organizations/nordlys/leave").submit(); a.status != 303 {
				h.t.Fatal(a)
			}
		}, func(h *house, _ string) { h.change("/v1/organizations/nordlys/members", member) }, true, false},
		{"A-04, A-05 person removed and invited again",
			func(h *house, _ string) { h.change("/v1/organizations/nordlys/members/ada/remove", reason) },
			func(h *house, _ string) { h.change("/v1/organizations/nordlys/members", member) }, true, false},
		{"A-06 account deactivated and reactivated",
			func(h *house, _ string) { h.change("/v1/people/ada/deactivate", reason) },
			func(h *house, _ string) { h.change("/v1/people/ada@nordlys.example/reactivate", reason) }, false, false},
		{"A-07, A-08 client disabled and enabled",
			func(h *house, c string) { h.change("/v1/clients/"+c+"/disable", reason) },
			func(h *house, c string) { h.change("/v1/clients/"+c+"/enable", reason) }, false, true},
		{"P7 AI integration off and on",
			func(h *house, _ string) {
				h.change("/v1/organizations/nordlys/ai-integration", `{"on":false,"reason":"x"}`)
			},
			func(h *house, _ string) {
				h.change("/v1/organizations/nordlys/ai-integration", `{"on":true,"reason":"x"}`)
			}, true, false},
		{"an operator revokes", func(h *house, c string) {
			for _, a := range h.approvalsOf(c) {
				if a["organization"] == "nordlys" {
					h.change(fmt.Sprintf("/v1/approvals/%v/revoke", a["id"]), reason)
				}
			}
		}, func(*house, string) {}, true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			client := h.register()
			f, tk := h.connected(client)
			_, fjell := h.connected(client, "organization", "fjell", "grant", "everything")
			_, other := h.connected("")
			tt.end(h, client)
			h.over(t, "ended", f, tk)
			if got := h.works(fjell.access); got != tt.fjellLives {
				t.Errorf("the approval in the other organization works: %v, want %v", got, tt.fjellLives)
			}
			if got := h.works(other.access); got != tt.otherLives {
				t.Errorf("the approval of another client works: %v, want %v", got, tt.otherLives)
			}
			if strings.HasPrefix(tt.name, "A-07") {
				if p := h.signedIn("ada@nordlys.example").page("/oauth/authorize?" + f.query()); p.status != 400 {
					t.Errorf("authorize of a disabled client: %d, want 400", p.status)
				}
			}
			tt.again(h, client)
			h.over(t, "after it came back", f, tk)
			if _, tk := h.connected(client, "organization", "nordlys", "grant", "everything"); !h.works(tk.access) {
				t.Error("a new approval does not work")
			}
		})
	}
}

// A-09 from outside: the end of an approval against a client that refreshes
// all the time leaves no living token.
func TestA09EndDuringRefreshes(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	for round := range 20 {
		f, tk := h.connected(client)
		var last tokens
		var wg sync.WaitGroup
		wg.Go(func() {
			for last = tk; ; {
				a, err := f.try("POST", "/oauth/token",
					form("grant_type", "refresh_token", "refresh_token", last.refresh, "client_id", f.client),
					header{"Content-Type", "application/x-www-form-urlencoded"})
				if err != nil || a.status != 200 {
					return
				}
				last = tokensOf(t, a)
			}
		})
		switch round % 3 {
		case 0:
			f.revoke(tk.access)
		case 1:
			h.change(fmt.Sprintf("/v1/approvals/%v/revoke", h.approvalsOf(client)[0]["id"]), `{"reason":"x"}`)
		case 2:
			h.change("/v1/organizations/nordlys/ai-integration", `{"on":false,"reason":"x"}`)
		}
		wg.Wait()
		if h.works(tk.access) || h.works(last.access) {
			t.Fatalf("round %d: a token lives", round)
		}
		h.change("/v1/organizations/nordlys/ai-integration", `{"on":true,"reason":"x"}`)
		h.sleep(minute * 10)
	}
}
