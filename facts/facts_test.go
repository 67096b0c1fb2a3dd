package facts

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

func person(id, email string) PersonChange {
	return PersonChange{Person: org.Person{ID: id, Email: email, Name: strings.ToUpper(id), Active: true}}
}

func membership(person, organization string) MemberChange {
	return MemberChange{MemberKey: MemberKey{person, organization}, Present: true}
}

// town are two organizations, with Ada and Tor in the first and Ada in both.
func town() Facts {
	f := New(false, 2, 3, 2)
	for _, c := range []Change{
		person("ada", "ada@a.example"), person("tor", "tor@a.example"),
		OrganizationChange{Organization: org.Organization{ID: "nord", Name: "Nord", AIIntegration: true}},
		OrganizationChange{Organization: org.Organization{ID: "sund", Name: "Sund", AIIntegration: true}},
		membership("ada", "nord"), membership("tor", "nord"), membership("ada", "sund"),
		CircleChange{org.Circle{ID: "root", Organization: "nord", Name: "Root"}},
		RoleChange{org.Role{ID: "cash", Organization: "nord", Circle: "root", Name: "Cash"}},
		RoleChange{org.Role{ID: "desk", Organization: "nord", Circle: "root", Name: "Desk"}},
		FillerChange{Role: "cash", Person: "ada", On: true}, FillerChange{Role: "cash", Person: "tor", On: true}, FillerChange{Role: "desk", Person: "ada", On: true},
		ClientChange{Client: client.Client{ID: "app", IssuedAt: 1000}, Weight: Weight{Network: 7, Bytes: 40}},
		APIKeyChange{Hash: [32]byte{1}, APIKey: APIKey{MemberKey: MemberKey{"ada", "nord"}}},
	} {
		c.Apply(&f)
	}
	return f
}

// says puts the facts into words, and checks that each thing is found from each side.
func says(t *testing.T, f *Facts) string {
	t.Helper()
	var out []string
	for _, p := range Sorted(&f.People) {
		if f.ByEmail.Get(EmailKey(p.Person)) != p {
			t.Errorf("%s is not found by their email", p.ID)
		}
		out = append(out, fmt.Sprintf("%s %q %d", p.ID, p.Email, p.Epoch))
	}
	if f.ByEmail.Len() != f.People.Len() {
		t.Errorf("%d emails of %d people", f.ByEmail.Len(), f.People.Len())
	}
	for _, o := range InOrder(f.Orgs) {
		line := fmt.Sprintf("%s %v %d:", o.ID, o.AIIntegration, o.Epoch)
		for _, m := range o.ByPerson() {
			m := f.Members.Get(m.Key())
			line += " " + m.Person.ID
			if m.Admin {
				line += "*"
			}
			for i, r := range m.Roles {
				if line += "," + r.ID; r.Fillers[r.place] != (Filler{m, int32(i)}) || o.Roles[r.ID] != r.Role || !m.Fills(r.Role) {
					t.Errorf("%s fills %s, which does not say so", m.Person.ID, r.ID)
				}
			}
			if got := len(m.AsMember().Roles()); m.Person.Active && got != len(m.Roles) {
				t.Errorf("%s has %d roles, and as a member %d", m.Person.ID, len(m.Roles), got)
			}
		}
		for _, c := range InOrder(o.Circles) {
			line += " (" + c.ID + ")"
		}
		for _, r := range InOrder(o.Roles) {
			line += fmt.Sprintf(" [%s %s %d]", r.ID, r.Name, len(r.Fillers))
		}
		out = append(out, line)
	}
	for _, c := range InOrder(f.Clients) {
		out = append(out, fmt.Sprintf("%s approved %v disabled %v deleted %v %d", c.ID, c.Approved, c.Disabled, c.Deleted, c.Epoch))
	}
	return strings.Join(append(out, fmt.Sprintf("waiting %v", f.Waiting), fmt.Sprintf("keys %d", len(f.APIKeys))), "\n")
}

