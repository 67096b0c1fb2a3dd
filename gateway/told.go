package gateway

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// kinds are those of events: each object as it is now, and that it is gone.
var kinds = []string{
	"person", "person_removed", "organization", "organization_removed", "membership", "membership_removed",
	"circle", "circle_removed", "role", "role_removed", "filler", "filler_removed",
}

// readTold reads the object of an event. One that is gone is told by what
// names it alone.
func readTold(t *store.DirectoryEvent, kind string, text []byte) error {
	if !slices.Contains(kinds, kind) {
		return errors.New("kind: one of " + strings.Join(kinds, ", "))
	}
	members, err := strictjson.Object(text, strictjson.Depth)
	if err != nil {
		return fmt.Errorf("object: %w", err)
	}
	of, gone := strings.CutSuffix(kind, "_removed")
	t.Gone = gone
	o := reader{members: members, gone: gone}
	switch of {
	case "person":
		t.Person = &store.DirectoryPerson{Person: org.Person{ID: o.id("id"), Email: o.email("email"), Name: o.name("name"), Active: true}}
		t.Unsaid = o.flag("active", &t.Person.Active)
	case "organization":
		t.Organization = &org.Organization{ID: o.id("id"), Name: o.name("name")}
		t.Unsaid = o.flag("ai_integration", &t.Organization.AIIntegration)
		t.Rules = o.rules("rules")
	case "membership":
		t.Member = &store.DirectoryMember{Organization: o.id("organization"), Person: o.id("person")}
		t.Unsaid = o.flag("admin", &t.Member.Admin)
	case "circle":
		t.Circle = &org.Circle{ID: o.id("id"), Organization: o.owner("organization"), Parent: o.parent("parent"), Name: o.name("name")}
	case "role":
		t.Role = &org.Role{ID: o.id("id"), Organization: o.owner("organization"), Circle: o.owner("circle"), Name: o.name("name")}
	case "filler":
		t.Filler = &store.Filler{Role: o.id("role"), Person: o.id("person")}
	}
	if o.err == nil {
		o.err = none(o.members)
	}
	if o.err != nil {
		return fmt.Errorf("object: %w", o.err)
	}
	return nil
}

// A reader takes the members of an object, and keeps the first fault.
type reader struct {
	members map[string]json.RawMessage
	gone    bool
	err     error
}

func (o *reader) text(name string, check func(string) error) (v string) {
	if o.err != nil {
		return ""
	}
	if o.err = take(o.members, name, &v); o.err == nil {
		if err := check(v); err != nil {
			o.err = fmt.Errorf("%s: %w", name, err)
		}
	}
	return v
}

func (o *reader) id(name string) string { return o.text(name, org.CheckID) }

// rest is a text that one who is gone has no more; it may be sent.
func (o *reader) rest(name string, check func(string) error) string {
	return o.text(name, func(v string) error {
		if o.gone {
			return nil
		}
		return check(v)
	})
}

func (o *reader) owner(name string) string { return o.rest(name, org.CheckID) }
func (o *reader) name(name string) string  { return o.rest(name, org.CheckName) }
func (o *reader) email(name string) string { return o.rest(name, org.CheckEmail) }

func (o *reader) parent(name string) string {
	return o.rest(name, func(v string) error {
		if v == "" {
			return nil
		}
		return org.CheckID(v)
	})
}

// flag reports that it was not sent.
func (o *reader) flag(name string, at *bool) (unsaid bool) {
	if o.err != nil {
		return true
	}
	var sent *bool
	if o.err = take(o.members, name, &sent); sent != nil {
		*at = *sent
	}
	return sent == nil
}

// rules are those for apps, which one that is gone has no more; nil were not sent.
func (o *reader) rules(name string) *policy.Policy {
	if o.err != nil {
		return nil
	}
	var text []byte
	if o.err = take(o.members, name, &text); text == nil || o.gone {
		return nil
	}
	p, err := policy.ReadTold(text)
	if err != nil {
		o.err = fmt.Errorf("%s: %w", name, err)
	}
	return &p
}

// take moves a member into a value; one that was not sent, or null, leaves it.
func take(members map[string]json.RawMessage, name string, at any) error {
	value, sent := members[name]
	delete(members, name)
	if raw, ok := at.(*[]byte); ok {
		*raw = value
		return nil
	}
	if sent && json.Unmarshal(value, at) != nil {
		return fmt.Errorf("%s: it is of another type", name)
	}
	return nil
}

// none refuses members that nobody has taken.
func none(members map[string]json.RawMessage) error {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		return fmt.Errorf("unknown member %.100q", name)
	}
	return nil
}
