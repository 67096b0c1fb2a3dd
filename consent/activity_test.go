package consent

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

func didAt(id approval.ID) string { return pagetest.NordlysApps + "/" + id.String() + "/activity" }

func adminsAt(id approval.ID) string {
	return pagetest.NordlysSettings + "/" + id.String() + "/activity"
}

// What an app did is told to its person and to the organization's admins, as long as
// they are; to everybody else the page does not exist.
func TestDidIsForItsPersonAndAdmins(t *testing.T) {
	s := newSite(t)
	s.Do(s.Recording().Flush())
	tor := s.SignedIn("tor")
	id := tor.Connect()
	issued := approval.ID(s.Claim(tor.Get(pagetest.Authorize()).Approve().Sent(pagetest.Callback).Get("code")).Handle.ID())
	elsewhere := strings.Replace(didAt(id), "nordlys", "havn", 1)
	lines := didAt(id) + ".jsonl"
	s.WithSupport()
	acting := s.Acting() // as Ada
	for _, c := range []struct {
		who, path string
		want      int
	}{
		{"tor", didAt(id), 200}, {"tor", lines, 200}, {"ada", adminsAt(id), 200},
		{"ada", didAt(id), 404}, {"ada", lines, 404}, {"ola", didAt(id), 404}, {"eve", didAt(id), 404}, {"", didAt(id), 303}, {"", lines, 303},
		{"tor", adminsAt(id), 404}, {"ola", adminsAt(id), 404}, {"", adminsAt(id), 303}, {"ada", adminsAt(id) + ".jsonl", 404},
		{"ola", strings.Replace(adminsAt(id), "nordlys", "havn", 1), 404}, {"ada", strings.Replace(adminsAt(id), "nordlys", "fjell", 1), 404},
		{"ada", elsewhere, 404}, {"tor", elsewhere, 404}, {"tor", didAt(issued), 404},
		{"tor", didAt(approval.ID{1}), 404}, {"ada", adminsAt(approval.ID{1}), 404},
		{"tor", pagetest.NordlysApps + "/x/activity", 404}, {"ada", pagetest.NordlysSettings + "/x/activity", 404},
		{"tor", didAt(id) + "?after=x", 400}, {"tor", didAt(id) + "?after=" + strings.Repeat("ff", 12), 200}, {"tor", didAt(id) + "?after=" + strings.Repeat("FF", 12), 400},
		{"tor", didAt(id) + "?what=x&range=-1&find=%00%ff", 200},
	} {
		b := s.Browser()
		if c.who != "" {
			b = s.SignedIn(c.who)
		}
		if p := b.Get(c.path); p.Status != c.want {
			t.Errorf("%s at %s: %d, want %d", c.who, c.path, p.Status, c.want)
		}
	}
	if p := acting.Get(adminsAt(id)); p.Status != 200 || strings.Contains(p.Body, `name="action"`) {
		t.Errorf("support staff: %d", p.Status)
	}
	acting.Get(lines).Want(403)
	ada := s.SignedIn("ada")
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", false, store.Act{}))
	ada.Get(adminsAt(id)).Want(404)
}

// withBoard adds a circle that Ada is not in, with a role that Tor fills.
func (s *site) withBoard() {
	s.T.Helper()
	s.Do(s.Store.AddDirectory(context.Background(), store.Directory{
		Circles: []org.Circle{{ID: "n:board", Organization: "nordlys", Parent: "n:anchor", Name: "Board"}},
		Roles:   []org.Role{{ID: "chair", Organization: "nordlys", Circle: "n:board", Name: "Chair"}},
		Fillers: []store.Filler{{Role: "chair", Person: "tor"}},
	}, store.Act{Actor: "system"}))
}

