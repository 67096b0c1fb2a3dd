package mcp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/sse"
)

// Headers that pass on, and back. Nothing else does: no credential, no cookie, and
// no Origin, which servers check against rebinding; that the host and the page may
// ask was decided before (decisions M2 and B5).
var (
	passedOn   = []string{"Content-Type", "Accept", "Accept-Language", "User-Agent", "Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Traceparent", "Tracestate"}
	passedBack = []string{"Mcp-Protocol-Version", "Retry-After", "Allow", "Content-Language"}
)

// request makes what the service gets of this exchange, with a body of its own
// choice.
func (x *exchange) request(ctx context.Context, body []byte) (*http.Request, error) {
	out, err := http.NewRequestWithContext(ctx, x.r.Method, x.s.URL.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	key, h := x.s.Key(), out.Header
	signed, err := x.rights.Identity().Sign(key, x.s.API.Store.Now())
	if err == nil {
		err = identity.SignCall(key, signed, identity.Call{Method: out.Method, Target: out.URL.RequestURI(), Body: body})
	}
	if err != nil {
		return nil, err
	}
	for name, value := range signed {
		h.Set(name, value)
	}
	for _, name := range passedOn {
		if values, ok := x.r.Header[name]; ok {
			h[name] = values
		}
	}
	for name, values := range x.r.Header {
		if strings.HasPrefix(name, "Mcp-Param-") {
			h[name] = values
		}
	}
	h.Set("Accept-Encoding", "identity")
	setOrNot(h, "Mcp-Session-Id", x.in)
	setOrNot(h, "Last-Event-Id", x.last)
	setOrNot(h, "X-Request-Id", x.w.Header().Get("X-Request-Id"))
	scheme, host, _ := strings.Cut(x.s.Base(x.r), "://")
	h.Set("X-Forwarded-Proto", scheme)
	h.Set("X-Forwarded-Host", host)
	if address := x.s.Address(x.r); address.IsValid() {
		h.Set("X-Forwarded-For", address.String())
	}
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", "") // else net/http says its own
	}
	return out, nil
}

func setOrNot(h http.Header, name, value string) {
	if value != "" {
		h.Set(name, value)
	}
}

// pass sends the request on and gives the answer back, for as long as the right to
// it lasts.
func (x *exchange) pass() {
	ctx, cut := context.WithCancelCause(x.r.Context())
	defer cut(nil)
	if !x.listens() {
		x.rights = x.rights.Outlasting()
	}
	x.place.Told, x.place.Same, x.place.Endless = x.rights, x.listens(), x.listens()
	x.place.Cut = func(why error) { cut(why); x.w.Cut() }
	x.s.Streams.Watch(&x.place)
	out, err := x.request(ctx, x.body)
	if err != nil {
		x.fail(fmt.Errorf("mcp: %w", err))
		return
	}
	x.beginDeeds()
	wait := cmp.Or(x.s.Wait, DefaultWait)
	x.late = time.AfterFunc(cmp.Or(x.s.taking, pieceTimeout)+wait, func() { cut(api.ErrStalled) }) // the transport bounds only what comes after the message
	defer x.late.Stop()
	a, err := x.s.to.RoundTrip(out)
	x.late.Reset(wait) // for an answer that is no stream
	unsent := err != nil && api.NeverSent(err)
	defer func() { x.endDeeds(!unsent) }()
	if err == nil {
		defer a.Body.Close()
		x.sawVersion(a.StatusCode)
		err = x.give(ctx, a)
	}
	switch why := context.Cause(ctx); {
	case err == nil, errors.Is(err, errBegun):
	case why != nil:
		x.fail(api.Ended(why, !unsent && !x.reads()))
	default:
		x.fail(err)
	}
}

