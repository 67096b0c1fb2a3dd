package consent

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

const impossible = "That choice is no longer possible. Please choose again."

// editable gives a live approval of Ada's with one role to read, and the
// address of the page that edits it.
func (s *site) editable() (ada *pagetest.Browser, id approval.ID, path string) {
	s.T.Helper()
	ada = s.SignedIn("ada")
	id = ada.Connect("grant", "roles", "role:treasurer", "read")
	return ada, id, editPath("nordlys", id)
}

// gives is what an approval gives now.
func (s *site) gives(id approval.ID) string {
	s.T.Helper()
	r, err := s.Store.Approval(context.Background(), id)
	s.Do(err)
	words := string(r.Grant.Kind) + " " + r.Grant.EncodePicks()
	if r.Grant.Personal {
		words += " personal"
	}
	return strings.TrimSpace(words)
}

// edits counts the edits in the journal.
func (s *site) edits() int {
	s.T.Helper()
	s.Do(s.Store.Ready(context.Background()))
	events, _, err := s.Store.Events(context.Background(), store.EventFilter{Kind: "approval_edited"})
	s.Do(err)
	return len(events)
}

// Decision P3: the person edits a live approval with the consent page's form.
func TestEdit(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	var link string
	for _, a := range ada.Get(pagetest.NordlysApps).All(atom.A) {
		if textOf(a) == "Change what it can do…" {
			link = pagetest.Attr(a, "href")
			if label := pagetest.Attr(a, "aria-label"); label != "Change what it can do… of Quill Assistant" {
				t.Errorf("the link is called %q", label)
			}
		}
	}
	p := ada.Get(link).Want(200).Says("Change what an app can do – Svalinn", "Quill Assistant Not checked", "connect.quill.example",
		"Connected 21 November 2026", "Acts in Nordlys Cooperative", "Can do now Only selected roles: Treasurer (read)",
		"1 chosen · 3 roles", "It counts from the app's next request. The app does not have to connect again.")
	form := p.Fill(path)
	if link != path || form.Get("grant") != "roles" || form.Get("role:treasurer") != "read" || form.Get("role:buddy") != "none" || form.Has("personal") ||
		form.Get("organization") != "nordlys" || focus(p) != nil {
		t.Errorf("at first: %v", form)
	}
	if strings.Contains(p.Text(), "Fjell") || strings.Contains(p.Text(), "Choose an organization") || strings.Contains(p.Body, "reviewer") {
		t.Error("the page offers another organization")
	}
	done := p.Press(path, "role:treasurer", "change", "role:buddy", "read", "personal", "1", "decision", "save").Follow().Want(200).
		Says(`What “Quill Assistant” can do is changed. It counts from the app's next request.`,
			"Only selected roles: Treasurer (change), Buddy (read); personal entries included", "Treasurer Nordlys (anchor circle) Change")
	if at := focus(done); at == nil || pagetest.Attr(at, "role") != "status" {
		t.Error("the note does not take the focus")
	}
	if got := s.gives(id); got != "roles buddy=read treasurer=change personal" {
		t.Errorf("gives %q", got)
	}
	if e := s.Event("approval_edited"); e.Client != "quill" || e.Person != "ada" || e.Organization != "nordlys" || e.Approval != id.String() ||
		e.Actor != "person:ada" || e.Address != s.From || e.Reference != "01JD7Q2M8Y" || e.Detail != "roles" {
		t.Errorf("event %+v", e)
	}
	for _, grant := range []string{"everything", "organization"} {
		ada.Get(path).Press(path, "grant", grant, "decision", "save").Follow().Says("is changed.")
		if got := s.gives(id); got != grant {
			t.Errorf("gives %q, want %s", got, grant)
		}
		if got := ada.Get(path).Fill(path); got.Get("grant") != grant {
			t.Errorf("the page has chosen %q, want %s", got.Get("grant"), grant)
		}
	}
	if a, err := s.Store.Check(context.Background(), id); err != nil || a.Approval.Grant.Kind != grantset.Organization || a.Approval.Phase != approval.Live {
		t.Errorf("the next request finds %+v", a.Approval.Grant)
	}
}

