package probe

import (
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/terminal"
)

var resultColors = map[string]string{OK: "\x1b[32m", Note: "\x1b[36m", Warn: "\x1b[33m", Fail: "\x1b[31m"}

// Line is the row for people; of one that is not ok also by what it is one, whom it stops
// and what mends it. It names the issuer where there are several.
func (r Row) Line(colored, several bool) string {
	var b strings.Builder
	word := fmt.Sprintf("%-6s", r.Result)
	if colored {
		word = resultColors[r.Result] + word + "\x1b[0m"
	}
	seen := terminal.Printable(r.Seen)
	if several && r.At != "" {
		seen = terminal.Printable(r.At) + ": " + seen
	}
	fmt.Fprintf(&b, "%s%-22s %s\n", word, r.Code, seen)
	if r.Result == OK {
		return b.String()
	}
	var who []string
	for _, k := range r.Breaks {
		who = append(who, string(k))
	}
	by := r.Source
	if len(who) > 0 {
		by += "; for " + strings.Join(who, ", ")
	}
	fmt.Fprintf(&b, "%29sby:  %s\n", "", by)
	if r.Fix != "" {
		fmt.Fprintf(&b, "%29sfix: %s\n", "", r.Fix)
	}
	return b.String()
}
