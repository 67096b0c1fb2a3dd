package doctor

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// healthy is what is learned of an installation that lacks nothing.
func healthy(t *testing.T) *Examination {
	t.Helper()
	l := good(t)
	l.BaseURLs, l.Limiter.Networks, l.Service.Unlisted = []string{"https://app.example"}, nil, "service"
	c, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	c.Path = filepath.Join(t.TempDir(), "grantkeeper.db")
	now := time.Unix(1_800_000_000, 0)
	base := "https://app.example"
	document := func(path string) map[string]any { return map[string]any{"resource": base + path} }
	return &Examination{Loaded: l, Checked: c, Now: now, Server: "http://127.0.0.1:8081", Version: "0.1.0",
		Status: Status{Version: operator.Version{Version: "0.1.0"}, Now: now.Unix(), Schema: store.SchemaVersion, Bytes: 1 << 20,
			Integrity: "ok", LastBackup: now.Unix() - 3600, Seen: operator.Seen{Addresses: 3}},
		bases: []*asked{{base: base, at: now, date: now, metadata: map[string]any{"issuer": base, "token_endpoint": base + "/oauth/token"},
			resources: c.Resources().All(), documents: map[string]map[string]any{"/api/v5": document("/api/v5"), "/api/v5/mcp": document("/api/v5/mcp")},
			status: http.StatusUnauthorized,
			header: []string{`Bearer realm="x", resource_metadata="` + base + `/.well-known/oauth-protected-resource/api/v5"`}}},
	}
}

// That nothing ends refresh tokens is a warning with --strict alone, and none
// where something does.
func TestDoctorOnRefreshTokens(t *testing.T) {
	for _, tt := range []struct {
		after  config.OptionalDuration
		days   int
		strict bool
		want   string
	}{
		{0, 0, false, "ok never end by themselves, since approvals.end_unused_after is off"},
		{0, 30, true, "ok end with an approval, which lasts 30 days at most"},
		{0, 0, true, "warn never end by themselves, since approvals.end_unused_after is off"},
		{config.OptionalDuration(90 * 24 * time.Hour), 0, true, "ok end with an approval that nobody used for 90d"},
	} {
		d := healthy(t)
		d.Strict, d.Checked.Approvals.EndUnusedAfter, d.Checked.Approvals.MaxDays = tt.strict, tt.after, tt.days
		all := d.Findings([]string{"refresh-tokens"})
		if len(all) != 1 || all[0].Result+" "+all[0].Text != tt.want {
			t.Errorf("%v, strict %v: %+v, want %q", tt.after, tt.strict, all, tt.want)
		}
	}
}

// A check that cannot be made is none that passes: asked for alone, it says what is in its way.
func TestDoctorOnOneCheckThatCannotBe(t *testing.T) {
	broken := func(d *Examination) {
		d.Loaded, d.Checked, d.bases, d.ConfigErr = config.Loaded{}, config.Checked{}, nil, fault.BadConfig("", "broken")
	}
	silent := func(d *Examination) {
		d.Status, d.StatusErr, d.Missing = Status{}, fault.CannotOpen("", "silent"), []string{Unanswered}
	}
	unreached := func(d *Examination) {
		d.bases = []*asked{{base: "https://app.example", err: errors.New("unreached")}}
	}
	for name, tt := range map[string]struct {
		hurt []func(*Examination)
		pass string // which are judged all the same, with commas
	}{
		"configuration": {[]func(*Examination){broken}, "server,clock,client-address,expired-rows,backup,version"},
		"server": {[]func(*Examination){silent}, "configuration,secret-key,data-directory,database,base-url,resources,challenge," +
			"upstream,mcp-upstream,paths,preview,provider,handoff,mail,operator-listener,limits,refresh-tokens,version"},
		"base URL": {[]func(*Examination){unreached}, "configuration,secret-key,data-directory,server,database,client-address,upstream,mcp-upstream,paths," +
			"preview,rules,provider,handoff,mail,operator-listener,limits,refresh-tokens,expired-rows,backup,version"},
		"all": {[]func(*Examination){broken, silent}, "version"},
	} {
		d := healthy(t)
		for _, hurt := range tt.hurt {
			hurt(d)
		}
		var pass []string
		for _, only := range Names() {
			if !slices.ContainsFunc(d.Findings([]string{only}), func(f Finding) bool { return f.Result == "fail" }) {
				pass = append(pass, only)
			}
		}
		if got := strings.Join(pass, ","); got != tt.pass {
			t.Errorf("%s: these pass:\n%s, want\n%s", name, got, tt.pass)
		}
		if lines := d.Findings(nil); len(tt.hurt) != len(slices.DeleteFunc(lines, func(f Finding) bool { return f.Result != "fail" })) {
			t.Errorf("%s: told more than once: %+v", name, lines)
		}
	}
	d := healthy(t)
	if broken(d); !strings.HasPrefix(d.judgeDatabase().Text, "of http://127.0.0.1:8081, ") {
		t.Errorf("the database of a server whose configuration is not known: %+v", d.judgeDatabase())
	}
}

