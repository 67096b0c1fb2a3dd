package sample_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/sample"
	"github.com/grantkeeper/grantkeeper/store"
)

func chosenPick(role string, change bool) grantset.Pick {
	return grantset.Pick{Role: role, Change: change}
}

// furnish adds a circle whose only role nobody fills, so that there are items
// that few may read.
func (h *mcpHouse) furnish() {
	h.t.Helper()
	err := h.store.AddDirectory(h.t.Context(), store.Directory{
		Circles: []org.Circle{{ID: "money", Organization: "nordlys", Parent: "general", Name: "Money"}},
		Roles:   []org.Role{{ID: "auditor", Organization: "nordlys", Circle: "money", Name: "Auditor"}},
	}, act)
	if err != nil {
		h.t.Fatal(err)
	}
}

func toolsOf(t *testing.T, session *sdk.ClientSession) map[string]*sdk.Tool {
	t.Helper()
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*sdk.Tool{}
	for _, tool := range list.Tools {
		all[tool.Name] = tool
	}
	return all
}

func resolved(t *testing.T, schema any) *jsonschema.Resolved {
	t.Helper()
	b, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	r, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// promises are the schemas of what sessions' tools give.
var promises sync.Map

// wantSchema holds a tool's answer to the schema that the tool promises, which
// takes no answer that lacks a part.
func wantSchema(t *testing.T, session *sdk.ClientSession, tool string, answer []byte) {
	t.Helper()
	type key struct {
		session *sdk.ClientSession
		tool    string
	}
	promised, ok := promises.Load(key{session, tool})
	if !ok {
		listed, ok := toolsOf(t, session)[tool]
		if !ok {
			t.Fatalf("%s has worked and is not listed", tool)
		}
		promised, _ = promises.LoadOrStore(key{session, tool}, resolved(t, listed.OutputSchema))
	}
	schema := promised.(*jsonschema.Resolved)
	var v map[string]any
	if err := json.Unmarshal(answer, &v); err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Errorf("%s: %v in %s", tool, err, answer)
	}
	for name := range v {
		less := map[string]any{}
		for other, value := range v {
			if other != name {
				less[other] = value
			}
		}
		if optional := []string{"client_id", "role", "circle", "parent"}; schema.Validate(less) == nil && !slices.Contains(optional, name) {
			t.Errorf("%s: the schema takes an answer without %s", tool, name)
		}
	}
}

// refused gives the words of a refusal.
func refused(t *testing.T, session *sdk.ClientSession, tool string, arguments any) string {
	t.Helper()
	result, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil || !result.IsError || result.StructuredContent != nil {
		t.Fatalf("%s %v: %v, %+v", tool, arguments, err, result)
	}
	return textOf(t, result)
}

type in = map[string]any

var (
	readTools   = []string{"list_circles", "list_items", "list_people", "list_roles", "read_item", "whoami"}
	changeTools = []string{"change_item", "create_item", "delete_item"}
	adminTools  = []string{
		"change_circle", "change_role", "create_circle", "create_role", "delete_circle", "delete_role", "remove_member", "rename_organization", "set_admin", "set_filler",
	}
)

// What a grant set can never use is not listed; what it can is, with its
// annotations, to clients of every age.
func TestToolsListed(t *testing.T) {
	for _, c := range []struct {
		name, person string
		grant        grantset.Set
		admin        bool
		want         [][]string
	}{
		{"everything of an admin", "ada", everything, true, [][]string{readTools, changeTools, adminTools}},
		{"everything of a member", "tor", everything, false, [][]string{readTools, changeTools}},
		{"whole organization", "ada", whole, true, [][]string{readTools, changeTools, adminTools}},
		{"whole organization, no longer admin", "ada", whole, false, [][]string{readTools, changeTools}},
		{"a role to read", "ada", roles(false, chosenPick("treasurer", false)), true, [][]string{readTools}},
		{"a role to change", "ada", roles(false, chosenPick("treasurer", true)), true, [][]string{readTools, changeTools}},
		{"a role to change that is not filled", "ada", roles(false, chosenPick("host", true)), true, [][]string{readTools}},
		{"personal items", "tor", roles(true), false, [][]string{readTools, changeTools}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newMCPHouse(t)
			token := h.live(c.person, "nordlys", c.grant)
			if err := h.store.SetAdmin(t.Context(), "nordlys", c.person, c.admin, act); err != nil {
				t.Fatal(err)
			}
			var names []string
			for name, tool := range toolsOf(t, connected(t, h, token)) {
				names = append(names, name)
				wantAnnotations(t, tool)
			}
			want := slices.Concat(c.want...)
			if slices.Sort(want); !slices.Equal(slices.Sorted(slices.Values(names)), want) {
				t.Errorf("got %q, want %q", names, want)
			}
		})
	}
}

