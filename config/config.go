// Package config has the settings: what they are, how they are read from the file,
// the environment and flags, and the check that they are held to. What it cannot
// take is a fault.Error, with what to do.
package config

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
)

// DefaultFile is read when no other file is named and this one exists.
const DefaultFile = "/etc/grantkeeper/grantkeeper.toml"

// Config is everything that serve can be told. The contract's lifetimes and
// rate limits are not here, so that every installation keeps them (decision
// L3). Secrets come by file alone.
//
// A new setting is one field here, and its default in Defaults. Its tags are
// all that the file, the environment, the flags of serve, config show, config
// reference and the proposals for misspelt names know of it:
//
//	toml    its key in its table
//	env     its variable without GRANTKEEPER_; "NAME,file" lets NAME_FILE name
//	        a file with the value
//	flag    the flag of serve that wins over both; --data names a folder
//	secret  "url": a password in the value is not shown
//	doc     what it means, in one line
//
// A field is text, a list of texts, a number, a bool, a Duration, a Rate or
// any other encoding.TextMarshaler, a table, or a list of tables. Afterwards
// write the page: go generate ./cmd/grantkeeper.
type Config struct {
	BaseURLs      []string `toml:"base_urls" env:"BASE_URLS" flag:"base-url" doc:"the hosts that are served, as URLs (required); metadata is built from the one that was asked, any other is answered 421"`
	SecretKeyFile string   `toml:"secret_key_file" env:"SECRET_KEY_FILE" doc:"the file with the keys that seal tokens, cookies and pages; nobody but its owner may read it"`

	Service   Service   `toml:"service"`
	Branding  Branding  `toml:"branding"`
	HTTP      HTTP      `toml:"http"`
	Operator  Operator  `toml:"operator"`
	Gateway   Gateway   `toml:"gateway"`
	Database  Database  `toml:"database"`
	Limiter   Limiter   `toml:"limiter"`
	Session   Session   `toml:"session"`
	Approvals Approvals `toml:"approvals"`
	Journal   Journal   `toml:"journal"`
	Activity  Activity  `toml:"activity"`
	Attempts  Attempts  `toml:"attempts"`
	Mail      Mail      `toml:"mail"`
	SignIn    SignIn    `toml:"signin"`
	API       API       `toml:"api"`
	MCP       MCP       `toml:"mcp"`
	Paths     []Path    `toml:"paths" doc:"paths that are guarded beside /api/v5, each for a service of its own; they go beyond the contract"`                     // decision V60
	Rules     []Rule    `toml:"rules" doc:"what each call to the service touches, the first that matches decides; of more than selected roles nothing is refused"` // decision V20
	Clients   Clients   `toml:"clients"`
	Log       Log       `toml:"log"`

	Operators []NamedOperator `toml:"operators" doc:"who signs in at the operators' console by name; without any, it has the password of operator.password_file alone"` // decision O6
}

// Service names the protected service (decision N1).
type Service struct {
	Name        string `toml:"name" env:"SERVICE_NAME" doc:"the protected service's name: shown on pages, and the realm of challenges"`
	TokenPrefix string `toml:"token_prefix" doc:"two letters that every token begins with, as in svo_, svr_ and svc_"`
	KeyFile     string `toml:"key_file" env:"SERVICE_KEY_FILE" doc:"the file with the key that signs what the service is told; nobody but its owner may read it"`
	PreviewURL  string `toml:"preview_url" env:"SERVICE_PREVIEW_URL" secret:"url" doc:"where the service says how much a choice would give, such as http://127.0.0.1:9000/grantkeeper/preview, for numbers and titles on the consent page; signed with service.key_file"`

	Unlisted      string `toml:"unlisted" env:"SERVICE_UNLISTED" doc:"what becomes, under selected roles, of calls that no rule names: deny, read (reads pass) or service (it decides by the signed headers); without it deny, but where there is no rule either, service for calls over HTTP"` // decision V24
	PersonalItems bool   `toml:"personal_items" env:"SERVICE_PERSONAL_ITEMS" doc:"whether the service has items that are a person's own"`

	Words map[string]Words `toml:"words" doc:"what the service calls its entries, by language, such as {en = {items = \"orders\", count = {one = \"{n} order\", other = \"{n} orders\"}}}; a language without them says entries in its own"`
}