// Each change does what it says, wherever that is looked up, and nothing else; what
// ends is counted, and the organizations that it touches have another stamp.
func TestChanges(t *testing.T) {
	off := person("tor", "tor@a.example")
	off.Active, off.Epoch = false, 1
	left := MemberChange{MemberKey: MemberKey{"ada", "nord"}, Epoch: 1}
	back := MemberChange{MemberKey: MemberKey{"ada", "nord"}, Present: true, Epoch: 1}
	admin := membership("tor", "nord")
	admin.Admin = true
	nord := OrganizationChange{Organization: org.Organization{ID: "nord", Name: "Nord"}, Epoch: 1}
	for name, tt := range map[string]struct {
		changes []Change
		gone    []string // lines of town, by their beginning
		now     []string // lines that take their place
		ended   int
		touched string // organizations
		rows    string
	}{
		"an email": {[]Change{person("ada", "a@b.example")}, []string{`ada "ada`}, []string{`ada "a@b.example" 0`}, 0, "nord sund", "person ada"},
		"two emails, with each other": {[]Change{person("ada", "tor@a.example"), person("tor", "ada@a.example")}, []string{`ada "`, `tor "`},
			[]string{`ada "tor@a.example" 0`, `tor "ada@a.example" 0`}, 0, "nord sund", "person ada, person tor"},
		"an email in other letters": {[]Change{person("ada", "ADA@a.example")}, []string{`ada "`}, []string{`ada "ADA@a.example" 0`}, 0, "nord sund", "person ada"},
		"a person and their memberships": {[]Change{person("eve", "eve@a.example"), membership("eve", "sund"), membership("eve", "nord"), FillerChange{Role: "desk", Person: "eve", On: true}}, []string{"nord ", "sund "},
			[]string{`eve "eve@a.example" 0`, "nord true 0: ada,cash,desk eve,desk tor,cash (root) [cash Cash 2] [desk Desk 2]", "sund true 0: ada eve"}, 0, "nord sund",
			"person eve, membership eve sund, membership eve nord, filler desk eve"},
		"a person of before": {[]Change{PersonChange{Person: org.Person{ID: "eve", Email: "eve@a.example"}, Epoch: 3}}, nil, []string{`eve "eve@a.example" 3`}, 0, "", "person eve"},
		"a person off":       {[]Change{off}, []string{`tor "`}, []string{`tor "tor@a.example" 1`}, 1, "nord", "person tor"},
		"integration off":    {[]Change{nord}, []string{"nord "}, []string{"nord false 1: ada,cash,desk tor,cash (root) [cash Cash 2] [desk Desk 1]"}, 1, "nord", "organization nord"},
		"an admin":           {[]Change{admin}, []string{"nord "}, []string{"nord true 0: ada,cash,desk tor*,cash (root) [cash Cash 2] [desk Desk 1]"}, 0, "nord", "membership tor nord"},
		"a member leaves":    {[]Change{left}, []string{"nord "}, []string{"nord true 0: tor,cash (root) [cash Cash 1] [desk Desk 0]"}, 1, "nord", "membership ada nord"},
		"and comes back":     {[]Change{back}, []string{"nord "}, []string{"nord true 0: ada tor,cash (root) [cash Cash 1] [desk Desk 0]"}, 1, "nord", "membership ada nord"},
		"the second leaves":  {[]Change{MemberChange{MemberKey: MemberKey{"tor", "nord"}, Epoch: 1}}, []string{"nord "}, []string{"nord true 0: ada,cash,desk (root) [cash Cash 1] [desk Desk 1]"}, 1, "nord", "membership tor nord"},
		"a member of before": {[]Change{MemberChange{MemberKey: MemberKey{"tor", "sund"}, Present: true, Epoch: 3}}, []string{"sund "}, []string{"sund true 0: ada tor"}, 1, "sund", "membership tor sund"},
		"people removed":     {[]Change{person("ada", ""), person("tor", "")}, []string{`ada "`, `tor "`}, []string{`ada "" 0`, `tor "" 0`}, 0, "nord sund", "person ada, person tor"},
		"one of two circles": {[]Change{CircleChange{org.Circle{ID: "root", Organization: "sund"}}, CircleGone{Organization: "nord", ID: "root"}}, []string{"nord ", "sund "},
			[]string{"nord true 0: ada,cash,desk tor,cash [cash Cash 2] [desk Desk 1]", "sund true 0: ada (root)"}, 0, "nord sund", "circle root, circle root"},
		"a client that waits again": {[]Change{ClientChange{Client: client.Client{ID: "app", Approved: true}}, ClientChange{Client: client.Client{ID: "app"}}}, []string{"waiting"}, []string{"waiting {{1 0} map[]}"}, 0, "", "client app, client app"},
		"a new member":              {[]Change{membership("tor", "sund")}, []string{"sund "}, []string{"sund true 0: ada tor"}, 0, "sund", "membership tor sund"},
		"nobody's member":           {[]Change{membership("eve", "sund"), membership("ada", "west")}, nil, nil, 0, "", "membership eve sund, membership ada west"},
		"a circle":                  {[]Change{CircleChange{org.Circle{ID: "c", Organization: "sund"}}}, []string{"sund "}, []string{"sund true 0: ada (c)"}, 0, "sund", "circle c"},
		"a circle goes":             {[]Change{CircleGone{ID: "root"}}, []string{"nord "}, []string{"nord true 0: ada,cash,desk tor,cash [cash Cash 2] [desk Desk 1]"}, 0, "nord", "circle root"},
		"a named one":               {[]Change{CircleGone{Organization: "nord", ID: "root"}, CircleGone{Organization: "sund", ID: "root"}}, []string{"nord "}, []string{"nord true 0: ada,cash,desk tor,cash [cash Cash 2] [desk Desk 1]"}, 0, "nord", "circle root, circle root"},
		"a role's name":             {[]Change{RoleChange{org.Role{ID: "cash", Organization: "nord", Circle: "root", Name: "Till"}}}, []string{"nord "}, []string{"nord true 0: ada,cash,desk tor,cash (root) [cash Till 2] [desk Desk 1]"}, 0, "nord", "role cash"},
		"a role goes":               {[]Change{RoleGone("cash"), RoleGone("none")}, []string{"nord "}, []string{"nord true 0: ada,desk tor (root) [desk Desk 1]"}, 0, "nord", "role cash, role none"},
		"a role emptied":            {[]Change{RoleEmptied("cash"), RoleChange{org.Role{ID: "cash", Organization: "nord", Circle: "root", Name: "Cash"}}}, []string{"nord "}, []string{"nord true 0: ada,desk tor (root) [cash Cash 0] [desk Desk 1]"}, 0, "nord", "role cash"},
		"out of a role":             {[]Change{FillerChange{Role: "cash", Person: "ada"}}, []string{"nord "}, []string{"nord true 0: ada,desk tor,cash (root) [cash Cash 1] [desk Desk 1]"}, 0, "nord", "filler cash ada"},
		"the first of two":          {[]Change{FillerChange{Role: "cash", Person: "ada"}, FillerChange{Role: "cash", Person: "tor"}, FillerChange{Role: "cash", Person: "tor"}}, []string{"nord "}, []string{"nord true 0: ada,desk tor (root) [cash Cash 0] [desk Desk 1]"}, 0, "nord", "filler cash ada, filler cash tor, filler cash tor"},
		"into it again":             {[]Change{FillerChange{Role: "desk", Person: "ada", On: true}}, nil, nil, 0, "nord", "filler desk ada"},
		"nobody's role":             {[]Change{FillerChange{Role: "none", Person: "ada", On: true}, FillerChange{Role: "cash", Person: "eve", On: true}}, nil, nil, 0, "", "filler none ada, filler cash eve"},
		"a client approved": {[]Change{ClientApproved("app"), ClientApproved("none")}, []string{"app ", "waiting"},
			[]string{"app approved true disabled false deleted false 0", "waiting {{0 0} map[]}"}, 0, "", "client app, client none"},
		"a client deleted": {[]Change{ClientDeleted{ID: "app", Epoch: 1}}, []string{"app ", "waiting"},
			[]string{"app approved true disabled true deleted true 1", "waiting {{0 0} map[]}"}, 1, "", "client app"},
		"a client gone": {[]Change{ClientGone("app"), ClientGone("app")}, []string{"app ", "waiting"}, []string{"waiting {{0 0} map[]}"}, 0, "", "client app, client app"},
		"a client disabled": {[]Change{ClientChange{Client: client.Client{ID: "app", Disabled: true}, Epoch: 1}}, []string{"app "},
			[]string{"app approved false disabled true deleted false 1"}, 1, "", "client app"},
		"a client of another weight": {[]Change{ClientChange{Client: client.Client{ID: "app"}, Weight: Weight{Network: 8, Bytes: 1}}}, []string{"waiting"},
			[]string{"waiting {{1 1} map[8:{1 1}]}"}, 0, "", "client app"},
		"another client": {[]Change{ClientChange{Client: client.Client{ID: "two"}, Weight: Weight{Network: 7, Bytes: 2}}, ClientChange{Client: client.Client{ID: "old"}, Deleted: true}}, []string{"waiting"},
			[]string{"old approved true disabled true deleted true 0", "two approved false disabled false deleted false 0", "waiting {{2 42} map[7:{2 42}]}"}, 0, "", "client two, client old"},
		"a key":    {[]Change{APIKeyChange{Hash: [32]byte{2}}}, []string{"keys"}, []string{"keys 2"}, 0, "", "api_key 02" + strings.Repeat("00", 31)},
		"no key":   {[]Change{APIKeyGone([32]byte{1})}, []string{"keys"}, []string{"keys 0"}, 0, "", "api_key 01" + strings.Repeat("00", 31)},
		"all keys": {[]Change{APIKeysGone{}}, []string{"keys"}, []string{"keys 0"}, 0, "", "* "},
	} {
		f, other := town(), town()
		ready := []Change{} // before the first is applied
		for _, c := range tt.changes {
			ready = append(ready, Ready(c))
		}
		want := strings.Split(says(t, &f), "\n")
		for _, gone := range tt.gone {
			want = slices.DeleteFunc(want, func(l string) bool { return strings.HasPrefix(l, gone) })
		}
		want = append(want, tt.now...)
		ended, stamps, rows := f.Ended, map[string]Stamp{}, []string{}
		for id, o := range f.Orgs {
			stamps[id] = o.Stamp
		}
		for _, c := range tt.changes {
			c.Apply(&f)
			if table, key := c.Row(); table != "" {
				rows = append(rows, table+" "+key)
			}
		}
		for _, c := range ready {
			c.Apply(&other)
		}
		if got := says(t, &other); got != says(t, &f) {
			t.Errorf("%s, made ready:\n%s", name, got)
		}
		got := strings.Split(says(t, &f), "\n")
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant:\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		var touched []string
		for _, o := range InOrder(f.Orgs) {
			if o.Stamp != stamps[o.ID] {
				touched = append(touched, o.ID)
			}
		}
		if got := strings.Join(touched, " "); got != tt.touched {
			t.Errorf("%s: touched %q, want %q", name, got, tt.touched)
		}
		if f.Ended-ended != tt.ended {
			t.Errorf("%s: %d facts ended, want %d", name, f.Ended-ended, tt.ended)
		}
		if got := strings.Join(rows, ", "); got != tt.rows {
			t.Errorf("%s: rows %q, want %q", name, got, tt.rows)
		}
	}
}

