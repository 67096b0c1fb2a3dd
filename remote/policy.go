package remote

import "github.com/grantkeeper/grantkeeper/terminal"

// EffectsInWords says what saving an organization's rules does, a line for each effect.
func EffectsInWords(effects []any) (all []string) {
	for _, one := range effects {
		e, _ := one.(map[string]any)
		n, _ := e["connections"].(float64)
		what := terminal.Plural(int(n), "connection")
		switch {
		case e["host"] != nil:
			what += " to " + terminal.InWords(e["host"]) + ": ended for good, because it is blocked"
		case e["ceiling"] != nil:
			what += ": less access, by " + terminal.InWords(e["ceiling"])
		default:
			what += ": an end on " + terminal.TimeOf(e["ends_at"])
		}
		all = append(all, what)
	}
	return all
}
