package main

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

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/server"
)

// demoRedirect is where the demo's client wants the browser to go. Nobody goes
// there: the redirect is read, not followed.
const demoRedirect = client.DrillRedirect

type demoOptions struct {
	baseURL, email, passwordFile string
	steps                        string
	verbose, json                bool
	behindAPI, behindMCP         string         // hosts, where the configuration is known
	server                       *remote.Server // nil: a stranger's client, whose theft is one
}

func demoCommand(g *global) *cobra.Command {
	o := demoOptions{}
	at := remote.At{Flag: "--operator-password-file"}
	c := &cobra.Command{
		Use:   "demo",
		Short: "Be a client against a server, step by step",
		Example: `  grantkeeper demo
  grantkeeper demo --verbose
  grantkeeper demo --base-url https://app.example.com --steps 1-2    # needs no account
  grantkeeper demo -c grantkeeper.toml --email me@example.com --password-file ./password --operator http://127.0.0.1:8081`,
		Long: `It registers a client, signs in and approves as a browser would, and ends what
it was given by sending an old refresh token. Run it against servers of your own.
Behind API and MCP it names what stands there: the MCP server by what it calls itself,
and with --config the hosts.

That last step is theft to the server, and to its alerts. With --operator it goes
on as a client of its own from the consent, which operators add for drills, and
deletes it at the end: it raises no alarm.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "open " + server.DevPath + " of grantkeeper dev in a browser"},
		RunE: func(c *cobra.Command, _ []string) error {
			o.json = g.json
			if g.config != "" && !c.Flag("base-url").Changed {
				l, err := g.load(c)
				if err != nil {
					return err
				}
				if len(l.BaseURLs) > 0 {
					o.baseURL = l.BaseURLs[0]
				}
				o.behindAPI, o.behindMCP = behindOf(l.API.Upstream), behindOf(l.MCP.Upstream)
			}
			if at.URL != "" {
				var err error
				if o.server, err = at.Connect(c.Context(), g.config, os.Environ()); err != nil {
					return err
				}
			}
			return runDemo(c.Context(), o, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringVar(&at.URL, "operator", "", "URL of the operators' listener, to raise no alarm")
	f.StringVar(&at.PasswordFile, "operator-password-file", "", "file with the operators' password (default: that of the configuration; dev's own needs none)")
	f.StringVar(&o.baseURL, "base-url", "http://"+remote.DevListen, "the server; with --config, the first of its base_urls")
	f.StringVar(&o.email, "email", "", "who signs in (default: "+demoPeople[0].email+", of dev)")
	f.StringVar(&o.passwordFile, "password-file", "", "file with the password (default: that of dev)")
	f.StringVar(&o.steps, "steps", "1-10", "how far to go, such as 1-2")
	f.BoolVar(&o.verbose, "verbose", false, "show requests and answers, secrets shortened")
	return c
}

// behindOf is the host of an upstream: a path or query may be a secret.
func behindOf(upstream string) string {
	u, err := url.Parse(upstream)
	if err != nil {
		return ""
	}
	return u.Host
}

// demoStep is one line of the demo.
type demoStep struct {
	name string
	run  func(*demo, context.Context) (outcome, error)
}

// outcome is what a step tells. Its error is an unexpected answer.
type outcome struct {
	what   string
	status int
	note   string
}

var demoSteps = []demoStep{
	{"discover", (*demo).discover},
	{"register", (*demo).register},
	{"authorize", (*demo).authorize},
	{"sign in", (*demo).signIn},
	{"consent", (*demo).consent},
	{"exchange", (*demo).exchange},
	{"call API", (*demo).call},
	{"refresh", (*demo).refresh},
	{"reuse", (*demo).reuse},
	{"call API", (*demo).callAfter},
}

// demo is a client and a browser in one, in the middle of the steps.
type demo struct {
	base, email, password string
	server                *remote.Server // where not nil, its client is a drill's
	refused               bool           // the person was not let in
	behindAPI, behindMCP  string         // hosts; may be empty
	http                  *http.Client
	verbose               io.Writer // nil is silent

	authorizeAt, tokenAt, registerAt string
	clientID, state, verifier        string
	next                             string // where the browser goes
	code                             string
	access, current, used            string // tokens; used is a refresh token that was sent
}

func runDemo(ctx context.Context, o demoOptions, stdout io.Writer) error {
	if ctx == nil {
		ctx = context.Background()
	}
	last, err := lastStep(o.steps)
	if err != nil {
		return err
	}
	d, err := newDemo(o, last)
	if err != nil {
		return err
	}
	if o.verbose && !o.json {
		d.verbose = stdout
	}
	told := toldDemo{Steps: []toldStep{}}
	err = d.walk(ctx, last, func(s toldStep) {
		if told.Steps = append(told.Steps, s); !o.json {
			fmt.Fprint(stdout, s)
		}
	})
	if unended := d.endDrill(ctx); err == nil {
		err = unended
	}
	if told.OK = err == nil; o.json {
		if unwritten := writeDocument(stdout, told); err == nil {
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
func (d *demo) walk(ctx context.Context, last int, tell func(toldStep)) error {
	for i, step := range demoSteps[:last] {
		got, err := step.run(d, ctx)
		told := toldStep{i + 1, step.name, got.what, got.status, got.note, err == nil, ""}
		if err != nil {
			told.Error = err.Error()
		}
		tell(told)
		var unreachable *net.OpError
		switch {
		case err != nil && i == 0 && errors.As(err, &unreachable):
			return d.noAnswer(unreachable)
		case errors.Is(err, errNothingBehind):
			return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("Step %d of %d differs: %v", i+1, last, err), Hint: "connect a service: docs/quickstart.md; or stop before: --steps 1-6"}
		case err != nil:
			return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("Step %d of %d differs: %v", i+1, last, err), Hint: d.whose("--password-file")}
		}
	}
	return nil
}

// noAnswer says that there is no server. Only one on this machine can be
// started here; of another one it says what went wrong on the way to it.
func (d *demo) noAnswer(why error) error {
	at, err := url.Parse(d.base)
	if err == nil && config.Loopback(at.Hostname()) {
		return fault.CannotOpen("start one: grantkeeper dev", "%s does not answer", d.base)
	}
	return fault.CannotOpen("see that the name is right and that nothing stands between", "%s does not answer: %v", d.base, why)
}

// whose leads to the flags where nobody has the password of dev.
func (d *demo) whose(flag string) string {
	if d.refused && d.password == remote.DevPassword {
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
	if err != nil || first != "1" || n < 1 || n > len(demoSteps) {
		return 0, fault.WrongUse("grantkeeper demo --steps 1-2", "--steps: each step stands on those before it: write 1-1 to 1-%d", len(demoSteps))
	}
	return n, nil
}

func newDemo(o demoOptions, last int) (*demo, error) {
	base, _, name, err := config.ParseBaseAnywhere(o.baseURL)
	if err != nil {
		return nil, fault.WrongUse("grantkeeper demo --base-url https://app.example.com", "--base-url: %v", err)
	}
	d := &demo{base: base, email: o.email, password: remote.DevPassword, server: o.server, state: secret(), verifier: secret(), behindAPI: o.behindAPI, behindMCP: o.behindMCP}
	switch {
	case o.passwordFile != "":
		b, err := os.ReadFile(o.passwordFile)
		if err != nil {
			return nil, fault.CannotOpen("", "--password-file: %v", err)
		}
		d.password = strings.TrimRight(string(b), "\r\n")
	case last > 3 && !config.Loopback(name):
		return nil, fault.WrongUse("or go no further: --steps 1-2", "the password of the demo data is for dev: name yours with --email and --password-file")
	}
	if d.email == "" {
		d.email = demoPeople[0].email
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	d.http = &http.Client{Jar: jar, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return d, nil
}

// toldDemo is the demo as JSON.
type toldDemo struct {
	Steps []toldStep `json:"steps"` // up to the first that differed
	OK    bool       `json:"ok"`
}

type toldStep struct {
	Step   int    `json:"step"`
	Name   string `json:"name"`
	What   string `json:"what"`
	Status int    `json:"status"`
	Note   string `json:"note"`
	OK     bool   `json:"ok"`
	Error  string `json:"error"`
}

// String is the step's line.
func (s toldStep) String() string {
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
func (d *demo) send(ctx context.Context, method, address string, body []byte, header map[string]string) (answered, error) {
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
			fmt.Fprintf(d.verbose, "    < %s\n", shortenAll(strings.TrimSpace(string(content))))
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
		return shortenAll(s)
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

func (d *demo) get(ctx context.Context, address string) (answered, error) {
	return d.send(ctx, http.MethodGet, address, nil, map[string]string{"Accept": "text/html, application/json"})
}

// post sends a form of a client.
func (d *demo) post(ctx context.Context, address string, form url.Values) (answered, error) {
	return d.send(ctx, http.MethodPost, address, []byte(form.Encode()), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
}

// submit sends a form of a page, as the browser that showed it.
func (d *demo) submit(ctx context.Context, page string, f form, values url.Values) (answered, error) {
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
		"Origin": d.base, "Sec-Fetch-Site": "same-origin",
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
	return fmt.Errorf("expected %d, got %d%s", status, a.StatusCode, shortenAll(said))
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
