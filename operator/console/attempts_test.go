package console

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/store"
)

// The tab lists attempts with how far they came; the page of one says at which step it
// stopped, why, and what to do; what others wrote stays text.
func TestAttemptsInTheConsole(t *testing.T) {
	o, _, _ := withNamed(t)
	b := o.signedIn("ingrid")
	b.asks("GET", "/attempts", nil).want(200).says("No attempt matches.", "Nothing was wrong with any.")
	at := o.Store.Now().Add(-time.Minute).UnixMilli()
	machine := attempt.Keys{Address: "203.0.113.7"}
	known := attempt.Keys{Client: "gone", Name: "<b>Evil</b>\u202e", Host: "evil.example", Person: "ada", Organization: "nordlys", Walk: "w"}
	var all []attempt.Record
	for _, one := range []attempt.Observation{
		{At: at, Step: attempt.Registration, Outcome: attempt.Failed, Reason: attempt.RedirectLoopback, Status: 400, Keys: machine},
	} {
		all = append(all, attempt.Of(one))
	}
	walk := attempt.Of(attempt.Observation{At: at + 1000, Step: attempt.Authorize, Outcome: attempt.Done, Status: 200, Keys: known})
	walk = attempt.Merge(walk, attempt.Of(attempt.Observation{At: at + 2500, Step: attempt.Token, Outcome: attempt.Failed, Reason: attempt.PKCEMismatch, Status: 400, Agent: attempt.Node, Keys: known}))
	o.Do(o.Store.AddAttempts(o.Context(), append(all, walk), nil))

	p := b.asks("GET", "/attempts", nil).want(200).says("2 of 2 failed", "redirect_uri_loopback", "pkce_mismatch", "(no client yet)", "203.0.113.7", "Registration, step 3 of 10", "Token, step 8 of 10", "Failed")
	if strings.Contains(p.body, "<b>Evil") {
		t.Error("a client's name is markup")
	}
	b.asks("GET", "/attempts?reason=pkce_mismatch", nil).want(200).says("Token, step 8 of 10").saysNot("Registration, step 3 of 10")
	b.asks("GET", "/attempts?result=worked", nil).want(200).says("No attempt matches.")
	b.asks("GET", "/attempts?range=hour&query=203.0.113.7", nil).want(200).says("Registration, step 3 of 10").saysNot("step 8")
	for _, bad := range []string{"result=x", "range=x", "reason=x", "after=x", "person=" + url.QueryEscape("nobody@x.example"), "limit=0"} {
		if got := b.asks("GET", "/attempts?"+bad, nil).code; got != 400 && got != 404 {
			t.Errorf("%s: %d", bad, got)
		}
	}
	paths := regexp.MustCompile(`href="(/attempts/[^"?]+)"`).FindAllStringSubmatch(p.body, -1)
	if len(paths) != 2 {
		t.Fatalf("links %q", paths)
	}
	texts := ""
	for _, path := range paths {
		texts += b.asks("GET", path[1], nil).want(200).body
	}
	if strings.Contains(texts, "by the address") {
		t.Error("it is said of what nothing was joined to")
	}
	nameless := attempt.Of(attempt.Observation{At: at + 2550, Step: attempt.Authorize, Outcome: attempt.Done, Keys: attempt.Keys{Client: "nameless", Host: "plain.example", Walk: "n"}})
	o.Do(o.Store.AddAttempts(o.Context(), []attempt.Record{nameless}, nil))
	b.asks("GET", "/attempts?query=plain.example", nil).want(200).says("(no name)").saysNot("(no client yet)")
	alone := attempt.Observation{At: at + 2600, Step: attempt.Challenge, Outcome: attempt.Done, Keys: attempt.Keys{Address: "203.0.113.9"}}
	o.Do(o.Store.AddAttempts(o.Context(), []attempt.Record{attempt.Merge(attempt.Of(alone), walk)}, nil))
	rows, _, err := o.Store.Attempts(o.Context(), store.AttemptFilter{Find: "203.0.113.9"})
	if o.Do(err); len(rows) != 1 {
		t.Fatalf("%d attempts", len(rows))
	}
	b.asks("GET", "/attempts/"+rows[0].ID, nil).want(200).says("Some of it was joined by the address")
	for _, want := range []string{"Reason: <code>pkce_mismatch</code>", "Reason: <code>redirect_uri_loopback</code>", "What to do (client)", "8. Token", "Not reached", "Not seen", "1 s"} {
		if !strings.Contains(texts, want) {
			t.Errorf("no %q", want)
		}
	}
	b.asks("GET", "/attempts/x", nil).want(404)
	over := b.asks("GET", "/", nil).want(200).says("Clients with trouble", "evil.example", "1 of 1", "pkce_mismatch")
	if strings.Contains(over.body, "<b>Evil") || !strings.Contains(over.body, `href="/attempts?query=evil.example&amp;result=failed"`) {
		t.Error("the overview: a client's name is markup, or its attempts are not linked")
	}
}

// attempt puts an attempt to connect there, and gives its ID.
func (o *office) attempt() string {
	o.Helper()
	o.Do(o.Store.AddAttempts(o.Context(), []attempt.Record{attempt.Of(attempt.Observation{At: o.Store.Now().UnixMilli(), Step: attempt.Challenge, Outcome: attempt.Done, Keys: attempt.Keys{Address: "203.0.113.7"}})}, nil))
	rows, _, err := o.Store.Attempts(o.Context(), store.AttemptFilter{})
	if o.Do(err); len(rows) == 0 {
		o.Fatal("no attempt is kept")
	}
	return rows[0].ID
}
