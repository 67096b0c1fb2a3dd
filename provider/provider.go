// Package provider is the far side of signing in: an OpenID provider, where
// people have their accounts, and this server as its client (OpenID Connect
// Core 1.0, section 3.1: the code flow, with PKCE).
//
// It says who the provider vouches for. Who that is here, and whether they may
// sign in, is not decided here.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/grantkeeper/grantkeeper/strictjson"
)

// Config is one provider as it is configured.
type Config struct {
	ID           string   // in paths of this server, and in the journal
	Name         string   // as people know it
	Issuer       string   // byte for byte as the provider says it
	ClientID     string   // of this server, at the provider
	ClientSecret string   // empty for a public client
	Scopes       []string // with openid
	PersonClaim  string   // names the person here, by ID; empty: a verified email does, once
	ActorClaim   string   // beside act, says that somebody else acts for the person
	Provision    bool     // whoever is unknown here is added
}

// Timeout is how long a provider may take for all that one sign-in asks of it.
const Timeout = 10 * time.Second

// How long what a provider says of itself is believed, and how long a provider
// that does not answer is left alone.
const (
	metadataAge = time.Hour
	downFor     = 5 * time.Second
	renewing    = 2 * time.Second // for newer metadata than those that are known: the sign-in needs the rest of its time
)

// maxAnswer is the most bytes that an answer of a provider may have.
const maxAnswer = 1 << 20

// ErrDown says that the provider does not answer, or not in time.
var ErrDown = errors.New("the provider does not answer")

// A Provider is safe for concurrent use. It asks nothing before somebody signs
// in, so a provider that is down stops no start.
type Provider struct {
	Config
	now    func() time.Time
	client *http.Client

	asking   chan struct{} // held by the one who asks for metadata
	known    *metadata
	failedAt time.Time
}

// New makes a provider. now is the clock that tokens are held against.
func New(c Config, now func() time.Time) *Provider {
	// A code counts once, so what sends it is not sent again by itself. A connection
	// that was kept while the person signed in may just end when it is.
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.DisableKeepAlives = true
	return &Provider{Config: c, now: now, asking: make(chan struct{}, 1), client: &http.Client{
		Timeout:   Timeout,
		Transport: bounded{own},
		// A provider's endpoints are where it says; nothing leads us elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// bounded cuts off answers that are too long, and leaves nothing of JSON that two
// readers could read differently: metadata, keys, tokens, UserInfo.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusInternalServerError { // at whichever endpoint, it is down
		return nil, errors.Join(fmt.Errorf("it answers %d", resp.StatusCode), resp.Body.Close())
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if closed := resp.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	_, wrong := strictjson.Folded(text, strictjson.Depth)
	if wrong != nil && !errors.Is(wrong, strictjson.ErrJSON) && !errors.Is(wrong, strictjson.ErrObject) { // which are left to the library
		text = nil
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	return resp, nil
}

// metadata is what a provider says of itself (OpenID Connect Discovery 1.0).
type metadata struct {
	*oidc.Provider
	keys         *keySet
	at           time.Time
	signsWith    []string
	saysIssuer   bool // RFC 9207
	prompts      []string
	tokenMethods []string
}

// algorithms may sign a token: never none, and never a secret that both sides
// know (RFC 8725 section 3.1).
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// discover gives the provider's metadata. Old ones serve while it is down.
func (p *Provider) discover(ctx context.Context) (*metadata, error) {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrDown, ctx.Err())
	}
	now := time.Now() // of the machine: how old an answer is has nothing to do with tokens
	if p.known != nil && now.Sub(p.known.at) < metadataAge {
		return p.known, nil
	}
	if now.Sub(p.failedAt) < downFor {
		return p.stale(fmt.Errorf("%w: it did not a moment ago", ErrDown))
	}
	within := Timeout
	if p.known != nil {
		within = renewing
	}
	if ends, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(ends))
	}
	// A browser that goes away says nothing of the provider, and others wait for the answer.
	asked, stop := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer stop()
	m, err := p.ask(asked)
	if err != nil {
		p.failedAt = time.Now()
		return p.stale(err)
	}
	m.at, p.known = now, m
	return m, nil
}

