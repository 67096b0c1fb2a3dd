// Package demo is a client against a server, step by step: it registers, has a person
// approve as a browser would, and ends what it was given by sending an old refresh token.
package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// demoRedirect is where the demo's client wants the browser to go. Nobody goes
// there: the redirect is read, not followed.
const demoRedirect = client.DrillRedirect

// Options are what the command line of demo came to. Steps are as far as to go, such as
// 1-2.
type Options struct {
	BaseURL, Email, PasswordFile string
	Steps                        string
	Verbose, JSON                bool
	BehindAPI, BehindMCP         string         // hosts, where the configuration is known
	Server                       *remote.Server // nil: a stranger's client, whose theft is one
}

// Step is one line of the demo.
type Step struct {
	Name string
	Run  func(*Client, context.Context) (Outcome, error)
}

// Outcome is what a step tells. Its error is an unexpected answer.
type Outcome struct {
	what   string
	Status int
	Note   string
}

// Steps are those of the demo, in their order: each stands on those before it.
var Steps = []Step{
	{"discover", (*Client).Discover},
	{"register", (*Client).register},
	{"authorize", (*Client).authorize},
	{"sign in", (*Client).signIn},
	{"consent", (*Client).consent},
	{"exchange", (*Client).exchange},
	{"call API", (*Client).Call},
	{"refresh", (*Client).Refresh},
	{"reuse", (*Client).Reuse},
	{"call API", (*Client).callAfter},
}

// Client is a client and a browser in one, in the middle of the steps.
type Client struct {
	Base, email, Password string
	server                *remote.Server // where not nil, its client is a drill's
	refused               bool           // the person was not let in
	behindAPI, behindMCP  string         // hosts; may be empty
	http                  *http.Client
	verbose               io.Writer // nil is silent

	authorizeAt, tokenAt, registerAt string
	ClientID, state, verifier        string
	next                             string // where the browser goes
	code                             string
	Access, Current, used            string // tokens; used is a refresh token that was sent
}

// Run goes the steps and tells each. Every error is a fault.Error.
func Run(ctx context.Context, o Options, stdout io.Writer) error {
	if ctx == nil {
		ctx = context.Background()
	}
	last, err := lastStep(o.Steps)
	if err != nil {
		return err
	}
	d, err := New(o, last)
	if err != nil {
		return err
	}
	if o.Verbose && !o.JSON {
		d.verbose = stdout
	}
	told := Told{Steps: []ToldStep{}}
	err = d.walk(ctx, last, func(s ToldStep) {
		if told.Steps = append(told.Steps, s); !o.JSON {
			fmt.Fprint(stdout, s)
		}
	})
	err = d.EndDrill(ctx, err)
	if told.OK = err == nil; o.JSON {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if unwritten := e.Encode(told); err == nil {
			err = unwritten
		}
		return err
	}
	if err == nil {
		fmt.Fprintf(stdout, "All %d steps as expected.\n", last)
	}
	return err
}

// walk goes the steps, and tells each.
func (d *Client) walk(ctx context.Context, last int, tell func(ToldStep)) error {
	for i, step := range Steps[:last] {
		got, err := step.Run(d, ctx)
		told := ToldStep{i + 1, step.Name, got.what, got.Status, got.Note, err == nil, ""}
		if err != nil {
			told.Error = err.Error()
		}
		tell(told)
		var unreachable *net.OpError
		switch {
		case err != nil && i == 0 && errors.As(err, &unreachable):
			return d.NoAnswer(unreachable)
		case errors.Is(err, ErrNothingBehind):
			return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("Step %d of %d differs: %v", i+1, last, err), Hint: "connect a service: docs/quickstart.md; or stop before: --steps 1-6"}
		case err != nil:
			return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("Step %d of %d differs: %v", i+1, last, err), Hint: d.Whose("--password-file")}
		}
	}
	return nil
}

// NoAnswer says that there is no server. Only one on this machine can be
// started here; of another one it says what went wrong on the way to it.
func (d *Client) NoAnswer(why error) error {
	at, err := url.Parse(d.Base)
	if err == nil && client.Loopback(at.Hostname()) {
		return fault.CannotOpen("start one: grantkeeper dev", "%s does not answer", d.Base)
	}
	return fault.CannotOpen("see that the name is right and that nothing stands between", "%s does not answer: %v", d.Base, why)
}

// Whose leads to the flags where nobody has the password of dev.
func (d *Client) Whose(flag string) string {
	if d.refused && d.Password == remote.DevPassword {
		return "of grantkeeper serve, name a person with --email and " + flag
	}
	return ""
}

// lastStep reads --steps. Each step stands on those before it, so they begin
// at the first.
func lastStep(s string) (int, error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	n, err := strconv.Atoi(last)
	if err != nil || first != "1" || n < 1 || n > len(Steps) {
		return 0, fault.WrongUse("grantkeeper demo --steps 1-2", "--steps: each step stands on those before it: write 1-1 to 1-%d", len(Steps))
	}
	return n, nil
}

