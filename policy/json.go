package policy

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/strictjson"
)

// depth is how deep a policy nests: itself, apps, an app.
const depth = 3

// written is a policy as JSON has it: everything by its name, defaults too.
type written struct {
	Unknown    Rule          `json:"unknown"`
	Known      Rule          `json:"known"`
	Apps       []writtenApp  `json:"apps"`
	Widest     grantset.Kind `json:"widest"`
	ReadOnly   bool          `json:"read_only"`
	NoPersonal bool          `json:"no_personal"`
	Never      []string      `json:"never"`
	MaxDays    int           `json:"max_days"`
	ReviewDays int           `json:"review_days"`
	ChangedBy  string        `json:"changed_by,omitempty"`
	ChangedAt  int64         `json:"changed_at,omitempty"`
	Version    int64         `json:"version,omitempty"`
}

type writtenApp struct {
	Host   string `json:"host"`
	Name   string `json:"name"`
	Person string `json:"person,omitempty"`
	Rule   Rule   `json:"rule"`
	By     string `json:"by,omitempty"`
	At     int64  `json:"at,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// JSON writes a policy in the one form that Read gives back.
func (p Policy) JSON() []byte {
	p = p.Tidy()
	out := written{
		Unknown: p.Unknown.OrAllow(), Known: p.Known.OrAllow(), Apps: []writtenApp{}, Widest: cmp.Or(p.Ceiling.Widest, grantset.Organization),
		ReadOnly: p.Ceiling.ReadOnly, NoPersonal: p.Ceiling.NoPersonal, Never: append([]string{}, p.Ceiling.Never...),
		MaxDays: p.MaxDays, ReviewDays: p.ReviewDays, ChangedBy: p.ChangedBy, ChangedAt: p.ChangedAt, Version: p.Version,
	}
	for _, a := range p.Apps {
		out.Apps = append(out.Apps, writtenApp(a))
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic(err) // our own struct
	}
	return text
}

// Read reads a policy: each member known, by its exact name and once; what is left
// out is as in the zero Policy. It does not Check it. Who decided what and when is read
// as it is said: whoever saves a policy knows better.
func Read(text []byte) (Policy, error) {
	var in written
	var apps []json.RawMessage
	err := strictjson.Fields(text, depth, map[string]any{
		"unknown": &in.Unknown, "known": &in.Known, "apps": &apps, "widest": &in.Widest, "read_only": &in.ReadOnly, "no_personal": &in.NoPersonal,
		"never": &in.Never, "max_days": &in.MaxDays, "review_days": &in.ReviewDays, "changed_by": &in.ChangedBy, "changed_at": &in.ChangedAt, "version": &in.Version,
	})
	if err != nil {
		return Policy{}, err
	}
	p := Policy{
		Unknown: in.Unknown, Known: in.Known, MaxDays: in.MaxDays, ReviewDays: in.ReviewDays, ChangedBy: in.ChangedBy, ChangedAt: in.ChangedAt, Version: in.Version,
		Ceiling: grantset.Ceiling{Widest: in.Widest, ReadOnly: in.ReadOnly, NoPersonal: in.NoPersonal, Never: in.Never},
	}
	for i, one := range apps {
		var a App
		err := strictjson.Fields(one, depth, map[string]any{"host": &a.Host, "name": &a.Name, "person": &a.Person, "rule": &a.Rule, "by": &a.By, "at": &a.At, "reason": &a.Reason})
		if err != nil {
			return Policy{}, fmt.Errorf("apps[%d]: %w", i, err)
		}
		p.Apps = append(p.Apps, a)
	}
	return p.Tidy(), nil
}

// ReadTold reads rules as a service's directory has them, and checks them as far as
// that goes without the directory: null is none.
func ReadTold(text []byte) (Policy, error) {
	if string(text) == "null" {
		return Policy{}, nil
	}
	p, err := Read(text)
	if err == nil {
		err = p.Check(nil)
	}
	if err != nil {
		return Policy{}, err
	}
	return p, nil
}

// Unsigned is what a policy says, whoever decided it and when; none says what the zero
// Policy does.
func (p *Policy) Unsigned() Policy {
	if p == nil {
		return Policy{}
	}
	out := p.Tidy()
	out.Version, out.ChangedBy, out.ChangedAt = 0, "", 0
	for i := range out.Apps {
		out.Apps[i].By, out.Apps[i].At = "", 0
	}
	return out
}

// Same reports whether two policies say the same; nil is none.
func Same(p, q *Policy) bool {
	return bytes.Equal(p.Unsigned().JSON(), q.Unsigned().JSON())
}

// Names reports whether a role is one that clients never act through.
func (p *Policy) Names(role string) bool {
	return p != nil && slices.Contains(p.Ceiling.Never, role)
}

// Tidy gives the policy in the one form in which two that rule the same are equal:
// apps by host, name and person, roles by ID and once, and nothing said that is the
// default.
func (p Policy) Tidy() Policy {
	for _, r := range []*Rule{&p.Unknown, &p.Known} {
		if *r == Allow {
			*r = ""
		}
	}
	if p.Ceiling.Widest == grantset.Organization {
		p.Ceiling.Widest = ""
	}
	p.Ceiling.Never = slices.Clone(p.Ceiling.Never)
	slices.Sort(p.Ceiling.Never)
	if p.Ceiling.Never = slices.Compact(p.Ceiling.Never); len(p.Ceiling.Never) == 0 {
		p.Ceiling.Never = nil
	}
	if p.Apps = slices.Clone(p.Apps); len(p.Apps) == 0 {
		p.Apps = nil
	}
	slices.SortStableFunc(p.Apps, func(a, b App) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(client.NameKey(a.Name), client.NameKey(b.Name)), cmp.Compare(a.Person, b.Person))
	})
	return p
}
