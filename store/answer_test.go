package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/token"
)

// A page answered again is the same approval with the latest choices and the
// same code, until that is exchanged (decision A12).
func TestPageAnsweredAgain(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	first, issued, err := h.Approve(ctx, h.answer(1), Act{})
	if err != nil {
		t.Fatal(err)
	}
	h.clock.add(4 * time.Minute)
	wider := h.answer(1)
	wider.Grant = grantset.Set{Kind: grantset.Everything}
	again, issuedAgain, err := h.Approve(ctx, wider, Act{})
	if err != nil || again != first || issuedAgain != issued {
		t.Fatalf("another approval or code: %v, %v, %v", again != first, issuedAgain-issued, err)
	}
	h.clock.add(time.Minute) // the first code is over now
	if v, _ := h.exchange(approval.ID(first.ID()), issued); v != approval.Expired {
		t.Fatalf("got %v, want expired", v)
	}
	again, issuedAgain, err = h.Approve(ctx, wider, Act{})
	if err != nil || again != first || issuedAgain != h.Now().Unix() {
		t.Fatalf("no new issue time: %v, %v", issuedAgain, err)
	}
	if v, err := h.exchange(approval.ID(first.ID()), issuedAgain); v != approval.OK {
		t.Fatalf("exchange: %v, %v", v, err)
	}
	if a, err := h.Check(ctx, approval.ID(first.ID())); err != nil || a.Approval.Grant.Kind != grantset.Everything {
		t.Errorf("grant: %v, %v; want the latest choice", a.Approval.Grant.Kind, err)
	}
	if _, _, err := h.Approve(ctx, wider, Act{}); !errors.Is(err, ErrAnswered) {
		t.Errorf("after the exchange: got %v, want answered", err)
	}
	if err := h.Cancel(ctx, Cancelled{h.page(1), "quill", "ada"}, Act{}); !errors.Is(err, ErrAnswered) {
		t.Errorf("cancel after the exchange: got %v, want answered", err)
	}
	if !h.accepts(t, approval.ID(first.ID())) {
		t.Error("answering again has ended the approval")
	}
}

// Cancel after Approve ends what was not exchanged; Approve after Cancel
// approves, and brings nothing back (decisions A12, P10).
func TestCancelAndApprove(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	cancel := func() error { return h.Cancel(ctx, Cancelled{h.page(1), "quill", "ada"}, Act{}) }
	if err := cancel(); err != nil {
		t.Fatal(err)
	}
	first, issued, err := h.Approve(ctx, h.answer(1), Act{})
	if err != nil {
		t.Fatal(err)
	}
	if err := cancel(); err != nil {
		t.Fatal(err)
	}
	if v, _ := h.exchange(approval.ID(first.ID()), issued); v != approval.Over {
		t.Errorf("exchange after cancel: got %v, want over", v)
	}
	second, issued, err := h.Approve(ctx, h.answer(1), Act{})
	if err != nil || second == first {
		t.Fatalf("approve after cancel: %v, same %v", err, second == first)
	}
	if v, err := h.exchange(approval.ID(second.ID()), issued); v != approval.OK {
		t.Errorf("exchange: %v, %v", v, err)
	}
	if _, _, err := h.Approve(ctx, h.answer(1), Act{}); !errors.Is(err, ErrAnswered) {
		t.Errorf("the second attempt was exchanged: got %v, want answered", err)
	}
}

func TestApproveAsksTheFactsAgain(t *testing.T) {
	ctx := context.Background()
	tests := []struct {
		name  string
		spoil func(h house, a *Answer) error
		want  error
	}{
		{"client disabled", func(h house, _ *Answer) error { return h.SetClientEnabled(ctx, "quill", false, Act{}) }, ErrNotFound},
		{"client over 14 days old (T-11)", func(h house, _ *Answer) error { h.clock.add(client.UnapprovedRetention); return nil }, ErrNotFound},
		{"client unknown", func(_ house, a *Answer) error { a.Client = "none"; return nil }, ErrNotFound},
		{"AI integration off", func(h house, _ *Answer) error { return h.SetIntegration(ctx, "nordlys", false, Act{}) }, ErrNotAllowed},
		{"member removed", func(h house, _ *Answer) error { return h.RemoveMember(ctx, "nordlys", "ada", Act{}) }, ErrNotAllowed},
		{"person deactivated", func(h house, _ *Answer) error { return h.SetActive(ctx, "ada", false, Act{}) }, ErrNotAllowed},
		{"admin right lost", func(h house, a *Answer) error {
			a.Grant = grantset.Set{Kind: grantset.Organization}
			return h.SetAdmin(ctx, "nordlys", "ada", false, Act{})
		}, ErrNotAllowed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			a := h.answer(1)
			if err := tt.spoil(h, &a); err != nil {
				t.Fatal(err)
			}
			if _, _, err := h.Approve(ctx, a, Act{}); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if rows, _, err := h.Approvals(ctx, ApprovalFilter{}); err != nil || len(rows) != 0 {
				t.Errorf("%d rows, %v; want none", len(rows), err)
			}
		})
	}
}

// The checkbox `replace` ends the earlier approvals when the new code is
// exchanged, not before, and not those made later (decision P1).
func TestReplace(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	earlier := h.live(t, h.answer(1))
	other := h.answer(2)
	other.Person, other.Grant = "tor", grantset.Set{Kind: grantset.Everything}
	others := h.live(t, other)
	a := h.answer(3)
	a.Replace = true
	handle, issued, err := h.Approve(ctx, a, Act{})
	if err != nil {
		t.Fatal(err)
	}
	later := h.live(t, h.answer(4))
	if !h.accepts(t, earlier) {
		t.Error("ended before the exchange")
	}
	if v, err := h.exchange(approval.ID(handle.ID()), issued); v != approval.OK {
		t.Fatal(v, err)
	}
	if h.accepts(t, earlier) || !h.accepts(t, others) || !h.accepts(t, later) {
		t.Errorf("earlier %v, another person's %v, later %v; want only the earlier one ended",
			h.accepts(t, earlier), h.accepts(t, others), h.accepts(t, later))
	}
	if row, _ := h.Approval(ctx, earlier); row.Reason != approval.Replaced {
		t.Errorf("reason %q, want replaced", row.Reason)
	}
}

// T-12: a client is either approved and kept, or deleted without a code.
func TestT12DeletionAndApprovalAtOnce(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	for round := range rounds(1000) {
		id := fmt.Sprintf("client-%d", round)
		c := client.Client{ID: id, RedirectURIs: []string{redirect}, IssuedAt: h.Now().Add(-client.UnapprovedRetention).Unix()}
		if round%2 == 0 {
			c.IssuedAt++ // one second to live
		}
		if err := h.AddClient(ctx, c, Origin{}, Act{}); err != nil {
			t.Fatal(err)
		}
		a := h.answer(0)
		a.Client = id
		nonce := fmt.Sprintf("%16d", round)
		a.Handle = func(uint32) (out token.Handle) { copy(out[:], nonce); return out }
		var approved error
		var wg sync.WaitGroup
		wg.Go(func() { _, _, approved = h.Approve(ctx, a, Act{}) })
		if _, err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if _, err := h.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		_, err := h.Client(ctx, id)
		if kept := err == nil; round%2 == 1 && approved == nil || approved == nil && !kept {
			t.Fatalf("round %d: approved %v, kept %v", round, approved == nil, kept)
		}
	}
}
