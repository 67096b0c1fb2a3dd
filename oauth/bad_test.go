package oauth

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

// Bad input gets a clear error and loses nothing: nothing is written, nothing
// used up, and no part of what was sent comes back.
func TestBadInput(t *testing.T) {
	const marker = "mArKeR"
	d := open(t)
	id, live, access, refresh := d.live()
	issued, code := d.approved(id)
	registration := `{"client_name":"` + marker + `","redirect_uris":["https://client.example/` + marker + `"]}`
	good := map[string][]string{
		"/oauth/token":    {exchangeForm(id, code).Encode(), refreshForm(id, refresh).Encode()},
		"/oauth/revoke":   {revokeForm(id, access).Encode(), revokeForm(id, refresh).Encode()},
		"/oauth/register": {registration},
	}
	type change func(r *http.Request, body string) string // gives the body that is sent
	header := func(name string, values ...string) change {
		return func(r *http.Request, body string) string { r.Header[name] = values; return body }
	}
	text := func(f func(body string) string) change {
		return func(_ *http.Request, body string) string { return f(body) }
	}
	put := func(f func(body string) io.Reader) change {
		return func(r *http.Request, body string) string {
			r.Body = io.NopCloser(f(body))
			r.ContentLength = -1
			return ""
		}
	}
	tests := []struct {
		name   string
		status int
		change change
	}{
		{"wrong method", 405, func(r *http.Request, body string) string { r.Method = "PUT"; return body }},
		{"no media type", 400, func(r *http.Request, body string) string { r.Header.Del("Content-Type"); return body }},
		{"wrong media type", 400, header("Content-Type", "text/"+marker)},
		{"media type of a form upload", 400, header("Content-Type", "multipart/form-data; boundary="+marker)},
		{"two media types", 400, func(r *http.Request, body string) string {
			r.Header.Add("Content-Type", r.Header.Get("Content-Type"))
			return body
		}},
		{"wrong charset", 400, func(r *http.Request, body string) string {
			r.Header.Set("Content-Type", r.Header.Get("Content-Type")+"; charset="+marker)
			return body
		}},
		{"compressed", 400, header("Content-Encoding", "gzip")},
		{"compressed, said in a second header", 400, header("Content-Encoding", "identity", "br")},
		{"empty", 400, text(func(string) string { return "" })},
		{"only white space", 400, text(func(string) string { return " \n" })},
		{"an array", 400, text(func(string) string { return `["` + marker + `"]` })},
		{"null", 400, text(func(string) string { return "null" })},
		{"cut off before its length is reached", 400, put(func(b string) io.Reader { return brokenBody{strings.NewReader(b)} })},
		{"cut off in the middle of an escape", 400, text(func(b string) string { return b[:len(b)/2] + "%" })},
		{"doubled", 400, text(func(b string) string { return b + "&" + b })},
		{"oversized", 400, text(func(b string) string { return b + "&a=" + strings.Repeat("a", maxBody) })},
		{"oversized by one byte", 400, text(func(b string) string { return b + strings.Repeat("&", maxBody+1-len(b)) })},
		{"endless", 400, put(func(b string) io.Reader { return io.MultiReader(strings.NewReader(b+"&a="), endless{}) })},
		{"with NUL", 400, text(func(b string) string { return b + "&" + marker + "=\x00" })},
		{"with NUL, escaped", 400, text(func(b string) string { return b + "&" + marker + "=%00" })},
		{"invalid UTF-8", 400, text(func(b string) string { return b + "&" + marker + "=\xff\xfe" })},
		{"invalid UTF-8, escaped", 400, text(func(b string) string { return b + "&" + marker + "=%c0%80" })},
		{"a thousand parameters", 400, text(func(b string) string { return b + strings.Repeat("&"+marker+"=", 1000) })},
		{"JSON, a hundred thousand deep", 400, text(func(string) string { return strings.Repeat("[", 50_000) })},
		{"JSON, deep in a member", 400, text(func(string) string {
			return `{"a":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + registration[1:]
		})},
		{"JSON, a member twice", 400, text(func(string) string { return `{"client_name":"` + marker + `",` + registration[1:] })},
		{"JSON, followed by more", 400, text(func(string) string { return registration + "{}" })},
		{"JSON, cut off", 400, text(func(string) string { return registration[:len(registration)-1] })},
		{"JSON with NUL", 400, text(func(string) string { return strings.Replace(registration, marker, marker+"\x00", 1) })},
		{"JSON with NUL, escaped", 400, text(func(string) string { return strings.Replace(registration, marker, marker+`\u0000`, 1) })},
		{"JSON with half a surrogate", 400, text(func(string) string { return strings.Replace(registration, marker, `\ud800`, 1) })},
		{"JSON in UTF-16", 400, text(func(string) string { return "\xff\xfe{\x00}\x00" })},
		{"JSON with a byte order mark", 400, text(func(string) string { return "\uFEFF" + registration })},
		{"JSON with broken UTF-8", 400, text(func(string) string { return strings.Replace(registration, marker, "\xc3(", 1) })},
	}
	before := d.events("")
	for path, bodies := range good {
		for i, body := range bodies {
			for _, tt := range tests {
				t.Run(fmt.Sprint(path, " ", i+1, ", ", tt.name), func(t *testing.T) {
					r := request("POST", path, body)
					changed := tt.change(r, body)
					if changed != "" || r.ContentLength >= 0 {
						r.Body, r.ContentLength = io.NopCloser(strings.NewReader(changed)), int64(len(changed))
					}
					w := d.send(r)
					want := "invalid_request"
					if got := readRefusal(t, w).Error; path == "/oauth/register" && w.Code == 400 && got != "invalid_redirect_uri" {
						want = "invalid_client_metadata" // decision R7
					} else if path == "/oauth/register" && w.Code == 400 {
						want = "invalid_redirect_uri"
					}
					wantRefusal(t, w, tt.status, want)
					if strings.Contains(strings.ToLower(w.Body.String()), strings.ToLower(marker)) {
						t.Errorf("what was sent came back: %s", w.Body)
					}
				})
			}
		}
	}
	d.wantState(live, approval.Live, 1, "")
	d.wantState(issued, approval.CodeIssued, 0, "")
	all, _, err := d.Store.Clients(context.Background(), store.ClientFilter{Limit: 10})
	if err != nil || len(all) != 1 {
		t.Errorf("%d clients, %v; want the one that was there", len(all), err)
	}
	for _, e := range d.events("")[:1] {
		if e.Kind != "registration_refused" || strings.Contains(e.Detail, marker) {
			t.Errorf("event %+v", e)
		}
	}
	if after := d.events(""); len(after) == len(before) {
		t.Error("no refused registration is in the journal")
	}
	if d.log.Len() > 0 {
		t.Errorf("logged: %s", d.log)
	}
	for path, bodies := range good { // all of it was right, but for one change each
		for _, body := range bodies {
			if w := d.send(request("POST", path, body)); w.Code >= 300 && path != "/oauth/token" {
				t.Errorf("%s afterwards: %d %s", path, w.Code, w.Body)
			}
		}
	}
}

// decision L5: 64 KiB and not one byte more, whether or not the request says
// how long it is.
func TestBodySize(t *testing.T) {
	d := open(t)
	id := d.registered()
	pad := func(body, with string, size int) string { return body + strings.Repeat(with, size-len(body)) }
	for _, length := range []string{"said", "not said"} {
		send := func(path, body string) int {
			r := request("POST", path, body)
			if length == "not said" {
				r.ContentLength = -1
			}
			return d.send(r).Code
		}
		_, code := d.approved(id)
		for _, tt := range []struct {
			path, body, padding string
			status              int
		}{
			{"/oauth/token", exchangeForm(id, code).Encode(), "&", 200},
			{"/oauth/revoke", revokeForm(id, "x").Encode(), "&", 200},
			{"/oauth/register", `{"redirect_uris":["https://client.example/cb"]}`, " ", 201},
		} {
			if got := send(tt.path, pad(tt.body, tt.padding, 64<<10+1)); got != 400 {
				t.Errorf("%s with one byte too many, length %s: %d, want 400", tt.path, length, got)
			}
			if got := send(tt.path, pad(tt.body, tt.padding, 64<<10)); got != tt.status {
				t.Errorf("%s with 64 KiB, length %s: %d, want %d", tt.path, length, got, tt.status)
			}
		}
	}
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/register"} {
		r := request("POST", path, "x")
		r.ContentLength, r.Body = 64<<10+1, io.NopCloser(unread{t})
		d.send(r)
	}
}

// unread is a body that nobody may touch.
type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("a body that is too large was read")
	return 0, io.EOF
}

// brokenBody ends before it should.
type brokenBody struct{ io.Reader }

func (b brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

// What was sent never comes back in an answer or a log, least of all a secret.
func TestNothingIsEchoed(t *testing.T) {
	d := open(t)
	id, _, access, refresh := d.live()
	_, code := d.approved(id)
	secrets := []string{code, access, refresh, rightProof, wrongProof, "mArKeR", "redirect.mArKeR", id}
	var forms []url.Values
	for _, f := range []url.Values{exchangeForm(id, code), refreshForm(id, access), revokeForm("mArKeR", refresh)} {
		for name := range f {
			forms = append(forms, with(f, name, "mArKeR"), with(f, name, code), with(f, name))
		}
		for _, name := range []string{"scope", "resource", "client_secret", "mArKeR", "token_type_hint"} {
			forms = append(forms, with(f, name, "https://redirect.mArKeR/", "mArKeR"), with(f, name, "mArKeR"))
		}
	}
	forms = append(forms, with(exchangeForm(id, code), "code_verifier", wrongProof))
	for _, path := range []string{"/oauth/token", "/oauth/revoke"} {
		for _, f := range forms {
			if path == "/oauth/revoke" && f.Get("token") != "" && f.Get("client_id") == id {
				continue
			}
			w := d.post(path, f)
			for _, s := range secrets {
				if w.Code != http.StatusOK && strings.Contains(w.Body.String()+fmt.Sprint(w.Header())+d.log.String(), s) {
					t.Fatalf("%s %v: %d %s has %q", path, f, w.Code, w.Body, s)
				}
			}
		}
	}
}

// The same over a real connection: lengths, HEAD, and a body that the server
// refuses before it was sent.
func TestOverTheWire(t *testing.T) {
	d := open(t)
	id := d.registered()
	_, code := d.approved(id)
	d.Base = func(*http.Request) string { return base }
	server := httptest.NewServer(d.handler)
	defer server.Close()

	resp, err := http.Head(server.URL + "/.well-known/oauth-authorization-server")
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != 200 || resp.ContentLength < 100 {
		t.Errorf("HEAD: %d with length %d", resp.StatusCode, resp.ContentLength)
	}
	for i := range 3 {
		resp, err := http.Post(server.URL+"/oauth/token", "application/x-www-form-urlencoded",
			io.MultiReader(strings.NewReader("a="), io.LimitReader(endless{}, 1<<20)))
		if err == nil {
			if resp.StatusCode != 400 {
				t.Errorf("oversized body %d: %d, want 400", i, resp.StatusCode)
			}
			resp.Body.Close()
		} else if !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
			t.Error(err) // the server may hang up while it is being sent more
		}
	}
	resp, err = http.PostForm(server.URL+"/oauth/token", exchangeForm(id, code))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || resp.ContentLength != int64(len(body)) {
		t.Errorf("%d %s with length %d, %v", resp.StatusCode, body, resp.ContentLength, err)
	}
}
