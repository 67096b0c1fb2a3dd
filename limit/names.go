package limit

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"strings"
	"time"
)

// Names counts requests for each name: an organization's ID (decision B6) or the
// account of a sign-in (decision L4).
//
// Names may come from strangers. At most [Remembered] are counted on their own;
// beyond, a new one shares one of 65,536 counters with others of the same hash,
// which nobody outside can compute. It is safe for use by many goroutines.
type Names struct {
	c      *counter[string]
	remote *remote // nil counts in memory alone
	policy []string
}

// NewNames panics if l has no requests or less than a second.
func NewNames(l Limit) *Names {
	return newNames(l, Remembered)
}

func newNames(l Limit, room int) *Names {
	seed := maphash.MakeSeed()
	bucket := func(name string, _ level) string {
		return string(binary.BigEndian.AppendUint16(nil, uint16(maphash.String(seed, name))))
	}
	// A name may be a piece of a whole request, which must not be kept with it.
	return &Names{c: newCounter(l, room, strings.Clone, bucket), policy: policy(l)}
}

// Limit is what every name has that has no override.
func (w *Names) Limit() Limit { return w.c.limit }

// Allow is as [Addresses.Allow].
func (w *Names) Allow(name string, now time.Time) (ok bool, retryAfter time.Duration) {
	return w.AllowUpTo(name, w.c.limit.N, now)
}

// AllowUpTo is Allow for a name that has n requests in the window instead of the
// limit's: an organization's override (decision B6). With n below one nothing is
// let through.
func (w *Names) AllowUpTo(name string, n int, now time.Time) (ok bool, retryAfter time.Duration) {
	_, wait := w.Take(name, n, 1, now)
	return wait == 0, wait
}

// Take lets so many requests through, all or none: then the wait is 0, and it says
// how many more are left. Otherwise it is how long until there is room for all of
// them, or, where n is less than that, the whole window.
func (w *Names) Take(name string, n, requests int, now time.Time) (left int, retryAfter time.Duration) {
	left, retryAfter = w.ask(name, n, now, requests)
	if retryAfter == 0 {
		left -= requests
	}
	return max(left, 0), retryAfter
}

// Wait is how long until Allow would let a request through, 0 when it would now. It
// takes none.
func (w *Names) Wait(name string, now time.Time) time.Duration {
	_, wait := w.ask(name, w.c.limit.N, now, 0)
	return wait
}

// Remaining says how many more requests AllowUpTo would let through at now. It
// takes none.
func (w *Names) Remaining(name string, n int, now time.Time) int {
	left, _ := w.ask(name, n, now, 0)
	return left
}

func (w *Names) ask(name string, n int, now time.Time, take int) (left int, wait time.Duration) {
	if w.remote == nil {
		return w.c.ask(short(name), n, now, take)
	}
	return askRemote(w.remote, w.c, nameKeys(name), short(name), n, now, take)
}

// nameKeys are what a name is counted under in a shared counter: a hash, so that
// no account can be read there.
func nameKeys(name string) func(prefix string) []string {
	return func(prefix string) []string {
		sum := sha256.Sum256([]byte(name))
		text := hex.EncodeToString(sum[:16])
		return []string{prefix + text, prefix + "crowd:" + text[:4]}
	}
}

// short bounds what a name costs: a long one is remembered by its hash.
func short(name string) string {
	if len(name) <= 64 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return string(sum[:])
}
