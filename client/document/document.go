// Package document fetches client ID metadata documents. Whoever asks for access names
// the host, so it asks public addresses alone, over https, once for all who wait, and
// within bounds of time and size; it follows nothing, and nothing that it is answered
// reaches anybody before client.ParseDocument has read it.
package document

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/outbound"
)

// Within is the time for a document, from the look-up of its host to its last byte: a
// person waits.
const Within = 5 * time.Second

// Bounds of what is under way on one node. Whoever is beyond them is told ErrBusy. They
// hold twice: clients that people use have places of their own, so that strangers, who can
// name any URL of a host, keep nobody from them.
const (
	atOnce     = 32 // documents
	atOnceHost = 4  // of one host
)

// What failed is not asked for again before remembered is over, and of URLs that are no
// client's that people use, no more than failuresOfHost of one host fail in that time: so
// nobody turns this server against a host. Both are remembered for mostRemembered, of
// which the oldest go first.
const (
	remembered     = time.Minute
	failuresOfHost = 60
	mostRemembered = 4096
)

const maxFields = 16 << 10 // bytes of all header fields

// ErrBusy says that too many documents are being fetched.
var ErrBusy = errors.New("too many client metadata documents are being fetched")

// An Error says why a document is not believed. Its text holds nothing of what was
// answered.
type Error struct {
	Reason attempt.Reason
	Detail string
}

func (e *Error) Error() string { return e.Detail }

// Options say by what documents are fetched. The zero Options are those of a server:
// the others are for tests, whose hosts are on loopback. What a name leads to is
// judged all the same.
type Options struct {
	Roots  *x509.CertPool // trusted; nil is what the system trusts
	Lookup func(ctx context.Context, network, host string) ([]netip.Addr, error)
	Dial   func(ctx context.Context, network, address string) (net.Conn, error) // an address that was allowed
	Within time.Duration                                                        // 0 is Within
	Now    func() time.Time                                                     // nil is the system's
}

// A Fetcher is safe for concurrent use.
type Fetcher struct {
	transport http.RoundTripper
	within    time.Duration
	now       func() time.Time

	mu     sync.Mutex
	under  map[string]*flight // by URL
	used   places             // of clients that people use
	others places
	failed recent // by URL
	fails  recent // by host
}

// places are how many documents are under way.
type places struct {
	n     int
	hosts map[string]int // of each host
}

// take adds one of a host, or with -1 gives it back; false where there is no place.
func (p *places) take(host string, n int) bool {
	if n > 0 && (p.n >= atOnce || p.hosts[host] >= atOnceHost) {
		return false
	}
	p.n += n
	if p.hosts[host] += n; p.hosts[host] == 0 {
		delete(p.hosts, host)
	}
	return true
}

// recent remembers failures for a while.
type recent struct {
	at  map[string]failure
	age []string // keys of at, the oldest first
}

type failure struct {
	err  error // the last one
	n    int   // how many there were
	till time.Time
}

// of gives what is remembered of a key at a time.
func (r *recent) of(key string, now time.Time) failure {
	if f, ok := r.at[key]; ok && now.Before(f.till) {
		return f
	}
	return failure{}
}

func (r *recent) add(key string, err error, now time.Time) {
	f := r.of(key, now)
	if f.n == 0 {
		f.till = now.Add(remembered)
		if _, ok := r.at[key]; ok {
			r.age = slices.DeleteFunc(r.age, func(k string) bool { return k == key })
		}
		if r.age = append(r.age, key); len(r.age) > mostRemembered {
			delete(r.at, r.age[0])
			r.age = r.age[1:]
		}
	}
	f.err, f.n = err, f.n+1
	r.at[key] = f
}

// flight is one fetch, for all who wait for it.
type flight struct {
	done chan struct{}
	err  error
}

// New makes a Fetcher. Connections are not kept: each look-up is judged anew.
func New(o Options) *Fetcher {
	public := func(_ string, ip netip.Addr) bool { return client.IsPublic(ip) }
	lookup := o.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupNetIP
	}
	whole := func(ctx context.Context, network, host string) ([]netip.Addr, error) {
		return lookup(ctx, network, host+".") // without it names of the search domains of this machine would count
	}
	f := &Fetcher{under: map[string]*flight{}, within: o.Within, now: o.Now, transport: &http.Transport{
		Proxy:       nil, // which would look up names by itself
		DialContext: outbound.Dialer{May: public, Lookup: whole, Dial: o.Dial}.DialContext,
		TLSClientConfig: &tls.Config{
			RootCAs: o.Roots, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		},
		MaxResponseHeaderBytes: maxFields, DisableKeepAlives: true,
		DisableCompression: true, // a document is small: what is not would be so once it is unpacked
	}}
	if f.within == 0 {
		f.within = Within
	}
	if f.now == nil {
		f.now = time.Now
	}
	f.used.hosts, f.others.hosts = map[string]int{}, map[string]int{}
	f.failed.at, f.fails.at = map[string]failure{}, map[string]failure{}
	return f
}

// A Wanted is a document that is asked for.
type Wanted struct {
	ID, Host string // the URL, which client.DocumentHost takes, and its host
	OwnHosts []string
	Used     bool // its client is one that people have approved
}

