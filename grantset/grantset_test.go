package grantset

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
)

func TestEncodePicks(t *testing.T) {
	tests := []struct {
		picks []Pick
		want  string
	}{
		{nil, ""},
		{[]Pick{{"r1", false}}, "r1=read"},
		{[]Pick{{"r1", true}}, "r1=change"},
		{[]Pick{{"a.b:c_d-1", true}, {"r1", false}, {"r2", true}}, "a.b:c_d-1=change r1=read r2=change"},
	}
	for _, tt := range tests {
		set := Set{Kind: Roles, Picks: tt.picks, Personal: true}
		if got := set.EncodePicks(); got != tt.want {
			t.Errorf("%v written as %q, want %q", tt.picks, got, tt.want)
		}
		if got, err := Decode("roles", tt.want, true); err != nil || !got.Equal(set) {
			t.Errorf("%q read as %+v, %v", tt.want, got, err)
		}
	}
}

func TestDecode(t *testing.T) {
	long := strings.Repeat("a", 64)
	tests := []struct {
		name        string
		kind, picks string
		personal    bool
		ok          bool
	}{
		{"everything", "everything", "", false, true},
		{"organization", "organization", "", false, true},
		{"one role", "roles", "r1=read", false, true},
		{"personal items alone", "roles", "", true, true},
		{"the longest ID", "roles", long + "=change", false, true},

		{"no kind", "", "", false, false},
		{"unknown kind", "all", "", false, false},
		{"kind in another case", "Everything", "", false, false},
		{"nothing picked", "roles", "", false, false},
		{"picks under everything", "everything", "r1=read", false, false},
		{"picks under organization", "organization", "r1=read", false, false},
		{"personal items under everything", "everything", "", true, false},
		{"personal items under organization", "organization", "", true, false},
		{"no access", "roles", "r1", false, false},
		{"empty access", "roles", "r1=", false, false},
		{"unknown access", "roles", "r1=none", false, false},
		{"access in another case", "roles", "r1=Read", false, false},
		{"access with more behind", "roles", "r1=read=change", false, false},
		{"no role", "roles", "=read", false, false},
		{"only a space", "roles", " ", true, false},
		{"space before", "roles", " r1=read", false, false},
		{"space behind", "roles", "r1=read ", false, false},
		{"two spaces", "roles", "r1=read  r2=read", false, false},
		{"another separator", "roles", "r1=read,r2=read", false, false},
		{"line end", "roles", "r1=read\n", false, false},
		{"role twice", "roles", "r1=read r1=read", false, false},
		{"role twice, with more the second time", "roles", "r1=read r1=change", false, false},
		{"wrong order", "roles", "r2=read r1=read", false, false},
		{"too long an ID", "roles", long + "a=read", false, false},
		{"odd character", "roles", "r/1=read", false, false},
		{"another form", "roles", `[{"role":"r1","access":"read"}]`, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Decode(tt.kind, tt.picks, tt.personal)
			if (err == nil) != tt.ok {
				t.Fatalf("%+v, %v", got, err)
			}
			if err != nil && !got.Equal(Set{}) {
				t.Errorf("refused, and yet %+v", got)
			}
			if err == nil && (string(got.Kind) != tt.kind || got.Personal != tt.personal || got.EncodePicks() != tt.picks) {
				t.Errorf("read as %+v", got)
			}
		})
	}
}

// What is read is written back the same, in order and each role once, and asks
// nothing that an ID could not be.
func FuzzDecode(f *testing.F) {
	for _, kind := range []string{"roles", "everything", "organization", ""} {
		for _, picks := range []string{"", "r1=read", "r1=read r2=change", "r2=read r1=read", "r1=read r1=change", "r1=", " ", "=", "r1=read ", "A=read a=read", "1=read 10=change 9=read"} {
			f.Add(kind, picks, false)
			f.Add(kind, picks, true)
		}
	}
	f.Fuzz(func(t *testing.T, kind, picks string, personal bool) {
		s, err := Decode(kind, picks, personal)
		if err != nil {
			if !s.Equal(Set{}) {
				t.Fatalf("refused, and yet %+v", s)
			}
			return
		}
		if string(s.Kind) != kind || s.EncodePicks() != picks || s.Personal != personal {
			t.Fatalf("%q %q %t came back as %+v", kind, picks, personal, s)
		}
		if !slices.IsSortedFunc(s.Picks, func(a, b Pick) int { return strings.Compare(a.Role, b.Role) }) {
			t.Fatalf("out of order: %+v", s)
		}
		for i, p := range s.Picks {
			if org.CheckID(p.Role) != nil || i > 0 && s.Picks[i-1].Role == p.Role {
				t.Fatalf("pick %d of %+v", i, s)
			}
			if want := map[bool]string{true: "change", false: "read"}[p.Change]; s.Access(p.Role) != want {
				t.Fatalf("access to %s is %s, want %s", p.Role, s.Access(p.Role), want)
			}
		}
	})
}

