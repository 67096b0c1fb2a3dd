package sample

import (
	"context"
	"net/http"
	"runtime/debug"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpHandler is the MCP endpoint, on the official Go SDK. It is stateless: a
// request says everything, no session ID is issued, and one that is sent is
// ignored.
func (s *Server) mcpHandler() http.Handler {
	server := s.server()
	streamable := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, &sdk.StreamableHTTPOptions{
		Stateless:    true,
		JSONResponse: true,
		// Who calls is known by the signature. The SDK's own rule is about hosts.
		DisableLocalhostProtection:   true,
		PropagateRequestCancellation: true,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost { // there is no stream to GET and no session to DELETE
			w.Header().Set("Allow", http.MethodPost)
			(&fault{Status: 405, Code: "method_not_allowed", Description: "The MCP endpoint takes POST."}).answer(w)
			return
		}
		if !hasType(r.Header, "application/json") {
			(&fault{Status: 415, Code: "invalid_request", Description: "Content-Type must be application/json, in UTF-8, and the body not compressed."}).answer(w)
			return
		}
		m, f := readMessage(r)
		if f != nil {
			f.answer(w)
			return
		}
		widen(r.Header, m)
		answer := &refusals{ResponseWriter: w, of: m}
		streamable.ServeHTTP(answer, r)
		answer.answer()
	})
}

// server makes the one SDK server that all requests share: what differs
// between them is the caller, and that comes with the request's context.
func (s *Server) server() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: s.o.Service, Version: s.o.Version}, &sdk.ServerOptions{
		Instructions: "Acts for one person in one organization of " + s.o.Service + ", within what that person approved. " +
			"Call whoami to learn for whom and how far. Tensions, actions, projects and notes are items; each belongs to a role, or is personal.",
		// No list ever changes and nothing is sent by itself, so nothing can
		// be subscribed to: no stream outlives the token that opened it.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		// What is answered, and even which tools there are, is for one caller:
		// the SDK would call it public.
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = "private" },
	})
	listed := s.addTools(server)
	s.addResources(server)
	server.AddReceivingMiddleware(s.outlive, s.only(listed), s.known)
	return server
}

// refusal is a result with isError and the reason: the assistant
// should read it, not its transport.
func refusal(reason string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: reason}}}
}

// said is as much of an error as is meant for the caller, what the grant set does
// not allow above all; the rest is logged.
func (s *Server) said(ctx context.Context, err error) string {
	f, log := told(err)
	if log {
		s.o.Log.ErrorContext(ctx, "mcp", "err", err)
		return "Something went wrong in the server. Try again."
	}
	return f.Error()
}

// outlive turns a panic into an error: the SDK runs methods in goroutines of
// its own, where one would end the whole process.
func (s *Server) outlive(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.o.Log.ErrorContext(ctx, "mcp", "method", method, "panic", p, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		return next(ctx, method, r)
	}
}
