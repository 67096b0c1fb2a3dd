package console

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/activity"
	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/identity"
	"github.com/grantkeeper/grantkeeper/operator"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/token"
)

// Clients are added and deleted, and those that nobody approved deleted together,
// after they were counted.
func TestClientsAreAddedAndDeleted(t *testing.T) {
	o, _, _ := withNamed(t)
	b := o.signedIn("ingrid")
	to := b.goesThrough("/add-client", "id", "assistant", "name", "Assistant", "uris", "https://assistant.example/cb\r\nhttps://assistant.example/other", "reason", "ours").want(303).head.Get("Location")
	b.asks("GET", to, nil).want(200).says("Assistant is added.", "Preregistered", "https://assistant.example/other", "Delete…")
	b.goesThrough("/add-client", "id", "assistant", "name", "Other", "uris", "https://assistant.example/cb", "reason", "x").want(409).says("There is another client with this ID.")
	b.goesThrough("/add-client", "id", "bad", "name", "Bad", "uris", "http://bad.example/cb", "reason", "kept").want(400).says("kept")
	b.goesThrough("/clients/assistant/delete", "reason", "gone").want(303)
	b.asks("GET", "/clients/assistant", nil).want(404)
	b.asks("POST", "/clients/assistant/delete", url.Values{}).want(404)

	o.Do(o.Store.AddClient(t.Context(), client.Client{ID: "flood", Name: "Flood", RedirectURIs: []string{"https://f.example/cb"}, IssuedAt: o.Store.Now().Unix()}, store.Origin{}, store.Act{Address: "198.51.100.7"}))
	b.goesThrough("/delete-unapproved", "reason", "x", "since", "soon").want(400)
	b.goesThrough("/delete-unapproved", "reason", "x", "sure", "yes").want(400).says("Say which")
	b.goesThrough("/delete-unapproved", "reason", "x", "since", "2h").want(422).says("2 clients match.", "Tick the box")
	b.asks("GET", "/clients/flood", nil).want(200)
	to = b.goesThrough("/delete-unapproved", "reason", "flood", "since", "2h", "sure", "yes").want(303).head.Get("Location")
	b.asks("GET", to, nil).says("2 clients are deleted.")
	b.asks("GET", "/clients/flood", nil).want(404)
	b.asks("GET", "/clients/quill", nil).want(200)
}

// Many approvals end together after they were counted, and none before.
func TestRevokeMany(t *testing.T) {
	o, live, _ := withNamed(t)
	b := o.signedIn("ingrid")
	b.goesThrough("/revoke-many", "reason", "x").want(400).says("Say which")
	b.goesThrough("/revoke-many", "reason", "x", "client", "none").want(422).says("There is no such client, person or organization.")
	b.goesThrough("/revoke-many", "reason", "x", "client", "quill").want(422).says("2 approvals match.")
	if o.asked("GET", "/v1/approvals/"+live, "")["state"] != "live" {
		t.Fatal("revoked before it was said how many")
	}
	to := b.goesThrough("/revoke-many", "reason", "incident", "client", "quill", "sure", "yes").want(303).head.Get("Location")
	b.asks("GET", to, nil).says("2 approvals are revoked.")
	b.goesThrough("/revoke-many", "reason", "incident", "client", "quill", "sure", "yes").want(303) // again: harmless
	b.asks("GET", "/approvals?ended=<b>", nil).want(200).saysNot("are revoked.")
}

// unhurried is an answer that sees whether its deadline is taken away.
type unhurried struct {
	*httptest.ResponseRecorder
	freed bool
}

func (w *unhurried) SetWriteDeadline(at time.Time) error {
	w.freed = at.IsZero()
	return nil
}

// A change may take longer than a page: its answer is not lost by that.
func TestChangesMayTakeLong(t *testing.T) {
	o, _, _ := withNamed(t)
	for call, want := range map[string]bool{"POST /revoke-many": true, "POST /delete-unapproved": true, "GET /revoke-many": false, "GET /clients": false} {
		method, path, _ := strings.Cut(call, " ")
		r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, nil)
		r.SetBasicAuth(operator.User, password)
		w := &unhurried{ResponseRecorder: httptest.NewRecorder()}
		if o.handler.ServeHTTP(w, r); w.freed != want {
			t.Errorf("%s: without a deadline %t, want %t (%d)", call, w.freed, want, w.Code)
		}
	}
}

