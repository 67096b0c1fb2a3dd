package config

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/token"
)

func TestFaultsOfTheFileNameTheLine(t *testing.T) {
	for _, tt := range []struct{ name, text, want, hint string }{
		{"unknown key", "base_urls = []\n\n[http]\nlisten = \":1\"\ntrusted_proxy = []\n", ":5: unknown setting http.trusted_proxy", "did you mean http.trusted_proxies?"},
		{"unknown key at the top", "# c\nbaseurls = []\n", ":2: unknown setting baseurls", "did you mean base_urls?"},
		{"another case", "[session]\nIdle = \"1h\"\n", ":2: unknown setting session.Idle", "write session.idle"},
		{"both cases", "[session]\nidle = \"1h\"\nIDLE = \"700h\"\n", ":3: unknown setting session.IDLE", "write session.idle"},
		{"a table in another case", "[Clients]\ndesktop = true\n", ":1: unknown setting Clients", "write clients"},
		{"a client's in another case", "[[clients]]\nID = \"x\"\nredirect_uris = [\"y\"]\n", ":2: unknown setting clients.ID", "write clients.id"},
		{"a network's in another case", "[limiter]\nnetworks = [{Cidr = \"192.0.2.0/24\", multiple = 2}]\n", ":2: unknown setting limiter.networks.Cidr", "write limiter.networks.cidr"},
		{"unknown table", "\n[operatr]\nlisten = \":1\"\n", ":2: unknown setting operatr", "did you mean operator?"},
		{"unknown key of a client", "[[clients]]\nid = \"x\"\nredirect_uri = \"y\"\n", ":3: unknown setting clients.redirect_uri", "did you mean clients.redirect_uris?"},
		{"unknown key of a network", "[limiter]\nnetworks = [{cidr = \"192.0.2.0/24\", multiples = 2}]\n", ":2: unknown setting limiter.", "did you mean limiter.networks.multiple?"},
		{"unknown key of a gateway", "[gateway]\nlisten = \":1\"\n[[gateway.keys]]\nname = \"x\"\nkeyfile = \"y\"\n", ":5: unknown setting gateway.keys.keyfile", "did you mean gateway.keys.key_file?"},
		{"in no table", "listen = \":1\"\n", ":1: unknown setting listen", "did you mean http.listen?"},
		{"nothing like it", "xyzzy = 1\n", ":1: unknown setting xyzzy", "grantkeeper config reference"},
		{"wrong optional duration", "[approvals]\nend_unused_after = \"never\"\n", ":2: ", ""},
		{"a text for a list", "\nbase_urls = \"https://a.example\"\n", `:2: base_urls: a list of texts is wanted, such as ["one", "two"]`, ""},
		{"a number in a list", "base_urls = [3]\n", ":1: base_urls: a list of texts is wanted", ""},
		{"a number for a text", "[http]\nlisten = 3\n", `:2: http.listen: a text is wanted, such as "one"`, ""},
		{"a text for a number", "[[limiter.networks]]\nmultiple = \"2\"\n", ":2: limiter.networks.multiple: a number is wanted, such as 10", ""},
		{"a text for a bool", "[database]\nauto_migrate = \"true\"\n", ":2: database.auto_migrate: true or false is wanted", ""},
		{"a value for a table", "log = \"debug\"\n", ":1: log: a table is wanted", ""},
		{"tables for a table", "[[http]]\nlisten = \":1\"\n", ":1: http: a table is wanted", ""},
		{"a table for a time", "[session.idle]\nhours = 1\n", `:1: session.idle: a time is written`, ""},
		{"a number in a table of a list", "[limiter]\nnetworks = [{cidr = 3}]\n", ":2: limiter.networks: a list of tables is wanted, with values as config reference has them", ""},
		{"a number for a time", "[session]\n\nidle = 12\n", `:3: session.idle: a time is written "90s", "12h" or "365d"`, ""},
		{"a fraction for a time", "[session]\nmax = 1.5\n", ":2: session.max: a time is written", ""},
		{"0 for a time", "[database]\nmax_staleness = 0\n", ":2: database.max_staleness: a time is written", ""},
		{"0 for no time", "[approvals]\nend_unused_after = 0\n", `:2: approvals.end_unused_after: a time is written "90s", "12h" or "365d", and none "off"`, ""},
		{"a number for a rate", "[api]\nrate_limit = 3000\n", `:2: api.rate_limit: a rate is written "3000/10m"`, ""},
		{"wrong duration", "[session]\n\nidle = \"soon\"\n", ":3: ", ""},
		{"a time in nanoseconds", "[session]\nidle = \"12ns\"\n", `:2: session.idle: "12ns" is not a time such as 90s, 12h or 365d`, ""},
		{"wrong rate", "[api]\nrate_limit = \"3000\"\n", ":2: ", ""},
		{"not TOML", "a = 1\nb = = 2\n", ":2: ", ""},
		{"twice", "[log]\nlevel = \"info\"\nlevel = \"warn\"\n", ":3: ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := write(t, "x.toml", tt.text, 0o644)
			_, err := Load(file, nil, nil)
			text, code := refused(t, err)
			if code != 3 || !strings.Contains(text, file+tt.want) || !strings.Contains(text, tt.hint) {
				t.Errorf("code %d, %q; want %q and %q", code, text, tt.want, tt.hint)
			}
		})
	}
}

func TestUnknownVariablesAreRefused(t *testing.T) {
	for _, tt := range []struct{ variable, hint string }{
		{"GRANTKEEPER_BASE_URL", "did you mean GRANTKEEPER_BASE_URLS?"},
		{"GRANTKEEPER_LISTN", "did you mean GRANTKEEPER_LISTEN?"},
		{"GRANTKEEPER_OPERATOR_PASSWORD", "did you mean GRANTKEEPER_OPERATOR_PASSWORD_FILE?"},
	} {
		_, err := Load("", []string{"PATH=/bin", tt.variable + "=x"}, nil)
		text, code := refused(t, err)
		if code != 3 || !strings.Contains(text, tt.variable) || !strings.Contains(text, tt.hint) {
			t.Errorf("%s: code %d, %q", tt.variable, code, text)
		}
	}
	if _, err := Load("", []string{"GRANTKEEPER_LISTN=", "XGRANTKEEPER_LISTN=x", "GRANTKEEPERX=x"}, nil); err != nil {
		t.Errorf("variables that are empty or not ours: %v", err)
	}
	secret := write(t, "url", "sqlite:///a.db\n", 0o600)
	_, err := Load("", []string{"GRANTKEEPER_DATABASE_URL=sqlite:///b.db", "GRANTKEEPER_DATABASE_URL_FILE=" + secret}, nil)
	if _, code := refused(t, err); code != 3 {
		t.Errorf("both forms: code %d", code)
	}
	l, err := Load("", []string{"GRANTKEEPER_DATABASE_URL_FILE=" + secret}, nil)
	if err != nil || l.Database.URL != "sqlite:///a.db" {
		t.Errorf("_FILE: %q, %v", l.Database.URL, err)
	}
	_, err = Load("", []string{"GRANTKEEPER_SESSION_IDLE=soon"}, nil)
	if text, code := refused(t, err); code != 3 || !strings.Contains(text, "GRANTKEEPER_SESSION_IDLE") {
		t.Errorf("bad value: code %d, %q", code, text)
	}
}

