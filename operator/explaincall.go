package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// explainCall says whether the rules let an approval's client make a call to the
// service, by the decision that the gateway makes (decision V20).
func (s *Server) explainCall(ctx context.Context, w *explainer, asked rules.Call) (Explanation, error) {
	var by *rules.Rules
	if s.Rules != nil {
		by = s.Rules()
	}
	if by == nil { // the service decides
		by, _ = rules.Compile(nil, rules.Service)
	}
	find, failed := s.Store.FindRoles(ctx, w.row.Organization)
	d := by.Decide(w.access.Authority, find, asked)
	if err := failed(); err != nil {
		return Explanation{}, err
	}
	w.item = d.Item
	if err := w.loadNames(ctx, s.Store); err != nil {
		return Explanation{}, err
	}
	d.Organization = w.organization
	return w.callExplanation(asked, d), nil
}

// readCall reads ?tool=NAME with the optional arguments, read_only and path of an
// MCP endpoint, or ?call=METHOD PATH with the optional body.
func readCall(values url.Values) (c rules.Call, err error) {
	with := []string{"tool", "arguments", "read_only", "path"}
	if values.Has("call") {
		with = []string{"call", "body"}
	}
	sent := 0
	for _, name := range with {
		if len(values[name]) > 1 {
			return c, BadRequest("send each parameter once")
		}
		sent += len(values[name])
	}
	method, target, ok := strings.Cut(values.Get("call"), " ")
	switch {
	case sent != len(values):
		return c, BadRequest("send tool, with arguments, read_only and path, or call, with body, or nothing")
	case values.Get("tool") != "":
		if arguments := values.Get("arguments"); arguments != "" && !oneObject(arguments) {
			return c, BadRequest(`the arguments are a JSON object, each member once, such as {"role":"r-orders"}`)
		}
		reads := map[string]rules.Known{"true": rules.Yes, "false": rules.No}[values.Get("read_only")]
		at := values.Get("path")
		if at == client.MCPPath {
			at = ""
		}
		return rules.Call{At: at, Tool: values.Get("tool"), Arguments: json.RawMessage(values.Get("arguments")), Reads: reads}, nil
	case !ok || !strings.HasPrefix(target, "/"):
		return c, BadRequest("a call is a method and a path, such as POST /api/v5/orders")
	}
	c.Method, c.Body = method, []byte(values.Get("body"))
	c.Path, c.Query, _ = strings.Cut(target, "?")
	return c, nil
}

// oneObject reports whether a text is what the arguments of a tool are: of anything else no rule
// would find a role, and the reason would name the wrong thing.
func oneObject(text string) bool {
	_, err := strictjson.Folded([]byte(text), 128) // as deep as a message may be
	return err == nil
}

// callExplanation is the explanation of a call.
func (w *explainer) callExplanation(asked rules.Call, d rules.Decision) Explanation {
	i := w.item
	what := asked.Tool
	if what == "" {
		what = asked.Method + " " + asked.Path
	}
	rule := ChainLink{"rule", d.Rule >= 0, "No rule names the call."}
	switch {
	case d.Rule >= 0:
		rule.Why = fmt.Sprintf("rules[%d] names the call, and says that it touches: %s.", d.Rule, d.Touches)
	case d.Reason == rules.Whole:
		rule.Why = "Rules refuse nothing here: more than selected roles was approved."
	case d.Reason == rules.Always:
		rule.Why = "The method touches nothing."
	}
	e := w.explanation(rule, ChainLink{"decision", d.Allowed, w.callReason(d)})
	e.ID, e.Action = strings.Join([]string{e.Approval, "call", what}, "/"), d.Needs
	e.Item = &itemObject{w.row.Organization, i.Role, w.role, i.Circle, w.circle, i.Private, i.Person}
	if d.Rule >= 0 {
		e.Rule = &d.Rule
	}
	return e
}

// callReason is the reason of a decision, and for a denial what would allow the
// call.
func (w *explainer) callReason(d rules.Decision) string {
	if !d.Allowed {
		return d.Says("")
	}
	switch a := w.access.Authority; {
	case d.Reason != rules.Listed:
		return "The call may pass, and the service decides."
	case d.Touches == rules.TouchesNothing, d.Touches == rules.TouchesService:
		return "The rule lets it pass."
	case d.Needs == "read":
		return a.ReadGrounds(d.Item)
	default:
		return a.ChangeGrounds(d.Item, d.RoleName)
	}
}
