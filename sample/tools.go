package sample

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The tools. There is one set for all four kinds of items, which an argument
// names: sets of their own would be twenty tools that differ in one word, and
// an assistant pays for each of them in every conversation.

// What the tools take. All are pointers: nil was not sent.
type (
	nothing struct{}

	pageIn struct {
		After *string `json:"after,omitempty" jsonschema:"next of the page before, to get what follows"`
		Limit *int    `json:"limit,omitempty" jsonschema:"how many to give at most; 100 when left out"`
	}
	rolesIn struct {
		Circle *string `json:"circle,omitempty" jsonschema:"ID of a circle: only its own roles, without those of the circles in it"`
		Mine   *bool   `json:"mine,omitempty" jsonschema:"true: only roles that the person fills; false: only the others"`
		pageIn
	}
	itemsIn struct {
		Kind     *string `json:"kind" jsonschema:"what to list"`
		Role     *string `json:"role,omitempty" jsonschema:"ID of a role: only its items"`
		Circle   *string `json:"circle,omitempty" jsonschema:"ID of a circle: only items of its own roles"`
		Status   *string `json:"status,omitempty" jsonschema:"only items with this status"`
		Mine     *bool   `json:"mine,omitempty" jsonschema:"true: only personal items and those of roles that the person fills; false: only the others"`
		Personal *bool   `json:"personal,omitempty" jsonschema:"true: only personal items; false: only items of roles"`
		pageIn
	}
	itemIn struct {
		Kind *string `json:"kind"`
		ID   *string `json:"id" jsonschema:"of the item"`
	}
	newItemIn struct {
		Kind     *string `json:"kind"`
		Title    *string `json:"title" jsonschema:"in one line"`
		Body     *string `json:"body,omitempty" jsonschema:"empty when left out"`
		Status   *string `json:"status,omitempty" jsonschema:"open when left out"`
		Role     *string `json:"role,omitempty" jsonschema:"ID of the role that the item shall belong to; this or personal is needed"`
		Personal *bool   `json:"personal,omitempty" jsonschema:"true assigns the item to the person instead of to a role"`
		Private  *bool   `json:"private,omitempty" jsonschema:"true hides an item of a role from those who fill no role in its circle"`
	}
	changeItemIn struct {
		itemIn
		itemFields
		IfMatch *string `json:"if_match,omitempty" jsonschema:"etag of the item as it was read: changes it only if nothing else has meanwhile"`
	}
	deleteItemIn struct {
		itemIn
		IfMatch *string `json:"if_match,omitempty" jsonschema:"etag of the item as it was read: deletes it only if nothing has changed it meanwhile"`
	}

	newCircleIn struct {
		Name   *string `json:"name"`
		Parent *string `json:"parent,omitempty" jsonschema:"ID of the circle that it shall lie in; at the root when left out"`
	}
	newRoleIn struct {
		Name   *string `json:"name"`
		Circle *string `json:"circle" jsonschema:"ID of the circle that the role shall live in"`
	}
	nameIn struct {
		Name *string `json:"name"`
	}
	idIn struct {
		ID *string `json:"id"`
	}
	changeCircleIn struct {
		idIn
		circleFields
	}
	changeRoleIn struct {
		idIn
		roleFields
	}
	fillerIn struct {
		Role   *string `json:"role" jsonschema:"ID of the role"`
		Person *string `json:"person" jsonschema:"ID of the member"`
		Fills  *bool   `json:"fills" jsonschema:"true puts the member into the role, false takes them out"`
	}
	adminIn struct {
		Person *string `json:"person" jsonschema:"ID of the member"`
		Admin  *bool   `json:"admin" jsonschema:"whether the member shall be an admin"`
	}
	personIn struct {
		Person *string `json:"person" jsonschema:"ID of the member"`
	}
)

// What the tools give, where it is not what the API gives.
type (
	tagged struct {
		item
		ETag string `json:"etag" jsonschema:"send it as if_match to change the item only if nothing else has"`
	}
	gone struct {
		Deleted string `json:"deleted" jsonschema:"ID of what is not there any more"`
	}
)

// effect is what a tool does, and for whom it is listed: a tool that the grant
// set of a request can never use only leads an assistant astray.
type effect struct {
	reads, destroys, repeats bool // as the annotations say it
	usable                   func(rights) bool
}

var (
	reads = effect{reads: true, repeats: true, usable: func(rights) bool { return true }}

	makesItems   = effect{usable: rights.mayChangeSome}
	changesItems = effect{usable: rights.mayChangeSome, destroys: true, repeats: true}

	makes   = effect{usable: rights.administers}
	changes = effect{usable: rights.administers, destroys: true, repeats: true}
)

// listing says of each tool for whom it is listed.
type listing map[string]func(rights) bool

