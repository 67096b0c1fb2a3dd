package operator

import (
	"encoding/json"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
)

// exportedDirectory is the answer to GET /v1/directory, which POST accepts.
type exportedDirectory struct {
	ID            string              `json:"id"` // always "directory"
	Organizations []organizationEntry `json:"organizations"`
	People        []personObject      `json:"people"`
	Members       []memberEntry       `json:"members"`
	Circles       []circleEntry       `json:"circles"`
	Roles         []roleEntry         `json:"roles"`
	APIKeys       []apiKeyEntry       `json:"api_keys"`
}

type organizationEntry struct {
	organizationObject
	Rules json.RawMessage `json:"rules"` // for apps; {} is none
}

func newOrganizationEntry(o org.Organization, rules policy.Policy) organizationEntry {
	text := json.RawMessage(`{}`)
	if !policy.Same(&rules, nil) {
		text = rules.JSON()
	}
	return organizationEntry{newOrganization(o), text}
}

type memberEntry struct {
	Organization string `json:"organization"`
	Person       string `json:"person"`
	Admin        bool   `json:"admin"`
}

type circleEntry struct {
	ID           string `json:"id"`
	Organization string `json:"organization"`
	Parent       string `json:"parent"`
	Name         string `json:"name"`
}

type roleEntry struct {
	ID           string   `json:"id"`
	Organization string   `json:"organization"`
	Circle       string   `json:"circle"`
	Name         string   `json:"name"`
	Fillers      []string `json:"fillers"`
}

type apiKeyEntry struct {
	Organization string `json:"organization"`
	Person       string `json:"person"`
	Name         string `json:"name"`
}

// exportDirectory returns the whole directory, without passwords and without the
// text of API keys.
func (s *Server) exportDirectory(c Call) (any, error) {
	d, err := s.Store.ExportDirectory(c.Context())
	if err != nil {
		return nil, err
	}
	out := exportedDirectory{"directory", []organizationEntry{}, []personObject{}, []memberEntry{}, []circleEntry{}, []roleEntry{}, []apiKeyEntry{}}
	for _, o := range d.Organizations {
		out.Organizations = append(out.Organizations, newOrganizationEntry(o, d.Rules[o.ID]))
	}
	for _, p := range d.People {
		out.People = append(out.People, newPerson(p.Person))
	}
	for _, m := range d.Members {
		out.Members = append(out.Members, memberEntry{m.Organization, m.Person, m.Admin})
	}
	for _, o := range d.Circles {
		out.Circles = append(out.Circles, circleEntry{o.ID, o.Organization, o.Parent, o.Name})
	}
	fillers := map[string][]string{}
	for _, f := range d.Fillers {
		fillers[f.Role] = append(fillers[f.Role], f.Person)
	}
	for _, r := range d.Roles {
		out.Roles = append(out.Roles, roleEntry{r.ID, r.Organization, r.Circle, r.Name, append([]string{}, fillers[r.ID]...)})
	}
	for _, k := range d.APIKeys {
		out.APIKeys = append(out.APIKeys, apiKeyEntry{k.Organization, k.Person, k.Name})
	}
	return out, nil
}
