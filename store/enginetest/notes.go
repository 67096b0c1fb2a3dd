package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store"
)

var notes = []behaviour{
	{"the last use: true to the hour, of calls and refreshes, and it never goes back", "", showLastUse},
	{"what nobody waits for: written in its order, bounded while it cannot be, told where it is lost", "", showNotes},
	{"what nobody waits for beside a change that fails: it is written all the same", Refuse, showNotesBesideFailure},
	{"what nobody waits for, at the end: Close waits for it", "", showNotesAtClose},
}

// lastUse wants the last use of an approval, for every store.
func (d *database) lastUse(what string, s *subject, want int64) {
	d.t.Helper()
	d.settle()
	for _, at := range d.all() {
		r, err := at.Approval(ctx, s.ID)
		if err != nil || r.LastUsed != want {
			d.t.Errorf("%s: last use %d, %v; want %d", what, r.LastUsed, err, want)
		}
		a, err := at.Check(ctx, s.ID)
		if idle := d.Now().Unix()-want >= 3600; r.Phase == approval.Live && (err != nil || a.Idle(at.Now()) != idle) {
			d.t.Errorf("%s: idle %t, %v", what, !idle, err)
		}
	}
}

// Approvals that nobody uses may end (decision P11).
func showLastUse(t *testing.T, h Harness) {
	d := furnished(t, h)
	s := d.live(d.page())
	d.lastUse("exchanged", s, 0)
	start := d.Now().Unix()
	for _, step := range []struct {
		wait time.Duration
		want int64
	}{{0, start}, {59 * time.Minute, start}, {time.Minute, start + 3600}, {time.Second, start + 3600}} {
		d.clock.add(step.wait)
		d.Used(s.ID)
		d.lastUse(fmt.Sprint("used after ", step.wait), s, step.want)
	}
	d.reopen()
	d.Used(s.ID)
	d.lastUse("after a restart", s, start+3600)
	d.clock.add(time.Minute)
	d.must(moved(d.refresh(d.Store, s, 1)))
	d.lastUse("refreshed", s, d.Now().Unix())
	used := d.Now().Unix()
	d.clock.add(2 * time.Hour)
	d.must(d.EndApproval(ctx, s.ID, approval.RevokedByPerson, operator))
	d.lastUse("ended", s, used)
	d.Used(approval.ID{7}) // which nobody has
	d.agree("used")
}

func showNotes(t *testing.T, h Harness) {
	const each = 9000
	d := furnished(t, h)
	used := d.live(d.page())
	noted := []journal.Kind{journal.RegistrationRefused, journal.RateLimited}
	var asked []string
	d.held(func() {
		for n := range each {
			for _, kind := range noted {
				d.Record(store.Event{Kind: kind, Detail: strconv.Itoa(n)})
				asked = append(asked, string(kind)+strconv.Itoa(n))
			}
		}
		d.Used(used.ID)
	})
	var written []string
	lost := 0
	for range 1000 {
		d.settle()
		written = d.details(noted...)
		if lost = d.said("is lost"); len(written)+lost >= len(asked) {
			break
		}
	}
	if len(written)+lost != len(asked) || lost == 0 || len(written) == 0 {
		t.Errorf("of %d entries %d are written, and %d lost", len(asked), len(written), lost)
	}
	for i, at := 0, 0; i < len(written); i++ { // in the order in which they were asked for, each once
		next := slices.Index(asked[at:], written[i])
		if next < 0 {
			t.Fatalf("%s is written out of order", written[i])
		}
		at += next + 1
	}
	var told []string
	d.mu.Lock()
	for _, e := range d.events {
		if slices.Contains(noted, e.Kind) {
			told = append(told, string(e.Kind)+e.Detail)
		}
	}
	d.mu.Unlock()
	if !slices.Equal(told, written) {
		t.Errorf("%d entries are told of, and %d written", len(told), len(written))
	}
	d.Used(used.ID) // whether or not there was room for it before
	d.lastUse("with room again", used, d.Now().Unix())
}

// details are the entries of some kinds, oldest first, with what tells them apart.
func (d *database) details(of ...journal.Kind) []string {
	d.t.Helper()
	return pages(d, func(after string) (out []string, next string, err error) {
		list, next, err := d.Events(ctx, store.EventFilter{Kinds: of, OldestFirst: true, After: after, Limit: 1000})
		for _, e := range list {
			out = append(out, string(e.Kind)+e.Detail)
		}
		return out, next, err
	})
}

func showNotesBesideFailure(t *testing.T, h Harness) {
	d := furnished(t, h)
	const rounds = 4
	used, want := d.live(d.page()), []string(nil)
	for round := range rounds {
		d.clock.add(time.Hour)
		codes := make([]*subject, 20)
		for i := range codes {
			codes[i] = d.approve(d.page())
		}
		lift := d.Refuse(t, "INSERT", "journal", "NEW.kind = '"+string(journal.CodeExchanged)+"'")
		var wg sync.WaitGroup
		d.held(func() {
			begun := make(chan struct{}, len(codes))
			for i, code := range codes {
				wg.Go(func() {
					begun <- struct{}{}
					if v, err := d.exchange(d.Store, code); !errors.Is(err, store.ErrUnavailable) {
						t.Errorf("an exchange that fails: %v, %v", v, err)
					}
				})
				detail := fmt.Sprint(round, " ", i)
				d.Record(store.Event{Kind: journal.RegistrationRefused, Detail: detail})
				want = append(want, string(journal.RegistrationRefused)+detail)
			}
			d.Used(used.ID)
			for range codes {
				<-begun
			}
		})
		wg.Wait()
		lift()
		d.lastUse("beside a failure", used, d.Now().Unix())
	}
	d.agree("beside a failure")
	if got := d.details(journal.RegistrationRefused); !slices.Equal(got, want) {
		t.Errorf("written %q, want %q", got, want)
	}
}

func showNotesAtClose(t *testing.T, h Harness) {
	d := furnished(t, h)
	s := d.live(d.page())
	const noted = 2000
	d.held(func() {
		for range noted {
			d.Record(store.Event{Kind: journal.RegistrationRefused})
		}
		d.Used(s.ID)
	})
	d.must(d.Close(), d.Close())
	_, _, approved := d.Approve(ctx, d.page(), operator)
	_, refreshed := d.refresh(d.Store, s, 1)
	_, registered := d.Client(ctx, "quill")
	_, swept := d.Sweep(ctx)
	for what, err := range map[string]error{
		"approve": approved, "refresh": refreshed, "client": registered, "sweep": swept, "ready": d.Ready(ctx),
		"register": d.AddClient(ctx, d.client("c"), store.Origin{}, operator),
	} {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("closed, %s: %v, want unavailable", what, err)
		}
	}
	d.Used(s.ID)
	d.Record(store.Event{Kind: journal.RegistrationRefused})
	d.Store = d.open()
	d.lastUse("used before the end", s, d.Now().Unix())
	if n := len(d.details(journal.RegistrationRefused)); n != noted {
		t.Errorf("%d entries of %d", n, noted)
	}
}