// A URL with a password stands in a file of its own: for every command, on its
// own, and below the environment and flags. It is never repeated.
func TestDatabaseURLFile(t *testing.T) {
	from := write(t, "database.url", "postgres://gk:hush@db.example/gk\n", 0o600)
	file := write(t, "x.toml", fmt.Sprintf("base_urls = [\"https://file.example\"]\n[database]\nurl_file = %q\n", from), 0o644)
	l, err := Load(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := Checked{Config: l.Config}
	if err := c.CheckDatabase(); err != nil || c.Postgres != "postgres://gk:hush@db.example/gk" {
		t.Errorf("the file's: %q, %v", c.Postgres, err)
	}
	other := write(t, "other.url", "sqlite:///b.db", 0o600)
	for name, won := range map[string]func() (Loaded, error){
		"environment": func() (Loaded, error) { return Load(file, []string{"GRANTKEEPER_DATABASE_URL=sqlite:///b.db"}, nil) },
		"its file":    func() (Loaded, error) { return Load(file, []string{"GRANTKEEPER_DATABASE_URL_FILE=" + other}, nil) },
		"flag":        func() (Loaded, error) { return Load(file, nil, map[string]string{"database.url": "sqlite:///b.db"}) },
	} {
		l, err := won()
		c := Checked{Config: l.Config}
		if err == nil {
			err = c.CheckDatabase()
		}
		if err != nil || c.Path != "/b.db" || c.Postgres != "" {
			t.Errorf("%s: %q, %q, %v", name, c.Path, c.Postgres, err)
		}
	}
	both := write(t, "both.toml", fmt.Sprintf("[database]\nurl = \"sqlite:///a.db\"\nurl_file = %q\n", from), 0o644)
	_, err = Load(both, nil, nil)
	if text, code := refused(t, err); code != 3 || !strings.Contains(text, "both database.url and database.url_file") {
		t.Errorf("both: code %d, %q", code, text)
	}
	for name, bad := range map[string]struct{ file, says string }{
		"missing":        {from + ".no", "there is no file"},
		"others read it": {write(t, "open.url", "postgres://gk:hush@db.example/gk", 0o644), "chmod 600"},
		"empty":          {write(t, "empty.url", "\n", 0o600), "has not one line"},
		"two lines":      {write(t, "two.url", "postgres://gk:hush@db.example/gk\nx", 0o600), "has not one line"},
		"no URL":         {write(t, "no.url", "postgres://gk:hush@[h/d", 0o600), "database.url_file: "},
		"a folder":       {t.TempDir(), "not a regular file"},
	} {
		c := Checked{Config: Config{Database: Database{URLFile: bad.file}}}
		text, code := refused(t, c.CheckDatabase())
		if code != 3 || !strings.Contains(text, bad.says) || !strings.Contains(text, "database.url_file") || strings.Contains(text, "hush") {
			t.Errorf("%s: code %d, %q", name, code, text)
		}
	}
}

// A flag wins over the environment, that over the file, that over the default.
func TestOriginsInOrder(t *testing.T) {
	file := write(t, "x.toml", "base_urls = [\"https://file.example\"]\n[http]\nlisten = \"1.1.1.1:1\"\n[service]\nname = \"File\"\n[log]\nlevel = \"warn\"\n", 0o644)
	env := []string{"GRANTKEEPER_LISTEN=2.2.2.2:2", "GRANTKEEPER_SERVICE_NAME=Environment", "GRANTKEEPER_TRUSTED_PROXIES=10.0.0.1, 10.0.0.2"}
	flags := map[string]string{"http.listen": "3.3.3.3:3"}
	for _, named := range []struct {
		flag string
		env  []string
	}{{file, env}, {"", append(slices.Clone(env), "GRANTKEEPER_CONFIG="+file)}} {
		l, err := Load(named.flag, named.env, flags)
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Origin{
			"base_urls": "file", "http.listen": "flag", "service.name": "environment", "http.trusted_proxies": "environment", "log.level": "file",
		}
		if l.File != file || !maps.Equal(l.Origins, want) {
			t.Errorf("file %q, origins %v, want %v", l.File, l.Origins, want)
		}
		got := []string{l.BaseURLs[0], l.HTTP.Listen, l.Service.Name, l.Log.Level, l.Operator.Listen, strings.Join(l.HTTP.TrustedProxies, " ")}
		if !slices.Equal(got, []string{"https://file.example", "3.3.3.3:3", "Environment", "warn", "127.0.0.1:8081", "10.0.0.1 10.0.0.2"}) {
			t.Errorf("values %q", got)
		}
	}
	other := write(t, "other.toml", "base_urls = [\"https://other.example\"]\n", 0o644)
	if l, err := Load(file, []string{"GRANTKEEPER_CONFIG=" + other}, nil); err != nil || l.File != file {
		t.Errorf("both files are named: %q is read, %v", l.File, err)
	}
	if _, code := refused(t, func() error { _, err := Load("/nowhere/x.toml", nil, nil); return err }()); code != 3 {
		t.Errorf("a file that is not there: code %d", code)
	}
}

// Every setting is read from text, where it can be, and has a meaning; every
// key of the file can be proposed.
func TestSettingsAreComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range settings {
		if s.meaning == "" || s.key == "" || strings.HasSuffix(s.key, ".") || !slices.Contains(fileKeys(), s.key) {
			t.Errorf("%q has no meaning, no key, or cannot be proposed", s.key)
		}
		names := []string{s.key, s.env, s.flag}
		if s.file {
			names = append(names, s.env+"_FILE")
		}
		for _, name := range names {
			if name != "" && seen[name] {
				t.Errorf("%q stands for two settings", name)
			}
			seen[name] = true
		}
		if s.list != "" || isTables(s.field.Type) || s.field.Type.Kind() == reflect.Map {
			if s.env != "" || s.flag != "" {
				t.Errorf("%s is in tables, which the file alone has", s.key)
			}
			continue
		}
		c, value := Defaults(), "1m"
		switch s.kind() {
		case "rate":
			value = "7/1m"
		case "number":
			value = "7"
		case "true or false":
			value = fmt.Sprint(s.value(Defaults()) != true)
		}
		if s.secret == "url" {
			value = "sqlite:///of/another"
		}
		if err := s.set(&c, value); err != nil || reflect.DeepEqual(c, Defaults()) {
			t.Errorf("%s: sets nothing: %v", s.key, err)
		}
		if got := s.written(c); !strings.Contains(got, value) {
			t.Errorf("%s: %s is shown as %s", s.key, value, got)
		}
	}
	for _, table := range []string{"http", "limiter", "clients", "gateway.keys"} {
		if !slices.Contains(fileKeys(), table) {
			t.Errorf("%s cannot be proposed", table)
		}
	}
}

