package main

import "strings"

// mostUnnamed bounds how many kinds of denied calls are named.
const mostUnnamed = 20

// checkRules is doctor's: who decides, and what was denied for want of a rule.
func (d *doctor) checkRules() (all []finding) {
	if d.configErr == nil {
		for _, warning := range d.checked.RuleWarnings() {
			all = append(all, warned("see docs/integrating.md, Rules", "%s", warning))
		}
	}
	if d.statusErr != nil {
		return all
	}
	unnamed := d.status.Unnamed
	for _, one := range unnamed[:min(len(unnamed), mostUnnamed)] {
		if one.Rule == "" {
			all = append(all, warned("name what clients call, in [[rules]]", "%s that no rule names", plural(one.Count, "other call")))
			continue
		}
		all = append(all, warned("complete it, and add it to the configuration: "+strings.ReplaceAll(strings.TrimSpace(one.Rule), "\n", "; "),
			"%s denied because no rule names them", plural(one.Count, "call")))
	}
	if len(all) == 0 && d.configErr == nil && !d.checked.Ruled.Empty() {
		all = append(all, found("%s", plural(len(d.checked.Rules), "rule")))
	}
	return all
}