// An approval is explained by its facts, and a call by the rules; a bad question is
// said beside what the approval stands on.
func TestExplainInTheConsole(t *testing.T) {
	o, live, _ := withNamed(t)
	b := o.signedIn("rita")
	path := "/approvals/" + live + "/explain"
	b.asks("GET", path, nil).want(200).says("It is live", "Name of quill for Ada in Nordlys", "What that stands on")
	b.asks("GET", path+"?tool=&arguments=&call=&body=", nil).want(200).says("It is live")
	b.asks("GET", path+"?tool=pay", nil).want(200).says("It may do that")
	b.asks("GET", path+"?call=nonsense", nil).want(200).says("It is live")
	b.asks("GET", path+"?x=1", nil).want(400)
	b.asks("GET", "/approvals/"+strings.Repeat("0", 32)+"/explain", nil).want(404)
}

// What a client did is told without what items are called (decision V72).
func TestActivityInTheConsole(t *testing.T) {
	o, live, _ := withNamed(t)
	b, path := o.signedIn("rita"), "/approvals/"+live+"/activity"
	b.asks("GET", path, nil).want(200).says("No call that changed something")
	r, err := o.Store.RecordActivity()
	o.Do(err)
	t.Cleanup(func() { r.Close() })
	of, err := approval.ParseID(live)
	o.Do(err)
	for n := range 60 {
		r.Begin().Done(of, activity.Record{Way: activity.API, Outcome: activity.Done, Status: 200, Method: "PUT", Path: "/notes/secret",
			Item: identity.Item{ID: "secret", Title: "secret", Detail: "secret", Kind: fmt.Sprintf("<b>note %d.", n), Did: identity.Closed, Private: true}})
	}
	r.Refuse(of, activity.Record{Way: activity.MCP, Method: "POST", Path: "/api/v5/mcp", Tool: "burn", Reason: "role_is_read_only", Item: identity.Item{Role: "gone"}})
	r.Read(of, identity.Item{Kind: "order", Count: 1234})
	o.Do(r.Flush())
	p := b.asks("GET", path+"?outcome=", nil).want(200).says("refused role_is_read_only", "gone", "closed <b>note 59.", "reads order", "1234", "Something may be missing from", "nothing was recorded yet")
	if strings.Contains(p.body, "secret") {
		t.Errorf("a title is told: %s", p.body)
	}
	next := ""
	for _, a := range p.all("a") {
		if href := attribute(a, "href"); strings.Contains(href, "after=") {
			next = href
		}
	}
	b.asks("GET", next, nil).want(200).says("<b>note 0.").saysNot("<b>note 59.")
	b.asks("GET", path+"?outcome=refused", nil).want(200).says("burn").saysNot("note 5")
	o.Store.Used(of) // written a moment later
	busy := b.asks("GET", "/organizations/nordlys", nil).want(200)
	for n := 0; n < 6000 && !strings.Contains(busy.body, "Calls most"); n++ {
		time.Sleep(10 * time.Millisecond)
		busy = b.asks("GET", "/organizations/nordlys", nil).want(200)
	}
	busy.says("Calls most", "Name of quill", "62")
	if !strings.Contains(busy.body, `href="`+path+`"`) {
		t.Error("what the approval that calls most did is not linked")
	}
	b.asks("GET", path+"?after=x", nil).want(400)
	b.asks("GET", "/approvals/"+strings.Repeat("0", 32)+"/activity", nil).want(404)
}

// A token is said what it is, and does not stand on the page.
func TestInspectInTheConsole(t *testing.T) {
	o, _, _ := withNamed(t)
	b := o.signedIn("rita")
	var seed token.Handle
	copy(seed[:], "quill"+"ada"+"organization")
	text := o.Ring.Access(seed, 1, o.Store.Now().Unix()+600)
	for _, one := range []struct{ text, says string }{{text, "access token: valid"}, {" " + text + "\r\n", "access token: valid"}, {"svo_nothing", "It is none of ours"}, {`"><img src=x>`, "It is none of ours"}} {
		p := b.goesThrough("/inspect", "token", one.text).want(200).says(one.says)
		if strings.Contains(p.body, strings.TrimSpace(one.text)) || len(p.all("img")) > 0 {
			t.Errorf("the page repeats it: %s", p.body)
		}
	}
	b.goesThrough("/inspect", "token", " ").want(422).says("Paste a token.")
	b.goesThrough("/inspect", "token", text).says("Name of quill", "Ada", "Nordlys")
	b.asks("GET", "/inspect?token=x", nil).want(200).saysNot("none of ours") // a form alone
}
