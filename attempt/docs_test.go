package attempt_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/grantkeeper/grantkeeper/attempt"
)

// docs/attempts.md has the table of reasons, in its order and words.
func TestDocsHaveTheReasons(t *testing.T) {
	doc, err := os.ReadFile("../docs/attempts.md")
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	for _, c := range Causes {
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", c.Code, c.Says, c.Do, c.Who)
	}
	if !strings.Contains(string(doc), "\n|---|---|---|---|\n"+table.String()+"\n") {
		t.Errorf("docs/attempts.md does not have this table:\n%s", table.String())
	}
	for p := range PatternWords {
		if !strings.Contains(string(doc), "`"+string(p)+"`") {
			t.Errorf("docs/attempts.md does not name %s", p)
		}
	}
}

// docs/attempts.md has the ten steps by their names.
func TestDocsHaveTheSteps(t *testing.T) {
	doc, err := os.ReadFile("../docs/attempts.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for s := Challenge; s <= Refresh; s++ {
		names = append(names, strings.ToLower(s.String()))
	}
	text := "timeline of ten steps, from what the server sees of it: " + strings.Join(names, ", ") + "."
	if Steps != 10 || !strings.Contains(strings.Join(strings.Fields(string(doc)), " "), text) {
		t.Errorf("docs/attempts.md does not have these %d steps: %s", Steps, text)
	}
	for _, s := range []Step{0, Steps + 1, 255} {
		if s.String() != "" {
			t.Errorf("%d, which is no step, is %q", s, s.String())
		}
	}
}

// How long an attempt may go on before it has its reason, as docs/attempts.md has it: what
// somebody has seen fail has its reason at once.
func TestWaits(t *testing.T) {
	const left = 30 * time.Minute
	waits := map[Reason]time.Duration{
		NotFollowed: left, NotRegistered: left, BrowserNotSent: left, TokenNeverUsed: left,
		LeftAtSignIn: left, SignInFailed: left, LeftAtSecondFactor: left, PromptNotPossible: left, Left: left,
		CodeNotExchanged: 5 * time.Minute, // as long as a code lives
		// what the client mends by itself with its next request, and else does not
		DPoPNonce: 2 * time.Minute, NoAuthorization: 2 * time.Minute, AccessExpired: 2 * time.Minute,
	}
	for _, c := range Causes {
		if c.Wait != waits[c.Code] {
			t.Errorf("%s: %s, want %s", c.Code, c.Wait, waits[c.Code])
		}
	}
}
