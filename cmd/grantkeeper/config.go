package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/grantkeeper/grantkeeper/limit"
)

// DefaultConfigFile is read when no other file is named and this one exists.
const DefaultConfigFile = "/etc/grantkeeper/grantkeeper.toml"

// Config is everything that serve can be told. The contract's lifetimes and
// rate limits are not here, so that every installation keeps them (decision
// L3). Secrets come by file alone.
type Config struct {
	BaseURLs      []string `toml:"base_urls"`
	SecretKeyFile string   `toml:"secret_key_file"`

	Service  ServiceConfig  `toml:"service"`
	HTTP     HTTPConfig     `toml:"http"`
	Operator OperatorConfig `toml:"operator"`
	Gateway  GatewayConfig  `toml:"gateway"`
	Database DatabaseConfig `toml:"database"`
	Limiter  LimiterConfig  `toml:"limiter"`
	Session  SessionConfig  `toml:"session"`
	API      APIConfig      `toml:"api"`
	Clients  []ClientConfig `toml:"clients"`
	Log      LogConfig      `toml:"log"`
}

// ServiceConfig names the protected service (decision N1).
type ServiceConfig struct {
	Name        string `toml:"name"`         // shown on pages; also the realm
	TokenPrefix string `toml:"token_prefix"` // two letters
}

// HTTPConfig is the public listener.
type HTTPConfig struct {
	Listen         string   `toml:"listen"`
	TLSCertFile    string   `toml:"tls_cert_file"` // with the key: own TLS; without: behind a proxy
	TLSKeyFile     string   `toml:"tls_key_file"`
	TrustedProxies []string `toml:"trusted_proxies"` // CIDRs whose forwarding headers are believed (decision M2)
}

// OperatorConfig is the operators' own listener (decision O1).
type OperatorConfig struct {
	Listen       string `toml:"listen"` // or "off"
	PasswordFile string `toml:"password_file"`
}

// GatewayConfig is the gateways' own listener (decision O4).
type GatewayConfig struct {
	Listen string             `toml:"listen"` // or "off"
	Keys   []GatewayKeyConfig `toml:"keys"`
}

// GatewayKeyConfig is what one gateway proves itself with.
type GatewayKeyConfig struct {
	Name    string   `toml:"name"` // for the log
	KeyFile string   `toml:"key_file"`
	Scopes  []string `toml:"scopes"` // decisions, forward-auth
}

// DatabaseConfig says where the rows are.
type DatabaseConfig struct {
	URL string `toml:"url"` // sqlite:///path
}

// LimiterConfig are the exceptions from the contract's rate limits.
type LimiterConfig struct {
	Networks []NetworkConfig `toml:"networks"`
}

// NetworkConfig gives one network a multiple of the rate limits (decision L3).
type NetworkConfig struct {
	CIDR     string `toml:"cidr"`
	Multiple int    `toml:"multiple"` // 1 to 1000
}

// SessionConfig bounds a sign-in session (decision S2).
type SessionConfig struct {
	Idle Duration `toml:"idle"`
	Max  Duration `toml:"max"`
}

// APIConfig is the protected API.
type APIConfig struct {
	RateLimit       Rate   `toml:"rate_limit"`        // for each organization (decision B6)
	Upstream        string `toml:"upstream"`          // the service that answers /api/v5, as a URL; "" is the built-in sample
	UpstreamKeyFile string `toml:"upstream_key_file"` // signs what the service is told
}

// ClientConfig is one preregistered client (decision R6).
type ClientConfig struct {
	ID           string   `toml:"id"`
	Name         string   `toml:"name"`
	RedirectURIs []string `toml:"redirect_uris"`
}

// LogConfig says what is logged on stderr, and how.
type LogConfig struct {
	Level  string `toml:"level"`  // debug, info, warn, error
	Format string `toml:"format"` // auto, text, json
}

// Defaults is the configuration of an empty file. It does not start: the base
// URLs have no default.
func Defaults() Config {
	return Config{
		SecretKeyFile: "/etc/grantkeeper/secret.key",
		Service:       ServiceConfig{Name: "Svalinn", TokenPrefix: "sv"},
		HTTP:          HTTPConfig{Listen: ":8080"},
		Operator:      OperatorConfig{Listen: "127.0.0.1:8081"},
		Gateway:       GatewayConfig{Listen: "off"},
		Database:      DatabaseConfig{URL: "sqlite:///var/lib/grantkeeper/grantkeeper.db"},
		Session:       SessionConfig{Idle: Duration(12 * time.Hour), Max: Duration(720 * time.Hour)},
		API:           APIConfig{RateLimit: Rate{limit.API}},
		Log:           LogConfig{Level: "info", Format: "auto"},
	}
}

