package connect

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/strictjson"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// A server is the authorization server of an endpoint, as its metadata say.
type server struct {
	Issuer    string `json:"issuer"`
	Authorize string `json:"authorization_endpoint"`
	Token     string `json:"token_endpoint"`
	Revoke    string `json:"revocation_endpoint"`
	Desktop   string `json:"grantkeeper_desktop_endpoint"`
}

// maxDocument bounds what a server answers about credentials: bytes.
const maxDocument = 64 << 10

// maxMe bounds what it answers about the caller, whose roles may be many: bytes.
const maxMe = 4 << 20

// discover finds the authorization server from a bare 401, as MCP has it: the resource's
// metadata (RFC 9728), then the server's (RFC 8414). All has to be of the endpoint's own
// host, which is the one that the person has named.
func discover(ctx context.Context, c *http.Client, e endpoint) (server, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.url, nil)
	if err != nil {
		return server{}, fault.WrongUse(exampleURL, "%v", err)
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer, err := c.Do(r)
	if err != nil {
		return server{}, unreachable(e, err)
	}
	answer.Body.Close()
	at := resourceMetadata(answer.Header.Values("WWW-Authenticate"))
	if answer.StatusCode != http.StatusUnauthorized || at == "" {
		return server{}, cannot("see that the address is the one that the service gives for MCP", "%s answers %s, and does not say how to get access", e.url, answer.Status)
	}
	var resource struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	if err := document(ctx, c, e, at, &resource); err != nil {
		return server{}, err
	}
	if resource.Resource != e.url {
		return server{}, cannot("use that address, if it is the one you mean", "%s says that it is %q", e.url, resource.Resource)
	}
	if len(resource.Servers) == 0 || resource.Servers[0] != e.origin {
		return server{}, cannot("", "%s names an authorization server of another host, which connect does not follow", e.url)
	}
	var s server
	if err := document(ctx, c, e, e.origin+"/.well-known/oauth-authorization-server", &s); err != nil {
		return server{}, err
	}
	return s, s.check(e)
}

// check holds the metadata to the endpoint's host.
func (s server) check(e endpoint) error {
	if s.Issuer != e.origin {
		return cannot("", "the authorization server of %s calls itself %q", e.host, s.Issuer)
	}
	if s.Desktop == "" {
		return cannot("its operator can allow it: clients.desktop = true", "%s does not let assistants on a person's own computer connect this way", e.host)
	}
	for _, one := range []string{s.Authorize, s.Token, s.Revoke, s.Desktop} {
		if !strings.HasPrefix(one, e.origin+"/") || client.CheckBytes(one) != nil || strings.Contains(one, "?") {
			return cannot("", "the authorization server of %s names %q, which is not its own", e.host, one)
		}
	}
	return nil
}

// resourceMetadata finds the address in a challenge.
func resourceMetadata(challenges []string) string {
	for _, one := range challenges {
		if _, rest, found := strings.Cut(one, `resource_metadata="`); found {
			at, _, whole := strings.Cut(rest, `"`)
			if whole {
				return at
			}
		}
	}
	return ""
}

