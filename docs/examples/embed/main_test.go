package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/config/configtest"
)

// The program has the whole server in itself, and nothing of it after Close.
func TestEmbeddedServer(t *testing.T) {
	before := runtime.NumGoroutine()
	s, err := start(t.Context(), configtest.Write(t, "grantkeeper.toml", fmt.Sprintf(`base_urls = ["https://app.example"]
secret_key_file = %q
http.listen = "127.0.0.1:0"
operator.listen = "127.0.0.1:0"
database.url = "sqlite://%s"
`, configtest.Write(t, "secret.key", strings.Repeat("0f1e2d3c", 8)+"\n", 0o600), filepath.Join(t.TempDir(), "test.db")), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest("GET", "http://"+s.PublicAddr().String()+"/.well-known/oauth-authorization-server", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Close = "app.example", true
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	var metadata struct {
		Issuer string `json:"issuer"`
	}
	err = json.NewDecoder(a.Body).Decode(&metadata)
	a.Body.Close()
	if err != nil || a.StatusCode != 200 || metadata.Issuer != "https://app.example" {
		t.Errorf("%s, %+v, %v", a.Status, metadata, err)
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, at := range []net.Addr{s.PublicAddr(), s.OperatorAddr()} {
		if c, err := net.Dial("tcp", at.String()); err == nil {
			c.Close()
			t.Errorf("%s still listens", at)
		}
	}
	for range 6000 { // those that end do so by themselves
		if runtime.NumGoroutine() <= before {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	text := make([]byte, 1<<20)
	t.Errorf("%d goroutines before, and now\n%s", before, text[:runtime.Stack(text, true)])
}
