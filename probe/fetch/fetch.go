// Package fetch makes the requests of package probe, within bounds: it never sends a
// credential that it was given, leaves https for nothing else, and does not let a
// public server lead it to private addresses.
package fetch

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grantkeeper/grantkeeper/outbound"
	"github.com/grantkeeper/grantkeeper/probe"
)

// Bounds of an inquiry, where the options have none.
const (
	Within = 60 * time.Second // all requests together
	Each   = 6 * time.Second  // one of them, with its answer and redirects
)

const (
	maxAnswer = 1 << 20  // bytes of a body
	maxFields = 64 << 10 // bytes of all header fields
	maxHops   = 3
)

// Options are how an inquiry is made.
type Options struct {
	Roots *x509.CertPool // trusted; nil is what the system trusts
	Agent string         // User-Agent

	Within, Each time.Duration // 0 is the constant of that name
}

// Run asks until nothing is left to ask, and records all of it in the inquiry. What
// goes wrong is an answer. It ends with the context, or after Within; only a registration
// that has begun is waited for even then, and what was registered is deleted: for these each
// request has its own time.
func Run(ctx context.Context, q *probe.Inquiry, o Options) {
	o.Within, o.Each = cmp.Or(o.Within, Within), cmp.Or(o.Each, Each)
	f := newFetcher(q.URL, o)
	defer f.transport.CloseIdleConnections()
	all, stop := context.WithTimeout(ctx, o.Within)
	defer stop()
	for r, more := q.Next(); more; r, more = q.Next() {
		a := probe.Answer{Error: probe.Stopped}
		switch {
		case r.Method == http.MethodDelete, r.Registers() && all.Err() == nil:
			a = f.ask(context.WithoutCancel(ctx), r)
		case all.Err() == nil:
			a = f.ask(all, r)
		}
		q.Exchanges = append(q.Exchanges, probe.Exchange{Request: r, Answer: a})
	}
}

type fetcher struct {
	transport *http.Transport
	begun     sync.Once
	given     string // host that was given, as it is dialled first
	https     bool   // it was given by https: nothing is asked by http
	public    atomic.Bool
	agent     string
	each      time.Duration
	lookup    func(ctx context.Context, network, host string) ([]netip.Addr, error)
}

func newFetcher(given string, o Options) *fetcher {
	f := &fetcher{agent: o.Agent, each: o.Each, lookup: net.DefaultResolver.LookupNetIP}
	if u, err := url.Parse(given); err == nil {
		f.https = u.Scheme == "https"
	}
	f.transport = &http.Transport{
		Proxy:       nil, // which would look up names by itself, where private ones cannot be seen
		DialContext: outbound.Dialer{May: f.may, Lookup: f.find}.DialContext, TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: maxFields, ForceAttemptHTTP2: true, IdleConnTimeout: o.Each,
	}
	return f
}

// find looks a host up. Whether the given one is public is decided by its first
// look-up; from then on a public one leads to nothing private, under whatever name.
func (f *fetcher) find(ctx context.Context, network, host string) ([]netip.Addr, error) {
	ips, err := f.lookup(ctx, network, host)
	if err != nil {
		return nil, err
	}
	f.begun.Do(func() {
		f.given = host
		for _, ip := range ips {
			if !probe.IsPrivate(ip) {
				f.public.Store(true)
			}
		}
	})
	return ips, nil
}

// may reports whether an address may be asked. One of the link, where clouds keep
// their credentials, is asked only when it was given itself.
func (f *fetcher) may(host string, ip netip.Addr) bool {
	if ip.Unmap().IsLinkLocalUnicast() && host != f.given {
		return false
	}
	return !f.public.Load() || !probe.IsPrivate(ip)
}

