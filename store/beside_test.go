package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/directory"
	"github.com/grantkeeper/grantkeeper/facts"
	"github.com/grantkeeper/grantkeeper/store/approvals"
	"github.com/grantkeeper/grantkeeper/store/engine"
	"github.com/grantkeeper/grantkeeper/token"
)

// long begins a change that goes on until its end is called, which gives its error.
func (h house) long(t testing.TB, do func(*Tx) error) (end func() error) {
	t.Helper()
	begun, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- h.changeMany(func(tx *Tx) error {
			err := do(tx)
			close(begun)
			<-free
			return err
		})
	}()
	<-begun
	return func() error {
		close(free)
		return <-done
	}
}

func putAda(tx *Tx) error {
	return tx.putPeople(directory.Person{Person: tx.Memory.People.Get("ada").Person})
}

// Clients refresh while a long change is under way, with a used token after the new one is
// there too; everything else waits for it, in order. Afterwards the rows say what was
// answered, and nothing is left beside the database (decision O11).
func TestRefreshesBesideALongChange(t *testing.T) {
	if !embedded() {
		return
	}
	for name, fails := range map[string]error{"done": nil, "refused": ErrConflict, "failed": errors.New("planted")} {
		t.Run(name, func(t *testing.T) {
			h := furnished(t)
			id, other, ended := h.live(t, h.answer(1)), h.live(t, h.answer(2)), h.live(t, h.answer(3))
			end := h.long(t, func(tx *Tx) error { return errors.Join(putAda(tx), fails) })
			for generation := range int64(3) {
				if v, err := h.refresh(id, generation+1); v != approval.OK || err != nil {
					t.Fatalf("refresh %d beside the change: %v %v", generation+1, v, err)
				}
			}
			if v, err := h.refresh(other, 1); v != approval.OK || err != nil {
				t.Fatalf("another's: %v %v", v, err)
			}
			if a, err := h.Check(context.Background(), id); err != nil || a.Approval.Generation != 4 {
				t.Errorf("a check beside the change: %+v %v", a.Approval, err)
			}
			if left, _ := filepath.Glob(h.path + "-refreshes*"); len(left) == 0 {
				t.Error("nothing is beside the database")
			}
			reused, revoked := make(chan approval.Verdict, 1), make(chan approval.Verdict, 1)
			go func() { v, _ := h.refresh(other, 1); reused <- v }() // was used: the approval ends
			go func() {
				_, v, _ := h.ApplyLive(context.Background(), ended, approval.End(approval.RevokedByOperator, h.Now()), Act{})
				revoked <- v
			}()
			select {
			case v := <-reused:
				t.Errorf("a used token beside the change: %v", v)
			case v := <-revoked:
				t.Errorf("an end beside the change: %v", v)
			case <-time.After(50 * time.Millisecond):
			}
			if err := end(); fails != nil && err == nil || fails == nil && err != nil {
				t.Errorf("the change: %v", err)
			}
			if v := <-reused; v != approval.Reused {
				t.Errorf("a used token after the change: %v", v)
			}
			<-revoked
			h.same(t, "after the change")
			if n := h.rows(t, `SELECT generation FROM approval WHERE id = x'`+fmt.Sprintf("%x", id[:])+`'`); n != 4 {
				t.Errorf("the row is of generation %d, want 4", n)
			}
			if v, err := h.refresh(id, 4); v != approval.OK || err != nil {
				t.Errorf("the next refresh: %v %v", v, err)
			}
			if left, _ := filepath.Glob(h.path + "-refreshes*"); len(left) > 0 {
				t.Errorf("left beside the database: %v", left)
			}
		})
	}
}

