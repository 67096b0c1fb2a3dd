package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/grantkeeper/grantkeeper/doctor"
	"github.com/grantkeeper/grantkeeper/fault"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// operatorOptions are the flags of every command that speaks to the operator
// API of a running server.
type operatorOptions struct {
	url          string
	passwordFile string
	flag         string // names passwordFile; "" is --password-file
}

func operatorFlags(g *global, c *cobra.Command) *operatorOptions {
	o := &operatorOptions{}
	f := c.Flags()
	f.StringVar(&o.url, "operator", "", "URL of the operators' listener (default: that of the configuration, or http://"+devOperatorListen+")")
	f.StringVar(&o.passwordFile, "password-file", "", "file with the operators' password (default: that of the configuration; dev's own needs none)")
	return o
}

// operatorClient speaks to an operator API (decision O1).
type operatorClient struct {
	base     string // URL, without a slash at the end
	password string
	http     *http.Client
}

// connect finds the listener and the password. A password that the
// configuration names goes to the configured listener and to this machine,
// nowhere else; where dev answers on this machine, it is dev's own, which
// everybody knows.
func (o operatorOptions) connect(ctx context.Context, configFile string, environ []string) (*operatorClient, error) {
	load := sync.OnceValues(func() (config.Loaded, error) { return config.Load(configFile, environ, nil) })
	base, name, err := o.listener(load)
	if err != nil {
		return nil, err
	}
	c := &operatorClient{base: base, http: &http.Client{
		Timeout:       30 * time.Second,
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy: the password is for the listener alone
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	c.password, err = o.secret(ctx, c, config.Loopback(name), load)
	return c, err
}

// listener gives the URL, and the name of its host.
func (o operatorOptions) listener(load func() (config.Loaded, error)) (base, name string, err error) {
	if o.url == "" {
		configured, err := load()
		if err != nil {
			return "", "", err
		}
		return config.ListenerURL(configured.Operator.Listen)
	}
	if base, _, name, err = config.ParseBaseAnywhere(o.url); err != nil {
		return "", "", fault.WrongUse("write --operator http://"+devOperatorListen, "--operator: %v", err)
	}
	return base, name, nil
}

func (o operatorOptions) secret(ctx context.Context, c *operatorClient, here bool, load func() (config.Loaded, error)) (string, error) {
	if o.passwordFile != "" {
		return readPasswordFlag(o.named(), o.passwordFile)
	}
	if here {
		v, err := c.version(ctx)
		if err != nil {
			return "", err
		}
		if v.Mode == "dev" {
			return demoPassword, nil
		}
	}
	configured, err := load()
	if err != nil {
		return "", err
	}
	own, _, _ := config.ListenerURL(configured.Operator.Listen)
	if configured.Operator.PasswordFile == "" || c.base != own && !here {
		return "", fault.WrongUse("name it: "+o.named()+" FILE", "the operators' password for %s is not known", c.base)
	}
	return config.ReadPassword(configured.Operator.PasswordFile)
}

func (o operatorOptions) named() string { return cmp.Or(o.flag, "--password-file") }

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

// version asks who answers. It needs no password.
func (c *operatorClient) version(ctx context.Context) (operator.Version, error) {
	v := operator.Version{}
	err := c.do(ctx, http.MethodGet, "/version", nil, nil, &v)
	return v, err
}

// missing asks what the server lacks for being ready; nothing when it is. It
// needs no password.
func (c *operatorClient) missing(ctx context.Context) []string {
	silent := []string{doctor.Unanswered}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/readyz", nil)
	if err != nil {
		return silent
	}
	answer, err := c.http.Do(r)
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

// rawJSON is a body that is sent as it was written, so that its lines keep
// their numbers.
type rawJSON []byte

// do sends one request, with a body in JSON unless it is nil, and reads the
// answer's JSON into a value. Every error is a fault.Error: 2 for what the
// server does not take, 4 for one that does not answer or let in, 5 for what
// is not there, 6 for what its state refuses.
func (c *operatorClient) do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	content, raw := body.(rawJSON)
	if body != nil && !raw {
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	address := c.base + path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(content))
	if err != nil {
		return fault.WrongUse("", "%s: %v", c.base, err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.password != "" {
		r.SetBasicAuth(operator.User, c.password)
	}
	as(r)
	answer, err := c.http.Do(r)
	if errors.Is(err, context.DeadlineExceeded) {
		return fault.CannotOpen("see its log, and on PostgreSQL in pg_stat_activity whether somebody holds a table", "%s does not answer in time", c.base)
	} else if err != nil {
		return fault.CannotOpen("start it: grantkeeper serve, or dev to try it; or name another: --operator URL", "%s does not answer", c.base)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 64<<20))
	if err != nil {
		return fault.CannotOpen("", "%s broke off its answer", c.base)
	}
	if answer.StatusCode != http.StatusOK {
		return c.refusal(answer.StatusCode, text)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.stranger()
	}
	return nil
}

// refusal is the error of an answer other than 200.
func (c *operatorClient) refusal(status int, text []byte) error {
	var said struct {
		Code        string `json:"error"`
		Description string `json:"error_description"`
		Reference   string `json:"reference"`
	}
	if status == http.StatusMisdirectedRequest {
		return fault.CannotOpen("set operator.hosts there, or ask through a tunnel", "%s does not answer for that name", c.base)
	}
	if json.Unmarshal(text, &said) != nil || said.Code == "" {
		return c.stranger()
	}
	what := terminal.Printable(said.Description)
	switch {
	case status == http.StatusUnauthorized:
		return fault.CannotOpen("name the file with the right one: --password-file FILE", "%s does not take the operators' password", c.base)
	case status == http.StatusTooManyRequests:
		return fault.CannotOpen("wait, and see that no script asks with an old password", "%s: %s", c.base, what)
	case status == http.StatusServiceUnavailable:
		return fault.CannotOpen("see its log, and: grantkeeper doctor", "%s: %s", c.base, what)
	case said.Code == "api_off":
		return fault.CannotOpen("", "%s: %s", c.base, what)
	case status == http.StatusNotFound:
		return &fault.Error{Code: fault.Unknown, What: what, Hint: whereListed(what)}
	case status == http.StatusBadRequest:
		return fault.WrongUse("", "%s", what)
	case status == http.StatusConflict:
		return &fault.Error{Code: fault.State, What: what, Hint: ""}
	}
	return &fault.Error{Code: fault.Failed, What: fmt.Sprintf("%s: %s (reference %s)", c.base, what, terminal.Printable(said.Reference)), Hint: ""}
}

// whereListed leads to the objects that there are.
func whereListed(what string) string {
	for _, kind := range []string{"client", "approval", "person", "organization"} {
		if strings.HasPrefix(what, "there is no such "+kind) {
			return "see: grantkeeper " + kind + " list"
		}
	}
	return ""
}

// stranger is the error of an answer that no operator API gives.
func (c *operatorClient) stranger() error {
	return fault.CannotOpen("name the operators' listener: --operator URL", "%s answers, but not as an operator API", c.base)
}
