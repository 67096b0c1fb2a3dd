package consent

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// titled is an item as the service behind keeps it.
type titled struct {
	org.Item
	title string
}

// put has the service keep n more items that stand alike.
func (s *site) put(n int, title string, i org.Item) {
	s.T.Helper()
	if i.Role != "" {
		r, err := s.Store.Role(context.Background(), i.Organization, i.Role)
		s.Do(err)
		i.Circle = r.Circle
	}
	for range n {
		s.kept = append(s.kept, titled{i, title})
	}
}

// previews answers for the service, as one would that decides each of its items
// by the authority that a call brings.
func (s *site) previews(_ context.Context, _ string, sets []grantset.Authority) (identity.PreviewAnswer, bool) {
	var answer identity.PreviewAnswer
	for _, a := range sets {
		p := identity.Preview{Change: &identity.PreviewPart{}, Read: &identity.PreviewPart{}, Personal: &identity.PreviewPart{}, Not: &identity.PreviewPart{}}
		for _, i := range s.kept {
			part := p.Not
			switch {
			case !a.Member().MayRead(i.Item):
				continue
			case i.Personal() && a.MayChange(i.Item):
				part = p.Personal
			case a.MayChange(i.Item):
				part = p.Change
			case a.MayRead(i.Item):
				part = p.Read
			}
			if part.Count++; len(part.Titles) < identity.PreviewTitles {
				part.Titles = append(part.Titles, i.title)
			}
		}
		answer.Sets = append(answer.Sets, p)
	}
	return answer, true
}

// items furnishes the organization nordlys: Ada, an admin there, sees all but
// what is Tor's own.
func (s *site) items() {
	s.T.Helper()
	s.Preview = s.previews
	of := func(role string, private bool) org.Item {
		return org.Item{Organization: "nordlys", Role: role, Private: private}
	}
	s.put(9, "x", of("treasurer", false))
	s.put(3, "x", of("treasurer", true))
	s.put(4, "x", of("facilitator", true))
	s.put(5, "x", of("secretary", true)) // in the circle of both, and Tor's
	s.put(31, "x", of("secretary", false))
	s.put(1, "x", of("buddy", false))
	s.put(12, "x", of("roadmap-steward", false))
	s.put(2, "x", of("release-captain", true))
	s.put(1, "x", of("workspace-host", true))
	s.put(5, "x", org.Item{Organization: "nordlys", Person: "ada"})
	s.put(1, "x", org.Item{Organization: "nordlys", Person: "tor"})
	s.put(1, "x", org.Item{Organization: "fjell", Role: "reviewer"})
}

// allows gives what a page says that its choice gives, line by line.
func allows(p *pagetest.Shown) (lines []string) {
	p.T.Helper()
	for _, ul := range current(p) {
		for li := range ul.ChildNodes() {
			if li.DataAtom == atom.Li && !pagetest.Has(li, "hidden") {
				lines = append(lines, textOf(li))
			}
		}
	}
	return lines
}

// current is the list of the choice that the page came with.
func current(p *pagetest.Shown) (lists []*html.Node) {
	for _, ul := range p.All(atom.Ul) {
		if class := " " + pagetest.Attr(ul, "class") + " "; strings.Contains(class, " lines ") && !strings.Contains(class, " later ") {
			lists = append(lists, ul)
		}
	}
	return lists
}

// textOf is what is seen of an element, but for the titles that open below it.
func textOf(n *html.Node) string {
	var b strings.Builder
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		for d := range n.ChildNodes() {
			switch {
			case d.Type == html.TextNode:
				b.WriteString(d.Data)
			case !pagetest.Has(d, "hidden") && d.DataAtom != atom.Details:
				walk(d)
			}
		}
	}
	walk(n)
	return strings.Join(strings.Fields(b.String()), " ")
}

