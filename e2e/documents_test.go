package e2e

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/grantkeeper/grantkeeper/client/document"
	"github.com/grantkeeper/grantkeeper/devserver"
	"github.com/grantkeeper/grantkeeper/server/servertest"
)

const (
	metadataHost = "quill.example.com" // for which httptest has a certificate
	metadataURL  = "https://" + metadataHost + "/oauth/client.json"
)

// startTaking runs dev within the test, so that it can be led to a host on loopback
// where a client's metadata document is. It counts how often that is asked for.
func startTaking(t *testing.T, hosts ...string) (*house, *atomic.Int32) {
	t.Helper()
	asked := new(atomic.Int32)
	at := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"client_id":%q,"client_name":"Quill Assistant","redirect_uris":["http://127.0.0.1:33418/",%q],"token_endpoint_auth_method":"none","logo_uri":"https://quill.example.com/logo.png"}`,
			"https://"+r.Host+r.URL.Path, redirect)
	}))
	at.Config.ErrorLog = log.New(io.Discard, "", 0)
	at.StartTLS()
	t.Cleanup(at.Close)
	roots := x509.NewCertPool()
	roots.AddCert(at.Certificate())
	h := &house{t: t, stderr: new(servertest.Buffer), metadata: metadataURL}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan devserver.Ready, 1), make(chan error, 1)
	go func() {
		ended <- devserver.Run(ctx, devserver.Options{
			Listen: "127.0.0.1:0", OperatorListen: "127.0.0.1:0", LogLevel: "info", LogFormat: "text", MetadataDocuments: hosts,
			Documents: document.Options{Roots: roots,
				Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
					return []netip.Addr{netip.MustParseAddr("93.184.216.34")}, nil
				},
				Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, at.Listener.Addr().String())
				}},
		}, h.stderr, func(r devserver.Ready) { ready <- r })
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	select {
	case r := <-ready:
		h.base, h.operator, h.password, h.apiKeys = r.Server, r.Operator, r.Password, r.APIKeys
	case err := <-ended:
		ended <- err
		t.Fatalf("not ready: %v\n%s", err, h.stderr)
	}
	return h, asked
}

// Both lines of the official TypeScript SDK of MCP, unmodified, by their support of client
// ID metadata documents: discovery, no registration, approval, calls, a refresh, and a new
// authorization once the approval has ended. The document is fetched once an hour.
func TestClientIDMetadataDocumentOfTheTypeScriptMCPSDK(t *testing.T) {
	h, asked := startTaking(t, metadataHost)
	if supported := h.caller().get("/.well-known/oauth-authorization-server").json(t)["client_id_metadata_document_supported"]; supported != true {
		t.Errorf("client_id_metadata_document_supported is %v", supported)
	}
	for n, line := range []string{"mcp", "mcp2"} {
		tools := strings.Fields(drive(t, h, line, treasurer...))
		if !slices.Contains(tools, "change_item") || slices.Contains(tools, "set_admin") {
			t.Errorf("%s: tools: %v", line, tools)
		}
		clients := h.items("/v1/clients?query=" + metadataHost)
		if len(clients) != 1 || clients[0]["id"] != metadataURL || clients[0]["client_name"] != "Quill Assistant" || asked.Load() != int32(n+1) {
			t.Errorf("%s: clients %v, the document was asked for %d times", line, clients, asked.Load())
		}
		if uris := fmt.Sprint(clients[0]["redirect_uris"]); uris != "["+redirect+"]" {
			t.Errorf("%s: redirect URIs %s", line, uris)
		}
	}
	if all := h.items("/v1/clients?query=quill"); len(all) != 1 {
		t.Errorf("something has registered: %v", all)
	}
	live := len(h.items("/v1/approvals?state=live"))
	h.change("/v1/clients/"+url.PathEscape(metadataURL)+"/disable", `{"reason":"test"}`)
	a := h.caller().get("/oauth/authorize?" + h.flow(metadataURL).query())
	if left := h.items("/v1/approvals?state=live"); a.status != 400 || live == 0 || len(left) != 0 || asked.Load() != 2 {
		t.Errorf("disabled: %s, %d of %d approvals live, asked %d times", a, len(left), live, asked.Load())
	}
}

// Where they are not taken the metadata is silent, and the SDK registers.
func TestClientIDMetadataDocumentsAreOff(t *testing.T) {
	h, asked := startTaking(t)
	if a := h.caller().get("/.well-known/oauth-authorization-server"); strings.Contains(a.body, "client_id_metadata_document") {
		t.Errorf("the metadata has %s", a)
	}
	h.metadata = ""
	drive(t, h, "mcp", treasurer...)
	f := h.flow(metadataURL)
	a := h.caller().get("/oauth/authorize?" + f.query())
	if a.status != 400 || asked.Load() != 0 {
		t.Errorf("%s, asked %d times", a, asked.Load())
	}
}