func (s *Server) addTools(server *sdk.Server) listing {
	t := toolbox{s, server, listing{}}
	add(t, reads, "whoami", "Who am I",
		"The person and the organization that this connection acts for, what the person approved, and the roles that the person fills, each with the access that was given: none, read or change.",
		func(ctx context.Context, c caller, _ nothing) (me, error) { return s.whoAmI(ctx, c) })
	add(t, reads, "list_people", "List people", "All members of the organization, by ID.",
		func(ctx context.Context, c caller, in pageIn) (page[person], error) {
			return paged(in, func(after string, limit int) (page[person], error) { return s.listPeople(ctx, c, after, limit) })
		})
	add(t, reads, "list_circles", "List circles", "All circles of the organization, by ID, each with the circle that it lies in.",
		func(ctx context.Context, c caller, in pageIn) (page[circle], error) {
			return paged(in, func(after string, limit int) (page[circle], error) {
				return s.listCircles(ctx, c, after, limit)
			})
		})
	add(t, reads, "list_roles", "List roles",
		"Roles of the organization by ID, with their circle, who fills them, and what may be done through each: none, read or change.",
		func(ctx context.Context, c caller, in rolesIn) (page[roleOfAll], error) {
			return paged(in.pageIn, func(after string, limit int) (page[roleOfAll], error) {
				return s.listRoles(ctx, c, roleFilter{Circle: sent(in.Circle), Mine: in.Mine}, after, limit)
			})
		})
	s.addItemTools(t)
	s.addCircleTools(t)
	s.addMemberTools(t)
	return t.listing
}

func (s *Server) addItemTools(t toolbox) {
	add(t, reads, "list_items", "List tensions, actions, projects or notes",
		"Items of one kind that may be read, by ID, without their bodies. Filters narrow the list. access says what may be done with each: read or change.",
		func(ctx context.Context, c caller, in itemsIn) (page[itemHead], error) {
			f := itemFilter{Role: sent(in.Role), Circle: sent(in.Circle), Status: sent(in.Status), Mine: in.Mine, Personal: in.Personal}
			return paged(in.pageIn, func(after string, limit int) (page[itemHead], error) {
				return s.listItems(ctx, c, *in.Kind, f, after, limit)
			})
		})
	add(t, reads, "read_item", "Read a tension, action, project or note", "One item with its body.",
		func(ctx context.Context, c caller, in itemIn) (tagged, error) {
			return withTag(s.readItem(ctx, c, *in.Kind, *in.ID))
		})
	add(t, makesItems, "create_item", "Create a tension, action, project or note",
		"Makes an item of a role that may be changed (role), or a personal item of the person (personal: true).",
		func(ctx context.Context, c caller, in newItemIn) (tagged, error) {
			f := itemFields{Title: in.Title, Body: in.Body, Status: in.Status, Role: in.Role, Personal: in.Personal, Private: in.Private}
			return withTag(s.addItem(ctx, c, *in.Kind, f))
		})
	add(t, changesItems, "change_item", "Change or move a tension, action, project or note",
		"Changes those members of an item that are sent, and leaves the others. role moves it to another role, personal: true to the person; both the old and the new place must be changeable.",
		func(ctx context.Context, c caller, in changeItemIn) (tagged, error) {
			return withTag(s.changeItem(ctx, c, *in.Kind, *in.ID, in.itemFields, ifMatch(sent(in.IfMatch))))
		})
	add(t, changesItems, "delete_item", "Delete a tension, action, project or note", "Deletes an item for good.",
		func(ctx context.Context, c caller, in deleteItemIn) (gone, error) {
			return gone{*in.ID}, s.deleteItem(ctx, c, *in.Kind, *in.ID, ifMatch(sent(in.IfMatch)))
		})
}

// always is a change without a condition.
var always conditions

// addCircleTools adds what an admin does with the organization's structure.
func (s *Server) addCircleTools(t toolbox) {
	add(t, changes, "rename_organization", "Rename the organization", "Gives the organization another name.",
		func(ctx context.Context, c caller, in nameIn) (named, error) {
			return s.changeOrganization(ctx, c, organizationFields(in), always)
		})
	add(t, makes, "create_circle", "Create a circle", "Makes a circle, in another one (parent) or at the root.",
		func(ctx context.Context, c caller, in newCircleIn) (circle, error) {
			return s.addCircle(ctx, c, circleFields(in))
		})
	add(t, changes, "change_circle", "Rename or move a circle", "Changes the name of a circle, or the circle that it lies in.",
		func(ctx context.Context, c caller, in changeCircleIn) (circle, error) {
			return s.changeCircle(ctx, c, *in.ID, in.circleFields, always)
		})
	add(t, changes, "delete_circle", "Delete a circle", "Deletes a circle that has no roles and no circles in it.",
		func(ctx context.Context, c caller, in idIn) (gone, error) {
			return gone{*in.ID}, s.deleteCircle(ctx, c, *in.ID, always)
		})
	add(t, makes, "create_role", "Create a role", "Makes a role in a circle. Nobody fills it yet: see set_filler.",
		func(ctx context.Context, c caller, in newRoleIn) (roleOfAll, error) {
			return s.addRole(ctx, c, roleFields(in))
		})
	add(t, changes, "change_role", "Rename or move a role", "Changes the name of a role, or its circle. Its items go along, and those private to the circle become private to the new one.",
		func(ctx context.Context, c caller, in changeRoleIn) (roleOfAll, error) {
			return s.changeRole(ctx, c, *in.ID, in.roleFields, always)
		})
	add(t, changes, "delete_role", "Delete a role", "Deletes a role with all its tensions, actions, projects and notes, for good.",
		func(ctx context.Context, c caller, in idIn) (gone, error) {
			return gone{*in.ID}, s.deleteRole(ctx, c, *in.ID, always)
		})
}

