package devserver

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/grantkeeper/grantkeeper/config"
	"github.com/grantkeeper/grantkeeper/page"
	"github.com/grantkeeper/grantkeeper/server"
	"github.com/grantkeeper/grantkeeper/terminal"
)

const (
	DevClientID = "dev-client"

	// maxFlows bounds what dev's client remembers; the oldest goes first.
	maxFlows = 200
)

// devClient is dev's own client: a page that goes through an authorization in
// the browser, step by step, and shows each request and its answer. It is a
// client like any other, and talks to the server over HTTP.
type devClient struct {
	address string // of the public listener
	log     *slog.Logger
	http    *http.Client
	pages   *page.Site
	items   bool // those of the demo are there
	version string

	mu    sync.Mutex
	flows []*flow // the oldest first
}

// flow is one go through the steps. Its secrets stay on this side.
type flow struct {
	mu       sync.Mutex
	ID       string // names the flow in the page's address
	base     string
	state    string
	verifier string
	issuer   string // as the metadata says

	access, refresh, used string // used is a refresh token that was sent already
	revoked               bool

	Listed          bool     // the tools were asked for
	Tools           []string // that were listed
	Tool, Arguments string   // called last

	Authorize string // where the browser goes next; "" afterwards
	Params    []param
	Steps     []exchange
}

type param struct{ Name, Value, Why string }

// exchange is one request and its answer, with secrets shortened.
type exchange struct {
	Title   string
	Says    string // what it means
	Request string
	Status  string
	Answer  string
	Why     string // of a refusal
	Edit    string // where the person can give what was missing; "" is nowhere
	Good    bool   // it went as a client hopes
}

// RequestLines and AnswerLines are for showing: they wrap on small screens and
// keep their indentation.
func (e exchange) RequestLines() []string { return shown(e.Request) }

// AnswerLines are the answer's.
func (e exchange) AnswerLines() []string { return shown(e.Answer) }

// Long tells an answer that is folded at first.
func (e exchange) Long() bool { return strings.Count(e.Answer, "\n") > 12 }

func shown(text string) []string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range all {
		rest := strings.TrimLeft(line, " ")
		all[i] = strings.Repeat("\u00a0", len(line)-len(rest)) + rest
	}
	return all
}

func newDevClient(address string, log *slog.Logger) *devClient {
	d := &devClient{address: address, log: log}
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	d.http = &http.Client{
		Timeout:       10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// Whatever host the page was asked under, the requests go to this
		// server and nowhere else.
		Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, address)
		}},
	}
	return d
}

// anyLoopback are the hosts that dev answers for.
var anyLoopback = config.LoopbackHosts()

// bases are where the page can be used: the client is registered for them.
func (d *devClient) bases() []string {
	_, port, _ := net.SplitHostPort(d.address)
	return []string{anyLoopback.Base(d.address), anyLoopback.Base("localhost:" + port)}
}

func (d *devClient) redirectURIs() []string {
	var all []string
	for _, base := range d.bases() {
		all = append(all, base+server.DevPath)
	}
	return all
}

// handler gives the page in the look of the pages that people see.
func (d *devClient) handler(pages *page.Site) http.Handler {
	d.pages = pages
	crossSite := http.NewCrossOriginProtection()
	return crossSite.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Referrer-Policy", "same-origin")
		base := anyLoopback.Base(r.Host)
		if !slices.Contains(d.bases(), base) { // a name that the client is not registered for
			http.Redirect(w, r, d.bases()[0]+server.DevPath, http.StatusSeeOther)
			return
		}
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			d.get(w, r)
		case http.MethodPost:
			d.post(w, r, base)
		default:
			w.Header().Set("Allow", "GET, HEAD, POST")
			http.Error(w, "this page takes GET and POST", http.StatusMethodNotAllowed)
		}
	}))
}

//go:embed client.html
var devClientHTML string

var devClientPage = template.Must(template.New("content").Parse(devClientHTML))

