package enginetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/store"
)

var over = []behaviour{
	{"a sweep: it ends and deletes what time has ended, however much, and nothing else", "", showSweep},
}

// swept wants a sweep to do as much, and to say before that it will.
func (d *database) swept(when string, want store.Swept) {
	d.t.Helper()
	due, err := d.Due(ctx)
	if err != nil || due != want {
		d.t.Errorf("%s: due %+v, %v; want %+v", when, due, err, want)
	}
	if got, err := d.Sweep(ctx); err != nil || got != want {
		d.t.Errorf("%s: swept %+v, %v; want %+v", when, got, err, want)
	}
	d.agree(when)
}

func showSweep(t *testing.T, h Harness) {
	d := furnished(t, h)
	stranger := d.client("stranger")
	d.must(d.AddClient(ctx, stranger, store.Origin{}, operator))
	living, over, waiting := d.live(d.page()), d.live(d.page()), d.approve(d.page())
	d.must(d.EndApproval(ctx, over.ID, approval.RevokedByPerson, operator))
	d.must(d.Enter(ctx, store.Entry{Value: "session", Person: "tor"}, operator))
	d.must(d.Enter(ctx, store.Entry{Value: "kept", Person: "ada"}, operator))
	_, err := d.AddReset(ctx, "link", "ada", store.ResetLifetime, operator)
	d.must(err)
	d.swept("at once", store.Swept{})
	d.clock.add(10 * time.Minute)
	d.swept("the page can be answered again", store.Swept{})
	if r, err := d.Approval(ctx, waiting.ID); err != nil || r.Reason != approval.NeverConnected {
		t.Errorf("a code that has expired: %q, %v", r.Reason, err)
	}
	d.clock.add(time.Hour)
	d.swept("the code is over", store.Swept{Ended: 1})
	d.clock.add(10*time.Hour + 49*time.Minute)
	if _, err := d.Session(ctx, "kept"); err != nil {
		t.Error(err)
	}
	d.settle()
	d.clock.add(time.Minute)
	d.swept("a session was idle for 12 hours", store.Swept{Sessions: 1})
	d.clock.add(12 * time.Hour)
	d.swept("the link and the other session are over", store.Swept{Sessions: 1, Resets: 1})
	d.sweepClients(stranger)
	d.clock.add(store.EndedRetention - client.UnapprovedRetention - time.Second)
	d.swept("a second before 90 days", store.Swept{})
	d.clock.add(time.Second)
	d.swept("an approval that has ended long ago", store.Swept{Approvals: 1})
	d.clock.add(store.EndedRetention)
	d.swept("the one that was never connected", store.Swept{Approvals: 1})
	d.clock.add(store.JournalRetention)
	entries, _, err := d.Events(ctx, store.EventFilter{Limit: 1000})
	d.must(err)
	if got, err := d.Sweep(ctx); err != nil || got.Events < len(entries) {
		t.Errorf("a year later: swept %+v, %v; want all %d entries and more", got, err, len(entries))
	}
	for _, s := range d.all() {
		if !d.accepts(s, living) {
			t.Error("the sweep has ended what lives")
		}
	}
	d.must(moved(d.refresh(d.Store, living, 1)))
	d.agree("in the end")
}

// sweepClients adds many like one that is a day old, and sweeps them all.
func (d *database) sweepClients(stranger client.Client) {
	d.t.Helper()
	const many = 1100 // more than a commit takes
	for n := range many {
		c := stranger
		c.ID = fmt.Sprint("s", n)
		d.must(d.AddClient(ctx, c, store.Origin{}, operator))
	}
	d.clock.add(client.UnapprovedRetention - 24*time.Hour - time.Second)
	d.swept("a second before 14 days", store.Swept{})
	d.clock.add(time.Second)
	for before, want := range map[time.Duration]int{0: many + 1, time.Second: 0} {
		if got, err := d.Expired(ctx, d.Now().Add(-before)); err != nil || got != (store.Swept{Clients: want}) {
			d.t.Errorf("expired %s ago: %+v, %v; want %d clients", before, got, err, want)
		}
	}
	d.swept("clients that nobody approved", store.Swept{Clients: many + 1})
}