// An admin changes items of roles that others fill, and lists the tools for it
// without filling any.
func TestToolsOfAdminWithoutRoles(t *testing.T) {
	h := newMCPHouse(t)
	for _, err := range []error{h.store.SetAdmin(t.Context(), "nordlys", "tor", true, act), h.store.SetFiller(t.Context(), "host", "tor", false, act)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	token := h.live("tor", "nordlys", whole)
	session := connected(t, h, token)
	if tools := toolsOf(t, session); len(tools) != len(readTools)+len(changeTools)+len(adminTools) {
		t.Errorf("%d tools", len(tools))
	}
	if err := h.store.SetAdmin(t.Context(), "nordlys", "tor", false, act); err != nil {
		t.Fatal(err)
	}
	if tools := toolsOf(t, session); len(tools) != len(readTools) {
		t.Errorf("%d tools, no longer admin", len(tools))
	}
}

func wantAnnotations(t *testing.T, tool *sdk.Tool) {
	t.Helper()
	reads := slices.Contains(readTools, tool.Name)
	creates := strings.HasPrefix(tool.Name, "create_")
	a := tool.Annotations
	if a == nil || a.ReadOnlyHint != reads || a.DestructiveHint == nil || *a.DestructiveHint != (!reads && !creates) ||
		a.IdempotentHint == creates || a.OpenWorldHint == nil || *a.OpenWorldHint || a.Title == "" {
		t.Errorf("%s: annotations %+v", tool.Name, a)
	}
	schema, _ := tool.InputSchema.(map[string]any)
	if schema["type"] != "object" || schema["additionalProperties"] != false || tool.OutputSchema == nil || tool.Description == "" || tool.Title == "" {
		t.Errorf("%s: %+v", tool.Name, tool)
	}
	b, _ := json.Marshal([]any{tool.InputSchema, tool.OutputSchema})
	if strings.Contains(string(b), `"null"`) {
		t.Errorf("%s: something may be null: %s", tool.Name, b)
	}
}

// G-03, G-04 to G-10: by the official client under each grant set, every tool
// on every sort of item does what the pure rules say; a refusal is a result
// with their words, and of what may not be read the words are those of nothing.
func TestToolsAreTheRules(t *testing.T) {
	for n, c := range []struct {
		name, person string
		grant        grantset.Set
	}{
		{"everything of an admin", "ada", everything},
		{"everything of a member", "tor", everything},
		{"whole organization", "ada", whole},
		{"selected roles", "ada", roles(false, chosenPick("secretary", false), chosenPick("treasurer", true))},
		{"selected roles and personal items", "tor", roles(true, chosenPick("host", false))},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newMCPHouse(t)
			h.furnish()
			session := connected(t, h, h.live(c.person, "nordlys", c.grant))
			m, err := h.store.Member(t.Context(), c.person, "nordlys")
			if err != nil {
				t.Fatal(err)
			}
			a, kind := c.grant.Narrow(m, nil), sample.Kinds[n%4]
			var items []item
			var readable []string
			for _, role := range []string{"treasurer", "secretary", "host", "auditor"} {
				for _, private := range []bool{false, true} {
					items = append(items, h.item(item{Kind: kind, Item: org.Item{Role: role, Private: private}}))
				}
			}
			for _, person := range []string{"ada", "tor"} {
				items = append(items, h.item(item{Kind: kind, Item: org.Item{Person: person}}))
			}
			for _, i := range items {
				if a.MayRead(i.Item) {
					readable = append(readable, i.ID)
				}
			}
			var listed []string
			for _, i := range called[sample.Items](t, session, "list_items", in{"kind": kind}).Items {
				listed = append(listed, i.ID)
			}
			if !slices.Equal(listed, readable) {
				t.Errorf("listed %q, want %q", listed, readable)
			}
			for _, i := range items {
				wantTools(t, h, session, a, i)
			}
			wantAdminTools(t, session, a)
		})
	}
}

