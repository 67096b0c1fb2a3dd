package operator

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
)

// workshop is Nordlys with a second circle and a second role.
func workshop(t *testing.T) *office {
	o := newOffice(t)
	o.want(200, "POST", "/v1/directory", `{
		"circles":[{"id":"hall","organization":"nordlys","parent":"circle","name":"Hall"},{"id":"pier","organization":"havn","name":"Pier"}],
		"members":[{"organization":"havn","person":"ola"}],
		"roles":[{"id":"host","organization":"nordlys","circle":"hall","name":"Host","fillers":["tor"]},
		         {"id":"crane","organization":"havn","circle":"pier","name":"Crane","fillers":["ola"]}]}`)
	return o
}

// Every member that an entry must have is named where it is missing or wrong,
// with the entry.
func TestImportNamesTheMember(t *testing.T) {
	o := newOffice(t)
	for list, entry := range map[string]string{
		"people":        `{"id":"x","email":"x@x.example","name":"X"}`,
		"organizations": `{"id":"x","name":"X"}`,
		"members":       `{"organization":"nordlys","person":"ada"}`,
		"circles":       `{"id":"x","organization":"nordlys","name":"X"}`,
		"roles":         `{"id":"x","organization":"nordlys","name":"X"}`,
		"api_keys":      `{"organization":"nordlys","person":"ada","name":"X"}`,
	} {
		var members map[string]any
		if err := json.Unmarshal([]byte(entry), &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			for value, says := range map[any]string{nil: list + "[0]: " + name + " is missing", "a\nb": list + "[0]." + name + ": "} {
				spoiled := maps.Clone(members)
				if spoiled[name] = value; value == nil {
					delete(spoiled, name)
				}
				body, err := json.Marshal(map[string]any{list: []any{spoiled}})
				if err != nil {
					t.Fatal(err)
				}
				got, _ := o.want(400, "POST", "/v1/directory", string(body))["error_description"].(string)
				if !strings.Contains(got, says) {
					t.Errorf("%s: got %q, want %q", body, got, says)
				}
			}
		}
	}
	o.want(400, "POST", "/v1/directory", `{"roles":[{"id":"x","organization":"nordlys","name":"X","fillers":["ada",""]}]}`)
}
