package enginetest

import (
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

var restarts = []behaviour{
	{"a restart: everything is as before, and goes on", "", showRestart},
	{"a second process on the rows", "", showSecond},
}

func showRestart(t *testing.T, h Harness) {
	d := furnished(t, h)
	used := d.live(d.pageIn("fjell"))
	d.must(moved(d.refresh(d.Store, used, 1)))
	d.clock.add(time.Hour)
	d.Used(used.ID)
	for _, c := range changes {
		d.must(c.prepare(d)(d.Store))
	}
	d.Record(store.Event{Kind: journal.RegistrationRefused})
	next := d.live(d.pageIn("nordlys"))
	d.settle()
	before := d.view(d.Store)
	for range 2 {
		d.reopen()
		for _, s := range d.all() {
			d.same("after a restart", d.view(s), before)
		}
	}
	for n := range int64(3) {
		d.must(moved(d.refresh(d.all()[int(n)%len(d.all())], next, n+1)))
		d.reopen()
	}
	if v, err := d.refresh(d.Store, next, 3); v != approval.Reused || err != nil {
		t.Errorf("a used token after a restart: %v, %v", v, err)
	}
	d.agree("in the end")
}

// Where two can work on the rows both do; where one can, the second is refused.
func showSecond(t *testing.T, h Harness) {
	d := furnished(t, h)
	s, err := store.Open(ctx, d.Options(store.Options{Ring: d.ring, Now: d.clock.Now}))
	if err == nil {
		defer s.Close()
	}
	if one := h.Cannot[Beside] != ""; one != (err != nil) || one && !isInUse(err) {
		t.Errorf("a second process: %v", err)
	}
}
