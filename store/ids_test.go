package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
)

// An ID is found by its beginning, page by page and in order, of every kind.
func TestIDs(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	var approvals []string
	for nonce := range byte(20) {
		id := h.live(t, h.answer(nonce+1))
		approvals = append(approvals, id.String())
	}
	slices.Sort(approvals)
	walk := func(kind, prefix string, limit int) (all []string) {
		for after := ""; ; {
			ids, next, err := h.IDs(ctx, kind, prefix, after, limit)
			if err != nil || len(ids) > limit {
				t.Fatalf("%s %q: %v, %v", kind, prefix, ids, err)
			}
			if all = append(all, ids...); next == "" {
				return all
			}
			after = next
		}
	}
	if got := walk("approval", "", 3); !slices.Equal(got, approvals) {
		t.Errorf("all: %v, want %v", got, approvals)
	}
	for _, id := range approvals {
		for n := range len(id) + 1 {
			want := slices.DeleteFunc(slices.Clone(approvals), func(one string) bool { return one[:n] != id[:n] })
			if got := walk("approval", id[:n], 2); !slices.Equal(got, want) {
				t.Errorf("%q: %v, want %v", id[:n], got, want)
			}
		}
	}
	for kind, at := range map[string][2]string{"client": {"qui", "quill"}, "person": {"ad", "ada"}, "organization": {"nordl", "nordlys"}} {
		if got := walk(kind, at[0], 2); !slices.Equal(got, []string{at[1]}) {
			t.Errorf("%s: %v", kind, got)
		}
	}
	for _, prefix := range []string{"g", "A", "\xff", "%", "_", approvals[0] + "0", "é"} {
		for _, kind := range []string{"approval", "client"} {
			if got := walk(kind, prefix, 2); len(got) > 0 {
				t.Errorf("%s %q: %v", kind, prefix, got)
			}
		}
	}
	for _, kind := range []string{"approval", "client"} {
		if _, _, err := h.IDs(ctx, kind, "", "\xff", 2); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: a made up cursor: %v", kind, err)
		}
	}
}

// What has not ended is counted by each name that it stands under.
func TestUnended(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.live(t, h.answer(1))
	h.live(t, h.answer(2))
	for want, f := range map[int][]ApprovalFilter{
		2: {{}, {Client: "quill"}, {Person: "ada"}, {Organization: "nordlys"}},
		0: {{Client: "other"}, {Person: "tor"}, {Organization: "havn"}},
	} {
		for _, one := range f {
			if n, err := h.Unended(ctx, one); n != want || err != nil {
				t.Errorf("%+v: %d, %v; want %d", one, n, err, want)
			}
		}
	}
	if err := h.SetClientEnabled(ctx, "quill", false, Act{}); err != nil {
		t.Fatal(err)
	}
	if n, err := h.Unended(ctx, ApprovalFilter{Client: "quill"}); n != 0 || err != nil {
		t.Error(fmt.Sprint("of a disabled client: ", n), err)
	}
}