// Each fault gives its one line, with what mends it, and nothing else changes.
func TestDoctorFindings(t *testing.T) {
	well := map[string]string{}
	for _, f := range healthy(t).Findings(nil) {
		if f.Result != "ok" {
			t.Errorf("a healthy installation: %+v", f)
		}
		well[f.Name] = f.Result
	}
	for _, tt := range []struct {
		name, result, text, fix string
		spoil                   func(*Examination)
	}{
		{"server", "fail", "http://127.0.0.1:8081 is not ready: the database does not answer a write", "room", func(d *Examination) { d.Missing = []string{"the database does not answer a write"} }},
		{"database", "fail", "; its disk is full: it refused something 1 second ago", "make room for PostgreSQL's tables", func(d *Examination) {
			d.Status.Refused = &operator.RefusedObject{Cause: "its disk is full", Ago: 1}
		}},
		{"database", "warn", "; it refused something 30 seconds ago, as it has no connection left, and takes writes again", "max_connections", func(d *Examination) {
			d.Status.Refused = &operator.RefusedObject{Cause: "it has no connection left", Ago: 30, Over: true}
		}},
		{"database", "fail", "; it is read-only: it refused something 2 seconds ago", "default_transaction_read_only", func(d *Examination) {
			d.Status.Refused = &operator.RefusedObject{Cause: "it is read-only", Ago: 2}
		}},
		{"database", "fail", "; this user lacks a right: it refused something 2 seconds ago", "GRANT SELECT, INSERT", func(d *Examination) {
			d.Status.Refused = &operator.RefusedObject{Cause: store.NoRight, Ago: 2}
		}},
		{"database", "fail", "; it does not answer in time: it refused something 2 seconds ago", "pg_stat_activity", func(d *Examination) {
			d.Status.Refused = &operator.RefusedObject{Cause: store.Slow, Ago: 2}
		}},
		{"database", "fail", "; a table is gone: it refused something 2 seconds ago", "restore", func(d *Examination) {
			d.Status.Refused = &operator.RefusedObject{Cause: store.NoTable, Ago: 2}
		}},
		{"database", "fail", "; it went back in time, as was seen on 2027-01-15", "backup restore FILE", func(d *Examination) { d.Status.WentBack = d.Now.Unix() }},
		{"database", "fail", "; it went back in time", "end all approvals where it runs", func(d *Examination) {
			d.Status.WentBack, d.Checked.Postgres, d.Elsewhere = d.Now.Unix(), "postgres://", true
		}},
		{"database", "fail", "; it went back in time", "end all approvals: grantkeeper backup restore", func(d *Examination) {
			d.Status.WentBack, d.Checked.Postgres = d.Now.Unix(), "postgres://"
		}},
		{"server", "fail", "is not ready: the database does not answer a write: its disk is full", "room", func(d *Examination) {
			d.StatusErr, d.Missing = fmt.Errorf("the database cannot answer now"), []string{"the database does not answer a write: its disk is full"}
		}},
		{"clock", "warn", "the server's clock is 31s off", "NTP", func(d *Examination) { d.Status.Now += 31 }},
		{"clock", "warn", "the clock behind https://app.example is 1m0s off", "NTP", func(d *Examination) { d.bases[0].date = d.Now.Add(-time.Minute) }},
		{"base-url", "fail", "https://app.example does not answer: gone", "proxy", func(d *Examination) { d.bases[0].err = fmt.Errorf("gone") }},
		{"base-url", "fail", "has no metadata", "base_urls", func(d *Examination) { delete(d.bases[0].metadata, "issuer") }},
		{"base-url", "fail", "says that it is http://app.example", "base_urls", func(d *Examination) { d.bases[0].metadata["issuer"] = "http://app.example" }},
		{"base-url", "fail", "token_endpoint leads elsewhere: https://inner/oauth/token", "Host", func(d *Examination) { d.bases[0].metadata["token_endpoint"] = "https://inner/oauth/token" }},
		{"base-url", "fail", "leads elsewhere", "Host", func(d *Examination) { d.bases[0].metadata["token_endpoint"] = "https://app.example.evil/oauth/token" }},
		{"resources", "fail", "oauth-protected-resource/reports is not its document", "well-known", func(d *Examination) {
			d.bases[0].resources = append(d.bases[0].resources, client.Resource{Path: "/reports"})
		}},
		{"resources", "fail", "oauth-protected-resource/api/v5/mcp is not its document", "well-known", func(d *Examination) { delete(d.bases[0].documents, "/api/v5/mcp") }},
		{"challenge", "fail", "does not ask for a credential", "WWW-Authenticate", func(d *Examination) { d.bases[0].header = nil }},
		{"challenge", "fail", "does not ask for a credential", "WWW-Authenticate", func(d *Examination) { d.bases[0].status = 200 }},
		{"challenge", "fail", "does not lead to https://app.example/", "Host", func(d *Examination) { d.bases[0].header[0] = `Bearer resource_metadata="https://inner/"` }},
		{"client-address", "warn", "requests arrive from 10.0.0.4 only: all people share one rate limit", `set http.trusted_proxies = ["10.0.0.4/32"]`,
			func(d *Examination) {
				d.Status.Seen = operator.Seen{Addresses: 1, Only: "10.0.0.4", Unbelieved: "10.0.0.4"}
				d.Checked.HTTP.TrustedProxies = nil
			}},
		{"client-address", "warn", "from 2001:db8::4 only", `["2001:db8::4/128"]`, func(d *Examination) {
			d.Status.Seen = operator.Seen{Addresses: 1, Only: "2001:db8::4"}
			d.Checked.HTTP.TrustedProxies = nil
		}},
		{"client-address", "warn", "10.0.0.5 forwards requests for others", "10.0.0.5/32", func(d *Examination) {
			d.Status.Seen.Unbelieved, d.Checked.HTTP.TrustedProxies = "10.0.0.5", nil
		}},
		{"client-address", "warn", "10.0.0.4 is in http.trusted_proxies, and sends no header that is believed", "X-Forwarded-For", func(d *Examination) {
			d.Status.Seen = operator.Seen{Addresses: 1, Only: "10.0.0.4", Unbelieved: "10.0.0.4"}
			d.Checked.HTTP.TrustedProxies = []string{"10.0.0.0/8"}
		}},
		{"operator-listener", "warn", "can be reached from other machines", "operator.listen", func(d *Examination) { d.Checked.Operator.Listen = ":8081" }},
		{"operator-listener", "fail", "https://app.example/readyz is answered to everybody", "proxy", func(d *Examination) { d.bases[0].operator = true }},
		{"operator-listener", "warn", "its API is off", "password_file", func(d *Examination) { d.Checked.Password = "" }},
		{"limits", "fail", "3 nodes count rate limits each for itself: clients get up to 3 times", "limiter.url",
			func(d *Examination) { d.Status.Nodes, d.Status.Limits = 3, "memory" }},
		{"limits", "warn", "the shared counter does not answer", "limiter.url", func(d *Examination) { d.Status.Nodes, d.Status.Limits = 3, "away" }},
		{"limits", "warn", "drops counters when its memory is full", "noeviction", func(d *Examination) { d.Status.Limits = "forgetful" }},
		{"limits", "warn", "192.0.2.0/24 times 10", "", func(d *Examination) {
			again, err := good(t).Check()
			if err != nil {
				t.Fatal(err)
			}
			d.Checked.Networks = again.Networks
		}},
		{"refresh-tokens", "warn", "never end by themselves", "RFC 9700", func(d *Examination) { d.Strict = true }},
		{"expired-rows", "warn", "7 rows should have been deleted", "log", func(d *Examination) { d.Status.Overdue = 7 }},
		{"backup", "warn", "there has been none", "backup create", func(d *Examination) { d.Status.LastBackup = 0 }},
		{"backup", "warn", "49 hours ago", "backup create", func(d *Examination) { d.Status.LastBackup = d.Now.Add(-49 * time.Hour).Unix() }},
		{"backup", "warn", "there has been none", "pg_dump, every night, and then tell the server: POST /v1/backup", func(d *Examination) {
			d.Status.LastBackup, d.Checked.Postgres = 0, "postgres://"
		}},
		{"backup", "warn", "49 hours ago", "pg_dump", func(d *Examination) {
			d.Status.LastBackup, d.Checked.Postgres = d.Now.Add(-49*time.Hour).Unix(), "postgres://"
		}},
		{"database", "fail", "integrity the database is damaged", "backup restore", func(d *Examination) { d.Status.Integrity = "the database is damaged: page 3" }},
		{"database", "fail", "schema 99", "migrate status", func(d *Examination) { d.Status.Schema = 99 }},
		{"database", "fail", "schema 99", "migrate status", func(d *Examination) { d.Status.Schema, d.Status.Oldest = 99, 98 }},
		{"database", "fail", "schema 0", "migrate up", func(d *Examination) { d.Status.Schema = 0 }},
		{"database", "warn", "works on it too", "docs/upgrade.md", func(d *Examination) { d.Status.Schema, d.Status.Oldest = store.SchemaVersion+1, store.SchemaVersion }},
		{"version", "warn", "the server is 0.0.9", "restart", func(d *Examination) { d.Status.Version.Version = "0.0.9" }},
		{"configuration", "fail", "unknown setting x", "did you mean", func(d *Examination) { d.ConfigErr = fault.BadConfig("did you mean y?", "unknown setting x") }},
		{"server", "fail", "gone", "grantkeeper serve", func(d *Examination) { d.StatusErr = fmt.Errorf("gone") }},
	} {
		d := healthy(t)
		tt.spoil(d)
		hit := false
		for _, f := range d.Findings(nil) {
			if f.Name == tt.name && f.Result != "ok" {
				hit = f.Result == tt.result && strings.Contains(f.Text, tt.text) && strings.Contains(f.Fix, tt.fix)
				if !hit {
					t.Errorf("%s: %+v, want %s %q, fix %q", tt.name, f, tt.result, tt.text, tt.fix)
				}
			} else if f.Result != well[f.Name] {
				t.Errorf("%s (%s): %+v as well", tt.name, tt.text, f)
			}
		}
		if !hit {
			t.Errorf("%s: no %q", tt.name, tt.text)
		}
	}
}

