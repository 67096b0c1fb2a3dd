package mcp

import (
	"bytes"
	"encoding/json"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/identity"
)

// recordOf is what is recorded of a message.
func (x *exchange) recordOf(m *Message) activity.Record {
	r := activity.Record{Way: activity.MCP, Method: x.r.Method, Path: x.r.URL.EscapedPath(), Tool: m.Tool}
	if m.Tool == "" {
		r.Tool = m.Method
	}
	return r
}

// beginDeeds begins the record of what is passed on: tools that are called, what is read,
// and what no method of MCP is. Other methods touch nothing of the service.
func (x *exchange) beginDeeds() {
	for i := range x.messages {
		m := &x.messages[i]
		touches := m.Tool != "" || m.Resource != "" || m.Prompt != ""
		if m.notice() || !touches && !m.changes() {
			continue
		}
		c := m.call(x.s.Path)
		if c.Tool != "" && c.Reads == Unknown { // what it said last, however long ago
			_, c.Reads = x.s.Tool(x.rights.Organization, m.Tool)
		}
		reads := touches && x.s.API.RuledBy().Reads(c)
		if d := x.s.API.Deed(x.rights, x.recordOf(m), m.by, reads); d != nil {
			x.deeds = append(x.deeds, deed{string(m.ID), d})
		}
	}
}

// deed is one of a message, by its ID.
type deed struct {
	id string
	*api.Deed
}

// refusedDeed keeps that a message was denied.
func (x *exchange) refusedDeed(m *Message, d *Denial) {
	x.s.API.Refused(x.rights, x.recordOf(m), d.Reason, d.Role)
}

// endDeeds ends those that nothing was said of: sent says that the service may have got
// the request.
func (x *exchange) endDeeds(sent bool) {
	for _, d := range x.deeds {
		if sent {
			d.Unanswered()
		}
		d.End()
	}
	x.deeds = nil
}

// answeredAll keeps what an answer says that is no message.
func (x *exchange) answeredAll(status int) {
	for _, d := range x.deeds {
		d.Answered(activity.OutcomeOf(status), status, nil)
	}
}

// answered keeps what a message of the service says of the calls that it answers. header
// has what the head of the answer says of items, of one call alone.
func (x *exchange) answered(data []byte, status int, header []string) {
	if len(x.deeds) == 0 {
		return
	}
	if len(x.messages) == 1 && len(x.deeds) == 1 && x.deeds[0].Reads() && plainly(data) {
		x.deeds[0].Answered(activity.Done, status, x.s.API.Items(header...))
		return
	}
	all, _ := readAnswers(data)
	for i := range all {
		a := &all[i]
		if !a.responds() {
			continue
		}
		for _, d := range x.deeds {
			if d.id == string(a.ID) {
				d.Answered(outcomeOf(a), status, x.itemsIn(a, header))
			}
		}
	}
}

// plainly reports whether an answer has a result, an object that is no error and says nothing of
// items: no name of such a member stands in it, however it may be written. Text cannot
// have one, for its quotation marks are escaped. What only reads is counted by this, so
// that most answers need not be read.
func plainly(data []byte) bool {
	for _, not := range []string{`"isError"`, `"error"`, `"_meta"`, `"method"`, `\u`} {
		if bytes.Contains(data, []byte(not)) {
			return false
		}
	}
	const space = " \t\r\n"
	_, value, _ := bytes.Cut(data, []byte(`"result"`))
	value, named := bytes.CutPrefix(bytes.TrimLeft(value, space), []byte(":"))
	return named && bytes.HasPrefix(bytes.TrimLeft(value, space), []byte("{"))
}

// outcomeOf gives what became of a call.
func outcomeOf(a *answer) activity.Outcome {
	if a.Result == nil || string(a.Result["isError"]) == "true" {
		return activity.Failed
	}
	return activity.Done
}

// itemsIn gives the items that were touched, as the result's _meta says, or the head of
// the answer.
func (x *exchange) itemsIn(a *answer, header []string) []identity.Item {
	var meta map[string]json.RawMessage
	if text := a.Result["_meta"]; text != nil && json.Unmarshal(text, &meta) == nil && meta[identity.MetaItems] != nil {
		return x.s.API.Items(string(meta[identity.MetaItems]))
	}
	if len(x.messages) == 1 {
		return x.s.API.Items(header...)
	}
	return nil
}
