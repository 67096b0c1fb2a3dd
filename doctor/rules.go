package doctor

import (
	"strings"

	"github.com/grantkeeper/grantkeeper/terminal"
)

// mostUnnamed bounds how many kinds of denied calls are named.
const mostUnnamed = 20

// checkRules is doctor's: who decides, and what was denied for want of a rule.
func (d *Examination) checkRules() (all []Finding) {
	if d.ConfigErr != nil {
		all = d.noConfiguration()
	} else {
		for _, warning := range d.Checked.RuleWarnings() {
			all = append(all, warned("see docs/integrating.md, Rules", "%s", warning))
		}
	}
	if d.StatusErr != nil {
		return append(all, d.noServer()...)
	}
	unnamed := d.Status.Unnamed
	for _, one := range unnamed[:min(len(unnamed), mostUnnamed)] {
		if one.Rule == "" {
			all = append(all, warned("name what clients call, in [[rules]]", "%s that no rule names", terminal.Plural(one.Count, "other call")))
			continue
		}
		all = append(all, warned("complete it, and add it to the configuration: "+strings.ReplaceAll(strings.TrimSpace(one.Rule), "\n", "; "),
			"%s denied because no rule names them", terminal.Plural(one.Count, "call")))
	}
	if len(all) == 0 && d.ConfigErr == nil && !d.Checked.Ruled.Empty() {
		all = append(all, found("%s", terminal.Plural(len(d.Checked.Rules), "rule")))
	}
	return all
}
