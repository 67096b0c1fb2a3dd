package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A question is asked, and answered with 200.
func (o *office) explained(approvalID, action, item string) explanation {
	o.Helper()
	w := o.do("GET", "/v1/approvals/"+approvalID+"/explain?"+action+"="+item, "")
	var e explanation
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 200 {
		o.Fatalf("%s %s: %d %v %s", action, item, w.Code, err, w.Body)
	}
	if e.ID != approvalID+"/"+action+"/"+item || e.Approval != approvalID || e.Action != action || e.Item.ID != item {
		o.Errorf("another question was answered: %s", w.Body)
	}
	return e
}

// text writes the links one below the other.
func (e explanation) text() string {
	var b strings.Builder
	for _, l := range e.Chain {
		fmt.Fprintf(&b, "%-5t %s: %s\n", l.Holds, l.Fact, l.Why)
	}
	return b.String()
}

func TestExplain(t *testing.T) {
	o := workshop(t)
	id := o.live("quill", "ada", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer"}}})
	today := day(o.Store.Now().Unix())
	e := o.explained(id, "change", "salaries")
	want := strings.ReplaceAll(`true  approval: The approval of {today} is live.
true  person: Ada has been active ever since.
true  membership: Ada has been a member of Nordlys ever since.
true  organization: AI integration has been on in Nordlys ever since.
true  client: Name of quill has been enabled ever since.
true  grant_set: Selected roles: Treasurer (read).
true  admin: Ada is an admin of Nordlys.
true  roles: Ada fills 1 role in Nordlys; part of this approval: 1.
true  item: The item is a note of Treasurer in Circle, private to the circle.
true  role: Ada fills Treasurer.
true  circle: Ada fills a role in Circle.
false pick: Treasurer was picked, to read.
false decision: Treasurer is read-only in this approval.
`, "{today}", today)
	if got := e.text(); got != want || e.Allowed || e.Reason != "Treasurer is read-only in this approval." {
		t.Errorf("allowed %t, because %s\n got %s\nwant %s", e.Allowed, e.Reason, got, want)
	}
	if want := (itemObject{"salaries", "note", "nordlys", "treasurer", "Treasurer", "circle", "Circle", true, ""}); e.Item != want {
		t.Errorf("item %+v, want %+v", e.Item, want)
	}
	tor := o.live("quill", "tor", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "host", Change: true}}, Personal: true})
	all := o.live("all", "tor", grantset.Set{Kind: grantset.Everything})
	whole := o.live("whole", "ada", grantset.Set{Kind: grantset.Organization})
	for _, tt := range []struct {
		approval, action, item string
		allowed                bool
		reason                 string
		links                  []string // of the chain
	}{
		{id, "read", "salaries", true, "Treasurer, a role of the item's circle, is part of this approval.", []string{"true  pick: Treasurer was picked, to read."}},
		{id, "read", "budget", true, "Every member of the organization can read the item, and so can every approval of a member.", []string{"open to every member."}},
		{id, "change", "budget", false, "Treasurer is read-only in this approval.", nil},
		{id, "change", "chairs", false, "The item is private to the circle of Host, and no role of that circle is part of this approval.", []string{"false role: Ada does not fill Host.", "false circle: Ada fills no role in Hall.", "false pick: Host was not picked."}},
		{id, "read", "own-of-tor", false, "The item is another person's own.", []string{"false own: The item is not Ada's own.", "false pick: Personal items are not part of this approval."}},
		{tor, "change", "chairs", true, "The person fills Host, and this approval gives change access to it.", []string{"false admin: Tor is no admin of Nordlys.", "Selected roles: Host (change); personal items included."}},
		{tor, "change", "own-of-tor", true, "The item is the person's own, and personal items are part of this approval.", []string{"true  own: The item is Tor's own.", "true  pick: Personal items are part", "is a personal tension, seen by its person alone."}},
		{tor, "read", "salaries", false, "The item is private to a circle in which the person fills no role.", nil},
		{all, "read", "chairs", true, "The person fills a role of the item's circle, and this approval gives everything that the person can access.", []string{"Everything that the person can access was approved.", "Tor fills 1 role in Nordlys.\n"}},
		{all, "change", "budget", false, "The person does not fill Treasurer.", nil},
		{whole, "change", "chairs", true, "The person is an admin, and this approval gives what an organization admin may do, as far as the person still may.", []string{"Everything in this organization was approved"}},
	} {
		e := o.explained(tt.approval, tt.action, tt.item)
		if e.Allowed != tt.allowed || e.Reason != tt.reason {
			t.Errorf("%s %s: %t, %q; want %t, %q", tt.action, tt.item, e.Allowed, e.Reason, tt.allowed, tt.reason)
		}
		for _, link := range tt.links {
			if !strings.Contains(e.text(), link) {
				t.Errorf("%s %s: no %q in\n%s", tt.action, tt.item, link, e.text())
			}
		}
	}
	if e := o.explained(id, "read", "budget"); e.Item.Private || e.Item.Kind != "project" {
		t.Errorf("item %+v", e.Item)
	}
	if e := o.explained(tor, "read", "own-of-tor"); e.Item != (itemObject{ID: "own-of-tor", Kind: "tension", Organization: "nordlys", Person: "tor"}) {
		t.Errorf("item %+v", e.Item)
	}
	// A role that was lost counts for nothing (decision P5).
	o.want(200, "POST", "/v1/roles/host/fillers/remove", `{"person":"tor"}`)
	if e := o.explained(tor, "change", "chairs"); e.Allowed || !strings.Contains(e.text(), "false pick: Host was picked, to change. It counts for nothing while the person does not fill the role.") ||
		!strings.Contains(e.text(), "false roles: Tor fills no role in Nordlys.") {
		t.Errorf("after the role was lost:\n%s", e.text())
	}
}

