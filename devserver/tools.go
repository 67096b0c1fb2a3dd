package devserver

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/grantkeeper/grantkeeper/terminal"
)

// mcpSession connects dev's client to the MCP endpoint as an assistant does,
// by the official SDK: what stands behind may keep sessions and answer in
// streams.
func (d *devClient) mcpSession(ctx context.Context, f *flow) (*sdk.ClientSession, error) {
	carrying := &http.Client{Timeout: d.http.Timeout, CheckRedirect: d.http.CheckRedirect, Transport: bearing{d.http.Transport, f.access}}
	return sdk.NewClient(&sdk.Implementation{Name: DevClientID, Version: d.version}, nil).Connect(ctx, &sdk.StreamableClientTransport{
		Endpoint: f.base + "/api/v5/mcp", HTTPClient: carrying, MaxRetries: -1, DisableStandaloneSSE: true,
	}, nil)
}

// bearing sends an access token with each request.
type bearing struct {
	next   http.RoundTripper
	access string
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.access)
	return b.next.RoundTrip(r)
}

// mcp lets ask talk to the MCP endpoint, and notes what was said as one step.
func (d *devClient) mcp(ctx context.Context, f *flow, e exchange, params any, ask func(context.Context, *sdk.ClientSession) (any, error)) {
	text, err := json.Marshal(params)
	if err != nil {
		panic(err) // texts
	}
	e.Request = terminal.ShortenSecrets("POST /api/v5/mcp\nAuthorization: Bearer " + f.access + "\n\n" + string(text))
	session, err := d.mcpSession(ctx, f)
	if err == nil {
		defer session.Close()
		var answer any
		if answer, err = ask(ctx, session); err == nil {
			text, err = json.Marshal(answer)
		}
	}
	if err != nil {
		e.Status, e.Good = terminal.ShortenSecrets(err.Error()), false
	} else {
		e.Answer = terminal.ShortenSecrets(pretty(text))
	}
	f.Steps = append(f.Steps, e)
}

// maxTools bounds the tools that the page offers to call.
const maxTools = 500

func (d *devClient) tools(ctx context.Context, f *flow) {
	f.Listed = true
	e := exchange{Title: "List tools", Status: "Listed", Good: true,
		Says: "What an assistant asks first. It is shown the tools that this approval could use, and no others."}
	d.mcp(ctx, f, e, map[string]any{"method": "tools/list"}, func(ctx context.Context, s *sdk.ClientSession) (any, error) {
		f.Tools = nil
		var all []*sdk.Tool
		for tool, err := range s.Tools(ctx, nil) {
			if err != nil {
				return nil, err
			}
			if all = append(all, tool); len(all) == maxTools {
				break
			}
		}
		for _, tool := range all {
			f.Tools = append(f.Tools, tool.Name)
		}
		return map[string]any{"tools": all}, nil
	})
}

// callTool calls a tool with the arguments that the page wrote. It may be one that
// was not listed: that is refused by the server, and not here.
func (d *devClient) callTool(ctx context.Context, f *flow, form url.Values) {
	f.Tool, f.Arguments = form.Get("tool"), form.Get("arguments")
	e := exchange{Title: "Call " + f.Tool, Status: "Done", Good: true,
		Says: "What an assistant does next. A refusal comes as a result that says what is missing, and who can give it."}
	if f.Tool == "" {
		return
	}
	var arguments map[string]any
	if err := json.Unmarshal([]byte(f.Arguments), &arguments); err != nil || arguments == nil {
		e.Status, e.Good = "Arguments are a JSON object, such as {}", false
		f.Steps = append(f.Steps, e)
		return
	}
	params := &sdk.CallToolParams{Name: f.Tool, Arguments: arguments}
	d.mcp(ctx, f, e, map[string]any{"method": "tools/call", "params": params}, func(ctx context.Context, s *sdk.ClientSession) (any, error) {
		return s.CallTool(ctx, params)
	})
	last := &f.Steps[len(f.Steps)-1]
	var said struct {
		IsError bool `json:"isError"`
		Content []struct {
			Text string `json:"text"`
		} `json:"content"`
		Meta struct {
			Denied struct {
				Edit string `json:"edit"`
			} `json:"grantkeeper/denied"`
		} `json:"_meta"`
	}
	if json.Unmarshal([]byte(last.Answer), &said) == nil && said.IsError {
		last.Status, last.Good = "Refused", false
		if len(said.Content) > 0 {
			last.Why = said.Content[0].Text
		}
		if strings.HasPrefix(said.Meta.Denied.Edit, f.base+"/") {
			last.Edit = said.Meta.Denied.Edit
		}
	}
}
