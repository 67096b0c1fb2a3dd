package client

import (
	"slices"
	"strings"
	"testing"
)

// What products send when they register, as public issue threads and sources of 2025 and
// 2026 show it, and what becomes of it: docs/connecting.md says so product by product. A
// registration is for this server alone, so one URI that is refused refuses it (spec 2.1).
func TestRegistrationsOfProducts(t *testing.T) {
	for _, tt := range []struct{ product, body, name, refused string }{
		{"Claude", `{"client_name":"Claude","grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","scope":"claudeai","redirect_uris":["https://claude.ai/api/mcp/auth_callback"]}`, "Claude", ""},
		{"Claude, which would have a secret", `{"client_name":"Claude","grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"client_secret_post","redirect_uris":["https://claude.ai/api/mcp/auth_callback"]}`, "Claude", ""},
		{"ChatGPT", `{"client_name":"ChatGPT","client_uri":"https://chatgpt.com/","redirect_uris":["https://chatgpt.com/connector/oauth/OUbdUMlL15Ct"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`, "ChatGPT", ""},
		{"Copilot Studio", `{"client_name":"orders","redirect_uris":["https://global.consent.azure-apim.net/redirect/mvp-5forders-5fdfde809e1caf448f"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"client_secret_post"}`, "orders", ""},
		{"Le Chat", `{"client_name":"Mistral","redirect_uris":["https://callback.mistral.ai/v1/integrations_auth/oauth2_callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`, "Mistral", ""},
		{"Cursor", `{"client_name":"Cursor","redirect_uris":["cursor://anysphere.cursor-mcp/oauth/callback","https://www.cursor.com/agents/mcp/oauth/callback","http://localhost:8787/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`, "", InvalidRedirectURI},
		{"VS Code", `{"client_name":"Visual Studio Code","client_uri":"https://code.visualstudio.com","grant_types":["authorization_code","refresh_token","urn:ietf:params:oauth:grant-type:device_code"],"response_types":["code"],"redirect_uris":["https://insiders.vscode.dev/redirect","https://vscode.dev/redirect","http://127.0.0.1/","http://127.0.0.1:33418/"],"token_endpoint_auth_method":"none","application_type":"native"}`, "", InvalidRedirectURI},
		{"Claude Code", `{"client_name":"Claude Code (orders)","redirect_uris":["http://localhost:56648/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`, "", InvalidRedirectURI},
		{"Codex", `{"client_name":"Codex","redirect_uris":["http://127.0.0.1:33418/callback/h1nT0fAnId"],"grant_types":["authorization_code","refresh_token"],"token_endpoint_auth_method":"none","response_types":["code"]}`, "", InvalidRedirectURI},
		{"Gemini CLI", `{"client_name":"Gemini CLI MCP Client","redirect_uris":["http://localhost:7777/oauth/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","scope":""}`, "", InvalidRedirectURI},
		{"MCP Inspector", `{"redirect_uris":["http://localhost:6274/oauth/callback"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"],"response_types":["code"],"client_name":"MCP Inspector","client_uri":"https://github.com/modelcontextprotocol/inspector"}`, "", InvalidRedirectURI},
		{"mcp-remote", `{"redirect_uris":["http://localhost:3334/oauth/callback"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"],"response_types":["code"],"client_name":"MCP CLI Proxy","software_id":"2e6dc280-f3c3-4e01-99a7-8181dbd1d23d","software_version":"0.1.38"}`, "", InvalidRedirectURI},
		{"an app of its own scheme", `{"client_name":"Claude","redirect_uris":["claude://claude.ai/mcp-auth-callback"]}`, "", InvalidRedirectURI},
	} {
		m, refusal := ParseMetadata([]byte(tt.body), []string{"app.example.com"})
		switch {
		case refusal == nil && tt.refused != "":
			t.Errorf("%s is registered with %v", tt.product, m.RedirectURIs)
		case refusal != nil && (refusal.Code != tt.refused || refusal.Description == ""):
			t.Errorf("%s: %s (%s), want %q", tt.product, refusal.Code, refusal.Description, tt.refused)
		case refusal == nil && (m.Name != tt.name || len(m.RedirectURIs) != 1 || !strings.HasPrefix(m.RedirectURIs[0], "https://")):
			t.Errorf("%s is registered as %+v", tt.product, m)
		}
	}
}

