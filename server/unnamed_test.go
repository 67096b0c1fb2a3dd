package server

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/rules"
)

// What no rule names is told once, with the rule to paste (decision V30).
func TestUnnamedIsTold(t *testing.T) {
	var out strings.Builder
	h := newServer(config.Checked{}, Options{Log: slog.New(slog.NewJSONHandler(&out, nil))})
	note := func(tool string) {
		h.unnamed.Note(rules.Call{Tool: tool}, rules.Decision{Reason: rules.Unlisted})
	}
	h.tellUnnamed()
	note("pay")
	note("pay")
	h.tellUnnamed()
	h.tellUnnamed()
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"count":2,"rule":"[[rules]]\ntool = \"pay\"\nrole = \"ROLE\"`) {
		t.Errorf("%s", text)
	}
	for i := range mostTold + 5 {
		note("t" + strconv.Itoa(i))
	}
	out.Reset()
	h.tellUnnamed()
	if text := out.String(); strings.Count(text, "\n") != mostTold+1 || !strings.Contains(text, `"kinds":5`) {
		t.Errorf("%s", text)
	}
}