// A kill half-way through a long change leaves nothing of it, and every refresh that was
// answered; the time that they were made at, too.
func TestKilledBesideALongChange(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	id := h.live(t, h.answer(1))
	h.clock.add(time.Hour)
	end := h.long(t, func(tx *Tx) error {
		return errors.Join(putAda(tx), tx.endMember(tx.Memory.Members.Get(facts.MemberKey{Person: "ada", Organization: "nordlys"})))
	})
	for generation := range int64(2) {
		if v, err := h.refresh(id, generation+1); v != approval.OK || err != nil {
			t.Fatalf("refresh: %v %v", v, err)
		}
	}
	now := h.Now()
	again := h.left(t)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if a, err := again.Check(context.Background(), id); err != nil || a.Approval.Generation != 3 {
		t.Errorf("after the kill: %+v %v", a.Approval, err)
	}
	if again.Now().Before(now) {
		t.Errorf("after the kill it is %v, and was %v", again.Now(), now)
	}
	if v, err := again.refresh(id, 3); v != approval.OK || err != nil {
		t.Errorf("the next refresh: %v %v", v, err)
	}
	if _, err := os.Stat(again.path + "-refreshes"); !os.IsNotExist(err) {
		t.Errorf("beside the database: %v", err)
	}
	again.same(t, "after the kill")
}

