package server

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/config/configtest"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// What the service is told is signed with the key that was read last (decision V16).
func TestServiceKeyIsReread(t *testing.T) {
	h := newServer(config.Checked{ServiceKey: []byte("first")}, Options{})
	for _, c := range []struct {
		read *config.Checked
		want string
	}{{nil, "first"}, {&config.Checked{ServiceKey: []byte("second")}, "second"}, {&config.Checked{}, "first"}} {
		h.reread.Store(c.read)
		if got := string(h.serviceKey()); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// The checks of the console know the password that was read last, wherever it lies now.
func TestDoctorAfterReread(t *testing.T) {
	known := ""
	s := newServer(settings{Password: "first"}, Options{Doctor: func(_ context.Context, _ net.Addr, password string) []operator.Finding {
		known = password
		return nil
	}})
	s.reread.Store(&config.Checked{Password: "second"})
	if s.doctor()(t.Context()); known != "second" {
		t.Errorf("asked with %q", known)
	}
}

// A proxy that is trusted since a reload is not told to send nothing that is believed.
func TestUnbelievedAfterReread(t *testing.T) {
	s, _, _ := started(t, func(*config.Config) {})
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	s.seen.request(r, s.address(r), time.Now())
	if s.seen.seen().Unbelieved == "" {
		t.Error("a peer that is not trusted is not told of")
	}
	l := good(t)
	l.HTTP.TrustedProxies = []string{"192.0.2.0/24"} // httptest's
	again, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	s.Reread(t.Context(), func() (config.Checked, string, error) { return again, "test.toml", nil })
	if got := s.seen.seen().Unbelieved; got != "" {
		t.Errorf("after it is trusted: %s", got)
	}
}

// Calls that no rule named are counted anew once there are other rules, which may name them.
func TestUnnamedAfterReread(t *testing.T) {
	s, _, log := started(t, func(*config.Config) {})
	again := *s.present()
	for _, changed := range []bool{false, true} {
		s.unnamed.Note(rules.Call{Tool: "pay"}, rules.Decision{Reason: rules.Unlisted})
		if changed {
			again.Rules = []config.Rule{{Tool: "pay"}}
		}
		s.Reread(t.Context(), func() (config.Checked, string, error) { return again, "test.toml", nil })
		if got := s.unnamed.All(); (len(got) == 0) != changed {
			t.Errorf("with other rules %t: %v", changed, got)
		}
	}
	if !strings.Contains(log.String(), "no rule names them") {
		t.Errorf("what was forgotten was never told\n%s", log)
	}
}

// All listeners know the hosts that were read last: no client is added that redirects to one
// of them, and a gateway that names no host has asked for the first.
func TestHostsAreReread(t *testing.T) {
	s, _, _ := started(t, func(c *config.Config) {
		c.BaseURLs = []string{"https://app.example"}
		c.Operator.Listen, c.Gateway.Listen = "127.0.0.1:0", "127.0.0.1:0"
	})
	l := good(t)
	l.BaseURLs = []string{"https://new.example"}
	again, err := l.Check()
	if err != nil {
		t.Fatal(err)
	}
	s.Reread(t.Context(), func() (config.Checked, string, error) { return again, "test.toml", nil })
	ask := func(url, header, value, body string) (int, string) {
		r, err := http.NewRequest("POST", url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set(header, value)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return a.StatusCode, string(text)
	}
	for host, want := range map[string]int{"new": 400, "app": 200} {
		status, text := ask("http://"+s.OperatorAddr().String()+"/v1/clients", "Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("operator:long enough")),
			`{"client_id": "of-`+host+`", "client_name": "App", "redirect_uris": ["https://`+host+`.example/cb"], "reason": "test"}`)
		if status != want {
			t.Errorf("a client of %s: %d %s", host, status, text)
		}
	}
	status, text := ask("http://"+s.GatewayAddr().String()+"/v1/decisions", "X-Gateway-Key", strings.ToUpper(configtest.GatewayKey), `{"method": "GET", "path": "/api/v5/things"}`)
	if status != 200 || !strings.Contains(text, "https://new.example/") {
		t.Errorf("a gateway: %d %s", status, text)
	}
}

// What is refused changes nothing, and is told as what it is: a key that was taken would be
// wanted at the next start, and a database that cannot be written has neither other keys nor
// clients of the name.
func TestRereadRefused(t *testing.T) {
	s, _, log := started(t, func(*config.Config) {})
	registered := client.Client{ID: "taken", Name: "App", RedirectURIs: []string{"https://app.example/cb"}, IssuedAt: s.store.Now().Unix()}
	if err := s.store.AddClient(t.Context(), registered, store.Origin{}, store.Act{}); err != nil {
		t.Fatal(err)
	}
	reread := func(more ...client.Client) string {
		again, err := good(t).Check()
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Ring.Add(token.NewKey(9, [32]byte{9})); err != nil {
			t.Fatal(err)
		}
		again.Preregistered = append(again.Preregistered, more...)
		before := len(log.String())
		s.Reread(t.Context(), func() (config.Checked, string, error) { return again, "test.toml", nil })
		return log.String()[before:]
	}
	if said := reread(registered); !strings.Contains(said, "take another id") {
		t.Error(said)
	}
	if slices.ContainsFunc(s.Ring.Keys(), func(k *token.Key) bool { return k.Number == 9 }) {
		t.Error("the key was taken")
	}
	if err := os.Rename(s.Path, s.Path+".aside"); err != nil {
		t.Fatal(err)
	}
	if said := reread(); !strings.Contains(said, "put it back where it was") {
		t.Error(said)
	}
}
