package facts

import (
	"fmt"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/org"
)

// BenchmarkLoad puts 50,000 members into organizations of a thousand; each fills one role
// of ten, and in the second case the one role of all.
func BenchmarkLoad(b *testing.B) {
	const members = 50_000
	for _, fillers := range []int{10, members} {
		b.Run(fmt.Sprint(fillers), func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				m := New(false, members, members, members/fillers)
				put := func(c Change) { c.Apply(&m) }
				inOne := max(1000, fillers)
				for i := range members {
					put(PersonChange{Person: org.Person{ID: fmt.Sprint("p", i), Email: fmt.Sprint("p", i, "@c.example"), Name: "N", Active: true}})
				}
				for i := range members / inOne {
					put(OrganizationChange{Organization: org.Organization{ID: fmt.Sprint("o", i), Name: "O"}})
				}
				for i := range members {
					put(MemberChange{MemberKey: MemberKey{fmt.Sprint("p", i), fmt.Sprint("o", i/inOne)}, Present: true})
				}
				for i := range members / fillers {
					put(RoleChange{org.Role{ID: fmt.Sprint("r", i), Organization: fmt.Sprint("o", i*fillers/inOne), Name: "R"}})
				}
				for i := range members {
					put(FillerChange{Role: fmt.Sprint("r", i/fillers), Person: fmt.Sprint("p", i), On: true})
				}
			}
		})
	}
}

// BenchmarkApply applies what an import of 50,000 has put and made ready, one kind after the
// other: for so long a lock holds up who asks.
func BenchmarkApply(b *testing.B) {
	const members = 50_000
	people := func(name string) (out []Change) {
		for i := range members {
			out = append(out, PersonChange{Person: org.Person{ID: fmt.Sprint("p", i), Email: fmt.Sprint("p", i, "@c.example"), Name: name, Active: true}})
		}
		return out
	}
	first, memberships, fillers := people("N"), []Change{}, []Change{}
	for i := range members {
		memberships = append(memberships, MemberChange{MemberKey: MemberKey{fmt.Sprint("p", i), "o"}, Present: true})
		fillers = append(fillers, FillerChange{Role: fmt.Sprint("r", i/10), Person: fmt.Sprint("p", i), On: true})
	}
	for _, kind := range []struct {
		name   string
		before [][]Change
		puts   []Change
	}{
		{"people", nil, first}, {"other names", [][]Change{first}, people("M")},
		{"memberships", [][]Change{first}, memberships}, {"fillers", [][]Change{first, memberships}, fillers},
	} {
		b.Run(kind.name, func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				m := New(false, 0, 0, 0)
				OrganizationChange{Organization: org.Organization{ID: "o", Name: "O"}}.Apply(&m)
				for i := range members / 10 {
					RoleChange{org.Role{ID: fmt.Sprint("r", i), Organization: "o", Name: "R"}}.Apply(&m)
				}
				for _, c := range slices.Concat(kind.before...) {
					c.Apply(&m)
				}
				puts := slices.Clone(kind.puts)
				for i, c := range puts {
					puts[i] = Ready(c)
				}
				b.StartTimer()
				for _, c := range puts {
					c.Apply(&m)
				}
			}
		})
	}
}
