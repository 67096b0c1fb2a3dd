package server

import (
	"runtime"
	"sync/atomic"
	"time"
)

// turns has an answer wait until whatever else was ready to run has run: under
// load requests are worked through first, and their answers leave one right after
// the other. A caller on the same machine is woken once for several answers then,
// and not in the middle of each request: it and the server together take an
// eighth less time for a guarded call. An answer alone has nothing to wait for.
//
// Where somebody keeps the processors, as two passwords that are hashed can, an
// answer would wait for them twice. So after a long wait none waits for a while.
type turns struct {
	since func() time.Duration // a clock that nobody sets
	after atomic.Int64         // nobody waits before this time of it
}

const (
	longWait = 8 * time.Millisecond // the runtime takes a processor away after 10
	noWait   = 200 * time.Millisecond
)

func newTurns() *turns {
	start := time.Now()
	return &turns{since: func() time.Duration { return time.Since(start) }}
}

func (t *turns) wait() {
	before := t.since()
	if int64(before) < t.after.Load() {
		return
	}
	runtime.Gosched()
	if now := t.since(); now-before > longWait {
		t.after.Store(int64(now + noWait))
	}
}