// What has ended allows nothing, and says why, whatever the grant set was.
func TestExplainWhatHasEnded(t *testing.T) {
	set := grantset.Set{Kind: grantset.Everything}
	for _, tt := range []struct {
		path, body string
		back       string // brings the fact back, and revives nothing
		fact, why  string
	}{
		{"/v1/people/ada/deactivate", `{}`, "/v1/people/ada/reactivate", "person", "Ada was deactivated after the approval, which ends it for good."},
		{"/v1/organizations/nordlys/members/ada/remove", `{}`, "", "membership", "Ada left Nordlys after the approval, which ends it for good."},
		{"/v1/organizations/nordlys/ai-integration", `{"on":false}`, "", "organization", "AI integration was switched off in Nordlys after the approval, which ends it for good."},
		{"/v1/clients/quill/disable", `{}`, "/v1/clients/quill/enable", "client", "Name of quill was disabled after the approval, which ends it for good."},
		{"/v1/approvals/{id}/revoke", `{}`, "", "approval", ""},
	} {
		o := workshop(t)
		id := o.live("quill", "ada", set)
		o.want(200, "POST", strings.ReplaceAll(tt.path, "{id}", id), tt.body)
		for _, back := range []string{"", tt.back} {
			if back != "" {
				o.want(200, "POST", back, "")
			}
			e := o.explained(id, "read", "budget")
			if e.Allowed || !strings.HasPrefix(e.Reason, "The approval ended on "+day(o.Store.Now().Unix())+": ") || !strings.Contains(e.text(), "false "+tt.fact+": "+tt.why) {
				t.Errorf("%s: allowed %t, because %q\n%s", tt.path, e.Allowed, e.Reason, e.text())
			}
			for _, l := range e.Chain {
				if slices.Contains([]string{"person", "membership", "organization", "client"}, l.Fact) && l.Holds == (l.Fact == tt.fact) {
					t.Errorf("%s: %+v", tt.path, l)
				}
			}
		}
	}
	o := workshop(t)
	id := o.approved("quill", "ada", set)
	if e := o.explained(id, "read", "budget"); e.Allowed || e.Reason != "The client has not exchanged its code yet, so there is no token." {
		t.Errorf("before the exchange: %t, %q", e.Allowed, e.Reason)
	}
	o.later.Store(int64(approval.CodeLifetime))
	if e := o.explained(id, "read", "budget"); e.Allowed || !strings.HasSuffix(e.Reason, ": never connected.") {
		t.Errorf("never exchanged: %t, %q", e.Allowed, e.Reason)
	}
}

