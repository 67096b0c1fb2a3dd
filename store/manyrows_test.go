package store

import (
	"fmt"
	"slices"
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
				_, err := h.AddReset(ctx, fmt.Sprint("reset-", i), next.People[i].ID, time.Hour, Act{})
				ok(t, err)
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
					if _, err := h.ResetOf(ctx, fmt.Sprint("reset-", i)); err == nil {
						t.Fatalf("%d: a link to set the password outlived it", i)
					}
				}
			}
			// Another name alone leaves the password, whether it comes along or not, and the sessions.
			again := directory.Directory{People: slices.Clone(next.People)}
			for i, p := range next.People {
				again.People[i].Name = "again"
				if i%2 == 0 {
					again.People[i].PasswordHash = ""
				}
				ok(t, h.AddSession(ctx, fmt.Sprint("kept-", i), p.ID, Act{}))
				_, err := h.AddReset(ctx, fmt.Sprint("link-", i), p.ID, time.Hour, Act{})
				ok(t, err)
				again.APIKeys = append(again.APIKeys, directory.APIKey{Key: "an-api-key-of-" + p.ID, Person: p.ID, Organization: "nordlys", Name: "one"})
			}
			out, err = h.ImportDirectory(ctx, directory.Import{Directory: again}, Act{})
			if err != nil || out.Lists[directory.ListPeople].Changed != n+1 || out.Lists[directory.ListAPIKeys] != (directory.Counts{Added: n + 1}) {
				t.Fatalf("%+v, %v", out.Lists, err)
			}
			h.same(t, "other names")
			for i := range again.APIKeys {
				again.APIKeys[i].Name = "other"
			}
			ok(t, h.AddDirectory(ctx, directory.Directory{APIKeys: again.APIKeys}, Act{}))
			h.same(t, "keys have other names")
			if got := h.rows(t, `SELECT COUNT(*) FROM api_key WHERE name = 'other'`); got != n+1 {
				t.Fatalf("%d keys have another name, want %d", got, n+1)
			}
			for i, p := range next.People {
				if _, hash, err := h.Password(ctx, p.Email); err != nil || hash != p.PasswordHash {
					t.Fatalf("%d: password %q, %v", i, hash, err)
				}
				if _, err := h.Session(ctx, fmt.Sprint("kept-", i)); err != nil {
					t.Fatalf("%d: a session ended by another name: %v", i, err)
				}
				if _, err := h.ResetOf(ctx, fmt.Sprint("link-", i)); err != nil {
					t.Fatalf("%d: a link to set the password ended by another name: %v", i, err)
				}
				if m, err := h.APIKey(ctx, again.APIKeys[i].Key); err != nil || m.Person != p.ID {
					t.Fatalf("%d: its key is that of %v, %v", i, m, err)
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

// A change of many rows does not name each, neither to other nodes nor to who writes that
// approvals have ended: of people, members, roles and their fillers it is named who wrote
// them, where they are more than a thousand; where it is more than an eighth of all that would
// be named still, all is loaded again. All rows are asked for what has ended then.
func TestManyFactsAreNotNamed(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h, other := all[0], all[1]
	id := h.live(t, h.answer(1))
	if !other.accepts(t, id) {
		t.Fatal("not accepted")
	}
	before := h.rows(t, `SELECT COUNT(*) FROM fact_change WHERE what = '*'`)
	told := func(when string, whole, written int) {
		t.Helper()
		if n := h.rows(t, `SELECT COUNT(*) FROM fact_change WHERE what = '*' AND key = ''`); n != before+whole {
			t.Errorf("%s: %d changes say that everything is to be loaded, want %d", when, n-before, whole)
		}
		if n := h.rows(t, `SELECT COUNT(*) FROM fact_change WHERE what = '*' AND key <> ''`); n != written {
			t.Errorf("%s: %d tables are named by who wrote, want %d", when, n, written)
		}
	}
	ada := directory.Person{Person: org.Person{ID: "ada", Email: "Ada@nordlys.example", Name: "Ada Lindqvist"}}
	importing := func(d directory.Directory, active bool, ended int) {
		t.Helper()
		ada.Active = active
		d.People = append(d.People, ada)
		if out, err := h.ImportDirectory(ctx, directory.Import{Directory: d}, Act{}); err != nil || out.Ended != ended {
			t.Errorf("ended %d, want %d: %v", out.Ended, ended, err)
		}
	}
	importing(newcomers(200), true, 0)
	told("few rows", 0, 0)
	importing(newcomers(400), false, 1)
	told("few rows more", 0, 0)
	importing(newcomers(900), true, 0)
	told("most rows, a thousand of nothing", 1, 0)
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
	importing(newcomers(4000), false, 1)
	told("thousands, and a deactivation", 1, 4)
	if other.accepts(t, id) {
		t.Error("accepted")
	}
	if n := h.rows(t, `SELECT COUNT(*) FROM approval WHERE ended_at > 0 AND reason = '`+string(approval.PersonDeactivated)+`'`); n != 2 {
		t.Errorf("%d rows are ended", n)
	}
	other.same(t, "thousands")
	rename := func(name string) {
		t.Helper()
		d := directory.Directory{People: newcomers(1100).People}
		for i := range d.People {
			d.People[i].Name = name
		}
		ok(t, h.AddDirectory(ctx, d, Act{}))
	}
	rename("one")
	told("people alone", 1, 5)
	h.postgres().IsPostgreSQL = false
	rename("two")
	told("on a server whose rows do not say who wrote them", 1, 5)
	h.postgres().IsPostgreSQL = true
	// What is gone has no row that says who took it. Of 4,000 people, members and roles each, and a
	// few more, 1,500 are an eighth.
	quit := func(from, to int) {
		t.Helper()
		ok(t, h.changeMany(func(tx *Tx) error { return tx.removeFillers(newcomers(to).Fillers[from:]...) }))
	}
	quit(0, 1400)
	told("less than an eighth of them", 1, 5)
	quit(1400, 3000)
	told("more than an eighth", 2, 5)
	other.same(t, "after all of it")
}

// Another node loads what one transaction has written, and keeps the rest: who fills a role
// that has another name, who has left, and who came back. Where somebody has written one of
// the rows again before it looked, it loads all.
func TestRowsByTheirWriter(t *testing.T) {
	if embedded() {
		return
	}
	all := nodes(t, 2)
	h, other := all[0], all[1]
	const n = 1100
	fresh := func(when string, whole bool) {
		t.Helper()
		was := other.db.Memory.Orgs["nordlys"]
		ok(t, other.fresh(ctx))
		if is := other.db.Memory.Orgs["nordlys"]; (is != was) != whole {
			t.Errorf("%s: loaded whole: %v", when, is != was)
		}
		h.same(t, when)
		other.same(t, when)
	}
	takes := func(d directory.Directory, prune ...string) {
		t.Helper()
		i := directory.Import{Directory: d, Prune: map[string]bool{}}
		for _, list := range prune {
			i.Prune[list] = true
		}
		_, err := h.ImportDirectory(ctx, i, Act{})
		ok(t, err)
	}
	town := newcomers(n)
	ok(t, other.fresh(ctx))
	takes(town)
	fresh("they come", false)
	for i := range n {
		town.Roles[i].Name, town.People[i].Name, town.Members[i].Admin = "other", "other", i%3 == 0
	}
	takes(directory.Directory{Roles: town.Roles})
	fresh("roles have other names", false)
	takes(directory.Directory{People: town.People, Members: town.Members})
	fresh("and people", false)
	stay := directory.Directory{Members: []directory.Member{{Person: "ada", Organization: "nordlys"}}}
	takes(stay, directory.ListMembers)
	fresh("all leave but one", false)
	takes(directory.Directory{Members: town.Members, Fillers: town.Fillers})
	fresh("and come back", false)
	for i := range n {
		town.Roles[i].Name = "third"
	}
	takes(directory.Directory{Roles: []org.Role{{ID: "treasurer", Organization: "nordlys", Circle: "anchor", Name: "Cash"}}})
	takes(directory.Directory{Roles: town.Roles})
	fresh("a role that is named, and then many", false)
	for i := range n {
		town.Roles[i].Name = "fourth"
	}
	takes(directory.Directory{Roles: slices.Delete(slices.Clone(town.Roles), 3, 4), Fillers: slices.Delete(slices.Clone(town.Fillers), 3, 4)}, directory.ListRoles)
	if n := h.rows(t, `SELECT COUNT(*) FROM fact_change WHERE what = '*' AND key LIKE '% role 1099'`); n != 1 {
		t.Errorf("roles are named by who wrote %d times", n)
	}
	fresh("roles that have gone, among many others", false)
	// These rows were there as they came, and no memory knows of them.
	h.sql(t, `INSERT INTO filler (role, person) SELECT 'of-new-1', id FROM person WHERE id LIKE 'new-%' AND id <> 'new-1'`)
	ok(t, h.changeMany(func(tx *Tx) error {
		var all []directory.Filler
		for _, one := range town.People {
			all = append(all, directory.Filler{Role: "of-new-1", Person: one.ID})
		}
		return tx.putFillers(all...)
	}))
	fresh("fillers that were there", true)
	for i := range n {
		town.People[i].Name, town.Roles[i].Name = "another", "another"
	}
	takes(directory.Directory{People: town.People, Roles: town.Roles})
	h.sql(t, `UPDATE person SET password = 'x' WHERE id = 'new-5'`)
	fresh("and one of them is written again", true)
	takes(directory.Directory{People: town.People[:1], Roles: newcomers(n).Roles})
	ok(t, h.RemoveMember(ctx, "nordlys", "new-7", Act{}))
	ok(t, h.AddDirectory(ctx, directory.Directory{Roles: town.Roles[:3]}, Act{}))
	fresh("and by a change that is named", true)
	for _, name := range []string{"one", "two"} {
		for i := range n {
			town.People[i].Name = name
		}
		takes(directory.Directory{People: town.People})
	}
	fresh("all of them, by another such", true)
	// A server that the rows were copied to knows nobody who wrote them.
	takes(town)
	h.sql(t, `UPDATE fact_change SET key = '3' || SUBSTR(key, STRPOS(key, ' ')) WHERE what = '*' AND key <> '' AND version = (SELECT MAX(version) FROM fact_change)`)
	fresh("copied", true)
	for _, key := range []string{"", "3", "3 role", "3 role x", "3 api_key 0", "x"} {
		h.sql(t, `WITH next AS (UPDATE facts SET version = version + 1 RETURNING version) INSERT INTO fact_change SELECT version, '*', '`+key+`' FROM next`)
		fresh(key, true)
	}
}
