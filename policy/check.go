package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/org"
)

// What Check refuses that a person who sees nothing wrong can meet.
var (
	ErrFull   = errors.New("too many rules for apps")
	ErrNever  = errors.New("too many roles that are never given")
	ErrNoRole = errors.New("no such role")
)

// fault is a sentence for a person, of a kind.
type fault struct {
	kind error
	text string
}

func (f fault) Error() string { return f.text }
func (f fault) Unwrap() error { return f.kind }

// Check says what is wrong with a policy that somebody wants to save, in a
// sentence for that person, or nil. role reports whether the organization has a
// role with an ID; nil does not ask.
func (p *Policy) Check(role func(id string) bool) error {
	switch {
	case p.Unknown != "" && !slices.Contains(Rules, p.Unknown), p.Known != "" && !slices.Contains(Rules, p.Known):
		return errors.New("a rule is allow, ask or block")
	case p.MaxDays < 0 || p.MaxDays > MaxDays:
		return fmt.Errorf("access lasts at most 1 to %d days, or 0 for no bound", MaxDays)
	case p.ReviewDays != 0 && p.ReviewDays != 90 && p.ReviewDays != 365:
		return errors.New("connections are reviewed every 90 or 365 days, or 0 for never")
	case len(p.Apps) > MaxApps:
		return fault{ErrFull, fmt.Sprintf("there are more than %d rules for apps", MaxApps)}
	}
	if err := checkCeiling(&p.Ceiling, role); err != nil {
		return err
	}
	for i := range p.Apps {
		if err := checkApp(&p.Apps[i]); err != nil {
			return err
		}
	}
	return p.checkTogether()
}

func checkCeiling(c *grantset.Ceiling, role func(id string) bool) error {
	if c.Widest != "" && !slices.Contains(grantset.Kinds, c.Widest) {
		return errors.New("the widest access is roles, everything or organization")
	}
	if len(c.Never) > MaxNever {
		return fault{ErrNever, fmt.Sprintf("more than %d roles are never given to apps", MaxNever)}
	}
	for i, id := range c.Never {
		switch {
		case org.CheckID(id) != nil:
			return fmt.Errorf("a role that is never given to apps: %w", org.CheckID(id))
		case i > 0 && id <= c.Never[i-1]:
			return errors.New("the roles that are never given to apps are in order, each once")
		case role != nil && !role(id):
			return fault{ErrNoRole, fmt.Sprintf("the organization has no role %q", id)}
		}
	}
	return nil
}

func checkApp(a *App) error {
	switch err := client.CheckRuleHost(a.Host); {
	case err != nil:
		return fmt.Errorf("the host %.60q cannot be an app's: %w", a.Host, err)
	case !slices.Contains(Rules, a.Rule):
		return fmt.Errorf("the rule for %s is neither allow, ask nor block", a.Host)
	case client.CheckName(a.Name) != nil:
		return fmt.Errorf("the name of the app at %s cannot be an app's: %w", a.Host, client.CheckName(a.Name))
	case !org.Legible(a.Reason, false) || utf8.RuneCountInString(a.Reason) > MaxReason:
		return fmt.Errorf("the reason for %s has at most %d characters, and no control characters", a.Host, MaxReason)
	}
	return nil
}

// checkTogether refuses two rules of which one never holds.
func (p *Policy) checkTogether() error {
	seen := map[Key]bool{}
	for i := range p.Apps {
		a := &p.Apps[i]
		if seen[a.Key()] {
			return fmt.Errorf("there are two rules for %q at %s", a.Name, a.Host)
		}
		seen[a.Key()] = true
	}
	wrong := p.Contradictions()
	for i := range p.Apps {
		a := &p.Apps[i]
		switch top, is := wrong[i]; {
		case is && top == "":
			return fmt.Errorf("%s is blocked for one person: a block is for everybody", a.Host)
		case is:
			return fmt.Errorf("the rule %s for %q at %s never holds, because %s is blocked, whatever the name", a.Rule, a.Name, a.Host, top)
		}
	}
	return nil
}

// Contradictions finds rules that never hold: by the index of an app, the host whose
// block it is, or "" where a block is for one person.
func (p *Policy) Contradictions() map[int]string {
	out, blocks := map[int]string{}, map[string]bool{}
	for i := range p.Apps {
		switch a := &p.Apps[i]; {
		case a.Rule != Block:
		case a.Person != "":
			out[i] = ""
		default:
			blocks[a.Host] = true
		}
	}
	for i := range p.Apps {
		a := &p.Apps[i]
		for top := a.Host; a.Rule != Block && top != ""; _, top, _ = strings.Cut(top, ".") {
			if blocks[top] {
				out[i] = top
			}
		}
	}
	return out
}