func wantTools(t *testing.T, h *mcpHouse, session *sdk.ClientSession, a grantset.Authority, i item) {
	t.Helper()
	at := in{"kind": i.Kind, "id": i.ID}
	role, _ := h.store.Role(t.Context(), "nordlys", i.Role)
	if !a.MayRead(i.Item) {
		for tool, more := range map[string]in{"read_item": {}, "change_item": {"title": "x"}, "delete_item": {"if_match": "x"}} {
			hidden, none := in{"kind": i.Kind, "id": i.ID}, in{"kind": i.Kind, "id": "nobody"}
			for name, value := range more {
				hidden[name], none[name] = value, value
			}
			if got, want := refused(t, session, tool, hidden), refused(t, session, tool, none); got != want || strings.Contains(got, "Sealed") {
				t.Errorf("%s %+v: %q, and of nothing %q", tool, i.Item, got, want)
			}
		}
	} else if got := called[sample.ItemView](t, session, "read_item", at); got.ID != i.ID || (got.Access == "change") != a.MayChange(i.Item) {
		t.Errorf("got %+v", got)
	}
	fresh := in{"kind": i.Kind, "title": "New", "role": i.Role, "private": i.Private}
	if i.Personal() {
		fresh = in{"kind": i.Kind, "title": "New", "personal": true}
	}
	why, put := a.ExplainChange(i.Item, role.Name), a.ExplainPut(i.Item, role.Name)
	switch own := !i.Personal() || i.Person == a.Member().Person; {
	case a.MayChange(i.Item):
		called[sample.ItemView](t, session, "create_item", fresh)
		if got := called[sample.ItemView](t, session, "change_item", in{"kind": i.Kind, "id": i.ID, "body": "seen"}); got.Body != "seen" {
			t.Errorf("got %+v", got)
		}
		called[map[string]string](t, session, "delete_item", at)
		refused(t, session, "read_item", at)
	case own:
		if got := refused(t, session, "create_item", fresh); got != put || put == "" {
			t.Errorf("create %+v: %q, want %q", i.Item, got, put)
		}
		if a.MayRead(i.Item) {
			if got := refused(t, session, "change_item", in{"kind": i.Kind, "id": i.ID, "body": "seen"}); got != why {
				t.Errorf("change %+v: %q, want %q", i.Item, got, why)
			}
			if got := refused(t, session, "delete_item", at); got != why {
				t.Errorf("delete %+v: %q, want %q", i.Item, got, why)
			}
		}
	}
}

func wantAdminTools(t *testing.T, session *sdk.ClientSession, a grantset.Authority) {
	t.Helper()
	circle, role := "money", "auditor"
	for _, c := range []struct {
		tool string
		in   in
	}{
		{"rename_organization", in{"name": "Nord"}},
		{"create_circle", in{"name": "Sea", "parent": "general"}},
		{"change_circle", in{"id": circle, "name": "Gold"}},
		{"create_role", in{"name": "Cook", "circle": "general"}},
		{"change_role", in{"id": role, "circle": "general"}},
		{"set_filler", in{"role": role, "person": "tor", "fills": true}},
		{"set_filler", in{"role": role, "person": "tor", "fills": false}},
		{"delete_role", in{"id": role}},
		{"delete_circle", in{"id": circle}},
		{"set_admin", in{"person": "tor", "admin": true}},
		{"remove_member", in{"person": "tor"}},
	} {
		if a.MayAdminister() {
			called[map[string]any](t, session, c.tool, c.in)
		} else if got := refused(t, session, c.tool, c.in); got != a.ExplainAdminister() {
			t.Errorf("%s: %q, want %q", c.tool, got, a.ExplainAdminister())
		}
	}
}

