package devserver

import (
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/store"
)

// A demoPerson is somebody of dev's directory, and what is said of them.
type demoPerson struct {
	id, Email, name, about string
	in                     string // organization of the API key; "" for none
}

// People are those of the demo, who sign in with remote.DevPassword.
var People = []demoPerson{
	{"ada", "ada@nordlys.example", "Ada Aasen", "admin of Nordlys, member of Fjell; 9 + 2 roles", "nordlys"},
	{"tor", "tor@nordlys.example", "Tor Tveit", "member of Nordlys; 3 roles", "nordlys"},
	{"mei", "mei@storhavn.example", "Mei Moen", "member of Storhavn; 300 roles", "storhavn"},
	{"ola", "ola@havn.example", "Ola Olsen", "only Havn: AI integration is off", "havn"},
	{"support", "support@svalinn.example", "Svalinn Support", "may impersonate", ""},
}

// A demoCircle is a circle, its roles with those who fill them (a name and the
// IDs, with spaces between), and the circles in it.
type demoCircle struct {
	id, name string
	roles    []demoRole
	circles  []demoCircle
}

type demoRole struct{ name, fillers string }

// Organizations are those of the demo, with who is in them and their roles.
var Organizations = []struct {
	org.Organization
	members string // IDs; an admin has an asterisk
	circle  demoCircle
}{
	{org.Organization{ID: "nordlys", Name: "Nordlys", AIIntegration: true}, "ada* tor", demoCircle{"anchor", "Nordlys (anchor circle)", []demoRole{
		{"Facilitator", "ada"}, {"Circle Rep: Product", "ada"}, {"Treasurer", "ada"}, {"Secretary", "tor"}, {"Lead Link", ""},
	}, []demoCircle{
		{"product", "Product", []demoRole{
			{"Roadmap Steward", "ada"}, {"Customer Interviews", "ada"},
		}, []demoCircle{
			{"platform", "Platform", []demoRole{{"API Documentation", "ada"}, {"On-call Coordinator", "tor"}}, []demoCircle{
				{"releases", "Releases", []demoRole{{"Release Captain", "ada"}, {"Changelog Editor", ""}}, nil},
			}},
		}},
		{"people", "People & Onboarding", []demoRole{{"Buddy", "ada tor"}, {"Workspace Host", "ada"}}, nil},
	}}},
	{org.Organization{ID: "fjell", Name: "Fjell", AIIntegration: true}, "ada", demoCircle{"anchor", "Fjell (anchor circle)", []demoRole{
		{"Lead Link", ""},
	}, []demoCircle{
		{"grants", "Grants", []demoRole{{"Reviewer", "ada"}, {"Archive Keeper", "ada"}}, nil},
	}}},
	{org.Organization{ID: "storhavn", Name: "Storhavn", AIIntegration: true}, "mei", storhavn()},
	{org.Organization{ID: "havn", Name: "Havn"}, "ola", demoCircle{"anchor", "Havn (anchor circle)", []demoRole{
		{"Harbour Master", "ola"}, {"Bookkeeper", "ola"},
	}, nil}},
}

// storhavn has 300 roles in 25 circles, three deep: the size at which a page
// of roles must still be usable.
func storhavn() demoCircle {
	roles := func() []demoRole {
		var all []demoRole
		for _, name := range []string{
			"Lead Link", "Facilitator", "Secretary", "Circle Rep", "Planner", "Budget Keeper",
			"Safety Officer", "Supplier Contact", "Trainer", "Quality Reviewer", "Archivist", "Improver",
		} {
			all = append(all, demoRole{name, "mei"})
		}
		return all
	}
	port := demoCircle{"anchor", "Storhavn (anchor circle)", roles(), nil}
	for _, part := range []string{
		"Terminal: Cranes, Gates, Yard", "Marine: Pilotage, Tugs, Dredging", "Energy: Shore Power, Fuels, Grid",
		"Rail: Shunting, Timetables, Track", "Trade: Customs, Cargo, Agents", "Town: Ferries, Tours, Events",
	} {
		name, subs, _ := strings.Cut(part, ": ")
		c := demoCircle{slug(name), name, roles(), nil}
		for sub := range strings.SplitSeq(subs, ", ") {
			c.circles = append(c.circles, demoCircle{slug(sub), sub, roles(), nil})
		}
		port.circles = append(port.circles, c)
	}
	return port
}

// slug makes an ID of a name: small letters, digits and hyphens.
func slug(name string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}), "-")
}

// demoKeys are new API keys for those who have one. Any web page can send what
// everybody knows to the API, whose CORS is open.
func demoKeys() (keys []store.DirectoryAPIKey) {
	for _, p := range People {
		if p.in != "" {
			keys = append(keys, store.DirectoryAPIKey{Key: rand.Text() + rand.Text(), Person: p.id, Organization: p.in, Name: "Demo key"})
		}
	}
	return keys
}

// demoDirectory is everything that dev starts with. hash is of the password
// that all have.
func demoDirectory(hash string) store.Directory {
	var d store.Directory
	for _, p := range People {
		d.People = append(d.People, store.DirectoryPerson{PasswordHash: hash, Person: org.Person{
			ID: p.id, Email: p.Email, Name: p.name, Active: true, Support: p.id == "support",
		}})
	}
	d.APIKeys = demoKeys()
	for _, o := range Organizations {
		d.Organizations = append(d.Organizations, o.Organization)
		for member := range strings.FieldsSeq(o.members) {
			id, admin := strings.CutSuffix(member, "*")
			d.Members = append(d.Members, store.DirectoryMember{Person: id, Organization: o.ID, Admin: admin})
		}
		addCircle(&d, o.ID, "", o.circle)
	}
	return d
}

func addCircle(d *store.Directory, organization, parent string, c demoCircle) {
	id := organization + "-" + c.id
	d.Circles = append(d.Circles, org.Circle{ID: id, Organization: organization, Parent: parent, Name: c.name})
	for _, r := range c.roles {
		role := fmt.Sprintf("%s-%s", id, slug(r.name))
		if c.id == "anchor" {
			role = fmt.Sprintf("%s-%s", organization, slug(r.name))
		}
		d.Roles = append(d.Roles, org.Role{ID: role, Organization: organization, Circle: id, Name: r.name})
		for person := range strings.FieldsSeq(r.fillers) {
			d.Fillers = append(d.Fillers, store.Filler{Role: role, Person: person})
		}
	}
	for _, sub := range c.circles {
		addCircle(d, organization, id, sub)
	}
}
