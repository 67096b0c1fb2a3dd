package gateway

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/rules"
)

// Upstream passes API v5, or another guarded path, on to the service that answers it. It belongs behind
// [api.Server.Guard]. The service is told who calls by signed headers, and sees
// no credential. Its fields do not change once it answers.
type Upstream struct {
	URL     *url.URL                       // scheme and host of the service
	Key     func() []byte                  // signs what it is told; at least identity.MinKey bytes
	API     *api.Server                    // whose guard stands before
	Base    func(*http.Request) string     // {base} of the host that was asked (decision M1)
	Address func(*http.Request) netip.Addr // of the client (decision L2)
	Log     *slog.Logger                   // nil discards
	Streams *api.Streams                   // of all services of this node; nil is one's own, of NewStreams

	to                http.RoundTripper // nil is api.NewTransport; tests have their own
	wait, piece, each time.Duration     // 0 are waitForAnswer, pieceTimeout and askedAgain; tests make them short
}

// How long what is quick everywhere may take. What lasts is bounded by no
// total: a stream may be silent for hours.
const (
	waitForAnswer = 30 * time.Second
	pieceTimeout  = 60 * time.Second // for the client to take or send one piece, and the service to take it
)

// What is under way at once (decision V15).
const (
	maxStreams = 10_000 // on a node
	maxOfOne   = 1_000  // of an approval or API key, and no more than a quarter of the node's
)

// NewStreams bounds what is under way at all services of a node: most requests; 0 and more
// than 10,000 are 10,000.
func NewStreams(a *api.Server, most int) *api.Streams {
	if most == 0 || most > maxStreams {
		most = maxStreams
	}
	return &api.Streams{API: a, Most: most, OfOne: max(1, min(maxOfOne, most/4))}
}

// short is an answer that is read before any of it goes on, in bytes: it leaves in
// one piece, and one that breaks off is told like one that does not come.
const short = 2 << 10

// Handler serves requests that carry an actor.
func (u *Upstream) Handler() http.Handler {
	if u.Streams == nil {
		u.Streams = NewStreams(u.API, 0)
	}
	wait, piece := cmp.Or(u.wait, waitForAnswer), cmp.Or(u.piece, pieceTimeout)
	to := u.to
	if to == nil {
		to = api.NewTransport(wait)
	}
	all, resources := rootsOf(u.API.Resources), u.API.Resources.All()
	quiet := log.New(io.Discard, "", 0) // what matters comes to failed
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := sent(r.URL) // is looked at, and passed on, in the same bytes
		if _, ok := all.settle(path + "?" + r.URL.RawQuery); !ok {
			u.API.Answer(w, &api.Fault{Status: 400, Code: "invalid_request", Description: ambiguous})
			return
		}
		if r.Method == http.MethodConnect { // its target is an address, which is nothing of the service's
			u.API.Answer(w, notPassed)
			return
		}
		if at := takenForMCP(resources, path); at != "" {
			u.API.Answer(w, otherMCP(at))
			return
		}
		lasting := api.NewLasting(w, r, piece)
		defer lasting.End()
		place := &api.Stream{}
		defer u.Streams.End(place)
		if err := u.Streams.Enter(place, api.ActorFrom(r.Context())); err != nil { // before anything of it is in memory
			u.API.Fail(lasting, r, err)
			return
		}
		of, ok := u.whole(lasting, r)
		if !ok || !u.ruled(lasting, r, path, of) {
			return
		}
		defer of.deed.End()
		key := u.Key()
		headers, err := signed(key, u.API, of.rights)
		if err != nil {
			fail(lasting, r, u.API, u.Log, err)
			return
		}
		id, base := w.Header().Get("X-Request-Id"), u.Base(r)
		ctx, cut := context.WithCancelCause(r.Context())
		defer cut(nil)
		place.Told, place.Same, place.Cut = of.given(), of.reads(), func(why error) { cut(why); lasting.Cut() }
		late := time.AfterFunc(piece, func() { cut(api.ErrStalled) })
		defer late.Stop()
		proxy := &httputil.ReverseProxy{
			Transport: &finals{to: to, ctx: ctx, late: late, piece: piece}, FlushInterval: -1, ErrorLog: quiet, BufferPool: buffers{},
			Rewrite: func(p *httputil.ProxyRequest) { u.rewrite(p, path, base, key, headers, id, of.call) },
			ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
				if why := context.Cause(ctx); why != nil { // which HTTP/2 does not say
					err = why
				}
				sent := !api.NeverSent(err)
				if sent {
					of.deed.Unanswered()
				}
				u.failed(w, r, err, sent && !of.reads())
			},
		}
		proxy.ModifyResponse = func(a *http.Response) (err error) {
			switch err = u.modify(a, base, of); {
			case err != nil:
			case a.ContentLength >= 0 && a.ContentLength <= short:
				late.Reset(wait)
				if proxy.FlushInterval, err = 0, readWhole(a); err == nil { // over HTTP/2 its end may come long after the last of it
					err = of.again(cmp.Or(u.each, askedAgain))
				}
			default:
				u.Streams.Watch(place)
			}
			return err
		}
		proxy.ServeHTTP(lasting, r)
	})
}

