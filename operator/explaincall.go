package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
)

// explainCall says whether the rules let an approval's client make a call to the
// service, by the decision that calls are held to (decision V20).
func (s *Server) explainCall(c call, values url.Values) (any, error) {
	asked, err := askedCall(values)
	if err != nil {
		return nil, err
	}
	id, err := c.approvalID()
	if err != nil {
		return nil, err
	}
	row, err := s.Store.Approval(c.Context(), id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, unknown("approval")
	} else if err != nil {
		return nil, err
	}
	w := why{row: row, access: s.Store.Under(row)}
	w.now = w.access.Approval.At(w.access.Standing, s.Store.Now())
	var by *rules.Rules
	if s.Rules != nil {
		by = s.Rules()
	}
	if by == nil { // the service decides
		by, _ = rules.Compile(nil, rules.Service)
	}
	find, failed := s.Store.FindRoles(c.Context(), row.Organization)
	d := by.Decide(w.access.Authority, find, asked)
	if err := failed(); err != nil {
		return nil, err
	}
	w.item.Item, w.action = d.Item, d.Needs
	if err := w.name(c.Context(), s.Store); err != nil {
		return nil, err
	}
	return w.ofCall(asked, d), nil
}

// askedCall reads ?tool=NAME, perhaps with arguments and read_only, or ?call=METHOD
// PATH, perhaps with body.
func askedCall(values url.Values) (c rules.Call, err error) {
	with := []string{"tool", "arguments", "read_only"}
	if values.Has("call") {
		with = []string{"call", "body"}
	}
	sent := 0
	for _, name := range with {
		if len(values[name]) > 1 {
			return c, badRequest("send each parameter once")
		}
		sent += len(values[name])
	}
	method, target, ok := strings.Cut(values.Get("call"), " ")
	switch {
	case sent != len(values) || len(values) == 0:
		return c, badRequest("send tool, with arguments and read_only, or call, with body")
	case values.Get("tool") != "":
		reads := map[string]rules.Known{"true": rules.Yes, "false": rules.No}[values.Get("read_only")]
		return rules.Call{Tool: values.Get("tool"), Arguments: json.RawMessage(values.Get("arguments")), Reads: reads}, nil
	case !ok || !strings.HasPrefix(target, "/"):
		return c, badRequest("a call is a method and a path, such as POST /api/v5/orders")
	}
	c.Method, c.Body = method, []byte(values.Get("body"))
	c.Path, c.Query, _ = strings.Cut(target, "?")
	return c, nil
}

// ofCall is the explanation of a call.
func (w *why) ofCall(asked rules.Call, d rules.Decision) explanation {
	i := w.item
	what := asked.Tool
	if what == "" {
		what = asked.Method + " " + asked.Path
	}
	e := explanation{
		ID: strings.Join([]string{w.row.ID.String(), "call", what}, "/"), Approval: w.row.ID.String(), Action: d.Needs,
		Item: itemObject{"", i.Kind, w.row.Organization, i.Role, w.role, i.Circle, w.circle, i.Private, i.Person},
	}
	rule := chainLink{"rule", d.Rule >= 0, "No rule names the call."}
	switch {
	case d.Rule >= 0:
		e.Rule = &d.Rule
		rule.Why = fmt.Sprintf("rules[%d] names the call, and says that it touches: %s.", d.Rule, d.Touches)
	case d.Reason == rules.Whole:
		rule.Why = "Rules refuse nothing here: more than selected roles was approved."
	case d.Reason == rules.Always:
		rule.Why = "The method touches nothing."
	}
	decision := chainLink{"decision", d.Allowed, w.saysCall(d)}
	e.Chain = append(append(w.standing(), w.granted()...), rule, decision)
	e.Allowed, e.Reason = true, decision.Why
	for _, link := range append(w.standing(), decision) {
		if !link.Holds {
			e.Allowed, e.Reason = false, link.Why
			break
		}
	}
	return e
}

// saysCall is the reason, and of a denial what would allow the call.
func (w *why) saysCall(d rules.Decision) string {
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
