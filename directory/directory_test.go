package directory

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// rows is a Source that was told what to say.
type rows struct {
	asOf  int64
	newer []string
	keys  []KeyRow
	fails string // which question
}

var errBroken = errors.New("the rows cannot be read")

func (r rows) of(question string) error {
	if r.fails == question {
		return errBroken
	}
	return nil
}

func (r rows) AsOf() (int64, error)          { return r.asOf, r.of("a version") }
func (r rows) Newer(int64) ([]string, error) { return r.newer, r.of("events") }
func (r rows) Keys() ([]KeyRow, error)       { return r.keys, r.of("keys") }
func (r rows) Passwords(people []string) (map[string]string, error) {
	hashes := map[string]string{}
	for _, id := range people {
		hashes[id] = "hash of " + id
	}
	return hashes, r.of("a password")
}

func account(id, email string) Person {
	return Person{Person: org.Person{ID: id, Email: email, Name: strings.ToUpper(id), Active: true}}
}

const oldKey, newKey = "an-api-key-that-is-there", "an-api-key-that-is-new"

// keyOf is how Ada's key lies in its table.
var keyOf = KeyRow{sha256.Sum256([]byte(oldKey)), facts.MemberKey{Person: "ada", Organization: "nord"}, "script"}

// town is a directory with two organizations.
func town() Directory {
	return Directory{
		People:        []Person{account("ada", "ada@a.example"), account("tor", "tor@a.example")},
		Organizations: []org.Organization{{ID: "nord", Name: "Nord", AIIntegration: true}, {ID: "sund", Name: "Sund"}},
		Members:       []Member{{Person: "ada", Organization: "nord", Admin: true}, {Person: "tor", Organization: "nord"}, {Person: "ada", Organization: "sund"}},
		Circles:       []org.Circle{{ID: "root", Organization: "nord", Name: "Root"}, {ID: "sub", Organization: "nord", Parent: "root", Name: "Sub"}},
		Roles:         []org.Role{{ID: "cash", Organization: "nord", Circle: "root", Name: "Cash"}, {ID: "desk", Organization: "nord", Circle: "sub", Name: "Desk"}},
		Fillers:       []Filler{{"cash", "ada"}, {"cash", "tor"}},
		APIKeys:       []APIKey{{Person: "ada", Organization: "nord", Name: "script"}},
	}
}

// known are the facts that say the same.
func known() *facts.Facts {
	f, d := facts.New(false, 0, 0, 0), town()
	for _, p := range d.People {
		facts.PersonChange{Person: p.Person}.Apply(&f)
	}
	for _, o := range d.Organizations {
		facts.OrganizationChange{Organization: o}.Apply(&f)
	}
	for _, m := range d.Members {
		facts.MemberChange{MemberKey: facts.MemberKey{Person: m.Person, Organization: m.Organization}, Admin: m.Admin, Present: true}.Apply(&f)
	}
	for _, c := range d.Circles {
		facts.CircleChange{Circle: c}.Apply(&f)
	}
	for _, r := range d.Roles {
		facts.RoleChange{Role: r}.Apply(&f)
	}
	for _, x := range d.Fillers {
		facts.FillerChange{Role: x.Role, Person: x.Person, On: true}.Apply(&f)
	}
	facts.PolicyChange{Organization: "nord", Policy: &policy.Policy{Unknown: policy.Ask, Ceiling: grantset.Ceiling{Never: []string{"gone"}}, Version: 4, ChangedBy: "person:ada"}}.Apply(&f)
	facts.APIKeyChange{Hash: keyOf.Hash, APIKey: facts.APIKey{MemberKey: keyOf.Of}}.Apply(&f)
	gone := account("gil", "").Person
	gone.Active = false
	facts.PersonChange{Person: gone, Epoch: 1}.Apply(&f) // was removed
	return &f
}

// says lists the changes of a plan, what ends, and what a dry run would count.
func says(p *Plan) string {
	var out []string
	for _, c := range p.Out.Changes {
		out = append(out, c.What+" "+c.List+" "+c.ID)
	}
	for _, e := range p.Ends {
		out = append(out, strings.Join(strings.Fields("ends "+e.Person+" "+e.Organization), " ")+": "+e.What)
	}
	return strings.Join(append(out, strings.TrimSpace(fmt.Sprint(p.EndedPeople(), p.SwitchedOff()))), "; ")
}

// consistent checks that each change that a plan counts is one that it holds.
func consistent(t *testing.T, name string, p *Plan) {
	t.Helper()
	r := p.Removed
	for list, n := range map[string][2]int{
		ListPeople: {len(p.People), len(r.People)}, ListOrganizations: {len(p.Organizations), len(r.Organizations)},
		ListMembers: {len(p.Members), len(r.Members)}, ListCircles: {len(p.Circles), len(r.Circles)},
		ListRoles: {len(p.Roles), len(r.Roles)}, ListFillers: {len(p.Fillers), len(r.Fillers)},
		ListRules: {len(p.Rules) - p.Out.Lists[ListRules].Removed, p.Out.Lists[ListRules].Removed},
	} {
		if c := p.Out.Lists[list]; c.Added+c.Changed != n[0] || c.Removed != n[1] {
			t.Errorf("%s: %s: %+v, and the plan has %v", name, list, c, n)
		}
	}
	if slices.ContainsFunc(p.Keys, func(k APIKey) bool { return k.Key == "" }) {
		t.Errorf("%s: a key without text is to be kept: %+v", name, p.Keys)
	}
	if c := p.Out.Lists[ListAPIKeys]; c.Removed != len(r.Keys) || c.Added+c.Changed != len(p.Keys) {
		t.Errorf("%s: keys: %+v", name, p.Out.Lists[ListAPIKeys])
	}
}

