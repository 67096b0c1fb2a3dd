package doctor

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/gateway"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/provider"
	"github.com/grantkeeper/grantkeeper/server/servertest"
	"github.com/grantkeeper/grantkeeper/signin"
)

// others are the far ends of a configuration, each of which can be spoiled.
func others(t *testing.T) (*Examination, map[string]http.HandlerFunc) {
	t.Helper()
	answer := map[string]http.HandlerFunc{}
	mux := http.NewServeMux()
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	handle := func(path, text string) {
		answer[path] = func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		}
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) { answer[path](w, r) })
	}
	handle("/.well-known/openid-configuration", fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q}`,
		s.URL, s.URL+"/keys", s.URL+"/authorize", s.URL+"/token"))
	handle("/keys", `{"keys":[]}`)
	handle("/handoff", "")
	handle("/", "")
	handle("/mcp", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
	handle("/preview", `{"sets":[{},{"personal":{"count":0},"change":{"count":2,"titles":["40 rolls"]}}]}`)
	handle("/reports", "")
	handle("/tools", `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18"}}`)
	at, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(conn, "220 mail.example\r\n250 mail.example\r\n221 bye\r\n")
			conn.Close()
		}
	}()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	d := &Examination{Checked: config.Checked{Upstream: at, MCPUpstream: at.JoinPath("mcp"), PreviewURL: at.JoinPath("preview"), ServiceKey: []byte(gatewayKey),
		Guarded: []config.GuardedPath{{Resource: client.Resource{Path: "/reports"}, URL: at}, {Resource: client.Resource{Path: "/tools", MCP: true}, URL: at.JoinPath("tools")}}, HandOff: &signin.HandOff{URL: s.URL + "/handoff?key=hush"},
		Providers:  []provider.Config{{ID: "corp", Issuer: s.URL, ClientID: "us", ClientSecret: "hush"}},
		MailServer: &config.MailServer{Host: host, Port: port, User: "us", Password: "hush", From: mail.Address{Address: "a@b.example"}}}}
	return d, answer
}

