package doctor

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/mcp"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/rules"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/terminal"
)

// outsideWithin bounds all that is asked of others, at once: they may be far
// away.
const outsideWithin = 5 * time.Second

// A probe asks one service that the configuration names, and changes nothing
// there. Its finding has its own name: one of several says which.
type probe struct {
	check string // the name of its check
	ask   func(context.Context) Finding
	found Finding
}

// Outside is a configuration, as to what it needs of others.
type Outside struct{ *config.Checked }

// probes are all that it needs.
func (c Outside) probes() (all []*probe) {
	if c.Upstream != nil {
		all = append(all, &probe{check: "upstream", ask: func(ctx context.Context) Finding {
			return c.askAPI(ctx, c.Upstream.JoinPath(config.UpstreamPath), "api.upstream")
		}})
	}
	if c.MCPUpstream != nil {
		all = append(all, &probe{check: "mcp-upstream", ask: func(ctx context.Context) Finding { return c.AskMCP(ctx, c.OwnMCP()) }})
	}
	for _, one := range c.Guarded {
		all = append(all, &probe{check: "paths", ask: func(ctx context.Context) Finding { return c.askPath(ctx, one) }})
	}
	if c.PreviewURL != nil {
		all = append(all, &probe{check: "preview", ask: c.askPreview})
	}
	for _, one := range c.Providers {
		all = append(all, &probe{check: "provider", ask: func(ctx context.Context) Finding { return askProvider(ctx, one) }})
	}
	if c.HandOff != nil {
		all = append(all, &probe{check: "handoff", ask: c.askHandOff})
	}
	if c.MailServer != nil {
		all = append(all, &probe{check: "mail", ask: c.askMail})
	}
	return all
}

// askOutside asks them all at once.
func (d *Examination) askOutside(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, outsideWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range d.outside {
		all.Go(func() { p.found = p.ask(ctx) })
	}
	all.Wait()
}

// probed gives what was found of the others of one kind.
func probed(name string) func(*Examination) []Finding {
	return func(d *Examination) (all []Finding) {
		if d.ConfigErr != nil {
			return d.noConfiguration()
		}
		for _, p := range d.outside {
			if p.check == name {
				all = append(all, p.found)
			}
		}
		return all
	}
}

// askAPI asks as a call does, for nobody, the service that a setting names.
func (c Outside) askAPI(ctx context.Context, at *url.URL, setting string) Finding {
	r, err := c.signedFor(ctx, http.MethodGet, at, nil)
	if err != nil {
		return failed("correct "+setting, "%v", err)
	}
	return c.behind(r, "see that the service of "+setting+" runs there", nil)
}

// askPath asks one of [[paths]] as its kind is, and says that the contract has no
// such path (spec 9).
func (c Outside) askPath(ctx context.Context, one config.GuardedPath) (f Finding) {
	if one.MCP {
		f = c.AskMCP(ctx, one)
	} else {
		f = c.askAPI(ctx, one.URL.JoinPath(one.Path), one.Setting())
	}
	f.Name = "paths:" + one.Path
	if f.Result == "ok" {
		f.Text += "; guarded beside API v5, which goes beyond the contract"
	}
	return f
}

