package postgres

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store/engine"
)

// Whoever gives up is told so, also where there is an answer; who waits gets the answer.
func TestQuestionsWait(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	failed := errors.New("failed")
	for name, tt := range map[string]struct {
		ctx  context.Context
		err  error
		want error
	}{
		"an answer":               {t.Context(), nil, nil},
		"an error":                {t.Context(), failed, failed},
		"an answer, and too late": {over, nil, context.Canceled},
	} {
		q := newQuestion().(*Question)
		q.err = tt.err
		q.Done <- struct{}{}
		if err := q.wait(tt.ctx); !errors.Is(err, tt.want) || errors.Is(err, engine.ErrUnavailable) != (tt.ctx == over) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	later, end := context.WithCancel(t.Context())
	q, told := newQuestion().(*Question), make(chan error)
	go func() { told <- q.wait(later) }()
	end()
	if err := <-told; !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("gave up while it waited: %v", err)
	}
}

// What is asked while the engine closes is refused, and is in no queue: each of those who ask
// together.
func TestQuestionsAtTheEnd(t *testing.T) {
	p := away(t, "postgres://guest@db.example/keeper")
	p.Reads.close()
	if err := p.FreshNow(t.Context()); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("facts: %v", err)
	}
	if _, err := p.CheckNow(t.Context(), approval.ID{1}); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("an approval: %v", err)
	}
	all := []engine.Asked{{Approval: approval.ID{1}}, {ByKey: true}}
	p.CheckAllNow(t.Context(), all)
	for i, a := range all {
		if !errors.Is(a.Err, engine.ErrUnavailable) {
			t.Errorf("%d of two: %v", i, a.Err)
		}
	}
	if err := p.Fresh(p.Checked(t.Context())); err != nil {
		t.Errorf("behind a check: %v", err)
	}
}

// With a bound on staleness what is remembered answers, where the row and the facts were
// both read within it; and nothing is remembered of what has ended.
func TestChecksFromMemory(t *testing.T) {
	now, bound := Moment(time.Now()), int64(time.Hour)
	for _, tt := range []struct {
		name      string
		row, asOf int64
		most      time.Duration
		outgrown  bool
		want      bool
	}{
		{"both", now, now, time.Hour, false, true},
		{"no bound", now, now, 0, false, false},
		{"an old row", now - bound - 1, now, time.Hour, false, false},
		{"old facts", now, now - bound - 1, time.Hour, false, false},
		{"a schema of newer releases", now, now, time.Hour, true, false},
	} {
		p := away(t, "postgres://guest@db.example/keeper")
		p.Options.MaxStaleness = tt.most
		p.outgrown.Store(tt.outgrown)
		p.AsOf.Store(tt.asOf)
		p.Reads.close() // who asks the database is refused
		r := &row{}
		r.A.ID, r.A.Phase = approval.ID{1}, approval.Live
		r.Read.Store(tt.row)
		p.Rows.learn(r.A.ID, r, tt.row)
		access, err := p.Check(t.Context(), r.A.ID)
		if (err == nil) != tt.want || access.Remembered != tt.want {
			t.Errorf("%s: %v, remembered %v", tt.name, err, access.Remembered)
		}
	}
	p := away(t, "postgres://guest@db.example/keeper")
	if _, err := p.access(ended(approval.ID{1}, approval.State{Phase: approval.Live}, now)); err != engine.ErrNotFound {
		t.Errorf("one that has ended: %v", err)
	}
}

// That memory was up to date at a moment is not taken back by an earlier one, and lasts as
// long as the bound.
func TestRecent(t *testing.T) {
	p := &Engine{Env: engine.NewEnv(engine.Options{})}
	for n, step := range [][2]int64{{5, 5}, {3, 5}, {5, 5}, {9, 9}} {
		if p.found(step[0]); p.AsOf.Load() != step[1] {
			t.Errorf("step %d: as of %d, want %d", n, p.AsOf.Load(), step[1])
		}
	}
	now := Moment(time.Now())
	for _, tt := range []struct {
		most time.Duration
		asOf int64
		want bool
	}{{0, now + int64(time.Hour), false}, {time.Hour, now, true}, {time.Hour, now - int64(time.Hour) - 1, false}} {
		p.Options.MaxStaleness = tt.most
		p.AsOf.Store(tt.asOf)
		if got := p.Recent(); got != tt.want {
			t.Errorf("within %v, found at %d: %v", tt.most, tt.asOf, got)
		}
	}
}

// All of who is asked for has to be remembered, for what can have changed to be enough, and
// each is asked for once.
func TestWhatIsRead(t *testing.T) {
	known, other := approval.ID{1}, approval.ID{2}
	for _, tt := range []struct {
		name string
		what int
		ask  func(r *Reading)
		want int
		keys int
	}{
		{"one that is remembered", Checks, func(r *Reading) { r.Ask(known, &row{}) }, States, 1},
		{"it twice", Checks, func(r *Reading) { r.Ask(known, &row{}); r.Ask(known, nil) }, States, 1},
		{"and one that is not", Checks, func(r *Reading) { r.Ask(known, &row{}); r.Ask(other, nil) }, Checks, 2},
		{"and before it one that is not", Checks, func(r *Reading) { r.Ask(other, nil); r.Ask(known, &row{}) }, Checks, 2},
		{"whole", Wholes, func(r *Reading) { r.Ask(known, &row{}) }, Wholes, 1},
		{"facts alone", Checks, func(*Reading) {}, Checks, 0},
	} {
		var r Reading
		for range 2 { // it is used again
			r.Begin(tt.what)
			tt.ask(&r)
			r.Rows[other] = &row{}
			r.seen.found = 7
			for range 2 { // and tried again
				r.Start(5)
				if r.What != tt.want || len(r.Keys) != tt.keys || len(r.ids) != tt.keys || len(r.Rows) != 0 || r.seen != (seen{before: 5, found: none}) || r.Began == 0 {
					t.Errorf("%s: reads %d of %d, %d rows, %+v", tt.name, r.What, len(r.Keys), len(r.Rows), r.seen)
				}
			}
		}
	}
}
