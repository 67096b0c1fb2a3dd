package enginetest

import (
	"errors"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/store"
)

var times = []behaviour{
	{"a clock that is set back: nothing is accepted again that was over", "", showTimeBack},
	{"a clock that was set back before a restart, or a crash: the same", KeepTime, showTimeKept},
}

func isInUse(err error) bool { return errors.Is(err, store.ErrInUse) }

// timed is what time has ended.
type timed struct {
	*database
	code, living *subject
	seen         time.Time
}

// runOut lets time end a code, a session and a link.
func (d *database) runOut() *timed {
	d.t.Helper()
	d.must(d.Enter(ctx, store.Entry{Value: "session", Person: "ada"}, operator))
	_, err := d.AddReset(ctx, "link", "ada", store.ResetLifetime, operator)
	d.must(err)
	o := &timed{d, d.approve(d.page()), d.live(d.page()), time.Time{}}
	d.clock.add(25 * time.Hour)
	o.over("in time")
	d.settle()
	o.seen = d.Now()
	return o
}

func (o *timed) over(when string) {
	o.t.Helper()
	for _, s := range o.all() {
		if now := s.Now(); now.Before(o.seen.Truncate(time.Second)) {
			o.t.Errorf("%s: it is %v, and was %v", when, now, o.seen)
		}
		if v, err := o.exchange(s, o.code); v == approval.OK || err != nil {
			o.t.Errorf("%s: the code: %v, %v", when, v, err)
		}
		if r, err := s.Approval(ctx, o.code.ID); err != nil || r.Reason != approval.NeverConnected {
			o.t.Errorf("%s: the code is shown as %q, %v", when, r.Reason, err)
		}
		if _, err := s.Session(ctx, "session"); !errors.Is(err, store.ErrNotFound) {
			o.t.Errorf("%s: the session: %v", when, err)
		}
		if _, err := s.ResetOf(ctx, "link"); !errors.Is(err, store.ErrNotFound) {
			o.t.Errorf("%s: the link: %v", when, err)
		}
		if !o.accepts(s, o.living) {
			o.t.Errorf("%s: what has no end is not accepted", when)
		}
	}
}

// The time never goes back (decision T12).
func showTimeBack(t *testing.T, h Harness) {
	o := furnished(t, h).runOut()
	for _, back := range []time.Duration{time.Second, time.Hour, 24 * time.Hour} {
		o.clock.add(-back)
		o.over("set back")
	}
	o.clock.add(48 * time.Hour)
	o.over("ahead again")
	o.agree("in the end")
}

func showTimeKept(t *testing.T, h Harness) {
	o := furnished(t, h).runOut()
	o.clock.add(-24 * time.Hour)
	o.reopen()
	o.over("set back, and a restart")
	o.clock.add(26 * time.Hour)
	o.must(moved(o.refresh(o.Store, o.living, 1)))
	o.seen = o.Now()
	o.clock.add(-26 * time.Hour)
	left := &database{Place: o.Crash(t), t: t, harness: h, clock: o.clock, ring: o.ring}
	left.Store = left.open()
	(&timed{left, o.code, o.living, o.seen}).over("set back, and a crash")
}
