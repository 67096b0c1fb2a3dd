// Package drill revokes test approvals, or lowers the ceiling over them, and times each
// node until it refuses what they may no longer do.
package drill

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/demo"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/remote"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Options are what the command line of drill came to: Rounds are 1 to 30, Within is how
// long after a revocation a call may still be accepted, GiveUp how long to wait. Lower
// sets the ceiling of the person's organization to read only in place of a revocation,
// and lifts it again.
type Options struct {
	BaseURLs, Nodes           []string
	Email, PersonPasswordFile string
	Rounds                    int
	Within, GiveUp            time.Duration
	Lower, JSON               bool
}

// A drilled node is one that the drill asks.
type drilled struct {
	url  string // without a slash at the end
	host string // that is asked for; "" is the URL's
	http *http.Client
}

// result is what one node did after one revocation.
type result struct {
	Node     string  `json:"node"`
	Refused  float64 `json:"refused_ms"`      // from the acknowledgement to the first refusal; -1 is never
	Accepted int     `json:"accepted_since"`  // calls that began after it and were accepted
	Latest   float64 `json:"accepted_ms"`     // when the last of these began; -1 is none
	Refresh  string  `json:"refresh"`         // what the token endpoint said after that; "" under a ceiling
	Fault    string  `json:"fault,omitempty"` // why this is not as it should be
}

type oneRound struct {
	Revoked float64  `json:"revoked_ms"` // how long the revocation took to be acknowledged
	Nodes   []result `json:"nodes"`
}

// Report is what became of all rounds.
type Report struct {
	OK      bool       `json:"ok"`
	Slowest float64    `json:"slowest_ms"`
	Rounds  []oneRound `json:"rounds"`
}

// Run makes the rounds and tells each. Every error is a fault.Error: code 1 where a node
// accepted what was revoked.
func Run(ctx context.Context, o Options, server *remote.Server, stdout io.Writer) error {
	if ctx == nil {
		ctx = context.Background()
	}
	if o.Rounds < 1 || o.Rounds > 30 {
		return fault.WrongUse("", "--rounds: 1 to 30, so that the rate limits let it through")
	}
	if _, name, err := config.ParseBaseAnywhere(o.BaseURLs[0]); err == nil && o.PersonPasswordFile == "" && !client.Loopback(name) {
		return fault.WrongUse("name yours with --email and --person-password-file", "the password of the demo data is for dev")
	}
	d, err := demo.New(demo.Options{BaseURL: o.BaseURLs[0], Email: o.Email, PasswordFile: o.PersonPasswordFile, Server: server}, len(demo.Steps))
	if err != nil {
		return err
	}
	nodes, err := o.drilled(d)
	if err != nil {
		return err
	}
	if _, err := d.Discover(ctx); err != nil {
		return fault.CannotOpen("see that it runs: grantkeeper demo --steps 1-2", "%s: %v", d.Base, err)
	}
	if err := d.BeginDrill(ctx); err != nil {
		return d.EndDrill(ctx, err) // it may be there
	}
	report := Report{OK: true}
	var failed error
	for n := 1; n <= o.Rounds && failed == nil; n++ {
		var round oneRound
		one := o.round
		if o.Lower {
			one = o.lowerRound
		}
		if round, failed = one(ctx, d, nodes, server); failed == nil {
			report.add(round)
			o.tellRound(stdout, round, n)
		}
	}
	if failed = d.EndDrill(ctx, failed); failed != nil {
		return failed
	}
	return o.tell(stdout, report)
}

// drilled reads where the nodes are.
func (o Options) drilled(d *demo.Client) (nodes []drilled, err error) {
	first, err := url.Parse(d.Base)
	if err != nil {
		return nil, err
	}
	add := func(flag, address, host string) error {
		base, _, err := config.ParseBaseAnywhere(address)
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
	for _, address := range o.Nodes {
		if err := add("node", address, first.Host); err != nil {
			return nil, err
		}
	}
	if len(nodes) > 0 && len(o.BaseURLs) == 1 {
		return nodes, nil
	}
	for _, address := range o.BaseURLs {
		if err := add("base-url", address, ""); err != nil {
			return nil, err
		}
	}
	return nodes, nil
}

// begin makes an approval that every node takes, and gives what /me of the last says.
func (o Options) begin(ctx context.Context, d *demo.Client, nodes []drilled) (me []byte, err error) {
	if err := d.ApproveAnew(ctx); err != nil {
		return nil, &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s: the test approval: %v", d.Base, err),
			Hint: cmp.Or(d.Whose("--person-password-file"), "see that it is a node of this installation, with this person")}
	}
	for _, n := range nodes {
		var status int
		if status, me, err = n.call(ctx, d.Access); err != nil {
			return nil, fault.CannotOpen("", "%s does not answer: %v", n.url, err)
		} else if status != http.StatusOK {
			return nil, &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s answers a good access token with %d", n.url, status), Hint: "see that it is a node of this installation: one database, one key file"}
		}
	}
	return me, nil
}

