package config

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
)

func TestNeedRestart(t *testing.T) {
	a, b := Checked{Config: Defaults()}, Checked{Config: Defaults()}
	b.BaseURLs, b.Log.Level, b.Clients = []string{"https://x.example"}, "debug", Clients{[]string{"any"}, true, []Client{{ID: "x"}}}
	b.HTTP.TrustedProxies, b.Limiter.Networks, b.HTTP.TLSCertFile, b.HTTP.TLSKeyFile = []string{"10.0.0.0/8"}, []Network{{}}, "c", "k"
	if got := NeedRestart(&a, &b); len(got) != 0 {
		t.Errorf("what is reread needs a restart: %v", got)
	}
	b.Gateway.Keys, b.Operator.PasswordFile, b.Branding = []GatewayKey{{Name: "x"}}, "p", Branding{"f", "a", "d", "s", []Link{{}}}
	b.API.Limits, b.Password = []APILimit{{Organization: "x"}}, "another"
	b.Operators, b.Operator.PublicURL = []NamedOperator{{Name: "x"}}, "https://ops.example"
	if got := NeedRestart(&a, &b); len(got) != 0 {
		t.Errorf("what is reread needs a restart: %v", got)
	}
	b.HTTP.Listen, b.Gateway.Listen, b.Log.Format = ":1", ":2", "text"
	if got := NeedRestart(&a, &b); !slices.Equal(got, []string{"http.listen", "gateway.listen", "log.format"}) {
		t.Errorf("need a restart: %v", got)
	}
	for _, key := range rereadSettings {
		if !slices.ContainsFunc(settings, func(s setting) bool { return s.key == key }) {
			t.Errorf("there is no setting %s", key)
		}
	}
}

// A file under the same name that says something else is a change too, and
// nothing beside it is.
func TestNeedRestartOfFiles(t *testing.T) {
	was := func() *Checked {
		return &Checked{Config: Defaults(), MailServer: &MailServer{Host: "mail.example", Password: "one"},
			HandOff: &signin.HandOff{Keys: []identity.AssertionKey{{Secret: []byte("s")}}}, Providers: []provider.Config{{ID: "a", ClientSecret: "one"}, {ID: "b"}}}
	}
	for key, change := range map[string]func(*Checked){
		"":                         func(*Checked) {},
		"mcp.upstream":             func(c *Checked) { c.MCP.Upstream, c.ServiceKey = "http://127.0.0.1:9100/mcp", []byte("other") },
		"paths":                    func(c *Checked) { c.Paths = []Path{reports} },
		"mail.password_file":       func(c *Checked) { c.MailServer.Password = "two" },
		"mail.from":                func(c *Checked) { c.Mail.From, c.MailServer.From.Address = "x@mail.example", "x@mail.example" },
		"signin.handoff.key_files": func(c *Checked) { c.HandOff.Keys = append(c.HandOff.Keys, identity.AssertionKey{Secret: []byte("t")}) },
		"signin.providers":         func(c *Checked) { c.Providers[1].ClientSecret = "two" },
	} {
		now := was()
		change(now)
		if got := strings.Join(NeedRestart(was(), now), " "); got != key {
			t.Errorf("%q changed, and %q need a restart", key, got)
		}
	}
}

// What help says of SIGHUP is what it changes: a table by its name where that is all of it.
func TestReread(t *testing.T) {
	said := Reread()
	for _, s := range settings {
		table, _, in := strings.Cut(s.key, ".")
		named := slices.Contains(said, s.key) || in && slices.Contains(said, table+".*")
		if s.list == "" && named != slices.Contains(rereadSettings, s.key) {
			t.Errorf("%s: help says that it is reread: %v", s.key, named)
		}
	}
	if !slices.Contains(said, "branding.*") || !slices.Contains(said, "http.trusted_proxies") || slices.Contains(said, "http.*") || len(slices.Compact(slices.Sorted(slices.Values(said)))) != len(said) {
		t.Errorf("%q", said)
	}
}

// The documents name every setting that SIGHUP applies, and a secret key that
// is new.
func TestRereadSettingsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	_, signals, _ := strings.Cut(string(text), "\n## Signals\n")
	signals, _, _ = strings.Cut(signals, "\n## ")
	for _, key := range append([]string{"secret_key_file"}, rereadSettings...) {
		table, _, _ := strings.Cut(key, ".")
		if !strings.Contains(signals, "`"+key+"`") && !strings.Contains(signals, "`"+table+".*`") {
			t.Errorf("docs/monitoring.md does not say that SIGHUP applies %s", key)
		}
	}
}