// What each choice allows, in words: the button needs no script.
func TestPreview(t *testing.T) {
	s := newSite(t)
	s.items()
	tests := []struct {
		name, person string
		choice       []string
		want         []string // with an answer of the service
		plain        []string // and without
	}{
		{"no role", "ada", []string{"organization", "nordlys", "grant", "roles"},
			[]string{"Nothing yet. Choose at least one role, or your personal entries."},
			[]string{"Nothing yet. Choose at least one role, or your personal entries."}},
		{"one role to change", "ada", []string{"organization", "nordlys", "grant", "roles", "role:treasurer", "change"},
			[]string{"It may change 12 entries as Treasurer.", "It may read, but not change, 53 entries.", "It gets nothing of 8 entries that you can see."},
			[]string{"It may change what Treasurer may change.", "It may read what Treasurer can see, and what every member can see."}},
		{"one role to read", "ada", []string{"organization", "nordlys", "grant", "roles", "role:treasurer", "read"},
			[]string{"It may read, but not change, 65 entries.", "It gets nothing of 8 entries that you can see."},
			[]string{"It may read what Treasurer can see, and what every member can see."}},
		{"a role without items", "ada", []string{"organization", "nordlys", "grant", "roles", "role:circle-rep-product", "change"},
			[]string{"It may change what there will be as Circle Rep: Product (nothing now).", "It may read, but not change, 65 entries.", "It gets nothing of 8 entries that you can see."},
			[]string{"It may change what Circle Rep: Product may change.", "It may read what Circle Rep: Product can see, and what every member can see."}},
		{"roles to read and to change, and personal items", "ada", []string{"organization", "nordlys", "grant", "roles", "role:treasurer", "change",
			"role:facilitator", "change", "role:buddy", "read", "role:roadmap-steward", "read", "personal", "1"},
			[]string{"It may change 16 entries as Facilitator, Treasurer, and 5 entries of your own.", "It may read, but not change, 52 entries."},
			[]string{"It may change what Facilitator, Treasurer may change, and your personal entries.",
				"It may read what Facilitator, Treasurer, Buddy and 1 more can see, and what every member can see."}},
		{"to change and to read in one circle", "ada", []string{"organization", "nordlys", "grant", "roles", "role:treasurer", "change", "role:facilitator", "read"},
			[]string{"It may change 12 entries as Treasurer.", "It may read, but not change, 53 entries.", "It gets nothing of 8 entries that you can see."},
			[]string{"It may change what Treasurer may change.", "It may read what Facilitator can see, and what every member can see."}},
		{"more roles than are named", "ada", []string{"organization", "nordlys", "grant", "roles", "role:treasurer", "change", "role:facilitator", "change",
			"role:circle-rep-product", "change", "role:buddy", "change", "role:release-captain", "change"},
			[]string{"It may change 19 entries as Circle Rep: Product, Facilitator, Treasurer and 2 more.", "It may read, but not change, 49 entries.", "It gets nothing of 5 entries that you can see."},
			[]string{"It may change what Circle Rep: Product, Facilitator, Treasurer and 2 more may change.",
				"It may read what Circle Rep: Product, Facilitator, Treasurer and 2 more can see, and what every member can see."}},
		{"one item", "ada", []string{"organization", "nordlys", "grant", "roles", "role:buddy", "change"},
			[]string{"It may change 1 entry as Buddy.", "It may read, but not change, 53 entries.", "It gets nothing of 19 entries that you can see."},
			[]string{"It may change what Buddy may change.", "It may read what Buddy can see, and what every member can see."}},
		{"everything of an admin", "ada", []string{"organization", "nordlys", "grant", "everything"},
			[]string{"It may change all that you can: 68 entries, and 5 entries of your own.",
				"It may administer circles, roles, members and settings.", "What you may do later, it may do too."},
			[]string{"It may read and change all that you can.", "It may administer circles, roles, members and settings.", "What you may do later, it may do too."}},
		{"the whole organization", "ada", []string{"organization", "nordlys", "grant", "organization"},
			[]string{"It may read and change everything in Nordlys Cooperative, what is private in every circle too: 68 entries.",
				"It may administer circles, roles, members and settings.", "It gets nothing of personal entries, yours included."},
			[]string{"It may read and change everything in Nordlys Cooperative, what is private in every circle too.",
				"It may administer circles, roles, members and settings.", "It gets nothing of personal entries, yours included."}},
		{"none personal", "ada", []string{"organization", "fjell", "grant", "roles", "personal", "1"},
			[]string{"It may change your personal entries (none now).", "It may read, but not change, 1 entry."},
			[]string{"It may change your personal entries.", "It may read what every member can see."}},
		{"everything of a member, who is not told of private items elsewhere", "tor", []string{"organization", "nordlys", "grant", "everything"},
			[]string{"It may change all that you can: 36 entries, and 1 entry of your own.", "It may read, but not change, 29 entries.", "What you may do later, it may do too."},
			[]string{"It may read and change all that you can.", "What you may do later, it may do too."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := s.SignedIn(tt.person).Get(pagetest.Authorize()).Press("/oauth/authorize", append(tt.choice, "action", "preview")...).Want(200)
			if got := allows(p); !slices.Equal(got, tt.want) {
				t.Errorf("allows\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			form := p.Fill("/oauth/authorize")
			for i := 0; i < len(tt.choice); i += 2 {
				if form.Get(tt.choice[i]) != tt.choice[i+1] {
					t.Errorf("%s is not kept", tt.choice[i])
				}
			}
			if at := focus(p); !strings.Contains(renderText(at), `id="allows"`) || pagetest.Attr(at, "role") != "status" {
				t.Error("the preview does not take the focus")
			}
			// It is there with every other answer, and takes no focus.
			again := p.Press("/oauth/authorize", "action", "review").Want(200)
			if !slices.Equal(allows(again), tt.want) || focus(again) != nil {
				t.Errorf("after Review: %q", allows(again))
			}
			// And the script gets the same.
			if got := allows(script(p)); !slices.Equal(got, tt.want) {
				t.Errorf("to the script: %q", got)
			}
			s.Preview = nil
			defer func() { s.Preview = s.previews }()
			for _, p := range []*pagetest.Shown{p.Press("/oauth/authorize", "action", "review"), script(p)} {
				if got := allows(p.Want(200)); !slices.Equal(got, tt.plain) || strings.ContainsAny(strings.Join(got, ""), "0123456789") != strings.Contains(strings.Join(tt.plain, ""), " more ") {
					t.Errorf("without an answer: %q, want %q", got, tt.plain)
				}
			}
		})
	}
	s.Nothing("ada")
}

// Below a line stand the first titles of what it counts, and of nothing else.
func TestTitles(t *testing.T) {
	s := newSite(t)
	put := func(n int, title string, of org.Item) {
		of.Organization = "nordlys"
		for range n {
			s.put(1, fmt.Sprint(title, len(s.kept)), of)
		}
	}
	put(1, "budget ", org.Item{Role: "treasurer"})
	put(25, "<i>closed</i> ", org.Item{Role: "treasurer", Private: true})
	put(2, "minutes ", org.Item{Role: "secretary"})
	put(2, "elsewhere ", org.Item{Role: "buddy", Private: true})
	put(1, "for all ", org.Item{Role: "buddy"})
	put(1, "Tor's own ", org.Item{Person: "tor"})
	put(1, "Ada's own ", org.Item{Person: "ada"})
	s.Preview = s.previews
	closed := func(n int) (titles []string) {
		for i := range n {
			titles = append(titles, fmt.Sprintf("<i>closed</i> %d", i+1))
		}
		return titles
	}
	for _, tt := range []struct {
		person string
		choice []string
		want   [][]string // of each line that has titles
	}{
		{"tor", []string{"grant", "roles"}, nil},
		{"tor", []string{"grant", "roles", "role:secretary", "change"}, [][]string{{"minutes 26", "minutes 27"}, append(append([]string{"budget 0"}, closed(19)...), "and 7 more")}},
		{"tor", []string{"grant", "roles", "personal", "1"}, [][]string{{"Tor's own 31"}, {"budget 0", "minutes 26", "minutes 27", "for all 30"}}},
		{"tor", []string{"grant", "everything"}, [][]string{{"minutes 26", "minutes 27", "Tor's own 31"}, append(append([]string{"budget 0"}, closed(19)...), "and 7 more")}},
		{"ada", []string{"grant", "roles", "role:treasurer", "change", "personal", "1"}, [][]string{append(append([]string{"budget 0"}, closed(19)...), "and 7 more"), {"minutes 26", "minutes 27", "for all 30"}}},
		{"ada", []string{"grant", "organization"}, [][]string{append(append([]string{"budget 0"}, closed(19)...), "and 11 more")}},
	} {
		p := s.SignedIn(tt.person).Get(pagetest.Authorize()).Press("/oauth/authorize", append(tt.choice, "organization", "nordlys", "action", "preview")...).Want(200)
		got := titles(p)
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s, %v: %q, want %q", tt.person, tt.choice, got, tt.want)
		}
		openedBy(p)
		if tt.person == "tor" && (strings.Contains(p.Body, "elsewhere") || strings.Contains(p.Body, "Ada&#39;s own")) {
			t.Errorf("%v: the page names what Tor does not see", tt.choice)
		}
	}
}

// openedBy holds what opens titles to a name of its own for each line, which
// begins with what is seen (WCAG 2.5.3).
func openedBy(p *pagetest.Shown) {
	p.T.Helper()
	named := map[string]bool{}
	for _, ul := range current(p) {
		for li := range ul.ChildNodes() {
			for n := range li.Descendants() {
				if n.DataAtom != atom.Summary {
					continue
				}
				want := "What exactly? " + strings.TrimSuffix(textOf(li), ".")
				if name := pagetest.Attr(n, "aria-label"); name != want || named[name] {
					p.T.Errorf("titles are opened by %q, want %q, once", name, want)
				}
				named[pagetest.Attr(n, "aria-label")] = true
			}
		}
	}
}

// titles are those below each line of what the page came with.
func titles(p *pagetest.Shown) (got [][]string) {
	for _, ul := range current(p) {
		for n := range ul.Descendants() {
			if n.DataAtom != atom.Details {
				continue
			}
			var titles []string
			for li := range n.Descendants() {
				if li.DataAtom == atom.Li {
					titles = append(titles, textOf(li))
				}
			}
			got = append(got, titles)
		}
	}
	return got
}

// script sends the form of a page as its script does, without the buttons.
func script(p *pagetest.Shown, changes ...string) *pagetest.Shown {
	p.T.Helper()
	form := p.Fill("/oauth/authorize")
	for i := 0; i < len(changes); i += 2 {
		form.Set(changes[i], changes[i+1])
	}
	return p.B.Post("/oauth/authorize/preview", form)
}

// Decision V51: what a service leaves out is not said, and counts that stopped are least ones.
func TestPreviewInPart(t *testing.T) {
	s := newSite(t)
	var told identity.Preview
	s.Preview = func(_ context.Context, _ string, sets []grantset.Authority) (identity.PreviewAnswer, bool) {
		return identity.PreviewAnswer{Sets: slices.Repeat([]identity.Preview{told}, len(sets))}, true
	}
	n := func(count int, titles ...string) *identity.PreviewPart {
		return &identity.PreviewPart{Count: count, Titles: titles}
	}
	may := "It may change what Treasurer may change, and your personal entries."
	read := "It may read what Treasurer can see, and what every member can see."
	for _, tt := range []struct {
		told       identity.Preview
		roles, all []string
		titles     [][]string // of roles
	}{
		{identity.Preview{}, []string{may, read}, []string{"It may read and change all that you can."}, nil},
		{identity.Preview{Change: n(1234)}, []string{"It may change 1,234 entries as Treasurer, and your personal entries.", read},
			[]string{"It may change all that you can: 1,234 entries, and your personal entries."}, nil},
		{identity.Preview{Personal: n(0), Read: n(1)}, []string{"It may change what Treasurer may change, and your personal entries (none now).", "It may read, but not change, 1 entry."},
			[]string{"It may read and change all that you can."}, nil},
		{identity.Preview{Read: n(0), Not: n(0)}, []string{may}, []string{"It may read and change all that you can."}, nil},
		{identity.Preview{Change: n(3, "a", "b")}, []string{"It may change 3 entries as Treasurer, and your personal entries."}, nil, [][]string{{"a", "b", "and 1 more"}}},
		{identity.Preview{Not: n(2)}, []string{may, read, "It gets nothing of 2 entries that you can see."}, []string{"It may read and change all that you can."}, nil},
		{identity.Preview{Change: n(12, "<b>rolls</b>", "x"), Read: n(0), Personal: n(0), Not: n(0), More: true},
			[]string{"It may change at least 12 entries as Treasurer, and your personal entries.", read},
			[]string{"It may change all that you can: at least 12 entries, and your personal entries."}, [][]string{{"<b>rolls</b>", "x", "and more"}}},
	} {
		told = tt.told
		for grant, want := range map[string][]string{"roles": tt.roles, "everything": tt.all} {
			p := s.SignedIn("ada").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "fjell", "grant", grant, "role:treasurer", "", "action", "preview",
				"organization", "nordlys", "role:treasurer", "change", "personal", "1").Want(200)
			got := allows(p)
			if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
				t.Errorf("%+v, %s: %q, want %q", tt.told, grant, got, want)
			}
			if grant == "roles" && !reflect.DeepEqual(titles(p), tt.titles) {
				t.Errorf("%+v: titles %q, want %q", tt.told, titles(p), tt.titles)
			}
		}
	}
}

