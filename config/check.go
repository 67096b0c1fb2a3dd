package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/limit"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/policy"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/signin"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Checked is a configuration that serve can start with: every value parsed,
// every file read.
type Checked struct {
	Config
	Hosts         Hosts
	Ring          *token.Ring
	Password      string   // the operators'; "" when their API is off
	OperatorHosts []string // operator.hosts and the host of operator.public_url, in lower case
	ConsoleURL    string   // operator.public_url, less what a URL may leave out; "" is unknown
	Named         []operator.Named
	Path          string // of the SQLite file
	Postgres      string // URL of the PostgreSQL database; then Path is empty
	Proxies       limit.Proxies
	Networks      limit.Networks
	APILimits     map[string]int  // requests of an organization in the window of api.rate_limit
	Counters      *limit.Server   // nil counts in memory
	Preregistered []client.Client // decision R6
	Gateways      []gateway.Key
	Providers     []provider.Config
	HandOff       *signin.HandOff // nil where there is none
	Brand         page.Branding   // how pages look
	Upstream      *url.URL        // nil without a service
	MCPUpstream   *url.URL        // nil without a service
	Guarded       []GuardedPath   // paths beside API v5
	ServiceKey    []byte          // with any of them, or PreviewURL
	PreviewURL    *url.URL        // nil where the service is not asked
	Nouns         map[string]page.Nouns
	Ruled         *rules.Rules // what calls to the service touch
	TLS           *tls.Config  // nil behind a proxy
	MailServer    *MailServer  // nil sends none
	Level         slog.Level

	listed bool // as Loaded has it
	given  given
}

// Check does all of that, short of opening the database and listening. Every
// error is a fault.Error with code 3, or 4 for a file that cannot be read, and
// has one mistake of each group of settings that has any.
func (l Loaded) Check() (Checked, error) {
	if l.File == "" && len(l.BaseURLs) == 0 {
		return Checked{}, fault.BadConfig("run: grantkeeper init",
			"configuration: there is none in %s, and base_urls is not set", DefaultFile)
	}
	c, err := check(Checked{Config: l.Config, listed: l.listed, given: l.given})
	return c, l.told(err)
}

