package e2e

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// editPath is where an approval is edited (decision P2).
func (h *house) editPath(client string) string {
	h.t.Helper()
	return fmt.Sprintf("/organizations/nordlys/profile/api/%v/edit", h.approvalsOf(client)[0]["id"])
}

// edit saves a choice on the page that edits the client's newest approval.
func (b *browser) edit(client string, choice ...string) answer {
	b.h.t.Helper()
	path := b.h.editPath(client)
	return b.page(path).form(path).submit(append(choice, "decision", "save")...)
}

// grantOf is what a token's approval gives, as the API says it: the kind, the
// roles with their access, and what goes with them.
func (c *caller) grantOf(access string) string {
	c.h.t.Helper()
	a := c.me(access)
	if a.status != 200 {
		c.h.t.Fatalf("GET /api/v5/me: %s", a)
	}
	v := a.json(c.h.t)
	grant := v["grant"].(map[string]any)
	out := []string{fmt.Sprint(grant["kind"])}
	for _, r := range v["roles"].([]any) {
		role := r.(map[string]any)
		if role["access"] != "none" && grant["kind"] == "roles" {
			out = append(out, fmt.Sprintf("%v=%v", role["id"], role["access"]))
		}
	}
	if grant["personal_items"] == true {
		out = append(out, "personal")
	}
	if grant["administers"] == true {
		out = append(out, "administers")
	}
	return strings.Join(out, " ")
}

// Decision P3: an edit takes effect on the next request, with the same tokens
// and no reconnect.
func TestP3EditTakesEffectOnTheNextRequest(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	f, tk := h.connected(client, "organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read")
	_, other := h.connected("", treasurer...)
	c := h.caller()
	if got := c.grantOf(tk.access); got != "roles nordlys-treasurer=read" {
		t.Fatalf("before: %s", got)
	}
	b := h.signedIn("ada@nordlys.example")
	for _, step := range []struct {
		choice []string
		want   string
	}{
		{[]string{"role:nordlys-treasurer", "change"}, "roles nordlys-treasurer=change"},
		{[]string{"role:nordlys-facilitator", "read", "personal", "1"}, "roles nordlys-facilitator=read nordlys-treasurer=change personal"},
		{[]string{"role:nordlys-treasurer", "none", "personal", ""}, "roles nordlys-facilitator=read"},
		{[]string{"grant", "organization"}, "organization administers"},
		{[]string{"grant", "roles", "role:nordlys-people-buddy", "read"}, "roles nordlys-people-buddy=read"},
	} {
		a := b.edit(client, step.choice...)
		if a.status != 303 {
			t.Fatalf("%v: %s", step.choice, a)
		}
		if got := c.grantOf(tk.access); got != step.want {
			t.Errorf("%v: the next request finds %q, want %q", step.choice, got, step.want)
		}
		want := 403
		if strings.Contains(step.want, "nordlys-treasurer=change") || strings.Contains(step.want, "organization") {
			want = 201
		}
		if a := c.postJSON("/api/v5/actions", `{"title":"Pay the rent","role":"nordlys-treasurer"}`, header{"Authorization", "Bearer " + tk.access}); a.status != want {
			t.Errorf("%v: as Treasurer, %s; want %d", step.choice, a, want)
		}
		if p := b.page(a.location(t).String()); p.status != 200 || !strings.Contains(p.text(), "can do is changed.") {
			t.Errorf("Connected apps does not say so: %d %s", p.status, p.text())
		}
		// The tokens stay what they are, and new ones are as narrow.
		tk = tokensOf(t, f.refresh(tk.refresh))
		if got := c.grantOf(tk.access); got != step.want {
			t.Errorf("%v: after a refresh %q, want %q", step.choice, got, step.want)
		}
	}
	if got := c.grantOf(other.access); got != "roles nordlys-treasurer=change" {
		t.Errorf("the approval of another client is edited too: %s", got)
	}
	edits := h.items("/v1/events?kind=approval_edited")
	if len(edits) != 5 || edits[0]["person"] != "ada" || edits[0]["client"] != client {
		t.Errorf("journal: %v", edits)
	}
}

// Decision P2: what was overtaken is not saved, and comes back with what is so
// now. What is not this person's to give is refused as at consent, and what is
// not this person's does not exist.
func TestP2EditRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	f, tk := h.connected(client)
	b := h.signedIn("ada@nordlys.example")
	path := h.editPath(client)
	stale, foreign := b.page(path).form(path), b.page(path).form(path)
	if a := b.edit(client, "role:nordlys-people-buddy", "change"); a.status != 303 {
		t.Fatal(a)
	}
	if a := stale.submit("grant", "organization", "decision", "save"); a.status != 409 {
		t.Errorf("overtaken: %s", a)
	} else if v := b.read(a).form(path).values; v.Get("role:nordlys-people-buddy") != "change" || v.Get("grant") != "roles" {
		t.Errorf("overtaken, the page comes back with %v", v)
	}
	for name, choice := range map[string][]string{
		"nothing picked":                 {"role:nordlys-people-buddy", "", "role:nordlys-treasurer", ""},
		"a role that Tor fills":          {"role:nordlys-secretary", "change"},
		"a role in another organization": {"role:fjell-grants-reviewer", "change"},
		"no option":                      {"grant", ""},
	} {
		if a := b.edit(client, choice...); a.status != 422 {
			t.Errorf("%s: status %d, want 422", name, a.status)
		}
	}
	body := foreign.with("grant", "organization", "decision", "save").values.Encode()
	if a := b.send("POST", path, body, header{"Content-Type", "application/x-www-form-urlencoded", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}); a.status != 403 {
		t.Errorf("from another site: %s", a)
	}
	tor := h.signedIn("tor@nordlys.example")
	if a := tor.get(path); a.status != 404 {
		t.Errorf("another person's: %s", a)
	}
	if a := tor.send("POST", path, body, header{"Content-Type", "application/x-www-form-urlencoded", "Origin", h.base}); a.status != 404 {
		t.Errorf("another person's form: %s", a)
	}
	if got := h.caller().grantOf(tk.access); got != "roles nordlys-people-buddy=change nordlys-treasurer=change" {
		t.Errorf("now: %s", got)
	}
	open := b.page(path).form(path)
	f.revoke(tk.access)
	if a := open.submit("grant", "everything", "decision", "save"); a.status != 409 {
		t.Errorf("what the client has ended: %s", a)
	}
	if a := b.get(path); a.status != 409 {
		t.Errorf("the page of what has ended: %s", a)
	}
	if n := len(h.items("/v1/events?kind=approval_edited")); n != 1 {
		t.Errorf("%d edits in the journal, want 1", n)
	}
}

