package store

import (
	"log/slog"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// env is what a store, its engine and its transactions have in common.
type env struct {
	options Options
	log     *slog.Logger
	memory  *memory
	clock   clock
	ids     eventIDs
}

// newEnv completes the options.
func newEnv(o Options) *env {
	var steady func() time.Duration
	if o.Now == nil {
		start := time.Now()
		o.Now, steady = time.Now, func() time.Duration { return time.Since(start) }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.JournalRetention == 0 {
		o.JournalRetention = JournalRetention
	}
	if o.SessionIdle == 0 {
		o.SessionIdle = 12 * time.Hour
	}
	if o.SessionMax == 0 {
		o.SessionMax = 30 * 24 * time.Hour
	}
	e := &env{options: o, log: o.Log, memory: newMemory(o.Impersonal)}
	e.clock.machine, e.clock.steady = o.Now, steady
	return e
}

// Now is the time of every decision. It never goes back (decision T12).
func (e *env) Now() time.Time { return e.clock.now() }

// timed tells how long a query took, to its last row: defer it.
func (e *env) timed(query string, start time.Time) {
	if e.options.Took != nil {
		e.options.Took(query, time.Since(start))
	}
}

// warnBehind says that the machine's clock is not what time is taken from.
func (e *env) warnBehind() {
	if behind := e.Now().Sub(e.clock.machine()); behind > clockBehind {
		e.log.Warn("the clock is behind the highest time that was seen: time goes on from there, and never back", "behind", behind.Round(time.Second).String())
	}
}

// transition is what a move has made of an approval that was in a state before.
func (e *env) transition(a approval.Approval, before approval.State) transition {
	t := transition{id: a.ID, before: before, after: a.State}
	if a.State.Refreshes(before) {
		t.used = uint32(e.Now().Unix())
	}
	return t
}