func TestExplainRefused(t *testing.T) {
	o := workshop(t)
	id := o.live("quill", "ada", grantset.Set{Kind: grantset.Everything})
	at := "/v1/approvals/" + id + "/explain"
	for _, query := range []string{"", "?", "?read=budget&change=budget", "?read=budget&read=salaries", "?item=budget", "?read=budget&limit=1", "?read=%zz", "?Read=budget"} {
		if got := o.want(400, "GET", at+query, ""); got["error"] != "invalid_request" {
			t.Errorf("%s: %v", query, got)
		}
	}
	for _, item := range []string{"", "hook", "nothing", "budget%20", "%00", "'", strings.Repeat("x", 65), strings.Repeat("x", 5000)} {
		if got := o.want(404, "GET", at+"?change="+item, ""); got["error_description"] != "this item does not exist in the approval's organization" {
			t.Errorf("%s: %v", item, got)
		}
	}
	for _, unknown := range []string{strings.Repeat("0", 32), "x", strings.ToUpper(id)} {
		if got := o.want(404, "GET", "/v1/approvals/"+unknown+"/explain?read=budget", ""); got["error_description"] != "there is no such approval" {
			t.Errorf("%s: %v", unknown, got)
		}
	}
	o.want(405, "POST", at+"?read=budget", `{}`)
	before := len(o.ids("/v1/events"))
	o.explained(id, "read", "budget")
	if got := len(o.ids("/v1/events")); got != before {
		t.Errorf("a question is in the journal: %d entries, %d before", got, before)
	}
	o.close()
	if w := o.do("GET", at+"?read=budget", ""); w.Code != 503 {
		t.Errorf("without a database: %d %s", w.Code, w.Body)
	}
}

// What has no name any more is called by its ID, and long grant sets are cut.
func TestExplainNames(t *testing.T) {
	o := workshop(t)
	var roles []string
	set := grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "a-gone"}}}
	for i := range 6 {
		id := fmt.Sprintf("r%02d", i)
		roles = append(roles, fmt.Sprintf(`{"id":%q,"organization":"nordlys","circle":"hall","name":"Role %d","fillers":["tor"]}`, id, i))
		set.Picks = append(set.Picks, grantset.Pick{Role: id})
	}
	o.want(200, "POST", "/v1/directory", `{"roles":[`+strings.Join(roles, ",")+`]}`)
	id := o.live("quill", "tor", set)
	got := o.explained(id, "read", "budget").text()
	if !strings.Contains(got, ": a-gone (read), Role 0 (read), Role 1 (read) and 4 more.\n") {
		t.Errorf("grant set:\n%s", got)
	}
}

// The answer is what the bearer check and grantset decide, in random worlds in
// which everything that can change does.
func TestExplainAgreesWithEnforcement(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	count := map[bool]int{}
	for range 4 {
		w := someWorld(newOffice(t), random)
		for range 200 {
			if random.IntN(10) == 0 {
				w.disturb(random)
			}
			id, item := w.approvals[random.IntN(len(w.approvals))], w.items[random.IntN(len(w.items))]
			read, change := w.enforced(id, item)
			for action, want := range map[string]bool{"read": read, "change": change} {
				e := w.explained(id, action, item)
				last := e.Chain[len(e.Chain)-1]
				if e.Allowed != want || last.Fact != "decision" || want && !last.Holds || e.Reason == "" {
					t.Fatalf("%s %s: allowed %t, want %t\n%s", action, item, e.Allowed, want, e.text())
				}
				count[want]++
			}
		}
	}
	if count[true] < 300 || count[false] < 300 {
		t.Errorf("%d allowed and %d refused: these worlds prove little", count[true], count[false])
	}
}

// An aWorld is Nordlys with random roles, items and approvals.
type aWorld struct {
	*office
	approvals, items []string
}