// Numbers stand beside the organization that they were asked of.
func TestPreviewOfOneOrganization(t *testing.T) {
	s := newSite(t)
	s.items()
	p := s.SignedIn("ada").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "everything", "action", "preview")
	if n := strings.Count(p.Says("It may read and change all that you can.").Text(), "all that you can: "); n != 1 {
		t.Errorf("%d lists have numbers", n)
	}
}

// Where a service has no personal entries, nothing speaks of them.
func TestNothingPersonal(t *testing.T) {
	s := newSite(t)
	s.items()
	s.impersonal()
	ada := s.SignedIn("ada")
	for _, grant := range []string{"roles", "everything", "organization"} {
		p := ada.Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", grant, "action", "preview").Want(200)
		if strings.Contains(renderText(p.Doc), "personal entries") || strings.Contains(renderText(p.Doc), "of your own") || strings.Contains(p.Body, `name="personal"`) {
			t.Errorf("%s: %q", grant, allows(p))
		}
	}
	ada.Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "decision", "approve").Want(422).Says("Choose at least one role.")
	ada.Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", "nordlys", "grant", "roles", "role:treasurer", "read", "personal", "1", "decision", "approve").Want(422).Says(impossible)
}

// impersonal starts the site again for a service without personal entries.
func (s *site) impersonal() {
	s.T.Helper()
	at := s.Place
	s.Do(s.Store.Close())
	at.Impersonal = true
	again := openSite(s.T, at, s.Clock)
	again.Preview, again.NoPersonal = s.Preview, true
	s.Server, s.Store, s.Answers = again.Server, again.Store, again.Answers
}