// firstMessage is what an MCP client says first, in a revision that every server of
// today knows.
const firstMessage = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},` +
	`"clientInfo":{"name":"grantkeeper doctor","version":"1"}}}`

// AskMCP looks at what the MCP server says, and at what it leaves out that rules go by.
func (c Outside) AskMCP(ctx context.Context, one config.GuardedPath) Finding {
	f, said := c.GreetMCP(ctx, one)
	if f.Result == "ok" && said.Cut != "" {
		return warned("see that it lists its tools to whoever is signed for", "%s; its tools are not all known: %s", f.Text, said.Cut)
	}
	if silent := c.silent(config.RuledAt(one.Path), said.Tools); f.Result == "ok" && len(silent) > 0 {
		return warned("set readOnlyHint in their annotations, or access in their rules; see: grantkeeper service tools",
			"%s; without readOnlyHint, and so taken to change something: %s", f.Text, terminal.Several(silent))
	}
	return f
}

// GreetMCP begins as an MCP client does, for nobody, reads what the server has, and
// ends the session that it gets.
func (c Outside) GreetMCP(ctx context.Context, one config.GuardedPath) (f Finding, said Listed) {
	fix := "see that the MCP server of " + one.Setting() + " runs there, and that this is its whole URL"
	r, err := c.signedFor(ctx, http.MethodPost, one.URL, []byte(firstMessage))
	if err != nil {
		return failed("correct "+one.Setting(), "%v", err), said
	}
	f = c.behind(r, fix, func(client *http.Client, a *http.Response) *Finding {
		kind, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
		var wrong Finding
		switch {
		case a.StatusCode >= 300 && a.StatusCode < 400:
			wrong = failed("write "+one.Setting()+" as the server answers it", "%s redirects, which no client is told", r.URL)
		case a.StatusCode >= 400:
			wrong = failed(fix, "%s answers %d to initialize", r.URL, a.StatusCode)
		case a.Header.Get("Content-Encoding") != "":
			wrong = failed("switch compression off there", "%s compresses its answers though none is accepted", r.URL)
		case kind != "application/json" && kind != "text/event-stream":
			wrong = failed(fix, "%s answers initialize as %.40q, and not as MCP does", r.URL, kind)
		default:
			if said, err = c.list(ctx, client, r.URL, a); err == nil {
				return nil
			}
			wrong = failed(fix+", and at its log", "%s does not answer initialize as MCP does: %v", r.URL, causeOf(err))
		}
		return &wrong
	})
	return f, said
}

// signedFor is a call that is for nobody, signed as every call to the service.
func (c Outside) signedFor(ctx context.Context, method string, to *url.URL, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	headers, err := identity.Identity{}.Sign(c.ServiceKey, time.Now())
	if err == nil {
		err = identity.SignCall(c.ServiceKey, headers, identity.Call{Method: method, Target: r.URL.RequestURI(), Body: body})
	}
	for name, value := range headers {
		r.Header.Set(name, value)
	}
	if len(body) > 0 {
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
	}
	r.Header.Set("Accept-Encoding", "identity")
	return r, err
}

// behind asks the service. It must answer, take the signature, and have no fault of
// its own; more, unless nil, says what else is wrong.
func (c Outside) behind(r *http.Request, fix string, more func(*http.Client, *http.Response) *Finding) Finding {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil // as the gateway asks it
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	at := r.URL.Scheme + "://" + r.URL.Host
	a, err := client.Do(r)
	if err != nil {
		return failed(fix, "%s does not answer: %v", at, causeOf(err))
	}
	defer a.Body.Close()
	switch {
	case a.StatusCode == http.StatusUnauthorized:
		return failed("give the service the key in service.key_file, and see that its clock is right", "%s does not take what service.key_file signs", at)
	case a.StatusCode >= http.StatusInternalServerError:
		return failed(fix+", and at its log", "%s answers %d", at, a.StatusCode)
	}
	wrong := (*Finding)(nil)
	if more != nil {
		wrong = more(client, a)
	}
	if session := a.Header.Get("Mcp-Session-Id"); session != "" {
		if end, err := c.signedFor(r.Context(), http.MethodDelete, r.URL, nil); err == nil {
			end.Header.Set("Mcp-Session-Id", session)
			if a, err := client.Do(end); err == nil {
				a.Body.Close()
			}
		}
	}
	if wrong != nil {
		return *wrong
	}
	return found("%s answers", at)
}

// checkUpstream gives what was found of the service of API v5, or that nothing
// stands behind at all. Behind a proxy that asks, calls need no upstream.
func (d *Examination) checkUpstream() []Finding {
	all := probed("upstream")(d)
	c := &d.Checked
	if d.ConfigErr == nil && c.Upstream == nil && c.MCPUpstream == nil && len(c.Guarded) == 0 && c.Gateway.Listen == "off" {
		all = append(all, warned("set api.upstream and mcp.upstream", "no service stands behind API v5 and MCP: they answer 404"))
	}
	return all
}

func (c Outside) askHandOff(ctx context.Context) Finding {
	u, err := url.Parse(c.HandOff.URL)
	if err != nil {
		return failed("correct signin.handoff.url", "not a URL")
	}
	at := url.URL{Scheme: u.Scheme, Host: u.Host} // a path or query may be a secret
	return replies(ctx, http.DefaultTransport.(*http.Transport).Clone(), at.String(), u.RequestURI(),
		"see that the service of signin.handoff.url runs there")
}

// replies asks without a credential. Any answer but a server's fault will do,
// and nothing leads elsewhere.
func replies(ctx context.Context, t *http.Transport, base, path, fix string) Finding {
	client := &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
	if err != nil {
		return failed(fix, "%s cannot be asked", base)
	}
	answer, err := client.Do(r)
	if err != nil {
		return failed(fix, "%s does not answer: %v", base, causeOf(err))
	}
	answer.Body.Close()
	if answer.StatusCode >= http.StatusInternalServerError {
		return failed(fix+", and at its log", "%s answers %d", base, answer.StatusCode)
	}
	return found("%s answers", base)
}

// causeOf leaves out the URL, which stands before it or is not to be shown.
func causeOf(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		err = of.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("not within %s", outsideWithin)
	}
	return err
}

func askProvider(ctx context.Context, c provider.Config) Finding {
	f := found("%s, its metadata and keys", c.Issuer)
	if err := provider.New(c, time.Now).Reach(ctx); err != nil {
		f = failed("see that the provider runs, that this machine reaches it, and that signin.providers has its issuer byte for byte",
			"%s: %v", c.Issuer, causeOf(err))
	}
	f.Name = "provider:" + c.ID
	return f
}

func (c Outside) askMail(ctx context.Context) Finding { return greeted(ctx, *c.MailServer, nil) }

func greeted(ctx context.Context, m config.MailServer, roots *x509.CertPool) Finding {
	at := net.JoinHostPort(m.Host, m.Port)
	if err := server.GreetMail(ctx, m, roots); err != nil {
		return failed("see that the server of mail.url runs, and offers TLS that this machine trusts", "%s: %v", at, causeOf(err))
	}
	return found("%s answers, nothing was sent", at)
}

// silent are the tools that say nothing of whether they read, though the rules go by
// that.
func (c Outside) silent(at string, all []mcp.Tool) (names []string) {
	for _, t := range all {
		if !t.Hinted && c.Ruled.Needed(rules.Call{At: at, Tool: t.Name, Reads: t.Reads}).Hinted {
			names = append(names, terminal.ShownName(t.Name))
		}
	}
	return names
}
