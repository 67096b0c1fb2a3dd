package store

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/client"
	"github.com/grantkeeper/grantkeeper/grantset"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/store/sqlite"
	"github.com/grantkeeper/grantkeeper/token"
)

// hold keeps the writer busy until release is called. What is asked for
// meanwhile, with ask, waits in this order and makes the next batch.
func (h house) hold(t testing.TB) (ask func(func()), release func()) {
	t.Helper()
	started, free, answered := make(chan struct{}), make(chan struct{}), make(chan struct{}, 100)
	go h.change(func(*Tx) error { close(started); <-free; return nil })
	<-started
	asked := 0
	ask = func(do func()) {
		t.Helper()
		asked++
		go func() { do(); answered <- struct{}{} }()
		for len(h.embedded().Writer.Queue) < asked {
			time.Sleep(time.Millisecond)
		}
	}
	return ask, func() {
		close(free)
		for range asked {
			<-answered
		}
	}
}

// Two moves of one approval that come at the same time are made one after the
// other, also in one commit; another's is not touched by that.
func TestMovesInOneBatch(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	id, other := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	ask, release := h.hold(t)
	var verdicts [4]approval.Verdict
	for i, do := range []func() (approval.Verdict, error){
		func() (approval.Verdict, error) { return h.refresh(id, 1) },
		func() (approval.Verdict, error) { return h.refresh(other, 1) },
		func() (approval.Verdict, error) { return h.refresh(id, 2) },
		func() (approval.Verdict, error) { return h.refresh(other, 1) },
	} {
		ask(func() {
			v, err := do()
			if err != nil {
				t.Error(i, err)
			}
			verdicts[i] = v
		})
	}
	release()
	if want := [4]approval.Verdict{approval.OK, approval.OK, approval.OK, approval.Reused}; verdicts != want {
		t.Errorf("got %v, want %v", verdicts, want)
	}
	h.same(t, "after the batch")
}

// A change of a fact stands alone: what comes after it sees it, what comes
// before does not.
func TestFactsStandAlone(t *testing.T) {
	if !embedded() {
		return
	}
	ctx := context.Background()
	for _, tt := range []struct {
		name          string
		first, second func(h house, id approval.ID) error
		want          error
	}{
		{"removal, then the admin right", func(h house, _ approval.ID) error { return h.RemoveMember(ctx, "nordlys", "ada", Act{}) },
			func(h house, _ approval.ID) error { return h.SetAdmin(ctx, "nordlys", "ada", true, Act{}) }, ErrNotFound},
		{"removal, then approving", func(h house, _ approval.ID) error { return h.RemoveMember(ctx, "nordlys", "ada", Act{}) },
			func(h house, _ approval.ID) error { _, _, err := h.Approve(ctx, h.answer(2), Act{}); return err }, ErrNotAllowed},
		{"deactivation, then signing in", func(h house, _ approval.ID) error { return h.SetActive(ctx, "ada", false, Act{}) },
			func(h house, _ approval.ID) error { return h.AddSession(ctx, "value", "ada", Act{}) }, ErrNotFound},
		{"deactivation, then a refresh", func(h house, _ approval.ID) error { return h.SetActive(ctx, "ada", false, Act{}) },
			func(h house, id approval.ID) error {
				if v, err := h.refresh(id, 1); err != nil || v != approval.Over {
					return fmt.Errorf("refresh: %v, %w", v, err)
				}
				return nil
			}, nil},
		{"a refresh, then deactivation", func(h house, id approval.ID) error {
			if v, err := h.refresh(id, 1); err != nil || v != approval.OK {
				return fmt.Errorf("refresh: %v, %w", v, err)
			}
			return nil
		}, func(h house, _ approval.ID) error { return h.SetActive(ctx, "ada", false, Act{}) }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := furnished(t)
			id := h.live(t, h.answer(1))
			ask, release := h.hold(t)
			ask(func() { h.EndSession(ctx, "none") }) // which others may share a batch with
			ask(func() {
				if err := tt.first(h, id); err != nil {
					t.Error("first:", err)
				}
			})
			ask(func() {
				if err := tt.second(h, id); !errors.Is(err, tt.want) {
					t.Errorf("second: got %v, want %v", err, tt.want)
				}
			})
			release()
			if h.accepts(t, id) {
				t.Error("accepted afterwards")
			}
			h.same(t, "after the two")
		})
	}
}

