//lint:file-ignore SA1019 services use sampling for as long as clients have it.

package mcp

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/identity"
)

// orders is a service of the official SDK that knows nothing of this server but
// the signed headers.
type orders struct {
	server    *sdk.Server
	waits     chan struct{} // a call has come to where it waits
	cancelled chan struct{}
	whole     chan struct{} // lets a slow call go on
}

func newOrders() *orders {
	o := &orders{waits: make(chan struct{}, 1), cancelled: make(chan struct{}, 1), whole: make(chan struct{})}
	text := func(format string, a ...any) (*sdk.CallToolResult, any, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: fmt.Sprintf(format, a...)}}}, nil, nil
	}
	o.server = sdk.NewServer(&sdk.Implementation{Name: "orders", Version: "1"}, &sdk.ServerOptions{
		SubscribeHandler:   func(context.Context, *sdk.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *sdk.UnsubscribeRequest) error { return nil },
		CompletionHandler: func(_ context.Context, r *sdk.CompleteRequest) (*sdk.CompleteResult, error) {
			return &sdk.CompleteResult{Completion: sdk.CompletionResultDetails{Values: []string{r.Params.Ref.Name + "!"}}}, nil
		},
	})
	add := func(name string, reads bool, do func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error)) {
		sdk.AddTool(o.server, &sdk.Tool{Name: name, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: reads}},
			func(ctx context.Context, r *sdk.CallToolRequest, _ map[string]any) (*sdk.CallToolResult, any, error) {
				return do(ctx, r)
			})
	}
	add("whoami", true, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		return text("%s", r.Extra.Header.Get(identity.HeaderPerson))
	})
	add("take", false, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) { return text("taken") })
	add("bake", false, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		for n := range 3 {
			p := &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: float64(n)}
			_ = r.Session.NotifyProgress(ctx, p) // a stateless server that answers in JSON cannot
		}
		return text("baked")
	})
	add("ask", false, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		said, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "How many?", RequestedSchema: map[string]any{"type": "object"}})
		if err != nil {
			return nil, nil, err
		}
		made, err := r.Session.CreateMessage(ctx, &sdk.CreateMessageParams{MaxTokens: 1})
		if err != nil {
			return nil, nil, err
		}
		return text("%s %s", said.Action, made.Model)
	})
	add("wait", false, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		o.waits <- struct{}{}
		select {
		case <-ctx.Done():
			o.cancelled <- struct{}{}
		case <-o.whole:
		}
		return text("waited")
	})
	add("leave", false, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, any, error) {
		r.Extra.CloseSSEStream(sdk.CloseSSEStreamArgs{RetryAfter: time.Millisecond})
		<-o.whole
		return text("came back")
	})
	o.server.AddResource(&sdk.Resource{Name: "list", URI: "orders://list"}, func(_ context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
		return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, Text: "40 rolls"}}}, nil
	})
	o.server.AddPrompt(&sdk.Prompt{Name: "plan"}, func(context.Context, *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: "Plan."}}}}, nil
	})
	return o
}

// handler is the SDK's own, with as much of a check as a service needs.
func (o *orders) handler(options *sdk.StreamableHTTPOptions) http.Handler {
	next := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return o.server }, options)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := identity.Verify(r.Header, time.Now(), []byte(serviceKey)); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// connect is a client of the SDK, behind the proxy.
func (h *house) connect(token, revision string, o *sdk.ClientOptions) *sdk.ClientSession {
	h.t.Helper()
	c := sdk.NewClient(&sdk.Implementation{Name: "client", Version: "1"}, o)
	s, err := c.Connect(h.t.Context(), &sdk.StreamableClientTransport{
		Endpoint: h.front.URL + "/api/v5/mcp", HTTPClient: &http.Client{Transport: bearer(token)},
	}, &sdk.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { s.Close() })
	return s
}

func said(t *testing.T, r *sdk.CallToolResult, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return r.Content[0].(*sdk.TextContent).Text
}

// All that an unmodified client and an unmodified server do together they do
// through the proxy, whichever way the server answers and whichever revision they
// speak (decision V1).
func TestUnmodifiedClientAndServer(t *testing.T) {
	for name, options := range map[string]*sdk.StreamableHTTPOptions{
		"streams":             {},
		"streams, resumable":  {EventStore: sdk.NewMemoryEventStore(nil)},
		"JSON":                {JSONResponse: true},
		"stateless":           {Stateless: true},
		"stateless, and JSON": {Stateless: true, JSONResponse: true},
	} {
		for _, revision := range []string{"2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
			t.Run(name+" "+revision, func(t *testing.T) { together(t, options, revision) })
		}
	}
}