// The metadata documents of products, as threads of 2026 show them, and what of them
// counts here (decision R8).
func TestDocumentsOfProducts(t *testing.T) {
	for _, tt := range []struct {
		id, body string
		uris     []string
		fault    DocumentFault
	}{
		{"https://claude.ai/oauth/mcp-oauth-client-metadata", `{"client_id":"https://claude.ai/oauth/mcp-oauth-client-metadata","client_name":"Claude","client_uri":"https://claude.ai","redirect_uris":["https://claude.ai/api/mcp/auth_callback","https://claude.com/api/mcp/auth_callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`,
			[]string{"https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"}, 0},
		{"https://chatgpt.com/oauth/client.json", `{"client_id":"https://chatgpt.com/oauth/client.json","client_uri":"https://chatgpt.com/","redirect_uris":["https://chatgpt.com/connector_platform_oauth_redirect"],"token_endpoint_auth_method":"private_key_jwt","token_endpoint_auth_methods_supported":["none","private_key_jwt"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"client_name":"ChatGPT","token_endpoint_auth_signing_alg":"RS256","jwks_uri":"https://chatgpt.com/oauth/jwks.json"}`,
			[]string{"https://chatgpt.com/connector_platform_oauth_redirect"}, 0},
		{"https://chatgpt.com/oauth/kDmjx77UnKOM/client.json", `{"client_id":"https://chatgpt.com/oauth/kDmjx77UnKOM/client.json","redirect_uris":["https://chatgpt.com/connector/oauth/kDmjx77UnKOM"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"client_name":"ChatGPT","token_endpoint_auth_method":"private_key_jwt","token_endpoint_auth_signing_alg":"RS256","jwks_uri":"https://chatgpt.com/oauth/jwks.json"}`,
			nil, NotPublic},
		{"https://vscode.dev/oauth/client-metadata.json", `{"client_name":"Visual Studio Code","grant_types":["authorization_code","refresh_token","urn:ietf:params:oauth:grant-type:device_code"],"response_types":["code"],"redirect_uris":["http://127.0.0.1/","http://127.0.0.1:33418/","https://vscode.dev/redirect"],"token_endpoint_auth_method":"none","application_type":"native","client_id":"https://vscode.dev/oauth/client-metadata.json","client_uri":"https://vscode.dev/product"}`,
			[]string{"https://vscode.dev/redirect"}, 0},
		{"https://claude.ai/oauth/claude-code-client-metadata", `{"client_id":"https://claude.ai/oauth/claude-code-client-metadata","client_name":"Claude Code","redirect_uris":["http://localhost/callback","http://127.0.0.1/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none"}`,
			nil, NoRedirectURI},
		{"https://opencode.ai/oauth/opencode/client.json", `{"client_id":"https://opencode.ai/oauth/opencode/client.json","client_name":"opencode","application_type":"native","redirect_uris":["http://127.0.0.1/callback","http://localhost/callback"],"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","token_endpoint_auth_methods_supported":["none"]}`,
			nil, NoRedirectURI},
	} {
		if _, err := DocumentHost(tt.id, []string{"app.example.com"}); err != nil {
			t.Errorf("%s: %v", tt.id, err)
		}
		m, bad := ParseDocument(tt.id, []byte(tt.body), []string{"app.example.com"})
		var fault DocumentFault
		if bad != nil {
			fault = bad.Fault
		}
		if fault != tt.fault || !slices.Equal(m.RedirectURIs, tt.uris) {
			t.Errorf("%s: %v, %v", tt.id, m.RedirectURIs, bad)
		}
	}
}
