package signin

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestHash(t *testing.T) {
	a, b := Hash("correct horse"), Hash("correct horse")
	if a == b {
		t.Error("two hashes of one password are equal: no salt")
	}
	if !strings.HasPrefix(a, "$argon2id$v=19$m=19456,t=2,p=1$") {
		t.Errorf("hash %q has not the costs of decision L4", a)
	}
	h, err := parsePHC(a)
	if err != nil {
		t.Fatal(err)
	}
	if !h.matches("correct horse") || h.matches("correct horse ") || h.matches("") {
		t.Error("the hash does not tell its password from others")
	}
	long := strings.Repeat("é", 200)
	if h, err := parsePHC(Hash(long)); err != nil || !h.matches(long) || h.matches(long[:len(long)-2]) {
		t.Error("a long password is cut")
	}
}

// A known answer, made with the reference implementation of argon2.
func TestHashOfOthers(t *testing.T) {
	const stored = "$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	h, err := parsePHC(stored)
	if err != nil {
		t.Fatal(err)
	}
	if !h.matches("password") || h.matches("passwords") {
		t.Error("a hash with other costs is not understood")
	}
}

func TestBrokenHashes(t *testing.T) {
	good := Hash("x")
	for _, s := range []string{
		"", "$", good + "$", good[1:], strings.Replace(good, "argon2id", "argon2i", 1), strings.Replace(good, "v=19", "v=16", 1),
		strings.Replace(good, "m=19456", "m=4194304", 1), strings.Replace(good, "m=19456", "m=-1", 1), strings.Replace(good, "t=2", "t=11", 1),
		strings.Replace(good, "t=2", "t=0", 1), strings.Replace(good, "p=1", "p=0", 1), strings.Replace(good, "p=1", "p=9", 1),
		strings.Replace(good, "m=19456,t=2,p=1", "", 1), "$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$", "$argon2id$v=19$m=19456,t=2,p=1$!$AAAA",
		"$2a$10$abcdefghijklmnopqrstuv", "plain",
	} {
		if _, err := parsePHC(s); err == nil {
			t.Errorf("%q is read", s)
		}
	}
}

// Decision L4: two at once, 32 waiting, then none.
func TestHashesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasher()
		var inside, most, done atomic.Int32
		release := make(chan struct{})
		var all sync.WaitGroup
		for range hashing + waiting {
			all.Go(func() {
				if err := h.enter(t.Context()); err != nil {
					t.Error(err)
					return
				}
				most.Store(max(most.Load(), inside.Add(1)))
				<-release
				inside.Add(-1)
				h.leave()
				done.Add(1)
			})
		}
		synctest.Wait()
		if inside.Load() != 2 {
			t.Errorf("%d hash at once, want 2", inside.Load())
		}
		if err := h.enter(t.Context()); !errors.Is(err, errBusy) {
			t.Errorf("the 35th: %v, want busy", err)
		}
		close(release)
		all.Wait()
		if most.Load() > 2 || done.Load() != 34 {
			t.Errorf("at most %d at once, %d done", most.Load(), done.Load())
		}
		if err := h.enter(t.Context()); err != nil {
			t.Errorf("afterwards: %v", err)
		}
		h.enter(t.Context())
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := h.enter(gone); !errors.Is(err, context.Canceled) {
			t.Errorf("somebody who went away: %v", err)
		}
		h.leave()
		if err := h.enter(t.Context()); err != nil || h.inside.Load() != 2 {
			t.Errorf("who went away is still counted: %d, %v", h.inside.Load(), err)
		}
	})
}