// ask makes one request and follows redirects as far as it allows.
func (f *fetcher) ask(ctx context.Context, r probe.Request) probe.Answer {
	ctx, stop := context.WithTimeout(ctx, f.each)
	defer stop()
	var via []string
	for at := r.URL; ; {
		a, err := f.once(ctx, r, at)
		if err != nil {
			a = probe.Answer{Error: cause(err)}
		}
		a.Via = via
		next, why := follow(r, at, a)
		if why != "" {
			a.Error = why
		}
		if next == "" {
			return a
		}
		if len(via) == maxHops {
			return probe.Answer{Error: probe.Redirects, Via: via}
		}
		at, via = next, append(via, next)
	}
}

// follow gives the address to which an answer leads that may be asked, or why it
// may not.
func follow(r probe.Request, from string, a probe.Answer) (next, why string) {
	if a.Location == "" || a.Error != "" || r.Follow == probe.FollowNone {
		return "", ""
	}
	switch {
	case a.Status == http.StatusTemporaryRedirect || a.Status == http.StatusPermanentRedirect:
	case r.Method == http.MethodGet && (a.Status == http.StatusMovedPermanently || a.Status == http.StatusFound || a.Status == http.StatusSeeOther):
	default:
		return "", ""
	}
	base, err := url.Parse(from)
	if err != nil {
		return "", probe.Malformed
	}
	to, err := base.Parse(a.Location)
	if err != nil {
		return "", probe.Malformed
	}
	to.Fragment = ""
	same := to.Scheme == base.Scheme && to.Host == base.Host
	switch {
	case same && to.User == nil:
		return to.String(), ""
	case r.Follow == probe.FollowOrigin:
		return "", ""
	case to.Scheme != "https" && to.Scheme != base.Scheme:
		return "", probe.Scheme
	case probe.Check(to.String()) != nil:
		return "", probe.Malformed
	}
	return to.String(), ""
}

// once makes one request, without following anything.
func (f *fetcher) once(ctx context.Context, r probe.Request, at string) (probe.Answer, error) {
	if probe.Check(at) != nil || f.https && !strings.HasPrefix(at, "https:") {
		return probe.Answer{Error: probe.Scheme}, nil
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, at, strings.NewReader(r.Body))
	if err != nil {
		return probe.Answer{Error: probe.Malformed}, nil
	}
	set := func(name, value string) {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	set("User-Agent", f.agent)
	set("Accept", r.Accept)
	set("Content-Type", r.Type)
	set("Origin", r.Origin)
	if r.Method == http.MethodOptions {
		set("Access-Control-Request-Method", http.MethodPost)
	}
	if r.Token != "" && at == r.URL {
		set("Authorization", "Bearer "+r.Token)
	}
	response, err := f.transport.RoundTrip(request) // no redirect, no cookie
	if err != nil {
		return probe.Answer{}, err
	}
	defer response.Body.Close()
	a := probe.Answer{Status: response.StatusCode, Type: response.Header.Get("Content-Type"), Challenges: response.Header.Values("WWW-Authenticate"),
		Origin: response.Header.Get("Access-Control-Allow-Origin")}
	if a.Status >= 300 && a.Status < 400 { // elsewhere it leads nobody anywhere
		a.Location = response.Header.Get("Location")
	}
	if r.Brief || a.Location != "" {
		return a, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if len(body) > maxAnswer {
		return probe.Answer{Status: a.Status, Error: probe.Large}, nil
	}
	a.Body = string(body)
	return a, err
}

// cause tells errors of the network apart.
func cause(err error) string {
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, outbound.ErrPrivate):
		return probe.Private
	case errors.Is(err, context.DeadlineExceeded), isTimeout(err):
		return probe.Slow
	case errors.As(err, &certificate), strings.Contains(err.Error(), "tls: "):
		return probe.TLS
	case strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "malformed MIME header"), strings.Contains(err.Error(), "headers exceeded"), strings.Contains(err.Error(), "invalid header"):
		return probe.Malformed
	}
	return probe.Unreachable
}

func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}
