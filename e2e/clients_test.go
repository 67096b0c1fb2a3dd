package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"

	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/identity/httpidentity"
)

// A seen is a client's HTTP, as it is but for what it tells of it.
type seen struct {
	mu       sync.Mutex
	requests []string // method, path and status
}

// client gives an HTTP client with an address of its own that is watched.
func (s *seen) client(h *house) *http.Client {
	return &http.Client{Transport: watched{h.caller().Transport, s}, Timeout: time.Minute}
}

type watched struct {
	next http.RoundTripper
	seen *seen
}

func (w watched) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err == nil {
		w.seen.mu.Lock()
		defer w.seen.mu.Unlock()
		w.seen.requests = append(w.seen.requests, fmt.Sprint(r.Method, " ", r.URL.Path, " ", resp.StatusCode))
	}
	return resp, err
}

func (s *seen) count(request string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.requests {
		if r == request {
			n++
		}
	}
	return n
}

// approving is a person's browser as the official SDK asks for one: it signs
// in, chooses, and gives what came back to the client.
func approving(h *house, choice ...string) auth.AuthorizationCodeFetcher {
	return func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
		b := h.browser()
		a := b.get(args.URL)
		if a.status != 303 {
			return nil, fmt.Errorf("authorize: %s", a)
		}
		a = b.page(a.header.Get("Location")).form("/signin").submit("email", "ada@nordlys.example", "password", h.password)
		if a.status != 303 {
			return nil, fmt.Errorf("sign in: %s", a)
		}
		a = b.page(a.header.Get("Location")).form("/oauth/authorize").submit(append(choice, "decision", "approve")...)
		u, err := url.Parse(a.header.Get("Location"))
		if err != nil || u.Query().Get("code") == "" {
			return nil, fmt.Errorf("not approved: %s", a)
		}
		q := u.Query()
		return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
	}
}

// connectMCP connects the official SDK's client from nothing but the endpoint.
func connectMCP(t *testing.T, h *house, s *seen, config *auth.AuthorizationCodeHandlerConfig) (*mcp.ClientSession, *auth.AuthorizationCodeHandler) {
	t.Helper()
	config.Client = s.client(h)
	handler, err := auth.NewAuthorizationCodeHandler(config)
	if err != nil {
		t.Fatal(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "quill", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: h.base + "/api/v5/mcp", HTTPClient: s.client(h), OAuthHandler: handler,
	}, nil)
	if err != nil {
		t.Fatalf("%v\n%v", err, s.requests)
	}
	t.Cleanup(func() { session.Close() })
	return session, handler
}

func whoami(t *testing.T, session *mcp.ClientSession) {
	t.Helper()
	r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "whoami", Arguments: map[string]any{}})
	if err != nil || r.IsError || len(r.Content) == 0 || !strings.Contains(r.Content[0].(*mcp.TextContent).Text, "nordlys") {
		t.Fatalf("whoami: %v %+v", err, r)
	}
}

// mcpService runs an MCP server that says who a call is for, and gives what stands of
// it in the configuration: the file that docs/integrating.md shows.
func mcpService(t *testing.T) string {
	t.Helper()
	server := mcp.NewServer(&mcp.Implementation{Name: "notes", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "whoami"}, func(_ context.Context, r *mcp.CallToolRequest, _ any) (*mcp.CallToolResult, any, error) {
		organization := r.Extra.Header.Get(identity.HeaderOrganization)
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: organization}}}, nil, nil
	})
	streams := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	service := httptest.NewServer(httpidentity.Handler(streams, []byte(nginxKey)))
	t.Cleanup(service.Close)
	return example(t, "mcp.toml", "http://127.0.0.1:9100/mcp", service.URL, "/etc/grantkeeper/service.key", secretFile(t, nginxKey))
}

// registering is how the SDK registers itself.
func registering() *auth.DynamicClientRegistrationConfig {
	return &auth.DynamicClientRegistrationConfig{Metadata: &oauthex.ClientRegistrationMetadata{
		ClientName: "Quill Assistant", RedirectURIs: []string{redirect}, TokenEndpointAuthMethod: "none",
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, Scope: "api",
	}}
}

