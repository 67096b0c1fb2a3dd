package consent

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/limit"
)

// The metrics are told how each sign-in went, a wrong second factor like a
// wrong password, and which requests were over the limit.
func TestCounts(t *testing.T) {
	s := newSite(t)
	app, _ := withApp(t, s.signedIn("ada"))
	s.pass(time.Minute)
	counts := map[string]int{}
	s.Count = func(endpoint, result string) { counts[endpoint+" "+result]++ }
	signin(s.browser().get("/signin"), "ada@nordlys.example", "wrong").want(422)
	p := signin(s.browser().get("/signin"), "ada@nordlys.example", password).follow()
	p.press("/signin/second", "code", "000000").want(422)
	p.press("/signin/second", "code", app.code()).want(303)
	signin(s.browser().get("/signin"), "tor@nordlys.example", password).want(303)
	s.AuthorizeLimit = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	s.browser().get(authorize())
	s.browser().get(authorize()).want(429)
	if got, want := fmt.Sprint(counts), "map[authorize limited:1 signin failed:2 signin ok:2]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The log is told the client of a request, once it is one, and the approval
// that was made.
func TestTell(t *testing.T) {
	s := newSite(t)
	var client string
	var of approval.ID
	s.Tell = func(_ http.ResponseWriter, c string, id approval.ID, _ string) {
		client, of = cmp.Or(c, client), cmp.Or(id, of)
	}
	ada := s.signedIn("ada")
	p := ada.get(authorize()).want(200)
	if client != "quill" || of != (approval.ID{}) {
		t.Errorf("asked: client %q, approval %s", client, of)
	}
	p.approve().sent(callback)
	if made := s.approvals("ada")[0].ID; of != made {
		t.Errorf("approved: %s, want %s", of, made)
	}
	client = ""
	if ada.get(authorize("client_id", "nobody")).want(400); client != "" {
		t.Errorf("client %q, which is none", client)
	}
}

// A browser that has no cookie has sent no form of ours, whatever its token is.
func TestNoCookie(t *testing.T) {
	s := newSite(t)
	r := httptest.NewRequest("POST", base+"/signin", nil)
	if v := s.visit(httptest.NewRecorder(), r); s.own(v, s.Ring.FormToken("")) {
		t.Error("a token of no cookie is taken")
	}
}
