package faults

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// An asked is what was asked of an approval, and of which of its tokens.
type asked struct {
	kind       string // exchange, refresh, check, revoke, end
	generation int64  // of the token that was sent
}

// A told is what the asker learned.
type told int

const (
	unknown told = iota // no answer, or 503: it may have been done, now or never
	yes                 // 200
	no                  // invalid_grant, or 401 invalid_token
)

func (w told) String() string { return [...]string{"unknown", "yes", "no"}[w] }

// state is an approval as the protocol sees it (spec section 3).
type state struct {
	phase      phase
	generation int64 // of the current refresh token
}

type phase int

const (
	issued phase = iota // a code, not exchanged
	live
	ended
)

// next says what an operation does to an approval, and what must be told of it.
func next(s state, in asked) (state, told) {
	over := state{ended, s.generation}
	switch {
	case in.kind == "check":
		if s.phase == live && in.generation <= s.generation {
			return s, yes
		}
		return s, no
	case in.kind == "end", in.kind == "revoke": // by others, by the client
		return over, yes
	case s.phase == ended:
		return s, no
	case in.kind == "exchange" && s.phase == issued:
		return state{live, 1}, yes
	case in.kind == "exchange": // used before
		return over, no
	case in.generation == s.generation:
		return state{live, s.generation + 1}, yes
	}
	return over, no // used before
}

// approvals is the model for the checker: an operation without an answer may have
// been done at any time from its call on, or never.
var approvals = (&porcupine.NondeterministicModel{
	Init: func() []any { return []any{state{issued, 0}} },
	Step: func(at, in, out any) []any {
		after, said := next(at.(state), in.(asked))
		switch out.(told) {
		case unknown:
			return []any{at, after}
		case said:
			return []any{after}
		}
		return nil
	},
	DescribeOperation: func(in, out any) string { return fmt.Sprintf("%v: %v", in, out) },
}).ToModel()

// A history is what was asked of one approval, and told.
type history []porcupine.Operation

func (h *history) add(by int, in asked, call, back time.Duration, out told) {
	o := porcupine.Operation{ClientId: by, Input: in, Output: out, Call: int64(call), Return: int64(back)}
	if out == unknown {
		o.Return = math.MaxInt64
	}
	*h = append(*h, o)
}

// fault says what is wrong with a history, or "".
func (h history) fault() string {
	won := map[asked]int{}
	for _, o := range h {
		if in := o.Input.(asked); (in.kind == "exchange" || in.kind == "refresh") && o.Output == yes {
			won[in]++
		}
	}
	for in, n := range won {
		if n > 1 {
			return fmt.Sprintf("%v was answered with tokens %d times", in, n)
		}
	}
	switch porcupine.CheckOperationsTimeout(approvals, h, 30*time.Second) {
	case porcupine.Ok:
		return ""
	case porcupine.Unknown:
		return "the checker did not decide within 30 s"
	}
	return "no order of what was told is one that the protocol allows"
}

// bounded says what is wrong with a history where a check may be answered from what
// was so long ago, and how many checks were. All other operations are exact.
func (h history) bounded(old time.Duration) (fault string, stale int) {
	exact := history{}
	over, doubt := int64(math.MaxInt64), int64(math.MaxInt64) // when it had ended, and when it may have
	exchanges := 0
	for _, o := range h {
		in := o.Input.(asked)
		if in.kind == "check" {
			continue
		}
		exact = append(exact, o)
		ends := in.kind == "end" || in.kind == "revoke"
		if ends && o.Output == yes || !ends && o.Output == no {
			over = min(over, o.Return)
		}
		if in.kind == "exchange" {
			exchanges++
		}
		if ends || o.Output != yes || exchanges > 1 {
			doubt = min(doubt, o.Call)
		}
	}
	for _, o := range h {
		if o.Input.(asked).kind != "check" {
			continue
		}
		switch {
		case o.Output == yes && o.Call > over && o.Call-int64(old) > over:
			return fmt.Sprintf("accepted %v after its end was acknowledged", time.Duration(o.Call-over)), stale
		case o.Output == yes && o.Call > over:
			stale++
		case o.Output == no && o.Return < doubt:
			return fmt.Sprintf("a token of generation %d was refused while the approval lived", o.Input.(asked).generation), stale
		}
	}
	return exact.fault(), stale
}

