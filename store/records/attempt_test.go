package records_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/grantkeeper/grantkeeper/attempt"
	"github.com/grantkeeper/grantkeeper/store"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// anyAttempts are what doors might have seen of a few machines, clients and people, of which
// each comes at a time of its own.
func anyAttempts(r *rand.Rand, n int, at int64) (all []attempt.Record) {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	for range n {
		at += 1 + r.Int64N(90_000)
		o := attempt.Observation{At: at, Step: attempt.Step(1 + r.IntN(attempt.Steps)), Outcome: attempt.Done, Agent: attempt.Node, Keys: attempt.Keys{
			Address: pick("", "198.51.100.7", "198.51.100.8"), Name: pick("", "Quill", "Ledger"),
		}}
		if o.Step >= attempt.Registration && r.IntN(4) > 0 {
			o.Client = pick("quill", "ledger", "notes")
		}
		if o.Step >= attempt.Authorize && o.Client != "" && r.IntN(3) > 0 {
			o.Walk, o.Person = o.Client+pick("1", "2", "3"), pick("", "ada")
			if o.Step >= attempt.Code && r.IntN(4) > 0 {
				o.Approval = o.Walk + "a"
			}
		}
		if r.IntN(4) == 0 {
			o.Outcome, o.Reason = attempt.Failed, attempt.RegistrationBody
		}
		all = append(all, attempt.Of(o))
	}
	return all
}

// Whether what was seen is written at once or one by one, and whatever was kept before, the
// same attempts come of it.
func TestAttemptsAtOnceAreAsOneByOne(t *testing.T) {
	for seed := range uint64(rounds(40)) {
		all := anyAttempts(rand.New(rand.NewPCG(seed, 3)), 90, furnishedAt)
		var kept [2][]attempt.Record
		for way, most := range []int{1, len(all)} {
			h := furnished(t)
			for some := range slices.Chunk(all, most) {
				if err := h.AddAttempts(ctx, some, nil); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if kept[way], _, err = h.Attempts(ctx, store.AttemptFilter{Limit: 1000}); err != nil {
				t.Fatal(err)
			}
			for i := range kept[way] {
				kept[way][i].ID = ""
			}
		}
		if one, together := fmt.Sprintf("%+v", kept[0]), fmt.Sprintf("%+v", kept[1]); one != together || len(kept[0]) < 10 {
			t.Fatalf("seed %d: one by one\n%s\nat once\n%s", seed, one, together)
		}
	}
}

// What a database cannot hold of one attempt takes no other along: that one is counted,
// with what there was no room for.
func TestAttemptThatCannotBeWritten(t *testing.T) {
	h := furnished(t)
	key := make([]byte, 5000)
	rand.NewChaCha8([32]byte{1}).Read(key)
	var all []attempt.Record
	for n := range 50 {
		o := attempt.Observation{At: furnishedAt + int64(n), Step: attempt.Registration, Outcome: attempt.Failed, Reason: attempt.RedirectScheme, Keys: attempt.Keys{Client: fmt.Sprint("c", n)}}
		if n == 20 || n == 49 {
			o.Host = hex.EncodeToString(key) // as no door says it: an index of PostgreSQL cannot hold it
		}
		all = append(all, attempt.Of(o))
	}
	if err := h.AddAttempts(ctx, all, map[attempt.Reason]int{attempt.RedirectScheme: 5}); err != nil {
		t.Fatal(err)
	}
	counts, err := h.AttemptReasons(ctx, furnishedAt/1000-3600)
	if err != nil {
		t.Fatal(err)
	}
	want := []store.ReasonCount{{Reason: attempt.RedirectScheme, Result: attempt.Broken, Kept: 48, Counted: 7}}
	if embedded() {
		want[0].Kept, want[0].Counted = 50, 5
	}
	if !slices.Equal(counts, want) {
		t.Errorf("%+v, want %+v", counts, want)
	}
}

const furnishedAt = 1_800_000_000_000 // Unix milliseconds

func BenchmarkAttemptsOfExchanges(b *testing.B) {
	h := furnished(b)
	n := 0
	some := func() (all []attempt.Record) {
		for range 1000 {
			n++
			all = append(all, attempt.Of(attempt.Observation{At: furnishedAt + int64(n), Step: attempt.Token, Outcome: attempt.Done, Status: 200, Agent: attempt.GoAgent,
				Keys: attempt.Keys{Client: "quill", Name: "Quill", Host: "quill.example", Approval: fmt.Sprintf("%032x", n), Person: "ada", Organization: "nordlys", Address: "198.51.100.7"}}))
		}
		return all
	}
	for range 25 {
		if err := h.AddAttempts(ctx, some(), nil); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if err := h.AddAttempts(ctx, some(), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// Lists of attempts go along the index of what they are asked for: there may be 100,000.
func TestAttemptsAlongTheirIndexes(t *testing.T) {
	if !embedded() { // whose plans depend on how many there are
		return
	}
	h := furnished(t)
	for want, f := range map[string]store.AttemptFilter{
		"attempt_person": {Person: "ada"}, "attempt_host": {Host: "assistant.example"}, "attempt_approval": {Approval: "a"},
		"attempt_organization": {Organization: "nordlys"}, "attempt_client": {Client: "quill"},
	} {
		text, args := f.Listed()
		rows, err := h.Handle().Reader.QueryContext(ctx, `EXPLAIN QUERY PLAN `+text, args...)
		plan, err := engine.ListOf(rows, err, func(r engine.Scanner, step *string) error { return r.Scan(new(int), new(int), new(int), step) })
		if err != nil || !slices.ContainsFunc(plan, func(step string) bool { return strings.Contains(step, " USING INDEX "+want+" (") }) {
			t.Errorf("%+v: %q, %v", f, plan, err)
		}
	}
}
