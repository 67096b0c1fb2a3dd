package e2e

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/store/pgtest"
)

// nodes runs `serve` several times on one PostgreSQL database, which they all
// find empty, with one configuration, to which lines about the database are added.
// Each is asked for the first one's host.
func nodes(t testing.TB, n int, lines ...string) (*pgtest.Server, []*house) {
	t.Helper()
	pg, err := pgtest.Start()
	if err != nil {
		t.Fatal(err, "- run scripts/setup-debian.sh")
	}
	t.Cleanup(func() { pg.Stop() })
	database, err := pg.Database()
	if err != nil {
		t.Fatal(err)
	}
	return pg, nodesOn(t, n, pg.URL(database), lines...)
}

// nodesOn runs them on an empty database.
func nodesOn(t testing.TB, n int, database string, lines ...string) []*house {
	t.Helper()
	key := make([]byte, 32)
	rand.Read(key)
	var all []*house
	for range n {
		dir := t.TempDir()
		write := func(name, text string) string {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			return path
		}
		public, operator := freePort(t), freePort(t)
		h := &house{t: t, base: "http://127.0.0.1:" + public, operator: "http://127.0.0.1:" + operator, password: "correct-horse-battery"}
		host := h.base
		if len(all) > 0 {
			host = all[0].base
		}
		h.args = []string{"serve", "--config", write("grantkeeper.toml", fmt.Sprintf(`
base_urls = [%q]
secret_key_file = %q
[http]
listen = "127.0.0.1:%s"
[operator]
listen = "127.0.0.1:%s"
password_file = %q
[database]
url = %q
%s`, host, write("secret.key", base64.StdEncoding.EncodeToString(key)), public, operator,
			write("operator.password", h.password), database, strings.Join(lines, "\n")))}
		all = append(all, h)
	}
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() { h.serve(0) })
		t.Cleanup(h.stop)
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	all[0].furnish()
	return all
}

// at sends a form to a node, for the host of the flow.
func (f *flow) at(node *house, path string, fields ...string) answer {
	f.h.t.Helper()
	return f.send("POST", node.base+path, form(fields...), header{"Content-Type", "application/x-www-form-urlencoded", "Host", strings.TrimPrefix(f.h.base, "http://")})
}

func (f *flow) exchangeAt(node *house, code string) answer {
	f.h.t.Helper()
	return f.at(node, "/oauth/token", "grant_type", "authorization_code", "code", code,
		"redirect_uri", f.redirect, "client_id", f.client, "code_verifier", f.verifier)
}

func (f *flow) refreshAt(node *house, refreshToken string) answer {
	f.h.t.Helper()
	return f.at(node, "/oauth/token", "grant_type", "refresh_token", "refresh_token", refreshToken, "client_id", f.client)
}

// accepted asks a node with an access token.
func (f *flow) accepted(node *house, access string) int {
	f.h.t.Helper()
	return f.h.caller().get(node.base+"/api/v5/me",
		header{"Authorization", "Bearer " + access, "Host", strings.TrimPrefix(f.h.base, "http://")}).status
}

// The main job over two processes on one PostgreSQL database: each step at
// another one than the step before. T-22: of 50 simultaneous exchanges of one
// code, and of 50 refreshes of one token, spread over both, exactly one is
// answered 200.
func TestT22TwoProcessesOnOneDatabase(t *testing.T) {
	t.Parallel()
	_, all := nodes(t, 2)
	a, b := all[0], all[1]
	f, code := a.issued("")
	first := tokensOf(t, f.exchangeAt(b, code))
	for _, h := range all {
		if status := f.accepted(h, first.access); status != 200 {
			t.Errorf("the access token: %d", status)
		}
	}
	second := tokensOf(t, f.refreshAt(a, first.refresh))
	third := tokensOf(t, f.refreshAt(b, second.refresh))
	if r := f.refreshAt(a, first.refresh); r.errorCode() != "invalid_grant" {
		t.Errorf("reuse: %s", r)
	}
	for _, h := range all {
		if status := f.accepted(h, third.access); status != 401 {
			t.Errorf("after the reuse: %d", status)
		}
	}
	atOnce := func(send func(h *house) answer) int {
		var ok atomic.Int64
		var wg sync.WaitGroup
		for n := range 50 {
			wg.Go(func() {
				switch r := send(all[n%2]); {
				case r.status == 200:
					ok.Add(1)
				case r.status != 400 || r.errorCode() != "invalid_grant":
					t.Errorf("got %s", r)
				}
			})
		}
		wg.Wait()
		return int(ok.Load())
	}
	for range 3 {
		f, code := a.issued("")
		if n := atOnce(func(h *house) answer { return f.exchangeAt(h, code) }); n != 1 {
			t.Errorf("%d of 50 exchanges got tokens", n)
		}
		g, code := a.issued("")
		got := tokensOf(t, g.exchangeAt(b, code))
		if n := atOnce(func(h *house) answer { return g.refreshAt(h, got.refresh) }); n != 1 {
			t.Errorf("%d of 50 refreshes got tokens", n)
		}
		if g.accepted(a, got.access) != 401 || g.accepted(b, got.access) != 401 {
			t.Error("accepted after the reuse")
		}
	}
}