// buffers are those that answers are copied with: to make one of 32 KiB for each
// answer is more work for the collector than all the rest of a call.
type buffers struct{}

var copying = sync.Pool{New: func() any { return new([32 << 10]byte) }}

func (buffers) Get() []byte  { return copying.Get().(*[32 << 10]byte)[:] }
func (buffers) Put(b []byte) { copying.Put((*[32 << 10]byte)(b)) }

// whole waits for the request, or for as much of it as is held, and asks for the
// right to it then; or answers it.
func (u *Upstream) whole(w http.ResponseWriter, r *http.Request) (*told, bool) {
	of := &told{u: u, request: r, call: identity.Call{Method: r.Method}}
	if r.Body != nil && r.Body != http.NoBody {
		body, err := hold(r.Body)
		if err != nil {
			u.broken(w, err)
			return nil, false
		}
		body.stands, r.Body = of.stands, body
		of.call.Body, of.call.Unread = body.all()
	}
	now, ok := u.API.Whole(w, r, 0)
	of.rights = now
	of.askedNow()
	return of, ok
}

// ruled asks the rules, or answers the call that they deny.
func (u *Upstream) ruled(w http.ResponseWriter, r *http.Request, path string, of *told) bool {
	c := rules.Call{Method: r.Method, Path: path, Query: r.URL.RawQuery, Body: of.call.Body, Unread: of.call.Unread}
	if !api.IsJSON(r.Header) { // another reader than ours would see another role
		c.Body, c.Unread = nil, true
	}
	d, err := u.API.Ruled(r.Context(), of.rights, c)
	record := activity.Record{Way: activity.API, Method: r.Method, Path: path}
	switch {
	case err != nil:
		u.API.Fail(w, r, err)
	case !d.Allowed:
		u.API.Refused(of.rights, record, string(d.Reason), d.Role)
		u.API.Deny(w, api.Denied(of.rights, d, u.Base(r)))
	default:
		of.deed = u.API.Deed(of.rights, record, d, u.API.RuledBy().Reads(c))
	}
	return err == nil && d.Allowed
}

func (u *Upstream) rewrite(p *httputil.ProxyRequest, path, base string, key []byte, headers map[string]string, id string, call identity.Call) {
	p.Out.URL.RawPath, p.Out.URL.RawQuery = path, p.In.URL.RawQuery // as they came: the proxy would leave out what it cannot parse
	p.SetURL(u.URL)
	h := p.Out.Header
	for name := range h {
		if !passedOn(name) {
			delete(h, name)
		}
	}
	call.Target = p.Out.URL.RequestURI()
	_ = identity.SignCall(key, headers, call) // a target that cannot be signed is sent without
	for name, value := range headers {
		h.Set(name, value)
	}
	p.Out.Trailer = nil // some servers put trailers among the headers
	scheme, host, _ := strings.Cut(base, "://")
	h.Set("X-Forwarded-Proto", scheme)
	h.Set("X-Forwarded-Host", host)
	if address := u.Address(p.In); address.IsValid() {
		h.Set("X-Forwarded-For", address.String())
	}
	if id != "" {
		h.Set("X-Request-Id", id)
	}
}