// Titles are told to who may read the item now (decision V72): an admin's page has none of what is
// private or personal, and no search finds them.
func TestDidTellsTitlesToReadersAlone(t *testing.T) {
	s := newSite(t)
	s.withBoard()
	r := s.Recording()
	tor := s.SignedIn("tor")
	id, other := tor.Connect(), s.SignedIn("ada").Connect()
	do := func(of approval.ID, i identity.Item) {
		t.Helper()
		i.Detail, i.Did = i.Detail+" detail of "+i.Title, identity.Did(strings.TrimSpace(string(i.Did)))
		r.Begin().Done(of, pagetest.Deed(i, activity.Done))
	}
	do(id, identity.Item{ID: "open1", Title: "Open minutes", Kind: "note", Role: "chair", Did: identity.Changed})
	do(id, identity.Item{ID: "secretboard", Title: "Secretive merger", Kind: "tension", Role: "chair", Private: true, Did: identity.Changed})
	do(id, identity.Item{ID: "secretown", Title: "Secretive doctor", Kind: "action", Personal: true, Did: identity.Created})
	do(id, identity.Item{ID: "secretgone", Title: "Secretive plan", Kind: "note", Role: "chair", Did: identity.Changed})
	do(id, identity.Item{ID: "secretgone", Title: "Secretive plan", Kind: "note", Role: "chair", Did: identity.Deleted})
	do(id, identity.Item{ID: "secretlater", Title: "Secretive later", Kind: "project", Role: "chair", Did: identity.Changed})
	do(other, identity.Item{ID: "secretlater", Title: "Secretive later", Kind: "project", Role: "chair", Private: true, Did: identity.Changed}) // by another app
	s.Do(r.Flush())
	tor.Get(didAt(id)).Want(200).Says("Changed “Open minutes” note", "Changed “Secretive merger” tension", "Created “Secretive doctor” action",
		"Deleted “Secretive plan” note", "Changed “Secretive later” project", "6 changes", "As Chair", "detail of Secretive merger")
	p := s.SignedIn("ada").Get(adminsAt(id)).Want(200).Says("What an app did for Tor Haugen", "Changed “Open minutes” note", "Changed a private tension of Chair", "Created a personal action",
		"For Tor Haugen", "Deleted something that is deleted now note", "Changed something that is deleted now note", "Changed a private project of Chair",
		"You see what was done. Titles of entries that are private to a circle you are not in, or personal, are not shown to you.")
	if strings.Contains(strings.ToLower(p.Body), "secret") {
		t.Errorf("an admin is told a title: %s", p.Text())
	}
	for _, find := range []string{"secret", "Secretive", "merger", "detail+of"} {
		p := s.SignedIn("ada").Get(adminsAt(id) + "?find=" + find).Want(200)
		if n := len(p.All(atom.Ol)); n != 0 && find != "detail+of" || find == "detail+of" && strings.Contains(p.Text(), "private tension") {
			t.Errorf("an admin finds what is hidden by %q: %s", find, p.Text())
		}
	}
	s.SignedIn("ada").Get(adminsAt(id) + "?find=CHAIR").Says("a private tension of Chair")
	s.SignedIn("ada").Get(adminsAt(id) + "?find=MINUTES").Says("Open minutes")
	tor.Get(didAt(id) + "?find=SECRETIVE").Says("Secretive doctor")
	// Support staff are told no titles, nor is Ada of her own work through them.
	s.WithSupport()
	p = s.Acting().Get(didAt(other)).Want(200).Says("Titles are not shown while you see the pages of somebody else.", "Changed something project")
	if strings.Contains(p.Body, "secret") || strings.Contains(p.Body, "Secretive") {
		t.Errorf("support staff are told a title: %s", p.Text())
	}
	// Who leaves the circle may not read it any more.
	s.Do(s.Store.SetFiller(context.Background(), "chair", "tor", false, store.Act{Actor: "system"}))
	if p := tor.Get(didAt(id)).Want(200).Says("Changed a private tension of Chair", "Secretive doctor"); strings.Contains(p.Body, "merger") {
		t.Error("who has left the circle is told its titles")
	}
}

