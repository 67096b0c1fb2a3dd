// Package mcp is API v5's MCP endpoint, on the official Go SDK, behind api's
// guard (decision B5). It is stateless: a request says everything, no session
// ID is issued, and one that is sent is ignored.
package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/api"
	"github.com/grantkeeper/grantkeeper/store"
)

// maxBody is the greatest body of a request, in bytes (decision L5).
const maxBody = 64 << 10

// maxBatch is how many messages a batch may hold. Revision 2025-03-26 alone
// has batches, and gives no bound.
const maxBatch = 16

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
		if f := checkType(r.Header); f != nil {
			f.Answer(w)
			return
		}
		if f := checkBody(w, r); f != nil {
			f.Answer(w)
			return
		}
		answer := &refusals{ResponseWriter: w}
		streamable.ServeHTTP(answer, r)
		answer.end()
	})
}

// checkBody refuses what is too long, not JSON, or a batch of too many
// messages: their calls would all run at once, and count once toward the
// organization's limit. The body is read, and put back.
func checkBody(w http.ResponseWriter, r *http.Request) *api.Fault {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return &api.Fault{Status: 413, Code: "invalid_request", Description: fmt.Sprintf("A body has at most %d bytes.", maxBody)}
	case err != nil:
		return &api.Fault{Status: 400, Code: "invalid_request", Description: "The body cannot be read."}
	}
	if !json.Valid(body) { // so that the SDK's reader cannot see another batch in it than this one
		return &api.Fault{Status: 400, Code: "invalid_request", Description: "The body is not JSON."}
	}
	var batch []json.RawMessage
	if json.Unmarshal(body, &batch) == nil && len(batch) > maxBatch {
		return &api.Fault{Status: 400, Code: "invalid_request", Description: fmt.Sprintf("A batch has at most %d messages.", maxBatch)}
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// server makes the one SDK server that all requests share: what differs
// between them is the actor, and that comes with the request's context.
func (s *Server) server() *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: s.Service, Version: s.Version}, &sdk.ServerOptions{
		Instructions: "Acts for one person in one organization of " + s.Service + ", within what that person approved. " +
			"Call whoami to learn for whom and how far.",
		// No list ever changes and nothing is sent by itself, so nothing can
		// be subscribed to: no stream outlives the token that opened it.
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}},
	})
	add(s, server, "whoami", "Who am I",
		"The person and the organization that this connection acts for, what the person approved, and the roles that the person fills, each with the access that was given: none, read or change.",
		func(ctx context.Context, a api.Actor, _ struct{}) (api.Me, error) { return s.API.Me(ctx, a) })
	add(s, server, "list_roles", "List roles",
		"All roles of the organization by ID, with their circle, who fills them, and what may be done through each: none, read or change.",
		s.listRoles)
	server.AddReceivingMiddleware(s.outlive)
	return server
}

type pageIn struct {
	After string `json:"after,omitempty" jsonschema:"next of the page before, to get what follows"`
	Limit int    `json:"limit,omitempty" jsonschema:"how many roles to give, at most 200; 100 when left out"`
}

func (s *Server) listRoles(ctx context.Context, a api.Actor, in pageIn) (api.Page[api.RoleOfAll], error) {
	switch {
	case in.Limit == 0:
		in.Limit = api.DefaultPage
	case in.Limit < 0 || in.Limit > api.MaxPage:
		return api.Page[api.RoleOfAll]{}, &api.Fault{Status: 400, Code: "invalid_request", Description: fmt.Sprintf("limit is a number from 1 to %d.", api.MaxPage)}
	}
	return s.API.Roles(ctx, a, api.RoleFilter{}, in.After, in.Limit)
}

// add adds a tool that reads, and answers what ask gives for the actor of its
// request. It stands in for the SDK's own AddTool, which reads each answer back
// to hold it to the schema: a call took twice the time by that.
func add[In, Out any](s *Server, server *sdk.Server, name, title, description string, ask func(context.Context, api.Actor, In) (Out, error)) {
	no := false
	tool := &sdk.Tool{
		Name: name, Title: title, Description: description, InputSchema: schema[In](), OutputSchema: schema[Out](),
		Annotations: &sdk.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
	}
	server.AddTool(tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in In
		if err := readArguments(r.Params.Arguments, &in); err != nil {
			return refusal("arguments: " + err.Error()), nil
		}
		out, err := ask(ctx, api.ActorFrom(ctx), in)
		if err != nil {
			return refusal(s.told(ctx, err)), nil
		}
		body, err := json.Marshal(out)
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{
			Content:           []sdk.Content{&sdk.TextContent{Text: string(body)}},
			StructuredContent: json.RawMessage(body),
		}, nil
	})
}

func schema[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic(err) // of types that are written here
	}
	return s
}

// readArguments refuses what the schema does not have: an argument that is
// ignored would look as if it had been obeyed.
func readArguments(raw json.RawMessage, in any) error {
	if len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(in)
}

// refusal is a result with isError and the reason (decision B3): the assistant
// should read it, not its transport.
func refusal(reason string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: reason}}}
}

// told says as much of an error as is meant for the caller, what the grant set
// does not allow above all, and logs the rest.
func (s *Server) told(ctx context.Context, err error) string {
	var fault *api.Fault
	switch {
	case errors.As(err, &fault):
		return fault.Error()
	case errors.Is(err, store.ErrUnavailable):
		return "the server cannot answer now; try again"
	}
	s.logger().ErrorContext(ctx, "mcp", "err", err)
	return "something went wrong in the server; try again"
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