// A refused change leaves the others of its batch alone, whatever the refusal.
func TestRefusalInABatch(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	add := func(id string) error {
		return h.AddClient(ctx, client.Client{ID: id, RedirectURIs: []string{redirect}, IssuedAt: h.Now().Unix()}, Origin{}, Act{})
	}
	ask, release := h.hold(t)
	for _, one := range []struct {
		do   func() error
		want error
	}{
		{func() error { return add("first") }, nil},
		{func() error { return add("quill") }, ErrConflict},
		{func() error { return h.SetPassword(ctx, "nobody", "x", Act{}) }, ErrNotFound},
		{func() error { _, err := h.refresh(approval.ID{7}, 1); return err }, ErrNotFound},
		{func() error { _, err := h.refresh(id, 1); return err }, nil},
		{func() error { return add("last") }, nil},
	} {
		ask(func() {
			if err := one.do(); !errors.Is(err, one.want) || errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v, want %v", err, one.want)
			}
		})
	}
	release()
	for _, id := range []string{"first", "last"} {
		if _, err := h.Client(ctx, id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	h.same(t, "after the batch")
}

// What one operation was told is not told again to the next that takes its
// place.
func TestOperationsAreUsedAgain(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	for n := int64(1); n < 40; n++ {
		if _, err := h.refresh(approval.ID{7}, 1); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if v, err := h.refresh(id, n); v != approval.OK || err != nil {
			t.Fatal(v, err)
		}
		if _, v, err := h.Refresh(context.Background(), id, "other", n, 1, Act{}); v != approval.WrongClient || err != nil {
			t.Fatal(v, err)
		}
		h.same(t, "after a refusal")
	}
}

// The time of the end is kept, even when nothing was written since it passed.
func TestCloseKeepsTheTime(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	if err := h.Ready(context.Background()); err != nil {
		t.Fatal(err)
	}
	h.clock.add(time.Hour)
	end := h.Now()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h.clock.add(-time.Hour)
	if got := open(t, h.path, h.clock).Now(); got.Before(end) {
		t.Errorf("it is %v, and was %v", got, end)
	}
}

// Close under load: everybody gets an answer, and what was answered stands.
func TestCloseWhileOthersWrite(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	last := make(chan [2]int64, 8)
	ids := map[int64]approval.ID{}
	for n := range int64(8) {
		ids[n] = h.live(t, h.answer(byte(n+1)))
	}
	begun := make(chan struct{}, 8)
	for n := range int64(8) {
		go func() {
			for g := int64(1); ; g++ {
				v, err := h.refresh(ids[n], g)
				if g == 10 {
					begun <- struct{}{}
				}
				if err != nil {
					if !errors.Is(err, ErrUnavailable) {
						t.Error(v, err)
					}
					last <- [2]int64{n, g}
					return
				}
			}
		}()
	}
	for range 8 {
		<-begun
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, h.path, h.clock)
	for range 8 {
		l := <-last
		if a, err := again.Check(ctx, ids[l[0]]); err != nil || a.Approval.Generation != l[1] {
			t.Errorf("generation %d, %v; want %d", a.Approval.Generation, err, l[1])
		}
	}
}

// A writer that hangs is not ready, and whoever asks does not hang with it.
func TestNotReadyWhileTheWriterHangs(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	_, release := h.hold(t)
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := h.Ready(ctx); !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want unavailable", err)
	}
}

// left gives what a crash at this moment leaves, opened with the clock where
// it was at first.
func (h house) left(t testing.TB) house {
	t.Helper()
	return open(t, h.leftAt(t), &machine{now: time.Unix(1_800_000_000, 0)})
}

// leftAt is left, and opens nothing.
func (h house) leftAt(t testing.TB) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "left.db")
	all, err := filepath.Glob(h.path + "*")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if suffix := strings.TrimPrefix(name, h.path); suffix != "-shm" && suffix != ".lock" {
			copyFile(t, name, to+suffix)
		}
	}
	return to
}