func TestAccess(t *testing.T) {
	s := Set{Kind: Roles, Picks: []Pick{{"r1", false}, {"r2", true}}}
	for role, want := range map[string]string{"r1": "read", "r2": "change", "r3": "none", "": "none", "r": "none"} {
		if got := s.Access(role); got != want {
			t.Errorf("access to %q is %s, want %s", role, got, want)
		}
	}
}

func TestEqual(t *testing.T) {
	sets := []Set{
		{},
		{Kind: Everything},
		{Kind: Organization},
		{Kind: Roles, Personal: true},
		{Kind: Roles, Picks: []Pick{{"r1", false}}},
		{Kind: Roles, Picks: []Pick{{"r1", true}}},
		{Kind: Roles, Picks: []Pick{{"r1", true}}, Personal: true},
		{Kind: Roles, Picks: []Pick{{"r2", true}}},
		{Kind: Roles, Picks: []Pick{{"r1", true}, {"r2", true}}},
	}
	for i, s := range sets {
		for j, u := range sets {
			if s.Equal(u) != (i == j) {
				t.Errorf("%+v equal to %+v: %t", s, u, i != j)
			}
		}
	}
}

// manyRoles gives a member with 300 roles in 25 circles, and a grant set of
// every second one.
func manyRoles() (org.Member, Set) {
	var roles []org.Role
	s := Set{Kind: Roles}
	for i := range 300 {
		r := org.Role{ID: fmt.Sprintf("role-%03d", i), Organization: "acme", Circle: fmt.Sprintf("circle-%02d", i%25)}
		roles = append(roles, r)
		if i%2 == 0 {
			s.Picks = append(s.Picks, Pick{r.ID, i%4 == 0})
		}
	}
	return org.NewMember("ann", "acme", false, roles), s
}

// A decision is asked for every item of every call, and rows are read a
// million times at start: the first costs no memory, the second one slice.
func TestAllocations(t *testing.T) {
	m, s := manyRoles()
	a := s.Narrow(m, nil)
	item := org.Item{Organization: "acme", Role: "role-120", Circle: "circle-20", Private: true}
	if n := testing.AllocsPerRun(100, func() { _ = a.MayRead(item) && a.MayChange(item) && a.MayAdminister() }); n != 0 {
		t.Errorf("a decision takes %v allocations, want 0", n)
	}
	picks := s.EncodePicks()
	if n := testing.AllocsPerRun(100, func() { Decode("roles", picks, true) }); n > 1 {
		t.Errorf("Decode takes %v allocations, want at most 1", n)
	}
	if n := testing.AllocsPerRun(100, func() { s.Narrow(m, nil) }); n > 3 {
		t.Errorf("Narrow takes %v allocations, want at most 3", n)
	}
}

func BenchmarkDecision(b *testing.B) {
	m, s := manyRoles()
	a := s.Narrow(m, nil)
	item := org.Item{Organization: "acme", Role: "role-120", Circle: "circle-20", Private: true}
	b.ReportAllocs()
	for b.Loop() {
		if !a.MayChange(item) {
			b.Fatal("refused")
		}
	}
}

func BenchmarkNarrow(b *testing.B) {
	m, s := manyRoles()
	b.ReportAllocs()
	for b.Loop() {
		s.Narrow(m, nil)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{1, 8, 150} {
		_, s := manyRoles()
		s.Picks = s.Picks[:n]
		picks := s.EncodePicks()
		b.Run(fmt.Sprint(n, "-picks"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode("roles", picks, false); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkEncodePicks(b *testing.B) {
	_, s := manyRoles()
	b.ReportAllocs()
	for b.Loop() {
		_ = s.EncodePicks()
	}
}