// Words is what the service calls its entries in one language.
type Words struct {
	Items string            `toml:"items"` // without a number
	Count map[string]string `toml:"count"` // by plural category
}

// Path is one of [[paths]].
type Path struct {
	Path     string `toml:"path" doc:"the path, such as /reports: itself and what is below it is guarded. Letters, digits, hyphens and underscores, and full stops inside"`
	Upstream string `toml:"upstream" secret:"url" doc:"the service that answers there, such as http://127.0.0.1:9200, which gets the paths as they are; of kind mcp its whole URL"`
	Kind     string `toml:"kind" doc:"api or mcp"`
	Name     string `toml:"name" doc:"its name for people, such as Bakery reports"`
}

// Rule is one of [[rules]]: what a call touches (decision V21).
type Rule struct {
	Tool     string   `toml:"tool" doc:"the MCP tool that it is about; * at the end makes it a prefix. A rule has one of tool, call, resource, prompt and method"`
	Call     string   `toml:"call" doc:"or the HTTP call, such as POST /api/v5/roles/{role}/orders/**: a method, or * for any (GET is HEAD too), and a path, with {name} for one segment and ** for the rest"`
	Resource string   `toml:"resource" doc:"or the URI of an MCP resource, or with * at the end the beginning of it"`
	Prompt   string   `toml:"prompt" doc:"or the MCP prompt, as with tool"`
	Method   string   `toml:"method" doc:"or another MCP method, as with tool"`
	Path     string   `toml:"path" doc:"the MCP endpoint of [[paths]] that has the tool, resource, prompt or method; without it /api/v5/mcp"`
	Touches  string   `toml:"touches" doc:"role, open (what every member sees), personal, admin, nothing, or service (it decides by the signed headers); with one of the next three, role"`
	Role     string   `toml:"role" doc:"the ID of the role"`
	RoleName string   `toml:"role_name" doc:"or its name, in every organization"`
	RoleFrom []string `toml:"role_from" doc:"or where the request has its ID: path:NAME, query:NAME, body:/json/pointer or argument:/json/pointer; of several, all are needed"`
	Access   string   `toml:"access" doc:"read or change; without it GET, HEAD, resources, prompts and tools with readOnlyHint read, and all else changes"`
	Private  bool     `toml:"private" doc:"reading needs a role of the role's circle; else every member may read"`
}

// HTTP is the public listener.
type HTTP struct {
	Listen          string   `toml:"listen" env:"LISTEN" flag:"listen" doc:"the address of the public listener"`
	TLSCertFile     string   `toml:"tls_cert_file" env:"TLS_CERT_FILE" doc:"certificate chain, PEM, for TLS of its own; without one a proxy has to do TLS"`
	TLSKeyFile      string   `toml:"tls_key_file" env:"TLS_KEY_FILE" doc:"the certificate's key, PEM"`
	TrustedProxies  []string `toml:"trusted_proxies" env:"TRUSTED_PROXIES" doc:"CIDRs of the proxies that may name the client's address"` // decision M2
	ForwardedHeader string   `toml:"forwarded_header" env:"FORWARDED_HEADER" doc:"the header in which they do, X-Forwarded-For or Forwarded; the other counts for nothing. Empty: X-Forwarded-For, or Forwarded where that is missing"`
}