// The time goes into the database with every commit, so a crash loses none of
// it, even when a commit in between has failed (decision T12).
func TestCrashLosesNoTime(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	h.withFaults(t)
	id := h.live(t, h.answer(1))
	h.clock.add(time.Hour)
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	if got := h.left(t).Now(); got.Before(h.Now()) {
		t.Errorf("after a crash it is %v, and was %v", got, h.Now())
	}
	h.clock.add(time.Hour)
	lift := h.plant(t, atCommit, "UPDATE", "meta")
	if _, err := h.refresh(id, 2); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("got %v, want unavailable", err)
	}
	lift()
	if v, err := h.refresh(id, 2); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	if got := h.left(t).Now(); got.Before(h.Now()) {
		t.Errorf("after a failed commit and a crash it is %v, and was %v", got, h.Now())
	}
}

// A refusal that changes nothing writes nothing: a stranger's guesses cost no
// commit.
func TestRefusedMovesWriteNothing(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	handle, issued, err := h.Approve(context.Background(), h.answer(1), Act{})
	if err != nil {
		t.Fatal(err)
	}
	id := approval.ID(handle.ID())
	changes := func() (n int) {
		t.Helper()
		if err := h.embedded().Writer.Conn.QueryRowContext(context.Background(), `SELECT total_changes()`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := changes()
	for want, move := range map[approval.Verdict]approval.Move{
		approval.WrongVerifier: approval.Exchange("quill", issuer, redirect, "x", issued, 1, h.Now()),
		approval.WrongClient:   approval.Exchange("other", issuer, redirect, verifier, issued, 1, h.Now()),
		approval.Expired:       approval.Exchange("quill", issuer, redirect, verifier, issued-1, 1, h.Now()),
		approval.Over:          approval.Refresh("quill", 0, 1, h.Now()),
	} {
		if _, v, err := h.Apply(context.Background(), id, move, Act{}); v != want || err != nil {
			t.Errorf("got %v, %v; want %v", v, err, want)
		}
	}
	if after := changes(); after != before {
		t.Errorf("%d rows were written", after-before)
	}
}

// What a row says is what counts, also for a move that would end it.
func TestRowKnowsBetterForEnds(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	h.sql(t, `UPDATE approval SET generation = 7`)
	if v, err := h.refresh(id, 7); v != approval.OK || err != nil { // memory would call it lost
		t.Errorf("got %v, %v; want ok, by the row", v, err)
	}
}

// A use that finds the queue full is noted by a later one, within the hour.
func TestUseWhenTheQueueIsFull(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	id := h.live(t, h.answer(1))
	_, release := h.hold(t)
	for len(h.embedded().Writer.Notes) < cap(h.embedded().Writer.Notes) {
		h.Record(Event{Kind: "signin_failed"})
	}
	h.Used(id)
	release()
	for len(h.embedded().Writer.Notes) > 0 {
		if err := h.Ready(ctx); err != nil {
			t.Fatal(err)
		}
	}
	h.Used(id)
	if err := h.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if row, err := h.Approval(ctx, id); err != nil || row.LastUsed != h.Now().Unix() {
		t.Errorf("last use %d, %v", row.LastUsed, err)
	}
}

// A use that shares a batch with a change that fails is written all the same: an
// approval that nobody is seen to use may end (decision P11).
func TestUseBesideAFailure(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	h.withFaults(t)
	used := h.live(t, h.answer(1))
	for kind, fault := range faults {
		h.clock.add(engine.UseGrain)
		lift := h.plant(t, kind, "INSERT", "approval")
		ask, release := h.hold(t)
		ask(func() {
			if _, _, err := h.Approve(ctx, h.answer(2), Act{}); err == nil {
				t.Error(fault, "did not fail")
			}
		})
		h.Used(used)
		h.Record(Event{Kind: "signin_failed", Detail: fault})
		release()
		lift()
		h.same(t, fault)
		if row, err := h.Approval(ctx, used); err != nil || row.LastUsed != h.Now().Unix() {
			t.Errorf("%s: last use %d, %v", fault, row.LastUsed, err)
		}
		h = h.reopen(t)
		if row, err := h.Approval(ctx, used); err != nil || row.LastUsed != h.Now().Unix() {
			t.Errorf("%s: last use after a restart %d, %v", fault, row.LastUsed, err)
		}
	}
	if list, _, err := h.Events(ctx, EventFilter{Kind: "signin_failed"}); err != nil || len(list) != len(faults) {
		t.Errorf("%d entries, %v; want %d", len(list), err, len(faults))
	}
}

// A use that cannot be written is not remembered either, and is noted a minute
// later.
func TestUseThatCannotBeWritten(t *testing.T) {
	if !embedded() {
		return
	}
	ctx, h := context.Background(), furnished(t)
	h.withFaults(t)
	id := h.live(t, h.answer(1))
	lift := h.plant(t, cannot, "UPDATE", "approval")
	h.Used(id)
	for range 2 { // the first may fail with the note, which is tried once more then
		h.Ready(ctx)
	}
	lift()
	h.same(t, "after it failed")
	for _, step := range []struct {
		wait  time.Duration
		noted bool
	}{{0, false}, {sqlite.NoteAgainAfter - time.Second, false}, {time.Second, true}} {
		h.clock.add(step.wait)
		h.Used(id)
		h.same(t, "later")
		if row, err := h.Approval(ctx, id); err != nil || (row.LastUsed == h.Now().Unix()) != step.noted {
			t.Errorf("last use %d, %v; want it noted: %v", row.LastUsed, err, step.noted)
		}
	}
}

// What the latest answer replaces ends with its exchange, and nothing else:
// not what waits for its exchange, not another client's or organization's, and
// nothing when the box was unticked, the approval ended, or there is nothing
// left to end (decision P1).
func TestReplaceNothingElse(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	h.register(t, "bridge")
	earlier, ended := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	gone := h.live(t, h.answer(3))
	bridge, fjell := h.answer(4), h.answer(5)
	bridge.Client = "bridge"
	fjell.Organization, fjell.Grant = "fjell", grantset.Set{Kind: grantset.Everything}
	others := []approval.ID{h.live(t, bridge), h.live(t, fjell)}
	waiting, issued, err := h.Approve(ctx, h.answer(6), Act{})
	if err != nil {
		t.Fatal(err)
	}
	approve := func(nonce byte, replace bool) (approval.ID, int64) {
		t.Helper()
		a := h.answer(nonce)
		a.Replace = replace
		handle, issued, err := h.Approve(ctx, a, Act{})
		if err != nil {
			t.Fatal(err)
		}
		return approval.ID(handle.ID()), issued
	}
	// Ended instead of exchanged, it replaces nothing.
	revoked, _ := approve(7, true)
	if _, v, err := h.ApplyLive(ctx, revoked, approval.Revoke("quill", h.Now()), Act{}); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	// Answered again without the box, it replaces nothing.
	unticked, at := approve(8, true)
	approve(8, false)
	if v, err := h.exchange(unticked, at); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	for _, id := range append(others, earlier, ended, gone, unticked) {
		if !h.accepts(t, id) {
			t.Fatal("ended too early")
		}
	}
	// Answered again with it, it does.
	approve(9, false)
	replacing, at := approve(9, true)
	if err := h.EndApproval(ctx, ended, approval.RevokedByAdmin, Act{}); err != nil {
		t.Fatal(err)
	}
	bytes := `x'%s'`
	if !embedded() {
		bytes = `'\x%s'`
	}
	h.sql(t, fmt.Sprintf(`DELETE FROM approval WHERE id = `+bytes, gone))
	if v, err := h.exchange(replacing, at); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	if h.accepts(t, earlier) || h.accepts(t, unticked) || !h.accepts(t, others[0]) || !h.accepts(t, others[1]) {
		t.Error("not those ended that were to")
	}
	if row, err := h.Approval(ctx, ended); err != nil || row.Reason != approval.RevokedByAdmin {
		t.Errorf("ended before: %q, %v", row.Reason, err)
	}
	if v, err := h.exchange(approval.ID(waiting.ID()), issued); v != approval.OK || err != nil {
		t.Errorf("the one that waits: %v, %v", v, err)
	}
}

// Answering a page again: what is journaled, and that all of the latest answer
// counts.
func TestLatestAnswer(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	approve := func(a Answer) approval.ID {
		t.Helper()
		handle, _, err := h.Approve(ctx, a, Act{})
		if err != nil {
			t.Fatal(err)
		}
		return approval.ID(handle.ID())
	}
	grants := func() (n int) {
		t.Helper()
		events, _, err := h.Events(ctx, EventFilter{Kind: "approval_granted"})
		if err != nil {
			t.Fatal(err)
		}
		return len(events)
	}
	a := h.answer(1)
	for _, tt := range []struct {
		name   string
		change func()
		events int
	}{
		{"first", func() {}, 1},
		{"a double click", func() {}, 1},
		{"personal items", func() { a.Grant.Personal = true }, 2},
		{"another organization", func() { a.Organization = "fjell" }, 3},
		{"no roles", func() { a.Grant.Picks = nil }, 4},
		{"everything", func() { a.Grant = grantset.Set{Kind: grantset.Everything} }, 5},
	} {
		tt.change()
		id := approve(a)
		row, err := h.Approval(ctx, id)
		if err != nil || !row.Grant.Equal(a.Grant) || row.Organization != a.Organization || grants() != tt.events {
			t.Errorf("%s: %+v in %s, %d events, %v", tt.name, row.Grant, row.Organization, grants(), err)
		}
		h.same(t, tt.name)
	}
	a.Person = "tor"
	a.Organization = "nordlys"
	if _, _, err := h.Approve(ctx, a, Act{}); !errors.Is(err, ErrConflict) {
		t.Errorf("somebody else's page: %v, want a conflict", err)
	}
	if err := h.Cancel(ctx, Cancelled{h.page(1), "quill", "tor"}, Act{}); err != nil {
		t.Error(err)
	}
	if row, err := h.Approval(ctx, approval.ID(h.page(1)(0).ID())); err != nil || row.Phase != approval.CodeIssued {
		t.Errorf("somebody else has cancelled it: %+v, %v", row.State, err)
	}
}

// An approval whose fact was lost before any row said so is not the page's any
// more: the same page makes another, with another code (decision P10).
func TestPageOfALostApproval(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	first, issued, err := h.Approve(ctx, h.answer(1), Act{})
	if err != nil {
		t.Fatal(err)
	}
	h.withFaults(t)
	lift := h.plant(t, cannot, "UPDATE", "approval")
	for _, on := range []bool{false, true} {
		if err := h.SetActive(ctx, "ada", on, Act{}); err != nil {
			t.Fatal(err)
		}
	}
	lift()
	second, again, err := h.Approve(ctx, h.answer(1), Act{})
	if err != nil || first == second {
		t.Fatalf("the same approval: %v, %v", first == second, err)
	}
	if v, err := h.exchange(approval.ID(first.ID()), issued); v != approval.Over || err != nil {
		t.Errorf("the first code: %v, %v; want over", v, err)
	}
	if v, err := h.exchange(approval.ID(second.ID()), again); v != approval.OK || err != nil {
		t.Errorf("the second code: %v, %v", v, err)
	}
	if swept, err := h.Sweep(ctx); err != nil || swept.Ended != 0 {
		t.Errorf("swept %+v, %v", swept, err)
	}
}

// Two presses of Approve on one page at once are one approval with one code.
func TestApprovePressedTwiceAtOnce(t *testing.T) {
	ctx, h := context.Background(), furnished(t)
	type told struct {
		handle token.Handle
		issued int64
	}
	all := make(chan told, 16)
	for n := range 16 {
		a := h.answer(1)
		a.Grant.Personal = n%2 == 0
		go func() {
			handle, issued, err := h.Approve(ctx, a, Act{})
			if err != nil {
				t.Error(err)
			}
			all <- told{handle, issued}
		}()
	}
	first := <-all
	for range 15 {
		if one := <-all; one != first {
			t.Error("another approval or code")
		}
	}
	if rows, _, err := h.Approvals(ctx, ApprovalFilter{}); err != nil || len(rows) != 1 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	h.same(t, "afterwards")
}
