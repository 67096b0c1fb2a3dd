package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/org"
)

// newcomers are so many people, members of nordlys in a role of their own each.
func newcomers(n int) (d directory.Directory) {
	for i := range n {
		id := fmt.Sprintf("new-%d", i)
		d.People = append(d.People, directory.Person{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: "Name of " + id, Active: true}, PasswordHash: phcOf(strongCosts, i)})
		d.Members = append(d.Members, directory.Member{Person: id, Organization: "nordlys", Admin: i%2 == 0})
		d.Roles = append(d.Roles, org.Role{ID: "of-" + id, Organization: "nordlys", Circle: "anchor", Name: id})
		d.Fillers = append(d.Fillers, directory.Filler{Role: "of-" + id, Person: id})
	}
	return d
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// However many rows go in one statement, each is what was imported: the first and the last of
// each number, those that change among those that are new, and their passwords.
func TestImportOfManyRows(t *testing.T) {
	for _, n := range []int{1, 15, 16, 17, 127, 128, 129, 2*128 + 2*16 + 2} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			h := furnished(t)
			d := newcomers(n)
			ok(t, h.AddDirectory(ctx, d, Act{}))
			h.same(t, "imported")
			for i, p := range d.People {
				at, hash, err := h.Password(ctx, p.Email)
				if err != nil || at != p.Person || hash != p.PasswordHash {
					t.Fatalf("%d: %+v, password %q, %v", i, at, hash, err)
				}
				m, err := h.Member(ctx, p.ID, "nordlys")
				if err != nil || m.Admin != d.Members[i].Admin || len(m.Roles()) != 1 {
					t.Fatalf("%d: %+v, %v", i, m, err)
				}
			}
			// Everybody is there now but one; every second name, admin right and password is another.
			next := newcomers(n + 1)
			for i := 0; i < n; i += 2 {
				next.People[i].Name, next.People[i].PasswordHash = "changed", phcOf(strongCosts, n+i)
				next.Members[i].Admin = !next.Members[i].Admin
				next.Roles[i].Name = "changed"
				ok(t, h.AddSession(ctx, fmt.Sprint("session-", i), next.People[i].ID, Act{}))
			}
			out, err := h.ImportDirectory(ctx, directory.Import{Directory: next}, Act{})
			want := directory.Counts{Added: 1, Changed: (n + 1) / 2}
			if err != nil || out.Lists[directory.ListPeople] != want || out.Lists[directory.ListMembers] != want || out.Lists[directory.ListRoles] != want || out.Lists[directory.ListFillers] != (directory.Counts{Added: 1}) {
				t.Fatalf("%+v, %v", out.Lists, err)
			}
			h.same(t, "imported again")
			for i, p := range next.People {
				if at, hash, err := h.Password(ctx, p.Email); err != nil || at != p.Person || hash != p.PasswordHash {
					t.Fatalf("%d: %+v, password %q, %v", i, at, hash, err)
				}
				if i%2 == 0 && i < n {
					if _, err := h.Session(ctx, fmt.Sprint("session-", i)); err == nil {
						t.Fatalf("%d: a session outlived its password", i)
					}
				}
			}
			// The same roles, and all but the first are left.
			h.clock.add(time.Hour)
			out, err = h.ImportDirectory(ctx, directory.Import{Directory: directory.Directory{Roles: next.Roles, Fillers: next.Fillers[:1]}, Prune: map[string]bool{directory.ListRoles: true}}, Act{})
			if err != nil || out.Lists[directory.ListFillers].Removed < n {
				t.Fatalf("%+v, %v", out.Lists, err)
			}
			h.same(t, "roles are left")
			for i, p := range next.People {
				m, err := h.Member(ctx, p.ID, "nordlys")
				left, errLeft := h.LeftRoles(ctx, p.ID, "nordlys")
				if stays := i == 0; err != nil || errLeft != nil || (len(m.Roles()) == 1) != stays || (left["of-"+p.ID] == h.Now().Unix()) == stays {
					t.Fatalf("%d: %+v left %v; %v %v", i, m, left, err, errLeft)
				}
			}
		})
	}
}

