package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// checks are what doctor judges, in the order of its lines.
var checks = []check{
	{"configuration", one((*Examination).checkConfiguration)},
	{"secret-key", configured((*Examination).checkSecretKey)},
	{"data-directory", configured((*Examination).checkData)},
	{"server", one((*Examination).checkServer)},
	{"database", (*Examination).checkDatabase},
	{"clock", (*Examination).checkClock},
	{"base-url", eachBase((*asked).checkMetadata)},
	{"resources", ifAnswered((*asked).checkResources)},
	{"challenge", ifAnswered((*asked).checkChallenge)},
	{"client-address", served((*Examination).checkClientAddress)},
	{"upstream", (*Examination).checkUpstream},
	{"mcp-upstream", probed("mcp-upstream")},
	{"paths", probed("paths")},
	{"preview", probed("preview")},
	{"rules", (*Examination).checkRules},
	{"provider", probed("provider")},
	{"handoff", probed("handoff")},
	{"mail", probed("mail")},
	{"operator-listener", (*Examination).checkOperatorListener},
	{"limits", configured((*Examination).checkLimits)},
	{"refresh-tokens", configured((*Examination).checkRefreshTokens)},
	{"expired-rows", served((*Examination).checkExpired)},
	{"backup", served((*Examination).checkBackup)},
	{"version", one((*Examination).checkVersion)},
}

func one(f func(*Examination) Finding) func(*Examination) []Finding {
	return func(d *Examination) []Finding { return []Finding{f(d)} }
}

// configured is for what needs a valid configuration.
func configured(f func(*Examination) Finding) func(*Examination) []Finding {
	return func(d *Examination) []Finding {
		if d.ConfigErr != nil {
			return d.noConfiguration()
		}
		return []Finding{f(d)}
	}
}

// served is for what only the server can tell.
func served(f func(*Examination) Finding) func(*Examination) []Finding {
	return func(d *Examination) []Finding {
		if d.StatusErr != nil {
			return d.noServer()
		}
		return []Finding{f(d)}
	}
}

// noConfiguration says why what needs a valid configuration is not judged.
func (d *Examination) noConfiguration() []Finding {
	f := d.checkConfiguration()
	f.Name = "configuration"
	return []Finding{f}
}

// noServer says why what only the server can tell is not judged.
func (d *Examination) noServer() []Finding {
	f := d.checkServer()
	f.Name = "server"
	return []Finding{f}
}

// eachBase judges each base URL, of which none is known without a configuration.
func eachBase(f func(*asked) Finding) func(*Examination) []Finding {
	return func(d *Examination) (all []Finding) {
		if len(d.bases) == 0 && d.ConfigErr != nil {
			return d.noConfiguration()
		}
		for _, a := range d.bases {
			all = append(all, f(a))
		}
		return all
	}
}

// ifAnswered is for what needs an answer.
func ifAnswered(f func(*asked) Finding) func(*Examination) []Finding {
	return eachBase(func(a *asked) Finding {
		if a.err != nil {
			return a.unreached()
		}
		return f(a)
	})
}

func (d *Examination) checkConfiguration() Finding {
	switch {
	case d.Dev:
		return found("none: grantkeeper dev needs none")
	case d.ConfigErr != nil:
		return failedBy(d.ConfigErr)
	}
	return found("%s", d.Loaded.Summary())
}

func (d *Examination) checkSecretKey() Finding {
	info, err := os.Stat(d.Checked.SecretKeyFile)
	if err != nil {
		return failedBy(err)
	}
	return found("%s, %s of 32 bytes, mode %04o", d.Checked.SecretKeyFile, terminal.Plural(len(d.Checked.Ring.Keys()), "key"), info.Mode().Perm())
}

// leastSpace is how much room the database needs to go on for a while.
const leastSpace = 512 << 20 // bytes

// noSpace is less room than the database's log takes.
const noSpace = 16 << 20 // bytes

func (d *Examination) checkData() Finding {
	if d.Checked.Path == "" {
		return found("the database is elsewhere")
	}
	dir := folderOf(d.Checked.Path)
	if err := unix.Access(dir, toMakeFiles); err != nil {
		return warned("run doctor as the user who runs serve, or: chown the folder", "%s: this user cannot write in it: %v", dir, err)
	}
	free, err := store.Room(dir)
	if err != nil {
		return failedBy(err)
	}
	return judgeSpace(dir, free)
}