// What has no certificate that holds was reached: its name and proxy are right.
func TestDoctorLooksAtTheCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of the handshake that fails
	s.StartTLS()
	defer s.Close()
	a := &asked{base: s.URL}
	a.ask(t.Context())
	if f := a.checkMetadata(); f.Result != "fail" || !strings.Contains(f.Text, "failed to verify certificate") || !strings.HasPrefix(f.Fix, "look at the certificate") {
		t.Errorf("%+v", f)
	}
}

// A server that --operator names is judged by the way there, whatever the
// configuration says of this machine's own, and also without one.
func TestDoctorOfAnotherServer(t *testing.T) {
	for _, tt := range []struct {
		operator, result, text string
		broken                 bool // the configuration
	}{
		{"http://127.0.0.1:8081", "warn", ":8081 can be reached from other machines", false}, // its own, by its URL
		{"http://127.0.0.1:9081", "ok", "http://127.0.0.1:9081, over loopback", false},
		{"http://127.0.0.1:9081", "ok", "http://127.0.0.1:9081, over loopback", true},
		{"https://operators.example/", "ok", "https://operators.example, over TLS", false},
		{"http://operators.example", "warn", "http://operators.example is asked in clear", false},
		{"http://operators.example:8081", "warn", "http://operators.example:8081 is asked in clear", true},
		{"nothing", "fail", "not a URL", false},
		{"nothing", "fail", "not a URL", true},
		{"", "fail", "broken", true},
		{"", "warn", ":8081 can be reached from other machines", false},
	} {
		d := healthy(t)
		if d.Operator, d.Checked.Operator.Listen = tt.operator, ":8081"; tt.broken {
			d.Checked, d.ConfigErr = config.Checked{}, fault.BadConfig("", "broken")
		}
		if tt.operator == "nothing" {
			d.StatusErr, d.Missing = fault.WrongUse("", "not a URL"), []string{Unanswered}
		}
		f := d.Findings([]string{"operator-listener"})[0]
		if f.Result != tt.result || !strings.HasPrefix(f.Text, tt.text) {
			t.Errorf("%s, configuration broken: %t: %+v, want %s %q", tt.operator, tt.broken, f, tt.result, tt.text)
		}
	}
	d := healthy(t)
	d.Operator, d.bases[0].operator = "https://operators.example", true
	if f := d.Findings([]string{"operator-listener"})[0]; f.Result != "fail" {
		t.Errorf("passed on to everybody: %+v", f)
	}
}