// devPage is what the page shows. Of these, the parameters of the callback are
// anybody's text.
type devPage struct {
	Flow  *flow
	Fault string
	Can   map[string]bool // which buttons there are
	Watch *watched        // another client, in place of a walk
}

func (d *devClient) get(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch {
	case q.Has("state") || q.Has("code") || q.Has("error"):
		d.callback(w, r, q)
	case q.Get("flow") != "":
		f := d.find(func(f *flow) bool { return f.ID == q.Get("flow") })
		if f == nil {
			d.show(w, r, devPage{Fault: "This walk is over, or the server was started again. Begin a new one."})
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		d.show(w, r, d.page(f))
	case q.Has("watch"):
		d.watch(w, r, q)
	default:
		d.show(w, r, devPage{})
	}
}

func (d *devClient) page(f *flow) devPage {
	return devPage{Flow: f, Can: map[string]bool{
		"call": f.access != "", "tools": f.access != "", "read": d.items && f.access != "", "change": d.items && f.access != "", "refresh": f.refresh != "", "reuse": f.used != "", "revoke": f.refresh != "" && !f.revoked,
	}}
}

func (d *devClient) show(w http.ResponseWriter, r *http.Request, p devPage) {
	status := http.StatusOK
	if p.Fault != "" {
		status = http.StatusBadRequest
	}
	content, err := devClientPage.Clone() // each page escapes its own
	if err == nil {
		err = d.pages.Page(w, r, status, "A client's view", content, p)
	}
	if err != nil {
		d.log.Error("page", "route", server.DevPath, "err", err)
		http.Error(w, "something went wrong here", http.StatusInternalServerError)
	}
}

func (d *devClient) find(is func(*flow) bool) *flow {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.IndexFunc(d.flows, is); i >= 0 {
		return d.flows[i]
	}
	return nil
}

func (d *devClient) post(w http.ResponseWriter, r *http.Request, base string) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	do, id := r.PostFormValue("do"), r.PostFormValue("flow")
	f := d.find(func(f *flow) bool { return f.ID == id })
	if do == "start" {
		f = d.begin(base)
	}
	if f == nil {
		d.show(w, r, devPage{Fault: "This walk is over, or the server was started again. Begin a new one."})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch can := d.page(f).Can; {
	case do == "start":
		d.discover(r.Context(), f)
	case do == "call" && can[do]:
		d.call(r.Context(), f)
	case do == "tools" && can[do]:
		d.tools(r.Context(), f)
	case do == "tool" && can["tools"]:
		d.callTool(r.Context(), f, r.PostForm)
	case do == "read" && can[do]:
		d.readPrivate(r.Context(), f)
	case do == "change" && can[do]:
		d.change(r.Context(), f)
	case do == "refresh" && can[do]:
		d.refreshing(r.Context(), f)
	case do == "reuse" && can[do]:
		d.reuse(r.Context(), f)
	case do == "revoke" && can[do]:
		d.revoke(r.Context(), f)
	}
	http.Redirect(w, r, server.DevPath+"?flow="+url.QueryEscape(f.ID)+"#latest", http.StatusSeeOther)
}

func (d *devClient) begin(base string) *flow {
	f := &flow{base: base, ID: oauth2.GenerateVerifier(), state: oauth2.GenerateVerifier(), verifier: oauth2.GenerateVerifier()}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.flows) == maxFlows {
		d.flows = slices.Delete(d.flows, 0, 1)
	}
	d.flows = append(d.flows, f)
	return f
}