// Decision P4: what was given while the service had personal entries counts no
// more, and no page speaks of it; to save the choice takes it out.
func TestStoredPersonalEntries(t *testing.T) {
	pagetest.OnBothEngines(t, func(t *testing.T, place func(*testing.T) store.Options) {
		s := openSite(t, place(t), nil)
		s.Furnish()
		ada := s.SignedIn("ada")
		id := ada.Connect("grant", "roles", "role:treasurer", "change", "personal", "1")
		ada.Connect("grant", "organization")
		s.impersonal()
		own := org.Item{Organization: "nordlys", Person: "ada"}
		a, err := s.Store.Check(t.Context(), id)
		if s.Do(err); a.Authority.MayRead(own) || a.Authority.MayChange(own) || a.Authority.Acts("treasurer") != "change" {
			t.Errorf("%+v", a.Authority)
		}
		edit := ada.Get(editPath("nordlys", id)).Want(200)
		for _, p := range []*pagetest.Shown{edit, ada.Get(pagetest.NordlysApps).Want(200)} {
			if strings.Contains(renderText(p.Doc), "personal") || strings.Contains(p.Body, `name="personal"`) {
				t.Error(renderText(p.Doc))
			}
		}
		if lines := allows(edit); len(lines) == 0 || !strings.Contains(lines[0], "Treasurer") {
			t.Errorf("%q", lines)
		}
		edit.Press(editPath("nordlys", id), "decision", "save").Want(303)
		if got := s.gives(id); got != "roles treasurer=change" {
			t.Error(got)
		}
	})
}