// A link can ask for access through a role: that marks the role and chooses nothing.
// What is no role that the person fills, or no access, marks nothing (decision V27).
func TestEditMarksWhatIsAsked(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	plain := ada.Get(path).Want(200)
	for need, want := range map[string]string{
		"treasurer:change": "Treasurer Asked for by the link that you followed: Change. Nothing is chosen by it.",
		"buddy:read":       "Buddy Asked for by the link that you followed: Read. Nothing is chosen by it.",
	} {
		p := ada.Get(path + "?need=" + need).Want(200)
		marked := ""
		for _, f := range p.All(atom.Fieldset) {
			if strings.Contains(pagetest.Attr(f, "class"), "needed") {
				marked += textOf(f)
			}
		}
		name, says, _ := strings.Cut(want, " ")
		if !strings.HasPrefix(marked, name) || strings.Count(marked, says) != 1 || strings.Count(p.Text(), "Asked for by") != 1 {
			t.Errorf("%s marks %q", need, marked)
		}
		if got, want := p.Fill(path), plain.Fill(path); got.Get("role:treasurer") != "read" || got.Get("role:buddy") != "none" || got.Get("grant") != want.Get("grant") || len(got) != len(want) {
			t.Errorf("%s chooses %v", need, got)
		}
	}
	for _, need := range []string{"", "treasurer", "treasurer:", "treasurer:none", "treasurer:CHANGE", ":change", "reviewer:change", "nobody:change", "Treasurer:change",
		"%22%3E%3Cscript%3Ealert(1)%3C%2Fscript%3E:change", "treasurer:change&need=treasurer:change", "%00", strings.Repeat("x", 5000) + ":change"} {
		p := ada.Get(path + "?need=" + need).Want(200)
		if strings.Contains(p.Text(), "Asked for by") || strings.Contains(p.Body, "alert(1)") || strings.Contains(p.Body, "needed") {
			t.Errorf("%.60s marks something", need)
		}
	}
	if got := s.gives(id); got != "roles treasurer=read" || s.edits() != 0 {
		t.Errorf("gives %q", got)
	}
}

// The organization of an approval stays, whatever is sent.
func TestEditStaysInItsOrganization(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	ada.Get(path).Press(path, "organization", "fjell", "role:treasurer", "change", "decision", "save").Want(303)
	ada.Get(path).Press(path, "organization", "fjell", "role:reviewer", "change", "decision", "save").Want(422).Says(impossible)
	form := ada.Get(path).Fill(path)
	form["organization"] = []string{"fjell", "nordlys"}
	form.Set("role:treasurer", "none")
	form.Set("role:buddy", "change")
	form.Set("decision", "save")
	ada.Post(path, form).Want(303)
	if r := s.Approvals("ada")[0]; r.ID != id || r.Organization != "nordlys" || r.Grant.EncodePicks() != "buddy=change" {
		t.Errorf("gives %s in %s", s.gives(id), r.Organization)
	}
}

