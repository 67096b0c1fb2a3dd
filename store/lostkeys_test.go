package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grantkeeper/grantkeeper/approval"
	"github.com/grantkeeper/grantkeeper/journal"
	"github.com/grantkeeper/grantkeeper/store/pgtest"
	"github.com/grantkeeper/grantkeeper/token"
)

// A database whose key file is lost goes on with another key: what the lost one sealed ends,
// and who is signed in; all else is as it was (decision T17).
func TestReplaceLostKeys(t *testing.T) {
	h := furnished(t)
	id := h.live(t, h.answer(1))
	if _, _, err := h.Approve(ctx, h.answer(2), Act{}); err != nil { // a code that waits
		t.Fatal(err)
	}
	h.signIn(t, "ada-1", "ada")
	if err := h.AddFactors(ctx, "ada", "", []Factor{
		{ID: "app", Kind: FactorOneTime, Name: "phone", Secret: h.ring.SealPage("secret of one-time codes ada", []byte("secret"))},
		{ID: "code", Kind: FactorRecovery, Secret: "hash"},
	}, Act{}); err != nil {
		t.Fatal(err)
	}
	h.journaled(t, 5)
	h.clock.add(10 * time.Minute)
	h.seal(t)
	anchor := h.whole(t).Newest
	o := LostOptions{At: here(t, h.path), DryRun: true, Now: h.clock.Now(), Act: Act{Actor: "operator:root", Reason: "disk failed"}}
	if _, err := ReplaceLost(ctx, o); !errors.Is(err, ErrInUse) {
		t.Errorf("while a server works on it: %v", err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	o.Keys = []*token.Key{token.NewKey(1, [32]byte{9})}
	if _, err := ReplaceLost(ctx, o); !errors.Is(err, ErrOtherKey) {
		t.Errorf("another key of the number: %v", err)
	}
	o.Keys = h.ring.Keys()
	if _, err := ReplaceLost(ctx, o); !errors.Is(err, ErrNothingLost) {
		t.Errorf("the right one: %v", err)
	}
	o.Keys = nil
	want := Replaced{Lost: []int{1}, Approvals: Fate{2, 0}, Sessions: Fate{1, 0}, OneTime: 1}
	same := func(got Replaced) bool {
		return len(got.Lost) == 1 && got.Lost[0] == 1 && got.Approvals == want.Approvals && got.Sessions == want.Sessions && got.Resets == want.Resets && got.OneTime == 1
	}
	if got, err := ReplaceLost(ctx, o); err != nil || !same(got) || len(got.New) > 0 {
		t.Errorf("dry run: %+v %v", got, err)
	}
	o.DryRun = false
	o.Make = func(int) (*token.Key, error) { return nil, os.ErrPermission }
	if _, err := ReplaceLost(ctx, o); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a key file that cannot be written: %v", err)
	}
	if before := open(t, h.path, h.clock); !before.accepts(t, id) { // nothing of all this has changed anything
		t.Error("the approval has ended")
	} else if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	var made *token.Key
	o.Make = func(number int) (*token.Key, error) {
		made = token.NewKey(number, [32]byte{7})
		return made, nil
	}
	if got, err := ReplaceLost(ctx, o); err != nil || !same(got) || len(got.New) != 1 || got.New[0] != 2 {
		t.Fatalf("%+v %v", got, err)
	}
	if _, err := Open(ctx, at(t, h.path, Options{Ring: h.ring, Now: h.clock.Now})); !errors.Is(err, ErrKeys) {
		t.Errorf("the old key comes back: %v", err)
	}
	ring, err := token.NewRing("sv", made.Number, made)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(ctx, at(t, h.path, Options{Ring: ring, Now: h.clock.Now}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h.Store, h.ring = s, ring
	if got := h.keysOf(t); got != "1r:0 2s:0" {
		t.Errorf("keys %s", got)
	}
	a, err := h.Approval(ctx, id)
	if err != nil || a.Phase != approval.Ended || a.Reason != approval.KeyRetired || embedded() && a.EndedAt != h.clock.Now().Unix() { // a server has its own time
		t.Errorf("%+v, %v", a, err)
	}
	h.is(t, "ada-1", "", "")
	if all, err := h.Factors(ctx, "ada"); err != nil || len(all) != 2 { // a password alone lets nobody in
		t.Errorf("factors %+v, %v", all, err)
	}
	if _, err := h.APIKey(ctx, "key-of-ada-in-nordlys"); err != nil {
		t.Errorf("API key: %v", err)
	}
	events := h.events(t, journal.KeyChanged)
	if e := events[len(events)-1]; e.Actor != "operator:root" || e.Reason != "disk failed" || !strings.HasPrefix(e.Detail, "lost: key 1; in use: key 2; approvals ended: 2, sessions: 1") {
		t.Errorf("%+v", events)
	}
	h.clock.add(10 * time.Minute)
	h.seal(t)
	h.whole(t, anchor)
	if v, err := h.refresh(h.live(t, h.answer(3)), 1); v != approval.OK || err != nil {
		t.Errorf("connected again: %v %v", v, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	o.Keys, o.DryRun = ring.Keys(), true
	if _, err := ReplaceLost(ctx, o); !errors.Is(err, ErrNothingLost) {
		t.Errorf("once more: %v", err)
	}
}

// rotated is a second key, which seals from now on.
func (h house) rotated(t *testing.T) *token.Key {
	t.Helper()
	second := token.NewKey(2, [32]byte{2})
	if _, err := h.AddKeys(ctx, []*token.Key{second}, Act{Actor: "operator"}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.RotateKeys(ctx, Act{Actor: "operator"}, nil); err != nil {
		t.Fatal(err)
	}
	return second
}

// Where one of several keys is lost, only what it sealed ends.
func TestReplaceOneLostKey(t *testing.T) {
	h := furnished(t)
	act := Act{Actor: "operator"}
	ends, lives := h.live(t, h.answer(1)), h.live(t, h.answer(2))
	second := h.rotated(t)
	if v, err := h.refreshNow(lives, 1); v != approval.OK || err != nil {
		t.Fatal(v, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := ReplaceLost(ctx, LostOptions{At: here(t, h.path), Keys: []*token.Key{second}, Now: h.clock.Now().Add(-time.Hour), Act: act})
	if err != nil || len(got.Lost) != 1 || got.Lost[0] != 1 || len(got.New) != 1 || got.New[0] != 2 || got.Approvals != (Fate{2, 1}) {
		t.Fatalf("%+v %v", got, err)
	}
	ring, err := token.NewRing("sv", 2, second)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(ctx, at(t, h.path, Options{Ring: ring, Now: h.clock.Now}))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	h.Store, h.ring = s, ring
	if !h.accepts(t, lives) || h.accepts(t, ends) {
		t.Error("the wrong one ended")
	}
	if v, err := h.refreshNow(lives, 2); v != approval.OK || err != nil {
		t.Error(v, err)
	}
}

// A file of retired keys alone opens nothing, and is nothing to go on with.
func TestReplaceLostOfRetiredKeys(t *testing.T) {
	h := furnished(t)
	act := Act{Actor: "operator"}
	first := h.ring.Keys()
	if _, err := h.AddKeys(ctx, []*token.Key{token.NewKey(2, [32]byte{2})}, act); err != nil {
		t.Fatal(err)
	}
	if _, err := h.RotateKeys(ctx, act, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := h.RetireKey(ctx, 1, act); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	o := LostOptions{At: here(t, h.path), Keys: first, Now: h.clock.Now(), Act: act, Make: func(int) (*token.Key, error) {
		t.Error("a key was made beside a file that is there")
		return nil, os.ErrExist
	}}
	for _, o.DryRun = range []bool{true, false} {
		if _, err := ReplaceLost(ctx, o); !errors.Is(err, ErrRetired) {
			t.Errorf("got %v", err)
		}
	}
}

// Of nothing, and of what is no database, nothing is made.
func TestReplaceLostOfNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.db")
	if _, err := ReplaceLost(ctx, LostOptions{At: here(t, path), DryRun: true}); embedded() && !errors.Is(err, os.ErrNotExist) || !embedded() && !errors.Is(err, ErrDatabase) {
		t.Errorf("got %v", err)
	}
	if left, err := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("%q are there, %v", left, err)
	}
}

// What newer releases alone work on is theirs, also where no server works on it.
func TestReplaceLostOfANewerSchema(t *testing.T) {
	h := furnished(t)
	h.sql(t, `UPDATE meta SET value = '99' WHERE name IN ('schema', 'schema_oldest')`)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := ReplaceLost(ctx, LostOptions{At: here(t, h.path), DryRun: true, Now: h.clock.Now()}); !errors.Is(err, ErrSchema) {
		t.Errorf("%+v, %v", got, err)
	}
}

// With a full disk nothing is changed, and the error says so.
func TestReplaceLostOnAFullDisk(t *testing.T) {
	if !embedded() { // a server's disk is its own; every change of it is one transaction
		return
	}
	disk, err := pgtest.NewDisk(8 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := disk.Unmount(); err != nil {
			t.Error(err)
		}
	})
	h := open(t, filepath.Join(disk.Dir(), "grantkeeper.db"), &machine{now: time.Unix(1_800_000_000, 0)})
	h.furnish(t)
	id := h.live(t, h.answer(1))
	if err := errors.Join(h.Close(), disk.Fill()); err != nil {
		t.Fatal(err)
	}
	o := LostOptions{At: here(t, h.path), Now: h.clock.Now(), Make: func(n int) (*token.Key, error) { return token.NewKey(n, [32]byte{7}), nil }}
	if got, err := ReplaceLost(ctx, o); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := disk.Free(); err != nil {
		t.Fatal(err)
	}
	if again := open(t, h.path, h.clock); !again.accepts(t, id) {
		t.Error("the approval has ended")
	} else if err := again.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := ReplaceLost(ctx, o); err != nil || got.Approvals != (Fate{1, 0}) {
		t.Errorf("with room again: %+v, %v", got, err)
	}
}
