package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

type drillOptions struct {
	baseURLs, nodes           []string
	email, personPasswordFile string
	rounds                    int
	within, giveUp            time.Duration
	json                      bool
}

func drillCommand(g *global) *cobra.Command {
	o := drillOptions{}
	var at *remote.At
	c := &cobra.Command{
		Use:   "drill",
		Short: "Revoke a test approval and time it to refusal on every node",
		Example: `  grantkeeper drill
  grantkeeper drill --base-url https://app.example.com --email drill@example.com --person-password-file ./password \
    --node http://10.0.0.5:8080 --node http://10.0.0.6:8080`,
		Long: `It adds a client for drills, signs in and approves as grantkeeper demo does, sees
that every node takes the access token, revokes the approval through the operators'
listener of one node, and from the moment when that is acknowledged asks every
node with the access token until it refuses, and then with the refresh token.
At the end it deletes its client.

Nodes are reached at their base URLs, or behind a balancer at addresses of their
own with --node, which are asked for the host of the first base URL.

The exit code is 1 when a node accepts a call that began after the revocation
was acknowledged, or later than --within after it.`,
		Args:        cobra.NoArgs,
		Annotations: map[string]string{"next": "grantkeeper demo --base-url URL --steps 1-2, on each node"},
		RunE: func(c *cobra.Command, _ []string) error {
			o.json = g.json
			if err := o.settle(g, c, at.URL == ""); err != nil {
				return err
			}
			server, err := at.Connect(c.Context(), g.config, os.Environ())
			if err != nil {
				return err
			}
			return runDrill(c.Context(), o, server, c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.baseURLs, "base-url", nil, "a base URL; can be repeated, each is a node (default: those of the configuration, or http://"+remote.DevListen+")")
	f.StringArrayVar(&o.nodes, "node", nil, "where one node listens, as a URL; can be repeated (default: the base URLs)")
	f.StringVar(&o.email, "email", "", "who signs in and approves (default: "+demoPeople[0].email+", of dev)")
	f.StringVar(&o.personPasswordFile, "person-password-file", "", "file with that person's password (default: that of dev)")
	f.IntVar(&o.rounds, "rounds", 3, "how many approvals, 1 to 30")
	f.DurationVar(&o.within, "within", 0, "how long after the revocation a call may still be accepted")
	f.DurationVar(&o.giveUp, "timeout", 30*time.Second, "how long to wait for a refusal")
	at = operatorFlags(g, c)
	return c
}

// settle takes the base URLs of the configuration whose operators' listener is
// asked, where none is named.
func (o *drillOptions) settle(g *global, c *cobra.Command, configured bool) error {
	if len(o.baseURLs) > 0 {
		return nil
	}
	if configured || g.config != "" {
		l, err := g.load(c)
		if err != nil {
			return err
		}
		o.baseURLs = l.BaseURLs
	}
	if len(o.baseURLs) == 0 {
		o.baseURLs = []string{"http://" + remote.DevListen}
	}
	return nil
}

// A drilled node is one that the drill asks.
type drilled struct {
	url  string // without a slash at the end
	host string // that is asked for; "" is the URL's
	http *http.Client
}

// drillResult is what one node did after one revocation.
type drillResult struct {
	Node     string  `json:"node"`
	Refused  float64 `json:"refused_ms"`      // from the acknowledgement to the first refusal; -1 is never
	Accepted int     `json:"accepted_since"`  // calls that began after it and were accepted
	Latest   float64 `json:"accepted_ms"`     // when the last of these began; -1 is none
	Refresh  string  `json:"refresh"`         // what the token endpoint said after that
	Fault    string  `json:"fault,omitempty"` // why this is not as it should be
}

type drillRound struct {
	Revoked float64       `json:"revoked_ms"` // how long the revocation took to be acknowledged
	Nodes   []drillResult `json:"nodes"`
}

type drillReport struct {
	OK      bool         `json:"ok"`
	Slowest float64      `json:"slowest_ms"`
	Rounds  []drillRound `json:"rounds"`
}

func runDrill(ctx context.Context, o drillOptions, server *remote.Server, stdout io.Writer) error {
	if ctx == nil {
		ctx = context.Background()
	}
	if o.rounds < 1 || o.rounds > 30 {
		return fault.WrongUse("", "--rounds: 1 to 30, so that the rate limits let it through")
	}
	if _, _, name, err := config.ParseBaseAnywhere(o.baseURLs[0]); err == nil && o.personPasswordFile == "" && !config.Loopback(name) {
		return fault.WrongUse("name yours with --email and --person-password-file", "the password of the demo data is for dev")
	}
	d, err := newDemo(demoOptions{baseURL: o.baseURLs[0], email: o.email, passwordFile: o.personPasswordFile, server: server}, len(demoSteps))
	if err != nil {
		return err
	}
	nodes, err := o.drilled(d)
	if err != nil {
		return err
	}
	if _, err := d.discover(ctx); err != nil {
		return fault.CannotOpen("see that it runs: grantkeeper demo --steps 1-2", "%s: %v", d.base, err)
	}
	if err := d.beginDrill(ctx); err != nil {
		return err
	}
	report := drillReport{OK: true}
	var failed error
	for n := 1; n <= o.rounds && failed == nil; n++ {
		var round drillRound
		if round, failed = o.round(ctx, d, nodes, server); failed == nil {
			report.add(round)
			round.tell(stdout, o.json, n)
		}
	}
	if err := d.endDrill(ctx); failed == nil {
		failed = err
	}
	if failed != nil {
		return failed
	}
	return report.tell(stdout, o.json)
}

// drilled reads where the nodes are.
func (o drillOptions) drilled(d *demo) (nodes []drilled, err error) {
	first, err := url.Parse(d.base)
	if err != nil {
		return nil, err
	}
	add := func(flag, address, host string) error {
		base, _, _, err := config.ParseBaseAnywhere(address)
		if err != nil {
			return fault.WrongUse("", "--%s: %v", flag, err)
		}
		n := drilled{url: base, host: host, http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{}}}
		if host != "" {
			n.http.Transport = &http.Transport{TLSClientConfig: &tls.Config{ServerName: first.Hostname()}}
		}
		nodes = append(nodes, n)
		return nil
	}
	for _, address := range o.nodes {
		if err := add("node", address, first.Host); err != nil {
			return nil, err
		}
	}
	if len(nodes) > 0 && len(o.baseURLs) == 1 {
		return nodes, nil
	}
	for _, address := range o.baseURLs {
		if err := add("base-url", address, ""); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// round makes an approval, revokes it, and follows what the nodes do.
func (o drillOptions) round(ctx context.Context, d *demo, nodes []drilled, server *remote.Server) (round drillRound, err error) {
	if err := d.approveAnew(ctx); err != nil {
		return round, &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s: the test approval: %v", d.base, err),
			Hint: cmp.Or(d.whose("--person-password-file"), "see that it is a node of this installation, with this person")}
	}
	for _, n := range nodes {
		if status, err := n.call(ctx, d.access); err != nil {
			return round, fault.CannotOpen("", "%s does not answer: %v", n.url, err)
		} else if status != http.StatusOK {
			return round, &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s answers a good access token with %d", n.url, status), Hint: "see that it is a node of this installation: one database, one key file"}
		}
	}
	var listed struct {
		Items []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"items"`
	}
	if err := server.Do(ctx, http.MethodGet, "/v1/approvals", url.Values{"client": {d.clientID}, "state": {"live"}}, nil, &listed); err != nil {
		return round, err
	}
	if len(listed.Items) != 1 {
		return round, &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s has %d live approvals of the test client, want 1", server.Base, len(listed.Items)),
			Hint: "see that it is a node of this installation"}
	}
	begun := time.Now()
	err = server.Do(ctx, http.MethodPost, "/v1/approvals/"+url.PathEscape(listed.Items[0].ID)+"/revoke", nil, map[string]string{"reason": "drill"}, new(json.RawMessage))
	acknowledged := time.Now()
	if err != nil {
		return round, err
	}
	round = drillRound{milliseconds(acknowledged.Sub(begun)), make([]drillResult, len(nodes))}
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { round.Nodes[i] = o.follow(ctx, n, d, acknowledged) })
	}
	all.Wait()
	return round, nil
}

// approveAnew makes another approval of the same client by the same person.
func (d *demo) approveAnew(ctx context.Context) error {
	d.state, d.verifier = secret(), secret()
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

// follow asks one node until it refuses.
func (o drillOptions) follow(ctx context.Context, n drilled, d *demo, acknowledged time.Time) drillResult {
	r := drillResult{Node: n.url, Refused: -1, Latest: -1}
	for r.Refused < 0 {
		begun := time.Now()
		since := begun.Sub(acknowledged)
		if since > o.giveUp || ctx.Err() != nil {
			r.Fault = strings.TrimPrefix(r.Fault+"; it did not refuse within "+o.giveUp.String(), "; ")
			return r
		}
		status, err := n.call(ctx, d.access)
		switch {
		case err == nil && status == http.StatusUnauthorized:
			r.Refused = milliseconds(time.Since(acknowledged))
		case err == nil && status == http.StatusOK:
			r.Accepted, r.Latest = r.Accepted+1, milliseconds(since)
			if since >= o.within {
				r.Fault = fmt.Sprintf("it accepted a call that began %.1f ms after the revocation was acknowledged", r.Latest)
			}
			time.Sleep(10*time.Millisecond + since/20) // the organization's limit has to last
		default: // no answer, 503, 429: neither accepted nor refused
			time.Sleep(100 * time.Millisecond)
		}
	}
	if r.Refresh = n.refresh(ctx, d); r.Refresh != "invalid_grant" && r.Fault == "" {
		r.Fault = "a refresh was answered with " + r.Refresh
	}
	return r
}

// call asks with an access token.
func (n drilled) call(ctx context.Context, access string) (status int, err error) {
	answer, err := n.send(ctx, http.MethodGet, "/api/v5/me", nil, "Bearer "+access)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, err
}

// refresh sends the refresh token, and gives the error that is answered, or the
// status.
func (n drilled) refresh(ctx context.Context, d *demo) string {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {d.clientID}, "refresh_token": {d.current}}
	answer, err := n.send(ctx, http.MethodPost, "/oauth/token", form, "")
	if err != nil {
		return "no answer"
	}
	defer answer.Body.Close()
	var said struct {
		Error string `json:"error"`
	}
	if json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(&said) != nil || said.Error == "" {
		return answer.Status
	}
	return terminal.Printable(said.Error)
}

func (n drilled) send(ctx context.Context, method, path string, form url.Values, authorization string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, n.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	r.Host = n.host
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return n.http.Do(r)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (r *drillReport) add(round drillRound) {
	r.Rounds = append(r.Rounds, round)
	for _, n := range round.Nodes {
		r.OK = r.OK && n.Fault == ""
		r.Slowest = max(r.Slowest, n.Refused)
	}
}

func (r drillRound) tell(w io.Writer, asJSON bool, n int) {
	if asJSON {
		return
	}
	fmt.Fprintf(w, "round %d  revoked, acknowledged after %.1f ms\n", n, r.Revoked)
	for _, n := range r.Nodes {
		told := fmt.Sprintf("refused %.1f ms later, refresh %s", n.Refused, n.Refresh)
		if n.Refused < 0 {
			told = "never refused"
		}
		if n.Accepted > 0 {
			told += fmt.Sprintf(", %d calls accepted before", n.Accepted)
		}
		if n.Fault != "" {
			told += "   FAULT: " + n.Fault
		}
		fmt.Fprintf(w, "  %-32s  %s\n", n.Node, told)
	}
}

// tell closes the report. What is not as it should be is an error with code 1.
func (r drillReport) tell(w io.Writer, asJSON bool) error {
	if asJSON {
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return err
		}
	}
	if !r.OK {
		return &fault.Error{Code: fault.Failed, What: "a node accepted what was revoked", Hint: ""}
	}
	if !asJSON {
		fmt.Fprintf(w, "Every node refuses, at most %.1f ms after the revocation was acknowledged.\n", r.Slowest)
	}
	return nil
}