// ux 5.4: the same rules as at consent.
func TestFaultsOfAnEdit(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	tests := []struct {
		name    string
		changes []string
		says    string
		event   string
	}{
		{"no grant", []string{"grant", ""}, "Choose what the app may do.", ""},
		{"roles without any (decision P4)", []string{"role:treasurer", "none"}, "Choose at least one role, or your personal entries.", ""},
		{"unknown grant", []string{"grant", "all"}, impossible, "not_allowed"},
		{"another person's role (decision P5)", []string{"role:secretary", "read"}, impossible, "not_allowed"},
		{"a role in another organization", []string{"role:reviewer", "read"}, impossible, "not_allowed"},
		{"unknown access", []string{"role:treasurer", "own"}, impossible, "not_allowed"},
		{"personal items of another value", []string{"personal", "2"}, impossible, "not_allowed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := ada.Get(path).Press(path, append([]string{"role:buddy", "none", "decision", "save"}, tt.changes...)...).Want(422)
			p.Says("Error: Change what an app can do – Svalinn", tt.says)
			if strings.Count(p.Text(), tt.says) < 2 {
				t.Error("the fault does not stand on top and next to its group")
			}
			if tt.event != "" {
				if e := s.Event("approval_refused"); e.Reason != tt.event || e.Client != "quill" || e.Person != "ada" {
					t.Errorf("event %+v", e)
				}
			}
			if got := s.gives(id); got != "roles treasurer=read" {
				t.Errorf("gives %q", got)
			}
		})
	}
	// What comes back has everything that was chosen, and works.
	p := ada.Get(path).Press(path, "grant", "", "role:buddy", "change", "personal", "1", "decision", "save").Want(422)
	p.Press(path, "grant", "roles", "role:treasurer", "none", "decision", "save").Want(303)
	if got := s.gives(id); got != "roles buddy=change personal" {
		t.Errorf("gives %q", got)
	}
	tor := s.SignedIn("tor")
	his := tor.Connect()
	at := editPath("nordlys", his)
	if p := tor.Get(at); strings.Contains(p.Body, `value="organization"`) {
		t.Error("the whole organization is offered to somebody who is no admin")
	}
	tor.Get(at).Press(at, "grant", "organization", "decision", "save").Want(422).Says(impossible)
	if got := s.gives(his); got != "everything" {
		t.Errorf("gives %q", got)
	}
}

// ux 5.2 and 5.5: no decision saves nothing, and Enter is none.
func TestNoDecisionOfAnEdit(t *testing.T) {
	s := newSite(t)
	s.items()
	ada, id, path := s.editable()
	chosen := []string{"grant", "roles", "role:treasurer", "change", "role:buddy", "read", "personal", "1"}
	for _, press := range [][]string{
		{}, {"action", "review"}, {"action", "preview"}, {"decision", "yes"}, {"decision", "approve"}, {"bulk", "n:product:none"},
		{"action", "review", "decision", "save"}, {"bulk", "n:product:none", "decision", "save"}, {"action", "preview", "decision", "save"},
	} {
		p := ada.Get(path).Press(path, append(press, chosen...)...).Want(200)
		form := p.Fill(path)
		for i := 0; i < len(chosen); i += 2 {
			if form.Get(chosen[i]) != chosen[i+1] {
				t.Errorf("%v: %s is %q, want %q", press, chosen[i], form.Get(chosen[i]), chosen[i+1])
			}
		}
	}
	form := ada.Get(path).Fill(path)
	form["decision"] = []string{"save", "save"}
	form.Set("grant", "everything")
	ada.Post(path, form).Want(200)
	if b := ada.Get(path).Form(path).FirstChild.NextSibling; pagetest.Attr(b, "name") != "action" || pagetest.Attr(b, "value") != "review" || !pagetest.Has(b, "formnovalidate") {
		t.Errorf("the first button of the form is %v", b.Attr)
	}
	bulk := ada.Get(path).Press(path, "bulk", "n:product:change").Says("4 chosen · 4 roles")
	if got := allows(bulk); !slices.Contains(got, "It may change 14 entries as API Documentation, Customer Interviews, Release Captain and 1 more.") {
		t.Errorf("allows %q", got)
	}
	want := []string{"It may read, but not change, 65 entries.", "It gets nothing of 8 entries that you can see."}
	if got := allows(ada.Get(path)); !slices.Equal(got, want) {
		t.Errorf("at first, it allows %q, want %q", got, want)
	}
	if got := ada.Get(path).Press(path, "role:treasurer", "none", "action", "preview"); !strings.HasPrefix(allows(got)[0], "Nothing yet. ") || focus(got) == nil {
		t.Errorf("without a role, it allows %q", allows(got))
	}
	if got := s.gives(id); got != "roles treasurer=read" || s.edits() != 0 {
		t.Errorf("gives %q after %d edits", got, s.edits())
	}
}

