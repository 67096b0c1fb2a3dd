package grantset

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
	"pgregory.net/rapid"
)

// A ceiling that limits nothing leaves everything as it is without one, and is said
// to be none; every other one is said to be one (decision P16).
func TestZeroCeiling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, s := someMember().Draw(t, "member"), someSet().Draw(t, "set")
		before := s.Narrow(m, nil)
		for _, c := range []*Ceiling{{}, {Widest: Organization}} {
			a := s.Narrow(m, c)
			atMost(t, "under no ceiling", a, before)
			atMost(t, "without a ceiling", before, a)
			if !c.Zero() || a.Kind() != before.Kind() {
				t.Fatalf("%+v limits something", c)
			}
		}
	})
	for _, c := range []*Ceiling{{Widest: Roles}, {Widest: Everything}, {Widest: "all"}, {ReadOnly: true}, {NoPersonal: true}, {Never: []string{"r1"}}} {
		if c.Zero() {
			t.Errorf("%+v limits nothing", c)
		}
	}
	if !(*Ceiling)(nil).Zero() {
		t.Error("none limits something")
	}
}

// A scene is what one authority comes of.
type scene struct {
	person  org.Member
	chosen  Set
	ceiling Ceiling
}

// A ground is why somebody may do something: everybody sees it, a role is filled,
// the item is their own, or they are an admin. What a person has, has chosen and is
// left by the ceiling are grounds; the model of an authority is those that are in all three.
type ground struct {
	sort string // open, role, own or admin
	role string
}

var grounds = func() []ground {
	all := []ground{{sort: "open"}, {sort: "own"}, {sort: "admin"}}
	for _, r := range world {
		all = append(all, ground{"role", r.ID})
	}
	return all
}()

var circleOf = func() map[string]string {
	of := map[string]string{}
	for _, r := range world {
		of[r.ID] = r.Circle
	}
	return of
}()

// about reports whether the ground is one for reading, or changing, the item in ann's
// acme.
func (g ground) about(i org.Item, change bool) bool {
	own := i.Person == "ann"
	switch {
	case i.Organization != "acme":
		return false
	case g.sort == "open":
		return !change && !i.Private && i.Person == ""
	case g.sort == "own":
		return own
	case i.Person != "":
		return false
	case g.sort == "admin":
		return true
	case change:
		return i.Role == g.role
	}
	return i.Circle == circleOf[g.role]
}

// has reports whether the person has the ground.
func (x scene) has(g ground) bool {
	switch g.sort {
	case "own":
		return x.person.Person != "" && !x.person.Impersonal
	case "admin":
		return x.person.Person != "" && x.person.Admin
	case "role":
		return slices.ContainsFunc(x.person.Roles(), func(r org.Role) bool { return r.ID == g.role })
	}
	return x.person.Person != ""
}

// chose reports whether the person gave the ground, to read or to change.
func (x scene) chose(g ground, change bool) bool {
	switch x.chosen.Kind {
	case Everything:
		return true
	case Organization:
		return g.sort != "own"
	}
	switch g.sort {
	case "role":
		return slices.ContainsFunc(x.chosen.Picks, func(p Pick) bool { return p.Role == g.role && (p.Change || !change) })
	case "own":
		return x.chosen.Personal
	}
	return g.sort == "open"
}

// leaves reports whether the ceiling lets a client use the ground for an item, or for
// its role alone.
func (x scene) leaves(g ground, role string, change bool) bool {
	c := x.ceiling
	switch {
	case change && c.ReadOnly,
		g.sort == "own" && c.NoPersonal,
		g.sort == "admin" && (c.Widest == Roles || c.Widest == Everything),
		g.sort == "admin" && slices.Contains(c.Never, role),
		g.sort == "role" && slices.Contains(c.Never, g.role):
		return false
	}
	return g.sort == "open" || c.Widest != Roles || x.chosen.Kind == Roles
}

// parts are the three that an authority is within, each alone, and all of them.
var parts = map[string]func(x scene, g ground, role string, change bool) bool{
	"the person":  func(x scene, g ground, _ string, _ bool) bool { return x.has(g) },
	"the choice":  func(x scene, g ground, _ string, change bool) bool { return x.chose(g, change) },
	"the ceiling": scene.leaves,
	"all three": func(x scene, g ground, role string, change bool) bool {
		return x.has(g) && x.chose(g, change) && x.leaves(g, role, change)
	},
}