// Emails pass from one to another in any way, their changes come in any order, some twice, and
// each is found by the email that they have in the end: so nodes load the people that an import
// has changed. It is the same where the index tells no two emails apart by their hashes.
func TestEmailsPassOn(t *testing.T) {
	ids := []string{"ada", "eva", "siv", "tor"}
	emails := []string{"ada@a.example", "eva@a.example", "siv@a.example", "tor@a.example", "new@a.example", ""}
	for _, mask := range []uint64{math.MaxUint64, 1, 0} {
		for to := range slices.Values(orders(len(emails))) {
			for order := range slices.Values(orders(len(ids))) {
				f := New(false, 4, 0, 0)
				f.ByEmail.mask = mask
				for i, id := range ids[:3] { // the last is new
					person(id, emails[i]).Apply(&f)
				}
				for _, i := range append(order, order[0]) {
					person(ids[i], emails[to[i]]).Apply(&f)
				}
				found := 0
				for key, p := range f.ByEmail.Each {
					if found++; p != f.People.Get(p.ID) || key != EmailKey(p.Person) {
						t.Errorf("%s is %s", key, p.ID)
					}
				}
				for i, id := range ids {
					if at := f.ByEmail.Get(EmailKey(person(id, emails[to[i]]).Person)); at == nil || at.ID != id {
						t.Fatalf("mask %x, to %v in the order %v: %s is not found: %+v", mask, to, order, id, at)
					}
				}
				if found != len(ids) || f.ByEmail.Len() != len(ids) {
					t.Fatalf("mask %x, to %v in the order %v: %d of %d", mask, to, order, found, f.ByEmail.Len())
				}
			}
		}
	}
}