// Fetch asks for a document, and has use keep what it says and for how long it is good. Who
// asks for one that is under way waits for that, and gets what use made of it. It goes on
// when ctx ends: others may wait for it. The error is *Error, perhaps of a moment ago,
// ErrBusy, of ctx, or of use.
func (f *Fetcher) Fetch(ctx context.Context, w Wanted, use func(client.Metadata, time.Duration) error) error {
	f.mu.Lock()
	at, ok := f.under[w.ID]
	if !ok {
		from := &f.others
		if w.Used {
			from = &f.used
		}
		now := f.now()
		before := f.failed.of(w.ID, now).err
		if before == nil && (!w.Used && f.fails.of(w.Host, now).n >= failuresOfHost || !from.take(w.Host, 1)) {
			before = ErrBusy
		}
		if before != nil {
			f.mu.Unlock()
			return before
		}
		at = &flight{done: make(chan struct{})}
		f.under[w.ID] = at
		go f.fly(context.WithoutCancel(ctx), at, w, from, use)
	}
	f.mu.Unlock()
	select {
	case <-at.done:
		return at.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *Fetcher) fly(ctx context.Context, at *flight, w Wanted, from *places, use func(client.Metadata, time.Duration) error) {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.under, w.ID)
		from.take(w.Host, -1)
		if bad, ok := errors.AsType[*Error](at.err); ok {
			now := f.now()
			f.failed.add(w.ID, bad, now)
			if !w.Used {
				f.fails.add(w.Host, bad, now)
			}
		}
		close(at.done)
	}()
	m, kept, err := f.ask(ctx, w.ID, w.OwnHosts)
	if err == nil {
		err = use(m, kept)
	}
	at.err = err
}

// ask makes the request.
func (f *Fetcher) ask(ctx context.Context, id string, ownHosts []string) (client.Metadata, time.Duration, error) {
	text, header, err := f.text(ctx, id)
	if err != nil {
		return client.Metadata{}, 0, err
	}
	m, bad := client.ParseDocument(id, text, ownHosts)
	if bad != nil {
		return client.Metadata{}, 0, &Error{reasons[bad.Fault], bad.Detail}
	}
	return m, client.KeptFor(header), nil
}

var reasons = map[client.DocumentFault]attempt.Reason{
	client.NotJSON:        attempt.DocumentJSON,
	client.OtherClient:    attempt.DocumentClientID,
	client.NotPublic:      attempt.DocumentAuthentication,
	client.NoRedirectURI:  attempt.DocumentRedirects,
	client.NotThisGrant:   attempt.DocumentGrants,
	client.NameNotAllowed: attempt.DocumentName,
}

// text gives the body of the answer, whole, and its header fields.
func (f *Fetcher) text(ctx context.Context, id string) ([]byte, http.Header, error) {
	u, err := url.Parse(id)
	if err != nil {
		return nil, nil, &Error{attempt.DocumentURL, "it is no URL"}
	}
	ctx, stop := context.WithTimeout(ctx, f.within)
	defer stop()
	r := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{"Accept": {"application/json"}, "User-Agent": {"Grantkeeper"}}}).WithContext(ctx)
	answer, err := f.transport.RoundTrip(r) // no redirect, no cookie
	if err != nil {
		return nil, nil, unreachable(err)
	}
	defer answer.Body.Close()
	switch kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type")); {
	case answer.StatusCode >= 300 && answer.StatusCode < 400:
		return nil, nil, &Error{attempt.DocumentStatus, fmt.Sprintf("it answers %d, and redirects are not followed", answer.StatusCode)}
	case answer.StatusCode != http.StatusOK:
		return nil, nil, &Error{attempt.DocumentStatus, fmt.Sprintf("it answers %d", answer.StatusCode)}
	case err != nil, kind != "application/json" && !(strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")):
		return nil, nil, &Error{attempt.DocumentType, "its Content-Type is not application/json"}
	case answer.Header.Get("Content-Encoding") != "":
		return nil, nil, &Error{attempt.DocumentType, "it has a Content-Encoding, and none was asked for"}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, client.MaxDocument+1))
	if err == nil {
		err = ctx.Err() // a body that this has cut off can end as if it were whole
	}
	switch {
	case err != nil:
		return nil, nil, unreachable(err)
	case len(text) > client.MaxDocument:
		return nil, nil, &Error{attempt.DocumentLarge, fmt.Sprintf("it has more than %d bytes", client.MaxDocument)}
	}
	return text, answer.Header, nil
}

// unreachable tells errors of the network apart.
func unreachable(err error) error {
	var (
		certificate *tls.CertificateVerificationError
		network     net.Error
		name        *net.DNSError
	)
	detail := "it cannot be reached"
	switch {
	case errors.Is(err, outbound.ErrPrivate):
		return &Error{attempt.DocumentPrivate, "its host has no public address"}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		detail = "it was not there in time"
	case errors.As(err, &name):
		detail = "its host is not found"
	case errors.As(err, &certificate), strings.Contains(err.Error(), "tls: "):
		detail = "its certificate, or TLS, is not right"
	}
	return &Error{attempt.DocumentUnreachable, detail}
}