// says answers every question that an authority is asked, by the model.
func (x scene) says(may func(x scene, g ground, role string, change bool) bool) []bool {
	var out []bool
	for n, change := range []bool{false, true} {
		for i, of := range groundsOf[n] {
			out = append(out, slices.ContainsFunc(of, func(g ground) bool { return may(x, g, ceilingItems[i].Role, change) }))
		}
		for _, r := range world {
			out = append(out, may(x, ground{"role", r.ID}, r.ID, change))
		}
	}
	return append(out, may(x, ground{sort: "admin"}, "", true), may(x, ground{sort: "open"}, "", false))
}

// answers are the same of an authority.
func answers(a Authority) []bool {
	var out []bool
	for _, i := range ceilingItems {
		out = append(out, a.MayRead(i))
	}
	for _, r := range world {
		out = append(out, a.Acts(r.ID) != "none")
	}
	for _, i := range ceilingItems {
		out = append(out, a.MayChange(i))
	}
	for _, r := range world {
		out = append(out, a.Acts(r.ID) == "change")
	}
	return append(out, a.MayAdminister(), a.MayReadOrganization())
}

// ceilingItems are one of each sort, and one that is private to a circle and of no role.
var ceilingItems = append(slices.Clone(everyItem), org.Item{Organization: "acme", Circle: "c0", Private: true})

// groundsOf are those for reading, and for changing, each of them.
var groundsOf = func() (all [2][][]ground) {
	for n := range all {
		for _, i := range ceilingItems {
			all[n] = append(all[n], slices.DeleteFunc(slices.Clone(grounds), func(g ground) bool { return !g.about(i, n == 1) }))
		}
	}
	return all
}()

func within(less, more []bool) bool {
	for n := range less {
		if less[n] && !more[n] {
			return false
		}
	}
	return true
}

func randomScene(r *rand.Rand) scene {
	some := func(odds int) (roles []org.Role) {
		for _, one := range world {
			if r.IntN(odds) == 0 {
				roles = append(roles, one)
			}
		}
		return roles
	}
	x := scene{person: org.NewMember("ann", "acme", r.IntN(2) == 0, some(2))}
	x.person.Impersonal = r.IntN(8) == 0
	if r.IntN(20) == 0 {
		x.person = org.Member{}
	}
	if x.chosen.Kind = Kinds[r.IntN(3)]; x.chosen.Kind == Roles {
		for _, one := range some(2) {
			x.chosen.Picks = append(x.chosen.Picks, Pick{one.ID, r.IntN(2) == 0})
		}
		x.chosen.Personal = r.IntN(2) == 0
	}
	x.ceiling = Ceiling{Widest: []Kind{"", "", Organization, Everything, Roles}[r.IntN(5)], ReadOnly: r.IntN(3) == 0, NoPersonal: r.IntN(3) == 0}
	for _, one := range some(1 + r.IntN(6)) {
		x.ceiling.Never = append(x.ceiling.Never, one.ID)
	}
	return x
}

// less gives the scene with a bit less of one of the three.
func (x scene) less(r *rand.Rand) (scene, string) {
	roles, admin := slices.Clone(x.person.Roles()), x.person.Admin
	switch n := r.IntN(8); {
	case n == 0 && admin:
		admin = false
	case n == 1 && len(roles) > 0:
		at := r.IntN(len(roles))
		roles = slices.Delete(roles, at, at+1)
	case n == 2 && x.chosen.Kind == Everything:
		x.chosen.Kind = Organization
		return x, "organization, not everything"
	case n == 2 && len(x.chosen.Picks) > 0:
		x.chosen.Picks = slices.Clone(x.chosen.Picks[1:])
		return x, "fewer picks"
	case n == 3 && len(x.chosen.Picks) > 0:
		x.chosen.Picks = slices.Clone(x.chosen.Picks)
		x.chosen.Picks[0].Change = false
		return x, "a pick to read"
	case n == 3:
		x.chosen.Personal = false
		return x, "no personal items"
	case n == 4:
		x.ceiling.ReadOnly = true
		return x, "read only"
	case n == 5:
		x.ceiling.NoPersonal = true
		return x, "no personal items of anybody"
	case n == 6:
		x.ceiling.Never = append(slices.Clone(x.ceiling.Never), world[r.IntN(8)].ID)
		slices.Sort(x.ceiling.Never)
		x.ceiling.Never = slices.Compact(x.ceiling.Never)
		return x, "one more role is never given"
	default:
		tighter := map[Kind]Kind{"": Everything, Organization: Everything, Everything: Roles, Roles: Roles}
		x.ceiling.Widest = tighter[x.ceiling.Widest]
		return x, "a narrower widest option"
	}
	impersonal := x.person.Impersonal
	if x.person = org.NewMember(x.person.Person, x.person.Organization, admin, roles); impersonal {
		x.person.Impersonal = true
	}
	return x, "less of the person"
}

