// Package mcp passes the MCP endpoint of API v5 on to the service's own MCP
// server, over Streamable HTTP. The server may be any: it is told who calls by
// signed headers, sees no credential, and is protected by the guard of package api,
// behind which this belongs.
//
// A message is read strictly and decided once, and goes on in the bytes in which it
// came; IDs of sessions and events come back bound to the approval; what the service
// sends passes event by event, for as long as the right to it lasts.
package mcp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/store"
)

// Server is the proxy. Its fields do not change once it answers.
type Server struct {
	Path    string                         // of an endpoint beside the contract's (decision V60); "" is that
	URL     *url.URL                       // of the service's MCP server, whole
	Key     func() []byte                  // signs what it is told; at least identity.MinKey bytes
	API     *api.Server                    // whose guard stands before
	Base    func(*http.Request) string     // {base} of the host that was asked (decision M1)
	Address func(*http.Request) netip.Addr // of the client (decision L2)
	Log     *slog.Logger                   // nil discards

	Wait    time.Duration // for the head of an answer; 0 is DefaultWait
	MaxBody int64         // of a request, in bytes; 0 is DefaultMaxBody
	Streams *api.Streams  // of all endpoints of this node; nil is one's own, of NewStreams

	tools   annotations
	to      http.RoundTripper
	silence time.Duration // 0 is keepAlive; tests make it short
	taking  time.Duration // 0 is pieceTimeout; tests make it short

	decideAs func(api.Rights, Message) *Denial // nil is by the API's rules; tests have their own
	listsAs  func(api.Rights, Tool) bool
}

// What is bounded where nothing else is set.
const (
	DefaultWait    = 5 * time.Minute
	DefaultMaxBody = 4 << 20
	MaxStreams     = 10_000 // of a node (decision V15)
	MaxOfOne       = 64     // of an approval or API key, and no more than a quarter of the node's
	leastOfOne     = 4      // which a client needs that listens, calls and answers

	heldOfOne = 8  // of the longest bodies, in memory for one approval or API key
	heldOfAll = 64 // on a node

	pieceTimeout = 60 * time.Second // for the client to take or send one piece, and the service to take a message
	keepAlive    = 25 * time.Second // of silence, before a comment
	listTimeout  = 10 * time.Second // for the proxy's own question for tools
)

// NewStreams bounds what is under way at all endpoints of a node: most requests, and the
// bodies that are in memory, of at most maxBody bytes each; 0 are MaxStreams and
// DefaultMaxBody.
func NewStreams(a *api.Server, most int, maxBody int64) *api.Streams {
	body := int(cmp.Or(maxBody, DefaultMaxBody))
	most = cmp.Or(most, MaxStreams)
	return &api.Streams{API: a, Most: most, OfOne: max(leastOfOne, min(MaxOfOne, most/4)), Held: heldOfAll * body, HeldOfOne: heldOfOne * body}
}

// Handler serves requests that carry an actor.
func (s *Server) Handler() http.Handler {
	if s.Streams == nil {
		s.Streams = NewStreams(s.API, 0, s.MaxBody)
	}
	if s.to == nil {
		s.to = api.NewTransport(cmp.Or(s.Wait, DefaultWait))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lasting := api.NewLasting(w, r, pieceTimeout)
		defer lasting.End()
		x := &exchange{s: s, w: lasting, r: r, revision: r.Header.Get("Mcp-Protocol-Version")}
		defer s.Streams.End(&x.place)
		if err := s.Streams.Enter(&x.place, api.ActorFrom(r.Context())); err != nil { // before anything of it is in memory
			x.fail(err)
			return
		}
		if err := x.read(); err != nil {
			x.fail(err)
			return
		}
		if x.decided() {
			return
		}
		x.pass()
	})
}

// Drain ends the streams that have no end of their own, and those that begin
// later: the server stops.
func (s *Server) Drain() { s.Streams.Drain() }

