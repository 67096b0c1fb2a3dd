package facts

import (
	"fmt"
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