// Decision V53: the script is answered under the same conditions as the form that
// it sends, 60 times a minute for each sign-in.
func TestPreviewForTheScript(t *testing.T) {
	s := newSite(t)
	s.items()
	ada, tor := s.SignedIn("ada"), s.SignedIn("tor")
	page, of := ada.Get(pagetest.Authorize()), tor.Get(pagetest.Authorize())
	if page.Header.Get("Content-Security-Policy") != pagesPolicy+"; connect-src 'self'" {
		t.Error(page.Header.Get("Content-Security-Policy"))
	}
	choice := []string{"organization", "nordlys", "role:treasurer", "change"}
	with := func(more ...string) []string { return append(slices.Clone(choice), more...) }
	script(page, with("csrf", "x")...).Want(403)
	script(page, with("csrf", of.Fill("/oauth/authorize").Get("csrf"))...).Want(403)
	script(page, with("request", of.Fill("/oauth/authorize").Get("request"))...).Want(400)
	script(page, with("request", "x")...).Want(400)
	script(page, with("request", "")...).Want(400)
	s.At = "https://other.example"
	script(page, choice...).Want(400)
	s.At = pagetest.Base
	s.Nothing("ada")
	// The page that edits has a request of its own, and stays in its organization.
	path := editPath("nordlys", ada.Connect("grant", "roles", "role:treasurer", "read"))
	for changes, want := range map[string]int{"": 1, "organization=fjell": 0} {
		name, value, _ := strings.Cut(changes, "=")
		form := ada.Get(path).Fill(path)
		form.Set("grant", "everything")
		form.Set(name, value)
		p := ada.Post("/oauth/authorize/preview", form).Want(200)
		if n := strings.Count(strings.Join(allows(p), " "), "68 entries"); n != want || strings.Count(p.Body, "says-everything") != 1 {
			t.Errorf("%q: %q", changes, p.Body)
		}
	}
	script(of, with("request", ada.Get(path).Fill(path).Get("request"))...).Want(400)
	form := page.Fill("/oauth/authorize")
	s.Browser().Post("/oauth/authorize/preview", form).Want(403)
	ada.Header.Set("Sec-Fetch-Site", "cross-site")
	script(page, choice...).Want(403)
	ada.Header.Del("Sec-Fetch-Site")
	if got := allows(script(page, "organization", "havn").Want(200)); len(got) != 1 || !strings.HasPrefix(got[0], "Nothing yet") {
		t.Errorf("where AI integration is off: %q", got)
	}
	if got := allows(script(page, "organization", "havn", "grant", "everything").Want(200)); len(got) != 0 {
		t.Errorf("everything where AI integration is off: %q", got)
	}
	if p := script(page, with("action", "")...).Want(200); len(allows(p)) != 3 || strings.Count(p.Body, "only org-1") != 1 || strings.Count(p.Body, "only org-2") != 2 || strings.Contains(p.Body, "<html") || strings.Contains(p.Body, "autofocus") {
		t.Errorf("%q", p.Body)
	}
	s.Pass(time.Minute)
	for range 60 {
		script(page, choice...).Want(200)
	}
	if wait := script(page, choice...).Want(429).Header.Get("Retry-After"); wait == "" {
		t.Error("no Retry-After")
	}
	script(of, choice...).Want(200)
	script(s.SignedIn("ada").Get(pagetest.Authorize()), choice...).Want(200)
	s.Pass(time.Minute)
	script(page, choice...).Want(200)
}

