package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// as calls the API with an access token.
func (c *caller) as(access, method, path, body string) answer {
	c.h.t.Helper()
	return c.send(method, path, body, header{"Authorization", "Bearer " + access, "Content-Type", "application/json"})
}

// G-12: a refresh never widens. The grant set is read from the approval,
// whatever the request says.
func TestG12RefreshNeverWidens(t *testing.T) {
	t.Parallel()
	h := start(t)
	f, first := h.connected("", "organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read")
	grant := func(access string) string {
		t.Helper()
		a := f.as(access, "GET", "/api/v5/me", "")
		if a.status != 200 {
			t.Fatal(a)
		}
		return fmt.Sprint(a.json(t)["grant"])
	}
	before := grant(first.access)
	next := tokensOf(t, f.refresh(first.refresh, "scope", "api", "grant", "organization", "organization", "fjell",
		"role:nordlys-treasurer", "change", "personal", "1", "resource", "https://elsewhere.example/"))
	if after := grant(next.access); after != before {
		t.Errorf("before %s, after %s", before, after)
	}
	if a := f.as(next.access, "POST", "/api/v5/notes", `{"title":"x","role":"nordlys-treasurer"}`); a.status != 403 ||
		!strings.Contains(a.body, "Treasurer is read-only in this approval") {
		t.Errorf("G-04: a change through a role that is read-only: %s", a)
	}
}

// What three grant sets of one person can do to the same items, from outside:
// the golden table of grantset, lived through.
func TestThreeGrantSets(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	_, all := h.connected(client, everything...)
	c := h.caller()
	create := func(body string) string {
		t.Helper()
		a := c.as(all.access, "POST", "/api/v5/notes", body)
		if a.status != 201 {
			t.Fatalf("create %s: %s", body, a)
		}
		return "/api/v5/notes/" + a.json(t)["id"].(string)
	}
	items := []struct{ name, path string }{
		{"Treasurer's note", create(`{"title":"Budget","role":"nordlys-treasurer"}`)},
		{"Facilitator's note", create(`{"title":"Agenda","role":"nordlys-facilitator"}`)},
		{"private note of Product", create(`{"title":"Churn","role":"nordlys-product-roadmap-steward","private":true}`)},
		{"Ada's own note", create(`{"title":"Call the bank","personal":true}`)},
	}
	for _, tt := range []struct {
		name   string
		choice []string
		want   []string // what may be done to each item
	}{
		{"Everything I can access", everything, []string{"change", "change", "change", "change"}},
		{"Everything in this organization", []string{"organization", "nordlys", "grant", "organization"}, []string{"change", "change", "change", "none"}},
		{"Treasurer to change", treasurer, []string{"change", "read", "none", "none"}},
		{"Treasurer to read, and personal items", []string{"organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read", "personal", "1"},
			[]string{"read", "read", "none", "change"}},
		{"Roadmap Steward to read", []string{"organization", "nordlys", "grant", "roles", "role:nordlys-product-roadmap-steward", "read"},
			[]string{"read", "read", "read", "none"}},
	} {
		_, tk := h.connected(client, tt.choice...)
		for i, item := range items {
			got := "none"
			if a := c.as(tk.access, "GET", item.path, ""); a.status == 200 {
				got = "read"
			} else if a.status != 404 {
				t.Errorf("%s, %s: %s", tt.name, item.name, a)
			}
			switch a := c.as(tk.access, "PATCH", item.path, `{"body":"changed"}`); a.status {
			case 200:
				got = "change"
			case 403, 404:
			default:
				t.Errorf("%s, %s: %s", tt.name, item.name, a)
			}
			if got != tt.want[i] {
				t.Errorf("%s: %s: got %s, want %s", tt.name, item.name, got, tt.want[i])
			}
		}
	}
}