// An authority is exactly what the person has, has chosen and is left by the ceiling:
// what it may read, change and administer and whom it acts as, item by item. So it is
// never more than any of the three alone, a bit less of any of them never gives more,
// and without limits it is what it was without ceilings. What was picked counts for
// less than everything but where nothing counts but picks (decision P16).
func TestAuthorityIsTheIntersection(t *testing.T) {
	r := rand.New(rand.NewPCG(16, 1))
	for n := range 100_000 {
		x := randomScene(r)
		got := answers(x.chosen.Narrow(x.person, &x.ceiling))
		for name, part := range parts {
			want := x.says(part)
			if !within(got, want) || name == "all three" && !slices.Equal(got, want) {
				t.Fatalf("scene %d, %+v: against %s:\n got %v\nwant %v", n, x, name, got, want)
			}
		}
		if y, what := x.less(r); !within(answers(y.chosen.Narrow(y.person, &y.ceiling)), got) {
			t.Fatalf("scene %d, %+v: more by %s", n, x, what)
		}
		other := randomScene(r)
		a, b := x.chosen.Narrow(x.person, &x.ceiling), other.chosen.Narrow(x.person, &other.ceiling)
		if want := within(got, answers(b)) && (b.Whole() || !a.Whole() || !a.MayReadOrganization()); a.Within(b) && !want || want && !a.Within(b) && len(b.Never()) == 0 {
			t.Fatalf("scene %d, %+v within %+v: %v", n, x, other, !want)
		}
		free := answers(x.chosen.Narrow(x.person, nil))
		if !within(got, free) || x.ceiling.Zero() && !slices.Equal(got, free) {
			t.Fatalf("scene %d, %+v: without the ceiling it is not the same, or less", n, x)
		}
		if y := (scene{x.person, Set{Kind: Everything}, x.ceiling}); x.ceiling.Widest != Roles && !within(got, answers(y.chosen.Narrow(y.person, &y.ceiling))) {
			t.Fatalf("scene %d, %+v: more than everything", n, x)
		}
	}
}

// What a ceiling makes of a choice, beside what may be done: which option it counts as,
// whether calls of which nobody says what they touch are within it, and whether an admin
// counts as none. A set that nobody can have chosen stays nothing.
func TestCeilingsMakeAnotherChoice(t *testing.T) {
	roles := []org.Role{{ID: "a", Organization: "o", Circle: "x"}}
	admin, member := org.NewMember("ada", "o", true, roles), org.NewMember("tor", "o", false, roles)
	everything, whole, picked := Set{Kind: Everything}, Set{Kind: Organization}, Set{Kind: Roles, Picks: []Pick{{"a", true}}}
	for _, tt := range []struct {
		by     org.Member
		chosen Set
		c      Ceiling
		kind   Kind
		whole  bool
		keeps  bool // the rights of an admin
	}{
		{admin, everything, Ceiling{}, Everything, true, false},
		{admin, everything, Ceiling{Widest: Organization}, Everything, true, false},
		{admin, everything, Ceiling{ReadOnly: true}, Everything, true, false},
		{admin, everything, Ceiling{NoPersonal: true}, Organization, true, false},
		{admin, everything, Ceiling{Never: []string{"z"}}, Everything, false, false},
		{admin, everything, Ceiling{Widest: Everything}, Roles, false, true},
		{admin, everything, Ceiling{Widest: Roles}, Roles, false, true},
		{admin, whole, Ceiling{NoPersonal: true}, Organization, true, false},
		{admin, whole, Ceiling{Widest: Everything}, Roles, false, true},
		{admin, picked, Ceiling{Widest: Roles}, Roles, false, true},
		{member, everything, Ceiling{}, Everything, true, false},
		{member, everything, Ceiling{Widest: Everything}, Everything, true, false},
		{member, everything, Ceiling{ReadOnly: true}, Roles, true, false},
		{member, everything, Ceiling{NoPersonal: true}, Roles, true, false},
		{member, everything, Ceiling{Never: []string{"a"}}, Roles, false, false},
		{member, everything, Ceiling{Never: []string{"z"}}, Everything, true, false},
		{member, everything, Ceiling{Widest: Roles}, Roles, false, false},
		{member, whole, Ceiling{NoPersonal: true}, Organization, true, false},
		{member, whole, Ceiling{ReadOnly: true}, Roles, true, false},
		{member, picked, Ceiling{ReadOnly: true}, Roles, false, false},
		{member, picked, Ceiling{}, Roles, false, false},
		{admin, picked, Ceiling{Never: []string{"z"}}, Roles, false, false},
		{member, whole, Ceiling{}, Organization, true, false},
	} {
		a := tt.chosen.Narrow(tt.by, &tt.c)
		if free := tt.chosen.Narrow(tt.by, nil); tt.c.Zero() && (free.Whole() != tt.whole || free.Kind() != tt.kind) {
			t.Errorf("%s of %s under none: %s, whole %t", tt.chosen.Kind, tt.by.Person, free.Kind(), free.Whole())
		}
		if a.Kind() != tt.kind || a.Whole() != tt.whole || a.KeepsAdmin() != tt.keeps || a.Member().Admin != tt.by.Admin {
			t.Errorf("%s of %s under %+v: %s, whole %t, keeps the admin %t, admin %t, want %+v", tt.chosen.Kind, tt.by.Person, tt.c, a.Kind(), a.Whole(), a.KeepsAdmin(), a.Member().Admin, tt)
		}
		if a.KeepsPersonal() != tt.c.NoPersonal || a.ReadOnly() != tt.c.ReadOnly || (a.Never() != nil) != (tt.kind != Roles && tt.by.Admin && tt.c.Never != nil) {
			t.Errorf("%s of %s under %+v: keeps personal items %t, reads only %t, never %v", tt.chosen.Kind, tt.by.Person, tt.c, a.KeepsPersonal(), a.ReadOnly(), a.Never())
		}
		if none := (Set{}).Narrow(tt.by, &tt.c); none.MayReadOrganization() || none.Whole() || none.MayAdminister() || none.ActsAsAdmin() && none.MayRead(org.Item{Organization: "o", Role: "a", Circle: "x"}) {
			t.Errorf("nothing, of %s under %+v, gives something: %s", tt.by.Person, tt.c, none.Kind())
		}
	}
}

