package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// everythingServer runs the reference server of the TypeScript SDK, which knows nothing
// of this server, and gives its URL.
func everythingServer(t *testing.T) string {
	t.Helper()
	port := quietPort(t)
	c := exec.CommandContext(t.Context(), "node", script(t, "mcpserver"), port)
	process(t, c)
	for {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			return "http://127.0.0.1:" + port + "/mcp"
		}
		if t.Context().Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// quietPort is a free port that no connection of another test is given meanwhile: it
// is below those that the kernel gives away.
func quietPort(t *testing.T) string {
	t.Helper()
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", 20_000+rand.IntN(10_000)))
		if err == nil {
			defer l.Close()
			_, port, _ := net.SplitHostPort(l.Addr().String())
			return port
		}
	}
	t.Fatal("no free port")
	return ""
}

// The reference server of one SDK, unmodified, behind this one, and an unmodified
// client of another before it, from a bare 401: tools, progress, resources, prompts,
// questions of the server in the middle of a call, the end of the session; and the
// end of all that with the approval (decision V1).
func TestAnotherMCPServerBehind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := serve(t, served{apiLimit: fmt.Sprintf("[service]\nkey_file = %q\nunlisted = \"service\"\n[mcp]\nupstream = %q", secretFile(t, nginxKey), everythingServer(t))})
	session, _ := connectMCP(t, h, &seen{}, &auth.AuthorizationCodeHandlerConfig{
		DynamicClientRegistrationConfig: registering(), RedirectURL: redirect, AuthorizationCodeFetcher: approving(h, treasurer...),
	})
	tools, err := session.ListTools(ctx, nil)
	if err != nil || len(tools.Tools) < 10 {
		t.Fatalf("tools: %+v, %v", tools, err)
	}
	call := func(name string, arguments map[string]any) string {
		t.Helper()
		params := &mcp.CallToolParams{Name: name, Arguments: arguments}
		params.SetProgressToken(name)
		r, err := session.CallTool(ctx, params)
		if err != nil || r.IsError {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		return r.Content[0].(*mcp.TextContent).Text
	}
	for name, want := range map[string]string{"echo": "Echo: rolls", "get-sum": "The sum of 2 and 3 is 5.", "trigger-long-running-operation": "completed"} {
		if got := call(name, map[string]any{"message": "rolls", "a": 2, "b": 3, "duration": 1, "steps": 2}); !strings.Contains(got, want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	resources, err := session.ListResources(ctx, nil)
	if err != nil || len(resources.Resources) == 0 {
		t.Fatalf("resources: %+v, %v", resources, err)
	}
	if r, err := session.ReadResource(ctx, &mcp.ReadResourceParams{URI: resources.Resources[0].URI}); err != nil || len(r.Contents) == 0 {
		t.Errorf("resource: %+v, %v", r, err)
	}
	if p, err := session.GetPrompt(ctx, &mcp.GetPromptParams{Name: "simple-prompt"}); err != nil || len(p.Messages) == 0 {
		t.Errorf("prompt: %+v, %v", p, err)
	}
	for _, a := range h.items("/v1/approvals?state=live") {
		h.change("/v1/approvals/"+a["id"].(string)+"/revoke", `{"reason":"test"}`)
	}
	ended, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	if r, err := session.CallTool(ended, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"message": "x"}}); err == nil {
		t.Errorf("after the end: %+v", r)
	}
}

// The tools of that server, and rules that are drafted for all of them: each is
// named then, and what it needs is what it says of itself (decision V31).
func TestRulesForAnotherMCPServer(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "grantkeeper.toml")
	text := fmt.Sprintf("[service]\nkey_file = %q\n[mcp]\nupstream = %q\n", secretFile(t, nginxKey), everythingServer(t))
	told := func(arguments ...string) string {
		t.Helper()
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(binary, append([]string{"service", "tools", "-q", "--config", config}, arguments...)...).Output()
		if err != nil {
			t.Fatalf("%v: %v %s", arguments, err, out)
		}
		return string(out)
	}
	before := told()
	if strings.Count(before, "denied") < 10 || !strings.Contains(before, "\necho ") {
		t.Errorf("without rules:\n%s", before)
	}
	text += told("--write")
	after := told("--wide")
	if strings.Contains(after, "denied") || strings.Count(after, "\n") != strings.Count(before, "\n") || !strings.Contains(after, "role ROLE") {
		t.Errorf("with the rules\n%s\nthey need\n%s", text, after)
	}
	if more := told("--write"); more != "" {
		t.Errorf("drafted twice:\n%s", more)
	}
}