// What others named shows as text, whatever it is.
func TestDidHoldsHostileNames(t *testing.T) {
	s := newSite(t)
	r := s.Recording()
	tor := s.SignedIn("tor")
	id := tor.Connect()
	for _, text := range []string{`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "Done</li></ol><h1>Yours", "Z" + strings.Repeat("\u0300\u0323", 40), "{{.CSRF}}"} {
		r.Begin().Done(id, pagetest.Deed(identity.Item{ID: text, Title: text, Kind: text, Detail: text, Role: "x<b>", Did: identity.Changed}, activity.Done))
		r.Begin().Done(id, activity.Record{Way: activity.MCP, Outcome: activity.Done, Tool: text + "\u202e\x00", Method: text, Path: "/" + text})
		r.Read(id, identity.Item{Kind: text, Count: 2})
	}
	s.Do(r.Flush())
	p := tor.Get(didAt(id)).Want(200)
	if n := len(p.All(atom.Script)); n != 1 || len(p.All(atom.H1)) != 1 || len(p.All(atom.Img)) != 0 {
		t.Errorf("%d scripts: %s", n, p.Body)
	}
	if strings.ContainsAny(p.Body, "\u202e\x00") {
		t.Error("text is turned around")
	}
	p.Says("“<script>alert(1)</script>”", "{{.CSRF}}: 2")
}

// A page has a part of many records, and all pages together each of them once; what was
// read stands once with its day.
func TestDidInPages(t *testing.T) {
	s := newSite(t)
	r := s.Recording()
	id := s.SignedIn("tor").Connect()
	want := map[string]bool{}
	for n := range 4 {
		for i := range 37 {
			title := fmt.Sprintf("Item %d-%d.", n, i)
			want[title] = true
			r.Begin().Done(id, pagetest.Deed(identity.Item{Title: title, Did: identity.Changed}, activity.Done))
			s.Pass(time.Second)
		}
		r.Refuse(id, activity.Record{Path: "/x"})
		r.Read(id, identity.Item{Kind: "note", Count: 1000 + n})
		s.Pass(20 * time.Hour)
	}
	r.Read(id, identity.Item{Kind: "note", Count: 1004})
	s.Do(r.Flush())
	tor := s.SignedIn("tor")
	pages, text := 0, ""
	for at := didAt(id); at != ""; pages++ {
		p := tor.Get(at).Want(200)
		text += p.Text()
		at = ""
		for _, a := range p.All(atom.A) {
			if a.FirstChild != nil && a.FirstChild.Data == "Older" {
				at = pagetest.Attr(a, "href")
			}
		}
		for _, d := range p.All(atom.H2) { // the whole day's numbers, on each page that has a part of it
			head := map[string]string{"d-2026-11-24": "Today No changes1,004 entries read", "d-2026-11-23": "Yesterday 74 changes2 refused2,005 entries read",
				"d-2026-11-22": "22 November 2026 37 changes1 refused1,001 entries read", "d-2026-11-21": "21 November 2026 37 changes1 refused1,000 entries read"}[pagetest.Attr(d, "id")]
			if head == "" || !strings.Contains(p.Text(), head) {
				t.Errorf("another head than %q: %s", head, p.Text())
			}
		}
	}
	for title := range want {
		if n := strings.Count(text, title); n != 1 {
			t.Errorf("%s stands %d times", title, n)
		}
	}
	if pages != 4 {
		t.Errorf("%d pages", pages)
	}
	for _, reads := range []string{"note: 1,000", "note: 1,001", "note: 2,005", "note: 1,004"} { // the third and fourth time were on one day
		if n := strings.Count(text, reads); n != 1 {
			t.Errorf("%q stands %d times", reads, n)
		}
	}
	tor.Get(didAt(id) + "?find=item+0-3.").Want(200).Says("Item 0-3.")
	if p := tor.Get(didAt(id) + "?what=reads").Want(200); strings.Contains(p.Text(), "Item") || !strings.Contains(p.Text(), "Read 1,004") {
		t.Errorf("reads alone: %s", p.Text())
	}
	if p := tor.Get(didAt(id) + "?what=refused").Want(200); strings.Contains(p.Text(), "Item 0") || !strings.Contains(p.Text(), "1 refused") {
		t.Errorf("refusals alone: %s", p.Text())
	}
	// The download has all of it.
	lines := strings.Split(strings.TrimSpace(tor.Get(didAt(id)+".jsonl").Want(200).Body), "\n")
	var last map[string]int
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last["records"] != 152 || len(lines) != 152+last["counts"]+last["gaps"]+1 {
		t.Errorf("%d lines, the last %v, %v", len(lines), last, err)
	}
	if !strings.Contains(lines[0], `"title":"Item 0-0."`) {
		t.Errorf("first line: %s", lines[0])
	}
}

// A day is the reader's, and when something may be missing is said.
func TestDidInTheReadersZone(t *testing.T) {
	s := newSite(t)
	id := s.SignedIn("tor").Connect()
	s.Pass(12 * time.Hour) // 22:00 in UTC
	tor := s.SignedIn("tor")
	r := s.Recording()
	r.Begin().Done(id, pagetest.Deed(identity.Item{Title: "Late", Did: identity.Changed}, activity.Done))
	s.Do(r.Flush())
	tor.Get(didAt(id)).Says("Today 1 change", "Nothing was recorded before 22:00.", "22:00 Changed “Late”")
	s.Pass(3 * time.Hour)
	tor.Get(didAt(id)).Says("Yesterday 1 change")
	tor.Cookies[tor.CookieName("zone")] = "Asia/Tokyo"
	tor.Get(didAt(id)).Says("Today 1 change", "07:00 Changed “Late”", "Nothing was recorded before 22 November 2026, 07:00.")
}

// What was not done is told of, and is no change.
func TestDidNotIsNoChange(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	id, r := tor.Connect(), s.Recording()
	for _, outcome := range []activity.Outcome{activity.Done, activity.Failed, activity.Unanswered, activity.Refused} {
		r.Begin().Done(id, pagetest.Deed(identity.Item{Title: "Plan", Did: identity.Changed}, outcome))
	}
	s.Do(r.Flush())
	tor.Get(didAt(id)).Says("Today 2 changes1 refused", "Not done")
}

// Where nothing is kept the page says so, and nothing leads to it.
func TestDidWhereNothingIsKept(t *testing.T) {
	place := pagetest.NewPlace(t)
	place.ActivityKeep = 0
	s := openSite(t, place, nil)
	s.Furnish()
	tor := s.SignedIn("tor")
	id := tor.Connect()
	for _, p := range []*pagetest.Shown{tor.Get(didAt(id)), s.SignedIn("ada").Get(adminsAt(id))} {
		p.Want(200).Says("Nothing is recorded", "Whoever runs Svalinn has turned off the record of what apps do.")
		if len(p.All(atom.Select)) > 0 {
			t.Error("it offers a filter")
		}
	}
	tor.Get(didAt(id) + ".jsonl").Want(404)
	for _, p := range []*pagetest.Shown{tor.Get(pagetest.NordlysApps), s.SignedIn("ada").Get(pagetest.NordlysSettings + "/" + id.String())} {
		if strings.Contains(p.Body, "/activity") {
			t.Error("a link leads to it")
		}
	}
}

// A link leads to what each connection did, also of those that have ended.
func TestDidIsLinked(t *testing.T) {
	s := newSite(t)
	tor := s.SignedIn("tor")
	id, was := tor.Connect(), tor.Connect()
	s.Do(s.Store.EndApproval(context.Background(), was, approval.RevokedByPerson, store.Act{Actor: "person:tor"}))
	for _, to := range []struct{ on, path string }{{pagetest.NordlysApps, didAt(id)}, {pagetest.NordlysApps, didAt(was)}} {
		if !strings.Contains(tor.Get(to.on).Body, `href="`+to.path+`"`) {
			t.Errorf("nothing leads to %s", to.path)
		}
	}
	if !strings.Contains(s.SignedIn("ada").Get(pagetest.NordlysSettings+"/"+id.String()).Body, `href="`+adminsAt(id)+`"`) {
		t.Error("nothing leads an admin to it")
	}
	tor.Get(didAt(id)).Says("Nothing yet", "The app has its access, but has not used it.")
	tor.Get(didAt(was)).Says("The app never used its access.")
	s.Store.Used(id)
	s.Do(s.Store.Ready(context.Background()))
}

// Of very many records a page comes soon, and a search looks through a part at a time.
func TestDidOfVeryMany(t *testing.T) {
	s := newSite(t)
	r := s.Recording()
	id := s.SignedIn("tor").Connect()
	for range 6 {
		for n := range 17_000 {
			r.Begin().Done(id, pagetest.Deed(identity.Item{ID: fmt.Sprint(n), Title: fmt.Sprintf("Item %d.", n), Did: identity.Changed}, activity.Done))
			if n%8_000 == 0 {
				s.Do(r.Flush())
			}
		}
		s.Do(r.Flush())
		s.Pass(24 * time.Hour)
	}
	tor := s.SignedIn("tor")
	for path, says := range map[string]string{"": "Yesterday 17,000 changes", "?find=no-such": "None so far. There are more to look through.", "?find=item+16999.": "Item 16999.", "?what=refused": "No activity matches."} {
		begun := time.Now()
		p := tor.Get(didAt(id) + path).Want(200).Says(says)
		if took := time.Since(begun); took > time.Minute || len(p.Body) > 100_000 {
			t.Errorf("%q took %v, %d bytes", path, took, len(p.Body))
		} else {
			t.Logf("%q: %v, %d bytes", path, took, len(p.Body))
		}
	}
}