func TestCancelAnEdit(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	p := ada.Get(path)
	p.Press(path, "grant", "all", "role:secretary", "own", "decision", "cancel").Follow().Want(200).Says("Connected apps")
	p.Press(path, "request", "", "decision", "cancel").Want(303)
	s.Do(s.Store.EndApproval(context.Background(), id, approval.RevokedByAdmin, store.Act{Actor: "operator"}))
	if at := p.Press(path, "decision", "cancel").Want(303).Header.Get("Location"); at != pagetest.NordlysApps {
		t.Errorf("leads to %q", at)
	}
	if s.edits() != 0 {
		t.Error("Cancel edits")
	}
}

// Decision P2: a page that was overtaken saves nothing, and comes back with
// what is so now.
func TestStaleEdit(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	one, two, three := ada.Get(path), ada.Get(path), ada.Get(path)
	one.Press(path, "role:treasurer", "none", "role:buddy", "change", "decision", "save").Want(303)
	again := two.Press(path, "grant", "everything", "decision", "save").Want(409).
		Says("This was changed while the page was open, so nothing was saved. Below is what the app can do now. Choose again.",
			"Can do now Only selected roles: Buddy (change)")
	if form := again.Fill(path); form.Get("grant") != "roles" || form.Get("role:buddy") != "change" || form.Get("role:treasurer") != "none" {
		t.Errorf("the page comes back with %v", form)
	}
	if at := focus(again); at == nil || pagetest.Attr(at, "role") != "status" {
		t.Error("the note does not take the focus")
	}
	// What changes nothing is no edit.
	three.Press(path, "decision", "save").Want(409)
	ada.Get(path).Press(path, "decision", "save").Follow().Says("What “Quill Assistant” can do is as it was. You changed nothing.")
	// Nothing but saving makes an overtaken page current.
	two.Press(path, "grant", "everything", "action", "preview").Want(200).Press(path, "decision", "save").Want(409)
	two.Press(path, "grant", "", "decision", "save").Want(422).Press(path, "grant", "everything", "decision", "save").Want(409)
	if got := s.gives(id); got != "roles buddy=change" {
		t.Errorf("gives %q", got)
	}
	// Who wants what is so already has it: a double click, and another tab.
	one.Press(path, "role:treasurer", "none", "role:buddy", "change", "decision", "save").Want(303)
	three.Press(path, "role:treasurer", "none", "role:buddy", "change", "decision", "save").Follow().Says("is changed.")
	if n := s.edits(); n != 1 {
		t.Errorf("%d edits, want 1", n)
	}
	again.Press(path, "grant", "everything", "decision", "save").Want(303)
	if got := s.gives(id); got != "everything" {
		t.Errorf("gives %q", got)
	}
}

// Of pages that are saved at once, one is right and all others are told.
func TestEditsAtOnce(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	page := ada.Get(path)
	roles := []string{"facilitator", "buddy", "workspace-host", "roadmap-steward", "api-documentation", "release-captain", "customer-interviews", "circle-rep-product"}
	var mu sync.Mutex
	var saved []string
	var wg sync.WaitGroup
	for _, role := range roles {
		form := page.Fill(path)
		form.Set("role:treasurer", "none")
		form.Set("role:"+role, "change")
		form.Set("decision", "save")
		b := s.Browser()
		b.Cookies[b.CookieName("session")] = ada.Cookies[ada.CookieName("session")]
		wg.Go(func() {
			switch p := b.Post(path, form); p.Status {
			case 303:
				mu.Lock()
				defer mu.Unlock()
				saved = append(saved, role)
			case 409:
			default:
				t.Errorf("%s: status %d", role, p.Status)
			}
		})
	}
	wg.Wait()
	if len(saved) != 1 || s.gives(id) != "roles "+saved[0]+"=change" || s.edits() != 1 {
		t.Errorf("saved %v, gives %q after %d edits", saved, s.gives(id), s.edits())
	}
}

