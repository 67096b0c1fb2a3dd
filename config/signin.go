package config

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/org"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/signin"
)

// SignIn says where people have their accounts.
type SignIn struct {
	Strong    string     `toml:"strong_approvals" env:"SIGNIN_STRONG_APPROVALS" doc:"what an approval of everything a person can access, or of everything in an organization, asks for: off, fresh (a sign-in of a moment ago, or a second factor), factor (a second factor)"`
	Fresh     Duration   `toml:"fresh" env:"SIGNIN_FRESH" doc:"how long ago a moment ago may be; at least 1m"`
	Passwords bool       `toml:"passwords" env:"SIGNIN_PASSWORDS" doc:"whether people may sign in with a password of their own here"`
	HandOff   HandOff    `toml:"handoff"`
	Providers []Provider `toml:"providers" doc:"OpenID providers that people sign in at"`
}

// HandOff is signing in at the service itself.
type HandOff struct {
	URL      string   `toml:"url" env:"SIGNIN_HANDOFF_URL" secret:"url" doc:"where the service says who is signed in there, as an https URL; without one there is no hand-off"`
	Name     string   `toml:"name" doc:"its name on the sign-in page; without one the service's name"`
	KeyFiles []string `toml:"key_files" env:"SIGNIN_HANDOFF_KEY_FILES" doc:"files with the keys that it signs with: an Ed25519 public key in PEM, or a secret of one line; several while they change"`
}

// Provider is one OpenID provider.
type Provider struct {
	ID               string   `toml:"id" doc:"its name in paths and in the journal: the redirect URI there is {base}/signin/callback/{id}, for a back-channel logout {base}/signin/logout/{id}"`
	Name             string   `toml:"name" doc:"its name on pages"`
	Issuer           string   `toml:"issuer" doc:"its issuer, byte for byte"`
	ClientID         string   `toml:"client_id" doc:"this server's client ID there"`
	ClientSecretFile string   `toml:"client_secret_file" doc:"the file with the client secret; without one this server is a public client there"`
	Scopes           []string `toml:"scopes" doc:"what is asked for, with openid; without any: openid, email, profile"`
	PersonClaim      string   `toml:"person_claim" doc:"the claim that holds a person's ID here; without one the verified email connects the account at the first sign-in"`
	ActorClaim       string   `toml:"actor_claim" doc:"a claim that, beside act, says that somebody else acts for the person"`
	Provision        bool     `toml:"provision" doc:"whether whoever is unknown here is added, without any membership"`
}

// checkSignIn reads how people sign in.
func (c *Checked) checkSignIn() error {
	if !c.SignIn.Passwords && len(c.SignIn.Providers) == 0 && c.SignIn.HandOff.URL == "" {
		return fault.BadConfig("add [[signin.providers]], or take passwords = false out", "signin: there is no way to sign in")
	}
	if !slices.Contains([]string{"off", string(signin.StrengthFresh), string(signin.StrengthFactor)}, c.SignIn.Strong) {
		return fault.BadConfig("use off, fresh or factor", "signin.strong_approvals: %q is unknown", c.SignIn.Strong)
	}
	if c.SignIn.Fresh < Duration(time.Minute) {
		return fault.BadConfig(`write fresh = "10m"`, "signin.fresh: less than a minute is too short to approve in")
	}
	seen := map[string]bool{}
	for i, one := range c.SignIn.Providers {
		what := fmt.Sprintf("signin.providers[%d] %q", i, one.ID)
		if org.CheckID(one.ID) != nil || one.ID == "handoff" || seen[one.ID] {
			return fault.BadConfig("give each provider an id of its own, in letters and digits", "%s: the id is not plain, or given twice", what)
		}
		seen[one.ID] = true
		p, err := one.check(what)
		if err != nil {
			return err
		}
		c.Providers = append(c.Providers, p)
	}
	return c.checkHandOff()
}

