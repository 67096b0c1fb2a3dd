package console

import (
	"context"
	"net/url"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/operator"
)

// Health has the lines of doctor, the worst first, each with its state in a word and
// what to do; it is checked again on demand, and not twice in a moment.
func TestHealthInTheConsole(t *testing.T) {
	o, _, _ := withNamed(t)
	runs, findings := 0, []operator.Finding{{Name: "database", Result: "ok", Text: "3 ms"}, {Name: "clock", Result: "warn", Text: "off by <b>", Fix: "set it"}, {Name: "backup", Result: "fail", Text: "none", Fix: "run: grantkeeper backup create"}}
	o.console(&Server{Doctor: func(context.Context) []operator.Finding { runs++; return findings }})
	b := o.signedIn("rita")
	b.asks("GET", "/", nil).want(200).saysNot("fault")
	p := b.asks("GET", "/health", nil).want(200).says("1 fault, 1 warning, 1 good", "Fault backup none What to do: run: grantkeeper backup create Warning clock off by <b> What to do: set it Good database 3 ms")
	if len(p.all("b")) == 0 || runs != 1 {
		t.Errorf("%d runs", runs)
	}
	b.asks("GET", "/", nil).says("1 fault. backup: none Look at Health")
	b.asks("GET", "/health", nil).want(200)
	b.asks("POST", "/health", url.Values{"csrf": {"x"}}).want(403)
	findings = findings[:1]
	again := func() *seen {
		return b.asks("POST", "/health", url.Values{"csrf": {b.asks("GET", "/health", nil).lastField("csrf")}}).want(303)
	}
	if again(); runs != 1 {
		t.Errorf("checked twice in a moment: %d runs", runs)
	}
	o.Pass(6 * time.Second)
	to := again().head.Get("Location")
	b.asks("GET", to, nil).says("Checked again: 0 faults, 0 warnings.", "0 faults, 0 warnings, 1 good")
	if b.asks("GET", "/", nil).saysNot("fault"); runs != 2 {
		t.Errorf("%d runs", runs)
	}
	o.console(&Server{}) // nobody has said how
	o.signedIn("rita").asks("GET", "/health", nil).want(404)
	o.signedIn("rita").asks("GET", "/", nil).want(200).saysNot("Health ")
}