// A directory of many of the people there are is not named row by row, neither to other nodes nor to
// who writes that approvals have ended: all is loaded again, and all rows are asked. A few
// rows are.
func TestManyFactsAreLoadedWhole(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h, other := all[0], all[1]
	id := h.live(t, h.answer(1))
	if !other.accepts(t, id) {
		t.Fatal("not accepted")
	}
	whole := func(when string, want int) {
		t.Helper()
		if n := h.rows(t, `SELECT COUNT(*) FROM fact_change WHERE what = '*'`); n != want {
			t.Errorf("%s: %d changes say that everything is to be loaded, want %d", when, n, want)
		}
	}
	before := h.rows(t, `SELECT COUNT(*) FROM fact_change WHERE what = '*'`)
	// An eighth of them is meant, but never a thousand rows or fewer.
	d := newcomers(400)
	ok(t, h.AddDirectory(ctx, newcomers(200), Act{}))
	whole("few rows", before)
	d.People = append(d.People, directory.Person{Person: org.Person{ID: "ada", Email: "Ada@nordlys.example", Name: "Ada Lindqvist"}})
	out, err := h.ImportDirectory(ctx, directory.Import{Directory: d}, Act{})
	if err != nil || out.Ended != 1 {
		t.Errorf("ended %d, %v", out.Ended, err)
	}
	whole("few rows more", before)
	d = newcomers(900)
	d.People = append(d.People, directory.Person{Person: org.Person{ID: "ada", Email: "Ada@nordlys.example", Name: "Ada Lindqvist", Active: true}})
	ok(t, h.AddDirectory(ctx, d, Act{}))
	whole("most rows", before+1)
	if n := h.rows(t, `SELECT COUNT(*) FROM fact_change WHERE key = 'new-899'`); n != 0 {
		t.Error("and each is named, too")
	}
	for _, h := range all {
		h.same(t, "most rows")
		if m, err := h.Member(ctx, "new-899", "nordlys"); err != nil || len(m.Roles()) != 1 {
			t.Errorf("%+v, %v", m, err)
		}
		if h.accepts(t, id) {
			t.Error("a person who came back brought an approval back")
		}
	}
	id = h.live(t, h.unique(7))
	ada := d.People[len(d.People)-1]
	ada.Active = false
	d = newcomers(4000)
	d.People = append(d.People, ada)
	out, err = h.ImportDirectory(ctx, directory.Import{Directory: d}, Act{})
	whole("most rows, and a deactivation", before+2)
	if err != nil || out.Ended != 1 || other.accepts(t, id) {
		t.Errorf("ended %d, %v", out.Ended, err)
	}
	if n := h.rows(t, `SELECT COUNT(*) FROM approval WHERE ended_at > 0 AND reason = '`+string(approval.PersonDeactivated)+`'`); n != 2 {
		t.Errorf("%d rows are ended", n)
	} // 8,000 people and 4,000 memberships: 1,500 are an eighth.
	rename := func(n int, name string) directory.Directory {
		d := directory.Directory{People: newcomers(4000).People[:n]}
		for i := range d.People {
			d.People[i].Name = name
		}
		return d
	}
	ok(t, h.AddDirectory(ctx, directory.Directory{People: morePeople(4000)}, Act{}))
	whole("more people", before+3)
	ok(t, h.AddDirectory(ctx, rename(1900, "fewer"), Act{}))
	whole("less than an eighth of them", before+3)
	ok(t, h.AddDirectory(ctx, rename(2100, "more"), Act{}))
	whole("more than an eighth", before+4)
	other.same(t, "after all of it")
}

// morePeople are members of nothing.
func morePeople(n int) (all []directory.Person) {
	for i := range n {
		id := fmt.Sprintf("more-%d", i)
		all = append(all, directory.Person{Person: org.Person{ID: id, Email: id + "@nordlys.example", Name: id, Active: true}})
	}
	return all
}
