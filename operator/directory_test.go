package operator

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
)

// workshop is Nordlys with a second circle, a second role, and items.
func workshop(t *testing.T) *office {
	o := newOffice(t)
	o.want(200, "POST", "/v1/directory", `{
		"circles":[{"id":"hall","organization":"nordlys","parent":"circle","name":"Hall"},{"id":"pier","organization":"havn","name":"Pier"}],
		"members":[{"organization":"havn","person":"ola"}],
		"roles":[{"id":"host","organization":"nordlys","circle":"hall","name":"Host","fillers":["tor"]},
		         {"id":"crane","organization":"havn","circle":"pier","name":"Crane","fillers":["ola"]}],
		"items":[{"id":"budget","kind":"project","organization":"nordlys","role":"treasurer","title":"Budget","body":"Of\nnext year."},
		         {"id":"salaries","kind":"note","organization":"nordlys","role":"treasurer","title":"Salaries","private":true,"status":"archived"},
		         {"id":"chairs","kind":"action","organization":"nordlys","role":"host","title":"Chairs","private":true},
		         {"id":"own-of-tor","kind":"tension","organization":"nordlys","person":"tor","title":"Own"},
		         {"id":"hook","kind":"note","organization":"havn","role":"crane","title":"Hook"}]}`)
	return o
}

func TestDirectoryItems(t *testing.T) {
	o := workshop(t)
	i, err := o.Store.FindItem(t.Context(), "nordlys", "budget")
	if err != nil || i.Kind != "project" || i.Title != "Budget" || i.Body != "Of\nnext year." || i.Status != "open" || i.Role != "treasurer" || i.Private {
		t.Errorf("got %+v, %v", i, err)
	}
	if i, err = o.Store.FindItem(t.Context(), "nordlys", "salaries"); err != nil || i.Status != "archived" || !i.Private {
		t.Errorf("got %+v, %v", i, err)
	}
	if i, err = o.Store.FindItem(t.Context(), "nordlys", "own-of-tor"); err != nil || i.Person != "tor" || i.Role != "" {
		t.Errorf("got %+v, %v", i, err)
	}
	if got := o.want(200, "POST", "/v1/directory", `{"items":[{"id":"x","kind":"note","organization":"nordlys","role":"host","title":"T"}]}`); got["items"] != 1.0 {
		t.Errorf("taken: %v", got)
	}
	good := `"id":"new","kind":"note","organization":"nordlys","role":"host","title":"T"`
	for _, tt := range []struct {
		status    int
		old, item string
		says      string
	}{
		{400, `"id":"new"`, `"id":"a b"`, "items[0].id: an ID"},
		{400, `"id":"new",`, ``, "items[0]: id is missing"},
		{400, `"kind":"note"`, `"kind":"poem"`, "items[0].kind: one of tension, action, project, note"},
		{400, `"organization":"nordlys"`, `"organization":""`, "items[0]: organization is missing"},
		{400, `"organization":"nordlys"`, `"organization":"havn"`, "role host in havn"},
		{400, `"role":"host",`, ``, "items[0]: role or person is missing"},
		{400, `"role":"host"`, `"role":"gone"`, "role gone"},
		{400, `"role":"host"`, `"role":"host","person":"tor"`, "not both"},
		{400, `"role":"host"`, `"person":"ola"`, "member ola"},
		{400, `"role":"host"`, `"person":"tor","private":true`, "items[0].private"},
		{400, `"title":"T"`, `"title":" "`, "items[0].title"},
		{400, `"title":"T"`, `"title":"a\nb"`, "items[0].title"},
		{400, `"title":"T"`, `"title":"` + strings.Repeat("ø", 201) + `"`, "items[0].title"},
		{400, `"title":"T"`, `"title":"T","status":"lost"`, "items[0].status: one of open, done, archived"},
		{400, `"title":"T"`, `"title":"T","body":"` + strings.Repeat("ø", 20_001) + `"`, "items[0].body"},
		{400, `"title":"T"`, `"title":"T","body":"\u0000"`, "items[0].body"},
		{409, `"id":"new"`, `"id":"hook"`, "another organization or kind"},
		{409, `"id":"new"`, `"id":"chairs"`, "another organization or kind"},
	} {
		got := o.want(tt.status, "POST", "/v1/directory", `{"items":[{`+strings.Replace(good, tt.old, tt.item, 1)+`}]}`)
		if !strings.Contains(fmt.Sprint(got["error_description"]), tt.says) {
			t.Errorf("%.100s: %v", tt.item, got)
		}
	}
	o.want(200, "POST", "/v1/directory", `{"items":[{`+strings.Replace(good, `"title":"T"`, `"title":"`+strings.Repeat("ø", 200)+`","body":"a\tb\r\n`+strings.Repeat("ø", 19_995)+`"`, 1)+`}]}`)
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
		"items":         `{"id":"x","kind":"note","organization":"nordlys","role":"treasurer","title":"X"}`,
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
				if !strings.Contains(strings.Replace(got, "role or person", "role", 1), says) {
					t.Errorf("%s: got %q, want %q", body, got, says)
				}
			}
		}
	}
	o.want(400, "POST", "/v1/directory", `{"roles":[{"id":"x","organization":"nordlys","name":"X","fillers":["ada",""]}]}`)
}