// etag and if_match keep an assistant from writing over what somebody else
// wrote meanwhile.
func TestIfMatch(t *testing.T) {
	h := newMCPHouse(t)
	session := connected(t, h, h.live("ada", "nordlys", everything))
	i := h.item(item{Item: org.Item{Role: "treasurer"}})
	etag := func() string {
		return called[struct{ ETag string }](t, session, "read_item", in{"kind": "note", "id": i.ID}).ETag
	}
	old := etag()
	change := in{"kind": "note", "id": i.ID, "body": "one", "if_match": old}
	called[sample.ItemView](t, session, "change_item", change)
	change["body"] = "two"
	if got := refused(t, session, "change_item", change); !strings.Contains(got, "Read it again") {
		t.Errorf("got %q", got)
	}
	refused(t, session, "delete_item", in{"kind": "note", "id": i.ID, "if_match": old})
	if now, err := h.stored(i); err != nil || now.Body != "one" {
		t.Errorf("got %+v, %v", now, err)
	}
	called[map[string]string](t, session, "delete_item", in{"kind": "note", "id": i.ID, "if_match": etag()})
}

// Odd arguments are refused with words, and what the schema of a tool does not
// take the tool does not either.
func TestOddArguments(t *testing.T) {
	h := newMCPHouse(t)
	token := h.live("ada", "nordlys", everything)
	session := connected(t, h, token)
	tools := toolsOf(t, session)
	i := h.item(item{Item: org.Item{Role: "treasurer"}})
	foreign := h.item(item{Item: org.Item{Organization: "fjell", Role: "guide"}})
	for _, c := range []struct {
		tool, arguments, says string
		schema                bool // takes it
	}{
		{"whoami", `{"organization":"fjell"}`, "cannot be sent", false},
		{"whoami", `[]`, "not a JSON object", false},
		{"list_items", `{}`, "kind is missing", false},
		{"list_items", `null`, "not a JSON object", false},
		{"list_items", `{"kind":"notes"}`, "kind is tension, action, project or note", false},
		{"list_items", `{"kind":"note","kind":"action"}`, "kind stands there twice", true},
		{"list_items", `{"kind":"note","role":"guide"}`, "no such role", true}, // of another organization
		{"list_items", `{"kind":"note","circle":"peak"}`, "no such circle", true},
		{"list_items", `{"kind":"note","status":"any"}`, "open, done or archived", false},
		{"list_items", `{"kind":"note","limit":0}`, "from 1 to 200", false},
		{"list_items", `{"kind":"note","limit":201}`, "from 1 to 200", false},
		{"list_items", `{"kind":"note","limit":1.5}`, "limit is a whole number", false},
		{"list_items", `{"kind":"note","limit":1e300}`, "limit is a whole number", false},
		{"list_items", `{"kind":"note","after":"` + i.ID + `"}`, "after is not", true},
		{"list_items", `{"kind":"note","mine":"yes"}`, "mine is true or false", false},
		{"list_items", `{"kind":null}`, "kind cannot be null", false},
		{"read_item", `{"kind":"note"}`, "id is missing", false},
		{"read_item", `{"kind":"action","id":"` + i.ID + `"}`, "no such object", true},
		{"read_item", `{"kind":"note","id":"` + foreign.ID + `"}`, "no such object", true},
		{"read_item", `{"kind":"note","id":"../notes"}`, "no such object", true},
		{"read_item", `{"kind":"note","id":"a\u0000"}`, "id has a NUL", true},
		{"create_item", `{"kind":"note","title":"x","role":"guide"}`, "no such role", true},
		{"create_item", `{"kind":"note","role":"treasurer"}`, "title is missing", false},
		{"create_item", `{"kind":"note","title":"x"}`, "Send role", true},
		{"create_item", `{"kind":"note","title":"` + strings.Repeat("x", 201) + `","role":"treasurer"}`, "1 to 200", false},
		{"create_item", `{"kind":"note","title":"x","body":"` + strings.Repeat("x", 20_001) + `","role":"treasurer"}`, "20000", false},
		{"create_item", `{"kind":"secret","title":"x","role":"treasurer"}`, "kind is", false},
		{"change_item", `{"kind":"note","id":"` + i.ID + `"}`, "at least one member", true},
		{"change_item", `{"kind":"note","id":"` + i.ID + `","title":"\ud83d"}`, "surrogate", true},
		{"change_item", `{"kind":"note","id":"` + i.ID + `","Title":"x"}`, "cannot be sent", false},
		{"change_item", `{"kind":"note","id":"` + i.ID + `","organization":"fjell"}`, "cannot be sent", false},
		{"change_item", `{"kind":"note","id":"` + i.ID + `","role":"guide"}`, "no such role", true},
		{"change_item", `{"kind":"note","id":"` + foreign.ID + `","title":"x"}`, "no such object", true},
		{"delete_item", `{"kind":"note","id":"` + foreign.ID + `"}`, "no such object", true},
		{"create_circle", `{"name":"x","parent":"peak"}`, "no such circle", true},
		{"create_circle", `{}`, "name is missing", false},
		{"change_circle", `{"id":"peak","name":"x"}`, "no such object", true},
		{"change_circle", `{"id":"general"}`, "at least one member", true},
		{"delete_circle", `{"id":"general"}`, "still roles or circles", true},
		{"create_role", `{"name":"x","circle":"peak"}`, "no such circle", true},
		{"change_role", `{"id":"guide","name":"x"}`, "no such object", true},
		{"delete_role", `{"id":"guide"}`, "no such object", true},
		{"set_filler", `{"role":"guide","person":"ada","fills":false}`, "no such object", true},
		{"set_filler", `{"role":"host","person":"nobody","fills":true}`, "no such object", true},
		{"set_admin", `{"person":"ada","admin":false}`, "last admin", true},
		{"remove_member", `{"person":"ada"}`, "last admin", true},
		{"rename_organization", `{"name":""}`, "1 to 100", false},
	} {
		var answer struct {
			Result struct {
				IsError           bool
				Content           []struct{ Text string }
				StructuredContent any
			}
		}
		w := h.post(token, rpc(c.tool, c.arguments))
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("%s %s: %d %s", c.tool, c.arguments, w.Code, w.Body)
		}
		if x := answer.Result; !x.IsError || len(x.Content) != 1 || !strings.Contains(x.Content[0].Text, c.says) || x.StructuredContent != nil {
			t.Errorf("%s %s: got %s, want %q", c.tool, c.arguments, w.Body, c.says)
		}
		var v any
		if err := json.Unmarshal([]byte(c.arguments), &v); err != nil {
			t.Fatal(err)
		}
		if err := resolved(t, tools[c.tool].InputSchema).Validate(v); (err == nil) != c.schema {
			t.Errorf("%s %s: the schema says %v", c.tool, c.arguments, err)
		}
	}
	for _, at := range map[string]item{"nordlys": i, "fjell": foreign} {
		if now, err := h.stored(at); err != nil || now != at {
			t.Errorf("got %+v, %v; want %+v", now, err, at)
		}
	}
	// Not UTF-8: no JSON either.
	if w := h.post(token, rpc("change_item", "{\"kind\":\"note\",\"id\":\""+i.ID+"\",\"title\":\"a\xffb\"}")); !strings.Contains(w.Body.String(), "not JSON in UTF-8") {
		t.Errorf("got %d %s", w.Code, w.Body)
	}
}