// Reach asks for the metadata and the keys, as a sign-in does: its error says
// what of them cannot be had, and nothing of what was answered.
func (p *Provider) Reach(ctx context.Context) error {
	m, err := p.discover(ctx)
	if err != nil {
		return err
	}
	// Keys are fetched for any token, and one that nobody signed is then refused.
	_, err = m.keys.VerifySignature(ctx, "eyJhbGciOiJSUzI1NiJ9.e30.AA")
	if err != nil && strings.HasPrefix(err.Error(), fetchingKeys) {
		return fmt.Errorf("%w: keys", ErrDown)
	}
	return nil
}

// fetchingKeys begins the error of keys that cannot be had.
const fetchingKeys = "fetching keys"

func (p *Provider) stale(err error) (*metadata, error) {
	if p.known != nil {
		return p.known, nil
	}
	return nil, err
}

func (p *Provider) ask(ctx context.Context) (*metadata, error) {
	at, err := oidc.NewProvider(oidc.ClientContext(ctx, p.client), p.Issuer)
	if wrong, ok := errors.AsType[*oidc.IssuerMismatchError](err); ok {
		return nil, fmt.Errorf("metadata: %w", wrong)
	} else if lost, ok := errors.AsType[*url.Error](err); ok {
		return nil, fmt.Errorf("%w: metadata: %w", ErrDown, lost.Err)
	} else if err != nil {
		return nil, fmt.Errorf("%w: its metadata cannot be read", ErrDown)
	}
	var said struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
		Issuer     bool     `json:"authorization_response_iss_parameter_supported"`
		Prompts    []string `json:"prompt_values_supported"`
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := at.Claims(&said); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	keys := &keySet{at: said.Keys, RemoteKeySet: oidc.NewRemoteKeySet(oidc.ClientContext(context.Background(), p.client), said.Keys)}
	if p.known != nil {
		keys.goOn(p.known.keys)
	}
	m := &metadata{Provider: at, keys: keys,
		saysIssuer: said.Issuer, prompts: said.Prompts, tokenMethods: said.Methods}
	for _, a := range said.Algorithms {
		if slices.Contains(algorithms, a) {
			m.signsWith = append(m.signsWith, a)
		}
	}
	if len(m.signsWith) == 0 {
		m.signsWith = []string{oidc.RS256} // what every provider must have
	}
	return m, nil
}

// A keySet is the provider's keys since its metadata were read last: a key that it has
// given up is forgotten then. Those that were known before serve until new ones are had.
type keySet struct {
	*oidc.RemoteKeySet
	at     string // URL
	before atomic.Pointer[oidc.RemoteKeySet]
}

// goOn takes over the keys of an earlier set of the same address.
func (k *keySet) goOn(earlier *keySet) {
	if earlier.at == k.at {
		k.before.Store(cmp.Or(earlier.before.Load(), earlier.RemoteKeySet))
	}
}

// VerifySignature is that of oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := k.RemoteKeySet.VerifySignature(ctx, jwt)
	if err == nil || !strings.HasPrefix(err.Error(), fetchingKeys) {
		k.before.Store(nil)
		return payload, err
	}
	if before := k.before.Load(); before != nil {
		return before.VerifySignature(ctx, jwt)
	}
	return payload, err
}

// A verifier holds one token against the provider's keys, which are asked for
// again when a token names another one, and with the metadata.
type verifier struct {
	*oidc.IDTokenVerifier
	keys *keySet
	lost bool // keys could not be had
}

func (p *Provider) verifier(m *metadata) *verifier {
	v := &verifier{keys: m.keys}
	v.IDTokenVerifier = oidc.NewVerifier(p.Issuer, v, &oidc.Config{
		ClientID: p.ClientID, SupportedSigningAlgs: m.signsWith, Now: p.now})
	return v
}

func (v *verifier) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	payload, err := v.keys.VerifySignature(ctx, jwt)
	if err != nil && strings.HasPrefix(err.Error(), fetchingKeys) {
		v.lost = true
		return nil, ErrDown // its text may hold what was answered
	}
	return payload, err
}

