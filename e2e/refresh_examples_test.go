package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"github.com/grantkeeper/grantkeeper/docs/examples/refresh"
)

// busyAtFirst is the token endpoint of a server that says at first that it is busy, and
// then counts what comes through.
func busyAtFirst(t *testing.T, h *house) (at string, through *atomic.Int64) {
	t.Helper()
	to, err := url.Parse(h.base)
	if err != nil {
		t.Fatal(err)
	}
	through = new(atomic.Int64)
	var asked atomic.Int64
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = to.Host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		through.Add(1)
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/oauth/token", through
}

// What connecting.md shows for clients in Go and Python: many that find the access token
// expired at once send the refresh token once, wait where the server is busy, and go on
// with what it gave.
func TestRefreshExamplesSendATokenOnce(t *testing.T) {
	t.Parallel()
	const copies = 8
	for name, one := range map[string]func(t *testing.T, client, endpoint string, has tokens) func() (string, error){
		"Go": func(t *testing.T, client, endpoint string, has tokens) func() (string, error) {
			var saved atomic.Pointer[oauth2.Token]
			config := &oauth2.Config{ClientID: client, Endpoint: oauth2.Endpoint{TokenURL: endpoint, AuthStyle: oauth2.AuthStyleInParams}}
			source := refresh.NewSource(config, &oauth2.Token{RefreshToken: has.refresh}, func(next *oauth2.Token) error {
				saved.Store(next)
				return nil
			})
			return func() (string, error) {
				got, err := source.Token()
				if err != nil {
					return "", err
				}
				if kept := saved.Load(); kept == nil || kept.RefreshToken != got.RefreshToken {
					t.Error("used before it was saved")
				}
				return got.AccessToken, nil
			}
		},
		"Python": func(t *testing.T, client, endpoint string, has tokens) func() (string, error) {
			file := filepath.Join(t.TempDir(), "tokens.json")
			text, err := json.Marshal(map[string]any{"client_id": client, "access_token": "", "refresh_token": has.refresh, "expires_at": 0})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			return func() (string, error) { // processes of their own
				out, err := exec.CommandContext(t.Context(), "python3", "../docs/examples/refresh.py", file, endpoint).CombinedOutput()
				return strings.TrimSpace(string(out)), err
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t)
			client := h.register(redirect)
			f, has := h.connected(client)
			h.sleep(31 * time.Minute)
			endpoint, through := busyAtFirst(t, h)
			get := one(t, client, endpoint, has)
			got := make([]string, copies)
			var all sync.WaitGroup
			for i := range got {
				all.Go(func() {
					var err error
					if got[i], err = get(); err != nil {
						t.Errorf("%v: %s", err, got[i])
					}
				})
			}
			all.Wait()
			for _, other := range got[1:] {
				if other != got[0] {
					t.Fatalf("%d refreshes, and not all got the same", through.Load())
				}
			}
			if n := through.Load(); n != 1 {
				t.Errorf("the refresh token was sent %d times", n)
			}
			if !h.works(got[0]) {
				t.Error("what they got does not work")
			}
			if a := f.refresh(has.refresh); a.errorCode() != "invalid_grant" {
				t.Errorf("the old one: %v", a)
			}
		})
	}
}
