// Package simulate goes through seeds: the embedded engine as it is shipped, over a disk, a
// clock and an order of everything that one number decides, and several nodes over such a
// network, so that whatever it finds happens again. docs/faults.md says what it shows, and
// what it does not.
//
// This file is the model of one approval, which both are judged by.
package simulate

import (
	"github.com/anishathalye/porcupine"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Input is what is asked of an approval.
type Input struct {
	Kind       string // exchange, refresh, revoke, check, stranger, or fact: its person leaves
	Generation int64  // that a refresh presents
	From, To   int64  // the times before and after it, Unix seconds
	Issued     int64  // when the code was
	Expires    int64  // when the access token does that a check presents
}

// State is what an approval has come to.
type State struct {
	Phase      approval.Phase
	Generation int64
}

// Rules are what becomes of an approval, and what is told, at a time in Unix seconds.
type Rules func(State, Input, int64) (State, approval.Verdict)

// Protocol are the rules of section 3 of the protocol, in as few words as they can be said.
func Protocol(s State, i Input, now int64) (State, approval.Verdict) {
	over := State{approval.Ended, s.Generation}
	switch {
	case i.Kind == "stranger": // another client, with this one's token
		return s, approval.WrongClient
	case i.Kind == "check" && s.Phase == approval.Live && now < i.Expires:
		return s, approval.OK
	case i.Kind == "check":
		return s, approval.Over
	case i.Kind == "fact":
		return over, approval.OK
	case s.Phase == approval.Ended:
		return s, approval.Over
	case i.Kind == "revoke" && s.Phase == approval.CodeIssued && now >= i.Issued+300:
		return over, approval.Over
	case i.Kind == "revoke":
		return over, approval.OK
	case i.Kind == "exchange" && s.Phase == approval.Live:
		return over, approval.Reused
	case i.Kind == "exchange" && now >= i.Issued+300:
		return s, approval.Expired
	case i.Kind == "exchange":
		return State{approval.Live, 1}, approval.OK
	case i.Generation > s.Generation:
		return over, approval.Lost
	case i.Generation < s.Generation:
		return over, approval.Reused
	}
	return State{approval.Live, s.Generation + 1}, approval.OK
}

// Model is for the checker. What was not answered, with a nil output, may have been done or
// not; a code that was left for pageLife seconds may be gone.
func Model(rules Rules, pageLife int64) porcupine.Model {
	return (&porcupine.NondeterministicModel{
		Init: func() []any { return []any{State{Phase: approval.CodeIssued}} },
		Step: func(state, in, out any) (next []any) {
			i, s := in.(Input), state.(State)
			times := []int64{i.From, i.To}
			if i.From == i.To {
				times = times[:1]
			}
			for _, now := range times {
				if after, said := rules(s, i, now); out == nil || out == said {
					next = append(next, after)
				}
				gone := State{approval.Ended, s.Generation}
				if after, said := rules(gone, i, now); s.Phase == approval.CodeIssued && now >= i.Issued+pageLife && out == said {
					next = append(next, after)
				}
			}
			if out == nil {
				next = append(next, state)
			}
			return next
		},
	}).ToModel()
}