// Roles of no circle share none: an admin's approval that is without one of them does not
// read its private items through another.
func TestRolesOfNoCircle(t *testing.T) {
	admin := org.NewMember("ada", "o", true, []org.Role{{ID: "a", Organization: "o"}})
	a := Set{Kind: Everything}.Narrow(admin, &Ceiling{Never: []string{"z"}})
	if i := (org.Item{Organization: "o", Role: "z", Private: true}); a.MayRead(i) {
		t.Error("it reads what is private")
	}
}

// Why something may not be read, changed or administered where the organization has a
// ceiling: by that, where the person's rights and choice would give it, and else by these.
func TestExplainUnderCeilings(t *testing.T) {
	ann, dan := member("ann", false, "editor", "seller"), member("dan", true, "editor")
	everything, whole := Set{Kind: Everything}, Set{Kind: Organization}
	seller, editor := Set{Kind: Roles, Picks: []Pick{{"seller", true}}}, Set{Kind: Roles, Picks: []Pick{{"editor", false}}}
	of := func(role string, private bool) org.Item {
		return org.Item{Organization: "acme", Role: role, Circle: roleHome[role], Private: private}
	}
	own, private := func(person string) org.Item { return org.Item{Organization: "acme", Person: person} }, true
	const (
		kept      = "The organization keeps personal items from apps."
		noCircle  = "The item is private to the circle of %, and no role of that circle is part of this approval."
		keptThere = "The item is private to the circle of %, and no role of that circle that the organization lets apps act through is part of this approval."
	)
	for _, tt := range []struct {
		by           org.Member
		set          Set
		c            *Ceiling
		item         org.Item
		read, change string // % is the role
	}{
		{ann, everything, &Ceiling{NoPersonal: true}, own("ann"), kept, kept},
		{ann, whole, &Ceiling{NoPersonal: true}, own("ann"), kept, kept},
		{ann, seller, &Ceiling{NoPersonal: true}, own("zoe"), "The item is another person's own.", "The item is another person's own."},
		{ann, whole, &Ceiling{ReadOnly: true}, own("ann"), `Personal items are never part of "Everything in this organization".`, `Personal items are never part of "Everything in this organization".`},
		{ann, seller, &Ceiling{ReadOnly: true}, own("ann"), "Personal items are not part of this approval.", "Personal items are not part of this approval."},
		{ann, everything, &Ceiling{ReadOnly: true}, own("ann"), "", "The organization lets apps read only."},

		{ann, everything, &Ceiling{Widest: Everything}, of("counsel", private), "The item is private to a circle in which the person fills no role.", "The item is private to a circle in which the person fills no role."},
		{dan, everything, &Ceiling{Widest: Everything}, of("counsel", private), "The item is private to a circle in which the person fills no role, and the organization lets no app act as an admin.", "The item is private to a circle in which the person fills no role, and the organization lets no app act as an admin."},
		{dan, editor, &Ceiling{Widest: Everything}, of("counsel", private), noCircle, noCircle},
		{dan, everything, &Ceiling{Never: []string{"counsel"}}, of("counsel", private), keptThere, keptThere},
		{ann, everything, &Ceiling{Never: []string{"editor"}}, of("editor", private), keptThere, keptThere},
		{ann, everything, &Ceiling{Never: []string{"editor"}}, of("designer", private), keptThere, keptThere},
		{ann, seller, &Ceiling{Never: []string{"editor"}}, of("editor", private), keptThere, keptThere},
		{ann, editor, &Ceiling{Never: []string{"editor"}}, of("seller", private), noCircle, noCircle},
		{ann, seller, &Ceiling{Never: []string{"designer"}}, of("editor", private), noCircle, noCircle},
		{ann, seller, nil, of("editor", private), noCircle, noCircle},

		{ann, everything, &Ceiling{ReadOnly: true}, of("editor", private), "", "% is read-only in this approval: the organization lets apps read only."},
		{ann, everything, &Ceiling{ReadOnly: true}, of("designer", false), "", "The person does not fill %."},
		{dan, everything, &Ceiling{ReadOnly: true}, of("counsel", private), "", "% is read-only in this approval: the organization lets apps read only."},
		{ann, everything, &Ceiling{Never: []string{"seller"}}, of("seller", false), "", "The organization lets no app act through %."},
		{dan, everything, &Ceiling{Never: []string{"seller"}}, of("seller", false), "", "The organization lets no app act through %."},
		{ann, editor, &Ceiling{Never: []string{"seller"}}, of("editor", false), "", "% is read-only in this approval."},
		{ann, editor, &Ceiling{Never: []string{"designer"}}, of("seller", false), "", "% is not part of this approval."},
		{ann, everything, &Ceiling{Widest: Roles}, of("editor", false), "", "% is not part of this approval."},
		{dan, everything, &Ceiling{Widest: Everything}, of("seller", false), "", "The person does not fill %, and the organization lets no app act as an admin."},
		{dan, editor, &Ceiling{Widest: Everything}, of("seller", false), "", "The person does not fill %, and this approval carries no admin rights."},
		{dan, editor, nil, of("seller", false), "", "The person does not fill %, and this approval carries no admin rights."},
		{dan, everything, &Ceiling{Never: []string{"seller"}}, of("counsel", private), "", ""},
	} {
		a, name := tt.set.Narrow(tt.by, tt.c), roleNames[tt.item.Role]
		read, change := strings.ReplaceAll(tt.read, "%", name), strings.ReplaceAll(tt.change, "%", name)
		if got := a.ExplainRead(tt.item, name); got != read {
			t.Errorf("%s of %s under %+v reading %+v:\n got %q\nwant %q", tt.set.Kind, tt.by.Person, tt.c, tt.item, got, read)
		}
		if got := a.ExplainChange(tt.item, name); got != change {
			t.Errorf("%s of %s under %+v changing %+v:\n got %q\nwant %q", tt.set.Kind, tt.by.Person, tt.c, tt.item, got, change)
		}
	}
	for _, tt := range []struct {
		by   org.Member
		set  Set
		c    *Ceiling
		want string
	}{
		{dan, everything, nil, ""},
		{dan, everything, &Ceiling{Never: []string{"editor"}}, ""},
		{org.Member{}, everything, &Ceiling{ReadOnly: true}, "The person is not a member of this organization."},
		{ann, everything, &Ceiling{ReadOnly: true}, "The person is not an admin of this organization."},
		{dan, everything, &Ceiling{ReadOnly: true}, "The organization lets apps read only."},
		{dan, everything, &Ceiling{Widest: Everything}, "This approval carries no admin rights: the organization lets no app act as an admin."},
		{dan, whole, &Ceiling{Widest: Roles}, "This approval carries no admin rights: the organization lets no app act as an admin."},
		{dan, editor, &Ceiling{Widest: Roles}, "This approval carries no admin rights."},
		{dan, editor, nil, "This approval carries no admin rights."},
	} {
		if got := tt.set.Narrow(tt.by, tt.c).ExplainAdminister(); got != tt.want {
			t.Errorf("%s of %s under %+v administering: %q, want %q", tt.set.Kind, tt.by.Person, tt.c, got, tt.want)
		}
	}
}