// Decision N1: what the service that it protects and its tokens are called, unless
// told otherwise.
func TestNamesOfTheService(t *testing.T) {
	for _, s := range settings {
		if s.env != "" && !strings.HasPrefix(s.env, "GRANTKEEPER_") {
			t.Errorf("the environment has %s as %s", s.key, s.env)
		}
	}
	if got := Defaults().Service; got.Name != "Svalinn" || got.TokenPrefix != "sv" || got.Words != nil || !got.PersonalItems {
		t.Errorf("by default the service is %+v", got)
	}
	for _, letters := range []string{Defaults().Service.TokenPrefix, "nk"} {
		r, err := token.NewRing(letters, 1, token.NewKey(1, [32]byte{1}))
		if err != nil {
			t.Fatal(err)
		}
		var h token.Handle
		for got, kind := range map[string]string{r.Access(h, 1, 1): "o_", r.Refresh(h, 1): "r_", r.Code(h, 1): "c_"} {
			if !strings.HasPrefix(got, letters+kind) {
				t.Errorf("%s does not begin with %s%s", got, letters, kind)
			}
		}
	}
}

// docs/configuration.md is what config reference writes.
func TestConfigurationDocument(t *testing.T) {
	var out strings.Builder
	if err := WriteReference(&out); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile("../docs/configuration.md")
	if err != nil || string(b) != out.String() {
		t.Errorf("docs/configuration.md is not what the binary says; write it: go generate ./cmd/grantkeeper (%v)", err)
	}
	for _, s := range settings {
		if !strings.Contains(out.String(), "| `"+s.key+"` |") || s.flag != "" && !strings.Contains(out.String(), "`--"+s.flag+"`") {
			t.Errorf("the page does not name %s and its flag", s.key)
		}
	}
}

// What config show writes without origins is the same configuration.
func TestConfigShowIsAFile(t *testing.T) {
	l := good(t)
	l.Service.Name = "Tab\there, \"quotes\" & <signs>"
	l.Service.Words = map[string]Words{"en": orders, "de": {"Aufträge", map[string]string{"one": "{n} Auftrag"}}}
	var out strings.Builder
	if err := l.Show(&out, false); err != nil {
		t.Fatal(err)
	}
	again, err := Load(write(t, "flat.toml", out.String(), 0o644), nil, nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	var second strings.Builder
	if err := again.Show(&second, false); err != nil || second.String() != out.String() || !reflect.DeepEqual(again.Service, l.Service) || len(again.Gateway.Keys) != 2 {
		t.Errorf("%v\n%s\nthen\n%s", err, &out, &second)
	}
}

var orders = Words{Items: "orders", Count: map[string]string{"one": "{n} order", "other": "{n} orders"}}

func TestWordsOfTheService(t *testing.T) {
	l := Loaded{Config: Defaults(), Origins: map[string]Origin{}}
	text, err := os.ReadFile("../docs/examples/preview.toml")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.decode("preview.toml", text); err != nil || !reflect.DeepEqual(l.Service.Words["en"], orders) {
		t.Errorf("%+v, %v", l.Service.Words, err)
	}
	if document := inJSON(t, l.Shown()); !strings.Contains(document, `"one": "{n} order"`) {
		t.Errorf("%s", document)
	}
	for text, want := range map[string]string{
		"[service.words.en]\nitems = 3":  ":2: service.words.en.items: a table of texts is wanted",
		"[service.words.en]\nname = 'x'": "unknown setting service.words.en.name",
		"[service]\nwords = 'x'":         "service.words: a table of texts is wanted",
	} {
		err := (&Loaded{Config: Defaults(), Origins: map[string]Origin{}}).decode("grantkeeper.toml", []byte(text))
		if got, code := refused(t, err); code != 3 || !strings.Contains(got, want) {
			t.Errorf("%s: code %d, %q", text, code, got)
		}
	}
	for tag, words := range map[string]Words{"xx": orders, "de": {Items: "Aufträge"}, "en": {Items: "or\nders", Count: orders.Count}} {
		l := good(t)
		l.Service.Words = map[string]Words{tag: words}
		_, err := l.Check()
		if got, code := refused(t, err); code != 3 || !strings.Contains(got, "service.words."+tag) {
			t.Errorf("%s: code %d, %q", tag, code, got)
		}
	}
}

// A preview is asked for at a URL, and believed as signed.
func TestCheckPreview(t *testing.T) {
	api := API{Upstream: "http://127.0.0.1:9000", UpstreamKeyFile: "x"}
	for _, good := range []string{"http://127.0.0.1:9000/preview", "https://bakery.example", "http://bakery:80/a/b?c=d"} {
		c := Checked{Config: Config{API: api, Service: Service{PreviewURL: good}}}
		if err := c.CheckPreview(); err != nil || c.PreviewURL.String() != good {
			t.Errorf("%s: %v, %v", good, c.PreviewURL, err)
		}
	}
	for _, bad := range []string{"bakery/preview", "ftp://bakery", "http://u:hidden@bakery/", "http://bakery#", "http://:9000/", "http://bakery:", "http://bakery:99999", "http:bakery"} {
		c := Checked{Config: Config{API: api, Service: Service{PreviewURL: bad}}}
		if got, code := refused(t, c.CheckPreview()); code != 3 || !strings.Contains(got, "service.preview_url") || strings.Contains(got, "hidden") {
			t.Errorf("%q: code %d, %q", bad, code, got)
		}
	}
	alone := Checked{Config: Config{API: API{UpstreamKeyFile: write(t, "key", gatewayKey, 0o600)}, Service: Service{PreviewURL: "https://bakery.example"}}}
	if err := errors.Join(alone.CheckServiceKey(), alone.CheckUpstream(), alone.CheckPreview()); err != nil || alone.Upstream != nil || string(alone.ServiceKey) != gatewayKey {
		t.Errorf("behind a proxy: %v, %q", err, alone.ServiceKey)
	}
	c := Checked{Config: Config{Service: Service{PreviewURL: "https://bakery.example"}}}
	if got, _ := refused(t, c.CheckPreview()); !strings.Contains(got, "there is no service.key_file") {
		t.Errorf("without a key: %q", got)
	}
}

func TestConfigShowHidesPasswords(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:///a.db":                               "sqlite:///a.db",
		"sqlite:///home/me@work/a.db":                  "sqlite:///home/me@work/a.db",
		"sqlite://me:hush@db.example/x":                "sqlite://me:(set)@db.example/x",
		"postgres://db.example/x":                      "postgres://db.example/x",
		"postgres://me@db.example/x":                   "postgres://me@db.example/x",
		"postgres://me:hush@db.example:5432/x?a=b":     "postgres://me:(set)@db.example:5432/x?a=b",
		"postgres://me:hush%40hush@db.example/x":       "postgres://me:(set)@db.example/x",
		"postgres://me:hush@hush@db.example/x":         hidden,
		"postgres://db.example/x?password=hush":        hidden,
		"postgres://db.example/x?sslpassword=hush":     hidden,
		"postgres://db.example/x?password=hu;hush":     hidden,
		"postgres://me:hush@[::1/x":                    hidden,
		"host=db.example user=me password=hush dbname": hidden,
		"postgres:/me:hush@db.example/x":               hidden,
		"postgres:me:hush@db.example/x":                hidden,
		"rediss:/:hush@limits.example":                 hidden,
		"redis://:1/hush@limits.example":               hidden,
		"redis://:1#hush@limits.example":               hidden,
		"redis://:1?hush@limits.example":               hidden,
		"smtp://me:hush@mail.example":                  "smtp://me:(set)@mail.example",
		"http://me:hush@127.0.0.1:9000":                "http://me:(set)@127.0.0.1:9000",
	} {
		for _, key := range []string{"database.url", "limiter.url", "mail.url", "api.upstream", "signin.handoff.url"} {
			showsAs(t, key, url, want)
		}
	}
}