// discover reads the metadata and makes the address that the browser goes to.
func (d *devClient) discover(ctx context.Context, f *flow) {
	answer := d.do(ctx, f, exchange{Title: "Discover the server",
		Says: "The metadata say where everything is. A client that you register itself would now send POST /oauth/register, once; this one is set up."},
		http.MethodGet, f.base+"/.well-known/oauth-authorization-server", "", "")
	authorize, _ := answer["authorization_endpoint"].(string)
	f.issuer, _ = answer["issuer"].(string)
	if authorize == "" || f.issuer != f.base {
		return // the answer is shown
	}
	f.Params = []param{
		{"response_type", "code", "the only value"},
		{"client_id", DevClientID, "from registration"},
		{"redirect_uri", f.base + server.DevPath, "this page; exactly as registered"},
		{"code_challenge", oauth2.S256ChallengeFromVerifier(f.verifier), "the hash of a secret that stays with the client (PKCE)"},
		{"code_challenge_method", "S256", "the only value"},
		{"state", f.state, "unguessable; checked when the browser comes back"},
	}
	q := url.Values{}
	for i, p := range f.Params {
		q.Set(p.Name, p.Value)
		f.Params[i].Value = terminal.Shorten(p.Value)
	}
	f.Params[2].Value = f.base + server.DevPath
	f.Authorize = authorize + "?" + q.Encode()
}

