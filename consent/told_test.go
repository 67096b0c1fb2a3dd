package consent

import (
	"cmp"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
)

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