// Of clicks at once that want the same, none is an error, and one edits.
func TestSameEditAtOnce(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	for round := range 10 {
		form := ada.Get(path).Fill(path)
		form.Set("role:treasurer", []string{"change", "read"}[round%2])
		form.Set("decision", "save")
		var wg sync.WaitGroup
		for range 8 {
			b := s.Browser()
			b.Cookies[b.CookieName("session")] = ada.Cookies[ada.CookieName("session")]
			wg.Go(func() {
				if p := b.Post(path, form); p.Status != 303 {
					t.Errorf("status %d: %s", p.Status, p.Text())
				}
			})
		}
		wg.Wait()
		if n := s.edits(); n != round+1 {
			t.Fatalf("%d edits, want %d", n, round+1)
		}
	}
	if got := s.gives(id); got != "roles treasurer=read" {
		t.Errorf("gives %q", got)
	}
}

// An approval that ends while it is saved is not edited after that.
func TestEditWhileItEnds(t *testing.T) {
	s := newSite(t)
	for round := range 30 {
		ada, id, path := s.editable()
		page := ada.Get(path)
		var wg sync.WaitGroup
		wg.Go(func() {
			s.Do(s.Store.EndApproval(context.Background(), id, approval.RevokedByAdmin, store.Act{Actor: "operator"}))
		})
		want := map[int]string{303: "everything", 409: "roles treasurer=read"}[page.Press(path, "grant", "everything", "decision", "save").Status]
		wg.Wait()
		if got := s.gives(id); got != want {
			t.Fatalf("round %d: gives %q, want %q", round, got, want)
		}
	}
}

// As at consent: what ends between showing and saving.
func TestFactsLostWhileAnEditIsOpen(t *testing.T) {
	ctx, operator := context.Background(), store.Act{Actor: "operator"}
	const over = "This connection has ended."
	tests := []struct {
		name   string
		lose   func(*site, approval.ID)
		press  []string
		status int
		says   string
	}{
		{"AI integration", func(s *site, _ approval.ID) { s.Do(s.Store.SetIntegration(ctx, "nordlys", false, operator)) }, nil, 409, over},
		{"AI integration, and back on", func(s *site, _ approval.ID) {
			s.Do(s.Store.SetIntegration(ctx, "nordlys", false, operator))
			s.Do(s.Store.SetIntegration(ctx, "nordlys", true, operator))
		}, nil, 409, over},
		{"admin right", func(s *site, _ approval.ID) { s.Do(s.Store.SetAdmin(ctx, "nordlys", "ada", false, operator)) },
			[]string{"grant", "organization"}, 422, impossible},
		{"role", func(s *site, _ approval.ID) { s.Do(s.Store.SetFiller(ctx, "buddy", "ada", false, operator)) },
			[]string{"grant", "roles", "role:buddy", "read"}, 422, impossible},
		{"membership", func(s *site, _ approval.ID) { s.Do(s.Store.RemoveMember(ctx, "nordlys", "ada", operator)) }, nil, 404, "There is no such page."},
		{"client disabled", func(s *site, _ approval.ID) { s.Do(s.Store.SetClientEnabled(ctx, "quill", false, operator)) }, nil, 409, over},
		{"revoked", func(s *site, id approval.ID) { s.Do(s.Store.EndApproval(ctx, id, approval.RevokedByPerson, operator)) }, nil, 409, over},
		{"an old key came back", func(s *site, id approval.ID) { s.Do(s.Store.EndApproval(ctx, id, approval.RefreshReused, operator)) }, nil, 409, over},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSite(t)
			ada, id, path := s.editable()
			page := ada.Get(path)
			tt.lose(s, id)
			change := tt.press
			if change == nil {
				change = []string{"grant", "everything"}
			}
			page.Press(path, append(change, "decision", "save")...).Want(tt.status).Says(tt.says)
			if got := s.gives(id); got != "roles treasurer=read" || s.edits() != 0 {
				t.Errorf("gives %q after %d edits", got, s.edits())
			}
			if tt.says == over { // and no page leads on from here
				page.Press(path, "decision", "save").Want(409).Says(over)
				page.Press(path, "action", "preview").Want(409).Says(over, "Nothing was saved.")
				ada.Get(path).Want(409).Says(over)
				if list := ada.Get(pagetest.NordlysApps); strings.Contains(list.Body, "/edit") {
					t.Error("what has ended can be edited")
				}
			}
		})
	}
}

