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
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// explained asks about an approval, or with a query about a call, and is answered
// with 200.
func (o *office) explained(approvalID, query string) Explanation {
	o.Helper()
	w := o.do("GET", "/v1/approvals/"+approvalID+"/explain?"+query, "")
	var e Explanation
	if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != 200 {
		o.Fatalf("%s: %d %v %s", query, w.Code, err, w.Body)
	}
	if (e.ID == approvalID) != (query == "") || e.Approval != approvalID || (e.Item == nil) != (query == "") {
		o.Errorf("another question was answered: %s", w.Body)
	}
	return e
}

// text writes the links one below the other.
func (e Explanation) text() string {
	var b strings.Builder
	for _, l := range e.Chain {
		fmt.Fprintf(&b, "%-5t %s: %s\n", l.Holds, l.Fact, l.Why)
	}
	return b.String()
}

// What an organization lets no app have stands in the chain, and a call that it refuses
// is refused with that, by name.
func TestExplainNamesCeilings(t *testing.T) {
	by, err := rules.Compile([]rules.Rule{{Tool: "pay", Role: "treasurer"}, {Tool: "mine", Touches: rules.TouchesPersonal, Access: "change"}, {Tool: "rename", Touches: rules.TouchesAdmin}}, "")
	if err != nil {
		t.Fatal(err)
	}
	o := workshop(t)
	o.Server.Rules = func() *rules.Rules { return by }
	id := o.live("quill", "ada", grantset.Set{Kind: grantset.Everything})
	for n, tt := range []struct{ policy, chain, tool, reason string }{
		{`{}`, "", "pay", ""},
		{`"read_only":true`, "to read only.", "pay", "Nordlys lets apps read only."},
		{`"no_personal":true`, "no personal items.", "mine", "Nordlys keeps personal items from apps."},
		{`"never":["treasurer"]`, "never through Treasurer.", "pay", "Nordlys lets no app act through the role Treasurer."},
		{`"widest":"everything"`, "no admin rights.", "rename", "Nordlys lets no app act as an admin."},
		{`"widest":"roles","read_only":true,"no_personal":true,"never":["host","treasurer"]`, "selected roles at most, to read only, no personal items, never through Host, never through Treasurer.", "rename", "Nordlys lets apps read only."},
		{`"max_days":30,"unknown":"ask"`, "", "pay", ""},
	} {
		body := `{"policy":{` + strings.Trim(tt.policy, "{}") + `,"version":` + fmt.Sprint(n) + `}}`
		o.want(200, "PUT", "/v1/organizations/nordlys/policy", strings.Replace(body, "{,", "{", 1))
		link := ""
		if tt.chain != "" {
			link = "false ceilings: Apps get in Nordlys: " + tt.chain + "\n"
		}
		if got := o.explained(id, ""); !got.Allowed || !strings.HasSuffix(got.text(), "1 role in Nordlys.\n"+link) {
			t.Errorf("%s: allowed %t\n%s", tt.policy, got.Allowed, got.text())
		}
		if got := o.explained(id, "tool="+tt.tool); got.Allowed != (tt.reason == "") || !strings.HasPrefix(got.Reason, tt.reason) {
			t.Errorf("%s: %s is allowed %t, because %s", tt.policy, tt.tool, got.Allowed, got.Reason)
		}
	}
}

func TestExplain(t *testing.T) {
	o := workshop(t)
	id := o.live("quill", "ada", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "treasurer"}}})
	want := strings.ReplaceAll(`true  approval: The approval of {today} is live.
true  person: Ada has been active ever since.
true  membership: Ada has been a member of Nordlys ever since.
true  organization: AI integration has been on in Nordlys ever since.
true  client: Name of quill has been enabled ever since.
true  grant_set: Selected roles: Treasurer (read).
true  admin: Ada is an admin of Nordlys.
true  roles: Ada fills 1 role in Nordlys; part of this approval: 1.
`, "{today}", day(o.Store.Now().Unix()))
	e := o.explained(id, "")
	if got := e.text(); got != want || !e.Allowed || e.Reason != e.Chain[0].Why || e.Action != "" {
		t.Errorf("allowed %t, because %s\n got %s\nwant %s", e.Allowed, e.Reason, got, want)
	}
	if got := o.explained(id, "tool=pay").text(); !strings.HasPrefix(got, want) {
		t.Errorf("of a call\n got %s\nwant first %s", got, want)
	}
	tor := o.live("quill", "tor", grantset.Set{Kind: grantset.Roles, Picks: []grantset.Pick{{Role: "host", Change: true}}, Personal: true})
	for id, links := range map[string][]string{
		tor: {"false admin: Tor is no admin of Nordlys.", "Selected roles: Host (change); personal items included."},
		o.live("all", "tor", grantset.Set{Kind: grantset.Everything}):     {"Everything that the person can access was approved.", "Tor fills 1 role in Nordlys.\n"},
		o.live("whole", "ada", grantset.Set{Kind: grantset.Organization}): {"Everything in this organization was approved, without anybody's personal items."},
	} {
		for _, link := range links {
			if got := o.explained(id, "").text(); !strings.Contains(got, link) {
				t.Errorf("no %q in\n%s", link, got)
			}
		}
	}
	// A role that was lost counts for nothing (decision P5).
	o.want(200, "POST", "/v1/roles/host/fillers/remove", `{"person":"tor"}`)
	if e := o.explained(tor, ""); !e.Allowed || !strings.Contains(e.text(), "false roles: Tor fills no role in Nordlys.") {
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
			if e := o.explained(id, "tool=pay"); e.Allowed || e.Reason != e.Chain[0].Why {
				t.Errorf("%s: a call is allowed %t, because %q", tt.path, e.Allowed, e.Reason)
			}
			e := o.explained(id, "")
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
	if e := o.explained(id, ""); e.Allowed || e.Reason != "The client has not exchanged its code yet, so there is no token." {
		t.Errorf("before the exchange: %t, %q", e.Allowed, e.Reason)
	}
	o.later.Store(int64(approval.CodeLifetime))
	if e := o.explained(id, ""); e.Allowed || !strings.HasSuffix(e.Reason, ": never connected.") {
		t.Errorf("never exchanged: %t, %q", e.Allowed, e.Reason)
	}
}

