package engine

import (
	"log/slog"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
)

// Env is what a store, its engine and its transactions have in common.
type Env struct {
	Options Options
	Log     *slog.Logger
	Memory  *Memory
	Clock   Clock
	Ids     EventIDs
}

// NewEnv completes the options.
func NewEnv(o Options) *Env {
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
	if o.AttemptsKeep == 0 {
		o.AttemptsKeep = AttemptsKeep
	}
	if o.SessionIdle == 0 {
		o.SessionIdle = 12 * time.Hour
	}
	if o.SessionMax == 0 {
		o.SessionMax = 30 * 24 * time.Hour
	}
	e := &Env{Options: o, Log: o.Log, Memory: newMemory(o.Impersonal)}
	e.Clock.Machine, e.Clock.Steady = o.Now, steady
	return e
}

// Now is the time of every decision. It never goes back (decision T12).
func (e *Env) Now() time.Time { return e.Clock.Now() }

// Timed tells how long a query took, to its last row: defer it.
func (e *Env) Timed(query string, start time.Time) {
	if e.Options.Took != nil {
		e.Options.Took(query, time.Since(start))
	}
}

// WarnBehind says that the machine's clock is not what time is taken from.
func (e *Env) WarnBehind() {
	if behind := e.Now().Sub(e.Clock.Machine()); behind > clockBehind {
		e.Log.Warn("the clock is behind the highest time that was seen: time goes on from there, and never back", "behind", behind.Round(time.Second).String())
	}
}

// Transition is what a move has made of an approval that was in a state before.
func (e *Env) Transition(a approval.Approval, before approval.State) Transition {
	t := Transition{ID: a.ID, Before: before, After: a.State}
	if a.State.Refreshes(before) {
		t.Used = uint32(e.Now().Unix())
	}
	return t
}