// Between looking and writing, too: saved is what was allowed, and nothing else.
func TestEditWhileARightIsLost(t *testing.T) {
	s := newSite(t)
	operator := store.Act{Actor: "operator"}
	ctx := context.Background()
	for round := range 30 {
		ada, id, path := s.editable()
		page := ada.Get(path)
		var wg sync.WaitGroup
		wg.Go(func() { s.Do(s.Store.SetAdmin(ctx, "nordlys", "ada", false, operator)) })
		want := map[int]string{303: "organization", 422: "roles treasurer=read"}[page.Press(path, "grant", "organization", "decision", "save").Status]
		wg.Wait()
		if got := s.gives(id); got != want {
			t.Fatalf("round %d: gives %q, want %q", round, got, want)
		}
		s.Do(s.Store.SetAdmin(ctx, "nordlys", "ada", true, operator))
	}
}

// only one's own, and only what lives.
func TestEditOnlyOwn(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	form := ada.Get(path).Fill(path)
	form.Set("grant", "everything")
	form.Set("decision", "save")
	tor := s.SignedIn("tor")
	his := url.Values{"csrf": {tor.Get("/").Fill("/signout").Get("csrf")}}
	for name, values := range form {
		if name != "csrf" {
			his[name] = values
		}
	}
	tor.Get(path).Want(404)
	tor.Post(path, his).Want(404)
	for _, elsewhere := range []string{editPath("fjell", id), editPath("nowhere", id), editPath("nordlys", approval.ID{}),
		pagetest.NordlysApps + "/" + strings.ToUpper(id.String()) + "/edit", pagetest.NordlysApps + "/x/edit", pagetest.NordlysApps + "/%00/edit", pagetest.NordlysApps + "/quill/edit"} {
		if elsewhere == path { // an ID without letters
			continue
		}
		ada.Get(elsewhere).Want(404)
		ada.Post(elsewhere, form).Want(404)
	}
	// One that has not been connected yet cannot be edited yet.
	page := ada.Get(pagetest.Authorize())
	code := page.Approve().Sent(pagetest.Callback).Get("code")
	waiting := approval.ID(s.Claim(code).Handle.ID())
	ada.Get(editPath("nordlys", waiting)).Want(404)
	if p := ada.Get(pagetest.NordlysApps); strings.Count(p.Text(), "Change what it can do…") != 1 || !strings.Contains(p.Body, path) {
		t.Error("what waits for its app can be edited")
	}
	// The page of one approval says nothing of another, and no other page does.
	other := ada.Connect("grant", "roles", "role:treasurer", "read")
	ada.Post(editPath("nordlys", other), form).Want(400)
	form.Set("request", page.Fill("/oauth/authorize").Get("request"))
	ada.Post(path, form).Want(400)
	form.Set("request", "1.x")
	ada.Post(path, form).Want(400)
	consent := page.Fill("/oauth/authorize")
	consent.Set("request", ada.Get(path).Fill(path).Get("request"))
	ada.Post("/oauth/authorize", consent).Want(400)
	if got := s.gives(id) + ", " + s.gives(other); got != "roles treasurer=read, roles treasurer=read" || s.edits() != 0 {
		t.Errorf("give %s after %d edits", got, s.edits())
	}
}

