// Package simulate goes through seeds: the embedded engine as it is shipped, over a disk, a
// clock and an order of everything that one number decides, and several nodes over such a
// network, so that whatever it finds happens again. docs/faults.md says what it shows, and
// what it does not.
//
// This file is the model of one approval, which both are judged by.
package simulate

import (
	"cmp"
	"slices"

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

// CodeLife is how long a code is good, in seconds (section 3 of the protocol).
const CodeLife = 300

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
	case i.Kind == "revoke" && s.Phase == approval.CodeIssued && now >= i.Issued+CodeLife:
		return over, approval.Over
	case i.Kind == "revoke":
		return over, approval.OK
	case i.Kind == "exchange" && s.Phase == approval.Live:
		return over, approval.Reused
	case i.Kind == "exchange" && now >= i.Issued+CodeLife:
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

// Reduce leaves out of a history what the checker would try in vain: operations without an
// answer, which may have been done at any time after their call, where earlier ones of the same
// kind can stand for them. A second revocation changes nothing, nor does a third exchange, since
// the second ends what the first began. Without that, the time that a history takes doubles
// with each of them.
func Reduce(history []porcupine.Operation) []porcupine.Operation {
	sorted := slices.Clone(history)
	slices.SortStableFunc(sorted, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	type same struct {
		kind            string
		generation      int64
		expired, before bool
	}
	most := map[string]int{"revoke": 1, "fact": 1, "exchange": 2, "refresh": 2} // of others none changes anything
	seen := map[same]int{}
	return slices.DeleteFunc(sorted, func(o porcupine.Operation) bool {
		if o.Output != nil {
			return false
		}
		in := o.Input.(Input)
		of := same{kind: in.Kind}
		switch in.Kind {
		case "exchange": // whether it finds a code that has expired
			of.expired, of.before = in.From >= in.Issued+CodeLife, in.To >= in.Issued+CodeLife
		case "refresh":
			of.generation = in.Generation
		}
		seen[of]++
		return seen[of] > most[in.Kind]
	})
}