func together(t *testing.T, options *sdk.StreamableHTTPOptions, revision string) {
	ctx := t.Context()
	o := newOrders()
	h := newHouse(t, o.handler(options))
	token, _ := h.live("ada", everything)
	var progress atomic.Int32
	s := h.connect(token, revision, &sdk.ClientOptions{
		ProgressNotificationHandler: func(context.Context, *sdk.ProgressNotificationClientRequest) { progress.Add(1) },
	})
	if revision < newRevision && s.InitializeResult().ProtocolVersion != revision {
		t.Errorf("revision %s", s.InitializeResult().ProtocolVersion)
	}
	tools, err := s.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) != 6 {
		t.Fatalf("tools: %+v, %v", tools, err)
	}
	who, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "whoami"})
	if got := said(t, who, err); got != "ada" {
		t.Errorf("whoami: %q", got)
	}
	params := &sdk.CallToolParams{Name: "bake"}
	params.SetProgressToken("p")
	baked, err := s.CallTool(ctx, params)
	if got := said(t, baked, err); got != "baked" {
		t.Errorf("bake: %q", got)
	}
	for !options.JSONResponse && progress.Load() < 3 { // told beside the answer
		time.Sleep(time.Millisecond)
	}
	read, err := s.ReadResource(ctx, &sdk.ReadResourceParams{URI: "orders://list"})
	if err != nil || read.Contents[0].Text != "40 rolls" {
		t.Errorf("resource: %+v, %v", read, err)
	}
	if p, err := s.GetPrompt(ctx, &sdk.GetPromptParams{Name: "plan"}); err != nil || len(p.Messages) != 1 {
		t.Errorf("prompt: %+v, %v", p, err)
	}
	complete := &sdk.CompleteParams{Ref: &sdk.CompleteReference{Type: "ref/prompt", Name: "plan"}, Argument: sdk.CompleteParamsArgument{Name: "a", Value: "b"}}
	if c, err := s.Complete(ctx, complete); err != nil || !slices.Equal(c.Completion.Values, []string{"plan!"}) {
		t.Errorf("completion: %+v, %v", c, err)
	}
	if _, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "nothing"}); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("an unknown tool: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if got := h.log.String(); got != "" {
		t.Errorf("log: %s", got)
	}
}

// A server asks its client in the middle of a call, and hears the answer.
func TestServerAsksTheClient(t *testing.T) {
	o := newOrders()
	h := newHouse(t, o.handler(nil))
	token, _ := h.live("ada", everything)
	s := h.connect(token, "2025-11-25", &sdk.ClientOptions{
		ElicitationHandler: func(context.Context, *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			return &sdk.ElicitResult{Action: "accept", Content: map[string]any{}}, nil
		},
		CreateMessageHandler: func(context.Context, *sdk.CreateMessageRequest) (*sdk.CreateMessageResult, error) {
			return &sdk.CreateMessageResult{Model: "a-model", Role: "assistant", Content: &sdk.TextContent{Text: "x"}}, nil
		},
	})
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "ask"})
	if got := said(t, r, err); got != "accept a-model" {
		t.Errorf("%q", got)
	}
}

// What is called off, or whose client goes away, ends at the server too.
func TestCancellationReachesTheServer(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			o := newOrders()
			h := newHouse(t, o.handler(&sdk.StreamableHTTPOptions{PropagateRequestCancellation: true}))
			token, _ := h.live("ada", everything)
			s := h.connect(token, revision, nil)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, err := s.CallTool(ctx, &sdk.CallToolParams{Name: "wait"})
				done <- err
			}()
			<-o.waits
			cancel()
			<-o.cancelled
			if err := <-done; err == nil {
				t.Error("a call that was called off has an answer")
			}
		})
	}
}

// A stream that the server ends on purpose is taken up again where it was, by an
// ID that means nothing to the server as the client has it.
func TestResumption(t *testing.T) {
	o := newOrders()
	h := newHouse(t, o.handler(&sdk.StreamableHTTPOptions{EventStore: sdk.NewMemoryEventStore(nil)}))
	token, _ := h.live("ada", everything)
	s := h.connect(token, "2025-11-25", nil)
	close(o.whole)
	r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: "leave"})
	if got := said(t, r, err); got != "came back" {
		t.Errorf("%q", got)
	}
}

// A notice of the server comes over the stream that stands open for it.
func TestNoticesOfTheServer(t *testing.T) {
	for _, revision := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(revision, func(t *testing.T) {
			o := newOrders()
			h := newHouse(t, o.handler(nil))
			token, _ := h.live("ada", everything)
			changed := make(chan struct{}, 8)
			s := h.connect(token, revision, &sdk.ClientOptions{
				ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
			})
			if _, err := s.ListTools(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			for {
				o.server.RemoveTools("take")
				sdk.AddTool(o.server, &sdk.Tool{Name: "take"}, func(context.Context, *sdk.CallToolRequest, any) (*sdk.CallToolResult, any, error) {
					return nil, nil, nil
				})
				select {
				case <-changed:
					return
				case <-time.After(20 * time.Millisecond): // its stream is not open yet
				}
			}
		})
	}
}