// What was answered beside a long change is kept, and told of, where a start finds it without
// its file.
func TestRefreshesWithoutTheirFile(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	id := h.live(t, h.answer(1))
	end := h.long(t, putAda)
	if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
		t.Fatalf("refresh: %v %v", v, err)
	}
	path := h.leftAt(t)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + "-refreshes"); err != nil {
		t.Fatal(err)
	}
	var log logged
	s, err := Open(context.Background(), Options{Path: path, Ring: h.ring, Now: h.clock.Now, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if kept, _ := filepath.Glob(path + "-refreshes-wal.aside-*"); len(kept) != 1 || !log.has("put aside") || !log.has(kept[0]) {
		t.Errorf("%v, and the log has %s", kept, &log.text)
	} else if info, err := os.Stat(kept[0]); err != nil || info.Size() == 0 {
		t.Errorf("what is kept: %v", err)
	}
}

// Keys are replaced of what a server would start with: a refresh that a killed one had saved
// beside a long change counts, with the key that it was sealed with.
func TestReplaceLostAfterAKillBesideALongChange(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	act := Act{Actor: "operator"}
	ends, lives := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	second := h.rotated(t)
	h.clock.add(time.Hour)
	end := h.long(t, putAda)
	if v, err := h.refreshNow(lives, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	now, path := h.Now(), h.leftAt(t)
	if err := end(); err != nil {
		t.Fatal(err)
	}
	got, err := ReplaceLost(ctx, LostOptions{At: here(t, path), Keys: []*token.Key{second}, Now: h.clock.Now().Add(-time.Hour), Act: act})
	if err != nil || got.Approvals != (Fate{2, 1}) {
		t.Fatalf("%+v %v", got, err)
	}
	ring, err := token.NewRing("sv", 2, second)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(ctx, at(t, path, Options{Ring: ring, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Now().Before(now) {
		t.Errorf("it is %v, and was %v", s.Now(), now)
	}
	h.Store, h.ring = s, ring
	if !h.accepts(t, lives) || h.accepts(t, ends) {
		t.Error("the wrong one ended")
	}
	if v, err := h.refreshNow(lives, 2); v != approval.OK || err != nil {
		t.Error(v, err)
	}
}

// A proof of a client's key counts once, beside a long change as well, and after it.
func TestProofsBesideALongChange(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	id := h.boundTo(t, h.answer(1), h.proof(1, 1))
	refresh := func(generation int64, n byte) approval.Verdict {
		_, v, err := h.Refresh(context.Background(), id, "quill", generation, 1, Act{Proof: h.proof(1, n)})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := refresh(1, 5); v != approval.OK {
		t.Fatal(v)
	}
	end := h.long(t, putAda)
	got := []approval.Verdict{refresh(2, 2), refresh(3, 2), refresh(3, 1), refresh(3, 3)}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	got = append(got, refresh(4, 3), refresh(4, 4))
	want := []approval.Verdict{approval.OK, approval.Replayed, approval.Replayed, approval.OK, approval.Replayed, approval.OK}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("refresh %d: %v, want %v", i, got[i], want[i])
		}
	}
	h.same(t, "after the proofs")
}

// Where the disk takes nothing beside the database, refreshes wait as all else does.
func TestNoRoomBeside(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if err := os.Mkdir(h.path+"-refreshes", 0o700); err != nil {
		t.Fatal(err)
	}
	end, done := h.long(t, putAda), make(chan approval.Verdict, 1)
	go func() { v, _ := h.refresh(id, 1); done <- v }()
	select {
	case v := <-done:
		t.Errorf("beside the change: %v", v)
	case <-time.After(50 * time.Millisecond):
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	if v := <-done; v != approval.OK {
		t.Errorf("after the change: %v", v)
	}
	h.same(t, "after the change")
}

// What many refreshes left is brought back beside further ones, in rounds.
func TestManyBesideALongChange(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	all, _ := h.crowd(t, 700)
	end := h.long(t, putAda)
	for i, id := range all {
		if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
			t.Fatalf("refresh %d: %v %v", i, v, err)
		}
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	for i, id := range all {
		if v, err := h.refresh(id, 2); v != approval.OK || err != nil {
			t.Fatalf("refresh %d after: %v %v", i, v, err)
		}
	}
	// The last of them may be beside the database still: they are brought back when nobody comes.
	until(t, "every row of generation 3", func() bool {
		return h.rows(t, `SELECT COUNT(*) FROM approval WHERE generation = 3`) == len(all)
	})
	h.same(t, "after them")
	until(t, "nothing left beside", func() bool {
		left, _ := filepath.Glob(h.path + "-refreshes*")
		return len(left) == 0
	})
}

// What a long change ends, as rules in an import do, has ended, whether the client refreshed
// before it was looked at or after; nothing of the refresh brings it back (decision O11).
func TestALongChangeEndsBesideRefreshes(t *testing.T) {
	if !embedded() {
		return
	}
	h := furnished(t)
	before, after := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	refresh := func(id approval.ID) {
		t.Helper()
		if v, err := h.refresh(id, 1); v != approval.OK || err != nil {
			t.Fatalf("refresh beside the change: %v %v", v, err)
		}
	}
	begun, ended, free, done := make(chan struct{}), make(chan int, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- h.changeMany(func(tx *Tx) error {
			if err := putAda(tx); err != nil {
				return err
			}
			close(begun)
			<-free
			n, err := approvals.MoveRows(tx.Tx, []approval.ID{before, after}, approval.End(approval.AppBlocked, tx.Env.Now()), Act{Actor: "system"})
			ended <- n
			<-free
			return err
		})
	}()
	<-begun
	refresh(before)
	free <- struct{}{}
	if n := <-ended; n != 2 {
		t.Errorf("%d of 2 ended", n)
	}
	refresh(after) // nobody else knows yet
	free <- struct{}{}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	over := func(s *Store) {
		t.Helper()
		for _, id := range []approval.ID{before, after} {
			if a, err := s.Check(context.Background(), id); !errors.Is(err, ErrNotFound) && (err != nil || a.Approval.Phase != approval.Ended) {
				t.Errorf("%+v %v", a.Approval, err)
			}
			if n := h.rows(t, `SELECT COUNT(*) FROM approval WHERE phase = `+engine.SQLEnded+` AND reason = '`+string(approval.AppBlocked)+`'`); n != 2 {
				t.Errorf("%d of 2 rows have ended", n)
			}
		}
	}
	over(h.Store)
	for _, id := range []approval.ID{before, after} {
		if v, err := h.refresh(id, 2); v == approval.OK {
			t.Errorf("a refresh afterwards: %v %v", v, err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	h.Store = open(t, h.path, h.clock).Store
	over(h.Store)
}