// What one process has acknowledged as ended no other accepts; a process that
// is killed takes nothing with it; while the database is away everybody is
// told to come back, and it goes on by itself.
func TestProcessesAndTheDatabaseGo(t *testing.T) {
	t.Parallel()
	pg, all := nodes(t, 2)
	a, b := all[0], all[1]
	f, code := a.issued("")
	got := tokensOf(t, f.exchangeAt(b, code))
	b.change("/v1/organizations/nordlys/members/ada/remove", `{"reason":"test"}`)
	if f.accepted(a, got.access) != 401 || f.accepted(b, got.access) != 401 {
		t.Error("accepted after the removal")
	}
	b.change("/v1/organizations/nordlys/members", `{"person":"ada","admin":true,"reason":"test"}`)
	if f.accepted(a, got.access) != 401 {
		t.Error("it came back with the member")
	}
	a.change("/v1/roles/nordlys-treasurer/fillers", `{"person":"ada","reason":"test"}`)

	f, code = a.issued("")
	got = tokensOf(t, f.exchangeAt(a, code))
	if err := pg.Kill(); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]answer{"refresh": f.refreshAt(b, got.refresh),
		"register": a.caller().postJSON("/oauth/register", `{"redirect_uris":["https://connect.quill.example/callback"]}`)} {
		if r.status != 503 || r.header.Get("Retry-After") == "" || r.errorCode() != "temporarily_unavailable" {
			t.Errorf("%s without the database: %s", what, r)
		}
	}
	if status := f.accepted(b, got.access); status != 503 {
		t.Errorf("a check without the database: %d", status)
	}
	if r, err := http.Get(b.operator + "/readyz"); err != nil || r.StatusCode != 503 {
		t.Errorf("ready without the database: %v, %v", r, err)
	}
	if err := pg.Run(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); f.accepted(b, got.access) != 200; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not come back by itself")
		}
	}
	a.kill()
	if got = tokensOf(t, f.refreshAt(b, got.refresh)); f.accepted(b, got.access) != 200 {
		t.Error("the other process does not go on")
	}
	a.serve(0)
	if f.accepted(a, got.access) != 200 {
		t.Error("the process that is back does not know it")
	}
}

// Within `database.max_staleness` a node still accepts what another has ended, and
// refuses nothing that another has acknowledged, whoever asks for it.
func TestStalenessRefusesNothing(t *testing.T) {
	t.Parallel()
	_, all := nodes(t, 2, `max_staleness = "1m"`)
	a, b := all[0], all[1]
	host := header{"Host", strings.TrimPrefix(a.base, "http://")}
	f, code := a.issued("")
	known := tokensOf(t, f.exchangeAt(b, code))
	change := func(path, body string) { // on the first node, while the second has just answered
		t.Helper()
		if status := f.accepted(b, known.access); status != 200 {
			t.Fatal(status)
		}
		a.change(path, body)
	}
	knows := func(when, client string) {
		t.Helper()
		f := a.flow(client)
		if r := f.exchangeAt(b, "no-code"); r.errorCode() != "invalid_grant" || strings.Contains(r.body, "disabled") {
			t.Errorf("%s: /oauth/token: %s", when, r)
		}
		if r := a.browser().get(b.base+"/oauth/authorize?"+f.query(), host); r.status != 303 {
			t.Errorf("%s: /oauth/authorize: %s", when, r)
		}
	}
	f.accepted(b, known.access)
	knows("registered", a.register())

	other := a.register()
	change("/v1/clients/"+other+"/disable", `{"reason":"test"}`)
	if r := a.flow(other).exchangeAt(b, "no-code"); !strings.Contains(r.body, "disabled") {
		t.Errorf("disabled: %s", r)
	}
	change("/v1/clients/"+other+"/enable", `{"reason":"test"}`)
	knows("enabled again", other)

	change("/v1/people", fmt.Sprintf(`{"id":"mei","email":"mei@nordlys.example","name":"Mei","password":%q,"reason":"test"}`, a.password))
	mei := a.browser()
	in := mei.read(mei.get(b.base+"/signin", host)).form("/signin").with("email", "mei@nordlys.example", "password", a.password)
	same := append(header{"Content-Type", "application/x-www-form-urlencoded", "Origin", a.base, "Sec-Fetch-Site", "same-origin"}, host...)
	if r := mei.send("POST", b.base+"/signin", in.values.Encode(), same); r.status != 303 {
		t.Errorf("sign-in of somebody new: %s", r)
	}

	change("/v1/organizations/nordlys/members", `{"person":"mei","admin":false,"reason":"test"}`)
	change("/v1/roles/nordlys-treasurer/fillers", `{"person":"mei","reason":"test"}`)
	g := a.flow(other)
	asked := mei.read(mei.get(b.base+"/oauth/authorize?"+g.query(), host)).form("/oauth/authorize").with(treasurer...).with("decision", "approve")
	r := mei.send("POST", b.base+"/oauth/authorize", asked.values.Encode(), same)
	if got := tokensOf(t, g.exchangeAt(a, codeOf(t, r, g))); g.accepted(b, got.access) != 200 {
		t.Error("a new approval is refused")
	}

	key := func() int {
		return a.caller().get(b.base+"/api/v5/me", append(header{"X-Auth-Token", "api-key-of-mei-in-nordlys"}, host...)).status
	}
	if status := key(); status != 401 {
		t.Errorf("an API key that there is not: %d", status)
	}
	change("/v1/directory", `{"api_keys":[{"key":"api-key-of-mei-in-nordlys","person":"mei","organization":"nordlys","name":"script"}],"reason":"test"}`)
	if status := key(); status != 200 {
		t.Errorf("a new API key: %d", status)
	}
}
