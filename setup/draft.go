package setup

import (
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// DraftAPI drafts rules for the calls of an OpenAPI document that none names.
func DraftAPI(by *rules.Rules, text []byte) (*Draft, error) {
	all, left, err := rules.ReadOpenAPI(text)
	if err != nil {
		return nil, err
	}
	d := NewDraft(rules.MaxRules)
	for _, one := range by.DraftCalls(all) {
		does := "changes"
		if one.Method == "GET" || one.Method == "HEAD" {
			does = "reads"
		}
		d.Add(Titled(one.Title, terminal.ShownName(one.Method)+" "+terminal.ShownName(one.Path))+": "+does, one.Rule, one.Why)
	}
	for _, one := range left {
		d.Add(terminal.ShownName(one), "", "it is described elsewhere")
	}
	return d, nil
}

// Titled begins a comment: by a title for people, or else by the name.
func Titled(title, name string) string {
	if title = terminal.CutTo(strings.TrimSpace(terminal.Printable(title)), terminal.MostShown); title != "" {
		return title + " (" + name + ")"
	}
	return name
}

// A Draft is rules for a configuration, as text. Nothing in it is a rule but what is meant.
type Draft struct {
	strings.Builder
	Rules, Left int // how many it has, and how many calls have none in it
	room        int
}

// NewDraft begins one of at most so many rules.
func NewDraft(room int) *Draft { return &Draft{room: room} }

// Add writes a rule below a comment, or a comment why there is none.
func (d *Draft) Add(about, rule, why string) {
	if rule != "" && d.Rules >= d.room {
		rule, why = "", fmt.Sprintf("there are at most %d rules: make prefixes of some", rules.MaxRules)
	}
	if rule == "" {
		d.Left++
		fmt.Fprintf(d, "# %s\n# has no rule here: %s\n\n", terminal.Printable(about), terminal.Printable(why))
		return
	}
	d.Rules++
	fmt.Fprintf(d, "# %s\n%s\n", terminal.Printable(about), rule)
}
