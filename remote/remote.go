// Package remote asks a running server by its operators' listener, as commands do: where
// it is and by what password, which of a few characters of an ID is meant, what takes more
// than one request or a file, and what went wrong, as people are told it.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/doctor"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// Where a server under dev listens, and the password of its operators and of all the
// people of its demo: everybody knows it, and dev listens on loopback alone.
const (
	DevListen    = "127.0.0.1:8080"
	DevOperators = "127.0.0.1:8081"
	DevPassword  = "demo-demo-demo"
	DevPerson    = "ada@nordlys.example" // email of the first of them
)

// At are the flags of every command that speaks to the operator
// API of a running server.
type At struct {
	URL          string
	PasswordFile string
	Flag         string // names passwordFile; "" is --password-file
	Password     string // in place of the file, where the caller knows it
}

// Server speaks to an operator API (decision O1).
type Server struct {
	Base     string // URL, without a slash at the end
	Password string
	HTTP     *http.Client
}

// AnswersWithin is how long a server has for an answer, but where it is asked as a Patient one.
// A test has less.
var AnswersWithin = 30 * time.Second

// Connect finds the listener and the password. A password that the
// configuration names goes to the configured listener and to this machine,
// nowhere else; where dev answers on this machine, it is dev's own, which
// everybody knows.
func (o At) Connect(ctx context.Context, configFile string, environ []string) (*Server, error) {
	load := sync.OnceValues(func() (config.Loaded, error) { return config.Load(configFile, environ, nil) })
	base, name, err := o.listener(load)
	if err != nil {
		return nil, err
	}
	c := &Server{Base: base, HTTP: &http.Client{
		Timeout:       AnswersWithin,
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy: the password is for the listener alone
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.Password, err = o.secret(ctx, c, client.Loopback(name), load)
	return c, err
}

// listener gives the URL, and the name of its host.
func (o At) listener(load func() (config.Loaded, error)) (base, name string, err error) {
	if o.URL == "" {
		configured, err := load()
		if err != nil {
			return "", "", err
		}
		return config.ListenerURL(configured.Operator.Listen)
	}
	if base, name, err = config.ParseBaseAnywhere(o.URL); err != nil {
		return "", "", fault.WrongUse("write --operator http://"+DevOperators, "--operator: %v", err)
	}
	return base, name, nil
}

func (o At) secret(ctx context.Context, c *Server, here bool, load func() (config.Loaded, error)) (string, error) {
	if o.Password != "" {
		return o.Password, nil
	}
	if o.PasswordFile != "" {
		return readPasswordFlag(o.named(), o.PasswordFile)
	}
	if here {
		v, err := c.Version(ctx)
		if err != nil {
			return "", err
		}
		if v.Mode == "dev" {
			return DevPassword, nil
		}
	}
	configured, err := load()
	if err != nil {
		return "", err
	}
	own, _, _ := config.ListenerURL(configured.Operator.Listen)
	if configured.Operator.PasswordFile == "" || c.Base != own && !here {
		return "", fault.WrongUse("name it: "+o.named()+" FILE", "the operators' password for %s is not known", c.Base)
	}
	return config.ReadPassword(configured.Operator.PasswordFile)
}

func (o At) named() string { return cmp.Or(o.Flag, "--password-file") }

func readPasswordFlag(flag, name string) (string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return "", fault.CannotOpen("", "%s: %v", flag, err)
	}
	password := strings.TrimRight(string(b), "\r\n")
	if password == "" || strings.ContainsAny(password, "\r\n") {
		return "", fault.WrongUse("write one line into it", "%s: %s has not one line", flag, name)
	}
	return password, nil
}

// Version asks who answers. It needs no password.
func (c *Server) Version(ctx context.Context) (operator.Version, error) {
	v := operator.Version{}
	err := c.Do(ctx, http.MethodGet, "/version", nil, nil, &v)
	return v, err
}

// Missing asks what the server lacks for being ready; nothing when it is. It
// needs no password.
func (c *Server) Missing(ctx context.Context) []string {
	silent := []string{doctor.Unanswered}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+"/readyz", nil)
	if err != nil {
		return silent
	}
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return silent
	}
	defer answer.Body.Close()
	var said struct {
		Missing []string `json:"missing"`
	}
	if json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&said) != nil || answer.StatusCode != http.StatusOK && len(said.Missing) == 0 {
		return []string{fmt.Sprintf("/readyz answers %d", answer.StatusCode)}
	}
	return said.Missing
}

// RawJSON is a body that is sent as it was written, so that its lines keep
// their numbers.
type RawJSON []byte