// fault tells keys that cannot be had from a token that is wrong.
func (v *verifier) fault(what string, err error) error {
	if v.lost {
		return fmt.Errorf("%w: keys", ErrDown)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (p *Provider) oauth(m *metadata, redirectURI string) *oauth2.Config {
	at := m.Endpoint()
	switch basic := len(m.tokenMethods) == 0 || slices.Contains(m.tokenMethods, "client_secret_basic"); {
	case p.ClientSecret != "" && basic:
		at.AuthStyle = oauth2.AuthStyleInHeader
	default:
		at.AuthStyle = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{ClientID: p.ClientID, ClientSecret: p.ClientSecret, Endpoint: at,
		RedirectURL: redirectURI, Scopes: p.Scopes}
}

// A Secret is what one sign-in keeps from everybody else: 32 random bytes.
// Nonce and PKCE verifier come from it.
type Secret [32]byte

func (s Secret) derive(what string) string {
	sum := sha256.Sum256(append([]byte(what+":"), s[:]...))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// An Ask is one sign-in at a provider, as this server asks for it.
type Ask struct {
	RedirectURI string
	Secret      Secret
	State       string
	Fresh       bool // the person is to prove anew who they are
	Another     bool // the person is to choose another account
}

// Begin gives the address that the browser goes to.
func (p *Provider) Begin(ctx context.Context, a Ask) (string, error) {
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	m, err := p.discover(ctx)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{
		oidc.Nonce(a.Secret.derive("nonce")), oauth2.S256ChallengeOption(a.Secret.derive("verifier")),
	}
	switch {
	case a.Fresh:
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"), oauth2.SetAuthURLParam("max_age", "0"))
	case a.Another && slices.Contains(m.prompts, "select_account"):
		options = append(options, oauth2.SetAuthURLParam("prompt", "select_account"))
	case a.Another: // every provider knows this one; some refuse what they do not
		options = append(options, oauth2.SetAuthURLParam("prompt", "login"))
	}
	return p.oauth(m, a.RedirectURI).AuthCodeURL(a.State, options...), nil
}

// Claims is what a provider vouches for.
type Claims struct {
	Issuer, Subject string
	Email           string // empty unless the provider has verified it
	Name            string
	Person          string    // of the claim PersonClaim
	ActedBy         string    // who acts for the person; empty when it is the person
	AuthTime        time.Time // when the person proved who they are; zero when unsaid
	Session         string    // sid, for a logout
	Methods         []string  // amr (RFC 8176)
}

// An Answer is how the browser came back.
type Answer struct {
	Code, Issuer string // query parameters code and iss
}

// Finish exchanges the code and gives what the provider vouches for. Every
// error but ErrDown means that it cannot be believed.
func (p *Provider) Finish(ctx context.Context, a Ask, got Answer) (Claims, error) {
	ctx, stop := context.WithTimeout(ctx, Timeout)
	defer stop()
	m, err := p.discover(ctx)
	if err != nil {
		return Claims{}, err
	}
	// RFC 9207 section 2.4: against a code of another provider.
	if got.Issuer != p.Issuer && (got.Issuer != "" || m.saysIssuer) {
		return Claims{}, errors.New("iss of the answer is not the provider's")
	}
	ctx = oidc.ClientContext(ctx, p.client)
	t, err := p.oauth(m, a.RedirectURI).Exchange(ctx, got.Code, oauth2.VerifierOption(a.Secret.derive("verifier")))
	if err != nil {
		return Claims{}, exchangeError(err)
	}
	raw, ok := t.Extra("id_token").(string)
	if !ok {
		return Claims{}, errors.New("the token answer has no ID token")
	}
	verifier := p.verifier(m)
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return Claims{}, verifier.fault("ID token", err)
	}
	said, err := p.check(token, t.AccessToken, a)
	if err != nil {
		return Claims{}, err
	}
	return p.claims(ctx, m, said, t)
}

// exchangeError keeps what the provider answered to itself: it may hold
// anything.
func exchangeError(err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response != nil {
		return fmt.Errorf("the provider refuses the code: status %d, error %.40q", refused.Response.StatusCode, refused.ErrorCode)
	}
	if lost, ok := errors.AsType[*url.Error](err); ok {
		return fmt.Errorf("%w: token endpoint: %w", ErrDown, lost.Err)
	}
	return errors.New("the token answer cannot be read")
}