// exchange is one request and its answer.
type exchange struct {
	s        *Server
	w        *api.Lasting
	r        *http.Request
	revision string // of MCP, as the client says
	place    api.Stream

	body     []byte
	messages []Message // none of GET and DELETE
	batch    bool

	rights api.Rights  // as the service is told
	asked  time.Time   // whether they stand
	late   *time.Timer // ends it where the service stands still
	deeds  []deed      // for the record of what the client did
	ids    binder
	in     string // the service's ID of the session; empty without one
	last   string // the service's ID of the event that was seen last
}

// rpcError is a refusal that clients of MCP know by its code.
type rpcError struct {
	status, code int
	text         string
}

func (e *rpcError) Error() string { return e.text }

var (
	errNoSession = &rpcError{404, codeNoSession, "Session not found"}
	errMirror    = &rpcError{400, codeMirror, "Header mismatch: Mcp-Method or Mcp-Name does not say what the body says."}
)

func refused(status int, why string) *api.Fault {
	code := "invalid_request"
	if status == http.StatusMethodNotAllowed {
		code = "method_not_allowed"
	}
	return &api.Fault{Status: status, Code: code, Description: why}
}

// read takes the whole request and looks at everything that needs no rule. The
// right is asked once more when the body is there (decision B7): by then the guard's
// answer may be old.
func (x *exchange) read() error {
	if !slices.Contains([]string{"GET", "POST", "DELETE"}, x.r.Method) {
		x.w.Header().Set("Allow", "GET, POST, DELETE")
		return refused(405, "The MCP endpoint takes GET, POST and DELETE.")
	}
	if len(x.r.Header["Mcp-Protocol-Version"]) > 1 {
		return refused(400, "Send MCP-Protocol-Version once.")
	}
	further := 0
	if x.r.Method == http.MethodPost {
		if err := x.readBody(); err != nil {
			return err
		}
		further = len(x.messages) - 1
	} else {
		x.r.Body = http.NoBody // means nothing, and is not waited for
	}
	now, ok := x.s.API.Whole(x.w, x.r, further)
	if !ok {
		return errAnswered
	}
	x.rights, x.asked = now, time.Now()
	x.ids = binder{x.s.API.Ring, now.Credential(), x.s.Path + x.s.URL.String()}
	return x.unbind()
}

// errAnswered is a request that has its answer.
var errAnswered = errors.New("answered")

func (x *exchange) readBody() error {
	if !api.IsJSON(x.r.Header) {
		return refused(415, "Content-Type must be application/json, in UTF-8, and the body not compressed.")
	}
	most := cmp.Or(x.s.MaxBody, DefaultMaxBody)
	var err error
	x.body, err = io.ReadAll(held{http.MaxBytesReader(x.w, x.r.Body, most), x})
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return refused(413, fmt.Sprintf("A body has at most %d bytes.", most))
	case errors.As(err, new(*api.Fault)):
		return err
	case err != nil:
		return refused(400, "The body cannot be read.")
	}
	x.messages, x.batch, err = readMessages(x.body)
	switch {
	case err != nil:
		text := err.Error()
		return refused(400, strings.ToUpper(text[:1])+text[1:]+".")
	case x.batch && x.revision != "" && x.revision != "2025-03-26":
		return refused(400, "Revision "+x.revision+" of MCP has no batches.")
	case !mirrored(x.r.Header, x.messages, x.batch):
		return errMirror
	}
	return nil
}

// held counts what is read of a body as long as the exchange lasts.
type held struct {
	io.Reader
	x *exchange
}

func (h held) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if full := h.x.s.Streams.Hold(&h.x.place, n); full != nil {
		return n, full
	}
	return n, err
}

