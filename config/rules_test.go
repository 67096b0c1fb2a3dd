package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
)

const someRules = `
[[rules]]
tool = "list_orders"
touches = "open"

[[rules]]
call = "* /api/v5/roles/{role}/orders/**"
role_from = ["path:role"]
access = "change"
private = true
`

// Mistakes in rules are named all at once, each with its rule.
func TestCheckRules(t *testing.T) {
	l := good(t)
	l.Rules = []Rule{{Tool: "a", Touches: "open"}, {Tool: "b"}, {Call: "GET", Touches: "open"}}
	l.Service.Unlisted = "all"
	_, err := l.Check()
	all, ok := err.(fault.Several)
	if !ok || len(all) != 3 {
		t.Fatalf("%v", err)
	}
	for i, want := range []string{`service.unlisted: "all" is none of`, `rules[1] "b": it does not say`, `rules[2] "GET": call: its path`} {
		if !strings.Contains(all[i].What, want) || all[i].Hint == "" || all[i].Code != fault.Config {
			t.Errorf("%v, want %s", all[i], want)
		}
	}
	l.Service.Unlisted, l.Rules = "read", l.Rules[:1]
	if c, err := l.Check(); err != nil || c.Ruled.Empty() {
		t.Error(err)
	}
}

// A file of rules has [[rules]] alone.
func TestReadRules(t *testing.T) {
	r, err := ReadRules(write(t, "rules.toml", someRules, 0o644))
	if err != nil || r.Empty() || len(r.Unreachable()) != 0 {
		t.Errorf("%v, %v", r, err)
	}
	for text, want := range map[string]string{
		someRules + "roles = 1\n":                  "roles",
		"[service]\nunlisted = \"read\"\n":         "service",
		"[[rules]]\ntool = 1\n":                    ":2: rules.tool: a text is wanted",
		"[[rules]]\ntool = \"a\"\n":                `rules[0] "a": it does not say`,
		"rules = [\n":                              ":",
		someRules + "[[rules]]\nTouches = \"x\"\n": `rules[2] "": `,
	} {
		_, err := ReadRules(write(t, "rules.toml", text, 0o644))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadRules("/nowhere/rules.toml"); err == nil {
		t.Error("a file that is not there")
	}
}

// It is said that a service decides alone until a rule or service.unlisted is
// written (decision V24), and which rules are never reached.
func TestRuleWarnings(t *testing.T) {
	warnings := func(change func(*Loaded)) []string {
		t.Helper()
		l := good(t)
		l.Service.Name = "Bakery"
		change(&l)
		c, err := l.Check()
		if err != nil {
			t.Fatal(err)
		}
		return c.Warnings()
	}
	if got := warnings(func(*Loaded) {}); !slices.Equal(got, []string{Trusting}) {
		t.Errorf("%q", got)
	}
	for _, change := range []func(*Loaded){
		func(l *Loaded) { l.Service.Unlisted = "service" },
		func(l *Loaded) { l.Rules = []Rule{{Tool: "a", Touches: "open"}} },
		func(l *Loaded) {
			for i := range l.Gateway.Keys {
				l.Gateway.Keys[i].Scopes = []string{string(gateway.Directory)}
			}
		},
	} {
		if got := warnings(change); len(got) > 0 {
			t.Errorf("%q", got)
		}
	}
	got := warnings(func(l *Loaded) {
		l.Rules = []Rule{{Tool: "a*", Touches: "open"}, {Tool: "ab", Touches: "admin"}}
	})
	if len(got) != 1 || !strings.HasPrefix(got[0], `rules[1] "ab": it is never reached: rules[0] "a*"`) {
		t.Errorf("%q", got)
	}
}

// The rules that docs/integrating.md shows are good, and all are reached.
func TestRulesExample(t *testing.T) {
	const name = "../docs/examples/rules.toml"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	l := Loaded{Config: Defaults(), Origins: map[string]Origin{}}
	if err := l.decode(name, text); err != nil {
		t.Fatal(err)
	}
	if r, err := CompileRules(l.Rules, l.Service.Unlisted, nil); err != nil || len(l.Rules) != 5 || len(r.Unreachable()) > 0 {
		t.Errorf("%d rules, %v", len(l.Rules), err)
	}
}