// orders gives all orders of so many.
func orders(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, rest := range orders(n - 1) {
		for i := range n {
			all = append(all, slices.Insert(slices.Clone(rest), i, n-1))
		}
	}
	return all
}

// Who fills what is found from each side, in whatever order it begins and ends.
func TestFillersInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	f, fills := New(false, 0, 0, 0), map[FillerChange]bool{}
	OrganizationChange{Organization: org.Organization{ID: "nord"}}.Apply(&f)
	for n := range 6 {
		id := fmt.Sprint(n)
		for _, c := range []Change{person(id, id+"@a.example"), membership(id, "nord"), RoleChange{org.Role{ID: id, Organization: "nord"}}} {
			c.Apply(&f)
		}
	}
	for range 2000 {
		c := FillerChange{Role: fmt.Sprint(random.IntN(6)), Person: fmt.Sprint(random.IntN(6)), On: random.IntN(2) == 0}
		c.Apply(&f)
		fills[FillerChange{Role: c.Role, Person: c.Person}] = c.On
		says(t, &f)
		for c, is := range fills {
			if got := f.Members.Get(MemberKey{c.Person, "nord"}).Fills(f.Roles.Get(c.Role)); got != is {
				t.Fatalf("%s fills %s: %v, want %v", c.Person, c.Role, got, is)
			}
		}
	}
}