// Pages of items go on where they ended.
func TestItemPages(t *testing.T) {
	h := newMCPHouse(t)
	session := connected(t, h, h.live("tor", "nordlys", everything))
	var want, got []string
	for n := range 9 {
		i := h.item(item{Item: org.Item{Role: []string{"host", "treasurer"}[n%2]}})
		h.item(item{Item: org.Item{Person: "ada"}}) // not seen, and not counted
		if n%2 == 0 {
			want = append(want, i.ID)
		}
	}
	arguments := in{"kind": "note", "limit": 2, "role": "host"}
	for {
		p := called[sample.Items](t, session, "list_items", arguments)
		for _, i := range p.Items {
			got = append(got, i.ID)
		}
		if p.Next == "" {
			break
		}
		arguments["after"] = p.Next
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	roles := called[sample.Roles](t, session, "list_roles", in{"mine": true, "circle": "general"})
	if len(roles.Items) != 1 || roles.Items[0].ID != "host" {
		t.Errorf("got %+v", roles)
	}
	people := called[sample.People](t, session, "list_people", in{"limit": 1})
	if len(people.Items) != 1 || people.Items[0] != (sample.Person{ID: "ada", Name: "Ada", Admin: true}) || people.Next == "" {
		t.Errorf("got %+v", people)
	}
	circles := called[sample.Circles](t, session, "list_circles", nil)
	if len(circles.Items) != 1 || circles.Items[0] != (sample.Circle{ID: "general", Name: "General"}) {
		t.Errorf("got %+v", circles)
	}
}

// Items as resources: what may be read, and of all else the same words.
func TestResources(t *testing.T) {
	h := newMCPHouse(t)
	h.furnish()
	token := h.live("tor", "nordlys", everything)
	session := connected(t, h, token)
	templates, err := session.ListResourceTemplates(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var uris []string
	for _, x := range templates.ResourceTemplates {
		uris = append(uris, x.URITemplate)
		if x.MIMEType != "application/json" || x.Name == "" || x.Description == "" {
			t.Errorf("got %+v", x)
		}
	}
	if slices.Sort(uris); strings.Join(uris, " ") != "svalinn://{organization}/actions/{id} svalinn://{organization}/notes/{id} svalinn://{organization}/projects/{id} svalinn://{organization}/tensions/{id}" {
		t.Errorf("got %q", uris)
	}
	if list, err := session.ListResources(t.Context(), nil); err != nil || len(list.Resources) != 0 {
		t.Errorf("got %+v, %v", list, err)
	}
	for _, kind := range sample.Kinds {
		i := h.item(item{Kind: kind, Item: org.Item{Role: "host", Private: true}})
		uri := "svalinn://nordlys/" + kind + "s/" + i.ID
		result, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: uri})
		if err != nil || len(result.Contents) != 1 {
			t.Fatalf("%s: %+v, %v", uri, result, err)
		}
		want, _ := json.Marshal(called[sample.ItemView](t, session, "read_item", in{"kind": kind, "id": i.ID}))
		if x := result.Contents[0]; x.URI != uri || x.MIMEType != "application/json" || x.Text != string(want) {
			t.Errorf("got %+v, want %s", x, want)
		}
	}
	hidden := h.item(item{Item: org.Item{Role: "auditor", Private: true}})
	own := h.item(item{Item: org.Item{Person: "ada"}})
	seen := h.item(item{Item: org.Item{Role: "treasurer"}})
	foreign := h.item(item{Item: org.Item{Organization: "fjell", Role: "guide"}})
	for _, uri := range []string{
		"svalinn://nordlys/notes/nobody", "svalinn://nordlys/notes/" + hidden.ID, "svalinn://nordlys/notes/" + own.ID,
		"svalinn://nordlys/notes/" + foreign.ID, "svalinn://fjell/notes/" + foreign.ID, "svalinn://fjell/notes/" + seen.ID, "svalinn:///notes/" + seen.ID,
		"svalinn://nordlys/actions/" + seen.ID, "svalinn://nordlys/note/" + seen.ID, "svalinn://nordlys/secrets/" + seen.ID, "svalinn://nordlys//" + seen.ID,
		"svalinn://nordlys/notes/" + seen.ID + "/", "svalinn://nordlys/notes/" + seen.ID + "/\x00", "svalinn://nordlys/notes/" + seen.ID + "?x", "svalinn://nordlys/notes/%" + fmt.Sprintf("%x", seen.ID[0]) + seen.ID[1:],
		"SVALINN://nordlys/notes/" + seen.ID, "svalinn:/nordlys/notes/" + seen.ID, "https://nordlys/notes/" + seen.ID, "file:///etc/passwd",
		"", " ", "svalinn://", "svalinn://nordlys/notes/", "svalinn://nordlys/notes/..", "svalinn://nordlys/notes/\x00", "svalinn://nordlys/notes/\x7f\u2028\\\"",
		"svalinn://nordlys/notes/" + strings.Repeat("a", 5000), "\u200b\a\v",
	} {
		quoted, err := json.Marshal(uri)
		if err != nil {
			t.Fatal(err)
		}
		w := h.post(token, `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":`+string(quoted)+`}}`)
		var answer struct {
			Error struct {
				Code    int64
				Message string
				Data    struct{ URI string }
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatalf("%q: %v in %s", uri, err, w.Body)
		}
		if e := answer.Error; e.Code != jsonrpc.CodeInvalidParams || e.Message != "Resource not found" || e.Data.URI != uri {
			t.Errorf("%q: %s", uri, w.Body)
		}
	}
	if _, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "svalinn://nordlys/notes/" + seen.ID}); err != nil {
		t.Error(err)
	}
	if err := h.store.RemoveMember(t.Context(), "nordlys", "tor", act); err != nil {
		t.Fatal(err)
	}
	if _, err := session.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: "svalinn://nordlys/notes/" + seen.ID}); err == nil {
		t.Error("read after the end")
	}
}