// Operator is the operators' own listener (decision O1).
type Operator struct {
	Listen       string   `toml:"listen" env:"OPERATOR_LISTEN" flag:"operator-listen" doc:"the address of the operators' listener, or off"`
	Hosts        []string `toml:"hosts" env:"OPERATOR_HOSTS" doc:"names, beside loopback and its own address, by which the operators' listener may be asked, without port; any other is answered 421"`
	PasswordFile string   `toml:"password_file" env:"OPERATOR_PASSWORD_FILE" doc:"the file with the operators' password; without one their API is off"`
	PublicURL    string   `toml:"public_url" env:"OPERATOR_PUBLIC_URL" doc:"where browsers reach the operators' console, such as https://operators.example.com; its host is answered as operator.hosts are, over https its cookie is Secure, and operators can sign in at signin.providers, whose redirect URI is {public_url}/signin/callback/{id}"`
}

// Gateway is the gateways' own listener (decision O4).
type Gateway struct {
	Listen string       `toml:"listen" env:"GATEWAY_LISTEN" doc:"the address of the gateways' listener, or off"`
	Keys   []GatewayKey `toml:"keys" doc:"what each gateway proves itself with"`
}

// GatewayKey is what one gateway proves itself with.
type GatewayKey struct {
	Name    string   `toml:"name" doc:"its name in the log"`
	KeyFile string   `toml:"key_file" doc:"the file with its key: one line of text, that nobody but its owner may read"`
	Scopes  []string `toml:"scopes" doc:"what it may do: decisions, forward-auth, directory, directory-read"`
}

// Database says where the rows are.
type Database struct {
	URL          string   `toml:"url" env:"DATABASE_URL,file" flag:"data" secret:"url" doc:"where the rows are: sqlite:///path/to/file, or postgres://user@host:5432/database for any number of nodes"`
	URLFile      string   `toml:"url_file" doc:"the file with that URL, where a password is in it; instead of url, and nobody but its owner may read it; the environment's URL and --data win over both"`
	MaxStaleness Duration `toml:"max_staleness" env:"DATABASE_MAX_STALENESS" doc:"for how long a node may still accept a token or API key that another has ended, on PostgreSQL; 0s is not at all"`
	AutoMigrate  bool     `toml:"auto_migrate" env:"AUTO_MIGRATE" flag:"migrate" doc:"take an older schema forward at the start, instead of refusing it"`
}

// Limiter is where rate limits are counted, and the exceptions from the
// contract's.
type Limiter struct {
	URL      string    `toml:"url" env:"LIMITER_URL,file" secret:"url" doc:"Valkey or Redis where all nodes count rate limits together, such as redis://127.0.0.1:6379/0; without one each counts in its own memory"`
	Networks []Network `toml:"networks" doc:"networks with a multiple of the contract's rate limits, such as the addresses that a hosted assistant shares"`
}

// Network gives one network a multiple of the rate limits (decision L3).
type Network struct {
	CIDR     string `toml:"cidr" doc:"its addresses, such as 192.0.2.0/24"`
	Multiple int    `toml:"multiple" doc:"how many times the limits, 1 to 1000"`
}

// Session bounds a sign-in session (decision S2).
type Session struct {
	Idle Duration `toml:"idle" env:"SESSION_IDLE" doc:"how long a sign-in lasts unused; at least 1m"`
	Max  Duration `toml:"max" env:"SESSION_MAX" doc:"how long a sign-in lasts at most; not below session.idle"`
}

// Approvals bounds approvals, which have no lifetime of their own
// (decisions P11 and P17).
type Approvals struct {
	EndUnusedAfter OptionalDuration `toml:"end_unused_after" doc:"ends approvals that nobody has used for so long, true to the hour, such as 90d; at least 1d, or off"`
	MaxDays        int              `toml:"max_days" env:"APPROVALS_MAX_DAYS" doc:"for how many days an approval lasts at most from when it is given, whatever an organization's rules let it; 1 to 3650, or 0 for no bound; those that are there stay as they are"`
}

// Journal bounds the journal.
type Journal struct {
	Retention Duration `toml:"retention" doc:"how long the journal keeps its entries; at least 1d"`

	AnchorEvery OptionalDuration `toml:"anchor_every" env:"JOURNAL_ANCHOR_EVERY" doc:"how often the anchor of its newest block goes to the log and the metrics, where there is a new one; at least 1m, or off"`
}

