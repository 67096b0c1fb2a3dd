package rules_test

import (
	"testing"

	"github.com/grantkeeper/grantkeeper/rules"
)

// Whether a call only reads is what its rule says, in every way that it can be read, and
// else what it claims.
func TestReads(t *testing.T) {
	r := compiled(t, "",
		rules.Rule{Call: "POST /api/v5/search", Touches: rules.TouchesOpen, Access: "read"},
		rules.Rule{Call: "GET /api/v5/buy", Role: "r-board", Access: "change"},
		rules.Rule{Call: "* /api/v5/orders", Role: "r-board"},
		rules.Rule{Tool: "look", Role: "r-board", Access: "read"},
		rules.Rule{Tool: "put", Role: "r-board", Access: "change"},
		rules.Rule{Tool: "open", Role: "r-board"},
		rules.Rule{Resource: "money:*", Role: "r-board", Access: "change"},
	)
	for _, tt := range []struct {
		call rules.Call
		none bool // without rules
		want bool // with them
	}{
		{rules.Call{Method: "POST", Path: "/api/v5/search"}, false, true},
		{rules.Call{Method: "GET", Path: "/api/v5/buy"}, true, false},
		{rules.Call{Method: "GET", Path: "/api/v5/%62uy"}, true, false}, // as some servers read it
		{rules.Call{Method: "GET", Path: "/api/v5/orders"}, true, true},
		{rules.Call{Method: "OPTIONS", Path: "/api/v5/orders"}, true, true},
		{rules.Call{Method: "PUT", Path: "/api/v5/orders"}, false, false},
		{rules.Call{Method: "DELETE", Path: "/nowhere"}, false, false},
		{rules.Call{Method: "HEAD", Path: "/nowhere"}, true, true},
		{rules.Call{Tool: "look"}, false, true},
		{rules.Call{Tool: "look", At: "/elsewhere"}, false, false}, // of another endpoint, which no rule names
		{rules.Call{Tool: "put", Reads: rules.Yes}, true, false},
		{rules.Call{Tool: "open", Reads: rules.Yes}, true, true},
		{rules.Call{Tool: "open", Reads: rules.No}, false, false},
		{rules.Call{Tool: "open"}, false, false},
		{rules.Call{Resource: "money:1"}, true, false},
		{rules.Call{Resource: "other:1"}, true, true},
	} {
		if got := r.Reads(tt.call); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.call, got, tt.want)
		}
		if got := (*rules.Rules)(nil).Reads(tt.call); got != tt.none {
			t.Errorf("%+v without rules: %v, want %v", tt.call, got, tt.none)
		}
	}
}