// Whether somebody fills a role is looked up in the shorter list: the other one has
// nothing in it here that could tell.
func TestFillersByTheShorterList(t *testing.T) {
	for name, long := range map[string]struct{ roles, fillers int }{"many roles": {1000, 0}, "many people": {0, 1000}} {
		at, r := &Member{}, &Role{}
		if at.fill(r); long.roles > 0 {
			at.Roles = make([]Filled, long.roles)
		} else {
			r.Fillers = make([]Filler, long.fillers)
		}
		if !at.Fills(r) {
			t.Errorf("%s: the longer list was asked", name)
		}
	}
}

// What was made ready takes its place as it is, and nothing is made under the lock.
func TestReady(t *testing.T) {
	f := town()
	eve, member := Ready(person("eve", "eve@a.example")).(PersonChange), Ready(membership("eve", "sund")).(MemberChange)
	eve.Apply(&f)
	member.Apply(&f)
	if got := f.People.Get("eve"); got == nil || got != eve.anew {
		t.Errorf("another person: %p, %p", got, eve.anew)
	}
	if got := f.Members.Get(member.MemberKey); got == nil || got != member.anew {
		t.Errorf("another member: %p, %p", got, member.anew)
	}
}

// Who looks for a row finds none where a change says that it is gone, and one otherwise.
func TestGone(t *testing.T) {
	for _, c := range []Change{FillerChange{}, CircleGone{}, RoleGone(""), APIKeyGone{}, ClientGone("")} {
		if !Gone(c) {
			t.Errorf("%T is not gone", c)
		}
	}
	for _, c := range []Change{FillerChange{On: true}, PersonChange{}, OrganizationChange{}, PolicyChange{}, MemberChange{}, CircleChange{}, RoleChange{},
		RoleEmptied(""), APIKeyChange{}, APIKeysGone{}, ClientChange{}, ClientApproved(""), ClientDeleted{}} {
		if Gone(c) {
			t.Errorf("%T is gone", c)
		}
	}
}

// What a member is asked for is made anew when something under it has changed.
func TestAsMember(t *testing.T) {
	f := town()
	f.Impersonal = true
	membership("tor", "sund").Apply(&f)
	at := f.Members.Get(MemberKey{"tor", "sund"})
	if m := at.AsMember(); !m.Exists() || !m.Impersonal {
		t.Errorf("%+v", m)
	}
	ada := f.Members.Get(MemberKey{"ada", "nord"})
	if ada.AsMember().Impersonal {
		t.Error("of before the setting")
	}
	for _, tt := range []struct {
		name string
		Change
	}{
		{"renamed", RoleChange{org.Role{ID: "cash", Organization: "nord", Circle: "root", Name: "Till"}}},
		{"admin", MemberChange{MemberKey: MemberKey{"ada", "nord"}, Present: true, Admin: true}},
		{"left", FillerChange{Role: "desk", Person: "ada"}},
		{"gone", RoleGone("cash")},
	} {
		before := fmt.Sprint(ada.AsMember())
		if tt.Apply(&f); fmt.Sprint(ada.AsMember()) == before {
			t.Errorf("%s: still %s", tt.name, before)
		}
	}
	off := person("ada", "ada@a.example")
	off.Active = false
	if off.Apply(&f); ada.AsMember().Exists() || (*Member)(nil).AsMember().Exists() {
		t.Error("a member who is not active, or none")
	}
}