// Section 1's client flow by the official MCP SDK's own client, from a bare
// 401: discovery, registration, approval, exchange, calls, refreshes; and when
// the approval has ended, a new authorization on the same session.
func TestSpec1ClientFlowOfTheMCPSDK(t *testing.T) {
	t.Parallel()
	h := start(t)
	s := &seen{}
	// expired makes the SDK believe that each access token is over, so that
	// it refreshes before each request.
	expired := func(ctx context.Context, c *oauth2.Config, token *oauth2.Token) (oauth2.TokenSource, error) {
		old := *token
		old.Expiry = time.Now().Add(-time.Hour)
		return c.TokenSource(ctx, &old), nil
	}
	session, handler := connectMCP(t, h, s, &auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: registering(), AuthorizationCodeFetcher: approving(h, everything...), NewTokenSource: expired, RequestRefreshToken: true,
	})
	whoami(t, session)
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil || len(tools.Tools) == 0 {
		t.Fatalf("tools: %v", err)
	}
	for request, n := range map[string]int{
		"POST /api/v5/mcp 401": 1, "GET /.well-known/oauth-protected-resource/api/v5/mcp 200": 1, "GET /.well-known/oauth-authorization-server 200": 1,
		"POST /oauth/register 201": 1, "POST /oauth/token 200": 2, // the exchange and a refresh
	} {
		if got := s.count(request); got != n {
			t.Errorf("%s: %d times, want %d\n%s", request, got, n, strings.Join(s.requests, "\n"))
		}
	}
	source, err := handler.TokenSource(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	token, err := source.Token()
	if err != nil || !strings.HasPrefix(token.AccessToken, "svo_") || token.Type() != "Bearer" || token.Extra("scope") != "api" {
		t.Fatalf("token: %v %+v", err, token)
	}
	// Revoked by its client; the SDK gets 401 and asks the person again.
	clients := h.items("/v1/clients?state=approved")
	if len(clients) != 1 {
		t.Fatalf("clients: %v", clients)
	}
	if a := h.caller().postForm("/oauth/revoke", "token", token.AccessToken, "client_id", clients[0]["client_id"].(string)); a.status != 200 {
		t.Fatal(a)
	}
	whoami(t, session)
	if got := s.count("POST /oauth/register 201"); got != 2 {
		t.Errorf("after the revocation the SDK has registered %d times\n%s", got, strings.Join(s.requests, "\n"))
	}
}

// The SDK as a preregistered client without a secret, as section 1 has it.
func TestSpec1PreregisteredClientOfTheMCPSDK(t *testing.T) {
	t.Parallel()
	h := start(t)
	s := &seen{}
	session, _ := connectMCP(t, h, s, &auth.AuthorizationCodeHandlerConfig{
		PreregisteredClient:      &oauthex.ClientCredentials{ClientID: "dev-client"},
		RedirectURL:              h.base + "/dev/client",
		AuthorizationCodeFetcher: approving(h, treasurer...),
	})
	whoami(t, session)
	if s.count("POST /oauth/register 201") != 0 {
		t.Error("it registered")
	}
}

// The SDK on another host of the installation: everything it finds is there.
func TestSpec1ClientFlowOnAnotherHost(t *testing.T) {
	t.Parallel()
	h := start(t).at("localhost")
	s := &seen{}
	session, _ := connectMCP(t, h, s, &auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: registering(), AuthorizationCodeFetcher: approving(h, treasurer...),
	})
	whoami(t, session)
}