// The roles are summed up while a wider option is chosen, and the bar names
// what is: somebody may go back to them without script.
func TestRolesAreKeptInMind(t *testing.T) {
	s := newSite(t)
	s.items()
	for _, tt := range []struct{ choice, bar, roles string }{
		{"role:treasurer=change personal=1", "1 of your 9 roles in Nordlys Cooperative", "It may change 12 entries as Treasurer, and 5 entries of your own."},
		{"personal=1", "Your personal entries in Nordlys Cooperative", "It may change 5 entries of your own."},
		{"", "No role chosen yet", "Nothing yet. "},
	} {
		choice := []string{"organization", "nordlys", "grant", "everything", "action", "preview"}
		for _, c := range strings.Fields(tt.choice) {
			name, value, _ := strings.Cut(c, "=")
			choice = append(choice, name, value)
		}
		p := s.SignedIn("ada").Get(pagetest.Authorize()).Press("/oauth/authorize", choice...).Want(200)
		for n := range p.Doc.Descendants() {
			if id := pagetest.Attr(n, "id"); id == "bar" && textOf(n) != tt.bar || id == "allows" && !strings.HasPrefix(textOf(n), tt.roles) {
				t.Errorf("%q: #%s says %q, want %q and %q", tt.choice, id, textOf(n), tt.bar, tt.roles)
			}
		}
	}
}

// Of more organizations than the stylesheet can tell apart, the page sums up
// the chosen one alone, and says nothing when another is chosen.
func TestSummaryOfManyOrganizations(t *testing.T) {
	s := newSite(t)
	d := store.Directory{}
	for i := range numbered {
		id := fmt.Sprintf("o%02d", i)
		d.Organizations = append(d.Organizations, org.Organization{ID: id, Name: "Org " + id, AIIntegration: true})
		d.Members = append(d.Members, store.DirectoryMember{Person: "tor", Organization: id})
	}
	d.Organizations = append(d.Organizations, org.Organization{ID: "zz", Name: "Zz", AIIntegration: true})
	d.Members = append(d.Members, store.DirectoryMember{Person: "tor", Organization: "zz"})
	s.Do(s.Store.AddDirectory(context.Background(), d, store.Act{Actor: "system"}))
	for chosen, want := range map[string]int{"zz": 1, "o01": 0} {
		p := s.SignedIn("tor").Get(pagetest.Authorize()).Press("/oauth/authorize", "organization", chosen, "grant", "everything", "action", "preview").Want(200)
		n := 0
		for _, ul := range p.All(atom.Ul) {
			if class := strings.Fields(pagetest.Attr(ul, "class")); slices.Contains(class, "lines") && pagetest.Attr(ul, "id") == "" {
				if fresh := slices.Contains(class, "fresh"); fresh {
					n++
				} else if !slices.Contains(class, "only") {
					t.Errorf("%s: a list is always shown: %v", chosen, class)
				}
			}
		}
		if n != want || strings.Contains(p.Body, "data-live") {
			t.Errorf("%s: %d lists hide when another is chosen, want %d", chosen, n, want)
		}
	}
}