func (one Provider) check(what string) (provider.Config, error) {
	p := provider.Config{ID: one.ID, Name: one.Name, Issuer: one.Issuer, ClientID: one.ClientID, Scopes: one.Scopes,
		PersonClaim: one.PersonClaim, ActorClaim: one.ActorClaim, Provision: one.Provision}
	if p.Name == "" {
		p.Name = one.ID
	}
	if len(p.Scopes) == 0 {
		p.Scopes = []string{"openid", "email", "profile"}
	}
	switch {
	case !plainName(p.Name):
		return p, fault.BadConfig("take a plain name", "%s: name %q is too long, or has markup or control characters", what, p.Name)
	case !elsewhere(one.Issuer) || strings.Contains(one.Issuer, "?"):
		return p, fault.BadConfig(`write issuer = "https://login.example.com"`, "%s: issuer is not an https URL without a query", what)
	case one.ClientID == "":
		return p, fault.BadConfig("write the client ID that the provider has for this server", "%s: client_id is missing", what)
	case !slices.Contains(p.Scopes, "openid"):
		return p, fault.BadConfig(`add "openid"`, "%s: scopes do not have openid", what)
	}
	if one.ClientSecretFile == "" {
		return p, nil
	}
	b, err := readSecret(what+" client_secret_file", one.ClientSecretFile, "write the client secret into a file, and chmod 600 FILE")
	if err != nil {
		return p, err
	}
	p.ClientSecret = strings.TrimRight(string(b), "\r\n")
	if p.ClientSecret == "" || strings.ContainsAny(p.ClientSecret, "\r\n") {
		return p, fault.BadConfig("write one line into it", "%s: %s has not one line", what, one.ClientSecretFile)
	}
	return p, nil
}

func plainName(name string) bool {
	return strings.TrimSpace(name) != "" && len(name) <= 100 && client.CheckName(name) == nil
}

// elsewhere reports whether a URL may be where people sign in: https, or
// loopback.
func elsewhere(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Hostname() != "" && u.User == nil && !strings.Contains(s, "#") && u.Opaque == "" &&
		(u.Scheme == "https" || u.Scheme == "http" && client.Loopback(strings.ToLower(u.Hostname())))
}

func (c *Checked) checkHandOff() error {
	h := c.SignIn.HandOff
	switch {
	case h.URL == "" && len(h.KeyFiles) == 0 && h.Name == "":
		return nil
	case h.URL == "" || len(h.KeyFiles) == 0:
		return fault.BadConfig("set both, or neither", "signin.handoff: url and key_files belong together")
	case !elsewhere(h.URL):
		return fault.BadConfig(`write url = "https://app.example.com/grantkeeper"`, "signin.handoff.url: not an https URL")
	case h.Name != "" && !plainName(h.Name):
		return fault.BadConfig("take a plain name", "signin.handoff.name: %q is too long, or has markup or control characters", h.Name)
	}
	c.HandOff = &signin.HandOff{Name: h.Name, URL: h.URL}
	for _, name := range h.KeyFiles {
		key, err := readAssertionKey(name)
		if err != nil {
			return err
		}
		c.HandOff.Keys = append(c.HandOff.Keys, key)
	}
	return nil
}

// readAssertionKey reads a public key, which anybody may see, or a secret.
func readAssertionKey(name string) (identity.AssertionKey, error) {
	const what = "signin.handoff.key_files"
	isPEM := func(b []byte) bool { return bytes.HasPrefix(b, []byte("-----BEGIN ")) }
	b, err := readSecretUnless(isPEM, what, name, makeGatewayKey)
	if err != nil {
		return identity.AssertionKey{}, err
	}
	if !isPEM(b) {
		secret, err := keyOfGateway(what, name, b)
		return identity.AssertionKey{Secret: []byte(secret)}, err
	}
	block, _ := pem.Decode(b)
	if block != nil && block.Type == "PUBLIC KEY" {
		if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
			if public, ok := key.(ed25519.PublicKey); ok {
				return identity.AssertionKey{Ed25519: public}, nil
			}
		}
	}
	return identity.AssertionKey{}, fault.BadConfig("run: openssl pkey -in KEY -pubout", "%s: %s is not an Ed25519 public key in PEM", what, name)
}
