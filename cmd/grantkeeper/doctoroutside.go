package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/provider"
)

// outsideWithin bounds all that is asked of others, at once: they may be far
// away.
const outsideWithin = 5 * time.Second

// A probe asks one service that the configuration names, and changes nothing
// there. Its finding has its own name: one of several says which.
type probe struct {
	check string // the name of its check
	ask   func(context.Context) finding
	found finding
}

// probes are what a configuration needs of others.
func (c *Checked) probes() (all []*probe) {
	if c.Upstream != nil {
		all = append(all, &probe{check: "upstream", ask: c.askUpstream})
	}
	for _, one := range c.Providers {
		all = append(all, &probe{check: "provider", ask: func(ctx context.Context) finding { return askProvider(ctx, one) }})
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
func (d *doctor) askOutside(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, outsideWithin)
	defer cancel()
	var all sync.WaitGroup
	for _, p := range d.outside {
		all.Go(func() { p.found = p.ask(ctx) })
	}
	all.Wait()
}

// probed gives what was found of the others of one kind.
func probed(name string) func(*doctor) []finding {
	return func(d *doctor) (all []finding) {
		for _, p := range d.outside {
			if p.check == name {
				all = append(all, p.found)
			}
		}
		return all
	}
}

func (c *Checked) askUpstream(ctx context.Context) finding {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.Proxy = nil // as the gateway asks it
	return replies(ctx, t, c.Upstream.String(), "/", "see that the service of api.upstream runs there")
}

func (c *Checked) askHandOff(ctx context.Context) finding {
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
func replies(ctx context.Context, t *http.Transport, base, path, fix string) finding {
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

func askProvider(ctx context.Context, c provider.Config) finding {
	f := found("%s, its metadata and keys", c.Issuer)
	if err := provider.New(c, time.Now).Reach(ctx); err != nil {
		f = failed("see that the provider runs, that this machine reaches it, and that signin.providers has its issuer byte for byte",
			"%s: %v", c.Issuer, causeOf(err))
	}
	f.Name = "provider:" + c.ID
	return f
}

// askMail greets the mail server as for a mail, and sends none. It does not
// sign in: that would show the password to whoever answers there wrongly.
func (c *Checked) askMail(ctx context.Context) finding {
	return (&mailer{MailServer: *c.MailServer}).greeted(ctx)
}

func (m *mailer) greeted(ctx context.Context) finding {
	at := net.JoinHostPort(m.Host, m.Port)
	client, err := m.greet(ctx)
	if err != nil {
		return failed("see that the server of mail.url runs, and offers TLS that this machine trusts", "%s: %v", at, causeOf(err))
	}
	_ = client.Quit()
	return found("%s answers, nothing was sent", at)
}