// Activity bounds what is kept of the calls that clients make (decision V70).
type Activity struct {
	Keep OptionalDuration `toml:"keep" env:"ACTIVITY_KEEP" doc:"how long records of what each app did are kept: at least 1d and at most 90d, or off, which keeps none; alike on all nodes"`
}

// Attempts bounds what is kept of how clients tried to connect.
type Attempts struct {
	Keep Duration `toml:"keep" env:"ATTEMPTS_KEEP" doc:"how long it is kept how a client tried to connect, and why it came no farther; 1h to 30d"`
	Max  int      `toml:"max" env:"ATTEMPTS_MAX" doc:"how many such attempts are kept, the oldest go first, and those of strangers beyond a fifth of it; up to 1000000, or 0 to keep none"`
}

// Mail says how mail is sent to people.
type Mail struct {
	URL          string `toml:"url" env:"MAIL_URL" secret:"url" doc:"the server that sends mail, such as smtp://user@mail.example.com:587 (STARTTLS) or smtps://mail.example.com; with one, people who forgot a password can ask for a link; without one nothing is mailed"`
	From         string `toml:"from" env:"MAIL_FROM" doc:"who it is from, such as Svalinn <no-reply@example.com>"`
	PasswordFile string `toml:"password_file" env:"MAIL_PASSWORD_FILE" doc:"the file with the password of the user in mail.url"`
	Language     string `toml:"language" env:"MAIL_LANGUAGE" doc:"what mail is written in: en, de, fr, es, nl or ar; without one English"`
}

// API is the protected API.
type API struct {
	RateLimit       Rate       `toml:"rate_limit" env:"API_RATE_LIMIT" doc:"requests of one organization in any window of this length"` // decision B6
	Limits          []APILimit `toml:"limits" doc:"organizations with a limit of their own"`
	Upstream        string     `toml:"upstream" env:"API_UPSTREAM" secret:"url" doc:"the service that answers /api/v5, such as http://127.0.0.1:9000; without one nothing but /api/v5/me is there"`
	UpstreamKeyFile string     `toml:"upstream_key_file" env:"API_UPSTREAM_KEY_FILE" doc:"the old name of service.key_file, for one more release"`
}

// MCP is the service's own MCP server (decision V1).
type MCP struct {
	Upstream string   `toml:"upstream" env:"MCP_UPSTREAM" secret:"url" doc:"the MCP server that answers /api/v5/mcp, by its whole URL, such as http://127.0.0.1:9100/mcp; without one the endpoint is not there"`
	Wait     Duration `toml:"wait" doc:"how long it may take to begin an answer, and then to end one that is no stream, 1s to 1h each; a stream has no bound"`
	MaxBody  int      `toml:"max_body" doc:"the greatest message, in bytes, 65536 to 67108864"`
	Streams  int      `toml:"streams" doc:"requests and streams under way on one node, 1 to 1000000"`
}

// APILimit is the limit of one organization instead of the others'
// (decision B6).
type APILimit struct {
	Organization string `toml:"organization" doc:"its ID"`
	Rate         Rate   `toml:"rate" doc:"its requests in any window; the window is that of api.rate_limit"`
}

// Log says what is logged on stderr, and how.
type Log struct {
	Level  string `toml:"level" env:"LOG_LEVEL" flag:"log-level" doc:"debug, info, warn or error"`
	Format string `toml:"format" env:"LOG_FORMAT" flag:"log-format" doc:"text, json, or auto: text on a terminal, else json"`
}