// inJSON is what a command writes of a value with --json.
func inJSON(t *testing.T, v any) string {
	t.Helper()
	var out strings.Builder
	e := json.NewEncoder(&out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// showsAs wants the value of a setting shown as such, as text and as JSON.
func showsAs(t *testing.T, key, value, want string) {
	t.Helper()
	l := Loaded{Config: Defaults(), Origins: map[string]Origin{key: "environment"}}
	s := settings[slices.IndexFunc(settings, func(s setting) bool { return s.key == key })]
	if err := s.set(&l.Config, value); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := l.Show(&text, true); err != nil {
		t.Fatal(err)
	}
	for _, out := range []string{text.String(), inJSON(t, l.Shown())} {
		if strings.Contains(out, "hush") || !strings.Contains(out, `"`+want+`"`) {
			t.Errorf("%s = %s: want %s in\n%s", key, value, want, out)
		}
	}
	if !strings.Contains(text.String(), "# environment "+s.env+"\n") {
		t.Errorf("no origin in\n%s", &text)
	}
}

func TestCheck(t *testing.T) {
	c, err := good(t).Check()
	if err != nil {
		t.Fatal(err)
	}
	if c.Password != "long enough" || c.Path != "/var/lib/grantkeeper/grantkeeper.db" || len(c.Preregistered) != 1 ||
		!c.Preregistered[0].Preregistered || len(c.Networks) != 1 || c.Ring.Sealing() != 1 || c.Hosts.Base("app.example") != "https://app.example" ||
		c.Counters != nil || c.APILimits["nordlys"] != 6000 {
		t.Errorf("checked: %+v", c)
	}
	if len(c.Gateways) != 2 || c.Gateways[0].Name != "nginx" || c.Gateways[0].Secret != gatewayKey || !slices.Equal(c.Gateways[0].Scopes, []gateway.Scope{gateway.ForwardAuth}) ||
		!slices.Equal(c.Gateways[1].Scopes, []gateway.Scope{gateway.Decisions, gateway.ForwardAuth, gateway.Directory}) || c.Upstream != nil {
		t.Errorf("checked: %+v, %v", c.Gateways, c.Upstream)
	}
	shared := good(t)
	shared.Session.Idle, shared.Session.Max = leastSession, leastSession
	shared.Limiter.URL = "valkeys://u:hidden@limits.example:6380/2"
	if c, err := shared.Check(); err != nil || c.Counters == nil {
		t.Errorf("shared limits: %v, %v", c.Counters, err)
	}
	for _, tt := range []struct {
		name   string
		change func(*Loaded)
		want   string
	}{
		{"nothing at all", func(l *Loaded) { l.File, l.BaseURLs = "", nil }, "run: grantkeeper init"},
		{"no base URL", func(l *Loaded) { l.BaseURLs = nil }, "base_urls"},
		{"plain http", func(l *Loaded) { l.BaseURLs = []string{"http://app.example"} }, "base_urls"},
		{"no key file", func(l *Loaded) { l.SecretKeyFile = "/nowhere/secret.key" }, "bring back the one that the database was made with, and if it is nowhere: grantkeeper keys replace-lost; for a new installation: grantkeeper init"},
		{"token prefix", func(l *Loaded) { l.Service.TokenPrefix = "svx" }, "token prefix"},
		{"service name", func(l *Loaded) { l.Service.Name = `Sval"inn` }, "service.name"},
		{"service name", func(l *Loaded) { l.Service.Name = " " }, "service.name"},
		{"service name", func(l *Loaded) { l.Service.Name = "a\nb" }, "service.name"},
		{"postgres", func(l *Loaded) { l.Database.URL = "postgres://u:hidden@[h/d" }, "database.url"},
		{"postgres", func(l *Loaded) { l.Database.URL = "postgres://u:hidden@h/d?sslmode=no" }, "sslmode"},
		{"postgres", func(l *Loaded) {
			l.Database.URL, l.Database.MaxStaleness = "postgres://u@h/d", Duration(2*time.Minute)
		}, "database.max_staleness"},
		{"staleness of SQLite", func(l *Loaded) { l.Database.MaxStaleness = Duration(time.Second) }, "database.max_staleness"},
		{"database", func(l *Loaded) { l.Database.URL = "sqlite://host/d" }, "database.url"},
		{"database", func(l *Loaded) { l.Database.URL = "/var/d" }, "database.url"},
		{"database", func(l *Loaded) { l.Database.URL = "sqlite://" }, "database.url"},
		{"database", func(l *Loaded) { l.Database.URL = "sqlite:///d?mode=ro" }, "database.url"},
		{"listen", func(l *Loaded) { l.HTTP.Listen = "8080" }, "http.listen"},
		{"listen", func(l *Loaded) { l.HTTP.Listen = "app.example:80" }, "http.listen"},
		{"operator listen", func(l *Loaded) { l.Operator.Listen = "127.0.0.1:99999" }, "operator.listen"},
		{"operator hosts", func(l *Loaded) { l.Operator.Hosts = []string{"operators.example:8081"} }, "operator.hosts"},
		{"proxies", func(l *Loaded) { l.HTTP.TrustedProxies = []string{"0.0.0.0/0"} }, "http.trusted_proxies"},
		{"proxies", func(l *Loaded) { l.HTTP.TrustedProxies = []string{"proxy"} }, "http.trusted_proxies"},
		{"networks", func(l *Loaded) { l.Limiter.Networks[0].Multiple = 0 }, "limiter.networks"},
		{"limiter", func(l *Loaded) { l.Limiter.URL = "http://u:hidden@h" }, "limiter.url"},
		{"limiter", func(l *Loaded) { l.Limiter.URL = "redis://u:hidden@h:0" }, "limiter.url"},
		{"API limits", func(l *Loaded) { l.API.Limits[0].Organization = "a b" }, `api.limits[0] "a b": not the ID`},
		{"API limits", func(l *Loaded) { l.API.Limits[0].Rate = Rate{} }, `api.limits[0] "nordlys": it has no rate`},
		{"API limits", func(l *Loaded) { l.API.Limits[0].Rate.Window = time.Minute }, "the window of api.rate_limit is 3000/10m"},
		{"API limits", func(l *Loaded) { l.API.Limits = append(l.API.Limits, l.API.Limits[0]) }, `api.limits[1] "nordlys": it is given twice`},
		{"sessions", func(l *Loaded) { l.Session.Idle = Duration(59 * time.Second) }, "session: idle must be at least 1m"},
		{"sessions", func(l *Loaded) { l.Session.Max = l.Session.Idle - 1 }, "session"},
		{"unused for hours", func(l *Loaded) { l.Approvals.EndUnusedAfter = OptionalDuration(90 * time.Hour / 4) }, "approvals.end_unused_after"},
		{"days below", func(l *Loaded) { l.Approvals.MaxDays = -1 }, "approvals.max_days: -1 is not within 0 and 3650"},
		{"days above", func(l *Loaded) { l.Approvals.MaxDays = 3651 }, "approvals.max_days"},
		{"retention", func(l *Loaded) { l.Journal.Retention = 0 }, "journal.retention"},
		{"anchors", func(l *Loaded) { l.Journal.AnchorEvery = 59e9 }, "journal.anchor_every"},
		{"client on loopback", func(l *Loaded) { l.Clients.Preregistered[0].RedirectURIs = []string{"https://localhost/cb"} }, `clients[0] "connector"`},
		{"client at our host", func(l *Loaded) { l.Clients.Preregistered[0].RedirectURIs = []string{"https://app.example/cb"} }, `clients[0] "connector"`},
		{"client without URIs", func(l *Loaded) { l.Clients.Preregistered[0].RedirectURIs = nil }, `clients[0] "connector"`},
		{"client's id", func(l *Loaded) { l.Clients.Preregistered[0].ID = "a b" }, `clients[0] "a b"`},
		{"client twice", func(l *Loaded) { l.Clients.Preregistered = append(l.Clients.Preregistered, l.Clients.Preregistered[0]) }, `clients[1] "connector": its id is given twice`},
		{"gateway listen", func(l *Loaded) { l.Gateway.Listen = "8082" }, "gateway.listen"},
		{"gateway without keys", func(l *Loaded) { l.Gateway.Keys = nil }, "gateway: it listens"},
		{"gateway's name", func(l *Loaded) { l.Gateway.Keys[0].Name = "" }, "gateway.keys[0]"},
		{"gateway's name", func(l *Loaded) { l.Gateway.Keys[0].Name = "a b" }, "gateway.keys[0]"},
		{"gateway's name twice", func(l *Loaded) { l.Gateway.Keys[1].Name = "nginx" }, "given twice"},
		{"gateway without scopes", func(l *Loaded) { l.Gateway.Keys[0].Scopes = nil }, `"nginx": it has no scope`},
		{"a scope that comes later", func(l *Loaded) { l.Gateway.Keys[1].Scopes[1] = "directory-events" }, `"billing": the scope "directory-events" is not supported by this build`},
		{"a scope of another spelling", func(l *Loaded) { l.Gateway.Keys[0].Scopes = []string{"Decisions"} }, `"Decisions"`},
		{"gateway without a key file", func(l *Loaded) { l.Gateway.Keys[0].KeyFile = "" }, "openssl rand"},
		{"no such key file", func(l *Loaded) { l.Gateway.Keys[0].KeyFile = "/nowhere/key" }, "there is no file"},
		{"gateway key that others read", func(l *Loaded) { os.Chmod(l.Gateway.Keys[0].KeyFile, 0o640) }, "chmod 600"},
		{"short gateway key", func(l *Loaded) { l.Gateway.Keys[0].KeyFile = write(t, "k", "hidden"+gatewayKey[:25], 0o600) }, "at least 32"},
		{"gateway key of two lines", func(l *Loaded) { l.Gateway.Keys[0].KeyFile = write(t, "k", "hidden\n"+gatewayKey, 0o600) }, "one line"},
		{"two gateways with one key", func(l *Loaded) { l.Gateway.Keys[1].KeyFile = l.Gateway.Keys[0].KeyFile }, "the same secret"},
		{"a gateway with the operators' password", func(l *Loaded) {
			l.Operator.PasswordFile = l.Gateway.Keys[0].KeyFile
		}, "operator.password_file has the same secret"},
		{"keys are read while it is off", func(l *Loaded) { l.Gateway.Listen, l.Gateway.Keys[0].KeyFile = "off", "/nowhere" }, "there is no file"},
		{"half TLS", func(l *Loaded) { l.HTTP.TLSCertFile = "x" }, "belong together"},
		{"no certificate", func(l *Loaded) { l.HTTP.TLSCertFile, l.HTTP.TLSKeyFile = "/nowhere", "/nowhere" }, "certificate"},
		{"log level", func(l *Loaded) { l.Log.Level = "INFO+2" }, "log.level"},
		{"log format", func(l *Loaded) { l.Log.Format = "xml" }, "log.format"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := good(t)
			tt.change(&l)
			_, err := l.Check()
			text, code := refused(t, err)
			if code != 3 || !strings.Contains(text, tt.want) || strings.Contains(text, "hidden") {
				t.Errorf("code %d, %q, want %q", code, text, tt.want)
			}
		})
	}
}

// A service behind is named as a host, and believes a signature alone.
func TestCheckUpstream(t *testing.T) {
	key := write(t, "upstream.key", gatewayKey+"\n", 0o600)
	for _, good := range []string{"http://127.0.0.1:9000", "https://notes.example", "http://[::1]:9000", "http://notes:80"} {
		c := Checked{Config: Config{API: API{Upstream: good, UpstreamKeyFile: key}}}
		if err := errors.Join(c.CheckServiceKey(), c.CheckUpstream()); err != nil || c.Upstream.String() != good || string(c.ServiceKey) != gatewayKey {
			t.Errorf("%s: %v, %v", good, c.Upstream, err)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:9000", "ftp://127.0.0.1", "http://127.0.0.1:9000/", "http://127.0.0.1:9000/x", "http://127.0.0.1?x", "http://127.0.0.1?",
		"http://127.0.0.1#", "http://u:hidden@127.0.0.1:9000", "http://:9000", "http://127.0.0.1:", "http://127.0.0.1:99999", "http://127.0.0.1:0", "http:127.0.0.1"} {
		l := good(t)
		l.API.Upstream, l.API.UpstreamKeyFile = bad, key
		_, err := l.Check()
		if text, code := refused(t, err); code != 3 || !strings.Contains(text, "api") || strings.Contains(text, "hidden") {
			t.Errorf("%q: code %d, %q", bad, code, text)
		}
	}
	for file, want := range map[string]string{
		"": "there is no service.key_file", "/nowhere": "there is no file", write(t, "k", "hidden", 0o600): "at least 32", write(t, "k", gatewayKey, 0o644): "chmod 600",
	} {
		l := good(t)
		l.API.Upstream, l.API.UpstreamKeyFile = "http://127.0.0.1:9000", file
		_, err := l.Check()
		if text, code := refused(t, err); code != 3 || !strings.Contains(text, want) || strings.Contains(text, "hidden") {
			t.Errorf("%q: code %d, %q, want %q", file, code, text, want)
		}
	}
}

// The MCP server behind is named by its whole URL, believes a signature alone, and
// costs no more than is said (decision V1).
func TestCheckMCP(t *testing.T) {
	key := write(t, "service.key", gatewayKey+"\n", 0o600)
	for _, url := range []string{"http://127.0.0.1:9100/mcp", "https://mcp.example", "http://[::1]:9100/", "http://mcp:80/a/b?tenant=1"} {
		l := good(t)
		l.MCP.Upstream, l.Service.KeyFile = url, key
		if c, err := l.Check(); err != nil || c.MCPUpstream.String() != url || string(c.ServiceKey) != gatewayKey {
			t.Errorf("%s: %v, %v", url, c.MCPUpstream, err)
		}
	}
	for _, bad := range []string{"127.0.0.1:9100", "ftp://127.0.0.1/mcp", "http://127.0.0.1/mcp#", "http://127.0.0.1/mcp#x", "http://u:hidden@127.0.0.1/mcp", "http:///mcp", "http://:9100/mcp", "http://127.0.0.1:/mcp", "http://127.0.0.1:0/mcp", "/mcp"} {
		l := good(t)
		l.MCP.Upstream, l.Service.KeyFile = bad, key
		_, err := l.Check()
		if text, code := refused(t, err); code != 3 || !strings.Contains(text, "mcp.upstream") || strings.Contains(text, "hidden") {
			t.Errorf("%q: code %d, %q", bad, code, text)
		}
	}
	for want, change := range map[string]func(*Config){
		"no service.key_file": func(c *Config) { c.MCP.Upstream = "http://127.0.0.1:9100/mcp" },
		"mcp.wait":            func(c *Config) { c.MCP.Wait = Duration(time.Hour + time.Second) },
		"mcp.wait: ":          func(c *Config) { c.MCP.Wait = Duration(time.Millisecond) },
		"mcp.max_body":        func(c *Config) { c.MCP.MaxBody = 64<<10 - 1 },
		"mcp.max_body: ":      func(c *Config) { c.MCP.MaxBody = 64<<20 + 1 },
		"mcp.streams":         func(c *Config) { c.MCP.Streams = 0 },
		"mcp.streams: ":       func(c *Config) { c.MCP.Streams = 1_000_001 },
	} {
		l := good(t)
		change(&l.Config)
		_, err := l.Check()
		if text, code := refused(t, err); code != 3 || !strings.Contains(text, want) {
			t.Errorf("code %d, %q, want %q", code, text, want)
		}
	}
}

// The key that signs has two names for a while, and is one key (decision V16).
func TestCheckServiceKey(t *testing.T) {
	key, same, other := write(t, "a.key", gatewayKey, 0o600), write(t, "b.key", gatewayKey+"\n", 0o600), write(t, "c.key", strings.ToUpper(gatewayKey), 0o600)
	for _, c := range []struct{ now, old, want string }{
		{key, "", ""}, {"", key, ""}, {key, same, ""}, {key, key, ""}, {key, other, "two keys"}, {"/nowhere", "", "service.key_file"}, {"", "", "no service.key_file"},
	} {
		l := good(t)
		l.API.Upstream, l.Service.KeyFile, l.API.UpstreamKeyFile = "http://127.0.0.1:9000", c.now, c.old
		checked, err := l.Check()
		if c.want == "" {
			if err != nil || string(checked.ServiceKey) != gatewayKey {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if text, code := refused(t, err); code != 3 || !strings.Contains(text, c.want) {
			t.Errorf("%+v: code %d, %q", c, code, text)
		}
	}
}

func TestHosts(t *testing.T) {
	for _, tt := range []struct{ url, host, base string }{
		{"https://App.Example", "app.example", "https://app.example"},
		{"https://app.example:443", "app.example:443", "https://app.example"},
		{"https://app.example:8443", "APP.example:8443", "https://app.example:8443"},
		{"https://192.0.2.1", "192.0.2.1", "https://192.0.2.1"},
		{"https://[2001:DB8::1]", "[2001:db8::1]:443", "https://[2001:db8::1]"},
		{"http://localhost:80", "localhost", "http://localhost"},
		{"http://127.0.0.1:8080", "127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"http://[::1]:8080", "[::1]:8080", "http://[::1]:8080"},
		{"http://a.localhost", "a.localhost:80", "http://a.localhost"},
	} {
		h, err := ParseHosts([]string{tt.url})
		if err != nil || h.Base(tt.host) != tt.base {
			t.Errorf("%s: asked for %s, base %q, %v", tt.url, tt.host, h.Base(tt.host), err)
		}
	}
	for _, bad := range []string{
		"", "app.example", "ftp://app.example", "HTTPS:app.example", "https://", "https://app.example/", "https://app.example/x", "https://app.example?x",
		"https://app.example?", "https://app.example#", "https://u@app.example", "https://app.example:0", "https://app.example:65536", "https://app.example:",
		"https://app.example:080", "https://app..example", "https://-app.example", "https://äpp.example", "https://app.example.", "https://a b.example",
		"http://app.example", "http://192.0.2.1", "http://localhost.example", "http://[fe80::1%25eth0]", "https://app_.example",
		// No client asks for an address in these forms: each would get 421.
		"https://[2001:db8:0:0::1]", "https://[2001:0db8::1]", "http://[0:0:0:0:0:0:0:1]:8080", "https://192.0.2", "https://192.0.02.1", "https://0x7f.1", "https://app.0x1",
	} {
		if h, err := ParseHosts([]string{bad}); err == nil {
			t.Errorf("%q was taken: %+v", bad, h)
		}
	}
	for _, same := range [][]string{
		{"https://a.example", "https://a.example:443"}, {"https://a.example", "https://A.example"},
		{"http://localhost", "https://localhost"}, {"http://localhost:443", "https://localhost"}, {"https://localhost:80", "http://localhost"},
	} {
		if _, err := ParseHosts(same); err == nil {
			t.Errorf("%v were taken", same)
		}
	}
	two, err := ParseHosts([]string{"https://a.example", "https://a.example:8443"})
	if err != nil || two.Base("a.example:8443") != "https://a.example:8443" || two.Base("a.example") != "https://a.example" {
		t.Errorf("two ports of one host: %+v, %v", two, err)
	}
}

// Under dev every loopback name and address is believed, and nothing else.
func TestHostsOfDev(t *testing.T) {
	h := Hosts{dev: true, seen: new(seenHosts)}
	for port := range 3 * maxSeenHosts {
		want := fmt.Sprintf("http://localhost:%d", port+1000)
		for range 2 {
			if got := h.Base(fmt.Sprintf("LocalHost:%d", port+1000)); got != want {
				t.Fatalf("%q, want %q", got, want)
			}
		}
	}
	remembered := 0
	h.seen.bases.Range(func(any, any) bool { remembered++; return true })
	if remembered != maxSeenHosts {
		t.Errorf("%d hosts are remembered", remembered)
	}
	for host, want := range map[string]string{
		"localhost": "http://localhost", "LOCALHOST:8080": "http://localhost:8080", "127.0.0.1:80": "http://127.0.0.1", "127.9.9.9:1": "http://127.9.9.9:1",
		"[::1]:8080": "http://[::1]:8080", "[::ffff:127.0.0.1]:1": "http://[::ffff:127.0.0.1]:1", "x.localhost": "http://x.localhost",
		"": "", "evil.example": "", "localhost.evil.example": "", "127.0.0.1.evil.example": "", "10.0.0.1": "", "[fe80::1]": "", "0.0.0.0": "",
		"evil.example@localhost": "", "localhost/x": "", "localhost?x": "", "localhost#x": "", "localhost:0": "", "localhost:x": "", "localhost:": "", "local host": "",
	} {
		if got := h.Base(host); got != want {
			t.Errorf("Host %q: %q, want %q", host, got, want)
		}
	}
}

func TestSecretFilesAreTheirOwnersAlone(t *testing.T) {
	key := strings.Repeat("0f1e2d3c", 8)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o620: false, 0o660: false, 0o601: false} {
		file := write(t, "secret.key", key, mode)
		_, err := ReadKeys(file)
		if ok != (err == nil) {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if !ok {
			if text, code := refused(t, err); code != 3 || !strings.Contains(text, "chmod 600 "+file) {
				t.Errorf("mode %04o: code %d, %q", mode, code, text)
			}
		}
		if _, err := ReadPassword(file); ok != (err == nil) {
			t.Errorf("password of mode %04o: %v", mode, err)
		}
	}
	for _, bad := range []string{"", "\n", "short", "two lines\nof text\n"} {
		if _, err := ReadPassword(write(t, "password", bad, 0o600)); err == nil {
			t.Errorf("password %q was taken", bad)
		}
	}
	if _, err := ReadKeys(t.TempDir()); err == nil {
		t.Error("a folder was taken for a key")
	}
}

func TestKeyFiles(t *testing.T) {
	raw := make([]byte, 32)
	for i := range raw {
		raw[i] = byte(200 + i)
	}
	other := slices.Clone(raw)
	other[0] = 1
	std, urlSafe, plain := base64.StdEncoding.EncodeToString, base64.URLEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	one, err := parseKeys(raw)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{std(raw), urlSafe(raw) + "\n", plain(raw) + "\r\n", hex.EncodeToString(raw), strings.ToUpper(hex.EncodeToString(raw)) + "\n\n", "# a key\n1:" + std(raw)} {
		keys, err := parseKeys([]byte(text))
		if err != nil || len(keys) != 1 || keys[0].Number != 1 || keys[0].Fingerprint() != one[0].Fingerprint() {
			t.Errorf("%q: %v", text, err)
		}
	}
	keys, err := parseKeys([]byte("3:" + std(other) + "\n# the first seals\n1:" + std(raw) + "\n"))
	if err != nil || len(keys) != 2 || keys[0].Number != 3 || keys[1].Fingerprint() != one[0].Fingerprint() {
		t.Errorf("several keys: %v, %v", keys, err)
	}
	for _, bad := range []string{
		"", "\n", "# nothing", "short", std(raw[:31]), std(append(slices.Clone(raw), 1)), hex.EncodeToString(raw[:16]), "thirty-two characters of a text!",
		string(make([]byte, 32)), strings.Repeat("00", 32), std(raw) + "\n" + std(other), "1:" + std(raw) + "\n" + std(other), std(raw) + "\n2:" + std(other),
		"0:" + std(raw), "-1:" + std(raw), "x:" + std(raw), "01:" + std(raw), "1:" + std(raw) + " x",
	} {
		if keys, err := parseKeys([]byte(bad)); err == nil {
			t.Errorf("%q was taken: %v", bad, keys)
		} else if len(bad) > 20 && strings.Contains(err.Error(), bad[:20]) {
			t.Errorf("the error repeats the key: %v", err)
		}
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "12h": 12 * time.Hour, "365d": 365 * 24 * time.Hour, "0s": 0, "50ms": 50 * time.Millisecond} {
		var d Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
	for text, want := range map[string]string{"0s": "0s", "90s": "1m30s", "60m": "1h", "12h": "12h", "24h": "24h", "25h": "25h", "720h": "720h", "8760h": "365d", "876000h": "36500d"} {
		var d, again Duration
		if err := errors.Join(d.UnmarshalText([]byte(text)), again.UnmarshalText([]byte(d.String()))); err != nil || d.String() != want || again != d {
			t.Errorf("%s is written %s, and read again %s: %v", text, d, again, err)
		}
	}
	for _, bad := range []string{"", "5", "-1h", "-1d", "d", "1.5d", "99999999d", "1w", "12ns", "1500us", "36501d", "876001h"} {
		var d Duration
		if err := d.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was taken: %v", bad, d)
		}
	}
	for text, want := range map[string]OptionalDuration{"off": 0, "90d": OptionalDuration(90 * day)} {
		var d OptionalDuration
		if err := d.UnmarshalText([]byte(text)); err != nil || d != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
	}
}

// Zero is no time for a setting that may be off, wherever it is written: it would be off.
func TestNoTimeIsWrittenOff(t *testing.T) {
	for _, zero := range []string{"0s", "0d", "0h", "0"} {
		for _, s := range settings {
			if s.field.Type != reflect.TypeFor[OptionalDuration]() {
				continue
			}
			_, err := Load(write(t, "grantkeeper.toml", fmt.Sprintf("%s = %q\n", s.key, zero), 0o600), nil, nil)
			if text, code := refused(t, err); code != 3 || !strings.Contains(text, `is no time: none is written "off"`) {
				t.Errorf("%s = %s: %d, %s", s.key, zero, code, text)
			}
		}
	}
	_, err := Load(write(t, "grantkeeper.toml", "", 0o600), []string{"GRANTKEEPER_ACTIVITY_KEEP=0d"}, nil)
	if text, code := refused(t, err); code != 3 || !strings.Contains(text, `GRANTKEEPER_ACTIVITY_KEEP: "0d" is no time`) {
		t.Errorf("the environment's: %d, %s", code, text)
	}
}

// Hosts that are taken are those that a browser would mean, and two spellings
// of one host never become two.
func FuzzHosts(f *testing.F) {
	for _, s := range []string{"https://app.example", "http://localhost:80", "https://[::1]:443", "https://a@b", "https://A.example:8443", "http://127.1", "https://%61.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		h, err := ParseHosts([]string{s})
		if err != nil {
			return
		}
		base := h.List()[0]
		_, host, _ := strings.Cut(base, "://")
		again, err := ParseHosts([]string{base})
		if err != nil || again.List()[0] != base {
			t.Fatalf("%q gives %q, which gives %v, %v", s, base, again.List(), err)
		}
		if h.Base(host) != base || h.Base(strings.ToUpper(host)) != base || strings.ToLower(base) != base || strings.HasSuffix(base, "/") {
			t.Fatalf("%q gives %q, asked for %q: %q", s, base, host, h.Base(host))
		}
		if _, err := ParseHosts([]string{s, base}); err == nil {
			t.Fatalf("%q and %q were taken together", s, base)
		}
		if strings.HasPrefix(base, "http:") && !client.Loopback(h.Names()[0]) {
			t.Fatalf("%q is plain http beyond loopback", s)
		}
	})
}

// operator.hosts are names and addresses as browsers write them, without a port.
func TestOperatorHosts(t *testing.T) {
	if names, err := parseOperatorHosts([]string{"Ops.Example", "2001:db8::99"}); err != nil || !slices.Equal(names, []string{"ops.example", "2001:db8::99"}) {
		t.Errorf("%q, %v", names, err)
	}
	for _, bad := range []string{"", "ops.example:8081", "ops.example.", "*", "*.example", "https://ops.example", "ops.example/", "a@ops.example", "[::1]", "::1%lo", "2001:DB8:0::99", "127.1", "ümlaut.example"} {
		if names, err := parseOperatorHosts([]string{bad}); err == nil {
			t.Errorf("operator.hosts takes %q as %q", bad, names)
		}
	}
}

// Listeners whose port the machine chooses, that are off or at other addresses are let be.
func TestListenersBesideEachOther(t *testing.T) {
	for _, tt := range [][2]string{{"127.0.0.1:0", "127.0.0.1:0"}, {"127.0.0.1:8080", "10.0.0.1:8080"}, {":8080", ":8081"}, {"127.0.0.1:8080", "[::1]:8080"}, {"[fe80::1%lo]:8080", "[fe80::1%eth0]:8080"}, {"off", "off"}, {":8080", "off"}} {
		if collide(tt[0], tt[1]) || collide(tt[1], tt[0]) {
			t.Errorf("%q beside %q is refused", tt[0], tt[1])
		}
	}
}

// Those that have one port at one address are refused, whichever has all of them: 0.0.0.0 has
// those of IPv6 as well (net.Listen).
func TestListenersThatCollide(t *testing.T) {
	for _, tt := range [][2]string{{"127.0.0.1:8080", "127.0.0.1:8080"}, {":8080", "127.0.0.1:8080"}, {":8080", "[::1]:8080"}, {"0.0.0.0:8080", "127.0.0.1:8080"},
		{"0.0.0.0:8080", "[::1]:8080"}, {"[::]:8080", "127.0.0.1:8080"}, {"[::]:8080", "0.0.0.0:8080"}, {":8080", "0.0.0.0:8080"}, {"localhost:8080", "0.0.0.0:8080"}, {"127.0.0.1:https", ":443"},
		{"localhost:8080", "127.0.0.1:8080"}, {"[::1]:8080", "[0:0:0:0:0:0:0:1]:8080"}, {"127.0.0.1:8080", "[::ffff:127.0.0.1]:8080"}} {
		if !collide(tt[0], tt[1]) || !collide(tt[1], tt[0]) {
			t.Errorf("%q beside %q is taken", tt[0], tt[1])
		}
	}
}

// Who listens is told which listener has the port of another one; who does not is not.
func TestCheckPorts(t *testing.T) {
	for want, change := range map[string]func(*Loaded){
		"": func(*Loaded) {},
		`operator.listen: "127.0.0.1:8081" is taken by http.listen, "127.0.0.1:8081"`: func(l *Loaded) { l.HTTP.Listen, l.Operator.Listen = "127.0.0.1:8081", "127.0.0.1:8081" },
		`gateway.listen: "[::1]:8080" is taken by http.listen, ":8080"`:               func(l *Loaded) { l.Gateway.Listen = "[::1]:8080" },
		`operator.listen, from --operator-listen: "0.0.0.0:443" is taken by http.listen, from GRANTKEEPER_LISTEN, "127.0.0.1:https"`: func(l *Loaded) {
			l.HTTP.Listen, l.Operator.Listen = "127.0.0.1:https", "0.0.0.0:443"
			l.given = given{"http.listen": "GRANTKEEPER_LISTEN", "operator.listen": "--operator-listen"}
		},
	} {
		l := good(t)
		change(&l)
		c, err := l.Check()
		if err != nil {
			t.Fatalf("%q: %v", want, err)
		}
		if err := c.CheckPorts(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A mistake in what the environment or a flag has is not looked for in the file.
func TestMistakesSayWhereTheyAre(t *testing.T) {
	dir := t.TempDir()
	file := write(t, "grantkeeper.toml", "base_urls = [\"https://app.example\"]\nsecret_key_file = \""+filepath.Join(dir, "none")+"\"\n[http]\nlisten = \"1\"\n", 0o600)
	for _, tt := range []struct {
		environ []string
		flags   map[string]string
		want    string
	}{
		{nil, nil, `http.listen: "1"`},
		{[]string{"GRANTKEEPER_LISTEN=2"}, nil, `http.listen, from GRANTKEEPER_LISTEN: "2"`},
		{[]string{"GRANTKEEPER_LISTEN=2"}, map[string]string{"http.listen": "3"}, `http.listen, from --listen: "3"`},
	} {
		l, err := Load(file, tt.environ, tt.flags)
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.Check()
		if text := err.Error(); !strings.Contains(text, tt.want) || !strings.Contains(text, "secret_key_file: ") {
			t.Errorf("%q, want %q", text, tt.want)
		}
	}
}

// What is set and does nothing is named.
func TestWhatDoesNothingIsNamed(t *testing.T) {
	for what, tt := range map[string]struct {
		set  func(l *Loaded)
		want string // the setting that is named
	}{
		"as it should be":    {func(*Loaded) {}, ""},
		"no gateway":         {func(l *Loaded) { l.Gateway.Listen = "off" }, "gateway.keys"},
		"no console":         {func(l *Loaded) { l.Operator.Listen = "off" }, "operators"},
		"nobody is believed": {func(l *Loaded) { l.HTTP.ForwardedHeader, l.HTTP.TrustedProxies = "Forwarded", nil }, "http.forwarded_header"},
		"one is":             {func(l *Loaded) { l.HTTP.ForwardedHeader, l.HTTP.TrustedProxies = "Forwarded", []string{"10.0.0.0/8"} }, ""},
	} {
		c := good(t)
		tt.set(&c)
		checked, err := c.Check()
		if err != nil {
			t.Fatal(what, err)
		}
		checked.Named = append(checked.Named, operator.Named{Name: "ingrid"})
		all := checked.IdleWarnings()
		if tt.want == "" && len(all) > 0 || tt.want != "" && (len(all) != 1 || !strings.HasPrefix(all[0], tt.want+": ")) {
			t.Errorf("%s: %q, want %q", what, all, tt.want)
		}
	}
}