// Rules limit the members of their organization, as far as they limit anything, and
// change what an answer was made of; other changes leave them.
func TestPolicyChange(t *testing.T) {
	f := town()
	ada, sund := f.Members.Get(MemberKey{"ada", "nord"}), f.Orgs["sund"].Stamp
	for name, tt := range map[string]struct {
		p      *policy.Policy
		limits bool
	}{
		"none":      {nil, false},
		"for apps":  {&policy.Policy{Unknown: policy.Ask, MaxDays: 3}, false},
		"a ceiling": {&policy.Policy{Ceiling: grantset.Ceiling{ReadOnly: true}}, true},
	} {
		stamp, c := f.Orgs["nord"].Stamp, PolicyChange{"nord", tt.p}
		if c.Apply(&f); f.Orgs["nord"].Stamp == stamp {
			t.Errorf("%s: what was answered still counts", name)
		}
		OrganizationChange{Organization: f.Orgs["nord"].Organization}.Apply(&f)
		if at := f.Orgs["nord"]; at.Policy != tt.p || (ada.Limit() != nil) != tt.limits || at.Stamp == stamp {
			t.Errorf("%s: %+v, limit %v", name, at.Policy, ada.Limit())
		}
		if table, key := c.Row(); table != "policy" || key != "nord" {
			t.Errorf("%s: %s %s", name, table, key)
		}
	}
	PolicyChange{Organization: "nowhere"}.Apply(&f)
	if f.Orgs["sund"].Stamp != sund || f.Orgs["sund"].Policy != nil || (*Member)(nil).Limit() != nil {
		t.Error("another organization has rules")
	}
}

// An approval stands on the epochs of four facts; one that is not there has an epoch
// that none was born with.
func TestStanding(t *testing.T) {
	f := town()
	off := person("ada", "ada@a.example")
	off.Epoch = 2
	off.Apply(&f)
	OrganizationChange{Organization: org.Organization{ID: "nord"}, Epoch: 3}.Apply(&f)
	MemberChange{MemberKey: MemberKey{"ada", "nord"}, Present: true, Epoch: 4}.Apply(&f)
	ClientChange{Client: client.Client{ID: "app"}, Epoch: 5}.Apply(&f)
	for a, want := range map[[3]string]approval.Standing{
		{"ada", "nord", "app"}: {Membership: 4, Person: 2, Organization: 3, Client: 5},
		{"ada", "west", "app"}: {Membership: -1, Person: 2, Organization: -1, Client: 5},
		{"eve", "nord", "no"}:  {Membership: -1, Person: -1, Organization: 3, Client: -1},
	} {
		if got := f.Standing(approval.Approval{Person: a[0], Organization: a[1], Client: a[2]}); got != want {
			t.Errorf("%v: %+v, want %+v", a, got, want)
		}
	}
	k := f.APIKeys[[32]byte{1}]
	if k.Stands(f.Members.Get(k.MemberKey)) || k.Stands(nil) {
		t.Error("a key stands on facts that have ended")
	}
	k.MembershipEpoch, k.PersonEpoch = 4, 2
	if !k.Stands(f.Members.Get(k.MemberKey)) {
		t.Error("a key does not stand")
	}
}

// Rows counts what is there, and not who fills roles.
func TestRows(t *testing.T) {
	f := town() // two people, three memberships, two roles, a client, a key
	for _, tt := range []struct {
		change Change
		want   int
	}{
		{nil, 9}, {person("eva", "eva@a.example"), 10}, {membership("eva", "nord"), 11}, {RoleGone("desk"), 10}, {ClientGone("app"), 9}, {APIKeyGone{1}, 8},
	} {
		if tt.change != nil {
			tt.change.Apply(&f)
		}
		if got := f.Rows(); got != tt.want {
			t.Errorf("after %+v: %d rows, want %d", tt.change, got, tt.want)
		}
	}
}