// Defaults is the configuration of an empty file. It does not start: the base
// URLs have no default.
func Defaults() Config {
	return Config{
		SecretKeyFile: "/etc/grantkeeper/secret.key",
		Service:       Service{Name: "Svalinn", TokenPrefix: "sv", PersonalItems: true},
		HTTP:          HTTP{Listen: ":8080"},
		Operator:      Operator{Listen: "127.0.0.1:8081"},
		Gateway:       Gateway{Listen: "off"},
		Database:      Database{URL: "sqlite:///var/lib/grantkeeper/grantkeeper.db"},
		Session:       Session{Idle: Duration(12 * time.Hour), Max: Duration(720 * time.Hour)},
		Activity:      Activity{Keep: OptionalDuration(activity.Keep)},
		Journal:       Journal{Retention: Duration(store.JournalRetention), AnchorEvery: OptionalDuration(time.Hour)},
		Attempts:      Attempts{Keep: Duration(store.AttemptsKeep), Max: store.AttemptsMax},
		SignIn:        SignIn{Passwords: true, Strong: "off", Fresh: Duration(signin.DefaultFresh)},
		API:           API{RateLimit: Rate{limit.API}},
		MCP:           MCP{Wait: Duration(mcp.DefaultWait), MaxBody: mcp.DefaultMaxBody, Streams: mcp.MaxStreams},
		Log:           Log{Level: "info", Format: "auto"},
	}
}

// Duration is a time.Duration that is also written in days: 90s, 12h, 365d.
type Duration time.Duration

// A Duration has at most so many days, in whatever it is written.
const (
	day      = 24 * time.Hour
	mostDays = 36500
)

// UnmarshalText reads what String writes. It is never negative, and nothing is
// set to less than a millisecond: that was meant in another unit.
func (d *Duration) UnmarshalText(text []byte) error {
	s := string(text)
	v, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok && err != nil {
		n, dayErr := strconv.ParseInt(days, 10, 32)
		if dayErr != nil || n > mostDays {
			return fmt.Errorf("%q is not a time such as 90s, 12h or 365d", s)
		}
		v, err = time.Duration(n)*day, nil
	}
	if err != nil || v < 0 || v > mostDays*day || v%time.Millisecond != 0 {
		return fmt.Errorf("%q is not a time such as 90s, 12h or 365d", s)
	}
	*d = Duration(v)
	return nil
}

// String gives days where they are more than a month, and leaves out what is zero:
// 365d and 12h, not 8760h and 12h0m0s.
func (d Duration) String() string {
	v := time.Duration(d)
	if v > 30*day && v%day == 0 {
		return strconv.FormatInt(int64(v/day), 10) + "d"
	}
	s := v.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// OptionalDuration is a Duration that may be off, which is 0.
type OptionalDuration Duration

// UnmarshalText reads what String writes. A time of zero is refused: who writes it may mean
// "at once" as well as "never".
func (d *OptionalDuration) UnmarshalText(text []byte) error {
	if string(text) == "off" {
		*d = 0
		return nil
	}
	err := (*Duration)(d).UnmarshalText(text)
	if err == nil && *d == 0 {
		err = fmt.Errorf("%q is no time: none is written \"off\"", text)
	}
	return err
}

// MarshalText writes what UnmarshalText reads.
func (d OptionalDuration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d OptionalDuration) String() string {
	if d == 0 {
		return "off"
	}
	return Duration(d).String()
}

// Rate is a limit as it is written in a file: 3000/10m.
type Rate struct{ limit.Limit }

// MarshalText writes what limit.ParseLimit reads.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

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

	listed bool // the file has preregistered clients under the first name of their list
	given  given
}

// given is what else than the file a value came from: variables and flags, by key.
type given map[string]string