// Less room than the database's log takes is a fault, little room a warning, and
// the room that is looked at is that of the database's folder.
func TestDoctorOnRoom(t *testing.T) {
	for free, want := range map[int64]string{
		0: "fail", 16<<20 - 1: "fail", 16 << 20: "warn", 512<<20 - 1: "warn", 512 << 20: "ok",
	} {
		f := judgeSpace("/data", free)
		if f.Result != want || !strings.HasPrefix(f.Text, "/data") || !strings.Contains(f.Text, terminal.Size(free)+" free") || (f.Fix == "") != (want == "ok") {
			t.Errorf("%d bytes: %+v, want %s", free, f, want)
		}
	}
	d := healthy(t)
	if f := d.checkData(); f.Result == "fail" || !strings.HasPrefix(f.Text, filepath.Dir(d.Checked.Path)) {
		t.Errorf("of this machine: %+v", f)
	}
	if d.Checked.Path = "/proc/none/x.db"; d.checkData().Result == "ok" {
		t.Error("a folder that is not there is well")
	}
	if d.Checked.Path = ""; d.checkData().Text != "the database is elsewhere" {
		t.Errorf("without a file: %+v", d.checkData())
	}
}

// doctor says of several mistakes what config check would.
func TestDoctorSaysSeveralMistakes(t *testing.T) {
	err := fault.Join([]error{fault.BadConfig("do a", "a is wrong"), fault.CannotOpen("do b", "b is wrong")})
	if f := failedBy(err); f.Text != "a is wrong; b is wrong" || f.Fix != "run: grantkeeper config check" {
		t.Errorf("doctor says %+v", f)
	}
}