// An organization is empty without a member, circle or role, and with the integration off.
func TestEmpty(t *testing.T) {
	none := OrganizationChange{Organization: org.Organization{ID: "o"}}
	on := none
	on.AIIntegration = true
	f := New(false, 0, 0, 0)
	if none.Apply(&f); !f.Orgs["o"].Empty() || f.Ended != 1 {
		t.Error("an empty one is not empty, or a fact has ended")
	}
	person("ada", "a@o.example").Apply(&f)
	for _, c := range [][2]Change{{on, none}, {membership("ada", "o"), MemberChange{MemberKey: MemberKey{"ada", "o"}}},
		{CircleChange{org.Circle{ID: "c", Organization: "o"}}, CircleGone{ID: "c"}}, {RoleChange{org.Role{ID: "r", Organization: "o"}}, RoleGone("r")}} {
		if c[0].Apply(&f); f.Orgs["o"].Empty() {
			t.Errorf("empty with %+v", c[0])
		}
		if c[1].Apply(&f); !f.Orgs["o"].Empty() || f.Roles.Get("r") != nil {
			t.Errorf("not empty after %+v", c[1])
		}
	}
	if f.People.Get("ada").Removed() {
		t.Error("who is there is removed")
	}
	if person("ada", "").Apply(&f); !f.People.Get("ada").Removed() {
		t.Error("who is removed is there")
	}
}

// A client is known for 14 days, for good once it is approved, and not when it is
// deleted.
func TestKnown(t *testing.T) {
	f := town()
	soon, late := time.Unix(1001, 0), time.Unix(1000, 0).Add(client.UnapprovedRetention)
	c := f.Clients["app"]
	if !c.Known(soon) || c.Known(late) {
		t.Error("of a client that nobody has approved")
	}
	if ClientApproved("app").Apply(&f); !c.Known(late) {
		t.Error("of one that somebody has")
	}
	if (ClientDeleted{ID: "app"}).Apply(&f); c.Known(soon) {
		t.Error("of one that is deleted")
	}
}

// Picks of roles that are not there keep a place, once each; all facts can be taken
// anew, and stamps go on.
func TestRememberAndAdopt(t *testing.T) {
	f := town()
	f.Remember([]grantset.Pick{{Role: "cash"}, {Role: "lost"}, {Role: "lost"}})
	if len(f.RoleList) != 3 || f.Gone["lost"].Index != 2 || f.RoleList[2].ID != "lost" {
		t.Errorf("%d places, %+v", len(f.RoleList), f.Gone)
	}
	f.Ended = 9
	stamp := f.Orgs["nord"].Stamp
	if f.Adopt(town()); f.Ended != 9 || f.Orgs["nord"].Stamp <= stamp || f.Orgs["nord"].Stamp == f.Orgs["sund"].Stamp {
		t.Errorf("ended %d, stamps %v after %v", f.Ended, f.Orgs["nord"].Stamp, stamp)
	}
	anew := town()
	RoleChange{org.Role{ID: "till", Organization: "nord", Circle: "root", Name: "Till"}}.Apply(&anew)
	CircleChange{org.Circle{ID: "sub", Organization: "sund", Parent: "top"}}.Apply(&anew)
	if f.Adopt(anew); f.Roles.Get("till") == nil {
		t.Error("what was loaded anew is not there")
	}
	if o := f.Orgs["sund"]; o.Empty() || o.Inside("sub") != "" || o.Inside("top") == "" || f.Orgs["nord"].Inside("root") == "" {
		t.Error("what is in an organization")
	}
}

// The text of a network says which block it is of, and what is none counts alone.
func TestBlocks(t *testing.T) {
	four, six := BlockOf("192.0.2.0/24"), BlockOf("2001:db8:1::/48")
	if four == 0 || six == 0 || four == six || four != BlockOf("192.0.2.0/25") || BlockOf("192.0.0.0/16") != 0 || BlockOf("2001:db8::/32") != 0 || BlockOf("") != 0 {
		t.Error(four, six)
	}
	if BlockOf("192.0.3.0/24") == four || BlockOf("2001:db8:2::/48") == six || BlockOf("2001:db8:3::/48") == BlockOf("2001:db8:2::/48") || BlockOf("1.2.3.0/24") == BlockOf("0:1:203::/48") {
		t.Error("two blocks are one")
	}
	var c Crowd
	c.Add(Weight{Bytes: 3}, 1)
	c.Add(Weight{Network: four, Bytes: 4}, 1)
	c.Add(Weight{Network: four, Bytes: 5}, 1)
	c.Add(Weight{Network: four, Bytes: 4}, -1)
	if c.Clients != 2 || c.Bytes != 8 || c.Networks[four] != (Held{1, 5}) || len(c.Networks) != 1 {
		t.Errorf("%+v", c)
	}
}