// Load puts the configuration together: a flag wins over the environment, the
// environment over the file, the file over the default. file is the flag's
// value or "". environ is os.Environ's; flags has values by the file's keys.
// Every error is a fault.Error with code 3.
func Load(file string, environ []string, flags map[string]string) (Loaded, error) {
	env, err := readEnvironment(environ)
	if err != nil {
		return Loaded{}, err
	}
	l := Loaded{Config: Defaults(), Origins: map[string]Origin{}, given: given{}}
	if err := l.readFile(file, env["GRANTKEEPER_CONFIG"]); err != nil {
		return Loaded{}, err
	}
	var wrong []error
	for _, s := range settings {
		value, name, sent, err := s.fromEnvironment(env)
		if err == nil && sent {
			if err = s.set(&l.Config, value); err != nil {
				err = fault.BadConfig("see the settings: "+s.key+" = "+s.meaning, "%s: %v", name, err)
			}
		}
		if err != nil {
			wrong = append(wrong, err)
		} else if sent {
			l.Origins[s.key], l.given[s.key] = "environment", name
		}
		if value, sent := flags[s.key]; sent {
			if err := s.set(&l.Config, value); err != nil {
				return Loaded{}, fault.WrongUse("grantkeeper serve --help", "--%s: %v", s.flag, err)
			}
			l.Origins[s.key], l.given[s.key] = "flag", "--"+s.flag
		}
	}
	if len(wrong) > 0 {
		return Loaded{}, fault.Join(wrong)
	}
	l.oneDatabase()
	return l, nil
}

// oneDatabase leaves one of database.url and database.url_file: a URL from the
// environment or a flag wins over a file that the file names, and that wins
// over the default.
func (l *Loaded) oneDatabase() {
	switch {
	case l.Database.URLFile == "":
	case l.Origins["database.url"] == "", l.Database.URL == "":
		l.Database.URL = ""
	default:
		l.Database.URLFile = ""
		delete(l.Origins, "database.url_file")
	}
}

// readFile reads the named file, or the default one if there is any.
func (l *Loaded) readFile(flag, env string) error {
	name, must := DefaultFile, false
	for _, n := range []string{env, flag} {
		if n != "" {
			name, must = n, true
		}
	}
	text, err := readConfiguration(name)
	if errors.Is(err, fs.ErrNotExist) && !must {
		return nil
	}
	if err != nil {
		hint := "name the file: --config FILE"
		if errors.Is(err, fs.ErrNotExist) {
			hint = "name a file that is there, or run: grantkeeper init"
		}
		return fault.BadConfig(ifDenied(err, hint), "configuration: %v", err)
	}
	l.File = name
	return l.decode(name, text)
}

func (l *Loaded) decode(name string, text []byte) error {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return tomlError(name, err, false)
	}
	l.listed = listsClients(tree)
	if err := checkKinds(name, text, l.listed); err != nil {
		return err
	}
	if is, want := misspelt(asWritten[l.listed], tree, ""); is != "" {
		return fault.BadConfig("write "+want, "%s:%d: unknown setting %s", name, lineOf(text, is[strings.LastIndex(is, ".")+1:]), is)
	}
	if err := l.unmarshal(text); err != nil {
		return tomlError(name, err, l.listed)
	}
	for _, s := range settings {
		if within(tree, strings.Split(fileKey(s.key, l.listed), ".")) {
			l.Origins[s.key] = "file"
		}
	}
	if l.Origins["database.url"] == "file" && l.Database.URL != "" && l.Database.URLFile != "" {
		return fault.BadConfig("take one of them out", "%s: both database.url and database.url_file are set", name)
	}
	return nil
}

// asWritten is Config with a text for each value that is read from one, and the same
// of a file that lists its clients. The decoder would take a bare number for a
// Duration as well, and as nanoseconds.
var asWritten = map[bool]reflect.Type{false: textual(reflect.TypeFor[Config]()), true: textual(reflect.TypeFor[listed]())}

func textual(t reflect.Type) reflect.Type {
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		return reflect.TypeFor[string]()
	case t.Kind() == reflect.Slice:
		return reflect.SliceOf(textual(t.Elem()))
	case t.Kind() != reflect.Struct:
		return t
	}
	var fields []reflect.StructField
	for _, f := range reflect.VisibleFields(t) {
		if !f.Anonymous { // its fields are visible, too
			fields = append(fields, reflect.StructField{Name: f.Name, Type: textual(f.Type), Tag: f.Tag})
		}
	}
	return reflect.StructOf(fields)
}