// revisions are those of MCP that there are; a later one is known by its date.
var revisions = []string{"", "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// sawVersion tells of an answer that is explained by the version that was asked for.
func (x *exchange) sawVersion(status int) {
	if status == http.StatusBadRequest && !slices.Contains(revisions, x.revision) {
		x.s.API.SawVersion(x.r, api.ActorFrom(x.r.Context()))
	}
}

// errBegun is an answer that went wrong when the client had some of it.
var errBegun = errors.New("the answer has begun")

// give gives the service's answer. An error means that nothing was given yet, but
// for errBegun.
func (x *exchange) give(ctx context.Context, a *http.Response) error {
	if a.StatusCode < 200 || a.StatusCode >= 300 {
		x.answeredAll(a.StatusCode)
	}
	kind, err := x.kind(a)
	if err != nil {
		return err
	}
	h := x.w.Header()
	for _, name := range passedBack {
		if values, ok := a.Header[name]; ok {
			h[name] = values
		}
	}
	if id := a.Header.Get("Mcp-Session-Id"); id != "" {
		if !headerSafe(id) {
			return errors.New("its session ID is not of visible ASCII characters, or has more than 1,024")
		}
		x.in = id
		h.Set("Mcp-Session-Id", x.ids.session(id))
	}
	switch kind {
	case "text/event-stream":
		return x.stream(ctx, a)
	case "":
		x.w.WriteHeader(a.StatusCode)
		return nil
	}
	return x.whole(ctx, a, kind)
}

// kind gives the media type of the answer; "" is none and no body. What a client
// must not see is an error that says what is wrong with the service.
func (x *exchange) kind(a *http.Response) (string, error) {
	encoding := a.Header.Get("Content-Encoding")
	switch {
	case a.StatusCode == 401:
		// The challenge is this server's: a client that saw another would sign in
		// again, for nothing.
		return "", errors.New("it answered 401: its check of the signed headers failed, or it wants a credential, which it never gets: take its own sign-in out, and see that its key is that of service.key_file")
	case a.StatusCode < 200, a.StatusCode >= 300 && a.StatusCode < 400, a.StatusCode == 407:
		return "", fmt.Errorf("it answered %d, Location %.200q: write the whole URL of its MCP endpoint into %s", a.StatusCode, a.Header.Get("Location"), x.s.setting())
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return "", fmt.Errorf("its answer is compressed (%.40q), which was not asked for: switch compression off for its MCP endpoint", encoding)
	}
	kind, _, err := mime.ParseMediaType(a.Header.Get("Content-Type"))
	switch {
	case a.StatusCode == 202, a.StatusCode == 204, a.ContentLength == 0, a.Header.Get("Content-Type") == "" && empty(a):
		return "", nil
	case err == nil && (kind == "application/json" || kind == "text/event-stream" && a.StatusCode == 200):
		return kind, nil
	case a.StatusCode >= 400:
		return "text/plain; charset=utf-8", nil
	}
	return "", fmt.Errorf("its answer is %.80q, and neither JSON nor a stream of events: see that %s is its MCP endpoint", a.Header.Get("Content-Type"), x.s.setting())
}

// setting is where the service is configured.
func (s *Server) setting() string {
	if s.Path == "" {
		return "mcp.upstream"
	}
	return "the upstream of " + s.Path
}

// empty reports whether there is no body, where no header says so.
func empty(a *http.Response) bool {
	from := bufio.NewReader(a.Body)
	_, err := from.Peek(1)
	a.Body = struct {
		io.Reader
		io.Closer
	}{from, a.Body}
	return err == io.EOF
}

// whole gives an answer that is no stream: JSON, or what the service says of an
// error.
func (x *exchange) whole(ctx context.Context, a *http.Response, kind string) error {
	body, err := io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	x.late.Stop()
	switch {
	case err != nil:
		return err
	case len(body) > maxAnswer:
		return errTooLong
	}
	if kind == "application/json" { // whatever becomes of the answer
		x.answered(body, a.StatusCode, a.Header[identity.HeaderItems])
	}
	if err := x.stands(ctx); err != nil {
		return err
	}
	if kind == "application/json" {
		if other := x.narrowed(body); other != nil {
			body = other
		}
	}
	x.w.Header().Set("Content-Type", kind)
	x.w.WriteHeader(a.StatusCode)
	_, _ = x.w.Write(body)
	return nil
}

// narrowed is a message of the service as this client may see it, or nil where that
// is as it is. Tools that are listed in it are remembered.
func (x *exchange) narrowed(data []byte) []byte {
	lists := sync.OnceValue(x.lists)
	return rewrite(data, func(t Tool) bool {
		x.s.tools.note(x.rights.Organization, t, time.Now())
		return lists()(t)
	})
}

// stream gives events as they come.
func (x *exchange) stream(ctx context.Context, a *http.Response) error {
	x.late.Stop()
	h := x.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // for a proxy in front
	x.w.WriteHeader(a.StatusCode)
	live := newLiving(x.w, cmp.Or(x.s.silence, keepAlive))
	defer live.end()
	from := sse.NewReader(a.Body, maxAnswer)
	for {
		v, err := from.Next()
		if err == nil && x.event(ctx, live, v) == nil {
			continue
		}
		if err == nil || err == io.EOF || context.Cause(ctx) != nil {
			return errBegun // the stream just ends: clients come back, and learn why
		}
		if errors.Is(err, sse.ErrTooLong) {
			err = errTooLong
		}
		x.warn(err)
		live.end()
		panic(http.ErrAbortHandler) // so that it does not look like the end
	}
}

// event gives one event. One that answers a call is given when the right was asked
// after it came; others when it was asked less than a second before.
func (x *exchange) event(ctx context.Context, to *living, v sse.Event) error {
	data := v.Data()
	responds, updates := holds(data)
	if responds {
		x.answered(data, http.StatusOK, nil)
	}
	if responds || time.Since(x.asked) >= time.Second {
		err := x.stands(ctx)
		if responds && !x.listens() && errors.Is(err, api.ErrChanged) {
			if other := changed(data); other != nil {
				return to.write(rewritten(v, other, x.bind))
			}
		}
		if err != nil {
			return err
		}
	}
	var other []byte // nil is as it came
	if updates {
		less, gone, err := x.notices(data)
		if err != nil || gone {
			return err
		}
		if other = less; less != nil {
			data = less
		}
	}
	if less := x.narrowed(data); less != nil {
		other = less
	}
	return to.write(rewritten(v, other, x.bind))
}

func (x *exchange) bind(id string) string { return x.ids.event(x.in, id) }

// changed takes the place of an answer that was read by rights that are others now; nil
// where nothing answers a call.
func changed(data []byte) []byte {
	all, parts := readAnswers(data)
	var out []reply
	for i := range all {
		if all[i].responds() {
			out = append(out, refuse(all[i].ID, codeInternal, api.ErrChanged.Description))
		}
	}
	switch {
	case len(out) == 0:
		return nil
	case len(parts) == 1:
		return encode(out[0])
	}
	return encode(out)
}

// living is a stream to the client in which there is something now and then: what
// stands between cuts silent ones off.
type living struct {
	w       *api.Lasting
	silence time.Duration
	timer   *time.Timer

	mu    sync.Mutex
	ended bool
}

func newLiving(w *api.Lasting, silence time.Duration) *living {
	l := &living{w: w, silence: silence}
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = w.FlushError() // the head goes before the first event
	l.timer = time.AfterFunc(silence, func() { _ = l.write([]byte(": \n\n")) })
	return l
}

func (l *living) write(text []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil
	}
	_, err := l.w.Write(text)
	if err == nil {
		err = l.w.FlushError()
	}
	l.timer.Reset(l.silence)
	return err
}

// end waits for a comment that is being written.
func (l *living) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.timer.Stop()
}
