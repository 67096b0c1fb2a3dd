package main

import (
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/attempt"
)

// What is shown of an attempt says that some of it was joined by an address alone, and
// says it of no other.
func TestShowAttemptSaysJoinedByAddress(t *testing.T) {
	for _, joined := range []any{true, false, nil, "true"} {
		var out strings.Builder
		showAttempt(&out, map[string]any{"name": "Ledger", "result": "failed", "reason": "token_body", "joined_by_address": joined})
		if got := strings.Contains(out.String(), attempt.ByAddressSays+"\n\nfailed: token_body\n"); got != (joined == true) || !strings.Contains(out.String(), "failed: token_body") {
			t.Errorf("joined by address: %v\n%s", joined, &out)
		}
	}
}