// New gives a client that goes as far as a step. Every error is a fault.Error.
func New(o Options, last int) (*Client, error) {
	base, name, err := config.ParseBaseAnywhere(o.BaseURL)
	if err != nil {
		return nil, fault.WrongUse("grantkeeper demo --base-url https://app.example.com", "--base-url: %v", err)
	}
	d := &Client{Base: base, email: o.Email, Password: remote.DevPassword, server: o.Server, state: oauth2.GenerateVerifier(), verifier: oauth2.GenerateVerifier(), behindAPI: o.BehindAPI, behindMCP: o.BehindMCP}
	switch {
	case o.PasswordFile != "":
		b, err := os.ReadFile(o.PasswordFile)
		if err != nil {
			return nil, fault.CannotOpen("", "--password-file: %v", err)
		}
		d.Password = strings.TrimRight(string(b), "\r\n")
	case last > 3 && !client.Loopback(name):
		return nil, fault.WrongUse("or go no further: --steps 1-2", "the password of the demo data is for dev: name yours with --email and --password-file")
	}
	if d.email == "" {
		d.email = remote.DevPerson
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	d.http = &http.Client{Jar: jar, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return d, nil
}

// Told is the demo as JSON.
type Told struct {
	Steps []ToldStep `json:"steps"` // up to the first that differed
	OK    bool       `json:"ok"`
}

// ToldStep is what a step came to.
type ToldStep struct {
	Step   int    `json:"step"`
	Name   string `json:"name"`
	What   string `json:"what"`
	Status int    `json:"status"`
	Note   string `json:"note"`
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
}

// String is the step's line.
func (s ToldStep) String() string {
	status := strconv.Itoa(s.Status)
	if s.Status == 0 {
		status = "---"
	}
	return strings.TrimRight(fmt.Sprintf("%2d  %-9s  %-50s  %s  %s", s.Step, s.Name, s.What, status, s.Note), " ") + "\n"
}

// answered is an answer that was read whole.
type answered struct {
	*http.Response
	body []byte
}

// send sends one request. Only a request that got no answer is an error.
func (d *Client) send(ctx context.Context, method, address string, body []byte, header map[string]string) (answered, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return answered{}, err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if d.verbose != nil {
		fmt.Fprintf(d.verbose, "    > %s %s\n", method, hideQuery(address))
		if len(body) > 0 {
			fmt.Fprintf(d.verbose, "    > %s\n", hideForm(string(body)))
		}
	}
	response, err := d.http.Do(r)
	if err != nil {
		return answered{}, err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(io.LimitReader(response.Body, 4<<20))
	if err != nil {
		return answered{}, err
	}
	if d.verbose != nil {
		fmt.Fprintf(d.verbose, "    < %s %s\n", response.Status, hideQuery(response.Header.Get("Location")))
		if strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
			fmt.Fprintf(d.verbose, "    < %s\n", terminal.ShortenSecrets(strings.TrimSpace(string(content))))
		}
	}
	return answered{response, content}, nil
}

// hideQuery shows an address without the values of its parameters.
func hideQuery(address string) string {
	at, query, ok := strings.Cut(address, "?")
	if !ok {
		return at
	}
	return at + "?" + hideForm(query)
}

// open are the parameters that everybody may see.
var openParameters = []string{
	"grant_type", "response_type", "client_id", "redirect_uri", "code_challenge_method", "scope", "iss", "error",
	"error_description", "organization", "grant", "decision", "email",
}

// hideForm shortens the values of a form, but those that everybody may see. A
// text that is not a form, such as JSON, is shown with its tokens shortened.
func hideForm(s string) string {
	if strings.HasPrefix(s, "{") {
		return terminal.ShortenSecrets(s)
	}
	pairs := strings.Split(s, "&")
	for i, p := range pairs {
		name, value, _ := strings.Cut(p, "=")
		plain, err := url.QueryUnescape(name)
		if err == nil && !slices.Contains(openParameters, plain) && !strings.HasPrefix(plain, "role:") && value != "" {
			pairs[i] = name + "=…"
		}
	}
	return strings.Join(pairs, "&")
}

func (d *Client) get(ctx context.Context, address string) (answered, error) {
	return d.send(ctx, http.MethodGet, address, nil, map[string]string{"Accept": "text/html, application/json"})
}

// post sends a form of a client.
func (d *Client) post(ctx context.Context, address string, form url.Values) (answered, error) {
	return d.send(ctx, http.MethodPost, address, []byte(form.Encode()), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
}

// submit sends a form of a page, as the browser that showed it.
func (d *Client) submit(ctx context.Context, page string, f Form, values url.Values) (answered, error) {
	at, err := url.Parse(page)
	if err != nil {
		return answered{}, err
	}
	to, err := at.Parse(f.action)
	if err != nil {
		return answered{}, err
	}
	return d.send(ctx, http.MethodPost, to.String(), []byte(values.Encode()), map[string]string{
		"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html",
		"Origin": d.Base, "Sec-Fetch-Site": "same-origin",
	})
}

// want checks the status, and says what the answer was instead.
func (a answered) want(status int) error {
	if a.StatusCode == status {
		return nil
	}
	said := ""
	var members map[string]any
	switch {
	case json.Unmarshal(a.body, &members) == nil:
		said = fmt.Sprintf(": %v %v", members["error"], members["error_description"])
	case strings.HasPrefix(a.Header.Get("Content-Type"), "text/html"):
		said = ": " + heading(bytes.NewReader(a.body))
	}
	return fmt.Errorf("expected %d, got %d%s", status, a.StatusCode, terminal.ShortenSecrets(said))
}

// member gives a member of a JSON answer as text, or "".
func (a answered) member(name string) string {
	var members map[string]any
	_ = json.Unmarshal(a.body, &members)
	switch v := members[name].(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}
