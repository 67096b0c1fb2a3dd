package mcp

import (
	"encoding/json"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/rules"
)

// call is a message as rules read it.
func (m *Message) call(at string) rules.Call {
	c := rules.Call{At: at, Tool: m.Tool, Resource: m.Resource, Prompt: m.Prompt, Arguments: m.Arguments, Reads: m.Reads}
	if m.Tool == "" && m.Resource == "" && m.Prompt == "" {
		c.RPC = m.Method
	}
	return c
}

// learn finds out what is known of the tools that are called: where it is nothing and
// could decide, by one question for all. That may last, so the right is asked again.
func (x *exchange) learn() (err error) {
	asked := false
	for i := range x.messages {
		m := &x.messages[i]
		if m.Tool == "" {
			continue
		}
		if m.Reads = x.s.tools.of(x.rights.Organization, m.Tool, time.Now()); m.Reads != Unknown || !x.hangsOnAnnotations(m) {
			continue
		}
		if !asked {
			asked = true
			x.ask(m)
		}
		if m.Reads = x.s.tools.of(x.rights.Organization, m.Tool, time.Now()); m.Reads == Unknown {
			m.Reads = Changes
		}
	}
	if asked {
		x.rights, err = x.s.API.Now(x.r.Context(), x.rights.Actor)
		x.asked = time.Now()
	}
	return err
}

// hangsOnAnnotations reports whether what a tool says of itself could decide about a
// call of it.
func (x *exchange) hangsOnAnnotations(m *Message) bool {
	if x.s.decideAs != nil {
		return x.rights.Kind() == grantset.Roles
	}
	by := x.s.API.RulesFor(x.rights)
	return by != nil && by.HangsOnAnnotations(x.rights.Authority, x.s.Path, m.Tool)
}

// decide asks the rules about a message; nil where they let it pass.
func (x *exchange) decide(m *Message) (*Denial, error) {
	if m.passes() || x.s.decideAs == nil && x.s.API.RulesFor(x.rights) == nil {
		return nil, nil
	}
	for _, part := range m.parts() {
		by, d, err := x.ruled(x.rights, part)
		if d != nil || err != nil {
			return d, err
		}
		m.by = by
	}
	return nil, nil
}

// ruled asks them about a part of a message by what a client may do. It gives what they
// decided, and the denial where that is one.
func (x *exchange) ruled(rights api.Rights, m Message) (rules.Decision, *Denial, error) {
	if x.s.decideAs != nil {
		return rules.Decision{}, x.s.decideAs(rights, m), nil
	}
	d, err := x.s.API.Ruled(x.r.Context(), rights, m.call(x.s.Path))
	if err != nil || d.Allowed {
		return d, nil, err
	}
	told := api.Denied(rights, d, x.s.Base(x.r))
	return d, &Denial{Text: told.Description, Tool: m.Tool, Role: told.Role, RoleName: told.RoleName, Needs: told.Needs, Has: told.Has,
		Edit: told.Edit, Reason: string(told.Reason), Rule: told.Rule}, nil
}

// notices gives a message of the service, or a batch, without the notices of resources
// that this client may not read now: whoever subscribed may have been allowed to then.
// It gives nil where nothing changes, and gone where nothing is left.
func (x *exchange) notices(data []byte) (less []byte, gone bool, err error) {
	if x.s.decideAs == nil && x.s.API.RuledBy() == nil {
		return nil, false, nil
	}
	now, err := x.s.API.Now(x.r.Context(), x.rights.Actor)
	if err != nil {
		return nil, false, err
	}
	all, parts := readAnswers(data)
	var kept []json.RawMessage
	for i := range all {
		if all[i].Method == updated {
			_, d, err := x.ruled(now, Message{Method: "resources/subscribe", Resource: all[i].Params.URI}) // without a URI, a method that no rule names
			if err != nil {
				return nil, false, err
			}
			if d != nil {
				continue
			}
		}
		kept = append(kept, parts[i])
	}
	if len(kept) == len(parts) {
		return nil, false, nil
	}
	return encode(kept), kept == nil, nil
}

// lists gives whether a tool stands in a list for this client: whether the rules
// would let some call of it pass. Where that cannot be found out it does, because
// the call is refused all the same. It is for one list: roles are asked for once.
func (x *exchange) lists() func(Tool) bool {
	if x.s.listsAs != nil {
		return func(t Tool) bool { return x.s.listsAs(x.rights, t) }
	}
	by := x.s.API.RulesFor(x.rights)
	if by == nil {
		return func(Tool) bool { return true }
	}
	find, failed := x.s.API.Store.FindRoles(x.r.Context(), x.rights.Organization)
	return func(t Tool) bool {
		return by.Lists(x.rights.Authority, find, rules.Call{At: x.s.Path, Tool: t.Name, Reads: t.Reads}) || failed() != nil
	}
}
