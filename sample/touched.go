package sample

import (
	"context"
	"encoding/json"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/identity"
)

// touched gathers what a call does to items, for Grantkeeper to show people: the header
// identity.HeaderItems of an answer, or the _meta of a tool's result.
type touched struct{ items []identity.Item }

type touchedKey struct{}

// gathering gives a context in which items that are touched are gathered.
func gathering(ctx context.Context) (context.Context, *touched) {
	t := &touched{}
	return context.WithValue(ctx, touchedKey{}, t), t
}

// touch notes what a call has done to an item.
func touch(ctx context.Context, did identity.Did, i Item) {
	t, ok := ctx.Value(touchedKey{}).(*touched)
	if !ok {
		return
	}
	one := identity.Item{ID: i.ID, Title: i.Title, Kind: i.Kind, Did: did, Role: i.Role, Private: i.Private, Personal: i.Person != ""}
	if !identity.Title(one.Title) { // too long for a line of a page
		one.Title = ""
	}
	t.items = append(t.items, one)
}

// touchMany notes items that a list gave, by kind.
func touchMany(ctx context.Context, all []itemHead) {
	t, ok := ctx.Value(touchedKey{}).(*touched)
	if !ok {
		return
	}
	type of struct {
		kind              string
		private, personal bool
	}
	counts := map[of]int{}
	var order []of
	for _, i := range all {
		at := of{i.Kind, i.Private, i.Personal}
		if counts[at]++; counts[at] == 1 {
			order = append(order, at)
		}
	}
	for _, at := range order {
		t.items = append(t.items, identity.Item{Kind: at.kind, Private: at.private, Personal: at.personal, Did: identity.Viewed, Count: counts[at]})
	}
}

// text is what is told of them; "" is nothing.
func (t *touched) text() string {
	if len(t.items) == 0 || len(t.items) > identity.MaxItems {
		return ""
	}
	text, err := identity.ItemsText(t.items...)
	if err != nil {
		return ""
	}
	return text
}

// tell puts it into the head of an answer.
func (t *touched) tell(h http.Header) {
	if text := t.text(); text != "" {
		h.Set(identity.HeaderItems, text)
	}
}

// meta puts it into the result of a tool.
func (t *touched) meta(r *sdk.CallToolResult) *sdk.CallToolResult {
	if text := t.text(); text != "" {
		r.Meta = sdk.Meta{identity.MetaItems: json.RawMessage(text)}
	}
	return r
}