// unbind finds the service's IDs. What is another client's is answered like what
// never was.
func (x *exchange) unbind() error {
	sessions, events := x.r.Header["Mcp-Session-Id"], x.r.Header["Last-Event-Id"]
	if len(sessions) > 0 {
		var ok bool
		if x.in, ok = x.ids.unbindSession(sessions[0]); !ok || len(sessions) > 1 {
			return errNoSession
		}
	}
	if len(events) > 0 {
		var ok bool
		if x.last, ok = x.ids.unbindEvent(x.in, events[0]); !ok || len(events) > 1 {
			return refused(400, "Last-Event-ID is of no event of this session.")
		}
	}
	return nil
}

// decided asks the rules, and answers what they deny: nothing of a batch is done
// then.
func (x *exchange) decided() bool {
	if err := x.learn(); err != nil {
		x.s.API.Fail(x.w, x.r, err)
		return true
	}
	denials, denied := make([]*Denial, len(x.messages)), false
	for i := range x.messages {
		var err error
		if denials[i], err = x.decide(&x.messages[i]); err != nil {
			x.s.API.Fail(x.w, x.r, err)
			return true
		}
		denied = denied || denials[i] != nil
	}
	for i, d := range denials {
		if d != nil {
			x.refusedDeed(&x.messages[i], d)
		}
	}
	if !denied {
		return false
	}
	replies := []reply{}
	for i, d := range denials {
		m := &x.messages[i]
		switch {
		case d != nil && m.ID != nil:
			replies = append(replies, d.told(m, x.revision))
		case d != nil && !x.batch:
			x.fail(api.Forbidden(d.Text))
			return true
		case m.ID != nil:
			replies = append(replies, refuse(m.ID, codeDenied, "Nothing of this batch was done, because another call in it is denied."))
		}
	}
	switch {
	case x.batch:
		answerJSON(x.w, 200, replies)
	case !x.messages[0].known() && x.revision >= newRevision:
		answerJSON(x.w, 404, replies[0])
	default:
		answerJSON(x.w, 200, replies[0])
	}
	return true
}

// listens reports whether the answer is a stream that nothing but the client ends.
func (x *exchange) listens() bool {
	return x.r.Method == http.MethodGet || len(x.messages) == 1 && x.messages[0].Method == "subscriptions/listen"
}

// reads reports whether nothing that was asked changes anything.
func (x *exchange) reads() bool {
	return x.r.Method != http.MethodDelete && !slices.ContainsFunc(x.messages, func(m Message) bool { return m.changes() })
}

// stands asks whether the right to the answer still stands (decision B7): what is
// read is given by the rights of which the service was told alone.
func (x *exchange) stands(ctx context.Context) error {
	err := x.s.API.Still(ctx, x.rights, x.reads())
	if err == nil {
		x.asked = time.Now()
	}
	return api.Ended(err, !x.reads())
}

// fail answers what is refused, or went wrong.
func (x *exchange) fail(err error) {
	var f *api.Fault
	var e *rpcError
	switch {
	case errors.Is(err, errAnswered):
	case errors.As(err, &e):
		x.s.API.TellFault(x.w, strconv.Itoa(e.code))
		answerJSON(x.w, e.status, refuse([]byte("null"), e.code, e.text))
	case errors.As(err, &f):
		x.s.API.Fail(x.w, x.r, f)
	case errors.Is(err, store.ErrUnavailable): // which is not the service
		x.s.API.Fail(x.w, x.r, err)
	default:
		x.bad(err)
	}
}

// bad answers for a service that does not: what is wrong is in the log.
func (x *exchange) bad(err error) {
	x.warn(err)
	x.s.API.Answer(x.w, api.NoAnswer(err, !x.reads() && !api.NeverSent(err)))
}

func (x *exchange) warn(err error) {
	if x.s.Log != nil && x.r.Context().Err() == nil {
		x.s.Log.WarnContext(x.r.Context(), "the MCP server behind does not answer as it should", "request_id", x.w.Header().Get("X-Request-Id"), "err", err)
	}
}
