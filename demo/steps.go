package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/oauth2"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/doctor"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Discover reads the metadata.
func (d *Client) Discover(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "GET  /.well-known/oauth-authorization-server"}
	a, err := d.get(ctx, d.Base+"/.well-known/oauth-authorization-server")
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := a.want(http.StatusOK); err != nil {
		return o, err
	}
	if a.member("issuer") != d.Base {
		return o, fmt.Errorf("expected the issuer %s, got %q", d.Base, a.member("issuer"))
	}
	d.authorizeAt, d.tokenAt, d.registerAt = a.member("authorization_endpoint"), a.member("token_endpoint"), a.member("registration_endpoint")
	for _, at := range []string{d.authorizeAt, d.tokenAt, d.registerAt} {
		if !strings.HasPrefix(at, d.Base+"/") {
			return o, fmt.Errorf("expected endpoints on %s, got %q", d.Base, at)
		}
	}
	return o, nil
}

func (d *Client) register(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "POST /oauth/register"}
	body, err := json.Marshal(map[string]any{"client_name": "Grantkeeper demo", "redirect_uris": []string{demoRedirect}})
	if err != nil {
		return o, err
	}
	a, err := d.send(ctx, http.MethodPost, d.registerAt, body, map[string]string{"Content-Type": "application/json"})
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := a.want(http.StatusCreated); err != nil {
		return o, err
	}
	if d.ClientID = a.member("client_id"); d.ClientID == "" || a.member("client_secret") != "" {
		return o, errors.New("expected a client_id and no client_secret")
	}
	id := d.ClientID
	if len(id) > 8 {
		id = id[:4] + "…" + id[len(id)-2:]
	}
	o.Note = "client " + id
	if d.server == nil {
		return o, nil
	}
	o.Note += ", and one for drills"
	return o, d.BeginDrill(ctx)
}

// BeginDrill adds the client of a drill, and goes on as it. It waits for the answer, whatever
// becomes of ctx: a client that is added after EndDrill would stay. After an error it may be there.
func (d *Client) BeginDrill(ctx context.Context) error {
	d.ClientID = client.DrillID + oauth2.GenerateVerifier()[:16]
	return d.server.Do(context.WithoutCancel(ctx), http.MethodPost, "/v1/clients", nil, map[string]any{
		"client_id": d.ClientID, "client_name": "Grantkeeper demo", "redirect_uris": []string{demoRedirect}, "reason": "a drill",
	}, new(json.RawMessage))
}

// EndDrill deletes the client of a drill, where there is one, also when the drill is broken
// off. It gives the error with which the drill ended, and that the client may be left.
func (d *Client) EndDrill(ctx context.Context, ended error) error {
	if d.server == nil || !client.Drill(d.ClientID) {
		return ended
	}
	err := d.server.Do(context.WithoutCancel(ctx), http.MethodPost, "/v1/clients/"+url.PathEscape(d.ClientID)+"/delete", nil,
		map[string]string{"reason": "end of a drill"}, new(json.RawMessage))
	if err == nil || fault.CodeOf(err) == fault.Unknown { // it was never added
		return ended
	}
	what := "client " + d.ClientID + " may be left: " + err.Error()
	if ended != nil {
		what, err = ended.Error()+"; "+what, ended
	}
	return &fault.Error{Code: fault.CodeOf(err), What: what, Hint: "run: grantkeeper client delete " + d.ClientID, Left: true}
}

func (d *Client) authorize(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "GET  /oauth/authorize?…"}
	at := d.request()
	a, err := d.get(ctx, at)
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := a.want(http.StatusSeeOther); err != nil {
		return o, err
	}
	if d.next, err = d.follow(at, a); err != nil {
		return o, err
	}
	if !strings.HasPrefix(d.next, d.Base+"/signin") {
		return o, fmt.Errorf("expected to be sent to the sign-in page, got %s", hideQuery(d.next))
	}
	o.Note = "sign-in"
	return o, nil
}

// request is the address of an authorization request.
func (d *Client) request() string {
	return d.authorizeAt + "?" + url.Values{
		"response_type": {"code"}, "client_id": {d.ClientID}, "redirect_uri": {demoRedirect}, "state": {d.state},
		"code_challenge": {oauth2.S256ChallengeFromVerifier(d.verifier)}, "code_challenge_method": {"S256"},
	}.Encode()
}

// follow gives where a redirect leads, as long as it stays on the server.
func (d *Client) follow(page string, a answered) (string, error) {
	at, err := url.Parse(page)
	if err != nil {
		return "", err
	}
	to, err := at.Parse(a.Header.Get("Location"))
	if err != nil || a.Header.Get("Location") == "" {
		return "", errors.New("expected a redirect, got none that can be read")
	}
	if !strings.HasPrefix(to.String(), d.Base+"/") {
		return "", fmt.Errorf("expected a redirect on the server, got one to %s", to.Host)
	}
	return to.String(), nil
}