var all = map[string]bool{ListPeople: true, ListOrganizations: true, ListMembers: true, ListCircles: true, ListRoles: true, ListAPIKeys: true}

// A plan names what is not there as it came, and with complete lists what they leave
// out, once each and in the order in which it is carried out.
func TestPlan(t *testing.T) {
	const nothing = "[] []"
	for name, tt := range map[string]struct {
		change func(i *Import)
		source rows
		want   string
	}{
		"as it is":          {func(*Import) {}, rows{}, nothing},
		"and complete":      {func(i *Import) { i.Prune = all }, rows{}, nothing},
		"a name":            {func(i *Import) { i.People[0].Name = "Ada L." }, rows{}, "changed people ada; " + nothing},
		"a password":        {func(i *Import) { i.People[0].PasswordHash = "hash" }, rows{}, "changed people ada; " + nothing},
		"the same password": {func(i *Import) { i.People[0].PasswordHash = "hash of ada" }, rows{}, nothing},
		"deactivated":       {func(i *Import) { i.People[0].Active = false }, rows{}, "changed people ada; ends ada: person deactivated; [ada] []"},
		"not said":          {func(i *Import) { i.People[0].Active, i.Unsaid.Active = false, map[string]bool{"ada": true} }, rows{}, nothing},
		"support, not said": {func(i *Import) { i.People[0].Support, i.Unsaid.Support = true, map[string]bool{"ada": true} }, rows{}, nothing},
		"somebody new":      {func(i *Import) { i.People = append(i.People, account("eve", "e@a.example")) }, rows{}, "added people eve; " + nothing},
		"two emails, with each other": {func(i *Import) {
			i.People = []Person{account("ada", "TOR@a.example"), account("tor", "ada@a.example")}
		}, rows{}, "changed people ada; changed people tor; " + nothing},
		"an email that is left, taken first": {func(i *Import) {
			i.People = []Person{account("tor", "ada@a.example"), account("ada", "new@a.example")}
		}, rows{}, "changed people tor; changed people ada; " + nothing},
		"by somebody new": {func(i *Import) {
			i.People = append(i.People, account("eve", "tor@a.example"))
			i.People[1].Email = "new@a.example"
		}, rows{}, "changed people tor; added people eve; " + nothing},
		"by somebody new, of one who is removed": {func(i *Import) {
			i.People, i.Members, i.Fillers = []Person{account("ada", "ada@a.example"), account("eve", "tor@a.example")}, i.Members[:1], i.Fillers[:1]
			i.Prune = map[string]bool{ListPeople: true}
		}, rows{}, "removed people tor; removed members nord/tor; added people eve; ends tor: person removed; ends tor nord: member removed; [tor] []"},
		"events exchanged them since": {func(i *Import) {
			i.People, i.AsOf = []Person{account("ada", "tor@a.example"), account("tor", "ada@a.example")}, 5
		}, rows{newer: []string{"person:ada", "person:tor"}}, nothing},
		"who was removed": {func(i *Import) {
			i.People, i.Unsaid.Active = append(i.People, account("gil", "g@a.example")), map[string]bool{"gil": true}
		}, rows{}, "added people gil; " + nothing},
		"integration off": {func(i *Import) { i.Organizations[0].AIIntegration = false }, rows{}, "changed organizations nord; ends nord: AI integration off; [] [nord]"},
		"of whom not said": {func(i *Import) {
			i.Organizations[0].AIIntegration, i.Unsaid.AIIntegration = false, map[string]bool{"nord": true}
		}, rows{}, nothing},
		"an admin": {func(i *Import) { i.Members[1].Admin = true }, rows{}, "changed members nord/tor; " + nothing},
		"admin, not said": {func(i *Import) {
			i.Members[0].Admin, i.Unsaid.Admin = false, map[MembershipID]bool{{"ada", "nord"}: true}
		}, rows{}, nothing},
		"a member": {func(i *Import) { i.Members = append(i.Members, Member{Person: "tor", Organization: "sund"}) }, rows{}, "added members sund/tor; " + nothing},
		"a role with a filler": {func(i *Import) {
			i.Roles = append(i.Roles, org.Role{ID: "r", Organization: "nord", Circle: "root", Name: "R"})
			i.Fillers = append(i.Fillers, Filler{"r", "tor"})
		}, rows{}, "added roles r; added fillers r/tor; " + nothing},
		"a circle":         {func(i *Import) { i.Circles[1].Name = "S" }, rows{}, "changed circles sub; " + nothing},
		"a role":           {func(i *Import) { i.Roles[1].Circle = "root" }, rows{}, "changed roles desk; " + nothing},
		"without a circle": {func(i *Import) { i.Roles[1].Circle = "" }, rows{}, nothing},
		"new, without one": {func(i *Import) { i.Roles = append(i.Roles, org.Role{ID: "r", Organization: "nord"}) }, rows{}, "added roles r; " + nothing},
		"in no circle at all": {func(i *Import) { i.Roles = append(i.Roles, org.Role{ID: "r", Organization: "sund"}) }, rows{},
			"added circles sund; added roles r; " + nothing},
		"a filler":               {func(i *Import) { i.Fillers = append(i.Fillers, Filler{"desk", "ada"}) }, rows{}, "added fillers desk/ada; " + nothing},
		"a key":                  {func(i *Import) { i.APIKeys = append(i.APIKeys, APIKey{newKey, "tor", "nord", "x"}) }, rows{}, "added api_keys nord/tor; " + nothing},
		"the same":               {func(i *Import) { i.APIKeys[0].Key = oldKey }, rows{}, nothing},
		"the same, and no other": {func(i *Import) { i.APIKeys[0].Key, i.Prune = oldKey, map[string]bool{ListAPIKeys: true} }, rows{}, nothing},
		"another name of it":     {func(i *Import) { i.APIKeys[0] = APIKey{oldKey, "ada", "nord", "backup"} }, rows{}, "changed api_keys nord/ada; " + nothing},
		"a key of 16 letters":    {func(i *Import) { i.APIKeys = append(i.APIKeys, APIKey{"sixteen-letters-", "tor", "nord", "x"}) }, rows{}, "added api_keys nord/tor; " + nothing},
		"somebody new with all": {func(i *Import) {
			i.People, i.Members, i.Fillers = append(i.People, account("eve", "e@a.example")), append(i.Members, Member{Person: "eve", Organization: "nord"}), append(i.Fillers, Filler{"desk", "eve"})
		}, rows{}, "added people eve; added members nord/eve; added fillers desk/eve; " + nothing},
		"who is gone since": {func(i *Import) {
			i.People, i.Members, i.Fillers, i.AsOf = append(i.People, account("gil", "g@a.example")), append(i.Members, Member{Person: "gil", Organization: "nord"}), append(i.Fillers, Filler{"desk", "gil"}), 5
		}, rows{newer: []string{"person:gil"}}, nothing},
		"who has left since": {func(i *Import) {
			i.Members, i.Roles = append(i.Members, Member{Person: "tor", Organization: "sund"}), append(i.Roles, org.Role{ID: "r", Organization: "sund"})
			i.Fillers, i.AsOf = append(i.Fillers, Filler{"r", "tor"}), 5
		}, rows{newer: []string{"membership:sund/tor"}}, "added circles sund; added roles r; " + nothing},
		"who has changed since":                       {func(i *Import) { i.Fillers, i.AsOf = append(i.Fillers, Filler{"desk", "tor"}), 5 }, rows{newer: []string{"person:tor"}}, "added fillers desk/tor; " + nothing},
		"a member changed since":                      {func(i *Import) { i.Fillers, i.AsOf = append(i.Fillers, Filler{"desk", "tor"}), 5 }, rows{newer: []string{"membership:nord/tor"}}, "added fillers desk/tor; " + nothing},
		"one that moves, beside one without a circle": {func(i *Import) { i.Roles[0].Circle, i.Roles[1].Circle = "", "root" }, rows{}, "changed roles desk; " + nothing},
		"a role alone":                                {func(i *Import) { *i = Import{Directory: Directory{Roles: []org.Role{{ID: "r", Organization: "sund"}}}} }, rows{}, "added circles sund; added roles r; " + nothing},
		"a role leaves a circle that goes": {func(i *Import) {
			i.Circles, i.Roles[1].Circle, i.Prune = i.Circles[:1], "root", map[string]bool{ListCircles: true}
		}, rows{}, "removed circles sub; changed roles desk; " + nothing},
		"a role with who fills it goes": {func(i *Import) {
			i.Roles, i.Fillers, i.Prune = i.Roles[1:], nil, map[string]bool{ListRoles: true}
		}, rows{}, "removed roles cash; " + nothing},
		"another root": {func(i *Import) {
			i.Circles, i.Roles[0].Circle, i.Roles[1].Circle = []org.Circle{{ID: "top", Organization: "nord", Name: "Top"}}, "", ""
			i.Prune = map[string]bool{ListCircles: true}
		}, rows{}, "removed circles root; removed circles sub; added circles top; changed roles cash; changed roles desk; " + nothing},
		"another root, beside one of an event's": {func(i *Import) {
			i.Circles, i.Roles[0].Circle, i.Roles[1].Circle = []org.Circle{{ID: "top", Organization: "nord", Name: "Top"}}, "", "top"
			i.Prune, i.AsOf = map[string]bool{ListCircles: true}, 5
		}, rows{newer: []string{"circle:root"}}, "removed circles sub; added circles top; changed roles desk; " + nothing},
		"less a person": {func(i *Import) {
			i.People, i.Members, i.Fillers, i.APIKeys, i.Prune = i.People[1:], i.Members[1:2], i.Fillers[1:], nil, map[string]bool{ListPeople: true}
		}, rows{}, "removed people ada; removed members nord/ada; removed members sund/ada; ends ada: person removed; ends ada nord: member removed; ends ada sund: member removed; [ada] []"},
		"who is kept by a later event": {func(i *Import) {
			i.People, i.Members, i.Fillers, i.APIKeys, i.Prune, i.AsOf = i.People[1:], i.Members[1:2], i.Fillers[1:], nil, map[string]bool{ListPeople: true}, 5
		}, rows{newer: []string{"person:ada"}}, nothing},
		"less an organization": {func(i *Import) {
			*i = Import{Directory: Directory{People: i.People, Organizations: i.Organizations[1:], Members: i.Members[2:]}, Prune: map[string]bool{ListOrganizations: true}}
		}, rows{}, "removed organizations nord; removed members nord/ada; removed members nord/tor; removed circles root; removed circles sub; removed roles cash; removed roles desk; " +
			"ends nord: organization removed; ends ada nord: member removed; ends tor nord: member removed; [] [nord]"},
		"less a member": {func(i *Import) {
			i.Members, i.Fillers, i.Prune = i.Members[:1], i.Fillers[:1], map[string]bool{ListMembers: true}
		}, rows{}, "removed members nord/tor; removed members sund/ada; ends tor nord: member removed; ends ada sund: member removed; " + nothing},
		"less a role":   {func(i *Import) { i.Roles, i.Prune = i.Roles[:1], map[string]bool{ListRoles: true} }, rows{}, "removed roles desk; " + nothing},
		"less a filler": {func(i *Import) { i.Fillers, i.Prune = i.Fillers[1:], map[string]bool{ListRoles: true} }, rows{}, "removed fillers cash/ada; " + nothing},
		"less a circle": {func(i *Import) {
			i.Circles, i.Roles, i.Prune = i.Circles[:1], i.Roles[:1], map[string]bool{ListCircles: true, ListRoles: true}
		}, rows{}, "removed circles sub; removed roles desk; " + nothing},
		"less a key": {func(i *Import) { i.APIKeys, i.Prune = nil, map[string]bool{ListAPIKeys: true} }, rows{}, "removed api_keys nord/ada; ends ada nord: API key removed; " + nothing},
		"rules": {func(i *Import) {
			i.Rules = map[string]policy.Policy{"nord": {Known: policy.Ask}, "sund": {MaxDays: 3, Ceiling: grantset.Ceiling{Never: []string{}}}, "west": {}}
		}, rows{}, "changed rules nord; added rules sund; " + nothing},
		"the same rules, whoever set them": {func(i *Import) {
			i.Rules = map[string]policy.Policy{"nord": {Unknown: policy.Ask, Known: policy.Allow, Ceiling: grantset.Ceiling{Never: []string{"gone"}}, Version: 9}, "sund": {}}
		}, rows{}, nothing},
		"no rules":            {func(i *Import) { i.Rules = map[string]policy.Policy{"nord": {Version: 4}} }, rows{}, "removed rules nord; " + nothing},
		"rules of an event's": {func(i *Import) { i.Rules, i.AsOf = map[string]policy.Policy{"nord": {}}, 5 }, rows{newer: []string{"organization:nord"}}, nothing},
		"rules with a new role": {func(i *Import) {
			i.Organizations = append(i.Organizations, org.Organization{ID: "west", Name: "West"})
			i.Roles = append(i.Roles, org.Role{ID: "r", Organization: "west"})
			i.Rules = map[string]policy.Policy{"west": {Ceiling: grantset.Ceiling{Never: []string{"r"}}}}
		}, rows{}, "added organizations west; added circles west; added roles r; added rules west; " + nothing},
		"not of a list":  {func(i *Import) { i.People[0].Name, i.AsOf = "Old", 5 }, rows{newer: []string{"person:ada", "circle:sub"}}, nothing},
		"of an old one":  {func(i *Import) { i.Circles[1].Name, i.AsOf = "Old", 5 }, rows{newer: []string{"person:ada", "circle:sub"}}, nothing},
		"said by events": {func(i *Import) { i.Members[1].Admin, i.AsOf = true, 5 }, rows{newer: []string{"membership:nord/tor"}}, nothing},
	} {
		i := Import{Directory: town()}
		tt.source.keys = []KeyRow{keyOf}
		tt.change(&i)
		f, sent := known(), fmt.Sprint(i.Directory)
		p, err := PlanImport(i, f, tt.source)
		if fmt.Sprint(i.Directory) != sent {
			t.Errorf("%s: what was sent is now %v", name, i.Directory)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := says(p); got != tt.want {
			t.Errorf("%s: %s\nwant: %s", name, got, tt.want)
		}
		consistent(t, name, p)
	}
	if p, err := PlanImport(Import{Directory: town(), AsOf: 7}, known(), rows{asOf: 5, keys: []KeyRow{keyOf}}); err != nil || p.Version != 7 || p.Out.String() != "as_of: 7" {
		t.Errorf("version %d, %v, says %q", p.Version, err, p.Out)
	}
	if p, err := PlanImport(Import{Directory: town(), AsOf: 7}, known(), rows{asOf: 7, keys: []KeyRow{keyOf}}); err != nil || p.Version != 0 || p.Out.String() != "" {
		t.Errorf("the same version: %v, says %q", err, p.Out)
	}
}

// What cannot be is refused with its place, before anything is planned, and so is what
// the rows cannot be asked.
func TestPlanRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(i *Import)
		list   string
		index  int
		kind   error
	}{
		"a person twice":  {func(i *Import) { i.People = append(i.People, account("ada", "other@a.example")) }, ListPeople, 2, ErrConflict},
		"an organization": {func(i *Import) { i.Organizations = append(i.Organizations, i.Organizations[0]) }, ListOrganizations, 2, ErrConflict},
		"a member":        {func(i *Import) { i.Members = append(i.Members, i.Members[0]) }, ListMembers, 3, ErrConflict},
		"a circle":        {func(i *Import) { i.Circles = append(i.Circles, i.Circles[0]) }, ListCircles, 2, ErrConflict},
		"a role":          {func(i *Import) { i.Roles = append(i.Roles, i.Roles[1]) }, ListRoles, 2, ErrConflict},
		"a filler":        {func(i *Import) { i.Fillers = append(i.Fillers, i.Fillers[0]) }, ListRoles, 0, ErrConflict},
		"another's email": {func(i *Import) { i.People = append(i.People, account("eve", "ADA@a.example")) }, ListPeople, 2, ErrConflict},
		"one email of two": {func(i *Import) {
			i.People = append(i.People, account("eve", "e@a.example"), account("eva", "e@a.example"))
		}, ListPeople, 3, ErrConflict},
		"one that is there": {func(i *Import) { i.People = []Person{account("eve", "tor@a.example")} }, ListPeople, 0, ErrConflict},
		"one that is kept": {func(i *Import) {
			i.People = []Person{account("ada", "tor@a.example"), account("tor", "TOR@a.example")}
		}, ListPeople, 0, ErrConflict},
		"two who want one that is left": {func(i *Import) {
			i.People = []Person{account("tor", "new@a.example"), account("ada", "tor@a.example"), account("eve", "tor@a.example")}
		}, ListPeople, 2, ErrConflict},
		"a member of none": {func(i *Import) { i.Members = append(i.Members, Member{Person: "ada", Organization: "west"}) }, ListMembers, 3, ErrNotFound},
		"no person":        {func(i *Import) { i.Members = append(i.Members, Member{Person: "gil", Organization: "nord"}) }, ListMembers, 3, ErrNotFound},
		"a circle of none": {func(i *Import) { i.Circles[0].Organization = "west" }, ListCircles, 0, ErrNotFound},
		"of another":       {func(i *Import) { i.Circles[1].Organization = "sund" }, ListCircles, 1, ErrConflict},
		"in a circle":      {func(i *Import) { i.Circles[0].Parent = "sub" }, ListCircles, 0, ErrConflict},
		"in itself":        {func(i *Import) { i.Circles[0].Parent = "root" }, ListCircles, 0, ErrConflict},
		"in none":          {func(i *Import) { i.Circles[1].Parent = "none" }, ListCircles, 1, ErrNotFound},
		"above one that is right": {func(i *Import) {
			i.Circles = append(i.Circles, org.Circle{ID: "a", Organization: "nord", Parent: "b"}, org.Circle{ID: "b", Organization: "nord", Parent: "c"}, org.Circle{ID: "c", Organization: "nord", Parent: "b"})
		}, ListCircles, 2, ErrConflict},
		"of another's parent": {func(i *Import) {
			i.Circles = append(i.Circles, org.Circle{ID: "c", Organization: "sund", Parent: "root"})
		}, ListCircles, 2, ErrNotFound},
		"a role of another":   {func(i *Import) { i.Roles[0].Organization = "sund" }, ListRoles, 0, ErrConflict},
		"in no circle":        {func(i *Import) { i.Roles[0].Circle = "none" }, ListRoles, 0, ErrNotFound},
		"in another's circle": {func(i *Import) { i.Roles = append(i.Roles, org.Role{ID: "r", Organization: "sund", Circle: "root"}) }, ListRoles, 2, ErrNotFound},
		"of no organization":  {func(i *Import) { i.Roles = append(i.Roles, org.Role{ID: "r", Organization: "west"}) }, ListRoles, 2, ErrNotFound},
		"with two roots": {func(i *Import) {
			i.Circles[1].Parent = ""
			i.Roles = append(i.Roles, org.Role{ID: "r", Organization: "nord"})
		}, ListRoles, 2, ErrConflict},
		"filled by no member": {func(i *Import) { i.Fillers = append(i.Fillers, Filler{"desk", "gil"}) }, ListRoles, 1, ErrNotFound},
		"of no role":          {func(i *Import) { i.Fillers = append(i.Fillers, Filler{"none", "ada"}) }, ListRoles, -1, ErrNotFound},
		"a role stays in it": {func(i *Import) {
			i.Circles, i.Roles, i.Prune = i.Circles[:1], i.Roles[:1], map[string]bool{ListCircles: true}
		}, ListCircles, -1, ErrConflict},
		"a key of no member":   {func(i *Import) { i.APIKeys = append(i.APIKeys, APIKey{newKey, "tor", "sund", "x"}) }, ListAPIKeys, 1, ErrNotFound},
		"a short key":          {func(i *Import) { i.APIKeys = append(i.APIKeys, APIKey{"fifteen-letters", "tor", "nord", "x"}) }, ListAPIKeys, 1, ErrConflict},
		"a key twice":          {func(i *Import) { i.APIKeys = []APIKey{{newKey, "tor", "nord", "x"}, {newKey, "tor", "nord", "y"}} }, ListAPIKeys, 1, ErrConflict},
		"another's key":        {func(i *Import) { i.APIKeys = []APIKey{{oldKey, "tor", "nord", "x"}} }, ListAPIKeys, 0, ErrConflict},
		"a key without text":   {func(i *Import) { i.APIKeys[0].Name = "other" }, ListAPIKeys, 0, ErrNotFound},
		"rules that cannot be": {func(i *Import) { i.Rules = map[string]policy.Policy{"sund": {MaxDays: -1}} }, ListOrganizations, 1, ErrConflict},
		"a role of nobody": {func(i *Import) {
			i.Rules = map[string]policy.Policy{"nord": {Ceiling: grantset.Ceiling{Never: []string{"none"}}}}
		}, ListOrganizations, 0, ErrNotFound},
		"another's role": {func(i *Import) {
			i.Rules = map[string]policy.Policy{"sund": {Ceiling: grantset.Ceiling{Never: []string{"cash"}}}}
		}, ListOrganizations, 1, ErrNotFound},
		"a role that goes": {func(i *Import) {
			i.Roles, i.Prune = i.Roles[:1], map[string]bool{ListRoles: true}
			i.Rules = map[string]policy.Policy{"nord": {Ceiling: grantset.Ceiling{Never: []string{"desk"}}}}
		}, ListOrganizations, 0, ErrNotFound},
		"an older picture":  {func(i *Import) { i.AsOf = 4 }, "", -1, ErrConflict},
		"a member who goes": {func(i *Import) { i.Members, i.Prune = i.Members[1:], map[string]bool{ListMembers: true} }, ListRoles, 0, ErrNotFound},
		"of who is removed": {func(i *Import) { i.People, i.Prune = i.People[1:], map[string]bool{ListPeople: true} }, ListMembers, 0, ErrNotFound},
		"of what is removed": {func(i *Import) {
			i.Organizations, i.Prune = i.Organizations[:1], map[string]bool{ListOrganizations: true}
		}, ListMembers, 2, ErrNotFound},
		"in what is removed":   {func(i *Import) { i.Circles, i.Prune = i.Circles[1:], map[string]bool{ListCircles: true} }, ListCircles, 0, ErrNotFound},
		"a filler that leaves": {func(i *Import) { i.Roles, i.Prune = i.Roles[1:], map[string]bool{ListRoles: true} }, ListRoles, -1, ErrNotFound},
	} {
		i := Import{Directory: town()}
		tt.change(&i)
		p, err := PlanImport(i, known(), rows{asOf: 5, keys: []KeyRow{keyOf}})
		var at *Misplaced
		if p != nil && err == nil {
			t.Errorf("%s: %s", name, says(p))
		} else if !errors.As(err, &at) || !errors.Is(err, tt.kind) || at.List != tt.list || at.Index != tt.index {
			t.Errorf("%s: %v at %+v", name, err, at)
		}
	}
	later := Import{AsOf: 5, Directory: Directory{People: []Person{account("tor", "new@a.example"), account("ada", "tor@a.example")}}}
	if _, err := PlanImport(later, known(), rows{newer: []string{"person:tor"}}); !errors.Is(err, ErrConflict) {
		t.Errorf("an email that its owner keeps by a later event: %v", err)
	}
	for name, i := range map[string]Import{"a version": {AsOf: 1}, "events": {AsOf: 1}, "keys": {Prune: all}, "a password": {Directory: Directory{People: []Person{{Person: town().People[0].Person, PasswordHash: "x"}}}}} {
		if _, err := PlanImport(i, known(), rows{fails: name}); !errors.Is(err, errBroken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := PlanImport(Import{}, known(), rows{fails: "keys"}); err != nil {
		t.Errorf("keys that nobody asks for: %v", err)
	}
}

// A plan looks at each circle and role a few times at most, however deep and many they are:
// all who write wait for it. The quadratic way through these takes longer than a test may.
func TestPlanOfMany(t *testing.T) {
	const many = 60_000
	var chain, roles, elsewhere Directory
	f := facts.New(false, 0, 0, 0)
	facts.OrganizationChange{Organization: org.Organization{ID: "nord", Name: "Nord"}}.Apply(&f)
	for n := range many {
		c := org.Circle{ID: fmt.Sprint("c", n), Organization: "nord", Name: "C"}
		if n > 0 {
			c.Parent = fmt.Sprint("c", n-1)
		}
		r := org.Role{ID: fmt.Sprint("r", n), Organization: "nord", Name: "R"}
		chain.Circles, roles.Roles = append(chain.Circles, c), append(roles.Roles, r)
		facts.CircleChange{Circle: c}.Apply(&f)
		r.Circle = c.ID
		facts.RoleChange{Role: r}.Apply(&f)
		r.Circle = "top"
		elsewhere.Roles = append(elsewhere.Roles, r)
	}
	elsewhere.Circles = []org.Circle{{ID: "top", Organization: "nord", Name: "Top"}}
	backwards := Directory{Circles: slices.Clone(chain.Circles)}
	slices.Reverse(backwards.Circles)
	added := Directory{Circles: chain.Circles, Roles: slices.Clone(roles.Roles)}
	for n := range added.Roles {
		added.Roles[n].ID = fmt.Sprint("new", n)
	}
	for name, tt := range map[string]struct {
		d       Directory
		prune   map[string]bool
		changes int
	}{
		"a chain":                 {chain, nil, 0},
		"from its end":            {backwards, nil, 0},
		"new roles, no circle":    {added, nil, many},
		"roles leave for another": {elsewhere, map[string]bool{ListCircles: true}, 2*many + 1},
	} {
		p, err := PlanImport(Import{Directory: tt.d, Prune: tt.prune}, &f, rows{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := len(p.Circles) + len(p.Roles) + len(p.Removed.Circles); got != tt.changes {
			t.Errorf("%s: %d changes, want %d", name, got, tt.changes)
		}
	}
	backwards.Circles[many-1].Parent = "c7"
	var at *Misplaced
	if _, err := PlanImport(Import{Directory: backwards}, &f, rows{}); !errors.As(err, &at) || at.List != ListCircles || at.Index != 0 || !errors.Is(err, ErrConflict) {
		t.Errorf("a chain that ends in a circle: %v at %+v", err, at)
	}
	elsewhere.Roles = elsewhere.Roles[:many-2]
	if _, err := PlanImport(Import{Directory: elsewhere, Prune: map[string]bool{ListCircles: true}}, &f, rows{}); !errors.As(err, &at) ||
		at.Index != -1 || !strings.HasPrefix(err.Error(), fmt.Sprintf("circle c%d is not named, and role r%d stays in it", many-2, many-2)) {
		t.Errorf("roles that stay: %v at %+v", err, at)
	}
}

// One event changes one object, and its removal what stands on that; what is not there
// is gone already.
func TestPlanEvent(t *testing.T) {
	d := town()
	eve, half := account("eve", "e@a.example"), d.People[1]
	half.Active, half.Support = false, true
	for name, tt := range map[string]struct {
		t      Event
		object string
		in     string
		want   string
	}{
		"a person":              {Event{Person: &eve}, "person:eve", "", "added people eve; [] []"},
		"a person goes":         {Event{Person: &d.People[1], Gone: true}, "person:tor", "", "removed people tor; removed members nord/tor; ends tor: person removed; ends tor nord: member removed; [tor] []"},
		"nobody goes":           {Event{Person: &eve, Gone: true}, "person:eve", "", "[] []"},
		"an organization":       {Event{Organization: &org.Organization{ID: "sund", Name: "S"}}, "organization:sund", "sund", "changed organizations sund; [] []"},
		"an organization goes":  {Event{Organization: &d.Organizations[1], Gone: true}, "organization:sund", "sund", "removed organizations sund; removed members sund/ada; ends sund: organization removed; ends ada sund: member removed; [] [sund]"},
		"its rules":             {Event{Organization: &d.Organizations[1], Rules: &policy.Policy{MaxDays: 9}}, "organization:sund", "sund", "added rules sund; [] []"},
		"no rules any more":     {Event{Organization: &d.Organizations[0], Rules: &policy.Policy{}}, "organization:nord", "nord", "removed rules nord; [] []"},
		"rules not sent":        {Event{Organization: &d.Organizations[0]}, "organization:nord", "nord", "[] []"},
		"a member":              {Event{Member: &Member{Person: "tor", Organization: "sund"}}, "membership:sund/tor", "sund", "added members sund/tor; [] []"},
		"a member goes":         {Event{Member: &d.Members[1], Gone: true}, "membership:nord/tor", "nord", "removed members nord/tor; ends tor nord: member removed; [] []"},
		"no member goes":        {Event{Member: &Member{Person: "tor", Organization: "sund"}, Gone: true}, "membership:sund/tor", "sund", "[] []"},
		"a circle":              {Event{Circle: &org.Circle{ID: "c", Organization: "sund", Name: "C"}}, "circle:c", "sund", "added circles c; [] []"},
		"a circle that is not":  {Event{Circle: &org.Circle{ID: "c"}, Gone: true}, "circle:c", "", "[] []"},
		"a circle with a role":  {Event{Circle: &org.Circle{ID: "sub"}, Gone: true}, "circle:sub", "nord", "refused"},
		"a role":                {Event{Role: &org.Role{ID: "desk", Organization: "nord", Circle: "sub", Name: "D"}}, "role:desk", "nord", "changed roles desk; [] []"},
		"a role goes":           {Event{Role: &org.Role{ID: "desk"}, Gone: true}, "role:desk", "nord", "removed roles desk; [] []"},
		"a filler":              {Event{Filler: &Filler{"desk", "tor"}}, "filler:desk/tor", "nord", "added fillers desk/tor; [] []"},
		"a filler goes":         {Event{Filler: &Filler{"cash", "tor"}, Gone: true}, "filler:cash/tor", "nord", "removed fillers cash/tor; [] []"},
		"one who was none goes": {Event{Filler: &Filler{"desk", "tor"}, Gone: true}, "filler:desk/tor", "nord", "[] []"},
		"of no role":            {Event{Filler: &Filler{"none", "tor"}}, "filler:none/tor", "", "refused"},
		"a person, half said":   {Event{Person: &half, Unsaid: true}, "person:tor", "", "[] []"},
		"a member, half said":   {Event{Member: &Member{Person: "tor", Organization: "nord", Admin: true}, Unsaid: true}, "membership:nord/tor", "nord", "[] []"},
		"an organization, too":  {Event{Organization: &org.Organization{ID: "sund", Name: "Sund", AIIntegration: true}, Unsaid: true}, "organization:sund", "sund", "[] []"},
		"one that is not goes":  {Event{Organization: &org.Organization{ID: "west"}, Gone: true}, "organization:west", "west", "[] []"},
	} {
		f := known()
		got := "refused"
		p, err := PlanEvent(tt.t, f, rows{})
		if err == nil {
			got = says(p)
			consistent(t, name, p)
			if object, _ := tt.t.Object(); p.About == nil || *p.About != (Ending{tt.t.PersonID(), tt.t.OrganizationID(), object}) {
				t.Errorf("%s: it is about %+v", name, p.About)
			}
		} else if at := new(Misplaced); !errors.As(err, &at) || at.Index != -1 {
			t.Errorf("%s: refused at %+v", name, at)
		}
		if object, _ := tt.t.Object(); got != tt.want || object != tt.object || tt.t.In(f) != tt.in {
			t.Errorf("%s: %q in %q: %s, %v\nwant: %s", name, object, tt.t.In(f), got, err, tt.want)
		}
	}
	deep := known()
	for _, c := range []org.Circle{{ID: "three", Parent: "sub"}, {ID: "four", Parent: "three"}, {ID: "five", Parent: "four"}} {
		c.Organization = "nord"
		if p, err := PlanEvent(Event{Circle: &c}, deep, rows{}); err != nil || len(p.Circles) != 1 {
			t.Errorf("circle %s: %v", c.ID, err)
		}
		facts.CircleChange{Circle: c}.Apply(deep)
	}
	for _, tt := range []struct {
		t                    Event
		person, organization string
		on                   string
	}{
		{Event{Person: &eve}, "eve", "", ""},
		{Event{Member: &d.Members[1]}, "tor", "nord", "person:tor organization:nord"},
		{Event{Circle: &d.Circles[0]}, "", "nord", "organization:nord"},
		{Event{Role: &d.Roles[0]}, "", "nord", "organization:nord circle:root"},
		{Event{Filler: &d.Fillers[0]}, "ada", "", "role:cash person:ada"},
		{Event{}, "", "", ""},
	} {
		_, on := tt.t.Object()
		if got := strings.Join(on, " "); got != tt.on || tt.t.PersonID() != tt.person || tt.t.OrganizationID() != tt.organization {
			t.Errorf("%+v stands on %q, is of %q in %q", tt.t, got, tt.t.PersonID(), tt.t.OrganizationID())
		}
	}
}

// A picture has the members whose accounts are active, and roles with such fillers.
func TestPictureOf(t *testing.T) {
	f := known()
	off := town().People[1].Person
	off.Active = false
	facts.PersonChange{Person: off}.Apply(f)
	facts.PersonChange{Person: account("abe", "abe@a.example").Person}.Apply(f)
	facts.MemberChange{MemberKey: facts.MemberKey{Person: "abe", Organization: "nord"}, Present: true}.Apply(f)
	facts.FillerChange{Role: "cash", Person: "abe", On: true}.Apply(f)
	p := PictureOf(f.Orgs["nord"])
	if !slices.Equal(p.Members, []MemberRow{{"abe", "ABE", false}, {"ada", "ADA", true}}) || len(p.Circles) != 2 || len(p.Roles) != 2 || !slices.Equal(p.Roles[0].Fillers, []string{"abe", "ada"}) {
		t.Errorf("%+v", p)
	}
}

// What was changed is counted in words, and the first changes are listed one by one.
func TestImportedInWords(t *testing.T) {
	i := Imported{Lists: map[string]Counts{}}
	for n := range MaxChanges + 1 {
		i.add("added", ListPeople, fmt.Sprint(n))
	}
	i.add("changed", ListRoles, "r")
	i.add("removed", ListRoles, "s")
	i.AsOf = 9
	if got := i.String(); got != "people: 1001 added; roles: 1 changed, 1 removed; as_of: 9" || len(i.Changes) != MaxChanges {
		t.Errorf("%q, %d changes", got, len(i.Changes))
	}
}
