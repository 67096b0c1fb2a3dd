package remote

import (
	"fmt"
	"strings"

	"github.com/grantkeeper/grantkeeper/terminal"
)

// Explained is what the server says an approval stands on, as far as it is printed.
type Explained struct {
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Chain   []struct {
		Fact  string `json:"fact"`
		Holds bool   `json:"holds"`
		Why   string `json:"why"`
	} `json:"chain"`
}

func (e Explained) String() string {
	word := func(yes bool) string {
		if yes {
			return "yes"
		}
		return "no"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\n", word(e.Allowed), terminal.Printable(e.Reason))
	for _, link := range e.Chain {
		fmt.Fprintf(&b, "  %-3s  %-12s  %s\n", word(link.Holds), terminal.Printable(link.Fact), terminal.Printable(link.Why))
	}
	return b.String()
}