// doctor says who decides, and knows of all calls that no rule names (decision V30).
func TestDoctorOnRules(t *testing.T) {
	d := healthy(t)
	if got := d.Findings([]string{"rules"}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	d.Checked.Service.Unlisted = ""
	if got := d.Findings([]string{"rules"}); len(got) != 1 || got[0].Result != "warn" || got[0].Text != config.Trusting {
		t.Errorf("%+v", got)
	}
	d.Status.Unnamed = []rules.Unnamed{{Count: 2, Rule: "[[rules]]\ntool = \"pay\"\nrole = \"ROLE\"\n"}, {Count: 1, Rule: "[[rules]]\ntool = \"t0\"\n"}}
	d.Checked.Ruled, _ = config.CompileRules([]config.Rule{{Tool: "a", Touches: "open"}}, "", nil)
	got := d.Findings([]string{"rules"})
	if len(got) != 2 || got[0].Result != "warn" || got[0].Text != "2 calls denied because no rule names them" || !strings.Contains(got[0].Fix, `tool = "pay"; role = "ROLE"`) {
		t.Errorf("%+v", got)
	}
	d.Status.Unnamed, d.Checked.Rules = nil, make([]config.Rule, 1)
	if got := d.Findings([]string{"rules"}); len(got) != 1 || got[0].Result != "ok" || got[0].Text != "1 rule" {
		t.Errorf("%+v", got)
	}
}
