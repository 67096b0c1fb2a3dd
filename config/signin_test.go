package config

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// written puts text into a file that its owner alone can read.
func written(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestSignInSettings(t *testing.T) {
	public, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	const secret = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978"
	publicKey := written(t, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	secretKey := written(t, secret+"\n")
	corp := func(change func(*Provider)) SignIn {
		p := Provider{ID: "corp", Issuer: "https://login.example.com/realm", ClientID: "grantkeeper", ClientSecretFile: secretKey}
		if change != nil {
			change(&p)
		}
		return SignIn{Providers: []Provider{p}}
	}
	hand := func(url string, files ...string) SignIn {
		return SignIn{HandOff: HandOff{URL: url, KeyFiles: files}}
	}
	const at = "https://app.example.com/hand?x=y"
	tests := []struct {
		name string
		c    SignIn
		want string // a part of the error; "" for none
	}{
		{"passwords alone", SignIn{Passwords: true}, ""},
		{"no way", SignIn{}, "no way to sign in"},
		{"one provider", corp(nil), ""},
		{"a public client on loopback", corp(func(p *Provider) { p.Issuer, p.ClientSecretFile = "http://127.0.0.1:9000", "" }), ""},
		{"plain http", corp(func(p *Provider) { p.Issuer = "http://login.example.com" }), "not an https URL"},
		{"a query", corp(func(p *Provider) { p.Issuer += "?x" }), "not an https URL"},
		{"no issuer", corp(func(p *Provider) { p.Issuer = "" }), "not an https URL"},
		{"a password in the issuer", corp(func(p *Provider) { p.Issuer = "https://a:b@login.example.com" }), "not an https URL"},
		{"no client", corp(func(p *Provider) { p.ClientID = "" }), "client_id is missing"},
		{"no ID", corp(func(p *Provider) { p.ID = "" }), "id is not plain"},
		{"an ID with a slash", corp(func(p *Provider) { p.ID = "a/b" }), "id is not plain"},
		{"an ID that a path cannot have", corp(func(p *Provider) { p.ID = ".." }), "id is not plain"},
		{"the ID of the hand-off", corp(func(p *Provider) { p.ID = "handoff" }), "id is not plain"},
		{"markup", corp(func(p *Provider) { p.Name = "<b>" }), "markup"},
		{"no openid", corp(func(p *Provider) { p.Scopes = []string{"email"} }), "openid"},
		{"no secret", corp(func(p *Provider) { p.ClientSecretFile = secretKey + "x" }), "there is no file"},
		{"an empty secret", corp(func(p *Provider) { p.ClientSecretFile = written(t, "\n") }), "has not one line"},
		{"twice", SignIn{Providers: append(corp(nil).Providers, corp(nil).Providers...)}, "given twice"},
		{"hand-off with a public key", hand(at, publicKey), ""},
		{"hand-off while keys change", hand(at, secretKey, publicKey), ""},
		{"hand-off without a key", hand(at), "belong together"},
		{"hand-off without a URL", SignIn{Passwords: true, HandOff: HandOff{KeyFiles: []string{publicKey}}}, "belong together"},
		{"hand-off in clear", hand("http://app.example.com", publicKey), "not an https URL"},
		{"hand-off to a script", hand("javascript:alert(1)", publicKey), "not an https URL"},
		{"a short secret", hand(at, written(t, "short")), "key_files"},
		{"a secret without a name", hand(at, ""), "key_files: there is none"},
		{"another kind of key", hand(at, written(t, "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n")), "not an Ed25519 public key"},
		{"a private key", hand(at, written(t, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")), "not an Ed25519 public key"},
	}
	strong := func(strong string, fresh time.Duration) SignIn {
		return SignIn{Passwords: true, Strong: strong, Fresh: Duration(fresh)}
	}
	tests = append(tests, []struct {
		name string
		c    SignIn
		want string
	}{
		{"a fresh sign-in", strong("fresh", time.Minute), ""},
		{"a second factor", strong("factor", time.Hour), ""},
		{"another strength", strong("on", time.Hour), "is unknown"},
		{"no time to approve", strong("fresh", 59*time.Second), "too short"},
	}...)
	for _, tt := range tests {
		if tt.c.Strong == "" {
			tt.c.Strong, tt.c.Fresh = "off", Duration(time.Hour)
		}
		c := Checked{Config: Config{SignIn: tt.c}}
		err := c.checkSignIn()
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		if err == nil && (len(c.Providers) != len(tt.c.Providers) || (c.HandOff != nil) != (tt.c.HandOff.URL != "")) {
			t.Errorf("%s: read %+v %+v", tt.name, c.Providers, c.HandOff)
		}
	}
	c := Checked{Config: Config{SignIn: corp(nil)}}
	c.SignIn.Strong, c.SignIn.Fresh = "off", Duration(time.Hour)
	if err := c.checkSignIn(); err != nil || c.Providers[0].Name != "corp" || c.Providers[0].ClientSecret != secret || len(c.Providers[0].Scopes) != 3 {
		t.Errorf("read %+v, %v", c.Providers, err)
	}
}

// The configuration that docs/signin.md shows is one that is read.
func TestSignInExample(t *testing.T) {
	const name = "../docs/examples/signin.toml"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	l := Loaded{Config: Defaults(), Origins: map[string]Origin{}}
	if err := l.decode(name, text); err != nil {
		t.Fatal(err)
	}
	if s := l.SignIn; s.Passwords || len(s.Providers) != 1 || s.Providers[0].ID != "corp" || s.HandOff.URL == "" || s.Strong != "off" {
		t.Errorf("read %+v", s)
	}
}
