package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
)

// A setting is one value of Config that can come from more than the file.
type setting struct {
	key     string // in the file
	env     string // "" when the file alone has it
	file    bool   // the environment may name a file with the value, in env + "_FILE"
	flag    string // of serve; "" for none
	meaning string
	set     func(*Config, string) error
}

// settings lists every value but the tables clients, gateway.keys and
// limiter.networks.
var settings = []setting{
	{key: "base_urls", env: "GRANTKEEPER_BASE_URLS", flag: "base-url",
		meaning: "the hosts that are served, as URLs; with commas between them in the environment",
		set:     func(c *Config, v string) error { c.BaseURLs = list(v); return nil }},
	{key: "secret_key_file", env: "GRANTKEEPER_SECRET_KEY_FILE",
		meaning: "the file with the key that seals tokens, cookies and pages",
		set:     text(func(c *Config) *string { return &c.SecretKeyFile })},
	{key: "service.name", env: "GRANTKEEPER_SERVICE_NAME",
		meaning: "the protected service's name",
		set:     text(func(c *Config) *string { return &c.Service.Name })},
	{key: "service.token_prefix",
		meaning: "two letters that every token begins with",
		set:     text(func(c *Config) *string { return &c.Service.TokenPrefix })},
	{key: "http.listen", env: "GRANTKEEPER_LISTEN", flag: "listen",
		meaning: "the address of the public listener",
		set:     text(func(c *Config) *string { return &c.HTTP.Listen })},
	{key: "http.tls_cert_file", env: "GRANTKEEPER_TLS_CERT_FILE",
		meaning: "certificate chain, PEM; without one a proxy has to do TLS",
		set:     text(func(c *Config) *string { return &c.HTTP.TLSCertFile })},
	{key: "http.tls_key_file", env: "GRANTKEEPER_TLS_KEY_FILE",
		meaning: "the certificate's key, PEM",
		set:     text(func(c *Config) *string { return &c.HTTP.TLSKeyFile })},
	{key: "http.trusted_proxies", env: "GRANTKEEPER_TRUSTED_PROXIES",
		meaning: "CIDRs of the proxies that may name the client's address",
		set:     func(c *Config, v string) error { c.HTTP.TrustedProxies = list(v); return nil }},
	{key: "operator.listen", env: "GRANTKEEPER_OPERATOR_LISTEN", flag: "operator-listen",
		meaning: "the address of the operators' listener, or off",
		set:     text(func(c *Config) *string { return &c.Operator.Listen })},
	{key: "operator.password_file", env: "GRANTKEEPER_OPERATOR_PASSWORD_FILE",
		meaning: "the file with the operators' password; without one their API is off",
		set:     text(func(c *Config) *string { return &c.Operator.PasswordFile })},
	{key: "gateway.listen", env: "GRANTKEEPER_GATEWAY_LISTEN",
		meaning: "the address of the gateways' listener, or off",
		set:     text(func(c *Config) *string { return &c.Gateway.Listen })},
	{key: "database.url", env: "GRANTKEEPER_DATABASE_URL", file: true,
		meaning: "sqlite:///path/to/file",
		set:     text(func(c *Config) *string { return &c.Database.URL })},
	{key: "session.idle", env: "GRANTKEEPER_SESSION_IDLE",
		meaning: "how long a sign-in lasts unused",
		set:     func(c *Config, v string) error { return c.Session.Idle.UnmarshalText([]byte(v)) }},
	{key: "session.max", env: "GRANTKEEPER_SESSION_MAX",
		meaning: "how long a sign-in lasts at most",
		set:     func(c *Config, v string) error { return c.Session.Max.UnmarshalText([]byte(v)) }},
	{key: "api.rate_limit", env: "GRANTKEEPER_API_RATE_LIMIT",
		meaning: "requests of one organization in any window, such as 3000/10m",
		set:     func(c *Config, v string) error { return c.API.RateLimit.UnmarshalText([]byte(v)) }},
	{key: "api.upstream", env: "GRANTKEEPER_API_UPSTREAM",
		meaning: "the service that answers /api/v5, such as http://127.0.0.1:9000; without one the built-in sample does",
		set:     text(func(c *Config) *string { return &c.API.Upstream })},
	{key: "api.upstream_key_file", env: "GRANTKEEPER_API_UPSTREAM_KEY_FILE",
		meaning: "the file with the key that signs what the service is told",
		set:     text(func(c *Config) *string { return &c.API.UpstreamKeyFile })},
	{key: "log.level", env: "GRANTKEEPER_LOG_LEVEL", flag: "log-level",
		meaning: "debug, info, warn or error",
		set:     text(func(c *Config) *string { return &c.Log.Level })},
	{key: "log.format", env: "GRANTKEEPER_LOG_FORMAT", flag: "log-format",
		meaning: "text, json, or auto: text on a terminal, else json",
		set:     text(func(c *Config) *string { return &c.Log.Format })},
}

