package simulate

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/grantkeeper/grantkeeper/approval"
)

// randomHistory is what several ask of one approval, some of it without an answer. What was told
// is by the protocol, in the order of the calls, or once in a while something else.
func randomHistory(r *rand.Rand) (h []porcupine.Operation) {
	s := State{Phase: approval.CodeIssued}
	for n := range int64(4 + r.IntN(8)) {
		now := 10 * n * int64(r.IntN(6))
		in := Input{Kind: []string{"exchange", "exchange", "refresh", "refresh", "refresh", "revoke", "fact", "check", "stranger"}[r.IntN(9)], From: now, To: now + int64(r.IntN(3)), Expires: 1000}
		if in.Generation = max(1, s.Generation); r.IntN(4) == 0 {
			in.Generation = 1 + r.Int64N(3)
		}
		o := porcupine.Operation{ClientId: int(n), Input: in, Call: 10 * n, Return: math.MaxInt64}
		done := r.IntN(3) > 0
		if after, said := Protocol(s, in, now); done {
			s, o.Output = after, said
			o.Return = o.Call + 1 + r.Int64N(25)
		}
		switch {
		case !done && r.IntN(2) == 0:
			s, _ = Protocol(s, in, now)
		case done && r.IntN(12) == 0:
			o.Output = []approval.Verdict{approval.OK, approval.Over, approval.Reused, approval.Expired, approval.Lost}[r.IntN(5)]
		}
		h = append(h, o)
	}
	r.Shuffle(len(h), func(i, j int) { h[i], h[j] = h[j], h[i] })
	return h
}

// Whether the protocol allows a history is the same without what Reduce leaves out.
func TestReduce(t *testing.T) {
	model := Model(Protocol, 1800)
	r := rand.New(rand.NewPCG(7, 7))
	allowed, shorter := map[bool]int{}, 0
	for range 4000 {
		h := randomHistory(r)
		told := Reduce(h)
		whole, is := porcupine.CheckOperations(model, h), porcupine.CheckOperations(model, told)
		if whole != is {
			t.Fatalf("%v of all, %v of what tells:\n%v\n%v", whole, is, h, told)
		}
		allowed[whole]++
		if len(told) < len(h) {
			shorter++
		}
	}
	if allowed[true] < 800 || allowed[false] < 800 || shorter < 800 {
		t.Errorf("%v are allowed, %d were made shorter: it means too little", allowed, shorter)
	}
}

// Many operations without an answer are a few.
func TestReduceOfMany(t *testing.T) {
	var h []porcupine.Operation
	for n := range int64(60) {
		for _, in := range []Input{{Kind: "revoke"}, {Kind: "fact"}, {Kind: "stranger"}, {Kind: "check"}, {Kind: "refresh", Generation: 1 + n%2},
			{Kind: "exchange", From: 10 * n, To: 10 * n}} {
			h = append(h, porcupine.Operation{Input: in, Call: n, Return: math.MaxInt64})
		}
	}
	h = append(h, porcupine.Operation{Input: Input{Kind: "check"}, Output: approval.OK, Call: 70, Return: 71})
	got := map[string]int{}
	for _, o := range Reduce(h) {
		got[o.Input.(Input).Kind]++
		if in := o.Input.(Input); o.Output == nil && in.Kind != "exchange" && o.Call > 3 {
			t.Errorf("not the first: %+v", o)
		}
	}
	want := map[string]int{"revoke": 1, "fact": 1, "refresh": 4, "exchange": 4, "check": 1}
	for kind := range want {
		if got[kind] != want[kind] {
			t.Errorf("%s: %d, want %d", kind, got[kind], want[kind])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v", got)
	}
}