// form fetches the page that comes next, for the form with the field.
func (d *Client) form(ctx context.Context, o *Outcome, field string) (f Form, err error) {
	page, err := d.get(ctx, d.next)
	if err != nil {
		return f, err
	}
	o.Status = page.StatusCode
	if err := page.want(http.StatusOK); err != nil {
		return f, err
	}
	return FormWith(bytes.NewReader(page.body), field)
}

func (d *Client) signIn(ctx context.Context) (Outcome, error) {
	o := Outcome{what: fmt.Sprintf("%-26sas %s", "POST /signin", d.email)}
	f, err := d.form(ctx, &o, "password")
	if err != nil {
		return o, err
	}
	values := f.Values()
	values.Set("email", d.email)
	values.Set("password", d.Password)
	a, err := d.submit(ctx, d.next, f, values)
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := a.want(http.StatusSeeOther); err != nil {
		d.refused = true
		return o, err
	}
	d.next, err = d.follow(d.next, a)
	return o, err
}

func (d *Client) consent(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "the person approves"}
	f, err := d.form(ctx, &o, "organization")
	if err != nil {
		return o, err
	}
	values := f.Values()
	if o.what, err = Choose(f, values); err != nil {
		return o, err
	}
	values.Set("decision", "approve")
	a, err := d.submit(ctx, d.next, f, values)
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := a.want(http.StatusSeeOther); err != nil {
		return o, err
	}
	if err := d.takeCode(a.Header.Get("Location")); err != nil {
		return o, err
	}
	o.Note = demoRedirect + "?code=…"
	return o, nil
}

// Choose fills in the consent form: the role Treasurer where there is one, or
// the first role of the first organization with roles, or personal items; for as long as
// may be.
func Choose(f Form, values url.Values) (said string, err error) {
	all := f.choices()
	if len(all) == 0 {
		return "", errors.New("expected organizations to choose from, got none")
	}
	chosen, role := all[0], roleChoice{}
	for _, c := range all {
		i := slices.IndexFunc(c.roles, func(r roleChoice) bool { return r.name == "Treasurer" })
		switch {
		case i >= 0:
			chosen, role = c, c.roles[i]
		case role.field == "" && len(c.roles) > 0:
			chosen, role = c, c.roles[0]
		}
		if i >= 0 {
			break
		}
	}
	values.Set("organization", chosen.organization)
	values.Set("grant", "roles")
	if f.offers("ends", "max") { // an organization does not let access last for ever
		values.Set("ends", "max")
	}
	if role.field == "" {
		values.Set("personal", "1")
		return chosen.name + ", only personal items", nil
	}
	values.Set(role.field, "change")
	return fmt.Sprintf("%s, selected roles: %s (change)", chosen.name, role.name), nil
}

// takeCode reads the redirect to the client, which nobody follows.
func (d *Client) takeCode(location string) error {
	to, err := url.Parse(location)
	if err != nil || !strings.HasPrefix(location, demoRedirect+"?") {
		return fmt.Errorf("expected a redirect to %s, got %s", demoRedirect, hideQuery(location))
	}
	q := to.Query()
	switch {
	case q.Get("error") != "":
		return fmt.Errorf("expected a code, got %s", q.Get("error"))
	case q.Get("state") != d.state:
		return errors.New("expected the state that was sent, got another")
	case q.Get("iss") != d.Base:
		return fmt.Errorf("expected iss %s, got %q", d.Base, q.Get("iss"))
	}
	if d.code = q.Get("code"); d.code == "" {
		return errors.New("expected a code, got none")
	}
	return nil
}

func (d *Client) exchange(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "POST /oauth/token"}
	a, err := d.post(ctx, d.tokenAt, url.Values{"grant_type": {"authorization_code"}, "client_id": {d.ClientID},
		"code": {d.code}, "redirect_uri": {demoRedirect}, "code_verifier": {d.verifier}})
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := d.takeTokens(a); err != nil {
		return o, err
	}
	if a.member("expires_in") != "1800" {
		return o, fmt.Errorf("expected expires_in 1800, got %s", a.member("expires_in"))
	}
	o.Note = prefix(d.Access) + "…, " + a.member("expires_in") + " s"
	return o, nil
}

func (d *Client) takeTokens(a answered) error {
	if err := a.want(http.StatusOK); err != nil {
		return err
	}
	access, refresh := a.member("access_token"), a.member("refresh_token")
	switch {
	case access == "" || refresh == "" || a.member("token_type") != "Bearer":
		return errors.New("expected an access token of type Bearer and a refresh token")
	case access == d.Access || refresh == d.Current:
		return errors.New("expected new tokens, got the old ones")
	}
	d.used, d.Access, d.Current = d.Current, access, refresh
	return nil
}