// In every revision, tools are listed for the actor and called; and no answer
// says that others may keep it.
func TestListIsPrivate(t *testing.T) {
	h := newMCPHouse(t)
	i := h.item(item{Item: org.Item{Role: "treasurer"}})
	token := h.live("ada", "nordlys", roles(false, chosenPick("treasurer", false)))
	for _, revision := range sdk.SupportedProtocolVersions() {
		for _, c := range []struct{ method, name, params, want string }{
			{"tools/list", "", ``, `"read_item"`},
			{"resources/templates/list", "", ``, `svalinn://{organization}/notes/{id}`},
			{"resources/list", "", ``, `"resources":[]`},
			{"resources/read", "svalinn://nordlys/notes/" + i.ID, `"uri":"svalinn://nordlys/notes/` + i.ID + `"`, "Sealed treasurer"},
			{"tools/call", "change_item", `"name":"change_item","arguments":{"kind":"note","id":"` + i.ID + `","title":"x"}`, "Treasurer is read-only in this approval."},
			{"server/discover", "", ``, ""},
		} {
			headers := map[string]string{
				"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
				"Authorization": "Bearer " + token, "MCP-Protocol-Version": revision,
			}
			params := c.params
			if revision >= "2026-07-28" {
				headers["Mcp-Method"] = c.method
				if c.name != "" {
					headers["Mcp-Name"] = c.name
				}
				if params != "" {
					params += ","
				}
				params += `"_meta":{"io.modelcontextprotocol/protocolVersion":"` + revision + `","io.modelcontextprotocol/clientCapabilities":{}}`
			} else if c.method == "server/discover" {
				continue
			}
			w := post(h.handler, "POST", "/api/v5/mcp", `{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":{`+params+`}}`, headers)
			got := w.Body.String()
			if w.Code != http.StatusOK || !strings.Contains(got, c.want) || strings.Contains(got, `"public"`) || strings.Contains(got, `"create_item"`) || strings.Contains(got, `"error"`) {
				t.Errorf("%s, %s: %d %s", revision, c.method, w.Code, got)
			}
		}
	}
}

// Lists of two people come from one server, at once, and neither sees the
// other's tools.
func TestListsAtOnceDoNotMix(t *testing.T) {
	h := newMCPHouse(t)
	want := map[string]bool{
		h.live("ada", "nordlys", everything): true, h.live("tor", "nordlys", everything): false,
	}
	var done sync.WaitGroup
	for range 20 {
		for token, admin := range want {
			done.Go(func() {
				w := h.post(token, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
				if strings.Contains(w.Body.String(), `"delete_role"`) != admin || !strings.Contains(w.Body.String(), `"whoami"`) {
					t.Errorf("admin %t: %d %s", admin, w.Code, w.Body)
				}
			})
		}
	}
	done.Wait()
}