// finals gives the last answer to a request and none before it (1xx): net/http/httputil
// would pass those on with all their headers, and take this server's own off the last.
// Until then the service has to take each piece of the request in time.
type finals struct {
	to    http.RoundTripper
	ctx   context.Context // of the request, which nobody listens in for answers before the last
	late  *time.Timer     // ends it
	piece time.Duration

	mu       sync.Mutex
	answered bool
}

func (f *finals) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.WithContext(f.ctx)
	if r.Body != nil {
		r.Body = &takenBody{r.Body, f}
	}
	a, err := f.to.RoundTrip(r)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.late.Stop()
	f.answered = true
	return a, err
}

// bound gives the service so much time from now; 0 is any. Once it has answered, which it may
// before the body ends, the timer is the answer's.
func (f *finals) bound(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.answered:
	case d == 0:
		f.late.Stop()
	default:
		f.late.Reset(d)
	}
}

// takenBody is a body of which the next piece is read when the service has taken the last one.
type takenBody struct {
	io.ReadCloser
	f *finals
}

func (b *takenBody) Read(p []byte) (int, error) {
	b.f.bound(0) // the client has a time of its own
	n, err := b.ReadCloser.Read(p)
	b.f.bound(b.f.piece)
	return n, err
}

func (u *Upstream) modify(a *http.Response, base string, of *told) error {
	of.deed.Answered(activity.OutcomeOf(a.StatusCode), a.StatusCode, u.API.Items(a.Header[identity.HeaderItems]...)) // whatever becomes of the answer
	if err := of.answers(); err != nil {
		return err
	}
	a.Body = &lengthy{a.Body, of, a, cmp.Or(u.each, askedAgain)}
	switch {
	case echoed(of.call.Method) && a.StatusCode != http.StatusMethodNotAllowed:
		return notPassed
	case a.StatusCode == http.StatusSwitchingProtocols:
		return errors.New("the service wants to switch protocols")
	case a.StatusCode < 200 || a.StatusCode == http.StatusProxyAuthRequired: // net/http gives what is no status, too
		return fmt.Errorf("the service answers %d", a.StatusCode)
	}
	if a.StatusCode == http.StatusUnauthorized { // a client would throw a good token away, and sign in again
		return errors.New("the service answers 401, as to a call that is not signed: see that it has the key of service.key_file and the right time, and compares no body of more than 64 KiB")
	}
	onlyPassedBack(a.Header)
	onlyPassedBack(a.Trailer) // as announced
	// The service's own address is nobody's business.
	for _, name := range []string{"Location", "Content-Location"} {
		if to, err := url.Parse(a.Header.Get(name)); err == nil && strings.EqualFold(to.Host, u.URL.Host) {
			to.Scheme, to.Host, _ = strings.Cut(base, "://")
			a.Header.Set(name, to.String())
		}
	}
	return nil
}

// notPassed is told of methods that no client has of a service. 405 is the service's
// own: it names the methods that there are (RFC 9110 section 15.5.6).
var notPassed = &api.Fault{Status: 501, Code: "not_implemented", Description: "This method is not passed on."}

// echoed reports whether a good answer holds all that the service was sent, and so the
// signature: TRACE (RFC 9110 section 9.3.8), and what some servers take for it.
func echoed(method string) bool { return method == http.MethodTrace || method == "TRACK" }

func readWhole(a *http.Response) error {
	text, err := io.ReadAll(a.Body)
	a.Body = struct {
		io.Reader
		io.Closer
	}{bytes.NewReader(text), a.Body}
	return err
}

// failed answers for a service that does not: what is wrong is in the log. done says that it
// may have done what was asked.
func (u *Upstream) failed(w http.ResponseWriter, r *http.Request, err error, done bool) {
	if ended, ok := errors.AsType[over](err); ok {
		u.API.Fail(w, r, ended.error)
		return
	}
	if errors.Is(err, notPassed) {
		u.API.Answer(w, notPassed)
		return
	}
	if errors.Is(err, api.ErrSlowBody) || r.Context().Err() != nil { // which net/http ends when it can read no more
		u.API.Answer(w, api.ErrSlowBody)
		return
	}
	if u.Log != nil {
		u.Log.WarnContext(r.Context(), "the service behind does not answer", "request_id", w.Header().Get("X-Request-Id"), "err", err)
	}
	u.API.Answer(w, api.NoAnswer(err, done))
}