// Saving needs the session, its form token, and no sign of another origin.
func TestEditIsGuarded(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	page := ada.Get(path)
	change := []string{"grant", "everything", "decision", "save"}
	page.Press(path, append(change, "csrf", "")...).Want(403).Says("Nothing was changed.")
	page.Press(path, append(change, "csrf", s.SignedIn("ada").Get("/").Fill("/signout").Get("csrf"))...).Want(403)
	for header, value := range map[string]string{"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"} {
		ada.Header.Set(header, value)
		page.Press(path, change...).Want(403).Says("This form came from another site.")
		ada.Header.Del(header)
	}
	form := page.Fill(path)
	form.Set("grant", "everything")
	form.Set("decision", "save")
	ada.Post(path, pagetest.Many(form, 5000)).Want(413)
	ada.Header.Set("Content-Type", "text/plain")
	ada.Post(path, form).Want(400)
	ada.Header.Del("Content-Type")
	s.Browser().Get(path).Follow().Want(200).Says("Sign in")
	if got := s.gives(id); got != "roles treasurer=read" || s.edits() != 0 {
		t.Errorf("gives %q after %d edits", got, s.edits())
	}

	// Signed out meanwhile (ux 5.7): sign-in, then the page with the choices.
	ada.Cookies = map[string]string{}
	back := pagetest.SignIn(page.Press(path, "grant", "roles", "role:treasurer", "change", "role:buddy", "read", "decision", "save").Follow().Want(200), "ada@nordlys.example", pagetest.Password).Follow().Want(200)
	if form := back.Fill(path); form.Get("role:treasurer") != "change" || form.Get("role:buddy") != "read" {
		t.Errorf("after signing in: %v", form)
	}
	back.Press(path, "decision", "save").Want(303)
	if got := s.gives(id); got != "roles buddy=read treasurer=change" {
		t.Errorf("gives %q", got)
	}
}

// Decision P5: a role that was lost stays listed until somebody saves.
func TestEditWithLostRoles(t *testing.T) {
	s := newSite(t)
	operator := store.Act{Actor: "operator"}
	ada := s.SignedIn("ada")
	id := ada.Connect("grant", "roles", "role:treasurer", "change", "role:buddy", "read", "role:facilitator", "read")
	path := editPath("nordlys", id)
	s.Do(s.Store.SetFiller(context.Background(), "buddy", "ada", false, operator))
	ada.Get(pagetest.NordlysApps).Says("Buddy People & Onboarding None now", "Only selected roles: Treasurer (change), Facilitator (read)")
	if got := allows(ada.Get(path)); len(got) == 0 || got[0] != "It may change what Treasurer may change." {
		t.Errorf("allows %q", got)
	}
	p := ada.Get(path).Says("You no longer fill this role, so the app can do nothing through it: Buddy. Saving takes it out.")
	s.Do(s.Store.SetFiller(context.Background(), "facilitator", "ada", false, operator))
	ada.Get(path).Says("You no longer fill these roles, so the app can do nothing through them: Facilitator, Buddy. Saving takes them out.")
	p.Press(path, "role:facilitator", "none", "decision", "save").Want(303)
	if got := s.gives(id); got != "roles treasurer=change" {
		t.Errorf("gives %q", got)
	}
	if p := ada.Get(path); strings.Contains(p.Text(), "no longer fill") {
		t.Error("still said to be lost")
	}
	// Decision P6: a whole organization given by somebody who is no admin now.
	ada.Get(path).Press(path, "grant", "organization", "decision", "save").Want(303)
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", false, operator))
	p = ada.Get(path).Says("Can do now Everything in this organization You are not an admin now, so it can do only what you can.")
	if form := p.Fill(path); form.Has("grant") {
		t.Errorf("chosen: %q", form.Get("grant"))
	}
	p.Press(path, "decision", "save").Want(422).Says("Choose what the app may do.")
	p.Press(path, "grant", "everything", "decision", "save").Want(303)
}

// The note is true or absent, whatever the address says.
func TestEditedNote(t *testing.T) {
	s := newSite(t)
	ada, id, path := s.editable()
	said := func(b *pagetest.Browser, at string) bool {
		return strings.Contains(b.Get(at).Want(200).Text(), "can do is changed.")
	}
	at := ada.Get(path).Press(path, "grant", "everything", "decision", "save").Want(303).Header.Get("Location")
	for range 2 { // also when the page is read again
		if !said(ada, at) {
			t.Error("the note is not there")
		}
	}
	sealed := s.SealPath(id.String() + " 2026-11-21T10:00:00Z")
	for _, claim := range []string{"", "x", id.String(), sealed} {
		if said(ada, pagetest.NordlysApps+"?changed="+url.QueryEscape(claim)) {
			t.Errorf("claimed by %q", claim)
		}
	}
	if said(s.SignedIn("tor"), at) {
		t.Error("said to another person")
	}
	s.Pass(5 * time.Minute)
	if said(ada, at) {
		t.Error("said after five minutes")
	}
	at = ada.Get(path).Press(path, "grant", "organization", "decision", "save").Want(303).Header.Get("Location")
	s.Do(s.Store.EndApproval(context.Background(), id, approval.RevokedByPerson, store.Act{Actor: "person:ada"}))
	if said(ada, at) {
		t.Error("said of what has ended")
	}
}