// told says of each mistake what its value came from, where that is not the file, in which
// people would look for it.
func (l *Loaded) told(err error) error {
	all, ok := errors.AsType[fault.Several](err)
	if one, alone := errors.AsType[*fault.Error](err); alone && !ok {
		all = fault.Several{one}
	}
	var out []error
	for _, e := range all {
		key, what, _ := strings.Cut(e.What, ": ")
		if l.given[key] != "" {
			e = &fault.Error{Code: e.Code, What: l.given.told(key) + ": " + what, Hint: e.Hint, Left: e.Left}
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return err
	}
	return fault.Join(out)
}

// told names a setting, and what its value came from where that is not the file.
func (g given) told(key string) string {
	if from := g[key]; from != "" {
		return key + ", from " + from
	}
	return key
}

// Check is that of a configuration which a program has put together.
func (one Config) Check() (Checked, error) { return check(Checked{Config: one}) }

func check(c Checked) (Checked, error) {
	var wrong []error
	for _, step := range []func() error{
		c.checkHosts, c.checkService, c.checkBranding, c.checkKey, c.checkPassword, c.CheckDatabase,
		c.checkAddresses, c.checkNetworks, c.checkAPILimits, c.checkSessions, c.checkRetention, c.checkSignIn, c.checkOperators, c.checkClients, c.checkDocuments, c.checkGateways, c.CheckServiceKey, c.CheckUpstream, c.CheckMCP, c.CheckPaths, c.CheckRules, c.CheckPreview, c.checkTLS, c.checkMail, c.CheckLog,
	} {
		if err := step(); err != nil {
			wrong = append(wrong, err)
		}
	}
	if len(wrong) > 0 {
		return Checked{}, fault.Join(wrong)
	}
	return c, nil
}

func (c *Checked) checkHosts() (err error) {
	c.Hosts, err = ParseHosts(c.BaseURLs)
	if err != nil {
		return fault.BadConfig(`write base_urls = ["https://app.example.com"]`, "base_urls: %v", err)
	}
	return nil
}

func (c *Checked) checkService() error {
	if err := CheckServiceName(c.Service.Name); err != nil {
		return fault.BadConfig("take a plain name", "service.name: %v", err)
	}
	c.Nouns = map[string]page.Nouns{}
	for _, tag := range slices.Sorted(maps.Keys(c.Service.Words)) {
		nouns := page.Nouns(c.Service.Words[tag])
		if err := page.CheckNouns(tag, nouns); err != nil {
			return fault.BadConfig("correct the table [service.words."+tag+"]", "service.words.%s: %v", tag, err)
		}
		c.Nouns[tag] = nouns
	}
	return nil
}

// CheckServiceName refuses what cannot stand on pages and in the quoted string of
// a challenge (RFC 6750 section 3).
func CheckServiceName(name string) error {
	if strings.TrimSpace(name) == "" || len(name) > 100 || client.CheckName(name) != nil || strings.ContainsAny(name, `"\`) {
		return fmt.Errorf("%q is empty, too long, or has markup, quotation marks or control characters", name)
	}
	return nil
}

func (c *Checked) checkKey() error {
	keys, err := ReadKeys(c.SecretKeyFile)
	if err != nil {
		return err
	}
	c.Ring, err = token.NewRing(c.Service.TokenPrefix, keys[0].Number, keys...)
	if err != nil {
		return fault.BadConfig("correct service.token_prefix, or the key file", "secret key: %v", err)
	}
	return nil
}

func (c *Checked) checkPassword() (err error) {
	if c.Operator.PasswordFile != "" {
		c.Password, err = ReadPassword(c.Operator.PasswordFile)
	}
	return err
}

func (c *Checked) CheckDatabase() (err error) {
	if name := c.Database.URLFile; name != "" {
		if c.Database.URL, err = readDatabaseURL(name); err != nil {
			return err
		}
	}
	u, err := url.Parse(c.Database.URL)
	switch {
	case strings.HasPrefix(c.Database.URL, "postgres://"), strings.HasPrefix(c.Database.URL, "postgresql://"):
		return c.checkPostgres()
	case c.Database.MaxStaleness != 0:
		return fault.BadConfig("take it out", "database.max_staleness: SQLite always answers exactly")
	case err != nil, u.Scheme != "sqlite", u.Host != "", u.User != nil, u.RawQuery != "", u.Fragment != "",
		u.Opaque == "" && !strings.HasPrefix(u.Path, "/"), u.Opaque == "" && u.Path == "/":
		return fault.BadConfig("write sqlite:///var/lib/grantkeeper/grantkeeper.db or postgres://user@host:5432/database", "%s: not sqlite:///path/to/file, nor postgres://", c.databaseKey())
	}
	c.Path = u.Path + u.Opaque
	return nil
}

// databaseKey is the setting that the database's URL came from.
func (c *Checked) databaseKey() string {
	if c.Database.URLFile != "" {
		return "database.url_file"
	}
	return "database.url"
}

// maxStaleness bounds database.max_staleness: an end that took longer to arrive
// would be none.
const maxStaleness = time.Minute

// checkPostgres never repeats the address: it may hold a password.
func (c *Checked) checkPostgres() error {
	if err := store.CheckURL(c.Database.URL); err != nil {
		hint := "write postgres://user@host:5432/database"
		if _, file := errors.AsType[*fs.PathError](err); file {
			hint = "name a file there that can be read"
		}
		return fault.BadConfig(hint, "%s: %v", c.databaseKey(), err)
	}
	if time.Duration(c.Database.MaxStaleness) > maxStaleness {
		return fault.BadConfig("choose 0s to "+maxStaleness.String(), "database.max_staleness: %s is too long", c.Database.MaxStaleness)
	}
	c.Postgres = c.Database.URL
	return nil
}

func (c *Checked) checkAddresses() (err error) {
	if err := checkListen("http.listen", c.HTTP.Listen); err != nil {
		return err
	}
	if c.Operator.Listen != "off" {
		if err := checkListen("operator.listen", c.Operator.Listen); err != nil {
			return err
		}
	}
	if c.OperatorHosts, err = parseOperatorHosts(c.Operator.Hosts); err != nil {
		return fault.BadConfig(`write hosts = ["operators.example.com"]`, "operator.hosts: %v", err)
	}
	if err := c.readPublicURL(); err != nil {
		return err
	}
	if c.Gateway.Listen != "off" {
		if err := checkListen("gateway.listen", c.Gateway.Listen); err != nil {
			return err
		}
	}
	if h := c.HTTP.ForwardedHeader; h != "" && !slices.Contains(limit.ForwardedHeaders, h) {
		return fault.BadConfig(`write forwarded_header = "Forwarded", or leave it out`, "http.forwarded_header: %q is neither X-Forwarded-For nor Forwarded", h)
	}
	if c.Proxies, err = limit.ParseProxies(c.HTTP.TrustedProxies); err != nil {
		return fault.BadConfig(`write trusted_proxies = ["10.0.0.0/8"]`, "http.trusted_proxies: %v", err)
	}
	c.Proxies = c.Proxies.Writing(c.HTTP.ForwardedHeader)
	return nil
}

// CheckPorts refuses listeners of which one would keep another from its port: the start would
// say that it is in use, and nobody else uses it. It is for who listens: other commands do not
// know with which flags serve is started.
func (c *Checked) CheckPorts() error {
	all := []struct{ key, address string }{{"http.listen", c.HTTP.Listen}, {"operator.listen", c.Operator.Listen}, {"gateway.listen", c.Gateway.Listen}}
	for i, one := range all {
		for _, other := range all[:i] {
			if collide(one.address, other.address) {
				return fault.BadConfig("give each a port of its own", "%s: %q is taken by %s, %q", c.given.told(one.key), one.address, c.given.told(other.key), other.address)
			}
		}
	}
	return nil
}

// collide reports whether two listeners have one port, which is not the machine's to choose,
// and one address, or either has all. Those that are off have none.
func collide(one, other string) bool {
	a, err := net.ResolveTCPAddr("tcp", one) // as net.Listen does: localhost is an address too, and one is written in several ways
	b, otherErr := net.ResolveTCPAddr("tcp", other)
	return err == nil && otherErr == nil && a.Port == b.Port && a.Port != 0 &&
		(everyAddress(a) || everyAddress(b) || a.IP.Equal(b.IP) && a.Zone == b.Zone)
}

func everyAddress(at *net.TCPAddr) bool { return at.IP == nil || at.IP.IsUnspecified() }

func checkListen(key, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil && host != "" {
		if _, err = netip.ParseAddr(host); host == "localhost" {
			err = nil
		}
	}
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fault.BadConfig("write 127.0.0.1:8080, or :8080 for every address", "%s: %q is not an address and a port", key, address)
	}
	return nil
}

func (c *Checked) checkNetworks() (err error) {
	if c.Limiter.URL != "" {
		if c.Counters, err = limit.ParseServer(c.Limiter.URL); err != nil {
			return fault.BadConfig("write redis://127.0.0.1:6379/0", "limiter.url: %v", err)
		}
	}
	for _, n := range c.Limiter.Networks {
		one, err := limit.ParseNetwork(n.CIDR, n.Multiple)
		if err != nil {
			return fault.BadConfig(`write {cidr = "192.0.2.0/24", multiple = 10}`, "limiter.networks: %v", err)
		}
		c.Networks = append(c.Networks, one)
	}
	return nil
}

// checkAPILimits reads the limits of single organizations. They share the
// window, because one count serves all.
func (c *Checked) checkAPILimits() error {
	c.APILimits = map[string]int{}
	for i, one := range c.API.Limits {
		what := fmt.Sprintf("api.limits[%d] %q", i, one.Organization)
		switch _, twice := c.APILimits[one.Organization]; {
		case org.CheckID(one.Organization) != nil:
			return fault.BadConfig(`write organization = "nordlys"`, "%s: not the ID of an organization", what)
		case twice:
			return fault.BadConfig("take one of them out", "%s: it is given twice", what)
		case one.Rate.N == 0:
			return fault.BadConfig(`write rate = "6000/10m"`, "%s: it has no rate", what)
		case one.Rate.Window != c.API.RateLimit.Window:
			return fault.BadConfig("write both with one time", "%s: rate is %s, and the window of api.rate_limit is %s", what, one.Rate, c.API.RateLimit)
		}
		c.APILimits[one.Organization] = one.Rate.N
	}
	return nil
}

// leastSession is the least that a sign-in lasts unused: in less nobody reads
// what is asked, and answers.
const leastSession = Duration(time.Minute)

func (c *Checked) checkSessions() error {
	if c.Session.Idle < leastSession || c.Session.Max < c.Session.Idle {
		return fault.BadConfig(`write idle = "12h", max = "720h"`, "session: idle must be at least %s, and max not below it", leastSession)
	}
	return nil
}

// mostAttempts bounds how many attempts to connect a database keeps.
const mostAttempts = 1_000_000

// leastKept is the least that a setting may tell the database to keep: what is
// written in hours was meant in days.
const leastKept = Duration(24 * time.Hour)

func (c *Checked) checkRetention() error {
	if after := c.Approvals.EndUnusedAfter; after != 0 && Duration(after) < leastKept {
		return fault.BadConfig(`write end_unused_after = "90d", or "off"`, "approvals.end_unused_after: %s is less than a day", after)
	}
	if days := c.Approvals.MaxDays; days < 0 || days > policy.MaxDays {
		return fault.BadConfig("write max_days = 365, or 0 for no bound", "approvals.max_days: %d is not within 0 and %d", days, policy.MaxDays)
	}
	if every := c.Journal.AnchorEvery; every != 0 && every < OptionalDuration(time.Minute) {
		return fault.BadConfig(`write anchor_every = "1h", or "off"`, "journal.anchor_every: %s is less than a minute", every)
	}
	if keep := c.Activity.Keep; keep != 0 && Duration(keep) < leastKept || time.Duration(keep) > activity.Keep {
		return fault.BadConfig(`write keep = "90d", or "off"`, "activity.keep: %s is not within 1d and 90d", keep)
	}
	if keep := time.Duration(c.Attempts.Keep); keep < time.Hour || keep > 30*day {
		return fault.BadConfig(`write keep = "7d"`, "attempts.keep: %s is not within 1h and 30d", c.Attempts.Keep)
	}
	if n := c.Attempts.Max; n < 0 || n > mostAttempts {
		return fault.BadConfig("write max = 100000, or 0 to keep none", "attempts.max: %d is not within 0 and %d", n, mostAttempts)
	}
	if c.Journal.Retention < leastKept {
		return fault.BadConfig(`write retention = "365d"`, "journal.retention: %s is less than a day", c.Journal.Retention)
	}
	return nil
}

// checkGateways reads the gateways' keys, also while their listener is off.
func (c *Checked) checkGateways() error {
	if c.Gateway.Listen != "off" && len(c.Gateway.Keys) == 0 {
		return fault.BadConfig("add [[gateway.keys]], or take gateway.listen out", "gateway: it listens, and there is no key for it")
	}
	names, secrets := map[string]bool{}, map[string]string{c.Password: "operator.password_file"}
	for i, one := range c.Gateway.Keys {
		what := fmt.Sprintf("gateway.keys[%d] %q", i, one.Name)
		if org.CheckID(one.Name) != nil || names[one.Name] {
			return fault.BadConfig("give each key a name of its own, in letters and digits", "%s: the name is not plain, or given twice", what)
		}
		names[one.Name] = true
		scopes, err := readScopes(one.Scopes)
		if err != nil {
			return fault.BadConfig(`write scopes = ["forward-auth"]`, "%s: %v", what, err)
		}
		secret, err := readGatewayKey(what+" key_file", one.KeyFile)
		if err != nil {
			return err
		}
		if other, ok := secrets[secret]; ok {
			return fault.BadConfig("run: openssl rand -hex 32", "%s: %s has the same secret", what, other)
		}
		secrets[secret] = what
		c.Gateways = append(c.Gateways, gateway.Key{Name: one.Name, Secret: secret, Scopes: scopes})
	}
	return nil
}

func readScopes(names []string) (scopes []gateway.Scope, err error) {
	if len(names) == 0 {
		return nil, errors.New("it has no scope")
	}
	for _, name := range names {
		if !slices.Contains(gateway.Scopes, gateway.Scope(name)) {
			return nil, fmt.Errorf("the scope %q is not supported by this build", name)
		}
		scopes = append(scopes, gateway.Scope(name))
	}
	return scopes, nil
}

// CheckServiceKey reads what signs all that the service is told, under its name or
// its old one.
func (c *Checked) CheckServiceKey() error {
	for _, at := range []struct{ setting, file string }{{"service.key_file", c.Service.KeyFile}, {"api.upstream_key_file", c.API.UpstreamKeyFile}} {
		if at.file == "" {
			continue
		}
		key, err := readGatewayKey(at.setting, at.file)
		if err != nil {
			return err
		}
		if c.ServiceKey != nil && string(c.ServiceKey) != key {
			return fault.BadConfig("take api.upstream_key_file out: it is the old name", "service.key_file and api.upstream_key_file hold two keys")
		}
		c.ServiceKey = []byte(key)
	}
	return nil
}

// signedTo refuses an upstream without a key: a service gets no credential and has
// only the signature to believe.
func (c *Checked) signedTo(setting string) error {
	if c.Service.KeyFile == "" && c.API.UpstreamKeyFile == "" {
		return fault.BadConfig("run: openssl rand -hex 32 > FILE, and chmod 600 FILE, and set service.key_file", "%s: there is no service.key_file", setting)
	}
	return nil
}

// CheckUpstream reads where /api/v5 goes.
func (c *Checked) CheckUpstream() error {
	if c.API.Upstream == "" && c.API.UpstreamKeyFile != "" && c.MCP.Upstream == "" && c.Service.PreviewURL == "" && len(c.Paths) == 0 {
		return fault.BadConfig("set api.upstream, or take it out", "api.upstream_key_file: there is no api.upstream")
	}
	if c.API.Upstream == "" {
		return nil
	}
	if c.Upstream = hostURL(c.API.Upstream); c.Upstream == nil {
		return fault.BadConfig(`write upstream = "http://127.0.0.1:9000"`, "api.upstream: %s", noHostURL)
	}
	return c.signedTo("api.upstream")
}

// noHostURL is why hostURL gives nil, and noWholeURL why wholeURL does.
const (
	noHostURL  = "not a URL of a scheme, a host and perhaps a port, and no slash after it"
	noWholeURL = "not a whole URL of http or https, without a user and a fragment"
)

// hostURL is a wholeURL that ends with its host.
func hostURL(text string) *url.URL {
	if u := wholeURL(text); u != nil && u.Path == "" && u.RawQuery == "" && !u.ForceQuery {
		return u
	}
	return nil
}

// wholeURL reads where a service is asked; nil is no such place.
func wholeURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		strings.Contains(text, "#") || strings.HasSuffix(u.Host, ":") || !validPort(u.Port()) {
		return nil
	}
	return u
}

// CheckMCP reads where /api/v5/mcp goes, and what it may cost.
func (c *Checked) CheckMCP() error {
	m := c.MCP
	switch wait := time.Duration(m.Wait); {
	case wait < time.Second || wait > time.Hour:
		return fault.BadConfig(`write wait = "5m"`, "mcp.wait: not from 1s to 1h")
	case m.MaxBody < 64<<10 || m.MaxBody > 64<<20:
		return fault.BadConfig("write max_body = 4194304", "mcp.max_body: not from 65536 to 67108864")
	case m.Streams < 1 || m.Streams > 1_000_000:
		return fault.BadConfig("write streams = 10000", "mcp.streams: not from 1 to 1000000")
	case m.Upstream == "":
		return nil
	}
	if c.MCPUpstream = wholeURL(m.Upstream); c.MCPUpstream == nil {
		return fault.BadConfig(`write upstream = "http://127.0.0.1:9100/mcp"`, "mcp.upstream: %s", noWholeURL)
	}
	return c.signedTo("mcp.upstream")
}

// CheckPreview reads where the service is asked for previews. It believes the
// signature alone, as for calls.
func (c *Checked) CheckPreview() error {
	if c.Service.PreviewURL == "" {
		return nil
	}
	if c.PreviewURL = wholeURL(c.Service.PreviewURL); c.PreviewURL == nil {
		return fault.BadConfig(`write preview_url = "http://127.0.0.1:9000/grantkeeper/preview"`, "service.preview_url: %s", noWholeURL)
	}
	return c.signedTo("service.preview_url")
}

func (c *Checked) checkTLS() error {
	cert, key := c.HTTP.TLSCertFile, c.HTTP.TLSKeyFile
	if cert == "" && key == "" {
		return nil
	}
	if cert == "" || key == "" {
		return fault.BadConfig("set both, or neither", "http: tls_cert_file and tls_key_file belong together")
	}
	pair, err := ReadKeyPair(cert, key)
	if err != nil {
		return fault.BadConfig("see http.tls_cert_file and http.tls_key_file", "http: certificate: %v", err)
	}
	c.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	return nil
}

func (c *Checked) CheckLog() error {
	if err := c.Level.UnmarshalText([]byte(c.Log.Level)); err != nil || !PlainLevel(c.Log.Level) {
		return fault.BadConfig("use debug, info, warn or error", "log.level: %q is unknown", c.Log.Level)
	}
	switch c.Log.Format {
	case "auto", "text", "json":
		return nil
	}
	return fault.BadConfig("use auto, text or json", "log.format: %q is unknown", c.Log.Format)
}

// PlainLevel leaves out what slog would read as well, such as INFO+2.
func PlainLevel(s string) bool {
	return s == "debug" || s == "info" || s == "warn" || s == "error"
}