func judgeSpace(dir string, free int64) Finding {
	if free < noSpace {
		return failed("make room at once: without it nothing more can be written", "%s: only %s free", dir, terminal.Size(free))
	}
	if free < leastSpace {
		return warned("make room: the database, its log and a backup's copy need it", "%s: only %s free", dir, terminal.Size(free))
	}
	return found("%s, writable, %s free", dir, terminal.Size(free))
}

func (d *Examination) checkServer() Finding {
	if d.StatusErr != nil && (len(d.Missing) == 0 || d.Missing[0] == Unanswered) {
		f := failedBy(d.StatusErr)
		switch {
		case f.Fix == "":
			f.Fix = "start it: grantkeeper serve"
		case strings.HasSuffix(f.Fix, "grantkeeper doctor"): // this is it
			f.Fix = "see its log"
		}
		return f
	}
	if len(d.Missing) > 0 {
		return failed("see its log, and that there is room for the database", "%s is not ready: %s", d.Server, strings.Join(d.Missing, ", "))
	}
	return found("%s answers, version %s", d.Server, d.Status.Version.Version)
}

func (d *Examination) checkDatabase() []Finding {
	switch {
	case d.StatusErr == nil && d.ConfigErr != nil && !d.Dev && d.Operator == "": // the configured one was not looked at
		return append(d.noConfiguration(), d.judgeDatabase())
	case d.StatusErr == nil:
		return append([]Finding{d.judgeDatabase()}, d.beside...)
	case d.ConfigErr != nil:
		return append(d.noConfiguration(), d.noServer()...)
	}
	text, err := Database(context.Background(), d.Checked)
	if err != nil {
		return []Finding{failedBy(err)}
	}
	return []Finding{found("%s", text)}
}

func (d *Examination) judgeDatabase() Finding {
	where, integrity := "in memory", d.Status.Integrity
	switch {
	case d.Elsewhere: // and the configuration says nothing of it
		where = "as " + d.Server + " says, and not looked at from here"
	case d.ConfigErr != nil && d.Status.Bytes > 0:
		where = "of " + d.Server
	case d.Status.Bytes == 0:
	case d.Checked.Postgres != "":
		where, integrity = "postgres", "left to pg_amcheck"
	default:
		where = "sqlite " + d.Checked.Path
	}
	text := fmt.Sprintf("%s, schema %d, %s, integrity %s", where, d.Status.Schema, terminal.Size(d.Status.Bytes), integrity)
	if strings.Contains(integrity, "damaged") {
		return failed("stop it, keep the file, and restore: grantkeeper backup restore FILE", "%s", text)
	}
	if d.Status.WentBack > 0 {
		fix := "stop the server, and end all approvals: grantkeeper backup restore FILE, of the copy that it was set back to"
		switch {
		case d.Elsewhere: // nobody here knows its engine
			fix = "end all approvals where it runs: see docs/operations.md, Restore"
		case d.Checked.Postgres != "":
			fix = "end all approvals: grantkeeper backup restore"
		}
		return failed(fix, "%s; it went back in time, as was seen on %s: what was revoked since its copy may live again", text, terminal.UTC(d.Status.WentBack))
	}
	if r := d.Status.Refused; r != nil && r.Over {
		return warned(server.MendDatabase(r.Cause), "%s; it refused something %s ago, as %s, and takes writes again", text, terminal.Plural(int(r.Ago), "second"), r.Cause)
	} else if r != nil {
		return failed(server.MendDatabase(r.Cause), "%s; %s: it refused something %s ago", text, r.Cause, terminal.Plural(int(r.Ago), "second"))
	}
	switch has := d.Status.Schema; {
	case has < store.SchemaVersion:
		return failed("grantkeeper migrate up", "%s; this binary has %d", text, store.SchemaVersion)
	case has > store.SchemaVersion && (d.Status.Oldest == 0 || d.Status.Oldest > store.SchemaVersion):
		return failed("grantkeeper migrate status", "%s; this binary has %d, and cannot work on it", text, store.SchemaVersion)
	case has > store.SchemaVersion:
		return warned("go on with the upgrade: docs/upgrade.md", "%s, of a later release; this one, which has %d, works on it too", text, store.SchemaVersion)
	}
	return found("%s", text)
}

