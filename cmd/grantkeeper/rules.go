package main

import (
	"bytes"
	"errors"
	"os"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/rules"
)

// checkRules gives all mistakes in the rules at once.
func (c *Checked) checkRules() (err error) {
	c.Ruled, err = compileRules(c.Rules, c.Service.Unlisted)
	return err
}

func compileRules(all []RuleConfig, unlisted string) (*rules.Rules, error) {
	plain := make([]rules.Rule, len(all))
	for i, one := range all {
		plain[i] = rules.Rule(one)
	}
	r, err := rules.Compile(plain, unlisted)
	var faults rules.Faults
	if !errors.As(err, &faults) {
		return r, err
	}
	var wrong []error
	for _, f := range faults {
		wrong = append(wrong, badConfig(f.Do, "%v", f))
	}
	return nil, together(wrong)
}

// rulesFile is a file of rules alone.
type rulesFile struct {
	Rules []RuleConfig `toml:"rules"`
}

// readRules reads a file with [[rules]] and nothing else. Every error is an
// exitError with code 3, or several.
func readRules(name, unlisted string) (*rules.Rules, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, badConfig(ifDenied(err, "correct the path"), "rules: %v", err)
	}
	var file rulesFile
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, tomlError(name, err)
	}
	return compileRules(file.Rules, unlisted)
}

// trusting is said while a service alone decides what selected roles allow
// (decision V24).
const trusting = `there are no [[rules]]: under selected roles the service alone decides, by the signed headers; add rules, or write unlisted = "service" under [service] to say that it does`

// warnings are what config check and serve say of a configuration that is good.
func (c *Checked) warnings() (all []string) {
	if c.Service.Name == Defaults().Service.Name {
		all = append(all, "service.name is the default: people read \""+c.Service.Name+"\" on every page")
	}
	return append(all, c.ruleWarnings()...)
}

// ruleWarnings are those of the warnings that are about rules.
func (c *Checked) ruleWarnings() (all []string) {
	asked := c.Upstream != nil || c.Gateway.Listen != "off" && slices.ContainsFunc(c.Gateways, func(k gateway.Key) bool {
		return slices.Contains(k.Scopes, gateway.Decisions) || slices.Contains(k.Scopes, gateway.ForwardAuth)
	})
	if asked && c.Ruled.Empty() && c.Service.Unlisted == "" {
		all = append(all, trusting)
	}
	for _, f := range c.Ruled.Unreachable() {
		all = append(all, f.Error()+"; "+f.Do)
	}
	return all
}