// Of edits at once that want different things, one is saved.
func TestP2EditsAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	client := h.register()
	_, tk := h.connected(client)
	b := h.signedIn("ada@nordlys.example")
	path := h.editPath(client)
	choices := [][]string{{"grant", "everything"}, {"grant", "organization"}, {"personal", "1"}, {"role:nordlys-treasurer", "read"}}
	var forms []*pageForm
	for _, choice := range choices {
		forms = append(forms, b.page(path).form(path).with(choice...))
	}
	answers := make(chan int, len(forms))
	for _, form := range forms {
		go func() { answers <- form.submit("decision", "save").status }()
	}
	var got []int
	for range choices {
		got = append(got, <-answers)
	}
	slices.Sort(got)
	if !slices.Equal(got, []int{303, 409, 409, 409}) {
		t.Errorf("statuses %d, want one 303 and three 409", got)
	}
	if !h.works(tk.access) {
		t.Error("the tokens end")
	}
}

// allowed adds up what the page says of its choice: items that may be changed,
// and that may be read.
func (p *page) allowed() (change, read int) {
	p.b.h.t.Helper()
	found := false
	for _, ul := range p.all("ul") {
		class := strings.Fields(attr(ul, "class"))
		if !slices.Contains(class, "lines") || slices.Contains(class, "later") {
			continue
		}
		found = true
		for li := range ul.ChildNodes() {
			if li.Data != "li" || has(li, "hidden") {
				continue
			}
			for _, n := range regexp.MustCompile(`(\d+) entr`).FindAllStringSubmatch(textOf(li), -1) {
				number, _ := strconv.Atoi(n[1])
				switch lead, _, _ := strings.Cut(textOf(li), n[0]); {
				case strings.HasPrefix(lead, "It may change "), strings.HasPrefix(lead, "It may read and change "):
					change += number
					read += number
				case strings.HasPrefix(lead, "It may read, but not change, "):
					read += number
				}
			}
		}
	}
	if !found {
		p.b.h.t.Fatalf("nothing is said of the choice: %s", p.text())
	}
	return change, read
}

// The preview counts what the client then finds: that many items it can list,
// and that many of them it can change.
func TestPreviewIsWhatTheClientFinds(t *testing.T) {
	t.Parallel()
	h := start(t)
	for email, choices := range map[string][][]string{
		"ada@nordlys.example": {
			{"organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "change", "role:nordlys-people-buddy", "read"},
			{"organization", "nordlys", "grant", "roles", "personal", "1"},
			{"organization", "nordlys", "grant", "everything"},
			{"organization", "nordlys", "grant", "organization"},
			{"organization", "fjell", "grant", "everything"},
		},
		"tor@nordlys.example": {
			{"organization", "nordlys", "grant", "roles", "role:nordlys-secretary", "change", "personal", "1"},
			{"organization", "nordlys", "grant", "everything"},
		},
	} {
		b := h.signedIn(email)
		for _, choice := range choices {
			f := h.flow("")
			p := b.read(b.consent(f).form("/oauth/authorize").submit(append(choice, "action", "preview")...))
			change, read := p.allowed()
			for until := time.Now().Add(time.Minute); read == 0 && time.Now().Before(until); change, read = p.allowed() {
				p = b.read(p.form("/oauth/authorize").submit("action", "preview")) // a page waits 300 ms for numbers
			}
			tk := tokensOf(t, f.exchange(codeOf(t, p.form("/oauth/authorize").submit("decision", "approve"), f)))
			canChange, canRead := h.finds(tk.access)
			if change != canChange || read != canRead || read == 0 {
				t.Errorf("%s, %v: the preview counts %d items to change and %d to read, the client finds %d and %d", email, choice, change, read, canChange, canRead)
			}
		}
	}
}

// finds lists every item that a token reads, and tries to change each.
func (h *house) finds(access string) (change, read int) {
	h.t.Helper()
	c, bearer := h.caller(), header{"Authorization", "Bearer " + access}
	for _, kind := range []string{"tensions", "actions", "projects", "notes"} {
		var list struct {
			Items []struct{ ID, Title string }
			Next  string
		}
		a := c.get("/api/v5/"+kind+"?limit=200", bearer)
		if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 || list.Next != "" {
			h.t.Fatalf("GET %s: %s", kind, a)
		}
		read += len(list.Items)
		for _, i := range list.Items {
			body, _ := json.Marshal(map[string]string{"title": i.Title})
			switch a := c.send("PATCH", "/api/v5/"+kind+"/"+i.ID, string(body), bearer, header{"Content-Type", jsonType}); a.status {
			case 200:
				change++
			case 403:
			default:
				h.t.Fatalf("PATCH %s: %s", i.ID, a)
			}
		}
	}
	return change, read
}
