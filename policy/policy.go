// Package policy holds the rules that an organization's admins set for apps: which
// may be connected, by whom, and how much any of them gets. On pages they are
// rules, and clients are apps.
package policy

import (
	"cmp"
	"strings"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
)

// Rule is what becomes of a person who wants to connect an app.
type Rule string

// The rules, from the most open to the strictest.
const (
	Allow Rule = "allow"
	Ask   Rule = "ask" // an admin allows it first
	Block Rule = "block"
)

// Rules lists the rules, from the most open to the strictest.
var Rules = []Rule{Allow, Ask, Block}

// OrAllow is the rule, where none is Allow.
func (r Rule) OrAllow() Rule { return cmp.Or(r, Allow) }

// Bounds of a policy.
const (
	MaxApps   = 1000
	MaxNever  = 500
	MaxDays   = 3650
	MaxReason = 200 // code points
)

// App is a rule for one app. A client chooses its name, so Block is for the host
// and all below it, whatever the name, and for everybody; the others are for this
// host alone, under this name.
type App struct {
	Host   string // in the form of client.HostOf
	Name   string // as shown; compared by client.NameKey
	Person string // ID; "" is everybody
	Rule   Rule
	By     string // who decided it, as in the journal
	At     int64  // Unix seconds
	Reason string
}

// Key is what a rule is for: there is one rule for each.
type Key struct{ host, name, person string }

// Key gives it.
func (a *App) Key() Key { return Key{a.Host, client.NameKey(a.Name), a.Person} }

// Policy is the rules of one organization: a value that is shared by pointer and
// never changed. The zero Policy, and none, are no rules.
type Policy struct {
	Unknown Rule // of apps that no rule names; "" is Allow
	Known   Rule // of those among them that the service's operator set up
	Apps    []App

	Ceiling    grantset.Ceiling
	MaxDays    int // that access lasts at most; 0 is no bound
	ReviewDays int // after which connections are to be reviewed: 0 (never), 90 or 365

	ChangedBy string // as in the journal
	ChangedAt int64  // Unix seconds
	Version   int64
}

// Limit is the policy's ceiling, nil for none: no policy, or one that limits
// nothing.
func (p *Policy) Limit() *grantset.Ceiling {
	if p == nil || p.Ceiling.Zero() {
		return nil
	}
	return &p.Ceiling
}

// Latest gives the last end date that access can have which begins now, in Unix
// seconds; 0 is no bound.
func (p *Policy) Latest(now int64) int64 {
	if p == nil || p.MaxDays == 0 {
		return 0
	}
	return now + int64(p.MaxDays)*24*60*60
}

// blocks reports whether an app is blocked by name, and gives the host that the rule
// names. A default that blocks is for whoever connects next.
func (p *Policy) blocks(app client.Hosts) (top string, blocked bool) {
	if p == nil {
		return "", false
	}
	for i := range p.Apps {
		if a := &p.Apps[i]; a.Rule == Block && a.isAt(app) {
			return a.Host, true
		}
	}
	return "", false
}

// isAt reports whether a block is for an app: for either of its hosts, so that no
// document elsewhere leads around the block of an address, and no address elsewhere
// around that of a document.
func (a *App) isAt(app client.Hosts) bool { return below(app.App, a.Host) || below(app.Back, a.Host) }

// Decide gives the rule for an app that a person wants to connect, and the entry
// that says so, nil where it is the default. name is what it reported. The ID of a
// client decides nothing: it gets another one by registering again, or by another
// document. What allows an app names its host alone, and what asks an admin first is
// looked for at the other one too.
func (p *Policy) Decide(app client.Hosts, name, person string, preregistered bool) (Rule, *App) {
	if p == nil {
		return Allow, nil
	}
	var own, all, back *App
	key := client.NameKey(name)
	for i := range p.Apps {
		switch a := &p.Apps[i]; {
		case a.Rule == Block:
			if a.isAt(app) {
				return Block, a
			}
		case client.NameKey(a.Name) != key || a.Person != "" && a.Person != person:
		case a.Host == app.Back && a.Rule == Ask:
			back = a
		case a.Host != app.App:
		case a.Person == "":
			all = a
		default:
			own = a
		}
	}
	switch {
	case own != nil:
		return own.Rule, own
	case all != nil:
		return all.Rule, all
	case back != nil:
		return Ask, back
	case preregistered:
		return p.Known.OrAllow(), nil
	}
	return p.Unknown.OrAllow(), nil
}

// below reports whether a host is another one, or a name below it.
func below(host, top string) bool {
	return host == top || strings.HasSuffix(host, "."+top)
}