func TestExplainRefused(t *testing.T) {
	o := workshop(t)
	id := o.live("quill", "ada", grantset.Set{Kind: grantset.Everything})
	at := "/v1/approvals/" + id + "/explain"
	for _, query := range []string{"?read=budget", "?change=budget", "?item=budget", "?limit=1", "?tool=pay&limit=1", "?tool=%zz", "?Tool=pay"} {
		if got := o.want(400, "GET", at+query, ""); got["error"] != "invalid_request" {
			t.Errorf("%s: %v", query, got)
		}
	}
	for _, unknown := range []string{strings.Repeat("0", 32), "x", strings.ToUpper(id)} {
		if got := o.want(404, "GET", "/v1/approvals/"+unknown+"/explain", ""); got["error_description"] != "there is no such approval" {
			t.Errorf("%s: %v", unknown, got)
		}
	}
	o.want(405, "POST", at, `{}`)
	before := len(o.ids("/v1/events"))
	o.explained(id, "")
	if got := len(o.ids("/v1/events")); got != before {
		t.Errorf("a question is in the journal: %d entries, %d before", got, before)
	}
	o.close()
	if w := o.do("GET", at, ""); w.Code != 503 {
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
	got := o.explained(id, "").text()
	if !strings.Contains(got, ": a-gone (read), Role 0 (read), Role 1 (read) and 4 more.\n") {
		t.Errorf("grant set:\n%s", got)
	}
}

// The answer is what the bearer check and grantset decide, in random worlds in
// which everything that can change does: of each approval, and of calls that touch
// an item of each kind.
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
			live, read, change := w.enforced(id, item)
			for query, want := range map[string]bool{"": live, "call=GET+/" + item.ID: read, "call=POST+/" + item.ID: change} {
				e := w.explained(id, query)
				last := e.Chain[len(e.Chain)-1]
				if e.Allowed != want || query != "" && (last.Fact != "decision" || want && !last.Holds) || e.Reason == "" {
					t.Fatalf("%q: allowed %t, want %t\n%s", query, e.Allowed, want, e.text())
				}
				if query != "" {
					count[want]++
				}
			}
		}
	}
	if count[true] < 300 || count[false] < 300 {
		t.Errorf("%d allowed and %d refused: these worlds prove little", count[true], count[false])
	}
}

// An aWorld is Nordlys with random roles and approvals, and a rule for the calls
// that touch each item.
type aWorld struct {
	*office
	approvals []string
	items     []org.Item
}

func someWorld(o *office, random *rand.Rand) *aWorld {
	w := &aWorld{office: o}
	d := store.Directory{}
	w.items = []org.Item{{ID: "own", Organization: "nordlys"}}
	all := []rules.Rule{{Call: "* /own", Touches: rules.TouchesPersonal}}
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
			i := org.Item{ID: fmt.Sprintf("i%d%t", r, private), Organization: "nordlys", Role: fmt.Sprint("r", r), Circle: fmt.Sprint("c", r/2), Private: private}
			w.items = append(w.items, i)
			all = append(all, rules.Rule{Call: "* /" + i.ID, Role: i.Role, Private: private})
		}
	}
	by, err := rules.Compile(all, "")
	if err != nil {
		o.Fatal(err)
	}
	o.Rules = func() *rules.Rules { return by }
	if err := o.Store.AddDirectory(o.Context(), d, store.Act{}); err != nil {
		o.Fatal(err)
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

// enforced is what a bearer check would say, and of a call package grantset: where
// more than selected roles was approved the service decides, about all but what is
// a person's own.
func (w *aWorld) enforced(approvalID string, i org.Item) (live, read, change bool) {
	w.Helper()
	id, err := approval.ParseID(approvalID)
	if err != nil {
		w.Fatal(err)
	}
	a, err := w.Store.Check(w.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return false, false, false
	} else if err != nil {
		w.Fatal(err)
	}
	now := w.Store.Now()
	if !a.Approval.Accepts(a.Standing, a.Approval.Generation, now.Unix()+60, now) {
		return false, false, false
	}
	if i.Role == "" {
		i.Person = a.Approval.Person
	}
	if kind := a.Approval.Grant.Kind; kind != grantset.Roles && !(i.Personal() && kind == grantset.Organization) {
		return true, true, true
	}
	return true, a.MayRead(i), a.MayChange(i)
}