// mostSkew is how far two clocks may be apart: codes live 5 minutes.
const mostSkew = 30 * time.Second

func (d *Examination) checkClock() (all []Finding) {
	if d.StatusErr == nil {
		all = append(all, judgeClock("the server's clock", time.Unix(d.Status.Now, 0), d.Now))
	} else {
		all = d.noServer()
	}
	for _, a := range d.bases {
		if a.err != nil {
			all = append(all, a.unreached())
		} else if !a.date.IsZero() {
			all = append(all, judgeClock("the clock behind "+a.base, a.date, a.at))
		}
	}
	return all
}

func judgeClock(whose string, there, here time.Time) Finding {
	apart := there.Sub(here).Abs().Round(time.Second)
	if apart > mostSkew {
		return warned("run an NTP client on both machines", "%s is %s off this machine's: codes live 5 minutes", whose, apart)
	}
	return found("%s is within %s of this machine's", whose, max(apart, time.Second))
}

func (d *Examination) checkClientAddress() Finding {
	seen := d.Status.Seen
	behind := seen.Unbelieved != ""
	if d.ConfigErr == nil && d.Checked.TLS == nil && len(d.Checked.HTTP.TrustedProxies) == 0 && strings.HasPrefix(d.Checked.Hosts.List()[0], "https:") {
		behind = true
	}
	switch {
	case seen.Addresses == 0:
		return found("no requests in the last ten minutes")
	case d.trusts(seen.Unbelieved):
		return warned(`see that it sends X-Forwarded-For, or set http.forwarded_header = "Forwarded" where it writes that`,
			"%s is in http.trusted_proxies, and sends no header that is believed: people share its rate limit", seen.Unbelieved)
	case seen.Addresses == 1 && d.trusts(seen.Only):
		return found("requests came from %s only, which is in http.trusted_proxies: if others sent them, it must send X-Forwarded-For", seen.Only)
	case seen.Addresses == 1 && behind:
		return warned(fmt.Sprintf(`set http.trusted_proxies = ["%s"]`, oneAddress(seen.Only)),
			"requests arrive from %s only: all people share one rate limit", seen.Only)
	case seen.Unbelieved != "":
		return warned(fmt.Sprintf(`if it is a proxy of yours, set http.trusted_proxies = ["%s"]`, oneAddress(seen.Unbelieved)),
			"%s forwards requests for others, and is not trusted: they share its rate limit", seen.Unbelieved)
	}
	return found("requests came from %s in the last ten minutes", addresses(seen.Addresses))
}

// trusts reports whether an address is in http.trusted_proxies.
func (d *Examination) trusts(address string) bool {
	a, err := netip.ParseAddr(address)
	return err == nil && d.ConfigErr == nil && slices.ContainsFunc(d.Checked.HTTP.TrustedProxies, func(one string) bool {
		n, err := netip.ParsePrefix(one)
		return err == nil && n.Contains(a) || one == a.String()
	})
}

func addresses(n int) string {
	if n == 1 {
		return "1 address"
	}
	return fmt.Sprintf("%d addresses", n)
}

// oneAddress is an address as a network of its own.
func oneAddress(a string) string {
	if strings.Contains(a, ":") {
		return a + "/128"
	}
	return a + "/32"
}

// checkOperatorListener judges the listener of the configuration, or of what
// --operator named instead the way there: more of it is not known here.
func (d *Examination) checkOperatorListener() []Finding {
	own, _, _ := config.ListenerURL(d.Checked.Operator.Listen)
	base, name, err := config.ParseBaseAnywhere(d.Operator)
	switch at := d.Checked.Operator.Listen; {
	case d.Operator != "" && err != nil:
		return d.noServer() // it cannot be asked
	case d.Operator != "" && base != own:
		return []Finding{d.judgeWay(base, name)}
	case d.ConfigErr != nil:
		return d.noConfiguration()
	case at == "off":
		return []Finding{found("off")}
	case d.Checked.Password == "":
		return []Finding{warned("set operator.password_file", "%s, and its API is off", at)}
	case !config.LoopbackListen(at):
		return []Finding{warned(`set operator.listen = "127.0.0.1:8081", or let a firewall keep others out`, "%s can be reached from other machines, in clear", at)}
	default:
		return []Finding{d.notPassedOn(found("%s, loopback only", at))}
	}
}

