package orgadmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html/atom"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/page/pagetest"
	"github.com/grantkeeper/grantkeeper/store"
)

// An organization's admins see attempts to connect to it and no others, with what to do,
// with no address, and with no name of a person who is no member.
func TestAttempts(t *testing.T) {
	s := newSite(t)
	s.Unlisted()
	ada := s.SignedIn("ada")
	ada.Get(pagetest.NordlysAttempts).Want(200).Says("Attempts – AI integration – Nordlys Cooperative", "Nobody has tried to connect an app in the last days.")
	s.Tried()
	p := ada.Get(pagetest.NordlysAttempts).Want(200).Says("Your rules block this app.", "Answer the request under Requests.", "The person did not approve.",
		"The app made a mistake.", "The app asked too often.", "Something was wrong at Svalinn", "An old key was used again", "The access has ended.",
		"organization_blocks", "pkce_mismatch", "Tor Haugen", "Worked Step 9 of 10", "Going on Step 6 of 10", "Failed Step 8 of 10", "Not approved Step 6 of 10", "Today at 10:00", "evil.example")
	for _, not := range []string{"203.0.113.77", "Ola Olsen", "Of Fjell", "Of nobody", "ola@"} {
		if strings.Contains(p.Text(), not) {
			t.Errorf("it says %q", not)
		}
	}
	if n := len(p.All(atom.Tr)); n != 11 || strings.Contains(p.Body, "<b>Evil") {
		t.Errorf("%d rows", n)
	}
	for query, want := range map[string]int{
		"find=LEDGER": 9, "find=evil.example": 1, "find=203.0.113.77": 0, "find=ledgerlens": 9, "find=gone": 0, "find=tor": 0, "result=worked": 1, "result=left": 1,
		"result=open": 1, "result=failed": 7, "result=x": 10, "result=failed&find=evil": 0, "find=%27+OR+1%3D1+--": 0,
	} {
		q := ada.Get(pagetest.NordlysAttempts + "?" + query).Want(200)
		if got := max(len(q.All(atom.Tr))-1, 0); got != want {
			t.Errorf("%s: %d, want %d", query, got, want)
		}
		if want == 0 {
			q.Says("No attempt matches.", "Show all")
		}
	}
	for _, bad := range []string{"after=x", "after=" + strings.Repeat("0", 23), "find=" + strings.Repeat("x", 201)} {
		ada.Get(pagetest.NordlysAttempts + "?" + bad).Want(400)
	}
	// Other doors: no member, another organization's admin, a member without the right, nobody.
	for _, who := range []string{"tor", "ola", "eve"} {
		s.SignedIn(who).Get(pagetest.NordlysAttempts).Want(404)
	}
	s.Browser().Get(pagetest.NordlysAttempts).Want(303)
	for _, organization := range []string{"nowhere", "%00", "havn", "fjell"} { // of fjell Ada is no admin
		ada.Get("/organizations/" + organization + "/settings/ai-integration/attempts").Want(404)
	}
	s.SignedIn("ola").Get("/organizations/havn/settings/ai-integration/attempts").Want(303) // it is off there
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", false, store.Act{}))
	ada.Get(pagetest.NordlysAttempts).Want(404)
	s.Do(s.Store.SetAdmin(context.Background(), "nordlys", "ada", true, store.Act{}))
	// Who has left is not named.
	s.Do(s.Store.RemoveMember(context.Background(), "nordlys", "tor", store.Act{}))
	if p := ada.Get(pagetest.NordlysAttempts).Want(200); strings.Contains(p.Text(), "Tor Haugen") {
		t.Error("somebody who has left is named")
	}
}

// Pages hold each attempt once, the newest first.
func TestAttemptsByPages(t *testing.T) {
	s := newSite(t)
	ada := s.SignedIn("ada")
	var all []attempt.Record
	for i := range 2*attemptsShown + 3 {
		all = append(all, attempt.Of(attempt.Observation{At: s.Store.Now().UnixMilli() + int64(i), Step: attempt.Consent, Outcome: attempt.Failed, Reason: attempt.Cancelled,
			Keys: attempt.Keys{Client: "c", Name: fmt.Sprintf("App %02d.", i), Host: "app.example", Walk: fmt.Sprint(i), Person: "tor", Organization: "nordlys"}}))
	}
	s.Do(s.Store.AddAttempts(context.Background(), all, nil))
	var found []string
	for at, pages := pagetest.NordlysAttempts+"?find=app", 0; at != ""; pages++ {
		p := ada.Get(at).Want(200)
		for _, row := range p.All(atom.Tr)[1:] {
			found = append(found, strings.TrimSpace(cells(row)[:len("App 00.")+1]))
		}
		if at = ""; pages < 2 {
			at = p.Link("Next")
		} else {
			p.Link("First page")
		}
	}
	if len(found) != len(all) || !slices.IsSortedFunc(found, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("%d of %d: %q", len(found), len(all), found)
	}
}

// Each reason has words.
func TestAttemptsHaveWords(t *testing.T) {
	groups := map[string]int{}
	for _, c := range attempt.Causes {
		groups[wordsOf(c.Code)]++
	}
	if len(groups) != 8 || groups["attempts.operator"] != 5 || groups["attempts.reused"] != 3 {
		t.Errorf("%v", groups)
	}
}