// Do sends one request, with a body in JSON unless it is nil, and reads the
// answer's JSON into a value. Every error is a fault.Error: 2 for what the
// server does not take, 4 for one that does not answer or let in, 5 for what
// is not there, 6 for what its state refuses.
func (c *Server) Do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	content, raw := body.(RawJSON)
	if body != nil && !raw {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	address := c.Base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return fault.WrongUse("", "%s: %v", c.Base, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.Password != "" {
		r.SetBasicAuth(operator.User, c.Password)
	}
	as(r)
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return c.unanswered(method, sent.Load(), err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	if err != nil && method == http.MethodGet {
		return fault.CannotOpen("", "%s broke off its answer", c.Base)
	} else if err != nil {
		return c.unanswered(method, true, err)
	}
	if answer.StatusCode != http.StatusOK {
		return c.refusal(answer.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.Stranger()
	}
	return nil
}

// unanswered is the error of a request that got no answer, or not all of it. A change that
// has begun to be sent may have been made.
func (c *Server) unanswered(method string, sent bool, err error) error {
	may := ""
	if sent && method != http.MethodGet {
		may = ", and may have done what it was asked"
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fault.CannotOpen("see its log, and on PostgreSQL in pg_stat_activity whether somebody holds a table", "%s does not answer in time%s", c.Base, may)
	case may != "":
		return fault.CannotOpen("see what it has done: grantkeeper events list", "%s broke off its answer%s", c.Base, may)
	}
	return fault.CannotOpen("start it: grantkeeper serve, or dev to try it; or name another: --operator URL", "%s does not answer", c.Base)
}

// refusal is the error of an answer other than 200.
func (c *Server) refusal(status int, text []byte) error {
	var said struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
		Reference   string `json:"reference"`
	}
	if status == http.StatusMisdirectedRequest {
		return fault.CannotOpen("set operator.hosts there, or ask through a tunnel", "%s does not answer for that name", c.Base)
	}
	if json.Unmarshal(text, &said) != nil || said.Code == "" {
		return c.Stranger()
	}
	what := terminal.Printable(said.Description)
	switch {
	case status == http.StatusUnauthorized:
		return fault.CannotOpen("name the file with the right one: --password-file FILE", "%s does not take the operators' password", c.Base)
	case status == http.StatusTooManyRequests:
		return fault.CannotOpen("wait, and see that no script asks with an old password", "%s: %s", c.Base, what)
	case status == http.StatusServiceUnavailable:
		return fault.CannotOpen("see its log, and: grantkeeper doctor", "%s: %s", c.Base, what)
	case said.Code == "api_off":
		return fault.CannotOpen("", "%s: %s", c.Base, what)
	case status == http.StatusNotFound:
		return &fault.Error{Code: fault.Unknown, What: what, Hint: whereListed(what)}
	case status == http.StatusBadRequest:
		return fault.WrongUse("", "%s", what)
	case status == http.StatusConflict:
		return &fault.Error{Code: fault.State, What: what, Hint: ""}
	}
	return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s: %s (reference %s)", c.Base, what, terminal.Printable(said.Reference)), Hint: ""}
}

// whereListed leads to the objects that there are.
func whereListed(what string) string {
	if what == "there is no such client, person or organization" {
		return "see: grantkeeper client list, grantkeeper person list and grantkeeper organization list"
	}
	for _, one := range [][2]string{{"client", "client"}, {"approval", "approval"}, {"person", "person"}, {"organization", "organization"}, {"attempt", "attempts"}, {"event", "events"}} {
		if strings.HasPrefix(what, "there is no such "+one[0]) {
			return "see: grantkeeper " + one[1] + " list"
		}
	}
	return ""
}

// Stranger is the error of an answer that no operator API gives.
func (c *Server) Stranger() error {
	return fault.CannotOpen("name the operators' listener: --operator URL", "%s answers, but not as an operator API", c.Base)
}

// Page gives a page of a list as it came. The server ends one early that has
// looked at much and found little; what is empty so far is looked on from.
func (c *Server) Page(ctx context.Context, path string, query url.Values) (text json.RawMessage, err error) {
	for {
		if err := c.Do(ctx, http.MethodGet, path, query, nil, &text); err != nil {
			return nil, err
		}
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  string            `json:"next"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			return nil, c.Stranger()
		}
		if len(page.Items) > 0 || page.Next == "" {
			return text, nil
		}
		query.Set("after", page.Next)
	}
}

// Patient is the same server, for what may take long.
func (c *Server) Patient() *Server {
	patient, without := *c, *c.HTTP
	without.Timeout = 0
	patient.HTTP = &without
	return &patient
}

// as tells the server who asks.
func as(r *http.Request) {
	r.Header.Set(operator.UserHeader, server.SystemUser())
}

// Open sends a GET whose answer is read as it comes, however long that takes.
func (c *Server) Open(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Base+path, nil)
	if err != nil {
		return nil, fault.WrongUse("", "%s: %v", c.Base, err)
	}
	r.SetBasicAuth(operator.User, c.Password)
	as(r)
	patient := *c.HTTP
	patient.Timeout = 0
	answer, err := patient.Do(r)
	if err != nil {
		return nil, fault.CannotOpen("start one: grantkeeper serve; or name it: --operator URL", "%s does not answer", c.Base)
	}
	if answer.StatusCode != http.StatusOK {
		defer answer.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
		return nil, c.refusal(answer.StatusCode, text)
	}
	return answer, nil
}
