package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/identity"
)

// The service behind api.upstream can ask that the headers were signed for the
// call that it gets, as it gets it.
func TestUpstreamSignsTheCall(t *testing.T) {
	var b *behind
	b = newBehind(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if len(r.Header[identity.HeaderCall]) != 1 {
			t.Errorf("%s %s: %q", r.Method, r.RequestURI, r.Header[identity.HeaderCall])
		}
		now := b.api.Store.Now()
		call := identity.Call{Method: r.Method, Target: r.RequestURI, Body: body}
		verified := func(c identity.Call) string {
			if _, err := identity.VerifyCall(r.Header, c, now, []byte(upstreamKey)); err != nil {
				return "no"
			}
			return "yes"
		}
		all := []string{verified(call)}
		call.Unread = true
		all = append(all, verified(call))
		call.Method += "X"
		io.WriteString(w, strings.Join(append(all, verified(call)), " "))
	}, nil)
	small, large := strings.Repeat("a", maxHeld), strings.Repeat("a", maxHeld+1)
	for _, c := range []struct {
		method, path string
		body         io.Reader
		want         string // with its body, without it, and as another method
	}{
		{"GET", "/api/v5/notes", nil, "yes yes no"},
		{"GET", "/api/v5/notes?", nil, "yes yes no"},
		{"GET", "/api/v5/notes?a=b&a=%20;c&%", nil, "yes yes no"},
		{"GET", "/api/v5/a%2Fb%c3%a9?x=%2F", nil, "yes yes no"},
		{"DELETE", "/api/v5/notes/1", nil, "yes yes no"},
		{"POST", "/api/v5/notes", strings.NewReader(`{"title":"x"}`), "yes yes no"},
		{"POST", "/api/v5/notes", strings.NewReader(""), "yes yes no"},
		{"PUT", "/api/v5/notes", strings.NewReader(small), "yes yes no"},
		{"PUT", "/api/v5/notes", strings.NewReader(large), "no yes no"},
		{"POST", "/api/v5/notes", io.MultiReader(strings.NewReader("a"), strings.NewReader("b")), "yes yes no"}, // of unknown length
	} {
		a := b.call(c.method, c.path, c.body, identity.HeaderCall, "body=-,v1=00")
		text, err := io.ReadAll(a.Body)
		if a.StatusCode != 200 || string(text) != c.want || err != nil {
			t.Errorf("%s %s: %d %q %v, want %q", c.method, c.path, a.StatusCode, text, err, c.want)
		}
	}
}

// Under forward-auth the call is signed where the proxy says its method, without
// its body. A method that is none, or two, is not signed and refuses nothing.
func TestForwardAuthSignsTheCall(t *testing.T) {
	h := newHouse(t)
	access := h.live("ada", selected).access
	for _, c := range []struct {
		name    string
		path    string
		headers []string
		method  string // "" is not signed
	}{
		{"by X-Original-Method", "", []string{"X-Original-URI", "/api/v5/notes?a=b", "X-Original-Method", "POST"}, "POST"},
		{"by X-Forwarded-Method", "", []string{"X-Forwarded-Uri", "/api/v5/notes?a=b", "X-Forwarded-Method", "PUT"}, "PUT"},
		{"by both alike", "", []string{"X-Original-URI", "/api/v5/notes?a=b", "X-Original-Method", "PUT", "X-Forwarded-Method", "PUT"}, "PUT"},
		{"by its own method", "/api/v5/notes?a=b", nil, "GET"},
		{"its own method counts there", "/api/v5/notes?a=b", []string{"X-Original-Method", "POST"}, "GET"},
		{"by none", "", []string{"X-Original-URI", "/api/v5/notes?a=b"}, ""},
		{"by two", "", []string{"X-Original-URI", "/api/v5/notes?a=b", "X-Original-Method", "PUT", "X-Forwarded-Method", "POST"}, ""},
		{"by what is none", "", []string{"X-Original-URI", "/api/v5/notes?a=b", "X-Original-Method", "a b"}, ""},
	} {
		w := send(t, h.handler, "GET", forwardAuthPath+c.path, "", append(c.headers, "X-Gateway-Key", forwards, "Authorization", "Bearer "+access)...)
		if w.Code != 200 {
			t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
			continue
		}
		call := identity.Call{Method: c.method, Target: "/api/v5/notes?a=b", Unread: true}
		_, err := identity.VerifyCall(w.Header(), call, time.Unix(h.api.Store.Now().Unix(), 0), []byte(forwards))
		if signed := w.Header().Get(identity.HeaderCall) != ""; signed != (c.method != "") || signed && err != nil {
			t.Errorf("%s: signed %v, %v", c.name, signed, err)
		}
		call.Unread = false
		if _, err := identity.VerifyCall(w.Header(), call, h.api.Store.Now(), []byte(forwards)); err == nil {
			t.Errorf("%s: a body is signed that nobody saw", c.name)
		}
	}
}