// judgeWay judges how an operators' listener elsewhere is asked.
func (d *Examination) judgeWay(base, name string) Finding {
	switch {
	case client.Loopback(name):
		return d.notPassedOn(found("%s, over loopback", base))
	case strings.HasPrefix(base, "https:"):
		return d.notPassedOn(found("%s, over TLS", base))
	}
	return warned("ask it through a tunnel, such as ssh -L 8081:127.0.0.1:8081", "%s is asked in clear: the password can be read on the way", base)
}

// notPassedOn gives the finding, unless a base URL answers with the operators'
// paths.
func (d *Examination) notPassedOn(f Finding) Finding {
	for _, a := range d.bases {
		if a.operator {
			return failed("let the proxy pass on the public listener alone", "%s/readyz is answered to everybody", a.base)
		}
	}
	return f
}

func (d *Examination) checkLimits() Finding {
	switch {
	case d.Status.Nodes > 1 && d.Status.Limits == "memory":
		return failed(`set limiter.url = "redis://127.0.0.1:6379/0" on every node`,
			"%d nodes count rate limits each for itself: clients get up to %d times the contract's", d.Status.Nodes, d.Status.Nodes)
	case d.Status.Limits == "away":
		return warned("see that the server of limiter.url runs, and in the log what it says: a wrong password, read-only, full", "the shared counter does not answer: each node counts its share by itself")
	}
	if d.Status.Limits == "forgetful" {
		return warned("CONFIG SET maxmemory-policy noeviction, on the server of limiter.url", "the shared counter drops counters when its memory is full: strangers get more than the contract's")
	}
	if n := len(d.Checked.Networks); n > 0 {
		var all []string
		for _, one := range d.Checked.Networks {
			all = append(all, fmt.Sprintf("%s times %d", one.CIDR, one.Multiple))
		}
		return warned("", "the contract's rate limits are left for %s", strings.Join(all, ", "))
	}
	return found("the contract's, for everybody")
}

// checkRefreshTokens says that nothing ends them, where that is so: a warning
// with --strict alone, because the contract has it so (decision P11).
func (d *Examination) checkRefreshTokens() Finding {
	if after := d.Checked.Approvals.EndUnusedAfter; after != 0 {
		return found("end with an approval that nobody used for %s", after)
	}
	if days := d.Checked.Approvals.MaxDays; days != 0 {
		return found("end with an approval, which lasts %d days at most", days)
	}
	const never = "never end by themselves, since approvals.end_unused_after is off"
	if d.Strict {
		return warned(`set approvals.end_unused_after = "90d" (RFC 9700 section 4.14.2)`, never)
	}
	return found(never)
}

func (d *Examination) checkExpired() Finding {
	if d.Status.Overdue > 0 {
		return warned("see the server's log for: expired rows cannot be deleted", "%d rows should have been deleted", d.Status.Overdue)
	}
	return found("none is overdue")
}

// mostBackupAge is how old the last backup may be.
const mostBackupAge = 48 * time.Hour

func (d *Examination) checkBackup() Finding {
	fix := "grantkeeper backup create FILE, every night"
	if d.ConfigErr == nil && d.Checked.Postgres != "" {
		fix = "pg_dump, every night, and then tell the server: POST /v1/backup"
	}
	if d.Status.LastBackup == 0 {
		return warned(fix, "there has been none")
	}
	age := time.Unix(d.Status.Now, 0).Sub(time.Unix(d.Status.LastBackup, 0)).Round(time.Minute)
	if age > mostBackupAge {
		return warned(fix, "the last one is of %s, %d hours ago", terminal.UTC(d.Status.LastBackup), int(age.Hours()))
	}
	return found("the last one is of %s", terminal.UTC(d.Status.LastBackup))
}

// vulnerable are releases that should not run any more, and why.
var vulnerable = map[string]string{}

func (d *Examination) checkVersion() Finding {
	v := d.Version
	if d.StatusErr == nil {
		v = d.Status.Version.Version
	}
	if why, bad := vulnerable[v]; bad {
		return failed("upgrade: docs/upgrade.md", "%s: %s", v, why)
	}
	if v != d.Version {
		return warned("restart the server with this binary", "the server is %s, this binary %s", v, d.Version)
	}
	return found("%s, nothing known against it when it was built", v)
}