// Duration is a time.Duration that is also written in days: 90s, 12h, 365d.
type Duration time.Duration

// UnmarshalText reads what String writes. It is never negative.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	v, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok && err != nil {
		n, dayErr := strconv.ParseInt(days, 10, 32)
		if dayErr != nil || n > 36500 {
			return fmt.Errorf("%q is not a duration such as 90s, 12h or 365d", s)
		}
		v, err = time.Duration(n)*24*time.Hour, nil
	}
	if err != nil || v < 0 {
		return fmt.Errorf("%q is not a duration such as 90s, 12h or 365d", s)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// Rate is a limit as it is written in a file: 3000/10m.
type Rate struct{ limit.Limit }

// UnmarshalText reads what limit.ParseLimit reads.
func (r *Rate) UnmarshalText(text []byte) (err error) {
	r.Limit, err = limit.ParseLimit(string(text))
	return err
}

// Origin says where a setting's value comes from: "default", "file",
// "environment" or "flag".
type Origin string

// Loaded is a configuration and where each value comes from.
type Loaded struct {
	Config
	File    string            // "" when none was read
	Origins map[string]Origin // by the key of the file; what is missing is a default
}

// Load puts the configuration together: a flag wins over the environment, the
// environment over the file, the file over the default. file is the flag's
// value or "". environ is os.Environ's; flags has values by the file's keys.
// Every error is an exitError with code 3.
func Load(file string, environ []string, flags map[string]string) (Loaded, error) {
	env, err := readEnvironment(environ)
	if err != nil {
		return Loaded{}, err
	}
	l := Loaded{Config: Defaults(), Origins: map[string]Origin{}}
	if err := l.readFile(file, env["GRANTKEEPER_CONFIG"]); err != nil {
		return Loaded{}, err
	}
	for _, s := range settings {
		value, name, sent, err := s.fromEnvironment(env)
		if err != nil {
			return Loaded{}, err
		}
		if sent {
			if err := s.set(&l.Config, value); err != nil {
				return Loaded{}, badConfig("see the settings: "+s.key+" = "+s.meaning, "%s: %v", name, err)
			}
			l.Origins[s.key] = "environment"
		}
		if value, sent := flags[s.key]; sent {
			if err := s.set(&l.Config, value); err != nil {
				return Loaded{}, wrongUse("grantkeeper serve --help", "--%s: %v", s.flag, err)
			}
			l.Origins[s.key] = "flag"
		}
	}
	return l, nil
}

// readFile reads the named file, or the default one if there is any.
func (l *Loaded) readFile(flag, env string) error {
	name, must := DefaultConfigFile, false
	for _, n := range []string{env, flag} {
		if n != "" {
			name, must = n, true
		}
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		return badConfig("run: grantkeeper init", "configuration: %v", err)
	}
	l.File = name
	return l.decode(name, text)
}

func (l *Loaded) decode(name string, text []byte) error {
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&l.Config); err != nil {
		return tomlError(name, err)
	}
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return tomlError(name, err)
	}
	for _, s := range settings {
		if within(tree, strings.Split(s.key, ".")) {
			l.Origins[s.key] = "file"
		}
	}
	return nil
}

func within(tree map[string]any, path []string) bool {
	v, ok := tree[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	sub, ok := v.(map[string]any)
	return ok && within(sub, path[1:])
}

// tomlError says in which line the fault is and, for an unknown key, which
// known one is nearest.
func tomlError(name string, err error) error {
	var missing *toml.StrictMissingError
	if errors.As(err, &missing) {
		first := missing.Errors[0]
		line, _ := first.Position()
		key := strings.Join(first.Key(), ".")
		if later(key) {
			return badConfig("take the setting out", "%s:%d: %s is not supported by this build", name, line, key)
		}
		return badConfig(didYouMean(key, fileKeys()), "%s:%d: unknown setting %s", name, line, key)
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		what := strings.TrimPrefix(bad.Error(), "toml: ")
		if key := strings.Join(bad.Key(), "."); key != "" {
			what = key + ": " + what
		}
		return badConfig("correct that line", "%s:%d: %s", name, line, what)
	}
	return badConfig("correct the file", "%s: %v", name, err)
}
