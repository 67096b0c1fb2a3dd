package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"github.com/grantkeeper/grantkeeper/server/servertest"
)

// drive runs one client of e2e/clients and is its person's browser, which
// chooses the same each time. It gives what the client says in the end.
func drive(t *testing.T, h *house, client string, choice ...string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	program := script(t, "clients")
	example, err := os.ReadFile("../docs/examples/refresh.mjs")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(program), "refresh.mjs"), example, 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{program, client, h.base, redirect}
	if h.metadata != "" {
		args = append(args, h.metadata)
	}
	c := exec.CommandContext(ctx, "node", args...)
	stderr := new(servertest.Buffer)
	c.Stderr = stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := h.serveClient(t, bufio.NewScanner(stdout), stdin, choice)
	if ended := c.Wait(); err != nil || ended != nil {
		t.Fatalf("%v, %v\n%s", err, ended, stderr)
	}
	return said
}

// serveClient does what a client asks for until it is done.
func (h *house) serveClient(t *testing.T, lines *bufio.Scanner, answers io.Writer, choice []string) (string, error) {
	for lines.Scan() {
		asked, about, _ := strings.Cut(lines.Text(), " ")
		answer := ""
		switch asked {
		case "done":
			return about, nil
		case "visit":
			back, err := approving(h, choice...)(t.Context(), &auth.AuthorizationArgs{URL: about})
			if err != nil {
				return "", err
			}
			answer = redirect + "?" + url.Values{"code": {back.Code}, "state": {back.State}, "iss": {back.Iss}}.Encode()
		case "expire":
			h.sleep(30 * time.Minute)
		case "revoke":
			for _, a := range h.items("/v1/approvals?state=live") {
				h.change("/v1/approvals/"+a["id"].(string)+"/revoke", `{"reason":"test"}`)
			}
		}
		fmt.Fprintln(answers, answer)
	}
	return "", fmt.Errorf("it ended before it was done: %v", lines.Err())
}

// Section 1's client flow by the official TypeScript SDK of MCP, from a bare
// 401, under each of the three grant sets: discovery, registration, approval,
// every kind of request, a refresh after 30 minutes, and a new authorization
// once the approval has ended.
func TestSpec1ClientFlowOfTheTypeScriptMCPSDK(t *testing.T) {
	t.Parallel()
	const read = "list_circles list_items list_people list_roles read_item whoami"
	for name, tt := range map[string]struct {
		choice []string
		tools  []string // some of those that are listed
		not    []string // some that are not
	}{
		"everything":           {everything, []string{"create_item", "delete_item"}, nil},
		"one role, to read":    {[]string{"organization", "nordlys", "grant", "roles", "role:nordlys-treasurer", "read"}, nil, []string{"create_item", "set_admin"}},
		"one role, to change":  {treasurer, []string{"change_item"}, []string{"set_admin"}},
		"the whole of Nordlys": {[]string{"organization", "nordlys", "grant", "organization"}, []string{"set_admin", "rename_organization"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tools := strings.Fields(drive(t, start(t), "mcp", tt.choice...))
			for _, tool := range append(strings.Fields(read), tt.tools...) {
				if !slices.Contains(tools, tool) {
					t.Errorf("%s is not listed: %v", tool, tools)
				}
			}
			for _, tool := range tt.not {
				if slices.Contains(tools, tool) {
					t.Errorf("%s is listed", tool)
				}
			}
		})
	}
}

// The same by its second line, which speaks the newest revision.
func TestSpec1ClientFlowOfTheSecondTypeScriptMCPSDK(t *testing.T) {
	t.Parallel()
	tools := strings.Fields(drive(t, start(t), "mcp2", treasurer...))
	if !slices.Contains(tools, "change_item") || slices.Contains(tools, "set_admin") {
		t.Errorf("tools: %v", tools)
	}
}

// The same by the first release that speaks streamable HTTP.
func TestSpec1ClientFlowOfAnOldTypeScriptMCPSDK(t *testing.T) {
	t.Parallel()
	drive(t, start(t), "mcpOld", treasurer...)
}

// The same by clients of OAuth that know nothing of this server: metadata,
// registration where they have it, PKCE, state, iss, exchange, refresh, a call,
// revocation, and the error after it.
func TestSpec1ClientFlowOfNodeClients(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, client := range []string{"oauth4webapi", "oauth4webapiDPoP", "openidClient", "openidClientDPoP", "openidClient5", "authJS", "simpleOAuth2", "badgateway"} {
		t.Run(client, func(t *testing.T) { drive(t, h, client, treasurer...) })
	}
}
