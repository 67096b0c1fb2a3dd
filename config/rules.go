package config

import (
	"bytes"
	"errors"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/rules"
)

// CheckRules gives all mistakes in the rules at once.
func (c *Checked) CheckRules() (err error) {
	c.Ruled, err = CompileRules(c.Rules, c.Service.Unlisted, c.Guarded)
	return err
}

func CompileRules(all []Rule, unlisted string, paths []GuardedPath) (*rules.Rules, error) {
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
	Rules []Rule `toml:"rules"`
}

// ReadRules reads a file with [[rules]] and nothing else; what none of them names is as
// without service.unlisted. Every error is a fault.Error with code 3, or several.
func ReadRules(name string) (*rules.Rules, error) {
	text, err := ReadText(name)
	if err != nil {
		return nil, fault.BadConfig(ifDenied(err, "correct the path"), "rules: %v", err)
	}
	if err := toml.Unmarshal(text, new(map[string]any)); err != nil {
		return nil, tomlError(name, err, false)
	}
	if err := checkKinds(name, text, false); err != nil {
		return nil, err
	}
	var file rulesFile
	d := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields()
	if err := d.Decode(&file); err != nil {
		return nil, tomlError(name, err, false)
	}
	return CompileRules(file.Rules, "", nil)
}

// Trusting is said while a service alone decides what selected roles allow
// (decision V24).
const Trusting = `there are no [[rules]]: under selected roles the service alone decides, by the signed headers; add rules, or write unlisted = "service" under [service] to say that it does`

// untold is said while rules name nothing of an MCP server (decision V24).
const untold = `there are no [[rules]]: under selected roles no tool of mcp.upstream can be called; add rules, or write unlisted = "service" under [service] where it decides by the signed headers`

// Warnings are what config check says of a configuration that is good.
func (c *Checked) Warnings() (all []string) {
	if c.Service.Name == Defaults().Service.Name {
		all = append(all, "service.name is the default: people read \""+c.Service.Name+"\" on every page")
	}
	return append(append(all, c.IdleWarnings()...), c.RuleWarnings()...)
}

// IdleWarnings name what is set and does nothing, for want of another setting.
func (c *Checked) IdleWarnings() (all []string) {
	if c.Gateway.Listen == "off" && len(c.Gateway.Keys) > 0 {
		all = append(all, "gateway.keys: no gateway can use them, since gateway.listen is off")
	}
	if c.Config.Operator.Listen == "off" && len(c.Named) > 0 {
		all = append(all, "operators: they have no console, since operator.listen is off")
	}
	if c.HTTP.ForwardedHeader != "" && len(c.HTTP.TrustedProxies) == 0 {
		all = append(all, "http.forwarded_header: nobody is believed in it, since http.trusted_proxies is empty")
	}
	return all
}

// RuleWarnings are those of the warnings that are about rules.
func (c *Checked) RuleWarnings() (all []string) {
	asked := c.Upstream != nil || slices.ContainsFunc(c.Guarded, func(g GuardedPath) bool { return !g.MCP }) || c.Gateway.Listen != "off" && slices.ContainsFunc(c.Gateways, func(k gateway.Key) bool {
		return slices.Contains(k.Scopes, gateway.Decisions) || slices.Contains(k.Scopes, gateway.ForwardAuth)
	})
	if asked && c.Ruled.Empty() && c.Service.Unlisted == "" {
		all = append(all, Trusting)
	}
	if len(c.McpServers()) > 0 && c.Ruled.Empty() && c.Service.Unlisted == "" {
		all = append(all, untold)
	}
	for _, f := range c.Ruled.Unreachable() {
		all = append(all, f.Error()+"; "+f.Do)
	}
	return all
}