func someWorld(o *office, random *rand.Rand) *aWorld {
	w := &aWorld{office: o}
	d := store.Directory{}
	for c := range 3 {
		d.Circles = append(d.Circles, org.Circle{ID: fmt.Sprint("c", c), Organization: "nordlys", Name: "C"})
	}
	for r := range 6 {
		d.Roles = append(d.Roles, org.Role{ID: fmt.Sprint("r", r), Organization: "nordlys", Circle: fmt.Sprint("c", r/2), Name: fmt.Sprint("Role ", r)})
		for _, person := range []string{"ada", "tor"} {
			if random.IntN(2) == 0 {
				d.Fillers = append(d.Fillers, store.Filler{Role: fmt.Sprint("r", r), Person: person})
			}
		}
		for _, private := range []bool{false, true} {
			d.Items = append(d.Items, store.Item{Kind: "note", Title: "T", Status: "open",
				Item: org.Item{ID: fmt.Sprintf("i%d%t", r, private), Organization: "nordlys", Role: fmt.Sprint("r", r), Private: private}})
		}
	}
	for _, person := range []string{"ada", "tor"} {
		d.Items = append(d.Items, store.Item{Kind: "note", Title: "T", Status: "open", Item: org.Item{ID: "own-" + person, Organization: "nordlys", Person: person}})
	}
	if err := o.Store.AddDirectory(o.Context(), d, store.Act{}); err != nil {
		o.Fatal(err)
	}
	for _, i := range d.Items {
		w.items = append(w.items, i.ID)
	}
	for n, set := range []grantset.Set{
		{Kind: grantset.Everything}, {Kind: grantset.Organization},
		somePicks(random), somePicks(random), somePicks(random),
	} {
		w.approvals = append(w.approvals, o.live(fmt.Sprint("ada's", n), "ada", set))
		if set.Kind != grantset.Organization {
			w.approvals = append(w.approvals, o.live(fmt.Sprint("tor's", n), "tor", set))
		}
	}
	return w
}

func somePicks(random *rand.Rand) grantset.Set {
	s := grantset.Set{Kind: grantset.Roles, Personal: random.IntN(2) == 0}
	for r := range 6 {
		if random.IntN(2) == 0 {
			s.Picks = append(s.Picks, grantset.Pick{Role: fmt.Sprint("r", r), Change: random.IntN(2) == 0})
		}
	}
	s.Personal = s.Personal || len(s.Picks) == 0
	return s
}

// disturb changes something.
func (w *aWorld) disturb(random *rand.Rand) {
	w.Helper()
	person := []string{"ada", "tor"}[random.IntN(2)]
	role, on := fmt.Sprint("r", random.IntN(6)), random.IntN(2) == 0
	switch random.IntN(12) {
	case 0, 1, 2, 3, 4:
		path := "/v1/roles/" + role + "/fillers"
		if !on {
			path += "/remove"
		}
		w.do("POST", path, fmt.Sprintf(`{"person":%q}`, person)) // refused for one who is no member
	case 5, 6, 7:
		w.do("POST", "/v1/organizations/nordlys/members/"+person+"/admin", fmt.Sprintf(`{"on":%t}`, on))
	case 8:
		w.do("POST", "/v1/approvals/"+w.approvals[random.IntN(len(w.approvals))]+"/revoke", `{}`)
	case 9:
		w.do("POST", "/v1/clients/"+person+"'s2/disable", `{}`)
	case 10:
		w.do("POST", "/v1/organizations/nordlys/members/tor/remove", `{}`)
	case 11:
		w.do("POST", "/v1/organizations/nordlys/members", `{"person":"tor"}`)
	}
}

// enforced is what a bearer check and the API's own question would say.
func (w *aWorld) enforced(approvalID, itemID string) (read, change bool) {
	w.Helper()
	id, err := approval.ParseID(approvalID)
	if err != nil {
		w.Fatal(err)
	}
	item, err := w.Store.Item(w.Context(), "nordlys", "note", itemID)
	if err != nil {
		w.Fatal(err)
	}
	a, err := w.Store.Check(w.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return false, false
	} else if err != nil {
		w.Fatal(err)
	}
	now := w.Store.Now()
	if !a.Approval.Accepts(a.Standing, a.Approval.Generation, now.Unix()+60, now) {
		return false, false
	}
	return a.MayRead(item.Item), a.MayChange(item.Item)
}