// Each other that does not do its part is a fault with its name, and nothing
// secret is told.
func TestDoctorLooksOutside(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Error(w, "hush", code) }
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	says := func(kind, encoding, text string) func(*Examination, map[string]http.HandlerFunc) {
		return func(_ *Examination, a map[string]http.HandlerFunc) {
			a["/preview"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				if encoding != "" {
					w.Header().Set("Content-Encoding", encoding)
				}
				fmt.Fprint(w, text)
			}
		}
	}
	away := func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }
	for _, tt := range []struct {
		fault, text string
		spoil       func(*Examination, map[string]http.HandlerFunc)
	}{
		{"", "", func(*Examination, map[string]http.HandlerFunc) {}},
		{"", "", func(_ *Examination, a map[string]http.HandlerFunc) { a["/"], a["/handoff"] = away, away }},
		{"upstream", "does not take what service.key_file signs", func(_ *Examination, a map[string]http.HandlerFunc) { a["/"] = status(401) }},
		{"mcp-upstream", "does not take what service.key_file signs", func(_ *Examination, a map[string]http.HandlerFunc) { a["/mcp"] = status(401) }},
		{"mcp-upstream", "redirects", func(_ *Examination, a map[string]http.HandlerFunc) { a["/mcp"] = away }},
		{"mcp-upstream", "answers 404 to initialize", func(_ *Examination, a map[string]http.HandlerFunc) { a["/mcp"] = status(404) }},
		{"mcp-upstream", "answers 503", func(_ *Examination, a map[string]http.HandlerFunc) { a["/mcp"] = status(503) }},
		{"mcp-upstream", `"text/html"`, func(_ *Examination, a map[string]http.HandlerFunc) {
			a["/mcp"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/html; charset=utf-8")
			}
		}},
		{"mcp-upstream", "compresses", func(_ *Examination, a map[string]http.HandlerFunc) {
			a["/mcp"] = func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", "gzip") }
		}},
		{"", "", func(_ *Examination, a map[string]http.HandlerFunc) { // and the session that was begun is ended
			a["/mcp"] = func(w http.ResponseWriter, r *http.Request) {
				switch session := r.Header.Get("Mcp-Session-Id"); {
				case r.Method == http.MethodDelete && session == "s1":
				case r.Method == http.MethodPost && session == "":
					w.Header().Set("Content-Type", "text/event-stream")
					w.Header().Set("Mcp-Session-Id", "s1")
					fmt.Fprint(w, ": hello\r\n\r\nevent: message\r\nid: 0\r\ndata:\r\n\r\nid: 1\r\ndata: {\"id\":1,\"result\":{\"protocolVersion\":\"2025-06-18\"}}\r\n\r\n")
				default:
					t.Errorf("%s of session %q", r.Method, session)
				}
			}
		}},
		{"mcp-upstream", "does not answer initialize as MCP does", func(_ *Examination, a map[string]http.HandlerFunc) {
			a["/mcp"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"hush"}}`)
			}
		}},
		{"mcp-upstream", "does not answer initialize as MCP does", func(_ *Examination, a map[string]http.HandlerFunc) {
			a["/mcp"] = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprint(w, ": nothing comes\n\n")
			}
		}},
		{"mcp-upstream", "does not answer: ", func(d *Examination, _ map[string]http.HandlerFunc) {
			d.Checked.MCPUpstream = &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"}
		}},
		{"upstream", "answers 502", func(_ *Examination, a map[string]http.HandlerFunc) { a["/"] = status(502) }},
		{"upstream", "does not answer", func(d *Examination, _ map[string]http.HandlerFunc) {
			d.Checked.Upstream = &url.URL{Scheme: "http", Host: "127.0.0.1:1"}
		}},
		{"preview", "does not take what service.key_file signs", func(_ *Examination, a map[string]http.HandlerFunc) { a["/preview"] = status(401) }},
		{"preview", "it answers 302, which is not followed", func(_ *Examination, a map[string]http.HandlerFunc) { a["/preview"] = away }},
		{"preview", "pages say no numbers: it answers 204", func(_ *Examination, a map[string]http.HandlerFunc) {
			a["/preview"] = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204) }
		}},
		{"preview", "it answers 500", func(_ *Examination, a map[string]http.HandlerFunc) { a["/preview"] = status(500) }},
		{"preview", "connection refused", func(d *Examination, _ map[string]http.HandlerFunc) {
			d.Checked.PreviewURL = &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/hush"}
		}},
		{"preview", "it compresses its answer", says("application/json", "gzip", "{}")},
		{"preview", `it answers "text/html" and not application/json`, says("text/html", "", "{}")},
		{"preview", "it is not one JSON value", says("application/json", "", `{"sets":[`)},
		{"preview", `unknown member "note"`, says("application/json", "", `{"sets":[{},{"note":1}]}`)},
		{"preview", "count: 0 to 1000000000", says("application/json", "", `{"sets":[{},{"read":{"count":-1}}]}`)},
		{"preview", "sets: 2 were asked, not 1", says("application/json", "", `{"sets":[{}]}`)},
		{"preview", "it answers more than 65536 bytes", says("application/json", "", strings.Repeat(" ", 65537))},
		{"paths:/reports", "answers 502", func(_ *Examination, a map[string]http.HandlerFunc) { a["/reports"] = status(502) }},
		{"paths:/reports", "does not take what service.key_file signs", func(_ *Examination, a map[string]http.HandlerFunc) { a["/reports"] = status(401) }},
		{"paths:/tools", "answers 404 to initialize", func(_ *Examination, a map[string]http.HandlerFunc) { a["/tools"] = status(404) }},
		{"handoff", "answers 500", func(_ *Examination, a map[string]http.HandlerFunc) { a["/handoff"] = status(500) }},
		{"provider:corp", "metadata", func(_ *Examination, a map[string]http.HandlerFunc) {
			a["/.well-known/openid-configuration"] = status(503)
		}},
		{"provider:corp", "metadata", func(_ *Examination, a map[string]http.HandlerFunc) { a["/.well-known/openid-configuration"] = away }},
		{"provider:corp", "issuer", func(d *Examination, _ map[string]http.HandlerFunc) { d.Checked.Providers[0].Issuer += "/" }},
		{"provider:corp", "keys", func(_ *Examination, a map[string]http.HandlerFunc) { a["/keys"] = status(500) }},
		{"provider:corp", "keys", func(_ *Examination, a map[string]http.HandlerFunc) { a["/keys"] = away }},
		{"mail", "refused", func(d *Examination, _ map[string]http.HandlerFunc) { d.Checked.MailServer.Port = "1" }},
		{"mail", "mail server", func(d *Examination, _ map[string]http.HandlerFunc) { d.Checked.MailServer.TLS = true }},
	} {
		d, answer := others(t)
		tt.spoil(d, answer)
		d.outside = Outside{&d.Checked}.probes()
		d.askOutside(t.Context())
		all := d.Findings([]string{"upstream", "mcp-upstream", "paths", "preview", "provider", "handoff", "mail"})
		if len(all) != 8 {
			t.Fatalf("%d findings: %+v", len(all), all)
		}
		for _, f := range all {
			switch {
			case strings.HasPrefix(f.Name, "paths:") && f.Result == "ok" && !strings.Contains(f.Text, "beyond the contract"):
				t.Errorf("not said to leave the contract: %+v", f)
			case strings.Contains(f.Text+f.Fix, "hush"):
				t.Errorf("a secret is told: %+v", f)
			case f.Name != tt.fault && f.Result != "ok":
				t.Errorf("%s: %+v as well", tt.fault, f)
			case f.Name == tt.fault && (f.Result != "fail" || !strings.Contains(f.Text, tt.text) || f.Fix == ""):
				t.Errorf("%s: %+v, want %q", tt.fault, f, tt.text)
			}
		}
	}
}

// A preview is asked about nobody, as a page asks, and signed. One that is refused
// for that, and one that comes too late for a page, is a warning.
func TestDoctorAsksThePreview(t *testing.T) {
	for text, answer := range map[string]http.HandlerFunc{
		"it answers 404 when it is asked about nobody": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"to answer, and a page waits 300ms": func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(gateway.PreviewBudget)
			fmt.Fprint(w, `{"sets":[{},{}]}`)
		},
	} {
		d, all := others(t)
		asked := 0
		all["/preview"] = func(w http.ResponseWriter, r *http.Request) {
			asked++
			body, err := io.ReadAll(r.Body)
			who, fault := identity.VerifyCall(r.Header, identity.Call{Method: "POST", Target: "/preview", Body: body}, time.Now(), []byte(gatewayKey))
			q, unread := identity.ReadPreviewQuestion(body)
			if err := errors.Join(err, fault, unread); err != nil || who.Person+q.Person+q.Organization != "" || len(q.Sets) != 2 {
				t.Errorf("asked %s: %v", body, err)
			}
			w.Header().Set("Content-Type", "application/json")
			answer(w, r)
		}
		if f := (Outside{&d.Checked}).askPreview(t.Context()); f.Result != "warn" || !strings.Contains(f.Text, text) || f.Fix == "" {
			t.Errorf("%+v, want %q", f, text)
		}
		if slow := strings.Contains(text, "300ms"); slow && asked != previewTries || !slow && asked != 1 {
			t.Errorf("%s: asked %d times", text, asked)
		}
	}
}

// All that is asked of others is asked at once and given up together, after
// outsideWithin or when the command ends.
func TestDoctorBoundsWhatItAsks(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var asked sync.WaitGroup
			never := func(ctx context.Context) Finding {
				asked.Done()
				asked.Wait() // for the others: who asks one after the other stands here for ever
				if at, bounded := ctx.Deadline(); !bounded || !at.Equal(time.Now().Add(outsideWithin)) {
					t.Errorf("it ends at %v, bounded: %v", at, bounded)
				}
				if stopped {
					stop()
				}
				<-ctx.Done()
				return failed("", "%v", causeOf(ctx.Err()))
			}
			d := &Examination{outside: []*probe{{check: "upstream", ask: never}, {check: "mail", ask: never}, {check: "mail", ask: never}}}
			asked.Add(len(d.outside))
			d.askOutside(ctx)
			want := "not within 5s"
			if stopped {
				want = context.Canceled.Error()
			}
			for _, p := range d.outside {
				if p.found.Text != want {
					t.Errorf("%s: %+v, want %q", p.check, p.found, want)
				}
			}
		})
	}
}

// Whoever wants to know of the server alone does not wait for others, or trouble them.
func TestDoctorAsksTheServerAlone(t *testing.T) {
	for _, tt := range []struct {
		only   []string
		others bool
	}{{[]string{"server"}, false}, {nil, true}, {[]string{"server", "mail"}, true}} {
		d, _ := others(t)
		server := 0
		d.Ask(t.Context(), []string{d.Checked.Upstream.String()}, tt.only, func(context.Context) { server++ })
		if got := len(d.outside) > 0 && len(d.bases) == 1; server != 1 || got != tt.others || !got && len(d.outside)+len(d.bases) > 0 {
			t.Errorf("%q: the server %d times, %d others, %d base URLs", tt.only, server, len(d.outside), len(d.bases))
		}
	}
}

// A mail server that offers STARTTLS is spoken to over it, and believed by its
// certificate alone; nothing is sent, and nobody signs in.
func TestDoctorGreetsOverTLS(t *testing.T) {
	o := servertest.NewPostOffice(t)
	o.Server.User, o.Server.Password = "svalinn", "hush"
	certFile, keyFile, pool := certificate(t)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	shaken := make(chan struct{}, 9)
	o.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, VerifyConnection: func(tls.ConnectionState) error {
		shaken <- struct{}{}
		return nil
	}}
	if f := greeted(t.Context(), o.Server, nil); f.Result != "fail" || !strings.Contains(f.Text, "STARTTLS: ") || !strings.Contains(f.Text, "certificate") || f.Fix == "" {
		t.Errorf("a certificate that nobody knows: %+v", f)
	}
	for len(shaken) > 0 { // a server may be done before the client refuses
		<-shaken
	}
	if f := greeted(t.Context(), o.Server, pool); f.Result != "ok" || !strings.Contains(f.Text, "nothing was sent") {
		t.Errorf("one that is known: %+v", f)
	}
	select {
	case <-shaken:
	default:
		t.Error("it was spoken to in clear")
	}
	if len(o.Auths()) > 0 || len(o.Took) > 0 {
		t.Errorf("signed in by %v, %d mails", o.Auths(), len(o.Took))
	}
}
