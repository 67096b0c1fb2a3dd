package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/rules"
)

// checkRules gives all mistakes in the rules at once.
func (c *Checked) checkRules() (err error) {
	c.Ruled, err = compileRules(c.Rules, c.Service.Unlisted, c.Guarded)
	return err
}

func compileRules(all []RuleConfig, unlisted string, paths []guardedPath) (*rules.Rules, error) {
	plain := make([]rules.Rule, len(all))
	var wrong []error
	for i, one := range all {
		at, ok := endpoint(one.Path, paths)
		if plain[i] = rules.Rule(one); !ok {
			wrong = append(wrong, fault.BadConfig("name one of kind mcp, or take path out", "rules[%d]: path: [[paths]] has no MCP endpoint %q", i, one.Path))
		}
		plain[i].Path = at
	}
	r, err := rules.Compile(plain, unlisted)
	var faults rules.Faults
	_ = errors.As(err, &faults)
	for _, f := range faults {
		wrong = append(wrong, fault.BadConfig(f.Do, "%v", f))
	}
	if len(wrong) > 0 {
		return nil, fault.Join(wrong)
	}
	return r, nil
}

// rulesFile is a file of rules alone.
type rulesFile struct {
	Rules []RuleConfig `toml:"rules"`
}

// readRules reads a file with [[rules]] and nothing else. Every error is an
// fault.Error with code 3, or several.
func readRules(name, unlisted string) (*rules.Rules, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fault.BadConfig(ifDenied(err, "correct the path"), "rules: %v", err)
	}
	var file rulesFile
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, tomlError(name, err)
	}
	return compileRules(file.Rules, unlisted, nil)
}

// trusting is said while a service alone decides what selected roles allow
// (decision V24).
const trusting = `there are no [[rules]]: under selected roles the service alone decides, by the signed headers; add rules, or write unlisted = "service" under [service] to say that it does`

// untold is said while rules name nothing of an MCP server (decision V24).
const untold = `there are no [[rules]]: under selected roles no tool of mcp.upstream can be called; add rules, or write unlisted = "service" under [service] where it decides by the signed headers`

// warnings are what config check and serve say of a configuration that is good.
func (c *Checked) warnings() (all []string) {
	if c.Service.Name == Defaults().Service.Name {
		all = append(all, "service.name is the default: people read \""+c.Service.Name+"\" on every page")
	}
	return append(all, c.ruleWarnings()...)
}

// ruleWarnings are those of the warnings that are about rules.
func (c *Checked) ruleWarnings() (all []string) {
	asked := c.Upstream != nil || slices.ContainsFunc(c.Guarded, func(g guardedPath) bool { return !g.MCP }) || c.Gateway.Listen != "off" && slices.ContainsFunc(c.Gateways, func(k gateway.Key) bool {
		return slices.Contains(k.Scopes, gateway.Decisions) || slices.Contains(k.Scopes, gateway.ForwardAuth)
	})
	if asked && c.Ruled.Empty() && c.Service.Unlisted == "" {
		all = append(all, trusting)
	}
	if len(c.mcpServers()) > 0 && c.Ruled.Empty() && c.Service.Unlisted == "" {
		all = append(all, untold)
	}
	for _, f := range c.Ruled.Unreachable() {
		all = append(all, f.Error()+"; "+f.Do)
	}
	return all
}

// watchUnnamed says, once an hour until ctx ends, which calls were denied because
// no rule names them (decision V30).
func (h *house) watchUnnamed(ctx context.Context) {
	t := time.NewTicker(warnAgainEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			h.tellUnnamed()
		case <-ctx.Done():
			return
		}
	}
}

// mostTold bounds how many lines one hour gives.
const mostTold = 20

func (h *house) tellUnnamed() {
	all := h.unnamed.News()
	for _, one := range all[:min(len(all), mostTold)] {
		h.log.Warn("calls to the service were denied because no rule names them", "count", one.Count, "rule", one.Rule)
	}
	if rest := len(all) - mostTold; rest > 0 {
		h.log.Warn("more calls were denied because no rule names them: ask grantkeeper doctor", "kinds", rest)
	}
}

// checkRules is doctor's: who decides, and what was denied for want of a rule.
func (d *doctor) checkRules() (all []finding) {
	if d.configErr == nil {
		for _, warning := range d.checked.ruleWarnings() {
			all = append(all, warned("see docs/integrating.md, Rules", "%s", warning))
		}
	}
	if d.statusErr != nil {
		return all
	}
	unnamed := d.status.Unnamed
	for _, one := range unnamed[:min(len(unnamed), mostTold)] {
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
