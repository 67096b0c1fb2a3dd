package e2e

import (
	"strings"
	"testing"
)

// Pages of Nordlys for its admins.
const (
	nordlysAdmin    = "/organizations/nordlys/settings/ai-integration"
	nordlysRules    = nordlysAdmin + "/rules"
	nordlysRequests = nordlysAdmin + "/requests"
)

// rules saves rules of Nordlys, from a form that has changes.
func (b *browser) rules(changes ...string) answer {
	b.h.t.Helper()
	f := b.page(nordlysRules).form(nordlysRules).with(changes...)
	if f.values.Has("forget") {
		f = b.read(f.submit()).form(nordlysRules).with("days", f.values.Get("days"))
	}
	a := f.submit("action", "check")
	if a.status != 200 || !strings.Contains(a.body, `name="checked"`) {
		b.h.t.Fatalf("rules %v: %d %s", changes, a.status, b.read(a).text())
	}
	return b.read(a).form(nordlysRules).submit("action", "save", "reason", "It keeps copies of our minutes.")
}

// ruled is rules that are saved.
func (b *browser) ruled(changes ...string) {
	b.h.t.Helper()
	if a := b.rules(changes...); a.status != 303 {
		b.h.t.Fatalf("rules %v: %d %s", changes, a.status, b.read(a).text())
	}
}

// withApp adds a rule for an app to the form, and gives it.
func (b *browser) withApp(host, name string) *pageForm {
	b.h.t.Helper()
	a := b.page(nordlysRules).form(nordlysRules).submit("action", "add", "new", host, "newname", name)
	if a.status != 200 {
		b.h.t.Fatalf("add %s: %d %s", host, a.status, b.read(a).text())
	}
	return b.read(a).form(nordlysRules)
}

// block blocks a host.
func (b *browser) block(host string) {
	b.h.t.Helper()
	check := b.read(b.withApp(host, "").submit("action", "check"))
	if a := check.form(nordlysRules).submit("action", "save"); a.status != 303 {
		b.h.t.Fatalf("block %s: %s", host, a)
	}
}

// calls is what a client can do with a token: call tools over MCP.
func (c *caller) calls(access, tool, arguments string) answer {
	c.h.t.Helper()
	return c.postJSON("/api/v5/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+arguments+`}}`,
		header{"Authorization", "Bearer " + access, "Accept", "application/json, text/event-stream"})
}

// The rules of an organization, from the first to the last: an app is asked for and
// allowed, it connects for some days, gets less, gets it back, and ends.
func TestOrganizationsRules(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.stopClock()
	ada, tor := h.signedIn("ada@nordlys.example"), h.signedIn("tor@nordlys.example")
	ada.ruled("default", "ask", "days", "30")
	f := h.flow("")
	asking := tor.consent(f)
	if asking.form("/oauth/authorize").values.Has("grant") {
		t.Fatalf("not asked for, and offered: %s", asking.text())
	}
	a := asking.form("/oauth/authorize").submit("organization", "nordlys", "decision", "ask", "message", "For the minutes")
	if a.status != 303 {
		t.Fatalf("ask: %s", a)
	}
	requests := ada.page(nordlysRequests)
	if !strings.Contains(requests.text(), "For the minutes") {
		t.Errorf("the request: %s", requests.text())
	}
	if a := requests.form(nordlysRequests).submit("decision", "person"); a.status != 303 {
		t.Fatalf("allow: %s", a)
	}
	code := tor.approve(f, "organization", "nordlys", "grant", "everything", "ends", "7")
	tk := tokensOf(t, f.exchange(code))
	c := h.caller()
	change := func() int {
		return c.as(tk.access, "POST", "/api/v5/notes", `{"title":"x","role":"nordlys-secretary"}`).status
	}
	if got := change(); got != 201 {
		t.Errorf("a change: %d", got)
	}
	for _, tt := range []struct {
		rule, on, off string
	}{{"readonly", "1", ""}, {"widest", "roles", "organization"}} {
		ada.ruled("days", "30", tt.rule, tt.on)
		if got := change(); got != 403 {
			t.Errorf("under %s: %d", tt.rule, got)
		}
		if a := c.calls(tk.access, "create_item", `{"kind":"note","title":"x","role":"nordlys-secretary"}`); !strings.Contains(a.body, `"isError":true`) {
			t.Errorf("under %s, over MCP: %s", tt.rule, a)
		}
		if !h.works(tk.access) {
			t.Errorf("under %s the token ends", tt.rule)
		}
		ada.ruled("days", "30", tt.rule, tt.off)
		if got := change(); got != 201 {
			t.Errorf("after %s: %d", tt.rule, got)
		}
	}
	tk = tokensOf(t, f.refresh(tk.refresh))
	h.sleep(7 * day)
	if h.works(tk.access) {
		t.Error("beyond its end the token works")
	}
	wantError(t, "refresh beyond the end", f.refresh(tk.refresh), 400, "invalid_grant")
	if got := h.approvalsOf(f.client)[0]; got["reason"] != "ended_on_date" {
		t.Errorf("ended: %v", got)
	}
	again := h.flow(f.client)
	tk = tokensOf(t, again.exchange(h.signedIn("tor@nordlys.example").approve(again, "organization", "nordlys", "grant", "everything", "ends", "max")))
	ada = h.signedIn("ada@nordlys.example")
	ada.ruled("days", "30", "forget", "0")
	ada.block("quill.example")
	if h.works(tk.access) {
		t.Error("blocked, the token works")
	}
	wantError(t, "refresh when blocked", again.refresh(tk.refresh), 400, "invalid_grant")
	if p := h.signedIn("tor@nordlys.example").page("/oauth/authorize?" + again.query()); p.status != 403 {
		t.Errorf("blocked: %d %s", p.status, p.text())
	}
}

// What is saved at one process holds at the next request of another: a ceiling, its end,
// and a block, for codes and refreshes too. API keys are no apps.
func TestRulesOfTwoProcesses(t *testing.T) {
	t.Parallel()
	_, all := nodes(t, 2)
	a, b := all[0], all[1]
	choice := []string{"organization", "nordlys", "grant", "everything"}
	f, tk := a.connected("", choice...)
	ada := a.signedIn("ada@nordlys.example")
	at := func(credential ...string) answer {
		return b.caller().get(b.base+"/api/v5/me", header(append(credential, "Host", a.host())))
	}
	for _, step := range []struct {
		rules []string
		gives string
	}{
		{nil, `"administers":true`}, {[]string{"readonly", "1"}, "lets apps read only"}, {[]string{"readonly", "", "widest", "roles"}, "none now"},
		{[]string{"widest", "organization", "days", "7"}, `"administers":true`},
	} {
		if step.rules != nil {
			ada.ruled(step.rules...)
		}
		if a := at("Authorization", "Bearer "+tk.access); a.status != 200 || !strings.Contains(a.body, step.gives) {
			t.Errorf("%v: %s", step.rules, a)
		}
	}
	late := a.flow(f.client)
	code := ada.approve(late, append(choice, "ends", "7")...)
	ada.block("quill.example")
	if status := f.accepted(b, tk.access); status != 401 {
		t.Errorf("blocked: %d", status)
	}
	wantError(t, "a refresh", f.refreshAt(b, tk.refresh), 400, "invalid_grant")
	wantError(t, "a code from before", late.exchangeAt(b, code), 400, "invalid_grant")
	if a := at("X-Auth-Token", "api-key-of-ada-in-nordlys"); a.status != 200 {
		t.Errorf("an API key: %s", a)
	}
}