// laterSettings are known by name and not there yet: to take them and do
// nothing would be worse than to refuse them.
var laterSettings = map[string]string{
	"limiter.url":                "GRANTKEEPER_LIMITER_URL",
	"approvals":                  "",
	"approvals.end_unused_after": "",
	"journal":                    "",
	"journal.retention":          "",
	"branding":                   "",
	"database.auto_migrate":      "GRANTKEEPER_AUTO_MIGRATE",
}

func later(key string) bool {
	_, ok := laterSettings[key]
	return ok
}

func text(at func(*Config) *string) func(*Config, string) error {
	return func(c *Config, v string) error { *at(c) = v; return nil }
}

// list reads values with commas between them.
func list(v string) []string {
	var all []string
	for one := range strings.SplitSeq(v, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// fileKeys are all keys that a file may have.
func fileKeys() []string {
	var keys []string
	tables := map[string]bool{"limiter": true}
	for _, s := range settings {
		keys = append(keys, s.key)
		if table, _, ok := strings.Cut(s.key, "."); ok {
			tables[table] = true
		}
	}
	keys = append(keys, "clients", "clients.id", "clients.name", "clients.redirect_uris",
		"limiter.networks", "limiter.networks.cidr", "limiter.networks.multiple",
		"gateway.keys", "gateway.keys.name", "gateway.keys.key_file", "gateway.keys.scopes")
	return append(keys, slices.Sorted(maps.Keys(tables))...)
}

// readEnvironment gives our variables and refuses one that nothing reads: a
// misspelt setting must not be a silent default. An empty one counts as not
// set.
func readEnvironment(environ []string) (map[string]string, error) {
	known := []string{"GRANTKEEPER_CONFIG"}
	for _, s := range settings {
		if s.env != "" {
			known = append(known, s.env)
		}
		if s.file {
			known = append(known, s.env+"_FILE")
		}
	}
	env := map[string]string{}
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "GRANTKEEPER_") || value == "" {
			continue
		}
		if !slices.Contains(known, name) {
			for _, of := range laterSettings {
				if of != "" && strings.TrimSuffix(name, "_FILE") == of {
					return nil, badConfig("unset "+name, "environment: %s is not supported by this build", name)
				}
			}
			return nil, badConfig(didYouMean(name, known), "environment: unknown variable %s", name)
		}
		env[name] = value
	}
	return env, nil
}

// fromEnvironment gives the value of the setting's variable, or of the file
// that its _FILE names, and the name of the variable.
func (s setting) fromEnvironment(env map[string]string) (value, name string, sent bool, err error) {
	if s.env == "" {
		return "", "", false, nil
	}
	value, sent = env[s.env]
	path, sentFile := env[s.env+"_FILE"]
	switch {
	case !s.file || !sentFile:
		return value, s.env, sent, nil
	case sent:
		return "", "", false, badConfig("unset one of them", "environment: both %s and %s_FILE are set", s.env, s.env)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return "", "", false, badConfig("correct the path", "%s_FILE: %v", s.env, err)
	}
	return strings.TrimSpace(string(b)), s.env + "_FILE", true, nil
}

// didYouMean names the known name that is nearest to a wrong one, which may
// stand in the wrong table.
func didYouMean(wrong string, known []string) string {
	last := func(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }
	best, at := "", len(last(wrong))/2+2
	for _, k := range known {
		if d := min(distance(wrong, k), 1+distance(last(wrong), last(k))); d < at {
			best, at = k, d
		}
	}
	if best == "" {
		return "known are: " + strings.Join(known, ", ")
	}
	return fmt.Sprintf("did you mean %s?", best)
}

// distance is the least number of single bytes to insert, delete or replace
// that turns a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