// The same flow by golang.org/x/oauth2, for the API: AuthCodeURL with S256,
// Exchange, a TokenSource that refreshes by itself, and the error that it gives
// after the revocation.
func TestSpec1ClientFlowOfXOAuth2(t *testing.T) {
	t.Parallel()
	for _, style := range []oauth2.AuthStyle{oauth2.AuthStyleAutoDetect, oauth2.AuthStyleInParams} {
		h := start(t)
		s := &seen{}
		ctx := context.WithValue(t.Context(), oauth2.HTTPClient, s.client(h))
		config := &oauth2.Config{ClientID: h.register(), RedirectURL: redirect, Scopes: []string{"api"}, Endpoint: oauth2.Endpoint{
			AuthURL: h.base + "/oauth/authorize", TokenURL: h.base + "/oauth/token", AuthStyle: style,
		}}
		verifier := oauth2.GenerateVerifier()
		got, err := approving(h, treasurer...)(ctx, &auth.AuthorizationArgs{URL: config.AuthCodeURL("the state", oauth2.S256ChallengeOption(verifier))})
		if err != nil || got.State != "the state" || got.Iss != h.base {
			t.Fatalf("%v %+v", err, got)
		}
		if _, err := config.Exchange(ctx, got.Code, oauth2.VerifierOption(oauth2.GenerateVerifier())); !refusedWith(err, "invalid_grant") {
			t.Errorf("a wrong verifier: %v", err)
		}
		// Where the client tries Basic first, it is refused, and nothing is
		// used up (decisions T3 and T4).
		token, err := config.Exchange(ctx, got.Code, oauth2.VerifierOption(verifier))
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(token.Expiry); left < 29*time.Minute || left > 30*time.Minute || token.Type() != "Bearer" {
			t.Errorf("%+v", token)
		}
		get := func(c *http.Client) int {
			t.Helper()
			resp, err := c.Get(h.base + "/api/v5/me")
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		if status := get(config.Client(ctx, token)); status != 200 {
			t.Errorf("API: %d", status)
		}
		first := *token
		for range 3 {
			old := *token
			old.Expiry = time.Now().Add(-time.Second)
			next, err := config.TokenSource(ctx, &old).Token()
			if err != nil || next.RefreshToken == old.RefreshToken || next.AccessToken == old.AccessToken {
				t.Fatalf("refresh: %v", err)
			}
			token = next
		}
		if status := get(config.Client(ctx, token)); status != 200 {
			t.Errorf("API after refreshes: %d", status)
		}
		if a := h.caller().postForm("/oauth/revoke", "token", first.RefreshToken, "client_id", config.ClientID); a.status != 200 {
			t.Fatal(a)
		}
		if status := get(config.Client(ctx, token)); status != 401 {
			t.Errorf("API after the revocation: %d", status)
		}
		token.Expiry = time.Now().Add(-time.Second)
		if _, err := config.TokenSource(ctx, token).Token(); !refusedWith(err, "invalid_grant") {
			t.Errorf("refresh after the revocation: %v", err)
		}
	}
}

func refusedWith(err error, code string) bool {
	e, ok := errors.AsType[*oauth2.RetrieveError](err)
	return ok && e.ErrorCode == code && e.ErrorDescription != ""
}

// fifty sends the same request fifty times at once and counts the answers.
func fifty(t *testing.T, h *house, fields ...string) (won []tokens) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	ready := make(chan struct{})
	for range 50 {
		c := h.caller()
		wg.Go(func() {
			<-ready
			a := c.postForm("/oauth/token", fields...)
			mu.Lock()
			defer mu.Unlock()
			if a.status == 200 {
				won = append(won, tokensOf(t, a))
			} else {
				wantError(t, "one of fifty", a, 400, "invalid_grant")
			}
		})
	}
	close(ready)
	wg.Wait()
	return won
}

// Spec 8, "single use"; spec 3, "presented again": of fifty at once exactly
// one gets tokens, and then the approval is over, because the others were
// reuse (decisions T5 and T6).
func TestSpec3FiftyAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 3 {
		f, code := h.issued("")
		_, beside := h.connected(f.client)
		won := fifty(t, h, "grant_type", "authorization_code", "code", code, "redirect_uri", f.redirect, "client_id", f.client, "code_verifier", f.verifier)
		if len(won) != 1 {
			t.Errorf("%d of 50 exchanges of one code got tokens", len(won))
		}
		for _, tk := range won {
			h.over(t, "after fifty exchanges", f, tk)
		}
		f, first := h.connected(f.client)
		won = fifty(t, h, "grant_type", "refresh_token", "refresh_token", first.refresh, "client_id", f.client)
		if len(won) != 1 {
			t.Errorf("%d of 50 refreshes of one token got tokens", len(won))
		}
		for _, tk := range append(won, first) {
			h.over(t, "after fifty refreshes", f, tk)
		}
		if !h.works(beside.access) {
			t.Error("another approval has ended")
		}
		if got := h.reasons(f.client); got["code_reused"] != 1 || got["refresh_reused"] != 1 {
			t.Errorf("approvals by the reason of their end: %v", got)
		}
	}
}
