package store

import (
	"bytes"
	"io"
	"slices"
	"testing"

	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/journal/chain"
)

// journaled writes n entries.
func (h house) journaled(t testing.TB, n int) {
	t.Helper()
	for few := n; few > 0; few -= min(few, 500) {
		if err := h.change(func(tx *Tx) error {
			return tx.Journal(slices.Repeat([]Event{{Kind: journal.SignInFailed, Person: "ada"}}, min(few, 500))...)
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func (h house) seal(t testing.TB) Sealed {
	t.Helper()
	out, err := h.Seal(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// whole verifies what the store exports: all of its entries, and each anchor.
func (h house) whole(t testing.TB, anchors ...chain.Anchor) *chain.Report {
	t.Helper()
	var out bytes.Buffer
	if err := h.WriteProof(ctx, 0, &out); err != nil {
		t.Fatal(err)
	}
	r, err := chain.Verify(func() (io.ReadCloser, error) { return io.NopCloser(&out), nil }, anchors)
	if err != nil {
		t.Fatal(err)
	}
	if n := h.rows(t, `SELECT COUNT(*) FROM journal`); len(r.Faults) > 0 || r.AgreedCount != len(anchors) || r.Entries+r.Unsealed != int64(n) {
		t.Fatalf("%d entries: %+v", n, r)
	}
	return r
}