// round makes an approval, revokes it, and follows what the nodes do.
func (o Options) round(ctx context.Context, d *demo.Client, nodes []drilled, server *remote.Server) (round oneRound, err error) {
	if _, err := o.begin(ctx, d, nodes); err != nil {
		return round, err
	}
	var listed struct {
		Items []struct {
			ID    string `json:"id"`
			State string `json:"state"`
		} `json:"items"`
	}
	if err := server.Do(ctx, http.MethodGet, "/v1/approvals", url.Values{"client": {d.ClientID}, "state": {"live"}}, nil, &listed); err != nil {
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
	round = o.followAll(ctx, d, nodes, acknowledged)
	round.Revoked = milliseconds(acknowledged.Sub(begun))
	return round, nil
}

// followAll follows every node at once.
func (o Options) followAll(ctx context.Context, d *demo.Client, nodes []drilled, acknowledged time.Time) oneRound {
	round := oneRound{Nodes: make([]result, len(nodes))}
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { round.Nodes[i] = o.follow(ctx, n, d, acknowledged) })
	}
	all.Wait()
	return round
}

// over reports whether an answer shows that what was changed counts: the token is refused,
// or, under a lower ceiling, nothing can be changed by it.
func (o Options) over(status int, body []byte) bool {
	if o.Lower && status == http.StatusOK {
		_, may := mayChange(body)
		return !may
	}
	return status == http.StatusUnauthorized
}

// change is what the nodes have to know of.
func (o Options) change() string {
	if o.Lower {
		return "lower ceiling"
	}
	return "revocation"
}

// follow asks one node until it refuses.
func (o Options) follow(ctx context.Context, n drilled, d *demo.Client, acknowledged time.Time) result {
	r := result{Node: n.url, Refused: -1, Latest: -1}
	for r.Refused < 0 {
		begun := time.Now()
		since := begun.Sub(acknowledged)
		if since > o.GiveUp || ctx.Err() != nil {
			r.Fault = strings.TrimPrefix(r.Fault+"; it did not refuse within "+o.GiveUp.String(), "; ")
			return r
		}
		status, body, err := n.call(ctx, d.Access)
		switch {
		case err == nil && o.over(status, body):
			r.Refused = milliseconds(time.Since(acknowledged))
		case err == nil && status == http.StatusOK:
			r.Accepted, r.Latest = r.Accepted+1, milliseconds(since)
			if since >= o.Within {
				r.Fault = fmt.Sprintf("it accepted a call that began %.1f ms after the %s was acknowledged", r.Latest, o.change())
			}
			time.Sleep(10*time.Millisecond + since/20) // the organization's limit has to last
		default: // no answer, 503, 429: neither accepted nor refused
			time.Sleep(100 * time.Millisecond)
		}
	}
	if o.Lower {
		return r
	}
	if r.Refresh = n.refresh(ctx, d); r.Refresh != "invalid_grant" && r.Fault == "" {
		r.Fault = "a refresh was answered with " + r.Refresh
	}
	return r
}

// call asks with an access token who it is for.
func (n drilled) call(ctx context.Context, access string) (status int, body []byte, err error) {
	answer, err := n.send(ctx, http.MethodGet, "/api/v5/me", nil, "Bearer "+access)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, body, err
}

// refresh sends the refresh token, and gives the error that is answered, or the
// status.
func (n drilled) refresh(ctx context.Context, d *demo.Client) string {
	form := url.Values{"grant_type": {"refresh_token"}, "client_id": {d.ClientID}, "refresh_token": {d.Current}}
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

func (r *Report) add(round oneRound) {
	r.Rounds = append(r.Rounds, round)
	for _, n := range round.Nodes {
		r.OK = r.OK && n.Fault == ""
		r.Slowest = max(r.Slowest, n.Refused)
	}
}

func (o Options) tellRound(w io.Writer, r oneRound, n int) {
	if o.JSON {
		return
	}
	did := map[bool]string{false: "revoked", true: "ceiling lowered"}[o.Lower]
	fmt.Fprintf(w, "round %d  %s, acknowledged after %.1f ms\n", n, did, r.Revoked)
	for _, n := range r.Nodes {
		told := fmt.Sprintf("refused %.1f ms later", n.Refused)
		if n.Refresh != "" {
			told += ", refresh " + n.Refresh
		}
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
func (o Options) tell(w io.Writer, r Report) error {
	if o.JSON {
		if err := json.NewEncoder(w).Encode(r); err != nil {
			return err
		}
	}
	if !r.OK {
		return &fault.Error{Code: fault.Failed, What: "a node accepted what was " + map[bool]string{false: "revoked", true: "above the ceiling"}[o.Lower], Hint: ""}
	}
	if !o.JSON {
		fmt.Fprintf(w, "Every node refuses, at most %.1f ms after the %s was acknowledged.\n", r.Slowest, o.change())
	}
	return nil
}