// prefix is what a token begins with: which kind it is.
func prefix(token string) string {
	kind, _, ok := strings.Cut(token, "_")
	if !ok {
		return ""
	}
	return kind + "_"
}

func (d *Client) mcp(ctx context.Context) (answered, error) {
	body := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
		`"clientInfo":{"name":"grantkeeper demo","version":"1"}}}`
	return d.send(ctx, http.MethodPost, d.Base+"/api/v5/mcp", []byte(body), map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + d.Access,
	})
}

// ErrNothingBehind ends a demo that could show no call of a tool.
var ErrNothingBehind = errors.New("no MCP server is connected: the operator sets mcp.upstream")

// Call asks the MCP server with the access token, and then the API.
func (d *Client) Call(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "POST /api/v5/mcp"}
	a, err := d.mcp(ctx)
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if a.nothingBehind() {
		o.Note = "the token was taken, and nothing stands behind" // the guard stands before that answer
		return o, ErrNothingBehind
	}
	if err := a.want(http.StatusOK); err != nil {
		return o, err
	}
	o.Note = "MCP: " + terminal.ShownName(a.serverName()) + hostAt(d.behindMCP)
	rest, err := d.send(ctx, http.MethodGet, d.Base+"/api/v5", nil, map[string]string{"Authorization": "Bearer " + d.Access})
	switch {
	case err != nil:
		return o, err
	case rest.nothingBehind():
		o.Note += ", API: nothing"
	case rest.StatusCode >= http.StatusInternalServerError:
		o.Note += fmt.Sprintf(", API: a fault (%d)%s", rest.StatusCode, hostAt(d.behindAPI))
	default:
		o.Note += ", API: a service" + hostAt(d.behindAPI)
	}
	return o, nil
}

// hostAt names the host that is behind, where the configuration is known.
func hostAt(host string) string {
	if host == "" {
		return ""
	}
	return " at " + terminal.Printable(host)
}

// nothingBehind reports whether no service is connected there.
func (a answered) nothingBehind() bool {
	return a.StatusCode == http.StatusNotFound && strings.HasPrefix(a.member("error_description"), "No service is connected")
}

// serverName is what the MCP server that answered says that it is called.
func (a answered) serverName() string {
	result, err := mcp.Result(a.Header.Get("Content-Type"), bytes.NewReader(a.body), []byte("1"))
	if err != nil {
		return ""
	}
	return doctor.ServerName(result)
}

// Refresh takes new tokens for the refresh token.
func (d *Client) Refresh(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "POST /oauth/token"}
	a, err := d.post(ctx, d.tokenAt, url.Values{"grant_type": {"refresh_token"}, "client_id": {d.ClientID}, "refresh_token": {d.Current}})
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := d.takeTokens(a); err != nil {
		return o, err
	}
	o.Note = "new " + prefix(d.Current) + "…"
	return o, nil
}

// Reuse sends the refresh token that was used, which is theft to the server.
func (d *Client) Reuse(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "POST /oauth/token  with the old refresh token"}
	a, err := d.post(ctx, d.tokenAt, url.Values{"grant_type": {"refresh_token"}, "client_id": {d.ClientID}, "refresh_token": {d.used}})
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := a.want(http.StatusBadRequest); err != nil {
		return o, err
	}
	if a.member("error") != "invalid_grant" {
		return o, fmt.Errorf("expected invalid_grant, got %s", a.member("error"))
	}
	o.Note = "invalid_grant (expected: theft)"
	return o, nil
}

func (d *Client) callAfter(ctx context.Context) (Outcome, error) {
	o := Outcome{what: "with the newest access token"}
	a, err := d.mcp(ctx)
	if err != nil {
		return o, err
	}
	o.Status = a.StatusCode
	if err := a.want(http.StatusUnauthorized); err != nil {
		return o, err
	}
	if challenge := a.Header.Get("WWW-Authenticate"); !strings.Contains(challenge, `error="invalid_token"`) {
		return o, fmt.Errorf("expected the challenge invalid_token, got %q", challenge)
	}
	o.Note = "invalid_token (expected: all ended)"
	return o, nil
}

// ApproveAnew makes another approval of the same client by the same person.
func (d *Client) ApproveAnew(ctx context.Context) error {
	d.state, d.verifier = oauth2.GenerateVerifier(), oauth2.GenerateVerifier()
	d.next = d.request()
	a, err := d.get(ctx, d.next)
	if err != nil {
		return err
	}
	if a.StatusCode == http.StatusSeeOther { // nobody is signed in yet
		if d.next, err = d.follow(d.next, a); err != nil {
			return err
		}
		if _, err := d.signIn(ctx); err != nil {
			return fmt.Errorf("sign in: %w", err)
		}
	}
	if _, err := d.consent(ctx); err != nil {
		return fmt.Errorf("consent: %w", err)
	}
	if _, err := d.exchange(ctx); err != nil {
		return fmt.Errorf("exchange: %w", err)
	}
	return nil
}
