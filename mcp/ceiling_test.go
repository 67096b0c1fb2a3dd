package mcp

import (
	"net/http/httptest"
	"testing"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// Where the organization lets apps read only, and no rules are configured, a tool is
// called, and stands in a list, only where it says that it reads (decision V65).
func TestReadOnlyWithoutRules(t *testing.T) {
	h := newHouse(t, nil)
	m := org.NewMember("ada", "nordlys", true, nil)
	for _, c := range []*grantset.Ceiling{nil, {ReadOnly: true}} {
		x := &exchange{s: h.proxy, r: httptest.NewRequest("POST", "/api/v5/mcp", nil)}
		x.rights = api.Rights{}
		x.rights.Organization, x.rights.Authority = "nordlys", everything.Narrow(m, c)
		for _, tt := range []struct {
			message Message
			reads   bool
		}{
			{Message{Method: "tools/call", Tool: "look", Reads: Reads}, true},
			{Message{Method: "tools/call", Tool: "pay", Reads: Changes}, false},
			{Message{Method: "tools/call", Tool: "other"}, false},
			{Message{Method: "resources/read", Resource: "a:b"}, true},
			{Message{Method: "prompts/get", Prompt: "p"}, true},
			{Message{Method: "orders/cancel"}, false},
			{Message{Method: "tools/list"}, true},
		} {
			d, err := x.decide(&tt.message)
			if allowed := tt.reads || c == nil; err != nil || (d == nil) != allowed || d != nil && (d.Reason != "organization_read_only" || d.Edit != "") {
				t.Errorf("%+v under %+v: %+v, %v", tt.message, c, d, err)
			}
			if tool := tt.message.Tool; tool != "" {
				if listed := x.lists()(Tool{Name: tool, Reads: tt.message.Reads}); listed != (tt.reads || c == nil) {
					t.Errorf("%s under %+v is listed: %v", tool, c, listed)
				}
				if x.hangsOnAnnotations(&tt.message) != (c != nil) {
					t.Errorf("%s under %+v: asked %v", tool, c, c == nil)
				}
			}
		}
	}
}