// callback is the browser coming back. The code is exchanged once; the page
// that follows has nothing secret in its address.
func (d *devClient) callback(w http.ResponseWriter, r *http.Request, q url.Values) {
	f := d.find(func(f *flow) bool { return f.state == q.Get("state") })
	if f == nil {
		d.show(w, r, devPage{Fault: "Somebody sent you here with a state that this client did not make. A client stops at this point."})
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Authorize != "" { // else it came back before
		f.Authorize, f.Params = "", nil
		d.cameBack(r.Context(), f, q)
	}
	http.Redirect(w, r, server.DevPath+"?flow="+url.QueryEscape(f.ID)+"#latest", http.StatusSeeOther)
}

func (d *devClient) cameBack(ctx context.Context, f *flow, q url.Values) {
	back := exchange{Title: "The browser comes back", Status: "state and iss are right", Good: true,
		Says: "iss names the server that answered (RFC 9207); it must be the one that was asked."}
	for _, name := range []string{"code", "state", "iss", "error", "error_description"} {
		if v := q.Get(name); v != "" {
			if name == "code" || name == "state" {
				v = terminal.Shorten(v)
			}
			back.Request += name + "=" + v + "\n"
		}
	}
	switch {
	case q.Get("iss") != f.issuer:
		back.Status, back.Good = "iss is not this server: a client stops here", false
	case q.Get("error") != "":
		back.Status, back.Good = "no code: "+q.Get("error"), false
	}
	f.Steps = append(f.Steps, back)
	if q.Get("iss") != f.issuer || q.Get("error") != "" {
		return
	}
	d.token(ctx, f, exchange{Title: "Exchange the code",
		Says: "The verifier proves that this client began the walk. The code works once, for 5 minutes."},
		url.Values{"grant_type": {"authorization_code"}, "client_id": {DevClientID}, "code": {q.Get("code")},
			"redirect_uri": {f.base + server.DevPath}, "code_verifier": {f.verifier}})
}

// token sends a request to the token endpoint and keeps what it gives.
func (d *devClient) token(ctx context.Context, f *flow, e exchange, form url.Values) {
	answer := d.do(ctx, f, e, http.MethodPost, f.base+"/oauth/token", form.Encode(), "application/x-www-form-urlencoded")
	access, _ := answer["access_token"].(string)
	refresh, _ := answer["refresh_token"].(string)
	if access != "" && refresh != "" {
		f.used, f.access, f.refresh = f.refresh, access, refresh
	}
}

func (d *devClient) call(ctx context.Context, f *flow) {
	d.do(ctx, f, exchange{Title: "Call the API", Says: "Any endpoint of API v5 takes the access token, the MCP one too; this one says who it acts for. It works for 30 minutes."},
		http.MethodGet, f.base+"/api/v5/me", "", "")
}

// The demo items that the page asks for, both of Nordlys's Treasurer.
const (
	devPrivateItem = "nordlys-salary-bands-under-discussion" // a note, private to the circle
	devOpenItem    = "nordlys-renew-the-domain"              // an action that every member sees
)

func (d *devClient) readPrivate(ctx context.Context, f *flow) {
	d.do(ctx, f, exchange{Title: "Read a private item", Says: "A note of Nordlys's Treasurer, private to its circle. It is there for an approval with a role of that circle; for every other one it does not exist."},
		http.MethodGet, f.base+"/api/v5/notes/"+devPrivateItem, "", "")
}

func (d *devClient) change(ctx context.Context, f *flow) {
	d.do(ctx, f, exchange{Title: "Change an item", Says: "An action of Nordlys's Treasurer. Every member can read it; to change it, the approval needs that role with change access, or more."},
		http.MethodPatch, f.base+"/api/v5/actions/"+devOpenItem, `{"status":"done"}`, "application/json")
}

func (d *devClient) refreshing(ctx context.Context, f *flow) {
	d.token(ctx, f, exchange{Title: "Refresh", Says: "Both tokens are new. The refresh token that was sent is used up at once."},
		url.Values{"grant_type": {"refresh_token"}, "client_id": {DevClientID}, "refresh_token": {f.refresh}})
}

func (d *devClient) reuse(ctx context.Context, f *flow) {
	d.token(ctx, f, exchange{Title: "Send an old refresh token", Says: "Only a copy can do this, so it counts as theft: every token of this approval ends. Call the API, and see."},
		url.Values{"grant_type": {"refresh_token"}, "client_id": {DevClientID}, "refresh_token": {f.used}})
}

func (d *devClient) revoke(ctx context.Context, f *flow) {
	form := url.Values{"client_id": {DevClientID}, "token": {f.refresh}}
	d.do(ctx, f, exchange{Title: "Revoke", Says: "Any token of the client ends the whole approval. A person can do the same under Connected apps."},
		http.MethodPost, f.base+"/oauth/revoke", form.Encode(), "application/x-www-form-urlencoded")
	f.revoked = true
}

// do sends one request, remembers it with its answer, and gives the answer's
// members if it is JSON.
func (d *devClient) do(ctx context.Context, f *flow, e exchange, method, address, body, kind string) map[string]any {
	r, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(body))
	if err != nil {
		return f.failed(e, err)
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	if strings.HasPrefix(r.URL.Path, "/api/v5/") {
		r.Header.Set("Accept", "application/json, text/event-stream")
		r.Header.Set("Authorization", "Bearer "+f.access)
	}
	e.Request = requestText(r, body)
	answer, err := d.http.Do(r)
	if err != nil {
		return f.failed(e, err)
	}
	defer answer.Body.Close()
	content, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return f.failed(e, err)
	}
	e.Status, e.Good = answer.Status, answer.StatusCode < 300
	for _, name := range []string{"Www-Authenticate", "Retry-After"} {
		if v := answer.Header.Get(name); v != "" {
			e.Answer += name + ": " + v + "\n\n"
		}
	}
	e.Answer = terminal.ShortenSecrets(e.Answer + pretty(content))
	f.Steps = append(f.Steps, e)
	var members map[string]any
	_ = json.Unmarshal(content, &members) // what is no object has no members
	return members
}

// requestText is a request as the page shows it.
func requestText(r *http.Request, body string) string {
	text := r.Method + " " + r.URL.Path + "\n"
	for _, name := range []string{"Content-Type", "Authorization"} {
		if v := r.Header.Get(name); v != "" {
			text += name + ": " + v + "\n"
		}
	}
	if body != "" {
		text += "\n" + strings.ReplaceAll(body, "&", "\n&")
	}
	return terminal.ShortenSecrets(text)
}

func (f *flow) failed(e exchange, err error) map[string]any {
	e.Status = fmt.Sprintf("no answer: %v", err)
	f.Steps = append(f.Steps, e)
	return nil
}

func pretty(content []byte) string {
	var b bytes.Buffer
	if json.Indent(&b, content, "", "  ") != nil {
		return string(content)
	}
	return b.String()
}
