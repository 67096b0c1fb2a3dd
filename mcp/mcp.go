// Package mcp is API v5's MCP endpoint, on the official Go SDK, behind api's
// guard (decision B5). It is stateless: a request says everything, no session
// ID is issued, and one that is sent is ignored.
package mcp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"runtime/debug"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/api"
)

// Server is the MCP endpoint. Its fields do not change once it answers.
type Server struct {
	API     *api.Server  // answers what the tools ask
	Service string       // the service's name, as clients show it
	Version string       // of this program
	Log     *slog.Logger // nil discards
}

// Handler serves the endpoint to requests that carry an actor: it belongs
// behind [api.Server.Guard], or in the MCP field of an api.Server.
func (s *Server) Handler() http.Handler {
	server := s.server()
	streamable := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless:    true,
		JSONResponse: true,
		// Which hosts are believed is decided before (decision M2). The SDK's
		// own rule would refuse every request that a proxy on this machine
		// passes on under the service's name.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // decision B5: there is no stream to GET and no session to DELETE
			w.Header().Set("Allow", http.MethodPost)
			(&api.Fault{Status: 405, Code: "method_not_allowed", Description: "The MCP endpoint takes POST."}).Answer(w)
			return
		}
		if !api.HasType(r.Header, "application/json") {
			(&api.Fault{Status: 415, Code: "invalid_request", Description: "Content-Type must be application/json, in UTF-8, and the body not compressed."}).Answer(w)
			return
		}
		m, f := readMessage(w, r)
		if f != nil {
			f.Answer(w)
			return
		}
		now, ok := s.API.Whole(w, r, m.calls-1)
		if !ok {
			return
		}
		widen(r.Header, m)
		answer := &refusals{ResponseWriter: w, of: m}
		ctx := context.WithValue(api.WithActor(r.Context(), now.Actor), overKey{}, &answer.over)
		streamable.ServeHTTP(answer, r.WithContext(ctx))
		if !answer.end() {
			s.API.Fail(w, r, api.ErrEnded)
		}
	})
}

// server makes the one SDK server that all requests share: what differs
// between them is the actor, and that comes with the request's context.
func (s *Server) server() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: s.Service, Version: s.Version}, &sdk.ServerOptions{
		Instructions: "Acts for one person in one organization of " + s.Service + ", within what that person approved. " +
			"Call whoami to learn for whom and how far. Tensions, actions, projects and notes are items; each belongs to a role, or is personal.",
		// No list ever changes and nothing is sent by itself, so nothing can
		// be subscribed to: no stream outlives the token that opened it.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		// What is answered, and even which tools there are, is for one actor:
		// the SDK would call it public.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	listed := s.addTools(server)
	s.addResources(server)
	server.AddReceivingMiddleware(s.outlive, s.only(listed), s.known)
	return server
}

// refusal is a result with isError and the reason (decision B3): the assistant
// should read it, not its transport.
func refusal(reason string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: reason}}}
}

// overKey finds what is set when a call has found the credential ended: the whole
// answer is 401 then.
type overKey struct{}

// told says as much of an error as is meant for the caller, what the grant set
// does not allow above all, and logs the rest.
func (s *Server) told(ctx context.Context, err error) string {
	if over, ok := ctx.Value(overKey{}).(*atomic.Bool); ok && errors.Is(err, api.ErrEnded) {
		over.Store(true)
	}
	fault, log := api.Told(err)
	if log {
		s.logger().ErrorContext(ctx, "mcp", "err", err)
		return "Something went wrong in the server. Try again."
	}
	return fault.Error()
}

// outlive turns a panic into an error: the SDK runs methods in goroutines of
// its own, where one would end the whole process.
func (s *Server) outlive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.logger().ErrorContext(ctx, "mcp", "method", method, "panic", p, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		return next(ctx, method, r)
	}
}

func (s *Server) logger() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}