// asked is what a base URL answers, as a client sees it.
type asked struct {
	base      string
	err       error
	at        time.Time
	date      time.Time // of the answer
	metadata  map[string]any
	resources []client.Resource
	documents map[string]map[string]any // of each, by its path
	header    []string                  // of the challenge
	status    int                       // of the challenge
	operator  bool                      // the operators' paths are answered here
}

func (a *asked) ask(ctx context.Context) {
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	get := func(path string, into *map[string]any) *http.Response {
		if a.err != nil {
			return nil
		}
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
		if err != nil {
			a.err = err
			return nil
		}
		answer, err := client.Do(r)
		var of *url.Error // whose text has the address again
		if errors.As(err, &of) {
			err = of.Err
		}
		if err != nil {
			a.err = err
			return nil
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		if into != nil && answer.StatusCode == http.StatusOK {
			_ = json.Unmarshal(text, into) // nothing is judged below
		}
		return answer
	}
	if answer := get("/.well-known/oauth-authorization-server", &a.metadata); answer != nil {
		a.at = time.Now()
		a.date, _ = http.ParseTime(answer.Header.Get("Date"))
	}
	a.documents = map[string]map[string]any{}
	for _, of := range a.resources {
		var document map[string]any
		get("/.well-known/oauth-protected-resource"+of.Path, &document)
		a.documents[of.Path] = document
	}
	if answer := get("/api/v5/me", nil); answer != nil {
		a.status, a.header = answer.StatusCode, answer.Header.Values("WWW-Authenticate")
	}
	var health map[string]any
	if answer := get("/readyz", &health); answer != nil {
		a.operator = health["status"] != nil
	}
}

func (a *asked) unreached() Finding {
	hint := "see that the name leads here, and that the proxy passes requests on"
	var certificate *tls.CertificateVerificationError
	switch {
	case strings.HasPrefix(a.base, "http://"):
		hint = "see that the server listens there"
	case errors.As(a.err, &certificate):
		hint = "look at the certificate: its name, its end, its chain, and whether this machine trusts who issued it"
	}
	f := failed(hint, "%s does not answer: %v", a.base, a.err)
	f.Name = "base-url"
	return f
}

func (a *asked) checkMetadata() Finding {
	switch {
	case a.err != nil:
		return a.unreached()
	case a.metadata["issuer"] == nil:
		return failed("the proxy must pass the Host header on, and the host must stand in base_urls", "%s has no metadata", a.base)
	case a.metadata["issuer"] != a.base:
		return failed("set base_urls to the address that people use", "%s says that it is %v", a.base, a.metadata["issuer"])
	}
	for name, value := range a.metadata {
		if text, ok := value.(string); ok && strings.Contains(text, "://") && text != a.base && !strings.HasPrefix(text, a.base+"/") {
			return failed("the proxy must pass the Host header on", "%s: %s leads elsewhere: %s", a.base, name, text)
		}
	}
	if strings.HasPrefix(a.base, "http://") {
		return warned("https, by a proxy or http.tls_cert_file; plain http is for trying it", "%s is not https", a.base)
	}
	return found("%s, every URL is built from it", a.base)
}

func (a *asked) checkResources() Finding {
	text := "%s, the documents of API v5 and MCP"
	for i, of := range a.resources {
		if a.documents[of.Path]["resource"] != a.base+of.Path {
			return failed("the proxy must pass /.well-known/ on", "%s/.well-known/oauth-protected-resource%s is not its document", a.base, of.Path)
		}
		if i > 1 {
			text += ", " + of.Path
		}
	}
	return found(text, a.base)
}

var resourceMetadata = regexp.MustCompile(`resource_metadata="([^"]*)"`)

func (a *asked) checkChallenge() Finding {
	if a.status != http.StatusUnauthorized || len(a.header) == 0 {
		return failed("the proxy must pass /api/v5 on, and WWW-Authenticate back", "%s/api/v5 does not ask for a credential", a.base)
	}
	want := a.base + "/.well-known/oauth-protected-resource/api/v5"
	if m := resourceMetadata.FindStringSubmatch(a.header[0]); m == nil || m[1] != want {
		return failed("the proxy must pass the Host header on", "%s/api/v5: its challenge does not lead to %s", a.base, want)
	}
	return found("%s/api/v5, 401 leads to its document", a.base)
}

const Unanswered = "/readyz did not answer in time"
