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
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

// The metrics are told how each sign-in went, a wrong second factor like a
// wrong password, and which requests were over the limit.
func TestCounts(t *testing.T) {
	s := newSite(t)
	app, _ := pagetest.WithApp(t, s.SignedIn("ada"))
	s.Pass(time.Minute)
	counts := map[string]int{}
	s.Count = func(endpoint, result string) { counts[endpoint+" "+result]++ }
	pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", "wrong").Want(422)
	p := pagetest.SignIn(s.Browser().Get("/signin"), "ada@nordlys.example", pagetest.Password).Follow()
	p.Press("/signin/second", "code", "000000").Want(422)
	p.Press("/signin/second", "code", app.Code()).Want(303)
	pagetest.SignIn(s.Browser().Get("/signin"), "tor@nordlys.example", pagetest.Password).Want(303)
	s.AuthorizeLimit = limit.NewAddresses(limit.Limit{N: 1, Window: time.Minute}, nil)
	s.Browser().Get(pagetest.Authorize())
	s.Browser().Get(pagetest.Authorize()).Want(429)
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
	ada := s.SignedIn("ada")
	p := ada.Get(pagetest.Authorize()).Want(200)
	if client != "quill" || of != (approval.ID{}) {
		t.Errorf("asked: client %q, approval %s", client, of)
	}
	p.Approve().Sent(pagetest.Callback)
	if made := s.Approvals("ada")[0].ID; of != made {
		t.Errorf("approved: %s, want %s", of, made)
	}
	client = ""
	if ada.Get(pagetest.Authorize("client_id", "nobody")).Want(400); client != "" {
		t.Errorf("client %q, which is none", client)
	}
}

// A browser that has no cookie has sent no form of ours, whatever its token is.
func TestNoCookie(t *testing.T) {
	s := newSite(t)
	r := httptest.NewRequest("POST", pagetest.Base+"/signin", nil)
	if v := s.Visit(httptest.NewRecorder(), r); s.Own(v, s.Ring.FormToken("")) {
		t.Error("a token of no cookie is taken")
	}
}