// As many roles as the consent page takes.
func TestEditManyRoles(t *testing.T) {
	s := newSite(t)
	s.many(1200)
	mei := s.SignedIn("mei")
	form := mei.Get(pagetest.Authorize("organization", "storhavn")).Fill("/oauth/authorize")
	form.Set("organization", "storhavn") // the address only shows its roles
	form.Set("decision", "approve")
	for i := range 1200 {
		form.Set("role:r"+strconv.Itoa(i), "change")
	}
	code := mei.Post("/oauth/authorize", form).Sent(pagetest.Callback).Get("code")
	if v := s.Exchange(code); v != approval.OK {
		t.Fatalf("exchange: %v", v)
	}
	id := approval.ID(s.Claim(code).Handle.ID())
	path := editPath("storhavn", id)
	p := mei.Get(path).Want(200)
	if form := p.Fill(path); form.Get("role:r1199") != "change" {
		t.Error("not all roles are in the page")
	}
	mei.Header.Set("Accept-Encoding", "gzip")
	mei.Header.Set("Sec-Fetch-Site", "same-origin")
	if got := mei.Get(path).Header.Get("Content-Encoding"); got != "gzip" {
		t.Error("not compressed")
	}
	p.Press(path, "role:r7", "none", "decision", "save").Want(303)
	if r, err := s.Store.Approval(context.Background(), id); err != nil || len(r.Grant.Picks) != 1199 || r.Grant.Access("r7") != "none" {
		t.Errorf("%d roles, %v", len(r.Grant.Picks), err)
	}
}

// A client without a name is named by its host.
func TestEditOfNamelessClient(t *testing.T) {
	s := newSite(t)
	s.Register(client.Client{ID: "noname", RedirectURIs: []string{pagetest.Callback}})
	ada := s.SignedIn("ada")
	code := ada.Get(pagetest.Authorize("client_id", "noname")).Approve().Sent(pagetest.Callback).Get("code")
	c := s.Claim(code)
	_, v, err := s.Store.Apply(context.Background(), approval.ID(c.Handle.ID()),
		approval.Exchange("noname", s.At, pagetest.Callback, pagetest.Verifier, c.Time, 1, s.Store.Now()), store.Act{Actor: "client:noname"})
	if s.Do(err); v != approval.OK {
		t.Fatalf("exchange: %v", v)
	}
	path := editPath("nordlys", approval.ID(c.Handle.ID()))
	ada.Get(path).Says("connect.quill.example No name Not checked").Press(path, "grant", "organization", "decision", "save").
		Follow().Says(`What “connect.quill.example” can do is changed.`)
}

// Whoever was removed between two looks at the store is no member, and no
// fault of ours.
func TestEditOfWhoIsNoMemberAnyMore(t *testing.T) {
	s := newSite(t)
	_, id, path := s.editable()
	r, err := s.Store.Approval(t.Context(), id)
	s.Do(err)
	w := httptest.NewRecorder()
	v := &page.Visit{W: w, R: httptest.NewRequest("GET", s.At+path, nil), Base: s.At, Now: s.Clock.Now(), Session: "x"}
	v.Person.ID = "ada"
	if err := s.showEdit(v, editing{row: r}, r.Grant, choices{}, showing{status: 200}); !errors.Is(err, page.ErrNoPage) {
		t.Errorf("got %v and %q, want %v", err, w.Body, page.ErrNoPage)
	}
}
