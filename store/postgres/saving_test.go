package postgres

import (
	"fmt"
	"testing"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// A statement spends each proof once: the second move by it is not in the statement, and
// neither one that uses none up nor one without proof names any.
func TestProofsOfAStatement(t *testing.T) {
	key := approval.Thumbprint{7}
	for _, tt := range []struct {
		name   string
		proofs []engine.Proof
		used   []bool
		twice  string
		hashes []string // by their first byte, "" is none
		any    int
	}{
		{"none", []engine.Proof{{}, {}}, []bool{true, true}, "[false false]", []string{"", ""}, 0},
		{"two", []engine.Proof{{Key: key, ID: [32]byte{1}, Until: 10}, {Key: key, ID: [32]byte{2}, Until: 20}}, []bool{true, true}, "[false false]", []string{"1", "2"}, 1},
		{"one twice", []engine.Proof{{Key: key, ID: [32]byte{1}, Until: 10}, {}, {Key: key, ID: [32]byte{1}, Until: 10}}, []bool{true, true, true}, "[false false true]", []string{"1", ""}, 1},
		{"one that is not used up", []engine.Proof{{Key: key, ID: [32]byte{1}, Until: 10}, {Key: key, ID: [32]byte{1}, Until: 10}}, []bool{false, true}, "[false false]", []string{"", "1"}, 1},
		{"none that is used up", []engine.Proof{{Key: key, ID: [32]byte{1}, Until: 10}}, []bool{false}, "[false]", []string{""}, 0},
	} {
		var p proofsOf
		twice, until := make([]bool, len(tt.proofs)), []int64{}
		for i, one := range tt.proofs {
			if twice[i] = p.add(one, tt.used[i]); !twice[i] {
				until = append(until, one.Until)
			}
		}
		hashes := []string{}
		for _, h := range p.hashes {
			if h == nil {
				t.Errorf("%s: NULL is no empty hash", tt.name)
			}
			first := ""
			if len(h) == 32 {
				first = fmt.Sprint(h[0])
			}
			hashes = append(hashes, first)
		}
		if fmt.Sprint(twice) != tt.twice || fmt.Sprintf("%q", hashes) != fmt.Sprintf("%q", tt.hashes) || p.any != tt.any || fmt.Sprint(p.until) != fmt.Sprint(until) {
			t.Errorf("%s: %v, hashes %q until %v, any %d", tt.name, twice, hashes, p.until, p.any)
		}
	}
}

// What a statement is given of moves stands where it looks for it.
func TestSaveArgs(t *testing.T) {
	args := saveArgs([]engine.Transition{
		{ID: approval.ID{1}, Before: approval.State{Phase: approval.CodeIssued, Generation: 0}, After: approval.State{Phase: approval.Live, Generation: 1, Key: 3, Network: 9, Bound: approval.Thumbprint{5}}, Used: 77},
		{ID: approval.ID{2}, Before: approval.State{Phase: approval.Live, Generation: 4}, After: approval.State{Phase: approval.Ended, Generation: 5, Key: 6, Reason: approval.RevokedByPerson, EndedAt: 88}},
	})
	first, second := approval.ID{1}, approval.ID{2}
	bound := approval.Thumbprint{5}
	for i, want := range []any{
		[][]byte{first[:], second[:]},
		[]int64{int64(approval.CodeIssued), int64(approval.Live)}, []int64{0, 4},
		[]int64{int64(approval.Live), int64(approval.Ended)}, []int64{1, 5}, []int64{3, 6},
		[]string{"", string(approval.RevokedByPerson)}, []int64{0, 88}, []int64{9, 0}, []int64{77, 0},
		[][]byte{bound[:], {}},
	} {
		if i >= len(args) || fmt.Sprintf("%T %v", args[i], args[i]) != fmt.Sprintf("%T %v", want, want) {
			t.Errorf("$%d of %d: %v, want %v", i+1, len(args), args, want)
		}
	}
}