// addMemberTools adds what an admin does with its members.
func (s *Server) addMemberTools(t toolbox) {
	add(t, changes, "set_filler", "Put a member into a role, or take them out", "Lets a member fill a role, or fill it no more, and gives the role as it then is.",
		func(ctx context.Context, c caller, in fillerIn) (roleOfAll, error) {
			if err := s.setFiller(ctx, c, *in.Role, *in.Person, *in.Fills, always); err != nil {
				return roleOfAll{}, err
			}
			return s.readRole(ctx, c, *in.Role)
		})
	add(t, changes, "set_admin", "Give or take the admin right", "Makes a member an admin of the organization, or an admin no more. The last admin stays one.",
		func(ctx context.Context, c caller, in adminIn) (person, error) {
			return s.changePerson(ctx, c, *in.Person, personFields{Admin: in.Admin}, always)
		})
	add(t, changes, "remove_member", "Remove a member", "Ends a membership, and with it all that the member has approved in this organization.",
		func(ctx context.Context, c caller, in personIn) (gone, error) {
			return gone{*in.Person}, s.removePerson(ctx, c, *in.Person, always)
		})
}

func sent(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// paged asks for the page that was meant.
func paged[T any](in pageIn, ask func(after string, limit int) (page[T], error)) (page[T], error) {
	limit := defaultPage
	if in.Limit != nil {
		if err := checkLimit(*in.Limit); err != nil {
			return page[T]{}, err
		}
		limit = *in.Limit
	}
	return ask(sent(in.After), limit)
}

func withTag(i item, err error) (tagged, error) { return tagged{i, etag(i)}, err }

// toolbox is where add puts a tool.
type toolbox struct {
	s       *Server
	server  *sdk.Server
	listing listing
}

// add adds a tool that answers what ask gives for the actor of its request. It
// stands in for the SDK's own AddTool, which reads each answer back to hold it
// to the schema: a call took twice the time by that.
func add[In, Out any](t toolbox, e effect, name, title, description string, ask func(context.Context, caller, In) (Out, error)) {
	openWorld := false
	tool := &sdk.Tool{
		Name: name, Title: title, Description: description, InputSchema: taken[In](), OutputSchema: schema[Out](),
		Annotations: &sdk.ToolAnnotations{Title: title, ReadOnlyHint: e.reads, IdempotentHint: e.repeats, DestructiveHint: &e.destroys, OpenWorldHint: &openWorld},
	}
	t.listing[name] = e.usable
	t.server.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in In
		if raw := r.Params.Arguments; len(raw) > 0 && !bytes.Equal(raw, []byte("null")) || len(tool.InputSchema.(*jsonschema.Schema).Required) > 0 {
			if err := readObject(raw, &in); err != nil {
				return refusal("arguments: " + err.Error()), nil
			}
		}
		ctx, touched := gathering(ctx)
		out, err := ask(ctx, callerOf(ctx), in)
		if err != nil {
			return refusal(t.s.said(ctx, err)), nil
		}
		body, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		return touched.meta(&sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: string(body)}},
			StructuredContent: json.RawMessage(body),
		}), nil
	})
}

func schema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // of types that are written here
	}
	return notNull(s)
}

// notNull takes null out of what pointers and lists may be: none is ever null.
func notNull(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	if n := len(s.Types); n > 0 {
		s.Type, s.Types = s.Types[n-1], nil
	}
	for _, p := range s.Properties {
		notNull(p)
	}
	notNull(s.Items)
	return s
}

// taken is the schema of what a tool takes, with the bounds that are checked.
func taken[T any]() *jsonschema.Schema {
	s := schema[T]()
	for name, p := range s.Properties {
		switch name {
		case "kind":
			p.Enum = anys(Kinds)
		case "status":
			p.Enum = anys(statuses)
		case "title":
			p.MinLength, p.MaxLength = new(1), new(maxTitle)
		case "body":
			p.MaxLength = new(maxText)
		case "name":
			p.MinLength, p.MaxLength = new(1), new(maxName)
		case "limit":
			p.Minimum, p.Maximum = new(1.0), new(float64(maxPage))
		}
	}
	return s
}

func anys(words []string) []any {
	all := make([]any, len(words))
	for i, w := range words {
		all[i] = w
	}
	return all
}

// only leaves out of the list what the actor can never use. Whoever calls such
// a tool all the same gets the reason.
func (s *Server) only(l listing) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			result, err := next(ctx, method, r)
			list, ok := result.(*sdk.ListToolsResult)
			if !ok || err != nil {
				return result, err
			}
			now, err := s.rights(ctx, callerOf(ctx))
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: s.said(ctx, err)}
			}
			list.Tools = slices.DeleteFunc(slices.Clone(list.Tools), func(t *sdk.Tool) bool { return !l[t.Name](now) })
			return list, nil
		}
	}
}