// focus is the element that takes the focus.
func focus(p *pagetest.Shown) *html.Node {
	for n := range p.Doc.Descendants() {
		if pagetest.Has(n, "autofocus") {
			return n
		}
	}
	return nil
}

// Where there is nothing to count, the page says what is missing.
func TestPreviewOfNoChoice(t *testing.T) {
	s := newSite(t)
	s.items()
	ada := s.SignedIn("ada")
	if p := ada.Get(pagetest.Authorize()); strings.Contains(p.Text(), "Choose an organization, and") {
		t.Errorf("at first: %q", allows(p))
	}
	for _, tt := range []struct {
		choice []string
		says   string
	}{
		{nil, "Choose an organization, and what the app may do there."},
		{[]string{"organization", "nordlys", "grant", ""}, "Choose an organization, and what the app may do there."},
		{[]string{"organization", "havn"}, "That choice is no longer possible. Please choose again."},
		{[]string{"organization", "nowhere"}, "That choice is no longer possible. Please choose again."},
		{[]string{"organization", "fjell", "grant", "organization"}, "That choice is no longer possible. Please choose again."},
		{[]string{"organization", "nordlys", "role:secretary", "read"}, "That choice is no longer possible. Please choose again."},
	} {
		p := ada.Get(pagetest.Authorize()).Press("/oauth/authorize", append(tt.choice, "action", "preview", "decision", "approve")...).Want(200).Says(tt.says)
		if n := len(allows(p)); n > 1 || !strings.Contains(renderText(focus(p)), tt.says) {
			t.Errorf("%v: %q", tt.choice, allows(p))
		}
		if p := p.Press("/oauth/authorize", "action", "review"); strings.Contains(p.Text(), tt.says) {
			t.Errorf("%v: said to somebody who did not ask", tt.choice)
		}
	}
	s.Nothing("ada")
}

// Every POST counts, a preview too (decision L1).
func TestPreviewsAreCounted(t *testing.T) {
	s := newSite(t)
	p := s.SignedIn("ada").Get(pagetest.Authorize())
	form := p.Fill("/oauth/authorize")
	form.Set("action", "preview")
	for range 149 {
		p.B.Post("/oauth/authorize", form).Want(200)
	}
	p.B.Post("/oauth/authorize", form).Want(429)
}

// town is a random organization, in which anybody may be anything, and what the
// service has of it.
func town(r *rand.Rand, id string) (store.Directory, []titled) {
	d := store.Directory{Organizations: []org.Organization{{ID: id, Name: id, AIIntegration: true}}}
	for p := range 4 {
		person := id + "-p" + strconv.Itoa(p)
		d.People = append(d.People, store.DirectoryPerson{Person: org.Person{ID: person, Email: person + "@town.example", Name: person, Active: true}})
		d.Members = append(d.Members, store.DirectoryMember{Person: person, Organization: id, Admin: r.IntN(3) == 0})
	}
	var items []titled
	item := func(i org.Item) {
		i.Organization = id
		items = append(items, slices.Repeat([]titled{{i, "x"}}, 1+r.IntN(3))...)
	}
	for c := range 1 + r.IntN(4) {
		circle := id + "-c" + strconv.Itoa(c)
		d.Circles = append(d.Circles, org.Circle{ID: circle, Organization: id, Name: circle})
		for n := range r.IntN(5) {
			role := circle + "-r" + strconv.Itoa(n)
			d.Roles = append(d.Roles, org.Role{ID: role, Organization: id, Circle: circle, Name: role})
			for _, m := range d.Members {
				if r.IntN(3) == 0 {
					d.Fillers = append(d.Fillers, store.Filler{Role: role, Person: m.Person})
				}
			}
			for _, private := range []bool{false, true} {
				if r.IntN(3) > 0 {
					item(org.Item{Role: role, Circle: circle, Private: private})
				}
			}
		}
	}
	for _, m := range d.Members {
		if r.IntN(2) == 0 {
			item(org.Item{Person: m.Person})
		}
	}
	return d, items
}

