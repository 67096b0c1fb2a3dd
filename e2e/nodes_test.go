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
// find empty, with one configuration. Each is asked for the first one's host.
func nodes(t testing.TB, n int) (*pgtest.Server, []*house) {
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
	return pg, nodesOn(t, n, pg.URL(database))
}

// nodesOn runs them on an empty database.
func nodesOn(t testing.TB, n int, database string) []*house {
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
url = %q`, host, write("secret.key", base64.StdEncoding.EncodeToString(key)), public, operator,
			write("operator.password", h.password), database))}
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
	for deadline := time.Now().Add(30 * time.Second); f.accepted(b, got.access) != 200; time.Sleep(50 * time.Millisecond) {
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