// document reads one of the endpoint's host.
func document(ctx context.Context, c *http.Client, e endpoint, at string, into any) error {
	if !strings.HasPrefix(at, e.origin+"/") || client.CheckBytes(at) != nil {
		return cannot("", "%s sends elsewhere, to %q, which connect does not follow", e.url, at)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return cannot("", "%v", err)
	}
	answer, err := c.Do(r)
	if err != nil {
		return unreachable(e, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err == nil {
		err = strictjson.Into(text, into)
	}
	if err != nil {
		return cannot("a proxy before it may be in the way", "%s: %v", at, err)
	}
	return nil
}

func unreachable(e endpoint, err error) error {
	if inner := errors.Unwrap(err); inner != nil { // of url.Error, whose text has the whole URL
		err = inner
	}
	return cannot("see that this computer is online, and the address right", "%s cannot be reached: %v", e.host, err)
}

// newSecret gives 43 characters that nobody guesses.
func newSecret() string {
	b := make([]byte, 32)
	rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// An answer of one of the server's endpoints.
type answer struct {
	told

	status int
	wait   int // seconds of Retry-After
}

// told is what an answer says, of whichever endpoint.
type told struct {
	State   string `json:"state"`
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Seconds int64  `json:"expires_in"`
	Error   string `json:"error"`
	Says    string `json:"error_description"`
	Outcome string `json:"outcome"`
}

// busy reports whether the same may be sent again: nothing of it was used up. A server
// that has lost its database while it wrote says that it does not know.
func (a answer) busy() bool {
	return a.status == http.StatusTooManyRequests || a.Error == "temporarily_unavailable" && a.Outcome != "unknown"
}

// unsent is why nothing of a request has left this machine.
type unsent struct{ error }

func (u unsent) Unwrap() error { return u.error }

// post sends a form. Where the error is not unsent, it may have been received.
func post(ctx context.Context, c *http.Client, e endpoint, to string, form url.Values) (a answer, err error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(form.Encode()))
	if err != nil {
		return answer{}, unsent{cannot("", "%v", err)}
	}
	r.GetBody = nil // never a second time by itself
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	response, err := c.Do(r)
	if err != nil {
		err = unreachable(e, err)
		if !sent.Load() {
			err = unsent{err}
		}
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxDocument))
	if err != nil {
		return answer{}, unreachable(e, err)
	}
	a.status = response.StatusCode
	a.wait, _ = strconv.Atoi(response.Header.Get("Retry-After"))
	if strictjson.Into(text, &a.told) != nil { // a proxy's page, or nothing: it says no more than its status
		a.told = told{}
	}
	return a, nil
}

// ask says where this program waits, and gives the state to send.
func (s server) ask(ctx context.Context, c *http.Client, e endpoint, p pending, program string) (state string, err error) {
	form := url.Values{"port": {strconv.Itoa(p.Port)}, "path": {p.Path}, "code_challenge": {challengeOf(p.Verifier)}}
	if program != "" && client.CheckName(program) == nil {
		form.Set("program", program)
	}
	a, err := post(ctx, c, e, s.Desktop, form)
	switch {
	case err != nil:
		return "", err
	case a.status == http.StatusTooManyRequests:
		return "", cannot(fmt.Sprintf("wait %d seconds", a.wait), "too many requests from this network")
	case a.status != http.StatusOK || a.State == "":
		return "", cannot("a proxy before it may be in the way", "%s does not take the request to connect (%d %s)", e.host, a.status, a.Says)
	}
	return a.State, nil
}

// address is where the person's browser goes.
func (s server) address(e endpoint, p pending) string {
	return s.Authorize + "?" + url.Values{
		"response_type": {"code"}, "client_id": {client.DesktopID}, "redirect_uri": {s.Issuer + client.DesktopPath},
		"code_challenge": {challengeOf(p.Verifier)}, "code_challenge_method": {"S256"}, "state": {p.State}, "resource": {e.url},
	}.Encode()
}

// exchange gives the tokens for a code.
func (s server) exchange(ctx context.Context, c *http.Client, e endpoint, code, verifier string) (answer, error) {
	a, err := post(ctx, c, e, s.Token, url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client.DesktopID}, "code": {code},
		"redirect_uri": {s.Issuer + client.DesktopPath}, "code_verifier": {verifier},
	})
	switch {
	case err != nil:
		return answer{}, err
	case a.status != http.StatusOK || a.Access == "" || a.Refresh == "":
		return answer{}, cannot("try again", "%s does not give access for the code (%s)", e.host, a.Error)
	}
	return a, nil
}

// who asks whose access a token is, and where: "Ada Berg, in Nordlys". It is "" where the
// server does not say.
func (s server) who(ctx context.Context, c *http.Client, access string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a browser waits to be told
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Issuer+"/api/v5/me", nil)
	if err != nil {
		return ""
	}
	r.Header.Set("Authorization", "Bearer "+access)
	r.Header.Set("Accept", "application/json")
	answer, err := c.Do(r)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxMe))
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	members, err := strictjson.Object(text, depth)
	if err != nil {
		return ""
	}
	var names [2]string
	for i, of := range []string{"person", "organization"} {
		one := inside(members, of)
		if names[i] = textOf(one["name"]); names[i] == "" {
			names[i] = textOf(one["id"])
		}
		names[i] = terminal.CutTo(terminal.Printable(names[i]), terminal.MostShown)
	}
	if names[0] == "" || names[1] == "" {
		return ""
	}
	return names[0] + ", in " + names[1]
}

// refresh sends a refresh token, once.
func (s server) refresh(ctx context.Context, c *http.Client, e endpoint, token string) (answer, error) {
	return post(ctx, c, e, s.Token, url.Values{"grant_type": {"refresh_token"}, "client_id": {client.DesktopID}, "refresh_token": {token}})
}

// revoke ends the approval of a token, a used one too (decision T9).
func (s server) revoke(ctx context.Context, c *http.Client, e endpoint, token string) error {
	a, err := post(ctx, c, e, s.Revoke, url.Values{"client_id": {client.DesktopID}, "token": {token}})
	if err == nil && a.status != http.StatusOK {
		err = cannot("or end it under Connected apps", "%s does not end the access (%d %s)", e.host, a.status, a.Error)
	}
	return err
}