// lineOf gives the first line that has a key, in a table's name or before what it is set to.
func lineOf(text []byte, key string) int {
	has := regexp.MustCompile(`(^|[\s\[{,."'])` + regexp.QuoteMeta(key) + `["']?\s*[=.\]]`)
	for i, line := range bytes.Split(text, []byte("\n")) {
		if has.Match(line) {
			return i + 1
		}
	}
	return 1
}

// misspelt gives the first key, by its name, that is one of a setting but for its case,
// and that setting's: the decoder takes it, and nobody else would see that it is set.
func misspelt(t reflect.Type, v any, under string) (is, want string) {
	switch t.Kind() {
	case reflect.Slice:
		all, _ := v.([]any)
		for _, one := range all {
			if is, want = misspelt(t.Elem(), one, under); is != "" {
				return is, want
			}
		}
	case reflect.Map, reflect.Struct:
		all, _ := v.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			name, of, known := settingOf(t, key)
			if !known { // checkKinds has refused it
				continue
			}
			if name != key {
				return under + key, under + name
			}
			if is, want = misspelt(of, all[key], under+key+"."); is != "" {
				return is, want
			}
		}
	}
	return "", ""
}

// settingOf gives the name and the type of what the decoder takes a key in a table for: a field
// of t, or whatever is in a map.
func settingOf(t reflect.Type, key string) (name string, of reflect.Type, known bool) {
	if t.Kind() == reflect.Map {
		return key, t.Elem(), true
	}
	for f := range t.Fields() {
		if name, _, _ = strings.Cut(f.Tag.Get("toml"), ","); strings.EqualFold(name, key) {
			return name, f.Type, true
		}
	}
	return "", nil, false
}

// checkKinds refuses a key that does not exist, and a value of another kind
// than its setting's. The text is TOML: nothing else is left to be refused here.
func checkKinds(name string, text []byte, listed bool) error {
	err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(reflect.New(asWritten[listed]).Interface())
	var bad *toml.DecodeError
	if !errors.As(err, &bad) || errors.As(err, new(*toml.StrictMissingError)) {
		return tomlError(name, err, listed)
	}
	line, _ := bad.Position()
	what, key := "a table is wanted", strings.Join(bad.Key(), ".")
	for _, s := range settings {
		if s.key == settingKey(key, listed) || s.field.Type.Kind() == reflect.Map && strings.HasPrefix(key, s.key+".") {
			what = s.wanted()
		}
	}
	return fault.BadConfig("correct that line", "%s:%d: %s: %s", name, line, key, what)
}

func within(tree map[string]any, path []string) bool {
	v, ok := tree[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	sub, ok := v.(map[string]any)
	return ok && within(sub, path[1:])
}

// tomlError says in which line the fault is and, for each unknown key, which
// known one is nearest.
func tomlError(name string, err error, listed bool) error {
	if err == nil {
		return nil
	}
	if missing, ok := errors.AsType[*toml.StrictMissingError](err); ok {
		var all []error
		for _, unknown := range missing.Errors {
			line, _ := unknown.Position()
			key := strings.Join(unknown.Key(), ".")
			all = append(all, fault.BadConfig(nearest(key, listed), "%s:%d: unknown setting %s", name, line, key))
		}
		return fault.Join(all)
	}
	var bad *toml.DecodeError
	if errors.As(err, &bad) {
		line, _ := bad.Position()
		what, do := strings.TrimPrefix(bad.Error(), "toml: "), "correct that line"
		if key := strings.Join(bad.Key(), "."); key != "" {
			if settingKey(key, true) != key && strings.Contains(what, "already exists") {
				do = asTable
			}
			what = key + ": " + what
		}
		return fault.BadConfig(do, "%s:%d: %s", name, line, what)
	}
	return fault.BadConfig("correct the file", "%s: %v", name, err)
}