func (h history) String() string {
	var b strings.Builder
	for _, o := range h {
		back := time.Duration(o.Return).String()
		if o.Return == math.MaxInt64 {
			back = "never"
		}
		fmt.Fprintf(&b, "%2d  %-9s %d  %-7s  [%s, %s]\n", o.ClientId, o.Input.(asked).kind, o.Input.(asked).generation, o.Output, time.Duration(o.Call), back)
	}
	return b.String()
}

// What the protocol forbids is found, whoever is told it, and what it allows is not
// taken for a fault. Each is what one broken rule would let clients see.
func TestTheCheckerFindsWhatIsForbidden(t *testing.T) {
	for _, tt := range []struct {
		name string
		does string // one operation after another; those in brackets at once
		ok   bool
	}{
		{"the usual life", "exchange=yes refresh1=yes check1=yes check2=yes refresh2=yes end=yes check3=no refresh3=no exchange=no", true},
		{"a code is exchanged twice", "exchange=yes exchange=yes", false},
		{"a code is exchanged twice at once", "[exchange=yes exchange=yes]", false},
		{"one of two exchanges at once", "[exchange=yes exchange=no] check1=no", true},
		{"the approval lives after its code was used twice", "exchange=yes exchange=no check1=yes", false},
		{"a generation is refreshed twice", "exchange=yes refresh1=yes refresh1=yes", false},
		{"a generation is refreshed twice at once", "exchange=yes [refresh1=yes refresh1=yes]", false},
		{"the approval lives after a used refresh token", "exchange=yes refresh1=yes refresh1=no check2=yes", false},
		{"two refreshes at once, and both are refused", "exchange=yes [refresh1=no refresh1=no]", false},
		{"accepted after its end was acknowledged", "exchange=yes end=yes check1=yes", false},
		{"accepted while it ends", "exchange=yes [end=yes check1=yes]", true},
		{"accepted, refused and accepted again while it ends", "exchange=yes [end=yes check1=no] check1=yes", false},
		{"refreshed after its end was acknowledged", "exchange=yes end=yes refresh1=yes", false},
		{"an approval that was acknowledged is lost", "exchange=no", false},
		{"an exchange that was acknowledged is lost", "exchange=yes check1=no", false},
		{"a refresh that was acknowledged is lost", "exchange=yes refresh1=yes refresh2=no", false},
		{"an end that was acknowledged is lost", "exchange=yes end=yes check1=no check1=yes", false},
		{"a refresh without an answer was done", "exchange=yes refresh1=unknown refresh1=no check1=no", true},
		{"a refresh without an answer was not done", "exchange=yes refresh1=unknown refresh1=yes refresh2=yes", true},
		{"a refresh without an answer is done and undone", "exchange=yes refresh1=unknown refresh1=yes check2=no", true}, // done late: reuse
		{"a refresh without an answer lets another one through twice", "exchange=yes refresh1=unknown refresh1=yes refresh1=yes", false},
		{"an end without an answer, and it ended", "exchange=yes end=unknown check1=yes check1=no", true},
		{"an end without an answer does not come and go", "exchange=yes end=unknown check1=no check1=yes", false},
	} {
		h := history{}
		at, bracket := time.Duration(0), -1
		for i, word := range strings.Fields(tt.does) {
			word, opens := strings.CutPrefix(word, "[")
			word, closes := strings.CutSuffix(word, "]")
			if opens {
				bracket = int(at)
			}
			what, said, _ := strings.Cut(word, "=")
			in := asked{kind: strings.TrimRight(what, "0123456789")}
			fmt.Sscan(strings.TrimPrefix(what, in.kind), &in.generation)
			out := map[string]told{"yes": yes, "no": no, "unknown": unknown}[said]
			call, back := at, at+5
			if bracket >= 0 {
				call, back = time.Duration(bracket), time.Duration(bracket)+100
			}
			h.add(i, in, call, back, out)
			at += 10
			if closes {
				at, bracket = time.Duration(bracket)+110, -1
			}
		}
		if got := h.fault(); (got == "") != tt.ok {
			t.Errorf("%s: %q\n%s", tt.name, got, h)
		}
	}
}