// someSet is a random choice, also of roles that nobody would be offered.
func someSet(r *rand.Rand, roles []store.RoleRow) grantset.Set {
	s := grantset.Set{Kind: grantset.Kinds[r.IntN(3)]}
	if r.IntN(2) == 0 {
		s.Kind = grantset.Roles
	}
	if s.Kind == grantset.Roles {
		for _, role := range roles { // by ID
			if r.IntN(2) == 0 {
				s.Picks = append(s.Picks, grantset.Pick{Role: role.ID, Change: r.IntN(2) == 0})
			}
		}
		s.Personal = r.IntN(2) == 0
	}
	return s
}

// Preview and enforcement agree: for every directory, person and grant set the
// service is asked about the authority of that grant set, and what it would do
// with each item is what the page says.
func TestPreviewIsWhatIsEnforced(t *testing.T) {
	s := newSite(t)
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	ctx := context.Background()
	for n := range 12 {
		id := "town" + strconv.Itoa(n)
		d, items := town(r, id)
		s.Do(s.Store.AddDirectory(ctx, d, store.Act{Actor: "system"}))
		s.kept = items
		roles, err := s.Store.Roles(ctx, id)
		s.Do(err)
		for _, p := range d.People {
			offers, err := s.Store.Offers(ctx, p.ID)
			s.Do(err)
			for range 20 {
				s.agree(fmt.Sprintf("seed %d: %s", seed, p.ID), offers[0], someSet(r, roles), items)
			}
		}
	}
}

func (s *site) agree(what string, offer grantset.Offer, set grantset.Set, items []titled) {
	s.T.Helper()
	if !offer.Allows(set.Kind) {
		return
	}
	c := choices{organization: offer.Organization.ID, grant: string(set.Kind), personal: set.Personal, roles: map[string]string{}}
	for _, p := range set.Picks {
		if offer.Member.Fills(p.Role) {
			c.roles[p.Role] = set.Access(p.Role)
		}
	}
	choice, faults := grantset.Parse(c.fields(), []grantset.Offer{offer})
	if len(faults) > 0 {
		return // nothing was picked
	}
	s.Preview = s.previews
	v := s.Visit(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	told := s.previewing(v, c.rolesOf([]grantset.Offer{offer}))()[set.Kind]
	a := choice.Set.Narrow(offer.Member, nil)
	var change, read, own, not int
	for _, i := range items {
		switch may := a.MayChange(i.Item); {
		case !offer.Member.MayRead(i.Item):
		case i.Person != "" && may:
			own++
		case may:
			change++
		case a.MayRead(i.Item):
			read++
		default:
			not++
		}
	}
	if told.Change.Count != change || told.Read.Count != read || told.Personal.Count != own || told.Not.Count != not {
		s.T.Errorf("%s: %+v: %+v, %+v, %+v, %+v; item by item: change %d, read only %d, own %d, not %d", what, set, told.Change, told.Read, told.Personal, told.Not, change, read, own, not)
	}
}

// UX-18: the page of 300 roles, with the preview of them all, is to be made
// within 50 ms in 19 of 20 cases.
func BenchmarkConsentPage(b *testing.B) {
	s := newSite(b)
	s.many(300)
	for i := range 3000 {
		s.kept = append(s.kept, titled{org.Item{Organization: "storhavn", Role: "r" + strconv.Itoa(i%300), Private: i%3 == 0}, "x"})
	}
	mei := s.SignedIn("mei")
	form := mei.Get(pagetest.Authorize()).Fill("/oauth/authorize")
	form.Set("organization", "storhavn")
	form.Set("action", "preview")
	for i := range 300 {
		form.Set("role:r"+strconv.Itoa(i), "change")
	}
	body := form.Encode()
	var took []time.Duration
	for b.Loop() {
		s.From = fmt.Sprintf("198.51.%d.%d", len(took)/100%250, len(took)%100)
		r := httptest.NewRequest("POST", s.At+"/oauth/authorize", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept-Encoding", "gzip")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.Header.Set("Cookie", mei.CookieName("session")+"="+mei.Cookies[mei.CookieName("session")])
		w := httptest.NewRecorder()
		began := time.Now()
		s.Answers.ServeHTTP(w, r)
		took = append(took, time.Since(began))
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" {
			b.Fatal(w.Code, w.Header())
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*95/100])/1e6, "p95-ms")
}
