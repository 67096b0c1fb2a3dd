// Package sample is a service behind Grantkeeper, as a stranger would write one:
// the tensions, actions, projects and notes of an organization, its circles, roles
// and people, over HTTP (API v5) and over MCP. It is what grant sets are tried on
// (decision V43).
//
// It knows Grantkeeper by its interface alone: signed headers say who calls and
// how far the call may go (package identity), the directory says who fills what
// (GET /v1/directory), and what it changes there it sends as events. It keeps its
// items by itself.
package sample

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

// Options say how the service reaches Grantkeeper, and how Grantkeeper is known.
type Options struct {
	Key        []byte           // signs the headers of each call; at least identity.MinKey bytes
	Gateways   string           // http://host:port of Grantkeeper's listener for gateways
	GatewayKey string           // with the scopes directory and directory-read
	Service    string           // the service's name, as MCP clients show it
	Version    string           // of this program
	Folder     string           // where items are kept; "" is in memory
	Now        func() time.Time // nil is time.Now
	Log        *slog.Logger     // nil discards
}

// Server is the service. Close it when it answers no more.
type Server struct {
	o         Options
	directory source
	items     *shelf
	mcp       http.Handler
}

// New opens the service. The error is about the folder.
func New(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	items, err := openShelf(o.Folder)
	if err != nil {
		return nil, err
	}
	s := &Server{o: o, directory: newSource(o.Gateways, o.GatewayKey, o.Now), items: items}
	s.mcp = s.mcpHandler()
	return s, nil
}

// Close closes what New opened.
func (s *Server) Close() error { return s.items.close() }

// Fresh reports whether there was never an item.
func (s *Server) Fresh() bool { return s.items.fresh() }

// Plant puts items there by nobody's right, under the IDs that they came with.
func (s *Server) Plant(items []Item) error {
	now, all := s.o.Now().Unix(), slices.Clone(items)
	for n := range all {
		all[n].CreatedAt, all[n].ChangedAt = now, now
	}
	return s.items.put(all...)
}

// The paths of the service.
const (
	apiPath     = "/api/v5"
	mcpPath     = "/mcp"
	previewPath = "/grantkeeper/preview"
)

// ServeHTTP answers what is signed for this very call. What is not is 401: it did
// not come from Grantkeeper, or the keys differ.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	if id := r.Header.Get("X-Request-Id"); id != "" {
		w.Header().Set("X-Request-Id", id)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		s.fail(w, r, badRequest("The body cannot be read."))
		return
	}
	long := len(body) > maxBody // and so not signed: it is refused further in, as what it is too long for
	who, err := identity.VerifyCall(r.Header, identity.Call{Method: r.Method, Target: r.RequestURI, Body: body, Unread: long}, s.o.Now(), s.o.Key)
	if err != nil {
		s.fail(w, r, &fault{Status: 401, Code: "not_signed", Description: err.Error()})
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	s.answerCall(w, r, who)
}

func (s *Server) answerCall(w http.ResponseWriter, r *http.Request, who identity.Identity) {
	switch to, ids := find(r.URL); {
	case r.URL.Path == previewPath:
		s.preview(w, r, who)
	case r.URL.Path == mcpPath:
		s.mcp.ServeHTTP(w, r.WithContext(withCaller(r.Context(), who)))
	case to.methods == nil:
		s.fail(w, r, errNoPath)
	default:
		s.answer(w, r, who, to, ids)
	}
}

// told gives what a caller is told of an error; log says that it is ours.
func told(err error) (f *fault, log bool) {
	if errors.As(err, &f) {
		return f, false
	}
	return errInternal, true
}
